/* The scheduler: which processors a thread may run on. A process number must be 0 or the calling
 * process's own and means the calling thread. */
#ifndef _SCHED_H
#define _SCHED_H
#include <sys/types.h>
#include <time.h>

#define SCHED_OTHER 0
#define SCHED_FIFO 1
#define SCHED_RR 2
#define CPU_SETSIZE 256

struct sched_param {
    int sched_priority;
};

typedef struct {
    unsigned long __words[CPU_SETSIZE / 64];
} cpu_set_t;

#define __CPU_HAS(cpu) ((size_t)(cpu) < CPU_SETSIZE)
#define CPU_SET(cpu, set) \
    ((void)(__CPU_HAS(cpu) ? (set)->__words[(size_t)(cpu) / 64] |= 1UL << ((size_t)(cpu) % 64) : 0))
#define CPU_CLR(cpu, set) \
    ((void)(__CPU_HAS(cpu) ? (set)->__words[(size_t)(cpu) / 64] &= ~(1UL << ((size_t)(cpu) % 64)) : 0))
#define CPU_ISSET(cpu, set) \
    (__CPU_HAS(cpu) ? (int)((set)->__words[(size_t)(cpu) / 64] >> ((size_t)(cpu) % 64) & 1) : 0)
#define CPU_ZERO(set) __cpu_zero(set)
#define CPU_COUNT(set) __cpu_count(set)
#define CPU_EQUAL(a, b) __cpu_equal(a, b)
#define CPU_AND(to, a, b) __cpu_each(to, a, b, '&')
#define CPU_OR(to, a, b) __cpu_each(to, a, b, '|')
#define CPU_XOR(to, a, b) __cpu_each(to, a, b, '^')

static inline void __cpu_zero(cpu_set_t *set) {
    for (int i = 0; i < CPU_SETSIZE / 64; i++)
        set->__words[i] = 0;
}

static inline int __cpu_count(const cpu_set_t *set) {
    int count = 0;
    for (int i = 0; i < CPU_SETSIZE / 64; i++)
        count += __builtin_popcountl(set->__words[i]);
    return count;
}

static inline int __cpu_equal(const cpu_set_t *a, const cpu_set_t *b) {
    for (int i = 0; i < CPU_SETSIZE / 64; i++)
        if (a->__words[i] != b->__words[i])
            return 0;
    return 1;
}

static inline void __cpu_each(cpu_set_t *to, const cpu_set_t *a, const cpu_set_t *b, char how) {
    for (int i = 0; i < CPU_SETSIZE / 64; i++) {
        unsigned long x = a->__words[i], y = b->__words[i];
        to->__words[i] = how == '&' ? x & y : how == '|' ? x | y : x ^ y;
    }
}

__BEGIN_DECLS
int sched_yield(void);
int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set);
int sched_setaffinity(pid_t process, size_t size, const cpu_set_t *set);
int sched_getcpu(void);
int sched_get_priority_min(int policy);
int sched_get_priority_max(int policy);
/* All programs have SCHED_OTHER with priority 0; the other policies are EPERM. */
int sched_getscheduler(pid_t process);
int sched_setscheduler(pid_t process, int policy, const struct sched_param *parameters);
int sched_getparam(pid_t process, struct sched_param *parameters);
int sched_setparam(pid_t process, const struct sched_param *parameters);
int sched_rr_get_interval(pid_t process, struct timespec *interval);
__END_DECLS
#endif
