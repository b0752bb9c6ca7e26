/* Counters that are waited for as files are. */
#ifndef _SYS_EVENTFD_H
#define _SYS_EVENTFD_H
#include <fcntl.h>
#include <stdint.h>

#define EFD_SEMAPHORE 1
#define EFD_NONBLOCK O_NONBLOCK
#define EFD_CLOEXEC O_CLOEXEC

typedef uint64_t eventfd_t;

__BEGIN_DECLS
int eventfd(unsigned int value, int flags);
int eventfd_read(int fd, eventfd_t *value);
int eventfd_write(int fd, eventfd_t value);
__END_DECLS
#endif
