/* Datagrams by address and port: a client asks where they go, and groups of receivers are joined by
 * their addresses.
 *
 * `verbs-unconnected serve` serves until a client says that it was the last, `verbs-unconnected NAME`
 * is the client of the server at that name, `verbs-unconnected NAME die` has the server die. */
#include "library.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <scif.h>
#include <stdlib.h>
#include <unistd.h>

#define PORT 2081
#define BYTES 256
#define GROUP "239.1.2.3"

static struct rdma_event_channel *channel;

/* The next event, which is of this kind and has this status. */
static struct rdma_cm_event *event(enum rdma_cm_event_type kind, int status) {
    struct rdma_cm_event *found;
    CHECK(rdma_get_cm_event(channel, &found) == 0);
    if (found->event != kind || found->status != status)
        printf("%s with status %d\n", rdma_event_str(found->event), found->status);
    CHECK(found->event == kind && found->status == status);
    return found;
}

static void pass(enum rdma_cm_event_type kind, int status) {
    CHECK(rdma_ack_cm_event(event(kind, status)) == 0);
}

/* There is no event. */
static void no_event(void) {
    struct rdma_cm_event *none;
    int flags = fcntl(channel->fd, F_GETFL);
    CHECK(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) == 0);
    FAILS(rdma_get_cm_event(channel, &none), EAGAIN);
    CHECK(fcntl(channel->fd, F_SETFL, flags) == 0);
}

/* An id with a queue pair and memory: the first half is sent, the second one received into. */
struct party {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    char *memory;
};

static void receive_next(struct party *of) {
    CHECK(rdma_post_recv(of->id, NULL, of->memory + BYTES, BYTES, of->mr) == 0);
}

static void arm_memory(struct party *of) {
    of->memory = aligned_alloc(4096, 4096);
    of->mr = rdma_reg_msgs(of->id, of->memory, 2 * BYTES);
    CHECK(of->mr != NULL);
    receive_next(of);
}

static void equip(struct party *of, struct rdma_cm_id *id) {
    struct ibv_qp_init_attr attr = {
        .cap = { 8, 8, 1, 1, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
    };
    of->id = id;
    FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
    attr.qp_type = IBV_QPT_UD;
    CHECK(rdma_create_qp(id, NULL, &attr) == 0);
    CHECK(id->qp && id->qp_type == IBV_QPT_UD && id->qp->state == IBV_QPS_RTS);
    arm_memory(of);
}

static void strip(struct party *of) {
    CHECK(rdma_dereg_mr(of->mr) == 0);
    rdma_destroy_qp(of->id);
    CHECK(rdma_destroy_id(of->id) == 0);
    free(of->memory);
}

static void send_words(struct party *of, const char *words, struct ibv_ah *ah, uint32_t number,
                       uint32_t key) {
    struct ibv_wc wc;
    struct ibv_sge part = { (uintptr_t)of->memory, (uint32_t)strlen(words) + 1, of->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = number;
    wr.wr.ud.remote_qkey = key;
    strcpy(of->memory, words);
    CHECK(ibv_post_send(of->id->qp, &wr, &bad) == 0);
    CHECK(rdma_get_send_comp(of->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

/* Waits for a datagram with these words; its completion. */
static struct ibv_wc await_words(struct party *of, const char *words) {
    struct ibv_wc wc = { 0 };
    CHECK(rdma_get_recv_comp(of->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    CHECK(wc.byte_len == 40 + strlen(words) + 1);
    CHECK(strcmp(of->memory + BYTES + 40, words) == 0);
    receive_next(of);
    return wc;
}

static struct sockaddr_in address_of(const char *text, int port) {
    struct sockaddr_in made = { .sin_family = AF_INET, .sin_port = htons(port) };
    CHECK(inet_pton(AF_INET, text, &made.sin_addr) == 1);
    return made;
}

/* ---- Groups ---- */

/* What is known of a group that an id has joined. */
struct group {
    struct ibv_ah *ah;
    uint32_t number, key;
};

static struct rdma_cm_id *resolved(enum rdma_port_space space, const struct sockaddr_in *to) {
    struct rdma_cm_id *id;
    CHECK(rdma_create_id(channel, &id, &failures, space) == 0 && id->ps == space);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)to, 2000) == 0);
    pass(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    CHECK(id->verbs && id->port_num == 1);
    return id;
}

/* Takes the event of a join. */
static struct group joined(struct party *of, const unsigned char *first) {
    struct rdma_cm_event *told = event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    struct rdma_ud_param *ud = &told->param.ud;
    CHECK(told->id == of->id && ud->private_data == of);
    CHECK(ud->ah_attr.is_global && memcmp(ud->ah_attr.grh.dgid.raw, first, 6) == 0);
    CHECK(ud->ah_attr.dlid >= 0xc000 && ud->qp_num == 0xffffff);
    struct group made = { ibv_create_ah(of->id->pd, &ud->ah_attr), ud->qp_num, ud->qkey };
    CHECK(made.ah != NULL);
    CHECK(rdma_ack_cm_event(told) == 0);
    return made;
}

static const unsigned char UDP_GROUP[] = { 0xff, 0x12, 0x40, 0x01, 0xff, 0xff };

static void join(struct party *of, enum rdma_cm_mc_join_flags how, struct group *group) {
    struct sockaddr_in to = address_of(GROUP, 0);
    equip(of, resolved(RDMA_PS_UDP, &to));
    struct rdma_cm_join_mc_attr_ex attr = {
        RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, how,
        (struct sockaddr *)&to,
    };
    CHECK(rdma_join_multicast_ex(of->id, &attr, of) == 0);
    *group = joined(of, UDP_GROUP);
    CHECK(group->key == RDMA_UDP_QKEY);
}

static void leave(struct party *of) {
    struct sockaddr_in to = address_of(GROUP, 0);
    CHECK(rdma_leave_multicast(of->id, (struct sockaddr *)&to) == 0);
    FAILS(rdma_leave_multicast(of->id, (struct sockaddr *)&to), EADDRNOTAVAIL);
}

/* ---- The server ---- */

static int is_last, heard;
static struct party member;

static void answer(struct rdma_cm_event *asked) {
    struct rdma_cm_id *id = asked->id;
    const char *words = asked->param.ud.private_data;
    struct party of;
    CHECK(id->ps == RDMA_PS_UDP && id->qp_type == IBV_QPT_UD && id->context == &failures);
    CHECK(asked->param.ud.private_data_len == strlen(words) + 1 && asked->param.ud.qp_num == 0);
    CHECK(rdma_get_src_port(id) == htons(PORT) && rdma_get_dst_port(id) != 0);
    if (strcmp(words, "die") == 0)
        _exit(0);
    is_last = strcmp(words, "last") == 0;
    if (strcmp(words, "no") == 0) {
        CHECK(rdma_reject(id, "busy", 5) == 0);
        CHECK(rdma_ack_cm_event(asked) == 0 && rdma_destroy_id(id) == 0);
        return;
    }
    if (strcmp(words, "heard") == 0) {
        char expected[24];
        snprintf(expected, sizeof expected, "to all %d", ++heard);
        await_words(&member, expected);
    }
    CHECK(rdma_ack_cm_event(asked) == 0);
    FAILS(rdma_accept(id, NULL), EINVAL);
    equip(&of, id);
    struct rdma_conn_param here = { .private_data = "here", .private_data_len = 5 };
    CHECK(rdma_accept(id, &here) == 0);
    /* It is answered once. */
    FAILS(rdma_accept(id, &here), EINVAL);
    FAILS(rdma_reject(id, NULL, 0), EINVAL);
    struct ibv_wc wc = await_words(&of, "a datagram");
    struct ibv_ah *ah = ibv_create_ah_from_wc(id->pd, &wc, (void *)(of.memory + BYTES), 1);
    CHECK(ah != NULL);
    send_words(&of, "an answer", ah, wc.src_qp, RDMA_UDP_QKEY);
    CHECK(ibv_destroy_ah(ah) == 0);
    strip(&of);
}

static int serve(void) {
    struct rdma_cm_id *listener;
    struct group group;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    channel = rdma_create_event_channel();
    CHECK(channel != NULL);
    join(&member, RDMA_MC_JOIN_FLAG_FULLMEMBER, &group);
    CHECK(rdma_create_id(channel, &listener, &failures, RDMA_PS_UDP) == 0);
    CHECK(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
    CHECK(rdma_listen(listener, 0) == 0);
    while (!is_last)
        answer(event(RDMA_CM_EVENT_CONNECT_REQUEST, 0));
    CHECK(rdma_destroy_id(listener) == 0);
    CHECK(ibv_destroy_ah(group.ah) == 0);
    /* Its end leaves the group. */
    strip(&member);
    rdma_destroy_event_channel(channel);
    return finish("the server of datagrams");
}

/* ---- The client ---- */

static struct sockaddr_in server;

static struct rdma_cm_id *asking(enum rdma_port_space space, const struct sockaddr_in *to) {
    struct rdma_cm_id *id = resolved(space, to);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    pass(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    return id;
}

static int ask(struct rdma_cm_id *id, const char *words) {
    struct rdma_conn_param param = {
        .private_data = words, .private_data_len = (uint8_t)(strlen(words) + 1),
    };
    return rdma_connect(id, &param);
}

/* Asks, sends a datagram there and takes the answer. */
static void talk(const char *words) {
    struct party of;
    equip(&of, asking(RDMA_PS_UDP, &server));
    CHECK(ask(of.id, words) == 0);
    FAILS(ask(of.id, words), EINVAL);
    struct rdma_cm_event *found = event(RDMA_CM_EVENT_ESTABLISHED, 0);
    struct rdma_ud_param ud = found->param.ud;
    CHECK(found->id == of.id && ud.private_data_len == 5);
    CHECK(strcmp(ud.private_data, "here") == 0);
    CHECK(ud.qp_num != 0 && ud.qkey == RDMA_UDP_QKEY && ud.ah_attr.dlid != 0);
    CHECK(rdma_ack_cm_event(found) == 0);
    struct ibv_ah *ah = ibv_create_ah(of.id->pd, &ud.ah_attr);
    CHECK(ah != NULL);
    send_words(&of, "a datagram", ah, ud.qp_num, ud.qkey);
    struct ibv_wc wc = await_words(&of, "an answer");
    CHECK(wc.src_qp == ud.qp_num);
    CHECK(ibv_destroy_ah(ah) == 0);
    /* There is no connection that could end. */
    FAILS(rdma_disconnect(of.id), EINVAL);
    CHECK(of.id->qp->state == IBV_QPS_ERR);
    no_event();
    strip(&of);
}

static void unreachable(enum rdma_port_space space, int port, int status) {
    struct sockaddr_in to = server;
    to.sin_port = htons(port);
    struct rdma_cm_id *id = asking(space, &to);
    CHECK(ask(id, "no") == 0);
    pass(RDMA_CM_EVENT_UNREACHABLE, status);
    CHECK(rdma_destroy_id(id) == 0);
}

static void refused(void) {
    /* By the program; nobody listens; nobody listens in this port space. */
    unreachable(RDMA_PS_UDP, PORT, 2);
    unreachable(RDMA_PS_UDP, PORT + 1, 1);
    unreachable(RDMA_PS_IPOIB, PORT, 1);
    struct rdma_cm_id *id = asking(RDMA_PS_TCP, &server);
    struct rdma_conn_param none = { .retry_count = 1 };
    CHECK(rdma_connect(id, &none) == 0);
    pass(RDMA_CM_EVENT_REJECTED, 8);
    CHECK(rdma_destroy_id(id) == 0);
}

/* The calls wait, as the id has no channel. */
static void waiting(void) {
    char port[8];
    struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP }, *found;
    struct ibv_qp_init_attr attr = { .cap = { 8, 8, 1, 1, 64 } };
    struct rdma_cm_id *id;
    struct ibv_wc wc;
    snprintf(port, sizeof port, "%d", PORT);
    CHECK(rdma_getaddrinfo(inet_ntoa(server.sin_addr), port, &hints, &found) == 0);
    CHECK(found->ai_qp_type == IBV_QPT_UD && found->ai_port_space == RDMA_PS_UDP);
    CHECK(rdma_create_ep(&id, found, NULL, &attr) == 0);
    CHECK(ask(id, "yes") == 0 && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
    struct rdma_ud_param *ud = &id->event->param.ud;
    struct ibv_ah *ah = ibv_create_ah(id->pd, &ud->ah_attr);
    static char words[40 + BYTES];
    struct ibv_mr *mr = rdma_reg_msgs(id, words, sizeof words);
    CHECK(ah && mr && rdma_post_recv(id, NULL, words, sizeof words, mr) == 0);
    CHECK(rdma_post_ud_send(id, NULL, "a datagram", 11, NULL, IBV_SEND_SIGNALED | IBV_SEND_INLINE,
                            ah, ud->qp_num) == 0);
    CHECK(rdma_get_recv_comp(id, &wc) == 1 && strcmp(words + 40, "an answer") == 0);
    CHECK(ibv_destroy_ah(ah) == 0 && rdma_dereg_mr(mr) == 0);
    rdma_destroy_ep(id);
    CHECK(rdma_create_ep(&id, found, NULL, NULL) == 0);
    FAILS(ask(id, "no"), 2);
    CHECK(id->event->event == RDMA_CM_EVENT_UNREACHABLE && id->event->status == 2);
    rdma_destroy_ep(id);
    rdma_freeaddrinfo(found);
}

/* The server hears what is sent to its group, and so does a member here, until it leaves. */
static void groups(void) {
    struct party sender, own;
    struct group to, of;
    struct ibv_wc wc;
    join(&sender, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, &to);
    join(&own, RDMA_MC_JOIN_FLAG_FULLMEMBER, &of);
    send_words(&sender, "to all 1", to.ah, to.number, to.key);
    await_words(&own, "to all 1");
    talk("heard");
    send_words(&own, "to all 2", of.ah, of.number, of.key);
    CHECK(await_words(&own, "to all 2").src_qp == own.id->qp->qp_num);
    talk("heard");
    leave(&own);
    send_words(&own, "to all 3", of.ah, of.number, of.key);
    talk("heard");
    CHECK(ibv_poll_cq(own.id->recv_cq, 1, &wc) == 0);
    CHECK(ibv_poll_cq(sender.id->recv_cq, 1, &wc) == 0);
    leave(&sender);
    CHECK(ibv_destroy_ah(to.ah) == 0 && ibv_destroy_ah(of.ah) == 0);
    strip(&sender);
    strip(&own);
}

/* A queue pair to which nothing comes back that it sends to its group. */
static void deaf_to_itself(void) {
    struct sockaddr_in to = address_of(GROUP, 0);
    struct ibv_qp_init_attr_ex attr = {
        .cap = { 8, 8, 1, 1, 64 }, .qp_type = IBV_QPT_UD, .sq_sig_all = 1,
        .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
        .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
    };
    struct party deaf = { .id = resolved(RDMA_PS_UDP, &to) }, other;
    struct group of, others;
    CHECK(rdma_create_qp_ex(deaf.id, &attr) == 0);
    arm_memory(&deaf);
    CHECK(rdma_join_multicast(deaf.id, (struct sockaddr *)&to, &deaf) == 0);
    of = joined(&deaf, UDP_GROUP);
    join(&other, RDMA_MC_JOIN_FLAG_FULLMEMBER, &others);
    send_words(&deaf, "to all 4", of.ah, of.number, of.key);
    await_words(&other, "to all 4");
    talk("heard");
    send_words(&other, "to all 5", others.ah, others.number, others.key);
    await_words(&other, "to all 5");
    /* The first one that comes. */
    await_words(&deaf, "to all 5");
    talk("heard");
    CHECK(ibv_destroy_ah(of.ah) == 0 && ibv_destroy_ah(others.ah) == 0);
    strip(&other);
    strip(&deaf);
    /* Connections have no groups. */
    struct rdma_cm_id *id = resolved(RDMA_PS_TCP, &server);
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = NULL;
    attr.pd = NULL;
    FAILS(rdma_create_qp_ex(id, &attr), EINVAL);
    CHECK(rdma_destroy_id(id) == 0);
}

/* Joins by an address and leaves again; the group is one that begins with these bytes. */
static void try_group(enum rdma_port_space space, void *address, const unsigned char *first) {
    struct sockaddr_in to = address_of(GROUP, 0);
    struct party of;
    equip(&of, resolved(space, &to));
    CHECK(rdma_join_multicast(of.id, address, &of) == 0);
    struct group group = joined(&of, first);
    CHECK(group.key == (space == RDMA_PS_UDP ? RDMA_UDP_QKEY : 0xb1b));
    CHECK(ibv_destroy_ah(group.ah) == 0);
    CHECK(rdma_leave_multicast(of.id, address) == 0);
    /* An event that was not taken goes with the group. */
    CHECK(rdma_join_multicast(of.id, address, &of) == 0);
    CHECK(rdma_leave_multicast(of.id, address) == 0);
    no_event();
    strip(&of);
}

static void kinds_of_groups(void) {
    struct sockaddr_in four = address_of(GROUP, 0), any = address_of("0.0.0.0", 0);
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    struct sockaddr_ib ib = { .sib_family = AF_IB };
    static const unsigned char ip[] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff };
    static const unsigned char udp_six[] = { 0xff, 0x12, 0x60, 0x01, 0xff, 0xff };
    static const unsigned char made[] = { 0xff, 0x12, 0xa0, 0x1b, 0xff, 0xff };
    static const unsigned char plain[] = { 0xff, 0x0e, 1, 2, 3, 4 };
    CHECK(inet_pton(AF_INET6, "ff05::1234", &six.sin6_addr) == 1);
    memcpy(ib.sib_addr.sib_raw, plain, sizeof plain);
    try_group(RDMA_PS_UDP, &four, UDP_GROUP);
    try_group(RDMA_PS_IPOIB, &four, ip);
    try_group(RDMA_PS_UDP, &six, udp_six);
    try_group(RDMA_PS_UDP, &any, made);
    try_group(RDMA_PS_UDP, &ib, plain);
    /* An identifier that only resembles those that subnet managers make. */
    CHECK(inet_pton(AF_INET6, "ff0e:a01b::1", &six.sin6_addr) == 1);
    try_group(RDMA_PS_UDP, &six, udp_six);
    struct rdma_cm_id *id;
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&six, 2000) == 0);
    pass(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    CHECK(id->verbs && rdma_get_peer_addr(id)->sa_family == AF_INET6);
    CHECK(!memcmp(&id->route.addr.dst_sin6.sin6_addr, &six.sin6_addr, 16));
    CHECK(rdma_destroy_id(id) == 0);
}

static void mistakes(void) {
    struct sockaddr_in to = address_of(GROUP, 0), node = address_of("10.0.0.1", 0);
    struct sockaddr_ib ib = { .sib_family = AF_IB, .sib_addr.sib_raw[0] = 0xfe };
    struct rdma_cm_id *id;
    FAILS(rdma_create_id(channel, &id, NULL, RDMA_PS_IB), EOPNOTSUPP);
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
    /* It has no device yet. */
    FAILS(rdma_join_multicast(id, (struct sockaddr *)&to, NULL), EINVAL);
    CHECK(rdma_destroy_id(id) == 0);
    id = resolved(RDMA_PS_TCP, &to);
    FAILS(rdma_join_multicast(id, (struct sockaddr *)&to, NULL), EINVAL);
    CHECK(rdma_destroy_id(id) == 0);
    id = resolved(RDMA_PS_UDP, &to);
    FAILS(rdma_join_multicast(id, (struct sockaddr *)&node, NULL), EINVAL);
    FAILS(rdma_join_multicast(id, (struct sockaddr *)&ib, NULL), EINVAL);
    FAILS(rdma_join_multicast(id, NULL, NULL), EINVAL);
    FAILS(rdma_leave_multicast(id, (struct sockaddr *)&to), EADDRNOTAVAIL);
    FAILS(rdma_leave_multicast(id, NULL), EINVAL);
    struct rdma_cm_join_mc_attr_ex attr = { 7, 0, (struct sockaddr *)&to };
    FAILS(rdma_join_multicast_ex(id, &attr, NULL), ENOTSUP);
    attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
    FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
    attr.comp_mask |= RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
    FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
    FAILS(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
    to.sin_family = 77;
    FAILS(rdma_join_multicast(id, (struct sockaddr *)&to, NULL), EINVAL);
    FAILS(rdma_disconnect(id), EINVAL);
    CHECK(rdma_destroy_id(id) == 0);
}

/* A program that makes its own queue pair puts it into the group itself. */
static void own_pair(void) {
    struct sockaddr_in to = address_of(GROUP, 0);
    struct party of = { .id = resolved(RDMA_PS_UDP, &to) };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
    int mask;
    CHECK(rdma_init_qp_attr(of.id, &attr, &mask) == 0);
    CHECK(mask == (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    CHECK(attr.qkey == RDMA_UDP_QKEY && attr.port_num == 1);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(rdma_init_qp_attr(of.id, &attr, &mask) == 0);
    CHECK(mask == (IBV_QP_STATE | IBV_QP_SQ_PSN));
    attr.qp_state = IBV_QPS_SQD;
    FAILS(rdma_init_qp_attr(of.id, &attr, &mask), EINVAL);
    CHECK(rdma_join_multicast(of.id, (struct sockaddr *)&to, &of) == 0);
    struct rdma_cm_event *told = event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    CHECK(told->param.ud.private_data == &of && rdma_ack_cm_event(told) == 0);
    CHECK(rdma_destroy_id(of.id) == 0);
}

/* What is refused leaves the attributes as they were; a queue pair ends though it is in a group. */
static void ends(void) {
    struct sockaddr_in to = address_of(GROUP, 0);
    struct party of = { .id = resolved(RDMA_PS_UDP, &to) };
    struct ibv_pd *pd = ibv_alloc_pd(of.id->verbs);
    struct ibv_qp_init_attr attr = {
        .cap = { 1u << 30, 8, 1, 1, 64 }, .qp_type = IBV_QPT_UD, .sq_sig_all = 1,
    };
    CHECK(of.id->pd && rdma_create_qp(of.id, pd, &attr) == -1 && !attr.send_cq && !attr.recv_cq);
    CHECK(of.id->pd != pd && !of.id->send_cq && !of.id->recv_cq_channel);
    attr.cap.max_send_wr = 8;
    CHECK(rdma_create_qp(of.id, pd, &attr) == 0 && of.id->pd == pd);
    CHECK(rdma_join_multicast(of.id, (struct sockaddr *)&to, &of) == 0);
    struct group group = joined(&of, UDP_GROUP);
    CHECK(ibv_destroy_ah(group.ah) == 0 && ibv_dealloc_pd(pd) == EBUSY);
    rdma_destroy_qp(of.id);
    CHECK(ibv_dealloc_pd(pd) == 0);
    CHECK(rdma_leave_multicast(of.id, (struct sockaddr *)&to) == 0);
    CHECK(rdma_destroy_id(of.id) == 0);
}

/* A listener of 2 whose program takes nothing refuses a third; when it ends, so do the others. */
static void full(void) {
    struct rdma_event_channel *silent = rdma_create_event_channel();
    struct sockaddr_in own = address_of("127.0.0.1", PORT + 2);
    struct rdma_cm_id *listener = NULL, *ids[3];
    CHECK(silent && rdma_create_id(silent, &listener, NULL, RDMA_PS_UDP) == 0);
    CHECK(rdma_bind_addr(listener, (struct sockaddr *)&own) == 0);
    CHECK(rdma_listen(listener, 2) == 0);
    /* It is no peer that could be answered, and goes on. */
    FAILS(rdma_reject(listener, NULL, 0), ENOTCONN);
    struct rdma_conn_param param = { .qp_num = 7 };
    FAILS(rdma_accept(listener, &param), EINVAL);
    for (int i = 0; i < 3; i++)
        ids[i] = asking(RDMA_PS_UDP, &own);
    for (int i = 0; i < 3; i++)
        CHECK(ask(ids[i], "nobody") == 0);
    pass(RDMA_CM_EVENT_UNREACHABLE, 2);
    CHECK(rdma_destroy_id(listener) == 0);
    for (int i = 0; i < 2; i++)
        pass(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        CHECK(rdma_destroy_id(ids[i]) == 0);
    rdma_destroy_event_channel(silent);
}

/* A peer that asks for a connection in a port space of datagrams is no peer: the server closes. */
static void hostile(void) {
    struct { char magic[4]; uint8_t kind, rest[7]; uint32_t number, space; } request = {
        { 'R', 'D', 'C', 'M' }, 1, { 0 }, 7, RDMA_PS_UDP,
    };
    uint16_t own;
    uint32_t host = ntohl(server.sin_addr.s_addr);
    CHECK(scif_get_node_ids(NULL, 0, &own) > 0);
    struct scif_port_id to = { host >> 24 == 127 ? own : (uint16_t)(host - 0x0a000001), PORT };
    scif_epd_t epd = scif_open();
    char byte;
    CHECK(epd >= 0 && scif_connect(epd, &to) > 0);
    CHECK(scif_send(epd, &request, sizeof request, SCIF_SEND_BLOCK) == sizeof request);
    FAILS(scif_recv(epd, &byte, 1, SCIF_RECV_BLOCK), ECONNRESET);
    CHECK(scif_close(epd) == 0);
}

/* Waits until the server is there. */
static void reach(void) {
    int is_there = 0;
    while (!is_there) {
        struct rdma_cm_id *id = asking(RDMA_PS_UDP, &server);
        struct rdma_cm_event *found = NULL;
        CHECK(ask(id, "no") == 0 && rdma_get_cm_event(channel, &found) == 0);
        CHECK(found->event == RDMA_CM_EVENT_UNREACHABLE);
        is_there = found->status == 2;
        CHECK(rdma_ack_cm_event(found) == 0 && rdma_destroy_id(id) == 0);
        usleep(is_there ? 0 : 100000);
    }
}

int main(int count, char **words) {
    if (count < 2)
        return 102;
    if (strcmp(words[1], "serve") == 0)
        return serve();
    struct addrinfo *found;
    channel = rdma_create_event_channel();
    if (!channel || getaddrinfo(words[1], NULL, NULL, &found) != 0)
        return 103;
    memcpy(&server, found->ai_addr, sizeof server);
    server.sin_port = htons(PORT);
    freeaddrinfo(found);
    reach();
    if (count > 2) {
        struct rdma_cm_id *id = asking(RDMA_PS_UDP, &server);
        CHECK(ask(id, "die") == 0);
        pass(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
        CHECK(rdma_destroy_id(id) == 0);
        return finish("the end of a server of datagrams");
    }
    mistakes();
    kinds_of_groups();
    own_pair();
    ends();
    full();
    hostile();
    talk("yes");
    refused();
    waiting();
    groups();
    deaf_to_itself();
    for (int round = 0; round < 20; round++)
        talk("again");
    talk("last");
    rdma_destroy_event_channel(channel);
    return finish("datagrams by address");
}
