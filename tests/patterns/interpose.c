/* A program that defines some functions of the libraries itself: the linker takes its own, also for
 * those calls that would come from the same object as others it needs. */
#include "library.h"

#include <fcntl.h>
#include <poll.h>
#include <scif.h>
#include <stdlib.h>
#include <sys/ioctl.h>

static int opened, sent, polled;

/* Counted, then done by the ioctl interface. */
scif_epd_t scif_open(void) {
    opened++;
    return open("/dev/scif", O_RDWR);
}

int scif_send(scif_epd_t epd, void *message, int length, int flags) {
    struct scifioctl_msg request = { .msg = (uint64_t)message, .len = length, .flags = flags };
    sent++;
    return ioctl(epd, SCIF_SEND, &request) < 0 ? -1 : request.out_len;
}

int scif_poll(struct scif_pollepd *entries, unsigned count, long limit) {
    polled++;
    return poll((struct pollfd *)entries, count, (int)limit);
}

/* Names of the C library that programs like to use for their own. */
double y1(double x) {
    return -x;
}

void warn(const char *format, ...) {
    (void)format;
}

int error(int x) {
    return x + 1;
}

int main(void) {
    scif_epd_t on = scif_open(), from = scif_open(), to;
    struct scif_portID self = { 0, 0 }, peer;
    CHECK(on >= 0 && from >= 0 && scif_get_nodeIDs(NULL, 0, &self.node) >= 1);
    int port = scif_bind(on, 0);
    CHECK(port > 0 && scif_listen(on, 1) == 0);
    self.port = (uint16_t)port;
    CHECK(fcntl(from, F_SETFL, O_NONBLOCK) == 0);
    FAILS(scif_connect(from, &self), EINPROGRESS);
    CHECK(scif_accept(on, &peer, &to, SCIF_ACCEPT_SYNC) == 0);
    struct scif_pollepd entry = { from, SCIF_POLLOUT, 0 };
    CHECK(scif_poll(&entry, 1, -1) == 1);
    CHECK(scif_connect(from, &self) > 0);
    char text[6] = "";
    CHECK(scif_send(from, (void *)"hello", 6, SCIF_SEND_BLOCK) == 6);
    CHECK(scif_recv(to, text, 6, SCIF_RECV_BLOCK) == 6 && !strcmp(text, "hello"));
    CHECK(scif_close(from) == 0 && scif_close(to) == 0 && scif_close(on) == 0);
    CHECK(opened == 2 && sent == 1 && polled == 1);
    warn("not printed");
    /* A compiler knows this name, too. */
    volatile double two = 2.0;
    CHECK(y1(two) == -2.0 && error(1) == 2);
    return finish("interpose");
}
