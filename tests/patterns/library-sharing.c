/*
 * What processes share: files that are mapped with MAP_SHARED, memory and semaphores with a name
 * (`shm_open`, `sem_open`), and the locks of `pthread.h` in such memory. A child is a process of
 * its own by `fork`, or this program started again.
 */
#include "library.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PAGE = 4096, ROUNDS = 2000, CHILDREN = 3 };

static const char *const path = "/tmp/library-sharing";
#define BOTH (PROT_READ | PROT_WRITE)

static void *map(int file, size_t length, int protection, off_t offset) {
    return mmap(NULL, length, protection, MAP_SHARED, file, offset);
}

static int status_of(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static long size_of(int file) {
    struct stat stat_of;
    CHECK(fstat(file, &stat_of) == 0);
    return stat_of.st_size;
}

/* What is stored through a mapping is in the file, and what is written to the file is mapped. */
static void files(void) {
    char text[16] = "";
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "in the file", 11) == 11);
    char *one = map(file, PAGE, BOTH, 0), *other = map(file, PAGE, PROT_READ, 0);
    CHECK(one != MAP_FAILED && other != MAP_FAILED && one != other);
    CHECK(!strcmp(one, "in the file") && !strcmp(other, one));
    memcpy(one, "IN", 2);
    CHECK(!memcmp(other, "IN the", 6) && pread(file, text, 6, 0) == 6 && !memcmp(text, "IN the", 6));
    CHECK(pwrite(file, "THE", 3, 3) == 3 && !strcmp(one, "IN THE file"));
    /* A copy of one's own is apart from both. */
    char *own = mmap(NULL, PAGE, BOTH, MAP_PRIVATE, file, 0);
    CHECK(own != MAP_FAILED && !strcmp(own, one));
    own[0] = 'o';
    CHECK(one[0] == 'I' && pwrite(file, "X", 1, 1) == 1 && own[1] == 'N' && one[1] == 'X');
    CHECK(munmap(own, PAGE) == 0 && munmap(other, PAGE) == 0);
    /* Another opening, and the mapping after its descriptor is closed. */
    int again = open(path, O_RDONLY);
    other = map(again, PAGE, PROT_READ, 0);
    CHECK(other != MAP_FAILED && close(again) == 0 && close(file) == 0);
    one[0] = 'Y';
    CHECK(other[0] == 'Y' && msync(one, PAGE, MS_SYNC) == 0);
    /* A file without a name lives as long as it is mapped. */
    CHECK(unlink(path) == 0);
    one[1] = 'Z';
    CHECK(other[1] == 'Z' && munmap(one, PAGE) == 0 && !memcmp(other, "YZ THE", 6));
    CHECK(munmap(other, PAGE) == 0);
}

/* A file that changes its length under its mappings. */
static void lengths(void) {
    char bytes[PAGE];
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(ftruncate(file, 3 * PAGE) == 0);
    char *pages = map(file, 3 * PAGE, BOTH, 0);
    CHECK(pages != MAP_FAILED && pages[0] == 0 && pages[3 * PAGE - 1] == 0);
    memset(pages, 'a', 3 * PAGE);
    CHECK(pread(file, bytes, PAGE, 2 * PAGE) == PAGE && bytes[0] == 'a' && bytes[PAGE - 1] == 'a');
    /* The last page alone, and beyond the end. */
    char *last = map(file, 2 * PAGE, BOTH, 2 * PAGE);
    CHECK(last != MAP_FAILED && last[1] == 'a' && last[PAGE] == 0);
    last[0] = 'l';
    CHECK(pages[2 * PAGE] == 'l' && size_of(file) == 3 * PAGE);
    /* What was cut off, and what is stored beyond the end, is zero when the file grows. */
    CHECK(ftruncate(file, 10) == 0 && pread(file, bytes, PAGE, 0) == 10);
    pages[10] = 'x';
    last[PAGE] = 'y';
    CHECK(ftruncate(file, 4 * PAGE) == 0 && pages[9] == 'a' && pages[10] == 0 && pages[PAGE] == 0);
    CHECK(last[PAGE] == 0);
    CHECK(ftruncate(file, 20) == 0);
    pages[30] = 'x';
    CHECK(pwrite(file, "w", 1, 40) == 1 && pages[30] == 0 && pages[40] == 'w');
    CHECK(pread(file, bytes, PAGE, 0) == 41 && bytes[30] == 0 && bytes[9] == 'a');
    /* Written and read far behind what is mapped. */
    CHECK(pwrite(file, "far", 3, 100 * PAGE) == 3 && pread(file, bytes, 8, 100 * PAGE) == 3);
    CHECK(!memcmp(bytes, "far", 3) && pread(file, bytes, 1, 50 * PAGE) == 1 && bytes[0] == 0);
    char *far = map(file, PAGE, PROT_READ, 100 * PAGE);
    CHECK(far != MAP_FAILED && !memcmp(far, "far", 4) && munmap(far, PAGE) == 0);
    /* The middle of a mapping is taken out; the rest stays. */
    CHECK(munmap(pages + PAGE, PAGE) == 0);
    pages[0] = 'b';
    pages[2 * PAGE] = 'c';
    CHECK(pread(file, bytes, 1, 0) == 1 && bytes[0] == 'b' && last[0] == 'c');
    CHECK(munmap(pages, PAGE) == 0 && munmap(pages + 2 * PAGE, PAGE) == 0);
    CHECK(munmap(last, 2 * PAGE) == 0);
    /* What is stored behind the end is lost when nobody has mapped it any more. */
    CHECK(ftruncate(file, 100) == 0);
    pages = map(file, 100, BOTH, 0);
    CHECK(pages != MAP_FAILED && pages[99] == 0);
    pages[99] = 'a';
    pages[100] = 'b';
    CHECK(munmap(pages, 100) == 0);
    pages = map(file, 100, BOTH, 0);
    CHECK(pages != MAP_FAILED && pages[99] == 'a' && pages[100] == 0 && munmap(pages, 100) == 0);
    /* Nobody has it mapped: an empty file gives its memory back. */
    struct stat stat_of;
    CHECK(ftruncate(file, 0) == 0 && fstat(file, &stat_of) == 0 && stat_of.st_blocks == 0);
    CHECK(close(file) == 0 && unlink(path) == 0);
}

static void refusals(void) {
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), reading = open(path, O_RDONLY);
    int writing = open(path, O_WRONLY);
    CHECK(file >= 0 && reading >= 0 && writing >= 0);
    FAILS(map(reading, PAGE, BOTH, 0), EACCES);
    FAILS(map(writing, PAGE, PROT_WRITE, 0), EACCES);
    FAILS(map(writing, PAGE, PROT_READ, 0), EACCES);
    FAILS(map(file, 0, BOTH, 0), EINVAL);
    FAILS(map(file, (size_t)-1, BOTH, 0), ENOMEM);
    FAILS(map(file, PAGE, BOTH | PROT_EXEC, 0), ENOTSUP);
    FAILS(map(file, PAGE, BOTH, 1), EINVAL);
    FAILS(map(file, PAGE, BOTH, (off_t)1 << 46), EOVERFLOW);
    FAILS(map(file, (size_t)1 << 36, BOTH, 0), EOVERFLOW);
    char *page = map(reading, PAGE, PROT_READ, 0);
    CHECK(page != MAP_FAILED);
    FAILS(mprotect(page, PAGE, BOTH), EACCES);
    CHECK(munmap(page, PAGE) == 0);
    int directory = open("/tmp", O_RDONLY | O_DIRECTORY);
    FAILS(map(directory, PAGE, PROT_READ, 0), ENODEV);
    CHECK(close(directory) == 0);
    CHECK(close(file) == 0 && close(reading) == 0 && close(writing) == 0 && unlink(path) == 0);
    FAILS(shm_open("", O_RDWR, 0), EINVAL);
    FAILS(shm_open("/a/b", O_RDWR | O_CREAT, 0600), EINVAL);
    FAILS(shm_open("/..", O_RDWR, 0), EINVAL);
    FAILS(shm_open("/none", O_RDWR, 0), ENOENT);
    FAILS(shm_unlink("/none"), ENOENT);
    char name[300] = "/";
    memset(name + 1, 'n', 260);
    FAILS(shm_open(name, O_RDWR | O_CREAT, 0600), ENAMETOOLONG);
    errno = 0;
    CHECK(sem_open("/none", O_RDWR) == SEM_FAILED && errno == ENOENT);
    CHECK(sem_open("/none", O_CREAT, 0600, 1U + SEM_VALUE_MAX) == SEM_FAILED && errno == EINVAL);
    FAILS(sem_unlink("/none"), ENOENT);
    sem_t none;
    FAILS(sem_close(&none), EINVAL);
}

/* The memory that processes share here. */
struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_rwlock_t lock;
    pthread_barrier_t barrier;
    pthread_spinlock_t spin;
    sem_t turns, over;
    long sum, spun, written, arrived;
    int waiting, is_open;
};

static void work(struct shared *all) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&all->mutex);
        all->sum++;
        pthread_mutex_unlock(&all->mutex);
        pthread_spin_lock(&all->spin);
        all->spun++;
        pthread_spin_unlock(&all->spin);
        pthread_rwlock_wrlock(&all->lock);
        all->written++;
        pthread_rwlock_unlock(&all->lock);
    }
    /* Waits for all, then for a signal, then for a turn of its own. */
    if (pthread_barrier_wait(&all->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        all->arrived++;
    }
    pthread_mutex_lock(&all->mutex);
    all->waiting++;
    pthread_cond_broadcast(&all->changed);
    while (!all->is_open) {
        pthread_cond_wait(&all->changed, &all->mutex);
    }
    pthread_mutex_unlock(&all->mutex);
    sem_wait(&all->turns);
    sem_post(&all->over);
}

static void prepare(struct shared *all) {
    int is_shared = -1;
    pthread_mutexattr_t mutex;
    CHECK(pthread_mutexattr_init(&mutex) == 0);
    CHECK(pthread_mutexattr_getpshared(&mutex, &is_shared) == 0);
    CHECK(is_shared == PTHREAD_PROCESS_PRIVATE);
    CHECK(pthread_mutexattr_setpshared(&mutex, 7) == EINVAL);
    CHECK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutexattr_getpshared(&mutex, &is_shared) == 0);
    CHECK(is_shared == PTHREAD_PROCESS_SHARED && pthread_mutex_init(&all->mutex, &mutex) == 0);
    pthread_condattr_t condition;
    CHECK(pthread_condattr_init(&condition) == 0);
    CHECK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_condattr_getpshared(&condition, &is_shared) == 0 && is_shared == 1);
    CHECK(pthread_cond_init(&all->changed, &condition) == 0);
    pthread_rwlockattr_t lock;
    CHECK(pthread_rwlockattr_init(&lock) == 0);
    CHECK(pthread_rwlockattr_setpshared(&lock, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_rwlockattr_getpshared(&lock, &is_shared) == 0 && is_shared == 1);
    CHECK(pthread_rwlock_init(&all->lock, &lock) == 0 && pthread_rwlockattr_destroy(&lock) == 0);
    pthread_barrierattr_t barrier;
    CHECK(pthread_barrierattr_init(&barrier) == 0);
    CHECK(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_barrierattr_getpshared(&barrier, &is_shared) == 0 && is_shared == 1);
    CHECK(pthread_barrier_init(&all->barrier, &barrier, CHILDREN) == 0);
    CHECK(pthread_barrierattr_destroy(&barrier) == 0);
    CHECK(pthread_spin_init(&all->spin, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(sem_init(&all->turns, 1, 0) == 0 && sem_init(&all->over, 1, 0) == 0);
    CHECK(sysconf(_SC_THREAD_PROCESS_SHARED) > 0);
}

/* The child's thread is another one, also for a mutex that its owner may take again. */
static void owners(void) {
    int kinds[] = {PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    pthread_mutex_t *mutex =
        mmap(NULL, PAGE, BOTH, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t chosen;
    CHECK(mutex != MAP_FAILED && pthread_mutexattr_init(&chosen) == 0);
    CHECK(pthread_mutexattr_setpshared(&chosen, PTHREAD_PROCESS_SHARED) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_mutexattr_settype(&chosen, kinds[i]) == 0);
        CHECK(pthread_mutex_init(mutex, &chosen) == 0 && pthread_mutex_lock(mutex) == 0);
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            CHECK(gettid() == getpid());
            CHECK(pthread_mutex_trylock(mutex) == EBUSY);
            CHECK(pthread_mutex_unlock(mutex) == EPERM);
            fflush(stdout);
            _exit(failures);
        }
        CHECK(status_of(child) == 0);
        CHECK(pthread_mutex_unlock(mutex) == 0 && pthread_mutex_destroy(mutex) == 0);
    }
    CHECK(munmap(mutex, PAGE) == 0);
}

/* All locks between processes, at whatever address each has them. */
static void locks(char *program) {
    shm_unlink("/library-sharing");
    int file = shm_open("/library-sharing", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && ftruncate(file, PAGE) == 0);
    FAILS(shm_open("/library-sharing", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
    struct shared *all = map(file, PAGE, BOTH, 0);
    CHECK(all != MAP_FAILED && close(file) == 0);
    prepare(all);
    pid_t children[CHILDREN];
    char *arguments[] = {program, "work", NULL};
    CHECK(posix_spawn(&children[0], program, NULL, NULL, arguments, environ) == 0);
    for (int i = 1; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            work(all);
            _exit(0);
        }
        CHECK(children[i] > 0);
    }
    pthread_mutex_lock(&all->mutex);
    while (all->waiting < CHILDREN) {
        pthread_cond_wait(&all->changed, &all->mutex);
    }
    all->is_open = 1;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->mutex);
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(sem_post(&all->turns) == 0 && sem_wait(&all->over) == 0);
    }
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(status_of(children[i]) == 0);
    }
    CHECK(all->sum == CHILDREN * ROUNDS && all->spun == CHILDREN * ROUNDS);
    CHECK(all->written == CHILDREN * ROUNDS && all->arrived == 1);
    CHECK(munmap(all, PAGE) == 0 && shm_unlink("/library-sharing") == 0);
}

/* What a child of `fork` has of its parent's mappings of files. */
static void children(void) {
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(ftruncate(file, 4 * PAGE) == 0);
    char *pages = map(file, 3 * PAGE, BOTH, PAGE), *shown = map(file, PAGE, PROT_READ, 0);
    char *gone = map(file, PAGE, BOTH, 0);
    CHECK(pages != MAP_FAILED && shown != MAP_FAILED && gone != MAP_FAILED);
    CHECK(munmap(pages + PAGE, PAGE) == 0 && close(file) == 0);
    CHECK(madvise(gone, PAGE, MADV_DONTFORK) == 0);
    /* The hole has other memory, which the child gets a copy of. */
    CHECK(mmap(pages + PAGE, PAGE, BOTH, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          pages + PAGE);
    char *private = mmap(NULL, PAGE, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    gone[7] = 'g';
    private[0] = 'p';
    pid_t child = fork();
    if (child == 0) {
        int is_there = shown[7] == 'g' && private[0] == 'p';
        memcpy(pages, "child", 5);
        memcpy(pages + PAGE, "child", 5);
        memcpy(pages + 2 * PAGE, "child", 5);
        /* Nothing is mapped there, so other memory can be. */
        char *same = mmap(gone, PAGE, BOTH, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        is_there &= same == gone && gone[7] == 0;
        _exit(is_there ? 3 : 4);
    }
    CHECK(status_of(child) == 3 && gone[7] == 'g');
    CHECK(!memcmp(pages, "child", 5) && !memcmp(pages + 2 * PAGE, "child", 5));
    CHECK(pages[PAGE] == 0);
    /* The child's child has it, too, and what ends in one process stays in the others. */
    child = fork();
    if (child == 0) {
        child = fork();
        if (child == 0) {
            pages[1] = 'H';
            _exit(munmap(pages, PAGE));
        }
        _exit(status_of(child) == 0 && pages[1] == 'H' ? 0 : 5);
    }
    CHECK(status_of(child) == 0 && !memcmp(pages, "cHild", 5));
    CHECK(munmap(pages, 3 * PAGE) == 0 && munmap(shown, PAGE) == 0 && munmap(gone, PAGE) == 0);
    CHECK(munmap(private, PAGE) == 0 && unlink(path) == 0);
}

static void semaphores(char *program) {
    sem_unlink("/library-sharing");
    sem_t *first = sem_open("/library-sharing", O_CREAT | O_EXCL, 0600, 2);
    CHECK(first != SEM_FAILED);
    errno = 0;
    CHECK(sem_open("/library-sharing", O_CREAT | O_EXCL, 0600, 2) == SEM_FAILED && errno == EEXIST);
    /* Opened again, it is the same one, and its count stays. */
    sem_t *second = sem_open("library-sharing", O_CREAT, 0600, 9);
    int count = -1;
    CHECK(second == first && sem_getvalue(second, &count) == 0 && count == 2);
    CHECK(sem_close(second) == 0 && sem_trywait(first) == 0 && sem_trywait(first) == 0);
    FAILS(sem_trywait(first), EAGAIN);
    pid_t child;
    char *arguments[] = {program, "post", NULL};
    CHECK(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0);
    CHECK(sem_wait(first) == 0 && status_of(child) == 0);
    child = fork();
    if (child == 0) {
        _exit(sem_post(first) + sem_close(first));
    }
    CHECK(sem_wait(first) == 0 && status_of(child) == 0);
    /* Without its name it works on, and another one can have the name. */
    CHECK(sem_unlink("/library-sharing") == 0);
    second = sem_open("/library-sharing", O_CREAT, 0600, 5);
    CHECK(second != SEM_FAILED && second != first && sem_getvalue(second, &count) == 0);
    CHECK(count == 5 && sem_post(first) == 0 && sem_getvalue(first, &count) == 0 && count == 1);
    CHECK(sem_close(first) == 0 && sem_close(second) == 0);
    FAILS(sem_close(second), EINVAL);
    CHECK(sem_unlink("/library-sharing") == 0);
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "work")) {
        int file = shm_open("/library-sharing", O_RDWR, 0);
        struct shared *all = map(file, PAGE, BOTH, 0);
        if (all == MAP_FAILED) {
            return 1;
        }
        work(all);
        return 0;
    }
    if (count > 1 && !strcmp(arguments[1], "post")) {
        sem_t *semaphore = sem_open("/library-sharing", 0);
        return semaphore == SEM_FAILED || sem_post(semaphore) != 0;
    }
    files();
    lengths();
    refusals();
    owners();
    locks(arguments[0]);
    children();
    semaphores(arguments[0]);
    return finish("library-sharing");
}
