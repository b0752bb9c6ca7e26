//! Bounce buffers: frames of the kernel that stay mapped in a daemon's address space, for copies
//! of its clients' small buffers. Also the places where larger buffers were mapped.
//!
//! Mapping and unmapping a page costs more than copying the few bytes of it that a request needs.
//! The daemon can read and write a bounce buffer at any time, and finds the bytes of earlier
//! requests there. What it stores outside the buffer of its request reaches no client.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use ::syscall::error::Result;

use super::{AddrSpace, Placement, Prot};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{self, FrameRef};

/// Most bounce buffers of an address space: requests that wait for long hold theirs. Beyond that,
/// pages are mapped for each request.
const MAX_BOUNCE: usize = 32;
/// Frames of a bounce buffer: a buffer without a whole page lies in at most two.
const FRAMES: usize = 2;

/// Frames of all bounce buffers.
static BOUNCE_FRAMES: AtomicUsize = AtomicUsize::new(0);
/// Frames of the bounce buffers that no request holds.
static IDLE_FRAMES: AtomicUsize = AtomicUsize::new(0);

/// The frames of all bounce buffers, and of those that no request holds.
pub fn bounce_frames() -> (usize, usize) {
    (
        BOUNCE_FRAMES.load(Ordering::Relaxed),
        IDLE_FRAMES.load(Ordering::Relaxed),
    )
}

/// A bounce buffer: room for one small buffer.
#[derive(Debug)]
pub struct BounceBuffer {
    base: usize,
    frames: [FrameRef; FRAMES],
}

impl BounceBuffer {
    /// Address of its first frame; the second follows.
    pub fn address(&self) -> usize {
        self.base
    }

    /// One of its frames, 0 or 1.
    pub fn frame(&self, index: usize) -> &FrameRef {
        &self.frames[index]
    }
}

impl Drop for BounceBuffer {
    fn drop(&mut self) {
        BOUNCE_FRAMES.fetch_sub(FRAMES, Ordering::Relaxed);
    }
}

/// Most places of request buffers that are remembered.
const MAX_HOLES: usize = 8;

/// The bounce buffers of an address space, and the places of larger buffers.
#[derive(Debug, Default)]
pub(super) struct BounceBuffers {
    idle: Vec<BounceBuffer>,
    made: usize,
    /// Address and length of former request buffers: probably still holes.
    holes: Vec<(usize, usize)>,
}

impl BounceBuffers {
    /// Takes a buffer that no request holds.
    fn take_idle(&mut self) -> Option<BounceBuffer> {
        let buffer = self.idle.pop()?;
        IDLE_FRAMES.fetch_sub(FRAMES, Ordering::Relaxed);
        Some(buffer)
    }

    fn put_idle(&mut self, buffer: BounceBuffer) {
        self.idle.push(buffer);
        IDLE_FRAMES.fetch_add(FRAMES, Ordering::Relaxed);
    }
}

impl Drop for BounceBuffers {
    fn drop(&mut self) {
        while self.take_idle().is_some() {}
    }
}

impl AddrSpace {
    /// A free bounce buffer; `None` when all are in use or there is no memory.
    pub fn take_bounce(&self) -> Option<BounceBuffer> {
        {
            let mut buffers = self.bounce.lock();
            if let Some(buffer) = buffers.take_idle() {
                return Some(buffer);
            }
            if buffers.made == MAX_BOUNCE {
                return None;
            }
            // Room for all buffers, so that giving one back needs no memory.
            buffers.idle.try_reserve(MAX_BOUNCE).ok()?;
            buffers.made += 1;
        }
        let made = self.make_bounce();
        if made.is_none() {
            self.bounce.lock().made -= 1;
        }
        made
    }

    fn make_bounce(&self) -> Option<BounceBuffer> {
        let frames = [frame::alloc_zeroed()?, frame::alloc_zeroed()?];
        let rights = Prot::READ | Prot::WRITE;
        let (base, _) = self
            .map_frames(Placement::Any, &frames, rights, true)
            .ok()?;
        debug_assert!(base.is_multiple_of(PAGE_SIZE));
        BOUNCE_FRAMES.fetch_add(FRAMES, Ordering::Relaxed);
        Some(BounceBuffer { base, frames })
    }

    /// Gives a bounce buffer back to the address space it was taken from.
    pub fn put_bounce(&self, buffer: BounceBuffer) {
        self.bounce.lock().put_idle(buffer);
    }

    /// The place for a buffer of `len` bytes: the place of a former buffer, so that the time does
    /// not grow with the number of mappings.
    pub(super) fn place_for_request(&self, len: usize) -> Placement {
        let mut buffers = self.bounce.lock();
        let fits = buffers.holes.iter().rposition(|&(_, room)| room >= len);
        let Some((base, _)) = fits.map(|index| buffers.holes.swap_remove(index)) else {
            return Placement::Any;
        };
        drop(buffers);
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

    /// Unmaps a request buffer that [`AddrSpace::borrow_buffer`] or `map_frames` made. Everything
    /// in the range is the kernel's: the daemon could not replace it. An error says that the daemon
    /// touched a page of the client's that could not be had: `ENOMEM` or `EFAULT`.
    pub fn unmap_request(&self, base: usize, len: usize) -> Result<()> {
        let were_all_there = {
            let inner = self.inner.lock();
            let mut areas = inner.areas.overlapping(base, len);
            areas.try_for_each(|(_, area)| area.backing.check_pages())
        };
        // The range was mapped, so it lies in user space.
        drop(self.unmap_pinned(base, len));
        let mut buffers = self.bounce.lock();
        if buffers.holes.len() == MAX_HOLES {
            buffers.holes.swap_remove(0);
        }
        if buffers.holes.try_reserve(1).is_ok() {
            buffers.holes.push((base, len));
        }
        were_all_there
    }
}
