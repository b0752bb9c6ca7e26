/*
 * Functions of the C library with rare arguments and in rare states: more threads at a barrier than
 * it counts, ends of threads and processes, streams in use elsewhere, dates of far years, long
 * precisions, buffers that are too short.
 */
#include "library.h"

#include <complex.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <search.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

/* Whether a text is there and is this one. */
static int is_text(const char *text, const char *wanted) {
    return text && strcmp(text, wanted) == 0;
}

/* Runs a function in a child of fork; returns how the child has ended. */
static int status_of(void (*run)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

/* ---- Threads ---- */

static pthread_barrier_t barrier;
static int left_to_do, last_ones;

/* Waits at the barrier, each time for one of the common tasks. */
static void *work(void *unused) {
    (void)unused;
    while (__atomic_fetch_sub(&left_to_do, 1, __ATOMIC_RELAXED) > 0)
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_fetch_add(&last_ones, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void barriers(void) {
    enum { TASKS = 100000, THREADS = 5, WANTED = 2 };
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
    CHECK(pthread_barrier_init(&barrier, NULL, WANTED) == 0);
    left_to_do = TASKS;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(last_ones == TASKS / WANTED);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
}

static pthread_key_t plain, with_destructor;
static void *plain_at_the_end;

static void destroy(void *value) {
    (void)value;
    plain_at_the_end = pthread_getspecific(plain);
}

static void *set_values(void *value) {
    pthread_setspecific(plain, value);
    pthread_setspecific(with_destructor, value);
    return NULL;
}

static void keys(void) {
    int value;
    pthread_t thread;
    CHECK(pthread_key_create(&plain, NULL) == 0 && pthread_key_create(&with_destructor, destroy) == 0);
    CHECK(pthread_create(&thread, NULL, set_values, &value) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(plain_at_the_end == &value);
}

/* ---- Signals ---- */

static volatile sig_atomic_t handled;

static void note(int number) {
    handled = number;
}

/* Sends a signal from another process, and waits for its handler in a thread that is left alone. */
static void *left_alone(void *unused) {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)unused;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        kill(parent, SIGUSR1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    /* As long as it takes; the bound is for a library that loses the signal. */
    for (int i = 0; i < 1000 && !handled; i++)
        usleep(10000);
    _exit(handled == SIGUSR1 ? 0 : 1);
}

static void leave_first(void) {
    sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal(SIGUSR1, note);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, left_alone, NULL);
    pthread_exit(NULL);
}

/* All threads block the signal, the first one included, until it has left. */
static void *left_alone_and_blocking(void *unused) {
    sigset_t set;
    (void)unused;
    kill(getpid(), SIGUSR1);
    sigpending(&set);
    int was_pending = sigismember(&set, SIGUSR1);
    sigemptyset(&set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    _exit(was_pending && handled == SIGUSR1 ? 0 : 1);
}

static void leave_blocking(void) {
    sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal(SIGUSR1, note);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, left_alone_and_blocking, NULL);
    pthread_exit(NULL);
}

/* The first signal that a process blocks and sends to itself. */
static void first_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR2);
    sigpending(&set);
    _exit(sigismember(&set, SIGUSR2) ? 0 : 1);
}

static void abort_ignored(void) {
    signal(SIGABRT, SIG_IGN);
    abort();
}

static void signals(void) {
    CHECK(status_of(leave_first) == 0);
    CHECK(status_of(leave_blocking) == 0);
    CHECK(status_of(first_signal) == 0);
    int status = status_of(abort_ignored);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void sleeps(void) {
    struct timespec length = { 0, 1000 }, left = { 77, 77 };
    CHECK(nanosleep(&length, &left) == 0 && left.tv_sec == 77 && left.tv_nsec == 77);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &left) == 0 && left.tv_sec == 77);
}

/* ---- Streams ---- */

/* A pipe whose reader has gone. */
static int broken_pipe(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
    return ends[1];
}

/* SIGPIPE has its effect before fclose and fflush return. */
static void pipes(void) {
    signal(SIGPIPE, note);
    FILE *file = fdopen(broken_pipe(), "w");
    handled = 0;
    CHECK(fputs("x", file) >= 0 && fclose(file) == EOF && errno == EPIPE);
    CHECK(handled == SIGPIPE);
    file = fdopen(broken_pipe(), "w");
    handled = 0;
    CHECK(fputs("x", file) >= 0 && fflush(NULL) == EOF && handled == SIGPIPE);
    fclose(file);
    signal(SIGPIPE, SIG_DFL);
}

static int full[2];

/* Fills a pipe by the standard output, and so holds that stream. */
static void *write_much(void *unused) {
    static char block[1 << 20];
    (void)unused;
    memset(block, 'x', sizeof block);
    fwrite(block, 1, sizeof block, stdout);
    return NULL;
}

/* A thread that waits in the standard output does not keep others from reading or from commands. */
static void read_beside_a_writer(void) {
    int input[2];
    pthread_t thread;
    if (pipe(full) || pipe(input) || dup2(full[1], 1) < 0 || dup2(input[0], 0) < 0)
        _exit(2);
    pthread_create(&thread, NULL, write_much, NULL);
    char first;
    /* The writer is in the middle of its call. */
    if (read(full[0], &first, 1) != 1 || write(input[1], "y\n", 2) != 2)
        _exit(3);
    if (getchar() != 'y')
        _exit(4);
    FILE *command = popen("true", "w");
    _exit(command && pclose(command) == 0 ? 0 : 5);
}

/* The standard output can be opened for reading. */
static void read_from_output(void) {
    FILE *file = fopen("/tmp/edges-input", "w");
    if (!file || fputs("z", file) < 0 || fclose(file))
        _exit(2);
    close(0);
    /* Has the free number 0. */
    int number = open("/tmp/edges-input", O_RDONLY);
    file = fdopen(number, "r");
    FILE *output = stdout;
    stdout = file;
    int c = getc(stdout);
    stdout = output;
    _exit(number == 0 && c == 'z' ? 0 : 1);
}

static void streams(void) {
    CHECK(status_of(read_beside_a_writer) == 0);
    CHECK(status_of(read_from_output) == 0);

    FILE *file = fopen("/tmp/edges", "we");
    CHECK(file && (fcntl(fileno(file), F_GETFD) & FD_CLOEXEC));
    int number = fileno(file);
    CHECK(freopen("/tmp/edges-too", "w", file) == file && fileno(file) == number);
    CHECK((fcntl(number, F_GETFD) & FD_CLOEXEC) == 0);
    CHECK(freopen("/tmp/edges", "we", file) == file && fileno(file) == number);
    CHECK(fcntl(number, F_GETFD) & FD_CLOEXEC);
    fclose(file);

    int value;
    file = fopen("/tmp/edges", "w");
    errno = 0;
    CHECK(fscanf(file, "%d", &value) == EOF && errno == EBADF && ferror(file));
    fclose(file);

    int count = 0;
    file = fopen("/tmp/edges", "w+");
    CHECK(fwprintf(file, L"\u00e4\u20ac%n%d", &count, 12) == 4 && count == 2);
    rewind(file);
    char text[16] = "";
    CHECK(fread(text, 1, sizeof text, file) == 7 && memcmp(text, "\u00e4\u20ac12", 7) == 0);
    fclose(file);
}

static void precisions(void) {
    enum { MANY = 40000 };
    static char text[2 * MANY];
    CHECK(snprintf(text, sizeof text, "%.*e", MANY, 1.5) == MANY + 6);
    CHECK(strncmp(text, "1.50", 4) == 0 && strcmp(text + MANY + 2 - 1, "0e+00") == 0);
    CHECK(snprintf(text, sizeof text, "%#.*g", MANY, 1.5) == MANY + 1 && text[MANY] == '0');
    CHECK(snprintf(text, sizeof text, "%#.*g", MANY, 1.5e-7) == MANY + 1 + 4);
    CHECK(snprintf(text, sizeof text, "%.*g", MANY, 1.5) == 3 && strcmp(text, "1.5") == 0);
}

/* ---- Times ---- */

static void years(void) {
    struct tm date = { .tm_mday = 1, .tm_year = 10000 - 1900, .tm_wday = 6 };
    char text[26];
    CHECK(is_text(asctime(&date), "Sat Jan  1 00:00:00 10000\n"));
    errno = 0;
    CHECK(!asctime_r(&date, text) && errno == EOVERFLOW);
    time_t far = 67768036191676799;
    struct tm *last = gmtime(&far);
    CHECK(last && last->tm_year == 2147483647 && last->tm_sec == 59);
    CHECK(is_text(ctime(&far), "Wed Dec 31 23:59:59 2147485547\n"));
    far++;
    errno = 0;
    CHECK(!gmtime(&far) && errno == EOVERFLOW);
}

/* ---- Files ---- */

static char first_path[16];
static struct FTW first_place;

static int end_at_first(const char *path, const struct stat *stat, int kind, struct FTW *place) {
    (void)stat;
    (void)kind;
    strncpy(first_path, path, sizeof first_path - 1);
    first_place = *place;
    return 5;
}

static void files(void) {
    CHECK(nftw("/", end_at_first, 4, FTW_PHYS) == 5 && strcmp(first_path, "/") == 0);
    CHECK(first_place.level == 0);

    glob_t found = { .gl_offs = SIZE_MAX / 8 - 1 };
    CHECK(glob("/tmp", GLOB_DOOFFS, NULL, &found) == GLOB_NOSPACE);
    found.gl_offs = SIZE_MAX;
    CHECK(glob("/tmp", GLOB_DOOFFS, NULL, &found) == GLOB_NOSPACE);

    char name[3] = "zz";
    errno = 0;
    CHECK(gethostname(name, 2) == -1 && errno == ENAMETOOLONG && name[0] != 'z' && name[2] == 0);
}

extern char **environ;

static void actions(void) {
    posix_spawn_file_actions_t list;
    char *arguments[] = { "true", NULL };
    pid_t child;
    CHECK(posix_spawn_file_actions_init(&list) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&list, -1, 3) == EBADF);
    CHECK(posix_spawn_file_actions_adddup2(&list, 3, -1) == EBADF);
    CHECK(posix_spawn_file_actions_addclose(&list, -1) == EBADF);
    CHECK(posix_spawn_file_actions_addopen(&list, -1, "/tmp", O_RDONLY, 0) == EBADF);
    /* The number at which the library opens the file here is none of the child's. */
    int free_number = dup(1);
    close(free_number);
    CHECK(posix_spawn_file_actions_addopen(&list, 90, "/dev/null", O_RDONLY, 0) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&list, free_number, 91) == 0);
    CHECK(posix_spawnp(&child, "true", &list, NULL, arguments, environ) == EBADF);
    CHECK(posix_spawn_file_actions_destroy(&list) == 0);
}

static void sets(void) {
    unsigned long small = ~0UL;
    cpu_set_t whole;
    CHECK(sched_getaffinity(0, sizeof whole, &whole) == 0);
    CHECK(sched_getaffinity(0, sizeof small, (cpu_set_t *)&small) == 0);
    CHECK(memcmp(&small, &whole, sizeof small) == 0);
    FAILS(sched_getaffinity(0, 0, &whole), EINVAL);
    size_t size = CPU_ALLOC_SIZE(65);
    cpu_set_t *set = CPU_ALLOC(65), *other = CPU_ALLOC(65);
    CHECK(size == 16 && set && other);
    CPU_ZERO_S(size, set);
    CPU_ZERO_S(size, other);
    CPU_SET_S(64, size, set);
    CPU_SET_S(128, size, set);
    CHECK(CPU_ISSET_S(64, size, set) && !CPU_ISSET_S(128, size, set) && !CPU_ISSET_S(0, size, set));
    CHECK(CPU_COUNT_S(size, set) == 1 && !CPU_EQUAL_S(size, set, other));
    CPU_OR_S(size, other, other, set);
    CHECK(CPU_EQUAL_S(size, set, other));
    CPU_CLR_S(64, size, set);
    CHECK(CPU_COUNT_S(size, set) == 0);
    CPU_FREE(set);
    CPU_FREE(other);
}

static void tables(void) {
    static char names[100][4];
    CHECK(hcreate(2) != 0);
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        CHECK(hsearch((ENTRY){ names[i], names[i] }, ENTER) != NULL);
    }
    ENTRY *found = hsearch((ENTRY){ "73", NULL }, FIND);
    CHECK(found && found->data == names[73]);
    hdestroy();
}

/* ---- Numbers ---- */

static volatile double zero = 0.0;

/* Functions that have little to do here. */
static void small_ones(void) {
    wchar_t wide[4] = L"zzz";
    CHECK(wcpcpy(wide, L"ab") == wide + 2 && wcscmp(wide, L"ab") == 0);
    CHECK(wcpncpy(wide, L"c", 3) == wide + 1 && wide[1] == 0 && wide[2] == 0);
    CHECK(wcpncpy(wide, L"defg", 3) == wide + 3 && wide[2] == L'f');

    CHECK(pthread_getconcurrency() == 0 && pthread_setconcurrency(3) == 0);
    CHECK(pthread_getconcurrency() == 3 && pthread_setconcurrency(-1) == EINVAL);
    sync();

    struct timeval times[2] = { { 100, 0 }, { 200, 5 } };
    struct stat stat;
    int file = open("/tmp/edges", O_RDWR | O_CREAT, 0600);
    CHECK(futimes(file, times) == 0 && fstat(file, &stat) == 0 && stat.st_mtime == 200);
    times[1].tv_sec = 300;
    CHECK(lutimes("/tmp/edges", times) == 0 && fstat(file, &stat) == 0 && stat.st_mtime == 300);
    times[0].tv_usec = 1000000;
    FAILS(futimes(file, times), EINVAL);
    close(file);
    FAILS(futimes(file, NULL), EBADF);
}

static void numbers(void) {
    double complex one = ctanh(CMPLX(400.0, zero)), large = cexp(CMPLX(1000.0, zero));
    CHECK(creal(one) == 1.0 && cimag(one) == 0.0);
    CHECK(isinf(creal(large)) && cimag(large) == 0.0);
    CHECK(creal(casinh(CMPLX(1e-20, zero))) == 1e-20);
    float complex of_float = ctanhf(CMPLXF(80.0f, (float)zero));
    CHECK(crealf(of_float) == 1.0f && cimagf(of_float) == 0.0f);
    CHECK(crealf(casinhf(CMPLXF(1e-20f, (float)zero))) == 1e-20f);

    unsigned seed = 1;
    int repeats = 0;
    for (int i = 0; i < 200000; i++)
        repeats += rand_r(&seed) < 0 || seed == 1;
    CHECK(repeats == 0);
}

int main(void) {
    keys();
    sleeps();
    precisions();
    years();
    files();
    actions();
    sets();
    tables();
    numbers();
    small_ones();
    signals();
    pipes();
    streams();
    barriers();
    return finish("edges");
}
