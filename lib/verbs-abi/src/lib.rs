//! The command interface of user verbs (`ib_user_verbs.h`), without I/O: numbers, the frame of a
//! command, and the structures of requests and answers as bytes. Also that of management datagrams
//! (`ib_user_mad.h`).
//!
//! Everything here is read from bytes that a program has written: a [`frame::Frame`] is checked as
//! a whole before a structure is taken out of it, and a structure is a copy. Integers are in the
//! byte order of the machine, because the interface is one between a program and its own node.
#![no_std]

#[macro_use]
mod layouts;

pub mod command;
pub mod events;
pub mod frame;
pub mod handles;
pub mod mad;
pub mod records;

/// Version of the interface (`class/infiniband_verbs/abi_version`).
pub const ABI_VERSION: u32 = 6;
/// Version of the provider's data in the interface (`class/infiniband_verbs/uverbs0/abi_version`).
pub const PROVIDER_ABI_VERSION: u32 = 1;

/// The operations of the scheme's `call` on a descriptor of `uverbs0`: `metadata[0]`.
pub mod call {
    /// Executes a command. The payload is what a `write` would carry, and room for the answer; the
    /// answer begins at the payload's first byte, and its length is the result.
    pub const EXECUTE: u64 = 1;
    /// Returns the number of a completion channel; called on a descriptor of it, without a
    /// payload.
    pub const CHANNEL_NUMBER: u64 = 2;
    /// Reports what the objects of a library that moves data itself have done: the payload is a
    /// list of [`QpReport`](crate::records::QpReport)s. The result is the number of handles that
    /// were known.
    pub const REPORT_QPS: u64 = 3;
    /// [`REPORT_QPS`] for completion queues, with [`CqReport`](crate::records::CqReport)s.
    pub const REPORT_CQS: u64 = 4;
    /// [`REPORT_QPS`] for shared receive queues, with [`SrqReport`](crate::records::SrqReport)s.
    pub const REPORT_SRQS: u64 = 5;
    /// The payload is the descriptor of the program's address space (`CallFlags::FD`), for the
    /// command that follows: REG_MR or REREG_MR. The daemon borrows the region's pages from it.
    pub const SEND_SPACE: u64 = 6;
}
