/*
 * Parts of POSIX that programs rely on without thinking of them: rights of files by their modes,
 * programs that take the place of a child of `fork`, the search for them, reads in parts, numbered
 * arguments of formats, children of a group, signals that would stop the program, and the vector of
 * variables that `main` gets.
 */
#include "library.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

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

static int found_by_exec(const char *name) {
    pid_t child = fork();
    if (child == 0) {
        execlp(name, name, NULL);
        _exit(errno);
    }
    return status_of(child);
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

int main(int argc, char **argv, char **first) {
    (void)argc;
    (void)argv;
    size_t length = 0;
    while (first[length] != NULL)
        length++;
    CHECK(mkdir(here, 0755) == 0 && chdir(here) == 0);
    variables(first, length);
    rights();
    exec_drops_buffers();
    search_for_programs();
    read_in_parts();
    formats();
    children_of_groups();
    stops();
    CHECK(chdir("/") == 0 && rmdir(here) == 0);
    return finish("library-posix");
}
