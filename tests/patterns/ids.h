/*
 * Ids of rdma_cm without queue pairs, whose connections the test makes in all ways, and peers that
 * do without the library. For programs with a macro CHECK.
 */
#ifndef IDS_H
#define IDS_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <scif.h>
#include <unistd.h>

/* Where listeners listen. */
static struct sockaddr_in own;

/* Waits until the library's thread has seen what was done. */
static void settle(void) { usleep(200000); }

/* The next event of a channel, which is of this kind and there soon; its id. */
static struct rdma_cm_id *next(struct rdma_event_channel *channel, enum rdma_cm_event_type kind,
                               int status) {
    struct rdma_cm_event *found;
    CHECK(rdma_get_cm_event(channel, &found) == 0);
    if (found->event != kind || found->status != status)
        printf("%s with status %d\n", rdma_event_str(found->event), found->status);
    CHECK(found->event == kind && found->status == status);
    struct rdma_cm_id *id = found->id;
    CHECK(rdma_ack_cm_event(found) == 0);
    return id;
}

/* Nothing waits in a channel, and it is not readable. */
static void is_quiet(struct rdma_event_channel *channel) {
    struct rdma_cm_event *none;
    struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
    settle();
    CHECK(poll(&wait, 1, 0) == 0);
    CHECK(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
    FAILS(rdma_get_cm_event(channel, &none), EAGAIN);
    CHECK(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) & ~O_NONBLOCK) == 0);
}

static struct rdma_cm_id *listening(struct rdma_event_channel *channel, int backlog) {
    struct rdma_cm_id *id;
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&own) == 0 && rdma_listen(id, backlog) == 0);
    return id;
}

/* Parameters of ids without queue pairs. */
static struct rdma_conn_param none = { .retry_count = 1 };

/* An id without a queue pair that has a route to the own node, and gets events. */
static struct rdma_cm_id *routed(struct rdma_event_channel *channel) {
    struct rdma_cm_id *id;
    CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&own, 2000) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0) == id);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0) == id);
    return id;
}

/* Such an id that asks for a connection. */
static struct rdma_cm_id *asking(struct rdma_event_channel *channel) {
    struct rdma_cm_id *id = routed(channel);
    CHECK(rdma_connect(id, &none) == 0);
    return id;
}

/* Kinds of frames. */
enum { REQUEST = 1, REPLY, REJECT, READY, DISCONNECT, NO_SERVICE = 9 };

/* Bytes of a peer that keeps to no rule: a frame of this kind without attributes. */
static void say(scif_epd_t peer, unsigned char kind) {
    unsigned char frame[20] = { 'R', 'D', 'C', 'M', kind };
    frame[16] = RDMA_PS_TCP & 0xff, frame[17] = RDMA_PS_TCP >> 8;
    CHECK(scif_send(peer, frame, sizeof frame, SCIF_SEND_BLOCK) == (int)sizeof frame);
}

/* Such a peer, which has asked for a connection. */
__attribute__((unused)) static scif_epd_t rude(void) {
    struct scif_portID to = { .port = ntohs(own.sin_port) };
    scif_epd_t peer = scif_open();
    CHECK(scif_get_nodeIDs(NULL, 0, &to.node) > 0);
    CHECK(peer != SCIF_OPEN_FAILED && scif_connect(peer, &to) >= 0);
    say(peer, REQUEST);
    return peer;
}

/* It has received a frame of this kind. */
__attribute__((unused)) static void hears(scif_epd_t peer, unsigned char kind) {
    unsigned char frame[20] = { 0 };
    CHECK(scif_recv(peer, frame, sizeof frame, SCIF_RECV_BLOCK) == (int)sizeof frame);
    CHECK(memcmp(frame, "RDCM", 4) == 0 && frame[4] == kind);
}

#endif
