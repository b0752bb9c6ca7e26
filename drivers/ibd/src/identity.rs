//! The identity and the properties of the device and its port.

use alloc::format;
use alloc::string::String;

use verbs_abi::records::{QueryDeviceAnswer, QueryPortAnswer};
use verbs_core::MAX_MESSAGE;
use verbs_core::address::{guid, lid};
use verbs_core::attributes::MAX_READS;
use verbs_core::context::{
    MAX_AHS, MAX_CQE, MAX_CQS, MAX_GROUPS, MAX_MEMBERS, MAX_MWS, MAX_PDS, MAX_QPS, MAX_SGE,
    MAX_SRQS, MAX_WR,
};
use verbs_core::keys::{MAX_REGION_BYTES, MAX_REGIONS};

/// Name of the device.
pub const DEVICE: &str = "scif0";
/// Version of the firmware, as the device reports it: the version of this daemon.
pub const FIRMWARE: &str = env!("CARGO_PKG_VERSION");
/// The number of the device's only port.
pub const PORT: u8 = 1;
/// The partition key at index 0, the only one.
pub const PKEY: u16 = 0xffff;
/// Number of completion vectors.
pub const COMPLETION_VECTORS: u32 = 1;
/// Most memberships of queue pairs in multicast groups on the node.
pub const MAX_MEMBERSHIPS: u64 = 1024;

/// Capability bits of the device.
mod capability {
    /// A datagram must leave by the port of its address handle.
    pub const UD_AV_PORT_ENFORCE: u32 = 1 << 6;
    /// Events report changes of the port's state.
    pub const PORT_ACTIVE_EVENT: u32 = 1 << 10;
    /// The device reports an identifier of the whole system.
    pub const SYS_IMAGE_GUID: u32 = 1 << 11;
    /// A message without a posted receive is answered with RNR NAK.
    pub const RC_RNR_NAK_GEN: u32 = 1 << 12;
    /// Shared receive queues can be resized.
    pub const SRQ_RESIZE: u32 = 1 << 13;
    /// Memory windows exist.
    pub const MEM_WINDOW: u32 = 1 << 17;
    /// XRC domains exist.
    pub const XRC: u32 = 1 << 20;
    /// Requests can invalidate keys.
    pub const MEM_MGT_EXTENSIONS: u32 = 1 << 21;
    /// Memory windows of type 2 belong to a queue pair.
    pub const MEM_WINDOW_TYPE_2B: u32 = 1 << 24;
}

/// The state of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// The SCIF driver does not run.
    Down,
    /// The SCIF driver runs.
    Active,
}

impl PortState {
    /// The logical state and the physical one, each as number and name.
    pub const fn names(self) -> [(u8, &'static str); 2] {
        match self {
            PortState::Down => [(1, "DOWN"), (2, "Polling")],
            PortState::Active => [(4, "ACTIVE"), (5, "LinkUp")],
        }
    }
}

/// The GUID of a node, which no other node has, as the class tree writes it.
pub fn guid_text(node: u16) -> String {
    let [a, b, c, d] = [48, 32, 16, 0].map(|shift| guid(lid(node)) >> shift & 0xffff);
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}

/// The version as a number, as verbs count it: three parts of 16 bits.
fn firmware_number() -> u64 {
    let parts = FIRMWARE.split('.').map(|part| part.parse().unwrap_or(0));
    let mut parts = parts.chain(core::iter::repeat(0));
    let mut next = || parts.next().unwrap_or(0_u64) & 0xffff;
    next() << 32 | next() << 16 | next()
}

/// The properties of the device of a node.
pub fn device(node: u16) -> QueryDeviceAnswer {
    QueryDeviceAnswer {
        fw_ver: firmware_number(),
        node_guid: guid(lid(node)).to_be_bytes(),
        sys_image_guid: guid(lid(0)).to_be_bytes(),
        max_mr_size: MAX_REGION_BYTES,
        page_size_cap: 0x1000,
        max_qp: MAX_QPS as u32,
        max_qp_wr: MAX_WR,
        device_cap_flags: capability::UD_AV_PORT_ENFORCE
            | capability::PORT_ACTIVE_EVENT
            | capability::SYS_IMAGE_GUID
            | capability::RC_RNR_NAK_GEN
            | capability::SRQ_RESIZE
            | capability::MEM_WINDOW
            | capability::XRC
            | capability::MEM_MGT_EXTENSIONS
            | capability::MEM_WINDOW_TYPE_2B,
        max_sge: MAX_SGE,
        max_sge_rd: MAX_SGE,
        max_cq: MAX_CQS,
        max_cqe: MAX_CQE,
        max_mr: MAX_REGIONS as u32,
        max_pd: MAX_PDS,
        max_qp_rd_atom: MAX_READS.into(),
        max_res_rd_atom: u32::from(MAX_READS) * MAX_QPS as u32,
        max_qp_init_rd_atom: MAX_READS.into(),
        atomic_cap: 1,
        max_mw: MAX_MWS as u32,
        max_mcast_grp: MAX_GROUPS as u32,
        max_mcast_qp_attach: MAX_MEMBERS as u32,
        max_total_mcast_qp_attach: MAX_MEMBERSHIPS as u32,
        max_ah: MAX_AHS,
        max_srq: MAX_SRQS,
        max_srq_wr: MAX_WR,
        max_srq_sge: MAX_SGE,
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..QueryDeviceAnswer::default()
    }
}

/// The properties of the port of a node.
pub fn port(node: u16, state: PortState) -> QueryPortAnswer {
    /// The code for packets of 4096 bytes.
    const MTU: u8 = 5;
    /// Codes for four lanes of 25 Gbit/s, the closest of the link speeds to a bus.
    const WIDTH_4X: u8 = 2;
    const SPEED_EDR: u8 = 32;
    const LINK_INFINIBAND: u8 = 1;
    let [(logical, _), (physical, _)] = state.names();
    QueryPortAnswer {
        max_msg_sz: MAX_MESSAGE as u32,
        gid_tbl_len: 1,
        pkey_tbl_len: 1,
        lid: lid(node),
        sm_lid: lid(0),
        state: logical,
        max_mtu: MTU,
        active_mtu: MTU,
        max_vl_num: 1,
        subnet_timeout: 18,
        active_width: WIDTH_4X,
        active_speed: SPEED_EDR,
        phys_state: physical,
        link_layer: LINK_INFINIBAND,
        ..QueryPortAnswer::default()
    }
}
