//! The interface between a context and the system around it: memory, lanes and windows.

use crate::record::HEADER_BYTES;
use crate::types::Atomic;

/// A lane: the number that the owner of a context has given to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneId(pub u32);

/// Some of the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub length: usize,
}

/// Data on its way out.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Places in the program's memory.
    Memory(&'a [Place]),
}

/// Where data goes that comes in.
#[derive(Debug)]
pub enum Target<'a> {
    /// There.
    Bytes(&'a mut [u8]),
    /// Into the program's memory.
    Memory(&'a [Place]),
    /// This number of bytes is dropped.
    Nowhere(usize),
}

/// The bytes that can be received on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes.
    pub bytes: usize,
    /// The lane has ended: there will be no others.
    pub has_ended: bool,
}

/// What a look for the next record of a lane has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// Nothing seems to have arrived that was not received, nor the lane to have ended.
    Nothing,
    /// A header, and this number of bytes together with it.
    Record(usize),
    /// [`available`](Host::available) has to say what is there.
    Unknown,
}

/// Why a window was not copied to or from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// The window has ended: its owner has deregistered the memory.
    NoWindow,
    /// The lane has ended.
    Ended,
    /// The lane's bus cannot do this.
    NotSupported,
}

/// The program's memory, the lanes' byte streams, and windows of registered memory on them.
///
/// The context has checked what it passes: places lie in registered memory, and bytes that are to
/// be received are there.
pub trait Host {
    /// Copies out of the program's memory.
    fn read(&mut self, address: u64, to: &mut [u8]);

    /// Copies into the program's memory.
    fn write(&mut self, address: u64, from: &[u8]);

    /// Bytes that can be sent on a lane now; none on one that has ended.
    fn room(&mut self, lane: LaneId) -> usize;

    /// Sends a header and its payload, for which there is room. A host may keep the end of it back
    /// until the lane is [flushed](Self::flush) or asked for room.
    fn send(&mut self, lane: LaneId, header: &[u8; HEADER_BYTES], payload: Source<'_>);

    /// Sends a header and its payload of `bytes` bytes, if there is room; whether it did.
    fn send_if_room(
        &mut self,
        lane: LaneId,
        header: &[u8; HEADER_BYTES],
        payload: Source<'_>,
        bytes: usize,
    ) -> bool {
        let has_room = self.room(lane) >= HEADER_BYTES + bytes;
        if has_room {
            self.send(lane, header, payload);
        }
        has_room
    }

    /// Sends what is left of what was sent; whether nothing is left. Nothing is left on a lane that
    /// has ended, and with a host that keeps nothing back.
    fn flush(&mut self, _lane: LaneId) -> bool {
        true
    }

    /// Whether the peer of a lane may still take what is sent. A peer that has died takes nothing,
    /// also while bytes are to be received that were sent before.
    fn may_send(&mut self, lane: LaneId) -> bool;

    /// The bytes that can be received, as far as the host knows; it looks for more if they are
    /// fewer than `wanted`. Whether the lane has ended is checked first: bytes that were sent
    /// before the end are among them.
    fn available(&mut self, lane: LaneId, wanted: usize) -> Available;

    /// Whether [`peek`](Self::peek) would find nothing, as far as a few loads tell.
    #[inline]
    fn is_quiet(&mut self, lane: LaneId) -> bool {
        self.peek(lane, &mut [0; HEADER_BYTES]) == Peeked::Nothing
    }

    /// Looks for the next record of a lane and copies its header, by few instructions. Nothing is
    /// received by this, and [`receive`](Self::receive) gives the same bytes when
    /// [`available`](Self::available) was asked for them.
    fn peek(&mut self, lane: LaneId, header: &mut [u8; HEADER_BYTES]) -> Peeked;

    /// Receives bytes that are available, as many as the target takes.
    fn receive(&mut self, lane: LaneId, target: Target<'_>);

    /// Receives a record that was [peeked](Self::peek) at: its payload, which is there, goes into
    /// one place, if it has one. Whether it did; if not, nothing was received: a peer may have
    /// spoilt the lane since then, or a look at it was interrupted.
    fn receive_record(&mut self, lane: LaneId, to: Option<Place>) -> bool {
        self.receive(lane, Target::Nowhere(HEADER_BYTES));
        self.receive(lane, Target::Memory(to.as_slice()));
        true
    }

    /// Makes memory of the program a window of a lane, which a peer may write to or only read; its
    /// number, by which the peer names it.
    ///
    /// # Errors
    /// `Ended`; `NoWindow`: there is no room for another window.
    fn expose(&mut self, lane: LaneId, place: Place, writes: bool) -> Result<u64, NotMoved>;

    /// Ends a window of the own memory. When this returns nobody copies to or from it.
    fn withdraw(&mut self, lane: LaneId, window: u64);

    /// Copies into the peer's window, in ascending order, the last bytes last, and before anything
    /// that is sent on the lane afterwards.
    ///
    /// # Errors
    /// All of [`NotMoved`].
    fn put(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        from: Source<'_>,
    ) -> Result<(), NotMoved>;

    /// Copies out of the peer's window into the program's memory.
    ///
    /// # Errors
    /// All of [`NotMoved`].
    fn get(&mut self, lane: LaneId, window: u64, offset: u64, to: &[Place])
    -> Result<(), NotMoved>;

    /// An atomic operation on 8 aligned bytes of the peer's window; what was there before.
    ///
    /// # Errors
    /// All of [`NotMoved`].
    fn atomic(
        &mut self,
        lane: LaneId,
        window: u64,
        offset: u64,
        operation: Atomic,
    ) -> Result<u64, NotMoved>;

    /// An atomic operation on 8 aligned bytes of the program's own memory, for a peer whose bus has
    /// none; what was there before. A host whose peers also reach this memory by a bus that has
    /// them must do it in one step.
    fn atomic_own(&mut self, address: u64, operation: Atomic) -> u64 {
        let mut word = [0; 8];
        self.read(address, &mut word);
        let before = u64::from_ne_bytes(word);
        if let Some(after) = operation.after(before) {
            self.write(address, &after.to_ne_bytes());
        }
        before
    }
}
