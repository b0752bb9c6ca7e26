/*
 * Names of POSIX, the BSD systems and GNU's library that programs expect beside the usual ones: waits
 * for children in other forms, effective ids, names of new files, advice, widths of characters, dates
 * from text, and constants of the headers.
 */
#include "library.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static void constants(void) {
    CHECK(DT_UNKNOWN == 0 && DT_FIFO == 1 && DT_CHR == 2 && DT_DIR == 4 && DT_BLK == 6);
    CHECK(DT_REG == 8 && DT_LNK == 10 && DT_SOCK == 12 && DT_WHT == 14);
    CHECK(IFTODT(S_IFDIR | 0755) == DT_DIR && DTTOIF(DT_REG) == S_IFREG);
    CHECK((S_ISUID | S_ISGID | S_ISVTX) == 07000);
    CHECK(LINE_MAX == 2048 && sysconf(_SC_LINE_MAX) == LINE_MAX);
    CHECK(ARG_MAX >= _POSIX_ARG_MAX && sysconf(_SC_ARG_MAX) == ARG_MAX);
    CHECK(NGROUPS_MAX >= 8 && sysconf(_SC_NGROUPS_MAX) == NGROUPS_MAX);
    CHECK(sysconf(_SC_THREAD_DESTRUCTOR_ITERATIONS) == PTHREAD_DESTRUCTOR_ITERATIONS);
    CHECK(MAXHOSTNAMELEN >= 64 && howmany(10, 4) == 3 && roundup(10, 4) == 12);
    CHECK(SIGIOT == SIGABRT && SIGCLD == SIGCHLD && SI_QUEUE < 0);
    CHECK(SEGV_MAPERR == 1 && SEGV_ACCERR == 2);
    CHECK(EREMOTEIO == 121 && ENOSR == 63 && EMULTIHOP == 72 && ETOOMANYREFS == 109);
    CHECK(strcmp(strerror_l(ENOENT, newlocale(LC_ALL_MASK, "C", NULL)), strerror(ENOENT)) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_NONE, .sigev_value = {.sival_int = 1}};
    CHECK(event.sigev_value.sival_int == 1);
}

static pid_t ends_with(int status) {
    pid_t child = fork();
    if (child == 0)
        _exit(status);
    return child;
}

static void waits(void) {
    int status = 0;
    struct rusage used;
    siginfo_t information;
    pid_t child = ends_with(3);
    memset(&used, 1, sizeof used);
    CHECK(wait4(child, &status, 0, &used) == child && WEXITSTATUS(status) == 3);
    CHECK(used.ru_utime.tv_sec == 0 && used.ru_nivcsw == 0);
    child = ends_with(4);
    CHECK(wait3(&status, 0, NULL) == child && WEXITSTATUS(status) == 4);
    child = ends_with(5);
    memset(&information, 1, sizeof information);
    CHECK(waitid(P_PID, (id_t)child, &information, WEXITED) == 0);
    CHECK(information.si_signo == SIGCHLD && information.si_code == CLD_EXITED);
    CHECK(information.si_pid == child && information.si_status == 5);
    child = ends_with(6);
    CHECK(waitid(P_PGID, (id_t)getpgrp(), &information, WEXITED) == 0);
    CHECK(information.si_pid == child && information.si_status == 6);
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    child = fork();
    if (child == 0)
        _exit(read(ends[0], &byte, 1) != 1);
    CHECK(waitid(P_ALL, 0, &information, WEXITED | WNOHANG) == 0);
    CHECK(information.si_signo == 0 && information.si_pid == 0);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitid(P_ALL, 0, &information, WEXITED | WSTOPPED) == 0);
    CHECK(information.si_pid == child && information.si_code == CLD_KILLED);
    CHECK(information.si_status == SIGKILL);
    FAILS(waitid(P_ALL, 0, &information, WEXITED), ECHILD);
    FAILS(waitid(P_ALL, 0, &information, WSTOPPED), EINVAL);
    FAILS(waitid(P_PID, 0, &information, WEXITED), EINVAL);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void ids(void) {
    CHECK(setegid(5) == 0 && getegid() == 5 && getgid() == 0);
    CHECK(seteuid(7) == 0 && geteuid() == 7 && getuid() == 0);
    FAILS(seteuid(8), EPERM);
    CHECK(seteuid(0) == 0 && geteuid() == 0);
    CHECK(setegid(0) == 0 && getegid() == 0);
}

static void exec_with_variables(void) {
    char *arguments[] = {(char *)"sh", (char *)"-c", (char *)"exit $CODE", NULL};
    char *variables[] = {(char *)"CODE=21", NULL};
    pid_t child = fork();
    if (child == 0) {
        execvpe("sh", arguments, variables);
        _exit(99);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 21);
}

static void files(void) {
    char name[] = "/tmp/additions-XXXXXX.txt", wrong[] = "/tmp/XXXXX.txt";
    int number = mkstemps(name, 4);
    CHECK(number >= 0 && strcmp(name + strlen(name) - 4, ".txt") == 0);
    CHECK(strstr(name, "XXXXXX") == NULL && access(name, F_OK) == 0);
    FAILS(mkstemps(wrong, 4), EINVAL);
    FAILS(mkstemps(wrong, 400), EINVAL);
    FAILS(mkstemps(wrong, -1), EINVAL);
    CHECK(posix_fadvise(number, 0, 0, POSIX_FADV_WILLNEED) == 0);
    CHECK(posix_fadvise(number, 0, 0, 77) == EINVAL);
    CHECK(posix_fadvise(-1, 0, 0, POSIX_FADV_NORMAL) == EBADF);
    int ends[2];
    CHECK(pipe(ends) == 0 && posix_fadvise(ends[0], 0, 0, POSIX_FADV_NORMAL) == ESPIPE);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    CHECK(close(number) == 0 && unlink(name) == 0);
    char *free_name = tempnam("/tmp", "abcdefgh");
    CHECK(free_name != NULL && strncmp(free_name, "/tmp/abcde", 10) == 0);
    CHECK(access(free_name, F_OK) == -1);
    free(free_name);
    free_name = tempnam("/no/such/directory", NULL);
    CHECK(free_name != NULL && strncmp(free_name, "/tmp/", 5) == 0);
    free(free_name);

    CHECK(mkdir("/tmp/additions", 0755) == 0);
    CHECK(close(open("/tmp/additions/file", O_CREAT | O_WRONLY, 0600)) == 0);
    DIR *directory = opendir("/tmp/additions");
    struct dirent entry, *found = NULL;
    int files = 0, rounds = 0;
    while (readdir_r(directory, &entry, &found) == 0 && found != NULL && rounds++ < 10) {
        CHECK(found == &entry);
        files += strcmp(entry.d_name, "file") == 0 && entry.d_type == DT_REG;
    }
    CHECK(files == 1 && found == NULL && closedir(directory) == 0);
    CHECK(unlink("/tmp/additions/file") == 0 && rmdir("/tmp/additions") == 0);

    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(page, 7, 4096);
    CHECK(posix_madvise(page, 4096, POSIX_MADV_DONTNEED) == 0 && *(char *)page == 7);
    CHECK(posix_madvise(page, 4096, 99) == EINVAL);
    explicit_bzero(page, 4096);
    CHECK(((char *)page)[0] == 0 && ((char *)page)[4095] == 0);
    CHECK(munmap(page, 4096) == 0);
    double loads[3];
    CHECK(getloadavg(loads, 3) == -1);
    FILE *file = tmpfile();
    char buffer[64];
    setbuffer(file, buffer, sizeof buffer);
    CHECK(fputs("text", file) >= 0 && fclose(file) == 0);
}

static void threads(void) {
    pthread_attr_t attributes;
    size_t size = 0;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_getguardsize(&attributes, &size) == 0 && size == 4096);
    CHECK(pthread_attr_setguardsize(&attributes, 0) == 0);
    CHECK(pthread_attr_getguardsize(&attributes, &size) == 0 && size == 0);
    CHECK(pthread_attr_setguardsize(&attributes, 4097) == EINVAL);
    CHECK(pthread_attr_destroy(&attributes) == 0);

    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec end;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
    for (int each = 0; each < 2; each++) {
        CHECK(clock_gettime(clocks[each], &end) == 0);
        end.tv_sec -= end.tv_sec > 0;
        CHECK(pthread_cond_clockwait(&condition, &mutex, clocks[each], &end) == ETIMEDOUT);
    }
    CHECK(pthread_cond_clockwait(&condition, &mutex, 99, &end) == EINVAL);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void wide_characters(void) {
    CHECK(wcwidth(L'a') == 1 && wcwidth(0) == 0 && wcwidth(L'\n') == -1);
    CHECK(wcwidth(0x4e2d) == 2 && wcwidth(0x301) == 0 && wcwidth(0xe9) == 1);
    CHECK(wcwidth(0x1f600) == 2 && wcwidth(0xd800) == -1);
    CHECK(wcswidth(L"a\u4e2d", 9) == 3 && wcswidth(L"a\u4e2d", 1) == 1);
    CHECK(wcswidth(L"a\t", 9) == -1 && wcswidth(L"", 9) == 0);
    CHECK(wcscasecmp(L"\u00c4BC", L"\u00e4bc") == 0 && wcscasecmp(L"a", L"B") < 0);
    CHECK(wcscasecmp(L"ab", L"a") > 0 && wcsncasecmp(L"ABx", L"aby", 2) == 0);
}

static void dates(void) {
    struct tm date = {.tm_isdst = 5};
    const char *text = "2026-11-30 05:34:07 rest";
    char *end = strptime(text, "%Y-%m-%d %H:%M:%S", &date);
    CHECK(end == text + 19);
    CHECK(date.tm_year == 126 && date.tm_mon == 10 && date.tm_mday == 30);
    CHECK(date.tm_hour == 5 && date.tm_min == 34 && date.tm_sec == 7);
    CHECK(date.tm_wday == 1 && date.tm_yday == 333 && date.tm_isdst == 5);
    CHECK(timegm(&date) == 1796016847);
    /* What the text does not mention stays. */
    CHECK(strptime("11 pm", "%I %p", &date) != NULL && date.tm_hour == 23 && date.tm_year == 126);
    CHECK(strptime("x", "%d", &date) == NULL && strptime("13", "%m", &date) == NULL);
    char written[64];
    CHECK(strftime(written, sizeof written, "%c", &date) > 0);
    struct tm again = {0};
    CHECK(strptime(written, "%c", &again) != NULL && again.tm_mon == 10 && again.tm_hour == 23);
}

int main(void) {
    constants();
    waits();
    ids();
    exec_with_variables();
    files();
    threads();
    wide_characters();
    dates();
    return finish("library-additions");
}
