/* Sockets of Scheduled Transfers without the bypass: messages that keep their boundaries, and the
 * options of both kinds. */
#include "socket.h"
#include <st.h>

static int packets(void) {
    int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
    CHECK(fd >= 0);
    return fd;
}

static void set_option(int fd, int name, int value) {
    GIVES(setsockopt(fd, IPPROTO_STP, name, &value, sizeof value), 0);
}

static int listen_packets(uint16_t port) {
    int fd = packets();
    GIVES(bind_to(fd, -1, port), 0);
    GIVES(listen(fd, 4), 0);
    return fd;
}

static int serve_packets(uint16_t port) {
    int on = listen_packets(port);
    int fd = accept_on(on);
    GIVES(close(on), 0);
    return fd;
}

static int try_packets(int node, uint16_t port, int bypass) {
    int fd = packets();
    if (bypass)
        set_option(fd, ST_BYPASS, 1);
    if (try_connect(fd, node, port) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int call_packets(int node, uint16_t port) {
    int fd;
    for (int tries = 0; (fd = try_packets(node, port, 0)) < 0; tries++) {
        CHECK(errno == ECONNREFUSED || errno == EHOSTUNREACH);
        CHECK(tries < TIMEOUT_MS / 2);
        pause_shortly();
    }
    return fd;
}

static void say(int fd, const char *text) {
    GIVES(send(fd, text, strlen(text), 0), strlen(text));
}

static void hear(int fd, const char *text) {
    char found[64];
    GIVES(recv(fd, found, sizeof found, 0), strlen(text));
    CHECK(!memcmp(found, text, strlen(text)));
}

/* 71: boundaries, empty messages, messages that are cut. */
static void serve_boundaries(void) {
    int fd = serve_packets(3071);
    GIVES(option(fd, SOL_SOCKET, SO_TYPE), SOCK_SEQPACKET);
    GIVES(option(fd, SOL_SOCKET, SO_PROTOCOL), IPPROTO_STP);
    char text[100];
    hear(fd, "one");
    GIVES(recv(fd, text, sizeof text, 0), 0);
    hear(fd, "three");
    hear(fd, "printed 4");
    hear(fd, "by a stream");
    GIVES(recv(fd, text, 4, MSG_PEEK), 4);
    GIVES(recv(fd, text, 4, 0), 4);
    CHECK(!memcmp(text, "a me", 4));
    /* The rest of it is gone. */
    char a[2], b[3];
    struct iovec parts[] = { { a, sizeof a }, { b, sizeof b } };
    struct msghdr message = { 0 };
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    GIVES(recvmsg(fd, &message, 0), 5);
    CHECK(!memcmp(a, "in", 2) && !memcmp(b, "par", 3));
    GIVES(message.msg_flags, MSG_EOR | MSG_TRUNC);
    GIVES(recvmsg(fd, &message, 0), 5);
    GIVES(message.msg_flags, MSG_EOR);
    GIVES(recv(fd, text, 3, MSG_TRUNC), 10);
    FAILS(recv(fd, text, 1, MSG_DONTWAIT), EAGAIN);
    GIVES(poll_one(fd, POLLIN, 0), 0);
    say(fd, "go on");
    CHECK(poll_one(fd, POLLIN, TIMEOUT_MS) & POLLIN);
    GIVES(read(fd, text, sizeof text), 4);
    /* An orderly end. */
    read_end(fd);
    read_end(fd);
    GIVES(close(fd), 0);
}

static void call_boundaries(uint16_t node) {
    int fd = call_packets(node, 3071);
    say(fd, "one");
    GIVES(send(fd, NULL, 0, 0), 0);
    say(fd, "three");
    /* What the library's streams write are messages too. */
    GIVES(dprintf(fd, "printed %d", 4), 9);
    FILE *stream = fdopen(dup(fd), "w");
    CHECK(stream && fputs("by a stream", stream) >= 0 && fclose(stream) == 0);
    say(fd, "a message that is cut");
    struct iovec parts[] = { { "in p", 4 }, { "arts and more", 13 } };
    parts[0].iov_base = "inpa";
    parts[1].iov_base = "rts and more.";
    GIVES(writev(fd, parts, 2), 17);
    say(fd, "exact");
    say(fd, "0123456789");
    hear(fd, "go on");
    GIVES(write(fd, "last", 4), 4);
    GIVES(close(fd), 0);
}

/* 72: a message far larger than the rings, both ways, and sending without waiting until nothing
   more fits. The server reads no further than it is told, so that happens however fast it is. */
enum { LARGE = 10 << 20, FILLS = 5, LEAST = 26 };

/* What the client tells when nothing more fits. */
struct fill { int total, is_last; };

static void serve_large(void) {
    int control = serve_stream(3172), fd = serve_packets(3072);
    char *data = malloc(LARGE);
    CHECK(data != NULL);
    GIVES(recv(fd, data, LARGE, 0), LARGE);
    CHECK(mismatch(data, LARGE, 72) == LARGE);
    GIVES(send(fd, data, LARGE, 0), LARGE);
    struct fill told = { 0 };
    int total = 0, fills = 0;
    for (;;) {
        while (total == told.total && !told.is_last) {
            GIVES(recv(control, &told, sizeof told, MSG_WAITALL), sizeof told);
            fills++;
        }
        ssize_t count = recv(fd, data, LARGE, 0);
        if (count <= 0) {
            GIVES(count, 0);
            break;
        }
        GIVES(count, 10000 + total);
        CHECK(mismatch(data, count, total) == (size_t)count);
        total++;
    }
    CHECK(fills >= FILLS);
    GIVES(total, told.total);
    CHECK(total >= LEAST);
    GIVES(close(fd), 0);
    GIVES(close(control), 0);
    free(data);
}

static void call_large(uint16_t node) {
    int control = call_stream(node, 3172), fd = call_packets(node, 3072);
    char *data = malloc(LARGE);
    CHECK(data != NULL);
    fill(data, LARGE, 72);
    GIVES(send(fd, data, LARGE, 0), LARGE);
    memset(data, 0, LARGE);
    GIVES(recv(fd, data, LARGE, 0), LARGE);
    CHECK(mismatch(data, LARGE, 72) == LARGE);
    set_waiting(fd, 0);
    int total = 0, waits = 0;
    /* A reader may keep some room back, so that the first fills are short. */
    for (int is_last = 0; !is_last;) {
        fill(data, 10000 + total, total);
        ssize_t count = send(fd, data, 10000 + total, 0);
        if (count > 0) {
            GIVES(count, 10000 + total);
            total++;
        } else {
            CHECK(count == -1 && errno == EAGAIN);
            waits++;
            is_last = waits >= FILLS && total >= LEAST;
            struct fill told = { total, is_last };
            GIVES(send(control, &told, sizeof told, 0), sizeof told);
            CHECK(poll_one(fd, POLLOUT, TIMEOUT_MS) & POLLOUT);
        }
        CHECK(total < 5000);
    }
    /* What did not fit is sent before the end. */
    GIVES(shutdown(fd, SHUT_WR), 0);
    FAILS(send(fd, data, 1, 0), EPIPE);
    set_waiting(fd, 1);
    read_end(fd);
    GIVES(close(fd), 0);
    GIVES(close(control), 0);
    free(data);
}

/* 73: ends that do not agree: both fail, and the next client is served. */
static void serve_settings(void) {
    int on = listen_packets(3073), control = serve_stream(3173);
    for (int client = 0; client < 5; client++) {
        errno = 0;
        CHECK(accept(on, NULL, NULL) == -1);
        GIVES(errno, EPROTO);
    }
    int fd = accept_on(on);
    hear(fd, "agreed");
    CHECK(option(fd, IPPROTO_STP, ST_R_KEY) != 0);
    GIVES(option(fd, IPPROTO_STP, ST_R_NUMSLOTS), 128);
    int keys[2] = { option(fd, IPPROTO_STP, ST_L_KEY), option(fd, IPPROTO_STP, ST_R_KEY) };
    GIVES(send(fd, keys, sizeof keys, 0), sizeof keys);
    read_end(fd);
    GIVES(close(fd), 0);
    GIVES(close(on), 0);
    GIVES(close(control), 0);
}

static void call_settings(uint16_t node) {
    int control = call_stream(node, 3173);
    static const int settings[][2] = {
        { ST_BYPASS, 1 }, { ST_X_CHANNELS, 5 }, { ST_X_CHANNELS, 65 }, { ST_L_NUMSLOTS, 3 },
        { ST_L_NUMSLOTS, 1000000 }, { ST_L_NUMSLOTS, 128 },
    };
    static const int errors[] = { ECONNREFUSED, ECONNREFUSED, EINVAL, EINVAL, EINVAL, 0 };
    for (int i = 0; i < 6; i++) {
        int fd = packets();
        set_option(fd, settings[i][0], settings[i][1]);
        errno = 0;
        int result = try_connect(fd, node, 3073);
        if (errors[i]) {
            CHECK(result == -1);
            GIVES(errno, errors[i]);
        } else {
            GIVES(result, 0);
            int keys[2], bypass = 0;
            FAILS(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &bypass, sizeof bypass), EISCONN);
            say(fd, "agreed");
            GIVES(recv(fd, keys, sizeof keys, 0), sizeof keys);
            GIVES(option(fd, IPPROTO_STP, ST_R_KEY), keys[0]);
            GIVES(option(fd, IPPROTO_STP, ST_L_KEY), keys[1]);
        }
        GIVES(close(fd), 0);
    }
    read_end(control);
    GIVES(close(control), 0);
}

/* 74: options. */
static void call_options(uint16_t node) {
    (void)node;
    int fd = packets(), value = 7;
    socklen_t length = sizeof value;
    GIVES(option(fd, IPPROTO_STP, ST_BYPASS), 0);
    set_option(fd, ST_BYPASS, 1);
    GIVES(option(fd, IPPROTO_STP, ST_BYPASS), 1);
    set_option(fd, ST_BYPASS, 0);
    GIVES(option(fd, IPPROTO_STP, ST_BYPASS), 0);
    value = 2;
    FAILS(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &value, sizeof value), EINVAL);
    value = 1;
    FAILS(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &value, 3), EINVAL);
    FAILS(setsockopt(fd, SOL_SOCKET, ST_BYPASS, &value, sizeof value), ENOPROTOOPT);
    FAILS(setsockopt(fd, IPPROTO_STP, 999, &value, sizeof value), ENOPROTOOPT);
    FAILS(setsockopt(fd, IPPROTO_STP, 1020, &value, sizeof value), ENOPROTOOPT);
    FAILS(setsockopt(fd, IPPROTO_STP, ST_R_KEY, &value, sizeof value), ENOPROTOOPT);
    FAILS(getsockopt(fd, IPPROTO_STP, ST_R_KEY, &value, &length), ENOTCONN);
    set_option(fd, ST_OUT_VCNUM, 3);
    GIVES(option(fd, IPPROTO_STP, ST_OUT_VCNUM), 3);
    value = 4;
    FAILS(setsockopt(fd, IPPROTO_STP, ST_OUT_VCNUM, &value, sizeof value), EINVAL);
    GIVES(option(fd, IPPROTO_STP, ST_L_NUMSLOTS), 64);
    GIVES(option(fd, IPPROTO_STP, ST_L_BUFSIZE), 12);
    GIVES(bind_to(fd, -1, 0), 0);
    CHECK(option(fd, IPPROTO_STP, ST_L_PORT) >= 1024);
    FAILS(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &value, sizeof value), EINVAL);
    GIVES(listen(fd, 1), 0);
    FAILS(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &value, sizeof value), EISCONN);
    GIVES(option(fd, IPPROTO_STP, ST_BYPASS), 0);
    GIVES(close(fd), 0);
    int plain = stream();
    FAILS(setsockopt(plain, IPPROTO_STP, ST_BYPASS, &value, sizeof value), ENOPROTOOPT);
    GIVES(close(plain), 0);
    fd = socket(AF_STP, SOCK_SEQPACKET, 0);
    CHECK(fd >= 0);
    GIVES(close(fd), 0);
    FAILS(socket(PF_INET, SOCK_STREAM, IPPROTO_STP), EPROTOTYPE);
    FAILS(socket(PF_INET, SOCK_SEQPACKET, IPPROTO_TCP), EPROTONOSUPPORT);
}

/* 75: peers that speak something else, at once or later. */
static void serve_strangers(void) {
    int on = listen_packets(3075);
    errno = 0;
    CHECK(accept(on, NULL, NULL) == -1);
    GIVES(errno, EPROTO);
    int fd = accept_on(on);
    char text[10];
    hear(fd, "well");
    FAILS(recv(fd, text, sizeof text, 0), EPROTO);
    GIVES(close(fd), 0);
    GIVES(close(on), 0);
}

static void call_strangers(uint16_t node) {
    scif_epd_t epd = call_one(node, 3075);
    char nonsense[72];
    memset(nonsense, 0x5a, sizeof nonsense);
    send_all(epd, nonsense, sizeof nonsense);
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
    int fd = call_packets(node, 3075);
    say(fd, "well");
    /* A frame of no kind, past the library. */
    GIVES(scif_send(fd, "\5\0\0\0\7\0\0\0", 8, SCIF_SEND_BLOCK), 8);
    read_end(fd);
    GIVES(close(fd), 0);
}

/* Lets the client's connect return, and then closes. */
static void close_connected(int fd, int control) {
    await(control, 'c');
    step(control, 'k');
    GIVES(close(fd), 0);
}

/* 76: peers that say nothing delay no other, whether accept waits or not. */
static void serve_mute(void) {
    int control = serve_stream(3079);
    for (int bypass = 0; bypass < 2; bypass++) {
        int on = packets(), fd;
        set_option(on, ST_BYPASS, bypass);
        GIVES(bind_to(on, -1, 3076 + bypass), 0);
        GIVES(listen(on, 4), 0);
        set_waiting(on, 0);
        FAILS(accept(on, NULL, NULL), EAGAIN);
        step(control, 'l');
        /* One that says nothing makes no event; the next one does. */
        CHECK(poll_one(on, POLLIN, TIMEOUT_MS) == POLLIN);
        CHECK((fd = accept(on, NULL, NULL)) >= 0);
        GIVES(option(fd, IPPROTO_STP, ST_BYPASS), bypass);
        FAILS(accept(on, NULL, NULL), EAGAIN);
        CHECK(poll_one(on, POLLIN, 0) == 0);
        close_connected(fd, control);
        /* It goes. */
        CHECK(poll_one(on, POLLIN, TIMEOUT_MS) == POLLIN);
        FAILS(accept(on, NULL, NULL), EPROTO);
        FAILS(accept(on, NULL, NULL), EAGAIN);
        step(control, 'n');
        /* Another one, for an accept that waits. */
        set_waiting(on, 1);
        CHECK((fd = accept(on, NULL, NULL)) >= 0);
        close_connected(fd, control);
        /* More than the backlog: the oldest is given up, perhaps another one for the last. */
        FAILS(accept(on, NULL, NULL), EPROTO);
        while ((fd = accept(on, NULL, NULL)) < 0)
            CHECK(errno == EPROTO);
        close_connected(fd, control);
        /* A limit of time, with nobody but silent ones. */
        struct timeval limit = { 0, 50000 };
        GIVES(setsockopt(on, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
        FAILS(accept(on, NULL, NULL), EAGAIN);
        GIVES(close(on), 0);
    }
    GIVES(close(control), 0);
}

static void call_and_leave(uint16_t node, uint16_t port, int bypass, int control) {
    /* The listener is there, as the silent ones have connected. */
    int fd = try_packets(node, port, bypass);
    CHECK(fd >= 0);
    step(control, 'c');
    await(control, 'k');
    GIVES(close(fd), 0);
}

static void call_mute(uint16_t node) {
    int control = call_stream(node, 3079);
    for (int bypass = 0; bypass < 2; bypass++) {
        uint16_t port = 3076 + bypass;
        await(control, 'l');
        scif_epd_t mute = call_one(node, port);
        send_all(mute, "no", 2);
        call_and_leave(node, port, bypass, control);
        GIVES(scif_close(mute), 0);
        await(control, 'n');
        scif_epd_t many[5];
        many[0] = call_one(node, port);
        call_and_leave(node, port, bypass, control);
        for (int i = 1; i < 5; i++)
            many[i] = call_one(node, port);
        call_and_leave(node, port, bypass, control);
        /* The listener closes. */
        wait_for_end(many[4]);
        for (int i = 0; i < 5; i++)
            GIVES(scif_close(many[i]), 0);
    }
    GIVES(close(control), 0);
}

/* 77: more clients than the backlog has room for. */
enum { BACKLOG = 2, CLIENTS = 20 };
/* The clients are in the server's program, and their descriptors are among its own. */
static volatile int has_clients;

static int descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void serve_crowd(void) {
    int control = serve_stream(3079);
    for (int bypass = 0; bypass < 2; bypass++) {
        int on = packets(), most = 0, fd;
        set_option(on, ST_BYPASS, bypass);
        GIVES(bind_to(on, -1, 3077 + bypass), 0);
        GIVES(listen(on, BACKLOG), 0);
        set_waiting(on, 0);
        /* What a wait needs for itself stays open. */
        CHECK(poll_one(on, POLLIN, 10) == 0);
        int before = descriptors();
        step(control, 'l');
        /* The program looks, and takes none of them. */
        for (int i = 0; i < 100 || (most == 0 && i < TIMEOUT_MS / 10); i++) {
            poll_one(on, POLLIN, 10);
            int taken = descriptors() - before;
            most = taken > most ? taken : most;
        }
        /* With the bypass a set-up has two descriptors. */
        int bound = 2 * BACKLOG * (1 + bypass);
        CHECK(most > 0 && (has_clients || most <= bound));
        /* Those that wait are served all the same. */
        step(control, 'a');
        for (int served = 0; served < BACKLOG;) {
            CHECK(poll_one(on, POLLIN, TIMEOUT_MS) == POLLIN);
            if ((fd = accept(on, NULL, NULL)) >= 0) {
                served++;
                GIVES(close(fd), 0);
            } else {
                CHECK(errno == EPROTO || errno == EAGAIN);
            }
        }
        /* The others need not wait for an answer. */
        GIVES(close(on), 0);
        step(control, 'e');
        await(control, 'k');
    }
    GIVES(close(control), 0);
}

/* The next letter of the other side, if it is there. */
static int comes(int control, char letter) {
    if (poll_one(control, POLLIN, 10) == 0)
        return 0;
    await(control, letter);
    return 1;
}

static void call_crowd(uint16_t node) {
    int control = call_stream(node, 3079), fds[CLIENTS];
    has_clients = 1;
    for (int bypass = 0; bypass < 2; bypass++) {
        await(control, 'l');
        for (int i = 0; i < CLIENTS; i++)
            fds[i] = -1;
        /* Those that were refused try again, and the set-ups of the others go on. */
        const char *letters = "ae";
        while (*letters) {
            for (int i = 0; i < CLIENTS; i++) {
                if (fds[i] < 0) {
                    fds[i] = packets();
                    set_option(fds[i], ST_BYPASS, bypass);
                    set_waiting(fds[i], 0);
                    if (try_connect(fds[i], node, 3077 + bypass) == 0 || errno == EINPROGRESS)
                        continue;
                } else if ((poll_one(fds[i], POLLOUT, 0) & (POLLERR | POLLHUP)) == 0) {
                    continue;
                }
                GIVES(close(fds[i]), 0);
                fds[i] = -1;
            }
            letters += comes(control, *letters);
        }
        step(control, 'k');
        for (int i = 0; i < CLIENTS; i++)
            if (fds[i] >= 0)
                GIVES(close(fds[i]), 0);
    }
    GIVES(close(control), 0);
}

const struct pattern patterns[] = {
    { 71, "boundaries of messages", serve_boundaries, call_boundaries },
    { 72, "large messages", serve_large, call_large },
    { 73, "settings that do not agree", serve_settings, call_settings },
    { 74, "options", NULL, call_options },
    { 75, "strangers", serve_strangers, call_strangers },
    { 76, "peers that say nothing", serve_mute, call_mute },
    { 77, "more peers than the backlog", serve_crowd, call_crowd },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
