/* The extended interface of RDMA verbs, within a program: messages of each type of queue pair,
 * built by ibv_wr_* and found by ibv_start_poll, from memory whose stores need no order. */
#include "library.h"
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BYTES 4096
#define GRH 40
#define QKEY 0x11111111
#define IMMEDIATE 0x01020304

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;

/* Memory, and queue pairs that complete in one queue. */
struct end {
    char *memory;
    struct ibv_mr *mr;
    struct ibv_cq_ex *cq;
    struct ibv_qp *qp;
    struct ibv_qp_ex *extended;
};

static struct end prepare(void) {
    struct end end = { 0 };
    CHECK(posix_memalign((void **)&end.memory, 4096, BYTES) == 0);
    memset(end.memory, 0, BYTES);
    struct ibv_mr_init_attr region = {
        .length = BYTES, .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING,
        .addr = end.memory, .comp_mask = IBV_REG_MR_MASK_ADDR,
    };
    end.mr = ibv_reg_mr_ex(pd, &region);
    struct ibv_cq_init_attr_ex queue = {
        .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS,
    };
    end.cq = ibv_create_cq_ex(context, &queue);
    CHECK(end.mr && end.cq);
    return end;
}

/* Makes a queue pair of the end, in the state INIT. */
static struct ibv_qp *make(struct end *end, struct ibv_qp_init_attr_ex init) {
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    CHECK(qp && qp->qp_type == init.qp_type);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
    int mask = init.qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    GIVES(ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
    end->extended = end->extended ? end->extended : ibv_qp_to_qp_ex(qp);
    return qp;
}

/* One that sends by ibv_wr_*, and receives if its type does. */
static struct ibv_qp *make_sender(struct end *end, enum ibv_qp_type type) {
    struct ibv_cq *cq = ibv_cq_ex_to_cq(end->cq);
    return make(end, (struct ibv_qp_init_attr_ex){
        .send_cq = cq, .recv_cq = type == IBV_QPT_XRC_SEND ? NULL : cq,
        .cap = { 4, type == IBV_QPT_XRC_SEND ? 0 : 4, 1, type == IBV_QPT_XRC_SEND ? 0 : 1, 0 },
        .qp_type = type, .pd = pd, .sq_sig_all = 1,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
    });
}

static void join(struct ibv_qp *qp, uint32_t peer) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer,
        .max_dest_rd_atomic = 4, .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7,
        .rnr_retry = 7, .max_rd_atomic = 4, .ah_attr = { .dlid = port.lid, .port_num = 1 },
    };
    int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    int answers = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    int retries = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    int timeout = IBV_QP_TIMEOUT;
    if (qp->qp_type == IBV_QPT_UC || qp->qp_type == IBV_QPT_UD)
        answers = retries = timeout = 0;
    if (qp->qp_type == IBV_QPT_UD)
        path = 0;
    if (qp->qp_type == IBV_QPT_XRC_SEND)
        answers = 0;
    if (qp->qp_type == IBV_QPT_XRC_RECV)
        retries = 0;
    GIVES(ibv_modify_qp(qp, &attr, IBV_QP_STATE | path | answers), 0);
    attr.qp_state = IBV_QPS_RTS;
    GIVES(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | timeout | retries), 0);
}

static void free_end(struct end *end) {
    GIVES(ibv_destroy_cq(ibv_cq_ex_to_cq(end->cq)), 0);
    GIVES(ibv_dereg_mr(end->mr), 0);
    free(end->memory);
}

/* Waits for the next completion of this request, which went well; ibv_end_poll is the caller's. */
static void await(struct ibv_cq_ex *cq, uint64_t id, enum ibv_wc_opcode opcode) {
    struct ibv_poll_cq_attr none = { 0 };
    int found;
    for (long tries = 0; (found = ibv_start_poll(cq, &none)) == ENOENT; tries++) {
        if (tries > 100000000) {
            puts("verbs-extended: a completion does not come");
            exit(101);
        }
    }
    GIVES(found, 0);
    CHECK(cq->wr_id == id && cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq) == opcode);
}

/* Where messages of an end go: for XRC to a shared queue, for datagrams by a handle. */
struct target {
    struct ibv_srq *srq;
    uint32_t qp_number;
    struct ibv_ah *ah;
    size_t ahead;
};

/* A message with immediate data or without, or of no bytes. */
static void send(struct end *from, struct end *to, const struct target *target, uint64_t id,
                 uint32_t length, int immediate) {
    struct ibv_qp_ex *qp = from->extended;
    memset(from->memory, (int)('a' + id), BYTES);
    memset(to->memory, 0, BYTES);
    ibv_wr_start(qp);
    qp->wr_id = id;
    qp->wr_flags = 0;
    if (immediate)
        ibv_wr_send_imm(qp, IMMEDIATE);
    else
        ibv_wr_send(qp);
    uint32_t number = 0;
    if (target->srq) {
        GIVES(ibv_get_srq_num(target->srq, &number), 0);
        ibv_wr_set_xrc_srqn(qp, number);
    }
    if (target->ah)
        ibv_wr_set_ud_addr(qp, target->ah, target->qp_number, QKEY);
    ibv_wr_set_sge(qp, from->mr->lkey, (uintptr_t)from->memory, length);
    GIVES(ibv_wr_complete(qp), 0);
    await(from->cq, id, IBV_WC_SEND);
    CHECK(ibv_wc_read_qp_num(from->cq) == qp->qp_base.qp_num);
    ibv_end_poll(from->cq);
    await(to->cq, 50 + id, IBV_WC_RECV);
    CHECK(ibv_wc_read_byte_len(to->cq) == length + target->ahead);
    CHECK(!!(ibv_wc_read_wc_flags(to->cq) & IBV_WC_WITH_IMM) == immediate);
    CHECK(!immediate || ibv_wc_read_imm_data(to->cq) == IMMEDIATE);
    if (target->ah)
        CHECK(ibv_wc_read_src_qp(to->cq) == qp->qp_base.qp_num);
    GIVES(ibv_next_poll(to->cq), ENOENT);
    ibv_end_poll(to->cq);
    const char *first = to->memory + target->ahead;
    for (uint32_t at = 0; at < length; at++)
        CHECK(first[at] == (char)('a' + id));
    CHECK(first[length] == 0);
}

static struct ibv_recv_wr receive(struct end *end, struct ibv_sge *room, uint64_t id) {
    *room = (struct ibv_sge){ (uintptr_t)end->memory, BYTES, end->mr->lkey };
    return (struct ibv_recv_wr){ id, NULL, room, 1 };
}

static void messages(struct end *from, struct end *to, const struct target *target) {
    struct ibv_srq *srq = target->srq;
    for (uint64_t id = 1; id <= 3; id++) {
        struct ibv_sge room;
        struct ibv_recv_wr wr = receive(to, &room, 50 + id), *bad = NULL;
        GIVES(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(to->qp, &wr, &bad), 0);
        send(from, to, target, id, id == 3 ? 0 : 1000, id == 2);
    }
}

static void reliable(void) {
    struct end one = prepare(), other = prepare();
    one.qp = make_sender(&one, IBV_QPT_RC);
    other.qp = make_sender(&other, IBV_QPT_RC);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    struct target plain = { 0 };
    messages(&one, &other, &plain);
    messages(&other, &one, &plain);
    GIVES(ibv_destroy_qp(one.qp), 0);
    GIVES(ibv_destroy_qp(other.qp), 0);
    free_end(&one);
    free_end(&other);
}

/* A queue where nothing comes, at least for a while. */
static void nothing_in(struct ibv_cq_ex *cq) {
    struct ibv_poll_cq_attr none = { 0 };
    usleep(20000);
    GIVES(ibv_start_poll(cq, &none), ENOENT);
}

/* Builds sends of a few bytes; the last one has as many segments as this. */
static int posted(struct end *from, uint64_t count, size_t segments) {
    struct ibv_sge parts[2] = { { (uintptr_t)from->memory, 4, from->mr->lkey } };
    parts[1] = parts[0];
    ibv_wr_start(from->extended);
    for (uint64_t id = 1; id <= count; id++) {
        from->extended->wr_id = id;
        from->extended->wr_flags = 0;
        ibv_wr_send(from->extended);
        ibv_wr_set_sge_list(from->extended, id == count ? segments : 1, parts);
    }
    return ibv_wr_complete(from->extended);
}

/* Requests that were built together are posted together, or none of them is. */
static void all_or_none(void) {
    struct end one = prepare(), other = prepare();
    one.qp = make_sender(&one, IBV_QPT_RC);
    other.qp = make_sender(&other, IBV_QPT_RC);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    for (uint64_t id = 0; id < 4; id++) {
        struct ibv_sge room;
        struct ibv_recv_wr wr = receive(&other, &room, 50 + id), *bad = NULL;
        GIVES(ibv_post_recv(other.qp, &wr, &bad), 0);
    }
    GIVES(posted(&one, 3, 2), EINVAL);
    GIVES(posted(&one, 5, 1), ENOMEM);
    nothing_in(one.cq);
    nothing_in(other.cq);
    GIVES(posted(&one, 4, 1), 0);
    for (uint64_t id = 0; id < 4; id++) {
        await(other.cq, 50 + id, IBV_WC_RECV);
        ibv_end_poll(other.cq);
        await(one.cq, 1 + id, IBV_WC_SEND);
        ibv_end_poll(one.cq);
    }
    nothing_in(one.cq);
    nothing_in(other.cq);
    GIVES(ibv_destroy_qp(one.qp), 0);
    GIVES(ibv_destroy_qp(other.qp), 0);
    free_end(&one);
    free_end(&other);
}

/* Threads that build requests of one queue pair, and find completions of one queue: between the
 * calls that begin and end that, no other thread does the same. */
enum { THREADS = 2, ROUNDS = 200 };

static struct end shared_end;
static volatile int found_of[THREADS * ROUNDS];
static atomic_int found_count;

/* Any thread may find it. */
static void find_one(struct ibv_cq_ex *cq) {
    struct ibv_poll_cq_attr none = { 0 };
    int found = ibv_start_poll(cq, &none);
    if (found == ENOENT)
        return;
    GIVES(found, 0);
    uint64_t id = cq->wr_id;
    sched_yield();
    CHECK(cq->wr_id == id && cq->status == IBV_WC_SUCCESS && id < THREADS * ROUNDS);
    CHECK(ibv_wc_read_opcode(cq) == IBV_WC_SEND);
    ibv_end_poll(cq);
    found_of[id]++;
    found_count++;
}

static void *build(void *argument) {
    struct ibv_qp_ex *qp = shared_end.extended;
    uint64_t first = (uint64_t)(uintptr_t)argument * ROUNDS;
    for (uint64_t id = first; id < first + ROUNDS;) {
        ibv_wr_start(qp);
        qp->wr_id = id;
        qp->wr_flags = 0;
        sched_yield();
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, shared_end.mr->lkey, (uintptr_t)shared_end.memory, 0);
        int result = ibv_wr_complete(qp);
        CHECK(result == 0 || result == ENOMEM);
        id += result == 0;
        find_one(shared_end.cq);
    }
    while (found_count < THREADS * ROUNDS)
        find_one(shared_end.cq);
    return NULL;
}

static void threads(void) {
    struct end other = prepare();
    shared_end = prepare();
    shared_end.qp = make_sender(&shared_end, IBV_QPT_UC);
    other.qp = make_sender(&other, IBV_QPT_UC);
    join(shared_end.qp, other.qp->qp_num);
    join(other.qp, shared_end.qp->qp_num);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        GIVES(pthread_create(&threads[i], NULL, build, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        GIVES(pthread_join(threads[i], NULL), 0);
    int once = 0;
    for (int i = 0; i < THREADS * ROUNDS; i++)
        once += found_of[i] == 1;
    CHECK(once == THREADS * ROUNDS);
    /* Too much of anything is an error of its own. */
    struct ibv_qp_ex *qp = shared_end.extended;
    struct ibv_data_buf pieces[] = { { shared_end.memory, 8 }, { shared_end.memory, SIZE_MAX } };
    for (int how = 0; how < 2; how++) {
        ibv_wr_start(qp);
        ibv_wr_send(qp);
        if (how)
            ibv_wr_set_inline_data_list(qp, 2, pieces);
        else
            ibv_wr_set_sge_list(qp, SIZE_MAX, (struct ibv_sge *)shared_end.memory);
        GIVES(ibv_wr_complete(qp), EINVAL);
    }
    GIVES(ibv_destroy_qp(shared_end.qp), 0);
    GIVES(ibv_destroy_qp(other.qp), 0);
    free_end(&shared_end);
    free_end(&other);
}

static void unreliable(void) {
    struct end one = prepare(), other = prepare();
    one.qp = make_sender(&one, IBV_QPT_UC);
    other.qp = make_sender(&other, IBV_QPT_UC);
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    struct target plain = { 0 };
    messages(&one, &other, &plain);
    GIVES(ibv_destroy_qp(one.qp), 0);
    GIVES(ibv_destroy_qp(other.qp), 0);
    free_end(&one);
    free_end(&other);
}

static void datagrams(void) {
    struct end one = prepare(), other = prepare();
    one.qp = make_sender(&one, IBV_QPT_UD);
    other.qp = make_sender(&other, IBV_QPT_UD);
    join(one.qp, 0);
    join(other.qp, 0);
    struct ibv_ah_attr attr = { .dlid = port.lid, .port_num = 1 };
    struct target target = { .qp_number = other.qp->qp_num, .ah = ibv_create_ah(pd, &attr),
                             .ahead = GRH };
    CHECK(target.ah != NULL);
    messages(&one, &other, &target);
    GIVES(ibv_destroy_ah(target.ah), 0);
    GIVES(ibv_destroy_qp(one.qp), 0);
    GIVES(ibv_destroy_qp(other.qp), 0);
    free_end(&one);
    free_end(&other);
}

static struct ibv_xrcd *open_domain(int fd, int flags) {
    struct ibv_xrcd_init_attr domain = {
        .fd = fd, .oflags = flags,
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
    };
    return ibv_open_xrcd(context, &domain);
}

#define NO_DOMAIN(fd, flags, number) CHECK(!open_domain(fd, flags) && errno == (number))

/* By the same file comes the same domain, until all have closed it. */
static void domains_of_files(void) {
    static const char *const paths[] = { "/tmp/verbs-one", "/tmp/verbs-other" };
    int files[2], again = -1;
    for (int i = 0; i < 2; i++)
        CHECK((files[i] = open(paths[i], O_RDWR | O_CREAT, 0600)) >= 0);
    CHECK((again = open(paths[0], O_RDONLY)) >= 0);
    NO_DOMAIN(-1, 0, EINVAL);
    NO_DOMAIN(-1, O_CREAT | O_APPEND, EINVAL);
    NO_DOMAIN(-2, O_CREAT, EBADF);
    NO_DOMAIN(999, O_CREAT, EBADF);
    NO_DOMAIN(files[0], 0, EAGAIN);
    struct ibv_xrcd *first = open_domain(files[0], O_CREAT | O_EXCL);
    struct ibv_xrcd *second = open_domain(again, O_CREAT);
    CHECK(first && second);
    NO_DOMAIN(files[0], O_CREAT | O_EXCL, EINVAL);
    NO_DOMAIN(files[1], 0, EAGAIN);
    struct end end = prepare();
    struct ibv_srq_init_attr_ex shared = {
        .attr = { 8, 1, 0 }, .srq_type = IBV_SRQT_XRC, .xrcd = first, .pd = pd,
        .cq = ibv_cq_ex_to_cq(end.cq),
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
                     IBV_SRQ_INIT_ATTR_PD,
    };
    struct ibv_srq *srq = ibv_create_srq_ex(context, &shared);
    CHECK(srq != NULL);
    GIVES(ibv_close_xrcd(first), 0);
    GIVES(ibv_close_xrcd(second), EBUSY);
    GIVES(ibv_destroy_srq(srq), 0);
    GIVES(ibv_close_xrcd(second), 0);
    NO_DOMAIN(files[0], 0, EAGAIN);
    free_end(&end);
    GIVES(close(again), 0);
    for (int i = 0; i < 2; i++) {
        GIVES(close(files[i]), 0);
        GIVES(unlink(paths[i]), 0);
    }
}

/* A queue pair that receives belongs to its XRC domain, and keeps no protection domain. */
static void no_domain_kept(void) {
    struct end end = prepare();
    struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
    struct ibv_pd *pds[2] = { ibv_alloc_pd(context), ibv_alloc_pd(context) };
    struct ibv_srq *srqs[2];
    for (int i = 0; i < 2; i++) {
        struct ibv_srq_init_attr_ex shared = {
            .attr = { 8, 1, 0 }, .srq_type = IBV_SRQT_XRC, .xrcd = xrcd, .pd = pds[i],
            .cq = ibv_cq_ex_to_cq(end.cq),
            .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                         IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
        };
        CHECK((srqs[i] = ibv_create_srq_ex(context, &shared)) != NULL);
        if (i == 0)
            GIVES(ibv_destroy_srq(srqs[0]), 0);
    }
    struct ibv_qp *qp = make(&end, (struct ibv_qp_init_attr_ex){
        .qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
    });
    GIVES(ibv_dealloc_pd(pds[0]), 0);
    GIVES(ibv_destroy_srq(srqs[1]), 0);
    GIVES(ibv_dealloc_pd(pds[1]), 0);
    GIVES(ibv_destroy_qp(qp), 0);
    GIVES(ibv_close_xrcd(xrcd), 0);
    free_end(&end);
}

static void chosen_queues(void) {
    struct end one = prepare(), other = prepare();
    struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
    struct ibv_srq_init_attr_ex shared = {
        .attr = { 8, 1, 0 }, .srq_type = IBV_SRQT_XRC, .xrcd = xrcd, .pd = pd,
        .cq = ibv_cq_ex_to_cq(other.cq),
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
                     IBV_SRQ_INIT_ATTR_PD,
    };
    struct ibv_srq *srq = ibv_create_srq_ex(context, &shared);
    CHECK(xrcd && srq);
    struct target target = { .srq = srq };
    one.qp = make_sender(&one, IBV_QPT_XRC_SEND);
    other.qp = make(&other, (struct ibv_qp_init_attr_ex){
        .qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
    });
    join(one.qp, other.qp->qp_num);
    join(other.qp, one.qp->qp_num);
    messages(&one, &other, &target);
    GIVES(ibv_destroy_qp(one.qp), 0);
    GIVES(ibv_destroy_qp(other.qp), 0);
    GIVES(ibv_destroy_srq(srq), 0);
    GIVES(ibv_close_xrcd(xrcd), 0);
    free_end(&one);
    free_end(&other);
}

/* Descriptors of the library at numbers that the program has closed can be in a set of epoll. */
static void reused_numbers(struct ibv_device *device) {
    enum { MANY = 32 };
    int closed[MANY], set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    for (int i = 0; i < MANY; i++)
        CHECK((closed[i] = dup(0)) > 0);
    for (int i = 0; i < MANY; i++)
        CHECK(close(closed[i]) == 0);
    struct ibv_context *other = ibv_open_device(device);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(other);
    CHECK(other && channel && channel->fd <= closed[MANY - 1]);
    GIVES(epoll_ctl(set, EPOLL_CTL_ADD, other->async_fd, &event), 0);
    GIVES(epoll_ctl(set, EPOLL_CTL_ADD, channel->fd, &event), 0);
    GIVES(epoll_wait(set, &event, 1, 0), 0);
    GIVES(ibv_destroy_comp_channel(channel), 0);
    GIVES(ibv_close_device(other), 0);
    CHECK(close(set) == 0);
}

int main(void) {
    struct ibv_device **devices = ibv_get_device_list(NULL);
    CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])));
    reused_numbers(devices[0]);
    ibv_free_device_list(devices);
    pd = ibv_alloc_pd(context);
    GIVES(ibv_query_port(context, 1, &port), 0);
    reliable();
    all_or_none();
    unreliable();
    threads();
    datagrams();
    chosen_queues();
    domains_of_files();
    no_domain_kept();
    GIVES(ibv_dealloc_pd(pd), 0);
    GIVES(ibv_close_device(context), 0);
    return finish("extended verbs");
}
