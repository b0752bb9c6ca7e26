/* The number of processors. */
#ifndef _SYS_SYSINFO_H
#define _SYS_SYSINFO_H
#include <features.h>
__BEGIN_DECLS
int get_nprocs(void);
int get_nprocs_conf(void);
__END_DECLS
#endif
