/* Numbers and dates in text, streams at their edges, parts of paths, programs by the names of other
 * systems: what the tests of other C libraries have found. */
#include "library.h"

#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static void numbers(void) {
    double number = 0;
    float small = 0;
    int count = 0, value = 0;
    char letter = 0;
    CHECK(sscanf("0x.1p4    012", "%lf%n %i", &number, &count, &value) == 2);
    CHECK(number == 1 && count == 6 && value == 10);
    CHECK(sscanf("inf", "%lf", &number) == 1 && isinf(number));
    CHECK(sscanf("-nan(7)x", "%f%c", &small, &letter) == 2 && isnan(small) && letter == 'x');
    CHECK(sscanf("10e", "%lf", &number) == 0 && sscanf("0x1p 12", "%lf", &number) == 0);
    CHECK(sscanf("1.00000017881393432617187499", "%f", &small) == 1 && small == 1.0000001f);
    CHECK(strtof("1.00000017881393432617187499", NULL) == 1.0000001f);
    CHECK(strtof("340282356779733661637539395458142568447.9", NULL) == 0x1.fffffep+127f);
    CHECK(strtod("0x1.00000000000008001p0", NULL) == 0x1.0000000000001p0);
    wchar_t wide[] = L"0x1p3 nan";
    CHECK(swscanf(wide, L"%lf %f", &number, &small) == 2 && number == 8 && isnan(small));

    /* Numbers that their type cannot hold. */
    static const char *const beyond[] = { "1e-320", "-1e-320", "1e-400", "0x1p-2000", "-1e400",
                                          "0x1p5000" };
    static const char *const within[] = { "0", "-0.0e-999", "0x0p-9999", "inf", "nan(12)",
                                          "0x1p-1074", "2.2250738585072014e-308", "1.7e308x" };
    for (size_t at = 0; at < sizeof beyond / sizeof *beyond; at++) {
        errno = 0;
        number = strtod(beyond[at], NULL);
        CHECK(errno == ERANGE && (isinf(number) || fabs(number) < 2.3e-308));
    }
    for (size_t at = 0; at < sizeof within / sizeof *within; at++) {
        errno = 0;
        strtod(within[at], NULL);
        CHECK(errno == 0);
    }
    errno = 0;
    CHECK(strtof("1e-40", NULL) > 0 && errno == ERANGE);
    errno = 0;
    CHECK(wcstod(L"1e-320", NULL) > 0 && errno == ERANGE);

    /* A number as long as a file is read in a moment. */
    enum { LENGTH = 4 << 20 };
    char *text = malloc(LENGTH);
    memset(text, '1', LENGTH);
    memcpy(text + LENGTH - 3, " 2", 3);
    CHECK(sscanf(text, "%f %c", &small, &letter) == 2 && isinf(small) && letter == '2');
    free(text);

    char *end = NULL;
    errno = 0;
    CHECK(strtol("123", &end, 37) == 0 && errno == EINVAL && end && !strcmp(end, "123"));
    wchar_t *wide_end = NULL;
    errno = 0;
    CHECK(wcstol(wide, &wide_end, 37) == 0 && errno == EINVAL && wide_end == wide);
    CHECK(wcstoul(wide, NULL, 1) == 0 && errno == EINVAL);
}

static const char *written(const char *format, time_t time) {
    static char text[80];
    struct tm date;
    gmtime_r(&time, &date);
    return strftime(text, sizeof text, format, &date) ? text : "";
}

static void dates(void) {
    const time_t monday = 1451913825;
    CHECK(!strcmp(written("%C|%r|%G|%g", monday), "20|01:23:45 PM|2016|16"));
    CHECK(!strcmp(written("%U|%W|%V", monday), "01|01|01"));
    CHECK(!strcmp(written("%-d %_d %3d %k %l %^a", monday), "4  4 004 13  1 MON"));
    CHECK(!strcmp(written("d\303\251but %d", monday), "d\303\251but 04"));
    CHECK(!strcmp(written("%F", 253402300800), "+10000-01-01"));
}

static void streams(void) {
    char path[] = "/tmp/text-XXXXXX";
    int number = mkstemp(path);
    CHECK(number >= 0 && write(number, "abcd", 4) == 4 && close(number) == 0);
    number = open(path, O_WRONLY);
    FILE *file = fdopen(number, "a");
    CHECK(file && fwrite("efg", 1, 3, file) == 3 && ftell(file) == 7);
    CHECK(fflush(file) == 0 && ftell(file) == 7 && fclose(file) == 0);
    file = fopen(path, "r");
    char text[16] = "";
    CHECK(file && fgets(text, sizeof text, file) && !strcmp(text, "abcdefg"));

    /* As many bytes as are read ahead can be put back, but not without end. */
    int back = 0;
    while (back < 1 << 20 && ungetc('x', file) == 'x')
        back++;
    CHECK(back >= 4096 && back < 1 << 20 && getc(file) == 'x');
    CHECK(fclose(file) == 0 && unlink(path) == 0);
}

static int is_base(const char *path, const char *base) {
    char text[32];
    strcpy(text, path);
    return !strcmp(basename(text), base);
}

static void paths(void) {
    CHECK(!strcmp(basename(NULL), ".") && !strcmp(dirname(NULL), "."));
    CHECK(is_base("", ".") && is_base("/usr/lib", "lib") && is_base("/usr/", "usr"));
    CHECK(is_base("usr/", "usr") && is_base("/", "/") && is_base("///", "/"));
    CHECK(is_base("//usr//lib//", "lib") && is_base("..", "..") && is_base("a", "a"));
}

static int status_of(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child ? status : -1;
}

static void programs(void) {
    CHECK(access("/bin/sh", X_OK) == 0 && access("/usr/bin/env", F_OK) == 0);
    FAILS(access("/bin/missing", F_OK), ENOENT);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(100);
    }
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static int order[8], called;

static void note(void *value) {
    order[called++] = *(int *)value;
}

static int one = 1, two = 2, three = 3, four = 4;

static void leave(void) {
    pthread_cleanup_push(note, &three);
    pthread_exit(&four);
    pthread_cleanup_pop(0);
}

static void *with_handlers(void *unused) {
    pthread_cleanup_push(note, &one);
    pthread_cleanup_push(note, &two);
    pthread_cleanup_pop(1);
    pthread_cleanup_push(note, &four);
    pthread_cleanup_pop(0);
    leave();
    pthread_cleanup_pop(0);
    return unused;
}

static void handlers(void) {
    pthread_t thread;
    void *value = NULL;
    CHECK(pthread_create(&thread, NULL, with_handlers, NULL) == 0);
    CHECK(pthread_join(thread, &value) == 0 && value == &four);
    CHECK(called == 3 && order[0] == 2 && order[1] == 3 && order[2] == 1);
    int old = -1;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_ENABLE);
    CHECK(pthread_setcancelstate(old, &old) == 0 && old == PTHREAD_CANCEL_DISABLE);
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    CHECK(pthread_setcanceltype(2, NULL) == EINVAL && pthread_setcancelstate(-1, NULL) == EINVAL);
}

static void *unused_thread(void *argument) {
    return argument;
}

static void attributes(void) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    int kind = -1;
    clockid_t clock = -1;
    CHECK(pthread_mutexattr_init(&mutex) == 0 && pthread_mutexattr_gettype(&mutex, &kind) == 0);
    CHECK(kind == PTHREAD_MUTEX_DEFAULT);
    CHECK(pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_RECURSIVE) == 0);
    CHECK(pthread_mutexattr_gettype(&mutex, &kind) == 0 && kind == PTHREAD_MUTEX_RECURSIVE);
    CHECK(pthread_condattr_init(&condition) == 0);
    CHECK(pthread_condattr_getclock(&condition, &clock) == 0 && clock == CLOCK_REALTIME);
    CHECK(pthread_condattr_setclock(&condition, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_condattr_getclock(&condition, &clock) == 0 && clock == CLOCK_MONOTONIC);

    /* A stack of a half of all addresses has no place beside as many that are taken. */
    const size_t half = 1UL << 46;
    void *taken = mmap(NULL, half, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t wide;
    pthread_t thread;
    CHECK(taken != MAP_FAILED);
    CHECK(pthread_attr_init(&wide) == 0 && pthread_attr_setstacksize(&wide, half) == 0);
    CHECK(pthread_create(&thread, &wide, unused_thread, NULL) == EAGAIN);
    CHECK(munmap(taken, half) == 0);
}

int main(void) {
    paths();
    dates();
    streams();
    programs();
    attributes();
    handlers();
    numbers();
    return finish("text");
}
