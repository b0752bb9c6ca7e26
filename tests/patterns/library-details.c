/*
 * Details that programs for Linux rely on: what is kept when a stream's file takes no more, what a
 * call leaves alone, and who may run which program.
 */
#define _GNU_SOURCE
#include "library.h"
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static const char here[] = "/tmp/library-details";

static int status_of(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void file_of(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static long size_of(const char *name) {
    struct stat found;
    return stat(name, &found) == 0 ? (long)found.st_size : -1;
}

/* A program may turn to another argument while letters of one are left. */
static void clusters(void) {
    char *one[] = { "program", "-abcdefgh", "-c", NULL };
    char *other[] = { "program", "-x", NULL };
    opterr = 0;
    optind = 1;
    CHECK(getopt(3, one, "abcdefghx") == 'a' && getopt(3, one, "abcdefghx") == 'b');
    CHECK(getopt(3, one, "abcdefghx") == 'c' && optind == 1);
    optind = 2;
    CHECK(getopt(3, one, "abcdefghx") == 'c' && optind == 3);
    optind = 1;
    CHECK(getopt(3, one, "abcdefghx") == 'a' && getopt(3, one, "abcdefghx") == 'b');
    optind = 1;
    CHECK(getopt(2, other, "abcdefghx") == 'x' && optind == 2);
    CHECK(getopt(2, other, "abcdefghx") == -1);
}

/* Names of one option that begin alike are no doubt about which one is meant. */
static void synonyms(void) {
    static const struct option names[] = {
        { "color", 0, NULL, 'c' }, { "colour", 0, NULL, 'c' }, { "column", 0, NULL, 'l' }, { 0 },
    };
    char *colo[] = { "program", "--colo", NULL };
    char *col[] = { "program", "--col", NULL };
    char *single[] = { "program", "-colo", NULL };
    opterr = 0;
    optind = 0;
    CHECK(getopt_long(2, colo, "", names, NULL) == 'c');
    optind = 0;
    CHECK(getopt_long(2, col, "", names, NULL) == '?');
    optind = 0;
    CHECK(getopt_long_only(2, single, "", names, NULL) == '?');
    optind = 1;
}

/* Programs with a few descriptors have memory for a part of a set. */
static void short_sets(void) {
    int ends[2];
    struct timeval now = { 0, 0 };
    CHECK(pipe(ends) == 0 && ends[1] < 64);
    uint64_t *parts = malloc(3 * sizeof *parts);
    parts[0] = 1ULL << ends[1] | 1ULL << ends[0];
    parts[1] = parts[2] = ~0ULL;
    CHECK(select(ends[1] + 1, NULL, (void *)parts, NULL, &now) == 1);
    CHECK(parts[0] == 1ULL << ends[1] && parts[1] == ~0ULL && parts[2] == ~0ULL);
    parts[0] = 1ULL << ends[0];
    parts[1] = parts[0];
    CHECK(select(ends[1] + 1, (void *)parts, NULL, (void *)(parts + 1), &now) == 0);
    CHECK(parts[0] == 0 && parts[1] == 0 && parts[2] == ~0ULL);
    int high = fcntl(ends[1], F_DUPFD, 64);
    CHECK(high >= 64 && high < 128);
    parts[0] = 0;
    parts[1] = 1ULL << (high - 64);
    CHECK(select(high + 1, NULL, (void *)parts, NULL, NULL) == 1);
    CHECK(parts[0] == 0 && parts[1] == 1ULL << (high - 64) && parts[2] == ~0ULL);
    free(parts);
    close(high);
    close(ends[0]);
    close(ends[1]);
}

static void formats(void) {
    enum { LONG = (2 << 20) + 1 };
    char *text = malloc(LONG + 1), small[64];
    memset(text, 'x', LONG);
    text[LONG] = 0;
    CHECK(snprintf(NULL, 0, "%.*s", LONG, text) == LONG);
    CHECK(snprintf(NULL, 0, "%*d", LONG, 1) == LONG);
    CHECK(snprintf(NULL, 0, "%.2097153d", 1) == LONG);
    errno = 0;
    volatile int widest = INT_MAX;
    CHECK(snprintf(NULL, 0, "%s%*d", "x", widest, 1) == -1 && errno == EOVERFLOW);
    free(text);
    CHECK(snprintf(small, sizeof small, "%S|%C|%d", L"ab\u00e9", (wint_t)0xe9, 7) == 9);
    CHECK(!strcmp(small, "ab\u00e9|\u00e9|7"));
    void *pointer = &pointer;
    CHECK(sscanf("(nil)", "%p", &pointer) == 1 && pointer == NULL);
    CHECK(snprintf(small, sizeof small, "%p", (void *)small) > 0);
    CHECK(sscanf(small, "%p", &pointer) == 1 && pointer == small);
}

static void invalid_characters(void) {
    static const wchar_t invalid[] = { L'a', 0xd800, L'b', 0 };
    char text[16];
    wchar_t wide[16];
    FAILS(snprintf(text, sizeof text, "%ls", invalid), EILSEQ);
    FAILS(snprintf(text, sizeof text, "%.2ls", invalid), EILSEQ);
    CHECK(snprintf(text, sizeof text, "%.1ls", invalid) == 1);
    FAILS(snprintf(text, sizeof text, "%lc", (wint_t)0xd800), EILSEQ);
    FAILS(swprintf(wide, 16, L"%ls", invalid), EILSEQ);
    FAILS(swprintf(wide, 16, invalid), EILSEQ);
    FILE *file = tmpfile();
    FAILS(fputws(invalid, file), EILSEQ);
    FAILS(fwprintf(file, L"%ls", invalid), EILSEQ);
    FAILS(fprintf(file, "%ls", invalid), EILSEQ);
    char *made = text;
    FAILS(asprintf(&made, "%ls", invalid), EILSEQ);
    CHECK(fclose(file) == 0);
}

static void dates(void) {
    struct tm date = { .tm_year = 100, .tm_mday = 1, .tm_gmtoff = -5400, .tm_zone = "XYZ" };
    char text[64];
    CHECK(strftime(text, sizeof text, "%z %Z", &date) == 9 && !strcmp(text, "-0130 XYZ"));
    date.tm_zone = NULL;
    date.tm_gmtoff = 19800;
    CHECK(strftime(text, sizeof text, "%z %Z", &date) == 9 && !strcmp(text, "+0530 UTC"));
    date.tm_isdst = -1;
    CHECK(strftime(text, sizeof text, "%z|%Z|", &date) == 2);
    time_t now = 0;
    CHECK(strftime(text, sizeof text, "%z %Z", gmtime(&now)) == 9 && !strcmp(text, "+0000 UTC"));
    const char *rest = strptime("5 CET 7 2026 53 26", "%d %Z %H %G %V %g", &date);
    CHECK(rest != NULL && *rest == 0 && date.tm_mday == 5 && date.tm_hour == 7);
}

/* What a descriptor that does not wait could not take is written later. */
static void full_pipes(void) {
    enum { LINE = 100, LINES = 2000 };
    int ends[2], sent = 0, failed = 0;
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    FILE *file = fdopen(ends[1], "w");
    char line[LINE + 1], back[4096];
    long length = 0;
    uint32_t wanted = 0, found = 0;
    for (int number = 0; number < LINES; number += 1) {
        snprintf(line, sizeof line, "%0*d", LINE, number);
        size_t done = 0;
        while (done < LINE) {
            size_t more = fwrite(line + done, 1, LINE - done, file);
            done += more;
            if (done < LINE) {
                failed += 1;
                CHECK(errno == EAGAIN && ferror(file));
                clearerr(file);
                ssize_t count = read(ends[0], back, sizeof back);
                for (ssize_t at = 0; at < count; at += 1)
                    found = found * 31 + (unsigned char)back[at];
                length += count > 0 ? count : 0;
                if (count <= 0) {
                    CHECK(!"the pipe is neither full nor empty");
                    return;
                }
            }
        }
        for (int at = 0; at < LINE; at += 1)
            wanted = wanted * 31 + (unsigned char)line[at];
        sent += LINE;
    }
    CHECK(failed > 0);
    for (int tries = 0; tries < 1000; tries += 1) {
        int flushed = fflush(file);
        ssize_t count;
        while ((count = read(ends[0], back, sizeof back)) > 0) {
            for (ssize_t at = 0; at < count; at += 1)
                found = found * 31 + (unsigned char)back[at];
            length += count;
        }
        if (flushed == 0)
            break;
    }
    CHECK(length == sent && found == wanted);
    CHECK(fclose(file) == 0 && close(ends[0]) == 0);
}

/* A line of which a part has come, from a descriptor that does not wait. */
static void parts_of_lines(void) {
    int ends[2];
    char text[32], *line = NULL;
    size_t size = 0;
    wchar_t wide[32];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    FILE *file = fdopen(ends[0], "r");
    CHECK(write(ends[1], "par", 3) == 3);
    CHECK(fgets(text, sizeof text, file) == text && !strcmp(text, "par") && ferror(file));
    errno = 0;
    CHECK(fgets(text, sizeof text, file) == NULL && errno == EAGAIN);
    clearerr(file);
    CHECK(write(ends[1], "ts\nmo", 5) == 5);
    CHECK(fgets(text, sizeof text, file) == text && !strcmp(text, "ts\n"));
    CHECK(getline(&line, &size, file) == 2 && !strcmp(line, "mo"));
    FAILS(getline(&line, &size, file), EAGAIN);
    clearerr(file);
    /* Half a character stays until the other half has come. */
    CHECK(write(ends[1], "x\xc3", 2) == 2);
    CHECK(fgetws(wide, 32, file) == wide && !wcscmp(wide, L"x"));
    errno = 0;
    CHECK(fgetwc(file) == WEOF && errno == EAGAIN);
    clearerr(file);
    CHECK(write(ends[1], "\xa9", 1) == 1);
    CHECK(fgetwc(file) == 0xe9);
    free(line);
    CHECK(fclose(file) == 0 && close(ends[1]) == 0);
}

/* Elements that a block has room for. */
static void whole_elements(void) {
    char block[10];
    FILE *file = fmemopen(block, sizeof block, "w");
    setvbuf(file, NULL, _IONBF, 0);
    errno = 0;
    CHECK(fwrite("abcdefghijkl", 3, 4, file) == 3 && errno == ENOSPC);
    fclose(file);
}

static void modes(void) {
    file_of("log", "12345");
    FILE *file = fopen("log", "a");
    CHECK(ftell(file) == 5 && fputs("6", file) >= 0 && ftell(file) == 6 && fclose(file) == 0);
    file = fopen("log", "a+");
    CHECK(ftell(file) == 0 && fgetc(file) == '1' && fclose(file) == 0);

    int number = open("log", O_RDONLY);
    errno = 0;
    CHECK(fdopen(number, "w") == NULL && errno == EINVAL);
    CHECK(fdopen(number, "r+") == NULL && fdopen(number, "a") == NULL);
    file = fdopen(number, "r");
    CHECK(file != NULL && fclose(file) == 0);
    number = open("log", O_WRONLY);
    errno = 0;
    CHECK(fdopen(number, "r") == NULL && errno == EINVAL);
    file = fdopen(number, "a");
    CHECK(file != NULL && ftell(file) == 6 && fclose(file) == 0);

    file = fopen("log", "r+");
    CHECK(fgetc(file) == '1');
    CHECK(freopen(NULL, "a", file) == file && fputs("7", file) >= 0 && fflush(file) == 0);
    CHECK(size_of("log") == 7);
    CHECK(fclose(file) == 0);
    file = fopen("log", "r+");
    CHECK(fgetc(file) == '1' && freopen(NULL, "r", file) == file && fgetc(file) == '1');
    CHECK(fclose(file) == 0);
    file = fopen("log", "w+");
    CHECK(fputs("old text", file) >= 0 && freopen(NULL, "w", file) == file);
    CHECK(ftell(file) == 0 && size_of("log") == 0);
    CHECK(fputs("new", file) >= 0 && fclose(file) == 0 && size_of("log") == 3);
}

/* A name with a colon is that of a file. */
static void colons(void) {
    file_of("log-12:30.txt", "x");
    CHECK(size_of("./log-12:30.txt") == 1 && size_of("log-12:30.txt") == 1);
    CHECK(access("null:", F_OK) == -1 && errno == ENOENT);
    file_of("null:", "xy");
    CHECK(size_of("null:") == 2 && unlink("null:") == 0 && unlink("log-12:30.txt") == 0);
    /* The one scheme that programs may still name so. */
    struct stat found;
    CHECK(stat("scif:", &found) == 0 && S_ISDIR(found.st_mode));
}

/* A program that reads ahead leaves the rest to the next one. */
static void rest_of_input(void) {
    char text[16];
    file_of("lines", "one\ntwo\nthree\n");
    int number = open("lines", O_RDONLY);
    pid_t child = fork();
    if (child == 0) {
        dup2(number, 0);
        exit(fgets(text, sizeof text, stdin) != NULL && !strcmp(text, "one\n") ? 41 : 1);
    }
    CHECK(status_of(child) == 41);
    CHECK(read(number, text, 4) == 4 && !memcmp(text, "two\n", 4));
    close(number);
}

/* An error of the output is none of the input. */
static void prompt_to_nobody(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[0], 0);
        setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
        fputs("prompt", stdout);
        close(1);
        _exit(fgetc(stdin) == 'x' && ferror(stdout) && !ferror(stdin) ? 42 : 1);
    }
    CHECK(status_of(child) == 42);
    close(ends[0]);
    close(ends[1]);
}

static int runs(const char *name, int user) {
    pid_t child = fork();
    if (child == 0) {
        if (user != 0 && setuid(user) != 0)
            _exit(100);
        execlp(name, name, "details", (char *)NULL);
        _exit(errno == EACCES ? 13 : errno == ENOENT ? 2 : 101);
    }
    return status_of(child);
}

static void rights_to_run(void) {
    file_of("script", "#!/bin/sh\nexit 43\n");
    CHECK(chmod("script", 0644) == 0 && runs("./script", 0) == 13);
    CHECK(chmod("script", 0744) == 0 && runs("./script", 0) == 43 && runs("./script", 7) == 13);
    CHECK(chmod("script", 0654) == 0 && runs("./script", 0) == 43 && runs("./script", 7) == 43);
    /* The search goes on, and reports what it has found in the end. */
    CHECK(mkdir("first", 0755) == 0 && mkdir("second", 0755) == 0);
    char *before = strdup(getenv("PATH"));
    file_of("first/tool", "#!/bin/sh\nexit 44\n");
    file_of("second/tool", "#!/bin/sh\nexit 45\n");
    CHECK(chmod("first/tool", 0644) == 0 && chmod("second/tool", 0755) == 0);
    CHECK(setenv("PATH", "/tmp/library-details/first:/tmp/library-details/second:/bin", 1) == 0);
    CHECK(runs("tool", 0) == 45);
    CHECK(chmod("second/tool", 0644) == 0 && runs("tool", 0) == 13 && runs("absent", 0) == 2);
    CHECK(setenv("PATH", before, 1) == 0);
    free(before);
}

static int is_upward(void) {
    volatile double one = 1, three = 3;
    double up = one / three;
    int is_set = fegetround() == FE_UPWARD;
    fesetround(FE_TONEAREST);
    volatile double near = one / three;
    fesetround(FE_UPWARD);
    return is_set && up > near;
}

static void *look_at_rounding(void *unused) {
    (void)unused;
    return is_upward() ? &failures : NULL;
}

static void rounding(void) {
    pthread_t thread;
    void *seen = NULL;
    CHECK(fesetround(FE_UPWARD) == 0 && is_upward());
    pid_t child = fork();
    if (child == 0)
        _exit(is_upward() ? 46 : 1);
    CHECK(status_of(child) == 46);
    CHECK(pthread_create(&thread, NULL, look_at_rounding, NULL) == 0);
    CHECK(pthread_join(thread, &seen) == 0 && seen == &failures);
    CHECK(fesetround(FE_TONEAREST) == 0);
}

static pthread_t early;

static void *compare_early(void *unused) {
    (void)unused;
    return pthread_equal(early, pthread_self()) ? &early : NULL;
}

static void numbers_of_threads(void) {
    for (int round = 0; round < 200; round += 1) {
        void *same = NULL;
        early = (pthread_t)0;
        CHECK(pthread_create(&early, NULL, compare_early, NULL) == 0);
        CHECK(pthread_join(early, &same) == 0 && same == &early);
    }
}

/* A time before the beginning of the clock has passed. */
static void negative_times(void) {
    static const struct timespec before = { -1, 0 }, wrong = { -1, -1 };
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    sem_t semaphore;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &before) == ETIMEDOUT);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &wrong) == EINVAL);
    CHECK(pthread_mutex_timedlock(&mutex, &before) == ETIMEDOUT);
    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    CHECK(pthread_rwlock_timedrdlock(&lock, &before) == ETIMEDOUT);
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    FAILS(sem_timedwait(&semaphore, &before), ETIMEDOUT);
    FAILS(sem_timedwait(&semaphore, &wrong), EINVAL);
}

static void directories(void) {
    char place[PATH_MAX];
    struct dirent **entries;
    CHECK(chdir("/bin") == 0 && access("sh", X_OK) == 0);
    CHECK(chdir("/usr/bin/") == 0 && getcwd(place, sizeof place) != NULL && access("sh", X_OK) == 0);
    CHECK(chdir(here) == 0);
    errno = EDOM;
    int count = scandir(".", &entries, NULL, alphasort);
    CHECK(count > 2 && errno == EDOM);
    while (count > 0)
        free(entries[count -= 1]);
    free(entries);
}

/* Starts this program again with bytes that are not UTF-8. */
static void bytes_of_arguments(char *program) {
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = { program, "bytes", "\xff\xfe", NULL };
        char *variables[] = { "DETAIL=\xe9\x80", "PATH=/bin", NULL };
        execvpe(program, arguments, variables);
        _exit(1);
    }
    CHECK(status_of(child) == 47);
}

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "bytes")) {
        const char *value = getenv("DETAIL");
        return !strcmp(arguments[2], "\xff\xfe") && value && !strcmp(value, "\xe9\x80") ? 47 : 1;
    }
    CHECK(mkdir(here, 0755) == 0 && chdir(here) == 0);
    short_sets();
    formats();
    invalid_characters();
    dates();
    full_pipes();
    parts_of_lines();
    whole_elements();
    modes();
    colons();
    rest_of_input();
    prompt_to_nobody();
    rights_to_run();
    rounding();
    numbers_of_threads();
    negative_times();
    directories();
    bytes_of_arguments(arguments[0]);
    synonyms();
    clusters();
    CHECK(chdir("/") == 0 && system("rm -r /tmp/library-details") == 0);
    return finish("library-details");
}
