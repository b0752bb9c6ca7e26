/* Pattern 33: a node goes without a word. `serve` runs on the node that goes, until its end; `call`
 * on the other one, which has the launcher cut the power and switch it on again. */
#include "pattern.h"

#include <sys/mman.h>

/* What a connection is for, the first byte of each. */
enum { SILENT = 's', WINDOW = 'w', ECHO = 'e' };

static void serve_until_the_end(void) {
    scif_epd_t on = listener(2033, 16);
    /* Nobody ever accepts here. */
    listener(2133, 16);
    for (;;) {
        scif_epd_t epd = accept_one(on);
        char role;
        recv_all(epd, &role, 1);
        if (role == WINDOW) {
            void *memory;
            GIVES(posix_memalign(&memory, PAGE, 4 * PAGE), 0);
            memset(memory, 'w', 4 * PAGE);
            off_t offset = scif_register(epd, memory, 4 * PAGE, 0,
                                         SCIF_PROT_READ | SCIF_PROT_WRITE, 0);
            CHECK(offset != SCIF_REGISTER_FAILED);
            tell_number(epd, offset);
        } else if (role == ECHO) {
            tell(epd, role);
        }
    }
}

/* A call that waits for the node, in a thread of its own. */
struct waiter {
    void (*wait)(struct waiter *);
    uint16_t node;
    scif_epd_t epd;
    int result;
    int error;
    pthread_t thread;
};

static void *wait_in_thread(void *argument) {
    struct waiter *waiter = argument;
    waiter->wait(waiter);
    waiter->error = errno;
    return NULL;
}

static void open_silent(struct waiter *waiter) {
    waiter->epd = call_one(waiter->node, 2033);
    tell(waiter->epd, SILENT);
}

static void wait_in_recv(struct waiter *waiter) {
    char byte;
    waiter->result = scif_recv(waiter->epd, &byte, 1, SCIF_RECV_BLOCK);
}

static void wait_in_send(struct waiter *waiter) {
    static char data[1 << 20];
    waiter->result = scif_send(waiter->epd, data, sizeof data, SCIF_SEND_BLOCK);
}

static void wait_in_connect(struct waiter *waiter) {
    struct scif_portID to = { waiter->node, 2133 };
    waiter->result = scif_connect(waiter->epd, &to);
}

static void wait_in_poll(struct waiter *waiter) {
    struct scif_pollepd entry = { waiter->epd, SCIF_POLLIN, 0 };
    waiter->result = scif_poll(&entry, 1, TIMEOUT_MS);
    errno = entry.revents;
}

static void wait_in_fence(struct waiter *waiter) {
    int mark;
    do {
        waiter->result = scif_fence_mark(waiter->epd, SCIF_FENCE_INIT_PEER, &mark);
        if (waiter->result == 0)
            waiter->result = scif_fence_wait(waiter->epd, mark);
        pause_shortly();
    } while (waiter->result == 0);
}

static int online(uint16_t node) {
    uint16_t nodes[64], self;
    int count = scif_get_node_ids(nodes, 64, &self);
    CHECK(count >= 1);
    for (int i = 0; i < count && i < 64; i++)
        if (nodes[i] == node)
            return count;
    return -count;
}

static int is_loss(int error) {
    return error == ECONNRESET || error == ENODEV;
}

static void call_the_lost(uint16_t node) {
    enum { RECV, SEND, CONNECT, POLL, FENCE, WAITERS };
    struct waiter waiters[WAITERS] = {
        [RECV] = { .wait = wait_in_recv },
        [SEND] = { .wait = wait_in_send },
        [CONNECT] = { .wait = wait_in_connect },
        [POLL] = { .wait = wait_in_poll },
        [FENCE] = { .wait = wait_in_fence },
    };
    for (int tries = 0; online(node) != 2; tries++) {
        CHECK(tries < TIMEOUT_MS / 10);
        usleep(10000);
    }
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].node = node;
        if (i == CONNECT)
            waiters[i].epd = scif_open();
        else
            open_silent(&waiters[i]);
    }
    scif_epd_t epd = call_one(node, 2033);
    tell(epd, WINDOW);
    off_t offset = told_number(epd);
    volatile char *map = scif_mmap(NULL, 4 * PAGE, SCIF_PROT_READ | SCIF_PROT_WRITE, 0, epd,
                                   offset);
    CHECK(map != SCIF_MMAP_FAILED);
    CHECK(map[0] == 'w' && map[3 * PAGE] == 'w');
    long before = waiting();
    for (int i = 0; i < WAITERS; i++)
        GIVES(pthread_create(&waiters[i].thread, NULL, wait_in_thread, &waiters[i]), 0);
    /* All but the one that fences: that waits again and again. */
    for (int tries = 0; waiting() < before + WAITERS - 1; tries++) {
        CHECK(tries < TIMEOUT_MS / 10);
        usleep(10000);
    }

    printf("LAUNCHER kill %d\n", node);
    for (int i = 0; i < WAITERS; i++)
        GIVES(pthread_join(waiters[i].thread, NULL), 0);
    GIVES(waiters[RECV].result, -1);
    CHECK(is_loss(waiters[RECV].error));
    CHECK(waiters[SEND].result > 0 ||
          (waiters[SEND].result == -1 && is_loss(waiters[SEND].error)));
    CHECK(waiters[SEND].result < 1 << 20);
    GIVES(waiters[CONNECT].result, -1);
    CHECK(is_loss(waiters[CONNECT].error));
    GIVES(waiters[POLL].result, 1);
    CHECK(waiters[POLL].error & SCIF_POLLHUP);
    GIVES(waiters[FENCE].result, -1);
    CHECK(is_loss(waiters[FENCE].error));
    for (int tries = 0; online(node) != -1; tries++) {
        CHECK(tries < TIMEOUT_MS / 10);
        usleep(10000);
    }
    struct scif_portID to = { node, 2033 };
    scif_epd_t fresh = scif_open();
    FAILS(scif_connect(fresh, &to), ENODEV);
    FAILS(scif_send(epd, "x", 1, SCIF_SEND_BLOCK), ECONNRESET);
    FAILS(scif_vreadfrom(epd, &to, 1, offset, 0), ECONNRESET);
    /* The mapping can be taken down, whatever is behind it now. */
    GIVES(scif_munmap((void *)map, 4 * PAGE), 0);
    for (int i = 0; i < WAITERS; i++)
        GIVES(scif_close(waiters[i].epd), 0);
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(listener(2033, 1)), 0);

    /* It boots again, as the same node, and all works as before. The launcher is told once: it
     * waits for the power to be off, and a node that boots must not be started again. */
    printf("LAUNCHER start %d\n", node);
    for (int tries = 0; online(node) != 2; tries++) {
        CHECK(tries < 2 * TIMEOUT_MS / 100);
        usleep(100000);
    }
    connect_to(fresh, node, 2033);
    tell(fresh, ECHO);
    expect(fresh, ECHO);
    GIVES(scif_close(fresh), 0);
}

const struct pattern patterns[] = {
    { 33, "node loss", serve_until_the_end, call_the_lost },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
