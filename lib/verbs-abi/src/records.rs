//! The structures of commands and answers: `ib_user_verbs.h` on 64-bit machines.
//!
//! The number in front of each field is its offset, the numbers behind a name are bytes and
//! alignment; a difference does not compile. Names are those of the header; `response`, the address
//! for the answer, is the program's and is not looked at here.

mod device;
mod queues;
mod report;

pub use device::*;
pub use queues::*;
pub use report::*;

/// `attr_mask` of MODIFY_SRQ: another size.
pub const SRQ_MAX_WR: u32 = 1;
/// Another limit.
pub const SRQ_LIMIT: u32 = 2;
/// `flags` of REREG_MR: another range, another domain, other access.
pub const REREG_TRANSLATION: u32 = 1;
/// Another domain.
pub const REREG_PD: u32 = 2;
/// Other access.
pub const REREG_ACCESS: u32 = 4;
