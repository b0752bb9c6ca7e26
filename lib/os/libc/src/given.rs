//! The descriptors that came with the program, and those that the programs it starts get.

use alloc::vec::Vec;
use core::ffi::c_int;

use runtime::fd;

use crate::sync::Shared;
use crate::{descriptor, own};

/// The descriptors that came with the program.
pub static GIVEN: Shared<Vec<usize>> = Shared::new(Vec::new());

/// Records the descriptors that came with the program. Must be called before any other is made.
pub fn adopt() {
    let numbers = fd::open_numbers();
    GIVEN.with(|given| *given = numbers);
}

/// Whether the descriptor is a connection that came with the program. It is no socket before the
/// program calls a function of sockets on it, but ends like one, and shows itself as one: most
/// often another program has made it as the standard stream of this one.
pub fn is_connection(number: c_int) -> bool {
    let Ok(index) = usize::try_from(number) else {
        return false;
    };
    let is_given = !descriptor::is_ours(index) && GIVEN.with(|given| given.contains(&index));
    is_given && !descriptor::is_socket(number) && descriptor::is_scif_file(number).unwrap_or(false)
}

/// All descriptors that a new program inherits: those that C functions made and those that came
/// with this program. Not those that libraries keep for themselves, nor counters and sets, which
/// mean nothing without this program.
pub fn inherited() -> Vec<usize> {
    let given = GIVEN.with(|given| given.clone());
    let mut numbers = fd::open_numbers();
    numbers.retain(|number| {
        descriptor::is_inherited(*number, given.contains(number)) && !own::is_own(*number as c_int)
    });
    numbers
}
