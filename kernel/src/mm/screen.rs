//! The kernel's map of the screen's memory.

use kernel_core::area::Cache;

use super::{PAGE_SIZE, paging};

/// Its address: one top-level entry.
const START: usize = 0xFFFF_FE80_0000_0000;

/// Maps the screen so that stores to it are gathered. Returns its kernel address, or `None`
/// without memory. Called once, before the first address space, because address spaces copy the
/// top-level entry.
pub fn map(phys: usize, bytes: usize) -> Option<usize> {
    let first = phys & !(PAGE_SIZE - 1);
    let end = phys.checked_add(bytes)?.next_multiple_of(PAGE_SIZE);
    for at in (first..end).step_by(PAGE_SIZE) {
        paging::map_device_page(START + (at - first), at, Cache::WriteCombining)?;
    }
    Some(START + (phys - first))
}
