//! Memory of a SCIF program that peers reach: memory that it registers, and windows of peers that
//! it maps.
//!
//! A page that a program owns stays where it is: registering it has the `scif:` daemon borrow it
//! ([`provide`]). Memory that belongs to the daemon is what a program asked for as such
//! ([`Memory::new`]); it is physically contiguous as far as possible, and registering it needs no
//! borrowing. A table of the process knows which memory that is; entries go when it is unmapped or
//! loses rights through this module ([`changed`]), or when the daemon says that its memory is no
//! longer mapped here ([`forget`]).
//!
//! No memory of this kind is ever seen through a reference.

#[path = "memory.rs"]
mod memory;
#[path = "reachable.rs"]
mod reach;
#[path = "table.rs"]
mod table;
#[path = "window.rs"]
mod window;

use alloc::vec::Vec;
use core::marker::PhantomData;

use libredox::Fd;
use libredox::call::{Call, MmapArgs, mmap, munmap};
use libredox::flag::{MAP_SHARED, O_CLOEXEC, O_RDWR};
use scif_abi::call::MemoryCall;
use scif_abi::codec::Operation;
use syscall::error::{EFAULT, EINVAL, EIO, ENOMEM, Error, Result};
use syscall::flag::{CallFlags, MapFlags};

use crate::pages::{Readable, Writable};
use crate::pin::Pin;
use hal::lock::Mutex;
use hal::mem::PAGE;
use table::Table;

pub use memory::{Memory, View};
pub use window::{Protection, map_window};

/// What this process knows about its own memory.
static TABLE: Mutex<Table> = Mutex::new(Table::new());

/// Where [`Range::copy_out`] lets the kernel read: both ends, reading one first.
static PIPE: Mutex<Option<(Fd, Fd)>> = Mutex::new(None);

/// Bytes that go through the pipe at a time, of the 64 KiB it holds.
const PIPE_BYTES: usize = 32 * 1024;

unsafe extern "C" {
    fn redox_read_v1(fd: usize, bytes: *mut u8, count: usize) -> usize;
    fn redox_write_v1(fd: usize, bytes: *const u8, count: usize) -> usize;
}

/// `MAP_FIXED` as `mmap` takes it.
const MAP_FIXED: u32 = MapFlags::MAP_FIXED.bits() as u32;

/// Memory of this process by address, for calls that name memory the way C does. It may be no
/// memory at all: the calls find that out.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    address: usize,
    bytes: usize,
    memory: PhantomData<&'a ()>,
}

impl<'a> Range<'a> {
    /// `bytes` bytes at `address`.
    ///
    /// # Safety
    /// What is mapped there, now and as long as the value is used, is memory that may change at
    /// any time: no reference leads there.
    pub const unsafe fn new(address: usize, bytes: usize) -> Self {
        Self {
            address,
            bytes,
            memory: PhantomData,
        }
    }

    /// A range of which no byte can be mapped, for trying what calls say to it.
    pub const fn absent(bytes: usize) -> Self {
        Self {
            address: 1 << 47,
            bytes,
            memory: PhantomData,
        }
    }

    /// `bytes` bytes at address 0, where nothing is ever mapped: what C programs pass as `NULL`.
    pub const fn null(bytes: usize) -> Self {
        Self {
            address: 0,
            bytes,
            memory: PhantomData,
        }
    }

    /// The first address.
    pub const fn address(self) -> usize {
        self.address
    }

    /// Length in bytes.
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// The part `offset .. offset + bytes`.
    ///
    /// # Errors
    /// `EFAULT` when it is not inside.
    pub fn part(self, offset: usize, bytes: usize) -> Result<Self> {
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(Error::new(EFAULT));
        }
        Ok(Self {
            address: self.address + offset,
            bytes,
            memory: self.memory,
        })
    }

    /// The whole pages that hold the range, and where in them it begins; `None` when it is empty or
    /// no part of the address space. What lies beside the range is not for the caller to change.
    pub fn around(self) -> Option<(Self, usize)> {
        let start = self.address - self.address % PAGE;
        let end = self.address.checked_add(self.bytes)?;
        let end = end.checked_next_multiple_of(PAGE)?;
        let pages = Self {
            address: start,
            bytes: end - start,
            memory: self.memory,
        };
        (self.bytes > 0).then_some((pages, self.address - start))
    }

    /// Copies the first bytes out, through the kernel, which finds out whether they are there.
    ///
    /// # Errors
    /// `EFAULT` when one of them cannot be read or `to` is longer than the range; those of pipes.
    pub fn copy_out(self, to: &mut [u8]) -> Result<()> {
        self.part(0, to.len())?;
        let mut pipe = PIPE.lock();
        let (output, input) = match pipe.take() {
            Some(ends) => ends,
            None => {
                let output = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0)?;
                let input = Fd::new(output.dup(b"write")?);
                (output, input)
            }
        };
        for (index, piece) in to.chunks_mut(PIPE_BYTES).enumerate() {
            let from = self.part(index * PIPE_BYTES, piece.len())?;
            // A pipe that is left with bytes in it by an error is not put back.
            let count = write(input.raw(), from)?;
            if count != piece.len() || output.read(piece)? != count {
                return Err(Error::new(EIO));
            }
        }
        *pipe = Some((output, input));
        Ok(())
    }

    /// A copy of the bytes.
    ///
    /// # Errors
    /// As [`copy_out`](Self::copy_out), and `ENOMEM`.
    pub fn to_vec(self) -> Result<Vec<u8>> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(self.bytes)
            .map_err(|_| Error::new(ENOMEM))?;
        copy.resize(self.bytes, 0);
        self.copy_out(&mut copy)?;
        Ok(copy)
    }

    /// The range for copies that are made here, if all of it is memory that can be read. None of a
    /// device's is.
    pub fn readable(self) -> Option<Readable<'a>> {
        reach::readable(self)
    }

    /// As [`readable`](Self::readable), memory that can be read and written.
    pub fn writable(self) -> Option<Writable<'a>> {
        reach::writable(self)
    }

    /// Checks that it is whole pages, at least one.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn check_pages(self) -> Result<()> {
        let whole = self.address.is_multiple_of(PAGE) && self.bytes.is_multiple_of(PAGE);
        if !whole || self.bytes == 0 {
            return Err(Error::new(EINVAL));
        }
        Ok(())
    }
}

/// A scheme call with memory of this process as payload, which the scheme may read and write.
///
/// # Errors
/// Those of the scheme, and `EFAULT` when the range cannot be accessed.
pub fn call(fd: usize, payload: Range<'_>, metadata: &[u64]) -> Result<usize> {
    // SAFETY: the kernel checks the addresses; that the memory may change is what a range is.
    Ok(unsafe {
        fd.raw_call(
            payload.address as *mut u8,
            payload.bytes,
            CallFlags::READ | CallFlags::WRITE,
            metadata,
        )?
    })
}

/// Reads a file into memory of this process.
///
/// # Errors
/// Those of `read`; `EFAULT` when the range cannot be written.
pub fn read(fd: usize, to: Range<'_>) -> Result<usize> {
    // SAFETY: the kernel checks the addresses; that the memory may change is what a range is.
    let raw = unsafe { redox_read_v1(fd, to.address as *mut u8, to.bytes) };
    Ok(libredox::error::Error::demux(raw)?)
}

/// Writes memory of this process to a file.
///
/// # Errors
/// Those of `write`; `EFAULT` when the range cannot be read.
pub fn write(fd: usize, data: Range<'_>) -> Result<usize> {
    // SAFETY: the kernel checks the addresses and reads only.
    let raw = unsafe { redox_write_v1(fd, data.address as *const u8, data.bytes) };
    Ok(libredox::error::Error::demux(raw)?)
}

/// Memory as the daemon knows it.
#[derive(Debug)]
pub struct Provided {
    /// Names the memory object.
    pub token: u64,
    /// Where in the object the range begins, in bytes.
    pub offset: u64,
    /// Pages of the program's own are pinned until this goes, and until their last window is gone.
    pin: Option<Pin>,
}

impl Provided {
    /// Whether the pages are the program's own, pinned as long as this value lives, or the windows
    /// made of it.
    pub fn is_pinned(&self) -> bool {
        self.pin.is_some()
    }
}

/// Makes a range memory that the daemon knows: finds it in the table or, if it is whole pages,
/// pins it where it is, for windows with `protection` at most. `open` opens a memory handle for
/// that.
///
/// # Errors
/// `EINVAL` unless the range is whole pages or known, `EFAULT` when they are not mapped, or do not
/// allow the program itself what `protection` says, or are a device's; `EAGAIN` or `ENOMEM` when
/// there is no memory for the user; those of `open`.
pub fn provide(
    range: Range<'_>,
    protection: scif_abi::flags::Protection,
    open: impl FnOnce() -> Result<Fd>,
) -> Result<Provided> {
    if let Some(known) = known(range) {
        return Ok(known);
    }
    range.check_pages()?;
    let pin = Pin::new(open, range, protection, 0)?;
    Ok(Provided {
        token: pin.token(),
        offset: 0,
        pin: Some(pin),
    })
}

/// The range, if it is the daemon's memory.
pub fn known(range: Range<'_>) -> Option<Provided> {
    let (token, offset) = TABLE.lock().find(range.address, range.bytes)?;
    Some(Provided {
        token,
        offset,
        pin: None,
    })
}

/// Takes the pages of a range out of the table: what is there now is not the daemon's memory any
/// more.
pub fn forget(range: Range<'_>) {
    let first = range.address - range.address % PAGE;
    let end = range.address.saturating_add(range.bytes);
    let end = end.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    TABLE.lock().remove(first, end - first);
}

/// To be called after something was mapped over a range, or rights to it were taken away, by other
/// means than this module's.
pub fn changed(range: Range<'_>) {
    forget(range);
    reach::forget(range);
}

/// Unmaps whole pages.
///
/// # Errors
/// `EINVAL` unless the range is whole pages; those of `munmap`.
pub fn unmap(range: Range<'_>) -> Result<()> {
    range.check_pages()?;
    forget(range);
    // SAFETY: no reference leads to the range (that is what a range is).
    unsafe { munmap(range.address as *mut (), range.bytes)? };
    reach::forget(range);
    Ok(())
}

/// A new memory object of the daemon: its descriptor and its token.
fn new_object(bytes: usize) -> Result<(Fd, u64)> {
    let file = Fd::open("/scheme/scif/memory", O_RDWR | O_CLOEXEC, 0)?;
    let request = MemoryCall::Provide {
        pages: (bytes / PAGE) as u64,
    };
    let [first, second] = request.words();
    let metadata = [request.number(), first, second];
    let token = file.call_rw(&mut [], CallFlags::empty(), &metadata)?;
    Ok((file, token as u64))
}

/// Maps a part of a scheme's file, shared, at `address` or where the kernel likes.
///
/// # Safety
/// What lies at `address` may be replaced.
unsafe fn map(
    file: &Fd,
    offset: usize,
    bytes: usize,
    protection: u32,
    address: Option<usize>,
) -> Result<usize> {
    // SAFETY: passed on.
    let mapped = unsafe {
        mmap(MmapArgs {
            addr: address.unwrap_or(0) as *mut (),
            length: bytes,
            prot: protection,
            flags: MAP_SHARED | if address.is_some() { MAP_FIXED } else { 0 },
            fd: file.raw(),
            offset: offset as u64,
        })?
    };
    Ok(mapped as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scif_abi::flags::Protection;

    fn pages(address: usize, bytes: usize) -> Range<'static> {
        // SAFETY: nothing is accessed by these tests.
        unsafe { Range::new(address, bytes) }
    }

    fn unopened() -> Result<Fd> {
        panic!("nothing is to be pinned")
    }

    #[test]
    fn only_whole_pages_can_be_pinned() {
        for (address, bytes) in [(0x1001, 0x1000), (0x1000, 0x1001), (0x1000, 0)] {
            let result = provide(pages(address, bytes), Protection::all(), unopened);
            assert_eq!(result.err().map(|error| error.errno), Some(EINVAL));
        }
    }

    #[test]
    fn what_is_known_needs_no_system_call() {
        let range = pages(0x10_0000, 0x3000);
        TABLE.lock().insert(0x10_0000, 0x3000, 9, 0x2000);
        let part = range.part(0x1000, 0x1000).unwrap();
        let found = provide(part, Protection::all(), unopened).unwrap();
        assert_eq!((found.token, found.offset), (9, 0x3000));
        assert!(!found.is_pinned());
        let odd = provide(range.part(0x10, 3).unwrap(), Protection::all(), unopened).unwrap();
        assert_eq!((odd.token, odd.offset), (9, 0x2010));
        forget(range.part(0x10, 3).unwrap());
        assert!(known(range).is_none());
        assert!(known(part).is_some());
        // What loses rights is no longer known: it is asked for its rights each time.
        changed(part);
        assert!(known(part).is_none());
        forget(range);
    }

    #[test]
    fn the_pages_around_a_range_hold_it() {
        let around = |address, bytes| {
            let (whole, offset) = pages(address, bytes).around()?;
            Some((whole.address(), whole.bytes(), offset))
        };
        assert_eq!(around(0x1000, 0x1000), Some((0x1000, 0x1000, 0)));
        assert_eq!(around(0x1fff, 2), Some((0x1000, 0x2000, 0xfff)));
        assert_eq!(around(0x1001, 0xfff), Some((0x1000, 0x1000, 1)));
        assert_eq!(around(0x1001, 0), None);
        assert_eq!(around(usize::MAX - 1, 1), None);
        assert_eq!(around(usize::MAX, 2), None);
    }

    #[test]
    fn parts_stay_inside() {
        let range = pages(0x1000, 0x1000);
        assert_eq!(range.part(0x10, 0xff0).unwrap().address(), 0x1010);
        assert!(range.part(0x10, 0xff1).is_err());
        assert!(range.part(usize::MAX, 2).is_err());
    }
}
