//! Translates SCIF's errors into those of sockets.

use core::time::Duration;

use scif_abi::limits::ANSWER_TIMEOUT_NS;

/// Error numbers, which are Linux's. They are repeated here because this module is also tested on
/// machines without the system.
pub mod number {
    #![expect(missing_docs, reason = "the names of errno.h")]
    pub const EINTR: i32 = 4;
    pub const EBADF: i32 = 9;
    pub const EAGAIN: i32 = 11;
    pub const EACCES: i32 = 13;
    pub const ENODEV: i32 = 19;
    pub const EINVAL: i32 = 22;
    pub const ENOSPC: i32 = 28;
    pub const EPIPE: i32 = 32;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENETUNREACH: i32 = 101;
    pub const EADDRINUSE: i32 = 98;
    pub const EADDRNOTAVAIL: i32 = 99;
    pub const ECONNABORTED: i32 = 103;
    pub const ECONNRESET: i32 = 104;
    pub const EISCONN: i32 = 106;
    pub const ENOTCONN: i32 = 107;
    pub const ETIMEDOUT: i32 = 110;
    pub const ECONNREFUSED: i32 = 111;
    pub const EHOSTUNREACH: i32 = 113;
}
use number::*;

/// Translates an error of `scif_bind`; `was_bound`: the socket already had a port.
pub fn bind(error: i32, was_bound: bool) -> i32 {
    match error {
        EINVAL | EISCONN if was_bound => EINVAL,
        EINVAL | ENOSPC => EADDRINUSE,
        EISCONN => EINVAL,
        other => other,
    }
}

/// The driver gives up a request that has had no answer for [`ANSWER_TIMEOUT_NS`]. One second
/// less, as the driver reads its clock at another moment.
const NO_ANSWER: Duration = Duration::from_nanos(ANSWER_TIMEOUT_NS - 1_000_000_000);

/// Translates an error of `scif_connect` that came `waited` after the call. `ENODEV` has two
/// meanings: before [`NO_ANSWER`] the node is absent, from then on the request has had no answer.
/// Whether the node is present *now* proves nothing, as it may have come up meanwhile.
pub fn connect(error: i32, waited: Duration) -> i32 {
    match error {
        ENODEV if waited >= NO_ANSWER => ETIMEDOUT,
        ENODEV => EHOSTUNREACH,
        ENOSPC => EADDRNOTAVAIL,
        // The connection has ended, and its endpoint cannot be used again.
        EINVAL => EISCONN,
        other => other,
    }
}

/// Translates an error of `scif_accept`.
pub fn accept(error: i32) -> i32 {
    match error {
        ENODEV => ECONNABORTED,
        other => other,
    }
}

/// Translates an error of `scif_send`; `is_lost`: the peer's node is lost, and sent data may be,
/// too.
pub fn send(error: i32, is_lost: bool) -> i32 {
    match error {
        ECONNRESET if !is_lost => EPIPE,
        ENODEV => ECONNRESET,
        other => other,
    }
}

/// Translates an error of `scif_recv` into the number of bytes or another error; `is_lost`: the
/// peer's node is lost, and data that it has sent may be, too.
///
/// # Errors
/// The errors that are not the end of the stream.
pub fn receive(error: i32, is_lost: bool) -> Result<usize, i32> {
    match error {
        ECONNRESET if !is_lost => Ok(0),
        ENODEV => Err(ECONNRESET),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_are_told_from_sockets_with_a_port() {
        assert_eq!(bind(EINVAL, false), EADDRINUSE);
        assert_eq!(bind(EINVAL, true), EINVAL);
        assert_eq!(bind(EISCONN, true), EINVAL);
        assert_eq!(bind(ENOSPC, false), EADDRINUSE);
        assert_eq!(bind(EACCES, false), EACCES);
    }

    #[test]
    fn nodes_that_do_not_answer_are_told_from_those_that_are_not_there() {
        let at_once = Duration::ZERO;
        assert_eq!(connect(ENODEV, at_once), EHOSTUNREACH);
        // The node was lost while the call waited.
        assert_eq!(connect(ENODEV, Duration::from_secs(5)), EHOSTUNREACH);
        assert_eq!(connect(ENODEV, Duration::from_secs(30)), ETIMEDOUT);
        assert_eq!(connect(ECONNREFUSED, at_once), ECONNREFUSED);
        assert_eq!(connect(EINVAL, at_once), EISCONN);
        assert_eq!(connect(ENOSPC, at_once), EADDRNOTAVAIL);
        assert_eq!(accept(ENODEV), ECONNABORTED);
        assert_eq!(accept(EAGAIN), EAGAIN);
    }

    #[test]
    fn the_end_of_a_connection_is_the_end_of_the_stream_unless_a_node_is_lost() {
        assert_eq!(receive(ECONNRESET, false), Ok(0));
        assert_eq!(receive(ECONNRESET, true), Err(ECONNRESET));
        assert_eq!(receive(ENODEV, false), Err(ECONNRESET));
        assert_eq!(receive(EINTR, false), Err(EINTR));
        assert_eq!(send(ECONNRESET, false), EPIPE);
        assert_eq!(send(ECONNRESET, true), ECONNRESET);
        assert_eq!(send(ENODEV, true), ECONNRESET);
        assert_eq!(send(ENOTCONN, false), ENOTCONN);
    }
}
