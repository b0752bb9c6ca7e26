/* Descriptors that threads and processes open, copy and close at once, of sockets and of other
 * files, within a node. A name as argument plays that part alone. */
#define NO_PATTERNS
#include "socket-pairs.h"
#include <sys/wait.h>
#include <time.h>

/* Waits without giving the processor away: until another thread says so, for at most a while. */
static int is_soon(const volatile int *place, int value) {
    for (int i = 0; i < 100000; i++)
        if (*place == value)
            return 1;
    return 0;
}

static void spin_until(const volatile int *place, int value) {
    while (!is_soon(place, value))
        sched_yield();
}

static long now_ns(void) {
    struct timespec time;
    GIVES(clock_gettime(CLOCK_MONOTONIC, &time), 0);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* 94: an endpoint whose number gets another file while a first call makes a socket of it. */
enum { ROUNDS = 400 };

static volatile int begun, done;
static int first_used;

static void *use_first(void *argument) {
    char byte;
    (void)argument;
    for (int i = 1; i <= ROUNDS; i++) {
        spin_until(&begun, i);
        CHECK(recv(first_used, &byte, 1, MSG_DONTWAIT) == -1);
        done = i;
    }
    return NULL;
}

/* How long a first call takes here. */
static long first_use_ns(void) {
    char byte;
    long shortest = 1000000000;
    for (int i = 0; i < 8; i++) {
        int fd = scif_open();
        long begin = now_ns();
        FAILS(recv(fd, &byte, 1, MSG_DONTWAIT), ENOTCONN);
        long took = now_ns() - begin;
        shortest = took < shortest ? took : shortest;
        GIVES(close(fd), 0);
    }
    return shortest;
}

static void check_first_uses(void) {
    long length = first_use_ns();
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(zero >= 0);
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, use_first, NULL), 0);
    for (int i = 1; i <= ROUNDS; i++) {
        first_used = scif_open();
        CHECK(first_used >= 0);
        long end = now_ns() + length * (i % 100) / 80;
        begun = i;
        while (now_ns() < end)
            ;
        char byte = 1;
        int fd = first_used;
        if (i & 1) {
            GIVES(dup2(zero, fd), fd);
        } else {
            GIVES(close(fd), 0);
            fd = open("/dev/zero", O_RDONLY);
            CHECK(fd >= 0);
        }
        spin_until(&done, i);
        GIVES(read(fd, &byte, 1), 1);
        CHECK(byte == 0);
        FAILS(recv(fd, &byte, 1, MSG_DONTWAIT), ENOTSOCK);
        GIVES(close(fd), 0);
    }
    GIVES(pthread_join(thread, NULL), 0);
    GIVES(close(zero), 0);
}

/* 95: dup2 on a number that another thread's open has chosen: the open gets its file. */
static volatile int stop;

static void *open_and_close(void *argument) {
    while (!stop) {
        int fd = open(argument, O_RDONLY);
        CHECK(fd >= 0);
        /* It may be a copy of the other file, or closed already. */
        close(fd);
    }
    return NULL;
}

static void check_chosen(void) {
    static char *const paths[] = { "/dev/null", "/etc", "/scheme/scif" };
    for (int kind = 0; kind < 3; kind++) {
        int zero = open("/dev/zero", O_RDONLY), low = dup(zero);
        CHECK(zero >= 0 && low >= 0);
        GIVES(close(low), 0);
        pthread_t thread;
        stop = 0;
        GIVES(pthread_create(&thread, NULL, open_and_close, paths[kind]), 0);
        for (int i = 0; i < 3000; i++)
            if (dup2(zero, low) == low)
                close(low);
            else
                CHECK(errno == EBUSY);
        stop = 1;
        GIVES(pthread_join(thread, NULL), 0);
        for (int i = 0; i < 3; i++) {
            GIVES(dup2(zero, low), low);
            GIVES(close(low), 0);
            FAILS(close(low), EBADF);
            GIVES(open(paths[kind], O_RDONLY), low);
            GIVES(close(low), 0);
        }
        GIVES(close(zero), 0);
    }
}

/* 100: closing a number that is free leaves it to the thread that is about to open it. */
static void check_free(void) {
    int zero = open("/dev/zero", O_RDONLY), low = dup(zero);
    CHECK(zero >= 0 && low >= 0);
    GIVES(close(low), 0);
    pthread_t thread;
    stop = 0;
    GIVES(pthread_create(&thread, NULL, open_and_close, "/dev/null"), 0);
    for (int i = 0; i < 20000; i++) {
        CHECK(close(low) == 0 || errno == EBADF);
        CHECK(dup2(zero, low) == low || errno == EBUSY);
        CHECK(close(low) == 0 || errno == EBADF);
    }
    stop = 1;
    GIVES(pthread_join(thread, NULL), 0);
    FAILS(close(low), EBADF);
    GIVES(open("/dev/null", O_RDONLY), low);
    GIVES(close(low) | close(zero), 0);
}

/* 96: a fork while a thread closes a socket: the child has nothing of it. */
static void *close_one(void *argument) {
    GIVES(close(*(int *)argument), 0);
    return NULL;
}

static void check_forked_close(void) {
    int pair[2], tell[2], lives[2], status;
    char byte;
    struct linger linger = { 1, TIMEOUT_MS / 1000 };
    packets_of(pair);
    GIVES(pipe(tell) | pipe(lives), 0);
    GIVES(setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    int count = fill_up(pair[0]);
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, close_one, &pair[0]), 0);
    /* It waits for room in the middle. */
    while (send(pair[0], "x", 1, MSG_DONTWAIT) < 0 && errno != EBADF)
        pause_shortly();
    CHECK(errno == EBADF);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(fcntl(pair[0], F_GETFD), EBADF);
        FAILS(send(pair[0], "x", 1, 0), EBADF);
        int fd;
        while ((fd = open("/dev/null", O_RDONLY)) < pair[0])
            CHECK(fd >= 0);
        CHECK(fd == pair[0]);
        GIVES(close(pair[1]) | close(lives[1]), 0);
        GIVES(write(tell[1], "r", 1), 1);
        _exit(read(lives[0], &byte, 1) == 0 ? 7 : 8);
    }
    GIVES(read(tell[0], &byte, 1), 1);
    read_filled(pair[1], count);
    read_end(pair[1]);
    GIVES(pthread_join(thread, NULL), 0);
    /* The child still runs. */
    int tries = 0;
    while (!(poll_one(pair[1], POLLIN, TIMEOUT_MS) & POLLHUP)) {
        CHECK(tries++ < TIMEOUT_MS / 2);
        pause_shortly();
    }
    GIVES(close(lives[1]), 0);
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    GIVES(close(pair[1]) | close(lives[0]) | close(tell[0]) | close(tell[1]), 0);
}

/* 97: closing a full socket of messages ends the receive that another thread sleeps in, though what
 * did not fit is still sent. */
static void *receive_closed(void *argument) {
    char byte;
    FAILS(recv(*(int *)argument, &byte, 1, 0), EBADF);
    return NULL;
}

static void check_full_receive(void) {
    int pair[2];
    packets_of(pair);
    int count = fill_up(pair[0]), fd = pair[0];
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, receive_closed, &fd), 0);
    for (int i = 0; i < 20; i++)
        pause_shortly();
    GIVES(close(pair[0]), 0);
    GIVES(pthread_join(thread, NULL), 0);
    read_filled(pair[1], count);
    read_end(pair[1]);
    GIVES(close(pair[1]), 0);
}

/* 98: SHUT_RD by one process ends the receives of all that have the socket, and nothing else. */
static void *receive_none(void *argument) {
    char byte;
    GIVES(recv(*(int *)argument, &byte, 1, 0), 0);
    return NULL;
}

static void check_shared_shut(void) {
    for (int kind = 0; kind < 4; kind++) {
        int pair[2], status;
        if (kind & 1)
            packets_of(pair);
        else
            pair_of(pair);
        pthread_t thread;
        if (kind & 2)
            GIVES(pthread_create(&thread, NULL, receive_none, &pair[0]), 0);
        for (int i = 0; i < 20; i++)
            pause_shortly();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            exit(shutdown(pair[0], SHUT_RD) == 0 ? 7 : 8);
        GIVES(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        if (kind & 2)
            GIVES(pthread_join(thread, NULL), 0);
        for (int i = 0; i < 2; i++)
            read_end(pair[0]);
        CHECK(poll_one(pair[0], POLLIN, TIMEOUT_MS) & POLLIN);
        step(pair[0], 'o');
        await(pair[1], 'o');
        GIVES(close(pair[0]), 0);
        read_end(pair[1]);
        GIVES(close(pair[1]), 0);
    }
}

/* 105: an accept without descriptors for the connection leaves it where it is. */
static void check_scarce(void) {
    enum { MORE = 70000 };
    static int copies[MORE];
    int on = listen_on(3105), fd = stream(), count = 0;
    set_waiting(fd, 0);
    FAILS(try_connect(fd, own, 3105), EINPROGRESS);
    CHECK(poll_one(on, POLLIN, TIMEOUT_MS) & POLLIN);
    while (count < MORE && (copies[count] = dup(1)) >= 0)
        count++;
    CHECK(errno == EMFILE);
    for (int free = 0; free < 2; free++) {
        FAILS(accept(on, NULL, NULL), EMFILE);
        GIVES(close(copies[--count]), 0);
    }
    int peer = accept_on(on);
    while (count > 0)
        GIVES(close(copies[--count]), 0);
    CHECK(poll_one(fd, POLLOUT, TIMEOUT_MS) & POLLOUT);
    set_waiting(fd, 1);
    step(fd, 'a');
    await(peer, 'a');
    GIVES(close(fd) | close(peer) | close(on), 0);
}

/* 106: pairs are made while others connect to the ports that a pair takes for a moment. */
enum { DOORS = 6 };

static volatile int is_quiet;

static void *knock(void *argument) {
    int first = *(int *)argument;
    for (int i = 0; !is_quiet; i = (i + 1) % DOORS) {
        int fd = stream();
        set_waiting(fd, 0);
        try_connect(fd, own, first + i);
        GIVES(close(fd), 0);
    }
    return NULL;
}

static void check_strangers(void) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = stream(), pair[2];
    GIVES(bind_to(fd, -1, 0), 0);
    GIVES(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    GIVES(close(fd), 0);
    int first = ntohs(address.sin_port);
    pthread_t strangers[2];
    for (int i = 0; i < 2; i++)
        GIVES(pthread_create(&strangers[i], NULL, knock, &first), 0);
    for (int i = 0; i < 400; i++) {
        GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        step(pair[0], 's');
        await(pair[1], 's');
        GIVES(close(pair[0]) | close(pair[1]), 0);
    }
    is_quiet = 1;
    for (int i = 0; i < 2; i++)
        GIVES(pthread_join(strangers[i], NULL), 0);
}

/* 107: dup2 puts a socket at a number that another thread closes: it is open, and the socket, or it
 * is neither. */
enum { COPY = 200 };

static void *close_copies(void *argument) {
    const long *length = argument;
    for (int i = 1; i <= ROUNDS; i++) {
        spin_until(&begun, i);
        for (long end = now_ns() + *length * (i % 100) / 80; now_ns() < end;)
            ;
        CHECK(close(COPY) == 0 || errno == EBADF);
        done = i;
    }
    return NULL;
}

static void check_closed_copies(void) {
    int pair[2];
    pair_of(pair);
    long length = now_ns();
    for (int i = 0; i < 8; i++)
        GIVES(dup2(pair[0], COPY), COPY);
    length = (now_ns() - length) / 8;
    pthread_t thread;
    begun = done = 0;
    GIVES(pthread_create(&thread, NULL, close_copies, &length), 0);
    for (int i = 1; i <= ROUNDS; i++) {
        /* A socket may be there already. */
        if (i & 1)
            close(COPY);
        begun = i;
        CHECK(dup2(pair[0], COPY) == COPY || errno == EBUSY);
        spin_until(&done, i);
        int type;
        socklen_t size = sizeof type;
        int is_open = fcntl(COPY, F_GETFD) >= 0;
        GIVES(getsockopt(COPY, SOL_SOCKET, SO_TYPE, &type, &size), is_open ? 0 : -1);
    }
    GIVES(pthread_join(thread, NULL), 0);
    close(COPY);
    GIVES(close(pair[0]), 0);
    read_end(pair[1]);
    GIVES(close(pair[1]), 0);
}

/* 119: F_DUPFD takes one number, and leaves the lower ones to other threads. */
static int zero_file;

static void *copy_lowest(void *argument) {
    const long *length = argument;
    for (int i = 1; i <= ROUNDS; i++) {
        spin_until(&begun, i);
        for (long end = now_ns() + *length * (i % 100) / 80; now_ns() < end;)
            ;
        int fd = dup(zero_file);
        CHECK(fd >= 0 && fd < COPY);
        GIVES(close(fd), 0);
        done = i;
    }
    return NULL;
}

static void check_lowest_from(void) {
    zero_file = open("/dev/zero", O_RDONLY);
    CHECK(zero_file >= 0);
    long length = now_ns();
    GIVES(fcntl(zero_file, F_DUPFD, COPY), COPY);
    length = now_ns() - length;
    GIVES(fcntl(zero_file, F_DUPFD_CLOEXEC, COPY), COPY + 1);
    GIVES(fcntl(zero_file, F_DUPFD, COPY - 1), COPY - 1);
    GIVES(fcntl(COPY - 1, F_GETFD) | fcntl(COPY, F_GETFD), 0);
    GIVES(fcntl(COPY + 1, F_GETFD), FD_CLOEXEC);
    GIVES(close(COPY - 1) | close(COPY) | close(COPY + 1), 0);
    pthread_t thread;
    begun = done = 0;
    GIVES(pthread_create(&thread, NULL, copy_lowest, &length), 0);
    for (int i = 1; i <= ROUNDS; i++) {
        begun = i;
        GIVES(fcntl(zero_file, F_DUPFD, COPY), COPY);
        spin_until(&done, i);
        GIVES(close(COPY), 0);
    }
    GIVES(pthread_join(thread, NULL), 0);
    GIVES(close(zero_file), 0);
}

static const struct part parts[] = {
    { 94, "first", check_first_uses },
    { 95, "chosen", check_chosen },
    { 96, "forked", check_forked_close },
    { 97, "full", check_full_receive },
    { 98, "shut", check_shared_shut },
    { 100, "free", check_free },
    { 105, "scarce", check_scarce },
    { 106, "strangers", check_strangers },
    { 107, "copies", check_closed_copies },
    { 119, "lowest", check_lowest_from },
};

int main(int count, char **arguments) {
    play_parts(parts, sizeof parts / sizeof parts[0], count > 1 ? arguments[1] : NULL);
    return 0;
}
