//! The structures of `verbs.h`, with its layout. Structures of objects have fields after those
//! that are only for this library.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;

use runtime::sync::Mutex;
use verbs::raw;
use verbs::table::Id;
use verbs::{SendRequest, WorkCompletion};

use crate::place::Region;

/// `struct ibv_device`.
#[repr(C)]
pub struct Device {
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; 64],
    pub dev_name: [c_char; 64],
    pub dev_path: [c_char; 256],
    pub ibdev_path: [c_char; 256],
}

/// `struct ibv_context`.
#[repr(C)]
pub struct Context {
    pub device: *const Device,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub raw: raw::Context,
    /// The process that has opened it.
    pub owner: u32,
    pub file_domains: Mutex<Vec<FileDomain>>,
}

/// The XRC domain of a file: device and number of the file, and how often it is open.
pub type FileDomain = ((u64, u64), Id, usize);

/// `struct ibv_pd`.
#[repr(C)]
pub struct Pd {
    pub context: *mut Context,
    pub handle: u32,
    /// Number of objects that keep its address, its parent domains included.
    pub users: AtomicU32,
    /// For a parent domain, which is a second object for a domain: that domain. Else null.
    pub of: *const Pd,
    /// The thread domain of a parent domain, or null.
    pub td: *const Td,
}

/// `struct ibv_td`.
#[repr(C)]
pub struct Td {
    pub context: *mut Context,
    /// Number of its parent domains.
    pub users: AtomicU32,
}

/// `struct ibv_mr`.
#[repr(C)]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// `struct ibv_ah`.
#[repr(C)]
pub struct Ah {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub handle: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
    pub events: Arc<raw::Channel>,
    /// Number of completion queues that use it.
    pub users: AtomicU32,
}

/// How many events of an object the program has received, and how many it has acknowledged.
#[derive(Default)]
pub struct EventCounts {
    pub reported: AtomicU32,
    pub acknowledged: AtomicU32,
}

/// `struct ibv_cq_ex`, which begins as `struct ibv_cq`.
#[repr(C)]
pub struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub comp_mask: u32,
    pub status: u32,
    pub wr_id: u64,
    pub id: Id,
    /// The completion that the program reads between `ibv_start_poll` and `ibv_end_poll`.
    pub current: Mutex<Option<WorkCompletion>>,
    pub polling: Region,
    pub completions: EventCounts,
    pub events: EventCounts,
}

/// `struct ibv_srq`.
#[repr(C)]
pub struct Srq {
    pub context: *mut Context,
    pub srq_context: *mut c_void,
    pub pd: *mut Pd,
    pub handle: u32,
    pub id: Id,
    pub events: EventCounts,
}

/// `struct ibv_qp_ex`, which begins as `struct ibv_qp`.
#[repr(C)]
pub struct Qp {
    pub context: *mut Context,
    pub qp_context: *mut c_void,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: u32,
    pub qp_type: u32,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub is_extended: bool,
    /// Requests between `ibv_wr_start` and `ibv_wr_complete`, and the first error among them.
    pub building: Mutex<(Vec<SendRequest>, Result<(), i32>)>,
    pub posting: Region,
    pub events: EventCounts,
    /// The address that the program has set, as it has set it.
    pub address: Mutex<Option<AhAttr>>,
}

/// `union ibv_gid`.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct Gid(pub [u8; 16]);

/// `struct ibv_gid_entry`.
#[repr(C)]
pub struct GidEntry {
    pub gid: Gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

/// `struct ibv_device_attr`.
#[derive(Clone)]
#[repr(C)]
pub struct DeviceAttr {
    pub fw_ver: [c_char; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_int,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// `struct ibv_device_attr_ex`. Fields after `orig_attr` that are 0 stand for absent features.
#[repr(C)]
pub struct DeviceAttrEx {
    pub orig_attr: DeviceAttr,
    pub comp_mask: u32,
    /// On-demand paging.
    pub odp_caps: [u64; 3],
    pub completion_timestamp_mask: u64,
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub tso_caps: [u32; 2],
    pub rss_caps: [u64; 4],
    pub max_wq_type_rq: u32,
    pub packet_pacing_caps: [u32; 3],
    pub raw_packet_caps: u32,
    pub tm_caps: [u32; 5],
    pub cq_mod_caps: [u16; 2],
    pub max_dm_size: u64,
    pub pci_atomic_caps: [u16; 3],
    pub xrc_odp_caps: u32,
    pub phys_port_cnt_ex: u32,
}

/// `struct ibv_port_attr`.
#[repr(C)]
pub struct PortAttr {
    pub state: u32,
    pub max_mtu: u32,
    pub active_mtu: u32,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
    pub active_speed_ex: u32,
}

/// `struct ibv_ah_attr`, with its `struct ibv_global_route`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct AhAttr {
    pub dgid: Gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

/// `struct ibv_grh`.
#[repr(C)]
pub struct Grh {
    pub version_tclass_flow: u32,
    pub paylen: u16,
    pub next_hdr: u8,
    pub hop_limit: u8,
    pub sgid: Gid,
    pub dgid: Gid,
}

/// `struct ibv_qp_cap`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub cap: QpCap,
    pub qp_type: u32,
    pub sq_sig_all: c_int,
}

/// `struct ibv_qp_init_attr_ex`, up to the last field that is read.
#[repr(C)]
pub struct QpInitAttrEx {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub cap: QpCap,
    pub qp_type: u32,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut Pd,
    pub xrcd: *mut c_void,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash: [u64; 3],
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}

impl QpInitAttrEx {
    /// `IBV_QP_INIT_ATTR_PD`: `pd` is set.
    pub const WITH_PD: u32 = 1 << 0;

    /// Extends the attributes by a protection domain.
    pub fn new(attr: &QpInitAttr, pd: *mut Pd) -> Self {
        Self {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
            comp_mask: Self::WITH_PD,
            pd,
            xrcd: null_mut(),
            create_flags: 0,
            max_tso_header: 0,
            rwq_ind_tbl: null_mut(),
            rx_hash: [0; 3],
            source_qpn: 0,
            send_ops_flags: 0,
        }
    }
}

/// `struct ibv_qp_attr`.
#[derive(Default)]
#[repr(C)]
pub struct QpAttr {
    pub qp_state: u32,
    pub cur_qp_state: u32,
    pub path_mtu: u32,
    pub path_mig_state: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

/// `struct ibv_srq_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

/// `struct ibv_srq_init_attr`.
#[repr(C)]
pub struct SrqInitAttr {
    pub srq_context: *mut c_void,
    pub attr: SrqAttr,
}

/// `struct ibv_srq_init_attr_ex`.
#[repr(C)]
pub struct SrqInitAttrEx {
    pub srq_context: *mut c_void,
    pub attr: SrqAttr,
    pub comp_mask: u32,
    pub srq_type: u32,
    pub pd: *mut Pd,
    pub xrcd: *mut c_void,
    pub cq: *mut Cq,
    pub tm_cap: [u32; 2],
}

impl SrqInitAttrEx {
    /// `IBV_SRQ_INIT_ATTR_TYPE` and `IBV_SRQ_INIT_ATTR_PD`.
    pub const WITH_TYPE: u32 = 1 << 0;
    pub const WITH_PD: u32 = 1 << 1;
    /// `IBV_SRQT_BASIC`.
    pub const BASIC: u32 = 0;

    /// Extends the attributes by a protection domain.
    pub fn new(attr: &SrqInitAttr, pd: *mut Pd) -> Self {
        Self {
            srq_context: attr.srq_context,
            attr: attr.attr,
            comp_mask: Self::WITH_TYPE | Self::WITH_PD,
            srq_type: Self::BASIC,
            pd,
            xrcd: null_mut(),
            cq: null_mut(),
            tm_cap: [0; 2],
        }
    }
}

/// `struct ibv_cq_init_attr_ex`.
#[repr(C)]
pub struct CqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut CompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut Pd,
}

/// `struct ibv_sge`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// `struct ibv_data_buf`.
#[repr(C)]
pub struct DataBuf {
    pub addr: *const c_void,
    pub length: usize,
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *const Sge,
    pub num_sge: c_int,
}

/// `struct ibv_send_wr`.
#[repr(C)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *const Sge,
    pub num_sge: c_int,
    pub opcode: u32,
    pub send_flags: c_uint,
    /// Immediate data, or the key to invalidate.
    pub imm_data: u32,
    pub wr: SendWrUnion,
    pub remote_srqn: u32,
    pub bind_mw: BindMw,
}

/// The part of a request that depends on its opcode.
#[derive(Clone, Copy)]
#[repr(C)]
pub union SendWrUnion {
    pub rdma: Rdma,
    pub atomic: Atomic,
    pub ud: Ud,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ud {
    pub ah: *const Ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// The part of a request that binds a memory window.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct BindMw {
    pub mw: *mut c_void,
    pub rkey: u32,
    pub info: BindInfo,
}

/// `struct ibv_mw_bind_info`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct BindInfo {
    pub mr: *const Mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

/// `struct ibv_wc`.
#[repr(C)]
pub struct Wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// `struct ibv_async_event`.
#[repr(C)]
pub struct AsyncEvent {
    pub element: *mut c_void,
    pub event_type: u32,
}

// Sizes as a C compiler computes them.
const _: () = {
    assert!(size_of::<DeviceAttr>() == 232);
    assert!(size_of::<DeviceAttrEx>() == 400);
    assert!(size_of::<PortAttr>() == 56);
    assert!(size_of::<AhAttr>() == 32);
    assert!(size_of::<Grh>() == 40);
    assert!(size_of::<QpInitAttr>() == 64);
    assert!(size_of::<QpInitAttrEx>() == 136);
    assert!(size_of::<QpAttr>() == 144);
    assert!(size_of::<SendWr>() == 128);
    assert!(size_of::<RecvWr>() == 32);
    assert!(size_of::<Wc>() == 48);
    assert!(size_of::<Device>() == 648);
    assert!(size_of::<SrqInitAttrEx>() == 64);
    assert!(size_of::<CqInitAttrEx>() == 56);
};
