/*
 * The part of the C library for programs that wait for many descriptors: sets of epoll and counters
 * of eventfd, within one program and its children. Over SCIF: socket-epoll.c.
 */
#include "library.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Long enough for a busy machine, and long enough for something that must not come. */
enum { LONG = 20000, SHORT = 40 };

static int set_of(int fd, uint32_t events) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(set >= 0);
    struct epoll_event event = { .events = events, .data.fd = fd };
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    return set;
}

static int change(int set, int operation, int fd, uint32_t events) {
    struct epoll_event event = { .events = events, .data.fd = fd };
    return epoll_ctl(set, operation, fd, &event);
}

/* The events of the only member that has some; 0 when there are none. */
static uint32_t events_of(int set, int milliseconds) {
    struct epoll_event events[4] = { 0 };
    int count = epoll_wait(set, events, 4, milliseconds);
    CHECK(count == 0 || count == 1);
    return count == 1 ? events[0].events : 0;
}

static short poll_of(int fd, short events, int milliseconds) {
    struct pollfd entry = { fd, events, 0 };
    int count = poll(&entry, 1, milliseconds);
    CHECK(count == (entry.revents != 0));
    return entry.revents;
}

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

static void put(int fd, const char *text) {
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Reads until there is nothing; how many bytes. */
static int drain(int fd) {
    char bytes[64];
    int total = 0, flags = fcntl(fd, F_GETFL);
    CHECK(fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
    for (ssize_t count; (count = read(fd, bytes, sizeof bytes)) > 0;)
        total += count;
    CHECK(errno == EAGAIN);
    CHECK(fcntl(fd, F_SETFL, flags) == 0);
    return total;
}

static void errors(void) {
    int set = epoll_create(1), other = epoll_create1(0), ends[2], file;
    struct epoll_event event = { .events = EPOLLIN }, events[2];
    CHECK(set >= 0 && other >= 0 && pipe(ends) == 0);
    FAILS(epoll_create(0), EINVAL);
    FAILS(epoll_create(-1), EINVAL);
    FAILS(epoll_create1(1), EINVAL);
    CHECK(fcntl(other, F_GETFD) == 0);

    FAILS(epoll_ctl(-1, EPOLL_CTL_ADD, ends[0], &event), EBADF);
    FAILS(epoll_ctl(999, EPOLL_CTL_ADD, ends[0], &event), EBADF);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, 999, &event), EBADF);
    FAILS(epoll_ctl(set, EPOLL_CTL_DEL, 999, NULL), EBADF);
    FAILS(epoll_ctl(ends[0], EPOLL_CTL_ADD, ends[1], &event), EINVAL);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, set, &event), EINVAL);
    FAILS(epoll_ctl(set, 4, ends[0], &event), EINVAL);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], NULL), EFAULT);
    FAILS(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event), ENOENT);
    FAILS(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL), ENOENT);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), EEXIST);
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL) == 0);
    FAILS(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL), ENOENT);

    file = open("/tmp/library-epoll", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, file, &event), EPERM);
    // Plain files are always ready.
    struct pollfd plain = {file, POLLIN | POLLOUT, 0};
    CHECK(poll(&plain, 1, 20000) == 1 && plain.revents == (POLLIN | POLLOUT));
    CHECK(close(file) == 0 && unlink("/tmp/library-epoll") == 0);
    plain.fd = open("/scheme/initfs/lib/init.d/00_base", O_RDONLY);
    plain.events = POLLIN;
    CHECK(poll(&plain, 1, 20000) == 1 && plain.revents == POLLIN);
    close(plain.fd);
    plain.fd = open("/scheme/log", O_WRONLY);
    plain.events = POLLOUT;
    CHECK(poll(&plain, 1, 20000) == 1 && plain.revents == POLLOUT);
    close(plain.fd);
    plain.fd = open("/scheme/debug", O_WRONLY);
    CHECK(poll(&plain, 1, 20000) == 1 && plain.revents == POLLOUT);
    close(plain.fd);
    file = open("/tmp", O_RDONLY | O_DIRECTORY);
    CHECK(file >= 0);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, file, &event), EPERM);
    close(file);

    event.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), EINVAL);
    event.events = EPOLLIN | EPOLLEXCLUSIVE;
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, other, &event), EINVAL);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
    FAILS(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event), EINVAL);
    event.events = EPOLLIN;
    FAILS(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event), EINVAL);

    FAILS(epoll_wait(999, events, 2, 0), EBADF);
    FAILS(epoll_wait(ends[0], events, 2, 0), EINVAL);
    FAILS(epoll_wait(set, events, 0, 0), EINVAL);
    FAILS(epoll_wait(set, events, -1, 0), EINVAL);
    FAILS(epoll_wait(set, NULL, 2, 0), EFAULT);
    struct timespec wrong = { 0, 1000000000 };
    FAILS(epoll_pwait2(set, events, 2, &wrong, NULL), EINVAL);
    CHECK(epoll_pwait(set, events, 2, 0, NULL) == 0);
    FAILS(read(set, events, sizeof events), EINVAL);
    FAILS(write(set, events, sizeof events), EINVAL);

    /* A set in another one, but in no circle, and not too deep. */
    event.events = EPOLLIN;
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, other, &event) == 0);
    FAILS(epoll_ctl(other, EPOLL_CTL_ADD, set, &event), ELOOP);
    int copy = dup(set);
    FAILS(epoll_ctl(copy, EPOLL_CTL_ADD, set, &event), EINVAL);
    FAILS(epoll_ctl(other, EPOLL_CTL_ADD, copy, &event), ELOOP);
    int chain[6];
    for (int i = 0; i < 6; i++)
        CHECK((chain[i] = epoll_create1(0)) >= 0);
    for (int i = 0; i < 4; i++)
        CHECK(epoll_ctl(chain[i], EPOLL_CTL_ADD, chain[i + 1], &event) == 0);
    FAILS(epoll_ctl(chain[4], EPOLL_CTL_ADD, chain[5], &event), ELOOP);
    FAILS(epoll_ctl(chain[5], EPOLL_CTL_ADD, chain[0], &event), ELOOP);
    for (int i = 0; i < 6; i++)
        CHECK(close(chain[i]) == 0);
    close(copy), close(other), close(set), close(ends[0]), close(ends[1]);
}

static void levels(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    int set = set_of(ends[0], EPOLLIN);
    CHECK(events_of(set, 0) == 0);
    int64_t start = now_ms();
    CHECK(events_of(set, SHORT) == 0);
    CHECK(now_ms() - start >= SHORT);
    put(ends[1], "ab");
    for (int i = 0; i < 3; i++)
        CHECK(events_of(set, LONG) == EPOLLIN);
    CHECK(drain(ends[0]) == 2);
    CHECK(events_of(set, 0) == 0);

    /* What the program gave comes back; other events are not told. */
    struct epoll_event event = { .events = EPOLLOUT, .data.u64 = 0x123456789abcdef0 }, found;
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event) == 0);
    CHECK(epoll_wait(set, &found, 1, LONG) == 1);
    CHECK(found.events == EPOLLOUT && found.data.u64 == 0x123456789abcdef0);
    CHECK(change(set, EPOLL_CTL_MOD, ends[1], EPOLLIN) == 0);
    CHECK(events_of(set, 0) == 0);
    CHECK(change(set, EPOLL_CTL_MOD, ends[1], 0) == 0);
    CHECK(events_of(set, 0) == 0);

    /* Once, until it is ordered again. */
    CHECK(change(set, EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLONESHOT) == 0);
    put(ends[1], "c");
    CHECK(events_of(set, LONG) == EPOLLIN);
    CHECK(events_of(set, 0) == 0);
    put(ends[1], "d");
    CHECK(events_of(set, SHORT) == 0);
    CHECK(change(set, EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLONESHOT) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);

    /* What is closed has left, whatever gets its number. */
    CHECK(change(set, EPOLL_CTL_MOD, ends[0], EPOLLIN) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);
    int number = ends[0], kept = dup(ends[0]);
    CHECK(close(number) == 0);
    CHECK(events_of(set, 0) == 0);
    CHECK(dup2(kept, number) == number);
    CHECK(events_of(set, 0) == 0);
    FAILS(change(set, EPOLL_CTL_MOD, number, EPOLLIN), ENOENT);
    CHECK(change(set, EPOLL_CTL_ADD, number, EPOLLIN) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);
    int others[2];
    CHECK(pipe(others) == 0 && dup2(others[0], number) == number);
    put(others[1], "e");
    CHECK(events_of(set, SHORT) == 0);
    CHECK(change(set, EPOLL_CTL_ADD, number, EPOLLIN) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);
    close(number), close(kept), close(others[0]), close(others[1]), close(ends[1]), close(set);
}

/* More that are ready than there is room for: each has its turn. */
static void turns(void) {
    enum { COUNT = 40, ROOM = 3 };
    int set = epoll_create1(0), counters[COUNT], told[COUNT] = { 0 };
    for (int i = 0; i < COUNT; i++) {
        counters[i] = eventfd(1, 0);
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)i };
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, counters[i], &event) == 0);
    }
    for (int left = COUNT; left > 0; left -= ROOM) {
        struct epoll_event events[ROOM];
        CHECK(epoll_wait(set, events, ROOM, 0) == ROOM);
        for (int i = 0; i < ROOM; i++)
            told[events[i].data.u32]++;
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(told[i] == 1 || (told[i] == 2 && i < ROOM));
    struct epoll_event all[COUNT + 1];
    CHECK(epoll_wait(set, all, COUNT + 1, 0) == COUNT);
    for (int i = 0; i < COUNT; i++)
        close(counters[i]);
    CHECK(epoll_wait(set, all, COUNT + 1, 0) == 0);
    close(set);
}

static void edges(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    int set = set_of(ends[0], EPOLLIN | EPOLLET);
    put(ends[1], "abc");
    CHECK(events_of(set, LONG) == EPOLLIN);
    CHECK(events_of(set, SHORT) == 0);
    /* More has come. */
    put(ends[1], "d");
    CHECK(events_of(set, LONG) == EPOLLIN);
    CHECK(events_of(set, 0) == 0);
    /* All is read, and as much comes: no event is lost. */
    CHECK(drain(ends[0]) == 4);
    put(ends[1], "efgh");
    CHECK(events_of(set, LONG) == EPOLLIN);
    CHECK(events_of(set, 0) == 0);
    CHECK(drain(ends[0]) == 4);
    CHECK(events_of(set, 0) == 0);
    /* A new order is a new beginning. */
    put(ends[1], "i");
    CHECK(events_of(set, LONG) == EPOLLIN);
    CHECK(change(set, EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLET) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);
    CHECK(events_of(set, 0) == 0);
    /* Room in a pipe: once, and again when it was full. */
    CHECK(change(set, EPOLL_CTL_DEL, ends[0], 0) == 0);
    CHECK(change(set, EPOLL_CTL_ADD, ends[1], EPOLLOUT | EPOLLET) == 0);
    CHECK(events_of(set, LONG) == EPOLLOUT);
    CHECK(events_of(set, SHORT) == 0);
    char bytes[1000] = { 0 };
    CHECK(fcntl(ends[1], F_SETFL, fcntl(ends[1], F_GETFL) | O_NONBLOCK) == 0);
    while (write(ends[1], bytes, sizeof bytes) > 0) {}
    CHECK(errno == EAGAIN);
    CHECK(events_of(set, 0) == 0);
    drain(ends[0]);
    CHECK(events_of(set, LONG) == EPOLLOUT);
    while (write(ends[1], bytes, sizeof bytes) > 0) {}
    drain(ends[0]);
    CHECK(events_of(set, LONG) == EPOLLOUT);
    /* With a copy not all uses are seen: it is told as long as there is room. */
    int copy = dup(ends[1]);
    CHECK(events_of(set, 0) == EPOLLOUT && events_of(set, 0) == EPOLLOUT);
    close(copy), close(set), close(ends[0]), close(ends[1]);

    /* A counter that is never read, as event loops have it. */
    int counter = eventfd(0, EFD_NONBLOCK);
    set = set_of(counter, EPOLLIN | EPOLLET);
    for (int i = 0; i < 5; i++) {
        CHECK(eventfd_write(counter, 1) == 0);
        CHECK(events_of(set, LONG) == EPOLLIN);
        CHECK(events_of(set, i ? 0 : SHORT) == 0);
    }
    close(counter), close(set);
}

static void ends_of_pipes(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    int set = set_of(ends[0], EPOLLIN);
    CHECK(close(ends[1]) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 0);
    close(ends[0]), close(set);
}

static void counters(void) {
    uint64_t value = 0;
    int fd = eventfd(3, EFD_CLOEXEC), flags;
    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    FAILS(eventfd(0, 2), EINVAL);
    CHECK(read(fd, &value, sizeof value) == 8 && value == 3);
    CHECK(poll_of(fd, POLLIN | POLLOUT, 0) == POLLOUT);
    value = 5;
    CHECK(write(fd, &value, 8) == 8);
    CHECK(write(fd, &value, sizeof value) == 8);
    CHECK(poll_of(fd, POLLIN | POLLOUT, 0) == (POLLIN | POLLOUT));
    char large[20];
    CHECK(read(fd, large, sizeof large) == 8);
    memcpy(&value, large, 8);
    CHECK(value == 10);
    FAILS(read(fd, &value, 7), EINVAL);
    FAILS(write(fd, &value, 7), EINVAL);
    FAILS(read(fd, NULL, 8), EFAULT);
    FAILS(write(fd, NULL, 8), EFAULT);
    value = UINT64_MAX;
    FAILS(write(fd, &value, 8), EINVAL);
    FAILS(lseek(fd, 0, SEEK_SET), ESPIPE);
    /* It waits or not as the descriptor says now, and its copies. */
    flags = fcntl(fd, F_GETFL);
    int copy = dup(fd);
    CHECK(!(flags & O_NONBLOCK) && fcntl(copy, F_SETFL, flags | O_NONBLOCK) == 0);
    CHECK(fcntl(fd, F_GETFL) == (flags | O_NONBLOCK));
    FAILS(read(fd, &value, 8), EAGAIN);
    CHECK(eventfd_write(copy, 7) == 0 && eventfd_read(fd, &value) == 0 && value == 7);
    /* The greatest value leaves no room. */
    CHECK(eventfd_write(fd, UINT64_MAX - 1) == 0);
    CHECK(poll_of(fd, POLLIN | POLLOUT, 0) == POLLIN);
    FAILS(eventfd_write(fd, 1), EAGAIN);
    CHECK(eventfd_write(fd, 0) == 0);
    CHECK(eventfd_read(copy, &value) == 0 && value == UINT64_MAX - 1);
    CHECK(poll_of(fd, POLLIN | POLLOUT, 0) == POLLOUT);
    CHECK(close(fd) == 0);
    CHECK(eventfd_write(copy, 2) == 0 && eventfd_read(copy, &value) == 0 && value == 2);
    /* Parts of a transfer. */
    struct iovec part = { &value, sizeof value };
    value = 9;
    CHECK(writev(copy, &part, 1) == 8);
    value = 0;
    CHECK(readv(copy, &part, 1) == 8 && value == 9);
    CHECK(close(copy) == 0);
    FAILS(read(copy, &value, 8), EBADF);

    fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
    CHECK(eventfd_write(fd, 2) == 0);
    CHECK(eventfd_read(fd, &value) == 0 && value == 1);
    CHECK(eventfd_read(fd, &value) == 0 && value == 1);
    FAILS(eventfd_read(fd, &value), EAGAIN);
    /* By select, too. */
    fd_set readable, writable;
    struct timeval none = { 0, 0 };
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_SET(fd, &readable), FD_SET(fd, &writable);
    CHECK(select(fd + 1, &readable, &writable, NULL, &none) == 1);
    CHECK(!FD_ISSET(fd, &readable) && FD_ISSET(fd, &writable));
    CHECK(eventfd_write(fd, 1) == 0);
    FD_SET(fd, &readable);
    CHECK(select(fd + 1, &readable, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &readable));
    close(fd);
}

/* Writes 1 to a counter, after a moment. */
static void *write_later(void *fd) {
    usleep(SHORT * 1000);
    CHECK(eventfd_write(*(int *)fd, 1) == 0);
    return NULL;
}

enum { ROUNDS = 2000 };

static void *write_many(void *fd) {
    for (int i = 0; i < ROUNDS; i++)
        CHECK(eventfd_write(*(int *)fd, 1) == 0);
    return NULL;
}

static void *read_later(void *fd) {
    eventfd_t value;
    usleep(SHORT * 1000);
    CHECK(eventfd_read(*(int *)fd, &value) == 0);
    return NULL;
}

static void counters_of_threads(void) {
    pthread_t threads[3];
    eventfd_t value, sum = 0;
    int fd = eventfd(0, 0);
    /* A read waits, a poll, and one for ever. */
    CHECK(pthread_create(threads, NULL, write_later, &fd) == 0);
    CHECK(eventfd_read(fd, &value) == 0 && value == 1);
    pthread_join(threads[0], NULL);
    CHECK(pthread_create(threads, NULL, write_later, &fd) == 0);
    CHECK(poll_of(fd, POLLIN, -1) == POLLIN);
    CHECK(eventfd_read(fd, &value) == 0);
    pthread_join(threads[0], NULL);
    /* Nothing of what many write gets lost. */
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, write_many, &fd) == 0);
    while (sum < 3 * ROUNDS) {
        CHECK(eventfd_read(fd, &value) == 0);
        sum += value;
    }
    CHECK(sum == 3 * ROUNDS);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    /* A write waits for room, and so does a poll. */
    CHECK(eventfd_write(fd, UINT64_MAX - 1) == 0);
    CHECK(pthread_create(threads, NULL, read_later, &fd) == 0);
    CHECK(eventfd_write(fd, 4) == 0);
    pthread_join(threads[0], NULL);
    CHECK(eventfd_read(fd, &value) == 0 && value == 4);
    CHECK(eventfd_write(fd, UINT64_MAX - 1) == 0);
    CHECK(pthread_create(threads, NULL, read_later, &fd) == 0);
    CHECK(poll_of(fd, POLLOUT, LONG) == POLLOUT);
    pthread_join(threads[0], NULL);
    close(fd);
}

/* A set and what another thread does to it. */
struct order {
    int set;
    int operation;
    int fd;
    uint32_t events;
};

static void *order_later(void *argument) {
    struct order *order = argument;
    usleep(SHORT * 1000);
    CHECK(change(order->set, order->operation, order->fd, order->events) == 0);
    return NULL;
}

/* As events_of, but long before a wait would end by itself. */
static uint32_t woken_for(int set) {
    int64_t start = now_ms();
    uint32_t events = events_of(set, LONG);
    CHECK(now_ms() - start < LONG / 2);
    return events;
}

static void *close_later(void *fd) {
    usleep(SHORT * 1000);
    CHECK(close(*(int *)fd) == 0);
    return NULL;
}

/* Waits, takes the value of what is told and counts it. */
static int tokens;

static void *take_tokens(void *argument) {
    int set = *(int *)argument;
    for (;;) {
        struct epoll_event event;
        eventfd_t value;
        int count = epoll_wait(set, &event, 1, LONG);
        CHECK(count == 1);
        if (count != 1 || event.data.u32 == UINT32_MAX)
            return NULL;
        if (eventfd_read((int)event.data.u32, &value) == 0)
            __atomic_fetch_add(&tokens, (int)value, __ATOMIC_SEQ_CST);
        else
            CHECK(errno == EAGAIN);
    }
}

static void threads(void) {
    pthread_t thread, workers[2];
    int set = epoll_create1(0), fd = eventfd(1, EFD_NONBLOCK);
    struct order add = { set, EPOLL_CTL_ADD, fd, EPOLLIN };
    CHECK(pthread_create(&thread, NULL, order_later, &add) == 0);
    CHECK(woken_for(set) == EPOLLIN);
    pthread_join(thread, NULL);
    CHECK(change(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);
    struct order modify = { set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT };
    CHECK(pthread_create(&thread, NULL, order_later, &modify) == 0);
    CHECK(woken_for(set) == EPOLLIN);
    pthread_join(thread, NULL);
    /* Taken out while one waits: the wait goes on without it. */
    eventfd_t value;
    CHECK(eventfd_read(fd, &value) == 0);
    CHECK(change(set, EPOLL_CTL_MOD, fd, EPOLLIN) == 0);
    struct order out = { set, EPOLL_CTL_DEL, fd, 0 };
    CHECK(pthread_create(&thread, NULL, order_later, &out) == 0);
    int64_t start = now_ms();
    CHECK(events_of(set, 4 * SHORT) == 0);
    CHECK(now_ms() - start >= 4 * SHORT);
    pthread_join(thread, NULL);
    /* The set itself is closed. */
    struct epoll_event event;
    CHECK(pthread_create(&thread, NULL, close_later, &set) == 0);
    FAILS(epoll_wait(set, &event, 1, LONG), EBADF);
    pthread_join(thread, NULL);

    /* Two threads wait for the same, in each of the three ways. */
    for (int way = 0; way < 3; way++) {
        const uint32_t flags[] = { 0, EPOLLET, EPOLLEXCLUSIVE };
        int end = eventfd(0, 0);
        tokens = 0;
        set = epoll_create1(0);
        event.events = EPOLLIN | flags[way];
        event.data.u32 = (uint32_t)fd;
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
        event.events = EPOLLIN;
        event.data.u32 = UINT32_MAX;
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, end, &event) == 0);
        for (int i = 0; i < 2; i++)
            CHECK(pthread_create(&workers[i], NULL, take_tokens, &set) == 0);
        for (int i = 0; i < 500; i++) {
            CHECK(eventfd_write(fd, 1) == 0);
            for (int64_t since = now_ms(); i % 10 == 0;) {
                if (__atomic_load_n(&tokens, __ATOMIC_SEQ_CST) == i + 1)
                    break;
                CHECK(now_ms() - since < LONG);
                if (now_ms() - since >= LONG)
                    break;
                sched_yield();
            }
        }
        for (int64_t since = now_ms(); now_ms() - since < LONG;)
            if (__atomic_load_n(&tokens, __ATOMIC_SEQ_CST) == 500)
                break;
        CHECK(eventfd_write(end, 1) == 0);
        for (int i = 0; i < 2; i++)
            pthread_join(workers[i], NULL);
        CHECK(tokens == 500);
        close(set), close(end);
    }
    close(fd);
}

/* Once, for one of two threads alone. */
static void *wait_once(void *set) {
    struct epoll_event event;
    return (void *)(long)epoll_wait(*(int *)set, &event, 1, 5 * SHORT);
}

static void one_of_two(void) {
    for (int i = 0; i < 5; i++) {
        int fd = eventfd(0, 0), set = set_of(fd, EPOLLIN | EPOLLONESHOT);
        pthread_t threads[2];
        long told = 0;
        for (int j = 0; j < 2; j++)
            CHECK(pthread_create(&threads[j], NULL, wait_once, &set) == 0);
        usleep(SHORT * 1000);
        CHECK(eventfd_write(fd, 1) == 0);
        for (int j = 0; j < 2; j++) {
            void *count;
            pthread_join(threads[j], &count);
            told += (long)count;
        }
        CHECK(told == 1);
        close(fd), close(set);
    }
}

static void sets_in_polls(void) {
    int fd = eventfd(0, EFD_NONBLOCK), inner = set_of(fd, EPOLLIN), set = set_of(inner, EPOLLIN);
    CHECK(poll_of(set, POLLIN, 0) == 0 && poll_of(inner, POLLIN | POLLOUT, 0) == 0);
    CHECK(events_of(set, 0) == 0);
    CHECK(eventfd_write(fd, 1) == 0);
    CHECK(poll_of(inner, POLLIN, LONG) == POLLIN);
    CHECK(poll_of(set, POLLIN, LONG) == POLLIN);
    CHECK(poll_of(set, POLLOUT, 0) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN && events_of(inner, LONG) == EPOLLIN);
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(set, &readable);
    CHECK(select(set + 1, &readable, NULL, NULL, NULL) == 1 && FD_ISSET(set, &readable));
    eventfd_t value;
    CHECK(eventfd_read(fd, &value) == 0);
    CHECK(poll_of(set, POLLIN, 0) == 0);
    /* A poll of a set wakes for what comes, and for what is added. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, write_later, &fd) == 0);
    CHECK(poll_of(set, POLLIN, LONG) == POLLIN);
    pthread_join(thread, NULL);
    CHECK(eventfd_read(fd, &value) == 0);
    int more = eventfd(1, 0);
    struct order add = { inner, EPOLL_CTL_ADD, more, EPOLLIN };
    CHECK(pthread_create(&thread, NULL, order_later, &add) == 0);
    CHECK(woken_for(set) == EPOLLIN);
    pthread_join(thread, NULL);
    /* Once: looking at the outer set does not use it up. */
    CHECK(change(inner, EPOLL_CTL_MOD, more, EPOLLIN | EPOLLONESHOT) == 0);
    CHECK(poll_of(set, POLLIN, 0) == POLLIN && poll_of(inner, POLLIN, 0) == POLLIN);
    CHECK(events_of(inner, 0) == EPOLLIN);
    CHECK(poll_of(set, POLLIN, 0) == 0 && events_of(inner, 0) == 0);
    /* Beside other descriptors. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    put(ends[1], "a");
    struct pollfd entries[3] = { { set, POLLIN, 0 }, { ends[0], POLLIN, 0 }, { more, POLLIN, 0 } };
    CHECK(poll(entries, 3, LONG) == 2);
    CHECK(entries[0].revents == 0 && entries[1].revents == POLLIN && entries[2].revents == POLLIN);
    close(ends[0]), close(ends[1]), close(more), close(fd), close(inner), close(set);
}

/* A number to which `dup2` puts nothing, again and again. */
static volatile int stop;

static void *replace_in_vain(void *argument) {
    while (!stop)
        FAILS(dup2(999, *(int *)argument), EBADF);
    return NULL;
}

static void failed_copies(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    int set = set_of(ends[0], EPOLLIN);
    put(ends[1], "a");
    FAILS(dup2(999, ends[0]), EBADF);
    CHECK(events_of(set, LONG) == EPOLLIN);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, replace_in_vain, &ends[0]) == 0);
    for (int i = 0; i < 50; i++)
        CHECK(events_of(set, LONG) == EPOLLIN);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(change(set, EPOLL_CTL_MOD, ends[0], EPOLLIN) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);
    close(ends[0]), close(ends[1]), close(set);
}

/*
 * `dup2` onto a number that another thread uses: a read is one of the file that was there or of the
 * one that is, and never one of what is behind a counter or a set, which would not end.
 */
static volatile int used, uses_of_it, is_read, is_taken;

static void *use_always(void *argument) {
    eventfd_t value = 0;
    (void)argument;
    while (!stop) {
        ssize_t count = read(used, &value, sizeof value);
        if (count == -1)
            CHECK(errno == EINVAL);
        else
            CHECK(count == sizeof value && (value == 0 || value == 1));
        uses_of_it++;
    }
    return NULL;
}

static void *read_once(void *argument) {
    eventfd_t value;
    (void)argument;
    while (!stop) {
        if (!is_read)
            continue;
        CHECK(read(used, &value, sizeof value) == sizeof value);
        is_taken = value != 0;
        is_read = 0;
    }
    return NULL;
}

/* Whether the other thread has gone on; if not, nothing can end it but the end of the program. */
static void has_gone_on(int has) {
    CHECK(has);
    if (!has)
        exit(finish("epoll"));
}

static void replaced_while_used(void) {
    enum { TIMES = 20000, READS = 1000 };
    /* More than the other thread can take: it would wait for ever. */
    int zero = open("/dev/zero", O_RDWR), fd = eventfd(0xffffffff, EFD_SEMAPHORE);
    int set = epoll_create1(0), kinds[] = { fd, zero, set, fd, set, zero };
    pthread_t thread;
    CHECK(zero >= 0 && fd >= 0 && set >= 0);
    used = dup(zero);
    stop = 0;
    CHECK(pthread_create(&thread, NULL, use_always, NULL) == 0);
    for (int i = 0; i < TIMES; i++) {
        CHECK(dup2(kinds[i % 6], used) == used);
        /* The other thread has its turn. */
        if (i % 100 == 0) {
            int before = uses_of_it;
            int64_t since = now_ms();
            while (uses_of_it == before && now_ms() - since < LONG)
                sched_yield();
            has_gone_on(uses_of_it != before);
        }
    }
    stop = 1;
    pthread_join(thread, NULL);
    close(fd);

    /* A thread that waits for a counter goes on when that counter changes, whatever is there now. */
    fd = eventfd(0, 0);
    stop = 0;
    CHECK(pthread_create(&thread, NULL, read_once, NULL) == 0);
    for (int i = 0; i < READS; i++) {
        CHECK(dup2(fd, used) == used);
        is_read = 1;
        for (int pause = i % 50 * 40; pause > 0; pause--)
            __asm__ volatile("pause");
        CHECK(dup2(zero, used) == used && eventfd_write(fd, 1) == 0);
        int64_t since = now_ms();
        while (is_read && now_ms() - since < LONG)
            ;
        has_gone_on(!is_read);
        eventfd_t value;
        if (!is_taken)
            CHECK(eventfd_read(fd, &value) == 0 && value == 1);
    }
    stop = 1;
    pthread_join(thread, NULL);
    close(used), close(fd), close(set), close(zero);
}

static void processes(const char *self) {
    int fd = eventfd(0, 0), back = eventfd(0, 0), set = set_of(back, EPOLLIN), status;
    eventfd_t value;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* One counter for both; the child's set is its own. */
        int right = eventfd_read(fd, &value) == 0 && value == 5;
        struct epoll_event event;
        right = right && epoll_ctl(set, EPOLL_CTL_DEL, back, NULL) == 0;
        right = right && epoll_wait(set, &event, 1, 0) == 0;
        right = right && eventfd_write(back, right ? 6 : 66) == 0;
        _exit(right ? 0 : 1);
    }
    CHECK(child > 0);
    usleep(SHORT * 1000);
    CHECK(eventfd_write(fd, 5) == 0);
    CHECK(events_of(set, LONG) == EPOLLIN);
    CHECK(eventfd_read(back, &value) == 0 && value == 6);
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    /* A program that is started anew has neither, whatever their flags. */
    char numbers[2][16];
    snprintf(numbers[0], sizeof numbers[0], "%d", fd);
    snprintf(numbers[1], sizeof numbers[1], "%d", set);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execlp(self, self, "started", numbers[0], numbers[1], NULL);
        _exit(127);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(fd), close(back), close(set);
}

/* A file that would be watched more often than the system allows: the wait fails, and reports nothing
 * that nobody knows. */
static void too_many(void) {
    enum { MOST = 4096 };
    static struct pollfd copies[MOST + 1];
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int i = 0; i <= MOST; i++) {
        copies[i] = (struct pollfd){ dup(ends[0]), POLLIN, 0 };
        CHECK(copies[i].fd >= 0);
    }
    CHECK(poll(copies, MOST, 0) == 0);
    FAILS(poll(copies, MOST + 1, 0), ENOSPC);
    CHECK(poll(copies, MOST, 0) == 0);
    for (int i = 0; i <= MOST; i++)
        CHECK(close(copies[i].fd) == 0);
    close(ends[0]), close(ends[1]);
}

static int started(char **numbers) {
    for (int i = 0; i < 2; i++)
        if (fcntl(atoi(numbers[i]), F_GETFD) != -1 || errno != EBADF)
            return 1;
    return 0;
}

int main(int count, char **arguments) {
    if (count == 4)
        return started(arguments + 2);
    errors();
    levels();
    turns();
    edges();
    ends_of_pipes();
    counters();
    counters_of_threads();
    threads();
    one_of_two();
    sets_in_polls();
    failed_copies();
    replaced_while_used();
    too_many();
    processes(arguments[0]);
    return finish("epoll");
}
