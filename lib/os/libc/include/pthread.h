/* Threads, mutexes, conditions, read-write locks, barriers, spin locks, keys. */
#ifndef _PTHREAD_H
#define _PTHREAD_H
#include <sys/types.h>
#include <sched.h>
#include <time.h>

typedef unsigned long pthread_key_t;
typedef unsigned pthread_once_t;

typedef struct {
    int __kind;
    int __shared;
    int __reserved[3];
} pthread_mutexattr_t;

typedef struct {
    int __clock;
    int __shared;
} pthread_condattr_t;

typedef struct {
    size_t __stack_size;
    unsigned char __detached, __policy, __is_explicit, __reserved;
    unsigned short __is_bound;
    unsigned short __guard;
    unsigned long __processors[2];
} pthread_attr_t;

typedef struct {
    unsigned __state;
    unsigned __owner;
    unsigned short __kind;
    unsigned short __depth;
} pthread_mutex_t;

typedef struct {
    unsigned __sequence;
    int __clock;
} pthread_cond_t;


typedef struct {
    int __shared;
} pthread_rwlockattr_t;

typedef struct {
    int __shared;
} pthread_barrierattr_t;

typedef unsigned pthread_spinlock_t;

typedef struct {
    unsigned __state;
} pthread_rwlock_t;

typedef struct {
    unsigned __wanted;
    unsigned __arrived;
    unsigned __round;
    unsigned __inside;
    unsigned __reserved[2];
} pthread_barrier_t;

#define PTHREAD_MUTEX_DEFAULT 0
#define PTHREAD_MUTEX_ERRORCHECK 1
#define PTHREAD_MUTEX_NORMAL 2
#define PTHREAD_MUTEX_RECURSIVE 3
#define PTHREAD_CREATE_JOINABLE 0
#define PTHREAD_CREATE_DETACHED 1
#define PTHREAD_INHERIT_SCHED 0
#define PTHREAD_EXPLICIT_SCHED 1
#define PTHREAD_SCOPE_SYSTEM 0
#define PTHREAD_SCOPE_PROCESS 1
#define PTHREAD_MUTEX_INITIALIZER { 0, 0, 0, 0 }
#define PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP { 0, 0, PTHREAD_MUTEX_RECURSIVE, 0 }
#define PTHREAD_COND_INITIALIZER { 0, 0 }
#define PTHREAD_RWLOCK_INITIALIZER { 0 }
#define PTHREAD_BARRIER_SERIAL_THREAD (-1)
#define PTHREAD_PROCESS_PRIVATE 0
#define PTHREAD_PROCESS_SHARED 1
#define PTHREAD_ONCE_INIT 0
/* A thread is cancelled at cancellation points only. */
#define PTHREAD_CANCEL_ENABLE 0
#define PTHREAD_CANCEL_DISABLE 1
#define PTHREAD_CANCEL_DEFERRED 0
#define PTHREAD_CANCEL_ASYNCHRONOUS 1
#define PTHREAD_CANCELED ((void *)-1)

struct __pthread_handler {
    void (*__function)(void *);
    void *__argument;
    struct __pthread_handler *__below;
};

/* Handlers that pthread_exit calls. The two stand in the same block of the program. */
#define pthread_cleanup_push(function, argument)                       \
    do {                                                               \
        struct __pthread_handler __handler;                            \
        __pthread_cleanup_push(&__handler, (function), (argument));    \
        {
#define pthread_cleanup_pop(is_called)                                 \
        }                                                              \
        __pthread_cleanup_pop(&__handler, (is_called));                \
    } while (0)

__BEGIN_DECLS
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                   void *argument);
int pthread_join(pthread_t thread, void **value);
int pthread_detach(pthread_t thread);
_Noreturn void pthread_exit(void *value);
pthread_t pthread_self(void);
int pthread_equal(pthread_t a, pthread_t b);
int pthread_cancel(pthread_t thread);
void pthread_testcancel(void);
int pthread_setcancelstate(int state, int *old);
int pthread_setcanceltype(int type, int *old);
void __pthread_cleanup_push(struct __pthread_handler *handler, void (*function)(void *),
                            void *argument);
void __pthread_cleanup_pop(struct __pthread_handler *handler, int is_called);
int pthread_attr_init(pthread_attr_t *attributes);
int pthread_attr_destroy(pthread_attr_t *attributes);
int pthread_attr_setstacksize(pthread_attr_t *attributes, size_t size);
int pthread_attr_getstacksize(const pthread_attr_t *attributes, size_t *size);
/* Below and above each stack lies a page without access: at most 4096 can be asked for. */
int pthread_attr_setguardsize(pthread_attr_t *attributes, size_t size);
int pthread_attr_getguardsize(const pthread_attr_t *attributes, size_t *size);
int pthread_attr_setdetachstate(pthread_attr_t *attributes, int detached);
int pthread_attr_getdetachstate(const pthread_attr_t *attributes, int *detached);
int pthread_attr_setschedpolicy(pthread_attr_t *attributes, int policy);
int pthread_attr_getschedpolicy(const pthread_attr_t *attributes, int *policy);
int pthread_attr_setschedparam(pthread_attr_t *attributes, const struct sched_param *parameters);
int pthread_attr_getschedparam(const pthread_attr_t *attributes, struct sched_param *parameters);
int pthread_attr_setinheritsched(pthread_attr_t *attributes, int choice);
int pthread_attr_getinheritsched(const pthread_attr_t *attributes, int *choice);
int pthread_attr_setscope(pthread_attr_t *attributes, int scope);
int pthread_attr_getscope(const pthread_attr_t *attributes, int *scope);
int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters);
int pthread_getconcurrency(void);
int pthread_setconcurrency(int level);
int pthread_getschedparam(pthread_t thread, int *policy, struct sched_param *parameters);
int pthread_setschedprio(pthread_t thread, int priority);
int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size, const cpu_set_t *set);
int pthread_attr_getaffinity_np(const pthread_attr_t *attributes, size_t size, cpu_set_t *set);
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set);
int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set);
int pthread_setname_np(pthread_t thread, const char *name);
int pthread_getname_np(pthread_t thread, char *place, size_t size);

int pthread_mutexattr_init(pthread_mutexattr_t *attributes);
int pthread_mutexattr_destroy(pthread_mutexattr_t *attributes);
int pthread_mutexattr_settype(pthread_mutexattr_t *attributes, int kind);
int pthread_mutexattr_gettype(const pthread_mutexattr_t *attributes, int *kind);
int pthread_mutexattr_setpshared(pthread_mutexattr_t *attributes, int shared);
int pthread_mutexattr_getpshared(const pthread_mutexattr_t *attributes, int *shared);
int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int pthread_mutex_destroy(pthread_mutex_t *mutex);
int pthread_mutex_lock(pthread_mutex_t *mutex);
int pthread_mutex_trylock(pthread_mutex_t *mutex);
int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *end);
int pthread_mutex_unlock(pthread_mutex_t *mutex);

int pthread_condattr_init(pthread_condattr_t *attributes);
int pthread_condattr_destroy(pthread_condattr_t *attributes);
int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock);
int pthread_condattr_getclock(const pthread_condattr_t *attributes, clockid_t *clock);
int pthread_condattr_setpshared(pthread_condattr_t *attributes, int shared);
int pthread_condattr_getpshared(const pthread_condattr_t *attributes, int *shared);
int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int pthread_cond_destroy(pthread_cond_t *condition);
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *end);
/* As pthread_cond_timedwait, with a time of this clock. */
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *end);
int pthread_cond_signal(pthread_cond_t *condition);
int pthread_cond_broadcast(pthread_cond_t *condition);

int pthread_rwlockattr_init(pthread_rwlockattr_t *attributes);
int pthread_rwlockattr_destroy(pthread_rwlockattr_t *attributes);
int pthread_rwlockattr_setpshared(pthread_rwlockattr_t *attributes, int shared);
int pthread_rwlockattr_getpshared(const pthread_rwlockattr_t *attributes, int *shared);
int pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes);
int pthread_rwlock_destroy(pthread_rwlock_t *lock);
int pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock);
int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *end);
int pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int pthread_rwlock_trywrlock(pthread_rwlock_t *lock);
int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *end);
int pthread_rwlock_unlock(pthread_rwlock_t *lock);
int pthread_barrierattr_init(pthread_barrierattr_t *attributes);
int pthread_barrierattr_destroy(pthread_barrierattr_t *attributes);
int pthread_barrierattr_setpshared(pthread_barrierattr_t *attributes, int shared);
int pthread_barrierattr_getpshared(const pthread_barrierattr_t *attributes, int *shared);
int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
                         unsigned count);
int pthread_barrier_destroy(pthread_barrier_t *barrier);
int pthread_barrier_wait(pthread_barrier_t *barrier);
int pthread_spin_init(pthread_spinlock_t *lock, int shared);
int pthread_spin_destroy(pthread_spinlock_t *lock);
int pthread_spin_lock(pthread_spinlock_t *lock);
int pthread_spin_trylock(pthread_spinlock_t *lock);
int pthread_spin_unlock(pthread_spinlock_t *lock);

int pthread_once(pthread_once_t *once, void (*action)(void));
int pthread_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int pthread_key_delete(pthread_key_t key);
int pthread_setspecific(pthread_key_t key, const void *value);
void *pthread_getspecific(pthread_key_t key);
__END_DECLS
#endif
