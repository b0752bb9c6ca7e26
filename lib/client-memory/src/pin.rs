//! Pinning memory where it is: the program's side.
//!
//! A program that registers memory keeps its pages; the SCIF daemon borrows them. The daemon finds
//! them through the descriptor of the program's address space, which the program sends over a
//! memory handle (`scif_abi::call::SEND_SPACE`). The daemon keeps that descriptor only until it
//! has found the pages. Pinned pages stay the same until the last window on them is gone, whatever
//! the program maps at their addresses meanwhile.

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

/// Pinned pages. Dropping the value releases them, but windows on them keep them.
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
    /// `EINVAL` for incomplete pages or none; `EFAULT` when a page is not mapped, does not allow
    /// the program itself what `protection` says, or is no ordinary memory; `EAGAIN` at a limit of
    /// the user; `ENOMEM`; `EPERM` for [`PinRecord::UNCHARGED`] from users other than root; those
    /// of `open`.
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
        // A fresh descriptor for the daemon, which lists the mappings as well.
        let token = pin(&file, own_space()?, record)?;
        Ok(Self { file, token })
    }

    /// The token that names the pages in `register` and in the daemon's cached transfers.
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
        // Whether the descriptor still exists depends on how far the call came.
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

/// Touches every page of a range: stores to a writable one without changing it, and reads the
/// others. A page that is still shared with another program, or not there yet, becomes this
/// program's own before the daemon borrows it.
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
