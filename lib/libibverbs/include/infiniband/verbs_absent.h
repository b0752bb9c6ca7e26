/*
 * Calls of rdma-core's verbs.h for which the device has nothing: steering of packets (flows), work
 * queues and tables of them, counters, handles for DMA, tags, objects of other processes, the
 * device's clock. Programs that ask for them compile, and get EOPNOTSUPP.
 *
 * verbs.h includes this file. Names, numbers and structures are those of rdma-core.
 */
#ifndef INFINIBAND_VERBS_ABSENT_H
#define INFINIBAND_VERBS_ABSENT_H
#ifndef INFINIBAND_VERBS_H
#error "include infiniband/verbs.h"
#endif

__BEGIN_DECLS

/* ---- Objects of other processes ---- */

struct ibv_context *ibv_import_device(int cmd_fd);
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);
void ibv_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);
void ibv_unimport_mr(struct ibv_mr *mr);
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);
void ibv_unimport_dm(struct ibv_dm *dm);
/* These two return -1 with errno set. */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf); /* ENODATA */

/* ---- Handles for DMA ---- */

struct ibv_dmah {
    struct ibv_context *context;
};

enum ibv_tph_mem_type { IBV_TPH_MEM_TYPE_VM, IBV_TPH_MEM_TYPE_PM };

enum ibv_dmah_init_attr_mask {
    IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
    IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
    IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2
};

struct ibv_dmah_init_attr {
    uint32_t comp_mask;
    uint32_t cpu_id;
    uint8_t ph;
    uint8_t tph_mem_type; /* enum ibv_tph_mem_type */
};

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

/* ---- The device's clock ---- */

enum ibv_values_mask {
    IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
    IBV_VALUES_MASK_RESERVED = 1 << 1
};

struct ibv_values_ex {
    uint32_t comp_mask;
    struct timespec raw_clock;
};

int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values);

/* ---- Ethernet ---- */

#define ETHERNET_LL_SIZE 6

/* The port is one of InfiniBand. This one returns the negative error number. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN 0xC000

/* The UDP port of RoCE that stands for a flow label: a number of its own arithmetic. */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
    return (uint16_t)(((fl & 0x3fff) ^ (fl & 0xfc000) >> 14) | IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
}

/* ---- Work queues, and tables of them ---- */

enum ibv_rx_hash_function_flags { IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0 };

enum ibv_rx_hash_fields {
    IBV_RX_HASH_SRC_IPV4 = 1 << 0,
    IBV_RX_HASH_DST_IPV4 = 1 << 1,
    IBV_RX_HASH_SRC_IPV6 = 1 << 2,
    IBV_RX_HASH_DST_IPV6 = 1 << 3,
    IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
    IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
    IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
    IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
    IBV_RX_HASH_IPSEC_SPI = 1 << 8
};
#define IBV_RX_HASH_INNER (1UL << 31)

enum ibv_wq_type { IBV_WQT_RQ };

enum ibv_wq_init_attr_mask {
    IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
    IBV_WQ_INIT_ATTR_RESERVED = 1 << 1
};

enum ibv_wq_flags {
    IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
    IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
    IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
    IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
    IBV_WQ_FLAGS_RESERVED = 1 << 4
};

struct ibv_wq_init_attr {
    void *wq_context;
    enum ibv_wq_type wq_type;
    uint32_t max_wr;
    uint32_t max_sge;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    uint32_t comp_mask;    /* enum ibv_wq_init_attr_mask */
    uint32_t create_flags; /* enum ibv_wq_flags */
};

enum ibv_wq_state { IBV_WQS_RESET, IBV_WQS_RDY, IBV_WQS_ERR, IBV_WQS_UNKNOWN };

enum ibv_wq_attr_mask {
    IBV_WQ_ATTR_STATE = 1 << 0,
    IBV_WQ_ATTR_CURR_STATE = 1 << 1,
    IBV_WQ_ATTR_FLAGS = 1 << 2,
    IBV_WQ_ATTR_RESERVED = 1 << 3
};

struct ibv_wq_attr {
    uint32_t attr_mask; /* enum ibv_wq_attr_mask */
    enum ibv_wq_state wq_state;
    enum ibv_wq_state curr_wq_state;
    uint32_t flags; /* enum ibv_wq_flags */
    uint32_t flags_mask;
};

struct ibv_wq {
    struct ibv_context *context;
    void *wq_context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    uint32_t wq_num;
    uint32_t handle;
    enum ibv_wq_state state;
    enum ibv_wq_type wq_type;
};

struct ibv_rwq_ind_table {
    struct ibv_context *context;
    int ind_tbl_handle;
    int ind_tbl_num;
    uint32_t comp_mask;
};

enum ibv_ind_table_init_attr_mask { IBV_CREATE_IND_TABLE_RESERVED = 1 << 0 };

struct ibv_rwq_ind_table_init_attr {
    uint32_t log_ind_tbl_size;
    struct ibv_wq **ind_tbl;
    uint32_t comp_mask;
};

struct ibv_wq *ibv_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *wq_init_attr);
int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr);
int ibv_destroy_wq(struct ibv_wq *wq);
int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr,
                     struct ibv_recv_wr **bad_recv_wr);
struct ibv_rwq_ind_table *ibv_create_rwq_ind_table(struct ibv_context *context,
                                                   struct ibv_rwq_ind_table_init_attr *init_attr);
int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table);

/* ---- Flows ---- */

enum ibv_flow_flags {
    IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1,
    IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2
};

enum ibv_flow_attr_type {
    IBV_FLOW_ATTR_NORMAL,
    IBV_FLOW_ATTR_ALL_DEFAULT,
    IBV_FLOW_ATTR_MC_DEFAULT,
    IBV_FLOW_ATTR_SNIFFER
};

enum ibv_flow_spec_type {
    IBV_FLOW_SPEC_ETH = 0x20,
    IBV_FLOW_SPEC_IPV4 = 0x30,
    IBV_FLOW_SPEC_IPV6 = 0x31,
    IBV_FLOW_SPEC_IPV4_EXT = 0x32,
    IBV_FLOW_SPEC_ESP = 0x34,
    IBV_FLOW_SPEC_TCP = 0x40,
    IBV_FLOW_SPEC_UDP = 0x41,
    IBV_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
    IBV_FLOW_SPEC_GRE = 0x51,
    IBV_FLOW_SPEC_MPLS = 0x60,
    IBV_FLOW_SPEC_INNER = 0x100,
    IBV_FLOW_SPEC_ACTION_TAG = 0x1000,
    IBV_FLOW_SPEC_ACTION_DROP = 0x1001,
    IBV_FLOW_SPEC_ACTION_HANDLE = 0x1002,
    IBV_FLOW_SPEC_ACTION_COUNT = 0x1003
};

struct ibv_flow_eth_filter {
    uint8_t dst_mac[ETHERNET_LL_SIZE];
    uint8_t src_mac[ETHERNET_LL_SIZE];
    uint16_t ether_type;
    uint16_t vlan_tag;
};

struct ibv_flow_ipv4_filter {
    uint32_t src_ip;
    uint32_t dst_ip;
};

struct ibv_flow_ipv4_ext_filter {
    uint32_t src_ip;
    uint32_t dst_ip;
    uint8_t proto;
    uint8_t tos;
    uint8_t ttl;
    uint8_t flags;
};

struct ibv_flow_ipv6_filter {
    uint8_t src_ip[16];
    uint8_t dst_ip[16];
    uint32_t flow_label;
    uint8_t next_hdr;
    uint8_t traffic_class;
    uint8_t hop_limit;
};

struct ibv_flow_esp_filter {
    uint32_t spi;
    uint32_t seq;
};

struct ibv_flow_tcp_udp_filter {
    uint16_t dst_port;
    uint16_t src_port;
};

struct ibv_flow_gre_filter {
    uint16_t c_ks_res0_ver;
    uint16_t protocol;
    uint32_t key;
};

struct ibv_flow_mpls_filter {
    uint32_t label;
};

struct ibv_flow_tunnel_filter {
    uint32_t tunnel_id;
};

struct ibv_flow_spec_eth {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_eth_filter val, mask;
};

struct ibv_flow_spec_ipv4 {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_ipv4_filter val, mask;
};

struct ibv_flow_spec_ipv4_ext {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_ipv4_ext_filter val, mask;
};

struct ibv_flow_spec_ipv6 {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_ipv6_filter val, mask;
};

struct ibv_flow_spec_esp {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_esp_filter val, mask;
};

struct ibv_flow_spec_tcp_udp {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_tcp_udp_filter val, mask;
};

struct ibv_flow_spec_gre {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_gre_filter val, mask;
};

struct ibv_flow_spec_mpls {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_mpls_filter val, mask;
};

struct ibv_flow_spec_tunnel {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_flow_tunnel_filter val, mask;
};

struct ibv_flow_spec_action_tag {
    enum ibv_flow_spec_type type;
    uint16_t size;
    uint32_t tag_id;
};

struct ibv_flow_spec_action_drop {
    enum ibv_flow_spec_type type;
    uint16_t size;
};

struct ibv_flow_action {
    struct ibv_context *context;
};

struct ibv_flow_spec_action_handle {
    enum ibv_flow_spec_type type;
    uint16_t size;
    const struct ibv_flow_action *action;
};

struct ibv_counters {
    struct ibv_context *context;
};

struct ibv_flow_spec_counter_action {
    enum ibv_flow_spec_type type;
    uint16_t size;
    struct ibv_counters *counters;
};

struct ibv_flow_spec {
    union {
        struct {
            enum ibv_flow_spec_type type;
            uint16_t size;
        } hdr;
        struct ibv_flow_spec_eth eth;
        struct ibv_flow_spec_ipv4 ipv4;
        struct ibv_flow_spec_tcp_udp tcp_udp;
        struct ibv_flow_spec_ipv4_ext ipv4_ext;
        struct ibv_flow_spec_ipv6 ipv6;
        struct ibv_flow_spec_esp esp;
        struct ibv_flow_spec_tunnel tunnel;
        struct ibv_flow_spec_gre gre;
        struct ibv_flow_spec_mpls mpls;
        struct ibv_flow_spec_action_tag flow_tag;
        struct ibv_flow_spec_action_drop drop;
        struct ibv_flow_spec_action_handle handle;
        struct ibv_flow_spec_counter_action flow_count;
    };
};

struct ibv_flow_attr {
    uint32_t comp_mask;
    enum ibv_flow_attr_type type;
    uint16_t size;
    uint16_t priority;
    uint8_t num_of_specs;
    uint8_t port;
    uint32_t flags; /* enum ibv_flow_flags */
};

struct ibv_flow {
    uint32_t comp_mask;
    struct ibv_context *context;
    uint32_t handle;
};

enum ibv_flow_action_esp_mask { IBV_FLOW_ACTION_ESP_MASK_ESN = 1 << 0 };

struct ibv_flow_action_esp_attr {
    struct ibv_flow_action_esp *esp_attr;
    enum ibv_flow_action_esp_keymat keymat_proto;
    uint16_t keymat_len;
    void *keymat_ptr;
    enum ibv_flow_action_esp_replay replay_proto;
    uint16_t replay_len;
    void *replay_ptr;
    struct ibv_flow_action_esp_encap *esp_encap;
    uint32_t comp_mask; /* enum ibv_flow_action_esp_mask */
    uint32_t esn;
};

struct ibv_flow *ibv_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow);
int ibv_destroy_flow(struct ibv_flow *flow_id);
struct ibv_flow_action *ibv_create_flow_action_esp(struct ibv_context *context,
                                                   struct ibv_flow_action_esp_attr *esp);
int ibv_modify_flow_action_esp(struct ibv_flow_action *action,
                               struct ibv_flow_action_esp_attr *esp);
int ibv_destroy_flow_action(struct ibv_flow_action *action);

/* ---- Counters ---- */

struct ibv_counters_init_attr {
    uint32_t comp_mask;
};

enum ibv_counter_description { IBV_COUNTER_PACKETS, IBV_COUNTER_BYTES };

struct ibv_counter_attach_attr {
    enum ibv_counter_description counter_desc;
    uint32_t index;
    uint32_t comp_mask;
};

enum ibv_read_counters_flags { IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0 };

struct ibv_counters *ibv_create_counters(struct ibv_context *context,
                                         struct ibv_counters_init_attr *init_attr);
int ibv_destroy_counters(struct ibv_counters *counters);
int ibv_attach_counters_point_flow(struct ibv_counters *counters,
                                   struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value, uint32_t ncounters,
                      uint32_t flags);

struct ibv_comp_cntr {
    struct ibv_context *context;
    uint32_t handle;
};

enum ibv_comp_cntr_type { IBV_COMP_CNTR_TYPE_WRS, IBV_COMP_CNTR_TYPE_BYTES };

struct ibv_comp_cntr_init_attr {
    uint32_t comp_mask;
    enum ibv_comp_cntr_type type;
    uint32_t flags;
};

struct ibv_qp_attach_comp_cntr_attr {
    uint32_t comp_mask;
    uint32_t op_mask; /* enum ibv_qp_attach_comp_cntr_op */
};

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
                                           struct ibv_comp_cntr_init_attr *cc_attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
                            struct ibv_qp_attach_comp_cntr_attr *attr);

/* ---- Tags of messages ---- */

enum ibv_ops_wr_opcode { IBV_WR_TAG_ADD, IBV_WR_TAG_DEL, IBV_WR_TAG_SYNC };
enum ibv_ops_flags { IBV_OPS_SIGNALED = 1 << 0, IBV_OPS_TM_SYNC = 1 << 1 };

struct ibv_ops_wr {
    uint64_t wr_id;
    struct ibv_ops_wr *next;
    enum ibv_ops_wr_opcode opcode;
    int flags; /* enum ibv_ops_flags */
    struct {
        uint32_t unexpected_cnt;
        uint32_t handle;
        struct {
            uint64_t recv_wr_id;
            struct ibv_sge *sg_list;
            int num_sge;
            uint64_t tag;
            uint64_t mask;
        } add;
    } tm;
};

struct ibv_wc_tm_info {
    uint64_t tag;
    uint32_t priv;
};

/* Sets *bad_op to op. */
int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);
/* No completion has a tag: zeros. */
void ibv_wc_read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info);

/* ---- Operations of extended queue pairs ---- */

enum ibv_placement_type { IBV_FLUSH_GLOBAL = 1U << 0, IBV_FLUSH_PERSISTENT = 1U << 1 };
enum ibv_selectivity_level { IBV_FLUSH_RANGE, IBV_FLUSH_MR };

/* ibv_wr_complete says EOPNOTSUPP, and posts nothing. */
void ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
                  uint8_t type, uint8_t level);
void ibv_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                         const void *atomic_wr);

enum ibv_query_qp_data_in_order_flags {
    IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0,
    IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1
};

enum ibv_query_qp_data_in_order_caps {
    IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0,
    IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1
};

/* Nothing is promised of the order in which the bytes of a message appear: 0. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

__END_DECLS
#endif
