/*
 * What the pattern programs share. A program is a list of patterns, numbered as the usage patterns
 * of SCIF's clients are; each has a serving and a calling side. Without arguments a program plays
 * both, in two threads of one node; `serve` plays the serving sides one after the other, `call n`
 * the calling sides against node n. A check that fails ends the program with a status of its own.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <scif.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096
/* Long enough for a busy machine; whoever waits this long has failed. */
#define TIMEOUT_MS 60000

struct pattern {
    int number;
    const char *what;
    void (*serve)(void);
    void (*call)(uint16_t node);
};

extern const struct pattern patterns[];

/* The pattern being played. */
static int playing;

/* Ends the program: a check of a file has failed. */
#define failed(...) check_failed(__COUNTER__, __VA_ARGS__)

__attribute__((unused, noreturn, format(printf, 4, 5)))
static void check_failed(int check, const char *file, int line, const char *format, ...) {
    int error = errno;
    va_list list;
    va_start(list, format);
    char text[256];
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("pattern %d: FAIL %s:%d: %s (errno %d: %s)\n", playing, file, line, text, error,
           strerror(error));
    fflush(stdout);
    /* Statuses from 1 on, in the order of the checks in the source. */
    _exit(1 + check % 254);
}

#define CHECK(condition)                                        \
    do {                                                        \
        if (!(condition))                                       \
            failed(__FILE__, __LINE__, "%s", #condition);       \
    } while (0)

/* A call that must fail with this error. */
#define FAILS(call, error)                                                          \
    do {                                                                            \
        errno = 0;                                                                  \
        long result_ = (long)(call);                                                \
        if (result_ != -1 || errno != (error))                                      \
            failed(__FILE__, __LINE__, "%s gave %ld, not %s", #call, result_, #error); \
    } while (0)

/* A call that must give this number. */
#define GIVES(call, number)                                                         \
    do {                                                                            \
        long result_ = (long)(call);                                                \
        if (result_ != (long)(number))                                              \
            failed(__FILE__, __LINE__, "%s gave %ld, not %ld", #call, result_,      \
                   (long)(number));                                                 \
    } while (0)

/* Lets others run before something is tried again. */
static inline void pause_shortly(void) {
    usleep(2000);
}

static inline uint16_t own_node(void) {
    uint16_t self = 0xffff;
    CHECK(scif_get_nodeIDs(NULL, 0, &self) >= 1);
    return self;
}

/* An endpoint that listens on a port. */
static inline scif_epd_t listener(uint16_t port, int backlog) {
    scif_epd_t epd = scif_open();
    CHECK(epd != SCIF_OPEN_FAILED);
    int bound = scif_bind(epd, port);
    CHECK(bound > 0 && (port == 0 || bound == port));
    GIVES(scif_listen(epd, backlog), 0);
    return epd;
}

static inline scif_epd_t accept_one(scif_epd_t on) {
    struct scif_portID peer = { 0xffff, 0 };
    scif_epd_t epd;
    GIVES(scif_accept(on, &peer, &epd, SCIF_ACCEPT_SYNC), 0);
    CHECK(peer.node != 0xffff && peer.port != 0);
    return epd;
}

/* Listens, takes one connection and stops listening. */
static inline scif_epd_t serve_one(uint16_t port) {
    scif_epd_t on = listener(port, 1);
    scif_epd_t epd = accept_one(on);
    GIVES(scif_close(on), 0);
    return epd;
}

/* Connects an endpoint, however long it takes until the node is there and somebody listens. */
static inline void connect_to(scif_epd_t epd, uint16_t node, uint16_t port) {
    struct scif_portID to = { node, port };
    int tries = 0;
    while (scif_connect(epd, &to) < 0) {
        CHECK(errno == ECONNREFUSED || errno == ENODEV);
        CHECK(tries++ < TIMEOUT_MS / 2);
        pause_shortly();
    }
}

static inline scif_epd_t call_one(uint16_t node, uint16_t port) {
    scif_epd_t epd = scif_open();
    CHECK(epd != SCIF_OPEN_FAILED);
    connect_to(epd, node, port);
    return epd;
}

static inline void send_all(scif_epd_t epd, const void *data, int length) {
    GIVES(scif_send(epd, (void *)data, length, SCIF_SEND_BLOCK), length);
}

static inline void recv_all(scif_epd_t epd, void *data, int length) {
    GIVES(scif_recv(epd, data, length, SCIF_RECV_BLOCK), length);
}

/* A step of one side that the other waits for. */
static inline void tell(scif_epd_t epd, char step) {
    send_all(epd, &step, 1);
}

static inline void expect(scif_epd_t epd, char step) {
    char found = 0;
    recv_all(epd, &found, 1);
    if (found != step)
        failed(__FILE__, __LINE__, "the other side is at step %c, not %c", found, step);
}

static inline void tell_number(scif_epd_t epd, int64_t number) {
    send_all(epd, &number, sizeof number);
}

static inline int64_t told_number(scif_epd_t epd) {
    int64_t number;
    recv_all(epd, &number, sizeof number);
    return number;
}

/* Waits for one of `events`, or the peer's end; returns what is there. */
static inline int wait_for(scif_epd_t epd, int events) {
    struct scif_pollepd entry = { epd, (short)events, 0 };
    GIVES(scif_poll(&entry, 1, TIMEOUT_MS), 1);
    return entry.revents;
}

/* Waits until the peer has gone. */
static inline int wait_for_end(scif_epd_t epd) {
    int found = wait_for(epd, 0);
    CHECK(found & SCIF_POLLHUP);
    return found;
}

/* Data that tells where it belongs. */
static inline void fill(void *place, size_t length, unsigned seed) {
    unsigned char *bytes = place;
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + seed);
}

static inline size_t mismatch(const void *place, size_t length, unsigned seed) {
    const unsigned char *bytes = place;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != (unsigned char)(i * 31 + (i >> 8) * 7 + seed))
            return i;
    return length;
}

/* The number behind a word of a text file of the scheme, of the line that begins with `key`;
 * -1 when there is no such line. `column` counts from 0. */
static inline long text_number(const char *path, const char *key, int column) {
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    char line[256];
    long number = -1;
    while (number < 0 && fgets(line, sizeof line, file)) {
        char *rest = NULL;
        char *word = strtok_r(line, " \n", &rest);
        if (word == NULL || strcmp(word, key) != 0)
            continue;
        for (int i = 0; i < column && word; i++)
            word = strtok_r(NULL, " \n", &rest);
        if (word)
            number = strtol(word, NULL, 10);
    }
    fclose(file);
    return number;
}

static inline long stat_number(const char *counter) {
    return text_number("/scheme/scif/stats", counter, 1);
}

/* How many wait for something in the driver: in a request, or with a file in an event queue, which
   is how the library's calls wait on a kernel that does not end the requests of a dead driver. */
static inline long waiting(void) {
    return stat_number("waiting") + stat_number("watched");
}

static inline void *serving_side(void *argument) {
    ((const struct pattern *)argument)->serve();
    return NULL;
}

/* Ways to play a program's patterns besides those above, by name; returns the exit status. */
extern int play_part(const char *part, int count, char **arguments);

#ifndef NO_PATTERNS
int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "both";
    int node = count > 2 ? atoi(arguments[2]) : own_node();
    if (strcmp(how, "both") && strcmp(how, "serve") && strcmp(how, "call"))
        return play_part(how, count - 2, arguments + 2);
    for (const struct pattern *pattern = patterns; pattern->number; pattern++) {
        playing = pattern->number;
        if (!strcmp(how, "serve")) {
            if (pattern->serve)
                pattern->serve();
            continue;
        }
        pthread_t other;
        int together = !strcmp(how, "both") && pattern->serve;
        if (together)
            GIVES(pthread_create(&other, NULL, serving_side, (void *)pattern), 0);
        pattern->call((uint16_t)node);
        if (together)
            GIVES(pthread_join(other, NULL), 0);
        printf("pattern %d: ok (%s)\n", pattern->number, pattern->what);
    }
    return 0;
}
#endif

#endif
