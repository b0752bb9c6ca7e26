/* Time in microseconds. */
#ifndef _SYS_TIME_H
#define _SYS_TIME_H
#include <sys/types.h>

struct timeval {
    time_t tv_sec;
    suseconds_t tv_usec;
};

struct timezone {
    int tz_minuteswest;
    int tz_dsttime;
};

#define timerclear(t) ((t)->tv_sec = (t)->tv_usec = 0)
#define timerisset(t) ((t)->tv_sec || (t)->tv_usec)
#define timercmp(a, b, op) \
    ((a)->tv_sec == (b)->tv_sec ? (a)->tv_usec op (b)->tv_usec : (a)->tv_sec op (b)->tv_sec)
#define timeradd(a, b, result)                                \
    do {                                                      \
        (result)->tv_sec = (a)->tv_sec + (b)->tv_sec;         \
        (result)->tv_usec = (a)->tv_usec + (b)->tv_usec;      \
        if ((result)->tv_usec >= 1000000) {                   \
            (result)->tv_sec++;                               \
            (result)->tv_usec -= 1000000;                     \
        }                                                     \
    } while (0)
#define timersub(a, b, result)                                \
    do {                                                      \
        (result)->tv_sec = (a)->tv_sec - (b)->tv_sec;         \
        (result)->tv_usec = (a)->tv_usec - (b)->tv_usec;      \
        if ((result)->tv_usec < 0) {                          \
            (result)->tv_sec--;                               \
            (result)->tv_usec += 1000000;                     \
        }                                                     \
    } while (0)

#define TIMEVAL_TO_TIMESPEC(from, to)                         \
    ((void)((to)->tv_sec = (from)->tv_sec, (to)->tv_nsec = (from)->tv_usec * 1000))
#define TIMESPEC_TO_TIMEVAL(to, from)                         \
    ((void)((to)->tv_sec = (from)->tv_sec, (to)->tv_usec = (from)->tv_nsec / 1000))

struct itimerval {
    struct timeval it_interval;
    struct timeval it_value;
};

/* The only timer; the others are EINVAL. */
#define ITIMER_REAL 0
#define ITIMER_VIRTUAL 1
#define ITIMER_PROF 2

__BEGIN_DECLS
int getitimer(int which, struct itimerval *place);
int setitimer(int which, const struct itimerval *timer, struct itimerval *old);
int gettimeofday(struct timeval *time, void *zone);
int utimes(const char *path, const struct timeval times[2]);
int lutimes(const char *path, const struct timeval times[2]);
int futimes(int fd, const struct timeval times[2]);
__END_DECLS
#include <sys/select.h>
#endif
