/* The machine: processors, memory, how long it has run. */
#ifndef _SYS_SYSINFO_H
#define _SYS_SYSINFO_H
#include <features.h>

/* Memory in units of mem_unit bytes. What is not known is 0: loads, shared and buffered memory, processes. */
struct sysinfo {
    long uptime;
    unsigned long loads[3];
    unsigned long totalram, freeram, sharedram, bufferram, totalswap, freeswap;
    unsigned short procs;
    unsigned long totalhigh, freehigh;
    unsigned mem_unit;
};

__BEGIN_DECLS
int get_nprocs(void);
int get_nprocs_conf(void);
int sysinfo(struct sysinfo *place);
__END_DECLS
#endif
