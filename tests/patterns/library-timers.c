/*
 * Timers that are descriptors (`timerfd_create`): what they are set to, what a read gives, and how
 * a program waits for them. No check depends on how long anything takes: a time has come when the
 * test begins to wait for it, comes while it waits, or lies hours away.
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
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOURS = 7200 };
static const long MILLION = 1000000;

static struct itimerspec times(long interval, long value) {
    struct itimerspec all = {{interval / 1000, interval % 1000 * MILLION},
                             {value / 1000, value % 1000 * MILLION}};
    return all;
}

/* Sets a timer to times in milliseconds. */
static void set(int fd, long interval, long value) {
    struct itimerspec all = times(interval, value);
    CHECK(timerfd_settime(fd, 0, &all, NULL) == 0);
}

/* Sets a timer to a time that is over. */
static void expire(int fd, long interval) {
    struct itimerspec all = times(interval, 0);
    all.it_value.tv_nsec = 1;
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &all, NULL) == 0);
}

static short ready(int fd, int limit) {
    struct pollfd entry = {fd, POLLIN | POLLOUT, 0};
    int count = poll(&entry, 1, limit);
    CHECK(count == (entry.revents != 0));
    return entry.revents;
}

static void reads(void) {
    uint64_t count = 0;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
    FAILS(read(fd, &count, 8), EAGAIN);
    CHECK(ready(fd, 0) == 0);
    expire(fd, 0);
    FAILS(read(fd, &count, 7), EINVAL);
    CHECK(ready(fd, 0) == POLLIN && ready(fd, -1) == POLLIN);
    CHECK(read(fd, &count, 8) == 8 && count == 1 && ready(fd, 0) == 0);
    FAILS(read(fd, &count, 8), EAGAIN);
    /* All times since the start, of which there are many; then the next one is up to an hour away. */
    expire(fd, 1);
    CHECK(read(fd, &count, sizeof count) == 8 && count > 1);
    expire(fd, 3600000);
    CHECK(read(fd, &count, 8) == 8 && count >= 1);
    FAILS(read(fd, &count, 8), EAGAIN);
    /* What has expired is forgotten when the timer is set again, or set to nothing. */
    expire(fd, 0);
    set(fd, 0, 1000L * HOURS);
    FAILS(read(fd, &count, 8), EAGAIN);
    expire(fd, 0);
    set(fd, 5, 0);
    FAILS(read(fd, &count, 8), EAGAIN);
    FAILS(write(fd, &count, 8), EINVAL);
    /* A read that waits. */
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    set(fd, 0, 3);
    CHECK(read(fd, &count, 8) == 8 && count == 1);
    set(fd, 1, 1);
    CHECK(read(fd, &count, 8) == 8 && count >= 1 && read(fd, &count, 8) == 8 && count >= 1);
    CHECK(close(fd) == 0);
    FAILS(read(fd, &count, 8), EBADF);
}

static void settings(void) {
    struct itimerspec now, all = times(2000, 1000L * HOURS);
    int fd = timerfd_create(CLOCK_REALTIME, 0);
    CHECK(fd >= 0 && timerfd_gettime(fd, &now) == 0);
    CHECK(now.it_value.tv_sec == 0 && now.it_value.tv_nsec == 0 && now.it_interval.tv_sec == 0);
    CHECK(timerfd_settime(fd, 0, &all, &now) == 0 && now.it_value.tv_sec == 0);
    CHECK(timerfd_gettime(fd, &now) == 0 && now.it_interval.tv_sec == 2);
    CHECK(now.it_value.tv_sec > 0 && now.it_value.tv_sec <= HOURS);
    /* A time of that clock. */
    struct timespec clock;
    CHECK(clock_gettime(CLOCK_REALTIME, &clock) == 0);
    all = times(0, 0);
    all.it_value.tv_sec = clock.tv_sec + HOURS;
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &all, &now) == 0);
    CHECK(now.it_interval.tv_sec == 2 && now.it_value.tv_sec <= HOURS);
    CHECK(timerfd_gettime(fd, &now) == 0 && now.it_interval.tv_sec == 0);
    CHECK(now.it_value.tv_sec > 0 && now.it_value.tv_sec <= HOURS && ready(fd, 0) == 0);
    all.it_value = clock;
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &all, NULL) == 0 && ready(fd, 0) == POLLIN);
    CHECK(timerfd_gettime(fd, &now) == 0 && now.it_value.tv_sec == 0 && now.it_value.tv_nsec == 0);
    /* One that repeats says when the next time comes, although nobody has read the last one. */
    expire(fd, 1000L * HOURS);
    CHECK(timerfd_gettime(fd, &now) == 0 && now.it_value.tv_sec > 0);
    CHECK(now.it_value.tv_sec <= HOURS && ready(fd, 0) == POLLIN);
    FAILS(timerfd_create(99, 0), EINVAL);
    FAILS(timerfd_create(CLOCK_MONOTONIC, 1), EINVAL);
    FAILS(timerfd_settime(fd, 4, &all, NULL), EINVAL);
    FAILS(timerfd_settime(fd, 0, NULL, NULL), EFAULT);
    FAILS(timerfd_gettime(fd, NULL), EFAULT);
    all = times(0, 1);
    all.it_value.tv_nsec = 1000 * MILLION;
    FAILS(timerfd_settime(fd, 0, &all, NULL), EINVAL);
    all.it_value.tv_nsec = -1;
    FAILS(timerfd_settime(fd, 0, &all, NULL), EINVAL);
    CHECK(ready(fd, 0) == POLLIN && close(fd) == 0);
    FAILS(timerfd_settime(fd, 0, &all, NULL), EBADF);
    fd = eventfd(0, 0);
    FAILS(timerfd_gettime(fd, &now), EINVAL);
    CHECK(close(fd) == 0 && (fd = open("/tmp", O_RDONLY)) >= 0);
    FAILS(timerfd_gettime(fd, &now), EINVAL);
    CHECK(close(fd) == 0);
}

/* Waits without a limit, which only the timer ends. */
static void waits(void) {
    int fd = timerfd_create(CLOCK_MONOTONIC, 0), other = timerfd_create(CLOCK_MONOTONIC, 0);
    int ends[2];
    uint64_t count;
    CHECK(pipe(ends) == 0);
    set(other, 0, 1000L * HOURS);
    set(fd, 0, 2);
    struct pollfd entries[] = {{other, POLLIN, 0}, {ends[0], POLLIN, 0}, {fd, POLLIN, 0}};
    CHECK(poll(entries, 3, -1) == 1 && entries[2].revents == POLLIN && !entries[0].revents);
    set(fd, 0, 2);
    fd_set set_of;
    FD_ZERO(&set_of);
    FD_SET(ends[0], &set_of);
    FD_SET(fd, &set_of);
    CHECK(select(fd + 1, &set_of, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &set_of));
    /* A limit that comes first. */
    CHECK(poll(entries, 2, 1) == 0);
    /* A copy is the same timer. */
    int copy = dup(fd);
    CHECK(copy >= 0 && read(copy, &count, 8) == 8 && count == 1 && ready(fd, 0) == 0);
    expire(copy, 0);
    CHECK(ready(fd, 0) == POLLIN && close(fd) == 0 && ready(copy, 0) == POLLIN);
    CHECK(close(copy) == 0 && close(other) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void sets(void) {
    uint64_t count;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7}, found[4];
    int set_of = epoll_create1(0), fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    CHECK(epoll_ctl(set_of, EPOLL_CTL_ADD, fd, &event) == 0 && epoll_wait(set_of, found, 4, 0) == 0);
    set(fd, 1, 1);
    for (int i = 0; i < 3; i++) {
        CHECK(epoll_wait(set_of, found, 4, -1) == 1 && found[0].data.u32 == 7);
        CHECK(found[0].events == EPOLLIN && read(fd, &count, 8) == 8 && count >= 1);
    }
    /* Once for each time that was read. */
    event.events = EPOLLIN | EPOLLET;
    CHECK(epoll_ctl(set_of, EPOLL_CTL_MOD, fd, &event) == 0);
    expire(fd, 0);
    CHECK(epoll_wait(set_of, found, 4, -1) == 1 && epoll_wait(set_of, found, 4, 0) == 0);
    expire(fd, 0);
    CHECK(epoll_wait(set_of, found, 4, -1) == 1 && epoll_wait(set_of, found, 4, 0) == 0);
    CHECK(read(fd, &count, 8) == 8);
    set(fd, 0, 1);
    CHECK(epoll_wait(set_of, found, 4, -1) == 1);
    CHECK(close(fd) == 0 && epoll_wait(set_of, found, 4, 0) == 0 && close(set_of) == 0);
}

static void *set_later(void *fd) {
    set(*(int *)fd, 0, 1);
    return NULL;
}

/* A timer that another thread, or a child, sets while this thread waits for it. */
static void others(void) {
    uint64_t count;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0), status = -1;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, set_later, &fd) == 0);
    CHECK(ready(fd, -1) == POLLIN && pthread_join(thread, NULL) == 0);
    CHECK(read(fd, &count, 8) == 8 && pthread_create(&thread, NULL, set_later, &fd) == 0);
    CHECK(read(fd, &count, 8) == 8 && pthread_join(thread, NULL) == 0);
    /* To an earlier time. */
    set(fd, 0, 1000L * HOURS);
    CHECK(pthread_create(&thread, NULL, set_later, &fd) == 0);
    CHECK(ready(fd, -1) == POLLIN && pthread_join(thread, NULL) == 0);
    set(fd, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        set_later(&fd);
        _exit(failures);
    }
    CHECK(ready(fd, -1) == POLLIN && read(fd, &count, 8) == 8 && count == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    expire(fd, 0);
    child = fork();
    if (child == 0) {
        _exit(read(fd, &count, 8) == 8 && count == 1 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0 && ready(fd, 0) == 0);
    CHECK(close(fd) == 0);
}

int main(void) {
    reads();
    settings();
    waits();
    sets();
    others();
    return finish("library-timers");
}
