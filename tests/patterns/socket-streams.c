/* Stream sockets between two programs. */
#include "socket.h"
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

/* 51: an echo server as every book has it, called by name. */
enum { LARGEST = 200000 };

static void serve_echo(void) {
    int fd = serve_stream(3051);
    char buffer[4096];
    ssize_t count;
    while ((count = read(fd, buffer, sizeof buffer)) > 0)
        for (ssize_t done = 0; done < count;) {
            ssize_t part = write(fd, buffer + done, count - done);
            CHECK(part > 0);
            done += part;
        }
    GIVES(count, 0);
    GIVES(close(fd), 0);
}

static void *echo_sender(void *argument) {
    char *data = malloc(LARGEST);
    CHECK(data != NULL);
    fill(data, LARGEST, 51);
    write_all(*(int *)argument, data, LARGEST);
    free(data);
    return NULL;
}

static void call_echo(uint16_t node) {
    char name[16];
    snprintf(name, sizeof name, "node%d", node);
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found;
    GIVES(getaddrinfo(name, "3051", &hints, &found), 0);
    int fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    CHECK(fd >= 0);
    while (connect(fd, found->ai_addr, found->ai_addrlen) < 0) {
        CHECK(errno == ECONNREFUSED || errno == EHOSTUNREACH);
        pause_shortly();
    }
    freeaddrinfo(found);
    char data[6000], back[6000];
    for (unsigned length = 1; length <= sizeof data; length = length * 3 + 1) {
        fill(data, length, length);
        write_all(fd, data, length);
        read_all(fd, back, length);
        CHECK(mismatch(back, length, length) == length);
    }
    /* More than all rings hold: one thread sends while this one receives. */
    pthread_t sender;
    GIVES(pthread_create(&sender, NULL, echo_sender, &fd), 0);
    char *all = malloc(LARGEST);
    CHECK(all != NULL);
    read_all(fd, all, LARGEST);
    CHECK(mismatch(all, LARGEST, 51) == LARGEST);
    GIVES(pthread_join(sender, NULL), 0);
    free(all);
    GIVES(close(fd), 0);
}

/* 52: each end knows both addresses. */
struct ends {
    struct sockaddr_in own, peer;
};

static struct ends ends_of(int fd) {
    struct ends ends;
    socklen_t length = sizeof ends.own;
    GIVES(getsockname(fd, (struct sockaddr *)&ends.own, &length), 0);
    GIVES(length, sizeof ends.own);
    length = 100;
    GIVES(getpeername(fd, (struct sockaddr *)&ends.peer, &length), 0);
    GIVES(length, sizeof ends.own);
    return ends;
}

static int same(const struct sockaddr_in *one, const struct sockaddr_in *other) {
    return one->sin_family == AF_INET && other->sin_family == AF_INET
        && one->sin_port == other->sin_port && one->sin_addr.s_addr == other->sin_addr.s_addr;
}

static void serve_addresses(void) {
    int on = listen_on(3052);
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    GIVES(getsockname(on, (struct sockaddr *)&peer, &length), 0);
    CHECK(peer.sin_addr.s_addr == INADDR_ANY && ntohs(peer.sin_port) == 3052);
    length = sizeof peer;
    int fd = accept(on, (struct sockaddr *)&peer, &length);
    CHECK(fd >= 0 && length == sizeof peer);
    struct ends ends = ends_of(fd), theirs;
    CHECK(same(&peer, &ends.peer));
    write_all(fd, &ends, sizeof ends);
    read_all(fd, &theirs, sizeof theirs);
    CHECK(same(&ends.own, &theirs.peer) && same(&ends.peer, &theirs.own));
    CHECK(ntohl(ends.own.sin_addr.s_addr) == 0x0a000001u + own_node());
    await(fd, 'd');
    GIVES(close(fd), 0);
    GIVES(close(on), 0);
}

static void call_addresses(uint16_t node) {
    int fd = call_stream(node, 3052);
    struct ends ends = ends_of(fd), theirs;
    struct sockaddr_in expected = address_of(node, 3052);
    CHECK(same(&ends.peer, &expected));
    CHECK(ntohl(ends.own.sin_addr.s_addr) == 0x0a000001u + own_node());
    CHECK(ends.own.sin_port != 0);
    read_all(fd, &theirs, sizeof theirs);
    CHECK(same(&ends.own, &theirs.peer) && same(&ends.peer, &theirs.own));
    write_all(fd, &ends, sizeof ends);
    step(fd, 'd');
    read_end(fd);
    GIVES(close(fd), 0);
}

/* 53: connecting without waiting: refused, then accepted. */
static void serve_connects(void) {
    int control = serve_stream(3153);
    await(control, 'r');
    int on = listen_on(3053);
    step(control, 'l');
    int fd = accept_on(on);
    step(fd, 'x');
    await(control, 'd');
    GIVES(close(fd), 0);
    GIVES(close(on), 0);
    GIVES(close(control), 0);
}

static void call_connects(uint16_t node) {
    int control = call_stream(node, 3153);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0 && fcntl(fd, F_GETFL) & O_NONBLOCK);
    FAILS(try_connect(fd, node, 3053), EINPROGRESS);
    int found = poll_one(fd, POLLOUT, TIMEOUT_MS);
    CHECK((found & (POLLOUT | POLLERR)) == (POLLOUT | POLLERR));
    GIVES(option(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    GIVES(option(fd, SOL_SOCKET, SO_ERROR), 0);
    FAILS(send(fd, "x", 1, 0), ENOTCONN);
    step(control, 'r');
    await(control, 'l');
    FAILS(try_connect(fd, node, 3053), EINPROGRESS);
    GIVES(poll_one(fd, POLLOUT, TIMEOUT_MS), POLLOUT);
    GIVES(option(fd, SOL_SOCKET, SO_ERROR), 0);
    FAILS(try_connect(fd, node, 3053), EISCONN);
    CHECK(poll_one(fd, POLLIN, TIMEOUT_MS) == POLLIN);
    await(fd, 'x');
    char byte;
    FAILS(recv(fd, &byte, 1, 0), EAGAIN);
    step(control, 'd');
    GIVES(close(fd), 0);
    read_end(control);
    GIVES(close(control), 0);
}

/* 54: sending without waiting until there is no room; what was counted arrives. */
static void serve_full(void) {
    /* Nobody knows this one. */
    int on = listen_on(0);
    set_waiting(on, 0);
    FAILS(accept(on, NULL, NULL), EAGAIN);
    GIVES(close(on), 0);
    on = listen_on(3054);
    set_waiting(on, 0);
    CHECK(poll_one(on, POLLIN, TIMEOUT_MS) & POLLIN);
    int fd = accept4(on, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(fd >= 0 && fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC);
    int control = serve_stream(3154);
    int64_t total;
    read_all(control, &total, sizeof total);
    char *data = malloc(total);
    CHECK(data != NULL);
    for (int64_t done = 0; done < total;) {
        CHECK(poll_one(fd, POLLIN, TIMEOUT_MS) & POLLIN);
        ssize_t count = read(fd, data + done, total - done);
        CHECK(count > 0);
        done += count;
    }
    CHECK(mismatch(data, total, 54) == (size_t)total);
    FAILS(read(fd, data, 1), EAGAIN);
    GIVES(poll_one(fd, POLLIN, 0), 0);
    step(control, 'k');
    await(control, 'd');
    free(data);
    GIVES(close(fd), 0);
    GIVES(close(control), 0);
    GIVES(close(on), 0);
}

static void call_full(uint16_t node) {
    int fd = call_stream(node, 3054), on = 1;
    GIVES(ioctl(fd, FIONBIO, &on), 0);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    int control = call_stream(node, 3154);
    static char data[4 << 20];
    fill(data, sizeof data, 54);
    int64_t total = 0;
    ssize_t count;
    while ((count = write(fd, data + total, 50000)) > 0) {
        total += count;
        CHECK(total <= (int64_t)sizeof data - 50000);
    }
    CHECK(count == -1 && errno == EAGAIN);
    GIVES(poll_one(fd, POLLOUT, 0), 0);
    write_all(control, &total, sizeof total);
    await(control, 'k');
    CHECK(poll_one(fd, POLLOUT, TIMEOUT_MS) & POLLOUT);
    step(control, 'd');
    GIVES(close(fd), 0);
    GIVES(close(control), 0);
}

/* 55: one thread serves a listener, connections and a pipe by poll, another way by select. */
static void serve_many(void) {
    int on = listen_on(3055), pair[2], clients[3], count = 0, turns = 0;
    GIVES(pipe(pair), 0);
    while (count < 3) {
        struct pollfd entries[5] = { { on, POLLIN, 0 }, { pair[0], POLLIN, 0 } };
        for (int i = 0; i < count; i++)
            entries[2 + i] = (struct pollfd){ clients[i], POLLIN, 0 };
        CHECK(poll(entries, 2 + count, TIMEOUT_MS) > 0);
        CHECK(!(entries[1].revents & POLLIN));
        for (int i = 0; i < count; i++)
            if (entries[2 + i].revents & POLLIN) {
                char letter;
                read_all(clients[i], &letter, 1);
                step(clients[i], letter + 1);
                turns++;
            }
        if (entries[0].revents & POLLIN)
            clients[count++] = accept_on(on);
    }
    GIVES(write(pair[1], "p", 1), 1);
    while (turns < 30) {
        fd_set readable;
        FD_ZERO(&readable);
        int highest = pair[0];
        FD_SET(pair[0], &readable);
        for (int i = 0; i < count; i++) {
            FD_SET(clients[i], &readable);
            highest = clients[i] > highest ? clients[i] : highest;
        }
        CHECK(select(highest + 1, &readable, NULL, NULL, NULL) > 0);
        CHECK(FD_ISSET(pair[0], &readable) && !FD_ISSET(on, &readable));
        for (int i = 0; i < count; i++)
            if (FD_ISSET(clients[i], &readable)) {
                char letter;
                read_all(clients[i], &letter, 1);
                step(clients[i], letter + 1);
                turns++;
            }
    }
    for (int i = 0; i < count; i++)
        GIVES(close(clients[i]), 0);
    GIVES(close(pair[0]) | close(pair[1]) | close(on), 0);
}

static void call_many(uint16_t node) {
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = call_stream(node, 3055);
    for (int turn = 0; turn < 10; turn++)
        for (int i = 0; i < 3; i++) {
            step(fds[i], 'a' + turn);
            await(fds[i], 'b' + turn);
        }
    for (int i = 0; i < 3; i++) {
        read_end(fds[i]);
        GIVES(close(fds[i]), 0);
    }
}

/* 56: parts, peeking, counting, waiting for all. */
static void serve_parts(void) {
    int fd = serve_stream(3056);
    char a[3], b[5], c[100];
    struct iovec parts[] = { { a, sizeof a }, { NULL, 0 }, { b, sizeof b }, { c, sizeof c } };
    /* What is there, and no more: the second half is sent when the first one is here. */
    CHECK(poll_one(fd, POLLIN, TIMEOUT_MS) & POLLIN);
    GIVES(recv(fd, c, 2, MSG_PEEK), 2);
    CHECK(!memcmp(c, "on", 2));
    int there = 0;
    while (there < 8)
        GIVES(ioctl(fd, FIONREAD, &there), 0);
    GIVES(there, 8);
    GIVES(recv(fd, c, sizeof c, MSG_PEEK | MSG_DONTWAIT), 8);
    CHECK(poll_one(fd, POLLIN, 0) & POLLIN);
    GIVES(readv(fd, parts, 4), 8);
    CHECK(!memcmp(a, "one", 3) && !memcmp(b, "-two-", 5));
    FAILS(recv(fd, c, 1, MSG_DONTWAIT), EAGAIN);
    FAILS(recv(fd, c, 1, MSG_DONTWAIT | MSG_PEEK), EAGAIN);
    step(fd, 'n');
    struct msghdr message = { 0 };
    message.msg_iov = parts;
    message.msg_iovlen = 4;
    GIVES(recvmsg(fd, &message, MSG_WAITALL), 108);
    CHECK(!memcmp(a, "thr", 3) && !memcmp(b, "ee-fo", 5) && !memcmp(c, "ur-", 3));
    CHECK(message.msg_flags == 0 && message.msg_controllen == 0);
    /* Cut by the end. */
    GIVES(recv(fd, c, 50, MSG_WAITALL), 7);
    CHECK(!memcmp(c, "the end", 7));
    GIVES(recv(fd, c, 50, MSG_PEEK), 0);
    read_end(fd);
    GIVES(close(fd), 0);
}

static void call_parts(uint16_t node) {
    int fd = call_stream(node, 3056);
    char rest[97];
    memset(rest, 'r', sizeof rest);
    struct iovec parts[] = { { "one", 3 }, { "-two-", 5 } };
    GIVES(writev(fd, parts, 2), 8);
    await(fd, 'n');
    struct iovec more[] = { { "three", 5 }, { "-four-", 6 }, { rest, sizeof rest } };
    struct msghdr message = { 0 };
    message.msg_iov = more;
    message.msg_iovlen = 2;
    GIVES(sendmsg(fd, &message, 0), 11);
    message.msg_iov = more + 2;
    message.msg_iovlen = 1;
    GIVES(sendmsg(fd, &message, MSG_NOSIGNAL), sizeof rest);
    GIVES(sendto(fd, "the end", 7, 0, NULL, 0), 7);
    GIVES(close(fd), 0);
}

/* 57: a stream of stdio, and copies of the descriptor. */
static void serve_stdio(void) {
    int fd = serve_stream(3057);
    struct stat status;
    GIVES(fstat(fd, &status), 0);
    CHECK(S_ISSOCK(status.st_mode));
    FILE *input = fdopen(dup(fd), "r"), *output = fdopen(fd, "w");
    CHECK(input && output);
    char line[100];
    int lines = 0;
    while (fgets(line, sizeof line, input)) {
        line[strcspn(line, "\n")] = 0;
        fprintf(output, "<%s>\n", line);
        fflush(output);
        lines++;
    }
    CHECK(feof(input) && !ferror(input));
    GIVES(lines, 50);
    GIVES(fclose(input), 0);
    GIVES(fclose(output), 0);
}

static void call_stdio(uint16_t node) {
    int first = call_stream(node, 3057);
    int fd = fcntl(first, F_DUPFD, 20);
    CHECK(fd >= 20);
    GIVES(dup2(first, fd + 1), fd + 1);
    GIVES(close(first), 0);
    char line[100], expected[100];
    for (int i = 0; i < 50; i++) {
        int length = snprintf(line, sizeof line, "line %d\n", i);
        write_all(fd + i % 2, line, length);
        length = snprintf(expected, sizeof expected, "<line %d>\n", i);
        read_all(fd + 1 - i % 2, line, length);
        CHECK(!memcmp(line, expected, length));
        if (i == 40) {
            /* Put another file in the place of one, which ends that copy alone. */
            int other = open("/scheme/null", O_RDWR);
            CHECK(other >= 0);
            GIVES(dup2(other, fd + 1), fd + 1);
            GIVES(close(other), 0);
            FAILS(send(fd + 1, "x", 1, 0), ENOTSOCK);
            GIVES(dup2(fd, fd + 1), fd + 1);
        }
    }
    GIVES(close(fd), 0);
    GIVES(close(fd + 1), 0);
}

/* 58: the end of a connection, seen by whoever waits or polls. */
static void serve_ends(void) {
    int on = listen_on(3058);
    int fd = accept_on(on);
    write_all(fd, "last words", 10);
    GIVES(close(fd), 0);
    fd = accept_on(on);
    await(fd, 'w');
    GIVES(shutdown(fd, SHUT_RDWR), 0);
    FAILS(send(fd, "x", 1, 0), EPIPE);
    read_end(fd);
    CHECK((poll_one(fd, POLLIN | POLLOUT, 0) & (POLLIN | POLLOUT | POLLHUP)) ==
          (POLLIN | POLLOUT | POLLHUP));
    GIVES(close(fd), 0);
    GIVES(close(on), 0);
}

static void *read_until_end(void *argument) {
    read_end(*(int *)argument);
    return NULL;
}

static void call_ends(uint16_t node) {
    int fd = call_stream(node, 3058);
    char text[100];
    while (!(poll_one(fd, 0, TIMEOUT_MS) & POLLHUP))
        ;
    CHECK(poll_one(fd, POLLIN | POLLRDHUP, 0) == (POLLIN | POLLHUP | POLLRDHUP));
    GIVES(recv(fd, text, sizeof text, 0), 10);
    GIVES(recv(fd, text, sizeof text, 0), 0);
    CHECK(poll_one(fd, POLLIN, 0) & POLLIN);
    FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    FAILS(write(fd, "x", 1), EPIPE);
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    GIVES(getpeername(fd, (struct sockaddr *)&peer, &length), 0);
    FAILS(try_connect(fd, node, 3058), EISCONN);
    GIVES(close(fd), 0);
    /* A thread that sleeps in a receive. */
    fd = call_stream(node, 3058);
    pthread_t reader;
    GIVES(pthread_create(&reader, NULL, read_until_end, &fd), 0);
    pause_shortly();
    step(fd, 'w');
    GIVES(pthread_join(reader, NULL), 0);
    GIVES(close(fd), 0);
}

/* 59: limits of time. */
static void serve_limits(void) {
    int fd = serve_stream(3059);
    struct timeval limit = { 0, 50000 }, back;
    socklen_t length = sizeof back;
    GIVES(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    GIVES(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &back, &length), 0);
    CHECK(length == sizeof back && back.tv_sec == 0 && back.tv_usec == 50000);
    char bytes[10];
    FAILS(recv(fd, bytes, sizeof bytes, 0), EAGAIN);
    /* A negative limit is over at once, as on Linux. */
    struct timeval negative = { -1, 0 };
    GIVES(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &negative, sizeof negative), 0);
    FAILS(recv(fd, bytes, sizeof bytes, 0), EAGAIN);
    step(fd, 'g');
    limit.tv_usec = 0;
    GIVES(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    GIVES(recv(fd, bytes, 4, MSG_WAITALL), 4);
    limit.tv_usec = 50000;
    GIVES(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    /* Part of it comes. */
    GIVES(recv(fd, bytes, 10, MSG_WAITALL), 3);
    GIVES(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    static char data[4 << 20];
    ssize_t count = send(fd, data, sizeof data, 0);
    CHECK(count > 0 && count < (ssize_t)sizeof data);
    FAILS(send(fd, data, sizeof data, 0), EAGAIN);
    GIVES(close(fd), 0);
}

static void call_limits(uint16_t node) {
    int fd = call_stream(node, 3059);
    await(fd, 'g');
    write_all(fd, "1234567", 7);
    while (!(poll_one(fd, 0, TIMEOUT_MS) & POLLHUP))
        ;
    GIVES(close(fd), 0);
}

/* 60: a socket at one end, SCIF at the other. */
static void serve_mixed(void) {
    scif_epd_t epd = serve_one(3060);
    char text[5];
    recv_all(epd, text, 5);
    CHECK(!memcmp(text, "hello", 5));
    send_all(epd, "world", 5);
    expect(epd, 'd');
    GIVES(scif_close(epd), 0);
    int fd = serve_stream(3160);
    await(fd, 's');
    step(fd, 'k');
    read_end(fd);
    GIVES(close(fd), 0);
}

static void call_mixed(uint16_t node) {
    int fd = call_stream(node, 3060);
    write_all(fd, "hello", 5);
    char text[5];
    read_all(fd, text, 5);
    CHECK(!memcmp(text, "world", 5));
    step(fd, 'd');
    read_end(fd);
    GIVES(close(fd), 0);
    scif_epd_t epd = call_one(node, 3160);
    tell(epd, 's');
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

/* 61: two threads on one socket, both ways at once, and another thread that ends it. */
enum { ROUNDS = 3000 };

static void *send_rounds(void *argument) {
    for (int i = 0; i < ROUNDS; i++)
        write_all(*(int *)argument, &i, sizeof i);
    return NULL;
}

static void both_ways(int fd) {
    pthread_t sender;
    GIVES(pthread_create(&sender, NULL, send_rounds, &fd), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int found;
        read_all(fd, &found, sizeof found);
        GIVES(found, i);
    }
    GIVES(pthread_join(sender, NULL), 0);
}

static void serve_both(void) {
    int fd = serve_stream(3061);
    both_ways(fd);
    read_end(fd);
    GIVES(close(fd), 0);
}

static void call_both(uint16_t node) {
    int fd = call_stream(node, 3061);
    both_ways(fd);
    pthread_t reader;
    GIVES(pthread_create(&reader, NULL, read_until_end, &fd), 0);
    for (int i = 0; i < 5; i++)
        pause_shortly();
    GIVES(shutdown(fd, SHUT_RDWR), 0);
    GIVES(pthread_join(reader, NULL), 0);
    GIVES(close(fd), 0);
}

/* 62: one direction is shut down; the other one goes on, as programs like nc want it. */
enum { HALVES = 300 * 1000 };

static void serve_halves(void) {
    static char data[HALVES];
    int on = listen_on(3062);
    for (int round = 0; round < 3; round++) {
        int fd = accept_on(on);
        /* Everything up to the end, then an answer, then the own end. */
        GIVES(recv(fd, data, sizeof data, MSG_WAITALL), HALVES);
        CHECK(mismatch(data, HALVES, round) == HALVES);
        read_end(fd);
        read_end(fd);
        CHECK(poll_one(fd, POLLIN | POLLOUT | POLLRDHUP, 0) == (POLLIN | POLLOUT | POLLRDHUP));
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(fd, &readable);
        GIVES(select(fd + 1, &readable, NULL, NULL, NULL), 1);
        fill(data, HALVES, round + 100);
        write_all(fd, data, HALVES);
        if (round == 1) {
            GIVES(shutdown(fd, SHUT_WR), 0);
            CHECK(poll_one(fd, POLLIN, 0) == (POLLIN | POLLHUP));
            /* The peer closes. */
            char byte;
            while (recv(fd, &byte, 1, 0) == 1)
                ;
        }
        GIVES(close(fd), 0);
    }
    /* A peer that is in a poll, a select or a receive when the word comes. */
    for (int round = 0; round < 3; round++) {
        int fd = accept_on(on);
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(fd, &readable);
        step(fd, 'w');
        if (round == 0)
            CHECK(poll_one(fd, POLLIN | POLLRDHUP, TIMEOUT_MS) == (POLLIN | POLLRDHUP));
        else if (round == 1)
            GIVES(select(fd + 1, &readable, NULL, NULL, NULL), 1);
        read_end(fd);
        step(fd, 'e');
        GIVES(close(fd), 0);
    }
    /* A peer that is killed behind its end. */
    int control = accept_on(on), fd = accept_on(on);
    await(fd, 'h');
    read_end(fd);
    write_all(fd, "nobody reads this", 17);
    step(control, 'k');
    while (!(poll_one(fd, 0, TIMEOUT_MS) & POLLHUP))
        ;
    read_end(fd);
    FAILS(send(fd, "x", 1, 0), EPIPE);
    GIVES(close(fd), 0);
    GIVES(close(control), 0);
    GIVES(close(on), 0);
}

/* A program that ends its sending and goes on for ever. */
static int end_and_stay(int node) {
    int fd = call_stream(node, 3062);
    step(fd, 'h');
    GIVES(shutdown(fd, SHUT_WR), 0);
    for (;;)
        sleep(1000);
}

static void call_halves(uint16_t node) {
    static char data[HALVES];
    for (int round = 0; round < 3; round++) {
        int fd = call_stream(node, 3062);
        fill(data, HALVES, round);
        write_all(fd, data, HALVES);
        /* Its own end first makes no difference to the other direction. */
        GIVES(shutdown(fd, SHUT_WR), 0);
        GIVES(shutdown(fd, SHUT_WR), 0);
        FAILS(send(fd, "x", 1, 0), EPIPE);
        CHECK(!(poll_one(fd, POLLOUT, 0) & POLLHUP));
        if (round == 2) {
            /* By the stream of stdio. */
            FILE *stream = fdopen(fd, "r");
            GIVES(fread(data, 1, HALVES, stream), HALVES);
            GIVES(fgetc(stream), EOF);
            CHECK(feof(stream) && mismatch(data, HALVES, round + 100) == HALVES);
            GIVES(fclose(stream), 0);
            continue;
        }
        GIVES(recv(fd, data, sizeof data, MSG_WAITALL), HALVES);
        CHECK(mismatch(data, HALVES, round + 100) == HALVES);
        read_end(fd);
        GIVES(close(fd), 0);
    }
    for (int round = 0; round < 3; round++) {
        int fd = call_stream(node, 3062);
        await(fd, 'w');
        usleep(30000);
        GIVES(shutdown(fd, SHUT_WR), 0);
        await(fd, 'e');
        read_end(fd);
        GIVES(close(fd), 0);
    }
    int control = call_stream(node, 3062), status;
    char number[8];
    snprintf(number, sizeof number, "%d", node);
    char *arguments[] = { "socket-streams", "end-and-stay", number, NULL };
    pid_t child;
    GIVES(posix_spawnp(&child, arguments[0], NULL, NULL, arguments, NULL), 0);
    await(control, 'k');
    GIVES(kill(child, SIGKILL), 0);
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    read_end(control);
    GIVES(close(control), 0);
}

/* Messages after which the library has mapped a connection. */
enum { MAPPED_AFTER = 32 };

/* 63: a server that forks for each connection, as every book has it: what a child closes stays the
 * parent's. */
static void serve_forks(void) {
    int on = listen_on(3063);
    for (int i = 0; i < 4; i++) {
        int fd = accept_on(on);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            char data[5000];
            GIVES(close(on), 0);
            read_all(fd, data, sizeof data);
            write_all(fd, data, sizeof data);
            read_end(fd);
            GIVES(close(fd), 0);
            _exit(60 + i);
        }
        GIVES(close(fd), 0);
        int status;
        GIVES(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 60 + i);
    }
    /* The other way round: the parent serves, and its child closes the connection. */
    int fd = accept_on(on), status;
    await(fd, 'a');
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(close(fd) == 0 && close(on) == 0 ? 7 : 8);
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    step(fd, 'b');
    await(fd, 'c');
    GIVES(close(fd), 0);
    fd = accept_on(on);
    step(fd, 'd');
    GIVES(close(fd), 0);
    GIVES(close(on), 0);
    /* The same for an endpoint of SCIF and its listener. */
    scif_epd_t at = listener(3163, 4), epd = accept_one(at);
    expect(epd, 'a');
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(close(epd) == 0 && scif_close(at) == 0 ? 7 : 8);
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    tell(epd, 'b');
    expect(epd, 'c');
    GIVES(scif_close(epd), 0);
    epd = accept_one(at);
    tell(epd, 'd');
    GIVES(scif_close(epd), 0);
    /* The library has mapped the connection by then. Both close it, and the child lives on. */
    epd = accept_one(at);
    for (int i = 0; i < MAPPED_AFTER; i++) {
        expect(epd, 'e');
        tell(epd, 'f');
    }
    int lives[2];
    GIVES(pipe(lives), 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char none;
        int failed = close(epd) != 0 || close(lives[1]) != 0;
        _exit(read(lives[0], &none, 1) == 0 && !failed ? 7 : 8);
    }
    GIVES(scif_close(epd), 0);
    epd = accept_one(at);
    expect(epd, 'g');
    GIVES(close(lives[1]), 0);
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(at), 0);
}

static void call_forks(uint16_t node) {
    char data[5000], back[5000];
    for (int i = 0; i < 4; i++) {
        int fd = call_stream(node, 3063);
        fill(data, sizeof data, i);
        write_all(fd, data, sizeof data);
        read_all(fd, back, sizeof back);
        CHECK(mismatch(back, sizeof back, i) == sizeof back);
        GIVES(shutdown(fd, SHUT_WR), 0);
        read_end(fd);
        GIVES(close(fd), 0);
    }
    int fd = call_stream(node, 3063);
    step(fd, 'a');
    await(fd, 'b');
    step(fd, 'c');
    read_end(fd);
    GIVES(close(fd), 0);
    fd = call_stream(node, 3063);
    await(fd, 'd');
    GIVES(close(fd), 0);
    scif_epd_t epd = call_one(node, 3163);
    tell(epd, 'a');
    expect(epd, 'b');
    tell(epd, 'c');
    GIVES(scif_close(epd), 0);
    epd = call_one(node, 3163);
    expect(epd, 'd');
    GIVES(scif_close(epd), 0);
    epd = call_one(node, 3163);
    for (int i = 0; i < MAPPED_AFTER; i++) {
        tell(epd, 'e');
        expect(epd, 'f');
    }
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
    epd = call_one(node, 3163);
    tell(epd, 'g');
    GIVES(scif_close(epd), 0);
}

const struct pattern patterns[] = {
    { 51, "echo server, by name", serve_echo, call_echo },
    { 52, "addresses of both ends", serve_addresses, call_addresses },
    { 53, "connect without waiting", serve_connects, call_connects },
    { 54, "send and receive without waiting", serve_full, call_full },
    { 55, "poll and select over many", serve_many, call_many },
    { 56, "parts, peeking, waiting for all", serve_parts, call_parts },
    { 57, "stdio and copies of descriptors", serve_stdio, call_stdio },
    { 58, "ends of connections", serve_ends, call_ends },
    { 59, "limits of time", serve_limits, call_limits },
    { 60, "a socket and SCIF", serve_mixed, call_mixed },
    { 61, "threads on one socket", serve_both, call_both },
    { 62, "one direction shut down", serve_halves, call_halves },
    { 63, "a server that forks", serve_forks, call_forks },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    playing = 62;
    if (!strcmp(part, "end-and-stay") && count == 1)
        return end_and_stay(atoi(arguments[0]));
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
