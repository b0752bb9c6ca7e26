//! Flag words of the SCIF calls, with the values of the SCIF header.

use bitflags::bitflags;

bitflags! {
    /// The events that `poll` reports. The values are the header's `SCIF_POLL*`, which are those
    /// of `poll(2)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Readiness: u16 {
        /// A byte can be received, or a connection request waits.
        const IN = 0x0001;
        /// There is room to send, or a non-blocking connect has ended.
        const OUT = 0x0004;
        /// The endpoint is in a state in which it cannot become ready.
        const ERR = 0x0008;
        /// The peer has gone. Bytes that it sent may still be there.
        const HUP = 0x0010;
        /// The descriptor is no endpoint. Only the scheme reports it; it cannot be asked for.
        const NVAL = 0x0020;
        /// The peer sends no more bytes, by FINISH (`POLLRDHUP`). Bytes that it sent may still be
        /// there.
        const READ_HUP = 0x2000;
    }

    /// Flags of send.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SendFlags: u32 {
        /// `SCIF_SEND_BLOCK`: return when all bytes have been sent.
        const BLOCK = 1;
    }

    /// Flags of recv.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RecvFlags: u32 {
        /// `SCIF_RECV_BLOCK`: return when the whole buffer has been filled.
        const BLOCK = 1;
    }

    /// Flags of accept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AcceptFlags: u32 {
        /// `SCIF_ACCEPT_SYNC`: wait for a request.
        const SYNC = 1;
    }

    /// Flags of listen, an addition of this project: C's `scif_listen` has none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ListenFlags: u32 {
        /// Grants each request when it comes, as TCP does: connectors do not wait until the
        /// connection is accepted.
        const GRANT_AT_ONCE = 1;
    }

    /// The rights to a window that the peer and RMA calls have: the `prot_flags` of register. The
    /// values are those of `mmap`'s `PROT_READ` and `PROT_WRITE` in the C header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Protection: u32 {
        /// `SCIF_PROT_READ`: the window may be read.
        const READ = 1;
        /// `SCIF_PROT_WRITE`: the window may be written.
        const WRITE = 2;
    }

    /// Flags of register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct MapFlags: u32 {
        /// `SCIF_MAP_FIXED`: the window must lie at the given offset.
        const FIXED = 0x10;
        /// `SCIF_MAP_KERNEL`: the address is a kernel's. Register refuses it: no caller has one
        /// here.
        const KERNEL = 0x20;
    }

    /// Flags of the RMA calls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct RmaFlags: u32 {
        /// `SCIF_RMA_USECPU`: copy with the CPU, not with a DMA engine.
        const USECPU = 1;
        /// `SCIF_RMA_USECACHE`: the range will be used again. Only the v* calls heed it.
        const USECACHE = 2;
        /// `SCIF_RMA_SYNC`: return when the data has arrived.
        const SYNC = 4;
        /// `SCIF_RMA_ORDERED`: the last cache line of the data arrives last.
        const ORDERED = 8;
    }

    /// The notifications that the daemon sends to the peer for `Call::Kick` and `Call::Wait`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Kicks: u32 {
        /// Bytes have been put into the peer's ring.
        const BYTES = 1;
        /// Bytes that the peer sent have been taken out, so that there is room.
        const ROOM = 2;
    }

    /// Flags of fence_mark and fence_signal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct FenceFlags: u32 {
        /// `SCIF_FENCE_INIT_SELF`: RMAs that were started through this endpoint.
        const INIT_SELF = 0x01;
        /// `SCIF_FENCE_INIT_PEER`: RMAs that were started through the peer.
        const INIT_PEER = 0x02;
        /// `SCIF_SIGNAL_LOCAL`: write the local value at the local offset.
        const SIGNAL_LOCAL = 0x10;
        /// `SCIF_SIGNAL_REMOTE`: write the remote value at the remote offset.
        const SIGNAL_REMOTE = 0x20;
    }
}

#[cfg(test)]
mod tests {
    use super::{FenceFlags, MapFlags, Protection, RmaFlags};

    #[test]
    fn values_are_those_of_the_header() {
        assert_eq!(Protection::all().bits(), 0x03);
        assert_eq!(MapFlags::all().bits(), 0x30);
        assert_eq!(RmaFlags::all().bits(), 0x0f);
        // 0x04 and 0x08 (RAS_SELF, RAS_PEER of an old header) are no flags.
        assert_eq!(FenceFlags::all().bits(), 0x33);
        assert_eq!(Protection::WRITE.bits(), 2);
        assert_eq!(MapFlags::FIXED.bits(), 16);
        assert_eq!(RmaFlags::USECPU.bits(), 1);
        assert_eq!(RmaFlags::USECACHE.bits(), 2);
        assert_eq!(RmaFlags::SYNC.bits(), 4);
        assert_eq!(FenceFlags::INIT_PEER.bits(), 2);
        assert_eq!(FenceFlags::SIGNAL_REMOTE.bits(), 32);
    }
}
