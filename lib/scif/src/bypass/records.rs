//! Records: a head and a body that are sent in one step and received in two, so that the receiver
//! learns from the head where the body goes. These calls work only if the mapped rings can do it
//! at once. In every other case they do nothing, and the caller sends and receives as usual.

use client_memory::pages::{Readable, Writable};
use hal::copy::SMALL_BYTES;
use scif_abi::flags::Kicks;
use scif_ring::{RingMemory, Side};

use super::Bypass;
use super::open::MappedRings;
use crate::raw::{Data, Room};

/// What [`Bypass::peek`] found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peeked {
    /// No bytes have arrived.
    Nothing,
    /// The head was copied. This number of bytes, the head included, lies in one piece.
    Bytes(usize),
    /// Only a receive can find out what there is.
    Unknown,
}

impl Bypass {
    /// Sends a head and a body. Returns whether it did; if not, nothing was sent.
    #[inline(always)]
    pub fn send_record<'a>(&self, head: &[u8], body: impl Data<'a>) -> bool {
        match (self.rings.get(), body.readable()) {
            (Some(rings), Some(body)) => rings.send_record(head.into(), body),
            _ => false,
        }
    }

    /// Copies the first `HEAD` bytes that can be received, and leaves them in the ring. For a
    /// program in which one thread at a time receives.
    #[inline(always)]
    pub fn peek<const HEAD: usize>(&self, head: &mut [u8; HEAD]) -> Peeked {
        match self.rings.get() {
            Some(rings) => rings.peek(head),
            None => Peeked::Unknown,
        }
    }

    /// Drops the next `head` bytes and receives all of `to` from behind them. Returns whether it
    /// did; if not, nothing was received.
    #[inline(always)]
    pub fn recv_behind<'a>(&self, head: usize, mut to: impl Room<'a>) -> bool {
        match (self.rings.get(), to.writable()) {
            (Some(rings), Some(to)) => rings.recv_behind(head, &to),
            _ => false,
        }
    }
}

impl MappedRings {
    #[inline(always)]
    fn send_record(&self, head: Readable<'_>, body: Readable<'_>) -> bool {
        let mut memory = self.memory.words();
        if !self.is_current_in(memory) || self.liveness.may_be_due_to_send() {
            return false;
        }
        if !memory.try_lock(Side::Send, self.number) {
            return false;
        }
        let bytes = head.len() + body.len();
        let Some(place) = self.producer.place_short(&memory, bytes) else {
            memory.unlock(Side::Send);
            return false;
        };
        let behind = place.position.wrapping_add(head.len() as u64);
        let is_put = memory.put_short(place.position, head).is_ok()
            && match body.len() <= SMALL_BYTES {
                true => memory.put_short(behind, body).is_ok(),
                false => memory.put(behind, body).is_ok(),
            };
        if !is_put || self.producer.put_placed(&mut memory, place).is_err() {
            memory.unlock(Side::Send);
            return false;
        }
        if self.producer.unlock_and_must_notify(&mut memory) {
            self.notify_peer(Kicks::BYTES);
        }
        true
    }

    #[inline(always)]
    fn peek<const HEAD: usize>(&self, head: &mut [u8; HEAD]) -> Peeked {
        let memory = self.memory.words();
        if !self.is_current_in(memory) {
            return Peeked::Unknown;
        }
        if self.consumer.is_empty(&memory) {
            return Peeked::Nothing;
        }
        let wanted = |there: usize| (there >= HEAD).then_some(HEAD);
        let Ok(Some(found)) = self.consumer.find_short(&memory, wanted) else {
            return Peeked::Unknown;
        };
        let to = Writable::from(&mut head[..]);
        match memory.take_short(found.position, &to, HEAD) {
            Ok(()) => Peeked::Bytes(self.consumer.in_one_piece(found)),
            Err(_) => Peeked::Unknown,
        }
    }

    #[inline(always)]
    fn recv_behind(&self, head: usize, to: &Writable<'_>) -> bool {
        let mut memory = self.memory.words();
        if !self.is_current_in(memory) || !memory.try_lock(Side::Receive, self.number) {
            return false;
        }
        let bytes = head + to.len();
        let wanted = |there: usize| (there >= bytes).then_some(bytes);
        let Ok(Some(found)) = self.consumer.find_short(&memory, wanted) else {
            memory.unlock(Side::Receive);
            return false;
        };
        let behind = found.position.wrapping_add(head as u64);
        let taken = match to.len() <= SMALL_BYTES {
            true => memory.take_short(behind, to, to.len()),
            false => memory.take(behind, to),
        };
        if taken.is_ok() && self.consumer.take_found(&mut memory, found) {
            self.give_back(bytes);
        } else {
            memory.unlock(Side::Receive);
        }
        taken.is_ok()
    }
}
