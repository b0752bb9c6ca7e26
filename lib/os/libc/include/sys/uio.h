/* Transfers in several parts. */
#ifndef _SYS_UIO_H
#define _SYS_UIO_H
#include <sys/types.h>

struct iovec {
    void *iov_base;
    size_t iov_len;
};

__BEGIN_DECLS
ssize_t readv(int fd, const struct iovec *parts, int count);
ssize_t writev(int fd, const struct iovec *parts, int count);
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset);
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset);
__END_DECLS
#endif
