//! The interface between the scheme and its node: memory that the engine works on, memory objects
//! that programs map, and the doorbells of other nodes. The driver implements it; tests use plain
//! memory.

use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::call::PinRecord;
use scif_abi::limits::PAGE_BYTES;
use scif_core::{Memory, Place, Run};
use syscall::error::Result;

pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

/// Names a memory object, here and in requests. Never 0, and random, so that only a program that
/// was given it can name the object.
pub type Token = u64;

/// Names a range of addresses that was made of pieces.
pub type JoinId = u64;

/// Pieces of memory as one range of addresses in this task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct View {
    /// Of the first byte.
    pub address: usize,
    /// For [`NodeMemory::end_join`], if the range was made for this.
    pub join: Option<JoinId>,
}

/// The progress of a memory object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// Another thread is at work; the driver's loop wakes when that has changed.
    Pending,
    /// It is complete: its runs, in order.
    Complete(Vec<Run>),
}

/// The doorbells of the nodes that memory is shared with.
pub trait Doorbells {
    /// Rings the doorbell of `node`: there are messages in its ring.
    fn ring(&mut self, node: NodeId);
}

/// The memory of objects, which programs map and the engine knows as runs of pages; an object is
/// named by its token.
pub trait ObjectMemory {
    /// A program's address space, as the program sent it.
    type Space;

    /// Begins an object of `pages` zeroed pages; [`build`](Self::build) completes it.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn provide(&mut self, token: Token, pages: u64) -> Result<()>;

    /// Begins an object of pages of the program behind `space`, whole ones; [`build`](Self::build)
    /// completes it.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn pin(&mut self, token: Token, space: Self::Space, record: &PinRecord) -> Result<()>;

    /// Releases a space that is not used for pinning. The holder of the last reference to one
    /// may have to tear it down, so this is not for the task that serves the scheme to do.
    fn release_space(&mut self, space: Self::Space);

    /// Does a bounded piece of the work on an object.
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL` when what was sent is no address space; `EFAULT` when a page to be pinned
    /// is not there, does not allow what the record says, or is no ordinary memory.
    fn build(&mut self, token: Token) -> Result<Progress>;

    /// Gives up an object, complete or not.
    fn discard(&mut self, token: Token);

    /// Address of an object's first byte in this task; the others follow.
    fn view(&self, token: Token) -> Option<usize>;
}

/// The memory of a node.
pub trait NodeMemory: Memory + ObjectMemory + Doorbells {
    /// 64 random bits that cannot be guessed.
    fn random(&mut self) -> u64;

    /// Bytes of own memory that are handed out to the engine at present.
    fn allocated_bytes(&self) -> usize;

    /// Bytes of own memory that the engine has given back and that are kept for it.
    fn spare_bytes(&self) -> usize;

    /// Address in this task of `bytes` contiguous bytes at a place; `None` when it has none.
    fn view_of(&self, place: Place, bytes: usize) -> Option<usize>;

    /// Makes pieces, of own memory or all of one peer's, one range of addresses in this task,
    /// unless they are one already. `None` when that cannot be.
    fn join(&mut self, pieces: &[(Place, u64)]) -> Option<View>;

    /// A range that [`join`](Self::join) made is needed no longer.
    fn end_join(&mut self, id: JoinId);

    /// Address of a place for this node's processors and devices; `None` when it has none.
    fn physical(&self, place: Place) -> Option<u64>;
}
