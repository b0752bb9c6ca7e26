/* Sets of descriptors that are waited for together, over what poll does. The structure and the
   numbers are relibc's: they are Linux's but for EPOLL_CLOEXEC and the padding at the end. */
#ifndef _SYS_EPOLL_H
#define _SYS_EPOLL_H
#include <fcntl.h>
#include <stdint.h>

#define EPOLL_CLOEXEC O_CLOEXEC

#define EPOLL_CTL_ADD 1
#define EPOLL_CTL_DEL 2
#define EPOLL_CTL_MOD 3

/* An enumeration as on Linux, where C++ takes it as one, and macros for #ifdef. */
enum EPOLL_EVENTS {
    EPOLLIN = 0x001,
#define EPOLLIN EPOLLIN
    EPOLLPRI = 0x002,
#define EPOLLPRI EPOLLPRI
    EPOLLOUT = 0x004,
#define EPOLLOUT EPOLLOUT
    EPOLLERR = 0x008,
#define EPOLLERR EPOLLERR
    EPOLLHUP = 0x010,
#define EPOLLHUP EPOLLHUP
    EPOLLRDNORM = 0x040,
#define EPOLLRDNORM EPOLLRDNORM
    EPOLLRDBAND = 0x080,
#define EPOLLRDBAND EPOLLRDBAND
    EPOLLWRNORM = 0x100,
#define EPOLLWRNORM EPOLLWRNORM
    EPOLLWRBAND = 0x200,
#define EPOLLWRBAND EPOLLWRBAND
    EPOLLMSG = 0x400,
#define EPOLLMSG EPOLLMSG
    EPOLLRDHUP = 0x2000,
#define EPOLLRDHUP EPOLLRDHUP
    EPOLLEXCLUSIVE = 1u << 28,
#define EPOLLEXCLUSIVE EPOLLEXCLUSIVE
    EPOLLWAKEUP = 1u << 29,
#define EPOLLWAKEUP EPOLLWAKEUP
    EPOLLONESHOT = 1u << 30,
#define EPOLLONESHOT EPOLLONESHOT
    EPOLLET = 1u << 31
#define EPOLLET EPOLLET
};

typedef union epoll_data {
    void *ptr;
    int fd;
    uint32_t u32;
    uint64_t u64;
} epoll_data_t;

struct epoll_event {
    uint32_t events;
    epoll_data_t data;
    uint64_t __padding;
};

struct timespec;

__BEGIN_DECLS
int epoll_create(int size);
int epoll_create1(int flags);
int epoll_ctl(int set, int operation, int fd, struct epoll_event *event);
int epoll_wait(int set, struct epoll_event *events, int count, int milliseconds);
/* No signal is delivered, so the masks hold nothing back. */
int epoll_pwait(int set, struct epoll_event *events, int count, int milliseconds,
                const void *mask);
int epoll_pwait2(int set, struct epoll_event *events, int count, const struct timespec *limit,
                 const void *mask);
__END_DECLS
#endif
