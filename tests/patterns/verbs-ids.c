/* Ids of rdma_cm whose connections end before they are there, that move to another channel, and
 * whose events must not be taken for those of others: client and server in one program. */
#include "library.h"
#include "ids.h"
#include "waits.h"
#include <pthread.h>
#include <stdlib.h>

#define PORT 2075
#define BY_PROGRAM 28

/* Connects an id whose calls wait; the error number. */
static void *connect_waiting(void *unused) {
    struct rdma_cm_id *id;
    (void)unused;
    CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&own, 2000) == 0);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    intptr_t error = rdma_connect(id, &none) == 0 ? 0 : errno;
    CHECK(rdma_destroy_id(id) == 0);
    return (void *)error;
}

/* Who ends a connection before it has answered has refused it. */
static void ends_before_the_answer(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 4), *asked, *id;
    id = asking(channel);
    asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_destroy_id(asked) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == id);
    CHECK(rdma_destroy_id(id) == 0);
    /* The same for a call that waits. */
    pthread_t thread;
    void *error = NULL;
    CHECK(pthread_create(&thread, NULL, connect_waiting, NULL) == 0);
    CHECK(rdma_destroy_id(next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0)) == 0);
    CHECK(pthread_join(thread, &error) == 0 && (intptr_t)error == ECONNREFUSED);
    /* The listener goes with a request that nobody has taken. */
    id = asking(channel);
    settle();
    CHECK(rdma_destroy_id(listener) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == id);
    CHECK(rdma_destroy_id(id) == 0);
    /* The one that has asked goes before it is answered, and behind the answer. */
    listener = listening(server, 4);
    id = asking(channel);
    asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_destroy_id(id) == 0);
    CHECK(next(server, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == asked);
    FAILS(rdma_accept(asked, &none), ENOTCONN);
    CHECK(rdma_destroy_id(asked) == 0);
    id = asking(channel);
    asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_accept(asked, &none) == 0);
    settle();
    CHECK(rdma_destroy_id(id) == 0);
    CHECK(next(server, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == asked);
    CHECK(rdma_destroy_id(asked) == 0);
    /* A refusal is the end for who has said it. */
    id = asking(channel);
    asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_reject(asked, NULL, 0) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == id);
    CHECK(rdma_destroy_id(id) == 0);
    is_quiet(server);
    CHECK(rdma_destroy_id(asked) == 0 && rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
}

/* The next event of a channel refuses this id's connection, with these words. */
static void is_refused(struct rdma_event_channel *channel, struct rdma_cm_id *id,
                       const char *words) {
    struct rdma_cm_event *found;
    CHECK(rdma_get_cm_event(channel, &found) == 0);
    const struct rdma_conn_param *param = &found->param.conn;
    CHECK(found->event == RDMA_CM_EVENT_REJECTED && found->status == BY_PROGRAM);
    CHECK(found->id == id && param->private_data_len == strlen(words));
    CHECK(param->private_data && memcmp(param->private_data, words, strlen(words)) == 0);
    CHECK(rdma_ack_cm_event(found) == 0);
}

/* A request is answered once. Who has asked may refuse the answer until it has taken it. */
static void answers_once(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 4), *id = asking(channel);
    struct rdma_cm_id *asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    FAILS(rdma_accept(id, &none), EINVAL);
    CHECK(rdma_accept(asked, &none) == 0);
    FAILS(rdma_accept(asked, &none), EINVAL);
    FAILS(rdma_reject(asked, NULL, 0), EINVAL);
    CHECK(next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == id && rdma_establish(id) == 0);
    CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED, 0) == asked);
    FAILS(rdma_accept(asked, &none), EINVAL);
    FAILS(rdma_reject(asked, NULL, 0), EINVAL);
    FAILS(rdma_reject(id, NULL, 0), EINVAL);
    is_quiet(server);
    is_quiet(channel);
    CHECK(rdma_disconnect(id) == 0);
    CHECK(next(server, RDMA_CM_EVENT_DISCONNECTED, 0) == asked);
    CHECK(next(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == id);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(asked) == 0);

    for (int is_early = 0; is_early < 2; is_early++) {
        id = asking(channel);
        asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
        if (!is_early) {
            CHECK(rdma_accept(asked, &none) == 0);
            CHECK(next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == id);
        }
        CHECK(rdma_reject(id, "no more", 7) == 0);
        is_refused(server, asked, "no more");
        FAILS(rdma_reject(id, NULL, 0), ENOTCONN);
        FAILS(rdma_establish(id), ENOTCONN);
        is_quiet(channel);
        CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(asked) == 0);
    }
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
}

/* A client that says what only a server may say has no connection, and its server hears nothing of
 * one. */
static void answers_for_the_server(struct rdma_event_channel *channel) {
    static const unsigned char kinds[] = { REPLY, REJECT, NO_SERVICE };
    struct rdma_cm_id *listener = listening(channel, 4), *asked;
    for (unsigned i = 0; i < 2 * sizeof kinds; i++) {
        scif_epd_t peer = rude();
        asked = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
        if (i % 2 == 0) {
            say(peer, kinds[i / 2]);
            CHECK(next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == asked);
            FAILS(rdma_accept(asked, &none), ENOTCONN);
        } else {
            /* Nor does one that refuses. */
            CHECK(rdma_reject(asked, NULL, 0) == 0);
            say(peer, kinds[i / 2]);
        }
        is_quiet(channel);
        CHECK(rdma_destroy_id(asked) == 0 && scif_close(peer) == 0);
    }
    CHECK(rdma_destroy_id(listener) == 0);
}

/* Connects to a listener; the listener's id of the connection. */
static struct rdma_cm_id *connected(struct rdma_event_channel *channel,
                                    struct rdma_event_channel *server, struct rdma_cm_id *id) {
    struct rdma_cm_id *asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_accept(asked, &none) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == id && rdma_establish(id) == 0);
    CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED, 0) == asked);
    return asked;
}

/* A connection that is there ends with its peer. */
static void ends_later(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 4), *id = asking(channel);
    struct rdma_cm_id *asked = connected(channel, server, id);
    CHECK(rdma_destroy_id(id) == 0);
    CHECK(next(server, RDMA_CM_EVENT_DISCONNECTED, 0) == asked);
    CHECK(rdma_destroy_id(asked) == 0 && rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
}

/* What happens to a connection before its id is made is not taken for the listener's. */
static void one_is_not_the_other(struct rdma_event_channel *channel) {
    struct rdma_cm_id *listener = listening(NULL, 4), *first, *second, *asked[2];
    first = asking(channel);
    settle();
    CHECK(rdma_destroy_id(first) == 0);
    settle();
    second = asking(channel);
    CHECK(rdma_get_request(listener, &asked[0]) == 0);
    CHECK(rdma_get_request(listener, &asked[1]) == 0);
    /* The end of the first one waits for its next call. */
    FAILS(rdma_accept(asked[0], &none), ENOTCONN);
    CHECK(rdma_reject(asked[1], NULL, 0) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == second);
    for (int i = 0; i < 2; i++)
        CHECK(rdma_destroy_id(asked[i]) == 0);
    CHECK(rdma_destroy_id(second) == 0 && rdma_destroy_id(listener) == 0);
}

/* Events that wait move with their id. */
static void moves(struct rdma_event_channel *channel) {
    struct rdma_event_channel *former = rdma_create_event_channel();
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *id, *other, *listener = listening(former, 4);
    CHECK(rdma_create_id(former, &other, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(other, NULL, (struct sockaddr *)&own, 2000) == 0);
    id = asking(channel);
    settle();
    CHECK(rdma_migrate_id(listener, server) == 0);
    struct rdma_cm_id *asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    /* Those of others stay. */
    CHECK(next(former, RDMA_CM_EVENT_ADDR_RESOLVED, 0) == other);
    is_quiet(former);
    /* What comes later goes there, too. */
    CHECK(rdma_destroy_id(id) == 0);
    CHECK(next(server, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == asked);
    CHECK(rdma_destroy_id(asked) == 0);
    /* An id whose calls wait from now on. */
    CHECK(rdma_resolve_route(other, 2000) == 0 && rdma_migrate_id(other, NULL) == 0);
    CHECK(next(other->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0) == other);
    is_quiet(former);
    CHECK(rdma_destroy_id(other) == 0 && rdma_destroy_id(listener) == 0);
    /* An event that nobody has taken goes with its id. */
    CHECK(rdma_create_id(former, &other, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(other, NULL, (struct sockaddr *)&own, 2000) == 0);
    CHECK(rdma_destroy_id(other) == 0);
    is_quiet(former);
    rdma_destroy_event_channel(former);
    rdma_destroy_event_channel(server);
}

/* As with rdma-core an id that is bound to the own node's loopback address has no device: it listens
 * as one that is bound to all addresses. */
static void loopback(struct rdma_event_channel *channel) {
    struct rdma_cm_id *id;
    struct sockaddr_in to = { .sin_family = AF_INET };
    to.sin_addr.s_addr = inet_addr("127.0.0.1");
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&to) == 0);
    CHECK(id->verbs == NULL && id->pd == NULL && rdma_get_src_port(id) != 0);
    CHECK(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr == to.sin_addr.s_addr);
    CHECK(rdma_listen(id, 1) == 0 && rdma_destroy_id(id) == 0);
    to.sin_addr.s_addr = inet_addr("10.0.0.1");
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&to) == 0);
    CHECK(id->verbs != NULL && id->pd != NULL && rdma_destroy_id(id) == 0);
}

/* More retries than three bits hold are as many as they hold. */
static void retries(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 1), *id = routed(channel);
    struct rdma_conn_param many = { .retry_count = 15, .rnr_retry_count = 200 };
    struct rdma_cm_event *request;
    int is_asked = rdma_connect(id, &many) == 0;
    CHECK(is_asked);
    if (is_asked) {
        CHECK(rdma_get_cm_event(server, &request) == 0);
        CHECK(request->param.conn.retry_count == 7 && request->param.conn.rnr_retry_count == 7);
        struct rdma_cm_id *asked = request->id;
        CHECK(rdma_ack_cm_event(request) == 0);
        CHECK(rdma_reject(asked, NULL, 0) == 0 && rdma_destroy_id(asked) == 0);
        CHECK(next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == id);
    }
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
}

/* An address of a result is this one, in a block of its own. */
static int is(const struct sockaddr *found, socklen_t length, const struct sockaddr_in *wanted) {
    return found && (const void *)found != wanted && length == sizeof *wanted &&
           memcmp(found, wanted, sizeof *wanted) == 0;
}

/* Without a name and a service the hints are the result, and the program may change results and
 * make some itself: all that they lead to are blocks of malloc. */
static void addresses(void) {
    struct sockaddr_in from = { .sin_family = AF_INET };
    struct rdma_addrinfo *found, *made, *next, hints = { .ai_port_space = RDMA_PS_TCP };
    from.sin_addr.s_addr = inet_addr("10.0.0.1");
    hints.ai_src_addr = (struct sockaddr *)&from;
    hints.ai_dst_addr = (struct sockaddr *)&own;
    hints.ai_src_len = hints.ai_dst_len = sizeof own;
    CHECK(rdma_getaddrinfo(NULL, NULL, &hints, &found) == 0);
    CHECK(found->ai_port_space == RDMA_PS_TCP && found->ai_next == NULL);
    CHECK(is(found->ai_src_addr, found->ai_src_len, &from));
    CHECK(is(found->ai_dst_addr, found->ai_dst_len, &own));
    rdma_freeaddrinfo(found);
    CHECK(rdma_getaddrinfo("127.0.0.1", "2075", &hints, &found) == 0);
    CHECK(found->ai_qp_type == IBV_QPT_RC && found->ai_family == AF_INET);
    CHECK(is(found->ai_src_addr, found->ai_src_len, &from));
    CHECK(is(found->ai_dst_addr, found->ai_dst_len, &own));
    free(found->ai_src_addr);
    found->ai_src_addr = malloc(sizeof own);
    CHECK(found->ai_src_addr != NULL);
    rdma_freeaddrinfo(found);
    hints.ai_flags = RAI_PASSIVE;
    CHECK(rdma_getaddrinfo(NULL, "2075", &hints, &found) == 0);
    CHECK(((struct sockaddr_in *)found->ai_src_addr)->sin_port == own.sin_port);
    CHECK(found->ai_dst_addr == NULL && found->ai_dst_len == 0);
    rdma_freeaddrinfo(found);
    /* The type of the queue pair chooses the port space. */
    struct rdma_addrinfo of_type = { .ai_qp_type = IBV_QPT_UD };
    CHECK(rdma_getaddrinfo("127.0.0.1", "2075", &of_type, &found) == 0);
    CHECK(found->ai_port_space == RDMA_PS_UDP && found->ai_qp_type == IBV_QPT_UD);
    rdma_freeaddrinfo(found);
    made = calloc(1, sizeof *made), next = calloc(1, sizeof *next);
    CHECK(made && next);
    made->ai_src_addr = malloc(sizeof own), made->ai_next = next;
    next->ai_dst_addr = malloc(3), next->ai_dst_canonname = strdup("name");
    rdma_freeaddrinfo(made);
    rdma_freeaddrinfo(NULL);
    hints.ai_src_addr = NULL;
    CHECK(rdma_getaddrinfo(NULL, NULL, &hints, &found) == -1 && errno == EINVAL);
    CHECK(rdma_getaddrinfo(NULL, NULL, NULL, &found) == -1 && errno == EINVAL);
}

/* An id with a queue pair that asks for a connection; the address is resolved. */
static struct rdma_cm_id *resolved(struct rdma_event_channel *channel, struct ibv_qp_init_attr *attr) {
    struct rdma_cm_id *id = routed(channel);
    if (attr)
        CHECK(rdma_create_qp(id, NULL, attr) == 0);
    return id;
}

static const struct ibv_qp_init_attr reliable = {
    .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
};

/* Posts a receive to the queue pair of an id. */
static void post(struct rdma_cm_id *id) {
    struct ibv_recv_wr request = { 0 }, *bad;
    CHECK(ibv_req_notify_cq(id->recv_cq, 0) == 0);
    CHECK(ibv_post_recv(id->qp, &request, &bad) == 0);
}

/* That receive was flushed, and the completion queue's event has its id. */
static void is_flushed(struct rdma_cm_id *id) {
    struct ibv_wc completion;
    struct ibv_cq *cq;
    void *of;
    int count = ibv_poll_cq(id->recv_cq, 1, &completion);
    CHECK(count == 1 && completion.status == IBV_WC_WR_FLUSH_ERR);
    if (count != 1)
        return;
    CHECK(ibv_get_cq_event(id->recv_cq_channel, &cq, &of) == 0);
    CHECK(cq == id->recv_cq && of == id);
    ibv_ack_cq_events(cq, 1);
}

static void end_with_queue_pair(struct rdma_cm_id *id) {
    rdma_destroy_qp(id);
    CHECK(rdma_destroy_id(id) == 0);
}

/* The queue pair of an id whose connection was refused, or whose answer comes too late, is in the
 * error state. */
static void refused_are_flushed(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 4), *asked, *id;
    struct ibv_qp_init_attr attr = reliable;
    id = resolved(channel, &attr);
    CHECK(id->send_cq->cq_context == id && id->recv_cq->cq_context == id);
    post(id);
    CHECK(rdma_connect(id, NULL) == 0);
    asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_reject(asked, NULL, 0) == 0 && rdma_destroy_id(asked) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == id);
    is_flushed(id);
    end_with_queue_pair(id);
    id = asking(channel);
    asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    attr = reliable;
    CHECK(rdma_create_qp(asked, NULL, &attr) == 0);
    post(asked);
    CHECK(rdma_destroy_id(id) == 0);
    settle();
    FAILS(rdma_accept(asked, NULL), ENOTCONN);
    is_flushed(asked);
    CHECK(next(server, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == asked);
    end_with_queue_pair(asked);
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
}

static int retries_of(struct rdma_cm_id *id) {
    struct ibv_qp_attr attr = { 0 };
    struct ibv_qp_init_attr init;
    CHECK(ibv_query_qp(id->qp, &attr, IBV_QP_RETRY_CNT, &init) == 0);
    return attr.retry_cnt;
}

/* Both queue pairs try as often as the one that asks wants. */
static void asker_chooses_retries(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 4);
    struct rdma_conn_param few = { .retry_count = 3 }, many = { .retry_count = 6 };
    struct rdma_conn_param *answers[] = { &many, &none, NULL };
    for (int i = 0; i < 3; i++) {
        struct ibv_qp_init_attr attr = reliable, other = reliable;
        struct rdma_cm_id *id = resolved(channel, &attr), *asked;
        CHECK(rdma_connect(id, &few) == 0);
        asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
        CHECK(rdma_create_qp(asked, NULL, &other) == 0 && rdma_accept(asked, answers[i]) == 0);
        CHECK(next(channel, RDMA_CM_EVENT_ESTABLISHED, 0) == id);
        CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED, 0) == asked);
        CHECK(retries_of(id) == 3 && retries_of(asked) == 3);
        end_with_queue_pair(asked);
        CHECK(next(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == id);
        end_with_queue_pair(id);
    }
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
}

/* Where an id is, in words of InfiniBand: both ends are this node. */
static void is_here(struct rdma_cm_id *id, int has_peer) {
    struct rdma_ib_addr *found = &id->route.addr.addr.ibaddr;
    union ibv_gid gid, none = { { 0 } };
    uint16_t pkey;
    CHECK(id->verbs && ibv_query_gid(id->verbs, 1, 0, &gid) == 0);
    CHECK(id->verbs && ibv_query_pkey(id->verbs, 1, 0, &pkey) == 0);
    CHECK(memcmp(&found->sgid, &gid, sizeof gid) == 0 && found->pkey == pkey);
    CHECK(memcmp(&found->dgid, has_peer ? &gid : &none, sizeof gid) == 0);
}

static void places(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 4), *id = asking(channel);
    struct rdma_cm_id *asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    struct sockaddr_in to = { .sin_family = AF_INET };
    is_here(id, 1);
    is_here(asked, 1);
    CHECK(rdma_destroy_id(asked) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM) == id);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
    to.sin_addr.s_addr = inet_addr("10.0.0.1");
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&to) == 0);
    is_here(id, 0);
    CHECK(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(server);
}

/* Calls that are refused as rdma-core refuses them. */
static void arguments(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 4), *id = resolved(channel, NULL), *asked;
    struct rdma_conn_param param = { .responder_resources = 129, .retry_count = 1 };
    struct ibv_qp_init_attr attr = reliable;
    /* Without a queue pair there are no parameters to choose. */
    FAILS(rdma_connect(id, NULL), EINVAL);
    FAILS(rdma_connect(id, &param), EINVAL);
    param.responder_resources = 254;
    FAILS(rdma_connect(id, &param), EINVAL);
    param.responder_resources = 0, param.initiator_depth = 129;
    FAILS(rdma_connect(id, &param), EINVAL);
    /* The largest number stands for as many as there are. */
    param.responder_resources = param.initiator_depth = 255;
    CHECK(rdma_connect(id, &param) == 0);
    asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    FAILS(rdma_accept(asked, NULL), EINVAL);
    param.initiator_depth = 129;
    FAILS(rdma_accept(asked, &param), EINVAL);
    CHECK(rdma_create_qp(asked, NULL, &attr) == 0);
    CHECK(rdma_accept(asked, NULL) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == id);
    /* The library says for ids with queue pairs that they are connected. */
    FAILS(rdma_establish(asked), EINVAL);
    CHECK(rdma_establish(id) == 0);
    CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED, 0) == asked);
    end_with_queue_pair(asked);
    CHECK(next(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == id);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
    /* It has a channel of its own already. */
    CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
    FAILS(rdma_migrate_id(id, NULL), EINVAL);
    CHECK(rdma_destroy_id(id) == 0);
}

/* What the waits use: nothing ever comes by them. */
static struct ibv_context *device;
static struct ibv_comp_channel *no_completions;
static struct rdma_event_channel *no_events;
static struct rdma_cm_id *no_requests;

static int wait_by(int way) {
    struct ibv_async_event event;
    struct rdma_cm_event *found;
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    void *of;
    switch (way) {
    case 0: return ibv_get_cq_event(no_completions, &cq, &of);
    case 1: return ibv_get_async_event(device, &event);
    case 2: return rdma_get_cm_event(no_events, &found);
    case 3: return rdma_get_request(no_requests, &id);
    }
    CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&own, 2000) == 0);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    int result = rdma_connect(id, &none), error = errno;
    CHECK(rdma_destroy_id(id) == 0);
    errno = error;
    return result;
}

/* Other threads and signals end calls that wait. */
static void waits(void) {
    struct ibv_context **devices = rdma_get_devices(NULL);
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 8);
    struct sockaddr_in any = { .sin_family = AF_INET };
    CHECK(devices && server && (device = devices[0]));
    /* The port's events, if the driver has died. */
    struct ibv_async_event event;
    CHECK(fcntl(device->async_fd, F_SETFL, fcntl(device->async_fd, F_GETFL) | O_NONBLOCK) == 0);
    while (ibv_get_async_event(device, &event) == 0)
        ibv_ack_async_event(&event);
    CHECK(errno == EAGAIN);
    CHECK(fcntl(device->async_fd, F_SETFL, fcntl(device->async_fd, F_GETFL) & ~O_NONBLOCK) == 0);
    CHECK((no_completions = ibv_create_comp_channel(device)) != NULL);
    struct ibv_cq *cq = ibv_create_cq(device, 4, NULL, no_completions, 0);
    CHECK(cq && ibv_req_notify_cq(cq, 0) == 0);
    CHECK((no_events = rdma_create_event_channel()) != NULL);
    CHECK(rdma_create_id(NULL, &no_requests, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(no_requests, (struct sockaddr *)&any) == 0);
    CHECK(rdma_listen(no_requests, 1) == 0);
    end_waits(wait_by, 5);
    CHECK(rdma_destroy_id(no_requests) == 0 && rdma_destroy_id(listener) == 0);
    CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(no_completions) == 0);
    rdma_destroy_event_channel(no_events);
    rdma_destroy_event_channel(server);
    rdma_free_devices(devices);
}

/* As many connections as there may be wait for a listener whose program names none. */
static void no_backlog(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 0), *ids[8];
    for (int i = 0; i < 8; i++)
        ids[i] = asking(channel);
    for (int i = 0; i < 8; i++)
        CHECK(rdma_destroy_id(next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0)) == 0);
    for (int i = 0; i < 8; i++)
        next(channel, RDMA_CM_EVENT_REJECTED, BY_PROGRAM);
    for (int i = 0; i < 8; i++)
        CHECK(rdma_destroy_id(ids[i]) == 0);
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(server);
}

/* The library's thread gets over the death of the SCIF driver, after which ids can be connected as
 * before. */
static void survive(struct rdma_event_channel *channel) {
    struct rdma_event_channel *server = rdma_create_event_channel();
    struct rdma_cm_id *listener = listening(server, 4), *id = asking(channel);
    struct rdma_cm_id *asked = connected(channel, server, id);
    FILE *begun = fopen("/tmp/verbs-ids-begun", "w");
    CHECK(begun && fclose(begun) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == id);
    CHECK(next(server, RDMA_CM_EVENT_DISCONNECTED, 0) == asked);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(asked) == 0);
    CHECK(rdma_destroy_id(listener) == 0);
    int is_back = 0;
    for (int i = 0; i < 600 && !is_back; i++) {
        CHECK(rdma_create_id(server, &listener, NULL, RDMA_PS_TCP) == 0);
        is_back = rdma_bind_addr(listener, (struct sockaddr *)&own) == 0;
        CHECK(rdma_destroy_id(listener) == 0);
        usleep(100000);
    }
    CHECK(is_back);
    rdma_destroy_event_channel(server);
}

int main(int count, char **words) {
    own.sin_family = AF_INET;
    own.sin_port = htons(PORT);
    own.sin_addr.s_addr = inet_addr("127.0.0.1");
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel != NULL);
    if (count > 1 && strcmp(words[1], "survive") == 0)
        survive(channel);
    ends_before_the_answer(channel);
    ends_later(channel);
    answers_for_the_server(channel);
    answers_once(channel);
    one_is_not_the_other(channel);
    moves(channel);
    no_backlog(channel);
    loopback(channel);
    retries(channel);
    addresses();
    refused_are_flushed(channel);
    asker_chooses_retries(channel);
    places(channel);
    arguments(channel);
    waits();
    rdma_destroy_event_channel(channel);
    return finish("ids of connections");
}
