/* The processor's time of a process, in ticks of sysconf(_SC_CLK_TCK). */
#ifndef _SYS_TIMES_H
#define _SYS_TIMES_H
#include <sys/types.h>
#include <time.h>

/* All but tms_utime is 0. */
struct tms {
    clock_t tms_utime, tms_stime, tms_cutime, tms_cstime;
};

__BEGIN_DECLS
/* Ticks since the system has started. */
clock_t times(struct tms *place);
__END_DECLS
#endif
