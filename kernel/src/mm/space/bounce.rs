//! Places in a daemon's address space for what its clients lend it.
//!
//! Trays are frames of the kernel that stay mapped there, for copies of small buffers.
//! Mapping and unmapping a page costs more than copying what little of it a request needs. The
//! daemon can read and write a tray at any time, and sees there what it was lent before; what it
//! stores beside the buffer it has goes nowhere.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{AddrSpace, Placement, Prot};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{self, FrameRef};

/// Most trays of an address space: requests that wait long hold theirs. Beyond, pages are mapped
/// for each request.
const MAX_TRAYS: usize = 32;
/// A buffer that holds no whole page lies in at most two.
const FRAMES: usize = 2;

/// Frames of all trays.
static TRAY_FRAMES: AtomicUsize = AtomicUsize::new(0);

/// Frames of the trays of all address spaces.
pub fn tray_frames() -> usize {
    TRAY_FRAMES.load(Ordering::Relaxed)
}

/// A place for one small buffer.
#[derive(Debug)]
pub struct Tray {
    base: usize,
    frames: [FrameRef; FRAMES],
}

impl Tray {
    /// Where its first frame is mapped; the second follows.
    pub fn address(&self) -> usize {
        self.base
    }

    /// One of its frames, 0 or 1.
    pub fn frame(&self, index: usize) -> &FrameRef {
        &self.frames[index]
    }
}

impl Drop for Tray {
    fn drop(&mut self) {
        TRAY_FRAMES.fetch_sub(FRAMES, Ordering::Relaxed);
    }
}

/// So many places of loans are remembered.
const MAX_HOLES: usize = 8;

/// The trays of an address space, and where larger buffers were.
#[derive(Debug, Default)]
pub(super) struct Trays {
    idle: Vec<Tray>,
    made: usize,
    /// Address and length of loans that have ended: probably still holes.
    holes: Vec<(usize, usize)>,
}

impl AddrSpace {
    /// A tray that nobody uses; `None` when all are in use or there is no memory.
    pub fn take_tray(&self) -> Option<Tray> {
        {
            let mut trays = self.trays.lock();
            if let Some(tray) = trays.idle.pop() {
                return Some(tray);
            }
            if trays.made == MAX_TRAYS {
                return None;
            }
            // Room for each to come back, so that giving one back needs no memory.
            trays.idle.try_reserve(MAX_TRAYS).ok()?;
            trays.made += 1;
        }
        let made = self.make_tray();
        if made.is_none() {
            self.trays.lock().made -= 1;
        }
        made
    }

    fn make_tray(&self) -> Option<Tray> {
        let frames = [frame::alloc_zeroed()?, frame::alloc_zeroed()?];
        let rights = Prot::READ | Prot::WRITE;
        let (base, _) = self
            .map_frames(Placement::Any, &frames, rights, true)
            .ok()?;
        debug_assert!(base.is_multiple_of(PAGE_SIZE));
        TRAY_FRAMES.fetch_add(FRAMES, Ordering::Relaxed);
        Some(Tray { base, frames })
    }

    /// Gives a tray back to the address space it was taken from.
    pub fn put_tray(&self, tray: Tray) {
        self.trays.lock().idle.push(tray);
    }

    /// Where to map a buffer of `len` bytes: where one was before, so that the search for a hole
    /// does not take longer the more is mapped.
    pub(super) fn place_for_loan(&self, len: usize) -> Placement {
        let mut trays = self.trays.lock();
        let fits = trays.holes.iter().rposition(|&(_, room)| room >= len);
        let Some((base, _)) = fits.map(|index| trays.holes.swap_remove(index)) else {
            return Placement::Any;
        };
        drop(trays);
        let taken = self
            .inner
            .lock()
            .areas
            .overlapping(base, len)
            .next()
            .is_some();
        if taken {
            Placement::Any
        } else {
            Placement::FixedNoReplace(base)
        }
    }

    /// Ends a loan that [`AddrSpace::borrow_buffer`] or `map_frames` made. Whatever is in the range
    /// is the kernel's: the daemon could not replace it.
    pub fn unmap_loan(&self, base: usize, len: usize) {
        // The range was mapped, so it is one of user space.
        drop(self.unmap_pinned(base, len));
        let mut trays = self.trays.lock();
        if trays.holes.len() == MAX_HOLES {
            trays.holes.swap_remove(0);
        }
        if trays.holes.try_reserve(1).is_ok() {
            trays.holes.push((base, len));
        }
    }
}
