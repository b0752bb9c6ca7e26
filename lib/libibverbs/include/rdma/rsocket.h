/* Stream sockets by the names of librdmacm's rsockets (docs/verbs.md). Every socket here is one over
 * RDMA: a stream is a SCIF connection, whose data path is in the program. So each function is that
 * of sys/socket.h without its first letter. Datagrams are what `socket` says of them. */
#ifndef _RDMA_RSOCKET_H
#define _RDMA_RSOCKET_H
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes, which are as they are: `rsetsockopt` takes them and changes nothing. */
#define SOL_RDMA 0x10000
enum {
    RDMA_SQSIZE,
    RDMA_RQSIZE,
    RDMA_INLINE,
    RDMA_IOMAPSIZE,
    RDMA_ROUTE
};

static inline int rsocket(int domain, int type, int protocol)
{
    return socket(domain, type, protocol);
}

static inline int rbind(int fd, const struct sockaddr *addr, socklen_t length)
{
    return bind(fd, addr, length);
}

static inline int rlisten(int fd, int backlog)
{
    return listen(fd, backlog);
}

static inline int raccept(int fd, struct sockaddr *addr, socklen_t *length)
{
    return accept(fd, addr, length);
}

static inline int rconnect(int fd, const struct sockaddr *addr, socklen_t length)
{
    return connect(fd, addr, length);
}

static inline int rshutdown(int fd, int how)
{
    return shutdown(fd, how);
}

static inline int rclose(int fd)
{
    return close(fd);
}

static inline ssize_t rrecv(int fd, void *buffer, size_t length, int flags)
{
    return recv(fd, buffer, length, flags);
}

static inline ssize_t rrecvfrom(int fd, void *buffer, size_t length, int flags,
                                struct sockaddr *addr, socklen_t *addr_length)
{
    return recvfrom(fd, buffer, length, flags, addr, addr_length);
}

static inline ssize_t rrecvmsg(int fd, struct msghdr *message, int flags)
{
    return recvmsg(fd, message, flags);
}

static inline ssize_t rsend(int fd, const void *data, size_t length, int flags)
{
    return send(fd, data, length, flags);
}

static inline ssize_t rsendto(int fd, const void *data, size_t length, int flags,
                              const struct sockaddr *addr, socklen_t addr_length)
{
    return sendto(fd, data, length, flags, addr, addr_length);
}

static inline ssize_t rsendmsg(int fd, const struct msghdr *message, int flags)
{
    return sendmsg(fd, message, flags);
}

static inline ssize_t rread(int fd, void *buffer, size_t count)
{
    return read(fd, buffer, count);
}

static inline ssize_t rreadv(int fd, const struct iovec *parts, int count)
{
    return readv(fd, parts, count);
}

static inline ssize_t rwrite(int fd, const void *data, size_t count)
{
    return write(fd, data, count);
}

static inline ssize_t rwritev(int fd, const struct iovec *parts, int count)
{
    return writev(fd, parts, count);
}

static inline int rpoll(struct pollfd *entries, nfds_t count, int timeout)
{
    return poll(entries, count, timeout);
}

static inline int rselect(int count, fd_set *readable, fd_set *writable, fd_set *other,
                          struct timeval *timeout)
{
    return select(count, readable, writable, other, timeout);
}

static inline int rgetpeername(int fd, struct sockaddr *addr, socklen_t *length)
{
    return getpeername(fd, addr, length);
}

static inline int rgetsockname(int fd, struct sockaddr *addr, socklen_t *length)
{
    return getsockname(fd, addr, length);
}

static inline int rsetsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    if (level == SOL_RDMA && option >= RDMA_SQSIZE && option <= RDMA_ROUTE)
        return 0;
    return setsockopt(fd, level, option, value, length);
}

static inline int rgetsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    return getsockopt(fd, level, option, value, length);
}

/* The third argument, for the commands that take one, is an int. */
static inline int rfcntl(int fd, int command, ...)
{
    va_list rest;
    int argument;

    if (command == F_GETFL || command == F_GETFD)
        return fcntl(fd, command);
    va_start(rest, command);
    argument = va_arg(rest, int);
    va_end(rest);
    return fcntl(fd, command, argument);
}

/* Memory that the peer of a stream may write to by an offset: there is none. `scif_register` and
 * `scif_vwriteto` (scif.h), or queue pairs, do this. */
static inline off_t riomap(int fd, void *buffer, size_t length, int protection, int flags,
                           off_t offset)
{
    (void)fd, (void)buffer, (void)length, (void)protection, (void)flags, (void)offset;
    errno = EOPNOTSUPP;
    return -1;
}

static inline int riounmap(int fd, void *buffer, size_t length)
{
    (void)fd, (void)buffer, (void)length;
    errno = EOPNOTSUPP;
    return -1;
}

static inline size_t riowrite(int fd, const void *data, size_t count, off_t offset, int flags)
{
    (void)fd, (void)data, (void)count, (void)offset, (void)flags;
    errno = EOPNOTSUPP;
    return (size_t)-1;
}

#ifdef __cplusplus
}
#endif
#endif
