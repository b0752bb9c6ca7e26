/* The scheduler. */
#ifndef _SCHED_H
#define _SCHED_H
#include <features.h>
__BEGIN_DECLS
int sched_yield(void);
__END_DECLS
#endif
