/* Sockets whose peer's node loses its power: `serve` runs on the node that goes, `call n` on the
 * other one, which has the launcher cut the power of node n. */
#include "socket.h"
#include <st.h>

enum { STREAM, PACKETS, TRANSFERS, KINDS };

static int socket_of(int kind) {
    int on = 1;
    int fd = kind == STREAM ? stream() : socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
    CHECK(fd >= 0);
    if (kind == TRANSFERS)
        GIVES(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &on, sizeof on), 0);
    return fd;
}

static void serve_until_the_end(void) {
    int fds[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        int on = socket_of(kind);
        GIVES(bind_to(on, -1, 3090 + kind), 0);
        GIVES(listen(on, 1), 0);
        fds[kind] = accept_on(on);
    }
    write_all(fds[STREAM], "last", 4);
    write_all(fds[PACKETS], "last", 4);
    for (;;)
        sleep(1000);
}

static void call_and_lose(uint16_t node) {
    int fds[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int tries = 0;; tries++) {
            fds[kind] = socket_of(kind);
            if (try_connect(fds[kind], node, 3090 + kind) == 0)
                break;
            CHECK(errno == ECONNREFUSED || errno == EHOSTUNREACH);
            CHECK(tries < TIMEOUT_MS / 2);
            GIVES(close(fds[kind]), 0);
            pause_shortly();
        }
    }
    st_peer_t *peer;
    GIVES(st_attach(fds[TRANSFERS], 0, 0, &peer), 0);
    char text[16], header[ST1_HDR_SIZE] = { 0 };
    GIVES(recv(fds[STREAM], text, 3, MSG_WAITALL), 3);
    GIVES(recv(fds[PACKETS], text, 16, MSG_PEEK), 4);
    printf("LAUNCHER kill %d\n", node);
    fflush(stdout);
    while (!(poll_one(fds[STREAM], 0, TIMEOUT_MS) & POLLHUP))
        ;
    /* What had arrived comes first. An end that nobody has asked for is no end of a file. */
    GIVES(recv(fds[STREAM], text, sizeof text, 0), 1);
    FAILS(recv(fds[STREAM], text, sizeof text, 0), ECONNRESET);
    FAILS(read(fds[STREAM], text, sizeof text), ECONNRESET);
    FAILS(send(fds[STREAM], text, 1, 0), ECONNRESET);
    GIVES(recv(fds[PACKETS], text, sizeof text, 0), 4);
    FAILS(recv(fds[PACKETS], text, sizeof text, 0), ECONNRESET);
    errno = 0;
    CHECK(st1_pull(peer, header, NULL, NULL, 0) == -1);
    CHECK(errno == ECONNRESET || errno == ENODEV);
    CHECK(st1_push(peer, header, NULL, NULL, 0) == -1);
    FAILS(try_connect(stream(), node, 3090), EHOSTUNREACH);
    GIVES(st_detach(&peer), 0);
    for (int kind = 0; kind < KINDS; kind++)
        GIVES(close(fds[kind]), 0);
}

const struct pattern patterns[] = {
    { 91, "the peer's node is lost", serve_until_the_end, call_and_lose },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
