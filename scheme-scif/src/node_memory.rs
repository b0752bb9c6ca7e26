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
/// was given the token can name the object.
pub type Token = u64;

/// Names a range of addresses that was joined from pieces.
pub type JoinId = u64;

/// Pieces of memory joined into one range of addresses in this task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct View {
    /// Address of the first byte.
    pub address: usize,
    /// The name for [`NodeMemory::end_join`], if the range was made for this view.
    pub join: Option<JoinId>,
}

/// The progress of a memory object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Progress {
    /// More work is left.
    More,
    /// Another thread is at work; the driver's loop wakes when that thread is done.
    Pending,
    /// The object is complete: its runs, in order.
    Complete(Vec<Run>),
}

/// The doorbells of the nodes with which this node shares memory.
pub trait Doorbells {
    /// Rings the doorbell of `node`, because its ring holds messages.
    fn ring(&mut self, node: NodeId);
}

/// The memory of objects: programs map them, the engine handles them as runs of pages. A token
/// names an object.
pub trait ObjectMemory {
    /// A reference to a program's address space, sent by the program.
    type Space: Clone;

    /// Begins an object of `pages` zeroed pages; [`build`](Self::build) completes it.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn provide(&mut self, token: Token, pages: u64) -> Result<()>;

    /// Begins an object of whole pages of the program behind `space`; [`build`](Self::build)
    /// completes it. Processes take turns, however many such objects they have begun.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn pin(
        &mut self,
        token: Token,
        process: usize,
        space: Self::Space,
        record: &PinRecord,
    ) -> Result<()>;

    /// Drops a reference to a space. Whoever drops the last one may have to tear the space down, so
    /// the task that serves the scheme must not do it itself.
    fn release_space(&mut self, space: Self::Space);

    /// Does a bounded part of the work on an object.
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL` when the descriptor that was sent is no address space; `EFAULT` when a
    /// page to pin is not there, does not allow what the record says, or is no ordinary memory.
    fn build(&mut self, token: Token) -> Result<Progress>;

    /// Discards an object, complete or not.
    fn discard(&mut self, token: Token);

    /// Address of an object's first byte in this task. The object is one range of addresses.
    fn view(&self, token: Token) -> Option<usize>;
}

/// The memory of a node.
pub trait NodeMemory: Memory + ObjectMemory + Doorbells {
    /// 64 random bits that cannot be guessed.
    fn random(&mut self) -> u64;

    /// Bytes of own memory that the engine has allocated at present.
    fn allocated_bytes(&self) -> usize;

    /// Bytes of own memory that the engine has freed and that are kept for it.
    fn spare_bytes(&self) -> usize;

    /// Address in this task of `bytes` contiguous bytes at a place; `None` when they have none.
    fn view_of(&self, place: Place, bytes: usize) -> Option<usize>;

    /// Joins pieces, all of own memory or all of one peer's, into one range of addresses in this
    /// task, unless they already are one. `None` when that is impossible.
    fn join(&mut self, pieces: &[(Place, u64)]) -> Option<View>;

    /// Releases a range that [`join`](Self::join) made.
    fn end_join(&mut self, id: JoinId);

    /// Physical address of a place for this node's processors and devices; `None` when it has
    /// none.
    fn physical(&self, place: Place) -> Option<u64>;
}
