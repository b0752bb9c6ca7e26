//! Borrowing pages of another program and lending them on: what a daemon does that pins memory
//! where it is.
//!
//! A [`Borrowed`] range shows pages of the program whose address space descriptor the daemon was
//! given. While the range is mapped it keeps that whole address space alive, so it is meant to be
//! short: [`Borrowed::lend`] passes the pages on as the payload of a request, and once the receiver
//! has them, [`Borrowed::unmap`] ends the loan on this side. The receiver keeps the pages, and
//! neither side keeps anything else of the program.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use libredox::Fd;
use libredox::call::{Call, MmapArgs, mmap, munmap};
use libredox::flag::{
    MAP_PRIVATE, MAP_SHARED, O_CLOEXEC, O_RDWR, PROT_NONE, PROT_READ, PROT_WRITE,
};
use syscall::data::GlobalSchemes;
use syscall::error::{EFAULT, EINVAL, EIO, ENOMEM, EPERM, Error, Result};
use syscall::flag::{CallFlags, MapFlags};

use crate::mem::PAGE;
use crate::pin::{self, Mapping};

/// Bytes borrowed by one request: so many the kernel enters at once.
const CHUNK: usize = 4096 * PAGE;

/// Pages looked at before the pipe is emptied. It holds 64 KiB.
const TOUCHES: usize = 4096;

unsafe extern "C" {
    fn redox_write_v1(fd: usize, bytes: *const u8, count: usize) -> usize;
}

/// What borrowing needs; open before the daemon gives up its names.
pub struct Borrower {
    translation: Fd,
    physical: Fd,
    pipe: Fd,
    pipe_end: Fd,
}

/// The address space of another program.
pub struct Space(Fd);

impl Space {
    /// An address space from a descriptor that a program sent. It may be any descriptor: one of a
    /// pipe, say, that would keep waiting whoever reads it.
    ///
    /// # Errors
    /// `EINVAL` unless it is the kernel's own, of the scheme of address spaces.
    pub fn new(file: Fd) -> Result<Self> {
        // The kernel itself fills in the device number.
        let stat = file.stat().map_err(|_| Error::new(EINVAL))?;
        if stat.st_dev != GlobalSchemes::Proc as u64 {
            return Err(Error::new(EINVAL));
        }
        Ok(Self(file))
    }

    /// Its mappings, ascending. Once only: the list goes on where it ended.
    ///
    /// # Errors
    /// `EFAULT` when the descriptor does not list mappings.
    pub fn mappings(&self) -> Result<Vec<Mapping>> {
        pin::mappings(&self.0).map_err(|_| Error::new(EFAULT))
    }
}

/// A range of pages of another program, mapped here.
pub struct Borrowed {
    address: usize,
    length: usize,
    mapped: AtomicBool,
}

impl Borrower {
    /// Opens the kernel's files for it; root only (`EACCES`).
    pub fn new() -> Result<Self> {
        let open = |path| Fd::open(path, O_CLOEXEC, 0);
        let pipe = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0)?;
        let pipe_end = Fd::new(pipe.dup(b"write")?);
        Ok(Self {
            translation: open("/scheme/memory/translation")?,
            physical: open("/scheme/memory/physical@wb")?,
            pipe,
            pipe_end,
        })
    }

    /// Borrows whole pages of the program behind `space`, for reading and writing. Afterwards every
    /// page is present, belongs to that program alone and is ordinary memory.
    ///
    /// # Errors
    /// `EFAULT` when a page is not mapped there, is not writable though shared, or is device
    /// memory; `ENOMEM`.
    pub fn borrow(&self, space: &Space, address: usize, length: usize) -> Result<Borrowed> {
        let borrowed = reserve(length)?;
        for offset in (0..length).step_by(CHUNK) {
            let chunk = CHUNK.min(length - offset);
            // SAFETY: the place is inside the range reserved above, which nobody uses.
            let mapped = unsafe {
                mmap(MmapArgs {
                    addr: (borrowed.address + offset) as *mut (),
                    length: chunk,
                    prot: PROT_READ | PROT_WRITE,
                    flags: MAP_SHARED | (MapFlags::MAP_FIXED.bits() & 0xffff) as u32,
                    fd: space.0.raw(),
                    offset: (address + offset) as u64,
                })
            };
            if let Err(error) = mapped {
                let errno = error.errno();
                return Err(Error::new(if errno == ENOMEM { ENOMEM } else { EFAULT }));
            }
        }
        self.touch(&borrowed)?;
        for page in (0..length).step_by(PAGE) {
            self.check_ordinary(borrowed.address + page)?;
        }
        Ok(borrowed)
    }

    /// Makes all pages present. The kernel reads each one for us: where there is nothing any more
    /// (the program changes its mappings as it likes) it says so, where a load of our own would be
    /// the end of this daemon.
    fn touch(&self, borrowed: &Borrowed) -> Result<()> {
        let mut drain = [0; TOUCHES];
        let pages = borrowed.length / PAGE;
        for first in (0..pages).step_by(TOUCHES) {
            let count = TOUCHES.min(pages - first);
            let mut result = Ok(());
            let mut written = 0;
            for page in first..first + count {
                let byte = (borrowed.address + page * PAGE) as *const u8;
                // SAFETY: the kernel reads the byte, or refuses; no reference is made.
                let raw = unsafe { redox_write_v1(self.pipe_end.raw(), byte, 1) };
                if let Err(error) = libredox::error::Error::demux(raw) {
                    let errno = error.errno();
                    result = Err(Error::new(if errno == ENOMEM { ENOMEM } else { EFAULT }));
                    break;
                }
                written += 1;
            }
            while written > 0 {
                match self.pipe.read(&mut drain[..written])? {
                    0 => return Err(Error::new(EIO)),
                    read => written -= read.min(written),
                }
            }
            result?;
        }
        Ok(())
    }

    /// Checks that a page is ordinary memory, by what the kernel thinks of its frame: only device
    /// memory may be mapped by physical address.
    fn check_ordinary(&self, address: usize) -> Result<()> {
        let mut word = address.to_ne_bytes();
        self.translation
            .call_rw(&mut word, CallFlags::empty(), &[])?;
        let frame = usize::from_ne_bytes(word) as u64;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let mapped = unsafe {
            mmap(MmapArgs {
                addr: core::ptr::null_mut(),
                length: PAGE,
                prot: PROT_READ,
                flags: MAP_SHARED,
                fd: self.physical.raw(),
                offset: frame,
            })
        };
        match mapped {
            Ok(device) => {
                // SAFETY: mapped just now and used by nobody.
                unsafe { munmap(device, PAGE) }?;
                Err(Error::new(EFAULT))
            }
            Err(error) if error.errno() == EPERM => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A range of addresses with nothing behind them.
fn reserve(length: usize) -> Result<Borrowed> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let address = unsafe {
        mmap(MmapArgs {
            addr: core::ptr::null_mut(),
            length,
            prot: PROT_NONE,
            flags: MAP_PRIVATE,
            fd: usize::MAX,
            offset: 0,
        })
    }?;
    Ok(Borrowed {
        address: address as usize,
        length,
        mapped: AtomicBool::new(true),
    })
}

impl Borrowed {
    /// Bytes of the range.
    #[expect(clippy::len_without_is_empty, reason = "an empty range has no use")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Makes a request with the whole range as payload. Returns what the receiver answers, when it
    /// does; until then the receiver has the pages, also if they are unmapped here meanwhile.
    ///
    /// # Errors
    /// Those of the request.
    pub fn lend(&self, file: &Fd, metadata: &[u64]) -> Result<usize> {
        let (payload, flags) = (self.address as *mut u8, CallFlags::empty());
        // SAFETY: the range consists of whole pages that nothing here refers to; the kernel looks
        // at what is mapped there and touches nothing else.
        let result = unsafe { file.raw().raw_call(payload, self.length, flags, metadata) };
        Ok(result?)
    }

    /// Unmaps the range, piece by piece as it was mapped.
    pub fn unmap(&self) {
        if !self.mapped.swap(false, Ordering::AcqRel) {
            return;
        }
        for offset in (0..self.length).step_by(CHUNK) {
            let chunk = CHUNK.min(self.length - offset);
            // SAFETY: the range was mapped for this object, which gives no references to it, and
            // only the first to come here unmaps it.
            let result = unsafe { munmap((self.address + offset) as *mut (), chunk) };
            if let Err(error) = result {
                log::warn!("unmap of {chunk:#x} borrowed bytes failed: {error}");
            }
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.unmap();
    }
}
