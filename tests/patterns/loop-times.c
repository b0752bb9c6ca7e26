/*
 * Round trips of 64 bytes between two C programs with event loops, which sleep until something
 * comes. Without arguments it serves with epoll, a listener and all connections in one set, until a
 * client says stop; the client waits with poll.
 *
 *   loop-times &                             on node 1
 *   loop-times 1 repetitions [stop]          on node 0
 *
 * It prints a line of JSON, as scif-perf does: nanoseconds of a round trip, and the median of each
 * repetition.
 */
#include "times.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 1301
#define BYTES 64
/* Round trips of a repetition, and some before it that do not count. */
#define ROUNDS 1000
#define WARM_UP 100
/* Times a client tries to connect, 20 ms apart: the server's node may have to boot. */
#define TRIES 1000
/* Milliseconds after which the peer counts as lost. */
#define LONGEST 30000
/* The first byte of the message that ends the server. */
#define STOP 0x7f

static int stream(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        fail("socket");
    return fd;
}

static void add(int set, int fd) {
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0)
        fail("epoll_ctl");
}

/* Sends back what has come; false at the end of the server. */
static int attend(int fd) {
    char bytes[BYTES];
    ssize_t count = recv(fd, bytes, sizeof bytes, 0);
    if (count < 0 && errno == EAGAIN)
        return 1;
    if (count <= 0) {
        close(fd);
        return 1;
    }
    if (bytes[0] == STOP)
        return 0;
    if (send(fd, bytes, (size_t)count, 0) != count)
        fail("send");
    return 1;
}

static void serve(void) {
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    int listener = stream(), set = epoll_create1(0);
    if (bind(listener, (struct sockaddr *)&own, sizeof own) < 0 || listen(listener, 4) < 0)
        fail("listening");
    add(set, listener);
    for (int goes_on = 1; goes_on;) {
        struct epoll_event events[4];
        int count = epoll_wait(set, events, 4, -1);
        if (count < 0)
            fail("epoll_wait");
        for (int i = 0; i < count && goes_on; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                goes_on = attend(fd);
                continue;
            }
            int connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            if (connection >= 0)
                add(set, connection);
            else if (errno != EAGAIN)
                fail("accept");
        }
    }
}

static int call(int node) {
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    to.sin_addr.s_addr = htonl(0x0a000001 + (uint32_t)node);
    for (int attempt = 0; attempt < TRIES; attempt++) {
        int fd = stream();
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            return fd;
        close(fd);
        usleep(20000);
    }
    fail("connect");
    return -1;
}

static void receive_all(int fd, char *bytes) {
    size_t got = 0;
    while (got < BYTES) {
        struct pollfd entry = { fd, POLLIN, 0 };
        if (poll(&entry, 1, LONGEST) != 1)
            fail("poll");
        ssize_t count = recv(fd, bytes + got, BYTES - got, MSG_DONTWAIT);
        if (count <= 0)
            fail("recv");
        got += (size_t)count;
    }
}

static void play(int fd, int rounds, double tick, double *times) {
    char message[BYTES], back[BYTES];
    memset(message, 0x5a, sizeof message);
    uint64_t last = __builtin_ia32_rdtsc();
    for (int round = 0; round < rounds; round++) {
        message[0] = (char)(round % STOP);
        if (send(fd, message, BYTES, 0) != BYTES)
            fail("send");
        receive_all(fd, back);
        uint64_t time = __builtin_ia32_rdtsc();
        times[round] = (double)(time - last) * tick;
        last = time;
        if (back[0] != message[0]) {
            fprintf(stderr, "wrong bytes came back\n");
            exit(1);
        }
    }
}

int main(int count, char **words) {
    static double times[MOST_REPETITIONS * ROUNDS];
    double medians[MOST_REPETITIONS];
    if (count < 3) {
        serve();
        return 0;
    }
    int repetitions = repetitions_of(words[2]);
    double per_tick = tick();
    int fd = call(atoi(words[1]));
    play(fd, WARM_UP, per_tick, times);
    for (int repetition = 0; repetition < repetitions; repetition++) {
        double *own = times + repetition * ROUNDS;
        play(fd, ROUNDS, per_tick, own);
        qsort(own, ROUNDS, sizeof *own, by_size);
        medians[repetition] = percentile(own, ROUNDS, 50);
    }
    if (count > 3 && !strcmp(words[3], "stop")) {
        char stop[BYTES] = { STOP };
        if (send(fd, stop, BYTES, 0) != BYTES)
            fail("send");
    }
    close(fd);
    report("c_loop_rtt", BYTES, times, medians, repetitions, ROUNDS);
    return 0;
}
