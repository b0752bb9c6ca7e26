/* Semaphores between threads, and between processes. */
#ifndef _SEMAPHORE_H
#define _SEMAPHORE_H
#include <features.h>
#include <time.h>

typedef struct {
    unsigned long __state;
} sem_t;
#define SEM_FAILED ((sem_t *)0)
#define SEM_VALUE_MAX 0x7fffffff

__BEGIN_DECLS
int sem_init(sem_t *semaphore, int shared, unsigned count);
sem_t *sem_open(const char *name, int flags, ...);
int sem_close(sem_t *semaphore);
int sem_unlink(const char *name);
int sem_destroy(sem_t *semaphore);
int sem_wait(sem_t *semaphore);
int sem_trywait(sem_t *semaphore);
int sem_timedwait(sem_t *semaphore, const struct timespec *end);
int sem_post(sem_t *semaphore);
int sem_getvalue(sem_t *semaphore, int *count);
__END_DECLS
#endif
