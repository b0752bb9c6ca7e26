/* RDMA verbs within a program: every kind of object, queue pairs that are connected to each other,
 * and what is wrong with calls. */
#include "library.h"
#include <fcntl.h>
#include <infiniband/driver.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 65536
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
             IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;

/* A queue pair with memory and queues of its own. */
struct end {
    char *memory;
    struct ibv_mr *mr;
    struct ibv_cq *sends, *receives;
    struct ibv_qp *qp;
};

static struct end make(enum ibv_qp_type type, struct ibv_srq *srq) {
    struct end end = { 0 };
    CHECK(posix_memalign((void **)&end.memory, 4096, BYTES) == 0);
    memset(end.memory, 0, BYTES);
    end.mr = ibv_reg_mr(pd, end.memory, BYTES, ALL);
    CHECK(end.mr && end.mr->addr == end.memory && end.mr->length == BYTES);
    end.sends = ibv_create_cq(context, 64, NULL, NULL, 0);
    end.receives = ibv_create_cq(context, 64, NULL, NULL, 0);
    CHECK(end.sends && end.receives && end.sends->cqe >= 64);
    struct ibv_qp_init_attr init = {
        .qp_context = &end, .send_cq = end.sends, .recv_cq = end.receives, .srq = srq,
        .cap = { 16, 16, 4, 4, 128 }, .qp_type = type, .sq_sig_all = 1,
    };
    end.qp = ibv_create_qp(pd, &init);
    CHECK(end.qp && end.qp->qp_type == type && end.qp->state == IBV_QPS_RESET);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL, .qkey = 0x11111111,
    };
    int mask = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    GIVES(ibv_modify_qp(end.qp, &attr, mask | IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
    return end;
}

static void end_it(struct end *end) {
    GIVES(ibv_destroy_cq(end->sends), EBUSY);
    GIVES(ibv_destroy_qp(end->qp), 0);
    GIVES(ibv_destroy_cq(end->sends), 0);
    GIVES(ibv_destroy_cq(end->receives), 0);
    GIVES(ibv_dereg_mr(end->mr), 0);
    free(end->memory);
}

static void join(struct ibv_qp *qp, uint32_t peer) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer,
        .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
        .ah_attr = { .dlid = port.lid, .port_num = 1 },
    };
    int answers = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    int retries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->qp_type == IBV_QPT_UC)
        answers = retries = 0;
    if (qp->qp_type == IBV_QPT_UD)
        answers = retries = path = 0;
    GIVES(ibv_modify_qp(qp, &attr, IBV_QP_STATE | path | answers), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    GIVES(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | retries), 0);
    CHECK(qp->state == IBV_QPS_RTS);
}

/* A query gives the address as it was set, though only part of it is used. */
static void addresses(void) {
    struct end one = make(IBV_QPT_RC, NULL), other = make(IBV_QPT_RC, NULL);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = other.qp->qp_num,
        .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
        .ah_attr = {
            .grh = { .flow_label = 7, .sgid_index = 0, .hop_limit = 3, .traffic_class = 9 },
            .dlid = port.lid, .sl = 2, .src_path_bits = 1, .static_rate = 3, .is_global = 1,
            .port_num = 1,
        },
    };
    GIVES(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
    struct ibv_ah_attr set = attr.ah_attr;
    struct ibv_qp_init_attr init;
    GIVES(ibv_query_qp(one.qp, &attr, IBV_QP_AV, &init), 0);
    CHECK(attr.ah_attr.dlid == 0 && attr.ah_attr.is_global == 0);
    attr.ah_attr = set;
    attr.qp_state = IBV_QPS_RTR;
    attr.dest_qp_num = other.qp->qp_num;
    attr.path_mtu = IBV_MTU_4096;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    /* The port has one global address. */
    attr.ah_attr.grh.sgid_index = 3;
    GIVES(ibv_modify_qp(one.qp, &attr, mask), EINVAL);
    CHECK(one.qp->state == IBV_QPS_INIT);
    attr.ah_attr.grh.sgid_index = 0;
    GIVES(ibv_modify_qp(one.qp, &attr, mask), 0);
    memset(&attr, 0, sizeof attr);
    GIVES(ibv_query_qp(one.qp, &attr, IBV_QP_AV, &init), 0);
    struct ibv_ah_attr *found = &attr.ah_attr;
    CHECK(memcmp(&found->grh.dgid, &set.grh.dgid, sizeof set.grh.dgid) == 0);
    CHECK(found->grh.flow_label == 7 && found->grh.hop_limit == 3);
    CHECK(found->grh.traffic_class == 9 && found->grh.sgid_index == 0);
    CHECK(found->dlid == port.lid && found->sl == 2 && found->src_path_bits == 1);
    CHECK(found->static_rate == 3 && found->is_global == 1 && found->port_num == 1);
    attr.qp_state = IBV_QPS_RESET;
    GIVES(ibv_modify_qp(one.qp, &attr, IBV_QP_STATE), 0);
    GIVES(ibv_query_qp(one.qp, &attr, IBV_QP_AV, &init), 0);
    CHECK(found->dlid == 0 && found->is_global == 0);
    end_it(&one);
    end_it(&other);
}

static struct ibv_wc next(struct ibv_cq *cq) {
    struct ibv_wc wc;
    int count;
    for (long tries = 0; (count = ibv_poll_cq(cq, 1, &wc)) == 0; tries++) {
        if (tries > 100000000) {
            puts("verbs-calls: a completion does not come");
            exit(101);
        }
    }
    GIVES(count, 1);
    return wc;
}

static void receive(struct end *end, uint64_t id, size_t at, uint32_t length) {
    struct ibv_sge sge = { (uintptr_t)end->memory + at, length, end->mr->lkey };
    struct ibv_recv_wr wr = { id, NULL, &sge, 1 }, *bad = NULL;
    GIVES(ibv_post_recv(end->qp, &wr, &bad), 0);
}

/* A request for the beginning of the memory, and for the beginning of the peer's. */
static struct ibv_send_wr request(struct ibv_sge *sge, struct end *end, struct end *peer,
                                  enum ibv_wr_opcode opcode, uint32_t length) {
    *sge = (struct ibv_sge){ (uintptr_t)end->memory, length, end->mr->lkey };
    struct ibv_send_wr wr = { .wr_id = 77, .sg_list = sge, .num_sge = 1, .opcode = opcode };
    wr.wr.rdma.remote_addr = (uintptr_t)peer->memory;
    wr.wr.rdma.rkey = peer->mr->rkey;
    return wr;
}

static struct ibv_wc post(struct end *end, struct ibv_send_wr *wr) {
    struct ibv_send_wr *bad = NULL;
    GIVES(ibv_post_send(end->qp, wr, &bad), 0);
    struct ibv_wc wc = next(end->sends);
    CHECK(wc.wr_id == wr->wr_id && wc.qp_num == end->qp->qp_num);
    return wc;
}

/* A list that cannot be made is none, which is not one without devices. */
static void no_descriptors(void) {
    enum { MOST = 65536 };
    static int copies[MOST];
    int last = 0, count = 7;
    while (last < MOST && (copies[last] = dup(1)) >= 0)
        last++;
    CHECK(last < MOST && errno == EMFILE);
    errno = 0;
    CHECK(ibv_get_device_list(&count) == NULL && errno == EMFILE && count == 0);
    errno = 0;
    count = 7;
    CHECK(rdma_get_devices(&count) == NULL && errno == EMFILE && count == 0);
    while (last > 0)
        close(copies[--last]);
}

static void devices(void) {
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    CHECK(list && count == 1 && list[0] && !list[1]);
    CHECK(strcmp(ibv_get_device_name(list[0]), "scif0") == 0);
    CHECK(ibv_get_device_guid(list[0]) != 0);
    context = ibv_open_device(list[0]);
    CHECK(context && context->num_comp_vectors == 1 && context->device == list[0]);
    ibv_free_device_list(list);
    struct ibv_device_attr attr;
    struct ibv_device_attr_ex more;
    GIVES(ibv_query_device(context, &attr), 0);
    GIVES(ibv_query_device_ex(context, NULL, &more), 0);
    CHECK(attr.max_qp == more.orig_attr.max_qp && attr.phys_port_cnt == 1 && attr.max_qp_wr > 0);
    GIVES(ibv_query_port(context, 1, &port), 0);
    CHECK(port.state == IBV_PORT_ACTIVE && port.lid > 0);
    GIVES(ibv_query_port(context, 2, &port), EINVAL);
    union ibv_gid gid;
    struct ibv_gid_entry entry;
    GIVES(ibv_query_gid(context, 1, 0, &gid), 0);
    GIVES(ibv_query_gid(context, 1, 1, &gid), -1);
    GIVES(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
    CHECK(entry.gid.global.interface_id == gid.global.interface_id);
    struct ibv_gid_entry entries[2];
    GIVES(ibv_query_gid_table(context, entries, 2, 0), 1);
    CHECK(entries[0].gid.global.interface_id == gid.global.interface_id);
    GIVES(ibv_query_gid_table(context, entries, 2, 1), -EINVAL);
    GIVES(ibv_query_gid_ex(context, 1, 1, &entry, 0), EINVAL);
    uint64_t speed = 0;
    GIVES(ibv_query_port_speed(context, 1, &speed), 0);
    CHECK(speed > 0 && more.phys_port_cnt_ex == 1);
    GIVES(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
    __be16 key;
    GIVES(ibv_query_pkey(context, 1, 0, &key), 0);
    GIVES(ibv_get_pkey_index(context, 1, key), 0);
    CHECK(strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success") == 0);
    GIVES(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
    GIVES(mult_to_ibv_rate(4), IBV_RATE_10_GBPS);
    /* As in rdma-core, rates that are no multiple have none. */
    GIVES(ibv_rate_to_mult(IBV_RATE_28_GBPS), 11);
    GIVES(ibv_rate_to_mult(IBV_RATE_100_GBPS), -1);
    GIVES(mult_to_ibv_rate(41), IBV_RATE_MAX);
    GIVES(mult_to_ibv_rate(-1), IBV_RATE_MAX);
    GIVES(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
    CHECK(ibv_inc_rkey(0x12ff) == 0x1200);
}

static void memory(void) {
    static char room[8192];
    CHECK(!ibv_reg_mr(pd, room, 0, ALL) && errno == EINVAL);
    CHECK(!ibv_reg_mr(pd, room, 8, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
    struct ibv_mr *mr = ibv_reg_mr(pd, room, sizeof room, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr != NULL);
    uint32_t old = mr->rkey;
    GIVES(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), 0);
    CHECK(mr->rkey != old);
    GIVES(ibv_dealloc_pd(pd), EBUSY);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    CHECK(mw && mw->pd == pd);
    GIVES(ibv_dealloc_mw(mw), 0);
    GIVES(ibv_dereg_mr(mr), 0);
    struct ibv_parent_domain_init_attr attr = { .pd = pd };
    struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
    CHECK(parent && parent != pd);
    GIVES(ibv_dealloc_pd(pd), EBUSY);
    GIVES(ibv_dealloc_pd(parent), 0);
    struct ibv_alloc_dm_attr dm = { .length = 4096 };
    CHECK(!ibv_alloc_dm(context, &dm) && errno == EOPNOTSUPP);
}

/* One call for both kinds of memory. */
static void memory_by_one_call(void) {
    static char room[8192];
    struct ibv_mr_init_attr attr = {
        .length = 4096, .access = ALL, .addr = room, .iova = 0x7000 + ((uintptr_t)room & 4095),
        .comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA,
    };
    struct ibv_mr *mr = ibv_reg_mr_ex(pd, &attr);
    CHECK(mr && mr->addr == room && mr->length == 4096 && mr->pd == pd);
    /* It is a region as any other. */
    GIVES(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, room, 8192, 0), 0);
    CHECK(mr->length == 8192);
    GIVES(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
    GIVES(ibv_dereg_mr(mr), 0);
    attr.access = IBV_ACCESS_REMOTE_WRITE;
    CHECK(!ibv_reg_mr_ex(pd, &attr) && errno == EINVAL);
    attr.access = ALL;
    uint64_t invalid[] = { 0, IBV_REG_MR_MASK_IOVA, IBV_REG_MR_MASK_BUF, IBV_REG_MR_MASK_FD,
                           IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD_OFFSET };
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        attr.comp_mask = invalid[i];
        CHECK(!ibv_reg_mr_ex(pd, &attr) && errno == EINVAL);
    }
    uint64_t absent[] = { IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH,
                          IBV_REG_MR_MASK_ADDR | 1 << 6,
                          IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        attr.comp_mask = absent[i];
        CHECK(!ibv_reg_mr_ex(pd, &attr) && errno == EOPNOTSUPP);
    }
    struct ibv_buf *buf = NULL;
    attr.addr = ibv_alloc_buf(pd, 4096, &buf);
    attr.buf = buf;
    attr.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_BUF;
    struct ibv_mr *one = ibv_reg_mr_ex(pd, &attr), *other = ibv_reg_mr_ex(pd, &attr);
    CHECK(one && other && one->lkey != other->lkey);
    attr.length = 4097;
    CHECK(!ibv_reg_mr_ex(pd, &attr) && errno == EINVAL);
    GIVES(ibv_dereg_mr(one), 0);
    GIVES(ibv_dereg_mr(other), 0);
    ibv_free_buf(buf);
}

#define ABSENT(call) CHECK(((errno = 0), (call) == NULL) && errno == EOPNOTSUPP)

/* What the device does not have says so. */
static void absent(void) {
    ABSENT(ibv_import_device(context->cmd_fd));
    ABSENT(ibv_import_pd(context, pd->handle));
    ABSENT(ibv_import_mr(pd, 0));
    ABSENT(ibv_import_dm(context, 0));
    ABSENT(ibv_alloc_dmah(context, &(struct ibv_dmah_init_attr){ .comp_mask = 0 }));
    ABSENT(ibv_create_counters(context, &(struct ibv_counters_init_attr){ 0 }));
    ABSENT(ibv_create_comp_cntr(context, &(struct ibv_comp_cntr_init_attr){ 0 }));
    struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
    GIVES(ibv_query_rt_values_ex(context, &values), EOPNOTSUPP);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_wq_init_attr work = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd,
                                     .cq = cq };
    ABSENT(ibv_create_wq(context, &work));
    ABSENT(ibv_create_rwq_ind_table(context, &(struct ibv_rwq_ind_table_init_attr){ 0 }));
    GIVES(ibv_destroy_cq(cq), 0);

    struct end end = make(IBV_QPT_UD, NULL);
    struct ibv_flow_attr flow = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof flow, .port = 1 };
    ABSENT(ibv_create_flow(end.qp, &flow));
    GIVES(ibv_query_qp_data_in_order(end.qp, IBV_WR_SEND,
                                     IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS), 0);
    struct ibv_ah_attr attr = { .dlid = port.lid, .port_num = 1 };
    uint8_t mac[ETHERNET_LL_SIZE];
    uint16_t vid;
    GIVES(ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vid), -EOPNOTSUPP);
    CHECK(ibv_flow_label_to_udp_sport(0x12345) == (0xc000 | (0x2345 ^ 4)));
    end_it(&end);

    struct ibv_srq_init_attr shared = { .attr = { 4, 1, 0 } };
    struct ibv_srq *srq = ibv_create_srq(pd, &shared);
    struct ibv_ops_wr tag = { .opcode = IBV_WR_TAG_SYNC }, *bad = NULL;
    GIVES(ibv_post_srq_ops(srq, &tag, &bad), EOPNOTSUPP);
    CHECK(bad == &tag);
    GIVES(ibv_destroy_srq(srq), 0);
}

/* Memory of the library's: several regions of it, and a message from it. */
static void buffers(void) {
    struct ibv_buf *buf = NULL;
    char *room = ibv_alloc_buf(pd, 8192, &buf);
    CHECK(room && buf);
    struct ibv_mr *whole = ibv_reg_buf_mr(pd, buf, room, 8192, ALL);
    struct ibv_mr *half = ibv_reg_buf_mr(pd, buf, room + 4096, 4096, ALL);
    CHECK(whole && half && whole->lkey != half->lkey);
    CHECK(!ibv_reg_buf_mr(pd, buf, room, 8193, ALL) && errno == EINVAL);
    CHECK(!ibv_reg_buf_mr(pd, buf, room + 4096, 8192, ALL) && errno == EINVAL);
    struct ibv_pd *second = ibv_alloc_pd(context);
    CHECK(second && !ibv_reg_buf_mr(second, buf, room, 8192, ALL) && errno == EINVAL);
    GIVES(ibv_dealloc_pd(second), 0);

    struct end one = make(IBV_QPT_RC, NULL), other = make(IBV_QPT_RC, NULL);
    struct ibv_sge sge;
    receive(&other, 5, 0, 8);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    memcpy(room + 4096, "a buffer", 8);
    struct ibv_send_wr wr = request(&sge, &one, &other, IBV_WR_SEND, 8);
    sge.addr = (uintptr_t)room + 4096;
    sge.lkey = half->lkey;
    CHECK(post(&one, &wr).status == IBV_WC_SUCCESS);
    CHECK(next(other.receives).byte_len == 8 && memcmp(other.memory, "a buffer", 8) == 0);
    end_it(&one);
    end_it(&other);
    GIVES(ibv_dereg_mr(whole), 0);
    GIVES(ibv_dereg_mr(half), 0);
    ibv_free_buf(buf);
}

static void reliable(void) {
    struct end one = make(IBV_QPT_RC, NULL), other = make(IBV_QPT_RC, NULL);
    struct ibv_sge sge;
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = request(&sge, &one, &other, IBV_WR_SEND_WITH_IMM, 1000);
    GIVES(ibv_post_send(one.qp, &wr, &bad), EINVAL);
    CHECK(bad == &wr);
    receive(&other, 5, 8192, 1000);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);

    memset(one.memory, 'a', 1000);
    wr.imm_data = 0x01020304;
    CHECK(post(&one, &wr).status == IBV_WC_SUCCESS);
    struct ibv_wc wc = next(other.receives);
    CHECK(wc.wr_id == 5 && wc.opcode == IBV_WC_RECV && wc.byte_len == 1000);
    CHECK((wc.wc_flags & IBV_WC_WITH_IMM) && wc.imm_data == 0x01020304);
    CHECK(other.memory[8192] == 'a' && other.memory[9191] == 'a' && other.memory[9192] == 0);

    wr = request(&sge, &one, &other, IBV_WR_RDMA_WRITE, 4097);
    memset(one.memory, 'b', 4097);
    CHECK(post(&one, &wr).opcode == IBV_WC_RDMA_WRITE && other.memory[4096] == 'b');
    memset(other.memory, 'c', 4097);
    wr.opcode = IBV_WR_RDMA_READ;
    CHECK(post(&one, &wr).opcode == IBV_WC_RDMA_READ && one.memory[4096] == 'c');

    wr = request(&sge, &one, &other, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    *(uint64_t *)other.memory = 40;
    wr.wr.atomic.remote_addr = (uintptr_t)other.memory;
    wr.wr.atomic.rkey = other.mr->rkey;
    wr.wr.atomic.compare_add = 2;
    CHECK(post(&one, &wr).opcode == IBV_WC_FETCH_ADD);
    CHECK(*(uint64_t *)one.memory == 40 && *(uint64_t *)other.memory == 42);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 42;
    wr.wr.atomic.swap = 7;
    CHECK(post(&one, &wr).opcode == IBV_WC_COMP_SWAP && *(uint64_t *)other.memory == 7);

    /* Inline data needs no key and may be changed at once. */
    receive(&other, 6, 0, 64);
    wr = request(&sge, &one, &other, IBV_WR_SEND, 64);
    wr.send_flags = IBV_SEND_INLINE;
    sge.lkey = 0;
    memset(one.memory, 'd', 64);
    GIVES(ibv_post_send(one.qp, &wr, &bad), 0);
    memset(one.memory, 'e', 64);
    CHECK(next(one.sends).status == IBV_WC_SUCCESS && next(other.receives).byte_len == 64);
    CHECK(other.memory[63] == 'd');
    sge.length = 129;
    GIVES(ibv_post_send(one.qp, &wr, &bad), EINVAL);

    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    GIVES(ibv_query_qp(one.qp, &attr, IBV_QP_STATE, &init), 0);
    CHECK(attr.qp_state == IBV_QPS_RTS && attr.dest_qp_num == other.qp->qp_num);
    CHECK(init.cap.max_inline_data == 128 && init.send_cq == one.sends && init.sq_sig_all);

    /* A wrong key: both fail. */
    wr = request(&sge, &one, &other, IBV_WR_RDMA_WRITE, 8);
    wr.wr.rdma.rkey ^= 1;
    CHECK(post(&one, &wr).status == IBV_WC_REM_ACCESS_ERR);
    struct ibv_async_event event;
    GIVES(ibv_get_async_event(context, &event), 0);
    CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == other.qp);
    ibv_ack_async_event(&event);
    GIVES(ibv_query_qp(one.qp, &attr, IBV_QP_STATE, &init), 0);
    CHECK(attr.qp_state == IBV_QPS_ERR && one.qp->state == IBV_QPS_ERR);
    end_it(&one);
    end_it(&other);
}

/* A window of type 1: bound by the call, bound again to other bytes, and to none. */
static void windows(void) {
    struct end one = make(IBV_QPT_RC, NULL), other = make(IBV_QPT_RC, NULL);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    struct ibv_mr *mr = ibv_reg_mr(pd, other.memory, BYTES, ALL | IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    struct ibv_mw *second = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    CHECK(mr && mw && second);
    struct ibv_mw_bind bind = {
        .wr_id = 9,
        .bind_info = { mr, (uintptr_t)other.memory, 64, IBV_ACCESS_REMOTE_WRITE },
    };
    GIVES(ibv_bind_mw(other.qp, second, &bind), EINVAL);
    uint32_t former = mw->rkey;
    GIVES(ibv_bind_mw(other.qp, mw, &bind), 0);
    struct ibv_wc wc = next(other.sends);
    CHECK(wc.wr_id == 9 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW);
    CHECK(mw->rkey != former && mw->rkey >> 8 == former >> 8);
    struct ibv_sge sge;
    struct ibv_send_wr wr = request(&sge, &one, &other, IBV_WR_RDMA_WRITE, 64);
    memset(one.memory, 'w', 64);
    wr.wr.rdma.rkey = mw->rkey;
    CHECK(post(&one, &wr).status == IBV_WC_SUCCESS);
    CHECK(other.memory[0] == 'w' && other.memory[63] == 'w' && other.memory[64] == 0);

    former = mw->rkey;
    bind.bind_info.addr += 4096;
    GIVES(ibv_bind_mw(other.qp, mw, &bind), 0);
    CHECK(next(other.sends).status == IBV_WC_SUCCESS && mw->rkey != former);
    GIVES(ibv_dereg_mr(mr), EBUSY);
    wr.wr.rdma.rkey = mw->rkey;
    wr.wr.rdma.remote_addr += 4096;
    CHECK(post(&one, &wr).status == IBV_WC_SUCCESS && other.memory[4096] == 'w');
    bind.bind_info = (struct ibv_mw_bind_info){ 0 };
    GIVES(ibv_bind_mw(other.qp, mw, &bind), 0);
    CHECK(next(other.sends).status == IBV_WC_SUCCESS);
    memset(one.memory, 'x', 64);
    CHECK(post(&one, &wr).status == IBV_WC_REM_ACCESS_ERR && other.memory[4096] == 'w');
    struct ibv_async_event event;
    GIVES(ibv_get_async_event(context, &event), 0);
    CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == other.qp);
    ibv_ack_async_event(&event);
    GIVES(ibv_dealloc_mw(mw), 0);
    GIVES(ibv_dealloc_mw(second), 0);
    GIVES(ibv_dereg_mr(mr), 0);
    end_it(&one);
    end_it(&other);
}

/* A completion queue keeps what is in it when its size changes, and is not made too small for it. */
static void sizes(void) {
    struct end one = make(IBV_QPT_UC, NULL), other = make(IBV_QPT_UC, NULL);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    struct ibv_sge sge;
    struct ibv_send_wr *bad = NULL, wr = request(&sge, &one, &other, IBV_WR_SEND, 8);
    for (wr.wr_id = 1; wr.wr_id <= 3; wr.wr_id++)
        GIVES(ibv_post_send(one.qp, &wr, &bad), 0);
    GIVES(ibv_resize_cq(one.sends, 500), 0);
    CHECK(one.sends->cqe >= 500);
    GIVES(ibv_resize_cq(one.sends, 0), EINVAL);
    GIVES(ibv_resize_cq(one.sends, -1), EINVAL);
    GIVES(ibv_resize_cq(one.sends, 1), EINVAL);
    CHECK(one.sends->cqe >= 500);
    for (uint64_t id = 1; id <= 3; id++)
        CHECK(next(one.sends).wr_id == id);
    end_it(&one);
    end_it(&other);
}

static void unreliable(void) {
    struct end one = make(IBV_QPT_UC, NULL), other = make(IBV_QPT_UC, NULL);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    receive(&other, 1, 0, 100);
    struct ibv_sge sge;
    struct ibv_send_wr *bad = NULL, wr = request(&sge, &one, &other, IBV_WR_SEND, 100);
    CHECK(post(&one, &wr).status == IBV_WC_SUCCESS && next(other.receives).byte_len == 100);
    wr.opcode = IBV_WR_RDMA_READ;
    GIVES(ibv_post_send(one.qp, &wr, &bad), EINVAL);
    end_it(&one);
    end_it(&other);
}

/* A datagram with a global route has a header, which leads back to its sender. */
static void by_global_route(struct end *one, struct end *other) {
    struct ibv_ah_attr attr = {
        .grh = { .flow_label = 0x54321, .hop_limit = 9, .traffic_class = 0x6b },
        .dlid = port.lid, .sl = 5, .is_global = 1, .port_num = 1,
    };
    union ibv_gid own;
    GIVES(ibv_query_gid(context, 1, 0, &own), 0);
    attr.grh.dgid = own;
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    CHECK(ah != NULL);
    receive(other, 2, 0, 140);
    struct ibv_sge sge;
    struct ibv_send_wr wr = request(&sge, one, other, IBV_WR_SEND, 100);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = other->qp->qp_num;
    wr.wr.ud.remote_qkey = 0x11111111;
    CHECK(post(one, &wr).status == IBV_WC_SUCCESS);
    struct ibv_wc wc = next(other->receives);
    CHECK(wc.wc_flags & IBV_WC_GRH);
    memset(&attr, 0xff, sizeof attr);
    GIVES(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)other->memory, &attr), 0);
    CHECK(attr.is_global == 1 && attr.dlid == port.lid && attr.sl == 5 && attr.port_num == 1);
    CHECK(memcmp(&attr.grh.dgid, &own, sizeof own) == 0 && attr.grh.sgid_index == 0);
    CHECK(attr.grh.flow_label == 0x54321 && attr.grh.traffic_class == 0x6b);
    CHECK(attr.grh.hop_limit == 9);
    GIVES(ibv_init_ah_from_wc(context, 1, &wc, NULL, &attr), EINVAL);
    GIVES(ibv_destroy_ah(ah), 0);
}

static void datagrams(void) {
    struct end one = make(IBV_QPT_UD, NULL), other = make(IBV_QPT_UD, NULL);
    join(one.qp, 0);
    join(other.qp, 0);
    struct ibv_ah_attr attr = { .dlid = port.lid, .sl = 3, .port_num = 1 };
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    CHECK(ah != NULL);
    receive(&other, 1, 0, 140);
    struct ibv_sge sge;
    struct ibv_send_wr wr = request(&sge, &one, &other, IBV_WR_SEND, 100);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = other.qp->qp_num;
    wr.wr.ud.remote_qkey = 0x11111111;
    memset(one.memory, 'f', 100);
    CHECK(post(&one, &wr).status == IBV_WC_SUCCESS);
    struct ibv_wc wc = next(other.receives);
    CHECK(wc.byte_len == 140 && wc.src_qp == one.qp->qp_num && wc.slid == port.lid);
    CHECK(other.memory[40] == 'f' && other.memory[139] == 'f');
    GIVES(ibv_destroy_ah(ah), 0);
    struct ibv_ah_attr back;
    memset(&back, 0xff, sizeof back);
    GIVES(ibv_init_ah_from_wc(context, 1, &wc, NULL, &back), 0);
    CHECK(back.dlid == port.lid && back.port_num == 1 && back.is_global == 0 && back.sl == 3);
    ah = ibv_create_ah_from_wc(pd, &wc, NULL, 1);
    CHECK(ah != NULL);
    GIVES(ibv_destroy_ah(ah), 0);
    by_global_route(&one, &other);
    end_it(&one);
    end_it(&other);
}

static void shared(void) {
    struct ibv_srq_init_attr init = { .attr = { 8, 2, 0 } };
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    CHECK(srq != NULL);
    struct end one = make(IBV_QPT_RC, NULL), other = make(IBV_QPT_RC, srq);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    struct ibv_sge room = { (uintptr_t)other.memory, 100, other.mr->lkey };
    struct ibv_recv_wr second = { 2, NULL, &room, 1 }, first = { 1, &second, &room, 1 };
    struct ibv_recv_wr *bad = NULL;
    GIVES(ibv_post_recv(other.qp, &first, &bad), EINVAL);
    GIVES(ibv_post_srq_recv(srq, &first, &bad), 0);
    struct ibv_srq_attr attr = { .srq_limit = 2 };
    GIVES(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    GIVES(ibv_query_srq(srq, &attr), 0);
    CHECK(attr.max_wr >= 8 && attr.srq_limit == 2);
    struct ibv_sge sge;
    struct ibv_send_wr wr = request(&sge, &one, &other, IBV_WR_SEND, 100);
    CHECK(post(&one, &wr).status == IBV_WC_SUCCESS && next(other.receives).wr_id == 1);
    struct ibv_async_event event;
    GIVES(ibv_get_async_event(context, &event), 0);
    CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
    ibv_ack_async_event(&event);
    // A size and a limit are checked as a pair: both change, or none does. One receive is left,
    // so a limit above 1 is reported at once, and is 0 again.
    const struct {
        uint32_t max_wr, limit;
        int error;
        uint32_t has_max, has_limit;
    } pairs[] = {
        { 20, 21, EINVAL, 8, 0 }, { 20, 1, 0, 20, 1 }, { 0, 0, EINVAL, 20, 1 },
        { 100, 50, 0, 100, 0 },   { 8, 1, 0, 8, 1 },
    };
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        attr = (struct ibv_srq_attr){ .max_wr = pairs[i].max_wr, .srq_limit = pairs[i].limit };
        GIVES(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), pairs[i].error);
        GIVES(ibv_query_srq(srq, &attr), 0);
        CHECK(attr.max_wr == pairs[i].has_max && attr.srq_limit == pairs[i].has_limit);
        if (pairs[i].limit > 1 && pairs[i].error == 0) {
            GIVES(ibv_get_async_event(context, &event), 0);
            CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
            ibv_ack_async_event(&event);
        }
    }
    GIVES(ibv_destroy_srq(srq), EBUSY);
    end_it(&one);
    end_it(&other);
    GIVES(ibv_destroy_srq(srq), 0);
}

static void channels(void) {
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    CHECK(channel != NULL);
    int word = 0;
    struct end one = make(IBV_QPT_RC, NULL), other = make(IBV_QPT_RC, NULL);
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 16, .cq_context = &word, .channel = channel, .wc_flags = IBV_WC_STANDARD_FLAGS,
    };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);
    CHECK(cq != NULL);
    struct ibv_qp_init_attr_ex init = {
        .send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = other.receives, .cap = { 4, 4, 1, 1, 64 },
        .qp_type = IBV_QPT_RC, .pd = pd, .send_ops_flags = IBV_QP_EX_WITH_SEND,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(qp);
    CHECK(qp && extended && !ibv_qp_to_qp_ex(one.qp));
    struct ibv_qp_attr first = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    GIVES(ibv_modify_qp(qp, &first, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                        IBV_QP_ACCESS_FLAGS), 0);
    join(qp, one.qp->qp_num);
    join(one.qp, qp->qp_num);
    receive(&one, 3, 0, 64);
    GIVES(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), 0);
    struct pollfd wait = { channel->fd, POLLIN, 0 };
    GIVES(poll(&wait, 1, 0), 0);
    ibv_wr_start(extended);
    extended->wr_id = 9;
    extended->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(extended);
    char text[] = "extended";
    ibv_wr_set_inline_data(extended, text, sizeof text);
    GIVES(ibv_wr_complete(extended), 0);
    GIVES(poll(&wait, 1, -1), 1);
    struct ibv_cq *which = NULL;
    void *what = NULL;
    GIVES(ibv_get_cq_event(channel, &which, &what), 0);
    CHECK(which == ibv_cq_ex_to_cq(cq) && what == &word);
    ibv_ack_cq_events(which, 1);
    struct ibv_poll_cq_attr none = { 0 };
    GIVES(ibv_start_poll(cq, &none), 0);
    CHECK(cq->wr_id == 9 && cq->status == IBV_WC_SUCCESS);
    CHECK(ibv_wc_read_opcode(cq) == IBV_WC_SEND && ibv_wc_read_qp_num(cq) == qp->qp_num);
    GIVES(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    CHECK(next(one.receives).byte_len == sizeof text && strcmp(one.memory, text) == 0);
    /* Operations that there are not: nothing of the list is posted. */
    ibv_wr_start(extended);
    ibv_wr_send(extended);
    ibv_wr_set_inline_data(extended, text, sizeof text);
    ibv_wr_flush(extended, 0, 0, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
    GIVES(ibv_wr_complete(extended), EOPNOTSUPP);
    ibv_wr_start(extended);
    ibv_wr_atomic_write(extended, 0, 0, text);
    GIVES(ibv_wr_complete(extended), EOPNOTSUPP);
    GIVES(ibv_start_poll(cq, &none), ENOENT);
    GIVES(ibv_destroy_comp_channel(channel), EBUSY);
    GIVES(ibv_destroy_qp(qp), 0);
    GIVES(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    end_it(&one);
    end_it(&other);
    GIVES(ibv_destroy_comp_channel(channel), 0);
}

static void *map(int rights) {
    void *page = mmap(NULL, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

/* Memory that is not there, or that cannot be written, is no region. */
static void memory_that_is_not_there(void) {
    CHECK(!ibv_reg_mr(pd, NULL, 4096, ALL) && errno == EFAULT);
    CHECK(!ibv_reg_mr(pd, NULL, 4096, 0) && errno == EFAULT);
    void *page = map(PROT_READ);
    CHECK(!ibv_reg_mr(pd, page, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(pd, page, 4096, IBV_ACCESS_REMOTE_READ);
    CHECK(mr != NULL);
    uint32_t key = mr->lkey;
    GIVES(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), IBV_REREG_MR_ERR_CMD);
    CHECK(errno == EFAULT);
    void *hole = map(PROT_READ);
    GIVES(munmap(hole, 4096), 0);
    GIVES(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, hole, 4096, 0),
          IBV_REREG_MR_ERR_CMD);
    CHECK(errno == EFAULT && mr->lkey == key && mr->addr == page);
    /* Arguments that the change does not use, or that it lacks. */
    struct { int flags; void *to; size_t length; int access; } wrong[] = {
        { IBV_REREG_MR_CHANGE_TRANSLATION, NULL, 4096, 0 },
        { IBV_REREG_MR_CHANGE_TRANSLATION, page, 0, 0 },
        { IBV_REREG_MR_CHANGE_TRANSLATION, page, 4096, IBV_ACCESS_REMOTE_READ },
        { IBV_REREG_MR_CHANGE_PD, NULL, 0, IBV_ACCESS_REMOTE_READ },
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 0;
        GIVES(ibv_rereg_mr(mr, wrong[i].flags, pd, wrong[i].to, wrong[i].length, wrong[i].access),
              IBV_REREG_MR_ERR_INPUT);
        CHECK(errno == EINVAL && mr->lkey == key && mr->addr == page);
    }
    GIVES(munmap(page, 4096), 0);
    GIVES(ibv_dereg_mr(mr), 0);
}

/* A request, or the peer's one, with a region whose memory is unmapped meanwhile. */
struct lost {
    enum ibv_wr_opcode opcode;
    /* The end whose region it is, and what its receive gives, if there is one. */
    int side;
    enum ibv_wc_status sent, received;
};

static void unmapped_in(struct ibv_context *other_context, struct lost of) {
    struct ibv_context *own_context = context;
    struct ibv_pd *own_pd = pd;
    struct end ends[2];
    ends[0] = make(IBV_QPT_RC, NULL);
    context = other_context;
    pd = other_context == own_context ? pd : ibv_alloc_pd(context);
    ends[1] = make(IBV_QPT_RC, NULL);
    join(ends[0].qp, ends[1].qp->qp_num);
    join(ends[1].qp, ends[0].qp->qp_num);
    char *page = map(PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = ibv_reg_mr(of.side ? pd : own_pd, page, 4096, ALL);
    CHECK(mr != NULL);
    GIVES(munmap(page, 4096), 0);
    struct end lost[2] = { ends[0], ends[1] };
    lost[of.side].memory = page;
    lost[of.side].mr = mr;
    if (of.opcode == IBV_WR_SEND)
        receive(&lost[1], 5, 0, 4096);
    struct ibv_sge sge;
    struct ibv_send_wr wr = request(&sge, &lost[0], &lost[1], of.opcode, 4096);
    CHECK(post(&ends[0], &wr).status == of.sent);
    if (of.received)
        CHECK(next(ends[1].receives).status == of.received);
    struct ibv_wc none;
    GIVES(ibv_poll_cq(ends[1].receives, 1, &none), 0);
    GIVES(ibv_dereg_mr(mr), 0);
    end_it(&ends[0]);
    end_it(&ends[1]);
    if (pd != own_pd)
        GIVES(ibv_dealloc_pd(pd), 0);
    context = own_context;
    pd = own_pd;
}

static void unmapped(void) {
    struct lost all[] = {
        { IBV_WR_SEND, 0, IBV_WC_LOC_PROT_ERR, 0 },
        { IBV_WR_RDMA_WRITE, 0, IBV_WC_LOC_PROT_ERR, 0 },
        { IBV_WR_RDMA_READ, 0, IBV_WC_LOC_PROT_ERR, 0 },
        { IBV_WR_SEND, 1, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR },
        { IBV_WR_RDMA_WRITE, 1, IBV_WC_REM_OP_ERR, 0 },
        { IBV_WR_RDMA_READ, 1, IBV_WC_REM_OP_ERR, 0 },
    };
    struct ibv_context *another = ibv_open_device(context->device);
    CHECK(another != NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unmapped_in(context, all[i]);
        unmapped_in(another, all[i]);
    }
    GIVES(ibv_close_device(another), 0);
}

/* Queues whose events another thread takes while they are destroyed: their end waits for it. */
static struct ibv_comp_channel *taken_from;
static int made, destroyed, is_over;

static void *take(void *unused) {
    struct pollfd wait = { .fd = taken_from->fd, .events = POLLIN };
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        struct ibv_cq *which;
        void *what;
        if (poll(&wait, 1, 1) < 1 || ibv_get_cq_event(taken_from, &which, &what))
            continue;
        CHECK(what == &pd);
        usleep(500);
        CHECK(__atomic_load_n(&destroyed, __ATOMIC_SEQ_CST) <
              __atomic_load_n(&made, __ATOMIC_SEQ_CST));
        ibv_ack_cq_events(which, 1);
    }
    return NULL;
}

static void ends_with_events(void) {
    pthread_t taker;
    taken_from = ibv_create_comp_channel(context);
    CHECK(taken_from && fcntl(taken_from->fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(pthread_create(&taker, NULL, take, NULL) == 0);
    for (int round = 0; round < 100; round++) {
        struct ibv_cq *cq = ibv_create_cq(context, 4, &pd, taken_from, 0);
        struct ibv_qp_init_attr init = {
            .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
        };
        struct ibv_qp *qp = ibv_create_qp(pd, &init);
        CHECK(cq && qp && ibv_req_notify_cq(cq, 0) == 0);
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
        int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        GIVES(ibv_modify_qp(qp, &attr, mask), 0);
        attr.qp_state = IBV_QPS_ERR;
        GIVES(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
        __atomic_store_n(&made, round + 1, __ATOMIC_SEQ_CST);
        /* It is flushed, which the channel tells. */
        struct ibv_recv_wr receive = { .wr_id = 1 }, *bad;
        GIVES(ibv_post_recv(qp, &receive, &bad), 0);
        GIVES(ibv_destroy_qp(qp), 0);
        if (round % 2)
            usleep(50 * (round % 16));
        GIVES(ibv_destroy_cq(cq), 0);
        __atomic_store_n(&destroyed, round + 1, __ATOMIC_SEQ_CST);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(taker, NULL) == 0);
    GIVES(ibv_destroy_comp_channel(taken_from), 0);
}

/* A queue pair in the error state with a new completion queue of a channel, which tells of the next
 * receive at once. */
static struct ibv_qp *failed(struct ibv_comp_channel *channel, struct ibv_cq **cq) {
    *cq = ibv_create_cq(context, 4, &pd, channel, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = *cq, .recv_cq = *cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(*cq && qp && ibv_req_notify_cq(*cq, 0) == 0);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    GIVES(ibv_modify_qp(qp, &attr, mask), 0);
    attr.qp_state = IBV_QPS_ERR;
    GIVES(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    return qp;
}

static void flush_one(struct ibv_qp *qp) {
    struct ibv_recv_wr receive = { .wr_id = 1 }, *bad;
    GIVES(ibv_post_recv(qp, &receive, &bad), 0);
}

/* The events of a queue that is destroyed leave nothing behind in the channel: it is not readable
 * for them, and the events of another queue stay. */
static void destroyed_with_an_event(void) {
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
    struct ibv_cq *cqs[2], *which;
    void *what;
    for (int others = 0; others < 2; others++) {
        struct ibv_qp *qps[2] = { failed(channel, &cqs[0]), failed(channel, &cqs[1]) };
        flush_one(qps[0]);
        if (others)
            flush_one(qps[1]);
        GIVES(poll(&wait, 1, -1), 1);
        GIVES(ibv_destroy_qp(qps[0]), 0);
        GIVES(ibv_destroy_cq(cqs[0]), 0);
        GIVES(poll(&wait, 1, 0), others);
        if (!others)
            flush_one(qps[1]);
        GIVES(ibv_get_cq_event(channel, &which, &what), 0);
        CHECK(which == cqs[1]);
        GIVES(poll(&wait, 1, 0), 0);
        ibv_ack_cq_events(which, 1);
        GIVES(ibv_destroy_qp(qps[1]), 0);
        GIVES(ibv_destroy_cq(cqs[1]), 0);
    }
    GIVES(ibv_destroy_comp_channel(channel), 0);
}

/* A few bytes go inline though none were asked for: as many as fit into the place of segments. */
static void inline_in_place_of_segments(void) {
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_qp *qps[2];
    for (int side = 0; side < 2; side++) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
            .sq_sig_all = 1,
        };
        CHECK((qps[side] = ibv_create_qp(pd, &init)) != NULL && init.cap.max_inline_data == 16);
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
        int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        GIVES(ibv_modify_qp(qps[side], &attr, mask), 0);
        GIVES(ibv_query_qp(qps[side], &attr, IBV_QP_CAP, &init), 0);
        CHECK(init.cap.max_inline_data == 16);
    }
    join(qps[0], qps[1]->qp_num);
    join(qps[1], qps[0]->qp_num);
    char text[17] = "sixteen or fewer", place[17] = { 0 };
    struct ibv_mr *mr = ibv_reg_mr(pd, place, sizeof place, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = { (uintptr_t)place, 16, mr->lkey };
    struct ibv_recv_wr receive = { 1, NULL, &sge, 1 }, *bad;
    GIVES(ibv_post_recv(qps[1], &receive, &bad), 0);
    struct ibv_sge words = { (uintptr_t)text, 16, 0 };
    struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &words, .num_sge = 1 }, *wrong;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_INLINE;
    GIVES(ibv_post_send(qps[0], &wr, &wrong), 0);
    CHECK(next(cq).status == IBV_WC_SUCCESS && next(cq).status == IBV_WC_SUCCESS);
    CHECK(strcmp(place, text) == 0);
    words.length = 17;
    GIVES(ibv_post_send(qps[0], &wr, &wrong), EINVAL);
    GIVES(ibv_destroy_qp(qps[0]), 0);
    GIVES(ibv_destroy_qp(qps[1]), 0);
    GIVES(ibv_dereg_mr(mr), 0);
    GIVES(ibv_destroy_cq(cq), 0);

    struct ibv_cq *other = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr_ex more = {
        .send_cq = other, .recv_cq = other, .cap = { 1, 1, 3, 1, 40 }, .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &more);
    CHECK(qp && more.cap.max_inline_data == 48);
    GIVES(ibv_destroy_qp(qp), 0);
    GIVES(ibv_destroy_cq(other), 0);
}

int main(void) {
    no_descriptors();
    devices();
    pd = ibv_alloc_pd(context);
    CHECK(pd && pd->context == context);
    GIVES(ibv_query_port(context, 1, &port), 0);
    memory();
    memory_by_one_call();
    memory_that_is_not_there();
    unmapped();
    addresses();
    buffers();
    absent();
    reliable();
    windows();
    sizes();
    unreliable();
    datagrams();
    shared();
    channels();
    ends_with_events();
    destroyed_with_an_event();
    inline_in_place_of_segments();
    GIVES(ibv_dealloc_pd(pd), 0);
    GIVES(ibv_close_device(context), 0);
    return finish("verbs");
}
