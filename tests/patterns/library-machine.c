/* Descriptors and files at places, names of threads, priorities, the machine's memory. */
#include "library.h"

#include <fcntl.h>
#include <paths.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void descriptors(void) {
    char path[] = "/tmp/machine-XXXXXX";
    int file = mkostemp(path, O_APPEND | O_CLOEXEC);
    CHECK(file >= 0 && unlink(path) == 0);
    CHECK((fcntl(file, F_GETFD) & FD_CLOEXEC) && (fcntl(file, F_GETFL) & O_APPEND));
    CHECK(fcntl(file, F_SETFL, 0) == 0);
    FAILS(mkostemp(path, 0), EINVAL);

    int copy = dup3(file, 77, O_CLOEXEC);
    CHECK(copy == 77 && (fcntl(copy, F_GETFD) & FD_CLOEXEC));
    CHECK(dup3(file, 77, 0) == 77 && !(fcntl(copy, F_GETFD) & FD_CLOEXEC) && close(77) == 0);
    FAILS(dup3(file, file, 0), EINVAL);
    FAILS(dup3(file, 77, O_APPEND), EINVAL);
    FAILS(dup3(-1, 77, 0), EBADF);

    char one[3] = "abc", two[5] = "defgh", into[2][4] = { "", "" };
    struct iovec parts[2] = { { one, 3 }, { two, 5 } };
    CHECK(pwritev(file, parts, 2, 4) == 8 && lseek(file, 0, SEEK_CUR) == 0);
    struct iovec places[2] = { { into[0], 4 }, { into[1], 4 } };
    CHECK(preadv(file, places, 2, 5) == 7 && !memcmp(into[0], "bcde", 4) && !memcmp(into[1], "fgh", 3));
    CHECK(preadv(file, places, 2, 12) == 0);
    FAILS(preadv(file, places, -1, 0), EINVAL);
    FAILS(preadv(file, places, 2, -1), EINVAL);
    FAILS(pwritev(-1, parts, 2, 0), EBADF);
    int ends[2];
    CHECK(pipe(ends) == 0);
    FAILS(preadv(ends[0], places, 2, 0), ESPIPE);
    FAILS(pwritev(ends[1], parts, 2, 0), ESPIPE);

    struct stat stat;
    CHECK(posix_fallocate(file, 10, 90) == 0 && fstat(file, &stat) == 0 && stat.st_size == 100);
    CHECK(posix_fallocate(file, 0, 5) == 0 && fstat(file, &stat) == 0 && stat.st_size == 100);
    CHECK(posix_fallocate(file, 0, 0) == EINVAL && posix_fallocate(file, -1, 9) == EINVAL);
    CHECK(posix_fallocate(file, 9, 0x7fffffffffffffff) == EFBIG && posix_fallocate(ends[0], 0, 9) == ESPIPE);
    CHECK(posix_fallocate(-1, 0, 9) == EBADF);

    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(ends[0], &readable);
    struct timespec moment = { 0, 1000 }, wrong = { 0, 1000000000 };
    CHECK(pselect(ends[0] + 1, &readable, NULL, NULL, &moment, NULL) == 0 && !FD_ISSET(ends[0], &readable));
    FD_SET(ends[0], &readable);
    CHECK(write(ends[1], "x", 1) == 1 && pselect(ends[0] + 1, &readable, NULL, NULL, NULL, NULL) == 1);
    CHECK(FD_ISSET(ends[0], &readable));
    FAILS(pselect(ends[0] + 1, &readable, NULL, NULL, &wrong, NULL), EINVAL);
    /* Nothing has exceptions, but their descriptors must be open. */
    fd_set exceptional;
    FD_ZERO(&exceptional);
    FD_SET(ends[1], &exceptional);
    CHECK(pselect(ends[1] + 1, NULL, NULL, &exceptional, &moment, NULL) == 0);
    CHECK(!FD_ISSET(ends[1], &exceptional));
    FD_SET(ends[1], &exceptional);
    CHECK(close(ends[1]) == 0);
    FAILS(pselect(ends[1] + 1, NULL, NULL, &exceptional, &moment, NULL), EBADF);
    CHECK(close(ends[0]) == 0 && close(file) == 0);
}

static void *named(void *thread) {
    char name[16] = "";
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && !strncmp(name, program_invocation_short_name, 15));
    CHECK(pthread_setname_np(pthread_self(), "worker") == 0 && pthread_setname_np(*(pthread_t *)thread, "main thread") == 0);
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && !strcmp(name, "worker"));
    return NULL;
}

static void names(char *program) {
    char name[32] = "", *slash = strrchr(program, '/');
    CHECK(!strcmp(program_invocation_short_name, slash ? slash + 1 : program));
    CHECK(pthread_getname_np(pthread_self(), name, 16) == 0 && !strncmp(name, program_invocation_short_name, 15));
    CHECK(strlen(name) == strnlen(program_invocation_short_name, 15));
    pthread_t own = pthread_self(), thread;
    CHECK(pthread_create(&thread, NULL, named, &own) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_getname_np(own, name, sizeof name) == 0 && !strcmp(name, "main thread"));
    CHECK(pthread_setname_np(own, "0123456789abcdef") == ERANGE && pthread_getname_np(own, name, 15) == ERANGE);
    CHECK(pthread_setname_np(own, "0123456789abcde") == 0);
    CHECK(pthread_getname_np(own, name, 16) == 0 && !strcmp(name, "0123456789abcde"));
    CHECK(!strcmp(_PATH_TMP, "/tmp/") && secure_getenv("PATH") == getenv("PATH"));
}

static void machine(void) {
    struct sysinfo found;
    CHECK(sysinfo(&found) == 0 && found.mem_unit == (unsigned)getpagesize() && found.uptime >= 0);
    CHECK(found.totalram == (unsigned long)sysconf(_SC_PHYS_PAGES) && found.freeram > 0 && found.freeram < found.totalram);
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, 0) == 0 && getpriority(PRIO_PROCESS, getpid()) == 0 && errno == 0);
    FAILS(getpriority(3, 0), EINVAL);
    FAILS(getpriority(PRIO_PROCESS, 99999999), ESRCH);
    CHECK(setpriority(PRIO_PROCESS, 0, 0) == 0 && nice(0) == 0);
    FAILS(setpriority(PRIO_PROCESS, 0, 5), EPERM);
    FAILS(nice(1), EPERM);
}

/* The user and idle times of the next line, which begins with this word, in ticks. */
static void times_of(FILE *file, const char *word, long long *user, long long *idle) {
    char line[256], found[24];
    long long nice = -1, system = -1;
    *user = *idle = -1;
    CHECK(fgets(line, sizeof line, file) != NULL);
    CHECK(sscanf(line, "%23s %lld %lld %lld %lld", found, user, &nice, &system, idle) == 5);
    CHECK(!strcmp(found, word) && *user >= 0 && nice == 0 && system == 0 && *idle >= 0);
}

/* What programs that measure read again and again from one descriptor. */
static void processors(void) {
    FILE *file = fopen("/proc/stat", "r");
    CHECK(file != NULL);
    long count = sysconf(_SC_NPROCESSORS_ONLN), second = sysconf(_SC_CLK_TCK);
    long long users[2], idles[2];
    for (int round = 0; round < 2; round++) {
        long long users_sum = 0, idles_sum = 0;
        long before = times(NULL);
        rewind(file);
        times_of(file, "cpu", &users[round], &idles[round]);
        for (long number = 0; number < count; number++) {
            char word[24];
            long long user, idle;
            snprintf(word, sizeof word, "cpu%ld", number);
            times_of(file, word, &user, &idle);
            /* All its time since the start; both numbers are rounded down. */
            CHECK(user + idle >= before - 2 && user + idle <= times(NULL));
            users_sum += user, idles_sum += idle;
        }
        CHECK(users_sum == users[round] && idles_sum == idles[round]);
        clock_t start = clock();
        while (round == 0 && clock() - start < CLOCKS_PER_SEC / 20) {}
    }
    /* clock() and this count the same time, by steps of at most 10 ms. */
    CHECK(users[1] - users[0] >= second / 25 && idles[1] >= idles[0]);
    fclose(file);

    char line[256];
    int models = 0;
    file = fopen("/proc/cpuinfo", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file)) models += !strncmp(line, "model name\t: ", 13);
    CHECK(models == count);
    fclose(file);
}

int main(int count, char **arguments) {
    (void)count;
    descriptors();
    names(arguments[0]);
    machine();
    processors();
    return finish("machine");
}
