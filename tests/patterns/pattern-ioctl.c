/* The calls once more by ioctl, as programs do that were written for the character device and not
 * for its library. pattern-posted.c is the same with the header's older shape. */
#include "pattern.h"

#include <signal.h>
#include <sys/ioctl.h>

#ifdef SCIF_IOCTL_POSTED
#define ADDRESS(pointer) (pointer)
#define NUMBER 41
#else
#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))
#define NUMBER 40
#endif

#define ALL (SCIF_PROT_READ | SCIF_PROT_WRITE)

static int device(void) {
    int fd = open("/dev/scif", O_RDWR);
    CHECK(fd >= 0);
    return fd;
}

static void send_by(int fd, void *data, int length) {
    struct scifioctl_msg message = { .msg = ADDRESS(data), .len = length, .flags = 1 };
    GIVES(ioctl(fd, SCIF_SEND, &message), 0);
    GIVES(message.out_len, length);
}

static void recv_by(int fd, void *data, int length) {
    struct scifioctl_msg message = { .msg = ADDRESS(data), .len = length, .flags = 1 };
    GIVES(ioctl(fd, SCIF_RECV, &message), 0);
    GIVES(message.out_len, length);
}

static void serve_ioctl(void) {
    int on = device();
    int port = 2040;
    GIVES(ioctl(on, SCIF_BIND, &port), 0);
    GIVES(port, 2040);
    GIVES(ioctl(on, SCIF_LISTEN, 4), 0);
    struct scifioctl_accept accept = { .flags = SCIF_ACCEPT_SYNC };
    GIVES(ioctl(on, SCIF_ACCEPTREQ, &accept), 0);
    CHECK(accept.peer.port >= SCIF_PORT_RSVD);
    int fd = device();
    uint64_t handle = (uint64_t)accept.endpt;
    GIVES(ioctl(fd, SCIF_ACCEPTREG, &handle), 0);
    int other = device();
    FAILS(ioctl(other, SCIF_ACCEPTREG, &handle), ENOENT);
    GIVES(close(other), 0);
    char *memory;
    GIVES(posix_memalign((void **)&memory, PAGE, 2 * PAGE), 0);
    memset(memory, 0, 2 * PAGE);
    struct scifioctl_reg window = {
        .addr = ADDRESS(memory), .len = 2 * PAGE, .offset = 0x4000, .prot = ALL,
        .flags = SCIF_MAP_FIXED,
    };
    GIVES(ioctl(fd, SCIF_REG, &window), 0);
    GIVES(window.out_offset, 0x4000);
    send_by(fd, &window.out_offset, 8);
    char step;
    recv_by(fd, &step, 1);
    CHECK(mismatch(memory, PAGE, 40) == PAGE);
    GIVES(*(volatile uint64_t *)(memory + PAGE), 4040);
    struct scifioctl_unreg gone = { .offset = 0x4000, .len = 2 * PAGE };
    GIVES(ioctl(fd, SCIF_UNREG, &gone), 0);
    FAILS(ioctl(fd, SCIF_UNREG, &gone), ENXIO);
    send_by(fd, &step, 1);
    wait_for_end(fd);
    GIVES(close(fd), 0);
    GIVES(close(on), 0);
    free(memory);
}

static void call_ioctl(uint16_t node) {
    uint16_t nodes[8], self = 0xffff;
    int fd = device();
    GIVES(ioctl(fd, SCIF_GET_VERSION), 1);
    struct scifioctl_node_ids ids = { .nodes = ADDRESS(nodes), .self = ADDRESS(&self), .len = 8 };
    GIVES(ioctl(fd, SCIF_GET_NODEIDS, &ids), 0);
    CHECK(ids.len >= 1);
    /* As Intel's library asks for the number alone. */
    ids.len = 0;
    GIVES(ioctl(fd, SCIF_GET_NODEIDS, &ids), 0);
    CHECK(ids.len >= 1);
    GIVES(self, own_node());
    FAILS(ioctl(fd, 0x1234, 0), EINVAL);
    FAILS(ioctl(1, SCIF_LISTEN, 1), ENOTTY);
    FAILS(ioctl(99, SCIF_LISTEN, 1), EBADF);
    FAILS(ioctl(fd, SCIF_CONNECT, (void *)8), EFAULT);
    struct scifioctl_connect to = { .peer = { node, 2040 } };
    for (int tries = 0; ioctl(fd, SCIF_CONNECT, &to) < 0; tries++) {
        GIVES(errno, ECONNREFUSED);
        CHECK(tries < TIMEOUT_MS / 2);
        pause_shortly();
    }
    GIVES(to.self.node, self);
    CHECK(to.self.port >= SCIF_PORT_RSVD);
    int64_t remote;
    recv_by(fd, &remote, 8);
    char *memory;
    GIVES(posix_memalign((void **)&memory, PAGE, PAGE), 0);
    fill(memory, PAGE, 40);
    struct scifioctl_reg window = { .addr = ADDRESS(memory), .len = PAGE, .prot = ALL };
    GIVES(ioctl(fd, SCIF_REG, &window), 0);
    struct scifioctl_copy copy = {
        .loffset = window.out_offset, .len = PAGE, .roffset = remote, .flags = SCIF_RMA_SYNC,
    };
    GIVES(ioctl(fd, SCIF_WRITETO, &copy), 0);
    memset(memory, 0, PAGE);
    GIVES(ioctl(fd, SCIF_READFROM, &copy), 0);
    CHECK(mismatch(memory, PAGE, 40) == PAGE);
    char plain[100];
    copy.addr = ADDRESS((uint8_t *)plain);
    copy.len = sizeof plain;
    GIVES(ioctl(fd, SCIF_VREADFROM, &copy), 0);
    CHECK(mismatch(plain, sizeof plain, 40) == sizeof plain);
    GIVES(ioctl(fd, SCIF_VWRITETO, &copy), 0);
    struct scifioctl_fence_signal signal = {
        .roff = remote + PAGE, .rval = 4040, .flags = SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_REMOTE,
    };
    GIVES(ioctl(fd, SCIF_FENCE_SIGNAL, &signal), 0);
    int mark = -1;
    struct scifioctl_fence_mark fence = { .flags = SCIF_FENCE_INIT_SELF, .mark = ADDRESS(&mark) };
    GIVES(ioctl(fd, SCIF_FENCE_MARK, &fence), 0);
    CHECK(mark >= 0);
    GIVES(ioctl(fd, SCIF_FENCE_WAIT, mark), 0);
    send_by(fd, "s", 1);
    char step;
    recv_by(fd, &step, 1);
    GIVES(close(fd), 0);
    free(memory);
}

static void *blocked_accept(void *on) {
    struct scifioctl_accept accept = { .flags = SCIF_ACCEPT_SYNC };
    FAILS(ioctl(*(int *)on, SCIF_ACCEPTREQ, &accept), EINTR);
    return NULL;
}

static void nothing(int number) {
    (void)number;
}

/* Starts a thread that waits for a connection. */
static pthread_t begin_accept(int *on) {
    long before = waiting();
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, blocked_accept, on), 0);
    for (int tries = 0; waiting() <= before; tries++) {
        CHECK(tries < TIMEOUT_MS / 2);
        pause_shortly();
    }
    return thread;
}

/* A handler ends a wait for a connection. A listener is closed while another thread waits for one;
 * the port is free at once. */
static void call_close_accept(uint16_t node) {
    (void)node;
    int port = 2042;
    int on = device();
    GIVES(ioctl(on, SCIF_BIND, &port), 0);
    GIVES(ioctl(on, SCIF_LISTEN, 1), 0);
    struct sigaction action = { .sa_handler = nothing };
    GIVES(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t thread = begin_accept(&on);
    GIVES(pthread_kill(thread, SIGUSR1), 0);
    GIVES(pthread_join(thread, NULL), 0);
    thread = begin_accept(&on);
    GIVES(close(on), 0);
    GIVES(pthread_join(thread, NULL), 0);
    on = device();
    GIVES(ioctl(on, SCIF_BIND, &port), 0);
    GIVES(close(on), 0);
}

const struct pattern patterns[] = {
    { NUMBER, "the character device's interface", serve_ioctl, call_ioctl },
    { NUMBER + 2, "close a listener of that interface", NULL, call_close_accept },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
