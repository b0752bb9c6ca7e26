/* The scheduler: which processors a thread may run on. The number 0 and that of the calling process
 * mean the calling thread, and that of a child of fork means the child's first thread. */
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

/* Those that end in _S take sets of CPU_ALLOC, with their size in bytes. */
#define CPU_ALLOC_SIZE(count) (((size_t)(count) + 63) / 64 * sizeof(unsigned long))
#define CPU_ALLOC(count) ((cpu_set_t *)calloc(1, CPU_ALLOC_SIZE(count)))
#define CPU_FREE(set) free(set)

#define __CPU_HAS(cpu, size) ((size_t)(cpu) / 8 < (size_t)(size))
#define __CPU_BIT(cpu) (1UL << ((size_t)(cpu) % 64))
#define CPU_SET_S(cpu, size, set) \
    ((void)(__CPU_HAS(cpu, size) ? *__cpu_word(cpu, set) |= __CPU_BIT(cpu) : 0))
#define CPU_CLR_S(cpu, size, set) \
    ((void)(__CPU_HAS(cpu, size) ? *__cpu_word(cpu, set) &= ~__CPU_BIT(cpu) : 0))
#define CPU_ISSET_S(cpu, size, set) \
    (__CPU_HAS(cpu, size) ? (*__cpu_word(cpu, set) & __CPU_BIT(cpu)) != 0 : 0)
#define CPU_ZERO_S(size, set) __cpu_zero(size, set)
#define CPU_COUNT_S(size, set) __cpu_count(size, set)
#define CPU_EQUAL_S(size, a, b) __cpu_equal(size, a, b)
#define CPU_AND_S(size, to, a, b) __cpu_each(size, to, a, b, '&')
#define CPU_OR_S(size, to, a, b) __cpu_each(size, to, a, b, '|')
#define CPU_XOR_S(size, to, a, b) __cpu_each(size, to, a, b, '^')

#define CPU_SET(cpu, set) CPU_SET_S(cpu, sizeof(cpu_set_t), set)
#define CPU_CLR(cpu, set) CPU_CLR_S(cpu, sizeof(cpu_set_t), set)
#define CPU_ISSET(cpu, set) CPU_ISSET_S(cpu, sizeof(cpu_set_t), set)
#define CPU_ZERO(set) CPU_ZERO_S(sizeof(cpu_set_t), set)
#define CPU_COUNT(set) CPU_COUNT_S(sizeof(cpu_set_t), set)
#define CPU_EQUAL(a, b) CPU_EQUAL_S(sizeof(cpu_set_t), a, b)
#define CPU_AND(to, a, b) CPU_AND_S(sizeof(cpu_set_t), to, a, b)
#define CPU_OR(to, a, b) CPU_OR_S(sizeof(cpu_set_t), to, a, b)
#define CPU_XOR(to, a, b) CPU_XOR_S(sizeof(cpu_set_t), to, a, b)

/* By pointers, as a set may be shorter or longer than a cpu_set_t. */
static inline unsigned long *__cpu_word(size_t cpu, const cpu_set_t *set) {
    return (unsigned long *)(size_t)set + cpu / 64;
}

static inline void __cpu_zero(size_t size, cpu_set_t *set) {
    unsigned long *words = set->__words;
    for (size_t i = 0; i < size / sizeof *words; i++)
        words[i] = 0;
}

static inline int __cpu_count(size_t size, const cpu_set_t *set) {
    const unsigned long *words = set->__words;
    int count = 0;
    for (size_t i = 0; i < size / sizeof *words; i++)
        count += __builtin_popcountl(words[i]);
    return count;
}

static inline int __cpu_equal(size_t size, const cpu_set_t *a, const cpu_set_t *b) {
    const unsigned long *x = a->__words, *y = b->__words;
    for (size_t i = 0; i < size / sizeof *x; i++)
        if (x[i] != y[i])
            return 0;
    return 1;
}

static inline void __cpu_each(size_t size, cpu_set_t *to, const cpu_set_t *a, const cpu_set_t *b,
                              char how) {
    const unsigned long *x = a->__words, *y = b->__words;
    unsigned long *z = to->__words;
    for (size_t i = 0; i < size / sizeof *z; i++)
        z[i] = how == '&' ? x[i] & y[i] : how == '|' ? x[i] | y[i] : x[i] ^ y[i];
}

__BEGIN_DECLS
/* For the macros above. */
void *calloc(size_t count, size_t size);
void free(void *block);
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
