/* Connections of queue pairs by address and port, as the usual client and server make them, and
 * what goes wrong with them.
 *
 * `verbs-manager serve` serves until a client says that it was the last, `verbs-manager NAME` is the
 * client of the server at that name, `verbs-manager NAME die` has the server die. */
#include "library.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <unistd.h>

#define PORT "2071"
#define BYTES 4096

static struct rdma_event_channel *channel;

static struct ibv_qp_init_attr attributes(void) {
    return (struct ibv_qp_init_attr){
        .cap = { 8, 8, 1, 1, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
    };
}

static struct rdma_conn_param parameters(const char *words) {
    return (struct rdma_conn_param){
        .private_data = words, .private_data_len = (uint8_t)(strlen(words) + 1),
        .responder_resources = 3, .initiator_depth = 2, .retry_count = 7, .rnr_retry_count = 6,
    };
}

/* The next event, which is of this kind. */
static struct rdma_cm_event *event(enum rdma_cm_event_type kind) {
    struct rdma_cm_event *found;
    CHECK(rdma_get_cm_event(channel, &found) == 0);
    if (found->event != kind)
        printf("%s with status %d\n", rdma_event_str(found->event), found->status);
    CHECK(found->event == kind);
    return found;
}

/* Takes an event without looking at it. */
static void pass(enum rdma_cm_event_type kind) {
    struct rdma_cm_event *found = event(kind);
    CHECK(found->status == 0);
    CHECK(rdma_ack_cm_event(found) == 0);
}

/* ---- The server ---- */

static int is_last;

/* What a client may read, and where it may write. */
struct places {
    uint64_t read, write;
    uint32_t read_key, write_key;
};

static char readable[64] = "words of the server", writable[64];
static struct ibv_mr *offered[2];

static void offer(struct rdma_cm_id *id) {
    struct ibv_wc wc;
    offered[0] = rdma_reg_read(id, readable, sizeof readable);
    offered[1] = rdma_reg_write(id, writable, sizeof writable);
    CHECK(offered[0] && offered[1]);
    struct places places = { (uintptr_t)readable, (uintptr_t)writable, offered[0]->rkey,
                             offered[1]->rkey };
    CHECK(rdma_post_send(id, NULL, &places, sizeof places, NULL, IBV_SEND_INLINE) == 0);
    CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

/* The client has gone: it has written what it said. */
static void take_back(void) {
    if (!offered[0])
        return;
    CHECK(strcmp(writable, "words of the client") == 0);
    CHECK(rdma_dereg_mr(offered[0]) == 0 && rdma_dereg_mr(offered[1]) == 0);
    offered[0] = NULL;
}

/* Echoes the message of a connection. */
static void echo(struct rdma_cm_id *id) {
    struct ibv_wc wc;
    char *memory = id->context;
    CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    if (strcmp(memory, "die") == 0)
        _exit(0);
    if (strcmp(memory, "offer") == 0) {
        offer(id);
        return;
    }
    is_last = strcmp(memory, "last") == 0;
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, BYTES);
    CHECK(mr != NULL);
    CHECK(rdma_post_send(id, NULL, memory, wc.byte_len, mr, 0) == 0);
    CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    CHECK(rdma_dereg_mr(mr) == 0);
}

static void request(struct rdma_cm_event *asked) {
    struct rdma_cm_id *id = asked->id;
    const struct rdma_conn_param *param = &asked->param.conn;
    CHECK(id->verbs != NULL && id->context == asked->listen_id->context);
    CHECK(rdma_get_src_port(id) == htons(atoi(PORT)) && rdma_get_dst_port(id) != 0);
    /* What the peer answers is what this end may ask for. */
    CHECK(param->responder_resources == 2 && param->initiator_depth == 3);
    CHECK(param->retry_count == 7 && param->rnr_retry_count == 6 && param->qp_num != 0);
    if (strcmp(param->private_data, "no") == 0) {
        CHECK(rdma_reject(id, "busy", 5) == 0);
        CHECK(rdma_ack_cm_event(asked) == 0);
        CHECK(rdma_destroy_id(id) == 0);
        return;
    }
    CHECK(rdma_ack_cm_event(asked) == 0);
    struct ibv_qp_init_attr attr = attributes();
    CHECK(rdma_create_qp(id, NULL, &attr) == 0);
    CHECK(id->qp && id->pd && id->send_cq == attr.send_cq && id->recv_cq_channel);
    char *memory = aligned_alloc(4096, BYTES);
    id->context = memory;
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, BYTES);
    CHECK(rdma_post_recv(id, NULL, memory, BYTES, mr) == 0);
    struct rdma_conn_param answer = parameters("welcome");
    CHECK(rdma_accept(id, &answer) == 0);
    pass(RDMA_CM_EVENT_ESTABLISHED);
    echo(id);
    pass(RDMA_CM_EVENT_DISCONNECTED);
    take_back();
    CHECK(rdma_disconnect(id) == 0);
    rdma_destroy_qp(id);
    CHECK(rdma_dereg_mr(mr) == 0);
    CHECK(rdma_destroy_id(id) == 0);
    free(memory);
}

static int serve(void) {
    struct rdma_cm_id *listener = NULL, *other;
    struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE }, *found;
    CHECK(rdma_getaddrinfo(NULL, PORT, &hints, &found) == 0);
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(PORT)) };
    channel = rdma_create_event_channel();
    CHECK(channel && rdma_create_id(channel, &listener, &is_last, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(listener, (struct sockaddr *)&six) == 0);
    FAILS(rdma_bind_addr(listener, found->ai_src_addr), EINVAL);
    CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) == 0);
    FAILS(rdma_bind_addr(other, found->ai_src_addr), EADDRINUSE);
    CHECK(rdma_destroy_id(other) == 0);
    rdma_freeaddrinfo(found);
    CHECK(rdma_listen(listener, 4) == 0);
    while (!is_last)
        request(event(RDMA_CM_EVENT_CONNECT_REQUEST));
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(channel);
    return finish("the server of connections");
}

/* ---- The client ---- */

static struct rdma_addrinfo *server;

/* An id whose route to the server is known, with a queue pair. */
static struct rdma_cm_id *resolved(struct sockaddr *to) {
    struct rdma_cm_id *id;
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0 && id->verbs == NULL);
    struct ibv_qp_init_attr attr = attributes();
    FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
    CHECK(rdma_resolve_addr(id, NULL, to, 2000) == 0);
    pass(RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(id->verbs != NULL && id->port_num == 1);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
    CHECK(rdma_create_qp(id, NULL, &attr) == 0);
    FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
    CHECK(id->qp->state == IBV_QPS_INIT);
    return id;
}

static void end(struct rdma_cm_id *id) {
    rdma_destroy_qp(id);
    CHECK(id->qp == NULL && id->send_cq == NULL && id->recv_cq_channel == NULL);
    CHECK(rdma_destroy_id(id) == 0);
}

/* Sends a message over a new connection; whether the answer came. */
static void talk(const char *words, int has_answer) {
    struct rdma_cm_id *id = resolved(server->ai_dst_addr);
    char *memory = aligned_alloc(4096, BYTES);
    struct ibv_wc wc;
    strcpy(memory, words);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, BYTES);
    CHECK(mr && rdma_post_recv(id, NULL, memory + 64, 64, mr) == 0);
    struct rdma_conn_param param = parameters("yes");
    CHECK(rdma_connect(id, &param) == 0);
    struct rdma_cm_event *answer = event(RDMA_CM_EVENT_ESTABLISHED);
    CHECK(answer->id == id && strcmp(answer->param.conn.private_data, "welcome") == 0);
    CHECK(answer->param.conn.initiator_depth == 3 && answer->param.conn.responder_resources == 2);
    CHECK(rdma_ack_cm_event(answer) == 0);
    CHECK(id->qp->state == IBV_QPS_RTS);
    CHECK(rdma_post_send(id, (void *)7, memory, strlen(words) + 1, mr, 0) == 0);
    CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.wr_id == 7);
    if (has_answer) {
        CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
        CHECK(strcmp(memory + 64, words) == 0);
        CHECK(rdma_disconnect(id) == 0);
    }
    pass(RDMA_CM_EVENT_DISCONNECTED);
    CHECK(rdma_disconnect(id) == 0 && id->qp->state == IBV_QPS_ERR);
    CHECK(rdma_dereg_mr(mr) == 0);
    end(id);
    free(memory);
}

/* Reads and writes memory of the server. */
static void one_sided(void) {
    struct rdma_cm_id *id = resolved(server->ai_dst_addr);
    char *memory = aligned_alloc(4096, BYTES);
    struct ibv_wc wc;
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, BYTES);
    struct rdma_conn_param param = parameters("yes");
    CHECK(mr && rdma_post_recv(id, NULL, memory, 64, mr) == 0 && rdma_connect(id, &param) == 0);
    pass(RDMA_CM_EVENT_ESTABLISHED);
    CHECK(rdma_post_send(id, NULL, "offer", 6, NULL, IBV_SEND_INLINE) == 0);
    CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    struct places at;
    CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.byte_len == sizeof at);
    memcpy(&at, memory, sizeof at);
    CHECK(rdma_post_read(id, (void *)8, memory + 64, 64, mr, 0, at.read, at.read_key) == 0);
    CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.wr_id == 8 && wc.status == IBV_WC_SUCCESS);
    CHECK(wc.opcode == IBV_WC_RDMA_READ && strcmp(memory + 64, "words of the server") == 0);
    strcpy(memory + 128, "words of the client");
    CHECK(rdma_post_write(id, (void *)9, memory + 128, 64, mr, 0, at.write, at.write_key) == 0);
    CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.wr_id == 9 && wc.status == IBV_WC_SUCCESS);
    CHECK(rdma_disconnect(id) == 0);
    pass(RDMA_CM_EVENT_DISCONNECTED);
    CHECK(rdma_dereg_mr(mr) == 0);
    end(id);
    free(memory);
}

static void refused(void) {
    struct rdma_cm_id *id = resolved(server->ai_dst_addr);
    struct rdma_conn_param param = parameters("no");
    CHECK(rdma_connect(id, &param) == 0);
    struct rdma_cm_event *no = event(RDMA_CM_EVENT_REJECTED);
    CHECK(no->status == 28 && no->param.conn.private_data_len == 5);
    CHECK(strcmp(no->param.conn.private_data, "busy") == 0);
    CHECK(rdma_ack_cm_event(no) == 0);
    end(id);
    /* Nobody listens at the next port. */
    struct sockaddr_in nobody;
    memcpy(&nobody, server->ai_dst_addr, sizeof nobody);
    nobody.sin_port = htons(atoi(PORT) + 1);
    id = resolved((struct sockaddr *)&nobody);
    CHECK(rdma_connect(id, NULL) == 0);
    no = event(RDMA_CM_EVENT_REJECTED);
    CHECK(no->status == 8 && no->param.conn.private_data == NULL);
    CHECK(rdma_ack_cm_event(no) == 0);
    end(id);
    /* A node that is not there. */
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    nobody.sin_addr.s_addr = inet_addr("10.0.0.100");
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, 100) == 0);
    no = event(RDMA_CM_EVENT_ADDR_ERROR);
    CHECK(no->status == -EHOSTUNREACH && rdma_ack_cm_event(no) == 0);
    FAILS(rdma_resolve_route(id, 100), EINVAL);
    FAILS(rdma_connect(id, NULL), EINVAL);
    nobody.sin_family = 77;
    FAILS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, 100), EAFNOSUPPORT);
    CHECK(rdma_destroy_id(id) == 0);
}

/* The queue pair is the program's own: the id says what it is to be given with each state. */
static void enter(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state) {
    struct ibv_qp_attr attr = { .qp_state = state };
    int mask = 0;
    CHECK(rdma_init_qp_attr(id, &attr, &mask) == 0 && attr.qp_state == state);
    CHECK(ibv_modify_qp(qp, &attr, mask) == 0 && qp->state == state);
}

static void own_pair(void) {
    struct rdma_cm_id *id;
    struct ibv_wc wc;
    static char memory[BYTES];
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    struct ibv_qp_attr none = { .qp_state = IBV_QPS_INIT };
    int mask;
    FAILS(rdma_init_qp_attr(id, &none, &mask), EINVAL);
    CHECK(rdma_resolve_addr(id, NULL, server->ai_dst_addr, 2000) == 0);
    pass(RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
    struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = attributes();
    attr.send_cq = attr.recv_cq = cq;
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    CHECK(pd && cq && qp && mr);
    enter(id, qp, IBV_QPS_INIT);
    struct rdma_conn_param param = parameters("yes");
    param.qp_num = qp->qp_num;
    CHECK(rdma_connect(id, &param) == 0);
    struct rdma_cm_event *answer = event(RDMA_CM_EVENT_CONNECT_RESPONSE);
    CHECK(answer->status == 0 && strcmp(answer->param.conn.private_data, "welcome") == 0);
    CHECK(rdma_ack_cm_event(answer) == 0);
    enter(id, qp, IBV_QPS_RTR);
    enter(id, qp, IBV_QPS_RTS);
    struct ibv_sge parts[2] = { { (uintptr_t)memory, 7, mr->lkey },
                                { (uintptr_t)memory + 64, 64, mr->lkey } };
    struct ibv_recv_wr receive = { .sg_list = &parts[1], .num_sge = 1 }, *bad;
    struct ibv_send_wr send = { .sg_list = parts, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send;
    strcpy(memory, "my own");
    CHECK(ibv_post_recv(qp, &receive, &bad) == 0);
    CHECK(rdma_establish(id) == 0);
    CHECK(ibv_post_send(qp, &send, &bad_send) == 0);
    for (int found = 0; found < 2;)
        found += ibv_poll_cq(cq, 1, &wc);
    CHECK(wc.status == IBV_WC_SUCCESS && strcmp(memory + 64, "my own") == 0);
    CHECK(rdma_disconnect(id) == 0);
    pass(RDMA_CM_EVENT_DISCONNECTED);
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0);
    CHECK(ibv_dealloc_pd(pd) == 0 && rdma_destroy_id(id) == 0);
}

/* Receives come from a shared receive queue of the id. */
static void shared(void) {
    struct rdma_cm_id *id;
    struct ibv_wc wc;
    static char memory[BYTES];
    struct ibv_srq_init_attr of = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_srq_init_attr_ex untold = { .attr = { .max_wr = 4, .max_sge = 1 } };
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    FAILS(rdma_create_srq(id, NULL, &of), EINVAL);
    CHECK(rdma_resolve_addr(id, NULL, server->ai_dst_addr, 2000) == 0);
    pass(RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
    FAILS(rdma_create_srq_ex(id, &untold), EINVAL);
    CHECK(rdma_create_srq(id, NULL, &of) == 0 && id->srq && id->pd);
    FAILS(rdma_create_srq(id, NULL, &of), EINVAL);
    struct ibv_qp_init_attr plain = attributes();
    struct ibv_qp_init_attr_ex attr = {
        .cap = plain.cap, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = 1 << 30,
    };
    FAILS(rdma_create_qp_ex(id, &attr), EOPNOTSUPP);
    attr.comp_mask = attr.create_flags = 0;
    attr.send_cq = attr.recv_cq = NULL;
    CHECK(rdma_create_qp_ex(id, &attr) == 0 && id->qp->srq == id->srq && attr.pd == id->pd);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, sizeof memory);
    CHECK(mr && rdma_post_recv(id, (void *)11, memory + 64, 64, mr) == 0);
    struct rdma_conn_param param = parameters("yes");
    CHECK(rdma_connect(id, &param) == 0);
    pass(RDMA_CM_EVENT_ESTABLISHED);
    CHECK(rdma_post_send(id, NULL, "from a pool", 12, NULL, IBV_SEND_INLINE) == 0);
    CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.wr_id == 11);
    CHECK(strcmp(memory + 64, "from a pool") == 0);
    CHECK(rdma_disconnect(id) == 0);
    pass(RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_qp(id);
    rdma_destroy_srq(id);
    CHECK(id->srq == NULL && rdma_dereg_mr(mr) == 0 && rdma_destroy_id(id) == 0);
}

/* The calls wait, as the id has no channel. */
static void waiting(void) {
    struct ibv_qp_init_attr attr = attributes();
    struct rdma_conn_param param = parameters("yes");
    struct rdma_cm_id *id;
    struct ibv_wc wc;
    static char memory[BYTES];
    /* The address says of which type the queue pair is. */
    attr.qp_type = 0;
    CHECK(rdma_create_ep(&id, server, NULL, &attr) == 0 && id->qp && id->verbs);
    CHECK(attr.qp_type == IBV_QPT_RC);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, BYTES);
    CHECK(rdma_post_recv(id, NULL, memory, BYTES, mr) == 0);
    CHECK(rdma_connect(id, &param) == 0);
    CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
    CHECK(strcmp(id->event->param.conn.private_data, "welcome") == 0);
    CHECK(rdma_post_send(id, NULL, "inline", 7, NULL, IBV_SEND_INLINE) == 0);
    CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.byte_len == 7 && strcmp(memory, "inline") == 0);
    /* The second time there is nothing to wait for. */
    CHECK(rdma_disconnect(id) == 0 && id->event->event == RDMA_CM_EVENT_DISCONNECTED);
    CHECK(rdma_disconnect(id) == 0 && id->qp->state == IBV_QPS_ERR);
    CHECK(rdma_dereg_mr(mr) == 0);
    rdma_destroy_ep(id);
    param = parameters("no");
    /* The first one's completion queues stand in its attributes, as with rdma-core. */
    CHECK(attr.send_cq && attr.recv_cq);
    attr = attributes();
    CHECK(rdma_create_ep(&id, server, NULL, &attr) == 0);
    FAILS(rdma_connect(id, &param), ECONNREFUSED);
    rdma_destroy_ep(id);
}

static void mistakes(void) {
    struct rdma_cm_id *id;
    struct rdma_cm_event *none;
    struct rdma_addrinfo *found;
    FAILS(rdma_create_id(channel, &id, NULL, RDMA_PS_IB), EOPNOTSUPP);
    CHECK(rdma_getaddrinfo("no-such-name", PORT, NULL, &found) != 0);
    CHECK(rdma_getaddrinfo(NULL, "no-such-service", NULL, &found) != 0);
    CHECK(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
    FAILS(rdma_get_cm_event(channel, &none), EAGAIN);
    CHECK(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) & ~O_NONBLOCK) == 0);
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    struct sockaddr_in far = { .sin_family = AF_INET };
    far.sin_addr.s_addr = inet_addr("10.0.0.100");
    FAILS(rdma_bind_addr(id, (struct sockaddr *)&far), EADDRNOTAVAIL);
    FAILS(rdma_bind_addr(id, NULL), EINVAL);
    FAILS(rdma_disconnect(id), EINVAL);
    FAILS(rdma_accept(id, NULL), EINVAL);
    CHECK(rdma_destroy_id(id) == 0);
    int count;
    struct ibv_context **devices = rdma_get_devices(&count);
    CHECK(devices && count == 1 && devices[0] && devices[1] == NULL);
    rdma_free_devices(devices);
    struct rdma_cm_id without_queues = { 0 };
    struct ibv_wc wc;
    errno = 0;
    CHECK(rdma_get_send_comp(&without_queues, &wc) == -1 && errno == EINVAL);
    CHECK(strcmp(rdma_event_str(RDMA_CM_EVENT_REJECTED), "RDMA_CM_EVENT_REJECTED") == 0);
}

/* The first id that listens makes a thread: where that fails the port is still the id's. */
static void listen_again(void) {
    enum { MORE = 70000 };
    static int copies[MORE];
    int count = 0;
    struct rdma_cm_id *id;
    struct sockaddr_in any = { .sin_family = AF_INET };
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&any) == 0);
    uint16_t port = rdma_get_src_port(id);
    CHECK(port != 0);
    while (count < MORE && (copies[count] = dup(1)) >= 0)
        count++;
    FAILS(rdma_listen(id, 1), EMFILE);
    while (count > 0)
        close(copies[--count]);
    CHECK(rdma_listen(id, 1) == 0 && rdma_get_src_port(id) == port);
    CHECK(rdma_destroy_id(id) == 0);
}

/* More events than there are bytes in a pipe. */
static void many(void) {
    enum { MANY = 66000 };
    struct rdma_cm_id *id = resolved(server->ai_dst_addr);
    for (int i = 0; i < MANY; i++)
        CHECK(rdma_resolve_route(id, 1000) == 0);
    for (int i = 0; i < MANY; i++)
        pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
    end(id);
}

/* Waits until the server is there. */
static void reach(void) {
    int is_there = 0;
    while (!is_there) {
        struct rdma_cm_id *id = resolved(server->ai_dst_addr);
        struct rdma_conn_param param = parameters("no");
        struct rdma_cm_event *found = NULL;
        CHECK(rdma_connect(id, &param) == 0 && rdma_get_cm_event(channel, &found) == 0);
        CHECK(found->event == RDMA_CM_EVENT_REJECTED);
        is_there = found->status == 28;
        CHECK(rdma_ack_cm_event(found) == 0);
        end(id);
        usleep(is_there ? 0 : 100000);
    }
}

int main(int count, char **words) {
    if (count < 2)
        return 102;
    if (strcmp(words[1], "serve") == 0)
        return serve();
    channel = rdma_create_event_channel();
    int error = rdma_getaddrinfo(words[1], PORT, NULL, &server);
    CHECK(channel && error == 0);
    if (!channel || error)
        return finish("an address");
    listen_again();
    reach();
    if (count > 2) {
        talk("die", 0);
        return finish("the end of a server");
    }
    mistakes();
    many();
    talk("hello", 1);
    one_sided();
    own_pair();
    shared();
    refused();
    waiting();
    for (int round = 0; round < 20; round++)
        talk("again", 1);
    talk("last", 1);
    rdma_freeaddrinfo(server);
    rdma_destroy_event_channel(channel);
    return finish("connections");
}
