/* What the socket programs share, besides pattern.h: their patterns play over stream sockets. */
#ifndef SOCKET_TEST_H
#define SOCKET_TEST_H

#include "pattern.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* The address of a port of a node; of any node's when it is -1. */
__attribute__((unused))
static struct sockaddr_in address_of(int node, uint16_t port) {
    struct sockaddr_in address = { 0 };
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(node < 0 ? INADDR_ANY : 0x0a000001 + (unsigned)node);
    return address;
}

/* Names and connects a socket; the length is that of the structure. */
__attribute__((unused))
static int bind_to(int fd, int node, uint16_t port) {
    struct sockaddr_in address = address_of(node, port);
    return bind(fd, (struct sockaddr *)&address, sizeof address);
}

__attribute__((unused))
static int try_connect(int fd, int node, uint16_t port) {
    struct sockaddr_in address = address_of(node, port);
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}

__attribute__((unused))
static int stream(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    return fd;
}

__attribute__((unused))
static int listen_on(uint16_t port) {
    int fd = stream(), on = 1;
    GIVES(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    GIVES(bind_to(fd, -1, port), 0);
    GIVES(listen(fd, 8), 0);
    return fd;
}

__attribute__((unused))
static int accept_on(int fd) {
    int connection = accept(fd, NULL, NULL);
    CHECK(connection >= 0);
    return connection;
}

/* Listens, takes one connection and stops listening. */
__attribute__((unused))
static int serve_stream(uint16_t port) {
    int on = listen_on(port);
    int fd = accept_on(on);
    GIVES(close(on), 0);
    return fd;
}

/* Connects, however long it takes until the node is there and somebody listens. */
__attribute__((unused))
static int call_stream(int node, uint16_t port) {
    int fd = stream();
    for (int tries = 0; try_connect(fd, node, port) < 0; tries++) {
        CHECK(errno == ECONNREFUSED || errno == EHOSTUNREACH);
        CHECK(tries < TIMEOUT_MS / 2);
        pause_shortly();
    }
    return fd;
}

__attribute__((unused))
static void write_all(int fd, const void *data, size_t length) {
    GIVES(send(fd, data, length, 0), length);
}

__attribute__((unused))
static void read_all(int fd, void *place, size_t length) {
    GIVES(recv(fd, place, length, MSG_WAITALL), length);
}

__attribute__((unused))
static void step(int fd, char step) {
    write_all(fd, &step, 1);
}

__attribute__((unused))
static void await(int fd, char step) {
    char found = 0;
    read_all(fd, &found, 1);
    if (found != step)
        failed(__FILE__, __LINE__, "the other side is at step %c, not %c", found, step);
}

/* The end of the stream. */
__attribute__((unused))
static void read_end(int fd) {
    char byte;
    GIVES(recv(fd, &byte, 1, 0), 0);
}

/* Waits for events of one socket; returns what is there. */
__attribute__((unused))
static int poll_one(int fd, int events, int milliseconds) {
    struct pollfd entry = { fd, (short)events, 0 };
    int count = poll(&entry, 1, milliseconds);
    CHECK(count == (entry.revents != 0));
    return entry.revents;
}

/* An int option. */
__attribute__((unused))
static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    GIVES(getsockopt(fd, level, name, &value, &length), 0);
    GIVES(length, sizeof value);
    return value;
}

__attribute__((unused))
static void set_waiting(int fd, int waits) {
    int flags = fcntl(fd, F_GETFL);
    CHECK(flags >= 0);
    GIVES(fcntl(fd, F_SETFL, waits ? flags & ~O_NONBLOCK : flags | O_NONBLOCK), 0);
}

#endif
