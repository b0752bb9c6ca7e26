/* Connections: patterns 1 to 3, 9 to 14, 16, 17, 20, 21, 32, 34 and 120. Root plays them; what
 * others may not do is tried by children that give their rights up. */
#include "pattern.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/select.h>
#include <sys/wait.h>

/* Starts this program again for one part of a pattern. */
static pid_t start_part(const char *part, const char *a, const char *b) {
    char *arguments[] = { program_invocation_name, (char *)part, (char *)a, (char *)b, NULL };
    pid_t child;
    GIVES(posix_spawnp(&child, program_invocation_name, NULL, NULL, arguments, NULL), 0);
    return child;
}

static void end_well(pid_t child) {
    int status;
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    GIVES(WEXITSTATUS(status), 0);
}

/* 1: the server loop of the board tools. */
static void serve_tools(void) {
    uint16_t self = 0xffff;
    scif_epd_t on = scif_open();
    CHECK(on != SCIF_OPEN_FAILED);
    CHECK(scif_get_nodeIDs(NULL, 0, &self) > 0);
    CHECK(self != 0xffff);
    GIVES(scif_bind(on, 130), 130);
    GIVES(scif_listen(on, 5), 0);
    struct scif_pollepd entry = { on, SCIF_POLLIN, 0 };
    GIVES(scif_poll(&entry, 1, TIMEOUT_MS), 1);
    GIVES(entry.revents, SCIF_POLLIN);
    struct scif_portID peer = { 0xffff, 0 };
    scif_epd_t epd = -1;
    GIVES(scif_accept(on, &peer, &epd, 0), 0);
    CHECK(peer.node != 0xffff && peer.port >= SCIF_PORT_RSVD);
    FAILS(scif_accept(on, &peer, &epd, 0), EAGAIN);
    int32_t node;
    recv_all(epd, &node, sizeof node);
    GIVES(node, peer.node);
    tell(epd, 'k');
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(on), 0);
}

static void call_tools(uint16_t node) {
    scif_epd_t epd = call_one(node, 130);
    int32_t self = own_node();
    send_all(epd, &self, sizeof self);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

/* 2: the listener is closed and opened again at once, while connections it accepted live on. */
enum { RESTARTS = 3 };

static void serve_restart(void) {
    scif_epd_t epds[RESTARTS];
    for (int i = 0; i < RESTARTS; i++) {
        scif_epd_t on = listener(2002, 4);
        epds[i] = accept_one(on);
        GIVES(scif_close(on), 0);
    }
    for (int i = 0; i < RESTARTS; i++) {
        expect(epds[i], (char)('0' + i));
        GIVES(scif_close(epds[i]), 0);
    }
}

static void call_restart(uint16_t node) {
    scif_epd_t epds[RESTARTS];
    for (int i = 0; i < RESTARTS; i++)
        epds[i] = call_one(node, 2002);
    for (int i = 0; i < RESTARTS; i++)
        tell(epds[i], (char)('0' + i));
    for (int i = 0; i < RESTARTS; i++) {
        wait_for_end(epds[i]);
        GIVES(scif_close(epds[i]), 0);
    }
}

/* 3: one poll over a listener and its peers, which come and go. */
enum { PEERS = 3 };

static void serve_array(void) {
    struct scif_pollepd set[1 + PEERS] = { { listener(2003, PEERS), SCIF_POLLIN, 0 } };
    unsigned count = 1;
    int gone = 0, quiet = 0;
    while (gone < PEERS) {
        int ready = scif_poll(set, count, 20);
        CHECK(ready >= 0);
        if (ready == 0) {
            CHECK(quiet++ < TIMEOUT_MS / 20);
            continue;
        }
        int seen = 0;
        unsigned present = count;
        for (unsigned i = present - 1; i > 0; i--) {
            if (set[i].revents == 0)
                continue;
            seen++;
            int32_t number;
            if (set[i].revents & SCIF_POLLIN) {
                recv_all(set[i].epd, &number, sizeof number);
                number = -number;
                send_all(set[i].epd, &number, sizeof number);
            } else {
                CHECK(set[i].revents & (SCIF_POLLHUP | SCIF_POLLERR));
                GIVES(scif_close(set[i].epd), 0);
                set[i] = set[--count];
                gone++;
            }
        }
        if (set[0].revents) {
            seen++;
            GIVES(set[0].revents, SCIF_POLLIN);
            struct scif_portID peer;
            CHECK(count <= PEERS);
            GIVES(scif_accept(set[0].epd, &peer, &set[count].epd, 0), 0);
            set[count].events = SCIF_POLLIN;
            set[count++].revents = 0;
        }
        GIVES(seen, ready);
    }
    GIVES(scif_close(set[0].epd), 0);
}

static void call_array(uint16_t node) {
    scif_epd_t epds[PEERS];
    for (int i = 0; i < PEERS; i++)
        epds[i] = call_one(node, 2003);
    for (int round = 1; round < 20; round++) {
        for (int i = 0; i < PEERS; i++) {
            int32_t number = round * 10 + i;
            send_all(epds[i], &number, sizeof number);
        }
        for (int i = 0; i < PEERS; i++) {
            int32_t number;
            recv_all(epds[i], &number, sizeof number);
            GIVES(number, -(round * 10 + i));
        }
    }
    for (int i = 0; i < PEERS; i++)
        GIVES(scif_close(epds[i]), 0);
}

/* 9: root binds the highest free privileged port; others take any. */
static void serve_privileged(void) {
    scif_epd_t on = listener(2009, 4);
    for (int i = 0; i < 2; i++) {
        struct scif_portID peer;
        scif_epd_t epd;
        GIVES(scif_accept(on, &peer, &epd, SCIF_ACCEPT_SYNC), 0);
        CHECK(i == 0 ? peer.port < SCIF_ADMIN_PORT_END : peer.port >= SCIF_PORT_RSVD);
        tell(epd, 'k');
        wait_for_end(epd);
        GIVES(scif_close(epd), 0);
    }
    GIVES(scif_close(on), 0);
}

static void call_privileged(uint16_t node) {
    scif_epd_t taken = listener(1023, 1);
    scif_epd_t epd = scif_open();
    int port = 1023;
    while (scif_bind(epd, (uint16_t)port) < 0) {
        GIVES(errno, EINVAL);
        CHECK(--port > 0);
    }
    CHECK(port < 1023);
    connect_to(epd, node, 2009);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(taken), 0);
    char text[8];
    snprintf(text, sizeof text, "%d", node);
    end_well(start_part("unprivileged", text, NULL));
}

static void unprivileged(uint16_t node) {
    GIVES(setuid(1000), 0);
    GIVES(geteuid(), 1000);
    scif_epd_t epd = scif_open();
    for (int port = 1023; port > 1000; port--)
        FAILS(scif_bind(epd, (uint16_t)port), EACCES);
    CHECK(scif_bind(epd, 0) >= SCIF_PORT_RSVD);
    connect_to(epd, node, 2009);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

/* 10: refused at once while nobody listens; the same endpoint gets through later. */
static void serve_refused(void) {
    scif_epd_t control = serve_one(2010);
    expect(control, 'g');
    scif_epd_t epd = serve_one(2110);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(control), 0);
}

static void call_refused(uint16_t node) {
    scif_epd_t control = call_one(node, 2010);
    scif_epd_t epd = scif_open();
    int port = scif_bind(epd, 0);
    CHECK(port >= SCIF_PORT_RSVD);
    struct scif_portID to = { node, 2110 };
    for (int i = 0; i < 3; i++)
        FAILS(scif_connect(epd, &to), ECONNREFUSED);
    tell(control, 'g');
    int got, tries = 0;
    while ((got = scif_connect(epd, &to)) < 0) {
        GIVES(errno, ECONNREFUSED);
        CHECK(tries++ < TIMEOUT_MS / 2);
        pause_shortly();
    }
    GIVES(got, port);
    tell(epd, 'k');
    wait_for_end(control);
    GIVES(scif_close(control), 0);
    GIVES(scif_close(epd), 0);
}

/* 120: an accept with a bad place takes no connection, and an endpoint is ready under all names. */
static short ready_for(scif_epd_t epd, short events, int milliseconds) {
    struct pollfd entry = { .fd = scif_get_fd(epd), .events = events };
    CHECK(poll(&entry, 1, milliseconds) >= 0);
    return entry.revents;
}

static void serve_places(void) {
    scif_epd_t on = listener(2120, 1), epd;
    struct scif_portID peer;
    GIVES(ready_for(on, POLLRDNORM, TIMEOUT_MS), POLLRDNORM);
    FAILS(scif_accept(on, (struct scif_portID *)8, &epd, SCIF_ACCEPT_SYNC), EFAULT);
    FAILS(scif_accept(on, &peer, (scif_epd_t *)8, SCIF_ACCEPT_SYNC), EFAULT);
    FAILS(scif_accept(on, NULL, &epd, SCIF_ACCEPT_SYNC), EINVAL);
    FAILS(scif_accept(on, &peer, NULL, SCIF_ACCEPT_SYNC), EINVAL);
    GIVES(scif_accept(on, &peer, &epd, SCIF_ACCEPT_SYNC), 0);
    FAILS(scif_accept(epd, (struct scif_portID *)8, &epd, 0), EINVAL);
    GIVES(ready_for(epd, POLLRDNORM, 0), 0);
    GIVES(ready_for(epd, POLLRDNORM | POLLWRNORM, TIMEOUT_MS), POLLWRNORM);
    tell(epd, 'r');
    GIVES(ready_for(epd, POLLRDNORM, TIMEOUT_MS), POLLRDNORM);
    GIVES(ready_for(epd, POLLIN | POLLRDNORM, 0), POLLIN | POLLRDNORM);
    GIVES(ready_for(epd, POLLIN, 0), POLLIN);
    expect(epd, 'a');
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(on), 0);
}

static void call_places(uint16_t node) {
    scif_epd_t epd = call_one(node, 2120);
    expect(epd, 'r');
    tell(epd, 'a');
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

/* 11: nodes that do not exist. */
static void call_nowhere(uint16_t node) {
    (void)node;
    scif_epd_t epd = scif_open();
    const uint16_t absent[] = { 77, 255, 256, 65535 };
    for (unsigned i = 0; i < sizeof absent / sizeof *absent; i++) {
        struct scif_portID to = { absent[i], 2011 };
        FAILS(scif_connect(epd, &to), ENODEV);
    }
    GIVES(scif_close(epd), 0);
}

/* 12: a backlog of 1. */
static void serve_backlog(void) {
    scif_epd_t control = serve_one(2012);
    scif_epd_t on = listener(2112, 1);
    tell(control, 'l');
    CHECK(wait_for(on, SCIF_POLLIN) & SCIF_POLLIN);
    tell(control, 'q');
    expect(control, 'a');
    scif_epd_t first = accept_one(on);
    scif_epd_t third = accept_one(on);
    wait_for_end(control);
    GIVES(scif_close(first), 0);
    GIVES(scif_close(third), 0);
    GIVES(scif_close(on), 0);
    GIVES(scif_close(control), 0);
    const int large[] = { 16, 120, 1024, 1 << 30 };
    for (unsigned i = 0; i < sizeof large / sizeof *large; i++)
        GIVES(scif_close(listener(2112, large[i])), 0);
}

struct attempt {
    uint16_t node;
    uint16_t port;
    int result;
    int error;
    scif_epd_t epd;
};

static void *attempt(void *argument) {
    struct attempt *attempt = argument;
    struct scif_portID to = { attempt->node, attempt->port };
    attempt->epd = scif_open();
    attempt->result = scif_connect(attempt->epd, &to);
    attempt->error = errno;
    return NULL;
}

static void call_backlog(uint16_t node) {
    scif_epd_t control = call_one(node, 2012);
    expect(control, 'l');
    struct attempt first = { node, 2112, 0, 0, -1 };
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, attempt, &first), 0);
    expect(control, 'q');
    scif_epd_t second = scif_open();
    struct scif_portID to = { node, 2112 };
    FAILS(scif_connect(second, &to), ECONNREFUSED);
    tell(control, 'a');
    GIVES(pthread_join(thread, NULL), 0);
    CHECK(first.result > 0);
    connect_to(second, node, 2112);
    GIVES(scif_close(control), 0);
    wait_for_end(first.epd);
    GIVES(scif_close(first.epd), 0);
    GIVES(scif_close(second), 0);
}

/* 13: closing a listener wakes whoever waits in accept. */
static void *blocked_accept(void *argument) {
    struct attempt *attempt = argument;
    struct scif_portID peer;
    scif_epd_t epd;
    attempt->result = scif_accept(attempt->epd, &peer, &epd, SCIF_ACCEPT_SYNC);
    attempt->error = errno;
    return NULL;
}

static void call_close_accept(uint16_t node) {
    (void)node;
    struct attempt attempt = { 0, 0, 0, 0, listener(2013, 1) };
    long before = waiting();
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, blocked_accept, &attempt), 0);
    for (int tries = 0; waiting() <= before; tries++) {
        CHECK(tries < TIMEOUT_MS / 2);
        pause_shortly();
    }
    GIVES(scif_close(attempt.epd), 0);
    GIVES(pthread_join(thread, NULL), 0);
    GIVES(attempt.result, -1);
    GIVES(attempt.error, EINTR);
    /* The port is free at once. */
    GIVES(scif_close(listener(2013, 1)), 0);
}

/* 14: closing a listener refuses the requests that wait. */
static void serve_close_queue(void) {
    scif_epd_t control = serve_one(2014);
    scif_epd_t on = listener(2114, 8);
    tell(control, 'l');
    for (int tries = 0; text_number("/scheme/scif/ports", "2114", 2) < 2; tries++) {
        CHECK(tries < TIMEOUT_MS / 2);
        pause_shortly();
    }
    GIVES(scif_close(on), 0);
    wait_for_end(control);
    GIVES(scif_close(control), 0);
}

static void call_close_queue(uint16_t node) {
    scif_epd_t control = call_one(node, 2014);
    expect(control, 'l');
    struct attempt attempts[2] = { { node, 2114, 0, 0, -1 }, { node, 2114, 0, 0, -1 } };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        GIVES(pthread_create(&threads[i], NULL, attempt, &attempts[i]), 0);
    for (int i = 0; i < 2; i++) {
        GIVES(pthread_join(threads[i], NULL), 0);
        GIVES(attempts[i].result, -1);
        GIVES(attempts[i].error, ECONNREFUSED);
        GIVES(scif_close(attempts[i].epd), 0);
    }
    GIVES(scif_close(control), 0);
}

/* 16: boot notifications: version and protocol, an answer, and both close; many at once. */
enum { CARDS = 4 };

static void serve_boot(void) {
    scif_epd_t on = listener(161, 120);
    for (int i = 0; i < CARDS; i++) {
        scif_epd_t epd = accept_one(on);
        uint32_t version, protocol, answer = 1;
        recv_all(epd, &version, sizeof version);
        recv_all(epd, &protocol, sizeof protocol);
        GIVES(version, 1);
        CHECK(protocol < CARDS);
        send_all(epd, &answer, sizeof answer);
        GIVES(scif_close(epd), 0);
    }
    GIVES(scif_close(on), 0);
}

static void *boot(void *argument) {
    struct attempt *card = argument;
    scif_epd_t epd = call_one(card->node, 161);
    uint32_t version = 1, protocol = card->port, answer = 0;
    send_all(epd, &version, sizeof version);
    send_all(epd, &protocol, sizeof protocol);
    recv_all(epd, &answer, sizeof answer);
    GIVES(answer, 1);
    GIVES(scif_close(epd), 0);
    return NULL;
}

static void call_boot(uint16_t node) {
    struct attempt cards[CARDS];
    pthread_t threads[CARDS];
    for (uint16_t i = 0; i < CARDS; i++) {
        cards[i] = (struct attempt){ node, i, 0, 0, -1 };
        GIVES(pthread_create(&threads[i], NULL, boot, &cards[i]), 0);
    }
    for (int i = 0; i < CARDS; i++)
        GIVES(pthread_join(threads[i], NULL), 0);
}

/* 17: the server calls back, to a port of the node it sees in the first connection. */
static void serve_call_back(void) {
    scif_epd_t monitor = listener(160, 4);
    struct scif_portID peer;
    scif_epd_t first;
    GIVES(scif_accept(monitor, &peer, &first, SCIF_ACCEPT_SYNC), 0);
    uint32_t protocol;
    recv_all(first, &protocol, sizeof protocol);
    GIVES(protocol, 17);
    scif_epd_t back = call_one(peer.node, 163);
    tell(back, 'b');
    expect(first, 'f');
    scif_epd_t credentials = serve_one(162);
    char cookie[16];
    recv_all(credentials, cookie, sizeof cookie);
    CHECK(!strcmp(cookie, "a small secret"));
    tell(credentials, 'c');
    wait_for_end(credentials);
    GIVES(scif_close(credentials), 0);
    GIVES(scif_close(back), 0);
    GIVES(scif_close(first), 0);
    GIVES(scif_close(monitor), 0);
}

static void call_call_back(uint16_t node) {
    scif_epd_t first = call_one(node, 160);
    uint32_t protocol = 17;
    send_all(first, &protocol, sizeof protocol);
    scif_epd_t back = serve_one(163);
    expect(back, 'b');
    tell(first, 'f');
    scif_epd_t credentials = call_one(node, 162);
    char cookie[16] = "a small secret";
    send_all(credentials, cookie, sizeof cookie);
    expect(credentials, 'c');
    GIVES(scif_close(credentials), 0);
    wait_for_end(back);
    GIVES(scif_close(back), 0);
    GIVES(scif_close(first), 0);
}

/* 20: heartbeats: silence ends in a time-out, data and hang-up wake, a killed peer is noticed. */
static void serve_heartbeat(void) {
    scif_epd_t on = listener(2020, 4);
    scif_epd_t epd = accept_one(on);
    struct scif_pollepd entry = { epd, SCIF_POLLIN, 0 };
    GIVES(scif_poll(&entry, 1, 50), 0);
    GIVES(entry.revents, 0);
    tell(epd, 's');
    GIVES(wait_for(epd, SCIF_POLLIN), SCIF_POLLIN);
    expect(epd, 'h');
    /* By select, as any descriptor. */
    fd_set set;
    FD_ZERO(&set);
    FD_SET(scif_get_fd(epd), &set);
    struct timeval none = { 0, 0 };
    GIVES(select(scif_get_fd(epd) + 1, &set, NULL, NULL, &none), 0);
    scif_epd_t child = accept_one(on);
    expect(child, 'c');
    tell(epd, 'c');
    CHECK(wait_for(child, SCIF_POLLIN) & SCIF_POLLHUP);
    GIVES(scif_close(child), 0);
    CHECK(wait_for(epd, SCIF_POLLIN) & SCIF_POLLHUP);
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(on), 0);
}

static void call_heartbeat(uint16_t node) {
    scif_epd_t epd = call_one(node, 2020);
    expect(epd, 's');
    tell(epd, 'h');
    char text[8];
    snprintf(text, sizeof text, "%d", node);
    pid_t child = start_part("heartbeat", text, NULL);
    expect(epd, 'c');
    GIVES(kill(child, SIGKILL), 0);
    int status;
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    GIVES(scif_close(epd), 0);
}

/* The child that is killed while it waits in poll. */
static void heartbeat(uint16_t node) {
    scif_epd_t epd = call_one(node, 2020);
    tell(epd, 'c');
    struct scif_pollepd entry = { epd, SCIF_POLLIN, 0 };
    scif_poll(&entry, 1, -1);
    failed(__FILE__, __LINE__, "the poll ended");
}

/* 21: nodes are announced, those that are there first; a worker then connects to port 201. */
static void serve_peers(void) {
    scif_epd_t epd = serve_one(201);
    expect(epd, 'p');
    GIVES(scif_close(epd), 0);
}

static void *connect_back(void *argument) {
    struct attempt *worker = argument;
    worker->epd = call_one(worker->node, 201);
    tell(worker->epd, 'p');
    wait_for_end(worker->epd);
    GIVES(scif_close(worker->epd), 0);
    return NULL;
}

static void call_peers(uint16_t node) {
    FILE *events = fopen("/scheme/scif/peers", "r");
    CHECK(events != NULL);
    struct attempt worker = { node, 0, 0, 0, -1 };
    pthread_t thread;
    char line[64];
    unsigned added;
    do {
        CHECK(fgets(line, sizeof line, events) != NULL);
        if (sscanf(line, "added %u", &added) != 1)
            failed(__FILE__, __LINE__, "the first events say: %s", line);
    } while (added != node);
    GIVES(pthread_create(&thread, NULL, connect_back, &worker), 0);
    GIVES(pthread_join(thread, NULL), 0);
    fclose(events);
}

/* 32: connecting without waiting, twice refused, then through, on one endpoint. */
static void serve_nonblocking(void) {
    scif_epd_t control = serve_one(2032);
    expect(control, 'g');
    scif_epd_t epd = serve_one(2132);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(control), 0);
}

static int collect(scif_epd_t epd, struct scif_portID *to) {
    FAILS(scif_connect(epd, to), EINPROGRESS);
    struct pollfd entry = { scif_get_fd(epd), POLLOUT, 0 };
    GIVES(poll(&entry, 1, TIMEOUT_MS), 1);
    CHECK(entry.revents & POLLOUT);
    return scif_connect(epd, to);
}

static void call_nonblocking(uint16_t node) {
    scif_epd_t control = call_one(node, 2032);
    scif_epd_t epd = scif_open();
    int flags = fcntl(scif_get_fd(epd), F_GETFL);
    CHECK(flags >= 0 && !(flags & O_NONBLOCK));
    GIVES(fcntl(scif_get_fd(epd), F_SETFL, flags | O_NONBLOCK), 0);
    CHECK(fcntl(scif_get_fd(epd), F_GETFL) & O_NONBLOCK);
    struct scif_portID to = { node, 2132 };
    for (int i = 0; i < 2; i++)
        FAILS(collect(epd, &to), ECONNREFUSED);
    tell(control, 'g');
    int port, tries = 0;
    while ((port = collect(epd, &to)) < 0) {
        GIVES(errno, ECONNREFUSED);
        CHECK(tries++ < TIMEOUT_MS / 2);
        pause_shortly();
    }
    CHECK(port >= SCIF_PORT_RSVD);
    /* The flag concerns connect only. */
    send_all(epd, "k", 1);
    wait_for_end(control);
    GIVES(scif_close(control), 0);
    GIVES(scif_close(epd), 0);
}

/* 34: the tool that binds port after port on one endpoint, then talks in fixed structures. */
struct message {
    uint32_t length;
    uint16_t opcode;
    uint16_t flags;
    char text[24];
};

static void serve_tool(void) {
    scif_epd_t on = listener(2034, 4);
    for (int i = 0; i < 2; i++) {
        scif_epd_t epd = accept_one(on);
        struct message message;
        recv_all(epd, &message, sizeof message);
        GIVES(message.length, sizeof message);
        message.opcode++;
        send_all(epd, &message, sizeof message);
        wait_for_end(epd);
        GIVES(scif_close(epd), 0);
    }
    GIVES(scif_close(on), 0);
}

static void talk(scif_epd_t epd, uint16_t node) {
    connect_to(epd, node, 2034);
    struct message message = { sizeof message, 34, 0, "scifmb" };
    send_all(epd, &message, sizeof message);
    recv_all(epd, &message, sizeof message);
    GIVES(message.opcode, 35);
    CHECK(!strcmp(message.text, "scifmb"));
    GIVES(scif_close(epd), 0);
}

static void call_tool(uint16_t node) {
    scif_epd_t taken = listener(1, 1);
    scif_epd_t epd = scif_open();
    int port = 1;
    while (port < 1024 && scif_bind(epd, (uint16_t)port) < 0)
        port++;
    GIVES(port, 2);
    talk(epd, node);
    GIVES(scif_close(taken), 0);
    char text[8];
    snprintf(text, sizeof text, "%d", node);
    end_well(start_part("tool", text, NULL));
}

/* The tool for somebody who is not root: no port can be had, and the endpoint is none the worse. */
static void tool(uint16_t node) {
    GIVES(setuid(1000), 0);
    scif_epd_t epd = scif_open();
    errno = 0;
    for (int port = 1; port < 1024; port++)
        GIVES(scif_bind(epd, (uint16_t)port), -1);
    GIVES(errno, EACCES);
    talk(epd, node);
}

const struct pattern patterns[] = {
    { 1, "server loop of the board tools", serve_tools, call_tools },
    { 2, "immediate restart", serve_restart, call_restart },
    { 3, "poll an array", serve_array, call_array },
    { 9, "privileged source port", serve_privileged, call_privileged },
    { 10, "refused, then through", serve_refused, call_refused },
    { 11, "no such node", NULL, call_nowhere },
    { 12, "backlog", serve_backlog, call_backlog },
    { 13, "close the listener under accept", NULL, call_close_accept },
    { 14, "close the listener with requests", serve_close_queue, call_close_queue },
    { 16, "boot notification", serve_boot, call_boot },
    { 17, "call-back connection", serve_call_back, call_call_back },
    { 20, "heartbeat", serve_heartbeat, call_heartbeat },
    { 21, "announced peers", serve_peers, call_peers },
    { 32, "connect without waiting", serve_nonblocking, call_nonblocking },
    { 34, "bind port after port", serve_tool, call_tool },
    { 120, "bad places of an accept, names of readiness", serve_places, call_places },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    uint16_t node = (uint16_t)(count > 0 ? atoi(arguments[0]) : 0);
    if (!strcmp(part, "unprivileged")) {
        playing = 9;
        unprivileged(node);
    } else if (!strcmp(part, "heartbeat")) {
        playing = 20;
        heartbeat(node);
    } else if (!strcmp(part, "tool")) {
        playing = 34;
        tool(node);
    } else {
        fprintf(stderr, "no part '%s'\n", part);
        return 100;
    }
    return 0;
}
