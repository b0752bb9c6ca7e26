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

__BEGIN_DECLS
int gettimeofday(struct timeval *time, void *zone);
int utimes(const char *path, const struct timeval times[2]);
__END_DECLS
#include <sys/select.h>
#endif
