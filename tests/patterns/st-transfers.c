/* Scheduled Transfers: the six combinations of push and pull, level 1 written on level 0, memory,
 * channels and ends, between two programs. */
#include "socket.h"
#include "waits.h"
#include <st.h>
#include <sys/wait.h>

/* What a side has of a connection. */
struct end {
    int fd;
    st_peer_t *peer;
};

static int transfers(void) {
    int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP), on = 1;
    CHECK(fd >= 0);
    GIVES(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &on, sizeof on), 0);
    return fd;
}

static struct end serve_end(uint16_t port) {
    struct end end = { -1, NULL };
    int on = transfers();
    GIVES(bind_to(on, -1, port), 0);
    GIVES(listen(on, 1), 0);
    end.fd = accept_on(on);
    GIVES(close(on), 0);
    GIVES(st_attach(end.fd, 0, 0, &end.peer), 0);
    return end;
}

static struct end call_end(int node, uint16_t port) {
    struct end end = { -1, NULL };
    for (int tries = 0;; tries++) {
        end.fd = transfers();
        if (try_connect(end.fd, node, port) == 0)
            break;
        CHECK(errno == ECONNREFUSED || errno == EHOSTUNREACH);
        CHECK(tries < TIMEOUT_MS / 2);
        GIVES(close(end.fd), 0);
        pause_shortly();
    }
    GIVES(st_attach(end.fd, 0, 0, &end.peer), 0);
    return end;
}

static void leave(struct end *end) {
    GIVES(st_detach(&end->peer), 0);
    CHECK(end->peer == NULL);
    GIVES(close(end->fd), 0);
}

/* A header as this program uses it. */
struct header {
    uint64_t step;
    char *where;
    uint64_t rest[2];
};

static void push(st_peer_t *peer, uint64_t step, char *where) {
    struct header header = { step, where, { step * 3, step * 5 } };
    GIVES(st1_push(peer, &header, NULL, NULL, 0), 0);
}

static struct header pull(st_peer_t *peer, uint64_t step) {
    struct header header = { 0 };
    GIVES(st1_pull(peer, &header, NULL, NULL, 0), 0);
    GIVES(header.step, step);
    CHECK(header.rest[0] == step * 3 && header.rest[1] == step * 5);
    return header;
}

enum { RANGE = 64 * 1024, HALF = RANGE / 2 };

/* Level 1 by the library, and by this program on level 0 alone. */
struct level {
    int (*push)(void *peer, void *hdr, void *loc, void *rem, int len);
    int (*pull)(void *peer, void *hdr, void *loc, void *rem, int len);
};

/* What level 1 on level 0 has to know: where both ranges begin. Each side plays in a thread of its
 * own. */
static __thread char *own_range, *peer_range;

static st_header_t named(int code, void *rem, int flags) {
    st_header_t header = { 0 };
    size_t ahead = rem ? (size_t)((char *)rem - peer_range) : 0;
    header.op = ST_OP(code) | flags;
    header.bufx = ahead >> 12;
    header.offset = ahead & 0xfff;
    return header;
}

static int move_by_0(st_peer_t *peer, int code, void *hdr, void *loc, void *rem, int len) {
    st_header_t header = named(code, rem, hdr ? 0 : ST_FLAG_SILENT);
    size_t ahead = (size_t)((char *)loc - own_range);
    return st_tx(peer, &header, hdr, len, ahead >> 12, ahead & 0xfff);
}

static int push_by_0(void *peer, void *hdr, void *loc, void *rem, int len) {
    if (loc)
        return move_by_0(peer, ST_OP_DATA, hdr, loc, rem, len);
    st_header_t header = named(ST_OP_NOP, NULL, 0);
    return st_tx(peer, &header, hdr, 0, 0, 0);
}

static int pull_by_0(void *peer, void *hdr, void *loc, void *rem, int len) {
    st_header_t header;
    int length;
    if (hdr && st_rx(peer, &header, hdr, &length) < 0)
        return -1;
    return loc ? move_by_0(peer, ST_OP_GET, NULL, loc, rem, len) : 0;
}

/* The six combinations. The ranges have two halves each: what the peer PUTs into, and what it GETs
 * from. B checks each and says so. */
static void play_a(st_peer_t *peer, const struct level *level, unsigned seed) {
    struct header header = { 1, NULL, { seed, 0 } };
    char *put = peer_range, *mine = own_range;
    /* 1: a header. */
    GIVES(level->push(peer, &header, NULL, NULL, 0), 0);
    /* 2: PUT, silently; another header says when to look. */
    fill(mine, 5000, seed + 2);
    GIVES(level->push(peer, NULL, mine, put + 17, 5000), 0);
    header.step = 2;
    GIVES(level->push(peer, &header, NULL, NULL, 0), 0);
    /* 3: GET, which this side does not notice, until it is told. */
    GIVES(level->pull(peer, &header, NULL, NULL, 0), 0);
    GIVES(header.step, 3);
    /* 4: PUT with header; the place it came from is used again at once. */
    for (int i = 0; i < 50; i++) {
        fill(mine, 3000, seed + i);
        header.step = 100 + i;
        GIVES(level->push(peer, &header, mine, put + 3000 * (i % 10) + i, 3000), 0);
        memset(mine, 0xee, 3000);
        GIVES(level->pull(peer, &header, NULL, NULL, 0), 0);
        GIVES(header.step, 100 + i);
    }
    /* 5: GET with header: the peer reads what was there when the header was pushed. */
    fill(mine + HALF, 4096, seed + 5);
    header.step = 5;
    GIVES(level->push(peer, &header, NULL, NULL, 0), 0);
    GIVES(level->pull(peer, &header, NULL, NULL, 0), 0);
    /* 6: both. */
    fill(mine, 2000, seed + 6);
    fill(mine + HALF, 2000, seed + 7);
    header.step = 6;
    GIVES(level->push(peer, &header, mine, put, 2000), 0);
    GIVES(level->pull(peer, &header, NULL, NULL, 0), 0);
    GIVES(header.step, 66);
}

static void play_b(st_peer_t *peer, const struct level *level, unsigned seed) {
    struct header header = { 0 };
    char *got = own_range + HALF;
    GIVES(level->pull(peer, &header, NULL, NULL, 0), 0);
    CHECK(header.step == 1 && header.rest[0] == seed);
    GIVES(level->pull(peer, &header, NULL, NULL, 0), 0);
    GIVES(header.step, 2);
    CHECK(mismatch(own_range + 17, 5000, seed + 2) == 5000);
    GIVES(level->pull(peer, NULL, got, peer_range, 5000), 0);
    CHECK(mismatch(got, 5000, seed + 2) == 5000);
    header.step = 3;
    GIVES(level->push(peer, &header, NULL, NULL, 0), 0);
    for (int i = 0; i < 50; i++) {
        GIVES(level->pull(peer, &header, NULL, NULL, 0), 0);
        GIVES(header.step, 100 + i);
        CHECK(mismatch(own_range + 3000 * (i % 10) + i, 3000, seed + i) == 3000);
        GIVES(level->push(peer, &header, NULL, NULL, 0), 0);
    }
    GIVES(level->pull(peer, &header, got, peer_range + HALF, 4096), 0);
    CHECK(header.step == 5 && mismatch(got, 4096, seed + 5) == 4096);
    GIVES(level->push(peer, &header, NULL, NULL, 0), 0);
    GIVES(level->pull(peer, &header, got, peer_range + HALF, 2000), 0);
    CHECK(header.step == 6 && mismatch(own_range, 2000, seed + 6) == 2000);
    CHECK(mismatch(got, 2000, seed + 7) == 2000);
    header.step = 66;
    GIVES(level->push(peer, &header, NULL, NULL, 0), 0);
}

static const struct level library = { st1_push, st1_pull };
static const struct level by_hand = { push_by_0, pull_by_0 };

/* Maps memory of the library's, tells the peer where it is, and learns where the peer's is. */
static void meet(st_peer_t *peer) {
    void *memory = NULL;
    GIVES(st_map(peer, &memory, RANGE), 0);
    own_range = memory;
    CHECK(own_range && (uintptr_t)own_range % PAGE == 0);
    for (int i = 0; i < RANGE; i++)
        CHECK(own_range[i] == 0);
    push(peer, 7, own_range);
    peer_range = pull(peer, 7).where;
}

/* 81: by the library, then 82: by this program on level 0. */
static void serve_six(void) {
    struct end end = serve_end(3081);
    meet(end.peer);
    play_b(end.peer, &library, 10);
    play_a(end.peer, &library, 20);
    play_b(end.peer, &by_hand, 30);
    play_a(end.peer, &by_hand, 40);
    push(end.peer, 8, NULL);
    leave(&end);
}

static void call_six(uint16_t node) {
    struct end end = call_end(node, 3081);
    meet(end.peer);
    play_a(end.peer, &library, 10);
    play_b(end.peer, &library, 20);
    play_a(end.peer, &by_hand, 30);
    play_b(end.peer, &by_hand, 40);
    pull(end.peer, 8);
    leave(&end);
}

/* 83: attaching, mapping, and all that is refused. */
static void serve_refused(void) {
    struct end end = serve_end(3083);
    st_peer_t *other = NULL;
    void *memory = NULL;
    GIVES(st_map(end.peer, &memory, 5000), 0);
    push(end.peer, 1, memory);
    pull(end.peer, 2);
    /* Taken back, and other memory in its place, the program's own at an odd address. */
    GIVES(st_unmap(end.peer, &memory, 0), 0);
    CHECK(memory == NULL);
    push(end.peer, 3, NULL);
    pull(end.peer, 4);
    static char own[3 * PAGE];
    void *place = own + 100;
    memset(own, 'o', sizeof own);
    GIVES(st_map(end.peer, &place, 5000), 0);
    CHECK(place == own + 100);
    push(end.peer, 5, place);
    pull(end.peer, 6);
    for (int i = 0; i < (int)sizeof own; i++)
        CHECK(own[i] == (i >= 100 && i < 5100 ? 'p' : 'o'));
    GIVES(st_unmap(end.peer, &place, 5000), 0);
    /* The other channels. */
    GIVES(st_attach(end.fd, 3, 0, &other), 0);
    pull(other, 9);
    GIVES(st_detach(&other), 0);
    leave(&end);
}

static void call_refused(uint16_t node) {
    st_peer_t *peer = NULL, *other = NULL;
    int fd = transfers();
    FAILS(st_attach(fd, 0, 0, &peer), ENOTCONN);
    GIVES(close(fd), 0);
    fd = open("/scheme/null", O_RDWR);
    FAILS(st_attach(fd, 0, 0, &peer), ENOTSOCK);
    GIVES(close(fd), 0);
    FAILS(st_attach(-1, 0, 0, &peer), EBADF);
    int pair[2];
    GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    FAILS(st_attach(pair[0], 0, 0, &peer), EOPNOTSUPP);
    GIVES(close(pair[0]) | close(pair[1]), 0);

    struct end end = call_end(node, 3083);
    peer = end.peer;
    FAILS(send(end.fd, "x", 1, 0), EOPNOTSUPP);
    FAILS(recv(end.fd, &fd, 1, 0), EOPNOTSUPP);
    FAILS(st_attach(end.fd, 0, 0, &other), EBUSY);
    FAILS(st_attach(end.fd, 4, 0, &other), EINVAL);
    FAILS(st_attach(end.fd, -1, 0, &other), EINVAL);
    FAILS(st_attach(end.fd, 1, 1, &other), EINVAL);
    FAILS(st_attach(end.fd, 1, 0, NULL), EFAULT);
    FAILS(st_detach(NULL), EFAULT);
    FAILS(st_detach(&other), EINVAL);
    char hdr[ST1_HDR_SIZE] = { 0 }, data[100];
    memset(data, 'p', sizeof data);
    FAILS(st1_push(NULL, hdr, NULL, NULL, 0), EINVAL);
    FAILS(st1_pull(NULL, hdr, NULL, NULL, 0), EINVAL);
    void *memory = NULL, *place = data, *nowhere = (void *)8;
    st_header_t low = { .op = ST_OP(ST_OP_NOP) };
    FAILS(st_fence(NULL), EINVAL);
    FAILS(st_map(NULL, &memory, 1), EINVAL);
    FAILS(st_unmap(NULL, &memory, 1), EINVAL);
    FAILS(st_tx(NULL, &low, NULL, 0, 0, 0), EINVAL);
    FAILS(st_rx(NULL, &low, NULL, NULL), EINVAL);
    for (int (*call)(void *, void *, void *, void *, int) = st1_push; call;
         call = call == st1_push ? st1_pull : NULL) {
        FAILS(call(peer, NULL, NULL, NULL, 0), EINVAL);
        FAILS(call(peer, hdr, data, NULL, 1), EINVAL);
        FAILS(call(peer, hdr, NULL, data, 1), EINVAL);
        FAILS(call(peer, NULL, data, NULL, 1), EINVAL);
        FAILS(call(peer, NULL, data, data, -1), EINVAL);
        FAILS(call(peer, hdr, NULL, NULL, 5), EINVAL);
    }
    FAILS(st_map(peer, NULL, 1), EFAULT);
    FAILS(st_map(peer, &nowhere, PAGE), EFAULT);
    FAILS(st_map(peer, &memory, 0), EINVAL);
    FAILS(st_map(peer, &memory, -1), EINVAL);
    FAILS(st_unmap(peer, &memory, 0), ENXIO);
    GIVES(st_map(peer, &memory, 1), 0);
    FAILS(st_map(peer, &memory, 1), EBUSY);
    FAILS(st_unmap(peer, &place, 0), EINVAL);
    FAILS(st_unmap(peer, &memory, 2), EINVAL);
    GIVES(st_unmap(peer, &memory, 1), 0);
    FAILS(st_unmap(peer, &memory, 0), ENXIO);

    /* The peer's range: 5000 bytes in two pages. */
    char *range = pull(peer, 1).where;
    GIVES(st1_push(peer, NULL, data, range, 1), 0);
    GIVES(st1_push(peer, NULL, data, range + 4900, 100), 0);
    FAILS(st1_push(peer, hdr, data, range - 1, 1), ENXIO);
    FAILS(st1_push(peer, hdr, data, range + 2 * PAGE, 1), ENXIO);
    FAILS(st1_push(peer, hdr, data, range + 2 * PAGE - 50, 100), ENXIO);
    FAILS(st1_push(peer, hdr, data, (void *)-50, 100), ENXIO);
    FAILS(st1_push(peer, hdr, (void *)-50, range, 100), EFAULT);
    FAILS(st1_pull(peer, NULL, data, range - 1, 1), ENXIO);
    GIVES(st1_push(peer, NULL, data, range - 1, 0), 0);
    GIVES(st_fence(peer), 0);
    GIVES(st_flush(peer), 0);
    push(peer, 2, NULL);
    pull(peer, 3);
    FAILS(st1_push(peer, hdr, data, range, 1), ENXIO);
    push(peer, 4, NULL);
    range = pull(peer, 5).where;
    for (int i = 0; i < 50; i++)
        GIVES(st1_push(peer, NULL, data, range + 100 * i, 100), 0);
    push(peer, 6, NULL);
    GIVES(st_attach(end.fd, 3, 0, &other), 0);
    push(other, 9, NULL);
    GIVES(st_detach(&other), 0);
    /* The end: what was called before it still works, then no more. */
    while (st1_pull(peer, hdr, NULL, NULL, 0) == 0)
        ;
    GIVES(errno, ECONNRESET);
    leave(&end);
}

/* 84: without waiting: a queue has at least as many places as was asked for. */
static void serve_places(void) {
    struct end end = serve_end(3084);
    GIVES(option(end.fd, IPPROTO_STP, ST_BYPASS), 1);
    GIVES(option(end.fd, IPPROTO_STP, ST_R_NUMSLOTS), 64);
    struct header header = { 0 };
    set_waiting(end.fd, 0);
    FAILS(st1_pull(end.peer, &header, NULL, NULL, 0), EAGAIN);
    st_header_t low;
    FAILS(st_rx(end.peer, &low, NULL, NULL), EAGAIN);
    push(end.peer, 0, NULL);
    set_waiting(end.fd, 1);
    struct header told = pull(end.peer, 0);
    (void)told;
    for (int i = 1; i <= 64; i++)
        pull(end.peer, i);
    push(end.peer, 1, NULL);
    /* A header of level 0 is none of level 1's, and stays. */
    FAILS(st1_pull(end.peer, &header, NULL, NULL, 0), EPROTO);
    char payload[ST_OPT_SIZE];
    int length = -1;
    GIVES(st_rx(end.peer, &low, payload, &length), 0);
    GIVES(ST_OP_CODE(low.op), ST_OP_RTS);
    CHECK(length == 0 && low.sync == 77 && !memcmp(payload, "payload", 8));
    GIVES(low.d_port, option(end.fd, IPPROTO_STP, ST_L_PORT));
    GIVES(low.s_port, option(end.fd, IPPROTO_STP, ST_R_PORT));
    GIVES((int)low.d_key, option(end.fd, IPPROTO_STP, ST_L_KEY));
    /* One of level 1 comes as a NOP. */
    GIVES(st_rx(end.peer, &low, payload, &length), 0);
    CHECK(ST_OP_CODE(low.op) == ST_OP_NOP && *(uint64_t *)(void *)payload == 5);
    leave(&end);
}

static void call_places(uint16_t node) {
    struct end end = call_end(node, 3084);
    pull(end.peer, 0);
    push(end.peer, 0, NULL);
    set_waiting(end.fd, 0);
    struct header header = { 0 };
    for (int i = 1; i <= 64; i++) {
        struct header next = { i, NULL, { i * 3, i * 5 } };
        GIVES(st1_push(end.peer, &next, NULL, NULL, 0), 0);
    }
    set_waiting(end.fd, 1);
    pull(end.peer, 1);
    st_header_t low = { 0 };
    low.op = ST_OP(ST_OP_RTS);
    low.sync = 77;
    char payload[ST_OPT_SIZE] = "payload";
    GIVES(st_tx(end.peer, &low, payload, 0, 0, 0), 0);
    FAILS(st_tx(end.peer, NULL, payload, 0, 0, 0), EFAULT);
    FAILS(st_tx(end.peer, &low, NULL, -1, 0, 0), EINVAL);
    low.d_key = 1 + (uint32_t)option(end.fd, IPPROTO_STP, ST_R_KEY);
    FAILS(st_tx(end.peer, &low, NULL, 0, 0, 0), EINVAL);
    low = (st_header_t){ .op = ST_OP(1) };
    FAILS(st_tx(end.peer, &low, NULL, 0, 0, 0), EPERM);
    low.op = ST_OP(ST_OP_DATA);
    FAILS(st_tx(end.peer, &low, NULL, 8, 0, 0), EFAULT);
    header = (struct header){ 5, NULL, { 15, 25 } };
    GIVES(st1_push(end.peer, &header, NULL, NULL, 0), 0);
    while (st1_pull(end.peer, &header, NULL, NULL, 0) == 0)
        ;
    GIVES(errno, ECONNRESET);
    FAILS(st1_push(end.peer, &header, NULL, NULL, 0), ECONNRESET);
    leave(&end);
}

/* 85: the socket is closed before the handle is detached. */
static void serve_closed(void) {
    struct end end = serve_end(3085);
    pull(end.peer, 1);
    struct header header;
    FAILS(st1_pull(end.peer, &header, NULL, NULL, 0), ECONNRESET);
    leave(&end);
}

static void call_closed(uint16_t node) {
    struct end end = call_end(node, 3085);
    push(end.peer, 1, NULL);
    GIVES(close(end.fd), 0);
    struct header header = { 0 };
    FAILS(st1_push(end.peer, &header, NULL, NULL, 0), EBADF);
    GIVES(st_detach(&end.peer), 0);
}

/* 86: many headers in order, and many PUTs of all lengths and alignments, each of which is there
 * with its header. */
enum { HEADERS = 20000, PUTS = 2000 };

static void serve_many(void) {
    struct end end = serve_end(3086);
    meet(end.peer);
    for (int i = 0; i < HEADERS; i++)
        pull(end.peer, i);
    for (int i = 0; i < PUTS; i++) {
        struct header header;
        GIVES(st1_pull(end.peer, &header, NULL, NULL, 0), 0);
        GIVES(header.step, i);
        CHECK(mismatch(header.where, header.rest[0], i) == header.rest[0]);
        /* Sixteen are under way at a time. */
        if (i % 16 == 15)
            push(end.peer, i, NULL);
    }
    leave(&end);
}

static void call_many(uint16_t node) {
    struct end end = call_end(node, 3086);
    meet(end.peer);
    for (int i = 0; i < HEADERS; i++)
        push(end.peer, i, NULL);
    char data[4096];
    for (int i = 0; i < PUTS; i++) {
        size_t length = 1 + (i * 37) % (sizeof data - 8);
        char *to = peer_range + (i % 16) * 4096 + i % 7;
        struct header header = { i, to, { length, 0 } };
        fill(data + i % 5, length, i);
        GIVES(st1_push(end.peer, &header, data + i % 5, to, (int)length), 0);
        if (i % 16 == 15)
            pull(end.peer, i);
    }
    struct header header;
    FAILS(st1_pull(end.peer, &header, NULL, NULL, 0), ECONNRESET);
    leave(&end);
}

/* 87: other threads and signals end calls that wait. */
static struct end waiting_end;

static void serve_waits(void) {
    struct end end = serve_end(3087);
    struct header header;
    st_peer_t *beside;
    GIVES(st_attach(end.fd, 1, 0, &beside), 0);
    /* The queue of the first channel stays full until then. */
    pull(beside, 1);
    while (st1_pull(end.peer, &header, NULL, NULL, 0) == 0)
        ;
    GIVES(errno, ECONNRESET);
    GIVES(st_detach(&beside), 0);
    leave(&end);
}

static int wait_by(int way) {
    struct header header = { 0 };
    char payload[32];
    st_header_t head;
    int length;
    switch (way) {
    case 0: return st1_pull(waiting_end.peer, &header, NULL, NULL, 0);
    case 1: return st_rx(waiting_end.peer, &head, payload, &length);
    default: return st1_push(waiting_end.peer, &header, NULL, NULL, 0);
    }
}

static void call_waits(uint16_t node) {
    struct header header = { 0 };
    st_peer_t *beside;
    waiting_end = call_end(node, 3087);
    int flags = fcntl(waiting_end.fd, F_GETFL);
    GIVES(st_attach(waiting_end.fd, 1, 0, &beside), 0);
    GIVES(fcntl(waiting_end.fd, F_SETFL, flags | O_NONBLOCK), 0);
    while (st1_push(waiting_end.peer, &header, NULL, NULL, 0) == 0)
        ;
    GIVES(errno, EAGAIN);
    GIVES(fcntl(waiting_end.fd, F_SETFL, flags), 0);
    end_waits(wait_by, 3);
    push(beside, 1, NULL);
    GIVES(st_detach(&beside), 0);
    leave(&waiting_end);
}

/* 88: level 0 on memory of the program that begins within a page: places count from there. */
static void serve_origin(void) {
    struct end end = serve_end(3088);
    char *all = malloc(4 * PAGE);
    CHECK(all);
    memset(all, 'o', 4 * PAGE);
    /* Behind a page's beginning, at a multiple of 8. */
    char *own = all + PAGE - (uintptr_t)all % PAGE + 104;
    void *place = own;
    GIVES(st_map(end.peer, &place, 2 * PAGE), 0);
    push(end.peer, 1, own);
    pull(end.peer, 2);
    for (char *byte = all; byte < all + 4 * PAGE; byte++) {
        long ahead = byte - own;
        int is_put = (ahead >= 0 && ahead < 100) || (ahead >= PAGE + 7 && ahead < PAGE + 107);
        if (ahead < 2 * PAGE - 8 || ahead >= 2 * PAGE)
            CHECK(*byte == (is_put ? 'p' : 'o'));
    }
    CHECK(own[2 * PAGE - 8] == 'o' + 1);
    GIVES(st_unmap(end.peer, &place, 0), 0);
    /* Words are aligned in memory, too. */
    place = own + 1;
    GIVES(st_map(end.peer, &place, PAGE), 0);
    push(end.peer, 3, NULL);
    pull(end.peer, 4);
    GIVES(st_unmap(end.peer, &place, 0), 0);
    leave(&end);
    free(all);
}

static void call_origin(uint16_t node) {
    struct end end = call_end(node, 3088);
    char *data = malloc(2 * PAGE);
    CHECK(data);
    void *place = data + 8 - (uintptr_t)data % 8;
    char *own = place;
    GIVES(st_map(end.peer, &place, PAGE), 0);
    memset(own, 'p', 200);
    pull(end.peer, 1);
    st_header_t low = { .op = ST_OP(ST_OP_DATA) };
    GIVES(st_tx(end.peer, &low, NULL, 100, 0, 0), 0);
    low.bufx = 1;
    low.offset = 7;
    GIVES(st_tx(end.peer, &low, NULL, 100, 0, 50), 0);
    low = (st_header_t){ .op = ST_OP(ST_OP_GET), .offset = 90 };
    GIVES(st_tx(end.peer, &low, NULL, 20, 0, 1000), 0);
    CHECK(!memcmp(own + 1000, "ppppppppppoooooooooo", 20));
    low = (st_header_t){ .op = ST_OP(ST_OP_GET) | ST_FLAG_FETCH_INC, .bufx = 1, .offset = PAGE - 8 };
    GIVES(st_tx(end.peer, &low, NULL, 8, 0, 2000), 0);
    CHECK(!memcmp(own + 2000, "oooooooo", 8));
    push(end.peer, 2, NULL);
    pull(end.peer, 3);
    low.offset = 0;
    FAILS(st_tx(end.peer, &low, NULL, 8, 0, 2000), EINVAL);
    push(end.peer, 4, NULL);
    struct header header;
    FAILS(st1_pull(end.peer, &header, NULL, NULL, 0), ECONNRESET);
    leave(&end);
    free(data);
}

/* 89: a pull that must not wait takes no header whose data it cannot get. */
static void serve_no_wait(void) {
    struct end end = serve_end(3089);
    st_peer_t *beside;
    GIVES(st_attach(end.fd, 1, 0, &beside), 0);
    pull(beside, 1);
    struct header header = { 0 };
    char data[8], *far = (char *)PAGE;
    set_waiting(end.fd, 0);
    FAILS(st1_pull(end.peer, &header, data, far, 8), EAGAIN);
    FAILS(st1_pull(end.peer, &header, data, far, 8), EAGAIN);
    set_waiting(end.fd, 1);
    push(beside, 2, NULL);
    far = pull(beside, 3).where;
    set_waiting(end.fd, 0);
    GIVES(st1_pull(end.peer, &header, data, far, 8), 0);
    CHECK(header.step == 7 && !memcmp(data, "the data", 8));
    FAILS(st1_pull(end.peer, &header, data, far, 8), EAGAIN);
    set_waiting(end.fd, 1);
    GIVES(st_detach(&beside), 0);
    leave(&end);
}

static void call_no_wait(uint16_t node) {
    struct end end = call_end(node, 3089);
    st_peer_t *beside;
    GIVES(st_attach(end.fd, 1, 0, &beside), 0);
    push(end.peer, 7, NULL);
    GIVES(st_fence(end.peer), 0);
    push(beside, 1, NULL);
    pull(beside, 2);
    void *memory = NULL;
    GIVES(st_map(end.peer, &memory, PAGE), 0);
    memcpy(memory, "the data", 8);
    push(beside, 3, memory);
    struct header header;
    FAILS(st1_pull(end.peer, &header, NULL, NULL, 0), ECONNRESET);
    /* Nothing moves, and the end shows all the same. */
    FAILS(st1_push(end.peer, NULL, memory, memory, 0), ECONNRESET);
    FAILS(st1_pull(end.peer, NULL, memory, memory, 0), ECONNRESET);
    GIVES(st_detach(&beside), 0);
    leave(&end);
}

/* 90: memory is mapped while another thread waits for the peer's, at both ends. */
struct put {
    st_peer_t *peer;
    char *far;
    int result;
};

static void *put_one(void *argument) {
    struct put *put = argument;
    struct header header = { 9, NULL, { 27, 45 } };
    char data[100];
    fill(data, sizeof data, 9);
    put->result = st1_push(put->peer, &header, data, put->far, sizeof data);
    return NULL;
}

static void map_late(struct end end) {
    st_peer_t *beside;
    GIVES(st_attach(end.fd, 1, 0, &beside), 0);
    char *own = aligned_alloc(PAGE, PAGE);
    CHECK(own);
    push(beside, 1, own);
    struct put put = { end.peer, pull(beside, 1).where, -1 };
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, put_one, &put) == 0);
    /* That thread waits by now, most likely. */
    usleep(50000);
    void *place = own;
    GIVES(st_map(end.peer, &place, PAGE), 0);
    CHECK(pthread_join(thread, NULL) == 0);
    GIVES(put.result, 0);
    pull(end.peer, 9);
    CHECK(mismatch(own, 100, 9) == 100);
    push(beside, 2, NULL);
    pull(beside, 2);
    GIVES(st_unmap(end.peer, &place, 0), 0);
    GIVES(st_detach(&beside), 0);
    leave(&end);
    free(own);
}

static void serve_late(void) {
    map_late(serve_end(3093));
}

static void call_late(uint16_t node) {
    map_late(call_end(node, 3093));
}

/* 91: the socket is closed while another thread is in a call. */
enum { CLOSING_WAYS = 4, CLOSINGS = 5 * CLOSING_WAYS };

static st_peer_t *closing_peer;
static volatile int is_calling;

static void *call_until_closed(void *way) {
    struct header header = { 0 };
    st_header_t low;
    char data[8] = { 0 };
    int result;
    is_calling = 1;
    switch ((intptr_t)way) {
    case 0:
        result = st1_pull(closing_peer, &header, NULL, NULL, 0);
        break;
    case 1:
        result = st_rx(closing_peer, &low, NULL, NULL);
        break;
    case 2: /* the peer maps nothing */
        result = st1_push(closing_peer, NULL, data, data, sizeof data);
        break;
    default:
        while ((result = st1_push(closing_peer, &header, NULL, NULL, 0)) == 0)
            ;
    }
    return (void *)(intptr_t)(result == -1 ? errno : 0);
}

static void serve_closing(void) {
    for (int round = 0; round < CLOSINGS; round++) {
        struct end end = serve_end(3094);
        st_peer_t *beside;
        struct header header;
        GIVES(st_attach(end.fd, 1, 0, &beside), 0);
        FAILS(st1_pull(beside, &header, NULL, NULL, 0), ECONNRESET);
        GIVES(st_detach(&beside), 0);
        leave(&end);
    }
}

static void call_closing(uint16_t node) {
    for (intptr_t round = 0; round < CLOSINGS; round++) {
        struct end end = call_end(node, 3094);
        closing_peer = end.peer;
        is_calling = 0;
        pthread_t thread;
        void *error = NULL;
        CHECK(pthread_create(&thread, NULL, call_until_closed,
                             (void *)(round % CLOSING_WAYS)) == 0);
        while (!is_calling)
            pause_shortly();
        /* It calls, polls or sleeps by now, most likely. */
        usleep(50 * (useconds_t)(round * round));
        GIVES(close(end.fd), 0);
        CHECK(pthread_join(thread, &error) == 0);
        GIVES((intptr_t)error, EBADF);
        GIVES(st_detach(&end.peer), 0);
    }
}

/* 92: a connection belongs to its process: a child that lives on does not keep it open. */
static void serve_forked(void) {
    struct end end = serve_end(3095);
    pull(end.peer, 1);
    struct header header;
    FAILS(st1_pull(end.peer, &header, NULL, NULL, 0), ECONNRESET);
    leave(&end);
    int meeting = serve_stream(3096);
    step(meeting, 'e');
    GIVES(close(meeting), 0);
}

/* In a child that has inherited a connection. */
static void live_on(struct end *end, int ready, int until) {
    struct header header = { 0 };
    st_peer_t *other = NULL;
    void *memory = NULL;
    char byte;
    FAILS(st1_push(end->peer, &header, NULL, NULL, 0), EOPNOTSUPP);
    FAILS(st1_pull(end->peer, &header, NULL, NULL, 0), EOPNOTSUPP);
    FAILS(st_map(end->peer, &memory, PAGE), EOPNOTSUPP);
    FAILS(st_attach(end->fd, 1, 0, &other), EOPNOTSUPP);
    FAILS(send(end->fd, "x", 1, 0), EOPNOTSUPP);
    GIVES(st_detach(&end->peer), 0);
    CHECK(end->peer == NULL);
    GIVES(close(end->fd), 0);
    GIVES(write(ready, "c", 1), 1);
    GIVES(read(until, &byte, 1), 0);
}

static void call_forked(uint16_t node) {
    int until[2], ready[2], status;
    char byte;
    GIVES(pipe(until), 0);
    GIVES(pipe(ready), 0);
    pid_t parent = fork();
    CHECK(parent >= 0);
    if (parent == 0) {
        GIVES(close(until[1]) | close(ready[0]), 0);
        struct end end = call_end(node, 3095);
        void *memory = NULL;
        GIVES(st_map(end.peer, &memory, PAGE), 0);
        push(end.peer, 1, NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            live_on(&end, ready[1], until[0]);
            _exit(0);
        }
        GIVES(close(ready[1]), 0);
        for (;;)
            pause();
    }
    GIVES(close(until[0]) | close(ready[1]), 0);
    GIVES(read(ready[0], &byte, 1), 1);
    GIVES(kill(parent, SIGKILL), 0);
    GIVES(waitpid(parent, &status, 0), parent);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    int meeting = call_stream(node, 3096);
    await(meeting, 'e');
    GIVES(close(meeting), 0);
    GIVES(close(until[1]), 0);
    /* The child has ended well, and closed its end. */
    GIVES(read(ready[0], &byte, 1), 0);
    GIVES(close(ready[0]), 0);
}

const struct pattern patterns[] = {
    { 81, "push and pull, by the library and on level 0", serve_six, call_six },
    { 83, "what is refused", serve_refused, call_refused },
    { 84, "places of queues, and both levels", serve_places, call_places },
    { 85, "closed before detached", serve_closed, call_closed },
    { 86, "many headers and PUTs", serve_many, call_many },
    { 87, "ended waits", serve_waits, call_waits },
    { 88, "level 0 within a page", serve_origin, call_origin },
    { 89, "nothing is taken without waiting", serve_no_wait, call_no_wait },
    { 90, "mapped while another thread waits", serve_late, call_late },
    { 91, "closed during a call", serve_closing, call_closing },
    { 92, "inherited by a child", serve_forked, call_forked },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
