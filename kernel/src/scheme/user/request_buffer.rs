//! Request buffers: buffers of a client in the address space of a daemon, for one request.
//!
//! Whole pages of the client are mapped there as they are. An incomplete first and last page are
//! copied through a frame of the kernel, so that the daemon sees nothing beside the buffer. A
//! buffer without a whole page is copied through a bounce buffer, whose frames stay mapped in the
//! daemon.

use alloc::sync::{Arc, Weak};

use ::syscall::error::{EINVAL, ENOMEM, Error, Result};
use bitflags::bitflags;

use crate::{
    mm::{
        PAGE_SIZE, UserBuf,
        frame::{self, FrameRef},
        space::{AddrSpace, BounceBuffer, Placement, Prot},
    },
    sched,
};

/// The pointer of an empty buffer: not null, and not mapped.
const DANGLING: usize = 1 << 62;

bitflags! {
    /// The daemon's rights to a buffer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u8 {
        /// Read the client's content.
        const READ = 1;
        /// Change it.
        const WRITE = 2;
    }
}

impl Access {
    fn prot(self) -> Prot {
        let mut prot = Prot::empty();
        prot.set(Prot::READ, self.contains(Self::READ));
        prot.set(Prot::WRITE, self.contains(Self::WRITE));
        prot
    }
}

/// The place of a request buffer in the daemon's address space. The daemon cannot unmap it.
#[derive(Debug)]
pub struct Mapping {
    space: Weak<AddrSpace>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Pages mapped for one request.
    Pages {
        base: usize,
        len: usize,
    },
    Bounce(BounceBuffer),
}

impl Mapping {
    fn new(space: &Arc<AddrSpace>, place: Place) -> Self {
        Self {
            space: Arc::downgrade(space),
            place,
        }
    }

    /// Takes the buffer away from the daemon, except from one that has ended, whose space keeps
    /// it. Fails when the daemon used a page of it that could not be had: `ENOMEM`, `EFAULT`.
    pub fn release(self) -> Result<()> {
        let Some(space) = self.space.upgrade() else {
            return Ok(());
        };
        if space.keeps_requests() {
            return Ok(());
        }
        match self.place {
            Place::Pages { base, len } => space.unmap_request(base, len),
            Place::Bounce(buffer) => {
                space.put_bounce(buffer);
                Ok(())
            }
        }
    }
}

/// A part of a page that is copied back to the client when the request ends.
#[derive(Debug)]
struct CopyBack {
    frame: FrameRef,
    offset: usize,
    to: UserBuf,
}

impl CopyBack {
    fn finish(self) -> Result<()> {
        self.to.write_from_frame(&self.frame, self.offset)
    }
}

/// A client's buffer during a request to a daemon.
#[derive(Debug)]
pub struct RequestBuffer {
    address: usize,
    len: usize,
    mapping: Option<Mapping>,
    head: Option<CopyBack>,
    tail: Option<CopyBack>,
}

impl RequestBuffer {
    /// No buffer.
    pub fn empty() -> Self {
        Self::of_range(DANGLING, 0, None)
    }

    fn of_range(address: usize, len: usize, mapping: Option<Mapping>) -> Self {
        Self {
            address,
            len,
            mapping,
            head: None,
            tail: None,
        }
    }

    /// The buffer's address in the daemon, and its length.
    pub fn range(&self) -> (usize, usize) {
        (self.address, self.len)
    }

    /// Lends the daemon bytes of the kernel, at most a page, to read.
    pub fn of_bytes(space: &Arc<AddrSpace>, bytes: &[u8]) -> Result<Self> {
        if bytes.len() > PAGE_SIZE {
            return Err(Error::new(EINVAL));
        }
        if bytes.is_empty() {
            return Ok(Self::empty());
        }
        let (address, place) = match space.take_bounce() {
            Some(bounce) => {
                bounce.frame(0).write(0, bytes);
                (bounce.address(), Place::Bounce(bounce))
            }
            None => {
                let frame = new_frame()?;
                frame.write(0, bytes);
                let (base, _) = space.map_frames(Placement::Any, &[frame], Prot::READ, true)?;
                let len = PAGE_SIZE;
                (base, Place::Pages { base, len })
            }
        };
        let mapping = Mapping::new(space, place);
        Ok(Self::of_range(address, bytes.len(), Some(mapping)))
    }

    /// Lends the daemon a buffer of the current program. A daemon's own buffer is passed as it is.
    pub fn of_buffer(space: &Arc<AddrSpace>, buf: UserBuf, access: Access) -> Result<Self> {
        if buf.is_empty() {
            return Ok(Self::empty());
        }
        let own = sched::current_space()?;
        if Arc::ptr_eq(space, &own) {
            return Ok(Self::of_range(buf.addr(), buf.len(), None));
        }
        let offset = buf.addr() % PAGE_SIZE;
        let head_len = if offset == 0 { 0 } else { PAGE_SIZE - offset };
        let (head, rest) = buf.split_at(head_len);
        let (middle, tail) = rest.split_at(rest.len() / PAGE_SIZE * PAGE_SIZE);
        if middle.is_empty()
            && let Some(bounce) = space.take_bounce()
        {
            return Self::in_bounce(space, bounce, [head, tail], access);
        }

        let (head_frame, head) = Self::edge(head, offset, access)?;
        let (tail_frame, tail) = Self::edge(tail, 0, access)?;
        let pages = |frame: &Option<FrameRef>| if frame.is_some() { PAGE_SIZE } else { 0 };
        let len = pages(&head_frame) + middle.len() + pages(&tail_frame);
        let frames = [head_frame, tail_frame];
        let rights = access.prot();
        let base = space.borrow_buffer(&own, middle.addr(), middle.len(), frames, rights)?;
        let mapping = Mapping::new(space, Place::Pages { base, len });
        let mut buffer = Self::of_range(base + offset, buf.len(), Some(mapping));
        (buffer.head, buffer.tail) = (head, tail);
        Ok(buffer)
    }

    /// Lends the daemon copies of a buffer without a whole page: nothing has to be mapped for it.
    fn in_bounce(
        space: &Arc<AddrSpace>,
        bounce: BounceBuffer,
        [head, tail]: [UserBuf; 2],
        access: Access,
    ) -> Result<Self> {
        // A buffer that begins on a page boundary has no head, so it lies in the first frame.
        let offset = head.addr() % PAGE_SIZE;
        let (first, second) = if head.is_empty() {
            (tail, None)
        } else {
            (head, Some(tail).filter(|tail| !tail.is_empty()))
        };
        let address = bounce.address() + offset;
        let copied = fill(bounce.frame(0), offset, first, access).and_then(|head| {
            let tail = second.map(|part| fill(bounce.frame(1), 0, part, access));
            Ok((head, tail.transpose()?.flatten()))
        });
        let mapping = Mapping::new(space, Place::Bounce(bounce));
        match copied {
            Ok((head, tail)) => {
                let len = first.len() + second.map_or(0, UserBuf::len);
                let mut buffer = Self::of_range(address, len, Some(mapping));
                (buffer.head, buffer.tail) = (head, tail);
                Ok(buffer)
            }
            Err(error) => {
                // Of the two errors this one came first.
                let _ = mapping.release();
                Err(error)
            }
        }
    }

    /// The frame for an incomplete page of the buffer, and the part to copy back from it.
    fn edge(
        part: UserBuf,
        offset: usize,
        access: Access,
    ) -> Result<(Option<FrameRef>, Option<CopyBack>)> {
        if part.is_empty() {
            return Ok((None, None));
        }
        let frame = new_frame()?;
        let back = fill(&frame, offset, part, access)?;
        Ok((Some(frame), back))
    }

    /// Leaves the buffer with the daemon until its answer comes; the client will not see the
    /// result.
    pub fn abandon(&mut self) -> Option<Mapping> {
        self.head = None;
        self.tail = None;
        self.mapping.take()
    }

    /// Copies incomplete pages back and takes the buffer away from the daemon. `EFAULT` when the
    /// client's buffer cannot be written, or has no page where the daemon used one; `ENOMEM` when
    /// there was no memory for a page of it. Then the daemon's work on it is lost.
    pub fn end(mut self) -> Result<()> {
        let head = self.head.take().map_or(Ok(()), CopyBack::finish);
        let tail = head.and_then(|()| self.tail.take().map_or(Ok(()), CopyBack::finish));
        let released = self.mapping.take().map_or(Ok(()), Mapping::release);
        tail.and(released)
    }
}

impl Drop for RequestBuffer {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            // The request has failed before it was sent.
            let _ = mapping.release();
        }
    }
}

/// Prepares a part of a frame for the daemon. Returns the part to copy back from it. Bytes that
/// the daemon does not change come back as they were: a read may store less than there is room
/// for, and a program may have other data there.
fn fill(
    frame: &FrameRef,
    offset: usize,
    part: UserBuf,
    access: Access,
) -> Result<Option<CopyBack>> {
    let copied = part.read_to_frame(frame, offset);
    if copied.is_err() {
        if access.contains(Access::READ) {
            return copied.map(|()| None);
        }
        // The frame may hold bytes of other requests, which must not reach this client.
        frame.zero(offset, part.len());
    }
    let writable = access.contains(Access::WRITE);
    Ok(writable.then(|| CopyBack {
        frame: frame.clone(),
        offset,
        to: part,
    }))
}

fn new_frame() -> Result<FrameRef> {
    frame::alloc_zeroed().ok_or(Error::new(ENOMEM))
}
