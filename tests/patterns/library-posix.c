/*
 * Parts of POSIX that programs rely on without thinking of them: rights of files by their modes,
 * programs that take the place of a child of `fork`, the search for them, reads in parts, numbered
 * arguments of formats, children of a group, signals that would stop the program, the vector of
 * variables that `main` gets, signals of one thread, children that nobody waits for, and others.
 */
#include "library.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <wctype.h>

static const char here[] = "/tmp/library-posix";

/* The status with which a child ends. */
static int status_of(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_file(const char *name, const char *text, mode_t mode) {
    int number = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(number >= 0 && write(number, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(close(number) == 0 && chmod(name, mode) == 0);
}

/* A pipe that another thread closes while a write waits for room: the rest of the write does not go
 * into the pipe that gets the number. */
enum { LONG_WRITE = 200000 };

static void *write_long(void *end) {
    static char bytes[LONG_WRITE];
    memset(bytes, 'r', sizeof bytes);
    bytes[0] = 'b';
    return (void *)(long)write(*(int *)end, bytes, sizeof bytes);
}

/* Returns 0 if the write began only when its number meant the other pipe. */
static int close_while_written(void) {
    static char room[LONG_WRITE];
    int ends[2], others[2];
    CHECK(pipe(ends) == 0);
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], room, 4096) > 0)
        ;
    CHECK(errno == EAGAIN && fcntl(ends[1], F_SETFL, 0) == 0);
    pthread_t writer;
    int number = ends[1];
    CHECK(pthread_create(&writer, NULL, write_long, &number) == 0);
    usleep(50000);
    CHECK(pipe(others) == 0);
    CHECK(dup2(others[1], number) == number);
    CHECK(read(ends[0], room, 8192) == 8192);
    usleep(50000);
    CHECK(fcntl(others[0], F_SETFL, O_NONBLOCK) == 0);
    ssize_t strayed = read(others[0], room, sizeof room);
    int has_begun = strayed <= 0 || room[0] != 'b';
    CHECK(!has_begun || (strayed == -1 && errno == EAGAIN));
    CHECK(close(ends[0]) == 0 && close(others[0]) == 0);
    void *written;
    CHECK(pthread_join(writer, &written) == 0);
    CHECK(!has_begun || ((long)written > 0 && (long)written < LONG_WRITE));
    close(others[1]), close(number);
    return has_begun;
}

static void closed_while_written(void) {
    void (*former)(int) = signal(SIGPIPE, SIG_IGN);
    int tries = 0;
    while (!close_while_written())
        CHECK(++tries < 100);
    signal(SIGPIPE, former);
}

static void rights(void) {
    CHECK(access(here, W_OK) == 0);
    CHECK(access(here, R_OK | W_OK | X_OK) == 0);
    CHECK(faccessat(AT_FDCWD, here, W_OK, 0) == 0);
    write_file("plain", "x", 0444);
    write_file("program", "x", 0100);
    CHECK(access("plain", F_OK) == 0 && access("plain", R_OK) == 0);
    /* Root may write to every file, but runs none that nobody may run. */
    CHECK(access("plain", W_OK) == 0);
    FAILS(access("plain", X_OK), EACCES);
    CHECK(access("program", X_OK) == 0);
    FAILS(access("plain", 8), EINVAL);
    FAILS(access("absent", F_OK), ENOENT);
    FAILS(access("plain/", F_OK), ENOTDIR);
    CHECK(access("/dev/null", R_OK | W_OK) == 0);
    CHECK(access("/bin/sh", R_OK | X_OK) == 0);
    FAILS(access("/bin/sh", W_OK), EROFS);
    /* Of a scheme that shows no attributes. */
    CHECK(access("/scheme/debug", F_OK) == 0 && access("/scheme/debug", W_OK) == 0);
    write_file("theirs", "x", 0640);
    write_file("anybody", "x", 0646);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        CHECK(setgid(77) == 0 && setuid(77) == 0);
        CHECK(access("plain", R_OK) == 0);
        FAILS(access("plain", W_OK), EACCES);
        FAILS(access("theirs", R_OK), EACCES);
        CHECK(access("theirs", F_OK) == 0);
        CHECK(access("anybody", R_OK | W_OK) == 0);
        FAILS(access(here, W_OK), EACCES);
        fflush(stdout);
        _exit(failures);
    }
    CHECK(status_of(child) == 0);
    CHECK(unlink("plain") == 0 && unlink("program") == 0);
    CHECK(unlink("theirs") == 0 && unlink("anybody") == 0);
}

/* What the parent has buffered is written once, by the parent. */
static void exec_drops_buffers(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    FILE *file = fdopen(ends[1], "w");
    CHECK(file != NULL && fputs("once", file) >= 0);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 3", NULL);
        _exit(99);
    }
    CHECK(status_of(child) == 3);
    CHECK(fclose(file) == 0);
    char text[16] = "";
    CHECK(read(ends[0], text, sizeof text) == 4 && strcmp(text, "once") == 0);
    CHECK(close(ends[0]) == 0);
}

static volatile sig_atomic_t taken;

static void take_children(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        taken++;
}

/* What the keyboard sends is for the command, and its status for `system`. */
static void commands(void) {
    char text[64];
    struct sigaction now;
    CHECK(signal(SIGINT, take_children) == SIG_DFL);
    CHECK(signal(SIGCHLD, take_children) == SIG_DFL);
    snprintf(text, sizeof text, "kill -INT %d; kill -QUIT %d; exit 5", getpid(), getpid());
    CHECK(system(text) == 5 << 8);
    CHECK(taken == 0);
    CHECK(sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == take_children);
    CHECK(sigaction(SIGQUIT, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    sigset_t blocked;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGCHLD));
    CHECK(signal(SIGCHLD, SIG_DFL) == take_children && signal(SIGINT, SIG_DFL) == take_children);
    int status = system("kill -INT $$");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    /* The command ignores what the program ignores. */
    CHECK(signal(SIGINT, SIG_IGN) == SIG_DFL);
    CHECK(system("kill -INT $$; exit 6") == 6 << 8);
    CHECK(signal(SIGINT, SIG_DFL) == SIG_IGN);
}

static void *read_slowly(void *end) {
    static char bytes[1000];
    size_t sum = 0;
    for (ssize_t count; (count = read(*(int *)end, bytes, sizeof bytes)) > 0; sum += count)
        ;
    return (void *)sum;
}

/* A write moves all bytes, or with O_NONBLOCK up to PIPE_BUF bytes all or none. */
static void whole_writes(void) {
    static char bytes[300000];
    int ends[2];
    pthread_t reader;
    void *sum;
    CHECK(pipe(ends) == 0);
    CHECK(pthread_create(&reader, NULL, read_slowly, &ends[0]) == 0);
    CHECK(write(ends[1], bytes, sizeof bytes) == sizeof bytes);
    struct iovec parts[3] = {{bytes, 100000}, {bytes, 10}, {bytes, 99990}};
    CHECK(writev(ends[1], parts, 3) == 200000);
    CHECK(close(ends[1]) == 0);
    CHECK(pthread_join(reader, &sum) == 0 && (size_t)sum == 500000);
    CHECK(close(ends[0]) == 0);
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    struct pollfd room = {.fd = ends[1], .events = POLLOUT};
    CHECK(poll(&room, 1, 0) == 1);
    CHECK(write(ends[1], bytes, 65436) == 65436);
    FAILS(write(ends[1], bytes, 101), EAGAIN);
    FAILS(write(ends[1], bytes, PIPE_BUF), EAGAIN);
    CHECK(poll(&room, 1, 0) == 0);
    CHECK(write(ends[1], bytes, 90) == 90);
    CHECK(write(ends[1], bytes, PIPE_BUF + 1) == 10);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* Writes to a pipe without a reader, by `how`. */
static int written_to_nobody(int how, void (*handler)(int)) {
    pid_t child = fork();
    if (child == 0) {
        int ends[2];
        CHECK(signal(SIGPIPE, handler) == SIG_DFL);
        CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
        FILE *file = fdopen(ends[1], "w");
        struct iovec part = {(void *)"x", 1};
        int result = how == 0 ? (int)write(ends[1], "x", 1) : how == 1 ? (int)writev(ends[1], &part, 1)
            : how == 2 ? dprintf(ends[1], "x") : (fputs("x", file), fflush(file));
        _exit(result == -1 && errno == EPIPE ? 40 : 41);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void leave(int number) {
    exit(number);
}

static void broken_pipes(void) {
    for (int how = 0; how < 4; how++) {
        int status = written_to_nobody(how, SIG_DFL);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
        CHECK(written_to_nobody(how, SIG_IGN) == 40 << 8);
        CHECK(written_to_nobody(how, take_children) == 40 << 8);
        /* Its `exit` writes the buffers of streams. */
        CHECK(written_to_nobody(how, leave) == SIGPIPE << 8);
    }
}

static int found_by_exec(const char *name) {
    pid_t child = fork();
    if (child == 0) {
        execlp(name, name, NULL);
        _exit(errno);
    }
    return status_of(child);
}

static void names_of_directories(void) {
    char *arguments[] = {(char *)"sh", (char *)"-c", (char *)"exit 3", NULL};
    pid_t child;
    FAILS(mkdir("absent/.", 0755), ENOENT);
    CHECK(mkdir("there/", 0755) == 0);
    FAILS(mkdir("there/.", 0755), EEXIST);
    FAILS(mkdir("there/./", 0755), EEXIST);
    CHECK(rmdir("there") == 0);
    FAILS(execv("/bin/sh/", arguments), ENOTDIR);
    FAILS(execv("/tmp/", arguments), EACCES);
    FAILS(execv("/absent/", arguments), ENOENT);
    CHECK(posix_spawn(&child, "/bin/sh/.", NULL, NULL, arguments, NULL) == ENOTDIR);
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, NULL) == 0);
    CHECK(status_of(child) == 3);
}

static void search_for_programs(void) {
    const char *path = getenv("PATH");
    char *former = path == NULL ? NULL : strdup(path);
    CHECK(mkdir("programs", 0755) == 0);
    write_file("programs/posix-thing", "#!/bin/sh\nexit 41\n", 0755);
    CHECK(found_by_exec("posix-thing") == ENOENT);
    CHECK(setenv("PATH", "/nowhere:/tmp/library-posix/programs", 1) == 0);
    CHECK(found_by_exec("posix-thing") == 41);
    CHECK(found_by_exec("absent-thing") == ENOENT);
    pid_t child;
    char *arguments[] = {(char *)"posix-thing", NULL};
    CHECK(posix_spawnp(&child, "posix-thing", NULL, NULL, arguments, NULL) == 0);
    CHECK(status_of(child) == 41);
    /* An empty entry is the current directory. */
    CHECK(setenv("PATH", "/nowhere::/elsewhere", 1) == 0);
    CHECK(found_by_exec("posix-thing") == ENOENT);
    CHECK(chdir("programs") == 0);
    CHECK(found_by_exec("posix-thing") == 41);
    CHECK(setenv("PATH", "/nowhere", 1) == 0);
    CHECK(found_by_exec("posix-thing") == ENOENT);
    CHECK(system("exit 5") >> 8 == 5);
    /* The names of Linux's folders. */
    CHECK(setenv("PATH", "/usr/bin:/bin", 1) == 0);
    child = fork();
    if (child == 0) {
        execlp("sh", "sh", "-c", "exit 6", NULL);
        _exit(99);
    }
    CHECK(status_of(child) == 6);
    CHECK(chdir(here) == 0 && unlink("programs/posix-thing") == 0 && rmdir("programs") == 0);
    CHECK(former == NULL ? unsetenv("PATH") == 0 : setenv("PATH", former, 1) == 0);
    free(former);
}

static void read_in_parts(void) {
    int ends[2];
    char first[4] = "", second[8] = "";
    struct iovec parts[] = {{first, 0}, {first, sizeof first}, {second, sizeof second}};
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], "1234", 4) == 4);
    alarm(20);
    CHECK(readv(ends[0], parts, 3) == 4 && memcmp(first, "1234", 4) == 0);
    CHECK(write(ends[1], "567890", 6) == 6);
    CHECK(readv(ends[0], parts, 3) == 6 && memcmp(second, "90", 2) == 0);
    alarm(0);
    CHECK(close(ends[1]) == 0 && readv(ends[0], parts, 3) == 0 && close(ends[0]) == 0);
    write_file("file", "abcdefgh", 0600);
    int number = open("file", O_RDONLY);
    CHECK(readv(number, parts, 3) == 8);
    CHECK(memcmp(first, "abcd", 4) == 0 && memcmp(second, "efgh", 4) == 0);
    CHECK(close(number) == 0 && unlink("file") == 0);
    number = open("/dev/zero", O_RDONLY);
    memset(second, 1, sizeof second);
    CHECK(readv(number, parts, 3) == 12 && second[7] == 0);
    CHECK(close(number) == 0);
}

__attribute__((format(printf, 2, 0)))
static int prints_as(const char *wanted, const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    int equal = strcmp(text, wanted) == 0 && length == (int)strlen(wanted);
    if (!equal)
        printf("%s instead of %s\n", text, wanted);
    return equal;
}

/* gcc warns of some of these formats. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat"
static void formats(void) {
    CHECK(prints_as("1234567 x", "%'d %s", 1234567, "x"));
    CHECK(prints_as("12.5|7", "%'.1f|%d", 12.5, 7));
    CHECK(prints_as("two 1", "%2$s %1$d", 1, "two"));
    CHECK(prints_as("3.5 -9000000000 c 3.5", "%3$.1f %1$ld %2$c %3$.1f", -9000000000L, 'c', 3.5));
    CHECK(prints_as("[   42] 4200", "[%1$*2$d] %1$d%3$02d", 42, 5, 0));
    CHECK(prints_as("[ab]", "[%1$.*2$s]", "abcdef", 2));
    CHECK(prints_as("00042%", "%1$05d%%", 42));
    /* Arguments in registers and on the stack. */
    CHECK(prints_as("9 8 7 6 5 4 3 2 1", "%9$d %8$d %7$d %6$d %5$d %4$d %3$d %2$d %1$d", 1, 2, 3, 4,
                    5, 6, 7, 8, 9));
    int one = 0, other = 0;
    char text[16] = "";
    CHECK(sscanf("11 22 word", "%2$d %1$d %3$15s", &one, &other, text) == 3);
    CHECK(one == 22 && other == 11 && strcmp(text, "word") == 0);
    CHECK(sscanf("5 6", "%'d %d", &one, &other) == 2 && one == 5 && other == 6);
    char *word = NULL, *letters = NULL, *bytes = NULL;
    CHECK(sscanf("some abc1 zz", "%ms %m[a-z]1 %2mc", &word, &letters, &bytes) == 3);
    CHECK(word != NULL && strcmp(word, "some") == 0);
    CHECK(letters != NULL && strcmp(letters, "abc") == 0);
    CHECK(bytes != NULL && memcmp(bytes, "zz", 2) == 0);
    free(word);
    free(letters);
    free(bytes);
    one = 0;
    CHECK(sscanf("skipped 9", "%*ms %d", &one) == 1 && one == 9);
}
#pragma GCC diagnostic pop

static pid_t ends_with(int status, int own_group) {
    pid_t child = fork();
    if (child == 0) {
        if (own_group)
            setpgid(0, 0);
        _exit(status);
    }
    if (own_group)
        setpgid(child, child);
    return child;
}

static void children_of_groups(void) {
    pid_t alone = ends_with(1, 1), with_us = ends_with(2, 0);
    int status = 0;
    CHECK(waitpid(0, &status, 0) == with_us && WEXITSTATUS(status) == 2);
    FAILS(waitpid(0, &status, 0), ECHILD);
    with_us = ends_with(3, 0);
    CHECK(waitpid(-alone, &status, 0) == alone && WEXITSTATUS(status) == 1);
    FAILS(waitpid(-alone, &status, WNOHANG), ECHILD);
    CHECK(waitpid(-1, &status, 0) == with_us && WEXITSTATUS(status) == 3);
    FAILS(waitpid(-1, &status, 0), ECHILD);
}

static volatile int caught;

static void count(int number) {
    (void)number;
    caught++;
}

static void stops(void) {
    FAILS(raise(SIGSTOP), EINVAL);
    FAILS(raise(SIGTSTP), EINVAL);
    FAILS(raise(SIGTTIN), EINVAL);
    FAILS(raise(SIGTTOU), EINVAL);
    FAILS(kill(getpid(), SIGTSTP), EINVAL);
    CHECK(pthread_kill(pthread_self(), SIGTSTP) == EINVAL);
    CHECK(signal(SIGTSTP, count) == SIG_DFL);
    CHECK(raise(SIGTSTP) == 0 && caught == 1);
    CHECK(signal(SIGTSTP, SIG_IGN) == count && raise(SIGTSTP) == 0 && caught == 1);
    CHECK(signal(SIGTSTP, SIG_DFL) == SIG_IGN);
}

static void usual_flags(void) {
    write_file("file", "text", 0600);
    char text[8] = "";
    int number = open("file", 0);
    CHECK(number >= 0 && read(number, text, 4) == 4 && strcmp(text, "text") == 0);
    FAILS(write(number, "x", 1), EBADF);
    CHECK(close(number) == 0);
    number = openat(AT_FDCWD, "file", O_CLOEXEC);
    CHECK(number >= 0 && read(number, text, 4) == 4 && close(number) == 0);
    CHECK(unlink("file") == 0);
    fd_set set;
    struct timeval now = {0, 0};
    FD_ZERO(&set);
    CHECK(select(65536, &set, NULL, NULL, &now) == 0);
    FAILS(select(-1, &set, NULL, NULL, &now), EINVAL);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && mprotect(page, 0, PROT_NONE) == 0 && *(char *)page == 0);
    FAILS(mprotect((char *)page + 1, 0, PROT_NONE), EINVAL);
    CHECK(munmap(page, 4096) == 0);
}

static void put_back(void) {
    char text[8] = "";
    write_file("file", "abc", 0600);
    FILE *file = fopen("file", "r");
    CHECK(ungetc('x', file) == 'x' && fseek(file, 0, SEEK_SET) == 0);
    CHECK(fgetc(file) == 'a');
    CHECK(ungetc('y', file) == 'y' && fseek(file, 1, SEEK_CUR) == 0 && fgetc(file) == 'b');
    CHECK(fclose(file) == 0);
    file = fopen("file", "r");
    CHECK(ungetc('x', file) == 'x');
    rewind(file);
    CHECK(ferror(file) == 0 && fgets(text, sizeof text, file) == text && strcmp(text, "abc") == 0);
    CHECK(fseek(file, -1, SEEK_END) == 0 && fgetc(file) == 'c');
    CHECK(fclose(file) == 0 && unlink("file") == 0);
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "ab", 2) == 2);
    file = fdopen(ends[0], "r");
    CHECK(fgetc(file) == 'a');
    FAILS(fseek(file, 0, SEEK_SET), ESPIPE);
    CHECK(fgetc(file) == 'b');
    CHECK(fclose(file) == 0 && close(ends[1]) == 0);
}

static void texts_of_signals(void) {
    CHECK(strcmp(strsignal(SIGHUP), "Hangup") == 0);
    CHECK(strcmp(strsignal(SIGFPE), "Floating point exception") == 0);
    CHECK(strcmp(strsignal(SIGUSR2), "User defined signal 2") == 0);
    CHECK(strcmp(strsignal(SIGCHLD), "Child exited") == 0);
    CHECK(strcmp(strsignal(SIGSYS), "Bad system call") == 0);
    CHECK(strncmp(strsignal(SIGRTMIN), "Real-time signal", 16) == 0);
    CHECK(strncmp(strsignal(999), "Unknown signal", 14) == 0);
    CHECK(strncmp(strsignal(0), "Unknown signal", 14) == 0);
    char *writable = strsignal(SIGTERM);
    CHECK(strcmp(writable, "Terminated") == 0);
    int ends[2], former = dup(2);
    char text[64] = "";
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    psignal(SIGSEGV, "program");
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    CHECK(strcmp(text, "program: Segmentation fault\n") == 0);
    CHECK(dup2(former, 2) == 2 && close(former) == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void names_and_spaces(void) {
    glob_t found;
    CHECK(glob("", GLOB_NOCHECK, NULL, &found) == 0 && found.gl_pathc == 1);
    CHECK(found.gl_pathv[0][0] == 0);
    globfree(&found);
    CHECK(glob("", 0, NULL, &found) == GLOB_NOMATCH);
    CHECK(!iswspace(0xa0) && !iswspace(0x2007) && !iswspace(0x202f));
    CHECK(iswspace(' ') && iswspace(0x2003) && iswspace(0x3000));
}

static void *interrupts(void *thread) {
    usleep(50000);
    pthread_kill(*(pthread_t *)thread, SIGUSR2);
    return NULL;
}

static void interrupted_sleep(void) {
    pthread_t self = pthread_self(), other;
    struct timespec length = {20, 0}, left = {0, 0}, wrong = {0, -1};
    CHECK(signal(SIGUSR2, count) == SIG_DFL);
    CHECK(pthread_create(&other, NULL, interrupts, &self) == 0);
    CHECK(thrd_sleep(&length, &left) == -1 && left.tv_sec > 0);
    CHECK(thrd_sleep(&wrong, NULL) < -1);
    CHECK(pthread_join(other, NULL) == 0 && signal(SIGUSR2, SIG_DFL) == count);
}

/* So does a handler in one that waits for another signal. */
static void interrupted_wait(void) {
    pthread_t self = pthread_self(), other;
    struct timespec length = {20, 0};
    struct sigaction handler = {.sa_handler = count}, before;
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &awaited, NULL) == 0);
    CHECK(sigaction(SIGUSR2, &handler, &before) == 0);
    CHECK(pthread_create(&other, NULL, interrupts, &self) == 0);
    FAILS(sigtimedwait(&awaited, NULL, &length), EINTR);
    CHECK(pthread_join(other, NULL) == 0 && sigaction(SIGUSR2, &before, NULL) == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &awaited, NULL) == 0);
}

/* A signal that a thread raises is its own, even if another thread does not block it. */
static sem_t raised, looked;
static pthread_t handled_by;

static void note_thread(int number) {
    (void)number;
    handled_by = pthread_self();
    caught++;
}

static void *unblocks(void *argument) {
    sigset_t all;
    sigfillset(&all);
    while (sem_wait(&raised) != 0) {
    }
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
    sem_post(&looked);
    return argument;
}

static void raised_by_one_thread(void) {
    pthread_t other;
    sigset_t set, former, waiting;
    caught = 0;
    CHECK(sem_init(&raised, 0, 0) == 0 && sem_init(&looked, 0, 0) == 0);
    CHECK(signal(SIGUSR1, note_thread) == SIG_DFL);
    CHECK(pthread_create(&other, NULL, unblocks, NULL) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, &former) == 0);
    CHECK(raise(SIGUSR1) == 0);
    sem_post(&raised);
    while (sem_wait(&looked) != 0) {
    }
    CHECK(caught == 0);
    CHECK(sigpending(&waiting) == 0 && sigismember(&waiting, SIGUSR1));
    CHECK(pthread_sigmask(SIG_SETMASK, &former, NULL) == 0);
    CHECK(caught == 1 && handled_by == pthread_self());
    /* `sigwait` finds it, and ignoring it drops it. */
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0);
    int number = 0;
    CHECK(sigwait(&set, &number) == 0 && number == SIGUSR1);
    CHECK(raise(SIGUSR1) == 0 && signal(SIGUSR1, SIG_IGN) == note_thread);
    CHECK(sigpending(&waiting) == 0 && !sigismember(&waiting, SIGUSR1));
    CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
    CHECK(pthread_sigmask(SIG_SETMASK, &former, NULL) == 0 && caught == 1);
    CHECK(pthread_join(other, NULL) == 0);
}

/* Children that leave nothing when they end take nothing meanwhile. */
static void ignored_children(void) {
    cpu_set_t processors;
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(read(ends[0], &byte, 1) != 1);
    CHECK(sched_getaffinity(child, sizeof processors, &processors) == 0);
    CHECK(write(ends[1], "x", 1) == 1 && status_of(child) == 0);
    CHECK(signal(SIGCHLD, SIG_IGN) == SIG_DFL);
    child = fork();
    if (child == 0)
        _exit(read(ends[0], &byte, 1) != 1);
    FAILS(sched_getaffinity(child, sizeof processors, &processors), ESRCH);
    CHECK(write(ends[1], "x", 1) == 1);
    FAILS(wait(NULL), ECHILD);
    CHECK(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
    struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    child = fork();
    if (child == 0)
        _exit(0);
    FAILS(wait(NULL), ECHILD);
    CHECK(signal(SIGCHLD, SIG_DFL) == SIG_DFL);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* The child of a fork finds its own thread whole, whatever others did with it in the parent. */
static volatile int is_over;

static void *looks(void *thread) {
    char name[16];
    while (!is_over) {
        pthread_getname_np(*(pthread_t *)thread, name, sizeof name);
        pthread_kill(*(pthread_t *)thread, 0);
    }
    return NULL;
}

static void forks_while_looked_at(void) {
    enum { CHILDREN = 100 };
    pthread_t self = pthread_self(), other;
    CHECK(pthread_create(&other, NULL, looks, &self) == 0);
    for (int each = 0; each < CHILDREN; each++) {
        pid_t child = fork();
        if (child == 0) {
            char name[16];
            alarm(10);
            _exit(pthread_getname_np(self, name, sizeof name) || pthread_kill(self, 0));
        }
        CHECK(status_of(child) == 0);
    }
    is_over = 1;
    CHECK(pthread_join(other, NULL) == 0);
}

/* Stacks of the first thread and of others are as large as Linux's usual limit. */
static size_t goes_down(uintptr_t top) {
    enum { STEP = 64 << 10, DEPTH = 7 << 20 };
    volatile char place[STEP];
    place[0] = place[STEP - 1] = 1;
    if (top - (uintptr_t)place > DEPTH)
        return DEPTH;
    size_t depth = goes_down(top);
    return depth - (size_t)place[0] + (size_t)place[STEP - 1];
}

static void *uses_stack(void *depth) {
    *(size_t *)depth = goes_down((uintptr_t)__builtin_frame_address(0));
    return depth;
}

static void stacks(void) {
    struct rlimit limit;
    size_t size = 0, depth = 0;
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
    CHECK(limit.rlim_cur == 8 << 20 && limit.rlim_max == RLIM_INFINITY);
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_getstacksize(&attributes, &size) == 0 && size == limit.rlim_cur);
    CHECK(uses_stack(&depth) != NULL && depth == 7 << 20);
    depth = 0;
    pthread_t other;
    CHECK(pthread_create(&other, NULL, uses_stack, &depth) == 0);
    CHECK(pthread_join(other, NULL) == 0 && depth == 7 << 20);
}

/* Elements that have no room beside the array. */
static int compare_first(const void *one, const void *other) {
    long left = *(const long *)one, right = *(const long *)other;
    return (left > right) - (left < right);
}

static void large_elements(void) {
    enum { COUNT = 5, SIZE = 30 << 20 };
    char *array = mmap(NULL, (size_t)COUNT * SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(array != MAP_FAILED);
    for (long each = 0; each < COUNT; each++) {
        *(long *)(array + each * SIZE) = each * 3 % COUNT;
        *(long *)(array + (each + 1) * SIZE - 8) = each * 3 % COUNT;
    }
    qsort(array, COUNT, SIZE, compare_first);
    for (long each = 0; each < COUNT; each++) {
        CHECK(*(long *)(array + each * SIZE) == each);
        CHECK(*(long *)(array + (each + 1) * SIZE - 8) == each);
    }
    CHECK(munmap(array, (size_t)COUNT * SIZE) == 0);
}

/* The vector stays as it was at the start of the program. */
static void variables(char **first, size_t length) {
    char **copy = calloc(length + 1, sizeof *copy);
    memcpy(copy, first, length * sizeof *copy);
    for (int each = 0; each < 8; each++) {
        char name[32];
        snprintf(name, sizeof name, "POSIX_%d", each);
        CHECK(setenv(name, "value", 1) == 0);
        /* What was freed is used again. */
        char *block = malloc((length + 1) * sizeof *first);
        memset(block, 0x55, (length + 1) * sizeof *first);
        CHECK(memcmp(first, copy, length * sizeof *copy) == 0 && first[length] == NULL);
        free(block);
        CHECK(strcmp(getenv(name), "value") == 0 && unsetenv(name) == 0);
        CHECK(getenv(name) == NULL && getenv("POSIX") == NULL);
    }
    free(copy);
}

/* What a program began with is what the one before has ignored. */
static int ignored_at_first(void) {
    if (raise(SIGUSR1) != 0 || kill(getpid(), SIGUSR1) != 0)
        return 1;
    if (signal(SIGUSR2, SIG_DFL) != SIG_DFL || signal(SIGUSR1, SIG_DFL) != SIG_IGN)
        return 2;
    kill(getpid(), SIGUSR1);
    return 3;
}

static void inherited_signals(char *program) {
    char *arguments[] = {program, "ignored", NULL};
    CHECK(signal(SIGUSR1, SIG_IGN) == SIG_DFL);
    pid_t child = fork();
    if (child == 0) {
        execv(program, arguments);
        _exit(99);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

int main(int argc, char **argv, char **first) {
    if (argc > 1)
        return ignored_at_first();
    size_t length = 0;
    while (first[length] != NULL)
        length++;
    CHECK(mkdir(here, 0755) == 0 && chdir(here) == 0);
    variables(first, length);
    rights();
    exec_drops_buffers();
    commands();
    inherited_signals(argv[0]);
    whole_writes();
    closed_while_written();
    broken_pipes();
    names_of_directories();
    search_for_programs();
    read_in_parts();
    formats();
    children_of_groups();
    stops();
    usual_flags();
    put_back();
    texts_of_signals();
    names_and_spaces();
    interrupted_sleep();
    interrupted_wait();
    raised_by_one_thread();
    ignored_children();
    forks_while_looked_at();
    stacks();
    large_elements();
    CHECK(chdir("/") == 0 && rmdir(here) == 0);
    return finish("library-posix");
}
