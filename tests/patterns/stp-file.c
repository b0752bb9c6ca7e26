/*
 * The socket at the other end of a file below /scheme/scif/stp: messages without the bypass.
 *
 * `stp-file get PORT` accepts one connection and prints each message between brackets.
 * `stp-file late PORT SIGNAL` does so once a connection to the port SIGNAL has ended.
 * `stp-file put NODE PORT MESSAGE...` sends messages and closes.
 *
 * The exit status says how the connection ended: 0 in order, 201 cut off (ECONNRESET), 202 with
 * another error; 200 when the arguments are wrong, less for each call that has failed before.
 */
#define NO_PATTERNS
#include "socket.h"
#include <st.h>

enum { MOST = 1 << 16 };

static int packets(void) {
    int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
    CHECK(fd >= 0);
    return fd;
}

static int serve(uint16_t port) {
    int on = packets();
    GIVES(bind_to(on, -1, port), 0);
    GIVES(listen(on, 4), 0);
    return on;
}

/* Prints what comes, to the end. */
static int get(int fd) {
    static char message[MOST];
    for (;;) {
        ssize_t length = recv(fd, message, sizeof message, 0);
        if (length < 0)
            return errno == ECONNRESET ? 201 : 202;
        if (length == 0)
            return 0;
        printf("[%.*s]", (int)length, message);
    }
}

static int put(int node, uint16_t port, char **messages) {
    int fd;
    for (int tries = 0;; tries++) {
        fd = packets();
        if (try_connect(fd, node, port) == 0)
            break;
        CHECK(errno == ECONNREFUSED || errno == EHOSTUNREACH);
        CHECK(tries < TIMEOUT_MS / 2);
        close(fd);
        pause_shortly();
    }
    for (; *messages; messages++)
        GIVES(send(fd, *messages, strlen(*messages), 0), strlen(*messages));
    GIVES(close(fd), 0);
    return 0;
}

int main(int argc, char **argv) {
    int status = 200;
    if (argc == 3 && !strcmp(argv[1], "get")) {
        status = get(accept_on(serve(atoi(argv[2]))));
    } else if (argc == 4 && !strcmp(argv[1], "late")) {
        int on = serve(atoi(argv[2])), signal = serve(atoi(argv[3]));
        int fd = accept_on(on);
        GIVES(get(accept_on(signal)), 0);
        status = get(fd);
    } else if (argc >= 4 && !strcmp(argv[1], "put")) {
        status = put(atoi(argv[2]), atoi(argv[3]), argv + 4);
    }
    fflush(stdout);
    return status;
}
