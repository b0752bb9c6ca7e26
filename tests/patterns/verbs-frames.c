/* The frames by which ids of rdma_cm connect, from peers that keep to no rule: frames that are
 * forged, cut, repeated and out of order, sent to listeners and to ids that connect. What a program
 * is told follows from the bytes alone, so each case is compared with rules that are written down
 * here a second time. The cases are random ones of a fixed seed. */
#include "library.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <scif.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define PORT 2085      /* of the library's listeners */
#define RAW_PORT 2087  /* of the listener that breaks the rules */
#define REQUESTS 250   /* cases at a listener */
#define ANSWERS 150    /* at an id that connects */
#define QUESTIONS 60   /* at either end of a question where datagrams go */
#define KEPT 8         /* ids of cases that are over */
#define HEAD 20        /* bytes of a frame without private data */
#define BY_PROGRAM 28  /* status of a refusal */
#define NO_LISTENER 8  /* status if nobody listens */

enum kind {
    REQUEST = 1, REPLY, REJECT, READY, DISCONNECT, DISCONNECTED, LOOKUP, FOUND, NO_SERVICE,
};

/* Bytes of a peer. */
struct bytes {
    unsigned char at[1024];
    int count;
};

static struct rdma_event_channel *channel;
static struct rdma_conn_param none = { .retry_count = 1 };
static uint64_t seed = 2085;
static int cases;

static unsigned below(unsigned limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % limit;
}

/* ---- Bytes ---- */

static uint32_t number(const unsigned char *at) {
    return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Adds a good frame with random attributes and private data. */
static void add(struct bytes *to, int kind, unsigned space) {
    unsigned char *frame = to->at + to->count;
    int length = below(3) ? 0 : (int)below(40);
    memcpy(frame, "RDCM", 4);
    frame[4] = (unsigned char)kind, frame[5] = (unsigned char)length;
    for (int i = 6; i < HEAD + length; i++)
        frame[i] = (unsigned char)below(256);
    frame[16] = space & 0xff, frame[17] = space >> 8, frame[18] = frame[19] = 0;
    to->count += HEAD + length;
}

/* Adds up to four frames of any kinds: again what was said, what only the other end may say. */
static void add_more(struct bytes *to, unsigned space) {
    static const unsigned spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, 0x13f, 0 };
    for (unsigned left = below(5); left > 0; left--) {
        int kind = 1 + (int)below(9);
        add(to, kind, below(4) ? space : spaces[below(5)]);
    }
}

/* Cuts the end off, or changes a byte or a bit of the first head; or neither. */
static void spoil(struct bytes *of) {
    unsigned way = below(4), value = below(256), bit = below(8);
    if (of->count == 0)
        return;
    if (way == 0)
        of->count = (int)below((unsigned)of->count);
    else if (way == 1)
        of->at[below((unsigned)of->count)] = (unsigned char)value;
    else if (way == 2)
        of->at[below(2) ? below(6) : below(HEAD)] ^= (unsigned char)(1 << bit);
}

/* The length of the frame at the beginning; 0 if it is not whole, -1 if it is none. */
static int first_frame(const struct bytes *of) {
    const unsigned char *at = of->at;
    if (of->count < HEAD)
        return 0;
    if (memcmp(at, "RDCM", 4) != 0 || at[4] < REQUEST || at[4] > NO_SERVICE)
        return -1;
    return HEAD + at[5] <= of->count ? HEAD + at[5] : 0;
}

/* The kind of that frame; 0 without one. */
static int first_kind(const struct bytes *of) { return first_frame(of) > 0 ? of->at[4] : 0; }

static int is_unconnected(uint32_t space) {
    return space == RDMA_PS_UDP || space == RDMA_PS_IPOIB;
}

/* ---- Both ends ---- */

static struct sockaddr_in own(int port) {
    struct sockaddr_in made = { .sin_family = AF_INET, .sin_port = htons(port) };
    made.sin_addr.s_addr = inet_addr("127.0.0.1");
    return made;
}

static scif_epd_t connect_raw(void) {
    struct scif_portID to = { .port = PORT };
    scif_epd_t made = scif_open();
    CHECK(scif_get_nodeIDs(NULL, 0, &to.node) > 0);
    CHECK(made != SCIF_OPEN_FAILED && scif_connect(made, &to) >= 0);
    return made;
}

/* Sends bytes in one or two pieces. The other end may have gone before the second one. */
static void send_raw(scif_epd_t to, struct bytes *of) {
    int first = of->count ? 1 + (int)below((unsigned)of->count) : 0;
    if (first > 0)
        CHECK(scif_send(to, of->at, first, SCIF_SEND_BLOCK) == first);
    if (first < of->count)
        (void)scif_send(to, of->at + first, of->count - first, SCIF_SEND_BLOCK);
}

/* Receives a frame of this kind. */
static void receive_raw(scif_epd_t from, int kind) {
    unsigned char frame[HEAD + 255] = { 0 };
    CHECK(scif_recv(from, frame, HEAD, SCIF_RECV_BLOCK) == HEAD);
    CHECK(memcmp(frame, "RDCM", 4) == 0 && frame[4] == kind);
    if (frame[5])
        CHECK(scif_recv(from, frame + HEAD, frame[5], SCIF_RECV_BLOCK) == frame[5]);
}

/* The next event of the channel, which has this kind and what this frame says, if there is one;
 * its id. */
static struct rdma_cm_id *heard(enum rdma_cm_event_type kind, int status,
                                const unsigned char *frame) {
    struct rdma_cm_event *found;
    CHECK(rdma_get_cm_event(channel, &found) == 0);
    int is_it = found->event == kind && found->status == status;
    CHECK(is_it);
    if (!is_it) {
        printf("case %d: %s with status %d, not %s with %d\n", cases, rdma_event_str(found->event),
               found->status, rdma_event_str(kind), status);
        /* The events that follow are those of other cases. */
        exit(finish("frames of connections"));
    }
    if (frame) {
        struct rdma_conn_param *of = &found->param.conn;
        CHECK(of->private_data_len == frame[5]);
        CHECK(frame[5] == 0 || memcmp(of->private_data, frame + HEAD, frame[5]) == 0);
        if (frame[4] == REQUEST || frame[4] == REPLY) {
            CHECK(of->initiator_depth == frame[6] && of->responder_resources == frame[7]);
            CHECK(of->flow_control == frame[8] && of->retry_count == frame[9]);
            CHECK(of->rnr_retry_count == frame[10] && of->srq == frame[11]);
            CHECK(of->qp_num == number(frame + 12));
        }
    }
    struct rdma_cm_id *id = found->id;
    CHECK(rdma_ack_cm_event(found) == 0);
    return id;
}

/* There is no event. */
static void no_event(void) {
    struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *nothing;
    int flags = fcntl(channel->fd, F_GETFL);
    CHECK(poll(&wait, 1, 0) == 0);
    CHECK(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) == 0);
    FAILS(rdma_get_cm_event(channel, &nothing), EAGAIN);
    CHECK(fcntl(channel->fd, F_SETFL, flags) == 0);
}

/* Destroys an id some cases later, so that an event too many is heard in one of them. */
static void destroy_later(struct rdma_cm_id *id) {
    static struct rdma_cm_id *kept[KEPT];
    static unsigned next;
    struct rdma_cm_id *oldest = kept[next % KEPT];
    kept[next++ % KEPT] = id;
    if (oldest)
        CHECK(rdma_destroy_id(oldest) == 0);
}

static struct rdma_cm_id *listening(enum rdma_port_space space) {
    struct sockaddr_in at = own(PORT);
    struct rdma_cm_id *id;
    CHECK(rdma_create_id(channel, &id, NULL, space) == 0);
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&at) == 0 && rdma_listen(id, 4) == 0);
    return id;
}

static struct rdma_cm_id *resolved(enum rdma_port_space space, int port) {
    struct sockaddr_in to = own(port);
    struct rdma_cm_id *id;
    CHECK(rdma_create_id(channel, &id, NULL, space) == 0);
    CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000) == 0);
    CHECK(heard(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL) == id);
    CHECK(rdma_resolve_route(id, 2000) == 0);
    CHECK(heard(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL) == id);
    return id;
}

static scif_epd_t listening_raw(void) {
    scif_epd_t made = scif_open();
    CHECK(made != SCIF_OPEN_FAILED && scif_bind(made, RAW_PORT) == RAW_PORT);
    CHECK(scif_listen(made, 4) == 0);
    return made;
}

/* Accepts the connection of an id, which sends a frame of this kind. */
static scif_epd_t accept_raw(scif_epd_t listener, int kind) {
    struct scif_portID peer;
    scif_epd_t made = SCIF_OPEN_FAILED;
    CHECK(scif_accept(listener, &peer, &made, SCIF_ACCEPT_SYNC) == 0);
    receive_raw(made, kind);
    return made;
}

/* ---- A listener ---- */

/* What a listener does with the first bytes of a peer. */
enum answer { TELLS, ENDS, IS_ANOTHER, WAITS };

static enum answer answer_of(const struct bytes *of, uint32_t space) {
    int length = first_frame(of);
    uint32_t named = number(of->at + 16);
    if (length <= 0)
        return length == 0 ? WAITS : ENDS;
    if (of->at[4] != (is_unconnected(named) ? LOOKUP : REQUEST))
        return ENDS;
    return named == space ? TELLS : IS_ANOTHER;
}

/* A client sends anything, some of it once its request is accepted. The program is told of a
 * request that is one, then perhaps that the client is ready, then of the end. */
static void at_listener(uint32_t space) {
    struct bytes first = { .count = 0 }, later = { .count = 0 };
    int is_late = space == RDMA_PS_TCP && below(2);
    int kind = is_unconnected(space) ? LOOKUP : REQUEST;
    add(&first, below(8) ? kind : 1 + (int)below(9), space);
    if (is_late && below(2))
        add(&later, READY, space);
    add_more(is_late ? &later : &first, space);
    spoil(is_late && below(2) ? &later : &first);
    /* With bytes behind its request a client has gone before it is accepted. */
    is_late = is_late && first_frame(&first) == first.count;
    scif_epd_t peer = connect_raw();
    send_raw(peer, &first);
    struct rdma_cm_id *asked = NULL;
    enum answer answer = answer_of(&first, space);
    char nothing;
    if (answer == TELLS) {
        asked = heard(RDMA_CM_EVENT_CONNECT_REQUEST, 0, first.at);
        if (is_late) {
            CHECK(rdma_accept(asked, &none) == 0);
            receive_raw(peer, REPLY);
            send_raw(peer, &later);
        }
    }
    if (answer == IS_ANOTHER)
        receive_raw(peer, NO_SERVICE);
    if (answer == ENDS || answer == IS_ANOTHER)
        FAILS(scif_recv(peer, &nothing, 1, SCIF_RECV_BLOCK), ECONNRESET);
    CHECK(scif_close(peer) == 0);
    if (!asked)
        return;
    if (is_late && first_kind(&later) == READY) {
        CHECK(heard(RDMA_CM_EVENT_ESTABLISHED, 0, NULL) == asked);
        CHECK(heard(RDMA_CM_EVENT_DISCONNECTED, 0, NULL) == asked);
    } else if (space == RDMA_PS_TCP) {
        CHECK(heard(RDMA_CM_EVENT_REJECTED, BY_PROGRAM, NULL) == asked);
    }
    destroy_later(asked);
}

/* ---- An id that connects ---- */

/* A server answers anything; the kind of its first frame. */
static int answers(scif_epd_t listener, int asks, int usual, uint32_t space,
                   struct bytes *answer) {
    scif_epd_t peer = accept_raw(listener, asks);
    answer->count = 0;
    if (below(3))
        add(answer, usual, space);
    add_more(answer, space);
    spoil(answer);
    send_raw(peer, answer);
    CHECK(scif_close(peer) == 0);
    return first_kind(answer);
}

/* The program is told of an answer that is one, then of the end. */
static void at_client(scif_epd_t listener) {
    struct bytes answer;
    struct rdma_cm_id *id = resolved(RDMA_PS_TCP, RAW_PORT);
    CHECK(rdma_connect(id, &none) == 0);
    int kind = answers(listener, REQUEST, REPLY, RDMA_PS_TCP, &answer);
    int status = kind == NO_SERVICE ? NO_LISTENER : BY_PROGRAM;
    if (kind == REPLY) {
        CHECK(heard(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, answer.at) == id);
        CHECK(heard(RDMA_CM_EVENT_DISCONNECTED, 0, NULL) == id);
    } else {
        const unsigned char *frame = kind == REJECT ? answer.at : NULL;
        CHECK(heard(RDMA_CM_EVENT_REJECTED, status, frame) == id);
    }
    destroy_later(id);
}

/* The program has asked where datagrams go, and is told one answer. */
static void at_asker(scif_epd_t listener) {
    struct bytes answer;
    struct rdma_cm_id *id = resolved(RDMA_PS_UDP, RAW_PORT);
    CHECK(rdma_connect(id, &none) == 0);
    int kind = answers(listener, LOOKUP, FOUND, RDMA_PS_UDP, &answer);
    int status = kind == REJECT ? 2 : kind == NO_SERVICE ? 1 : -ETIMEDOUT;
    if (kind == FOUND)
        CHECK(heard(RDMA_CM_EVENT_ESTABLISHED, 0, answer.at) == id);
    else
        CHECK(heard(RDMA_CM_EVENT_UNREACHABLE, status, NULL) == id);
    destroy_later(id);
}

/* An answer with a number that no queue pair has ends the connection. One with more reads than a
 * queue pair has does not: they are limited to those. */
static void at_queue_pair(scif_epd_t listener) {
    static const struct {
        int at;
        unsigned char value;
        int is_good;
    } changes[] = { { 15, 1, 0 }, { 15, 255, 0 }, { 6, 255, 1 }, { 7, 255, 1 } };
    for (unsigned i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
        struct rdma_cm_id *id = resolved(RDMA_PS_TCP, RAW_PORT);
        CHECK(rdma_create_qp(id, NULL, &attr) == 0 && rdma_connect(id, &none) == 0);
        scif_epd_t peer = accept_raw(listener, REQUEST);
        struct bytes answer = { .at = { 'R', 'D', 'C', 'M', REPLY }, .count = HEAD };
        answer.at[12] = 77;
        answer.at[changes[i].at] = changes[i].value;
        send_raw(peer, &answer);
        if (changes[i].is_good)
            CHECK(heard(RDMA_CM_EVENT_ESTABLISHED, 0, NULL) == id);
        else
            CHECK(heard(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, NULL) == id);
        receive_raw(peer, changes[i].is_good ? READY : DISCONNECT);
        CHECK(scif_close(peer) == 0);
        if (changes[i].is_good)
            CHECK(heard(RDMA_CM_EVENT_DISCONNECTED, 0, NULL) == id);
        rdma_destroy_qp(id);
        CHECK(rdma_destroy_id(id) == 0);
    }
}

/* Two ends that keep to the rules can connect. */
static void a_good_connection(void) {
    struct rdma_cm_id *id = resolved(RDMA_PS_TCP, PORT), *asked;
    CHECK(rdma_connect(id, &none) == 0);
    asked = heard(RDMA_CM_EVENT_CONNECT_REQUEST, 0, NULL);
    CHECK(rdma_accept(asked, &none) == 0);
    CHECK(heard(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, NULL) == id && rdma_establish(id) == 0);
    CHECK(heard(RDMA_CM_EVENT_ESTABLISHED, 0, NULL) == asked);
    CHECK(rdma_destroy_id(id) == 0);
    CHECK(heard(RDMA_CM_EVENT_DISCONNECTED, 0, NULL) == asked);
    CHECK(rdma_destroy_id(asked) == 0);
}

int main(void) {
    channel = rdma_create_event_channel();
    CHECK(channel != NULL);
    scif_epd_t raw = listening_raw();
    struct rdma_cm_id *listener = listening(RDMA_PS_TCP);
    for (int i = 0; i < REQUESTS; i++, cases++)
        at_listener(RDMA_PS_TCP);
    for (int i = 0; i < ANSWERS; i++, cases++)
        at_client(raw);
    a_good_connection();
    CHECK(rdma_destroy_id(listener) == 0);
    listener = listening(RDMA_PS_UDP);
    for (int i = 0; i < QUESTIONS; i++, cases++)
        at_listener(RDMA_PS_UDP);
    for (int i = 0; i < QUESTIONS; i++, cases++)
        at_asker(raw);
    CHECK(rdma_destroy_id(listener) == 0);
    at_queue_pair(raw);
    no_event();
    for (int i = 0; i < KEPT; i++)
        destroy_later(NULL);
    CHECK(scif_close(raw) == 0);
    rdma_destroy_event_channel(channel);
    return finish("frames of connections");
}
