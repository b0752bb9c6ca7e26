//! The trace: the latest events of a node's SCIF daemon, in memory that outlives the daemon.
//!
//! ```text
//!  0  Header
//! 64  TraceEntry × slots     entry number n is in slot n % slots
//! ```
//!
//! One daemon writes. Anyone with the right to may read at any time, even when the daemon is gone.
//! An entry's number is cleared before the entry is written and stored after it, so a reader sees
//! which entries are whole ([`whole_entries`]). The trace has what happens to links, connections
//! and windows, with the messages about them. It has neither the bytes of connections nor the
//! messages that only announce those, because they would push everything else out.

use core::fmt;

use syscall_derive::Layout;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::message::NodeMessage;

/// The first word of a trace: `SKIFTRAC`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SKIFTRAC");

/// Version of this layout.
pub const VERSION: u32 = 1;

/// Bytes of a trace: 1,636 entries.
pub const TRACE_BYTES: usize = 64 * 1024;

/// The header of a trace.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Layout)]
#[layout(size = 64, align = 1)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    #[layout(offset = 0)]
    pub magic: U64,
    /// [`VERSION`].
    #[layout(offset = 8)]
    pub version: U32,
    /// Number of slots.
    #[layout(offset = 12)]
    pub slots: U32,
    /// The node whose trace it is.
    #[layout(offset = 16)]
    pub node: U16,
    /// Zero.
    #[layout(offset = 18)]
    pub reserved: [u8; 46],
}

/// An event in a trace.
#[derive(
    Clone,
    Copy,
    Debug,
    Eq,
    PartialEq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
    Layout,
)]
#[layout(size = 40, align = 1)]
#[repr(C)]
pub struct TraceEntry {
    /// Number of the event plus one; 0 while the entry is being written, or if it is empty.
    #[layout(offset = 0)]
    pub sequence: U64,
    /// Time in nanoseconds, by the monotonic clock.
    #[layout(offset = 8)]
    pub time: U64,
    /// A number of [`What`].
    #[layout(offset = 16)]
    pub what: U16,
    /// The other node.
    #[layout(offset = 18)]
    pub node: U16,
    /// Port at this node; 0: none.
    #[layout(offset = 20)]
    pub port: U16,
    /// Port at the other node; 0: none.
    #[layout(offset = 22)]
    pub peer_port: U16,
    /// The meaning depends on `what`.
    #[layout(offset = 24)]
    pub value: U64,
    /// Zero.
    #[layout(offset = 32)]
    pub reserved: [u8; 8],
}

/// Bytes of the header.
pub const HEADER_BYTES: usize = size_of::<Header>();
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = size_of::<TraceEntry>();

/// Names each kind of event once: for the enum, its numbers and its words.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $words:literal;)*) => {
        /// The kind of the event.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u16)]
        pub enum What {
            $($(#[$doc])* $name = $number,)*
        }

        impl What {
            /// All kinds.
            pub const ALL: &[What] = &[$(What::$name),*];

            /// The words that a reader sees.
            pub fn words(self) -> &'static str {
                match self {
                    $(What::$name => $words,)*
                }
            }
        }
    };
}

events! {
    /// The daemon began. Value: its process.
    Started = 1, "daemon started, process";
    /// A message was sent. Value: its opcode.
    Sent = 2, "sent";
    /// A message was received. Value: its opcode.
    Received = 3, "received";
    /// A message that made no sense was received and ignored. Value: its opcode.
    Ignored = 4, "ignored message of kind";
    /// A queue pair was made for the node. Value: its bus address.
    Attached = 5, "link: queue pair made at";
    /// The node can be reached.
    Online = 6, "link: online";
    /// The node does not answer.
    Lost = 7, "link: no answer, given up";
    /// The link was given up because the node broke the rules.
    Failed = 8, "link: given up";
    /// The link's memory is free again.
    Detached = 9, "link: ended";
    /// The node left in order.
    Left = 10, "link: left";
    /// A queue pair of the peer could not be used. Value: its bus address.
    BadQueuePair = 11, "unusable queue pair at";
    /// The peer stored an impossible index into a connection's ring.
    RingReset = 12, "connection reset: impossible ring index";
    /// A request for a connection was not answered in time.
    TimedOut = 13, "no answer to a connection request";
    /// A program closed an endpoint. Value: its process.
    Closed = 14, "closed by process";
    /// A window of the peer was refused. Value: its pages, if known.
    WindowRefused = 15, "refused a window of pages";
    /// Registered memory could not be copied.
    CopyFailed = 16, "a copy failed";
    /// A program's own copy did not end in time when its window went.
    CopyStuck = 17, "a program's copy does not end";
}

impl What {
    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<What> {
        What::ALL
            .iter()
            .copied()
            .find(|what| *what as u16 == number)
    }
}

impl Header {
    /// The header of a trace of `bytes` bytes.
    pub fn new(node: u16, bytes: usize) -> Self {
        let mut header = Self::new_zeroed();
        header.magic = MAGIC.into();
        header.version = VERSION.into();
        header.slots = slots(bytes).into();
        header.node = node.into();
        header
    }
}

/// How many entries fit in a trace of `bytes` bytes.
pub const fn slots(bytes: usize) -> u32 {
    (bytes.saturating_sub(HEADER_BYTES) / ENTRY_BYTES) as u32
}

/// Offset of the entry with this number in a trace of `slots` slots (not 0).
pub const fn entry_offset(number: u64, slots: u32) -> usize {
    HEADER_BYTES + (number % slots as u64) as usize * ENTRY_BYTES
}

/// The header of a copy of a trace, and its whole entries, in the order of their slots; sort them
/// by their sequence. `None` if it is no trace of this version.
pub fn whole_entries(bytes: &[u8]) -> Option<(Header, impl Iterator<Item = TraceEntry> + use<'_>)> {
    let (header, rest) = Header::read_from_prefix(bytes).ok()?;
    let slots = header.slots.get();
    if header.magic.get() != MAGIC || header.version.get() != VERSION {
        return None;
    }
    let entries = rest
        .chunks_exact(ENTRY_BYTES)
        .take(slots as usize)
        .zip(0_u64..)
        .filter_map(move |(bytes, slot)| {
            let entry = TraceEntry::read_from_bytes(bytes).ok()?;
            let number = entry.sequence.get().checked_sub(1)?;
            (number % u64::from(slots) == slot).then_some(entry)
        });
    Some((header, entries))
}

/// The messages' names in the documents, by opcode.
const MESSAGES: [(u32, &str); 41] = [
    (1, "INIT"),
    (2, "EXIT"),
    (3, "EXIT_ACK"),
    (4, "NODE_ADD"),
    (6, "NODE_ADD_NACK"),
    (7, "NODE_REMOVE"),
    (8, "NODE_REMOVE_ACK"),
    (9, "CNCT_REQ"),
    (10, "CNCT_GNT"),
    (11, "CNCT_GNTACK"),
    (12, "CNCT_GNTNACK"),
    (13, "CNCT_REJ"),
    (14, "DISCNCT"),
    (15, "DISCNT_ACK"),
    (16, "CLIENT_SENT"),
    (17, "CLIENT_RCVD"),
    (18, "GET_NODE_INFO"),
    (19, "REGISTER"),
    (20, "REGISTER_ACK"),
    (21, "REGISTER_NACK"),
    (22, "UNREGISTER"),
    (23, "UNREGISTER_ACK"),
    (24, "UNREGISTER_NACK"),
    (25, "ALLOC_REQ"),
    (26, "ALLOC_GNT"),
    (27, "ALLOC_REJ"),
    (28, "FREE_VIRT"),
    (29, "MUNMAP"),
    (30, "MARK"),
    (31, "MARK_ACK"),
    (32, "MARK_NACK"),
    (33, "WAIT"),
    (34, "WAIT_ACK"),
    (35, "WAIT_NACK"),
    (36, "SIG_LOCAL"),
    (37, "SIG_REMOTE"),
    (38, "SIG_ACK"),
    (39, "SIG_NACK"),
    (64, "CNCT_TERM"),
    (65, "TERM_ACK"),
    (66, "FINISH"),
];

/// The name of a message in the documents, by its opcode.
pub fn message_name(opcode: u32) -> Option<&'static str> {
    MESSAGES
        .iter()
        .find(|(number, _)| *number == opcode)
        .map(|(_, name)| *name)
}

/// Whether messages of this kind are traced: all but those that announce bytes or room.
pub fn is_traced(opcode: u32) -> bool {
    !matches!(
        opcode,
        NodeMessage::CLIENT_SENT | NodeMessage::CLIENT_RECEIVED
    )
}

impl TraceEntry {
    /// An event, without its number and time.
    pub fn new(what: What, node: u16, ports: [u16; 2], value: u64) -> Self {
        let mut entry = Self::new_zeroed();
        entry.what = (what as u16).into();
        entry.node = node.into();
        entry.port = ports[0].into();
        entry.peer_port = ports[1].into();
        entry.value = value.into();
        entry
    }
}

/// One line for a reader: time in seconds, the other node, the ports, what happened.
impl fmt::Display for TraceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.time.get() / 1000;
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        write!(f, "[{seconds:5}.{micros:06}] node {:3}  ", self.node)?;
        match [self.port.get(), self.peer_port.get()] {
            [0, 0] => write!(f, "{:13}", "")?,
            [own, peer] => write!(f, "{own:5} - {peer:<5}")?,
        }
        let value = self.value.get();
        let what = What::from_number(self.what.get());
        let Some(what) = what else {
            return write!(f, "  event {} of value {value:#x}", self.what);
        };
        write!(f, "  {}", what.words())?;
        match what {
            What::Sent | What::Received | What::Ignored => {
                match u32::try_from(value).ok().and_then(message_name) {
                    Some(name) => write!(f, " {name}"),
                    None => write!(f, " {value}"),
                }
            }
            What::Attached | What::BadQueuePair => write!(f, " {value:#x}"),
            What::Started | What::Closed | What::WindowRefused => write!(f, " {value}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Operation as _;

    extern crate std;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn every_message_has_a_name() {
        for opcode in 0..100 {
            let is_known = NodeMessage::decode(opcode, [0; 4], &[]).is_ok();
            assert_eq!(message_name(opcode).is_some(), is_known, "opcode {opcode}");
        }
        assert_eq!(message_name(NodeMessage::CONNECT_REQUEST), Some("CNCT_REQ"));
        assert_eq!(message_name(NodeMessage::SIGNAL_NACK), Some("SIG_NACK"));
        assert!(!is_traced(NodeMessage::CLIENT_SENT) && is_traced(NodeMessage::REGISTER));
    }

    #[test]
    fn kinds_are_found_by_number() {
        for (what, number) in What::ALL.iter().zip(1..) {
            assert_eq!(
                (*what as u16, What::from_number(number)),
                (number, Some(*what))
            );
        }
        assert_eq!(What::from_number(0), None);
    }

    #[test]
    fn entries_are_lines() {
        let mut entry = TraceEntry::new(What::Sent, 1, [2050, 1088], 9);
        entry.time = 12_345_678_901.into();
        let line = "[   12.345678] node   1   2050 - 1088   sent CNCT_REQ";
        assert_eq!(entry.to_string(), line);
        let entry = TraceEntry::new(What::Attached, 2, [0, 0], 0x1000);
        let line = "[    0.000000] node   2                 link: queue pair made at 0x1000";
        assert_eq!(entry.to_string(), line);
        let mut unknown = TraceEntry::new(What::Online, 0, [0, 0], 7);
        unknown.what = 999.into();
        assert!(unknown.to_string().ends_with("event 999 of value 0x7"));
    }

    #[test]
    fn only_whole_entries_are_read() {
        let bytes = HEADER_BYTES + 4 * ENTRY_BYTES;
        let mut trace: Vec<u8> = std::vec![0; bytes];
        trace[..HEADER_BYTES].copy_from_slice(Header::new(3, bytes).as_bytes());
        let mut put = |slot: usize, sequence: u64| {
            let mut entry = TraceEntry::new(What::Online, 1, [0, 0], 0);
            entry.sequence = sequence.into();
            let place = HEADER_BYTES + slot * ENTRY_BYTES;
            trace[place..place + ENTRY_BYTES].copy_from_slice(entry.as_bytes());
        };
        put(0, 5);
        put(1, 6);
        // One that names another slot, and one that is being written.
        put(2, 4);
        put(3, 0);
        let (header, entries) = whole_entries(&trace).expect("a trace");
        assert_eq!((header.node.get(), header.slots.get()), (3, 4));
        let found: Vec<u64> = entries.map(|entry| entry.sequence.get()).collect();
        assert_eq!(found, [5, 6]);
        assert_eq!(entry_offset(5, 4), HEADER_BYTES + ENTRY_BYTES);
        trace[0] ^= 1;
        assert!(whole_entries(&trace).is_none());
        assert!(whole_entries(&trace[..10]).is_none());
    }
}
