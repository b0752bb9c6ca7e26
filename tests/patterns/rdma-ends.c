/* Both ends of connections by address: which ports and limits they see, what each is told of the
 * end, and ids that a child of fork makes. Client and server are in one program. */
#include "library.h"
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <scif.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT 2077
#define OTHER_PORT 2078
#define CLIENT_PORT 2100
#define BY_PROGRAM 28

static struct rdma_event_channel *client, *server;
static struct sockaddr_in own;

static struct ibv_qp_init_attr attributes(void) {
    return (struct ibv_qp_init_attr){ .cap = { 4, 4, 1, 1, 64 }, .qp_type = IBV_QPT_RC };
}

/* Whether the channel has an event, which may take this long to come. */
static int has_event(struct rdma_event_channel *channel, int milliseconds) {
    struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
    return poll(&wait, 1, milliseconds) == 1;
}

/* The next event, which is of this kind; the caller acknowledges it. Null if none comes. */
static struct rdma_cm_event *event(struct rdma_event_channel *channel,
                                   enum rdma_cm_event_type kind) {
    struct rdma_cm_event *found = NULL;
    CHECK(has_event(channel, 5000));
    if (!has_event(channel, 0) || rdma_get_cm_event(channel, &found) != 0)
        return NULL;
    if (found->event != kind)
        printf("%s with status %d\n", rdma_event_str(found->event), found->status);
    CHECK(found->event == kind);
    return found;
}

/* Takes an event of this kind; its id. */
static struct rdma_cm_id *next(struct rdma_event_channel *channel, enum rdma_cm_event_type kind) {
    struct rdma_cm_event *found = event(channel, kind);
    struct rdma_cm_id *id = found ? found->id : NULL;
    CHECK(found && rdma_ack_cm_event(found) == 0);
    return id;
}

static struct rdma_cm_id *listening(struct rdma_event_channel *channel, uint16_t port) {
    struct rdma_cm_id *id;
    struct sockaddr_in at = own;
    at.sin_port = htons(port);
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&at) == 0 && rdma_listen(id, 4) == 0);
    return id;
}

/* Resolves the address of the listener at a port, and makes a queue pair. */
static void resolve(struct rdma_cm_id *id, struct sockaddr_in *from, uint16_t port) {
    struct ibv_qp_init_attr attr = attributes();
    struct sockaddr_in to = own;
    to.sin_port = htons(port);
    CHECK(rdma_resolve_addr(id, (struct sockaddr *)from, (struct sockaddr *)&to, 2000) == 0);
    CHECK(next(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    CHECK(next(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
    CHECK(rdma_create_qp(id, NULL, &attr) == 0);
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *channel, uint16_t port) {
    struct rdma_cm_id *id;
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    resolve(id, NULL, port);
    return id;
}

/* The id of the next request, with a queue pair; null if none comes. */
static struct rdma_cm_id *asked(struct rdma_event_channel *channel) {
    struct ibv_qp_init_attr attr = attributes();
    struct rdma_cm_id *id = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    CHECK(id && rdma_create_qp(id, NULL, &attr) == 0);
    return id;
}

static void destroy(struct rdma_cm_id *id) {
    if (id && id->qp)
        rdma_destroy_qp(id);
    CHECK(id && rdma_destroy_id(id) == 0);
}

/* Ends a connection from the client's side. */
static void disconnect(struct rdma_cm_id *id, struct rdma_cm_id *peer) {
    CHECK(rdma_disconnect(id) == 0);
    CHECK(next(id->channel, RDMA_CM_EVENT_DISCONNECTED) == id);
    CHECK(peer && next(peer->channel, RDMA_CM_EVENT_DISCONNECTED) == peer);
    destroy(id);
    destroy(peer);
}

/* ---- A child of fork makes ids of its own ---- */

static struct rdma_conn_param plain = { .retry_count = 7, .rnr_retry_count = 7 };

/* The child asks its parent for a connection, and then itself. Its status is that of its checks. */
static void child(void) {
    /* What waits for ever ends the child. */
    alarm(10);
    failures = 0;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_event_channel *own_server = rdma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, PORT), *listener, *peer;
    CHECK(rdma_connect(id, &plain) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_ESTABLISHED) == id);
    CHECK(rdma_disconnect(id) == 0 && next(channel, RDMA_CM_EVENT_DISCONNECTED) == id);
    destroy(id);
    listener = listening(own_server, OTHER_PORT);
    id = resolved(channel, OTHER_PORT);
    CHECK(rdma_connect(id, &plain) == 0);
    peer = asked(own_server);
    CHECK(peer && rdma_accept(peer, &plain) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_ESTABLISHED) == id);
    CHECK(next(own_server, RDMA_CM_EVENT_ESTABLISHED) == peer);
    disconnect(id, peer);
    destroy(listener);
    exit(failures);
}

/* Accepts a client, which then ends the connection. */
static void serve_child(void) {
    struct rdma_cm_id *peer = asked(server);
    if (!peer)
        return;
    CHECK(rdma_accept(peer, &plain) == 0);
    CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED) == peer);
    CHECK(next(server, RDMA_CM_EVENT_DISCONNECTED) == peer);
    destroy(peer);
}

/* Its grandchild is in the same position. */
static void parent_and_child(void) {
    int status = -1;
    pid_t grandchild = fork();
    if (grandchild == 0)
        child();
    CHECK(grandchild > 0 && waitpid(grandchild, &status, 0) == grandchild && status == 0);
    child();
}

static void children(void) {
    struct rdma_cm_id *listener = listening(server, PORT), *id = resolved(client, PORT);
    CHECK(rdma_connect(id, &plain) == 0);
    struct rdma_cm_id *peer = asked(server);
    CHECK(rdma_accept(peer, &plain) == 0);
    CHECK(next(client, RDMA_CM_EVENT_ESTABLISHED) == id);
    CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED) == peer);
    for (int round = 0; round < 2; round++) {
        int status = -1;
        pid_t forked = fork();
        if (forked == 0)
            round == 0 ? child() : parent_and_child();
        for (int of = 0; of <= round; of++)
            serve_child();
        CHECK(forked > 0 && waitpid(forked, &status, 0) == forked);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    /* The parent's connection is as it was. */
    CHECK(!has_event(client, 0) && !has_event(server, 0));
    CHECK(id->qp->state == IBV_QPS_RTS && peer->qp->state == IBV_QPS_RTS);
    disconnect(id, peer);
    destroy(listener);
}

/* ---- One event for each end ---- */

/* The peer accepts, but the queue pair cannot be connected. */
static void cannot_connect(void) {
    struct rdma_cm_id *listener = listening(server, PORT), *id = resolved(client, PORT);
    CHECK(rdma_connect(id, &plain) == 0);
    struct rdma_cm_id *peer = asked(server);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    CHECK(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE) == 0);
    CHECK(rdma_accept(peer, &plain) == 0);
    CHECK(next(client, RDMA_CM_EVENT_CONNECT_ERROR) == id);
    CHECK(next(server, RDMA_CM_EVENT_REJECTED) == peer);
    CHECK(!has_event(client, 300) && !has_event(server, 0));
    CHECK(rdma_disconnect(id) == 0 && !has_event(client, 300));
    destroy(id);
    destroy(peer);
    destroy(listener);
}

/* Bytes of a peer that keeps to no rule: a frame of this kind without attributes. */
static void say(scif_epd_t peer, unsigned char kind) {
    unsigned char frame[20] = { 'R', 'D', 'C', 'M', kind };
    frame[16] = RDMA_PS_TCP & 0xff, frame[17] = RDMA_PS_TCP >> 8;
    CHECK(scif_send(peer, frame, sizeof frame, SCIF_SEND_BLOCK) == (int)sizeof frame);
}

/* Nobody has ended the connection that the peer says has ended. */
static void ends_what_was_not_ended(void) {
    enum { REQUEST = 1, DISCONNECTED = 6 };
    struct rdma_cm_id *listener = listening(server, PORT), *id;
    struct scif_portID to = { .port = PORT };
    CHECK(scif_get_nodeIDs(NULL, 0, &to.node) > 0);
    for (int accepts = 0; accepts < 2; accepts++) {
        scif_epd_t peer = scif_open();
        CHECK(peer != SCIF_OPEN_FAILED && scif_connect(peer, &to) >= 0);
        say(peer, REQUEST);
        id = next(server, RDMA_CM_EVENT_CONNECT_REQUEST);
        CHECK(!accepts || rdma_accept(id, &plain) == 0);
        say(peer, DISCONNECTED);
        struct rdma_cm_event *end = event(server, RDMA_CM_EVENT_REJECTED);
        CHECK(end && end->id == id && end->status == BY_PROGRAM && rdma_ack_cm_event(end) == 0);
        CHECK(!has_event(server, 300));
        destroy(id);
        CHECK(scif_close(peer) == 0);
    }
    destroy(listener);
}

/* ---- Limits and ports ---- */

/* A server that asks for all that there may be gets no more than its client allows. */
static void limits(void) {
    struct rdma_cm_id *listener = listening(server, PORT), *id = resolved(client, PORT);
    struct rdma_conn_param few = { .initiator_depth = 1, .responder_resources = 2 };
    struct rdma_conn_param all = {
        .initiator_depth = RDMA_MAX_INIT_DEPTH, .responder_resources = RDMA_MAX_RESP_RES,
    };
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    int mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
    CHECK(rdma_connect(id, &few) == 0);
    struct rdma_cm_id *peer = asked(server);
    CHECK(rdma_accept(peer, &all) == 0);
    CHECK(ibv_query_qp(peer->qp, &attr, mask, &init) == 0);
    CHECK(attr.max_rd_atomic == 2 && attr.max_dest_rd_atomic == 1);
    struct rdma_cm_event *answer = event(client, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(answer && answer->param.conn.initiator_depth == 1);
    CHECK(answer && answer->param.conn.responder_resources == 2);
    CHECK(answer && rdma_ack_cm_event(answer) == 0);
    CHECK(ibv_query_qp(id->qp, &attr, mask, &init) == 0);
    CHECK(attr.max_rd_atomic == 1 && attr.max_dest_rd_atomic == 2);
    CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED) == peer);
    disconnect(id, peer);
    destroy(listener);
}

/* The server sees the port that the client's id is bound to. */
static void ports(void) {
    enum { BINDS, RESOLVES_FROM, LEAVES_IT_OPEN, WAYS };
    struct rdma_cm_id *listener = listening(server, PORT);
    for (int way = 0; way < WAYS; way++) {
        struct rdma_cm_id *id;
        struct sockaddr_in from = own;
        from.sin_port = htons(CLIENT_PORT + way);
        CHECK(rdma_create_id(client, &id, NULL, RDMA_PS_TCP) == 0);
        CHECK(way != BINDS || rdma_bind_addr(id, (struct sockaddr *)&from) == 0);
        resolve(id, way == RESOLVES_FROM ? &from : NULL, PORT);
        uint16_t port = rdma_get_src_port(id);
        CHECK(way == LEAVES_IT_OPEN ? port != 0 : port == from.sin_port);
        /* It is taken from then on. */
        struct rdma_cm_id *other;
        from.sin_port = port;
        CHECK(rdma_create_id(client, &other, NULL, RDMA_PS_TCP) == 0);
        FAILS(rdma_bind_addr(other, (struct sockaddr *)&from), EADDRINUSE);
        FAILS(rdma_resolve_addr(other, (struct sockaddr *)&from, (struct sockaddr *)&own, 2000),
              EADDRINUSE);
        destroy(other);
        CHECK(rdma_connect(id, &plain) == 0);
        struct rdma_cm_id *peer = asked(server);
        CHECK(rdma_get_dst_port(peer) == port && rdma_get_src_port(peer) == htons(PORT));
        CHECK(rdma_accept(peer, &plain) == 0);
        CHECK(next(client, RDMA_CM_EVENT_ESTABLISHED) == id && rdma_get_src_port(id) == port);
        CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED) == peer);
        disconnect(id, peer);
    }
    destroy(listener);
}

int main(void) {
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = inet_addr("127.0.0.1");
    client = rdma_create_event_channel();
    server = rdma_create_event_channel();
    CHECK(client && server);
    children();
    cannot_connect();
    ends_what_was_not_ended();
    limits();
    ports();
    rdma_destroy_event_channel(client);
    rdma_destroy_event_channel(server);
    return finish("both ends of connections");
}
