/* Requests that ibv_wr_* build and that leave no message, or a message with more to do: writes,
 * reads, atomic operations, bindings and invalidations of keys. Both ends are in this program; each
 * request is followed by what it has done to the memory and the keys. */
#include "library.h"
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES 4096
#define IMMEDIATE 0x01020304
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
                IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;

/* Memory, and a queue pair with a queue for its requests and one for its receives. */
struct end {
    char *memory;
    struct ibv_mr *mr;
    struct ibv_cq *sends, *receives;
    struct ibv_qp *qp;
    struct ibv_qp_ex *extended;
};

static struct end make(void) {
    struct end end = { 0 };
    CHECK(posix_memalign((void **)&end.memory, 4096, BYTES) == 0);
    memset(end.memory, 0, BYTES);
    end.mr = ibv_reg_mr(pd, end.memory, BYTES, RIGHTS);
    end.sends = ibv_create_cq(context, 16, NULL, NULL, 0);
    end.receives = ibv_create_cq(context, 16, NULL, NULL, 0);
    CHECK(end.mr && end.sends && end.receives);
    struct ibv_qp_init_attr_ex init = {
        .send_cq = end.sends, .recv_cq = end.receives, .cap = { 8, 8, 1, 1, 0 },
        .qp_type = IBV_QPT_RC, .pd = pd, .sq_sig_all = 1,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
                          IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |
                          IBV_QP_EX_WITH_SEND,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
    };
    end.qp = ibv_create_qp_ex(context, &init);
    CHECK(end.qp && (end.extended = ibv_qp_to_qp_ex(end.qp)));
    return end;
}

static void enter(struct end *end, uint32_t peer) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS & ~IBV_ACCESS_MW_BIND,
        .path_mtu = IBV_MTU_4096, .dest_qp_num = peer, .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4,
        .ah_attr = { .dlid = port.lid, .port_num = 1 },
    };
    GIVES(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                            IBV_QP_ACCESS_FLAGS), 0);
    attr.qp_state = IBV_QPS_RTR;
    GIVES(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                            IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
    attr.qp_state = IBV_QPS_RTS;
    GIVES(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                            IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                            IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static void join(struct end *one, struct end *other) {
    enter(one, other->qp->qp_num);
    enter(other, one->qp->qp_num);
}

/* A queue pair that has failed can be connected again. */
static void join_again(struct end *one, struct end *other) {
    struct end *both[] = { one, other };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    for (int i = 0; i < 2; i++)
        GIVES(ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE), 0);
    join(one, other);
}

static void free_end(struct end *end) {
    GIVES(ibv_destroy_qp(end->qp), 0);
    GIVES(ibv_destroy_cq(end->sends), 0);
    GIVES(ibv_destroy_cq(end->receives), 0);
    GIVES(ibv_dereg_mr(end->mr), 0);
    free(end->memory);
}

static struct ibv_wc next(struct ibv_cq *cq) {
    struct ibv_wc wc = { 0 };
    int count;
    for (long tries = 0; (count = ibv_poll_cq(cq, 1, &wc)) == 0; tries++) {
        if (tries > 100000000) {
            puts("verbs-requests: a completion does not come");
            exit(101);
        }
    }
    GIVES(count, 1);
    return wc;
}

static struct ibv_qp_ex *start(struct end *end, uint64_t id) {
    ibv_wr_start(end->extended);
    end->extended->wr_id = id;
    end->extended->wr_flags = 0;
    return end->extended;
}

/* The bytes of the end's memory, for the request that was begun. */
static void with_bytes(struct end *end, size_t at, uint32_t length) {
    ibv_wr_set_sge(end->extended, end->mr->lkey, (uintptr_t)end->memory + at, length);
}

/* Posts the request that was built, which completes like this. */
static struct ibv_wc completes(struct end *end, uint64_t id, enum ibv_wc_opcode opcode) {
    GIVES(ibv_wr_complete(end->extended), 0);
    struct ibv_wc wc = next(end->sends);
    CHECK(wc.wr_id == id && wc.status == IBV_WC_SUCCESS && wc.opcode == opcode);
    CHECK(wc.qp_num == end->qp->qp_num);
    return wc;
}

/* The request that was built fails with this status. */
static void fails(struct end *end, enum ibv_wc_status status) {
    GIVES(ibv_wr_complete(end->extended), 0);
    struct ibv_wc wc = next(end->sends);
    if (wc.status != status)
        printf("status %s\n", ibv_wc_status_str(wc.status));
    CHECK(wc.status == status);
}

/* An event of a queue pair, which a failed request has caused. */
static void has_event(struct end *end) {
    struct ibv_async_event event;
    GIVES(ibv_get_async_event(context, &event), 0);
    CHECK(event.element.qp == end->qp);
    ibv_ack_async_event(&event);
}

static void receive(struct end *end, uint64_t id, size_t at) {
    struct ibv_sge room = { (uintptr_t)end->memory + at, 64, end->mr->lkey };
    struct ibv_recv_wr wr = { id, NULL, &room, 1 }, *bad = NULL;
    GIVES(ibv_post_recv(end->qp, &wr, &bad), 0);
}

static uint64_t address(struct end *end, size_t at) { return (uintptr_t)end->memory + at; }

static uint64_t *word(struct end *end, size_t at) { return (uint64_t *)(end->memory + at); }

static int is_filled(const char *from, char with, size_t length) {
    for (size_t at = 0; at < length; at++)
        if (from[at] != with)
            return 0;
    return 1;
}

static void copies(struct end *one, struct end *other) {
    memset(one->memory, 'a', 100);
    ibv_wr_rdma_write(start(one, 11), other->mr->rkey, address(other, 256));
    with_bytes(one, 0, 100);
    completes(one, 11, IBV_WC_RDMA_WRITE);
    CHECK(is_filled(other->memory + 256, 'a', 100));
    CHECK(other->memory[255] == 0 && other->memory[356] == 0);

    receive(other, 50, 2048);
    memset(one->memory, 'b', 100);
    ibv_wr_rdma_write_imm(start(one, 12), other->mr->rkey, address(other, 512), IMMEDIATE);
    with_bytes(one, 0, 100);
    completes(one, 12, IBV_WC_RDMA_WRITE);
    struct ibv_wc wc = next(other->receives);
    CHECK(wc.wr_id == 50 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 100);
    CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.qp_num == other->qp->qp_num);
    CHECK(wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == IMMEDIATE);
    CHECK(is_filled(other->memory + 512, 'b', 100) && other->memory[612] == 0);
    CHECK(is_filled(other->memory + 2048, 0, 64));

    memset(other->memory + 1024, 'c', 100);
    ibv_wr_rdma_read(start(one, 13), other->mr->rkey, address(other, 1024));
    with_bytes(one, 0, 99);
    wc = completes(one, 13, IBV_WC_RDMA_READ);
    CHECK(wc.byte_len == 99 && is_filled(one->memory, 'c', 99) && one->memory[99] == 'b');

    /* No bytes need no key. */
    ibv_wr_rdma_write(start(one, 14), 0, 0);
    ibv_wr_set_sge_list(one->extended, 0, NULL);
    completes(one, 14, IBV_WC_RDMA_WRITE);
    ibv_wr_rdma_read(start(one, 15), 0, 0);
    ibv_wr_set_sge_list(one->extended, 0, NULL);
    completes(one, 15, IBV_WC_RDMA_READ);
    GIVES(ibv_poll_cq(other->receives, 1, &wc), 0);
}

static void atomics(struct end *one, struct end *other) {
    *word(other, 0) = 40;
    *word(one, 0) = 0;
    ibv_wr_atomic_cmp_swp(start(one, 21), other->mr->rkey, address(other, 0), 40, 7);
    with_bytes(one, 0, 8);
    CHECK(completes(one, 21, IBV_WC_COMP_SWAP).byte_len == 8);
    CHECK(*word(one, 0) == 40 && *word(other, 0) == 7);
    /* Another value than the one to compare stays. */
    ibv_wr_atomic_cmp_swp(start(one, 22), other->mr->rkey, address(other, 0), 40, 9);
    with_bytes(one, 0, 8);
    completes(one, 22, IBV_WC_COMP_SWAP);
    CHECK(*word(one, 0) == 7 && *word(other, 0) == 7);
    ibv_wr_atomic_fetch_add(start(one, 23), other->mr->rkey, address(other, 0), 5);
    with_bytes(one, 8, 8);
    CHECK(completes(one, 23, IBV_WC_FETCH_ADD).byte_len == 8);
    CHECK(*word(one, 0) == 7 && *word(one, 8) == 7 && *word(other, 0) == 12);
}

/* What was built and given up is not done, and the next request is the first. */
static void given_up(struct end *one, struct end *other) {
    memset(one->memory, 'd', 64);
    memset(other->memory + 256, 'e', 64);
    for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
        ibv_wr_rdma_write(start(one, 31), other->mr->rkey, address(other, 256));
        with_bytes(one, 0, 64);
        if (is_wrong)
            ibv_wr_send_tso(one->extended, NULL, 0, 0);
        ibv_wr_abort(one->extended);
    }
    ibv_wr_rdma_write(start(one, 32), other->mr->rkey, address(other, 512));
    with_bytes(one, 0, 64);
    completes(one, 32, IBV_WC_RDMA_WRITE);
    CHECK(is_filled(other->memory + 512, 'd', 64) && is_filled(other->memory + 256, 'e', 64));
    struct ibv_wc none;
    GIVES(ibv_poll_cq(one->sends, 1, &none), 0);
}

/* Binds a window to 64 bytes of the end's memory. Returns its key. */
static uint32_t bound(struct end *end, struct ibv_mw *mw, uint64_t id, size_t at) {
    struct ibv_mw_bind_info info = {
        .mr = end->mr, .addr = address(end, at), .length = 64,
        .mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
    };
    uint32_t key = ibv_inc_rkey(mw->rkey);
    ibv_wr_bind_mw(start(end, id), mw, key, &info);
    completes(end, id, IBV_WC_BIND_MW);
    mw->rkey = key;
    return key;
}

/* Begins a write of 64 bytes by this key. */
static void write_by(struct end *from, struct end *to, uint32_t key, size_t at, char with) {
    memset(from->memory, with, 64);
    ibv_wr_rdma_write(start(from, 40), key, address(to, at));
    with_bytes(from, 0, 64);
}

/* The key is dead: a write by it fails, and changes nothing. Both ends are connected again. */
static void is_dead(struct end *from, struct end *to, uint32_t key, size_t at) {
    char before = to->memory[at];
    write_by(from, to, key, at, 'x');
    fails(from, IBV_WC_REM_ACCESS_ERR);
    CHECK(before != 'x' && is_filled(to->memory + at, before, 64));
    has_event(to);
    join_again(from, to);
}

static void windows(struct end *one, struct end *other) {
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    CHECK(mw != NULL);
    uint32_t key = bound(other, mw, 41, 1024);
    write_by(one, other, key, 1024, 'f');
    completes(one, 40, IBV_WC_RDMA_WRITE);
    CHECK(is_filled(other->memory + 1024, 'f', 64));
    /* The window is shorter than its region. */
    write_by(one, other, key, 1032, 'x');
    fails(one, IBV_WC_REM_ACCESS_ERR);
    CHECK(other->memory[1032] == 'f' && other->memory[1088] != 'x');
    has_event(other);
    join_again(one, other);

    /* By its owner. */
    ibv_wr_local_inv(start(other, 42), key);
    completes(other, 42, IBV_WC_LOCAL_INV);
    is_dead(one, other, key, 1024);

    /* By a message of the peer. */
    key = bound(other, mw, 43, 1024);
    write_by(one, other, key, 1024, 'g');
    completes(one, 40, IBV_WC_RDMA_WRITE);
    CHECK(is_filled(other->memory + 1024, 'g', 64));
    receive(other, 51, 2048);
    ibv_wr_send_inv(start(one, 44), key);
    with_bytes(one, 0, 10);
    completes(one, 44, IBV_WC_SEND);
    struct ibv_wc wc = next(other->receives);
    CHECK(wc.wr_id == 51 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
    CHECK(wc.byte_len == 10 && wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == key);
    is_dead(one, other, key, 1024);
    GIVES(ibv_dealloc_mw(mw), 0);
}

static int posted(struct end *end, int count) {
    struct ibv_sge room = { address(end, 0), 8, end->mr->lkey }, two[] = { room, room };
    struct ibv_recv_wr wr = { 60, NULL, two, count }, *bad = NULL;
    int result = ibv_post_recv(end->qp, &wr, &bad);
    CHECK(bad == (result ? &wr : NULL));
    return result;
}

/* Requests that come too early, that are too many, or too long. */
static void refused(void) {
    struct end one = make(), other = make();
    struct ibv_wc none;
    GIVES(posted(&one, 1), EINVAL);
    ibv_wr_rdma_write(start(&one, 61), other.mr->rkey, address(&other, 0));
    with_bytes(&one, 0, 8);
    GIVES(ibv_wr_complete(one.extended), EINVAL);
    join(&one, &other);
    GIVES(posted(&one, 2), EINVAL);
    for (int i = 0; i < 8; i++)
        GIVES(posted(&one, 1), 0);
    GIVES(posted(&one, 1), ENOMEM);
    GIVES(ibv_poll_cq(one.sends, 1, &none), 0);
    free_end(&one);
    free_end(&other);
}

int main(void) {
    struct ibv_device **devices = ibv_get_device_list(NULL);
    CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])));
    ibv_free_device_list(devices);
    pd = ibv_alloc_pd(context);
    GIVES(ibv_query_port(context, 1, &port), 0);
    struct end one = make(), other = make();
    join(&one, &other);
    copies(&one, &other);
    atomics(&one, &other);
    given_up(&one, &other);
    windows(&one, &other);
    refused();
    free_end(&one);
    free_end(&other);
    GIVES(ibv_dealloc_pd(pd), 0);
    GIVES(ibv_close_device(context), 0);
    return finish("requests of verbs");
}
