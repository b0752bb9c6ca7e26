/* select, over poll. */
#ifndef _SYS_SELECT_H
#define _SYS_SELECT_H
#include <sys/types.h>
#include <sys/time.h>

#define FD_SETSIZE 1024

typedef struct {
    unsigned long __words[FD_SETSIZE / 64];
} fd_set;

#define FD_ZERO(set)                                          \
    do {                                                      \
        for (int __i = 0; __i < FD_SETSIZE / 64; __i++)       \
            (set)->__words[__i] = 0;                          \
    } while (0)
#define FD_SET(fd, set) ((void)((set)->__words[(fd) / 64] |= 1UL << ((fd) % 64)))
#define FD_CLR(fd, set) ((void)((set)->__words[(fd) / 64] &= ~(1UL << ((fd) % 64))))
#define FD_ISSET(fd, set) ((int)((set)->__words[(fd) / 64] >> ((fd) % 64) & 1))

__BEGIN_DECLS
int select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
           struct timeval *limit);
/* The thread blocks the signals of the mask, and no others, while it waits. */
int pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
            const struct timespec *limit, const void *mask);
__END_DECLS
#endif
