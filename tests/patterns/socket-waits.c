/* Waits for sockets among other descriptors: an answer that comes soon costs the driver no request,
 * and whatever may end a wait ends one that has just begun as well as one that sleeps for long. */
#include "socket.h"
#include <scif.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <time.h>

/* Round trips of a batch, the requests that reading a counter takes, and tries for a calm batch on a
 * busy machine. */
enum { BATCH = 50, FEW = 20, TRIES = 300 };

/* The number behind a name in a text of the system. */
static long counter_of(const char *path, const char *name) {
    static char text[16384];
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    size_t length = 0;
    ssize_t count;
    while ((count = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)count;
    GIVES(close(fd), 0);
    text[length] = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        size_t end = strlen(name);
        if (strncmp(line, name, end) == 0 && strchr(": ", line[end]) != NULL)
            return atol(line + end + 1);
    }
    failed(__FILE__, __LINE__, "no '%s' in %s", name, path);
}

static long requests(void) {
    return counter_of("/scheme/scif/stats", "requests");
}

static long seen(void) {
    return counter_of("/scheme/sys/stat", "idle_polls_seen");
}

/* What a program waits for beside its connection. */
struct others {
    int fd;
    int listener;
    int pipe[2];
    int counter;
    int set;
};

static void add(int set, int fd, uint32_t events) {
    struct epoll_event event = { .events = events, .data.fd = fd };
    GIVES(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
}

/* Waits until something has come, which is on the connection only. */
static void poll_alone(struct others *of) {
    GIVES(poll_one(of->fd, POLLIN, TIMEOUT_MS), POLLIN);
}

static void poll_beside_listener(struct others *of) {
    struct pollfd entries[] = { { of->listener, POLLIN, 0 }, { of->fd, POLLIN, 0 } };
    GIVES(poll(entries, 2, TIMEOUT_MS), 1);
    GIVES(entries[1].revents, POLLIN);
}

static void poll_beside_all(struct others *of) {
    struct pollfd entries[] = { { of->counter, POLLIN, 0 }, { of->fd, POLLIN, 0 },
                                { of->pipe[0], POLLIN, 0 }, { of->listener, POLLIN, 0 } };
    GIVES(poll(entries, 4, TIMEOUT_MS), 1);
    GIVES(entries[1].revents, POLLIN);
}

static void select_beside_pipe(struct others *of) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(of->fd, &set);
    FD_SET(of->pipe[0], &set);
    struct timeval limit = { TIMEOUT_MS / 1000, 0 };
    GIVES(select(FD_SETSIZE, &set, NULL, NULL, &limit), 1);
    CHECK(FD_ISSET(of->fd, &set));
}

static void wait_in_set(struct others *of) {
    struct epoll_event event;
    do {
        GIVES(epoll_wait(of->set, &event, 1, TIMEOUT_MS), 1);
        GIVES(event.data.fd, of->fd);
    } while (!(event.events & EPOLLIN));
}

static const struct {
    const char *name;
    void (*wait)(struct others *of);
    /* Of the connection in the set. */
    uint32_t events;
} ways[] = {
    { "poll", poll_alone, 0 },
    { "poll beside a listener", poll_beside_listener, 0 },
    { "poll beside all", poll_beside_all, 0 },
    { "select", select_beside_pipe, 0 },
    { "epoll, level", wait_in_set, EPOLLIN },
    { "epoll, edge", wait_in_set, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET },
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static struct others others_of(int fd, uint16_t port) {
    struct others of = { .fd = fd, .listener = listen_on(port), .set = epoll_create1(0) };
    GIVES(pipe(of.pipe), 0);
    of.counter = eventfd(0, EFD_NONBLOCK);
    CHECK(of.set >= 0 && of.counter >= 0);
    add(of.set, of.listener, EPOLLIN);
    add(of.set, of.counter, EPOLLIN);
    return of;
}

static void end_of(struct others *of) {
    int all[] = { of->fd, of->listener, of->pipe[0], of->pipe[1], of->counter, of->set };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        GIVES(close(all[i]), 0);
}

/* Passes so many microseconds without a sleep, which would last longer. */
static void spend(long microseconds) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000
           < microseconds);
}

static void serve_echoes(void) {
    int fd = serve_stream(3301);
    char byte;
    while (recv(fd, &byte, 1, 0) == 1) {
        /* The caller sleeps for one answer of each batch, and its processor looks for it. */
        if (byte == BATCH - 1)
            spend(200);
        step(fd, byte);
    }
    GIVES(close(fd), 0);
}

static void call_echoes(uint16_t node) {
    struct others of = others_of(call_stream(node, 3301), 3302);
    for (int way = 0; way < WAYS; way++) {
        if (ways[way].events != 0)
            add(of.set, of.fd, ways[way].events);
        long before = seen();
        int tries = 0, is_calm = 0;
        while (!is_calm || seen() == before) {
            if (tries++ == TRIES)
                failed(__FILE__, __LINE__, "%s: calm %d", ways[way].name, is_calm);
            long first = requests();
            for (int i = 0; i < BATCH; i++) {
                char byte = 0;
                step(of.fd, (char)i);
                do
                    ways[way].wait(&of);
                while (recv(of.fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
                GIVES(byte, i);
            }
            is_calm |= requests() - first < FEW;
        }
        if (ways[way].events != 0)
            GIVES(epoll_ctl(of.set, EPOLL_CTL_DEL, of.fd, NULL), 0);
    }
    end_of(&of);
}

/* A thread that waits for all, and what it has found: a number that means no file, too. */
enum { NO_FILE = -2 };

struct waiter {
    pthread_t thread;
    struct others *of;
    int found;
};

static void *wait_by_poll(void *argument) {
    struct waiter *waiter = argument;
    struct others *of = waiter->of;
    struct pollfd entries[] = { { of->fd, POLLIN, 0 }, { of->listener, POLLIN, 0 },
                                { of->pipe[0], POLLIN, 0 }, { of->counter, POLLIN, 0 } };
    GIVES(poll(entries, 4, TIMEOUT_MS), 1);
    for (int i = 0; i < 4; i++)
        if (entries[i].revents & POLLIN)
            waiter->found = entries[i].fd;
        else if (entries[i].revents & POLLNVAL)
            waiter->found = NO_FILE;
    return NULL;
}

static void *wait_by_set(void *argument) {
    struct waiter *waiter = argument;
    struct epoll_event event;
    GIVES(epoll_wait(waiter->of->set, &event, 1, TIMEOUT_MS), 1);
    waiter->found = event.data.fd;
    return NULL;
}

/* Sends a byte when told to, and connects when told to. */
static void serve_ends(void) {
    int fd = serve_stream(3303);
    char order;
    while (recv(fd, &order, 1, 0) == 1) {
        if (order == 'b')
            step(fd, 'b');
        else
            read_end(call_stream(order - '0', 3304));
    }
    GIVES(close(fd), 0);
}

/* The ends of a wait: bytes, a request, the pipe, the pipe as a member that is told once, the
 * counter, a new member of the set, and a number that means no listener any more. */
enum end { BYTES, REQUEST, PIPE, ONCE, COUNTER, MEMBER, CLOSE, ENDS };

static void ask_for_pipe(struct others *of, uint32_t events) {
    struct epoll_event event = { .events = events, .data.fd = of->pipe[0] };
    GIVES(epoll_ctl(of->set, EPOLL_CTL_MOD, of->pipe[0], &event), 0);
}

static void cause(enum end end, struct others *of) {
    switch (end) {
    case BYTES:
        step(of->fd, 'b');
        break;
    case REQUEST:
        step(of->fd, (char)('0' + own_node()));
        break;
    case PIPE:
    case ONCE:
        GIVES(write(of->pipe[1], "p", 1), 1);
        break;
    case CLOSE:
        GIVES(close(of->listener), 0);
        break;
    case COUNTER:
        GIVES(eventfd_write(of->counter, 1), 0);
        break;
    default:
        /* One that is ready. */
        add(of->set, of->pipe[1], EPOLLOUT);
    }
}

/* Takes what has ended a wait. */
static void take(enum end end, struct others *of, int found) {
    eventfd_t value;
    struct epoll_event event;
    char byte;
    switch (end) {
    case BYTES:
        GIVES(found, of->fd);
        await(of->fd, 'b');
        break;
    case REQUEST:
        GIVES(found, of->listener);
        GIVES(close(accept_on(of->listener)), 0);
        break;
    case PIPE:
        GIVES(found, of->pipe[0]);
        GIVES(read(of->pipe[0], &byte, 1), 1);
        break;
    case ONCE:
        GIVES(found, of->pipe[0]);
        GIVES(epoll_wait(of->set, &event, 1, 0), 0);
        ask_for_pipe(of, EPOLLIN);
        GIVES(epoll_wait(of->set, &event, 1, TIMEOUT_MS), 1);
        GIVES(event.data.fd, of->pipe[0]);
        GIVES(read(of->pipe[0], &byte, 1), 1);
        break;
    case CLOSE:
        GIVES(found, NO_FILE);
        of->listener = listen_on(3304);
        add(of->set, of->listener, EPOLLIN);
        break;
    case COUNTER:
        GIVES(found, of->counter);
        GIVES(eventfd_read(of->counter, &value), 0);
        break;
    default:
        GIVES(found, of->pipe[1]);
        GIVES(epoll_ctl(of->set, EPOLL_CTL_DEL, of->pipe[1], NULL), 0);
    }
}

static void call_ends(uint16_t node) {
    struct others of = others_of(call_stream(node, 3303), 3304);
    add(of.set, of.fd, EPOLLIN);
    add(of.set, of.pipe[0], EPOLLIN);
    /* From causes that are there before the wait to some that find it asleep for long. */
    for (long pause = 0; pause < 2000; pause += 100) {
        for (int end = 0; end < ENDS; end++) {
            for (int by_set = end == MEMBER || end == ONCE; by_set < 2 - (end == CLOSE); by_set++) {
                if (end == ONCE)
                    ask_for_pipe(&of, EPOLLIN | EPOLLONESHOT);
                struct waiter waiter = { .of = &of, .found = -1 };
                void *(*wait)(void *) = by_set ? wait_by_set : wait_by_poll;
                GIVES(pthread_create(&waiter.thread, NULL, wait, &waiter), 0);
                /* On one processor it runs only when this thread does not. */
                if (pause % 200 == 0)
                    usleep(1);
                spend(pause);
                cause(end, &of);
                GIVES(pthread_join(waiter.thread, NULL), 0);
                take(end, &of, waiter.found);
            }
        }
    }
    end_of(&of);
}

/* Listens by SCIF, whose connectors wait for the accept, and accepts only when told to. */
static void serve_late(void) {
    int control = serve_stream(3305);
    scif_epd_t listener = scif_open(), fd;
    GIVES(scif_bind(listener, 3306), 3306);
    GIVES(scif_listen(listener, 8), 0);
    step(control, 'l');
    await(control, 'a');
    struct scif_portID peer;
    GIVES(scif_accept(listener, &peer, &fd, SCIF_ACCEPT_SYNC), 0);
    char byte = 0;
    CHECK(scif_recv(fd, &byte, 1, SCIF_RECV_BLOCK) == 1 && byte == 'd');
    FAILS(scif_recv(fd, &byte, 1, SCIF_RECV_BLOCK), ECONNRESET);
    GIVES(scif_close(listener), 0);
    GIVES(scif_close(fd), 0);
    GIVES(close(control), 0);
}

static void interrupt(int number) {
    (void)number;
}

static void set_send_limit(int fd, long milliseconds) {
    struct timeval limit = { milliseconds / 1000, milliseconds % 1000 * 1000 };
    GIVES(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
}

/* A connect whose wait has ended goes on, and the next call waits for it. */
static void call_late(uint16_t node) {
    int control = call_stream(node, 3305), fd = stream(), other = stream();
    await(control, 'l');
    struct sigaction action = { .sa_handler = interrupt }, before;
    /* Again and again: the first alarm may come before the wait. */
    struct itimerval alarms = { { 0, 50000 }, { 0, 50000 } }, none = { { 0, 0 }, { 0, 0 } };
    GIVES(sigaction(SIGALRM, &action, &before), 0);
    GIVES(setitimer(ITIMER_REAL, &alarms, NULL), 0);
    FAILS(try_connect(fd, node, 3306), EINTR);
    FAILS(try_connect(fd, node, 3306), EINTR);
    GIVES(setitimer(ITIMER_REAL, &none, NULL), 0);
    GIVES(sigaction(SIGALRM, &before, NULL), 0);
    GIVES(poll_one(fd, POLLOUT, 0), 0);
    set_send_limit(fd, 50);
    FAILS(try_connect(fd, node, 3306), EALREADY);
    FAILS(send(fd, "d", 1, 0), EAGAIN);
    set_send_limit(other, 50);
    FAILS(try_connect(other, node, 3306), EINPROGRESS);
    GIVES(close(other), 0);
    CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
    step(control, 'a');
    set_send_limit(fd, 0);
    GIVES(try_connect(fd, node, 3306), 0);
    FAILS(try_connect(fd, node, 3306), EISCONN);
    step(fd, 'd');
    GIVES(close(fd), 0);
    read_end(control);
    GIVES(close(control), 0);
}

const struct pattern patterns[] = {
    { 101, "answers that come soon", serve_echoes, call_echoes },
    { 102, "what ends a wait", serve_ends, call_ends },
    { 103, "a connect that is waited for again", serve_late, call_late },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
