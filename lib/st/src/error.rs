//! Why a call failed.

use core::fmt;

use scif_abi::error::Error as Errno;
use st_core::queue::QueueError;
use st_core::region::Unreachable;
use st_core::reliable::Over;
use st_core::setup::Refused;
use syscall::error::{
    EAGAIN, EBUSY, ECONNREFUSED, ECONNRESET, EINVAL, ENOMEM, ENXIO, EPERM, EPROTO, ETIMEDOUT,
};

/// The result of a call.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a call failed. [`errno`](Error::errno) is the number that a C program gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// The call would have to wait for room in the peer's queue, a header or an announcement, and
    /// the deadline is [`Deadline::Now`](crate::Deadline::Now): `EAGAIN`.
    WouldBlock,
    /// The deadline has passed while the call waited: `ETIMEDOUT`.
    TimedOut,
    /// Not all of the bytes lie in the peer's memory: `ENXIO`. Nothing was moved.
    Outside,
    /// The peer has taken its memory back: `ENXIO`. No header was sent.
    Gone,
    /// The channel is attached already, or has mapped memory: `EBUSY`.
    Busy,
    /// An invalid argument: `EINVAL`.
    Invalid,
    /// An operation that only the library may carry out: `EPERM`.
    NotAllowed,
    /// The next descriptor is of another level; it stays in the queue: `EPROTO`.
    OtherLevel,
    /// The peer has broken the protocol, and the connection has been ended: `EPROTO`.
    Broken,
    /// No offsets are left at which memory could be mapped: `ENOMEM`.
    Exhausted,
    /// There is no connection: `ECONNREFUSED` if the peer has refused, `EINVAL` if an option of
    /// this end is out of range, otherwise `EPROTO`.
    Refused(Refused),
    /// The connection has ended: `ECONNRESET`. What had arrived before can still be pulled.
    Ended,
    /// A session was without a connection for too long: `ETIMEDOUT`.
    Expired,
    /// The peer does not know the session, because its program has begun anew: `ECONNREFUSED`.
    Forgotten,
    /// Another error of SCIF or the system: `ENODEV` if the peer's node or the driver is lost,
    /// `EINTR`, `ENOMEM`, `EAGAIN` for the limit on pinned pages, …
    Scif(scif::Error),
}

impl Error {
    /// The error number.
    pub const fn errno(self) -> i32 {
        match self {
            Self::WouldBlock => EAGAIN,
            Self::TimedOut => ETIMEDOUT,
            Self::Outside | Self::Gone => ENXIO,
            Self::Busy => EBUSY,
            Self::Invalid | Self::Refused(Refused::OwnOptions) => EINVAL,
            Self::NotAllowed => EPERM,
            Self::OtherLevel | Self::Broken => EPROTO,
            Self::Exhausted => ENOMEM,
            Self::Refused(Refused::Rejected) => ECONNREFUSED,
            Self::Refused(_) => EPROTO,
            Self::Ended => ECONNRESET,
            Self::Expired => ETIMEDOUT,
            Self::Forgotten => ECONNREFUSED,
            Self::Scif(error) => error.errno(),
        }
    }

    /// Whether it means that the connection, or the session, has ended.
    pub const fn is_end(self) -> bool {
        matches!(
            self,
            Self::Ended
                | Self::Broken
                | Self::Expired
                | Self::Forgotten
                | Self::Scif(scif::Error::Scif(Errno::NoDevice))
        )
    }
}

impl From<scif::Error> for Error {
    fn from(error: scif::Error) -> Self {
        match error {
            scif::Error::Scif(Errno::ConnectionReset | Errno::NotConnected) => Self::Ended,
            error => Self::Scif(error),
        }
    }
}

impl From<syscall::error::Error> for Error {
    fn from(error: syscall::error::Error) -> Self {
        scif::Error::from(error).into()
    }
}

impl From<libredox::error::Error> for Error {
    fn from(error: libredox::error::Error) -> Self {
        scif::Error::from(error).into()
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Over> for Error {
    fn from(over: Over) -> Self {
        match over {
            Over::Expired => Self::Expired,
            Over::Unknown => Self::Forgotten,
            Over::Broken => Self::Broken,
            Over::Ended | Over::EndedByPeer => Self::Ended,
        }
    }
}

impl From<Unreachable> for Error {
    fn from(reason: Unreachable) -> Self {
        match reason {
            Unreachable::NotYet => Self::WouldBlock,
            Unreachable::Gone => Self::Gone,
            Unreachable::Outside => Self::Outside,
        }
    }
}

impl<E> From<QueueError<E>> for Error {
    fn from(_: QueueError<E>) -> Self {
        // Queues in mapped memory can always be reached.
        Self::Broken
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::WouldBlock => "it would have to wait",
            Self::TimedOut => "the deadline has passed",
            Self::Outside => "not in the peer's memory",
            Self::Gone => "the peer has taken its memory back",
            Self::Busy => "in use already",
            Self::Invalid => "an invalid argument",
            Self::NotAllowed => "an operation of the library alone",
            Self::OtherLevel => "a header of another level",
            Self::Broken => "the peer has broken the protocol",
            Self::Exhausted => "no offsets are left",
            Self::Refused(reason) => return write!(f, "no connection ({reason:?})"),
            Self::Ended => "the connection has ended",
            Self::Expired => "the session was without a connection for too long",
            Self::Forgotten => "the peer does not know the session",
            Self::Scif(error) => return error.fmt(f),
        };
        f.write_str(text)
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_are_documented() {
        assert_eq!(Error::Gone.errno(), 6);
        assert_eq!(Error::Ended.errno(), 104);
        assert_eq!(Error::Refused(Refused::Rejected).errno(), 111);
        assert_eq!(Error::Refused(Refused::Bypass).errno(), 71);
        assert_eq!(Error::Refused(Refused::OwnOptions).errno(), 22);
        let lost = Error::from(scif::Error::from_errno(19));
        assert_eq!((lost.errno(), lost.is_end()), (19, true));
        assert_eq!(Error::from(scif::Error::from_errno(104)), Error::Ended);
    }
}
