//! The structures of commands and answers: `ib_user_verbs.h` on 64-bit machines.
//!
//! The number in front of each field is its offset, the numbers after a name are bytes and
//! alignment; a mismatch does not compile. Names are those of the header; `response`, the
//! program's address for the answer, is not used here.

mod device;
mod queues;
mod report;

pub use device::*;
pub use queues::*;
pub use report::*;

/// `attr_mask` of MODIFY_SRQ: the size changes.
pub const SRQ_MAX_WR: u32 = 1;
/// `attr_mask` of MODIFY_SRQ: the limit changes.
pub const SRQ_LIMIT: u32 = 2;
/// `flags` of REREG_MR: the range changes.
pub const REREG_TRANSLATION: u32 = 1;
/// `flags` of REREG_MR: the domain changes.
pub const REREG_PD: u32 = 2;
/// `flags` of REREG_MR: the access changes.
pub const REREG_ACCESS: u32 = 4;
