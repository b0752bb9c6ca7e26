//! Every limit of the SCIF stack, in one place, with unit and reason.
//!
//! "reference" is the behaviour of the two known SCIF drivers and of the SCIF header.

/// The host's node number; cards follow. The management node of the node-QP protocol.
pub const HOST_NODE: u16 = 0;

/// Highest node number. The mainline driver knows at most 129 nodes (host and 128 cards).
pub const MAX_NODE: u16 = 128;

/// Ports below this one may be bound only by root (`SCIF_ADMIN_PORT_END` of the header).
pub const PRIVILEGED_PORT_END: u16 = 1024;

/// First port that is given out when port 0 is asked for (`SCIF_PORT_RSVD` of the header).
pub const FIRST_EPHEMERAL_PORT: u16 = 1088;

/// Longest queue of connection requests not yet accepted; larger backlogs are clamped (mainline).
pub const MAX_BACKLOG: u32 = 1024;

/// Bytes of a page, the unit in which memory is shared with a peer.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of an endpoint's ring in each direction in the base protocol; one byte always stays free.
pub const ENDPOINT_RING_BYTES: u32 = 4096;

/// Largest ring an endpoint may offer, in bytes. Well below the 4 MiB at which physically
/// contiguous allocations of the kernel end.
pub const MAX_ENDPOINT_RING_BYTES: u32 = 1 << 20;

/// Bytes of the node queue pair's ring in each direction: 16 times the mainline driver's 64 KiB.
/// That is 23,831 messages of 44 bytes.
pub const NODE_RING_BYTES: u32 = 1 << 20;

/// Smallest ring accepted from a peer, in bytes: a node ring must hold at least one message.
pub const MIN_RING_BYTES: u32 = 64;

/// Largest ring accepted from a peer, in bytes. Bounds what one hostile number can make us touch.
pub const MAX_RING_BYTES: u32 = 16 << 20;

/// Endpoints one engine holds at most. Two for each port would do; memory is what really limits.
pub const MAX_ENDPOINTS: usize = 1 << 16;

/// Connections one engine holds at most, counting those that are closed but not yet acknowledged by
/// the peer. Each one has at least two pages.
pub const MAX_CONNECTIONS: usize = 1 << 16;

/// Bypass handles one engine gives out at most: one for each connection, and as many again for
/// endpoints that several programs work on.
pub const MAX_BYPASS_HANDLES: usize = 2 * MAX_CONNECTIONS;

/// Nanoseconds between two looks at a lock that a client holds, or at copies of clients that have
/// to end before a window goes: nothing tells when that happens.
pub const CLIENT_RETRY_NS: u64 = 1_000_000;

/// How often the time between two looks at the same lock doubles: to 64 ms. Clients may hold one
/// for hours, and thousands of them.
pub const CLIENT_RETRY_DOUBLINGS: u32 = 6;

/// Nanoseconds a window waits for copies of clients, of those in which we watched. They copy in
/// slices of at most 1 MiB, so only one that is stuck, or says what is not so, takes longer.
pub const CLIENT_COPY_NS: u64 = 1_000_000_000;

/// Nanoseconds that count at most between two looks at copies of clients. Looks are
/// [`CLIENT_RETRY_NS`] apart; one that comes much later comes from a machine that stood still, and
/// the clients with it.
pub const CLIENT_LOOK_NS: u64 = 10 * CLIENT_RETRY_NS;

/// Connections with one node that may have no endpoint here any more and wait for that node's final
/// acknowledgement. An honest peer sends it at once, or when the last of its bypass handles closes;
/// one that never does costs us this many blocks of at least two pages, 96 MiB, and then gets no
/// further connections.
pub const MAX_UNANSWERED: usize = 3 << 12;

/// Messages to one node that may wait for room in its ring. An honest peer causes at most three for
/// each connection, so only one that floods us and never reads gets here; its link is given up.
pub const MAX_QUEUED_MESSAGES: usize = 4 * MAX_CONNECTIONS;

/// Nanoseconds until a connect without an answer ends with `ENODEV`: 30 s, as the mainline driver
/// has it.
pub const CONNECT_TIMEOUT_NS: u64 = 30_000_000_000;

/// Nanoseconds a connection request may wait to be accepted if its connector cannot withdraw it.
/// Such a connector (mainline) gives up after 30 s, frees what the request names and says nothing:
/// an answer that comes later destroys its memory. Half of that leaves time for an answer that is
/// on its way, in a ring that is full or behind a processor that is busy.
pub const BASE_REQUEST_NS: u64 = 15_000_000_000;

/// Nanoseconds a granted connection waits for the connector's acknowledgement. The mainline driver
/// waits 3 s, again and again while the peer's node lives.
pub const HANDSHAKE_TIMEOUT_NS: u64 = 10_000_000_000;

/// Nanoseconds a peer may take for an answer that needs nothing but its driver: to ALLOC_REQ,
/// REGISTER, MARK, SIG_LOCAL, SIG_REMOTE, CNCT_TERM, CNCT_GNT (in addition to
/// [`HANDSHAKE_TIMEOUT_NS`]) and, from a peer without bypass clients, DISCNCT. Drivers answer these
/// in the turn in which they take the message, so a peer that is alive and takes longer will never
/// answer, and loses its link. Far more than a driver under emulation on a busy machine needs.
///
/// Other answers may take long for good reasons: to UNREGISTER, while copies run (the caller
/// learns after this time that the window is still in use); to WAIT, as long as transfers last; to
/// DISCNCT, while a program has the rings mapped ([`MAX_UNANSWERED`] bounds what that costs).
pub const ANSWER_TIMEOUT_NS: u64 = 30_000_000_000;

/// Nanoseconds a node ring may stay full without any progress before its link is given up (both
/// drivers: 3 s).
pub const NODE_RING_STALL_NS: u64 = 3_000_000_000;

/// Nanoseconds between two looks at a full node ring. The peer raises no doorbell when it has read.
pub const NODE_RING_RETRY_NS: u64 = 1_000_000;

/// Nanoseconds a node that leaves waits for the answer to EXIT before it goes anyway.
pub const EXIT_TIMEOUT_NS: u64 = 1_000_000_000;

/// Pages of a window at most: 1 GiB. The page list of such a window takes two lookup pages and
/// 1,024 tables at the other end while it is handed over.
pub const MAX_WINDOW_PAGES: u64 = 1 << 18;

/// Windows one engine holds at most, own ones; and windows of one node it knows at most. What a
/// peer's window costs besides is its chunks ([`MAX_PEER_CHUNKS`]).
pub const MAX_WINDOWS: usize = 1 << 17;

/// Chunks that the windows of one node may have at most, all together. 16 bytes each; enough for
/// 4 GiB in single pages.
pub const MAX_PEER_CHUNKS: usize = 1 << 20;

/// Pages lent to one node at most for structures and tables of windows that are being registered:
/// room for several of the largest ones. A peer that asks for more has to wait (ALLOC_REJ).
pub const MAX_GRANTED_PAGES: usize = 1 << 12;

/// First registered offset that is given out without `SCIF_MAP_FIXED`, and the end of that range:
/// those of the older driver. Fixed windows may lie anywhere, so also there.
pub const AUTOMATIC_OFFSETS: core::ops::Range<i64> = 1 << 62..0x7f00_0000_0000_0000;

/// Copies and fences that one endpoint may have waiting. A call beyond fails with `ENOMEM`.
pub const MAX_JOBS: usize = 4096;

/// Fences (WAIT, SIG_*) of one node that may wait here; more are refused (NACK).
pub const MAX_PEER_FENCES: usize = 4096;

/// The limits of a resource for users and processes at one time, unless the file `limits` says
/// otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Name of the resource; in the file with `_per_user` or `_per_process` behind it.
    pub name: &'static str,
    /// For all processes of a user together.
    pub per_user: u64,
    /// For one process.
    pub per_process: u64,
}

const fn quota(name: &'static str, per_user: u64, per_process: u64) -> Quota {
    Quota {
        name,
        per_user,
        per_process,
    }
}

/// The quotas. They are for root as well.
pub const QUOTAS: [Quota; 9] = [
    // So that one program cannot use up all ports.
    quota("endpoints", MAX_ENDPOINTS as u64 / 2, 8192),
    // Each has at least two pages. No user alone gets to what may wait for one node
    // (`MAX_UNANSWERED`).
    quota("connects", 4096, 2048),
    // 40 bytes each when they wait; 128 for each of a thousand listeners.
    quota("backlog", 1 << 18, 1 << 17),
    quota("windows", MAX_WINDOWS as u64 / 2, MAX_WINDOWS as u64 / 4),
    // 256 MiB, by one process or many; and as many again in memory objects.
    quota("pinned_pages", 1 << 16, MAX_WINDOW_PAGES),
    // Some hundred bytes each (`TRANSFER_PIECES`). One endpoint may have 4096 (`MAX_JOBS`).
    quota("transfers", 1 << 17, 1 << 16),
    // Each thread waits in one call at most, so this is a number of threads.
    quota("requests", 8192, 4096),
    // A page each; 4,000 connections within a node have two. Each may keep a connection that is
    // closed, with its pages, here and at the peer: no user alone gets to what may wait for one
    // node (`MAX_UNANSWERED`).
    quota("bypass", 8192, 4096),
    // One for each window, and as many again; with the share of the endpoints no user alone gets to
    // what there can be of all. Of texts that are 32 MiB (`TEXT_UNIT_BYTES`).
    quota("files", 1 << 16, 1 << 15),
];

/// Windows and pieces of pinned memory that count as one more transfer: a transfer keeps a list of
/// those that it goes through.
pub const TRANSFER_PIECES: usize = 32;

/// Bytes of an open text file's content that count as one more file: all of it is kept while the
/// file is open.
pub const TEXT_UNIT_BYTES: usize = 512;

/// Calls on registered memory that may wait, or whose result has not been taken, at one time.
pub const MAX_CALLS: usize = 1 << 16;

/// How the two sides of a link notice each other's end. Doorbells announce every change; looking
/// finds what a lost one announced. A peer whose machine is gone is noticed at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkTiming {
    /// Nanoseconds between two looks at a link and two beats of our heart.
    pub heartbeat_ns: u64,
    /// Nanoseconds without a beat of the peer's heart, or without an answer where it has no heart,
    /// until it counts as lost.
    pub silence_ns: u64,
}

impl Default for LinkTiming {
    /// Silence is the older driver's watchdog time.
    fn default() -> Self {
        Self {
            heartbeat_ns: 1_000_000_000,
            silence_ns: 30_000_000_000,
        }
    }
}
