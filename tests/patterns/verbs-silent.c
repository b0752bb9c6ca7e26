/* Peers of rdma_cm that live and say nothing any more: what waits for their answers ends after a
 * minute. This program takes as long. */
#include "library.h"
#include "ids.h"
#include <pthread.h>

#define PORT 2091

static struct rdma_event_channel *channel, *server;

/* The peer that asks next is accepted and ready. */
static struct rdma_cm_id *with(scif_epd_t peer) {
    struct rdma_cm_id *id = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_accept(id, &none) == 0);
    hears(peer, REPLY);
    say(peer, READY);
    CHECK(next(server, RDMA_CM_EVENT_ESTABLISHED, 0) == id);
    return id;
}

/* Ids with a connection; that of the server's side. */
static struct rdma_cm_id *connect_to(struct rdma_cm_id *asked, struct rdma_cm_id *id,
                                     struct rdma_event_channel *of) {
    CHECK(rdma_accept(asked, &none) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == id && rdma_establish(id) == 0);
    CHECK(next(of, RDMA_CM_EVENT_ESTABLISHED, 0) == asked);
    return asked;
}

/* Connections that are there end when the program wants it. */
static void ends(struct rdma_cm_id *id, struct rdma_cm_id *asked, struct rdma_event_channel *of) {
    CHECK(rdma_disconnect(asked) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == id);
    CHECK(next(of, RDMA_CM_EVENT_DISCONNECTED, 0) == asked);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(asked) == 0);
}

/* Ends a connection whose id's calls wait; the error number. */
static void *disconnect_waiting(void *id) {
    intptr_t error = rdma_disconnect(id) == 0 ? 0 : errno;
    return (void *)error;
}

/* Accepts a peer with an id whose calls wait. */
static void accept_waiting(void) {
    struct rdma_cm_id *listener, *id;
    own.sin_port = htons(PORT + 2);
    listener = listening(NULL, 1);
    scif_epd_t peer = rude();
    CHECK(rdma_get_request(listener, &id) == 0);
    FAILS(rdma_accept(id, &none), ETIMEDOUT);
    CHECK(id->event && id->event->event == RDMA_CM_EVENT_UNREACHABLE);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0 && scif_close(peer) == 0);
}

/* The server's next events, in any order: the ids that were accepted are unreachable, and the one
 * that has left is disconnected. */
static void time_is_over(struct rdma_cm_id *const accepted[2], struct rdma_cm_id *left) {
    int found[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        struct rdma_cm_event *event;
        CHECK(rdma_get_cm_event(server, &event) == 0 && event->status == -ETIMEDOUT);
        CHECK(event->event == (event->id == left ? RDMA_CM_EVENT_DISCONNECTED
                                                 : RDMA_CM_EVENT_UNREACHABLE));
        found[event->id == left ? 2 : event->id == accepted[1]]++;
        CHECK(event->id == left || event->id == accepted[0] || event->id == accepted[1]);
        CHECK(rdma_ack_cm_event(event) == 0);
    }
    CHECK(found[0] == 1 && found[1] == 1 && found[2] == 1);
    is_quiet(server);
}

/* An id that leaves before the connection is made: it has not left, and the minute does not end what
 * comes of it. `peer` is the other end, without the library. */
static struct rdma_cm_id *hasty(scif_epd_t *peer) {
    own.sin_port = htons(PORT + 3);
    scif_epd_t listener = scif_open();
    CHECK(scif_bind(listener, PORT + 3) == PORT + 3 && scif_listen(listener, 1) == 0);
    struct rdma_cm_id *id = asking(channel);
    CHECK(rdma_disconnect(id) == 0);
    struct scif_portID from;
    CHECK(scif_accept(listener, &from, peer, SCIF_ACCEPT_SYNC) == 0 && scif_close(listener) == 0);
    hears(*peer, REQUEST);
    say(*peer, REPLY);
    CHECK(next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == id && rdma_establish(id) == 0);
    hears(*peer, READY);
    return id;
}

int main(void) {
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = inet_addr("127.0.0.1");
    channel = rdma_create_event_channel();
    server = rdma_create_event_channel();
    struct rdma_event_channel *busy = rdma_create_event_channel();
    CHECK(channel && server && busy);
    scif_epd_t other_end;
    struct rdma_cm_id *stays = hasty(&other_end);
    /* A program that does not take requests. */
    own.sin_port = htons(PORT + 1);
    struct rdma_cm_id *untaking = listening(busy, 1), *patient = asking(channel);
    own.sin_port = htons(PORT);
    struct rdma_cm_id *listener = listening(server, 8), *lasting = asking(channel), *asked;
    asked = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    struct rdma_cm_id *lasts = connect_to(asked, lasting, server);
    scif_epd_t first = rude();
    struct rdma_cm_id *left = with(first);
    scif_epd_t second = rude();
    struct rdma_cm_id *waiting = with(second);
    CHECK(rdma_migrate_id(waiting, NULL) == 0);

    scif_epd_t third = rude();
    struct rdma_cm_id *accepted[2];
    accepted[0] = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_accept(accepted[0], &none) == 0);
    hears(third, REPLY);
    /* A program that takes the answer too late. */
    struct rdma_cm_id *late = asking(channel);
    accepted[1] = next(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    CHECK(rdma_accept(accepted[1], &none) == 0);
    CHECK(rdma_disconnect(left) == 0);
    hears(first, DISCONNECT);
    pthread_t thread;
    void *error = NULL;
    CHECK(pthread_create(&thread, NULL, disconnect_waiting, waiting) == 0);
    accept_waiting();
    CHECK(pthread_join(thread, &error) == 0 && (intptr_t)error == ETIMEDOUT);
    CHECK(waiting->event && waiting->event->event == RDMA_CM_EVENT_DISCONNECTED);
    time_is_over(accepted, left);
    hears(third, DISCONNECT);
    CHECK(next(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == late);
    CHECK(next(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == late);
    is_quiet(channel);

    /* The minute is over for these, too. */
    CHECK(rdma_disconnect(stays) == 0);
    hears(other_end, DISCONNECT);
    CHECK(scif_close(other_end) == 0);
    CHECK(next(channel, RDMA_CM_EVENT_DISCONNECTED, 0) == stays && rdma_destroy_id(stays) == 0);
    asked = next(busy, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    ends(patient, connect_to(asked, patient, busy), busy);
    ends(lasting, lasts, server);
    struct rdma_cm_id *all[] = { left, waiting, accepted[0], accepted[1], late, listener, untaking };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(rdma_destroy_id(all[i]) == 0);
    CHECK(scif_close(first) == 0 && scif_close(second) == 0 && scif_close(third) == 0);
    rdma_destroy_event_channel(channel);
    rdma_destroy_event_channel(server);
    rdma_destroy_event_channel(busy);
    return finish("silent peers");
}
