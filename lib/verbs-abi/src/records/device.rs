//! Frame, device, memory and completion queues.

use syscall_derive::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

records! {
    /// In front of every command.
    Header, 8, 4 {
        0 command: u32,
        4 in_words: u16,
        6 out_words: u16,
    }
    /// Behind the header of an extended command.
    ExtendedHeader, 16, 8 {
        0 response: u64,
        8 provider_in_words: u16,
        10 provider_out_words: u16,
        12 reserved: u32,
    }

    // ---- Device ----

    /// GET_CONTEXT.
    GetContext, 8, 8 {
        0 response: u64,
    }
    /// The answer to GET_CONTEXT.
    GetContextAnswer, 8, 4 {
        0 async_fd: u32,
        4 num_comp_vectors: u32,
    }
    /// QUERY_DEVICE.
    QueryDevice, 8, 8 {
        0 response: u64,
    }
    /// The answer to QUERY_DEVICE. Identifiers are in the byte order of the network.
    QueryDeviceAnswer, 176, 8 {
        0 fw_ver: u64,
        8 node_guid: [u8; 8],
        16 sys_image_guid: [u8; 8],
        24 max_mr_size: u64,
        32 page_size_cap: u64,
        40 vendor_id: u32,
        44 vendor_part_id: u32,
        48 hw_ver: u32,
        52 max_qp: u32,
        56 max_qp_wr: u32,
        60 device_cap_flags: u32,
        64 max_sge: u32,
        68 max_sge_rd: u32,
        72 max_cq: u32,
        76 max_cqe: u32,
        80 max_mr: u32,
        84 max_pd: u32,
        88 max_qp_rd_atom: u32,
        92 max_ee_rd_atom: u32,
        96 max_res_rd_atom: u32,
        100 max_qp_init_rd_atom: u32,
        104 max_ee_init_rd_atom: u32,
        108 atomic_cap: u32,
        112 max_ee: u32,
        116 max_rdd: u32,
        120 max_mw: u32,
        124 max_raw_ipv6_qp: u32,
        128 max_raw_ethy_qp: u32,
        132 max_mcast_grp: u32,
        136 max_mcast_qp_attach: u32,
        140 max_total_mcast_qp_attach: u32,
        144 max_ah: u32,
        148 max_fmr: u32,
        152 max_map_per_fmr: u32,
        156 max_srq: u32,
        160 max_srq_wr: u32,
        164 max_srq_sge: u32,
        168 max_pkeys: u16,
        170 local_ca_ack_delay: u8,
        171 phys_port_cnt: u8,
        172 reserved: u32,
    }
    /// QUERY_DEVICE, extended.
    QueryDeviceEx, 8, 4 {
        0 comp_mask: u32,
        4 reserved: u32,
    }
    /// The part of the answer to the extended QUERY_DEVICE that follows the plain one.
    QueryDeviceExtension, 128, 8 {
        0 comp_mask: u32,
        4 response_length: u32,
        8 odp_caps: [u64; 3],
        32 timestamp_mask: u64,
        40 hca_core_clock: u64,
        48 device_cap_flags_ex: u64,
        56 rss_caps: [u64; 2],
        72 max_wq_type_rq: u32,
        76 raw_packet_caps: u32,
        80 tm_caps: [u32; 6],
        104 cq_moderation_caps: u64,
        112 max_dm_size: u64,
        120 xrc_odp_caps: u32,
        124 reserved: u32,
    }
    /// QUERY_PORT.
    QueryPort, 16, 8 {
        0 response: u64,
        8 port_num: u8,
        9 reserved: [u8; 7],
    }
    /// The answer to QUERY_PORT.
    QueryPortAnswer, 40, 4 {
        0 port_cap_flags: u32,
        4 max_msg_sz: u32,
        8 bad_pkey_cntr: u32,
        12 qkey_viol_cntr: u32,
        16 gid_tbl_len: u32,
        20 pkey_tbl_len: u16,
        22 lid: u16,
        24 sm_lid: u16,
        26 state: u8,
        27 max_mtu: u8,
        28 active_mtu: u8,
        29 lmc: u8,
        30 max_vl_num: u8,
        31 sm_sl: u8,
        32 subnet_timeout: u8,
        33 init_type_reply: u8,
        34 active_width: u8,
        35 active_speed: u8,
        36 phys_state: u8,
        37 link_layer: u8,
        38 flags: u8,
        39 reserved: u8,
    }

    // ---- Domains and memory ----

    /// ALLOC_PD.
    AllocPd, 8, 8 {
        0 response: u64,
    }
    /// The answer to ALLOC_PD.
    AllocPdAnswer, 4, 4 {
        0 pd_handle: u32,
    }
    /// DEALLOC_PD.
    DeallocPd, 4, 4 {
        0 pd_handle: u32,
    }
    /// OPEN_XRCD.
    OpenXrcd, 16, 8 {
        0 response: u64,
        8 fd: i32,
        12 oflags: u32,
    }
    /// The answer to OPEN_XRCD.
    OpenXrcdAnswer, 4, 4 {
        0 xrcd_handle: u32,
    }
    /// CLOSE_XRCD.
    CloseXrcd, 4, 4 {
        0 xrcd_handle: u32,
    }
    /// REG_MR.
    RegMr, 40, 8 {
        0 response: u64,
        8 start: u64,
        16 length: u64,
        24 hca_va: u64,
        32 pd_handle: u32,
        36 access_flags: u32,
    }
    /// The answer to REG_MR.
    RegMrAnswer, 12, 4 {
        0 mr_handle: u32,
        4 lkey: u32,
        8 rkey: u32,
    }
    /// REREG_MR.
    ReregMr, 48, 8 {
        0 response: u64,
        8 mr_handle: u32,
        12 flags: u32,
        16 start: u64,
        24 length: u64,
        32 hca_va: u64,
        40 pd_handle: u32,
        44 access_flags: u32,
    }
    /// The answer to REREG_MR.
    ReregMrAnswer, 8, 4 {
        0 lkey: u32,
        4 rkey: u32,
    }
    /// DEREG_MR.
    DeregMr, 4, 4 {
        0 mr_handle: u32,
    }
    /// ALLOC_MW.
    AllocMw, 16, 8 {
        0 response: u64,
        8 pd_handle: u32,
        12 mw_type: u8,
        13 reserved: [u8; 3],
    }
    /// The answer to ALLOC_MW.
    AllocMwAnswer, 8, 4 {
        0 mw_handle: u32,
        4 rkey: u32,
    }
    /// DEALLOC_MW.
    DeallocMw, 4, 4 {
        0 mw_handle: u32,
    }

    // ---- Completion ----

    /// CREATE_COMP_CHANNEL.
    CreateCompChannel, 8, 8 {
        0 response: u64,
    }
    /// The answer to CREATE_COMP_CHANNEL.
    CreateCompChannelAnswer, 4, 4 {
        0 fd: u32,
    }
    /// CREATE_CQ.
    CreateCq, 32, 8 {
        0 response: u64,
        8 user_handle: u64,
        16 cqe: u32,
        20 comp_vector: u32,
        24 comp_channel: i32,
        28 reserved: u32,
    }
    /// The answer to CREATE_CQ.
    CreateCqAnswer, 8, 4 {
        0 cq_handle: u32,
        4 cqe: u32,
    }
    /// CREATE_CQ, extended.
    CreateCqEx, 32, 8 {
        0 user_handle: u64,
        8 cqe: u32,
        12 comp_vector: u32,
        16 comp_channel: i32,
        20 comp_mask: u32,
        24 flags: u32,
        28 reserved: u32,
    }
    /// The answer to the extended CREATE_CQ.
    CreateCqExAnswer, 16, 4 {
        0 base: CreateCqAnswer,
        8 comp_mask: u32,
        12 response_length: u32,
    }
    /// RESIZE_CQ.
    ResizeCq, 16, 8 {
        0 response: u64,
        8 cq_handle: u32,
        12 cqe: u32,
    }
    /// The answer to RESIZE_CQ. The room for it must fit the first field only.
    ResizeCqAnswer, 8, 4 {
        0 cqe: u32,
        4 reserved: u32,
    }
    /// POLL_CQ.
    PollCq, 16, 8 {
        0 response: u64,
        8 cq_handle: u32,
        12 ne: u32,
    }
    /// The answer to POLL_CQ, which completions follow.
    PollCqAnswer, 8, 4 {
        0 count: u32,
        4 reserved: u32,
    }
    /// A completion.
    Completion, 48, 8 {
        0 wr_id: u64,
        8 status: u32,
        12 opcode: u32,
        16 vendor_err: u32,
        20 byte_len: u32,
        24 imm_data: u32,
        28 qp_num: u32,
        32 src_qp: u32,
        36 wc_flags: u32,
        40 pkey_index: u16,
        42 slid: u16,
        44 sl: u8,
        45 dlid_path_bits: u8,
        46 port_num: u8,
        47 reserved: u8,
    }
    /// REQ_NOTIFY_CQ.
    ReqNotifyCq, 8, 4 {
        0 cq_handle: u32,
        4 solicited_only: u32,
    }
    /// DESTROY_CQ.
    DestroyCq, 16, 8 {
        0 response: u64,
        8 cq_handle: u32,
        12 reserved: u32,
    }
    /// The answer to DESTROY_CQ.
    DestroyCqAnswer, 8, 4 {
        0 comp_events_reported: u32,
        4 async_events_reported: u32,
    }
}
