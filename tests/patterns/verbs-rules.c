/* Rules of rdma-core's manual that only few programs touch: attributes that are ignored or not
 * supported, regions whose addresses begin at 0, and domains that are still in use. */
#include "library.h"
#include <infiniband/verbs.h>
#include <stdint.h>
#include <unistd.h>

#define BYTES 8192
#define SHIFT 100
#define READS_AND_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static char room[BYTES] __attribute__((aligned(4096)));

/* The limit of a shared receive queue is what ibv_modify_srq sets. */
static void limit_of_a_new_queue(void) {
    static const uint32_t limits[] = { 0xffffffff, 2 };
    for (int i = 0; i < 2; i++) {
        struct ibv_srq_init_attr init = { .attr = { 4, 1, limits[i] } };
        struct ibv_srq *srq = ibv_create_srq(pd, &init);
        struct ibv_srq_attr found;
        CHECK(srq && ibv_query_srq(srq, &found) == 0 && found.srq_limit == 0);
        CHECK(srq && ibv_destroy_srq(srq) == 0);
    }
}

/* A queue that overruns is in error here, whatever the program has asked for. */
static void overruns(void) {
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
        .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
    };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);
    CHECK(cq && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
    attr.flags |= IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    CHECK(!ibv_create_cq_ex(context, &attr) && errno == EOPNOTSUPP);
    /* Without its bit in the mask the field is not looked at. */
    attr.comp_mask = 0;
    cq = ibv_create_cq_ex(context, &attr);
    CHECK(cq && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

/* ---- Regions whose addresses begin at 0 ---- */

/* A queue pair that is connected to itself. */
static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void connect_pair(void) {
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    qp = ibv_create_qp(pd, &init);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1,
        .qp_access_flags = READS_AND_WRITES | IBV_ACCESS_REMOTE_ATOMIC, .path_mtu = IBV_MTU_4096,
        .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
        .ah_attr = { .dlid = port.lid, .port_num = 1 }, .timeout = 14, .retry_cnt = 7,
        .rnr_retry = 7, .max_rd_atomic = 1,
    };
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                       IBV_QP_ACCESS_FLAGS) == 0);
    attr.qp_state = IBV_QPS_RTR;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER) == 0);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* Writes a byte through the region, from its address `from` to its address `to`. */
static void writes(struct ibv_mr *mr, uint64_t from, uint64_t to) {
    struct ibv_sge part = { from, 1, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;
    struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
    wr.wr.rdma.remote_addr = to;
    wr.wr.rdma.rkey = mr->rkey;
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
    for (int tries = 0; tries < 5000 && ibv_poll_cq(cq, 1, &wc) == 0; tries++)
        usleep(1000);
    CHECK(wc.status == IBV_WC_SUCCESS);
}

static void addresses_from_0(void) {
    int access = READS_AND_WRITES | IBV_ACCESS_ZERO_BASED;
    connect_pair();
    struct ibv_mr *mr = ibv_reg_mr(pd, room + SHIFT, 1000, access);
    CHECK(mr && mr->addr == room + SHIFT && mr->length == 1000);
    if (!mr)
        return;
    strcpy(room + SHIFT, "abc");
    writes(mr, 0, 999);
    CHECK(room[SHIFT + 999] == 'a');
    writes(mr, 1, 0);
    CHECK(room[SHIFT] == 'b');
    /* Other memory does not change how its bytes are counted. */
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, room + 5000, 1000, 0) == 0);
    room[5000] = 'd';
    writes(mr, 0, 7);
    CHECK(room[5007] == 'd');
    /* Rights do, without memory and with it. */
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, READS_AND_WRITES) == 0);
    writes(mr, (uintptr_t)room + 5000, (uintptr_t)room + 5003);
    CHECK(room[5003] == 'd');
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access) == 0);
    writes(mr, 0, 4);
    CHECK(room[5004] == 'd');
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL,
                       room + 5000, 1000, READS_AND_WRITES) == 0);
    writes(mr, (uintptr_t)room + 5000, (uintptr_t)room + 5001);
    CHECK(room[5001] == 'd');
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL,
                       room + 5000, 1000, access) == 0);
    writes(mr, 0, 2);
    CHECK(room[5002] == 'd' && ibv_dereg_mr(mr) == 0);
    /* Atomic operations on aligned addresses need aligned memory. */
    access |= IBV_ACCESS_REMOTE_ATOMIC;
    CHECK(!ibv_reg_mr(pd, room + SHIFT, 1000, access) && errno == EINVAL);
    mr = ibv_reg_mr(pd, room + 104, 1000, access);
    CHECK(mr && ibv_dereg_mr(mr) == 0);
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
}

/* ---- Domains in use ---- */

static struct ibv_td *td;

/* A parent domain of the thread domain. */
static struct ibv_pd *parent(void) {
    struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };
    struct ibv_pd *made = ibv_alloc_parent_domain(context, &attr);
    CHECK(made != NULL);
    return made;
}

/* A parent domain lives until its objects have gone. */
static void parents(void) {
    struct ibv_td_init_attr of_thread = { 0 };
    td = ibv_alloc_td(context, &of_thread);
    CHECK(td != NULL);
    struct ibv_pd *first = parent(), *second = parent();
    CHECK(ibv_dealloc_td(td) == EBUSY && ibv_dealloc_pd(second) == 0);
    CHECK(ibv_dealloc_td(td) == EBUSY);
    struct ibv_ah_attr to = { .dlid = port.lid, .port_num = 1 };
    struct ibv_ah *ah = ibv_create_ah(first, &to);
    CHECK(ah && ibv_dealloc_pd(first) == EBUSY && ibv_destroy_ah(ah) == 0);
    struct ibv_mw *mw = ibv_alloc_mw(first, IBV_MW_TYPE_1);
    CHECK(mw && ibv_dealloc_pd(first) == EBUSY && ibv_dealloc_mw(mw) == 0);
    struct ibv_srq_init_attr of_queue = { .attr = { 4, 1, 0 } };
    struct ibv_srq *srq = ibv_create_srq(first, &of_queue);
    CHECK(srq && ibv_dealloc_pd(first) == EBUSY && ibv_destroy_srq(srq) == 0);
    struct ibv_cq *queue = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = queue, .recv_cq = queue, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *pair = ibv_create_qp(first, &init);
    CHECK(pair && ibv_dealloc_pd(first) == EBUSY && ibv_destroy_qp(pair) == 0);
    CHECK(ibv_destroy_cq(queue) == 0);
    struct ibv_mr *mr = ibv_reg_mr(first, room, BYTES, READS_AND_WRITES);
    CHECK(mr && ibv_dealloc_pd(first) == EBUSY);
    /* A region that moves to another domain does not need this one any more. */
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) == 0 && mr->pd == pd);
    CHECK(ibv_dealloc_pd(first) == 0);
    first = parent();
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, first, NULL, 0, 0) == 0);
    CHECK(ibv_dealloc_pd(first) == EBUSY && ibv_dereg_mr(mr) == 0);
    /* What could not be made uses nothing. */
    to.port_num = 2;
    CHECK(!ibv_create_ah(first, &to) && !ibv_reg_mr(first, room, BYTES, 1 << 19));
    CHECK(ibv_dealloc_pd(first) == 0 && ibv_dealloc_td(td) == 0);
}

int main(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0] && (context = ibv_open_device(list[0])));
    CHECK((pd = ibv_alloc_pd(context)) && ibv_query_port(context, 1, &port) == 0);
    limit_of_a_new_queue();
    overruns();
    addresses_from_0();
    parents();
    CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    ibv_free_device_list(list);
    return finish("rules of verbs");
}
