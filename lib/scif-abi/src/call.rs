//! The operations of an endpoint descriptor of the `scif:` scheme, as they travel in a `call`
//! request.
//!
//! `metadata[0]` is the operation's number, `metadata[1]` and `metadata[2]` its words, the payload
//! either the operation's structure or, where the description says so, plain data. Numbers 1 to 17
//! are those of the ioctls of `scif_ioctl.h`; what the ioctls do not have begins at 64. A result is
//! the return value of the call; an error its errno.

use syscall_derive::{Layout, Operation};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ids::PortId;

/// Words beside an operation's number. The system call carries three, the first is the number.
pub const CALL_WORDS: usize = 2;

/// What accept hands out: who asked, and the handle that `AcceptRegister` turns into an endpoint.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
    Layout,
)]
#[layout(size = 16, align = 1)]
#[repr(C)]
pub struct AcceptRecord {
    /// Written by the daemon: port id of the connector.
    #[layout(offset = 0)]
    pub peer: PortId,
    /// Zero.
    #[layout(offset = 4)]
    pub reserved: [u8; 4],
    /// Written by the daemon: names the accepted connection until it is registered.
    #[layout(offset = 8)]
    pub handle: U64,
}

/// An operation on an endpoint descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Operation)]
#[operation(number = u64, words = 2)]
pub enum Call {
    /// `scif_bind`. Result: the port.
    #[op(1)]
    Bind {
        /// The port, 0 for any.
        #[word(0)]
        port: u16,
    },
    /// `scif_listen`. Result: 0.
    #[op(2)]
    Listen {
        /// Requests that may wait.
        #[word(0)]
        backlog: i32,
    },
    /// `scif_connect`. Result: the local port. On a descriptor with `O_NONBLOCK`: `EINPROGRESS`,
    /// and the same call again collects the result.
    #[op(3)]
    Connect {
        /// Destination node.
        #[word(0)]
        node: u16,
        /// Destination port.
        #[word(1)]
        port: u16,
    },
    /// `scif_accept`, first half. Result: 0, and the record is filled in.
    #[op(4)]
    AcceptRequest {
        /// 0 or `SCIF_ACCEPT_SYNC`.
        #[word(0)]
        flags: u32,
        /// In: zero; out: the connection.
        #[payload]
        record: AcceptRecord,
    },
    /// `scif_accept`, second half, on a fresh unbound endpoint: that endpoint becomes the accepted
    /// one. Result: 0; `ENOENT` when there is no such handle (any more).
    #[op(5)]
    AcceptRegister {
        /// From the record.
        #[word(0)]
        handle: u64,
    },
    /// `scif_send`. The payload is the data. Result: bytes taken.
    #[op(6)]
    Send {
        /// 0 or `SCIF_SEND_BLOCK`.
        #[word(0)]
        flags: u32,
    },
    /// `scif_recv`. The payload is the buffer. Result: bytes given.
    #[op(7)]
    Recv {
        /// 0 or `SCIF_RECV_BLOCK`.
        #[word(0)]
        flags: u32,
    },
    /// `scif_get_node_ids`. The payload is an array of `u16`: the first receives the own node's id,
    /// the others the ids of the nodes online, ascending. Result: the number of nodes online, which
    /// may be more than fitted.
    #[op(14)]
    GetNodeIds,
    /// `scif_poll` for this endpoint, without waiting. Result: `Readiness` bits.
    #[op(64)]
    Poll {
        /// Bits asked for; ERR and HUP are always reported.
        #[word(0)]
        events: u16,
    },
    /// Where the endpoint is bound. Result: `node << 16 | port`; port 0 when it is not.
    #[op(65)]
    LocalPort,
    /// The other end. Result: `node << 16 | port`; `ENOTCONN` when there is none.
    #[op(66)]
    PeerPort,
}

#[cfg(test)]
mod tests {
    use super::{AcceptRecord, Call};
    use crate::codec::{DecodeError, Operation as _};
    use crate::ids::PortId;

    #[test]
    fn decoding_what_was_encoded_gives_the_same_call() {
        let record = AcceptRecord {
            peer: PortId::new(1, 2),
            handle: 7.into(),
            reserved: [0; 4],
        };
        let calls = [
            Call::Bind { port: 65535 },
            Call::Listen { backlog: -1 },
            Call::Connect {
                node: 1,
                port: 2050,
            },
            Call::AcceptRequest { flags: 1, record },
            Call::AcceptRegister { handle: u64::MAX },
            Call::Send { flags: 1 },
            Call::Recv { flags: 0 },
            Call::GetNodeIds,
            Call::Poll { events: 5 },
            Call::LocalPort,
            Call::PeerPort,
        ];
        for call in calls {
            let decoded = Call::decode(call.number(), call.words(), call.payload());
            assert_eq!(decoded, Ok(call));
        }
    }

    #[test]
    fn bad_requests_are_refused() {
        let unknown = DecodeError::UnknownOperation { number: 99 };
        assert_eq!(Call::decode(99, [0; 2], &[]), Err(unknown));
        let port = DecodeError::WordOutOfRange {
            index: 0,
            value: 65536,
        };
        assert_eq!(Call::decode(Call::BIND, [65536, 0], &[]), Err(port));
        let backlog = DecodeError::WordOutOfRange {
            index: 0,
            value: 1 << 31,
        };
        assert_eq!(Call::decode(Call::LISTEN, [1 << 31, 0], &[]), Err(backlog));
        for found in [0, 15, 17] {
            let length = DecodeError::PayloadLength {
                expected: 16,
                found,
            };
            let payload = [0; 17];
            let result = Call::decode(Call::ACCEPT_REQUEST, [0; 2], &payload[..found]);
            assert_eq!(result, Err(length));
        }
    }
}
