//! The Schedule Header: 40 bytes that every operation of Scheduled Transfers begins with.
//!
//! Sizes, offsets, operation codes and flags are those of the protocol. The fields are named by
//! their most common use, and mean something else in some operations (docs/st.md). In this crate a
//! header is in the host's byte order, because both ends are processors of one machine.

use bitflags::bitflags;
use syscall_derive::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 40;
/// Bytes of the optional payload that may follow a header.
pub const PAYLOAD_BYTES: usize = 32;
/// Bits by which the operation is shifted in [`Header::operation`].
const OPERATION_SHIFT: u32 = 11;

/// An operation. Put has none of its own: it is [`Data`](Operation::Data) into announced memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Opens a connection.
    RequestConnection = 0x01,
    /// Answers [`RequestConnection`](Operation::RequestConnection).
    ConnectionAnswer = 0x02,
    /// Asks to end a connection.
    RequestDisconnect = 0x03,
    /// Answers [`RequestDisconnect`](Operation::RequestDisconnect).
    DisconnectAnswer = 0x04,
    /// Ends a connection.
    DisconnectComplete = 0x05,
    /// Carries bytes of the program in its header, nothing else.
    Nop = 0x10,
    /// Asks for persistent memory.
    RequestMemoryRegion = 0x13,
    /// Announces persistent memory.
    MemoryRegionAvailable = 0x14,
    /// Reads announced memory; with a function flag it is an atomic operation.
    Get = 0x15,
    /// Asks to send a transfer.
    RequestToSend = 0x16,
    /// Answers a request: wait.
    RequestAnswer = 0x17,
    /// Asks to receive a transfer.
    RequestToReceive = 0x18,
    /// Allows a block of a transfer to be sent.
    ClearToSend = 0x1a,
    /// Carries data.
    Data = 0x1b,
    /// Asks for the peer's state.
    RequestState = 0x1c,
    /// Answers [`RequestState`](Operation::RequestState).
    RequestStateResponse = 0x1d,
    /// Ends a transfer or takes announced memory back.
    End = 0x1e,
    /// Answers [`End`](Operation::End).
    EndAck = 0x1f,
}

impl Operation {
    /// All operations, in the order of their codes.
    pub const ALL: [Operation; 18] = [
        Operation::RequestConnection,
        Operation::ConnectionAnswer,
        Operation::RequestDisconnect,
        Operation::DisconnectAnswer,
        Operation::DisconnectComplete,
        Operation::Nop,
        Operation::RequestMemoryRegion,
        Operation::MemoryRegionAvailable,
        Operation::Get,
        Operation::RequestToSend,
        Operation::RequestAnswer,
        Operation::RequestToReceive,
        Operation::ClearToSend,
        Operation::Data,
        Operation::RequestState,
        Operation::RequestStateResponse,
        Operation::End,
        Operation::EndAck,
    ];

    /// The operation with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Operation> {
        Operation::ALL
            .into_iter()
            .find(|operation| *operation as u8 == code)
    }
}

bitflags! {
    /// The flags of a header.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u16 {
        /// The request is rejected.
        const REJECT = 0x004;
        /// The last of a sequence.
        const LAST = 0x008;
        /// It may be out of order.
        const OUT_OF_ORDER = 0x010;
        /// Asks for a [`RequestStateResponse`](Operation::RequestStateResponse).
        const SEND_STATE = 0x020;
        /// The receiver gets a descriptor.
        const INTERRUPT = 0x040;
        /// The receiver gets no descriptor.
        const SILENT = 0x080;
        /// Atomic function: fetch, then add 1.
        const FETCH_INCREMENT = 0x100;
        /// Atomic function: fetch, then subtract 1.
        const FETCH_DECREMENT = 0x200;
        /// Atomic function: fetch, then store 0.
        const FETCH_CLEAR = 0x300;
        /// All three bits of the function.
        const FUNCTION = 0x700;
    }
}

/// The header of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, Layout)]
#[layout(size = 40, align = 4)]
#[repr(C)]
pub struct Header {
    /// The operation's code in the upper five bits, [`Flags`] in the others.
    #[layout(offset = 0)]
    pub operation: u16,
    /// Slots, block size or number of the data unit, by operation.
    #[layout(offset = 2)]
    pub parameter: u16,
    /// The receiver's port.
    #[layout(offset = 4)]
    pub destination_port: u16,
    /// The sender's port.
    #[layout(offset = 6)]
    pub source_port: u16,
    /// The receiver's key.
    #[layout(offset = 8)]
    pub destination_key: u32,
    /// Zero: no checksum.
    #[layout(offset = 12)]
    pub checksum: u16,
    /// Block id, or the handle of a buffer table.
    #[layout(offset = 14)]
    pub block_id: u16,
    /// Index of the receiver's buffer.
    #[layout(offset = 16)]
    pub buffer: u32,
    /// Offset in that buffer; the sender's key in operations on connections.
    #[layout(offset = 20)]
    pub offset: u32,
    /// A value that an answer repeats, or the upper half of a length.
    #[layout(offset = 24)]
    pub sync: u32,
    /// Block number, or the lower half of a length.
    #[layout(offset = 28)]
    pub block_number: u32,
    /// The receiver's id of the transfer.
    #[layout(offset = 32)]
    pub destination_id: u32,
    /// The sender's id of the transfer; in Data four bytes of the program.
    #[layout(offset = 36)]
    pub source_id: u32,
}

impl Header {
    /// A header of an operation with flags; all other words are zero.
    pub const fn new(operation: Operation, flags: Flags) -> Header {
        let word = (operation as u16) << OPERATION_SHIFT | flags.bits();
        Header {
            operation: word,
            parameter: 0,
            destination_port: 0,
            source_port: 0,
            destination_key: 0,
            checksum: 0,
            block_id: 0,
            buffer: 0,
            offset: 0,
            sync: 0,
            block_number: 0,
            destination_id: 0,
            source_id: 0,
        }
    }

    /// The operation, if its code is valid.
    pub fn operation(&self) -> Option<Operation> {
        Operation::from_code((self.operation >> OPERATION_SHIFT) as u8)
    }

    /// The flags; bits without a name are kept.
    pub const fn flags(&self) -> Flags {
        Flags::from_bits_retain(self.operation & ((1 << OPERATION_SHIFT) - 1))
    }

    /// The 64-bit length in `sync` and `block_number`.
    pub const fn length(&self) -> u64 {
        (self.sync as u64) << 32 | self.block_number as u64
    }

    /// The same header with a 64-bit length.
    #[must_use]
    pub const fn with_length(mut self, length: u64) -> Header {
        self.sync = (length >> 32) as u32;
        self.block_number = length as u32;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_and_flags_share_a_word() {
        for operation in Operation::ALL {
            let header = Header::new(operation, Flags::LAST | Flags::SILENT);
            assert_eq!(header.operation(), Some(operation));
            assert_eq!(header.flags(), Flags::LAST | Flags::SILENT);
        }
        assert_eq!(Header::default().operation(), None);
    }

    #[test]
    fn golden_bytes_of_data() {
        let mut header = Header::new(Operation::Data, Flags::INTERRUPT);
        (header.destination_port, header.source_port) = (0x1122, 0x3344);
        header.destination_key = 0x5566_7788;
        header.source_id = 0x99aa_bbcc;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..12].copy_from_slice(&[
            0x40, 0xd8, 0, 0, 0x22, 0x11, 0x44, 0x33, 0x88, 0x77, 0x66, 0x55,
        ]);
        bytes[36..].copy_from_slice(&[0xcc, 0xbb, 0xaa, 0x99]);
        assert_eq!(header.as_bytes(), bytes);
    }

    #[test]
    fn lengths_have_64_bits() {
        let header = Header::default().with_length(0x0123_4567_89ab_cdef);
        assert_eq!(header.length(), 0x0123_4567_89ab_cdef);
    }

    #[test]
    fn functions_are_one_field() {
        assert_eq!(
            Flags::FETCH_INCREMENT | Flags::FETCH_DECREMENT,
            Flags::FETCH_CLEAR
        );
        assert!(Flags::FUNCTION.contains(Flags::FETCH_CLEAR));
    }
}
