//! Registered memory, and mappings of what the peer has registered.

use core::fmt;
use core::ops::{Deref, Range};

use client_memory::memory::{Memory, View};
use client_memory::rights::Rights;
use scif_abi::flags::{MapFlags, Protection};
use syscall::error::EINVAL;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::raw;

/// Options of a registration. By default the window can be read and written, and SCIF chooses its
/// offset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RegisterOptions {
    protection: Protection,
    offset: Option<i64>,
}

impl Default for RegisterOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RegisterOptions {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            protection: Protection::all(),
            offset: None,
        }
    }

    /// The rights of the peer, and of transfers of either side, to the window.
    #[must_use]
    pub const fn protection(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// `SCIF_MAP_FIXED`: the window lies at this offset, a multiple of the page size, or the call
    /// fails with `EADDRINUSE`.
    #[must_use]
    pub const fn fixed(mut self, offset: i64) -> Self {
        self.offset = Some(offset);
        self
    }

    fn offset_and_flags(&self) -> (i64, u32) {
        match self.offset {
            Some(offset) => (offset, MapFlags::FIXED.bits()),
            None => (0, 0),
        }
    }
}

/// Memory that the peer can reach, at an offset of the endpoint's registered address space, until
/// the value is dropped. It borrows the endpoint and the memory, so that neither is dropped before
/// it:
///
/// ```compile_fail,E0505
/// # fn f(endpoint: scif::Endpoint, memory: scif::Memory) -> scif::Result<()> {
/// let window = endpoint.register(&memory)?;
/// drop(memory); // error: `memory` is borrowed
/// window.unregister()
/// # }
/// ```
///
/// ```compile_fail,E0505
/// # fn f(endpoint: scif::Endpoint, memory: scif::Memory) -> scif::Result<()> {
/// let window = endpoint.register(&memory)?;
/// endpoint.close()?; // error: `endpoint` is borrowed
/// window.unregister()
/// # }
/// ```
///
/// A window that was unregistered cannot be used any more:
///
/// ```compile_fail,E0382
/// # fn f(endpoint: scif::Endpoint, memory: scif::Memory) -> scif::Result<()> {
/// let window = endpoint.register(&memory)?;
/// window.unregister()?;
/// endpoint.write_to(window.all(), 0, scif::RmaFlags::SYNC) // error: `window` was moved
/// # }
/// ```
///
/// ```compile_fail,E0505
/// # fn f(endpoint: scif::Endpoint, memory: scif::Memory) -> scif::Result<()> {
/// let window = endpoint.register(&memory)?;
/// let part = window.part(0..8)?;
/// window.unregister()?; // error: `window` is borrowed
/// endpoint.write_to(part, 0, scif::RmaFlags::SYNC)
/// # }
/// ```
///
/// The right order:
///
/// ```
/// # fn f(endpoint: scif::Endpoint, memory: scif::Memory) -> scif::Result<()> {
/// let window = endpoint.register(&memory)?;
/// endpoint.write_to(window.part(0..8)?, 0, scif::RmaFlags::SYNC)?;
/// window.unregister()?;
/// drop(memory);
/// endpoint.close()
/// # }
/// ```
///
/// When a window is dropped, transfers that still run are finished first.
#[derive(Debug)]
pub struct Window<'a> {
    endpoint: &'a Endpoint,
    memory: &'a Memory,
    /// The part of `memory` that is registered, in bytes.
    place: Range<usize>,
    offset: i64,
}

/// A part of a [`Window`], for transfers.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    offset: i64,
    length: u64,
    window: core::marker::PhantomData<&'a ()>,
}

impl Part<'_> {
    /// The part's offset in the endpoint's registered address space.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl Endpoint {
    /// `scif_register`: registers all of `memory`, readable and writable, at an offset of SCIF's
    /// choice.
    ///
    /// # Errors
    /// Those of [`register_with`](Self::register_with).
    pub fn register<'a>(&'a self, memory: &'a Memory) -> Result<Window<'a>> {
        self.register_with(memory, 0..memory.len(), RegisterOptions::new())
    }

    /// `scif_register`: registers the bytes `place` of `memory`, whole pages. Waits until the peer
    /// has acknowledged the window.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EAGAIN` at the user's limit of registered pages, `ECONNRESET`, `EFAULT` when
    /// `place` is not inside, `EINVAL`, `ENODEV`, `ENOMEM`, `ENOTCONN`.
    pub fn register_with<'a>(
        &'a self,
        memory: &'a Memory,
        place: Range<usize>,
        options: RegisterOptions,
    ) -> Result<Window<'a>> {
        let length = length_of(&place)?;
        let range = memory.range().part(place.start, length)?;
        let (offset, flags) = options.offset_and_flags();
        let protection = options.protection.bits();
        self.bypass().release_stale();
        let offset = raw::register(self.fd(), range, offset, protection, flags)?;
        Ok(Window {
            endpoint: self,
            memory,
            place,
            offset,
        })
    }

    /// `scif_mmap`: maps whole pages of the peer's windows, `length` bytes from `offset` of its
    /// registered address space on. Loads and stores then go to the peer's memory directly.
    ///
    /// # Errors
    /// `EACCES` when a window does not allow it, `ECONNRESET`, `EINVAL`, `ENODEV`, `ENOMEM`,
    /// `ENOTCONN`, `ENXIO` when not all of it is registered.
    pub fn map(&self, offset: i64, length: usize, protection: Protection) -> Result<Mapping> {
        let allowed = Rights {
            read: protection.contains(Protection::READ),
            write: protection.contains(Protection::WRITE),
        };
        self.bypass().release_stale();
        Ok(Mapping {
            memory: Memory::map_window(self.fd(), offset, length, allowed)?,
        })
    }
}

fn length_of(range: &Range<usize>) -> Result<usize> {
    let length = range.end.checked_sub(range.start);
    length.ok_or(Error::from_errno(EINVAL))
}

impl<'a> Window<'a> {
    /// The window's offset in the endpoint's registered address space, by which the peer names it.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no window is empty")]
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// The memory that the window is made of.
    pub fn memory(&self) -> &'a Memory {
        self.memory
    }

    /// The whole window, for a transfer.
    pub fn all(&self) -> Part<'_> {
        Part {
            offset: self.offset,
            length: self.place.len() as u64,
            window: core::marker::PhantomData,
        }
    }

    /// The bytes `range` of the window, for a transfer.
    ///
    /// # Errors
    /// `EINVAL` when they are not inside the window.
    pub fn part(&self, range: Range<usize>) -> Result<Part<'_>> {
        let length = length_of(&range)?;
        if range.end > self.place.len() {
            return Err(Error::from_errno(EINVAL));
        }
        Ok(Part {
            offset: self.offset + range.start as i64,
            length: length as u64,
            window: core::marker::PhantomData,
        })
    }

    /// `scif_unregister`. From then on no peer can use the window for new transfers or mappings;
    /// mappings that the peer already has stay as they are. Dropping the window does the same
    /// without reporting an error.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENODEV`, `ENOTCONN`: the connection has gone, and with it the window.
    pub fn unregister(self) -> Result<()> {
        let result = self.end();
        core::mem::forget(self);
        result
    }

    fn end(&self) -> Result<()> {
        let length = self.place.len() as u64;
        let result = raw::unregister(self.endpoint.fd(), self.offset, length);
        self.endpoint.bypass().release_stale();
        Ok(result?)
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        // An error means that the connection has gone, and with it the window.
        let _ = self.end();
    }
}

/// Windows of the peer, mapped: reads and writes go to its memory. The mapping stays valid when
/// the peer unregisters the windows and when either end is closed. Dropping it unmaps the windows.
#[derive(Debug)]
pub struct Mapping {
    memory: Memory,
}

impl Mapping {
    /// Cuts the mapping in two at `offset`, a multiple of the page size, so that each part can be
    /// unmapped alone. Gives the whole mapping back if there is nothing to cut there.
    ///
    /// # Errors
    /// The whole mapping: `offset` is 0, not before its end, or no multiple of the page size.
    pub fn split(self, offset: usize) -> core::result::Result<(Self, Self), Self> {
        match self.memory.split(offset) {
            Ok((first, second)) => Ok((Self { memory: first }, Self { memory: second })),
            Err(memory) => Err(Self { memory }),
        }
    }
}

impl Deref for Mapping {
    type Target = View;

    #[inline]
    fn deref(&self) -> &View {
        &self.memory
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.fd())
    }
}
