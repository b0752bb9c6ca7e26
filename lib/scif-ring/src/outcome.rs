//! The results of calls on the two ends of a ring.

/// Why a ring was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError<E> {
    /// Another client of this end holds the lock. From `send`, `receive` and `drain` only.
    Locked,
    /// The index the other side stored, or a position of this end, cannot be: the ring is spoilt.
    BadIndex,
    /// The other side's memory cannot be reached.
    Memory(E),
}

impl<E> From<E> for RingError<E> {
    #[inline]
    fn from(error: E) -> RingError<E> {
        RingError::Memory(error)
    }
}

/// The bytes that a call moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Bytes.
    pub bytes: usize,
    /// The other side sleeps and asked for it: wake it.
    pub notify: bool,
}

/// The place of bytes that are to be put.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Of the first one in the ring.
    pub offset: usize,
    /// Count of all bytes ever put, with them.
    pub(crate) behind: u64,
}

/// Bytes that [`Consumer::find_short`](crate::Consumer::find_short) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where they are in the ring.
    pub offset: usize,
    /// Bytes: at least one, if `wanted` has never said 0.
    pub bytes: usize,
    /// The position in front of them, and the one behind all that are there.
    pub(crate) received: u64,
    pub(crate) put: u64,
}
