//! The ioctls of `scif_ioctl.h`: their numbers, their structures, and the [`Call`] that each
//! stands for.
//!
//! The header exists in two forms. In the older one, as first posted, an ioctl's number holds the
//! size of a pointer; in the one that was shipped it holds the size of the structure. Only the
//! structure of GET_NODEIDS differs between them. Both numbers are accepted; the shipped one comes
//! first.
//!
//! An ioctl has one argument: the address of its structure or, for LISTEN and FENCE_WAIT, the
//! value itself, which is the word here. The code that carries an ioctl out copies as many bytes
//! from the address as [`payload_len`](crate::codec::Operation::payload_len) says and decodes
//! them. It does what [`Ioctl::plan`] says, lets [`Ioctl::complete`] put the results into the
//! structure, and copies the structure back. Addresses in the structures are the caller's.

use syscall_derive::{Layout, Operation};
use zerocopy::little_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::call::{AcceptRecord, Call, RegisterRecord, RmaRecord, SignalRecord};
use crate::error::Error;
use crate::ids::PortId;

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident, $size:literal {
        $($(#[$field_doc:meta])* $offset:literal $field:ident: $kind:ty,)*
    })*) => {
        $($(#[$doc])*
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
        #[layout(size = $size, align = 1)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* #[layout(offset = $offset)] pub $field: $kind,)*
        })*
    };
}

records! {
    /// Argument of BIND. The header has an `int`, of which two bytes are the port. Known programs
    /// pass the address of two bytes, so no more are read or written.
    BindArgument, 2 {
        /// In: the port, 0 for any; out: the port.
        0 port: U16,
    }
    /// `struct scifioctl_connect`.
    ConnectArgument, 8 {
        /// Out: the own port id.
        0 own: PortId,
        /// In: the port id to connect to.
        4 peer: PortId,
    }
    /// `struct scifioctl_accept`.
    AcceptArgument, 16 {
        /// In: flags.
        0 flags: I32,
        /// Out: port id of the connector.
        4 peer: PortId,
        /// Out: the value for ACCEPTREG.
        8 endpoint: U64,
    }
    /// Argument of ACCEPTREG.
    AcceptRegisterArgument, 8 {
        /// In: the value from ACCEPTREQ.
        0 endpoint: U64,
    }
    /// `struct scifioctl_msg`.
    MessageArgument, 24 {
        /// In: address of the data or buffer.
        0 address: U64,
        /// In: bytes.
        8 length: I32,
        /// In: flags.
        12 flags: I32,
        /// Out: bytes sent or received.
        16 moved: I32,
        /// Padding.
        20 padding: U32,
    }
    /// `struct scifioctl_reg`.
    RegisterArgument, 40 {
        /// In: address of the range.
        0 address: U64,
        /// In: bytes.
        8 length: U64,
        /// In: the offset asked for.
        16 offset: I64,
        /// In: protection.
        24 protection: I32,
        /// In: flags.
        28 flags: I32,
        /// Out: offset of the window.
        32 out_offset: I64,
    }
    /// `struct scifioctl_unreg`.
    UnregisterArgument, 16 {
        /// In: offset.
        0 offset: I64,
        /// In: bytes.
        8 length: U64,
    }
    /// `struct scifioctl_copy`.
    CopyArgument, 40 {
        /// In: offset in the own windows; unused by VREADFROM and VWRITETO.
        0 local_offset: I64,
        /// In: bytes.
        8 length: U64,
        /// In: offset in the peer's windows.
        16 remote_offset: I64,
        /// In: address of the range; unused by READFROM and WRITETO.
        24 address: U64,
        /// In: flags.
        32 flags: I32,
        /// Padding.
        36 padding: U32,
    }
    /// `struct scifioctl_node_ids` as shipped.
    NodeIdsArgument, 24 {
        /// In: address of an array of `u16`.
        0 nodes: U64,
        /// In: address of a `u16` for the own node.
        8 own: U64,
        /// In: length of the array; out: number of nodes.
        16 length: I32,
        /// Padding.
        20 padding: U32,
    }
    /// `struct scifioctl_node_ids` as first posted.
    PostedNodeIdsArgument, 24 {
        /// In: address of an array of `u16`.
        0 nodes: U64,
        /// In: length of the array; out: number of nodes.
        8 length: I32,
        /// Padding.
        12 padding: U32,
        /// In: address of a `u16` for the own node.
        16 own: U64,
    }
    /// `struct scifioctl_fence_mark`.
    FenceMarkArgument, 16 {
        /// In: flags.
        0 flags: I32,
        /// Padding.
        4 padding: U32,
        /// In: address of an `int` for the mark.
        8 mark: U64,
    }
    /// `struct scifioctl_fence_signal`.
    FenceSignalArgument, 40 {
        /// In: offset in the own windows.
        0 local_offset: I64,
        /// In: value for it.
        8 local_value: U64,
        /// In: offset in the peer's windows.
        16 remote_offset: I64,
        /// In: value for it.
        24 remote_value: U64,
        /// In: flags.
        32 flags: I32,
        /// Padding.
        36 padding: U32,
    }
}

/// An ioctl with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Operation)]
#[operation(number = u32, words = 1)]
pub enum Ioctl {
    /// SCIF_BIND.
    #[op(0xc008_7301)]
    Bind {
        /// The structure.
        #[payload]
        record: BindArgument,
    },
    /// SCIF_LISTEN.
    #[op(0x4004_7302)]
    Listen {
        /// The argument itself.
        #[word(0)]
        backlog: i32,
    },
    /// SCIF_CONNECT.
    #[op(0xc008_7303)]
    Connect {
        /// The structure.
        #[payload]
        record: ConnectArgument,
    },
    /// SCIF_ACCEPTREQ.
    #[op(0xc010_7304, 0xc008_7304)]
    AcceptRequest {
        /// The structure.
        #[payload]
        record: AcceptArgument,
    },
    /// SCIF_ACCEPTREG.
    #[op(0xc008_7305)]
    AcceptRegister {
        /// The structure.
        #[payload]
        record: AcceptRegisterArgument,
    },
    /// SCIF_SEND.
    #[op(0xc018_7306, 0xc008_7306)]
    Send {
        /// The structure.
        #[payload]
        record: MessageArgument,
    },
    /// SCIF_RECV.
    #[op(0xc018_7307, 0xc008_7307)]
    Recv {
        /// The structure.
        #[payload]
        record: MessageArgument,
    },
    /// SCIF_REG.
    #[op(0xc028_7308, 0xc008_7308)]
    Register {
        /// The structure.
        #[payload]
        record: RegisterArgument,
    },
    /// SCIF_UNREG.
    #[op(0xc010_7309, 0xc008_7309)]
    Unregister {
        /// The structure.
        #[payload]
        record: UnregisterArgument,
    },
    /// SCIF_READFROM.
    #[op(0xc028_730a, 0xc008_730a)]
    ReadFrom {
        /// The structure.
        #[payload]
        record: CopyArgument,
    },
    /// SCIF_WRITETO.
    #[op(0xc028_730b, 0xc008_730b)]
    WriteTo {
        /// The structure.
        #[payload]
        record: CopyArgument,
    },
    /// SCIF_VREADFROM.
    #[op(0xc028_730c, 0xc008_730c)]
    VirtualReadFrom {
        /// The structure.
        #[payload]
        record: CopyArgument,
    },
    /// SCIF_VWRITETO.
    #[op(0xc028_730d, 0xc008_730d)]
    VirtualWriteTo {
        /// The structure.
        #[payload]
        record: CopyArgument,
    },
    /// SCIF_GET_NODEIDS as shipped.
    #[op(0xc018_730e)]
    GetNodeIds {
        /// The structure.
        #[payload]
        record: NodeIdsArgument,
    },
    /// SCIF_GET_NODEIDS as first posted.
    #[op(0xc008_730e)]
    PostedGetNodeIds {
        /// The structure.
        #[payload]
        record: PostedNodeIdsArgument,
    },
    /// SCIF_FENCE_MARK.
    #[op(0xc010_730f, 0xc008_730f)]
    FenceMark {
        /// The structure.
        #[payload]
        record: FenceMarkArgument,
    },
    /// SCIF_FENCE_WAIT.
    #[op(0xc004_7310)]
    FenceWait {
        /// The argument itself.
        #[word(0)]
        mark: i32,
    },
    /// SCIF_FENCE_SIGNAL.
    #[op(0xc028_7311, 0xc008_7311)]
    FenceSignal {
        /// The structure.
        #[payload]
        record: FenceSignalArgument,
    },
}

/// The way to carry out an ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Make this call; its payload is its own structure.
    Call(Call),
    /// Make this call; its payload is memory of the caller.
    Data {
        /// The call.
        call: Call,
        /// The address at which the memory begins.
        address: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// Register, once the range has become memory that has a token: `memory` and `memory_offset`
    /// of the record are zero.
    Register {
        /// The address at which the range begins.
        address: u64,
        /// Everything else.
        record: RegisterRecord,
    },
    /// Get the node ids.
    NodeIds {
        /// Address of an array of `u16` for the nodes online.
        nodes: u64,
        /// The length of the array.
        length: u32,
        /// Address of a `u16` for the own node; 0: not wanted.
        own: u64,
    },
}

impl Ioctl {
    /// How to carry out the ioctl.
    ///
    /// # Errors
    /// `EINVAL` for a negative length.
    pub fn plan(&self) -> Result<Plan, Error> {
        Ok(match self {
            Ioctl::Bind { record } => Plan::Call(Call::Bind {
                port: record.port.get(),
            }),
            Ioctl::Listen { backlog } => Plan::Call(Call::Listen {
                backlog: *backlog,
                flags: 0,
            }),
            Ioctl::Connect { record } => Plan::Call(Call::Connect {
                node: record.peer.node(),
                port: record.peer.port(),
            }),
            Ioctl::AcceptRequest { record } => Plan::Call(Call::AcceptRequest {
                flags: flags(record.flags),
                record: AcceptRecord::default(),
            }),
            Ioctl::AcceptRegister { record } => Plan::Call(Call::AcceptRegister {
                handle: record.endpoint.get(),
            }),
            Ioctl::Send { record } => message(record, |flags| Call::Send { flags })?,
            Ioctl::Recv { record } => message(record, |flags| Call::Recv { flags })?,
            Ioctl::Register { record } => register(record),
            Ioctl::Unregister { record } => Plan::Call(Call::Unregister {
                offset: record.offset.get(),
                length: record.length.get(),
            }),
            Ioctl::ReadFrom { record } => Plan::Call(Call::ReadFrom {
                record: registered(record),
            }),
            Ioctl::WriteTo { record } => Plan::Call(Call::WriteTo {
                record: registered(record),
            }),
            Ioctl::VirtualReadFrom { record } => unregistered(
                record,
                Call::VirtualReadFrom {
                    remote_offset: record.remote_offset.get(),
                    flags: flags(record.flags),
                },
            ),
            Ioctl::VirtualWriteTo { record } => unregistered(
                record,
                Call::VirtualWriteTo {
                    remote_offset: record.remote_offset.get(),
                    flags: flags(record.flags),
                },
            ),
            Ioctl::GetNodeIds { record } => node_ids(record.nodes, record.length, record.own)?,
            Ioctl::PostedGetNodeIds { record } => {
                node_ids(record.nodes, record.length, record.own)?
            }
            Ioctl::FenceMark { record } => Plan::Call(Call::FenceMark {
                flags: flags(record.flags),
            }),
            Ioctl::FenceWait { mark } => Plan::Call(Call::FenceWait { mark: *mark }),
            Ioctl::FenceSignal { record } => Plan::Call(Call::FenceSignal {
                record: signal(record),
            }),
        })
    }

    /// Puts the result of the call into the structure, to be copied back; the ioctl itself returns
    /// 0. `own` is the endpoint's port id, `accepted` what ACCEPTREQ filled in; they are used for
    /// CONNECT and ACCEPTREQ only. The mark of FENCE_MARK and the lists of GET_NODEIDS are stored
    /// where the structure points to, not in it.
    pub fn complete(&mut self, result: u64, own: PortId, accepted: AcceptRecord) {
        match self {
            Ioctl::Bind { record } => record.port = (result as u16).into(),
            Ioctl::Connect { record } => record.own = own,
            Ioctl::AcceptRequest { record } => {
                record.peer = accepted.peer;
                record.endpoint = accepted.handle;
            }
            Ioctl::Send { record } | Ioctl::Recv { record } => {
                record.moved = (result as i32).into();
            }
            Ioctl::Register { record } => record.out_offset = (result as i64).into(),
            Ioctl::GetNodeIds { record } => record.length = (result as i32).into(),
            Ioctl::PostedGetNodeIds { record } => record.length = (result as i32).into(),
            _ => {}
        }
    }
}

/// Converts a C `int` of flags.
fn flags(word: I32) -> u32 {
    word.get() as u32
}

fn message(record: &MessageArgument, call: impl FnOnce(u32) -> Call) -> Result<Plan, Error> {
    let length = u64::try_from(record.length.get()).map_err(|_| Error::InvalidArgument)?;
    Ok(Plan::Data {
        call: call(flags(record.flags)),
        address: record.address.get(),
        length,
    })
}

fn register(record: &RegisterArgument) -> Plan {
    Plan::Register {
        address: record.address.get(),
        record: RegisterRecord {
            memory: 0.into(),
            memory_offset: 0.into(),
            length: record.length,
            offset: record.offset,
            protection: flags(record.protection).into(),
            flags: flags(record.flags).into(),
        },
    }
}

fn registered(record: &CopyArgument) -> RmaRecord {
    RmaRecord {
        local_offset: record.local_offset,
        length: record.length,
        remote_offset: record.remote_offset,
        flags: flags(record.flags).into(),
        reserved: 0.into(),
    }
}

fn unregistered(record: &CopyArgument, call: Call) -> Plan {
    Plan::Data {
        call,
        address: record.address.get(),
        length: record.length.get(),
    }
}

fn node_ids(nodes: U64, length: I32, own: U64) -> Result<Plan, Error> {
    Ok(Plan::NodeIds {
        nodes: nodes.get(),
        length: u32::try_from(length.get()).map_err(|_| Error::InvalidArgument)?,
        own: own.get(),
    })
}

fn signal(record: &FenceSignalArgument) -> SignalRecord {
    SignalRecord {
        local_offset: record.local_offset,
        local_value: record.local_value,
        remote_offset: record.remote_offset,
        remote_value: record.remote_value,
        flags: flags(record.flags).into(),
        reserved: 0.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ioctl, Plan};
    use crate::call::{AcceptRecord, Call, RegisterRecord, RmaRecord, SignalRecord};
    use crate::codec::{DecodeError, Operation as _};
    use crate::error::Error;
    use crate::ids::PortId;

    /// Number as shipped, number as first posted, bytes of the structure. A C compiler makes these
    /// numbers from the two headers.
    const NUMBERS: [(u32, u32, usize); 17] = [
        (0xc008_7301, 0xc008_7301, 2),
        (0x4004_7302, 0x4004_7302, 0),
        (0xc008_7303, 0xc008_7303, 8),
        (0xc010_7304, 0xc008_7304, 16),
        (0xc008_7305, 0xc008_7305, 8),
        (0xc018_7306, 0xc008_7306, 24),
        (0xc018_7307, 0xc008_7307, 24),
        (0xc028_7308, 0xc008_7308, 40),
        (0xc010_7309, 0xc008_7309, 16),
        (0xc028_730a, 0xc008_730a, 40),
        (0xc028_730b, 0xc008_730b, 40),
        (0xc028_730c, 0xc008_730c, 40),
        (0xc028_730d, 0xc008_730d, 40),
        (0xc018_730e, 0xc008_730e, 24),
        (0xc010_730f, 0xc008_730f, 16),
        (0xc004_7310, 0xc004_7310, 0),
        (0xc028_7311, 0xc008_7311, 40),
    ];

    /// Bytes 1, 2, 3, …: every field has another value.
    fn counting(length: usize) -> [u8; 40] {
        let mut bytes = [0; 40];
        for (index, byte) in bytes[..length].iter_mut().enumerate() {
            *byte = index as u8 + 1;
        }
        bytes
    }

    /// The field of `bytes` bytes at `offset` of such a structure.
    fn field(offset: u8, bytes: u8) -> u64 {
        let byte = |at: u8| u64::from(offset + at + 1) << (8 * at);
        (0..bytes).map(byte).sum()
    }

    fn port_id(offset: u8) -> PortId {
        PortId::new(field(offset, 2) as u16, field(offset + 2, 2) as u16)
    }

    fn plan(request: u32, length: usize) -> Plan {
        let decoded = Ioctl::decode(request, [77], &counting(length)[..length]).unwrap();
        assert_eq!(decoded.payload(), &counting(length)[..length]);
        decoded.plan().unwrap()
    }

    /// The meaning that ioctl number `number` must have when its structure is `counting`.
    fn expected(number: usize) -> Plan {
        let rma = RmaRecord {
            local_offset: (field(0, 8) as i64).into(),
            length: field(8, 8).into(),
            remote_offset: (field(16, 8) as i64).into(),
            flags: (field(32, 4) as u32).into(),
            reserved: 0.into(),
        };
        let (remote_offset, flags) = (field(16, 8) as i64, field(32, 4) as u32);
        let range = |call| Plan::Data {
            call,
            address: field(24, 8),
            length: field(8, 8),
        };
        let message = |call| Plan::Data {
            call,
            address: field(0, 8),
            length: field(8, 4),
        };
        match number {
            1 => Plan::Call(Call::Bind {
                port: field(0, 2) as u16,
            }),
            2 => Plan::Call(Call::Listen {
                backlog: 77,
                flags: 0,
            }),
            3 => Plan::Call(Call::Connect {
                node: port_id(4).node(),
                port: port_id(4).port(),
            }),
            4 => Plan::Call(Call::AcceptRequest {
                flags: field(0, 4) as u32,
                record: AcceptRecord::default(),
            }),
            5 => Plan::Call(Call::AcceptRegister {
                handle: field(0, 8),
            }),
            6 => message(Call::Send {
                flags: field(12, 4) as u32,
            }),
            7 => message(Call::Recv {
                flags: field(12, 4) as u32,
            }),
            8 => Plan::Register {
                address: field(0, 8),
                record: RegisterRecord {
                    memory: 0.into(),
                    memory_offset: 0.into(),
                    length: field(8, 8).into(),
                    offset: (field(16, 8) as i64).into(),
                    protection: (field(24, 4) as u32).into(),
                    flags: (field(28, 4) as u32).into(),
                },
            },
            9 => Plan::Call(Call::Unregister {
                offset: field(0, 8) as i64,
                length: field(8, 8),
            }),
            10 => Plan::Call(Call::ReadFrom { record: rma }),
            11 => Plan::Call(Call::WriteTo { record: rma }),
            12 => range(Call::VirtualReadFrom {
                remote_offset,
                flags,
            }),
            13 => range(Call::VirtualWriteTo {
                remote_offset,
                flags,
            }),
            14 => Plan::NodeIds {
                nodes: field(0, 8),
                length: field(16, 4) as u32,
                own: field(8, 8),
            },
            15 => Plan::Call(Call::FenceMark {
                flags: field(0, 4) as u32,
            }),
            16 => Plan::Call(Call::FenceWait { mark: 77 }),
            _ => Plan::Call(Call::FenceSignal {
                record: SignalRecord {
                    local_offset: rma.local_offset,
                    local_value: rma.length,
                    remote_offset: rma.remote_offset,
                    remote_value: field(24, 8).into(),
                    flags: rma.flags,
                    reserved: 0.into(),
                },
            }),
        }
    }

    #[test]
    fn every_number_of_both_headers_means_its_call() {
        for (index, (shipped, posted, length)) in NUMBERS.into_iter().enumerate() {
            let number = index + 1;
            for request in [shipped, posted] {
                assert_eq!(Ioctl::payload_len(request), Some(length), "{request:#x}");
                assert!(Ioctl::name(request).is_some());
                if number == 14 && request == posted {
                    continue;
                }
                assert_eq!(plan(request, length), expected(number), "{request:#x}");
            }
            // The call has the ioctl's number.
            let (Plan::Call(call) | Plan::Data { call, .. }) = expected(number) else {
                continue;
            };
            assert_eq!(call.number(), number as u64);
        }
        let posted_node_ids = Plan::NodeIds {
            nodes: field(0, 8),
            length: field(8, 4) as u32,
            own: field(16, 8),
        };
        assert_eq!(plan(0xc008_730e, 24), posted_node_ids);
    }

    #[test]
    fn numbers_are_made_of_direction_size_and_letter() {
        for (index, (shipped, posted, length)) in NUMBERS.into_iter().enumerate() {
            let number = index as u32 + 1;
            let is_value = matches!(number, 2 | 16);
            let direction: u32 = if number == 2 { 1 } else { 3 };
            let encode = |size: u32| direction << 30 | size << 16 | 0x73 << 8 | number;
            let size = match number {
                1 => 8,
                _ if is_value => 4,
                _ => length as u32,
            };
            assert_eq!(shipped, encode(size));
            assert_eq!(posted, encode(if is_value { 4 } else { 8 }));
        }
    }

    #[test]
    fn other_numbers_and_lengths_are_refused() {
        for request in [0, 1, 17, 0xc008_7300, 0xc008_7312, 0x4008_7303, 0xc007_7303] {
            let unknown = DecodeError::UnknownOperation {
                number: request.into(),
            };
            assert_eq!(Ioctl::decode(request, [0], &[]), Err(unknown));
            assert_eq!(Ioctl::payload_len(request), None);
        }
        assert!(Ioctl::decode(0xc018_7306, [0], &[0; 23]).is_err());
        assert!(Ioctl::decode(0x4004_7302, [1 << 31], &[]).is_err());
    }

    #[test]
    fn negative_lengths_are_invalid() {
        let mut bytes = [0; 24];
        for (request, at) in [
            (0xc018_7306, 8),
            (0xc008_7307, 8),
            (0xc018_730e, 16),
            (0xc008_730e, 8),
        ] {
            bytes.fill(0);
            bytes[at..at + 4].fill(0xff);
            let ioctl = Ioctl::decode(request, [0], &bytes).unwrap();
            assert_eq!(ioctl.plan(), Err(Error::InvalidArgument));
        }
    }

    #[test]
    fn results_go_where_the_header_has_them() {
        let own = PortId::new(3, 0x0441);
        let accepted = AcceptRecord {
            peer: PortId::new(1, 0x0802),
            reserved: [0; 4],
            handle: 0x1122_3344_5566_7788.into(),
        };
        // Number, result of the call, where the bytes differ from zero and how.
        let cases: [(u32, u64, usize, &[u8]); 9] = [
            (0xc008_7301, 0x0441, 0, &[0x41, 0x04]),
            (0xc008_7303, 0x0441, 0, &[3, 0, 0x41, 0x04]),
            (
                0xc010_7304,
                0,
                4,
                &[1, 0, 2, 8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11],
            ),
            (0xc018_7306, 5, 16, &[5]),
            (0xc008_7307, 0x0102, 16, &[2, 1]),
            (
                0xc028_7308,
                0x4000_0000_0000_1000,
                32,
                &[0, 0x10, 0, 0, 0, 0, 0, 0x40],
            ),
            (0xc018_730e, 3, 16, &[3]),
            (0xc008_730e, 3, 8, &[3]),
            (0xc008_730f, 9, 0, &[]),
        ];
        for (request, result, at, bytes) in cases {
            let length = Ioctl::payload_len(request).unwrap();
            let mut ioctl = Ioctl::decode(request, [0], &[0; 40][..length]).unwrap();
            ioctl.complete(result, own, accepted);
            let mut expected = [0; 40];
            expected[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(ioctl.payload(), &expected[..length], "{request:#x}");
        }
    }
}
