//! Pinning memory where it is: the program's side.
//!
//! A program that registers memory keeps its pages; the SCIF daemon borrows them. The daemon finds
//! them through the descriptor of the program's address space, which the program sends over a
//! memory handle (`scif_abi::call::SEND_SPACE`) and which the daemon keeps no longer than it looks
//! for the pages. What was pinned stays the same pages until the last window on them has gone,
//! whatever the program maps at their addresses meanwhile.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

use libredox::Fd;
use scif_abi::call::{MemoryCall, PinRecord, SEND_SPACE};
use scif_abi::codec::Operation;
use scif_abi::flags::Protection;
use syscall::data::GrantFlags;
use syscall::error::Result;
use syscall::flag::CallFlags;

use crate::mappings::{Mapping, check, own_mappings, own_space, parts};
use crate::range::Range;
use hal::mem::PAGE;

/// Pinned pages. Dropping the value releases them; windows on them keep them.
pub struct Pin {
    /// The memory handle.
    file: Fd,
    token: u64,
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:#x})", self.token)
    }
}

impl Pin {
    /// Pins the pages of `range` (whole pages) through a memory handle that `open` opens.
    /// `protection` is what windows on them may allow.
    ///
    /// # Errors
    /// `EINVAL` for incomplete or no pages; `EFAULT` when a page is not mapped, does not allow the
    /// program itself what `protection` says, or is no ordinary memory; `EAGAIN` at a limit of the
    /// user; `ENOMEM`; `EPERM` for [`PinRecord::UNCHARGED`] without being root; those of `open`.
    pub fn new(
        open: impl FnOnce() -> Result<Fd>,
        range: Range<'_>,
        protection: Protection,
        flags: u32,
    ) -> Result<Self> {
        range.check_pages()?;
        let mappings = own_mappings()?;
        check(&mappings, range.address(), range.bytes(), protection)?;
        touch(&mappings, range.address(), range.bytes());
        let record = PinRecord {
            address: (range.address() as u64).into(),
            length: (range.bytes() as u64).into(),
            protection: protection.bits().into(),
            flags: flags.into(),
        };
        let file = open()?;
        // A fresh descriptor: the daemon lists the mappings too.
        let token = pin(&file, own_space()?, record)?;
        Ok(Self { file, token })
    }

    /// The number of the pages for `register` and the cached transfers of the daemon.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The memory handle.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }
}

/// Asks the daemon behind the memory handle `file` to pin pages of `space`. Returns their token.
///
/// # Errors
/// Those of the daemon.
pub fn pin(file: &Fd, space: Fd, record: PinRecord) -> Result<u64> {
    let sent = space.into_raw();
    if let Err(error) = file.call_wo(&sent.to_ne_bytes(), CallFlags::FD, &[SEND_SPACE]) {
        // Whether the descriptor is still there depends on how far the call came.
        let _ = libredox::call::close(sent);
        return Err(error.into());
    }
    let call = MemoryCall::Pin { record };
    let [first, second] = call.words();
    let mut payload = [0; size_of::<PinRecord>()];
    payload.copy_from_slice(call.payload());
    let metadata = [call.number(), first, second];
    let token = file.call_rw(&mut payload, CallFlags::empty(), &metadata)?;
    Ok(token as u64)
}

/// Stores to every writable page of a range, without changing it, and reads the others: a page
/// that is still shared with another program, or not there yet, becomes this program's own before
/// anybody borrows it.
fn touch(mappings: &[Mapping], address: usize, length: usize) {
    for (start, end, flags) in parts(mappings, address, length) {
        for page in (start..end).step_by(PAGE) {
            if flags.contains(GrantFlags::GRANT_WRITE) {
                // SAFETY: the page is mapped and writable, and adding nothing changes nothing,
                // also while others use the byte.
                unsafe { AtomicU8::from_ptr(page as *mut u8) }.fetch_add(0, Ordering::Relaxed);
            } else if flags.contains(GrantFlags::GRANT_READ) {
                // SAFETY: the page is mapped and readable.
                unsafe { (page as *const u8).read_volatile() };
            }
        }
    }
}
