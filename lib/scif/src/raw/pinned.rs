//! Transfers between memory that is not registered and the peer's windows. Either the daemon knows
//! the pages already, or they are pinned for the transfer.

use client_memory::pin;
use client_memory::range::Range;
use client_memory::shared;
use scif_abi::call::{CachedRecord, Call};
use scif_abi::flags::RmaFlags;
use syscall::error::{EACCES, ECONNRESET, EFAULT, ENODEV, ENOTCONN, ENXIO};

use super::{NO_TOKEN, Result, pieces, system, with_record};

/// Transfers of at least this many bytes are always made with pinned pages. The bytes of shorter
/// ones are the payload of the call, where a payload may be that long.
pub const PINNED_BYTES: usize = 64 * 1024;

/// Which way a transfer goes.
#[derive(Clone, Copy)]
pub(super) enum Rma {
    /// From the peer's windows.
    Read,
    /// To them.
    Write,
}

/// A transfer between memory that is not registered and the peer's windows.
#[derive(Clone, Copy)]
pub(super) struct Transfer<'a> {
    epd: usize,
    range: Range<'a>,
    remote: i64,
    flags: u32,
}

impl<'a> Transfer<'a> {
    pub fn new(epd: usize, range: Range<'a>, remote: i64, flags: u32) -> Self {
        Self {
            epd,
            range,
            remote,
            flags,
        }
    }

    /// A transfer with a slice, if the slice is too long for a payload. It is complete when the
    /// call returns, whatever the flags say.
    pub fn of_slice(epd: usize, slice: &'a mut [u8], remote: i64, flags: u32) -> Option<Self> {
        let flags = flags & !RmaFlags::USECACHE.bits();
        let is_long = pieces::are_needed(slice.len());
        is_long.then(|| Self::new(epd, Range::of(slice), remote, flags))
    }

    /// Asks the daemon for the transfer with memory that it knows.
    fn ask(&self, direction: Rma, token: u64, offset: u64, flags: u32) -> Result<()> {
        let record = CachedRecord {
            memory: token.into(),
            memory_offset: offset.into(),
            length: (self.range.bytes() as u64).into(),
            remote_offset: self.remote.into(),
            flags: flags.into(),
            reserved: 0.into(),
        };
        let call = match direction {
            Rma::Read => Call::CachedReadFrom { record },
            Rma::Write => Call::CachedWriteTo { record },
        };
        with_record(self.epd, call).map(|_| ())
    }

    /// The error of the transfer, whose memory is bad. The daemon reports that last, so it is
    /// asked with memory that nobody has.
    pub fn bad_memory(&self, direction: Rma) -> i32 {
        let refused = self.ask(direction, NO_TOKEN, 0, self.flags);
        refused.err().unwrap_or(EFAULT)
    }

    /// Makes the transfer with memory that the daemon knows: with its own memory if
    /// `SCIF_RMA_USECACHE` allows that, else with pages that are pinned as long as the transfer
    /// runs. `None`: the caller makes the transfer with a payload, which is faster or the only
    /// way; the flag is a hint.
    pub fn run(&self, direction: Rma) -> Option<Result<()>> {
        let range = self.range;
        let may_cache = self.flags & RmaFlags::USECACHE.bits() != 0;
        let is_long = range.bytes() >= PINNED_BYTES || pieces::are_needed(range.bytes());
        let at_once = if may_cache { 0 } else { RmaFlags::SYNC.bits() };
        let flags = self.flags | at_once;
        if (may_cache || is_long)
            && let Some(known) = shared::known(range)
        {
            let result = self.ask(direction, known.token, known.offset, flags);
            if result != Err(EFAULT) {
                return Some(result);
            }
            // The program has unmapped the memory meanwhile, and the library's table did not
            // notice.
            shared::forget(range);
        }
        if !is_long {
            return None;
        }
        let into_range = matches!(direction, Rma::Read);
        let result = pin::transfer(self.epd, range, self.remote, flags, into_range);
        match result.map_err(system) {
            Ok(()) => Some(Ok(())),
            // Of the connection, and of the windows.
            Err(error @ (ECONNRESET | ENODEV | ENOTCONN | EACCES | ENXIO)) => Some(Err(error)),
            // The pages cannot be pinned, or the other call says why not.
            Err(_) => None,
        }
    }
}
