/* A process that forks while its other threads are in the middle of everything: no lock of the
   library is taken in the child. */
#include "library.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <scif.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN = 40, TIMEOUT_S = 60 };

static volatile int stop;
static FILE *shared;

/* Names are looked up in the current directory, which is copied for that. */
static void use_files(void) {
    int fd = open("null", O_RDWR);
    CHECK(fd >= 0);
    int copy = dup(fd);
    CHECK(copy >= 0 && fcntl(copy, F_SETFD, FD_CLOEXEC) == 0);
    char place[64];
    CHECK(getcwd(place, sizeof place) != NULL && strcmp(place, "/scheme") == 0);
    CHECK(close(copy) == 0 && close(fd) == 0);
}

static void use_streams(void) {
    FILE *own = fopen("null", "w");
    CHECK(own != NULL && fprintf(own, "%d\n", rand()) > 0);
    CHECK(fprintf(shared, "%f %s\n", drand48(), getenv("FORKING")) > 0);
    CHECK(own == NULL || fclose(own) == 0);
}

static void use_tables(void) {
    pthread_key_t key;
    CHECK(pthread_key_create(&key, NULL) == 0 && pthread_setspecific(key, "x") == 0);
    CHECK(pthread_key_delete(key) == 0);
    /* Another key of the same number has no values yet. */
    CHECK(pthread_key_create(&key, NULL) == 0 && pthread_getspecific(key) == NULL);
    CHECK(pthread_key_delete(key) == 0);
    time_t now = time(NULL);
    CHECK(localtime(&now) != NULL);
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
}

static void *nothing(void *argument) {
    return argument;
}

static void use_threads(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void (*const uses[])(void) = { use_files, use_streams, use_tables, use_threads };
enum { USES = sizeof uses / sizeof *uses };

static void *busy(void *argument) {
    while (!stop)
        (*(void (*const *)(void))argument)();
    return NULL;
}

static int handlers;

static void at_end(void) {
    handlers++;
}

/* What the handlers around a fork have done, in their order. */
static char called[64];

static void call(char name) {
    called[strlen(called)] = name;
}

static void before_1(void) { call('a'); }
static void before_2(void) { call('b'); }
static void parent_1(void) { call('p'); }
static void parent_2(void) { call('q'); }
static void child_1(void) { call('c'); }

static void handlers_of_forks(void) {
    CHECK(pthread_atfork(before_1, parent_1, child_1) == 0);
    CHECK(pthread_atfork(before_2, parent_2, NULL) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(strcmp(called, "bac") == 0 ? 7 : 8);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(strcmp(called, "bapq") == 0);
    memset(called, 0, sizeof called);
}

/* The child's status, or -1 when it has to be killed. */
static int status_of(pid_t child) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int status;
    do {
        pid_t ended = waitpid(child, &status, WNOHANG);
        CHECK(ended == 0 || ended == child);
        if (ended != 0)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        usleep(2000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < TIMEOUT_S);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    return -1;
}

/* Anonymous memory that is mapped shared is the same in both. */
static void shared_memory(void) {
    volatile int *words = mmap(NULL, 2 * sizeof *words, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED);
    words[0] = 1;
    pid_t child = fork();
    if (child == 0) {
        words[1] = words[0] + 1;
        _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(words[1] == 2 && munmap((void *)words, 2 * sizeof *words) == 0);
}

/* Whether a page is there: the kernel refuses to read from a place where nothing is mapped. */
static int is_there(const char *page) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    ssize_t count = write(ends[1], page, 1);
    CHECK(count == 1 || (count == -1 && errno == EFAULT));
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    return count == 1;
}

/* Which of the four pages a child gets, by bits. */
static int pages_of_a_child(const char *pages, size_t page) {
    pid_t child = fork();
    if (child == 0) {
        int found = 0;
        for (int i = 0; i < 4; i++)
            found |= is_there(pages + i * page) << i;
        _exit(failures == 0 ? found : 16);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Memory that the program keeps out of its children. */
static void memory_of_the_parent(void) {
    size_t page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    memset(pages, 1, 4 * page);
    CHECK(madvise(pages + page, 2 * page, MADV_DONTFORK) == 0);
    CHECK(pages_of_a_child(pages, page) == 9);
    CHECK(madvise(pages + 2 * page, 1, MADV_DOFORK) == 0);
    CHECK(pages_of_a_child(pages, page) == 13);
    CHECK(madvise(pages, 4 * page, MADV_DONTFORK) == 0);
    CHECK(pages_of_a_child(pages, page) == 0);
    /* What is mapped anew in their place belongs to both. */
    CHECK(munmap(pages, 2 * page) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(mmap(pages + i * page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0) == pages + i * page);
    CHECK(pages_of_a_child(pages, page) == 7);
    CHECK(pages[3 * page] == 1 && munmap(pages, 4 * page) == 0);
    CHECK(madvise(pages + 1, page, MADV_DONTFORK) == -1 && errno == EINVAL);
    CHECK(madvise(pages, SIZE_MAX, MADV_DONTFORK) == -1 && errno == EINVAL);
    CHECK(madvise(pages, 0, MADV_DONTFORK) == 0);
}

/* SCIF's way to unmap ends the advice, too: what is mapped there next belongs to both. */
static void memory_after_a_window(void) {
    enum { MOST = 256 };
    static char *others[MOST];
    const int rights = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    size_t page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 4 * page, rights, flags, -1, 0);
    CHECK(pages != MAP_FAILED && madvise(pages + page, page, MADV_DONTFORK) == 0);
    CHECK(scif_munmap(pages + page, page) == 0);
    int count = 0;
    do
        others[count] = mmap(NULL, page, rights, flags, -1, 0);
    while (others[count++] != pages + page && count < MOST);
    CHECK(others[count - 1] == pages + page);
    CHECK(pages_of_a_child(pages, page) == 15);
    while (count--)
        CHECK(munmap(others[count], page) == 0);
    CHECK(munmap(pages, page) == 0 && munmap(pages + 2 * page, 2 * page) == 0);
    FAILS(scif_munmap(pages + 1, page), EINVAL);
    FAILS(scif_munmap(pages, 0), EINVAL);
}

/* Advice on a page is kept, though another thread has unmapped what was there a moment before. */
static volatile int unmaps;

static void *map_and_unmap(void *argument) {
    size_t page = *(size_t *)argument;
    while (unmaps) {
        void *pages =
            mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages != MAP_FAILED && munmap(pages, page) == 0);
    }
    return NULL;
}

static void advice_beside_unmapping(void) {
    enum { PAGES = 3000 };
    static char *pages[PAGES];
    size_t page = sysconf(_SC_PAGESIZE);
    pthread_t thread;
    unmaps = 1;
    CHECK(pthread_create(&thread, NULL, map_and_unmap, &page) == 0);
    for (int i = 0; i < PAGES; i++) {
        pages[i] = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages[i] != MAP_FAILED && madvise(pages[i], page, MADV_DONTFORK) == 0);
    }
    unmaps = 0;
    CHECK(pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        int found = 0;
        for (int i = 0; i < PAGES; i++)
            found += is_there(pages[i]);
        _exit(failures == 0 && found == 0 ? 7 : 8);
    }
    CHECK(status_of(child) == 7);
    for (int i = 0; i < PAGES; i++)
        CHECK(munmap(pages[i], page) == 0);
}

/* The parent chooses the processors of a child, as programs do that start one for each. */
static void processors_of_a_child(void) {
    int go[2];
    CHECK(pipe(go) == 0);
    cpu_set_t all, one, found;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        CHECK(read(go[0], &byte, 1) == 1);
        CHECK(sched_getaffinity(0, sizeof found, &found) == 0 && CPU_EQUAL(&found, &one));
        /* What the parent's children are is no matter of the child's. */
        CHECK(sched_setaffinity(getppid(), sizeof all, &all) == -1 && errno == ESRCH);
        _exit(failures == 0 ? 7 : 8);
    }
    CHECK(sched_getaffinity(child, sizeof found, &found) == 0 && CPU_EQUAL(&found, &all));
    CHECK(sched_setaffinity(child, sizeof one, &one) == 0);
    CHECK(sched_getaffinity(child, sizeof found, &found) == 0 && CPU_EQUAL(&found, &one));
    CHECK(sched_getaffinity(0, sizeof found, &found) == 0 && CPU_EQUAL(&found, &all));
    CHECK(write(go[1], "x", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(sched_setaffinity(child, sizeof one, &one) == -1 && errno == ESRCH);
    CHECK(close(go[0]) == 0 && close(go[1]) == 0);
}

/* A stream in which a thread sleeps until there is something to read. */
static int sleepers_pipe[2];
static FILE *sleepers;

static void *read_sleeping(void *argument) {
    char line[8];
    CHECK(fgets(line, sizeof line, sleepers) == line && strcmp(line, "ab\n") == 0);
    return argument;
}

static pthread_t let_one_sleep(void) {
    pthread_t thread;
    CHECK(pipe(sleepers_pipe) == 0 && (sleepers = fdopen(sleepers_pipe[0], "r")) != NULL);
    CHECK(pthread_create(&thread, NULL, read_sleeping, NULL) == 0);
    usleep(50000);
    return thread;
}

/* All streams are written, though a thread sleeps in one that has nothing to write. */
static void flush_beside_a_sleeper(void) {
    pid_t child = fork();
    if (child == 0) {
        let_one_sleep();
        int ends[2];
        char byte = 0;
        CHECK(pipe(ends) == 0);
        FILE *output = fdopen(ends[1], "w");
        CHECK(output != NULL && fputs("x", output) >= 0 && fflush(NULL) == 0);
        CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
        _exit(failures == 0 ? 7 : 8);
    }
    CHECK(status_of(child) == 7);
}

/* In the child nobody sleeps in it. */
static void streams_of_a_sleeper(void) {
    pthread_t thread = let_one_sleep();
    pid_t child = fork();
    if (child == 0) {
        int ends[2];
        char line[8];
        CHECK(pipe(ends) == 0 && write(ends[1], "cd\n", 3) == 3);
        CHECK(dup2(ends[0], fileno(sleepers)) == sleepers_pipe[0]);
        CHECK(fgets(line, sizeof line, sleepers) == line && strcmp(line, "cd\n") == 0);
        CHECK(fclose(sleepers) == 0);
        exit(failures == 0 ? 7 : 8);
    }
    CHECK(status_of(child) == 7);
    CHECK(write(sleepers_pipe[1], "ab\n", 3) == 3 && pthread_join(thread, NULL) == 0);
    CHECK(fclose(sleepers) == 0 && close(sleepers_pipe[1]) == 0);
}

int main(void) {
    CHECK(chdir("/scheme") == 0 && setenv("FORKING", "yes", 1) == 0);
    shared = fopen("null", "w");
    CHECK(shared != NULL && atexit(at_end) == 0);
    pthread_t threads[USES];
    for (int i = 0; i < USES; i++)
        CHECK(pthread_create(&threads[i], NULL, busy, (void *)&uses[i]) == 0);
    for (int i = 0; i < CHILDREN && failures == 0; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int before = failures;
            for (int use = 0; use < USES; use++)
                uses[use]();
            /* Not _exit: handlers run, streams are flushed. */
            exit(failures == before ? 7 : 8);
        }
        CHECK(status_of(child) == 7);
    }
    stop = 1;
    for (int i = 0; i < USES; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    memory_of_the_parent();
    memory_after_a_window();
    advice_beside_unmapping();
    handlers_of_forks();
    shared_memory();
    processors_of_a_child();
    flush_beside_a_sleeper();
    streams_of_a_sleeper();
    CHECK(handlers == 0);
    return finish("fork");
}
