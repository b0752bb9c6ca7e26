//! Node queue pair messages: 44 bytes, with the mainline driver's opcodes and payload positions.
//!
//! [`Message`] is the record on the wire, [`NodeMessage`] what it means. Unknown opcodes are
//! ignored, as in the mainline driver. `docs/wire.md` shows how the messages follow each other.
//!
//! "A" is the side that connects, "P" the side that accepts. Of a window, the *owner* has
//! registered the memory; the *user* is the other end, which keeps a copy of its page list. Ids
//! are the sender's own and opaque to the other side, which only echoes them. The mainline driver
//! does not fill in the port ids of most window and fence messages, nor words that it does not
//! read.

use syscall_derive::{Layout, Operation};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec::{DecodeError, Operation as _};
use crate::ids::PortId;

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 44;

/// The signature in the upper half of a queue pair's extension word; without it no extension is
/// offered.
pub const EXTENSION_SIGNATURE: u32 = 0x5c1f_0000;

bitflags::bitflags! {
    /// Protocol extensions. Each side offers its own in its node queue pair structure
    /// ([`QueuePair::extensions`](crate::qp::QueuePair)); an extension is in use when both sides
    /// offer it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Extensions: u32 {
        /// A connector may withdraw its request: CNCT_TERM and TERM_ACK.
        const WITHDRAW = 1;
        /// Each side asks for notifications of bytes and of room when it sleeps. The words at
        /// [`BYTES_ARMED_OFFSET`](crate::qp::BYTES_ARMED_OFFSET) and
        /// [`ROOM_ARMED_OFFSET`](crate::qp::ROOM_ARMED_OFFSET) behind a connection's queue pair
        /// structure exist, and the structure and its ring have pages of their own. The first of
        /// the words also exists behind the node's queue pair structure, and tells whether
        /// messages need a doorbell.
        const ARMED = 2;
        /// A side may announce that it puts no more bytes into a connection: FINISH.
        const FINISH = 4;
        /// DISCNCT and DISCNT_ACK tell how much of the receiver's ring their sender has stored
        /// into.
        const STORED = 8;
    }
}

impl Extensions {
    /// The word to publish for these extensions.
    pub fn to_word(self) -> u32 {
        EXTENSION_SIGNATURE | self.bits()
    }

    /// The extensions that a peer's word offers. Unknown bits are ignored.
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
    /// The port that the message comes from.
    #[layout(offset = 0)]
    pub source: PortId,
    /// The port that the message is for.
    #[layout(offset = 4)]
    pub destination: PortId,
    /// The kind of the message.
    #[layout(offset = 8)]
    pub opcode: U32,
    /// The meaning depends on the opcode.
    #[layout(offset = 12)]
    pub payload: [U64; 4],
}

impl Message {
    /// The message with the content `body`, from `source` to `destination`.
    pub fn new(source: PortId, destination: PortId, body: NodeMessage) -> Message {
        Message {
            source,
            destination,
            opcode: body.number().into(),
            payload: body.words().map(U64::new),
        }
    }

    /// The content of the message.
    ///
    /// # Errors
    /// `UnknownOperation` for opcodes that this stack does not know, `WordOutOfRange` for bad
    /// values.
    pub fn body(&self) -> Result<NodeMessage, DecodeError> {
        NodeMessage::decode(self.opcode.get(), self.payload.map(U64::get), &[])
    }
}

/// The content of a node queue pair message. The mainline name of each is in its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Operation)]
#[operation(number = u32, words = 4)]
pub enum NodeMessage {
    /// INIT: the first message of a node. Its queue pair can be used.
    #[op(1)]
    Init,
    /// EXIT: the last request of a node, which leaves the network.
    #[op(2)]
    Exit,
    /// EXIT_ACK: the sender has ended everything that it had with the node that leaves.
    #[op(3)]
    ExitAck,
    /// NODE_ADD: the host introduces a node (card-to-card); the source node is the new one.
    #[op(4)]
    NodeAdd,
    /// NODE_ADD_NACK: the introduction is not wanted or failed.
    #[op(6)]
    NodeAddNack,
    /// NODE_REMOVE: the host reports that a node has gone.
    #[op(7)]
    NodeRemove {
        /// The node that has gone.
        #[word(0)]
        node: u64,
    },
    /// NODE_REMOVE_ACK: the sender has ended everything that it had with that node.
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
    /// CNCT_GNTNACK, A to P: the connection is no longer wanted.
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
        /// With extension [`Extensions::STORED`]: 1 more than the number of bytes, from the
        /// beginning of the receiver's ring, that the sender may have stored into. 0: perhaps all
        /// of them; also without the extension.
        #[word(2)]
        stored: u64,
    },
    /// DISCNT_ACK: the receiver of the DISCNCT will not touch the connection again either. Always
    /// sent.
    #[op(15)]
    DisconnectAck {
        /// As in the DISCNCT: the id of its sender.
        #[word(0)]
        closer: u64,
        /// As in the DISCNCT: the id of its receiver.
        #[word(1)]
        peer: u64,
        /// As in the DISCNCT, for the sender of this message.
        #[word(2)]
        stored: u64,
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
    /// GET_NODE_INFO: asks which nodes there are. A card asks, and the host answers with the same
    /// opcode.
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
    /// REGISTER, owner to user: the granted structure is filled in, and the window exists now.
    #[op(19)]
    Register {
        /// The receiver's endpoint id.
        #[word(0)]
        peer: u64,
        /// The user's id of the window.
        #[word(1)]
        user_window: u64,
        /// The owner's id of the window.
        #[word(2)]
        owner_window: u64,
    },
    /// REGISTER_ACK, user to owner: the window can be used.
    #[op(20)]
    RegisterAck {
        /// As in the REGISTER: the endpoint id of this message's sender.
        #[word(0)]
        peer: u64,
        /// The user's id of the window.
        #[word(1)]
        user_window: u64,
        /// The owner's id of the window.
        #[word(2)]
        owner_window: u64,
    },
    /// REGISTER_NACK, user to owner: not connected, or a bad structure. The user has forgotten the
    /// window.
    #[op(21)]
    RegisterNack {
        /// As in the REGISTER: the endpoint id of this message's sender.
        #[word(0)]
        peer: u64,
        /// The user's id of the window.
        #[word(1)]
        user_window: u64,
        /// The owner's id of the window.
        #[word(2)]
        owner_window: u64,
    },
    /// UNREGISTER, owner to user: begin no new use of the window. Always answered.
    #[op(22)]
    Unregister {
        /// The user's id of the window.
        #[word(0)]
        user_window: u64,
        /// The owner's id of the window.
        #[word(1)]
        owner_window: u64,
    },
    /// UNREGISTER_ACK, user to owner: nothing on the user's side uses the window or knows its id
    /// any more. MPSS 4 calls it DELETE_WINDOW.
    #[op(23)]
    UnregisterAck {
        /// The owner's endpoint id.
        #[word(0)]
        owner: u64,
        /// The owner's id of the window.
        #[word(1)]
        owner_window: u64,
    },
    /// UNREGISTER_NACK, user to owner: the window is still mapped or being copied; MUNMAP follows.
    /// MPSS 4 calls it USED_WINDOW.
    #[op(24)]
    UnregisterNack {
        /// The owner's endpoint id.
        #[word(0)]
        owner: u64,
        /// The owner's id of the window.
        #[word(1)]
        owner_window: u64,
        /// 1: no program has mapped the window, only libraries have, for copies. The window is not
        /// found at its offsets any more, so these are free. Drivers that do not know this word
        /// send 0.
        #[word(2)]
        is_offset_free: u64,
    },
    /// ALLOC_REQ, owner to user: lend a window structure, so that the owner can write its page
    /// list to it. Answered by ALLOC_GNT or ALLOC_REJ.
    #[op(25)]
    AllocRequest {
        /// The receiver's endpoint id, which is not read. The mainline driver sends 0.
        #[word(0)]
        peer: u64,
        /// Pages of the window.
        #[word(1)]
        pages: u64,
        /// Chosen by the owner, echoed.
        #[word(2)]
        waiter: u64,
    },
    /// ALLOC_GNT, user to owner: lends the structure.
    #[op(26)]
    AllocGrant {
        /// The user's id of the window.
        #[word(0)]
        user_window: u64,
        /// Bus address of the structure ([`WindowRecord`](crate::window::WindowRecord)).
        #[word(1)]
        address: u64,
        /// From the ALLOC_REQ.
        #[word(2)]
        waiter: u64,
    },
    /// ALLOC_REJ, user to owner: no memory for the structure.
    #[op(27)]
    AllocReject {
        /// From the ALLOC_REQ.
        #[word(2)]
        waiter: u64,
    },
    /// FREE_VIRT, owner to user: the window will not be registered, so the structure goes back to
    /// the user. Not answered.
    #[op(28)]
    FreeVirtual {
        /// The receiver's endpoint id.
        #[word(0)]
        peer: u64,
        /// The user's id of the window.
        #[word(1)]
        user_window: u64,
        /// The owner's id of the window.
        #[word(2)]
        owner_window: u64,
        /// The opcode of the message that is answered: always 19, REGISTER.
        #[word(3)]
        kind: u64,
    },
    /// MUNMAP, user to owner, after an UNREGISTER_NACK: the last use of the window has ended, and
    /// nothing on the user's side knows its id any more.
    #[op(29)]
    Munmap {
        /// The owner's id of the window.
        #[word(0)]
        owner_window: u64,
    },
    /// MARK: make a mark for what has been copied through the receiver's end of the connection so
    /// far.
    #[op(30)]
    Mark {
        /// The receiver's endpoint id.
        #[word(0)]
        peer: u64,
        /// Chosen by the asking side, echoed.
        #[word(1)]
        waiter: u64,
    },
    /// MARK_ACK: the mark.
    #[op(31)]
    MarkAck {
        /// The receiver's endpoint id, which asked.
        #[word(0)]
        requester: u64,
        /// Chosen by the asking side, echoed.
        #[word(1)]
        waiter: u64,
        /// The mark. Its lower 31 bits count: the mainline driver extends the sign of an `int`.
        #[word(2)]
        mark: u64,
    },
    /// MARK_NACK: not connected, or no memory.
    #[op(32)]
    MarkNack {
        /// The receiver's endpoint id: it asked.
        #[word(0)]
        requester: u64,
        /// Chosen by the asking side, echoed.
        #[word(1)]
        waiter: u64,
    },
    /// WAIT: answer when everything before that mark of the receiver's has been copied.
    #[op(33)]
    Wait {
        /// The receiver's endpoint id.
        #[word(0)]
        peer: u64,
        /// Chosen by the asking side, echoed.
        #[word(1)]
        waiter: u64,
        /// From a MARK_ACK; the lower 31 bits count.
        #[word(2)]
        mark: u64,
    },
    /// WAIT_ACK: everything has been copied.
    #[op(34)]
    WaitAck {
        /// The receiver's endpoint id: it asked.
        #[word(0)]
        requester: u64,
        /// Chosen by the asking side, echoed.
        #[word(1)]
        waiter: u64,
    },
    /// WAIT_NACK: unknown mark, not connected, or no memory.
    #[op(35)]
    WaitNack {
        /// The receiver's endpoint id: it asked.
        #[word(0)]
        requester: u64,
        /// Chosen by the asking side, echoed.
        #[word(1)]
        waiter: u64,
    },
    /// SIG_LOCAL: write a value to a window of the receiver's own, once what has been copied
    /// through the receiver's end so far has arrived.
    #[op(36)]
    SignalLocal {
        /// The receiver's endpoint id.
        #[word(0)]
        peer: u64,
        /// Registered offset, a multiple of 4.
        #[word(1)]
        offset: u64,
        /// The 8 bytes to write there.
        #[word(2)]
        value: u64,
        /// Chosen by the asking side, echoed.
        #[word(3)]
        waiter: u64,
    },
    /// SIG_REMOTE: as SIG_LOCAL, but write the value to a window of the sender's.
    #[op(37)]
    SignalRemote {
        /// The receiver's endpoint id.
        #[word(0)]
        peer: u64,
        /// Registered offset, a multiple of 4.
        #[word(1)]
        offset: u64,
        /// The 8 bytes to write there.
        #[word(2)]
        value: u64,
        /// Chosen by the asking side, echoed.
        #[word(3)]
        waiter: u64,
    },
    /// SIG_ACK: the write is queued behind the copies.
    #[op(38)]
    SignalAck {
        /// The receiver's endpoint id: it asked.
        #[word(0)]
        requester: u64,
        /// Chosen by the asking side, echoed.
        #[word(3)]
        waiter: u64,
    },
    /// SIG_NACK: there is no such writable place, or not connected.
    #[op(39)]
    SignalNack {
        /// The receiver's endpoint id: it asked.
        #[word(0)]
        requester: u64,
        /// Chosen by the asking side, echoed.
        #[word(3)]
        waiter: u64,
    },
    /// CNCT_TERM, A to P, extension [`Extensions::WITHDRAW`]: forget A's request if it is still
    /// queued. In any case exactly one of TERM_ACK, CNCT_GNT and CNCT_REJ answers the request.
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
    /// FINISH, extension [`Extensions::FINISH`]: the sender puts no more bytes into the receiver's
    /// ring; the other direction goes on.
    #[op(66)]
    Finish {
        /// The receiver's id.
        #[word(0)]
        peer: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::{Extensions, Message, NodeMessage};
    use crate::codec::{DecodeError, Operation as _};
    use crate::ids::PortId;
    use zerocopy::IntoBytes;

    fn message(body: NodeMessage) -> Message {
        Message::new(PortId::new(1, 0x0440), PortId::new(0, 0x07d0), body)
    }

    #[test]
    fn a_connect_request_has_the_mainline_layout() {
        let body = NodeMessage::ConnectRequest {
            connector: 0x1122_3344_5566_7788,
            queue_pair: 0x99aa_bbcc_ddee_ff00,
        };
        #[rustfmt::skip]
        let expected = [
            0x01, 0x00, 0x40, 0x04, // source node, port
            0x00, 0x00, 0xd0, 0x07, // destination node, port
            0x09, 0x00, 0x00, 0x00, // CNCT_REQ
            0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
            0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,
            0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(message(body).as_bytes(), expected);
        assert_eq!(message(body).body(), Ok(body));
    }

    #[test]
    fn opcodes_and_payload_positions_are_the_mainline_ones() {
        // The opcode, the payload words and the message that must have them.
        let table = [
            (1, [0, 0, 0, 0], NodeMessage::Init),
            (2, [0, 0, 0, 0], NodeMessage::Exit),
            (3, [0, 0, 0, 0], NodeMessage::ExitAck),
            (4, [0, 0, 0, 0], NodeMessage::NodeAdd),
            (6, [0, 0, 0, 0], NodeMessage::NodeAddNack),
            (7, [5, 0, 0, 0], NodeMessage::NodeRemove { node: 5 }),
            (8, [5, 0, 0, 0], NodeMessage::NodeRemoveAck { node: 5 }),
            (
                9,
                [1, 2, 0, 0],
                NodeMessage::ConnectRequest {
                    connector: 1,
                    queue_pair: 2,
                },
            ),
            (
                10,
                [1, 2, 3, 0],
                NodeMessage::ConnectGrant {
                    connector: 1,
                    queue_pair: 2,
                    acceptor: 3,
                },
            ),
            (
                11,
                [1, 0, 0, 0],
                NodeMessage::ConnectGrantAck { acceptor: 1 },
            ),
            (
                12,
                [1, 0, 0, 0],
                NodeMessage::ConnectGrantNack { acceptor: 1 },
            ),
            (
                13,
                [1, 0, 0, 0],
                NodeMessage::ConnectReject { connector: 1 },
            ),
            (
                14,
                [1, 2, 3, 0],
                NodeMessage::Disconnect {
                    closer: 1,
                    peer: 2,
                    stored: 3,
                },
            ),
            (
                15,
                [1, 2, 3, 0],
                NodeMessage::DisconnectAck {
                    closer: 1,
                    peer: 2,
                    stored: 3,
                },
            ),
            (16, [1, 0, 0, 0], NodeMessage::ClientSent { peer: 1 }),
            (17, [1, 0, 0, 0], NodeMessage::ClientReceived { peer: 1 }),
            (
                18,
                [0, 1, 2, 3],
                NodeMessage::GetNodeInfo {
                    max_node: 1,
                    total: 2,
                    waiter: 3,
                },
            ),
            (
                19,
                [1, 2, 3, 0],
                NodeMessage::Register {
                    peer: 1,
                    user_window: 2,
                    owner_window: 3,
                },
            ),
            (
                20,
                [1, 2, 3, 0],
                NodeMessage::RegisterAck {
                    peer: 1,
                    user_window: 2,
                    owner_window: 3,
                },
            ),
            (
                21,
                [1, 2, 3, 0],
                NodeMessage::RegisterNack {
                    peer: 1,
                    user_window: 2,
                    owner_window: 3,
                },
            ),
            (
                22,
                [1, 2, 0, 0],
                NodeMessage::Unregister {
                    user_window: 1,
                    owner_window: 2,
                },
            ),
            (
                23,
                [1, 2, 0, 0],
                NodeMessage::UnregisterAck {
                    owner: 1,
                    owner_window: 2,
                },
            ),
            (
                24,
                [1, 2, 3, 0],
                NodeMessage::UnregisterNack {
                    owner: 1,
                    owner_window: 2,
                    is_offset_free: 3,
                },
            ),
            (
                25,
                [1, 2, 3, 0],
                NodeMessage::AllocRequest {
                    peer: 1,
                    pages: 2,
                    waiter: 3,
                },
            ),
            (
                26,
                [1, 2, 3, 0],
                NodeMessage::AllocGrant {
                    user_window: 1,
                    address: 2,
                    waiter: 3,
                },
            ),
            (27, [0, 0, 3, 0], NodeMessage::AllocReject { waiter: 3 }),
            (
                28,
                [1, 2, 3, 4],
                NodeMessage::FreeVirtual {
                    peer: 1,
                    user_window: 2,
                    owner_window: 3,
                    kind: 4,
                },
            ),
            (29, [1, 0, 0, 0], NodeMessage::Munmap { owner_window: 1 }),
            (30, [1, 2, 0, 0], NodeMessage::Mark { peer: 1, waiter: 2 }),
            (
                31,
                [1, 2, 3, 0],
                NodeMessage::MarkAck {
                    requester: 1,
                    waiter: 2,
                    mark: 3,
                },
            ),
            (
                32,
                [1, 2, 0, 0],
                NodeMessage::MarkNack {
                    requester: 1,
                    waiter: 2,
                },
            ),
            (
                33,
                [1, 2, 3, 0],
                NodeMessage::Wait {
                    peer: 1,
                    waiter: 2,
                    mark: 3,
                },
            ),
            (
                34,
                [1, 2, 0, 0],
                NodeMessage::WaitAck {
                    requester: 1,
                    waiter: 2,
                },
            ),
            (
                35,
                [1, 2, 0, 0],
                NodeMessage::WaitNack {
                    requester: 1,
                    waiter: 2,
                },
            ),
            (
                36,
                [1, 2, 3, 4],
                NodeMessage::SignalLocal {
                    peer: 1,
                    offset: 2,
                    value: 3,
                    waiter: 4,
                },
            ),
            (
                37,
                [1, 2, 3, 4],
                NodeMessage::SignalRemote {
                    peer: 1,
                    offset: 2,
                    value: 3,
                    waiter: 4,
                },
            ),
            (
                38,
                [1, 0, 0, 4],
                NodeMessage::SignalAck {
                    requester: 1,
                    waiter: 4,
                },
            ),
            (
                39,
                [1, 0, 0, 4],
                NodeMessage::SignalNack {
                    requester: 1,
                    waiter: 4,
                },
            ),
            (
                64,
                [1, 0, 0, 0],
                NodeMessage::ConnectWithdraw { connector: 1 },
            ),
            (65, [1, 0, 0, 0], NodeMessage::WithdrawAck { connector: 1 }),
            (66, [1, 0, 0, 0], NodeMessage::Finish { peer: 1 }),
        ];
        for (opcode, words, body) in table {
            assert_eq!((body.number(), body.words()), (opcode, words));
            assert_eq!(NodeMessage::decode(opcode, words, &[]), Ok(body));
            assert!(NodeMessage::name(opcode).is_some());
        }
    }

    #[test]
    fn unknown_opcodes_are_an_error_and_stray_words_are_not() {
        for opcode in [0, 5, 40, 63, 67, u32::MAX] {
            let error = DecodeError::UnknownOperation {
                number: opcode.into(),
            };
            assert_eq!(NodeMessage::decode(opcode, [0; 4], &[]), Err(error));
            assert_eq!(NodeMessage::name(opcode), None);
        }
        // The mainline driver leaves what was on its stack in words it does not use.
        assert_eq!(NodeMessage::decode(1, [7; 4], &[]), Ok(NodeMessage::Init));
    }

    #[test]
    fn extensions_need_their_signature() {
        let offer = Extensions::all();
        assert_eq!(Extensions::from_word(offer.to_word()), offer);
        assert_eq!(Extensions::from_word(0), Extensions::empty());
        assert_eq!(Extensions::from_word(offer.bits()), Extensions::empty());
        assert_eq!(Extensions::from_word(u32::MAX), Extensions::empty());
        assert_eq!(Extensions::from_word(offer.to_word() | 0x8000), offer);
    }
}
