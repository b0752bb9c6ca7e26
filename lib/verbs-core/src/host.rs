//! The interface between a context and the system around it: memory, lanes and windows.

use crate::record::HEADER_BYTES;
use crate::types::{Access, Atomic};

/// A lane: the number by which the owner of a context identifies a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneId(pub u32);

/// A range of the program's memory, in a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The key of the region. Other regions may have the same addresses, and in a daemon other
    /// pages and other rights.
    pub key: u32,
    /// The first byte.
    pub address: u64,
    /// The length in bytes.
    pub length: usize,
}

/// Data to send.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Places in the program's memory.
    Memory(&'a [Place]),
}

/// Where received data is stored.
#[derive(Debug)]
pub enum Target<'a> {
    /// In this buffer.
    Bytes(&'a mut [u8]),
    /// In the program's memory.
    Memory(&'a [Place]),
    /// This number of bytes is dropped.
    Nowhere(usize),
}

/// The result of [`Host::available`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes that can be received now.
    pub bytes: usize,
    /// The lane has ended: no more bytes will arrive.
    pub has_ended: bool,
}

/// The result of [`Host::peek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// No bytes wait to be received, and the lane does not seem to have ended.
    Nothing,
    /// A header was copied. The record and what follows it are this number of bytes.
    Record(usize),
    /// This look cannot tell; [`available`](Host::available) can.
    Unknown,
}

/// Why a copy to or from a window was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// The window has ended: its owner has deregistered the memory.
    NoWindow,
    /// The lane has ended.
    Ended,
    /// The lane's bus does not have this operation.
    NotSupported,
    /// The program's own memory is not there.
    NotThere,
}

/// Registered memory of the program is not there: it has unmapped it, or taken its rights away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotThere;

impl From<NotThere> for NotMoved {
    fn from(_: NotThere) -> NotMoved {
        NotMoved::NotThere
    }
}

/// Access to the program's memory, to the byte streams of the lanes, and to the windows of
/// registered memory on them.
///
/// The context has checked its arguments: places lie in registered memory, and bytes to receive
/// have arrived.
pub trait Host {
    /// Copies out of the program's memory as many bytes as `to` has, at most those of `from`.
    ///
    /// # Errors
    /// The memory is not there.
    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<(), NotThere>;

    /// Copies into the program's memory the bytes `from`, at most as many as `to` has.
    ///
    /// # Errors
    /// The memory is not there.
    fn write(&mut self, to: Place, from: &[u8]) -> Result<(), NotThere>;

    /// The number of bytes that can be sent on a lane now; 0 on a lane that has ended.
    fn room(&mut self, lane: LaneId) -> usize;

    /// Sends a header and its payload, for which there is room. A host may hold back the last part
    /// until the lane is [flushed](Self::flush) or asked for room.
    ///
    /// # Errors
    /// The memory of the payload is not there, and nothing was sent.
    fn send(
        &mut self,
        lane: LaneId,
        header: &[u8; HEADER_BYTES],
        payload: Source<'_>,
    ) -> Result<(), NotThere>;

    /// Sends a header and its payload of `bytes` bytes if there is room, and the memory is there.
    /// Returns whether it did.
    fn send_if_room(
        &mut self,
        lane: LaneId,
        header: &[u8; HEADER_BYTES],
        payload: Source<'_>,
        bytes: usize,
    ) -> bool {
        let has_room = self.room(lane) >= HEADER_BYTES + bytes;
        has_room && self.send(lane, header, payload).is_ok()
    }

    /// Sends what [`send`](Self::send) has held back. Returns whether nothing is left, which is
    /// always so on a lane that has ended and with a host that holds nothing back.
    fn flush(&mut self, _lane: LaneId) -> bool {
        true
    }

    /// Whether the peer of a lane may still receive what is sent. A peer that has died receives
    /// nothing, even while bytes that it sent earlier still wait here.
    fn may_send(&mut self, lane: LaneId) -> bool;

    /// The bytes that can be received, as far as the host has seen; it looks for more if they are
    /// fewer than `wanted`. The host checks for the end of the lane first, so bytes that were sent
    /// before the end are counted.
    fn available(&mut self, lane: LaneId, wanted: usize) -> Available;

    /// Whether [`peek`](Self::peek) would find nothing, as far as a few loads can tell.
    #[inline]
    fn is_quiet(&mut self, lane: LaneId) -> bool {
        self.peek(lane, &mut [0; HEADER_BYTES]) == Peeked::Nothing
    }

    /// Looks for the next record of a lane and copies its header, in few instructions. It consumes
    /// nothing: [`receive`](Self::receive) gives the same bytes once
    /// [`available`](Self::available) has reported them.
    fn peek(&mut self, lane: LaneId, header: &mut [u8; HEADER_BYTES]) -> Peeked;

    /// Receives available bytes, as many as the target holds.
    ///
    /// # Errors
    /// The memory of the target is not there. The bytes are received all the same, and lost.
    fn receive(&mut self, lane: LaneId, target: Target<'_>) -> Result<(), NotThere>;

    /// Receives a record that [`peek`](Self::peek) has found. Its payload, which has arrived, is
    /// stored at `to`, if it has one. Returns whether it was received; if not, nothing was: a peer
    /// may have corrupted the lane since the peek, the call was interrupted, or the memory is not
    /// there. A host whose memory may go has to look for that first.
    fn receive_record(&mut self, lane: LaneId, to: Option<Place>) -> bool {
        let header = self.receive(lane, Target::Nowhere(HEADER_BYTES));
        header.is_ok() && self.receive(lane, Target::Memory(to.as_slice())).is_ok()
    }

    /// Makes memory of the program a window of a lane. The peer may read and write it as `access`
    /// says, of which at least one bit for peers is set; atomic operations do both. Returns the
    /// number by which the peer names the window.
    ///
    /// # Errors
    /// `Ended`. `NoWindow`: there is no room for another window. `NotThere`.
    fn expose(&mut self, lane: LaneId, place: Place, access: Access) -> Result<u64, NotMoved>;

    /// Ends a window of this program's memory. Once it returns, no peer copies to or from the
    /// window.
    fn withdraw(&mut self, lane: LaneId, window: u64);

    /// Copies into a window of the peer in ascending order, the last bytes last. The copy is
    /// visible to the peer before anything that is sent on the lane afterwards.
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

    /// Copies from a window of the peer into the program's memory.
    ///
    /// # Errors
    /// All of [`NotMoved`].
    fn get(&mut self, lane: LaneId, window: u64, offset: u64, to: &[Place])
    -> Result<(), NotMoved>;

    /// Does an atomic operation on 8 aligned bytes of the peer's window. Returns their former
    /// value.
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

    /// Does an atomic operation on 8 aligned bytes of the program's own memory, for a peer whose
    /// bus has none. Returns their former value. If other peers reach this memory by a bus with
    /// atomic operations, the host must do it in one atomic step.
    ///
    /// # Errors
    /// The memory is not there.
    fn atomic_own(&mut self, place: Place, operation: Atomic) -> Result<u64, NotThere> {
        let mut word = [0; 8];
        self.read(place, &mut word)?;
        let before = u64::from_ne_bytes(word);
        if let Some(after) = operation.after(before) {
            self.write(place, &after.to_ne_bytes())?;
        }
        Ok(before)
    }
}
