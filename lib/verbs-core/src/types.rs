//! The verbs' enumerations and flags, with the numbers that `infiniband/verbs.h` gives them.

use bitflags::bitflags;

/// An atomic operation on 8 bytes, in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Stores the second number if memory holds the first one.
    CompareSwap(u64, u64),
    /// Adds a number.
    FetchAdd(u64),
}

impl Atomic {
    /// The number to store, if memory holds `before`; `None`: nothing is stored.
    pub fn after(self, before: u64) -> Option<u64> {
        match self {
            Atomic::CompareSwap(compare, swap) => (before == compare).then_some(swap),
            Atomic::FetchAdd(add) => Some(before.wrapping_add(add)),
        }
    }
}

/// The type of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QpType {
    /// Reliable connection: one to one, every message arrives once and in order.
    Rc = 2,
    /// Unreliable connection: one to one, messages may be dropped.
    Uc = 3,
    /// Unreliable datagrams to any queue pair of this type.
    Ud = 4,
    /// The sending half of a reliable connection. Each message names the shared receive queue of
    /// the peer's domain whose receive it uses.
    XrcSend = 9,
    /// The receiving half of an [`XrcSend`](QpType::XrcSend) connection.
    XrcRecv = 10,
}

impl QpType {
    /// All of them.
    pub const ALL: [QpType; 5] = [
        QpType::Rc,
        QpType::Uc,
        QpType::Ud,
        QpType::XrcSend,
        QpType::XrcRecv,
    ];
}

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum QpState {
    /// New: nothing can be posted.
    Reset = 0,
    /// Receives can be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send, and to receive.
    Rts = 3,
    /// The send queue drains: requests that have begun are finished, no new one begins.
    Sqd = 4,
    /// A send of an unreliable queue pair has failed: the send queue is flushed, receiving
    /// continues.
    Sqe = 5,
    /// Everything is flushed.
    Err = 6,
}

impl QpState {
    /// All of them.
    pub const ALL: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];
}

bitflags! {
    /// Which attributes a modification of a queue pair names.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AttributeMask: u32 {
        /// The state to go to.
        const STATE = 1 << 0;
        /// The state that the caller believes the queue pair to be in.
        const CUR_STATE = 1 << 1;
        /// Whether an event reports that the send queue has drained.
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// The access that the peer has through this queue pair.
        const ACCESS_FLAGS = 1 << 3;
        /// The partition key's index.
        const PKEY_INDEX = 1 << 4;
        /// The port.
        const PORT = 1 << 5;
        /// The key that datagrams must carry.
        const QKEY = 1 << 6;
        /// The peer's address.
        const AV = 1 << 7;
        /// The path's packet size.
        const PATH_MTU = 1 << 8;
        /// How long to wait for the peer's response.
        const TIMEOUT = 1 << 9;
        /// How often to retry when the peer does not respond.
        const RETRY_CNT = 1 << 10;
        /// How often to retry when the peer has no receive.
        const RNR_RETRY = 1 << 11;
        /// The first packet number of the peer.
        const RQ_PSN = 1 << 12;
        /// Reads and atomics that this end may have under way.
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// Another path to the peer.
        const ALT_PATH = 1 << 14;
        /// How long the peer waits before it retries a message for which there was no receive
        /// here.
        const MIN_RNR_TIMER = 1 << 15;
        /// This end's first packet number.
        const SQ_PSN = 1 << 16;
        /// Reads and atomics that the peer may have under way.
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// The state of path migration.
        const PATH_MIG_STATE = 1 << 18;
        /// The sizes of the queues.
        const CAP = 1 << 19;
        /// The peer's number.
        const DEST_QPN = 1 << 20;
        /// A limit of the rate.
        const RATE_LIMIT = 1 << 25;
    }
}

bitflags! {
    /// Access to a memory region, or of the peer of a queue pair.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Access: u32 {
        /// The owner's own receives, reads and atomics may write to the region.
        const LOCAL_WRITE = 1 << 0;
        /// A peer may write to the region.
        const REMOTE_WRITE = 1 << 1;
        /// A peer may read the region.
        const REMOTE_READ = 1 << 2;
        /// A peer may do atomic operations on the region.
        const REMOTE_ATOMIC = 1 << 3;
        /// Memory windows may be bound to the region.
        const MW_BIND = 1 << 4;
        /// The addresses of the region count from 0.
        const ZERO_BASED = 1 << 5;
        /// The pages of the region need not be pinned.
        const ON_DEMAND = 1 << 6;
        /// The region lies in huge pages.
        const HUGETLB = 1 << 7;
    }
}

impl Access {
    /// The access that can be given to a peer.
    pub const REMOTE: Access = Access::REMOTE_WRITE
        .union(Access::REMOTE_READ)
        .union(Access::REMOTE_ATOMIC);
    /// Optional bits: a driver ignores those it does not know, because they are hints, not rights.
    pub const OPTIONAL_BITS: u32 = 0x3ff0_0000;
}

bitflags! {
    /// How a work request is sent.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u32 {
        /// The request begins only when all earlier reads and atomics have ended.
        const FENCE = 1 << 0;
        /// The request adds an entry to the completion queue also when it succeeds.
        const SIGNALED = 1 << 1;
        /// The receive that the message completes counts as solicited: it wakes a program that
        /// waits for solicited completions only.
        const SOLICITED = 1 << 2;
        /// The data is copied when the request is posted.
        const INLINE = 1 << 3;
    }
}

/// The operation of a work request in a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Opcode {
    /// Writes the peer's memory.
    RdmaWrite = 0,
    /// Writes the peer's memory, consumes a receive of the peer and gives its completion 32 bits.
    RdmaWriteWithImm = 1,
    /// Sends a message into the peer's next receive.
    Send = 2,
    /// Sends a message with 32 bits of immediate data into the peer's next receive.
    SendWithImm = 3,
    /// Reads the peer's memory.
    RdmaRead = 4,
    /// Compares 8 bytes of the peer's memory with a number, and exchanges them if they are equal.
    AtomicCmpAndSwp = 5,
    /// Adds a number to 8 bytes of the peer's memory.
    AtomicFetchAndAdd = 6,
    /// Invalidates a key of this context.
    LocalInv = 7,
    /// Binds a memory window.
    BindMw = 8,
    /// Sends a message that invalidates a key of the peer.
    SendWithInv = 9,
}

impl Opcode {
    /// Whether the operation consumes a receive of the peer.
    pub const fn takes_receive(self) -> bool {
        matches!(
            self,
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv | Opcode::RdmaWriteWithImm
        )
    }

    /// Whether the operation brings data into the requester's memory.
    pub const fn writes_own(self) -> bool {
        matches!(self, Opcode::RdmaRead) || self.is_atomic()
    }

    /// Whether the operation is an atomic one.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Opcode::AtomicCmpAndSwp | Opcode::AtomicFetchAndAdd)
    }
}

/// How a work request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum WcStatus {
    /// The request succeeded.
    Success = 0,
    /// The message was longer than the receive, or the queue pair or the operation does not take a
    /// request of this length.
    LocLenErr = 1,
    /// The queue pair cannot do this operation.
    LocQpOpErr = 2,
    /// A local key does not give the access that the request needs.
    LocProtErr = 4,
    /// The queue pair was in, or went to, the error state.
    WrFlushErr = 5,
    /// A memory window could not be bound.
    MwBindErr = 6,
    /// The peer found the request wrong: too long for its receive, not aligned, not supported.
    RemInvReqErr = 9,
    /// The remote key does not give this access.
    RemAccessErr = 10,
    /// The peer could not execute the request, for a reason of its own.
    RemOpErr = 11,
    /// The peer does not answer.
    RetryExcErr = 12,
    /// The peer had no receive, also after all retries.
    RnrRetryExcErr = 13,
}

/// The operation that a completion is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WcOpcode {
    /// A send.
    Send = 0,
    /// A write.
    RdmaWrite = 1,
    /// A read.
    RdmaRead = 2,
    /// A compare and swap.
    CompSwap = 3,
    /// A fetch and add.
    FetchAdd = 4,
    /// The binding of a memory window.
    BindMw = 5,
    /// The invalidation of a key.
    LocalInv = 6,
    /// A receive that a message has filled.
    Recv = 128,
    /// A receive that a write with immediate data has consumed.
    RecvRdmaWithImm = 129,
}

impl From<Opcode> for WcOpcode {
    fn from(opcode: Opcode) -> WcOpcode {
        match opcode {
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm => WcOpcode::RdmaWrite,
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv => WcOpcode::Send,
            Opcode::RdmaRead => WcOpcode::RdmaRead,
            Opcode::AtomicCmpAndSwp => WcOpcode::CompSwap,
            Opcode::AtomicFetchAndAdd => WcOpcode::FetchAdd,
            Opcode::LocalInv => WcOpcode::LocalInv,
            Opcode::BindMw => WcOpcode::BindMw,
        }
    }
}

bitflags! {
    /// Further properties of a completion.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WcFlags: u32 {
        /// The first 40 bytes of the receive are a global route header.
        const GRH = 1 << 0;
        /// There are 32 bits of immediate data.
        const WITH_IMM = 1 << 1;
        /// A key of this context was invalidated.
        const WITH_INV = 1 << 3;
    }
}

/// The kinds of asynchronous events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventType {
    /// A completion queue has lost completions.
    CqErr = 0,
    /// A queue pair's connection to its peer has ended.
    QpFatal = 1,
    /// A peer's request was wrong; the queue pair is in the error state.
    QpReqErr = 2,
    /// A peer tried an access that it has no right to; the queue pair is in the error state.
    QpAccessErr = 3,
    /// A send queue has drained.
    SqDrained = 5,
    /// The device is gone.
    DeviceFatal = 8,
    /// A port can be used.
    PortActive = 9,
    /// A port cannot be used any more.
    PortErr = 10,
    /// A shared receive queue has fallen below its limit.
    SrqLimitReached = 15,
    /// A queue pair in the error state takes no more receives from its shared receive queue.
    QpLastWqeReached = 16,
    /// The subnet manager asks programs to register anew.
    ClientReregister = 17,
}

/// Why a call fails. Each error has an `errno` in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `EINVAL`: an argument is invalid, or not allowed in this state.
    Invalid,
    /// `ENOMEM`: a queue is full, or a limit is reached.
    NoMemory,
    /// `EBUSY`: something uses the object.
    Busy,
    /// `ENOENT`: there is no such object.
    NotFound,
    /// `EOPNOTSUPP`: this is not supported.
    NotSupported,
}

/// The result of a call.
pub type Result<T, E = Error> = core::result::Result<T, E>;
