/* Time that the process has run, in ticks: `sysconf(_SC_CLK_TCK)` of them are a second. */
#ifndef _SYS_TIMES_H
#define _SYS_TIMES_H
#include <time.h>

struct tms {
    clock_t tms_utime;
    clock_t tms_stime;
    clock_t tms_cutime;
    clock_t tms_cstime;
};

__BEGIN_DECLS
/* The ticks since the node has started. All time counts as the program's own, and that of children
   is not known. */
clock_t times(struct tms *place);
__END_DECLS
#endif
