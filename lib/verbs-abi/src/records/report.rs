//! Reports to the daemon about the objects of a library that moves data itself.

use syscall_derive::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

records! {
    /// A queue pair. Counts begin when it is created; `state` is that of QUERY_QP.
    QpReport, 72, 8 {
        0 qp_handle: u32,
        4 state: u32,
        8 queued_sends: u32,
        12 queued_receives: u32,
        16 sends: u64,
        24 sent_bytes: u64,
        32 receives: u64,
        40 received_bytes: u64,
        48 errors: u64,
        56 stored_bytes: u64,
        64 loaded_bytes: u64,
    }
    /// A completion queue: completions that it holds, and those that were added since it was
    /// created.
    CqReport, 16, 8 {
        0 cq_handle: u32,
        4 waiting: u32,
        8 completions: u64,
    }
    /// A shared receive queue: receives that it holds, and its limit.
    SrqReport, 12, 4 {
        0 srq_handle: u32,
        4 queued: u32,
        8 limit: u32,
    }
}
