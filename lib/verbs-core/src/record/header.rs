//! Reading headers in place, for the short way.

use zerocopy::FromZeros;

use super::{
    ACK, Ack, Address, HAS_ACK, HEADER_BYTES, Header, MAX_PAYLOAD, MESSAGE, Marks, Piece, Usual,
};

impl Header {
    /// A header to be filled in.
    #[inline(always)]
    pub fn empty() -> Header {
        Header::new_zeroed()
    }

    /// Its bytes, to fill it in.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8; HEADER_BYTES] {
        zerocopy::transmute_mut!(self)
    }

    /// The kind of the record, if it is a whole message without special marks or an
    /// acknowledgement. `None`: only [`decode`](super::Record::decode) can tell.
    #[inline(always)]
    pub fn usual(&self) -> Option<Usual> {
        match self.kind {
            MESSAGE => {
                let marks = self.flags & !(HAS_ACK | Marks::UNCHANGED.bits());
                let is_usual = marks == Marks::FIRST.union(Marks::LAST).bits()
                    && self.payload == self.total
                    && self.bytes() as usize <= MAX_PAYLOAD;
                is_usual.then_some(Usual::Message)
            }
            ACK if self.payload == 0 => Some(Usual::Ack),
            _ => None,
        }
    }

    /// Bytes of the payload.
    #[inline(always)]
    pub fn bytes(&self) -> u32 {
        u32::from_le(self.payload)
    }

    /// The number of a message.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        u32::from_le(self.number)
    }

    /// The marks of a [usual](Self::usual) message.
    #[inline(always)]
    pub fn marks(&self) -> Marks {
        Marks::from_bits_truncate(self.flags & !HAS_ACK)
    }

    /// The immediate data of a message.
    #[inline(always)]
    pub fn immediate(&self) -> u32 {
        u32::from_le(self.value)
    }

    /// The acknowledgement that a message carries.
    #[inline(always)]
    pub fn carried(&self) -> Option<Ack> {
        let second = u64::from_le(self.second);
        let (taken, limit) = (second as u32, (second >> 32) as u32);
        (self.flags & HAS_ACK != 0).then_some(Ack { taken, limit })
    }

    /// The acknowledgement that a record of the kind [`Ack`](super::Record::Ack) is.
    #[inline(always)]
    pub fn told(&self) -> Ack {
        Ack {
            taken: u32::from_le(self.number),
            limit: u32::from_le(self.value),
        }
    }

    /// The receiver and the sender of the record.
    #[inline(always)]
    pub fn address(&self) -> Address {
        Address {
            destination: u32::from_le(self.destination),
            source: u32::from_le(self.source),
            generation: u32::from_le(self.generation),
        }
    }

    /// The piece of a message that has this header, with these marks.
    #[inline]
    pub(super) fn piece(&self, marks: Marks) -> Piece {
        Piece {
            marks,
            number: self.number(),
            total: u32::from_le(self.total),
            immediate: self.immediate(),
            srq: u64::from_le(self.first) as u32,
            ack: self.carried(),
            payload: self.bytes(),
        }
    }
}
