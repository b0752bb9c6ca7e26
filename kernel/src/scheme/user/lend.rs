//! Buffers of a client in the address space of a daemon, for the time of one request.
//!
//! Whole pages of the client appear there as they are; an incomplete first and last page are
//! copied through a frame of the kernel, so that the daemon sees nothing beside the buffer.

use alloc::{
    sync::{Arc, Weak},
    vec,
};

use ::syscall::error::{EINVAL, ENOMEM, Error, Result};
use bitflags::bitflags;

use crate::{
    mm::{
        PAGE_SIZE,
        frame::{self, FrameRef},
        space::{AddrSpace, Placement, Prot},
    },
    sched,
    syscall::UserBuf,
};

/// What the pointer of an empty buffer is: not null, and nothing is there.
const DANGLING: usize = 1 << 62;

bitflags! {
    /// What the daemon may do with a buffer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u8 {
        /// See what the client has in it.
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

/// Pages in a daemon's address space that the daemon itself cannot unmap.
#[derive(Debug)]
pub struct Lent {
    space: Weak<AddrSpace>,
    base: usize,
    len: usize,
}

impl Lent {
    fn new(space: &Arc<AddrSpace>, base: usize, len: usize) -> Self {
        Self {
            space: Arc::downgrade(space),
            base,
            len,
        }
    }

    /// Takes the pages away from the daemon.
    pub fn take_back(self) {
        if let Some(space) = self.space.upgrade() {
            // Whatever is in the range is the kernel's: the daemon could not replace it.
            let _ = space.unmap_pinned(self.base, self.len);
        }
    }
}

/// A page that goes back to the client when the loan ends.
#[derive(Debug)]
struct CopyBack {
    frame: FrameRef,
    offset: usize,
    to: UserBuf,
}

impl CopyBack {
    fn finish(self) -> Result<()> {
        let mut bytes = vec![0_u8; self.to.len()];
        self.frame.read(self.offset, &mut bytes);
        self.to.write_all(&bytes)
    }
}

/// A buffer while a daemon has it.
#[derive(Debug)]
pub struct Loan {
    address: usize,
    len: usize,
    lent: Option<Lent>,
    head: Option<CopyBack>,
    tail: Option<CopyBack>,
}

impl Loan {
    /// No buffer at all.
    pub fn empty() -> Self {
        Self {
            address: DANGLING,
            len: 0,
            lent: None,
            head: None,
            tail: None,
        }
    }

    /// Address and length of the buffer for the daemon.
    pub fn range(&self) -> (usize, usize) {
        (self.address, self.len)
    }

    /// Lends bytes of the kernel, at most a page, to be read.
    pub fn of_bytes(space: &Arc<AddrSpace>, bytes: &[u8]) -> Result<Self> {
        if bytes.len() > PAGE_SIZE {
            return Err(Error::new(EINVAL));
        }
        if bytes.is_empty() {
            return Ok(Self::empty());
        }
        let frame = new_frame()?;
        frame.write(0, bytes);
        let (address, _) = space.map_frames(Placement::Any, &[frame], Prot::READ, true)?;
        let lent = Lent::new(space, address, PAGE_SIZE);
        Ok(Self {
            address,
            len: bytes.len(),
            lent: Some(lent),
            head: None,
            tail: None,
        })
    }

    /// Lends a buffer of the current program. A daemon's own buffer is passed as it is.
    pub fn of_buffer(space: &Arc<AddrSpace>, buf: UserBuf, access: Access) -> Result<Self> {
        if buf.is_empty() {
            return Ok(Self::empty());
        }
        let own = sched::current_space()?;
        if Arc::ptr_eq(space, &own) {
            let (address, len) = (buf.addr(), buf.len());
            return Ok(Self {
                address,
                len,
                lent: None,
                head: None,
                tail: None,
            });
        }
        let offset = buf.addr() % PAGE_SIZE;
        let head_len = if offset == 0 { 0 } else { PAGE_SIZE - offset };
        let (head, rest) = buf.split_at(head_len);
        let (middle, tail) = rest.split_at(rest.len() / PAGE_SIZE * PAGE_SIZE);

        let (head_frame, head) = Self::edge(head, offset, access)?;
        let (tail_frame, tail) = Self::edge(tail, 0, access)?;
        let pages = |frame: &Option<FrameRef>| if frame.is_some() { PAGE_SIZE } else { 0 };
        let total = pages(&head_frame) + middle.len() + pages(&tail_frame);
        let base = space.find_hole(total)?;

        // From here on a failure must take back what is mapped already.
        let lent = Lent::new(space, base, total);
        let mapped = (|| {
            let mut at = base;
            if let Some(frame) = head_frame {
                map_frame(space, at, frame, access)?;
                at += PAGE_SIZE;
            }
            if !middle.is_empty() {
                let place = Placement::FixedNoReplace(at);
                space.borrow(
                    &own,
                    middle.addr(),
                    middle.len(),
                    place,
                    access.prot(),
                    true,
                )?;
                at += middle.len();
            }
            if let Some(frame) = tail_frame {
                map_frame(space, at, frame, access)?;
            }
            Ok(())
        })();
        if let Err(error) = mapped {
            lent.take_back();
            return Err(error);
        }
        Ok(Self {
            address: base + offset,
            len: buf.len(),
            lent: Some(lent),
            head,
            tail,
        })
    }

    /// The frame for an incomplete page of the buffer, and what to copy back from it.
    fn edge(
        part: UserBuf,
        offset: usize,
        access: Access,
    ) -> Result<(Option<FrameRef>, Option<CopyBack>)> {
        if part.is_empty() {
            return Ok((None, None));
        }
        let frame = new_frame()?;
        if access.contains(Access::READ) {
            frame.write(offset, &part.read_vec()?);
        }
        let writable = access.contains(Access::WRITE);
        let back = writable.then(|| CopyBack {
            frame: frame.clone(),
            offset,
            to: part,
        });
        Ok((Some(frame), back))
    }

    /// Leaves the pages with the daemon until its answer comes; the client will not see it.
    pub fn hand_over(&mut self) -> Option<Lent> {
        self.head = None;
        self.tail = None;
        self.lent.take()
    }

    /// Copies incomplete pages back and takes everything away from the daemon. `EFAULT` when the
    /// client's buffer cannot be written.
    pub fn end(mut self) -> Result<()> {
        let head = self.head.take().map_or(Ok(()), CopyBack::finish);
        let tail = head.and_then(|()| self.tail.take().map_or(Ok(()), CopyBack::finish));
        if let Some(lent) = self.lent.take() {
            lent.take_back();
        }
        tail
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            lent.take_back();
        }
    }
}

fn new_frame() -> Result<FrameRef> {
    frame::alloc_zeroed().ok_or(Error::new(ENOMEM))
}

fn map_frame(space: &AddrSpace, at: usize, frame: FrameRef, access: Access) -> Result<()> {
    space
        .map_frames(Placement::FixedNoReplace(at), &[frame], access.prot(), true)
        .map(drop)
}
