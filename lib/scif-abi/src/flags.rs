//! Flag words of the SCIF calls, with the values of the SCIF header.

use bitflags::bitflags;

bitflags! {
    /// What `poll` reports. The values are the header's `SCIF_POLL*`, which are those of `poll(2)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Readiness: u16 {
        /// A byte can be received, or a connection request waits.
        const IN = 0x0001;
        /// There is room to send, or a non-blocking connect has ended.
        const OUT = 0x0004;
        /// The endpoint is in no state in which it could become ready.
        const ERR = 0x0008;
        /// The peer has gone. Bytes it sent may still be there.
        const HUP = 0x0010;
        /// The descriptor is no endpoint. Only ever reported, by the scheme.
        const NVAL = 0x0020;
    }

    /// Flags of send.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SendFlags: u32 {
        /// `SCIF_SEND_BLOCK`: return when everything has been sent.
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
}
