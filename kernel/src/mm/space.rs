//! Address spaces of programs: areas ("grants" in Redox) and the page tables made from them.
//!
//! Addresses and lengths are bytes. Unless a function says otherwise: address or length not a
//! multiple of the page size, or length 0, is `EINVAL`; no room `ENOMEM`; ranges that reach beyond
//! user space are `EINVAL`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

pub use kernel_core::area::{Cache, Placement, Prot};
use ::syscall::data::GrantDesc;
use ::syscall::error::Result;

use super::frame::FrameRef;

/// An address space. Shared by the threads of a process, by descriptors and by borrowers.
#[derive(Debug)]
pub struct AddrSpace {
    _todo: (),
}

/// Kinds of anonymous memory: what a copy-on-write clone makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// The clone gets its own copy, made at the first write.
    Private,
    /// The clone sees the same memory.
    Shared,
}

/// Whose memory a scheme mapping is. Kept alive by the mapping (that is the reference that delays
/// `CloseMsg`).
#[derive(Clone)]
pub struct SchemeGrant {
    /// The open description the memory was mapped through (downcast by the owner of the type).
    pub description: Arc<dyn Any + Send + Sync>,
    /// Offset in the object of the first byte of the mapping (of the piece, once split).
    pub offset: u64,
    /// The map flags of the request (handed back for Munmap).
    pub flags: usize,
}

/// A piece of a scheme mapping that is no longer mapped: its daemon is owed a Munmap.
pub struct Unmapped {
    /// The mapping; `offset` is that of the piece.
    pub grant: SchemeGrant,
    /// Bytes of the piece.
    pub len: usize,
}

impl AddrSpace {
    /// An empty address space, or `ENOMEM`.
    pub fn new() -> Result<Arc<AddrSpace>> {
        unfilled()
    }

    /// The lowest address of the smallest sufficient hole. As the kernel is not preempted, it
    /// stays free until the caller maps there with `Placement::Fixed`.
    pub fn find_hole(&self, len: usize) -> Result<usize> {
        let _ = len;
        unfilled()
    }

    /// Maps zero pages that come into being when touched. Returns the address and what a fixed
    /// placement replaced. `EEXIST`, `EBUSY` (over pinned).
    pub fn map_anonymous(
        &self,
        at: Placement,
        len: usize,
        prot: Prot,
        kind: Anonymous,
    ) -> Result<(usize, Vec<Unmapped>)> {
        let _ = (at, len, prot, kind);
        unfilled()
    }

    /// Maps zeroed physically contiguous memory at once. More than 4 MiB or no such run: `ENOMEM`.
    pub fn map_contiguous(
        &self,
        at: Placement,
        len: usize,
        prot: Prot,
        cache: Cache,
    ) -> Result<(usize, Vec<Unmapped>)> {
        let _ = (at, len, prot, cache);
        unfilled()
    }

    /// Maps device memory at an address of the kernel's choice. `EPERM` when a page of the range is
    /// RAM of the allocator, `EINVAL` when the range ends above 2^52 or is not page aligned.
    pub fn map_physical(&self, phys: usize, len: usize, prot: Prot, cache: Cache) -> Result<usize> {
        let _ = (phys, len, prot, cache);
        unfilled()
    }

    /// Maps the frames that `source` has at `source_addr` (faulting absent ones in) here, eagerly;
    /// RAM frames are referenced, device frames entered raw with their cache attribute. A hole in
    /// `source` is `EIO`. `len` is rounded up to pages.
    pub fn map_scheme(
        &self,
        at: Placement,
        len: usize,
        prot: Prot,
        source: &Arc<AddrSpace>,
        source_addr: usize,
        owner: SchemeGrant,
    ) -> Result<(usize, Vec<Unmapped>)> {
        let _ = (at, len, prot, source, source_addr, owner);
        unfilled()
    }

    /// Maps frames the kernel owns (metadata, head and tail pages of requests, paths).
    pub fn map_frames(
        &self,
        at: Placement,
        frames: &[FrameRef],
        prot: Prot,
        pinned: bool,
    ) -> Result<(usize, Vec<Unmapped>)> {
        let _ = (at, frames, prot, pinned);
        unfilled()
    }

    /// Maps `source`'s pages from `addr` on here; frames are shared as they are touched, and both
    /// sides see each other's stores. The source must be mapped (`EFAULT`) and must have the rights
    /// asked for (`EPERM`), except that plain anonymous memory gives any right. `pinned` mappings
    /// cannot be unmapped by the program.
    pub fn borrow(
        &self,
        source: &Arc<AddrSpace>,
        addr: usize,
        len: usize,
        at: Placement,
        prot: Prot,
        pinned: bool,
    ) -> Result<(usize, Vec<Unmapped>)> {
        let _ = (source, addr, len, at, prot, pinned);
        unfilled()
    }

    /// Moves the mappings of `source` in `[addr, addr+len)` here (`OP_TRANSFER`). `EFAULT` for a
    /// hole, `EBUSY` for pinned ones.
    pub fn transfer(
        &self,
        source: &Arc<AddrSpace>,
        addr: usize,
        len: usize,
        at: Placement,
        prot: Prot,
    ) -> Result<(usize, Vec<Unmapped>)> {
        let _ = (source, addr, len, at, prot);
        unfilled()
    }

    /// Unmaps `[addr, addr+len)`; holes are no error. `EBUSY` when a pinned page is in it. The
    /// caller sends Munmap for the returned pieces.
    pub fn unmap(&self, addr: usize, len: usize) -> Result<Vec<Unmapped>> {
        let _ = (addr, len);
        unfilled()
    }

    /// As `unmap`, for the kernel's own request buffers: takes pinned pages too.
    pub fn unmap_pinned(&self, addr: usize, len: usize) -> Result<Vec<Unmapped>> {
        let _ = (addr, len);
        unfilled()
    }

    /// Unmaps everything (exit of the last thread).
    pub fn clear(&self) -> Vec<Unmapped> {
        unfilled()
    }

    /// Changes the rights of what is mapped in the range; holes are no error. Scheme mappings,
    /// device memory and borrowed ranges can only lose rights (`EACCES`).
    pub fn protect(&self, addr: usize, len: usize, prot: Prot) -> Result<()> {
        let _ = (addr, len, prot);
        unfilled()
    }

    /// All mappings in ascending order, as the `addrspace` handle shows them.
    pub fn grants(&self) -> Vec<GrantDesc> {
        unfilled()
    }

    /// The description behind the scheme mapping at exactly this address (`grant-fd-<hex>`).
    pub fn scheme_grant_at(&self, addr: usize) -> Option<SchemeGrant> {
        let _ = addr;
        unfilled()
    }

    /// Physical address of the *frame* present at `addr` (low 12 bits zero), without faulting.
    pub fn translate(&self, addr: usize) -> Option<usize> {
        let _ = addr;
        unfilled()
    }

    /// Physical address of the byte at `addr`, faulting the page in for writing (futex key).
    pub fn phys_at(&self, addr: usize) -> Result<usize> {
        let _ = addr;
        unfilled()
    }

    /// Copies bytes out of the space; `EFAULT` as `mm::user` says.
    pub fn read(&self, addr: usize, bytes: &mut [u8]) -> Result<()> {
        let _ = (addr, bytes);
        unfilled()
    }

    /// Copies bytes into the space; `EFAULT` as `mm::user` says.
    pub fn write(&self, addr: usize, bytes: &[u8]) -> Result<()> {
        let _ = (addr, bytes);
        unfilled()
    }

    /// A copy of the space whose private memory is copied on the first write of either side.
    /// Contiguous, scheme and borrowed mappings are not inherited.
    pub fn clone_cow(&self) -> Result<Arc<AddrSpace>> {
        unfilled()
    }
}

fn unfilled() -> ! {
    panic!("not filled yet")
}
