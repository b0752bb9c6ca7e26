//! The memory that calls read and fill.

use client_memory::pages::{Readable, Writable};
use scif_abi::call::{Call, RegisterRecord};
use scif_abi::flags::Protection;
use syscall::PAGE_SIZE;
use syscall::error::{EFAULT, EINVAL};

use super::{NO_TOKEN, Range, Result, system, with_record};

/// Data that a call sends.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Ordinary memory of the program.
    Slice(&'a [u8]),
    /// Memory given by address.
    Range(Range<'a>),
}

/// Room that a call fills.
#[derive(Debug)]
pub enum Target<'a> {
    /// Ordinary memory of the program.
    Slice(&'a mut [u8]),
    /// Memory given by address.
    Range(Range<'a>),
}

/// Memory given by address, for a call that gives up rather than look it up: of the process's
/// memory it knows only the range that was looked up last.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a>(pub Range<'a>);

/// Types that become a [`Source`]. The fast path needs only these two methods, not the conversion.
pub trait Data<'a>: Into<Source<'a>> + Copy {
    /// Length in bytes.
    fn bytes(self) -> usize;

    /// The data, if all of it is memory that can be read.
    fn readable(self) -> Option<Readable<'a>>;
}

/// Types that become a [`Target`]; the counterpart of [`Data`].
pub trait Room<'a>: Into<Target<'a>> {
    /// Length in bytes.
    fn bytes(&self) -> usize;

    /// The room, if all of it is memory that can be written.
    fn writable(&mut self) -> Option<Writable<'_>>;
}

impl<'a> Data<'a> for &'a [u8] {
    #[inline]
    fn bytes(self) -> usize {
        self.len()
    }

    #[inline]
    fn readable(self) -> Option<Readable<'a>> {
        Some(self.into())
    }
}

impl<'a> Data<'a> for Range<'a> {
    #[inline(always)]
    fn bytes(self) -> usize {
        Range::bytes(self)
    }

    #[inline(always)]
    fn readable(self) -> Option<Readable<'a>> {
        Range::readable(self)
    }
}

impl<'a> Data<'a> for Known<'a> {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0.bytes()
    }

    #[inline(always)]
    fn readable(self) -> Option<Readable<'a>> {
        self.0.readable_if_known()
    }
}

impl<'a> Data<'a> for Source<'a> {
    #[inline]
    fn bytes(self) -> usize {
        match self {
            Self::Slice(bytes) => bytes.len(),
            Self::Range(range) => range.bytes(),
        }
    }

    #[inline]
    fn readable(self) -> Option<Readable<'a>> {
        match self {
            Self::Slice(bytes) => Some(bytes.into()),
            Self::Range(range) => range.readable(),
        }
    }
}

impl<'a> Room<'a> for &'a mut [u8] {
    #[inline]
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn writable(&mut self) -> Option<Writable<'_>> {
        Some((&mut **self).into())
    }
}

impl<'a> Room<'a> for Range<'a> {
    #[inline(always)]
    fn bytes(&self) -> usize {
        Range::bytes(*self)
    }

    #[inline(always)]
    fn writable(&mut self) -> Option<Writable<'_>> {
        Range::writable(*self)
    }
}

impl<'a> Room<'a> for Known<'a> {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    #[inline(always)]
    fn writable(&mut self) -> Option<Writable<'_>> {
        self.0.writable_if_known()
    }
}

impl<'a> Room<'a> for Target<'a> {
    #[inline]
    fn bytes(&self) -> usize {
        match self {
            Self::Slice(bytes) => bytes.len(),
            Self::Range(range) => range.bytes(),
        }
    }

    #[inline]
    fn writable(&mut self) -> Option<Writable<'_>> {
        match self {
            Self::Slice(bytes) => Some((&mut **bytes).into()),
            Self::Range(range) => range.writable(),
        }
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self::Slice(bytes)
    }
}

impl<'a> From<Range<'a>> for Source<'a> {
    #[inline]
    fn from(range: Range<'a>) -> Self {
        Self::Range(range)
    }
}

impl<'a> From<Known<'a>> for Source<'a> {
    #[inline]
    fn from(known: Known<'a>) -> Self {
        Self::Range(known.0)
    }
}

impl<'a> From<Known<'a>> for Target<'a> {
    #[inline]
    fn from(known: Known<'a>) -> Self {
        Self::Range(known.0)
    }
}

impl<'a> From<&'a mut [u8]> for Target<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8]) -> Self {
        Self::Slice(bytes)
    }
}

impl<'a> From<Range<'a>> for Target<'a> {
    #[inline]
    fn from(range: Range<'a>) -> Self {
        Self::Range(range)
    }
}

impl<'a> Source<'a> {
    /// The data from `offset` on.
    pub(crate) fn rest(self, offset: usize) -> Result<Self> {
        Ok(match self {
            Self::Slice(bytes) => Self::Slice(bytes.get(offset..).unwrap_or_default()),
            Self::Range(range) => Self::Range(rest(range, offset)?),
        })
    }

    /// The first `count` bytes of the data, or all of it.
    pub(crate) fn first(self, count: usize) -> Result<Self> {
        let count = count.min(self.bytes());
        Ok(match self {
            Self::Slice(bytes) => Self::Slice(&bytes[..count]),
            Self::Range(range) => Self::Range(range.part(0, count).map_err(system)?),
        })
    }
}

impl<'a> Target<'a> {
    /// The room from `offset` on.
    pub(crate) fn rest(self, offset: usize) -> Result<Self> {
        Ok(match self {
            Self::Slice(bytes) => Self::Slice(bytes.get_mut(offset..).unwrap_or_default()),
            Self::Range(range) => Self::Range(rest(range, offset)?),
        })
    }

    /// The first `count` bytes of the room, or all of it.
    pub(crate) fn first(self, count: usize) -> Result<Self> {
        let count = count.min(self.bytes());
        Ok(match self {
            Self::Slice(bytes) => Self::Slice(&mut bytes[..count]),
            Self::Range(range) => Self::Range(range.part(0, count).map_err(system)?),
        })
    }

    /// At most `count` bytes of the room, from `offset` on.
    pub(crate) fn piece(&mut self, offset: usize, count: usize) -> Result<Target<'_>> {
        match self {
            Self::Slice(bytes) => Target::Slice(bytes),
            Self::Range(range) => Target::Range(*range),
        }
        .rest(offset)?
        .first(count)
    }
}

fn rest(range: Range<'_>, offset: usize) -> Result<Range<'_>> {
    let bytes = range.bytes().saturating_sub(offset);
    range.part(offset, bytes).map_err(system)
}

/// The error of a send or receive that has failed with `error`: a bad buffer is reported after
/// unknown flags and an endpoint in the wrong state.
pub(super) fn bad_buffer(epd: usize, are_flags_known: bool, error: i32) -> i32 {
    match error {
        EFAULT if are_flags_known => without_memory(epd),
        EFAULT => EINVAL,
        error => error,
    }
}

/// The error of a call with an endpoint that needs memory and gets none: the daemon reports the
/// endpoint's state first.
pub(super) fn without_memory(epd: usize) -> i32 {
    let record = RegisterRecord {
        memory: NO_TOKEN.into(),
        length: (PAGE_SIZE as u64).into(),
        protection: Protection::READ.bits().into(),
        ..RegisterRecord::default()
    };
    let refused = with_record(epd, Call::Register { record });
    refused.err().unwrap_or(EFAULT)
}
