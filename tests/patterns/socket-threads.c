/* Sockets that several threads and processes use at once, within a node. A name as argument plays
 * that part alone. */
#define NO_PATTERNS
#include "socket-pairs.h"
#include <signal.h>
#include <sys/wait.h>

static void set_limit(int fd, int name) {
    struct timeval limit = { TIMEOUT_MS / 1000, 0 };
    GIVES(setsockopt(fd, SOL_SOCKET, name, &limit, sizeof limit), 0);
}

/* Transfers after which the library has mapped a connection. */
static void map(const int pair[2]) {
    for (int i = 0; i < 32; i++) {
        step(pair[0], 'm');
        await(pair[1], 'm');
        step(pair[1], 'n');
        await(pair[0], 'n');
    }
}

/* 81: a call goes on with the socket that it began with, whatever its number means meanwhile. */
enum { MUCH = 4 << 20 };

static char much[MUCH];

struct transfer {
    int fd, sends;
    ssize_t result;
};

static void *run_transfer(void *argument) {
    struct transfer *transfer = argument;
    if (transfer->sends)
        transfer->result = send(transfer->fd, much, MUCH, 0);
    else
        transfer->result = recv(transfer->fd, much, 8, MSG_WAITALL);
    return NULL;
}

static void replace_under(int sends, int is_limited, int is_mapped, int by_dup) {
    int first[2], second[2];
    pair_of(first);
    if (is_mapped)
        map(first);
    if (is_limited)
        set_limit(first[0], sends ? SO_SNDTIMEO : SO_RCVTIMEO);
    pthread_t thread;
    struct transfer transfer = { first[0], sends, 0 };
    write_all(first[1], "1234", 4);
    GIVES(pthread_create(&thread, NULL, run_transfer, &transfer), 0);
    /* It sleeps in the middle. */
    if (sends)
        CHECK(poll_one(first[1], POLLIN, TIMEOUT_MS) & POLLIN);
    for (int i = 0; i < 20; i++)
        pause_shortly();
    /* Another socket gets the number, at once or after a close. */
    int fresh[2];
    pair_of(fresh);
    if (!by_dup)
        GIVES(close(first[0]), 0);
    GIVES(dup2(fresh[0], first[0]), first[0]);
    GIVES(close(fresh[0]), 0);
    second[0] = first[0], second[1] = fresh[1];
    if (!sends)
        write_all(second[1], "5678", 4);
    for (int i = 0; i < 20; i++)
        pause_shortly();
    GIVES(close(first[1]), 0);
    GIVES(pthread_join(thread, NULL), 0);
    char text[8];
    if (sends) {
        CHECK(transfer.result < MUCH);
        FAILS(recv(second[1], text, sizeof text, MSG_DONTWAIT), EAGAIN);
    } else {
        CHECK(transfer.result == 4 || transfer.result == -1);
        GIVES(recv(second[0], text, sizeof text, MSG_DONTWAIT), 4);
        CHECK(!memcmp(text, "5678", 4));
    }
    GIVES(close(second[0]), 0);
    GIVES(close(second[1]), 0);
}

static void check_numbers(void) {
    for (int kind = 0; kind < 16; kind++)
        replace_under(kind & 1, kind & 2, kind & 4, kind & 8);
}

/* 82: closing a full socket of messages does not wait, and the peer gets all and then the end. */
static void check_full(void) {
    int pair[2];
    for (int how = 0; how < 3; how++) {
        packets_of(pair);
        int count = fill_up(pair[0]);
        if (how == 0)
            GIVES(close(pair[0]), 0);
        else
            GIVES(shutdown(pair[0], SHUT_WR), 0);
        if (how == 2) {
            FAILS(send(pair[0], "x", 1, 0), EPIPE);
            GIVES(close(pair[0]), 0);
        }
        /* Nothing was read yet: nobody has waited for room. */
        read_filled(pair[1], count);
        read_end(pair[1]);
        if (how == 1) {
            /* The other direction goes on. */
            step(pair[1], 'o');
            await(pair[0], 'o');
            GIVES(close(pair[0]), 0);
        }
        GIVES(close(pair[1]), 0);
    }
    /* A process that closes and ends at once, after the other one that has the socket or before. */
    for (int is_last = 0; is_last < 2; is_last++) {
        packets_of(pair);
        int go[2], tell[2], status;
        char byte;
        GIVES(pipe(go) | pipe(tell), 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            close(pair[1]);
            if (is_last)
                GIVES(read(go[0], &byte, 1), 1);
            int count = fill_up(pair[0]);
            close(pair[0]);
            GIVES(write(tell[1], &count, sizeof count), sizeof count);
            exit(7);
        }
        int count;
        if (!is_last)
            GIVES(read(tell[0], &count, sizeof count), sizeof count);
        GIVES(close(pair[0]), 0);
        GIVES(write(go[1], "g", 1), 1);
        if (is_last)
            GIVES(read(tell[0], &count, sizeof count), sizeof count);
        read_filled(pair[1], count);
        read_end(pair[1]);
        GIVES(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        GIVES(close(pair[1]), 0);
        for (int end = 0; end < 2; end++)
            GIVES(close(go[end]) | close(tell[end]), 0);
    }
    /* SO_LINGER: no time at all ends the connection; else close waits so long. */
    for (int seconds = 0; seconds < 2; seconds++) {
        struct linger linger = { 1, seconds };
        packets_of(pair);
        GIVES(setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
        int count = fill_up(pair[0]);
        GIVES(close(pair[0]), 0);
        if (seconds) {
            read_filled(pair[1], count);
            read_end(pair[1]);
        } else {
            static char data[LENGTH];
            while (recv(pair[1], data, sizeof data, 0) > 0)
                count--;
            CHECK(errno == ECONNRESET && count > 0);
        }
        GIVES(close(pair[1]), 0);
    }
}

/* What the parent could not send before it closed goes out, and its child's socket stays. */
static void check_shared_full(void) {
    int pair[2], go[2], status;
    char byte;
    packets_of(pair);
    GIVES(pipe(go), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        GIVES(close(pair[1]), 0);
        GIVES(read(go[0], &byte, 1), 1);
        await(pair[0], 'o');
        exit(7);
    }
    int count = fill_up(pair[0]);
    GIVES(shutdown(pair[0], SHUT_WR), 0);
    GIVES(close(pair[0]), 0);
    GIVES(write(go[1], "g", 1), 1);
    read_filled(pair[1], count);
    read_end(pair[1]);
    /* The threads of the parent have done what they do behind the end. */
    usleep(100 * 1000);
    step(pair[1], 'o');
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    GIVES(close(pair[1]) | close(go[0]) | close(go[1]), 0);
}

/* 83: what a parent closes stays its child's. */
static void check_shared(void) {
    int pair[2], go[2], status;
    char byte;
    GIVES(pipe(go), 0);
    for (int how = 0; how < 3; how++) {
        packets_of(pair);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            GIVES(close(pair[1]), 0);
            GIVES(read(go[0], &byte, 1), 1);
            if (how == 1)
                exit(7);
            GIVES(send(pair[0], "of the child", 12, 0), 12);
            if (how == 0)
                GIVES(close(pair[0]), 0);
            exit(7);
        }
        if (how == 0)
            GIVES(close(pair[0]), 0);
        GIVES(write(go[1], "g", 1), 1);
        char text[20];
        if (how != 1) {
            GIVES(recv(pair[1], text, sizeof text, 0), 12);
            CHECK(!memcmp(text, "of the child", 12));
        }
        GIVES(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        if (how) {
            /* The parent's is not touched by the child's end. */
            GIVES(send(pair[0], "parent", 6, 0), 6);
            GIVES(recv(pair[1], text, sizeof text, 0), 6);
            GIVES(close(pair[0]), 0);
        }
        read_end(pair[1]);
        GIVES(close(pair[1]), 0);
    }
    /* Listeners. */
    for (int kind = 0; kind < 2; kind++) {
        int port = 3081, on = kind ? listen_packets(&port) : listen_on(3081);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            GIVES(read(go[0], &byte, 1), 1);
            int fd = accept_on(on);
            GIVES(send(fd, "c", 1, 0), 1);
            GIVES(close(fd), 0);
            exit(7);
        }
        GIVES(close(on), 0);
        GIVES(write(go[1], "g", 1), 1);
        int fd = kind ? (int)(long)connect_packets(&port) : call_stream(own, 3081);
        GIVES(recv(fd, &byte, 1, 0), 1);
        CHECK(byte == 'c');
        read_end(fd);
        GIVES(close(fd), 0);
        GIVES(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    GIVES(close(go[0]) | close(go[1]), 0);
    check_shared_full();
}

/* 84: bytes that a parent has not sent yet are sent once. */
static void check_unsent(void) {
    int pair[2], status;
    packets_of(pair);
    int count = fill_up(pair[0]);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char data[LENGTH];
        /* Room for what did not fit. */
        GIVES(recv(pair[1], data, sizeof data, 0), sizeof data);
        GIVES(recv(pair[1], data, sizeof data, 0), sizeof data);
        CHECK(mismatch(data, sizeof data, 1) == sizeof data);
        for (int i = 0; i < 10; i++)
            poll_one(pair[0], POLLOUT, 0);
        _exit(7);
    }
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    GIVES(close(pair[0]), 0);
    static char data[LENGTH];
    for (int i = 2; i < count; i++) {
        GIVES(recv(pair[1], data, sizeof data, 0), sizeof data);
        CHECK(mismatch(data, sizeof data, i) == sizeof data);
    }
    read_end(pair[1]);
    GIVES(close(pair[1]), 0);
}

/* 99: messages of two processes do not mix, whoever has begun one; a process that goes in the middle
 * of one ends sending. */
enum { LATER = 5 };

static void check_together(void) {
    int pair[2], status;
    static char data[LENGTH];
    packets_of(pair);
    int count = fill_up(pair[0]);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        GIVES(close(pair[1]), 0);
        for (int i = count; i < count + LATER; i++) {
            fill(data, sizeof data, i);
            GIVES(send(pair[0], data, sizeof data, 0), sizeof data);
        }
        exit(7);
    }
    /* Now there is room for the child, but not for the parent, which makes no call on it. */
    GIVES(recv(pair[1], data, sizeof data, 0), sizeof data);
    CHECK(mismatch(data, sizeof data, 0) == sizeof data);
    for (int i = 0; i < 20; i++)
        pause_shortly();
    GIVES(close(pair[0]), 0);
    for (int i = 1; i < count + LATER; i++) {
        GIVES(recv(pair[1], data, sizeof data, 0), sizeof data);
        CHECK(mismatch(data, sizeof data, i) == sizeof data);
    }
    read_end(pair[1]);
    GIVES(close(pair[1]), 0);
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);

    /* Killed, or another program; its parent asks for its status before it sends or behind that. */
    for (int way = 0; way < 3; way++) {
        int tell[2], execs = way == 1, asks_later = way == 2;
        packets_of(pair);
        GIVES(pipe(tell), 0);
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            GIVES(close(pair[1]), 0);
            count = fill_up(pair[0]);
            GIVES(write(tell[1], &count, sizeof count), sizeof count);
            if (execs)
                execlp("socket-threads", "socket-threads", "leave", "now", NULL);
            sleep(1000);
        }
        GIVES(read(tell[0], &count, sizeof count), sizeof count);
        if (!execs)
            GIVES(kill(child, SIGKILL), 0);
        if (!asks_later)
            GIVES(waitpid(child, &status, 0), child);
        FAILS(send(pair[0], "x", 1, MSG_NOSIGNAL), EPIPE);
        if (asks_later)
            GIVES(waitpid(child, &status, 0), child);
        GIVES(close(pair[0]), 0);
        for (int i = 0; i < count - 1; i++) {
            GIVES(recv(pair[1], data, sizeof data, 0), sizeof data);
            CHECK(mismatch(data, sizeof data, i) == sizeof data);
        }
        FAILS(recv(pair[1], data, sizeof data, 0), ECONNRESET);
        GIVES(close(pair[1]) | close(tell[0]) | close(tell[1]), 0);
    }
}

/* 85: counting and peeking take nothing away from a receive that sleeps. */
static void *receive_rounds(void *argument) {
    const int *pair = argument;
    for (int i = 0; i < 300; i++) {
        await(pair[0], (char)i);
        step(pair[0], 'n');
    }
    return NULL;
}

static void look_on(int peeks, int is_mapped) {
    int pair[2];
    pair_of(pair);
    if (is_mapped)
        map(pair);
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, receive_rounds, pair), 0);
    for (int i = 0; i < 300; i++) {
        if (i % 16 == 0)
            pause_shortly();
        step(pair[1], (char)i);
        char byte;
        do {
            int there;
            if (peeks)
                recv(pair[0], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
            else
                GIVES(ioctl(pair[0], FIONREAD, &there), 0);
        } while (recv(pair[1], &byte, 1, MSG_DONTWAIT) != 1);
        CHECK(byte == 'n');
    }
    GIVES(pthread_join(thread, NULL), 0);
    GIVES(close(pair[0]), 0);
    GIVES(close(pair[1]), 0);
}

static void check_looks(void) {
    for (int kind = 0; kind < 4; kind++)
        look_on(kind & 1, kind & 2);
}

/* 86: dup2 on a socket's number: the number is never free in between, and never nothing. */
static volatile int stop;
static int target;

static void *use_number(void *argument) {
    (void)argument;
    while (!stop) {
        CHECK(fcntl(target, F_GETFD) >= 0);
        GIVES(option(target, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
        GIVES(send(target, "x", 1, 0), 1);
    }
    return NULL;
}

static void *open_others(void *argument) {
    (void)argument;
    while (!stop) {
        int fd = open("/scheme/null", O_RDONLY);
        CHECK(fd >= 0 && fd != target);
        GIVES(close(fd), 0);
    }
    return NULL;
}

static void *drain(void *argument) {
    char data[4096];
    while (recv(*(int *)argument, data, sizeof data, 0) > 0)
        ;
    return NULL;
}

static void check_replacing(void) {
    int first[2], second[2];
    pair_of(first);
    pair_of(second);
    target = dup(first[0]);
    pthread_t threads[4];
    stop = 0;
    GIVES(pthread_create(&threads[0], NULL, use_number, NULL), 0);
    GIVES(pthread_create(&threads[1], NULL, open_others, NULL), 0);
    GIVES(pthread_create(&threads[2], NULL, drain, &first[1]), 0);
    GIVES(pthread_create(&threads[3], NULL, drain, &second[1]), 0);
    for (int i = 0; i < 2000; i++)
        GIVES(dup2(i % 2 ? first[0] : second[0], target), target);
    stop = 1;
    GIVES(pthread_join(threads[0], NULL) | pthread_join(threads[1], NULL), 0);
    GIVES(close(target) | close(first[0]) | close(second[0]), 0);
    GIVES(pthread_join(threads[2], NULL) | pthread_join(threads[3], NULL), 0);
    GIVES(close(first[1]) | close(second[1]), 0);
}

/* 87: a program that only polls takes no more than a piece of a long message in. */
static void *receive_long(void *argument) {
    static char data[MUCH];
    GIVES(recv(*(int *)argument, data, MUCH, 0), MUCH);
    CHECK(mismatch(data, MUCH, 87) == MUCH);
    return NULL;
}

static void check_polls(void) {
    int pair[2];
    packets_of(pair);
    fill(much, MUCH, 87);
    set_waiting(pair[0], 0);
    GIVES(send(pair[0], much, MUCH, 0), MUCH);
    for (int i = 0; i < 2000; i++) {
        CHECK(!(poll_one(pair[0], POLLOUT, 0) & POLLOUT));
        poll_one(pair[1], POLLIN, 0);
    }
    /* It can be received, though not all of it is there. */
    CHECK(poll_one(pair[1], POLLIN, TIMEOUT_MS) & POLLIN);
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, receive_long, &pair[1]), 0);
    CHECK(poll_one(pair[0], POLLOUT, TIMEOUT_MS) & POLLOUT);
    GIVES(pthread_join(thread, NULL), 0);
    /* By a receive that does not wait. */
    GIVES(send(pair[0], much, MUCH, 0), MUCH);
    GIVES(shutdown(pair[0], SHUT_WR), 0);
    set_waiting(pair[1], 0);
    static char data[MUCH];
    ssize_t count;
    do
        CHECK(poll_one(pair[1], POLLIN, TIMEOUT_MS) & POLLIN);
    while ((count = recv(pair[1], data, MUCH, 0)) < 0 && errno == EAGAIN);
    GIVES(count, MUCH);
    CHECK(mismatch(data, MUCH, 87) == MUCH);
    CHECK(poll_one(pair[1], POLLIN, TIMEOUT_MS) & POLLIN);
    read_end(pair[1]);
    GIVES(close(pair[0]) | close(pair[1]), 0);
}

/* 88: forks in the middle of everything: nothing is taken in the child, and it can do the same. */
static void *exchange_streams(void *argument) {
    (void)argument;
    while (!stop) {
        int pair[2], there;
        pair_of(pair);
        step(pair[0], 'x');
        CHECK(poll_one(pair[1], POLLIN, TIMEOUT_MS) & POLLIN);
        GIVES(ioctl(pair[1], FIONREAD, &there), 0);
        GIVES(there, 1);
        await(pair[1], 'x');
        GIVES(close(pair[0]) | close(pair[1]), 0);
    }
    return NULL;
}

static void *exchange_messages(void *argument) {
    (void)argument;
    while (!stop) {
        int pair[2];
        char text[8];
        packets_of(pair);
        GIVES(send(pair[0], "message", 7, 0), 7);
        CHECK(poll_one(pair[1], POLLIN, TIMEOUT_MS) & POLLIN);
        GIVES(recv(pair[1], text, sizeof text, 0), 7);
        GIVES(close(pair[0]), 0);
        read_end(pair[1]);
        GIVES(close(pair[1]), 0);
    }
    return NULL;
}

static void check_forks(void) {
    pthread_t threads[4];
    int status;
    stop = 0;
    for (int i = 0; i < 4; i++)
        GIVES(pthread_create(&threads[i], NULL, i % 2 ? exchange_messages : exchange_streams, NULL),
              0);
    for (int i = 0; i < 25; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int pair[2];
            pair_of(pair);
            step(pair[0], 'c');
            await(pair[1], 'c');
            exit(7);
        }
        GIVES(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        GIVES(pthread_join(threads[i], NULL), 0);
}

/* 89: a child has closed what a thread of its parent was using. */
static void *await_step(void *argument) {
    await(*(int *)argument, 's');
    return NULL;
}

static void check_lost(void) {
    int pair[2], lives[2], ready[2], status;
    char byte;
    for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
        pair_of(pair);
        if (is_mapped)
            map(pair);
        GIVES(pipe(lives) | pipe(ready), 0);
        pthread_t thread;
        GIVES(pthread_create(&thread, NULL, await_step, &pair[0]), 0);
        for (int i = 0; i < 20; i++)
            pause_shortly();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            GIVES(close(pair[0]) | close(pair[1]) | close(lives[1]), 0);
            GIVES(write(ready[1], "r", 1), 1);
            _exit(read(lives[0], &byte, 1) == 0 ? 7 : 8);
        }
        GIVES(read(ready[0], &byte, 1), 1);
        step(pair[1], 's');
        GIVES(pthread_join(thread, NULL), 0);
        GIVES(close(pair[0]), 0);
        /* The child still runs. */
        read_end(pair[1]);
        GIVES(close(pair[1]) | close(lives[1]), 0);
        GIVES(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        GIVES(close(lives[0]) | close(ready[0]) | close(ready[1]), 0);
    }
}

/* 90: a program that a child has turned into knows nothing of its messages; a child that could not
 * turn into one goes on. */
static void check_programs(void) {
    for (int fails = 0; fails < 2; fails++) {
        int pair[2], lives[2], ready[2], status;
        char byte, number[8], text[8];
        packets_of(pair);
        GIVES(pipe(lives) | pipe(ready), 0);
        GIVES(fcntl(lives[1], F_SETFD, FD_CLOEXEC), 0);
        snprintf(number, sizeof number, "%d", ready[1]);
        char *arguments[] = { "socket-threads", "stay", number, NULL };
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            GIVES(close(pair[1]) | close(lives[1]), 0);
            GIVES(dup2(lives[0], 0), 0);
            if (!fails)
                execvp(arguments[0], arguments);
            FAILS(execv("/not/there", arguments), ENOENT);
            GIVES(write(ready[1], "r", 1), 1);
            GIVES(read(0, &byte, 1), 0);
            GIVES(send(pair[0], "child", 5, 0), 5);
            exit(7);
        }
        GIVES(read(ready[0], &byte, 1), 1);
        GIVES(close(pair[0]), 0);
        if (!fails)
            read_end(pair[1]);
        GIVES(close(lives[1]), 0);
        if (fails) {
            GIVES(recv(pair[1], text, sizeof text, 0), 5);
            read_end(pair[1]);
        }
        GIVES(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        GIVES(close(pair[1]) | close(lives[0]) | close(ready[0]) | close(ready[1]), 0);
    }
}

/* 91: SHUT_RD ends the receives and polls that other threads sleep in, and nothing else. */
struct sleeper {
    int fd, polls;
};

static void *sleep_in_receive(void *argument) {
    const struct sleeper *sleeper = argument;
    char byte;
    if (sleeper->polls)
        CHECK(poll_one(sleeper->fd, POLLIN, -1) & POLLIN);
    GIVES(recv(sleeper->fd, &byte, 1, 0), 0);
    return NULL;
}

static void check_shut(void) {
    for (int kind = 0; kind < 8; kind++) {
        int pair[2];
        if (kind & 1)
            packets_of(pair);
        else
            pair_of(pair);
        if (kind == 2 || kind == 6)
            map(pair);
        struct sleeper sleeper = { pair[0], kind & 4 };
        pthread_t thread;
        GIVES(pthread_create(&thread, NULL, sleep_in_receive, &sleeper), 0);
        for (int i = 0; i < 20; i++)
            pause_shortly();
        GIVES(shutdown(pair[0], SHUT_RD), 0);
        GIVES(pthread_join(thread, NULL), 0);
        read_end(pair[0]);
        GIVES(poll_one(pair[0], POLLIN | POLLOUT, TIMEOUT_MS), POLLIN | POLLOUT);
        step(pair[0], 'o');
        await(pair[1], 'o');
        GIVES(close(pair[0]), 0);
        read_end(pair[1]);
        GIVES(close(pair[1]), 0);
    }
}

/* 92: a listener that a program had, which a child has turned into, ends with its last descriptor
 * here: the accept that a thread sleeps in does. */
static void *accept_closed(void *argument) {
    FAILS(accept(*(int *)argument, NULL, NULL), EBADF);
    return NULL;
}

static void start_helper(void) {
    char *arguments[] = { "socket-threads", "leave", NULL };
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execvp(arguments[0], arguments);
        _exit(8);
    }
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void check_helpers(void) {
    for (int kind = 0; kind < 4; kind++) {
        int port, on = kind & 1 ? listen_packets(&port) : listen_on(3082);
        pthread_t thread;
        if (kind & 2)
            start_helper();
        GIVES(pthread_create(&thread, NULL, accept_closed, &on), 0);
        for (int i = 0; i < 20; i++)
            pause_shortly();
        if (!(kind & 2))
            start_helper();
        GIVES(close(on), 0);
        GIVES(pthread_join(thread, NULL), 0);
    }
}

/* 93: two threads make the first call on a socket that came with the program: it is one socket. */
enum { GIVEN = 24 };

static volatile int arrived;

static void *look_first(void *argument) {
    char byte;
    __sync_fetch_and_add(&arrived, 1);
    while (arrived % 2)
        ;
    GIVES(recv(*(int *)argument, &byte, 1, MSG_PEEK), 1);
    CHECK(byte == 'a');
    return NULL;
}

/* The program that was given the sockets. */
static int look_at_given(int first) {
    for (int i = 0; i < GIVEN; i++) {
        int fd = first + i;
        pthread_t threads[2];
        char text[4];
        for (int j = 0; j < 2; j++)
            GIVES(pthread_create(&threads[j], NULL, look_first, &fd), 0);
        GIVES(pthread_join(threads[0], NULL) | pthread_join(threads[1], NULL), 0);
        GIVES(recv(fd, text, sizeof text, MSG_DONTWAIT), 1);
        CHECK(text[0] == 'a');
    }
    return 7;
}

static void check_given(void) {
    enum { FIRST = 100 };
    int peers[GIVEN], status;
    char number[8];
    for (int i = 0; i < GIVEN; i++) {
        int pair[2];
        pair_of(pair);
        step(pair[0], 'a');
        GIVES(dup2(pair[1], FIRST + i), FIRST + i);
        GIVES(close(pair[1]), 0);
        peers[i] = pair[0];
    }
    snprintf(number, sizeof number, "%d", FIRST);
    char *arguments[] = { "socket-threads", "given", number, NULL };
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execvp(arguments[0], arguments);
        _exit(8);
    }
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    for (int i = 0; i < GIVEN; i++)
        GIVES(close(peers[i]) | close(FIRST + i), 0);
}

/* Says that it runs, and stays until nobody is at the other end. */
static int stay(int ready) {
    char byte;
    GIVES(write(ready, "r", 1), 1);
    return read(0, &byte, 1) == 0 ? 7 : 8;
}

/* 94: threads that wait while another one sets the connection up. */
enum { WAITING = 4 };

static void *send_one(void *argument) {
    GIVES(send(*(int *)argument, "s", 1, 0), 1);
    return NULL;
}

static void *poll_for_room(void *argument) {
    CHECK(poll_one(*(int *)argument, POLLOUT, TIMEOUT_MS) & POLLOUT);
    return NULL;
}

static void check_setting_up(void) {
    for (int polls = 0; polls < 2; polls++) {
        pthread_t threads[WAITING];
        int on = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
        int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
        CHECK(on >= 0 && fd >= 0);
        GIVES(bind_to(on, -1, 3094), 0);
        GIVES(listen(on, 1), 0);
        set_waiting(fd, 0);
        FAILS(try_connect(fd, own_node(), 3094), EINPROGRESS);
        set_waiting(fd, 1);
        for (int i = 0; i < WAITING; i++)
            GIVES(pthread_create(&threads[i], NULL, polls ? poll_for_room : send_one, &fd), 0);
        /* The endpoints connect, and nobody answers until all of them sleep. */
        CHECK(poll_one(on, POLLIN, TIMEOUT_MS) & POLLIN);
        for (int i = 0; i < 20; i++)
            pause_shortly();
        int peer = accept_on(on);
        for (int i = 0; i < WAITING; i++) {
            GIVES(pthread_join(threads[i], NULL), 0);
            if (!polls)
                await(peer, 's');
        }
        GIVES(close(fd) | close(peer) | close(on), 0);
    }
}

/* 101: closing a socket whose connection a thread sets up ends that, though the peer never says
 * anything. */
static void *connect_in_vain(void *argument) {
    FAILS(try_connect(*(int *)argument, own, 3101), EBADF);
    return NULL;
}

static void *send_in_vain(void *argument) {
    CHECK(send(*(int *)argument, "v", 1, 0) == -1);
    return NULL;
}

static void check_closed_set_up(void) {
    for (int kind = 0; kind < 4; kind++) {
        int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP), bypass = kind & 1;
        pthread_t thread;
        CHECK(fd >= 0);
        GIVES(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &bypass, sizeof bypass), 0);
        scif_epd_t on = listener(3101, 1);
        if (kind & 2) {
            set_waiting(fd, 0);
            FAILS(try_connect(fd, own, 3101), EINPROGRESS);
            set_waiting(fd, 1);
        }
        void *(*run)(void *) = kind & 2 ? send_in_vain : connect_in_vain;
        GIVES(pthread_create(&thread, NULL, run, &fd), 0);
        scif_epd_t epd = accept_one(on);
        char byte;
        GIVES(scif_recv(epd, &byte, 1, SCIF_RECV_BLOCK), 1);
        for (int i = 0; i < 20; i++)
            pause_shortly();
        time_t begin = time(NULL);
        GIVES(close(fd), 0);
        GIVES(pthread_join(thread, NULL), 0);
        while (scif_recv(epd, &byte, 1, SCIF_RECV_BLOCK) == 1)
            ;
        CHECK(errno == ECONNRESET);
        CHECK(time(NULL) - begin < 10);
        GIVES(scif_close(epd) | scif_close(on), 0);
    }
}

/* 102: of the processes that have a socket whose connection is to be set up one does so. */
static void *accept_and_hear(void *argument) {
    int fd = accept_on(*(int *)argument);
    await(fd, 's');
    return (void *)(long)fd;
}

static void check_one_sets_up(void) {
    enum { PARENT, CHILD, THREAD_OF_PARENT };
    for (int who = PARENT; who <= THREAD_OF_PARENT; who++) {
        int port, on = listen_packets(&port), go[2], status;
        int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
        char byte = 'g';
        pthread_t server, thread;
        void *peer;
        CHECK(fd >= 0);
        GIVES(pipe(go), 0);
        set_waiting(fd, 0);
        FAILS(try_connect(fd, own, port), EINPROGRESS);
        set_waiting(fd, 1);
        if (who == THREAD_OF_PARENT) {
            GIVES(pthread_create(&thread, NULL, send_one, &fd), 0);
            /* It has asked, and nobody answers. */
            CHECK(poll_one(on, POLLIN, TIMEOUT_MS) & POLLIN);
        } else {
            GIVES(pthread_create(&server, NULL, accept_and_hear, &on), 0);
        }
        for (int i = 0; i < 20; i++)
            pause_shortly();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (who == PARENT)
                GIVES(read(go[0], &byte, 1), 1);
            if (who == CHILD)
                step(fd, 's');
            else
                FAILS(send(fd, "x", 1, 0), ENOTCONN);
            _exit(7);
        }
        if (who == THREAD_OF_PARENT) {
            GIVES(waitpid(child, &status, 0), child);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
            GIVES(pthread_create(&server, NULL, accept_and_hear, &on), 0);
            GIVES(pthread_join(thread, NULL), 0);
        }
        if (who == PARENT)
            step(fd, 's');
        GIVES(pthread_join(server, &peer), 0);
        GIVES(write(go[1], "g", 1), 1);
        if (who != THREAD_OF_PARENT) {
            GIVES(waitpid(child, &status, 0), child);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        }
        /* What the peer hears next is the next message. */
        if (who == CHILD) {
            FAILS(send(fd, "x", 1, 0), ENOTCONN);
        } else {
            step(fd, 'q');
            await((int)(long)peer, 'q');
        }
        GIVES(close(fd) | close((int)(long)peer) | close(on) | close(go[0]) | close(go[1]), 0);
    }
}

/* 108: the parts of what two threads send at once do not mix, and bad ones are errors. */
enum { MIXED = 3000 };

static volatile int mixed_begun[2];
static int mixed_fd;

static void *send_mixed(void *argument) {
    char *letters = argument;
    int self = letters[0] == 'I';
    struct iovec parts[2] = { { letters, 2 }, { letters + 2, 6 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    for (int i = 1; i <= MIXED; i++) {
        mixed_begun[self] = i;
        for (int looks = 1; mixed_begun[!self] < i; looks++)
            if (looks % 1000 == 0)
                sched_yield();
        GIVES(sendmsg(mixed_fd, &message, 0), 8);
    }
    return NULL;
}

static void check_mixed(void) {
    static char letters[2][9] = { "ABcdefgh", "IJklmnop" };
    int pair[2];
    pair_of(pair);
    map(pair);
    mixed_fd = pair[0];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        GIVES(pthread_create(&threads[i], NULL, send_mixed, letters[i]), 0);
    int counts[2] = { 0, 0 };
    for (int i = 0; i < 2 * MIXED; i++) {
        char record[9] = "";
        GIVES(recv(pair[1], record, 8, MSG_WAITALL), 8);
        int whose = record[0] == 'I';
        if (strcmp(record, letters[whose]))
            failed(__FILE__, __LINE__, "'%s' in round %d", record, i / 2);
        counts[whose]++;
    }
    CHECK(counts[0] == MIXED && counts[1] == MIXED);
    for (int i = 0; i < 2; i++)
        GIVES(pthread_join(threads[i], NULL), 0);
    struct iovec parts[2] = { { letters[0], 2 }, { (void *)8, 3 } };
    GIVES(writev(pair[0], parts, 2), 2);
    FAILS(writev(pair[0], parts + 1, 1), EFAULT);
    char bytes[5];
    GIVES(recv(pair[1], bytes, 5, 0), 2);
    GIVES(close(pair[0]) | close(pair[1]), 0);
}

static const struct part parts[] = {
    { 81, "numbers", check_numbers },
    { 82, "full", check_full },
    { 83, "shared", check_shared },
    { 84, "unsent", check_unsent },
    { 85, "looks", check_looks },
    { 86, "replacing", check_replacing },
    { 87, "polls", check_polls },
    { 88, "forks", check_forks },
    { 89, "lost", check_lost },
    { 90, "programs", check_programs },
    { 91, "shut", check_shut },
    { 92, "helpers", check_helpers },
    { 93, "given", check_given },
    { 94, "setting-up", check_setting_up },
    { 101, "closed-set-up", check_closed_set_up },
    { 102, "one-sets-up", check_one_sets_up },
    { 99, "together", check_together },
    { 108, "mixed", check_mixed },
};

int main(int count, char **arguments) {
    if (count > 2 && !strcmp(arguments[1], "stay"))
        return stay(atoi(arguments[2]));
    if (count > 2 && !strcmp(arguments[1], "given"))
        return look_at_given(atoi(arguments[2]));
    if (count > 1 && !strcmp(arguments[1], "leave"))
        return 7;
    play_parts(parts, sizeof parts / sizeof parts[0], count > 1 ? arguments[1] : NULL);
    return 0;
}
