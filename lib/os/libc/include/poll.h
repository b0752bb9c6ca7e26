/* Waiting for several descriptors, SCIF endpoints and others together. */
#ifndef _POLL_H
#define _POLL_H
#include <features.h>

#define POLLIN 0x0001
#define POLLPRI 0x0002
#define POLLOUT 0x0004
#define POLLERR 0x0008
#define POLLHUP 0x0010
#define POLLNVAL 0x0020
#define POLLRDNORM 0x0040
#define POLLWRNORM 0x0100
/* The peer of a socket sends nothing any more. */
#define POLLRDHUP 0x2000

typedef unsigned long nfds_t;

struct pollfd {
    int fd;
    short events;
    short revents;
};

struct timespec;

__BEGIN_DECLS
int poll(struct pollfd *fds, nfds_t count, int milliseconds);
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const void *mask);
__END_DECLS
#endif
