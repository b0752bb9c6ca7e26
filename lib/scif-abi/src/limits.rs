//! Every limit of the SCIF stack, in one place, with unit and reason.
//!
//! Many follow the two known SCIF drivers, the mainline driver and the older one, or the SCIF
//! header (`scif.h`).

/// The host's node number; cards have the numbers after it. In the node-QP protocol the host is
/// the management node.
pub const HOST_NODE: u16 = 0;

/// Highest node number. The mainline driver knows at most 129 nodes (host and 128 cards).
pub const MAX_NODE: u16 = 128;

/// The end of the privileged ports: only root may bind ports below this one (`SCIF_ADMIN_PORT_END`
/// of the header).
pub const PRIVILEGED_PORT_END: u16 = 1024;

/// The first port that is given out for port 0 (`SCIF_PORT_RSVD` of the header).
pub const FIRST_EPHEMERAL_PORT: u16 = 1088;

/// Longest queue of connection requests not yet accepted; larger backlogs are clamped (mainline).
pub const MAX_BACKLOG: u32 = 1024;

/// The backlog of a listener for which its program names none.
pub const USUAL_BACKLOG: i32 = 128;

/// Bytes of a page, the unit in which memory is shared with a peer.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of an endpoint's ring in each direction in the base protocol; one byte always stays free.
pub const ENDPOINT_RING_BYTES: u32 = 4096;

/// Largest ring that an endpoint may offer, in bytes. This is well below 4 MiB, the limit of the
/// kernel's physically contiguous allocations.
pub const MAX_ENDPOINT_RING_BYTES: u32 = 1 << 20;

/// Bytes of the node queue pair's ring in each direction: 16 times the mainline driver's 64 KiB.
/// That is 23,831 messages of 44 bytes.
pub const NODE_RING_BYTES: u32 = 1 << 20;

/// Smallest ring that is accepted from a peer, in bytes: a node ring must hold at least one
/// message.
pub const MIN_RING_BYTES: u32 = 64;

/// Largest ring that is accepted from a peer, in bytes. Bounds the memory that one number from a
/// hostile peer can make this node access.
pub const MAX_RING_BYTES: u32 = 16 << 20;

/// Most endpoints of one engine. Two for each port would do; the real limit is memory.
pub const MAX_ENDPOINTS: usize = 1 << 16;

/// Most connections of one engine, counting those that are closed but not yet acknowledged by the
/// peer. Each has at least two pages.
pub const MAX_CONNECTIONS: usize = 1 << 16;

/// Most bypass handles of one engine: one for each connection, and as many again for endpoints
/// that several programs work on.
pub const MAX_BYPASS_HANDLES: usize = 2 * MAX_CONNECTIONS;

/// Nanoseconds between two checks of a lock that a client holds, or of clients' copies that must
/// end before a window goes: no event reports either.
pub const CLIENT_RETRY_NS: u64 = 1_000_000;

/// How often the time between two checks of the same lock doubles: up to 64 ms. Clients may hold a
/// lock for hours, and there may be thousands of them.
pub const CLIENT_RETRY_DOUBLINGS: u32 = 6;

/// Nanoseconds that a window waits for clients' copies, counting only time in which they were
/// checked ([`CLIENT_LOOK_NS`]). Clients copy in slices of at most 1 MiB, so only a client that is
/// stuck or writes wrong values takes longer.
pub const CLIENT_COPY_NS: u64 = 1_000_000_000;

/// The most nanoseconds that count between two checks of clients' copies. Checks are
/// [`CLIENT_RETRY_NS`] apart. If one comes much later, the machine stood still, and the clients
/// with it.
pub const CLIENT_LOOK_NS: u64 = 10 * CLIENT_RETRY_NS;

/// Most connections with one node whose endpoint here may be gone and which wait for that node's
/// final acknowledgement. An honest peer sends it at once, or when the last of its bypass handles
/// closes. One that never does costs this node this many blocks of at least two pages, 96 MiB, and
/// then gets no further connections.
pub const MAX_UNANSWERED: usize = 3 << 12;

/// Most messages to one node that may wait for room in its ring. An honest peer causes at most
/// three for each connection, so only one that floods this node and never reads gets here; its
/// link is given up.
pub const MAX_QUEUED_MESSAGES: usize = 4 * MAX_CONNECTIONS;

/// Nanoseconds until a connect without an answer ends with `ENODEV`: 30 s, as in the mainline
/// driver.
pub const CONNECT_TIMEOUT_NS: u64 = 30_000_000_000;

/// Nanoseconds that a connection request may wait to be accepted if its connector cannot withdraw
/// it. Such a connector (mainline) gives up after 30 s, frees what the request names and sends
/// nothing: an answer that comes later destroys its memory. Half of that leaves time for an answer
/// that is on its way, in a ring that is full or behind a processor that is busy.
pub const BASE_REQUEST_NS: u64 = 15_000_000_000;

/// Nanoseconds that a granted connection waits for the connector's acknowledgement. The mainline
/// driver waits 3 s, again and again while the peer's node is alive.
pub const HANDSHAKE_TIMEOUT_NS: u64 = 10_000_000_000;

/// Nanoseconds that a peer may take for an answer that needs nothing but its driver: to ALLOC_REQ,
/// REGISTER, MARK, SIG_LOCAL, SIG_REMOTE, CNCT_TERM, CNCT_GNT (in addition to
/// [`HANDSHAKE_TIMEOUT_NS`]) and, from a peer without bypass clients, DISCNCT. Drivers answer
/// these in the turn in which they take the message. So a peer that is alive and takes longer will
/// never answer, and loses its link. The time is far more than a driver under emulation on a busy
/// machine needs.
///
/// Other answers may take long for good reasons: to UNREGISTER, while copies run (after this time
/// the caller learns that the window is still in use); to WAIT, as long as transfers last; to
/// DISCNCT, while a program has the rings mapped ([`MAX_UNANSWERED`] bounds what that costs).
pub const ANSWER_TIMEOUT_NS: u64 = 30_000_000_000;

/// Nanoseconds that a node ring may stay full without any progress before its link is given up
/// (both drivers: 3 s).
pub const NODE_RING_STALL_NS: u64 = 3_000_000_000;

/// Nanoseconds between two checks of a full node ring. The peer raises no doorbell when it has
/// read.
pub const NODE_RING_RETRY_NS: u64 = 1_000_000;

/// Nanoseconds that a node which leaves waits for the answer to EXIT before it leaves anyway.
pub const EXIT_TIMEOUT_NS: u64 = 1_000_000_000;

/// Most pages of a window: 1 GiB. While it is registered, the page list of such a window takes two
/// lookup pages and 1,024 tables at the other end.
pub const MAX_WINDOW_PAGES: u64 = 1 << 18;

/// Most own windows of one engine, and most windows of any one node that it knows. A peer's window
/// also costs its chunks ([`MAX_PEER_CHUNKS`]).
pub const MAX_WINDOWS: usize = 1 << 17;

/// Most chunks of all windows of one node together. 16 bytes each; enough for 4 GiB in single
/// pages.
pub const MAX_PEER_CHUNKS: usize = 1 << 20;

/// Most pages that are lent to one node for structures and tables of windows that are being
/// registered: room for several of the largest ones. A peer that asks for more has to wait
/// (ALLOC_REJ).
pub const MAX_GRANTED_PAGES: usize = 1 << 12;

/// The range of registered offsets that are given out without `SCIF_MAP_FIXED`, as in the older
/// driver. Fixed windows may lie anywhere, also in this range.
pub const AUTOMATIC_OFFSETS: core::ops::Range<i64> = 1 << 62..0x7f00_0000_0000_0000;

/// Most copies and fences of one endpoint that may wait. A call beyond that fails with `ENOMEM`.
pub const MAX_JOBS: usize = 4096;

/// Most fences (WAIT, SIG_*) of one node that may wait here; more are refused (NACK). One
/// connection may have as many of them as are left.
pub const MAX_PEER_FENCES: usize = 4096;

/// How much of a resource users and processes may have at one time, unless the file `limits` sets
/// another limit.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// The name of the resource. In the file it is followed by `_per_user` or `_per_process`.
    pub name: &'static str,
    /// The limit for all processes of a user together.
    pub per_user: u64,
    /// The limit for one process.
    pub per_process: u64,
}

const fn quota(name: &'static str, per_user: u64, per_process: u64) -> Quota {
    Quota {
        name,
        per_user,
        per_process,
    }
}

/// The quotas. They apply to root as well.
pub const QUOTAS: [Quota; 9] = [
    // So that one program cannot use up all ports.
    quota("endpoints", MAX_ENDPOINTS as u64 / 2, 8192),
    // Each has at least two pages. No user alone reaches the number that may wait for one node
    // (`MAX_UNANSWERED`).
    quota("connects", 4096, 2048),
    // 40 bytes each when they wait; 128 for each of a thousand listeners.
    quota("backlog", 1 << 18, 1 << 17),
    quota("windows", MAX_WINDOWS as u64 / 2, MAX_WINDOWS as u64 / 4),
    // 256 MiB, by one process or many; and as many again in memory objects.
    quota("pinned_pages", 1 << 16, MAX_WINDOW_PAGES),
    // Some hundred bytes each (`TRANSFER_PIECES`). One endpoint may have 4096 (`MAX_JOBS`).
    quota("transfers", 1 << 17, 1 << 16),
    // A thread waits in one call at a time, so this is a number of threads.
    quota("requests", 8192, 4096),
    // A page each; 4,000 connections within a node have two. Each may keep a connection that is
    // closed, with its pages, here and at the peer: no user alone reaches the number that may wait
    // for one node (`MAX_UNANSWERED`).
    quota("bypass", 8192, 4096),
    // One for each window, and as many again. Together with the share of the endpoints, no user
    // alone reaches the number of files that can be open. Of texts that are 32 MiB
    // (`TEXT_UNIT_BYTES`).
    quota("files", 1 << 16, 1 << 15),
];

/// This many windows, or half as many pieces of pinned memory, count as one more transfer, because
/// a transfer keeps a list of the windows, or of the pieces with their places.
pub const TRANSFER_PIECES: usize = 32;

/// This many bytes of an open text file's content count as one more file, because all of the
/// content is kept while the file is open.
pub const TEXT_UNIT_BYTES: usize = 512;

/// Most calls on registered memory that may wait, or whose result has not been taken, at one time.
pub const MAX_CALLS: usize = 1 << 16;

/// The times by which the two sides of a link notice each other's end. Doorbells announce every
/// change; polling finds what a lost doorbell announced. A peer whose machine is gone is noticed
/// at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkTiming {
    /// Nanoseconds between two polls of a link, and between two beats of this side's heart.
    pub heartbeat_ns: u64,
    /// Nanoseconds without a beat of the peer's heart, or without an answer if it has no heart,
    /// until the peer counts as lost.
    pub silence_ns: u64,
}

impl Default for LinkTiming {
    /// The silence is the older driver's watchdog time.
    fn default() -> Self {
        Self {
            heartbeat_ns: 1_000_000_000,
            silence_ns: 30_000_000_000,
        }
    }
}
