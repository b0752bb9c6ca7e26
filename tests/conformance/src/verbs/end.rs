//! One end of the rows: a context with its objects and its memory, in the form that rows use.

use alloc::vec::Vec;

use verbs_core::address::{AddressVector, Gid};
use verbs_core::attributes::Attributes;
use verbs_core::context::{Counts, QpView};
use verbs_core::keys::{Region, WindowType};
use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::types::{AttributeMask, EventType, Result};
use verbs_core::work::{QpInit, ReceiveRequest, SendRequest, WorkCompletion};

/// Bytes of memory at each end.
pub const MEMORY: u64 = 0x2_0000;

/// A context in any place. The calls are those of `lib/verbs`, by handle.
#[allow(missing_docs, reason = "the calls are named as in lib/verbs")]
#[expect(
    clippy::missing_errors_doc,
    reason = "the errors are what rows are about"
)]
pub trait Verbs {
    /// The address of its memory.
    fn base(&self) -> u64;
    /// The local identifier of its port.
    fn lid(&self) -> u16;
    /// Reads bytes of its memory.
    fn read(&mut self, at: u64, count: u64) -> Vec<u8>;
    /// Stores bytes into its memory.
    fn write(&mut self, at: u64, bytes: &[u8]);

    fn alloc_pd(&mut self) -> Result<Id>;
    fn dealloc_pd(&mut self, pd: Id) -> Result<()>;
    /// The region's addresses lie in the end's memory.
    fn register(&mut self, region: Region) -> Result<u32>;
    fn reregister(&mut self, key: u32, region: Region) -> Result<u32>;
    fn deregister(&mut self, key: u32) -> Result<()>;
    fn alloc_mw(&mut self, pd: Id, kind: WindowType) -> Result<u32>;
    fn dealloc_mw(&mut self, pd: Id, key: u32) -> Result<()>;

    /// A completion queue with a channel.
    fn create_cq(&mut self, size: u32) -> Result<Id>;
    fn destroy_cq(&mut self, cq: Id) -> Result<()>;
    fn resize_cq(&mut self, cq: Id, size: u32) -> Result<()>;
    fn poll_cq(&mut self, cq: Id) -> Result<Option<WorkCompletion>>;
    fn req_notify_cq(&mut self, cq: Id, solicited_only: bool) -> Result<()>;
    /// Takes the channel's notifications of the queue, and returns their number.
    fn told(&mut self, cq: Id) -> u64;

    fn create_srq(&mut self, pd: Id, max_wr: u32, limit: u32) -> Result<Id>;
    fn create_xrc_srq(&mut self, pd: Id, of: Xrc, max_wr: u32) -> Result<Id>;
    fn destroy_srq(&mut self, srq: Id) -> Result<()>;
    /// Changes the size, the limit, or both.
    fn modify_srq(&mut self, srq: Id, max_wr: Option<u32>, limit: Option<u32>) -> Result<()>;
    /// The size and the limit.
    fn query_srq(&mut self, srq: Id) -> Result<(u32, u32)>;
    fn post_srq_recv(&mut self, srq: Id, request: ReceiveRequest) -> Result<()>;
    fn open_xrcd(&mut self) -> Result<Id>;
    fn close_xrcd(&mut self, domain: Id) -> Result<()>;

    fn create_qp(&mut self, init: QpInit) -> Result<u32>;
    fn destroy_qp(&mut self, number: u32) -> Result<()>;
    fn modify_qp(&mut self, number: u32, new: &Attributes, mask: AttributeMask) -> Result<()>;
    fn query_qp(&mut self, number: u32) -> Result<QpView>;
    fn post_send(&mut self, number: u32, request: SendRequest) -> Result<()>;
    fn post_recv(&mut self, number: u32, request: ReceiveRequest) -> Result<()>;

    fn create_ah(&mut self, pd: Id, vector: AddressVector) -> Result<Id>;
    fn destroy_ah(&mut self, pd: Id, ah: Id) -> Result<()>;
    fn attach_multicast(&mut self, number: u32, gid: Gid) -> Result<()>;
    fn detach_multicast(&mut self, number: u32, gid: Gid) -> Result<()>;
    fn qkey_violations(&mut self) -> u32;

    /// The next asynchronous event, and the number of the queue pair, completion queue or shared
    /// receive queue that it is about.
    fn next_event(&mut self) -> Option<(EventType, u32)>;
    /// The counts of objects.
    fn counts(&mut self) -> Counts;
    /// The number of windows on its memory that peers could use.
    fn exposed(&mut self) -> u64;
}
