/* One end of the rows of Scheduled Transfers (tests/conformance/src/st): makes the calls that come
 * over a control connection, each in words as the table writes them, and answers with what they
 * gave. `st-agent PORT` listens there. It ends with 0 when it is told to; when the control
 * connection is lost it keeps all it has and waits for the next one. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <scif.h>
#include <signal.h>
#include <spawn.h>
#include <st.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(st_header_t) == 40, "a Schedule Header has 40 bytes");

enum { MAX_WORDS = 24, SLOTS = 512, JOBS = 32, HEADER_WORDS = 5 };
/* The name of nothing: NULL where a slot is named. */
#define NOTHING UINT64_MAX

/* What a call gave. */
struct reply {
    int64_t result;
    int error;
    int extras;
    int64_t extra[16];
};

/* A call that runs in a thread of its own. */
struct job {
    pthread_t thread;
    uint64_t words[MAX_WORDS];
    struct reply reply;
    volatile int is_done;
    int is_used;
};

static int sockets[SLOTS];
static st_peer_t *handles[SLOTS];
static void *allocated[SLOTS];
/* Mappings of peers' windows, and memory registered for peers, by plain SCIF. */
static struct {
    void *at;
    size_t length;
    int is_window;
} mappings[32];
static struct job jobs[JOBS];

#define GIVE(call)                                                              \
    do {                                                                        \
        errno = 0;                                                              \
        reply->result = (int64_t)(call);                                        \
        reply->error = errno;                                                   \
    } while (0)

static void tell(struct reply *reply, int64_t word) {
    reply->extra[reply->extras++] = word;
}

static void *place(uint64_t address) {
    return (void *)(uintptr_t)address;
}

/* ---- Headers and data that tell what they are ---- */

struct header {
    uint64_t words[ST1_HDR_SIZE / 8];
};

static struct header header_of(uint64_t number) {
    struct header header = { { number, number * 3, ~number, number * 5 + 7 } };
    return header;
}

/* Its number; -1 when it is not whole. */
static int64_t number_of(const struct header *header) {
    struct header right = header_of(header->words[0]);
    return memcmp(&right, header, sizeof right) ? -1 : (int64_t)header->words[0];
}

static unsigned char byte_of(uint64_t at, uint64_t seed) {
    return (unsigned char)(at * 31 + (at >> 8) * 7 + seed * 13 + 1);
}

static void fill(void *to, uint64_t length, uint64_t seed) {
    unsigned char *bytes = to;
    for (uint64_t i = 0; i < length; i++)
        bytes[i] = byte_of(i, seed);
}

/* Where the first byte is that is not the seed's; -1: nowhere. */
static int64_t mismatch(const void *from, uint64_t length, uint64_t seed) {
    const volatile unsigned char *bytes = from;
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] != byte_of(i, seed))
            return (int64_t)i;
    return -1;
}

/* ---- Sockets ---- */

static struct sockaddr_in address_of(uint64_t address, uint64_t port) {
    struct sockaddr_in name = { 0 };
    name.sin_family = AF_INET;
    name.sin_port = htons((uint16_t)port);
    name.sin_addr.s_addr = htonl((uint32_t)address);
    return name;
}

static void do_socket(const uint64_t *w, struct reply *reply) {
    GIVE(sockets[w[0]] = socket((int)w[1], (int)w[2], (int)w[3]));
    if (reply->result >= 0)
        reply->result = 0;
}

static void do_file(const uint64_t *w, struct reply *reply) {
    GIVE(sockets[w[0]] = open("/scheme/null", O_RDWR));
    if (reply->result >= 0)
        reply->result = 0;
}

static void do_close(const uint64_t *w, struct reply *reply) {
    int fd = sockets[w[0]];
    sockets[w[0]] = -1;
    GIVE(close(fd));
}

static void do_setopt(const uint64_t *w, struct reply *reply) {
    int value = (int)w[3];
    GIVE(setsockopt(sockets[w[0]], (int)w[1], (int)w[2], &value, (socklen_t)w[4]));
}

static void do_getopt(const uint64_t *w, struct reply *reply) {
    int value = -1;
    socklen_t length = sizeof value;
    GIVE(getsockopt(sockets[w[0]], (int)w[1], (int)w[2], &value, &length));
    tell(reply, value);
}

static void do_bind(const uint64_t *w, struct reply *reply) {
    struct sockaddr_in name = address_of(w[1], w[2]);
    GIVE(bind(sockets[w[0]], (struct sockaddr *)&name, sizeof name));
}

static void do_listen(const uint64_t *w, struct reply *reply) {
    GIVE(listen(sockets[w[0]], (int)w[1]));
}

static void do_accept(const uint64_t *w, struct reply *reply) {
    int fd;
    GIVE(fd = accept(sockets[w[0]], NULL, NULL));
    if (fd >= 0) {
        sockets[w[1]] = fd;
        reply->result = 0;
    }
}

static void do_connect(const uint64_t *w, struct reply *reply) {
    struct sockaddr_in name = address_of(w[1], w[2]);
    GIVE(connect(sockets[w[0]], (struct sockaddr *)&name, sizeof name));
}

static void do_nonblock(const uint64_t *w, struct reply *reply) {
    int flags = fcntl(sockets[w[0]], F_GETFL);
    GIVE(fcntl(sockets[w[0]], F_SETFL, w[1] ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

static void do_name(const uint64_t *w, struct reply *reply) {
    struct sockaddr_in name = { 0 };
    socklen_t length = sizeof name;
    if (w[1])
        GIVE(getpeername(sockets[w[0]], (struct sockaddr *)&name, &length));
    else
        GIVE(getsockname(sockets[w[0]], (struct sockaddr *)&name, &length));
    tell(reply, ntohl(name.sin_addr.s_addr));
    tell(reply, ntohs(name.sin_port));
}

static void do_poll(const uint64_t *w, struct reply *reply) {
    struct pollfd entry = { sockets[w[0]], (short)w[1], 0 };
    GIVE(poll(&entry, 1, (int)w[2]));
    if (reply->result >= 0)
        reply->result = entry.revents;
}

static void do_send(const uint64_t *w, struct reply *reply) {
    GIVE(send(sockets[w[0]], place(w[1]), w[2], (int)w[3]));
}

/* Tells the flags of the message as well. */
static void do_recv(const uint64_t *w, struct reply *reply) {
    struct iovec part = { place(w[1]), w[2] };
    struct msghdr message = { 0 };
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    GIVE(recvmsg(sockets[w[0]], &message, (int)w[3]));
    tell(reply, message.msg_flags);
}

/* ---- Plain SCIF, for peers that are not of this library ---- */

static void do_scif(const uint64_t *w, struct reply *reply) {
    int epd;
    GIVE(epd = scif_open());
    sockets[w[0]] = epd;
    if (epd < 0)
        return;
    if (w[1])
        GIVE(scif_bind(epd, (uint16_t)w[1]) < 0 ? -1 : scif_listen(epd, 4));
    else
        reply->result = 0;
}

static void do_scifaccept(const uint64_t *w, struct reply *reply) {
    struct scif_portID peer;
    scif_epd_t epd;
    GIVE(scif_accept(sockets[w[0]], &peer, &epd, SCIF_ACCEPT_SYNC));
    if (reply->result == 0)
        sockets[w[1]] = epd;
}

static void do_scifconnect(const uint64_t *w, struct reply *reply) {
    struct scif_portID to = { (uint16_t)w[1], (uint16_t)w[2] };
    GIVE(scif_connect(sockets[w[0]], &to));
    if (reply->result > 0)
        reply->result = 0;
}

/* A record of 72 bytes: nine words. */
static void do_scifsend(const uint64_t *w, struct reply *reply) {
    GIVE(scif_send(sockets[w[0]], (void *)(uintptr_t)(w + 1), 72, SCIF_SEND_BLOCK));
}

static void do_scifrecv(const uint64_t *w, struct reply *reply) {
    int64_t words[9] = { 0 };
    GIVE(scif_recv(sockets[w[0]], words, sizeof words, SCIF_RECV_BLOCK));
    for (int i = 0; i < 9; i++)
        tell(reply, words[i]);
}

static void note_mapping(void *at, size_t length, int is_window) {
    for (size_t i = 0; i < sizeof mappings / sizeof mappings[0]; i++) {
        if (mappings[i].at == NULL) {
            mappings[i].at = at;
            mappings[i].length = length;
            mappings[i].is_window = is_window;
            return;
        }
    }
}

static void do_scifreg(const uint64_t *w, struct reply *reply) {
    void *memory = scif_memory(w[1]);
    GIVE(scif_register(sockets[w[0]], memory, w[1], 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0));
    note_mapping(memory, w[1], 0);
}

static void do_scifmap(const uint64_t *w, struct reply *reply) {
    GIVE(scif_mmap(NULL, w[2], SCIF_PROT_READ | SCIF_PROT_WRITE, 0, sockets[w[0]], (off_t)w[1]));
    if (reply->result != -1)
        note_mapping(place((uint64_t)reply->result), w[2], 1);
}

/* ---- Channels ---- */

static void do_attach(const uint64_t *w, struct reply *reply) {
    st_peer_t **to = w[3] == NOTHING ? NULL : &handles[w[3]];
    GIVE(st_attach(sockets[w[0]], (int)w[1], (int)w[2], to));
}

/* Tells whether the handle is NULL then. */
static void do_detach(const uint64_t *w, struct reply *reply) {
    st_peer_t **handle = w[0] == NOTHING ? NULL : &handles[w[0]];
    GIVE(st_detach(handle));
    tell(reply, handle == NULL || *handle == NULL);
}

static void do_fence(const uint64_t *w, struct reply *reply) {
    if (w[1])
        GIVE(st_flush(handles[w[0]]));
    else
        GIVE(st_fence(handles[w[0]]));
}

/* Whether fence and flush are one function. */
static void do_symbols(const uint64_t *w, struct reply *reply) {
    (void)w;
    int (*volatile fence)(st_peer_t *) = st_fence, (*volatile flush)(st_peer_t *) = st_flush;
    reply->result = fence == flush;
}

/* Tells the address afterwards. */
static void do_map(const uint64_t *w, struct reply *reply) {
    void *memory = place(w[1]);
    GIVE(st_map(handles[w[0]], w[1] == NOTHING ? NULL : &memory, (int)w[2]));
    tell(reply, (int64_t)(uintptr_t)memory);
}

static void do_unmap(const uint64_t *w, struct reply *reply) {
    void *memory = place(w[1]);
    GIVE(st_unmap(handles[w[0]], w[1] == NOTHING ? NULL : &memory, (int)w[2]));
    tell(reply, (int64_t)(uintptr_t)memory);
}

static void do_push(const uint64_t *w, struct reply *reply) {
    struct header header = header_of(w[1]);
    void *hdr = w[1] == NOTHING ? NULL : &header;
    GIVE(st1_push(handles[w[0]], hdr, place(w[2]), place(w[3]), (int)w[4]));
}

/* Tells the number of the header; -1 when it is not whole. */
static void do_pull(const uint64_t *w, struct reply *reply) {
    struct header header = { { 0 } };
    GIVE(st1_pull(handles[w[0]], w[1] ? &header : NULL, place(w[2]), place(w[3]), (int)w[4]));
    tell(reply, number_of(&header));
}

/* The header is five words as they lie in memory; `payload` is a number or NOTHING. */
static void do_tx(const uint64_t *w, struct reply *reply) {
    st_header_t low;
    memcpy(&low, w + 2, sizeof low);
    struct header payload = header_of(w[7]);
    void *opt_pay = w[7] == NOTHING ? NULL : &payload;
    GIVE(st_tx(handles[w[0]], w[1] ? &low : NULL, opt_pay, (int)w[8], (int)w[9], (int)w[10]));
}

/* Tells the header, the length, the payload's number, and whether bytes behind the payload's place
 * were changed. */
static void do_rx(const uint64_t *w, struct reply *reply) {
    st_header_t low = { 0 };
    struct { struct header payload; unsigned char behind[64]; } room;
    memset(&room, 0x5a, sizeof room);
    int length = -1, spoilt = 0;
    GIVE(st_rx(handles[w[0]], w[1] ? &low : NULL, w[2] ? &room.payload : NULL, &length));
    uint64_t words[HEADER_WORDS];
    memcpy(words, &low, sizeof low);
    for (int i = 0; i < HEADER_WORDS; i++)
        tell(reply, (int64_t)words[i]);
    tell(reply, length);
    tell(reply, number_of(&room.payload));
    for (size_t i = 0; i < sizeof room.behind; i++)
        spoilt |= room.behind[i] != 0x5a;
    tell(reply, spoilt);
}

/* The size of a header, and where its fields are. */
static void do_layout(const uint64_t *w, struct reply *reply) {
    (void)w;
#define AT(field) tell(reply, (int64_t)offsetof(st_header_t, field))
    tell(reply, sizeof(st_header_t));
    AT(op), AT(param), AT(d_port), AT(s_port), AT(d_key), AT(cksum), AT(b_id), AT(bufx);
    AT(offset), AT(sync), AT(b_num), AT(d_id), AT(s_id);
}

/* Push and pull as a program writes them that has level 0 alone: memory is named by where it is in
 * both ranges. */
static int move_by_0(const uint64_t *w, int code, struct header *hdr) {
    st_header_t low = { 0 };
    low.op = (uint16_t)(ST_OP(code) | (hdr ? 0 : ST_FLAG_SILENT));
    low.bufx = (uint32_t)(w[3] >> 12);
    low.offset = w[3] & 0xfff;
    return st_tx(handles[w[0]], &low, hdr, (int)w[4], (int)(w[2] >> 12), w[2] & 0xfff);
}

static void do_push0(const uint64_t *w, struct reply *reply) {
    struct header header = header_of(w[1]);
    struct header *hdr = w[1] == NOTHING ? NULL : &header;
    st_header_t low = { 0 };
    low.op = ST_OP(ST_OP_NOP);
    if (w[4])
        GIVE(move_by_0(w, ST_OP_DATA, hdr));
    else
        GIVE(st_tx(handles[w[0]], &low, hdr, 0, 0, 0));
}

static void do_pull0(const uint64_t *w, struct reply *reply) {
    struct header header = { { 0 } };
    st_header_t low;
    int length;
    if (w[1])
        GIVE(st_rx(handles[w[0]], &low, &header, &length));
    if (reply->result == 0 && w[4])
        GIVE(move_by_0(w, ST_OP_GET, NULL));
    tell(reply, number_of(&header));
}

/* ---- Many calls in a row ---- */

/* Makes a call again and again as long as it would have to wait: the program looks itself. It gives
 * way after many looks only, as the library takes a program that looks seldom for one that was
 * away. */
#define LOOK(call)                                                              \
    ({                                                                          \
        int result_;                                                            \
        for (int looks_ = 1; (result_ = (call)) < 0 && errno == EAGAIN; looks_++) \
            if (looks_ % 100000 == 0)                                           \
                sched_yield();                                                  \
        result_;                                                                \
    })

/* Pushes headers with the numbers from w[1] on, w[2] of them. The result is how many it were. */
static void do_pushes(const uint64_t *w, struct reply *reply) {
    errno = 0;
    uint64_t done = 0;
    for (; done < w[2]; done++) {
        struct header header = header_of(w[1] + done);
        if (LOOK(st1_push(handles[w[0]], &header, NULL, NULL, 0)) < 0)
            break;
    }
    reply->result = (int64_t)done;
    tell(reply, errno);
}

/* Pulls as many; the result is how many came in order. */
static void do_pulls(const uint64_t *w, struct reply *reply) {
    errno = 0;
    uint64_t done = 0;
    for (; done < w[2]; done++) {
        struct header header = { { 0 } };
        if (LOOK(st1_pull(handles[w[0]], &header, NULL, NULL, 0)) < 0)
            break;
        if (number_of(&header) != (int64_t)(w[1] + done)) {
            errno = EBADMSG;
            break;
        }
    }
    reply->result = (int64_t)done;
    tell(reply, errno);
}

static long counter(const char *name) {
    FILE *file = fopen("/scheme/scif/stats", "r");
    if (!file)
        return -1;
    char line[256], word[64];
    long value, found = -1;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %ld", word, &value) == 2 && !strcmp(word, name))
            found = value;
    fclose(file);
    return found;
}

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Rounds of push and pull of each of the three kinds, answered by the other end (w[1]: this one
 * begins) with w[2] rounds; w[3] is local memory, w[4] the peer's, w[5] bytes. Tells by how much the
 * node's counter of requests grew, and how many milliseconds that took. */
static void do_rounds(const uint64_t *w, struct reply *reply) {
    st_peer_t *peer = handles[w[0]];
    char *local = place(w[3]), *remote = place(w[4]);
    int bytes = (int)w[5];
    int64_t begun = milliseconds(), done = 0, requests = counter("requests");
    errno = 0;
    for (int kind = 0; kind < 3; kind++) {
        /* A header; data; both. Data alone is told by a header. */
        for (uint64_t i = 0; i < w[2]; i++) {
            for (int turn = 0; turn < 2; turn++) {
                struct header header = header_of(i);
                int result;
                if ((turn == 0) == (w[1] != 0)) {
                    if (kind == 1
                        && ((st1_push(peer, NULL, local, remote, bytes)) < 0
                            || (st1_pull(peer, NULL, local, remote, bytes)) < 0))
                        goto out;
                    result = kind == 2 ? (st1_push(peer, &header, local, remote, bytes))
                                       : (st1_push(peer, &header, NULL, NULL, 0));
                } else {
                    memset(&header, 0, sizeof header);
                    result = kind == 2 ? (st1_pull(peer, &header, local, remote, bytes))
                                       : (st1_pull(peer, &header, NULL, NULL, 0));
                    if (result == 0 && number_of(&header) != (int64_t)i) {
                        errno = EBADMSG;
                        result = -1;
                    }
                }
                if (result < 0)
                    goto out;
            }
            done++;
        }
    }
out:;
    int error = errno;
    reply->result = done;
    tell(reply, counter("requests") - requests);
    tell(reply, milliseconds() - begun);
    tell(reply, error);
}

/* The length and the alignment of the PUT with this number: 1 byte to 64 KiB, mostly short. */
static uint64_t length_of(uint64_t number) {
    uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 31;
    return 1 + (mixed & ((1u << (mixed >> 59) % 17) - 1));
}

/* PUTs with headers into a range of places at the peer's w[3], from w[1] on, w[2] of them; each place
 * is used again when the peer has said so. */
enum { PLACES = 8, PLACE = 64 * 1024 + 64, PATTERN = 2 * 64 * 1024 };

static void do_putloop(const uint64_t *w, struct reply *reply) {
    unsigned char *pattern = malloc(PATTERN);
    uint64_t done = 0;
    errno = 0;
    for (uint64_t i = 0; i < PATTERN; i++)
        pattern[i] = (unsigned char)(i * 31 + (i >> 8) * 7);
    for (; done < w[2]; done++) {
        uint64_t number = w[1] + done, length = length_of(number);
        unsigned char *from = pattern + number % 65521;
        char *to = (char *)place(w[3]) + number % PLACES * PLACE + number % 64;
        struct header header = header_of(number);
        if (st1_push(handles[w[0]], &header, from, to, (int)length) < 0)
            break;
        if (done % PLACES == PLACES - 1 && st1_pull(handles[w[0]], &header, NULL, NULL, 0) < 0)
            break;
    }
    reply->result = (int64_t)done;
    tell(reply, errno);
    free(pattern);
}

/* Pulls as many, and looks for the data of each. Beside it bytes before and behind must stay. */
static void do_getloop(const uint64_t *w, struct reply *reply) {
    unsigned char *pattern = malloc(PATTERN);
    uint64_t done = 0;
    errno = 0;
    for (uint64_t i = 0; i < PATTERN; i++)
        pattern[i] = (unsigned char)(i * 31 + (i >> 8) * 7);
    for (; done < w[2]; done++) {
        uint64_t number = w[1] + done, length = length_of(number);
        struct header header = { { 0 } };
        if (st1_pull(handles[w[0]], &header, NULL, NULL, 0) < 0)
            break;
        unsigned char *at = (unsigned char *)place(w[3]) + number % PLACES * PLACE + number % 64;
        if (number_of(&header) != (int64_t)number
            || memcmp(at, pattern + number % 65521, length)) {
            errno = EBADMSG;
            break;
        }
        memset(at, 0xee, length);
        if (done % PLACES == PLACES - 1 && st1_push(handles[w[0]], &header, NULL, NULL, 0) < 0)
            break;
    }
    reply->result = (int64_t)done;
    tell(reply, errno);
    free(pattern);
}

/* PUTs w[3] bytes from w[1] to w[2] until a call fails; its error comes behind the number of PUTs.
 * With w[4] each has a header. */
static void do_storm(const uint64_t *w, struct reply *reply) {
    uint64_t done = 0;
    errno = 0;
    for (;; done++) {
        struct header header = header_of(done);
        *(volatile uint64_t *)place(w[1]) = done;
        if (st1_push(handles[w[0]], w[4] ? &header : NULL, place(w[1]), place(w[2]), (int)w[3]) < 0)
            break;
    }
    reply->result = (int64_t)done;
    tell(reply, errno);
}

/* Pulls headers from 0 on until that fails, and looks at the number that each PUT of the storm begins
 * with: it is the header's, or a later one's. */
static void do_calm(const uint64_t *w, struct reply *reply) {
    uint64_t done = 0;
    errno = 0;
    for (;; done++) {
        struct header header = { { 0 } };
        if (st1_pull(handles[w[0]], &header, NULL, NULL, 0) < 0)
            break;
        if (number_of(&header) != (int64_t)done || *(volatile uint64_t *)place(w[1]) < done) {
            errno = EBADMSG;
            break;
        }
    }
    reply->result = (int64_t)done;
    tell(reply, errno);
}

/* Maps and unmaps w[1] bytes w[2] times. */
static void do_maps(const uint64_t *w, struct reply *reply) {
    uint64_t done = 0;
    errno = 0;
    for (; done < w[2]; done++) {
        void *memory = NULL;
        if (st_map(handles[w[0]], &memory, (int)w[1]) < 0 || memory == NULL
            || st_unmap(handles[w[0]], &memory, 0) < 0)
            break;
    }
    reply->result = (int64_t)done;
    tell(reply, errno);
}

/* Adds 1 to a word of the own memory w[1] times. */
static void do_adds(const uint64_t *w, struct reply *reply) {
    for (uint64_t i = 0; i < w[1]; i++)
        __atomic_fetch_add((uint64_t *)place(w[0]), 1, __ATOMIC_SEQ_CST);
    reply->result = 0;
}

/* Locked operations w[2] times on the word at w[1] of the peer's range: the flags are w[3]. The
 * result is the sum of what came back. */
static void do_fetches(const uint64_t *w, struct reply *reply) {
    uint64_t sum = 0, done = 0;
    errno = 0;
    for (; done < w[2]; done++) {
        st_header_t low = { 0 };
        low.op = (uint16_t)(ST_OP(ST_OP_GET) | w[3]);
        low.bufx = (uint32_t)(w[1] >> 12);
        low.offset = w[1] & 0xfff;
        if (st_tx(handles[w[0]], &low, NULL, 8, 0, 0) < 0)
            break;
        sum += *(uint64_t *)place(w[4]);
    }
    reply->result = (int64_t)sum;
    tell(reply, (int64_t)done);
    tell(reply, errno);
}

/* ---- Memory ---- */

static void do_alloc(const uint64_t *w, struct reply *reply) {
    GIVE((intptr_t)(allocated[w[0]] = malloc(w[1])));
}

static void do_fill(const uint64_t *w, struct reply *reply) {
    fill(place(w[0]), w[1], w[2]);
    reply->result = 0;
}

static void do_set(const uint64_t *w, struct reply *reply) {
    memset(place(w[0]), (int)w[2], w[1]);
    reply->result = 0;
}

/* How many bytes from there on have this value. */
static void do_same(const uint64_t *w, struct reply *reply) {
    const volatile unsigned char *bytes = place(w[0]);
    uint64_t count = 0;
    while (count < w[1] && bytes[count] == (unsigned char)w[2])
        count++;
    reply->result = (int64_t)count;
}

static void do_check(const uint64_t *w, struct reply *reply) {
    tell(reply, mismatch(place(w[0]), w[1], w[2]));
    reply->result = 0;
}

static void do_load(const uint64_t *w, struct reply *reply) {
    tell(reply, (int64_t)__atomic_load_n((uint64_t *)place(w[0]), __ATOMIC_ACQUIRE));
    reply->result = 0;
}

static void do_store(const uint64_t *w, struct reply *reply) {
    __atomic_store_n((uint64_t *)place(w[0]), w[1], __ATOMIC_RELEASE);
    reply->result = 0;
}

static void do_store4(const uint64_t *w, struct reply *reply) {
    __atomic_store_n((uint32_t *)place(w[0]), (uint32_t)w[1], __ATOMIC_RELEASE);
    reply->result = 0;
}

/* ---- The program and its node ---- */

static void do_counts(const uint64_t *w, struct reply *reply) {
    (void)w;
    static const char *const names[] = {
        "endpoints", "connections", "windows", "remote_windows", "mapped_pages", "pinned_pages",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        tell(reply, counter(names[i]));
    /* Each connection has one ring, whose length depends on how many others there were when it was
     * made: an agent that follows another one may get a shorter one. */
    tell(reply, counter("pages") - counter("ring_pages"));
    FILE *file = fopen("/scheme/scif/ports", "r");
    int lines = 0, letter;
    while (file && (letter = getc(file)) != EOF)
        lines += letter == '\n';
    if (file)
        fclose(file);
    tell(reply, lines);
    reply->result = 0;
}

/* Sets a limit of the node's; tells what it was. */
static void set_limit(const char *name, uint64_t limit, struct reply *reply) {
    char line[256], word[64];
    long value, before = -1;
    FILE *file = fopen("/scheme/scif/limits", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %ld", word, &value) == 2 && !strcmp(word, name))
            before = value;
    if (file)
        fclose(file);
    int fd = open("/scheme/scif/limits", O_WRONLY);
    int length = snprintf(line, sizeof line, "%s %lu\n", name, (unsigned long)limit);
    GIVE(write(fd, line, length) == length ? 0 : -1);
    close(fd);
    tell(reply, before);
}

static void do_limit(const uint64_t *w, struct reply *reply) {
    set_limit("pinned_pages_per_user", w[0], reply);
}

static void do_silence(const uint64_t *w, struct reply *reply) {
    set_limit("silence_ms", w[0], reply);
}

static void do_sleep(const uint64_t *w, struct reply *reply) {
    usleep((useconds_t)(w[0] * 1000));
    reply->result = 0;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    _exit(9);
}

static void *die_later(void *argument) {
    usleep((useconds_t)((uintptr_t)argument * 1000));
    die();
    return NULL;
}

/* Dies, in so many milliseconds. */
static void do_die(const uint64_t *w, struct reply *reply) {
    if (w[0] == 0)
        die();
    pthread_t thread;
    reply->result = pthread_create(&thread, NULL, die_later, place(w[0])) ? -1 : 0;
}

/* A child attaches a channel of a socket that it has inherited; the result is what that gave. */
static void do_child(const uint64_t *w, struct reply *reply) {
    char number[16];
    snprintf(number, sizeof number, "%d", sockets[w[0]]);
    char *words[] = { "st-agent", "child", number, NULL };
    int flags = fcntl(sockets[w[0]], F_GETFD), status = 0;
    fcntl(sockets[w[0]], F_SETFD, flags & ~FD_CLOEXEC);
    pid_t pid;
    int error = posix_spawnp(&pid, "st-agent", NULL, NULL, words, environ);
    fcntl(sockets[w[0]], F_SETFD, flags);
    if (error || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        reply->result = -1;
        reply->error = error ? error : ECHILD;
        return;
    }
    reply->result = WEXITSTATUS(status) ? -1 : 0;
    reply->error = WEXITSTATUS(status);
}

/* The driver of the node dies. */
static void do_driver(const uint64_t *w, struct reply *reply) {
    (void)w;
    GIVE(system("ps | grep ' micd$' | { read -r pid rest; kill -9 \"$pid\"; }"));
}

static void do_reset(const uint64_t *w, struct reply *reply) {
    (void)w;
    /* Closed sockets end what waits. */
    for (int i = 0; i < SLOTS; i++) {
        if (sockets[i] >= 0)
            close(sockets[i]);
        sockets[i] = -1;
    }
    for (int i = 0; i < JOBS; i++) {
        if (jobs[i].is_used)
            pthread_join(jobs[i].thread, NULL);
        jobs[i].is_used = 0;
    }
    reply->result = 0;
    for (size_t i = 0; i < sizeof mappings / sizeof mappings[0]; i++) {
        if (mappings[i].at && mappings[i].is_window)
            scif_munmap(mappings[i].at, mappings[i].length);
        else if (mappings[i].at)
            munmap(mappings[i].at, mappings[i].length);
        mappings[i].at = NULL;
    }
    for (int i = 0; i < SLOTS; i++) {
        if (handles[i] && st_detach(&handles[i]) < 0) {
            reply->result = -1;
            reply->error = errno;
        }
        free(allocated[i]);
        allocated[i] = NULL;
    }
}

static const struct call {
    char name[9];
    void (*make)(const uint64_t *words, struct reply *reply);
} calls[] = {
    { "socket", do_socket },     { "file", do_file },         { "close", do_close },
    { "setopt", do_setopt },     { "getopt", do_getopt },     { "bind", do_bind },
    { "listen", do_listen },     { "accept", do_accept },     { "connect", do_connect },
    { "nonblock", do_nonblock }, { "name", do_name },         { "poll", do_poll },
    { "send", do_send },         { "recv", do_recv },         { "scif", do_scif },
    { "scifacpt", do_scifaccept }, { "scifconn", do_scifconnect }, { "scifsend", do_scifsend },
    { "scifrecv", do_scifrecv },  { "scifreg", do_scifreg },    { "scifmap", do_scifmap },
    { "attach", do_attach },     { "detach", do_detach },     { "fence", do_fence },
    { "symbols", do_symbols },   { "map", do_map },           { "unmap", do_unmap },
    { "push", do_push },         { "pull", do_pull },         { "tx", do_tx },
    { "rx", do_rx },             { "pushes", do_pushes },     { "pulls", do_pulls },
    { "rounds", do_rounds },     { "putloop", do_putloop },   { "getloop", do_getloop },
    { "storm", do_storm },       { "calm", do_calm },         { "maps", do_maps },
    { "fetches", do_fetches },   { "alloc", do_alloc },       { "fill", do_fill },
    { "set", do_set },           { "same", do_same },         { "check", do_check },
    { "load", do_load },         { "store", do_store },       { "store4", do_store4 },
    { "counts", do_counts },     { "limit", do_limit }, { "silence", do_silence }, { "layout", do_layout },
    { "push0", do_push0 }, { "pull0", do_pull0 }, { "adds", do_adds },        { "sleep", do_sleep },
    { "die", do_die },           { "child", do_child },       { "driver", do_driver },
    { "reset", do_reset },
};

static void make(const uint64_t *words, struct reply *reply) {
    char name[9] = { 0 };
    memcpy(name, words, 8);
    memset(reply, 0, sizeof *reply);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (!strcmp(calls[i].name, name)) {
            calls[i].make(words + 1, reply);
            return;
        }
    }
    fprintf(stderr, "st-agent: no call '%s'\n", name);
    reply->result = -1;
    reply->error = ENOSYS;
}

static void *run_job(void *argument) {
    struct job *job = argument;
    make(job->words, &job->reply);
    __atomic_store_n(&job->is_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* ---- The control connection: messages of words, with their number in front ---- */

enum { CALL = 1, BEGIN, IS_DONE, FINISH, QUIT };

static int answer(int control, const struct reply *reply) {
    uint64_t words[3 + 16] = { 2 + (uint64_t)reply->extras };
    words[1] = reply->result < 0;
    words[2] = reply->result < 0 ? (uint64_t)reply->error : (uint64_t)reply->result;
    for (int i = 0; i < reply->extras; i++)
        words[3 + i] = (uint64_t)reply->extra[i];
    int length = (int)(8 * (words[0] + 1));
    return scif_send(control, words, length, SCIF_SEND_BLOCK) == length;
}

static void begin(const uint64_t *words, struct reply *reply) {
    for (int i = 0; i < JOBS; i++) {
        struct job *job = &jobs[i];
        if (job->is_used)
            continue;
        memcpy(job->words, words, sizeof job->words);
        job->is_done = 0;
        job->is_used = pthread_create(&job->thread, NULL, run_job, job) == 0;
        reply->result = job->is_used ? i : -1;
        reply->error = EAGAIN;
        return;
    }
    reply->result = -1;
    reply->error = ENOSPC;
}

/* Answers until the connection is lost (0) or says that this is all (1). */
static int serve(int control) {
    for (;;) {
        uint64_t count, words[1 + MAX_WORDS] = { 0 };
        if (scif_recv(control, &count, 8, SCIF_RECV_BLOCK) != 8 || count > 1 + MAX_WORDS)
            return 0;
        if (scif_recv(control, words, (int)(8 * count), SCIF_RECV_BLOCK) != (int)(8 * count))
            return 0;
        struct reply reply = { 0 };
        struct job *job = &jobs[words[1] % JOBS];
        switch (words[0]) {
        case CALL:
            make(words + 1, &reply);
            break;
        case BEGIN:
            begin(words + 1, &reply);
            break;
        case IS_DONE:
            reply.result = __atomic_load_n(&job->is_done, __ATOMIC_ACQUIRE);
            break;
        case FINISH:
            pthread_join(job->thread, NULL);
            job->is_used = 0;
            reply = job->reply;
            break;
        default:
            return 1;
        }
        if (!answer(control, &reply))
            return 0;
    }
}

/* Waits for the next control connection; -1: there is no driver at this moment. */
static int next_control(uint16_t port) {
    int on = scif_open(), control = -1;
    struct scif_portID peer;
    if (on < 0)
        return -1;
    if (scif_bind(on, port) < 0 || scif_listen(on, 1) < 0
        || scif_accept(on, &peer, &control, SCIF_ACCEPT_SYNC) < 0)
        control = -1;
    scif_close(on);
    return control;
}

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "child")) {
        st_peer_t *peer;
        return st_attach(atoi(arguments[2]), 0, 0, &peer) < 0 ? errno : 0;
    }
    if (count != 2)
        return 64;
    for (int i = 0; i < SLOTS; i++)
        sockets[i] = -1;
    for (;;) {
        int control = next_control((uint16_t)atoi(arguments[1]));
        if (control < 0) {
            usleep(50000);
            continue;
        }
        int is_last = serve(control);
        scif_close(control);
        if (is_last)
            return 0;
    }
}
