//! The operations on the descriptors of the `scif:` scheme, as a `call` request carries them.
//! [`Call`] has those of an endpoint, [`MemoryCall`] those of a memory handle (path `memory`).
//!
//! `metadata[0]` is the operation's number, `metadata[1]` and `metadata[2]` its words. The payload
//! is the operation's structure or, where the description says so, plain data. Numbers 1 to 17 are
//! those of the ioctls of `scif_ioctl.h`. Operations that the ioctls do not have begin at 18 for
//! transfers and [bypass](crate::bypass) clients, at 64 for queries, at 80 for memory handles and
//! at 90 for trusted drivers. A result is the return value of the call; an error its errno.
//!
//! Flag words are plain numbers here, because each call refuses unknown bits in its own order of
//! checks; their meanings are in [`flags`](crate::flags). Memory is named by its *token*, which
//! [`MemoryCall::Provide`] and [`MemoryCall::Pin`] give out. The user who made it may use it, and
//! root.

use syscall_derive::{Layout, Operation};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bypass::BypassRecord;
use crate::ids::PortId;
pub use crate::own_pages::{OwnRecord, OwnTransferRecord, PinRecord};

/// The result of accept: the connector's port id, and the handle that `AcceptRegister` turns into
/// an endpoint.
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
    /// Written by the daemon: the port id of the connector.
    #[layout(offset = 0)]
    pub peer: PortId,
    /// Zero.
    #[layout(offset = 4)]
    pub reserved: [u8; 4],
    /// Written by the daemon: names the accepted connection until `AcceptRegister`.
    #[layout(offset = 8)]
    pub handle: U64,
}

/// The memory of a window, its place and its rights.
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
#[layout(size = 40, align = 1)]
#[repr(C)]
pub struct RegisterRecord {
    /// Token of the memory.
    #[layout(offset = 0)]
    pub memory: U64,
    /// The offset in that memory at which the window begins, in bytes, a multiple of the page
    /// size.
    #[layout(offset = 8)]
    pub memory_offset: U64,
    /// Bytes, a multiple of the page size.
    #[layout(offset = 16)]
    pub length: U64,
    /// The window's offset with `SCIF_MAP_FIXED`. Not used without.
    #[layout(offset = 24)]
    pub offset: I64,
    /// [`Protection`](crate::flags::Protection).
    #[layout(offset = 32)]
    pub protection: U32,
    /// [`MapFlags`](crate::flags::MapFlags).
    #[layout(offset = 36)]
    pub flags: U32,
}

/// A copy between the two registered address spaces of a connection.
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
#[layout(size = 32, align = 1)]
#[repr(C)]
pub struct RmaRecord {
    /// Offset in the own registered address space.
    #[layout(offset = 0)]
    pub local_offset: I64,
    /// Bytes.
    #[layout(offset = 8)]
    pub length: U64,
    /// Offset in the peer's registered address space.
    #[layout(offset = 16)]
    pub remote_offset: I64,
    /// [`RmaFlags`](crate::flags::RmaFlags).
    #[layout(offset = 24)]
    pub flags: U32,
    /// Zero.
    #[layout(offset = 28)]
    pub reserved: U32,
}

/// A copy between memory that is not registered and the peer's registered address space.
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
#[layout(size = 40, align = 1)]
#[repr(C)]
pub struct CachedRecord {
    /// Token of the memory.
    #[layout(offset = 0)]
    pub memory: U64,
    /// The offset in that memory at which the data begins, in bytes. Any alignment.
    #[layout(offset = 8)]
    pub memory_offset: U64,
    /// Bytes.
    #[layout(offset = 16)]
    pub length: U64,
    /// Offset in the peer's registered address space.
    #[layout(offset = 24)]
    pub remote_offset: I64,
    /// [`RmaFlags`](crate::flags::RmaFlags).
    #[layout(offset = 32)]
    pub flags: U32,
    /// Zero.
    #[layout(offset = 36)]
    pub reserved: U32,
}

/// The values that fence_signal writes, and the offsets where it writes them.
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
#[layout(size = 40, align = 1)]
#[repr(C)]
pub struct SignalRecord {
    /// Offset in the own registered address space.
    #[layout(offset = 0)]
    pub local_offset: I64,
    /// The value that is written there.
    #[layout(offset = 8)]
    pub local_value: U64,
    /// Offset in the peer's registered address space.
    #[layout(offset = 16)]
    pub remote_offset: I64,
    /// The value that is written there.
    #[layout(offset = 24)]
    pub remote_value: U64,
    /// [`FenceFlags`](crate::flags::FenceFlags).
    #[layout(offset = 32)]
    pub flags: U32,
    /// Zero.
    #[layout(offset = 36)]
    pub reserved: U32,
}

/// The header of the page addresses in the answer to [`Call::GetPages`].
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
#[layout(size = 24, align = 1)]
#[repr(C)]
pub struct PagesHeader {
    /// Names the reference until [`Call::PutPages`] gives it back.
    #[layout(offset = 0)]
    pub cookie: U64,
    /// How many addresses follow, each a `u64`.
    #[layout(offset = 8)]
    pub pages: U64,
    /// [`Protection`](crate::flags::Protection) of the window.
    #[layout(offset = 16)]
    pub protection: U32,
    /// Zero.
    #[layout(offset = 20)]
    pub reserved: U32,
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
        /// How many requests may wait.
        #[word(0)]
        backlog: i32,
        /// [`ListenFlags`](crate::flags::ListenFlags).
        #[word(1)]
        flags: u32,
    },
    /// `scif_connect`. Result: the local port. On a descriptor with `O_NONBLOCK` it fails with
    /// `EINPROGRESS`, and the same call again returns the result.
    #[op(3)]
    Connect {
        /// Destination node.
        #[word(0)]
        node: u16,
        /// Destination port.
        #[word(1)]
        port: u16,
    },
    /// `scif_accept`, first half. Result: 0; the record is filled in.
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
        /// The handle of the record.
        #[word(0)]
        handle: u64,
    },
    /// `scif_send`. The payload is the data. Result: the number of bytes taken.
    #[op(6)]
    Send {
        /// 0 or `SCIF_SEND_BLOCK`.
        #[word(0)]
        flags: u32,
    },
    /// `scif_recv`. The payload is the buffer. Result: the number of bytes received.
    #[op(7)]
    Recv {
        /// 0 or `SCIF_RECV_BLOCK`.
        #[word(0)]
        flags: u32,
    },
    /// `scif_register`. Result: the window's offset.
    #[op(8)]
    Register {
        /// The memory, its place and its rights.
        #[payload]
        record: RegisterRecord,
    },
    /// `scif_register` of pages of the caller's own, which are pinned for the window: `Pin` and
    /// `Register` in one request. Result: the window's offset; `ESRCH` when the daemon does not
    /// have the caller's address space (any more), see [`MemoryCall::Pin`].
    #[op(26)]
    RegisterOwn {
        /// The pages, their place and their rights.
        #[payload]
        record: OwnRecord,
    },
    /// `scif_vreadfrom` into memory that is not registered, whose pages are pinned as long as the
    /// transfer runs. Result: 0; `ESRCH` as for `RegisterOwn`.
    #[op(27)]
    OwnReadFrom {
        /// What to copy.
        #[payload]
        record: OwnTransferRecord,
    },
    /// `scif_vwriteto`, as `OwnReadFrom`.
    #[op(28)]
    OwnWriteTo {
        /// What to copy.
        #[payload]
        record: OwnTransferRecord,
    },
    /// `scif_unregister`. Result: 0.
    #[op(9)]
    Unregister {
        /// The offset at which the first window begins.
        #[word(0)]
        offset: i64,
        /// Bytes; whole windows.
        #[word(1)]
        length: u64,
    },
    /// `scif_readfrom`: from the peer's windows to the own ones. Result: 0.
    #[op(10)]
    ReadFrom {
        /// Which bytes are copied, and where to.
        #[payload]
        record: RmaRecord,
    },
    /// `scif_writeto`: from the own windows to the peer's. Result: 0.
    #[op(11)]
    WriteTo {
        /// Which bytes are copied, and where to.
        #[payload]
        record: RmaRecord,
    },
    /// `scif_vreadfrom`. The payload is the buffer, which has been filled when the call returns.
    /// Result: 0.
    #[op(12)]
    VirtualReadFrom {
        /// Offset in the peer's registered address space.
        #[word(0)]
        remote_offset: i64,
        /// `RmaFlags`.
        #[word(1)]
        flags: u32,
    },
    /// `scif_vwriteto`. The payload is the data, which the peer has when the call returns.
    /// Result: 0.
    #[op(13)]
    VirtualWriteTo {
        /// Offset in the peer's registered address space.
        #[word(0)]
        remote_offset: i64,
        /// `RmaFlags`.
        #[word(1)]
        flags: u32,
    },
    /// `scif_get_node_ids`. The payload is an array of `u16`: the first receives this node's id,
    /// the others receive the ids of the nodes online, ascending. Result: the number of nodes
    /// online, which may be more than fitted.
    #[op(14)]
    GetNodeIds,
    /// `scif_fence_mark`. Result: the mark, from 0 to 2^31 - 1.
    #[op(15)]
    FenceMark {
        /// `FenceFlags`: one of INIT_SELF and INIT_PEER.
        #[word(0)]
        flags: u32,
    },
    /// `scif_fence_wait`. Result: 0.
    #[op(16)]
    FenceWait {
        /// A mark that `FenceMark` gave.
        #[word(0)]
        mark: i32,
    },
    /// `scif_fence_signal`. Result: 0.
    #[op(17)]
    FenceSignal {
        /// The values to write, where, and after which copies.
        #[payload]
        record: SignalRecord,
    },
    /// `scif_vreadfrom` with `SCIF_RMA_USECACHE`, into memory that the daemon knows. Like
    /// `ReadFrom` it may return before the data is there. Result: 0; `EFAULT` when the caller has
    /// no such memory mapped any more.
    #[op(18)]
    CachedReadFrom {
        /// Which bytes are copied, and where to.
        #[payload]
        record: CachedRecord,
    },
    /// `scif_vwriteto` with `SCIF_RMA_USECACHE`, out of memory that the daemon knows. May return
    /// early and fails as `CachedReadFrom` does.
    #[op(19)]
    CachedWriteTo {
        /// Which bytes are copied, and where to.
        #[payload]
        record: CachedRecord,
    },
    /// `scif_poll` for this endpoint or bypass handle: first sends the notifications of `kicks`,
    /// then waits until one of `events` is there. Result: `Readiness` bits.
    #[op(20)]
    Wait {
        /// The `Readiness` bits to wait for; ERR and HUP always end the wait.
        #[word(0)]
        events: u16,
        /// [`Kicks`](crate::flags::Kicks).
        #[word(1)]
        kicks: u32,
    },
    /// Notifies the peer of this endpoint or bypass handle of changes of the rings. Result: 0.
    #[op(21)]
    Kick {
        /// [`Kicks`](crate::flags::Kicks).
        #[word(0)]
        kicks: u32,
    },
    /// The description of a bypass handle. Result: 0; the record is filled in.
    #[op(22)]
    BypassInfo {
        /// In: zero; out: the rings of this handle.
        #[payload]
        record: BypassRecord,
    },
    /// Ends the stream of bytes to the peer: the peer's receives end behind the bytes sent before,
    /// as at the end of the connection. Bytes of sends under way, and later ones, may stay unread.
    /// Result: 0.
    #[op(23)]
    Finish,
    /// As `Wait` for IN, but also ends once the write index in the own ring differs from
    /// `written`: then bytes have come since it was read, even if another thread has already taken
    /// them. Result: `Readiness` bits.
    #[op(24)]
    WaitBytes {
        /// The peer's write index, as `local_write` of the own queue pair held it.
        #[word(0)]
        written: u32,
    },
    /// Ends the stream of bytes from the peer, for this node's programs. Receives of this node on
    /// the endpoint, also those that wait, end behind the bytes that have arrived, as if the peer
    /// had sent `Finish`. The peer is not notified. Result: 0.
    #[op(25)]
    FinishReceiving,
    /// `scif_poll` for this endpoint, without waiting. Result: `Readiness` bits.
    #[op(64)]
    Poll {
        /// The bits to report; ERR and HUP are always reported.
        #[word(0)]
        events: u16,
    },
    /// The address at which the endpoint is bound. Result: `node << 16 | port`; port 0 if it is
    /// not bound.
    #[op(65)]
    LocalPort,
    /// The address of the other end. Result: `node << 16 | port`; `ENOTCONN` if there is none.
    #[op(66)]
    PeerPort,
    /// Does at once what `scif_close` does, even while mappings keep the open file alive. Result:
    /// 0.
    #[op(67)]
    Shutdown,
    /// How many bytes of the peer's windows one `fmap` can map: those from the offset on that lie
    /// in one contiguous piece, at most `length`. Result: their number; errors as for `scif_mmap`.
    #[op(68)]
    MapRun {
        /// Offset in the peer's registered address space, a multiple of the page size.
        #[word(0)]
        remote_offset: i64,
        /// Bytes wanted, a multiple of the page size.
        #[word(1)]
        length: u64,
    },
    /// As `MapRun`, for the endpoint's own windows and descriptors of `own-window`.
    #[op(69)]
    MapRunOwn {
        /// Offset in the own registered address space, a multiple of the page size.
        #[word(0)]
        offset: i64,
        /// Bytes wanted, a multiple of the page size.
        #[word(1)]
        length: u64,
    },
    /// `scif_get_pages`, root only. The payload receives a [`PagesHeader`] and then the address of
    /// each page, as this node's CPU and devices reach it. Result: the number of pages.
    #[op(90)]
    GetPages {
        /// Offset in the peer's registered address space, a multiple of the page size.
        #[word(0)]
        remote_offset: i64,
        /// Bytes, a multiple of the page size, within one window.
        #[word(1)]
        length: u64,
    },
    /// `scif_put_pages`, root only. Result: 0.
    #[op(91)]
    PutPages {
        /// The cookie of the [`PagesHeader`].
        #[word(0)]
        cookie: u64,
    },
}

/// An operation on a memory handle, which is a descriptor of the path `memory`, or
/// `dup(endpoint, "memory")`. Each handle has one memory object. The object goes when its last
/// descriptor and its last mapping have gone; windows keep its pages beyond that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Operation)]
#[operation(number = u64, words = 2)]
pub enum MemoryCall {
    /// Makes the object of zeroed pages, which `fmap(fd, offset)` then maps. Result: the token.
    #[op(80)]
    Provide {
        /// How many pages.
        #[word(0)]
        pages: u64,
    },
    /// Makes the object of pages of the caller's own. They stay where they are and what they are,
    /// even if the program unmaps them, until the object is no longer used. Result: the token;
    /// `ESRCH` when the daemon does not have the caller's address space (any more).
    ///
    /// A program sends the descriptor of its address space over an endpoint or a memory handle,
    /// with a number of its choice as the metadata. The daemon keeps it for requests of the same
    /// process that name the number: until the process sends another, until the handle over which
    /// it came is closed, and for one or two seconds after its last use.
    #[op(83)]
    Pin {
        /// Which pages.
        #[payload]
        record: PinRecord,
    },
}

#[cfg(test)]
mod tests {
    use super::{
        AcceptRecord, BypassRecord, CachedRecord, Call, MemoryCall, OwnRecord, PinRecord,
        RegisterRecord, RmaRecord, SignalRecord,
    };
    use crate::codec::{DecodeError, Operation as _};
    use crate::ids::PortId;
    use zerocopy::IntoBytes;

    const REGISTER: [u8; 40] = [
        1, 0, 0, 0, 0, 0, 0, 0, // token
        0, 0x10, 0, 0, 0, 0, 0, 0, // offset in the memory
        0, 0x20, 0, 0, 0, 0, 0, 0, // length
        0, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // offset: -4096
        3, 0, 0, 0, // protection
        0x10, 0, 0, 0, // flags
    ];

    fn register() -> RegisterRecord {
        RegisterRecord {
            memory: 1.into(),
            memory_offset: 0x1000.into(),
            length: 0x2000.into(),
            offset: (-4096).into(),
            protection: 3.into(),
            flags: 0x10.into(),
        }
    }

    #[test]
    fn decoding_what_was_encoded_gives_the_same_call() {
        let record = AcceptRecord {
            peer: PortId::new(1, 2),
            handle: 7.into(),
            reserved: [0; 4],
        };
        let rma = RmaRecord {
            local_offset: 1.into(),
            length: 2.into(),
            remote_offset: (-3).into(),
            flags: 4.into(),
            reserved: 0.into(),
        };
        let cached = CachedRecord {
            memory: 1.into(),
            memory_offset: 2.into(),
            length: 3.into(),
            remote_offset: 4.into(),
            flags: 5.into(),
            reserved: 0.into(),
        };
        let signal = SignalRecord {
            local_offset: 1.into(),
            local_value: 2.into(),
            remote_offset: 3.into(),
            remote_value: 4.into(),
            flags: 0x31.into(),
            reserved: 0.into(),
        };
        let bypass = BypassRecord {
            handle: 2.into(),
            own_ring_bytes: 65536.into(),
            peer_ring_bytes: 4096.into(),
            flags: 1.into(),
            reserved: [0; 16],
        };
        let calls = [
            Call::Bind { port: 65535 },
            Call::Listen {
                backlog: -1,
                flags: 1,
            },
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
            Call::Wait {
                events: 1,
                kicks: 3,
            },
            Call::Kick { kicks: 2 },
            Call::WaitBytes { written: u32::MAX },
            Call::FinishReceiving,
            Call::BypassInfo { record: bypass },
            Call::LocalPort,
            Call::PeerPort,
            Call::Register { record: register() },
            Call::Unregister {
                offset: i64::MIN,
                length: u64::MAX,
            },
            Call::ReadFrom { record: rma },
            Call::WriteTo { record: rma },
            Call::VirtualReadFrom {
                remote_offset: -1,
                flags: 4,
            },
            Call::VirtualWriteTo {
                remote_offset: i64::MAX,
                flags: u32::MAX,
            },
            Call::FenceMark { flags: 1 },
            Call::FenceWait { mark: -1 },
            Call::FenceSignal { record: signal },
            Call::CachedReadFrom { record: cached },
            Call::CachedWriteTo { record: cached },
            Call::Shutdown,
            Call::RegisterOwn {
                record: OwnRecord {
                    space: 9.into(),
                    address: 0x7000.into(),
                    length: 0x2000.into(),
                    offset: (-4096).into(),
                    protection: 3.into(),
                    flags: 0x10.into(),
                },
            },
            Call::MapRun {
                remote_offset: 4096,
                length: 8192,
            },
            Call::GetPages {
                remote_offset: 4096,
                length: 8192,
            },
            Call::PutPages { cookie: 3 },
            Call::MapRunOwn {
                offset: -4096,
                length: 4096,
            },
        ];
        for call in calls {
            let decoded = Call::decode(call.number(), call.words(), call.payload());
            assert_eq!(decoded, Ok(call));
        }
    }

    #[test]
    fn memory_calls_survive_the_way_too() {
        let calls = [
            MemoryCall::Provide { pages: 1 << 40 },
            MemoryCall::Pin {
                record: PinRecord {
                    space: 9.into(),
                    address: 0x7000.into(),
                    length: 0x2000.into(),
                    protection: 3.into(),
                    flags: PinRecord::UNCHARGED.into(),
                },
            },
        ];
        for call in calls {
            let decoded = MemoryCall::decode(call.number(), call.words(), call.payload());
            assert_eq!(decoded, Ok(call));
        }
    }

    #[test]
    fn structures_lie_as_written() {
        let call = Call::Register { record: register() };
        assert_eq!(call.payload(), REGISTER);
        assert_eq!(register().as_bytes(), REGISTER);
        assert_eq!(Call::decode(Call::REGISTER, [0; 2], &REGISTER), Ok(call));
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
