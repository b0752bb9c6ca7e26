//! Decodes and encodes the values of a message in the bincode format. Every step of the decoder is
//! checked against what is left of the message.

use alloc::vec::Vec;

/// Why bytes are no valid message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DecodeError {
    /// It ends too early.
    Short,
    /// Bytes are left after its end.
    Long,
    /// A variant, option or truth value that does not exist, or a list that cannot fit.
    Invalid,
}

/// Reads values off the front of a message.
pub(super) struct Decoder<'a>(pub(super) &'a [u8]);

impl<'a> Decoder<'a> {
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*head)
    }
    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.bytes().map(u8::from_le_bytes)
    }
    pub(super) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.bytes().map(u16::from_le_bytes)
    }
    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.bytes().map(u32::from_le_bytes)
    }
    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.bytes().map(u64::from_le_bytes)
    }
    pub(super) fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Invalid),
        }
    }
    pub(super) fn option<T>(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.bool()? {
            value(self).map(Some)
        } else {
            Ok(None)
        }
    }
    /// The length of a list whose entries take at least `entry_bytes` each.
    pub(super) fn length(&mut self, entry_bytes: usize) -> Result<usize, DecodeError> {
        let length = usize::try_from(self.u64()?).map_err(|_| DecodeError::Invalid)?;
        let fits = length
            .checked_mul(entry_bytes)
            .is_some_and(|bytes| bytes <= self.0.len());
        if fits {
            Ok(length)
        } else {
            Err(DecodeError::Short)
        }
    }
    pub(super) fn end<T>(self, value: T) -> Result<T, DecodeError> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(DecodeError::Long)
        }
    }
}

/// Appends values to a message.
#[derive(Default)]
pub(super) struct Encoder(pub(super) Vec<u8>);

impl Encoder {
    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }
    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        self.u8(value.into())
    }
    pub(super) fn option<T>(
        &mut self,
        value: Option<T>,
        put: impl FnOnce(&mut Self, T),
    ) -> &mut Self {
        self.bool(value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
        self
    }
}
