//! Memory that is mapped for the peer, and places in the peer's memory.

use alloc::sync::Arc;
use core::ops::Deref;

use scif::raw::{self, Range};
use scif::{MapFlags, Memory, Protection, View};
use st_core::region;
use syscall::error::EFAULT;

use crate::error::{Error, Result};
use crate::shared::{Sent, Shared};

/// Memory that the peer can reach: its announcement and its window. Dropping the value ends both.
pub struct Registered {
    shared: Arc<Shared>,
    channel: u32,
    region: region::Region,
}

impl Registered {
    /// Registers whole pages and announces them on a channel. Level 0 counts from `origin` bytes
    /// behind their beginning. Returns when the peer can use them.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        channel: u32,
        pages: Range<'_>,
        origin: u32,
    ) -> Result<Self> {
        let length = pages.bytes() as u64;
        let offset = shared.with_connection(|connection| match connection.own_region(channel) {
            Some(_) => Err(Error::Busy),
            None => connection.place(length).map_err(|_| Error::Exhausted),
        })?;
        let fd = shared.endpoint.fd();
        let protection = Protection::all().bits();
        let fixed = MapFlags::FIXED.bits();
        raw::register(fd, pages, offset, protection, fixed).map_err(scif::Error::from)?;
        let base = pages.address() as u64;
        let announced = shared.with_connection(|connection| {
            let record = connection.announce_from(channel, base, length, offset, origin);
            record.ok().zip(connection.own_region(channel))
        });
        let Some((record, region)) = announced else {
            raw::unregister(fd, offset, length).map_err(scif::Error::from)?;
            return Err(Error::Busy);
        };
        shared.add_user(channel);
        let registered = Self {
            shared: shared.clone(),
            channel,
            region,
        };
        let error = match shared.send(&record) {
            Ok(Sent::Whole) => return Ok(registered),
            // The peer will learn of it, and then that it is gone.
            Ok(Sent::Begun(error)) => return Err(error),
            Err(error) => error,
        };
        // An announcement that the peer has not received need not be taken back.
        shared.with_connection(|connection| connection.take_back(channel));
        let gone = raw::unregister(fd, offset, length).map_err(scif::Error::from);
        // If the connection has ended, its windows have ended with it.
        match error.is_end() {
            true => Err(error),
            false => gone.map_err(Error::from).and(Err(error)),
        }
    }

    /// Takes the memory back: once this returns, no peer reads or writes it. Dropping does the
    /// same without reporting an error.
    ///
    /// # Errors
    /// `Ended` and others: the connection has gone, and the peer's access with it.
    pub fn unmap(self) -> Result<()> {
        // The drop that follows does not take it back again.
        self.end()
    }

    fn end(&self) -> Result<()> {
        let shared = &self.shared;
        let taken = shared.with_connection(|connection| {
            // Another range may be mapped by now.
            let is_own = connection.own_region(self.channel) == Some(self.region);
            let taken = is_own.then(|| connection.take_back(self.channel)).flatten();
            // In one step: another thread that maps memory now must not announce it before this
            // record.
            taken.map(|(record, region)| (shared.post(&record), region))
        });
        let Some((posted, region)) = taken else {
            return Ok(());
        };
        let gone = raw::unregister(shared.endpoint.fd(), region.offset, region.length);
        gone.map_err(scif::Error::from)?;
        posted
    }

    /// Its first address, by which the peer names it.
    pub const fn base(&self) -> u64 {
        self.region.base
    }

    /// Its length in bytes.
    pub const fn bytes(&self) -> u64 {
        self.region.length
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // An error means that the connection has gone, and the peer's access with it.
        let _ = self.end();
        self.shared.remove_user(self.channel, None, None);
    }
}

/// Memory that is mapped for the peer (`st_map`); dropping it takes it back. While there is one,
/// its channel stays attached.
pub struct Region {
    /// Dropped before the memory.
    registered: Registered,
    memory: Memory,
}

impl Region {
    pub(crate) fn new(shared: &Arc<Shared>, channel: u32, memory: Memory) -> Result<Self> {
        Ok(Self {
            registered: Registered::new(shared, channel, memory.range(), 0)?,
            memory,
        })
    }

    /// Takes the memory back (`st_unmap`): once this returns, the peer can neither read nor write
    /// it.
    ///
    /// # Errors
    /// Those of [`Registered::unmap`].
    pub fn unmap(self) -> Result<Memory> {
        self.registered.unmap()?;
        Ok(self.memory)
    }
}

impl Deref for Region {
    type Target = View;

    #[inline]
    fn deref(&self) -> &View {
        &self.memory
    }
}

/// Maps memory on a channel for the peer, independently of the channel's halves, of which others
/// may be waiting with one. It is of use as long as either half exists.
pub struct Mapper {
    shared: Arc<Shared>,
    channel: u32,
}

impl Mapper {
    pub(crate) fn new(shared: &Arc<Shared>, channel: u32) -> Self {
        Self {
            shared: shared.clone(),
            channel,
        }
    }

    /// Does what [`Sender::map`](crate::Sender::map) does.
    ///
    /// # Errors
    /// Those of [`Sender::map`](crate::Sender::map).
    pub fn map(&self, memory: Memory) -> Result<Region> {
        Region::new(&self.shared, self.channel, memory)
    }

    /// Does what [`Sender::map_range`](crate::Sender::map_range) does.
    ///
    /// # Errors
    /// Those of [`Sender::map_range`](crate::Sender::map_range).
    pub fn map_range(&self, range: Range<'_>) -> Result<Registered> {
        let around = range.around();
        let (pages, origin) = around.ok_or(syscall::error::Error::new(EFAULT))?;
        // Less than a page.
        Registered::new(&self.shared, self.channel, pages, origin as u32)
    }
}

/// Memory that the peer has mapped for this end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Remote {
    pub(crate) link: u32,
    pub(crate) region: region::Region,
}

/// A place in the peer's memory: the bytes from there to its end, which was checked when it was
/// made. After the peer has taken the memory back it leads nowhere, whatever the peer maps later.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    pub(crate) link: u32,
    /// Its offset in the peer's registered address space.
    pub(crate) offset: i64,
    /// Bytes from there to the end of the memory.
    pub(crate) room: u64,
}

impl Remote {
    /// Its length in bytes.
    pub const fn bytes(&self) -> u64 {
        self.region.length
    }

    /// Its first address in the peer's program.
    pub const fn base(&self) -> u64 {
        self.region.base
    }

    /// The number of the peer's announcement on this channel, from 1 on.
    pub const fn generation(&self) -> u32 {
        self.region.generation
    }

    /// The place `ahead` bytes behind its beginning.
    ///
    /// # Errors
    /// `Outside`: that is beyond the end.
    #[inline]
    pub fn at(&self, ahead: u64) -> Result<Place> {
        let room = self.region.length.checked_sub(ahead);
        Ok(Place {
            link: self.link,
            offset: self.region.offset.wrapping_add_unsigned(ahead),
            room: room.ok_or(Error::Outside)?,
        })
    }

    /// The place of ⟨buffer, offset⟩ of level 0, which is `ahead` bytes behind the beginning of
    /// the memory that the peer's program has given.
    ///
    /// # Errors
    /// `Outside`: that is beyond the end.
    pub(crate) fn buffer(&self, ahead: u64) -> Result<Place> {
        self.at(self.region.ahead_of_origin(ahead)?)
    }

    /// The place at an address of the peer's program.
    ///
    /// # Errors
    /// `Outside`: the memory does not have this address.
    pub fn address(&self, address: u64) -> Result<Place> {
        let ahead = address.checked_sub(self.region.base);
        self.at(ahead.ok_or(Error::Outside)?)
    }
}

impl Place {
    /// Its offset, for a transfer of `bytes` bytes on a connection.
    #[inline]
    pub(crate) fn check(&self, shared: &Shared, bytes: u64) -> Result<i64> {
        if self.link != shared.number {
            return Err(Error::Invalid);
        }
        match bytes <= self.room {
            true => Ok(self.offset),
            false => Err(Error::Outside),
        }
    }
}
