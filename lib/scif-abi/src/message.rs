//! Node queue pair messages: 44 bytes, with the mainline driver's opcodes and payload positions.
//!
//! [`Message`] is the record on the wire, [`NodeMessage`] what it means. Opcodes 19 to 39 (windows,
//! fences) join when registered memory does; until then they are unknown and ignored, which is what
//! the mainline driver does with opcodes it does not know.
//!
//! "A" is the side that connects, "P" the side that accepts. Ids are the sender's own, opaque to the
//! other side, which only ever echoes them.

use syscall_derive::{Layout, Operation};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec::{DecodeError, Operation as _};
use crate::ids::PortId;

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 44;

/// Signature in the upper half of a queue pair's extension word; without it nothing is offered.
pub const EXTENSION_SIGNATURE: u32 = 0x5c1f_0000;

bitflags::bitflags! {
    /// Protocol extensions. Each side offers its own in its node queue pair structure
    /// ([`QueuePair::extensions`](crate::qp::QueuePair)); one is in use when both offer it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Extensions: u32 {
        /// A connector may withdraw its request: CNCT_TERM and TERM_ACK.
        const WITHDRAW = 1;
    }
}

impl Extensions {
    /// The word to publish.
    pub fn to_word(self) -> u32 {
        EXTENSION_SIGNATURE | self.bits()
    }

    /// What a peer's word offers. Unknown bits are ignored.
    pub fn from_word(word: u32) -> Extensions {
        if word & 0xffff_0000 == EXTENSION_SIGNATURE {
            Extensions::from_bits_truncate(word)
        } else {
            Extensions::empty()
        }
    }
}

/// A message as it lies in a node ring (`struct scifmsg`): packed, little endian.
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
#[layout(size = 44, align = 1)]
#[repr(C)]
pub struct Message {
    /// Port the message comes from.
    #[layout(offset = 0)]
    pub source: PortId,
    /// Port it is for.
    #[layout(offset = 4)]
    pub destination: PortId,
    /// What it means.
    #[layout(offset = 8)]
    pub opcode: U32,
    /// Meaning depends on the opcode.
    #[layout(offset = 12)]
    pub payload: [U64; 4],
}

impl Message {
    /// The message that says `body` from `source` to `destination`.
    pub fn new(source: PortId, destination: PortId, body: NodeMessage) -> Message {
        Message {
            source,
            destination,
            opcode: body.number().into(),
            payload: body.words().map(U64::new),
        }
    }

    /// What the message says.
    ///
    /// # Errors
    /// `UnknownOperation` for opcodes this stack does not know, `WordOutOfRange` for bad values.
    pub fn body(&self) -> Result<NodeMessage, DecodeError> {
        NodeMessage::decode(self.opcode.get(), self.payload.map(U64::get), &[])
    }
}

/// What a node queue pair message says. The mainline name of each is in its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Operation)]
#[operation(number = u32, words = 4)]
pub enum NodeMessage {
    /// INIT: first message of a node; its queue pair can be used.
    #[op(1)]
    Init,
    /// EXIT: last request of a node; it leaves the network.
    #[op(2)]
    Exit,
    /// EXIT_ACK: all ties to the node that leaves are cut.
    #[op(3)]
    ExitAck,
    /// NODE_ADD: the host introduces a node (card-to-card); the source node is the new one.
    #[op(4)]
    NodeAdd,
    /// NODE_ADD_NACK: the introduction is not wanted or failed.
    #[op(6)]
    NodeAddNack,
    /// NODE_REMOVE: the host tells that a node has gone.
    #[op(7)]
    NodeRemove {
        /// The node that has gone.
        #[word(0)]
        node: u64,
    },
    /// NODE_REMOVE_ACK: the ties to it are cut.
    #[op(8)]
    NodeRemoveAck {
        /// The node that has gone.
        #[word(0)]
        node: u64,
    },
    /// CNCT_REQ, A to P: connect the source port to the destination port.
    #[op(9)]
    ConnectRequest {
        /// A's id.
        #[word(0)]
        connector: u64,
        /// Bus address of A's queue pair structure.
        #[word(1)]
        queue_pair: u64,
    },
    /// CNCT_GNT, P to A: accepted.
    #[op(10)]
    ConnectGrant {
        /// A's id.
        #[word(0)]
        connector: u64,
        /// Bus address of P's queue pair structure.
        #[word(1)]
        queue_pair: u64,
        /// P's id.
        #[word(2)]
        acceptor: u64,
    },
    /// CNCT_GNTACK, A to P: connected.
    #[op(11)]
    ConnectGrantAck {
        /// P's id.
        #[word(0)]
        acceptor: u64,
    },
    /// CNCT_GNTNACK, A to P: no longer wanted.
    #[op(12)]
    ConnectGrantNack {
        /// P's id.
        #[word(0)]
        acceptor: u64,
    },
    /// CNCT_REJ, P to A: refused.
    #[op(13)]
    ConnectReject {
        /// A's id.
        #[word(0)]
        connector: u64,
    },
    /// DISCNCT: the sender has closed and will not touch the connection again.
    #[op(14)]
    Disconnect {
        /// The sender's id.
        #[word(0)]
        closer: u64,
        /// The receiver's id.
        #[word(1)]
        peer: u64,
    },
    /// DISCNT_ACK: nor will the receiver of a DISCNCT. Always sent.
    #[op(15)]
    DisconnectAck {
        /// As in the DISCNCT: the id of its sender.
        #[word(0)]
        closer: u64,
        /// As in the DISCNCT: the id of its receiver.
        #[word(1)]
        peer: u64,
    },
    /// CLIENT_SENT: bytes have been put into the receiver's ring.
    #[op(16)]
    ClientSent {
        /// The receiver's id.
        #[word(0)]
        peer: u64,
    },
    /// CLIENT_RCVD: bytes have been taken out of the sender's ring; there is room again.
    #[op(17)]
    ClientReceived {
        /// The receiver's id.
        #[word(0)]
        peer: u64,
    },
    /// GET_NODE_INFO: which nodes are there? Asked by a card, answered by the host with the same opcode.
    #[op(18)]
    GetNodeInfo {
        /// Answer: highest node id ever seen.
        #[word(1)]
        max_node: u64,
        /// Answer: number of nodes online, the host included.
        #[word(2)]
        total: u64,
        /// Chosen by the asking side, echoed.
        #[word(3)]
        waiter: u64,
    },
    /// CNCT_TERM, A to P, extension [`Extensions::WITHDRAW`]: forget my request if it is still queued.
    /// Whatever happens, exactly one of TERM_ACK, CNCT_GNT and CNCT_REJ answers a request.
    #[op(64)]
    ConnectWithdraw {
        /// A's id.
        #[word(0)]
        connector: u64,
    },
    /// TERM_ACK, P to A: the request was still queued and is forgotten.
    #[op(65)]
    WithdrawAck {
        /// A's id.
        #[word(0)]
        connector: u64,
    },
}
