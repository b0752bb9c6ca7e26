/* Time and dates; a node knows no zone but UTC. */
#ifndef _TIME_H
#define _TIME_H
#include <locale.h>
#include <sys/types.h>

#define CLOCKS_PER_SEC 1000000L
#define CLOCK_REALTIME 1
#define CLOCK_MONOTONIC 4
#define CLOCK_PROCESS_CPUTIME_ID 2
#define CLOCK_THREAD_CPUTIME_ID 3 /* EINVAL: see docs/c.md */
#define CLOCK_MONOTONIC_RAW 5
#define TIMER_ABSTIME 1
#define TIME_UTC 1

/* Of a timer: the first time, and the time between two. */
struct itimerspec {
    struct timespec it_interval;
    struct timespec it_value;
};

struct sigevent;

struct tm {
    int tm_sec;
    int tm_min;
    int tm_hour;
    int tm_mday;
    int tm_mon;
    int tm_year;
    int tm_wday;
    int tm_yday;
    int tm_isdst;
    long tm_gmtoff;
    const char *tm_zone;
};

__BEGIN_DECLS
time_t time(time_t *place);
clock_t clock(void);
double difftime(time_t end, time_t start);
int clock_gettime(clockid_t clock, struct timespec *time);
int clock_getres(clockid_t clock, struct timespec *step);
int nanosleep(const struct timespec *length, struct timespec *left);
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *length,
                    struct timespec *left);
/* The clocks are CLOCK_REALTIME and CLOCK_MONOTONIC. */
int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer);
int timer_delete(timer_t timer);
int timer_settime(timer_t timer, int flags, const struct itimerspec *times,
                  struct itimerspec *former);
int timer_gettime(timer_t timer, struct itimerspec *times);
int timer_getoverrun(timer_t timer);
int timespec_get(struct timespec *place, int base);
struct tm *gmtime(const time_t *time);
struct tm *gmtime_r(const time_t *time, struct tm *place);
struct tm *localtime(const time_t *time);
struct tm *localtime_r(const time_t *time, struct tm *place);
extern char *tzname[2];
extern long timezone;
extern int daylight;
void tzset(void);
time_t mktime(struct tm *date);
time_t timegm(struct tm *date);
char *asctime(const struct tm *date);
char *asctime_r(const struct tm *date, char *place);
char *ctime(const time_t *time);
char *ctime_r(const time_t *time, char *place);
size_t strftime(char *place, size_t size, const char *format, const struct tm *date);
char *strptime(const char *text, const char *format, struct tm *date);
size_t strftime_l(char *place, size_t size, const char *format, const struct tm *date,
                  locale_t locale);
__END_DECLS
#endif
