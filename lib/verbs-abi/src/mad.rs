//! User access to management datagrams (`ib_user_mad.h`, version 5): the frame of a read or write
//! of `umad0`, and the requests of its `ioctl`.
//!
//! On the scheme a request is a `call` whose `metadata[0]` is the number of the request, and whose
//! payload is its structure, which is changed in place. Addresses are in the byte order of the
//! network, other integers in that of the machine.

use syscall_derive::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the interface (`class/infiniband_mad/abi_version`).
pub const ABI_VERSION: u32 = 5;
/// Bytes of the frame's header without P_Key indices; the datagram follows.
pub const OLD_HEADER_BYTES: usize = 56;
/// Most agents of a descriptor.
pub const MAX_AGENTS: usize = 32;
/// `status` of a send that was not answered: ETIMEDOUT.
pub const STATUS_TIMED_OUT: u32 = 110;

/// Numbers of requests, with their sizes and directions as Linux codes them.
pub mod request {
    /// REGISTER_AGENT, with a [`RegisterAgent`](super::RegisterAgent).
    pub const REGISTER_AGENT: u64 = 0xc01c_1b01;
    /// UNREGISTER_AGENT, with the number of the agent.
    pub const UNREGISTER_AGENT: u64 = 0x4004_1b02;
    /// ENABLE_PKEY, with nothing.
    pub const ENABLE_PKEY: u64 = 0x1b03;
    /// REGISTER_AGENT2, with a [`RegisterAgent2`](super::RegisterAgent2).
    pub const REGISTER_AGENT2: u64 = 0xc028_1b04;
}

/// `flags` of REGISTER_AGENT2: the program segments and acknowledges long messages itself.
pub const USER_RMPP: u32 = 1;

records! {
    /// The header of a frame; without the last eight bytes for a descriptor that has not asked for
    /// P_Key indices.
    UserMad, 64, 4 {
        0 id: u32,
        4 status: u32,
        8 timeout_ms: u32,
        12 retries: u32,
        16 length: u32,
        20 qpn: [u8; 4],
        24 qkey: [u8; 4],
        28 lid: [u8; 2],
        30 sl: u8,
        31 path_bits: u8,
        32 grh_present: u8,
        33 gid_index: u8,
        34 hop_limit: u8,
        35 traffic_class: u8,
        36 gid: [u8; 16],
        52 flow_label: [u8; 4],
        56 pkey_index: u16,
        58 reserved: [u8; 6],
    }
    /// REGISTER_AGENT. Method m is bit m % 32 of word m / 32 of the mask.
    RegisterAgent, 28, 4 {
        0 id: u32,
        4 method_mask: [u32; 4],
        20 qpn: u8,
        21 mgmt_class: u8,
        22 mgmt_class_version: u8,
        23 oui: [u8; 3],
        26 rmpp_version: u8,
        27 reserved: u8,
    }
    /// REGISTER_AGENT2. Method m is bit m % 64 of word m / 64 of the mask.
    RegisterAgent2, 40, 8 {
        0 id: u32,
        4 qpn: u32,
        8 mgmt_class: u8,
        9 mgmt_class_version: u8,
        10 res: u16,
        12 flags: u32,
        16 method_mask: [u64; 2],
        32 oui: u32,
        36 rmpp_version: u8,
        37 reserved: [u8; 3],
    }
}
