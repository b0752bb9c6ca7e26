//! The transfers of a session, and how far they have come.

use crate::queue::Descriptor;

/// How far a transfer has come. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Its data may be changed at this end.
    Local,
    /// Its data and its header have arrived in the peer's memory.
    Delivered,
    /// The peer's program has taken its header.
    Taken,
}

/// A transfer of a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    pub(super) number: u64,
}

impl Token {
    /// The transfer's number in its session, from 0 on.
    pub const fn number(&self) -> u64 {
        self.number
    }
}

/// The data of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data<D> {
    /// There is none.
    Nothing,
    /// The session has a copy, so the transfer is local at once.
    Copied(D),
    /// The session refers to the program's memory, which must not be changed until the transfer is
    /// taken: only then is it local.
    InPlace(D),
}

impl<D> Data<D> {
    /// The data to put, if there is any.
    pub(super) const fn get(&self) -> Option<&D> {
        match self {
            Data::Nothing => None,
            Data::Copied(data) | Data::InPlace(data) => Some(data),
        }
    }
}

/// The transfers that were sent up to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Transfers with lower numbers were sent or dropped.
    pub(super) below: u64,
}

/// A transfer that is kept.
#[derive(Debug)]
pub(super) struct Transfer<D> {
    pub(super) number: u64,
    pub(super) descriptor: Descriptor,
    pub(super) data: Data<D>,
    /// The count of filled slots on this connection once it has been sent.
    pub(super) end: u64,
    pub(super) is_delivered: bool,
}
