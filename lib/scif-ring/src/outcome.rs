//! The results of calls on the two ends of a ring.

/// Why a ring was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError<E> {
    /// Another client of this end holds the lock. Only `send`, `receive` and `drain` return it.
    Locked,
    /// The index that the other side stored, or a position of this end, is impossible: the ring is
    /// broken.
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
    /// How many bytes were moved.
    pub bytes: usize,
    /// Whether the caller must wake the other side, which asked for it and may sleep.
    pub notify: bool,
}

/// A place in the ring for bytes that the caller will copy there.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The count of all bytes put before these.
    pub position: u64,
    /// The count of all bytes ever put, these included.
    pub(crate) behind: u64,
}

/// Bytes that [`Consumer::find_short`](crate::Consumer::find_short) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The count of all bytes taken before these.
    pub position: u64,
    /// How many bytes: at least one, unless `wanted` returned 0.
    pub bytes: usize,
    /// The count of all bytes that have arrived.
    pub(crate) put: u64,
}
