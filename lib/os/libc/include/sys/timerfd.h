/* Timers that are waited for as files are. */
#ifndef _SYS_TIMERFD_H
#define _SYS_TIMERFD_H
#include <fcntl.h>
#include <stdint.h>
#include <time.h>

#define TFD_NONBLOCK O_NONBLOCK
#define TFD_CLOEXEC O_CLOEXEC
#define TFD_TIMER_ABSTIME 1
/* Has no effect: no clock is ever set. */
#define TFD_TIMER_CANCEL_ON_SET 2

__BEGIN_DECLS
int timerfd_create(clockid_t clock, int flags);
int timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *former);
int timerfd_gettime(int fd, struct itimerspec *time);
__END_DECLS
#endif
