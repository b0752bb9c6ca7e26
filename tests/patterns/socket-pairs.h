/* Pairs of sockets within a node, for the programs whose threads and processes use them at once. */
#ifndef SOCKET_PAIRS_H
#define SOCKET_PAIRS_H

#include "socket.h"
#include <st.h>

/* The own node. */
static int own;

/* Ends the program when a part waits for ever. */
__attribute__((unused))
static void *watch(void *argument) {
    (void)argument;
    for (;;) {
        int watched = playing;
        usleep(2 * 1000 * TIMEOUT_MS);
        if (watched == playing)
            failed(__FILE__, __LINE__, "it waits for ever");
    }
}

/* A part of a program, which is one of the patterns. */
struct part {
    int number;
    const char *name;
    void (*play)(void);
};

/* Plays all parts, or the one of that name. */
static void play_parts(const struct part *parts, unsigned count, const char *name) {
    own = own_node();
    pthread_t watcher;
    GIVES(pthread_create(&watcher, NULL, watch, NULL), 0);
    for (unsigned i = 0; i < count; i++) {
        if (name && strcmp(name, parts[i].name))
            continue;
        playing = parts[i].number;
        parts[i].play();
        printf("pattern %d: ok (%s)\n", playing, parts[i].name);
        fflush(stdout);
    }
}

__attribute__((unused))
static void pair_of(int pair[2]) {
    GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

/* Two ends of a connection that carries messages. */
__attribute__((unused))
static void *connect_packets(void *argument) {
    int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
    CHECK(fd >= 0);
    GIVES(try_connect(fd, own, *(int *)argument), 0);
    return (void *)(long)fd;
}

__attribute__((unused))
static int listen_packets(int *port) {
    int on = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
    struct sockaddr_in place;
    socklen_t length = sizeof place;
    CHECK(on >= 0);
    GIVES(bind_to(on, -1, 0), 0);
    GIVES(listen(on, 4), 0);
    GIVES(getsockname(on, (struct sockaddr *)&place, &length), 0);
    *port = ntohs(place.sin_port);
    return on;
}

__attribute__((unused))
static void packets_of(int pair[2]) {
    int port, on = listen_packets(&port);
    pthread_t client;
    GIVES(pthread_create(&client, NULL, connect_packets, &port), 0);
    pair[0] = accept_on(on);
    void *fd;
    GIVES(pthread_join(client, &fd), 0);
    pair[1] = (int)(long)fd;
    GIVES(close(on), 0);
}

/* Bytes of a message that fills. */
enum { LENGTH = 50000 };

/* Sends until there is no room; how many messages. */
__attribute__((unused))
static int fill_up(int fd) {
    static char data[LENGTH];
    int count = 0;
    set_waiting(fd, 0);
    for (;; count++) {
        fill(data, sizeof data, count);
        ssize_t sent = send(fd, data, sizeof data, 0);
        if (sent < 0)
            break;
        GIVES(sent, sizeof data);
        CHECK(count < 1000);
    }
    GIVES(errno, EAGAIN);
    set_waiting(fd, 1);
    return count;
}

__attribute__((unused))
static void read_filled(int fd, int count) {
    static char data[LENGTH];
    for (int i = 0; i < count; i++) {
        GIVES(recv(fd, data, sizeof data, 0), sizeof data);
        CHECK(mismatch(data, sizeof data, i) == sizeof data);
    }
}

#endif
