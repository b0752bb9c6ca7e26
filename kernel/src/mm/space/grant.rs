//! Daemons' memory that programs have mapped: which mappings there are, and when the daemon learns
//! that a piece is unmapped.

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use kernel_core::queue::{Entry, Queue};
use spin::Mutex;

/// The object whose memory a scheme mapping shows. The mapping keeps the object alive: this
/// reference delays `CloseMsg`.
#[derive(Clone)]
pub struct SchemeGrant {
    object: Arc<Object>,
    /// Offset in the object of the first byte of the mapping (of the piece, once split).
    pub offset: u64,
}

/// The common data of all pieces of a mapping.
struct Object {
    description: Arc<dyn Any + Send + Sync>,
    flags: usize,
    loans: Mutex<Loans>,
}

impl SchemeGrant {
    /// A mapping through an open description, with the map flags of the request.
    pub fn new(description: Arc<dyn Any + Send + Sync>, offset: u64, flags: usize) -> Self {
        let loans = Mutex::default();
        let object = Object {
            description,
            flags,
            loans,
        };
        Self {
            object: Arc::new(object),
            offset,
        }
    }

    /// The open description through which the memory was mapped (downcast by the owner of the
    /// type).
    pub fn description(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.object.description
    }

    /// The map flags of the request, which are returned in Munmap.
    pub fn flags(&self) -> usize {
        self.object.flags
    }

    /// The piece of the mapping from `offset` bytes on.
    pub(super) fn piece(&self, offset: usize) -> Self {
        Self {
            offset: self.offset.wrapping_add(offset as u64),
            object: self.object.clone(),
        }
    }

    /// Records the loans of these pages, if their daemon has them from others.
    pub(super) fn hold(&self, lents: Lents) {
        self.object.loans.lock().holds = lents;
    }

    /// Adds the loan for a mapping elsewhere that gets pages of this one.
    pub(super) fn lend_to(&self, lents: &mut Lents) {
        if !lents.know(&self.object) {
            self.object.loans.lock().lent += 1;
            lents.push(Lent(self.object.clone()));
        }
    }
}

impl fmt::Debug for SchemeGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SchemeGrant {{ offset: {:#x} }}", self.offset)
    }
}

/// A piece of a scheme mapping, which is an area of its own. Once it is no longer mapped, it waits
/// for its daemon to be sent a Munmap.
#[derive(Debug)]
pub struct Piece {
    /// The mapping; `offset` is that of the piece.
    pub grant: SchemeGrant,
    /// Bytes of the piece.
    pub len: usize,
}

/// The loans of one scheme mapping: its pages in mappings elsewhere, for example in an address
/// space that borrows them, or in the daemon that has them as a request's buffer. Frames of RAM
/// are counted, but a device's page may be another node's memory, which that node uses for
/// something else once it knows that nobody maps it. So a daemon gets no Munmap while there are
/// loans.
#[derive(Default)]
struct Loans {
    lent: usize,
    /// Pieces that the program has unmapped while there were loans.
    gone: Pieces,
    /// Loans of other mappings from which these pages come.
    holds: Lents,
}

impl Piece {
    /// Cuts at `offset` bytes: `self` keeps the front, the rest is returned.
    pub(super) fn split(&mut self, offset: usize) -> Self {
        let rest = Self {
            grant: self.grant.piece(offset),
            len: self.len - offset,
        };
        self.len = offset;
        rest
    }
}

/// A piece that is gone, if nobody else has pages of its mapping; otherwise it is kept until the
/// last loan ends.
pub(super) fn unless_lent(piece: Entry<Piece>) -> Option<Entry<Piece>> {
    let object = piece.value().grant.object.clone();
    let mut loans = object.loans.lock();
    if loans.lent == 0 {
        return Some(piece);
    }
    loans.gone.push(piece);
    None
}

/// One loan.
struct Lent(Arc<Object>);

impl Clone for Lent {
    fn clone(&self) -> Self {
        self.0.loans.lock().lent += 1;
        Self(self.0.clone())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut loans = self.0.loans.lock();
        loans.lent -= 1;
        if loans.lent == 0 {
            let gone = core::mem::take(&mut loans.gone);
            drop(loans);
            defer_unmapped(gone);
        }
    }
}

/// The loans of a mapping, one for each scheme mapping whose pages are in it. A list that shares
/// its end with its copies: there may be very many loans, and a cut of the mapping copies the list.
#[derive(Clone, Default)]
pub(super) struct Lents(Option<Arc<Node>>);

struct Node {
    lent: Lent,
    next: Lents,
}

impl Lents {
    fn iter(&self) -> impl Iterator<Item = &Lent> {
        let nodes = core::iter::successors(self.0.as_deref(), |node| node.next.0.as_deref());
        nodes.map(|node| &node.lent)
    }

    fn know(&self, object: &Arc<Object>) -> bool {
        self.iter().any(|lent| Arc::ptr_eq(&lent.0, object))
    }

    fn push(&mut self, lent: Lent) {
        let next = core::mem::take(self);
        self.0 = Some(Arc::new(Node { lent, next }));
    }

    /// Whether loans are missing.
    pub(super) fn lacks(&self, others: &Lents) -> bool {
        others.iter().any(|other| !self.know(&other.0))
    }

    /// Adds the loans that are missing.
    pub(super) fn add(&mut self, others: &Lents) {
        for other in others.iter() {
            if !self.know(&other.0) {
                self.push(other.clone());
            }
        }
    }
}

impl Drop for Lents {
    /// One by one: loans that drop each other would need a stack for all of them.
    fn drop(&mut self) {
        let mut first = self.0.take();
        while let Some(mut node) = first.and_then(Arc::into_inner) {
            first = node.next.0.take();
        }
    }
}

impl fmt::Debug for Lents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lents({})", self.iter().count())
    }
}

/// Pieces of scheme mappings that are gone, in order. Each waits in the place that its area had for
/// it, because a program that ends leaves very many, perhaps when memory is used up.
pub type Pieces = Queue<Piece>;

/// Pieces whose Munmap could not be sent at once.
static LATER: Mutex<Pieces> = Mutex::new(Queue::new());
/// Whether there are such pieces. Every system call checks this, and a load is cheaper than the
/// lock.
static PENDING: AtomicBool = AtomicBool::new(false);

/// Whether [`next_piece`] returns one.
pub(super) fn has_pieces() -> bool {
    PENDING.load(Ordering::Relaxed)
}

/// Takes the oldest deferred piece.
pub(super) fn next_piece() -> Option<Entry<Piece>> {
    let mut later = LATER.lock();
    let piece = later.pop();
    PENDING.store(!later.is_empty(), Ordering::Relaxed);
    piece
}

/// Defers the Munmaps of pieces.
pub(super) fn defer_unmapped(mut pieces: Pieces) {
    let mut later = LATER.lock();
    later.append(&mut pieces);
    PENDING.store(!later.is_empty(), Ordering::Relaxed);
}
