/* A program with a connected queue pair forks: its children end in every way that a program can, and
 * the queue pair goes on. Each end has a context of its own, so that what is sent takes the way
 * between two programs. */
#include "library.h"
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 4096
#define STATUS 7

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    char *memory;
};

static struct end make(struct ibv_device *device) {
    struct end end = { .context = ibv_open_device(device) };
    CHECK(end.context && posix_memalign((void **)&end.memory, BYTES, BYTES) == 0);
    memset(end.memory, 0, BYTES);
    end.pd = ibv_alloc_pd(end.context);
    end.mr = ibv_reg_mr(end.pd, end.memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    end.cq = ibv_create_cq(end.context, 16, NULL, NULL, 0);
    CHECK(end.pd && end.mr && end.cq);
    struct ibv_qp_init_attr init = {
        .send_cq = end.cq, .recv_cq = end.cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    end.qp = ibv_create_qp(end.pd, &init);
    CHECK(end.qp != NULL);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    CHECK(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                           IBV_QP_ACCESS_FLAGS) == 0);
    return end;
}

static void join(struct end *end, uint32_t peer) {
    struct ibv_port_attr port;
    CHECK(ibv_query_port(end->context, 1, &port) == 0);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
        .ah_attr = { .dlid = port.lid, .port_num = 1 },
    };
    CHECK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                            IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    CHECK(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                            IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                            IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void completes(struct end *end, enum ibv_wc_opcode opcode) {
    struct ibv_wc wc;
    int count;
    for (long tries = 0; (count = ibv_poll_cq(end->cq, 1, &wc)) == 0; tries++) {
        if (tries > 100000000) {
            puts("verbs-fork: a completion does not come");
            exit(101);
        }
    }
    CHECK(count == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == opcode);
}

static void say(struct end *from, struct end *to, char word) {
    struct ibv_sge out = { (uintptr_t)from->memory, 64, from->mr->lkey };
    struct ibv_sge in = { (uintptr_t)to->memory, 64, to->mr->lkey };
    struct ibv_recv_wr receive = { 1, NULL, &in, 1 }, *unposted = NULL;
    struct ibv_send_wr send = { .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad = NULL;
    memset(from->memory, word, 64);
    CHECK(ibv_post_recv(to->qp, &receive, &unposted) == 0);
    CHECK(ibv_post_send(from->qp, &send, &bad) == 0);
    completes(to, IBV_WC_RECV);
    completes(from, IBV_WC_SEND);
    CHECK(to->memory[0] == word && to->memory[63] == word);
}

/* A child that ends as `end` says, with the status that it chooses. */
static void has_child(void (*end)(struct end *), struct end *of) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        end(of);
        exit(STATUS);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
}

static void ends(struct end *of) { (void)of; }

static void closes(struct end *of) { ibv_close_device(of->context); }

/* It opens the device itself, which its end closes. */
static void opens(struct end *of) {
    struct ibv_context *own = ibv_open_device(of->context->device);
    struct ibv_pd *pd = own ? ibv_alloc_pd(own) : NULL;
    if (pd == NULL)
        exit(STATUS + 1);
}

/* Its own context does not make the inherited one its own. */
static void opens_and_closes(struct end *of) {
    struct ibv_context *own = ibv_open_device(of->context->device);
    if (own == NULL || ibv_close_device(of->context) != 0 || ibv_close_device(own) != 0)
        exit(STATUS + 1);
}

int main(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(ibv_fork_init() == 0 && list && list[0]);
    struct end first = make(list[0]), second = make(list[0]);
    join(&first, second.qp->qp_num);
    join(&second, first.qp->qp_num);
    say(&first, &second, 'a');
    void (*const ways[])(struct end *) = { ends, closes, opens, opens_and_closes };
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        has_child(ways[i], &first);
        say(&first, &second, 'b' + i);
        say(&second, &first, 'b' + i);
    }
    struct end *both[] = { &first, &second };
    for (int i = 0; i < 2; i++) {
        CHECK(ibv_destroy_qp(both[i]->qp) == 0 && ibv_destroy_cq(both[i]->cq) == 0);
        CHECK(ibv_dereg_mr(both[i]->mr) == 0 && ibv_dealloc_pd(both[i]->pd) == 0);
        CHECK(ibv_close_device(both[i]->context) == 0);
    }
    ibv_free_device_list(list);
    return finish("children of verbs programs");
}
