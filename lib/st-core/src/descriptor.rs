//! Descriptors: the contents of a queue's slots.

use zerocopy::{FromBytes, IntoBytes};

use crate::header::{HEADER_BYTES, Header, PAYLOAD_BYTES};

/// Most bytes of a descriptor that one slot holds.
pub const BODY_BYTES: usize = 56;
/// Bytes of the length behind a header of level 0.
const LENGTH_BYTES: usize = size_of::<u64>();

/// The kind of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A header of level 1: 32 bytes of the program.
    Message = 1,
    /// A header of level 0 and the length of the data that went with it: 48 bytes.
    Header = 2,
    /// [`Header`](Kind::Header) with an optional payload: 80 bytes, in two slots.
    HeaderWithPayload = 3,
}

impl Kind {
    /// Bytes of such a descriptor.
    pub const fn bytes(self) -> usize {
        match self {
            Kind::Message => PAYLOAD_BYTES,
            Kind::Header => HEADER_BYTES + LENGTH_BYTES,
            Kind::HeaderWithPayload => HEADER_BYTES + LENGTH_BYTES + PAYLOAD_BYTES,
        }
    }

    /// Slots that such a descriptor takes.
    pub const fn slots(self) -> u64 {
        self.bytes().div_ceil(BODY_BYTES) as u64
    }

    #[inline]
    pub(crate) const fn from_word(word: u32) -> Option<Kind> {
        match word {
            1 => Some(Kind::Message),
            2 => Some(Kind::Header),
            3 => Some(Kind::HeaderWithPayload),
            _ => None,
        }
    }
}

/// Most bytes of a descriptor.
pub const MAX_DESCRIPTOR: usize = Kind::HeaderWithPayload.bytes();

/// A descriptor: a header, at level 0 with the length of its data and an optional payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub(crate) kind: Kind,
    pub(crate) bytes: [u8; MAX_DESCRIPTOR],
}

impl Descriptor {
    /// A descriptor with these bytes, filled up with zeros or cut to the length of its kind.
    pub fn new(kind: Kind, bytes: &[u8]) -> Descriptor {
        let mut own = [0; MAX_DESCRIPTOR];
        let count = bytes.len().min(kind.bytes());
        own[..count].copy_from_slice(&bytes[..count]);
        Descriptor { kind, bytes: own }
    }

    /// A descriptor of level 0.
    pub fn level0(header: &Header, length: u64, payload: Option<&[u8; PAYLOAD_BYTES]>) -> Self {
        let mut bytes = [0; MAX_DESCRIPTOR];
        let (first, rest) = bytes.split_at_mut(HEADER_BYTES);
        let (second, third) = rest.split_at_mut(LENGTH_BYTES);
        first.copy_from_slice(header.as_bytes());
        second.copy_from_slice(&length.to_le_bytes());
        third.copy_from_slice(payload.unwrap_or(&[0; PAYLOAD_BYTES]));
        let kind = match payload {
            Some(_) => Kind::HeaderWithPayload,
            None => Kind::Header,
        };
        Descriptor { kind, bytes }
    }

    /// Its header, length and optional payload, if it is one of level 0.
    pub fn as_level0(&self) -> Option<(Header, u64, Option<[u8; PAYLOAD_BYTES]>)> {
        let (header, rest) = Header::read_from_prefix(self.bytes()).ok()?;
        let (length, payload) = u64::read_from_prefix(rest).ok()?;
        match self.kind {
            Kind::Message => None,
            Kind::Header => Some((header, length, None)),
            Kind::HeaderWithPayload => Some((header, length, Some(payload.try_into().ok()?))),
        }
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Its bytes, as many as its kind has.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.bytes()]
    }
}
