//! Queue pairs, work requests, shared receive queues, addresses and groups.

use syscall_derive::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

records! {
    // ---- Queue pairs ----

    /// CREATE_QP.
    CreateQp, 56, 8 {
        0 response: u64,
        8 user_handle: u64,
        16 pd_handle: u32,
        20 send_cq_handle: u32,
        24 recv_cq_handle: u32,
        28 srq_handle: u32,
        32 max_send_wr: u32,
        36 max_recv_wr: u32,
        40 max_send_sge: u32,
        44 max_recv_sge: u32,
        48 max_inline_data: u32,
        52 sq_sig_all: u8,
        53 qp_type: u8,
        54 is_srq: u8,
        55 reserved: u8,
    }
    /// The answer to CREATE_QP: what was granted.
    CreateQpAnswer, 32, 4 {
        0 qp_handle: u32,
        4 qpn: u32,
        8 max_send_wr: u32,
        12 max_recv_wr: u32,
        16 max_send_sge: u32,
        20 max_recv_sge: u32,
        24 max_inline_data: u32,
        28 reserved: u32,
    }
    /// CREATE_QP, extended.
    CreateQpEx, 64, 8 {
        0 user_handle: u64,
        8 pd_handle: u32,
        12 send_cq_handle: u32,
        16 recv_cq_handle: u32,
        20 srq_handle: u32,
        24 max_send_wr: u32,
        28 max_recv_wr: u32,
        32 max_send_sge: u32,
        36 max_recv_sge: u32,
        40 max_inline_data: u32,
        44 sq_sig_all: u8,
        45 qp_type: u8,
        46 is_srq: u8,
        47 reserved: u8,
        48 comp_mask: u32,
        52 create_flags: u32,
        56 rwq_ind_tbl_handle: u32,
        60 source_qpn: u32,
    }
    /// The answer to the extended CREATE_QP.
    CreateQpExAnswer, 40, 4 {
        0 base: CreateQpAnswer,
        32 comp_mask: u32,
        36 response_length: u32,
    }
    /// The provider's data of CREATE_QP: the number that the library has chosen, which contains
    /// the port that it listens on. Without this the daemon chooses a number.
    CreateQpProvider, 8, 4 {
        0 qpn: u32,
        4 reserved: u32,
    }
    /// OPEN_QP.
    OpenQp, 32, 8 {
        0 response: u64,
        8 user_handle: u64,
        16 pd_handle: u32,
        20 qpn: u32,
        24 qp_type: u8,
        25 reserved: [u8; 7],
    }
    /// An address in QUERY_QP and MODIFY_QP.
    Destination, 32, 4 {
        0 dgid: [u8; 16],
        16 flow_label: u32,
        20 dlid: u16,
        22 reserved: u16,
        24 sgid_index: u8,
        25 hop_limit: u8,
        26 traffic_class: u8,
        27 sl: u8,
        28 src_path_bits: u8,
        29 static_rate: u8,
        30 is_global: u8,
        31 port_num: u8,
    }
    /// QUERY_QP.
    QueryQp, 16, 8 {
        0 response: u64,
        8 qp_handle: u32,
        12 attr_mask: u32,
    }
    /// The answer to QUERY_QP.
    QueryQpAnswer, 128, 4 {
        0 dest: Destination,
        32 alt_dest: Destination,
        64 max_send_wr: u32,
        68 max_recv_wr: u32,
        72 max_send_sge: u32,
        76 max_recv_sge: u32,
        80 max_inline_data: u32,
        84 qkey: u32,
        88 rq_psn: u32,
        92 sq_psn: u32,
        96 dest_qp_num: u32,
        100 qp_access_flags: u32,
        104 pkey_index: u16,
        106 alt_pkey_index: u16,
        108 qp_state: u8,
        109 cur_qp_state: u8,
        110 path_mtu: u8,
        111 path_mig_state: u8,
        112 sq_draining: u8,
        113 max_rd_atomic: u8,
        114 max_dest_rd_atomic: u8,
        115 min_rnr_timer: u8,
        116 port_num: u8,
        117 timeout: u8,
        118 retry_cnt: u8,
        119 rnr_retry: u8,
        120 alt_port_num: u8,
        121 alt_timeout: u8,
        122 sq_sig_all: u8,
        123 reserved: [u8; 5],
    }
    /// MODIFY_QP.
    ModifyQp, 112, 4 {
        0 dest: Destination,
        32 alt_dest: Destination,
        64 qp_handle: u32,
        68 attr_mask: u32,
        72 qkey: u32,
        76 rq_psn: u32,
        80 sq_psn: u32,
        84 dest_qp_num: u32,
        88 qp_access_flags: u32,
        92 pkey_index: u16,
        94 alt_pkey_index: u16,
        96 qp_state: u8,
        97 cur_qp_state: u8,
        98 path_mtu: u8,
        99 path_mig_state: u8,
        100 en_sqd_async_notify: u8,
        101 max_rd_atomic: u8,
        102 max_dest_rd_atomic: u8,
        103 min_rnr_timer: u8,
        104 port_num: u8,
        105 timeout: u8,
        106 retry_cnt: u8,
        107 rnr_retry: u8,
        108 alt_port_num: u8,
        109 alt_timeout: u8,
        110 reserved: [u8; 2],
    }
    /// MODIFY_QP, extended.
    ModifyQpEx, 120, 4 {
        0 base: ModifyQp,
        112 rate_limit: u32,
        116 reserved: u32,
    }
    /// The answer to the extended MODIFY_QP.
    ModifyQpExAnswer, 8, 4 {
        0 comp_mask: u32,
        4 response_length: u32,
    }
    /// DESTROY_QP.
    DestroyQp, 16, 8 {
        0 response: u64,
        8 qp_handle: u32,
        12 reserved: u32,
    }
    /// The answer to DESTROY_QP.
    DestroyQpAnswer, 4, 4 {
        0 events_reported: u32,
    }

    // ---- Work requests ----

    /// POST_SEND. Work requests follow, then the scatter-gather elements of all of them.
    PostSend, 24, 8 {
        0 response: u64,
        8 qp_handle: u32,
        12 wr_count: u32,
        16 sge_count: u32,
        20 wqe_size: u32,
    }
    /// The answer to POST_SEND: the request that was not posted, counted from 1.
    PostAnswer, 4, 4 {
        0 bad_wr: u32,
    }
    /// A work request for a send queue. `wr` is for one-sided requests an address and a key; for
    /// atomic ones an address, the two numbers and a key; for datagrams an address handle, a
    /// number of a queue pair and a key.
    SendRequest, 56, 8 {
        0 wr_id: u64,
        8 num_sge: u32,
        12 opcode: u32,
        16 send_flags: u32,
        20 imm_data: u32,
        24 wr: [u64; 4],
    }
    /// POST_RECV, and POST_SRQ_RECV. Work requests follow, then the scatter-gather elements.
    PostRecv, 24, 8 {
        0 response: u64,
        8 handle: u32,
        12 wr_count: u32,
        16 sge_count: u32,
        20 wqe_size: u32,
    }
    /// A work request for a receive queue.
    ReceiveRequest, 16, 8 {
        0 wr_id: u64,
        8 num_sge: u32,
        12 reserved: u32,
    }
    /// A scatter-gather element.
    Element, 16, 8 {
        0 addr: u64,
        8 length: u32,
        12 lkey: u32,
    }

    // ---- Shared receive queues, addresses, groups ----

    /// CREATE_SRQ.
    CreateSrq, 32, 8 {
        0 response: u64,
        8 user_handle: u64,
        16 pd_handle: u32,
        20 max_wr: u32,
        24 max_sge: u32,
        28 srq_limit: u32,
    }
    /// The answer to CREATE_SRQ.
    CreateSrqAnswer, 16, 4 {
        0 srq_handle: u32,
        4 max_wr: u32,
        8 max_sge: u32,
        12 srqn: u32,
    }
    /// CREATE_XSRQ.
    CreateXsrq, 48, 8 {
        0 response: u64,
        8 user_handle: u64,
        16 srq_type: u32,
        20 pd_handle: u32,
        24 max_wr: u32,
        28 max_sge: u32,
        32 srq_limit: u32,
        36 max_num_tags: u32,
        40 xrcd_handle: u32,
        44 cq_handle: u32,
    }
    /// MODIFY_SRQ.
    ModifySrq, 16, 4 {
        0 srq_handle: u32,
        4 attr_mask: u32,
        8 max_wr: u32,
        12 srq_limit: u32,
    }
    /// QUERY_SRQ.
    QuerySrq, 16, 8 {
        0 response: u64,
        8 srq_handle: u32,
        12 reserved: u32,
    }
    /// The answer to QUERY_SRQ.
    QuerySrqAnswer, 16, 4 {
        0 max_wr: u32,
        4 max_sge: u32,
        8 srq_limit: u32,
        12 reserved: u32,
    }
    /// DESTROY_SRQ.
    DestroySrq, 16, 8 {
        0 response: u64,
        8 srq_handle: u32,
        12 reserved: u32,
    }
    /// The answer to DESTROY_SRQ.
    DestroySrqAnswer, 4, 4 {
        0 events_reported: u32,
    }
    /// The address of an address handle.
    AhAttributes, 32, 4 {
        0 dgid: [u8; 16],
        16 flow_label: u32,
        20 sgid_index: u8,
        21 hop_limit: u8,
        22 traffic_class: u8,
        23 reserved: u8,
        24 dlid: u16,
        26 sl: u8,
        27 src_path_bits: u8,
        28 static_rate: u8,
        29 is_global: u8,
        30 port_num: u8,
        31 reserved2: u8,
    }
    /// CREATE_AH.
    CreateAh, 56, 8 {
        0 response: u64,
        8 user_handle: u64,
        16 pd_handle: u32,
        20 reserved: u32,
        24 attr: AhAttributes,
    }
    /// The answer to CREATE_AH.
    CreateAhAnswer, 4, 4 {
        0 ah_handle: u32,
    }
    /// DESTROY_AH.
    DestroyAh, 4, 4 {
        0 ah_handle: u32,
    }
    /// ATTACH_MCAST and DETACH_MCAST.
    Multicast, 24, 4 {
        0 gid: [u8; 16],
        16 qp_handle: u32,
        20 mlid: u16,
        22 reserved: u16,
    }
}
