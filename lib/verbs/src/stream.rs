//! A lane over a SCIF connection.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use hal::idle_poll::Watched;
use scif::kernel::PinnedPages;
use scif::raw::{self, Range};
use scif::{Endpoint, Errno, MapFlags, Protection, RecvFlags, RmaFlags, SendFlags};
use syscall::error::ENODEV;
use syscall::flag::EventFlags;
use verbs_core::host::{Available, NotMoved, Peeked};
use verbs_core::record::{HEADER_BYTES, MAX_PAYLOAD};
use verbs_core::types::Access;

/// Most bytes of a record.
pub const MAX_RECORD: usize = HEADER_BYTES + MAX_PAYLOAD;
/// Most bytes that are received from the connection at a time.
const INBOX_BYTES: usize = 16 * 1024;

/// A lane over a SCIF connection.
pub struct Stream {
    endpoint: Endpoint,
    /// Bytes that have arrived: those of `inbox[from..to]`.
    inbox: Vec<u8>,
    from: usize,
    to: usize,
    /// Bytes that were sent and have found no room.
    outbox: Vec<u8>,
    /// Nothing more arrives, and nothing can be sent.
    has_ended: bool,
    /// Whether to look for bytes although nothing indicates any.
    looks: bool,
    /// The driver of the connection has died: after the bytes that have arrived nothing comes.
    is_dead: bool,
    /// This end's windows, by the numbers that the peer knows: where they begin, and their bytes.
    windows: BTreeMap<u64, (i64, u64)>,
    /// The events of this lane that each event queue reports, by
    /// [`Watcher`](crate::watch::Watcher); `None`: it has not been asked.
    pub watched: [Option<EventFlags>; 2],
    /// Bytes wait for room.
    pub wants_room: bool,
}

impl Stream {
    /// A lane over a connected endpoint, which must not block.
    pub fn new(endpoint: Endpoint) -> Self {
        // If the rings cannot be mapped, the driver moves the bytes.
        let _ = endpoint.prepare();
        Self {
            endpoint,
            inbox: vec![0; INBOX_BYTES],
            from: 0,
            to: 0,
            outbox: Vec::new(),
            has_ended: false,
            looks: true,
            is_dead: false,
            windows: BTreeMap::new(),
            // The owner's queue may have it as a connection that is being made.
            watched: [None, Some(EventFlags::empty())],
            wants_room: false,
        }
    }

    pub fn fd(&self) -> usize {
        self.endpoint.fd()
    }

    /// Whether the connection has taken all that was sent.
    pub fn is_flushed(&self) -> bool {
        self.outbox.is_empty() || self.has_ended
    }

    /// The number of this end's windows.
    pub fn exposed(&self) -> usize {
        self.windows.len()
    }

    /// Checks whether the connection is alive, by asking the driver about once a second.
    pub fn check(&mut self) {
        if !self.endpoint.is_live() {
            self.looks = true;
            // A receive need not find the death of the driver, which it does not ask again so
            // soon.
            let there = self.endpoint.local();
            self.is_dead |= there.is_err_and(|error| error.errno() == ENODEV);
        }
    }

    /// Notes that the driver of the connection has died.
    pub fn lose_driver(&mut self) {
        self.is_dead = true;
    }

    // ---- The stream ----

    /// The number of bytes that can be sent: those of a whole record, or 0.
    #[inline(always)]
    pub fn room(&mut self) -> usize {
        if self.outbox.is_empty() && !self.has_ended {
            return MAX_RECORD;
        }
        match self.flush() && !self.has_ended {
            true => MAX_RECORD,
            false => 0,
        }
    }

    /// Sends bytes that found no room before. Returns whether [nothing is left](Self::is_flushed).
    #[inline(always)]
    pub fn flush(&mut self) -> bool {
        if self.outbox.is_empty() {
            self.wants_room = false;
            return true;
        }
        self.flush_rest()
    }

    #[cold]
    fn flush_rest(&mut self) -> bool {
        if !self.is_flushed() {
            // An error is the end, which is reported after the bytes that have arrived.
            let sent = self.endpoint.send(&self.outbox, SendFlags::empty());
            self.outbox.drain(..sent.unwrap_or(0));
        }
        self.wants_room = !self.is_flushed();
        !self.wants_room
    }

    /// Sends a record directly, if its payload is accessible and nothing prevents it. Returns
    /// whether it did.
    #[inline(always)]
    pub fn send_at_once<'a>(
        &self,
        header: &[u8; HEADER_BYTES],
        payload: impl raw::Data<'a>,
    ) -> bool {
        self.outbox.is_empty() && !self.has_ended && self.endpoint.send_record(header, payload)
    }

    /// Sends a record for which there is room.
    pub fn send(&mut self, record: &[u8]) {
        let sent = self.endpoint.send(record, SendFlags::empty());
        let rest = record.get(sent.unwrap_or(0)..).unwrap_or_default();
        self.outbox.extend_from_slice(rest);
    }

    /// Whether the peer may still receive what is sent. [`available`](Self::available) does not
    /// look for the end while enough bytes are there.
    pub fn may_send(&self) -> bool {
        !self.has_ended && !self.is_dead && self.endpoint.is_live()
    }

    /// Whether nothing indicates bytes that have not been looked for.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.from == self.to && !self.looks && !self.is_dead && !self.endpoint.may_be_readable()
    }

    /// The words that change when the next bytes come or the connection ends. `None`: no words
    /// tell that, or bytes wait for room.
    pub fn watched(&self) -> Option<[Watched; 2]> {
        match self.wants_room {
            true => None,
            false => self.endpoint.watched(self.endpoint.arrived()?),
        }
    }

    /// Looks for the next record and copies its header: in the connection's ring, or in the inbox
    /// if that has bytes.
    #[inline(always)]
    pub fn peek(&mut self, header: &mut [u8; HEADER_BYTES]) -> Peeked {
        if self.from == self.to {
            if self.looks || self.is_dead {
                return Peeked::Unknown;
            }
            return match self.endpoint.peek(header) {
                scif::Peeked::Nothing => Peeked::Nothing,
                scif::Peeked::Bytes(bytes) => Peeked::Record(bytes),
                scif::Peeked::Unknown => Peeked::Unknown,
            };
        }
        let there = self.inbox.get(self.from..self.to).unwrap_or_default();
        match there.first_chunk() {
            Some(first) => {
                *header = *first;
                Peeked::Record(there.len())
            }
            None => Peeked::Unknown,
        }
    }

    /// Receives a record that [`peek`](Self::peek) has found, whose payload fills `to`. Returns
    /// whether it did; if not, [`available`](Self::available) can bring it into the inbox, and
    /// [`take`](Self::take) take it from there.
    #[inline(always)]
    pub fn take_record<'a>(&mut self, to: impl raw::Room<'a>) -> bool {
        self.from == self.to && self.endpoint.recv_behind(HEADER_BYTES, to)
    }

    /// The bytes that have arrived. Looks for more if they are fewer than `wanted`.
    pub fn available(&mut self, wanted: usize) -> Available {
        let bytes = self.to - self.from;
        if bytes < wanted
            && !self.has_ended
            && (self.looks || self.is_dead || self.endpoint.may_be_readable())
        {
            self.fill();
        }
        Available {
            bytes: self.to - self.from,
            has_ended: self.has_ended,
        }
    }

    fn fill(&mut self) {
        self.looks = false;
        if self.from > 0 {
            self.inbox.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let Some(buffer) = self.inbox.get_mut(self.to..) else {
            return;
        };
        match self.endpoint.recv(buffer, RecvFlags::empty()) {
            Ok(0) => self.has_ended |= self.is_dead,
            Ok(count) => self.to += count,
            Err(scif::Error::Scif(Errno::Interrupted)) => self.looks = true,
            Err(_) => self.has_ended = true,
        }
    }

    /// Takes up to `count` available bytes.
    pub fn take(&mut self, count: usize) -> &[u8] {
        let from = self.from;
        self.from += count.min(self.to - from);
        self.inbox.get(from..self.from).unwrap_or_default()
    }

    // ---- Windows ----

    /// Makes memory a window for the operations of `access`: a peer without the library may do no
    /// others. `is_borrowed`: the memory is another program's, mapped here by a daemon, which has
    /// counted its pages itself.
    pub fn expose(
        &mut self,
        range: Range<'_>,
        access: Access,
        is_borrowed: bool,
    ) -> Result<u64, NotMoved> {
        let (pages, ahead) = range.around().ok_or(NotMoved::NoWindow)?;
        let needs = |operation: Access| access.intersects(operation | Access::REMOTE_ATOMIC);
        let mut protection = Protection::empty();
        protection.set(Protection::READ, needs(Access::REMOTE_READ));
        protection.set(Protection::WRITE, needs(Access::REMOTE_WRITE));
        let registered = match is_borrowed {
            // The window keeps the pages pinned.
            true => PinnedPages::pin(pages, protection, MapFlags::empty())
                .and_then(|pinned| pinned.register(&self.endpoint, 0, MapFlags::empty())),
            false => raw::register(self.fd(), pages, 0, protection.bits(), 0)
                .map_err(scif::Error::from_errno),
        };
        let offset = registered.map_err(|error| match error {
            scif::Error::Scif(Errno::AccessDenied) => NotMoved::NotThere,
            _ => match self.not_moved(error) {
                NotMoved::NotSupported => NotMoved::NoWindow,
                reason => reason,
            },
        })?;
        let number = (offset as u64).wrapping_add(ahead as u64);
        let length = pages.bytes() as u64;
        self.windows.insert(number, (offset, length));
        Ok(number)
    }

    /// Ends a window.
    pub fn withdraw(&mut self, window: u64) {
        if let Some((offset, length)) = self.windows.remove(&window) {
            // An error means that the connection has gone, and the window with it.
            let _ = raw::unregister(self.fd(), offset, length);
        }
    }

    /// Copies into a window of the peer.
    pub fn put(&mut self, from: raw::Source<'_>, window: u64, offset: u64) -> Result<(), NotMoved> {
        let at = window.wrapping_add(offset) as i64;
        let flags = RmaFlags::SYNC;
        let moved = self.endpoint.vwrite_source(from, at, flags);
        moved.map_err(|error| self.not_moved(error))
    }

    /// Makes what was put arrive before what is sent afterwards.
    pub fn drain(&self) {
        if self.endpoint.gathers() {
            hal::mem::drain_writes();
        }
    }

    /// Copies out of a window of the peer.
    pub fn get(&mut self, to: Range<'_>, window: u64, offset: u64) -> Result<(), NotMoved> {
        let at = window.wrapping_add(offset) as i64;
        let moved = self.endpoint.vread_target(to.into(), at, RmaFlags::SYNC);
        moved.map_err(|error| self.not_moved(error))
    }

    /// Does an atomic operation in a window of the peer.
    pub fn fetch(
        &mut self,
        window: u64,
        offset: u64,
        operation: impl FnOnce(&core::sync::atomic::AtomicU64) -> u64,
    ) -> Result<u64, NotMoved> {
        let at = window.wrapping_add(offset) as i64;
        let before = self.endpoint.fetch(at, operation);
        before.map_err(|error| self.not_moved(error))
    }

    fn not_moved(&mut self, error: scif::Error) -> NotMoved {
        self.is_dead |= matches!(error, scif::Error::Scif(Errno::NoDevice));
        match error {
            scif::Error::Scif(
                Errno::ConnectionReset | Errno::NotConnected | Errno::NoDevice | Errno::Interrupted,
            ) => {
                self.looks = true;
                NotMoved::Ended
            }
            scif::Error::Scif(Errno::NotSupported | Errno::InvalidArgument) => {
                NotMoved::NotSupported
            }
            scif::Error::Scif(Errno::BadAddress) => NotMoved::NotThere,
            _ => NotMoved::NoWindow,
        }
    }
}
