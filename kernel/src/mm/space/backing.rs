//! The memory behind an area of an address space.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use ::syscall::error::{ENOMEM, Error, Result};
use kernel_core::area::Cache;
use kernel_core::queue::Entry;
use spin::Mutex;

use super::AddrSpace;
use super::grant::{Lents, Piece};
use crate::mm::frame::{self, FrameRef};

/// Kinds of anonymous memory, by what a copy-on-write clone makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// The clone gets its own copy, made at the first write.
    Private,
    /// The clone sees the same memory.
    Shared,
}

/// Pages of shared anonymous memory by offset; several spaces may map them.
pub(super) type SharedPages = Mutex<BTreeMap<usize, FrameRef>>;

/// The memory behind an area. What has to be done when the area is gone has its place in a queue
/// from the start: there may be no memory for that at the end.
#[derive(Debug)]
pub(super) enum Backing {
    /// Zero pages, made at the first touch, copied on a store after a clone.
    Private,
    /// Zero pages, made at the first touch, the same in every mapping; `first` is the offset.
    Shared {
        pages: Arc<SharedPages>,
        first: usize,
    },
    /// Zeroed contiguous memory, entered at once.
    Contiguous,
    /// Device memory.
    Physical { phys: usize, cache: Cache },
    /// A daemon's frames, entered at once.
    Scheme(Entry<Piece>),
    /// Frames of the kernel, entered at once.
    Frames,
    /// Pages of another space (`None`: of this one) from `addr` on, entered at the first touch.
    Borrowed {
        source: Option<Entry<Arc<AddrSpace>>>,
        addr: usize,
        lents: Lents,
        /// Of a client's buffer of which not all pages are entered from the start.
        spare: Option<Spare>,
    },
}

/// A page that stands in for each page of a client's buffer that cannot be had: the client has
/// unmapped it in the middle of the request, or there is no memory for it. It is kept from the
/// start, because its daemon must not fault. What the daemon stores there reaches nobody.
#[derive(Clone, Debug)]
pub(super) struct Spare {
    /// The page.
    pub(super) frame: FrameRef,
    /// Why it stands in for a page, once it does.
    pub(super) why: Option<Error>,
}

impl Spare {
    /// An empty page, or `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let frame = frame::alloc_zeroed().ok_or(Error::new(ENOMEM))?;
        Ok(Self { frame, why: None })
    }
}

impl kernel_core::area::Backing for Backing {
    fn split(&mut self, offset: usize) -> Self {
        match self {
            Backing::Private => Backing::Private,
            Backing::Shared { pages, first } => Backing::Shared {
                pages: pages.clone(),
                first: *first + offset,
            },
            Backing::Contiguous => Backing::Contiguous,
            Backing::Physical { phys, cache } => Backing::Physical {
                phys: *phys + offset,
                cache: *cache,
            },
            Backing::Scheme(piece) => Backing::Scheme(Entry::new(piece.value_mut().split(offset))),
            Backing::Frames => Backing::Frames,
            Backing::Borrowed {
                source,
                addr,
                lents,
                spare,
            } => Backing::Borrowed {
                source: source
                    .as_ref()
                    .map(|source| Entry::new(source.value().clone())),
                addr: *addr + offset,
                lents: lents.clone(),
                spare: spare.clone(),
            },
        }
    }

    fn continues(&self, _len: usize, next: &Self) -> bool {
        matches!((self, next), (Backing::Private, Backing::Private))
    }
}

impl Backing {
    /// Adds the loans for a mapping elsewhere that gets pages of this memory.
    pub(super) fn lend_to(&self, lents: &mut Lents) {
        match self {
            Backing::Scheme(piece) => piece.value().grant.lend_to(lents),
            Backing::Borrowed { lents: own, .. } => lents.add(own),
            _ => {}
        }
    }

    /// The error of a page for which a spare page stands in.
    pub(super) fn check_pages(&self) -> Result<()> {
        match self {
            Backing::Borrowed {
                spare: Some(Spare { why: Some(why), .. }),
                ..
            } => Err(*why),
            _ => Ok(()),
        }
    }

    /// Whether the program may later get any right to the pages.
    pub(super) fn is_own(&self) -> bool {
        matches!(
            self,
            Backing::Private | Backing::Shared { .. } | Backing::Contiguous
        )
    }
}
