//! Messages through the rings of a connection by the ring protocol alone, without the client
//! library. Each thread has mapped the control page, its own ring and the peer's. Messages take
//! the ring's short way where they can, as the client library's do.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use client_memory::pages::Pages;
use client_memory::rights::Rights;
use client_memory::ring::RingPages;
use hal::copy::{Choices, SMALL_BYTES, Side as MemorySide};
use hal::measure::measure;
use hal::mem::{PAGE, full_fence};
use hal::testing::host;
use scif_abi::bypass::{
    BypassRecord, EPOCH_OFFSET, LOCK_FREE, Part, RECEIVE_LOCK_OFFSET, RECEIVED_OFFSET,
    RMA_BUSY_OFFSET, RMA_BUSY_SLOTS, RMA_BUSY_STEP, SEND_LOCK_OFFSET, SENT_OFFSET,
};
use scif_abi::qp::{BYTES_ARMED_OFFSET, LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, ROOM_ARMED_OFFSET};
use scif_core::{Owner, Place};
use scif_ring::validity::{ValidityMemory, enter, leave};
use scif_ring::{Consumer, Producer, RingError, RingMemory, Side, Word};

use crate::Failure;
use crate::memory::{Node, said};
use crate::messages::Messages;

/// One end of the connection, with its rings mapped.
pub struct End {
    record: BypassRecord,
    control: Pages,
    own: RingPages,
    peer_page: Pages,
    peer_ring: RingPages,
    choices: Choices,
    producer: Producer,
    consumer: Consumer,
}

/// The mapped pages of an end, for one call.
#[derive(Clone, Copy)]
struct View<'a>(&'a End);

/// A bypass handle of an endpoint, and the memory of its parts: address and bytes, in the order of
/// [`Part::ALL`].
#[derive(Clone, Copy)]
pub struct Handle {
    pub record: BypassRecord,
    parts: [(usize, usize); Part::ALL.len()],
}

impl Handle {
    /// Opens a bypass handle of a node's endpoint.
    pub fn open(node: &mut Node, peer: &Node) -> Result<Self, Failure> {
        let (memory, owner) = (&mut node.memory, Owner::default());
        let opened = node.engine.open_bypass(memory, node.endpoint, owner);
        let (handle, record) = opened.map_err(said("bypass"))?;
        let mut parts = [(0, 0); Part::ALL.len()];
        for (part, place) in Part::ALL.into_iter().zip(&mut parts) {
            let found = node.engine.bypass_place(handle, part);
            let (memory, bytes) = found.map_err(said("bypass part"))?;
            let (base, offset) = match memory {
                Place::Own(address) => (&node.ram, address),
                Place::Peer(_, address) => (&peer.ram, address),
            };
            let region = base.part(offset as usize, bytes);
            *place = (region.map_err(said("bypass part"))?.address(), bytes);
        }
        Ok(Self { record, parts })
    }

    /// Returns the address and the bytes of a part.
    pub fn part(&self, part: Part) -> Option<(usize, usize)> {
        let index = Part::ALL.iter().position(|other| *other == part)?;
        self.parts.get(index).copied()
    }
}

impl End {
    /// Opens a bypass handle of a node's endpoint and maps its parts.
    fn open(node: &mut Node, peer: &Node) -> Result<Self, Failure> {
        let handle = Handle::open(node, peer)?;
        let record = handle.record;
        let map = |part| {
            let (address, bytes) = handle.part(part).ok_or("no such part")?;
            mapped(address, bytes)
        };
        let ring = |pages, offset, bytes: u32| {
            RingPages::new(pages, offset, bytes as usize).map_err(said("ring"))
        };
        Ok(Self {
            control: map(Part::Control)?,
            own: ring(map(Part::Own)?, PAGE, record.own_ring_bytes.get())?,
            peer_page: map(Part::PeerQueuePair)?,
            peer_ring: ring(map(Part::PeerRing)?, 0, record.peer_ring_bytes.get())?,
            choices: measure(None).choices,
            producer: Producer::new(record.peer_ring_bytes.get()),
            consumer: Consumer::new(record.own_ring_bytes.get()),
            record,
        })
    }

    #[inline]
    fn holder(&self) -> u32 {
        self.record.handle.get()
    }

    /// Sends all of a message in the usual case: the lock is free, and enough room is known.
    /// Returns false otherwise; then nothing was sent. No end sleeps here, so none needs a
    /// wake-up.
    #[inline]
    fn send_short(&self, message: &[u8]) -> bool {
        let mut view = View(self);
        if message.len() > SMALL_BYTES || !view.try_lock(Side::Send, self.holder()) {
            return false;
        }
        let Some(place) = self.producer.place_short(&view, message.len()) else {
            view.unlock(Side::Send);
            return false;
        };
        let put = self.peer_ring.put_short(place.position, message.into());
        if put.is_err() || self.producer.put_placed(&mut view, place).is_err() {
            view.unlock(Side::Send);
            return false;
        }
        self.producer.unlock_and_must_notify(&mut view);
        true
    }

    /// Receives a whole message in the usual case: the lock is free, and all of the message is
    /// there. Returns false otherwise; then nothing was received.
    #[inline]
    fn receive_short(&self, buffer: &mut [u8]) -> Result<bool, Failure> {
        let bytes = buffer.len();
        let mut view = View(self);
        if bytes > SMALL_BYTES || !view.try_lock(Side::Receive, self.holder()) {
            return Ok(false);
        }
        let wanted = |there: usize| (there >= bytes).then_some(bytes);
        let found = self.consumer.find_short(&view, wanted).ok().flatten();
        let Some(found) = found else {
            view.unlock(Side::Receive);
            return Ok(false);
        };
        let taken = (self.own).take_short(found.position, &buffer.into(), bytes);
        if taken.is_ok() && self.consumer.take_found(&mut view, found) {
            self.consumer.give_back(&mut view).map_err(fault)?;
        }
        view.unlock(Side::Receive);
        Ok(taken.is_ok())
    }
}

impl Messages for End {
    fn open(node: &mut Node, peer: &Node) -> Result<Self, Failure> {
        Self::open(node, peer)
    }

    #[inline]
    fn send(&self, message: &[u8]) -> Result<(), Failure> {
        if self.send_short(message) {
            return Ok(());
        }
        let mut sent = 0;
        while sent < message.len() {
            let moved = self
                .producer
                .send(&mut View(self), self.holder(), &message[sent..]);
            sent += moved.map_err(fault)?.bytes;
        }
        Ok(())
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8], stop: Option<&AtomicBool>) -> Result<bool, Failure> {
        let (mut got, mut is_last_look) = (0, false);
        while got < buffer.len() {
            // Polls as the client library does: without the lock.
            let bytes = match self.consumer.is_empty(&View(self)) {
                true => 0,
                false if got == 0 && self.receive_short(buffer)? => return Ok(true),
                false => {
                    let (mut view, rest) = (View(self), &mut buffer[got..]);
                    let moved = self.consumer.receive(&mut view, self.holder(), rest);
                    moved.map_err(fault)?.bytes
                }
            };
            if bytes == 0
                && let Some(stop) = stop
            {
                if is_last_look {
                    return Ok(false);
                }
                // Bytes sent before the sender stopped are there now.
                is_last_look = stop.load(Ordering::Acquire);
            }
            got += bytes;
        }
        Ok(true)
    }

    #[inline]
    fn look(&self, buffer: &mut [u8]) -> Result<usize, Failure> {
        if self.consumer.is_empty(&View(self)) {
            return Ok(0);
        }
        let moved = self
            .consumer
            .receive(&mut View(self), self.holder(), buffer);
        Ok(moved.map_err(fault)?.bytes)
    }
}

impl View<'_> {
    /// Returns the word in which the handle counts its copies.
    #[inline]
    fn busy_word(&self) -> &AtomicU32 {
        const OFFSET: usize = RMA_BUSY_OFFSET as usize;
        const STEP: usize = RMA_BUSY_STEP as usize;
        let handle = self.0.holder() as usize;
        self.0
            .control
            .u32_of::<OFFSET, STEP, RMA_BUSY_SLOTS>(handle)
    }
}

/// The epoch, and the copies in progress.
impl ValidityMemory for View<'_> {
    #[inline]
    fn epoch(&self) -> u32 {
        let word = self.0.control.u32_at::<{ EPOCH_OFFSET as usize }>();
        word.load(Ordering::Acquire)
    }

    #[inline]
    fn add_busy(&mut self) {
        let word = self.busy_word();
        word.fetch_add(1, Ordering::SeqCst);
    }

    #[inline]
    fn remove_busy(&mut self) {
        let word = self.busy_word();
        word.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Windows of both ends that a client has mapped.
pub struct Windows {
    end: End,
    epoch: u32,
    /// The end's own window, and the peer's.
    pub own: Pages,
    pub peer: Pages,
}

impl Windows {
    /// Maps windows whose memory is at these addresses.
    pub fn map(
        node: &mut Node,
        peer: &Node,
        own: (usize, usize),
        theirs: (usize, usize),
    ) -> Result<Self, Failure> {
        let end = End::open(node, peer)?;
        Ok(Self {
            epoch: View(&end).epoch(),
            end,
            own: mapped(own.0, own.1)?,
            peer: mapped(theirs.0, theirs.1)?,
        })
    }

    /// Copies the first `bytes` bytes in slices, as a client does: it counts as busy during each
    /// slice, and the windows must be valid before and after.
    pub fn copy(&self, from: &Pages, to: &Pages, bytes: usize) -> Result<(), Failure> {
        const SLICE: usize = 1 << 20;
        for at in (0..bytes).step_by(SLICE) {
            let count = SLICE.min(bytes - at);
            if !enter(&mut View(&self.end), self.epoch) {
                return Err("a window has become invalid".into());
            }
            let copied = to.copy_from(at, from, at, count, self.end.choices);
            if !leave(&mut View(&self.end), self.epoch) {
                return Err("a window has become invalid".into());
            }
            copied.map_err(said("copying"))?;
        }
        Ok(())
    }
}

fn fault<E: std::fmt::Debug>(error: RingError<E>) -> Failure {
    format!("ring: {error:?}").into()
}

/// Maps memory that is there already: the simulated system answers with its address.
pub fn mapped(address: usize, bytes: usize) -> Result<Pages, Failure> {
    let system = move |request: host::Request<'_>| match request {
        host::Request::Map { .. } => Ok(address),
        _ => Ok(0),
    };
    let (rights, side) = (Rights::ALL, MemorySide::Own);
    let pages = host::play(system, || Pages::map(0, 0, bytes, rights, side, None));
    pages.map_err(said("mapping"))
}

/// The word of a queue pair page.
macro_rules! word {
    ($pages:expr, $word:expr) => {
        match $word {
            Word::LocalWrite => $pages.u32_at::<{ LOCAL_WRITE_OFFSET as usize }>(),
            Word::LocalRead => $pages.u32_at::<{ LOCAL_READ_OFFSET as usize }>(),
            Word::BytesArmed => $pages.u32_at::<{ BYTES_ARMED_OFFSET as usize }>(),
            Word::RoomArmed => $pages.u32_at::<{ ROOM_ARMED_OFFSET as usize }>(),
        }
    };
}

/// A word of the control page.
macro_rules! of_side {
    ($pages:expr, $side:expr, $take:ident, $send:ident, $receive:ident) => {
        match $side {
            Side::Send => $pages.$take::<{ $send as usize }>(),
            Side::Receive => $pages.$take::<{ $receive as usize }>(),
        }
    };
}

impl RingMemory for View<'_> {
    type Error = hal::Error;

    #[inline]
    fn load(&self, word: Word) -> u32 {
        word!(self.0.own.pages(), word).load(Ordering::Acquire)
    }

    #[inline]
    fn clear(&mut self, word: Word) -> u32 {
        word!(self.0.own.pages(), word).swap(0, Ordering::SeqCst)
    }

    #[inline]
    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), Self::Error> {
        word!(self.0.peer_page, word).store(value, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn flush_peer(&mut self, _word: Word) -> Result<(), Self::Error> {
        Ok(())
    }

    #[inline]
    fn read(&self, offset: usize, buffer: &mut [u8]) {
        // This fails only beyond the end of the ring, where no call reads.
        let to = buffer.into();
        let _ = self.0.own.take(offset as u64, &to, self.0.choices);
    }

    #[inline]
    fn touch(&self, offset: usize) {
        self.0.own.pages().mapped().prefetch(PAGE + offset);
    }

    #[inline]
    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Self::Error> {
        let (ring, choices) = (&self.0.peer_ring, self.0.choices);
        ring.put(offset as u64, bytes.into(), choices)
    }

    #[inline]
    fn fence(&self) {
        full_fence();
    }

    #[inline]
    fn position(&self, side: Side) -> u64 {
        of_side!(self.0.control, side, u64_at, SENT_OFFSET, RECEIVED_OFFSET).load(Ordering::Acquire)
    }

    #[inline]
    fn set_position(&mut self, side: Side, position: u64) {
        of_side!(self.0.control, side, u64_at, SENT_OFFSET, RECEIVED_OFFSET)
            .store(position, Ordering::Release);
    }

    #[inline]
    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        of_side!(
            self.0.control,
            side,
            u32_at,
            SEND_LOCK_OFFSET,
            RECEIVE_LOCK_OFFSET
        )
        .compare_exchange(LOCK_FREE, holder, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
    }

    #[inline]
    fn unlock(&mut self, side: Side) {
        of_side!(
            self.0.control,
            side,
            u32_at,
            SEND_LOCK_OFFSET,
            RECEIVE_LOCK_OFFSET
        )
        .store(LOCK_FREE, Ordering::Release);
    }

    #[inline]
    fn unlock_and_fence(&mut self, side: Side) {
        // A locked exchange is a full fence.
        of_side!(
            self.0.control,
            side,
            u32_at,
            SEND_LOCK_OFFSET,
            RECEIVE_LOCK_OFFSET
        )
        .swap(LOCK_FREE, Ordering::SeqCst);
    }
}
