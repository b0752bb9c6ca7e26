/* What threads wait for: read-write locks, barriers, spin locks, semaphores, C11's threads. */
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 2000

static const struct timespec past = { 1, 0 };

static struct timespec soon(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 20000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return end;
}

static void together(void *(*main)(void *), int count) {
    pthread_t threads[THREADS];
    for (long i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, main, (void *)i) == 0);
    for (int i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long guarded[2];
static int readers, most_readers;

static void *read_and_write(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        if ((i + (long)argument) % 4 == 0) {
            CHECK(pthread_rwlock_wrlock(&lock) == 0);
            guarded[0]++;
            if (i % 64 == 0)
                sched_yield();
            guarded[1]++;
        } else {
            CHECK(pthread_rwlock_rdlock(&lock) == 0);
            int now = __atomic_add_fetch(&readers, 1, __ATOMIC_RELAXED);
            if (now > __atomic_load_n(&most_readers, __ATOMIC_RELAXED))
                __atomic_store_n(&most_readers, now, __ATOMIC_RELAXED);
            if (guarded[0] != guarded[1])
                CHECK(!"a reader beside a writer");
            if (i % 64 == 1)
                sched_yield();
            __atomic_sub_fetch(&readers, 1, __ATOMIC_RELAXED);
        }
        CHECK(pthread_rwlock_unlock(&lock) == 0);
    }
    return NULL;
}

static void *cannot_lock(void *argument) {
    struct timespec end = soon();
    CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY && pthread_rwlock_trywrlock(&lock) == EBUSY);
    CHECK(pthread_rwlock_timedrdlock(&lock, &end) == ETIMEDOUT);
    CHECK(pthread_rwlock_timedwrlock(&lock, &past) == ETIMEDOUT);
    return argument;
}

static void read_write_locks(void) {
    together(read_and_write, THREADS);
    CHECK(guarded[0] == THREADS * ROUNDS / 4 && guarded[0] == guarded[1] && most_readers >= 1);
    CHECK(pthread_rwlock_wrlock(&lock) == 0 && pthread_rwlock_destroy(&lock) == EBUSY);
    together(cannot_lock, 1);
    CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_unlock(&lock) == EPERM);
    CHECK(pthread_rwlock_rdlock(&lock) == 0 && pthread_rwlock_tryrdlock(&lock) == 0);
    CHECK(pthread_rwlock_trywrlock(&lock) == EBUSY && pthread_rwlock_unlock(&lock) == 0);
    CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_trywrlock(&lock) == 0);
    CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_destroy(&lock) == 0);
    CHECK(pthread_rwlock_init(&lock, NULL) == 0);
}

static pthread_barrier_t *barrier;
static int serial, step[THREADS];

static void *meet(void *argument) {
    for (int i = 1; i <= ROUNDS / 4; i++) {
        step[(long)argument] = i;
        int first = pthread_barrier_wait(barrier);
        for (int other = 0; other < THREADS; other++)
            if (step[other] != i)
                CHECK(!"a thread went ahead");
        CHECK(first == 0 || first == PTHREAD_BARRIER_SERIAL_THREAD);
        if (first)
            serial++;
        pthread_barrier_wait(barrier);
    }
    return NULL;
}

static void barriers(void) {
    barrier = malloc(sizeof *barrier);
    CHECK(pthread_barrier_init(barrier, NULL, 0) == EINVAL);
    CHECK(pthread_barrier_init(barrier, NULL, THREADS) == 0);
    together(meet, THREADS);
    CHECK(serial == ROUNDS / 4 && pthread_barrier_destroy(barrier) == 0);
    CHECK(pthread_barrier_init(barrier, NULL, 1) == 0);
    CHECK(pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
    CHECK(pthread_barrier_destroy(barrier) == 0);
    free(barrier);
}

static pthread_spinlock_t spin;
static long spun;

static void *spin_and_count(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_spin_lock(&spin) == 0);
        spun++;
        CHECK(pthread_spin_unlock(&spin) == 0);
    }
    return argument;
}

static void spin_locks(void) {
    CHECK(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    together(spin_and_count, THREADS);
    CHECK(spun == THREADS * ROUNDS && pthread_spin_trylock(&spin) == 0);
    CHECK(pthread_spin_trylock(&spin) == EBUSY && pthread_spin_unlock(&spin) == 0);
    CHECK(pthread_spin_destroy(&spin) == 0);
}

static sem_t items, rooms;
static long taken;

static void *produce_or_consume(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        if ((long)argument % 2) {
            CHECK(sem_wait(&rooms) == 0 && sem_post(&items) == 0);
        } else {
            CHECK(sem_wait(&items) == 0);
            __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
            CHECK(sem_post(&rooms) == 0);
        }
    }
    return NULL;
}

static void semaphores(void) {
    int count = -1;
    CHECK(sem_init(&items, 0, 0) == 0 && sem_init(&rooms, 0, 3) == 0);
    together(produce_or_consume, THREADS);
    CHECK(taken == THREADS / 2 * ROUNDS && sem_getvalue(&items, &count) == 0 && count == 0);
    CHECK(sem_getvalue(&rooms, &count) == 0 && count == 3);
    FAILS(sem_trywait(&items), EAGAIN);
    struct timespec end = soon(), wrong = { 0, -1 };
    FAILS(sem_timedwait(&items, &end), ETIMEDOUT);
    FAILS(sem_timedwait(&items, &wrong), EINVAL);
    CHECK(sem_timedwait(&rooms, &wrong) == 0 && sem_trywait(&rooms) == 0);
    FAILS(sem_init(&items, 0, 1U + SEM_VALUE_MAX), EINVAL);
    CHECK(sem_init(&items, 0, SEM_VALUE_MAX) == 0);
    FAILS(sem_post(&items), EOVERFLOW);
    CHECK(sem_destroy(&items) == 0 && sem_destroy(&rooms) == 0);
}

static mtx_t mutex;
static cnd_t condition;
static tss_t key;
static int turn, destroyed, once;

static void destroy(void *value) {
    __atomic_fetch_add(&destroyed, *(int *)value, __ATOMIC_RELAXED);
}

static void count_once(void) {
    once++;
}

static int take_turns(void *argument) {
    static once_flag flag = ONCE_FLAG_INIT;
    int own = *(int *)argument;
    call_once(&flag, count_once);
    CHECK(tss_set(key, argument) == thrd_success && tss_get(key) == argument);
    for (int i = 0; i < 100; i++) {
        CHECK(mtx_lock(&mutex) == thrd_success);
        while (turn % 2 != own - 1)
            CHECK(cnd_wait(&condition, &mutex) == thrd_success);
        turn++;
        CHECK(cnd_broadcast(&condition) == thrd_success && mtx_unlock(&mutex) == thrd_success);
    }
    if (own == 2)
        thrd_exit(-own);
    return -own;
}

static int holds(void *argument) {
    struct timespec end = soon();
    CHECK(mtx_trylock(&mutex) == thrd_busy && mtx_timedlock(&mutex, &end) == thrd_timedout);
    return argument != NULL;
}

static void c11(void) {
    static int numbers[2] = { 1, 2 };
    thrd_t threads[2];
    CHECK(mtx_init(&mutex, mtx_timed) == thrd_success && cnd_init(&condition) == thrd_success);
    CHECK(tss_create(&key, destroy) == thrd_success);
    for (int i = 0; i < 2; i++)
        CHECK(thrd_create(&threads[i], take_turns, &numbers[i]) == thrd_success);
    for (int i = 0; i < 2; i++) {
        int status = 0;
        CHECK(thrd_join(threads[i], &status) == thrd_success && status == -i - 1);
    }
    CHECK(turn == 200 && destroyed == 3 && once == 1);
    tss_delete(key);
    CHECK(mtx_lock(&mutex) == thrd_success);
    CHECK(thrd_create(&threads[0], holds, NULL) == thrd_success);
    CHECK(thrd_join(threads[0], NULL) == thrd_success);
    struct timespec end = soon();
    CHECK(cnd_timedwait(&condition, &mutex, &end) == thrd_timedout);
    CHECK(mtx_unlock(&mutex) == thrd_success && thrd_equal(thrd_current(), thrd_current()));
    mtx_destroy(&mutex);
    CHECK(mtx_init(&mutex, mtx_plain | mtx_recursive) == thrd_success);
    CHECK(mtx_lock(&mutex) == thrd_success && mtx_trylock(&mutex) == thrd_success);
    CHECK(mtx_unlock(&mutex) == thrd_success && mtx_unlock(&mutex) == thrd_success);
    struct timespec shortly = { 0, 1000 }, wrong = { -1, 0 };
    CHECK(thrd_sleep(&shortly, NULL) == 0 && thrd_sleep(&wrong, NULL) < 0);
    thrd_yield();
}

static sem_t go, seen;
static pid_t id;
static cpu_set_t found;

static void *on_its_processor(void *argument) {
    id = gettid();
    sem_post(&seen);
    sem_wait(&go);
    CHECK(sched_getaffinity(0, sizeof found, &found) == 0);
    return argument;
}

static void threads_and_processors(void) {
    pthread_attr_t attributes;
    size_t size = 0;
    int detached = -1;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 65536) == 0);
    CHECK(pthread_attr_getstacksize(&attributes, &size) == 0 && size == 65536);
    CHECK(pthread_attr_getdetachstate(&attributes, &detached) == 0);
    CHECK(detached == PTHREAD_CREATE_JOINABLE);
    CHECK(sem_init(&go, 0, 0) == 0 && sem_init(&seen, 0, 0) == 0 && gettid() == getpid());
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, on_its_processor, NULL) == 0);
    CHECK(sem_wait(&seen) == 0 && id != gettid() && id > 0);
    cpu_set_t all, one;
    CHECK(pthread_getaffinity_np(thread, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int i = CPU_SETSIZE - 1; CPU_COUNT(&one) == 0; i--)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    CHECK(pthread_setaffinity_np(thread, sizeof one, &one) == 0);
    CHECK(pthread_setname_np(thread, "short") == 0);
    CHECK(pthread_setname_np(thread, "a name that is too long") == ERANGE);
    CHECK(sem_post(&go) == 0 && pthread_join(thread, NULL) == 0 && CPU_EQUAL(&found, &one));
    CHECK(sched_getaffinity(0, sizeof found, &found) == 0 && CPU_EQUAL(&found, &all));
    /* Bound from its start. */
    CHECK(pthread_attr_getaffinity_np(&attributes, sizeof found, &found) == 0);
    CHECK(CPU_COUNT(&found) == sysconf(_SC_NPROCESSORS_ONLN));
    CPU_ZERO(&found);
    CHECK(pthread_attr_setaffinity_np(&attributes, sizeof found, &found) == EINVAL);
    CHECK(pthread_attr_setaffinity_np(&attributes, sizeof one, &one) == 0);
    CHECK(pthread_attr_getaffinity_np(&attributes, sizeof found, &found) == 0);
    CHECK(CPU_EQUAL(&found, &one));
    CPU_ZERO(&found);
    CHECK(sem_post(&go) == 0 && pthread_create(&thread, &attributes, on_its_processor, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && CPU_EQUAL(&found, &one));
    CHECK(pthread_attr_destroy(&attributes) == 0);
}

static volatile int stop;

/* Keeps heap and streams busy, so that a fork finds them in use. */
static void *busy(void *argument) {
    (void)argument;
    while (!stop) {
        char *block = malloc(100 + (size_t)rand() % 5000);
        CHECK(block != NULL);
        char text[32];
        snprintf(text, sizeof text, "%p", (void *)block);
        free(block);
    }
    return NULL;
}

/* Keeps what the library remembers busy: descriptors, directory, handlers, keys, streams, sockets. */
static void *busy_tables(void *argument) {
    (void)argument;
    while (!stop) {
        int file = open("/dev/null", O_RDWR), copy = dup(file), one = socket(AF_INET, SOCK_STREAM, 0);
        pthread_key_t key;
        char text[64];
        CHECK(file >= 0 && copy >= 0 && one >= 0);
        CHECK(getcwd(text, sizeof text) != NULL && chdir("/tmp") == 0);
        CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
        CHECK(pthread_key_create(&key, NULL) == 0 && pthread_key_delete(key) == 0);
        FILE *stream = fdopen(copy, "w");
        CHECK(stream != NULL && fputs("x", stream) >= 0 && fflush(stdout) == 0);
        CHECK(close(one) == 0 && fclose(stream) == 0 && close(file) == 0);
    }
    return NULL;
}

/* What programs do between fork and exec, and a little more. */
static int use_tables(void) {
    int file = open("/dev/null", O_RDWR), pair[2], one = socket(AF_INET, SOCK_STREAM, 0);
    pthread_key_t key;
    char text[64];
    if (file < 0 || one < 0 || pipe(pair) != 0 || dup2(file, pair[0]) != pair[0])
        return 1;
    if (chdir("/scheme") != 0 || getcwd(text, sizeof text) == NULL || strcmp(text, "/scheme") != 0)
        return 2;
    if (signal(SIGUSR1, SIG_DFL) == SIG_ERR || pthread_key_create(&key, NULL) != 0)
        return 3;
    FILE *stream = fopen("/dev/null", "w");
    if (stream == NULL || fputs("x", stream) < 0 || fclose(stream) != 0 || fflush(stdout) != 0)
        return 4;
    return close(one) == 0 && close(file) == 0 && close(pair[1]) == 0 ? 0 : 5;
}

/* Locks that other threads hold at the moment of a fork are free in the child. */
static void forks_beside_busy_tables(void) {
    pthread_t threads[2];
    stop = 0;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, busy_tables, NULL) == 0);
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        int status;
        CHECK(child >= 0);
        if (child == 0)
            _exit(use_tables());
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 0);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(chdir("/") == 0);
}

static void *sleep_until_posted(void *argument) {
    CHECK(sem_wait(argument) == 0);
    return NULL;
}

static void *in_child(void *argument) {
    return (char *)argument + 1;
}

/* What a child does: it has the process's memory and no other thread. */
static int life_of_child(pid_t parent, int *value, int from_parent) {
    char byte;
    if (read(from_parent, &byte, 1) != 1 || byte != 'p' || *value != 1)
        return 1;
    *value = 2;
    if (getppid() != parent || getpid() == parent)
        return 2;
    char *block = malloc(100000);
    if (block == NULL)
        return 3;
    free(block);
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, in_child, "ab") != 0)
        return 4;
    if (pthread_join(thread, &result) != 0 || *(char *)result != 'b')
        return 5;
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(9);
    int status;
    if (grandchild < 0 || waitpid(grandchild, &status, 0) != grandchild)
        return 6;
    return WIFEXITED(status) && WEXITSTATUS(status) == 9 ? 42 : 7;
}

static void forks(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, busy, NULL) == 0);
    pid_t own = getpid();
    for (int i = 0; i < 10; i++) {
        int *value = malloc(sizeof *value), to_child[2], status;
        CHECK(value != NULL && pipe(to_child) == 0);
        *value = 1;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(life_of_child(own, value, to_child[0]));
        /* Descriptors are the child's own: it still has the end that is closed here. */
        CHECK(close(to_child[0]) == 0 && write(to_child[1], "p", 1) == 1);
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 42 && *value == 1 && getpid() == own);
        CHECK(close(to_child[1]) == 0);
        free(value);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    /* A thread that sleeps while another one forks is woken afterwards: its word has not moved. */
    pthread_t sleeper;
    void *page = NULL; /* Of its own, so that the child does not write to it first. */
    CHECK(posix_memalign(&page, 4096, 4096) == 0);
    sem_t *alone = page;
    CHECK(sem_init(alone, 0, 0) == 0);
    CHECK(pthread_create(&sleeper, NULL, sleep_until_posted, alone) == 0);
    while (*(volatile unsigned long *)alone >> 32 == 0)
        sched_yield();
    usleep(20000); /* From there into the system. */
    int until[2], ended;
    CHECK(pipe(until) == 0);
    pid_t copy = fork();
    CHECK(copy >= 0);
    if (copy == 0) {
        char byte;
        CHECK(close(until[1]) == 0);
        _exit(read(until[0], &byte, 1) == 0 ? 0 : 1);
    }
    CHECK(sem_post(alone) == 0 && pthread_join(sleeper, NULL) == 0);
    free(page);
    CHECK(close(until[0]) == 0 && close(until[1]) == 0);
    CHECK(waitpid(copy, &ended, 0) == copy && WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    /* A child that runs another program. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("/scheme/initfs/bin/sh", "sh", "-c", "exit 23", NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 23);
}

static void kinds_of_mutexes(void) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    CHECK(sizeof mutex == 12 && sizeof(pthread_cond_t) == 8 && sizeof(pthread_rwlock_t) == 4);
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_settype(&attributes, 17) == EINVAL);
    CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE) == 0);
    CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
    int taken = 0;
    while (pthread_mutex_lock(&mutex) == 0)
        taken++;
    CHECK(taken == 65536 && pthread_mutex_lock(&mutex) == EAGAIN);
    while (pthread_mutex_unlock(&mutex) == 0)
        taken--;
    CHECK(taken == 0 && pthread_mutex_unlock(&mutex) == EPERM);
    CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutex_init(&mutex, &attributes) == 0 && pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_lock(&mutex) == EDEADLK && pthread_mutex_trylock(&mutex) == EBUSY);
    CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == EPERM);
}

static pthread_key_t keys[PTHREAD_KEYS_MAX + 1];

static void *own_values(void *all) {
    int count = *(int *)all;
    for (int at = 0; at < count; at++)
        CHECK(pthread_getspecific(keys[at]) == NULL && pthread_setspecific(keys[at], all) == 0);
    return NULL;
}

/* As many keys as the header promises, and no fewer than POSIX does. */
static void all_keys(void) {
    pthread_t thread;
    int count = 0, values[PTHREAD_KEYS_MAX + 1];
    while (count <= PTHREAD_KEYS_MAX && pthread_key_create(&keys[count], NULL) == 0) {
        CHECK(pthread_setspecific(keys[count], &values[count]) == 0);
        count++;
    }
    CHECK(count >= _POSIX_THREAD_KEYS_MAX && count <= PTHREAD_KEYS_MAX);
    CHECK(pthread_key_create(&keys[count], NULL) == EAGAIN);
    CHECK(pthread_create(&thread, NULL, own_values, &count) == 0 && pthread_join(thread, NULL) == 0);
    for (int at = 0; at < count; at++)
        CHECK(pthread_getspecific(keys[at]) == &values[at] && pthread_key_delete(keys[at]) == 0);
}

static void *return_argument(void *argument) {
    return argument;
}

/* Threads for which there is no memory leave nothing: more of them than a machine can have. */
static void too_large_threads(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *result;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)1 << 47) == 0);
    for (int i = 0; i < 5000; i++)
        CHECK(pthread_create(&thread, &attributes, return_argument, NULL) == EAGAIN);
    CHECK(pthread_create(&thread, NULL, return_argument, &thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == &thread);
    CHECK(pthread_attr_destroy(&attributes) == 0);
}

/* Threads of a program that is replaced: each counts, and uses what the library guards. */
static volatile long *counts;

static void *count_for_ever(void *argument) {
    for (;;) {
        free(malloc(64 + (size_t)argument));
        counts[(long)argument]++;
    }
    return NULL;
}

static char *own_path, pipe_end[16];

static void *become_another(void *unused) {
    execl(own_path, own_path, "another", pipe_end, (char *)NULL);
    _exit(7);
    return unused;
}

/* exec by the first thread and by another one, beside threads that work: they end, and the process
 * goes on as the new program alone. */
static void exec_among_threads(void) {
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counts != MAP_FAILED);
    for (int round = 0; round < 6; round++) {
        int ready[2], ended;
        char byte = 0;
        CHECK(pipe(ready) == 0);
        snprintf(pipe_end, sizeof pipe_end, "%d", ready[1]);
        pid_t process = fork();
        if (process == 0) {
            pthread_t thread;
            for (long i = 0; i < THREADS - 1; i++)
                if (pthread_create(&thread, NULL, count_for_ever, (void *)i) != 0)
                    _exit(6);
            while (counts[0] == 0 || counts[THREADS - 2] == 0)
                sched_yield();
            if (round % 2 == 0)
                become_another(NULL);
            if (pthread_create(&thread, NULL, become_another, NULL) != 0)
                _exit(6);
            count_for_ever((void *)(THREADS - 1L));
        }
        CHECK(close(ready[1]) == 0);
        CHECK(read(ready[0], &byte, 1) == 1 && byte == 'r');
        long before[THREADS];
        memcpy(before, (const void *)counts, sizeof before);
        usleep(30000);
        CHECK(memcmp(before, (const void *)counts, sizeof before) == 0);
        CHECK(kill(process, 0) == 0 && close(ready[0]) == 0);
        CHECK(kill(process, SIGTERM) == 0);
        CHECK(waitpid(process, &ended, 0) == process);
        CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGTERM);
        memset((void *)counts, 0, sizeof before);
    }
    CHECK(munmap((void *)counts, 4096) == 0);
}

/* The program that `exec_among_threads` starts. */
static int another(int pipe) {
    if (write(pipe, "r", 1) != 1)
        return 5;
    for (;;)
        pause();
}

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "another"))
        return another(atoi(arguments[2]));
    own_path = arguments[0];
    exec_among_threads();
    too_large_threads();
    all_keys();
    read_write_locks();
    barriers();
    spin_locks();
    semaphores();
    c11();
    threads_and_processors();
    kinds_of_mutexes();
    forks();
    forks_beside_busy_tables();
    return finish("threads");
}
