/* Sets of epoll over sockets: servers with an event loop, level and edge, and threads that wait for
 * what other threads take. Errors and everything that needs no socket: library-epoll.c. */
#include "socket.h"
#include <sys/epoll.h>
#include <time.h>

enum { CONNECTIONS = 20, ROUNDS = 40, LONGEST = 4000, SHORT = 20 };

static void add(int set, int fd, uint32_t events) {
    struct epoll_event event = { .events = events, .data.fd = fd };
    GIVES(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
}

/* The events of the only member of a set; 0 when nothing comes. */
static uint32_t wait_one(int set, int milliseconds) {
    struct epoll_event events[2];
    int count = epoll_wait(set, events, 2, milliseconds);
    CHECK(count == 0 || count == 1);
    return count ? events[0].events : 0;
}

/* Sends all on a socket that does not wait. */
static void send_all_of(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t sent = send(fd, data, length, 0);
        if (sent < 0) {
            GIVES(errno, EAGAIN);
            CHECK(poll_one(fd, POLLOUT, TIMEOUT_MS) == POLLOUT);
            continue;
        }
        data += sent;
        length -= (size_t)sent;
    }
}

/* An echo server with one thread: until each connection has ended. */
static void serve_loop(uint16_t port, uint32_t flags) {
    static char data[1000];
    int set = epoll_create1(0), on = listen_on(port), ended = 0;
    set_waiting(on, 0);
    add(set, on, EPOLLIN | flags);
    while (ended < CONNECTIONS) {
        struct epoll_event events[7];
        int count = epoll_wait(set, events, 7, TIMEOUT_MS);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd, connection;
            if (fd == on) {
                GIVES(events[i].events, EPOLLIN);
                while ((connection = accept4(on, NULL, NULL, SOCK_NONBLOCK)) >= 0)
                    add(set, connection, EPOLLIN | EPOLLRDHUP | flags);
                GIVES(errno, EAGAIN);
                continue;
            }
            CHECK(events[i].events & EPOLLIN);
            ssize_t received;
            while ((received = recv(fd, data, sizeof data, 0)) > 0)
                send_all_of(fd, data, (size_t)received);
            if (received == 0) {
                /* An end that came after this event is in a later one. */
                if (!(events[i].events & EPOLLRDHUP))
                    continue;
                GIVES(close(fd), 0);
                ended++;
                continue;
            }
            GIVES(errno, EAGAIN);
        }
    }
    GIVES(close(on), 0);
    GIVES(epoll_wait(set, (struct epoll_event[1]){ { 0 } }, 1, 0), 0);
    GIVES(close(set), 0);
}

/* A connection of the client's loop. */
struct caller {
    int fd;
    int round;
    size_t received;
};

static void begin_round(struct caller *caller, int index) {
    static char data[LONGEST];
    size_t length = (size_t)(caller->round * 73 + index * 11 + 1);
    fill(data, length, (unsigned)(caller->round * CONNECTIONS + index));
    send_all_of(caller->fd, data, length);
    caller->received = 0;
}

static void call_loop(uint16_t node, uint16_t port, uint32_t flags) {
    static struct caller callers[CONNECTIONS];
    static char back[CONNECTIONS][LONGEST];
    int set = epoll_create1(0), ended = 0;
    for (int i = 0; i < CONNECTIONS; i++) {
        callers[i] = (struct caller){ call_stream(node, port), 0, 0 };
        set_waiting(callers[i].fd, 0);
        struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | flags, .data.u32 = i };
        GIVES(epoll_ctl(set, EPOLL_CTL_ADD, callers[i].fd, &event), 0);
        begin_round(&callers[i], i);
    }
    while (ended < CONNECTIONS) {
        struct epoll_event events[5];
        int count = epoll_wait(set, events, 5, TIMEOUT_MS);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            int index = (int)events[i].data.u32;
            struct caller *caller = &callers[index];
            for (;;) {
                size_t length = (size_t)(caller->round * 73 + index * 11 + 1);
                size_t room = sizeof back[index] - caller->received;
                ssize_t received = recv(caller->fd, back[index] + caller->received, room, 0);
                if (received < 0) {
                    GIVES(errno, EAGAIN);
                    break;
                }
                if (received == 0) {
                    GIVES(caller->round, ROUNDS);
                    /* An end that came after this event is in a later one. */
                    if (!(events[i].events & EPOLLRDHUP))
                        break;
                    GIVES(close(caller->fd), 0);
                    ended++;
                    break;
                }
                caller->received += (size_t)received;
                CHECK(caller->received <= length);
                if (caller->received < length)
                    continue;
                unsigned seed = (unsigned)(caller->round * CONNECTIONS + index);
                CHECK(mismatch(back[index], length, seed) == length);
                if (++caller->round < ROUNDS)
                    begin_round(caller, index);
                else
                    GIVES(shutdown(caller->fd, SHUT_WR), 0);
            }
        }
    }
    GIVES(close(set), 0);
}

static void serve_levels(void) {
    serve_loop(3101, 0);
}

static void call_levels(uint16_t node) {
    call_loop(node, 3101, 0);
}

static void serve_edges(void) {
    serve_loop(3102, EPOLLET);
}

static void call_edges(uint16_t node) {
    call_loop(node, 3102, EPOLLET);
}

/* One connection from its beginning to its end. */
static void serve_states(void) {
    int on = listen_on(3103), fd = accept_on(on);
    step(fd, 'a');
    await(fd, 'b');
    step(fd, 'c');
    await(fd, 'd');
    GIVES(shutdown(fd, SHUT_WR), 0);
    await(fd, 'e');
    GIVES(close(fd), 0);
    /* A second one is refused. */
    GIVES(close(on), 0);
    fd = serve_stream(3203);
    GIVES(close(fd), 0);
}

static void call_states(uint16_t node) {
    const uint32_t all = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    int set = epoll_create1(0), fd;
    uint32_t found;
    /* A connection that is being made is no event, its success is, and so is its failure. */
    for (;;) {
        fd = stream();
        set_waiting(fd, 0);
        FAILS(try_connect(fd, node, 3103), EINPROGRESS);
        add(set, fd, all);
        CHECK((found = wait_one(set, TIMEOUT_MS)) & EPOLLOUT);
        if (option(fd, SOL_SOCKET, SO_ERROR) == 0)
            break;
        CHECK(found & EPOLLERR);
        GIVES(close(fd), 0);
        GIVES(wait_one(set, 0), 0);
        pause_shortly();
    }
    GIVES(close(set), 0);
    set = epoll_create1(0);
    add(set, fd, EPOLLIN | EPOLLRDHUP);
    set_waiting(fd, 1);
    GIVES(wait_one(set, TIMEOUT_MS), EPOLLIN);
    GIVES(wait_one(set, TIMEOUT_MS), EPOLLIN);
    await(fd, 'a');
    GIVES(wait_one(set, 0), 0);
    step(fd, 'b');
    GIVES(wait_one(set, TIMEOUT_MS), EPOLLIN);
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLONESHOT };
    GIVES(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event), 0);
    GIVES(wait_one(set, TIMEOUT_MS), EPOLLIN | EPOLLOUT);
    GIVES(wait_one(set, 0), 0);
    event.events = EPOLLOUT | EPOLLET;
    GIVES(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event), 0);
    /* Room is told once, and again when the socket was used. */
    GIVES(wait_one(set, TIMEOUT_MS), EPOLLOUT);
    GIVES(wait_one(set, SHORT), 0);
    await(fd, 'c');
    GIVES(wait_one(set, TIMEOUT_MS), EPOLLOUT);
    GIVES(wait_one(set, 0), 0);
    event.events = all;
    GIVES(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event), 0);
    step(fd, 'd');
    while ((found = wait_one(set, TIMEOUT_MS)) == EPOLLOUT)
        pause_shortly();
    GIVES(found, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    read_end(fd);
    step(fd, 'e');
    /* The end of it, which nobody has to ask for. */
    event.events = 0;
    GIVES(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event), 0);
    GIVES(wait_one(set, TIMEOUT_MS) & EPOLLHUP, EPOLLHUP);
    GIVES(close(fd), 0);
    GIVES(close(set), 0);
    GIVES(close(call_stream(node, 3203)), 0);
}

/* What a thread waits for, in a set or by poll, and what it found. */
struct waiter {
    pthread_t thread;
    int set;
    int fd;
    int found;
};

static void *wait_in_set(void *argument) {
    struct waiter *waiter = argument;
    int found = (int)wait_one(waiter->set, TIMEOUT_MS);
    __atomic_store_n(&waiter->found, found, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *wait_in_poll(void *argument) {
    struct waiter *waiter = argument;
    int found = poll_one(waiter->fd, POLLIN, TIMEOUT_MS);
    __atomic_store_n(&waiter->found, found, __ATOMIC_SEQ_CST);
    return NULL;
}

enum { TAKEN = 30 };

/* Passes so many nanoseconds without a sleep, which would last longer. */
static void spend(long nanoseconds) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < nanoseconds);
}

/* Sends a byte whenever it is asked to. */
static void serve_taken(void) {
    int asks = serve_stream(3104), fd = serve_stream(3204);
    char order;
    while (recv(asks, &order, 1, 0) == 1)
        step(fd, order);
    GIVES(close(asks), 0);
    GIVES(close(fd), 0);
}

static void take_at_once(int fd, char expected) {
    char byte;
    ssize_t count;
    while ((count = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0)
        GIVES(errno, EAGAIN);
    CHECK(count == 1 && byte == expected);
}

static void call_taken(uint16_t node) {
    int asks = call_stream(node, 3104), fd = call_stream(node, 3204);
    int set = epoll_create1(0);
    add(set, fd, EPOLLIN | EPOLLET);
    /* A thread sleeps, having been told of bytes; another one takes them, and others come. */
    for (int i = 0; i < TAKEN; i++) {
        step(asks, 'a');
        GIVES(wait_one(set, TIMEOUT_MS), EPOLLIN);
        struct waiter waiter = { .set = set };
        GIVES(pthread_create(&waiter.thread, NULL, wait_in_set, &waiter), 0);
        usleep(SHORT * 1000);
        GIVES(__atomic_load_n(&waiter.found, __ATOMIC_SEQ_CST), 0);
        take_at_once(fd, 'a');
        usleep(i % 2 ? SHORT * 1000 : 0);
        step(asks, 'b');
        GIVES(pthread_join(waiter.thread, NULL), 0);
        GIVES(waiter.found, EPOLLIN);
        take_at_once(fd, 'b');
        GIVES(wait_one(set, 0), 0);
    }
    GIVES(close(set), 0);
    /* A thread is woken for bytes that another one has already taken, and sleeps on: if they were
       there still when the driver looked and are not when the thread does, after some delay. */
    set = epoll_create1(0);
    add(set, fd, EPOLLIN);
    for (int i = 0; i < 4 * TAKEN; i++) {
        struct waiter waiter = { .set = set, .fd = fd };
        void *(*wait)(void *) = i % 2 ? wait_in_set : wait_in_poll;
        GIVES(pthread_create(&waiter.thread, NULL, wait, &waiter), 0);
        usleep(SHORT * 1000);
        step(asks, 'c');
        while (!poll_one(fd, POLLIN, 0)) {}
        spend(1000 * i);
        take_at_once(fd, 'c');
        usleep(SHORT * 1000);
        if (__atomic_load_n(&waiter.found, __ATOMIC_SEQ_CST) == 0) {
            step(asks, 'd');
            GIVES(pthread_join(waiter.thread, NULL), 0);
            take_at_once(fd, 'd');
        } else {
            GIVES(pthread_join(waiter.thread, NULL), 0);
        }
        GIVES(waiter.found, EPOLLIN);
    }
    GIVES(close(set), 0);
    GIVES(close(asks), 0);
    read_end(fd);
    GIVES(close(fd), 0);
}

/* A set that one thread makes is there for it, whatever others do with sets meanwhile. */
static void make_sets(void) {
    int pair[2];
    GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int round = 0; round < 4000; round++) {
        int set = epoll_create1(0);
        CHECK(set >= 0);
        add(set, pair[0], EPOLLIN);
        GIVES(close(set), 0);
    }
    GIVES(close(pair[0]), 0);
    GIVES(close(pair[1]), 0);
}

static void make_sets_beside(uint16_t node) {
    (void)node;
    make_sets();
}

const struct pattern patterns[] = {
    { 101, "an event loop, level", serve_levels, call_levels },
    { 102, "an event loop, edge", serve_edges, call_edges },
    { 103, "states of a connection", serve_states, call_states },
    { 104, "bytes that another thread takes", serve_taken, call_taken },
    { 107, "sets made beside each other", make_sets, make_sets_beside },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
