/* Files, users, messages, limits, processors, random numbers: each function with its edges. */
#include "library.h"

#include <asm/byteorder.h>
#include <asm/types.h>
#include <byteswap.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <err.h>
#include <error.h>
#include <execinfo.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <langinfo.h>
#include <libgen.h>
#include <limits.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <locale.h>
#include <netinet/ip.h>
#include <nl_types.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <scif.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <syslog.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

/* A password comes from where other input does, if that is no console. */
static void passwords(void) {
    int pair[2], input = dup(0);
    CHECK(pipe(pair) == 0 && write(pair[1], "secret\nmore\n", 12) == 12);
    CHECK(dup2(pair[0], 0) == 0);
    const char *first = getpass("");
    CHECK(first && strcmp(first, "secret") == 0);
    const char *second = getpass("");
    CHECK(second && strcmp(second, "more") == 0);
    CHECK(dup2(input, 0) == 0 && close(input) == 0 && close(pair[0]) == 0 && close(pair[1]) == 0);
    char domain[16];
    CHECK(getdomainname(domain, sizeof domain) == 0 && strcmp(domain, "(none)") == 0);
    FAILS(getdomainname(domain, 3), EINVAL);
}

/* An empty name is no file, and not the working directory. */
static void empty_names(void) {
    struct stat found;
    errno = 0;
    CHECK(fopen("", "r") == NULL && errno == ENOENT);
    errno = 0;
    CHECK(opendir("") == NULL && errno == ENOENT);
    FAILS(open("", O_RDONLY), ENOENT);
    FAILS(open("", O_RDWR | O_CREAT, 0600), ENOENT);
    FAILS(stat("", &found), ENOENT);
    FAILS(access("", F_OK), ENOENT);
    FAILS(chdir(""), ENOENT);
    FAILS(mkdir("", 0700), ENOENT);
    FAILS(unlink(""), ENOENT);
    FAILS(rename("", "/tmp/library-new"), ENOENT);
    FAILS(execl("", "", (char *)NULL), ENOENT);
}

static volatile int handled;

static void handle(int number) {
    handled = handled * 100 + number;
}

static void *nothing(void *argument) {
    return argument;
}

/* All threads have the usual policy. */
static void policies(void) {
    struct sched_param usual = {0}, high = {.sched_priority = 1}, found = high;
    struct timespec turn = {0};
    CHECK(sched_getscheduler(0) == SCHED_OTHER && sched_getscheduler(getpid()) == SCHED_OTHER);
    FAILS(sched_getscheduler(999999), ESRCH);
    FAILS(sched_getscheduler(-1), EINVAL);
    CHECK(sched_setscheduler(0, SCHED_OTHER, &usual) == 0 && sched_setparam(getppid(), &usual) == 0);
    FAILS(sched_setscheduler(0, SCHED_FIFO, &usual), EPERM);
    FAILS(sched_setscheduler(0, SCHED_OTHER, &high), EINVAL);
    FAILS(sched_setscheduler(0, 77, &usual), EINVAL);
    CHECK(sched_getparam(0, &found) == 0 && found.sched_priority == 0);
    CHECK(sched_rr_get_interval(0, &turn) == 0 && turn.tv_sec == 0 && turn.tv_nsec > 0);
    int policy = 77, choice = 77, scope = 77, state = 77;
    found = high;
    CHECK(pthread_getschedparam(pthread_self(), &policy, &found) == 0);
    CHECK(policy == SCHED_OTHER && found.sched_priority == 0);
    CHECK(pthread_setschedparam(pthread_self(), SCHED_OTHER, &usual) == 0);
    CHECK(pthread_setschedparam(pthread_self(), SCHED_RR, &usual) == EPERM);
    CHECK(pthread_setschedprio(pthread_self(), 0) == 0 && pthread_setschedprio(pthread_self(), 1) == EINVAL);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_getinheritsched(&attributes, &choice) == 0 && choice == PTHREAD_INHERIT_SCHED);
    CHECK(pthread_attr_setschedpolicy(&attributes, 77) == EINVAL);
    CHECK(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO) == 0);
    CHECK(pthread_attr_getschedpolicy(&attributes, &policy) == 0 && policy == SCHED_FIFO);
    CHECK(pthread_attr_setschedparam(&attributes, &high) == EINVAL);
    CHECK(pthread_attr_setschedparam(&attributes, &usual) == 0);
    CHECK(pthread_attr_getschedparam(&attributes, &found) == 0 && found.sched_priority == 0);
    /* What is chosen counts if it is asked for. */
    CHECK(pthread_create(&thread, &attributes, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_attr_setinheritsched(&attributes, 2) == EINVAL);
    CHECK(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
    CHECK(pthread_attr_getinheritsched(&attributes, &choice) == 0 && choice == PTHREAD_EXPLICIT_SCHED);
    CHECK(pthread_create(&thread, &attributes, nothing, NULL) == EPERM);
    CHECK(pthread_attr_setschedpolicy(&attributes, SCHED_OTHER) == 0);
    CHECK(pthread_create(&thread, &attributes, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    CHECK(pthread_attr_getdetachstate(&attributes, &state) == 0 && state == PTHREAD_CREATE_DETACHED);
    CHECK(pthread_attr_getscope(&attributes, &scope) == 0 && scope == PTHREAD_SCOPE_SYSTEM);
    CHECK(pthread_attr_setscope(&attributes, PTHREAD_SCOPE_SYSTEM) == 0);
    CHECK(pthread_attr_setscope(&attributes, PTHREAD_SCOPE_PROCESS) == ENOTSUP);
    CHECK(pthread_attr_setscope(&attributes, 2) == EINVAL && pthread_attr_destroy(&attributes) == 0);
}

static void *told(void *argument) {
    char byte;
    return (void *)(long)read(*(int *)argument, &byte, 1);
}

/* A program that sends a signal to itself has its handler run before the call returns. */
static void own_signals(void) {
    CHECK(signal(SIGUSR1, handle) == SIG_DFL && signal(SIGUSR2, SIG_IGN) == SIG_DFL);
    CHECK(kill(getpid(), SIGUSR1) == 0 && handled == SIGUSR1);
    CHECK(kill(getpid(), SIGUSR2) == 0 && kill(getpid(), SIGCHLD) == 0 && kill(getpid(), 0) == 0);
    CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0 && handled == SIGUSR1 * 101);
    CHECK(pthread_kill(pthread_self(), 0) == 0 && pthread_kill(pthread_self(), 1000) == EINVAL);
    FAILS(kill(getpid(), 1000), EINVAL);
    int pair[2];
    pthread_t thread;
    void *result;
    CHECK(pipe(pair) == 0 && pthread_create(&thread, NULL, told, &pair[0]) == 0);
    CHECK(pthread_kill(thread, 0) == 0);
    CHECK(write(pair[1], "x", 1) == 1 && pthread_join(thread, &result) == 0 && result == (void *)1);
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0 && handled == SIGUSR1 * 101);
    CHECK(signal(SIGUSR1, SIG_DFL) == handle && signal(SIGUSR2, SIG_DFL) == SIG_IGN);
    /* Nothing stops here. */
    CHECK(!WIFSTOPPED(0x137f) && WSTOPSIG(0x137f) == 0x13 && !WIFCONTINUED(0xffff) && !WCOREDUMP(0));
    FAILS(waitpid(-1, NULL, WNOHANG | WUNTRACED | WCONTINUED), ECHILD);
}

static int jumped(void) {
    jmp_buf buffer;
    volatile int times = 0;
    int value = _setjmp(buffer);
    times++;
    if (times < 3)
        _longjmp(buffer, times + 1);
    return value;
}

static __always_inline int inlined(void) {
    return 1;
}

/* Names of Linux's headers, and of their packets. */
static void borrowed(void) {
    CHECK(jumped() == 3 && inlined());
    long line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
    CHECK(line >= 16 && line <= 1024 && (line & (line - 1)) == 0);
    CHECK(sysconf(_SC_HOST_NAME_MAX) == HOST_NAME_MAX && sysconf(_SC_MONOTONIC_CLOCK) > 0);
    CHECK(sysconf(_SC_GETPW_R_SIZE_MAX) > 0 && sysconf(_SC_VERSION) >= 200112);
    errno = 0;
    CHECK(sysconf(_SC_ARG_MAX) == ARG_MAX && errno == 0);
    CHECK(sysconf(_SC_TIMERS) == -1 && sysconf(_SC_THREAD_CPUTIME) == -1 && errno == 0);
    CHECK(sysconf(_SC_THREAD_STACK_MIN) == PTHREAD_STACK_MIN && sysconf(_SC_BARRIERS) > 0);
    CHECK(sysconf(_SC_THREAD_KEYS_MAX) == PTHREAD_KEYS_MAX && sysconf(_SC_SPIN_LOCKS) > 0);
    long pages = sysconf(_SC_PHYS_PAGES), unused = sysconf(_SC_AVPHYS_PAGES);
    CHECK(pages > 16 << 20 >> 12 && pages < 1L << 40 && unused > 0 && unused < pages);
    CHECK(__cpu_to_be32(0x01020304) == 0x04030201 && __be16_to_cpu(0x0102) == 0x0201);
    const unsigned char bytes[sizeof(struct iphdr)] = { 0x45, 0, 0, 20, [9] = IPPROTO_TCP, [16] = 10 };
    struct iphdr packet;
    struct ip same;
    memcpy(&packet, bytes, sizeof packet);
    memcpy(&same, bytes, sizeof same);
    CHECK(sizeof packet == 20 && sizeof same == 20 && packet.version == 4 && packet.ihl == 5);
    CHECK(same.ip_v == 4 && same.ip_hl == 5 && same.ip_p == IPPROTO_TCP && ntohs(same.ip_len) == 20);
    CHECK(packet.daddr == same.ip_dst.s_addr && packet.daddr == 10);
    CHECK(IN6_IS_ADDR_UNSPECIFIED(&in6addr_any) && IN6_IS_ADDR_LOOPBACK(&in6addr_loopback));
    CHECK(!IN6_IS_ADDR_LOOPBACK(&in6addr_any) && !IN6_IS_ADDR_V4MAPPED(&in6addr_loopback));
    struct in6_addr other = { 0 };
    CHECK(IN6_ARE_ADDR_EQUAL(&other, &in6addr_any));
    other.s6_addr[10] = other.s6_addr[11] = 0xff;
    CHECK(IN6_IS_ADDR_V4MAPPED(&other) && !IN6_ARE_ADDR_EQUAL(&other, &in6addr_any));
}

/* A read changes no byte behind those it gives, however much room it is told of. */
static void short_reads(void) {
    char path[] = "/tmp/library-XXXXXX";
    static char room[3 * 4096];
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, "0123456789", 10) == 10);
    const size_t places[] = { 0, 1, 100, 4090, 4096, 5000 };
    for (size_t at = 0; at < sizeof places / sizeof *places; at++) {
        char *place = room + places[at];
        size_t count = sizeof room - places[at], wrong = 0;
        memset(room, 'x', sizeof room);
        CHECK(pread(fd, place, count, 0) == 10 && memcmp(place, "0123456789", 10) == 0);
        for (size_t byte = 0; byte < sizeof room; byte++)
            wrong += (room + byte < place || room + byte >= place + 10) && room[byte] != 'x';
        CHECK(wrong == 0);
        memset(room, 'x', sizeof room);
        CHECK(pread(fd, place, 64, 4) == 6 && place[6] == 'x' && place[63] == 'x');
        CHECK(pread(fd, place, 64, 10) == 0 && place[0] == '4' && place[6] == 'x');
    }
    CHECK(close(fd) == 0 && unlink(path) == 0);
}

static void positions(void) {
    char path[] = "/tmp/library-XXXXXX", text[16] = "";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && strcmp(path, "/tmp/library-XXXXXX") != 0);
    CHECK(write(fd, "0123456789", 10) == 10);
    CHECK(pread(fd, text, 4, 3) == 4 && !memcmp(text, "3456", 4));
    CHECK(pwrite(fd, "ab", 2, 8) == 2 && lseek(fd, 0, SEEK_CUR) == 10);
    CHECK(pread(fd, text, 16, 8) == 2 && !memcmp(text, "ab", 2));
    CHECK(pread(fd, text, 16, 10) == 0 && pread(fd, text, 0, 0) == 0);
    CHECK(pwrite(fd, "z", 1, 14) == 1 && pread(fd, text, 16, 10) == 5);
    CHECK(!memcmp(text, "\0\0\0\0z", 5));
    FAILS(pread(fd, text, 1, -1), EINVAL);
    FAILS(pread(-1, text, 1, 0), EBADF);
    FAILS(pread(fd, (void *)8, 1, 0), EFAULT);
    CHECK(ftruncate(fd, 3) == 0 && pread(fd, text, 16, 0) == 3);
    CHECK(ftruncate(fd, 5) == 0 && pread(fd, text, 16, 0) == 5 && text[4] == 0);
    FAILS(ftruncate(fd, -1), EINVAL);
    CHECK(fsync(fd) == 0 && fdatasync(fd) == 0 && close(fd) == 0);
    CHECK(truncate(path, 1) == 0);
    FAILS(truncate("/tmp/no-such-file", 1), ENOENT);
    int ends[2];
    CHECK(pipe(ends) == 0);
    FAILS(pread(ends[0], text, 1, 0), ESPIPE);
    FAILS(pwrite(ends[1], text, 1, 0), ESPIPE);
    FAILS(fsync(ends[1]), EINVAL);
    FAILS(fdatasync(ends[0]), EINVAL);
    FAILS(fsync(99), EBADF);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    scif_epd_t epd = scif_open();
    FAILS(pread(epd, text, 1, 0), ESPIPE);
    CHECK(scif_close(epd) == 0);

    char other[] = "/tmp/library-other";
    struct stat found;
    CHECK(rename(path, other) == 0 && stat(other, &found) == 0 && found.st_size == 1);
    FAILS(stat(path, &found), ENOENT);
    FAILS(rename(path, other), ENOENT);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, "new", 3) == 3 && close(fd) == 0);
    CHECK(rename(path, other) == 0 && stat(other, &found) == 0 && found.st_size == 3);
    FAILS(rename(other, "/scheme/initfs/other"), EXDEV);
    CHECK(unlink(other) == 0);

    char wrong[] = "/tmp/library-XXXXX";
    FAILS(mkstemp(wrong), EINVAL);
    char nowhere[] = "/tmp/no-such-place/XXXXXX";
    FAILS(mkstemp(nowhere), ENOENT);
    char directory[] = "/tmp/directory-XXXXXX";
    CHECK(mkdtemp(directory) == directory && stat(directory, &found) == 0);
    CHECK(S_ISDIR(found.st_mode) && rmdir(directory) == 0);
    FILE *file = tmpfile();
    CHECK(file && fputs("kept", file) >= 0 && fseek(file, 0, SEEK_SET) == 0);
    CHECK(fgets(text, sizeof text, file) && !strcmp(text, "kept") && fclose(file) == 0);
}

static const char *directory_of(const char *path) {
    static char place[64];
    strcpy(place, path);
    return dirname(place);
}

static void names(void) {
    CHECK(!strcmp(directory_of("/a/b"), "/a") && !strcmp(directory_of("/a/b//"), "/a"));
    CHECK(!strcmp(directory_of("/a"), "/") && !strcmp(directory_of("a"), "."));
    CHECK(!strcmp(directory_of("//"), "/") && !strcmp(directory_of(""), "."));
    CHECK(!strcmp(directory_of("a//b"), "a") && !strcmp(dirname(NULL), "."));
}

static void users(void) {
    struct passwd *user = getpwuid(0);
    CHECK(user && !strcmp(user->pw_name, "root") && user->pw_uid == 0 && user->pw_dir[0] == '/');
    CHECK(getpwnam("root") && !getpwnam("nobody") && !getpwuid(4711));
    struct passwd place, *found = &place;
    char buffer[64];
    CHECK(getpwuid_r(0, &place, buffer, sizeof buffer, &found) == 0 && found == &place);
    CHECK(getpwuid_r(4711, &place, buffer, sizeof buffer, &found) == 0 && found == NULL);
    CHECK(getpwnam_r("root", &place, buffer, 0, &found) == ERANGE && found == NULL);
    struct group *group = getgrgid(0);
    CHECK(group && !strcmp(group->gr_name, "root") && group->gr_mem[0] == NULL);
    CHECK(!getgrnam("wheel"));
    struct group room, *result = NULL;
    CHECK(getgrgid_r(0, &room, buffer, sizeof buffer, &result) == 0 && result == &room);
    CHECK(!strcmp(room.gr_name, "root") && room.gr_gid == 0 && room.gr_mem[0] == NULL);
    CHECK(getgrnam_r("root", &room, buffer, sizeof buffer, &result) == 0 && result == &room);
    CHECK(getgrgid_r(4711, &room, buffer, sizeof buffer, &result) == 0 && result == NULL);
    CHECK(getgrnam_r("root", &room, buffer, 1, &result) == ERANGE && result == NULL);
}

static void bytes(void) {
    CHECK(bswap_16(0x1234) == 0x3412 && bswap_32(0x12345678) == 0x78563412);
    CHECK(bswap_64(0x0102030405060708) == 0x0807060504030201);
    CHECK(htobe16(1) == 0x100 && be32toh(0x01000000) == 1 && htole64(7) == 7 && le16toh(9) == 9);
    volatile long value = 0x50;
    volatile __int128 large = (__int128)value << 64;
    CHECK(__builtin_popcountl(value) == 2 && __builtin_parityl(value) == 0 && ffsl(value) == 5);
    CHECK(__builtin_clzl(value) == 57 && __builtin_ctzl(value) == 4 && ffs(0) == 0);
    CHECK(large / 3 * 3 + large % 3 == large && __builtin_clrsbl(-value) == 56);
    CHECK(__BYTE_ORDER == __LITTLE_ENDIAN && BYTE_ORDER != BIG_ENDIAN);
    __u8 byte = 0xff;
    __s16 small = -1;
    __le64 wide = 1;
    CHECK(byte == 255 && small == -1 && sizeof wide == 8 && sizeof(__u32) == 4);
    CHECK(PAGE_SIZE == (unsigned long)getpagesize() && sysconf(_SC_CLK_TCK) == CLOCKS_PER_SEC);
}

static void processors(void) {
    cpu_set_t set, before, one;
    int count = get_nprocs();
    CHECK(count >= 1 && get_nprocs_conf() == count && sysconf(_SC_NPROCESSORS_ONLN) == count);
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0 && CPU_COUNT(&before) >= 1);
    CHECK(CPU_COUNT(&before) <= count);
    int last = -1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before))
            last = i;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    CHECK(CPU_COUNT(&one) == 1 && sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(sched_getaffinity(getpid(), sizeof set, &set) == 0 && CPU_EQUAL(&set, &one));
    for (int i = 0; i < 100; i++) {
        sched_yield();
        CHECK(sched_getcpu() == last);
    }
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&set);
    FAILS(sched_setaffinity(0, sizeof set, &set), EINVAL);
    CPU_SET(CPU_SETSIZE - 1, &set);
    FAILS(sched_setaffinity(0, sizeof set, &set), EINVAL);
    FAILS(sched_getaffinity(0, 1, &set), EINVAL);
    FAILS(sched_setaffinity(getppid(), sizeof before, &before), ESRCH);
    CPU_SET(CPU_SETSIZE, &set);
    CHECK(!CPU_ISSET(CPU_SETSIZE, &set) && !CPU_ISSET(-1, &set));
    CPU_CLR(CPU_SETSIZE - 1, &set);
    CHECK(CPU_COUNT(&set) == 0);
    CPU_OR(&set, &one, &before);
    CPU_AND(&set, &set, &one);
    CHECK(CPU_EQUAL(&set, &one));
    CPU_XOR(&set, &set, &one);
    CHECK(CPU_COUNT(&set) == 0);
    CHECK(sched_get_priority_min(SCHED_OTHER) == 0 && sched_get_priority_max(SCHED_RR) == 0);
    policies();
}

static void usage(void) {
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    volatile unsigned long sum = 0;
    /* As long as it takes until the clock has gone on by two of its steps. */
    int tries = 0;
    do {
        for (int i = 0; i < 10000000; i++)
            sum = sum + (unsigned long)i;
        CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    } while (!timercmp(&after.ru_utime, &before.ru_utime, >) && tries++ < 1000);
    CHECK(timercmp(&after.ru_utime, &before.ru_utime, >));
    FAILS(getrusage(77, &after), EINVAL);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= 1024);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    /* Servers ask for as many as they want, or more. */
    struct rlimit lower = {4096, 4096}, other = limit;
    CHECK(setrlimit(RLIMIT_NOFILE, &lower) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &other) == 0);
    CHECK(other.rlim_cur == 4096 && other.rlim_max == 4096);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    lower.rlim_cur = 4097;
    FAILS(setrlimit(RLIMIT_NOFILE, &lower), EINVAL);
    limit.rlim_max++;
    FAILS(setrlimit(RLIMIT_NOFILE, &limit), EPERM);
    lower.rlim_cur = lower.rlim_max = 0;
    CHECK(setrlimit(RLIMIT_CORE, &lower) == 0);
    CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_max == RLIM_INFINITY);
    FAILS(getrlimit(-1, &limit), EINVAL);
}

static void clocks(void) {
    struct timespec start, end, left = { 1, 1 };
    CHECK(clock_gettime(CLOCK_MONOTONIC, &start) == 0);
    end = start;
    end.tv_nsec += 20000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == 0);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &start) == 0);
    CHECK(start.tv_sec > end.tv_sec ||
          (start.tv_sec == end.tv_sec && start.tv_nsec >= end.tv_nsec));
    /* A point that has passed. */
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == 0);
    struct timespec shortly = { 0, 1000 }, wrong = { 0, 1000000000 };
    left.tv_nsec = 77;
    CHECK(clock_nanosleep(CLOCK_REALTIME, 0, &shortly, &left) == 0 && left.tv_nsec == 77);
    CHECK(clock_nanosleep(CLOCK_REALTIME, 0, &wrong, NULL) == EINVAL);
    CHECK(clock_nanosleep(99, 0, &shortly, NULL) == EINVAL);
    time_t before = time(NULL);
    CHECK(timespec_get(&start, TIME_UTC) == TIME_UTC);
    CHECK(before <= start.tv_sec && start.tv_sec <= time(NULL));
    CHECK(timespec_get(&start, 0) == 0);
}

/* Hundredths of a second that the threads of this process have run, by the kernel's list. */
static long listed(void) {
    char line[256];
    long sum = 0;
    FILE *list = fopen("/scheme/sys/context", "r");
    while (list && fgets(line, sizeof line, list)) {
        long pid, hours, minutes, seconds, hundredths;
        if (sscanf(line, "%ld %*s %*s %*s %*s %*s %ld:%ld:%ld.%ld", &pid, &hours, &minutes, &seconds,
                   &hundredths) == 5 && pid == getpid())
            sum += ((hours * 60 + minutes) * 60 + seconds) * 100 + hundredths;
    }
    CHECK(list && fclose(list) == 0);
    return sum;
}

static void *compute(void *argument) {
    clock_t end = *(clock_t *)argument + CLOCKS_PER_SEC / 4;
    clock_t last = 0;
    while (last < end) {
        clock_t now = clock();
        CHECK(now >= last);
        last = now;
    }
    return NULL;
}

static double seconds(clockid_t clock) {
    struct timespec now = { 0, 0 };
    CHECK(clock_gettime(clock, &now) == 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The clock of the process stands while it sleeps, and counts threads that have ended. */
static void own_time(void) {
    int stood = 0;
    for (int i = 0; i < 50 && !stood; i++) {
        double wall = seconds(CLOCK_MONOTONIC), own = seconds(CLOCK_PROCESS_CPUTIME_ID);
        usleep(50000);
        own = seconds(CLOCK_PROCESS_CPUTIME_ID) - own;
        stood = own < 0.5 * (seconds(CLOCK_MONOTONIC) - wall);
    }
    CHECK(stood);
    clock_t start = clock();
    pthread_t thread;
    long before = listed();
    CHECK(pthread_create(&thread, NULL, compute, &start) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(clock() >= start + CLOCKS_PER_SEC / 4);
    /* Each thread's hundredths are rounded down. */
    CHECK(listed() >= before + 23);
    struct rusage used;
    CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    CHECK((double)used.ru_utime.tv_sec + 1e-6 * (double)used.ru_utime.tv_usec <=
          seconds(CLOCK_PROCESS_CPUTIME_ID));
    struct timespec step = { 1, 0 };
    CHECK(clock_getres(CLOCK_PROCESS_CPUTIME_ID, &step) == 0 && step.tv_nsec == 10000000);
    CHECK(clock_getres(CLOCK_MONOTONIC, &step) == 0 && step.tv_sec == 0 && step.tv_nsec == 1);
    FAILS(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &step), EINVAL);
    FAILS(clock_getres(CLOCK_THREAD_CPUTIME_ID, &step), EINVAL);
    FAILS(clock_gettime(99, &step), EINVAL);
    CHECK(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &step, NULL) == ENOTSUP);
    CHECK(sysconf(_SC_CPUTIME) == _POSIX_CPUTIME && sysconf(_SC_THREAD_CPUTIME) == -1);
}

static void numbers(void) {
    unsigned short seed[3] = { 0x330e, 1, 0 }, *former;
    /* Without a seed. */
    CHECK(lrand48() == 0 && lrand48() == 2116118);
    srand48(1);
    CHECK(drand48() == 0.041630344771878214 && erand48(seed) == 0.041630344771878214);
    srand48(1);
    long first = lrand48();
    CHECK(first == 89400484 && nrand48(seed) == lrand48());
    srand48(1);
    CHECK(mrand48() == 178800969 && jrand48(seed) >= -2147483648L);
    unsigned short zero[3] = { 0, 0, 0 };
    former = seed48(zero);
    CHECK(former[0] != 0 && lrand48() == 0 && lrand48() != 0);
    unsigned short parameters[7] = { 5, 0, 0, 3, 0, 0, 2 };
    lcong48(parameters);
    CHECK(drand48() == 17.0 / 281474976710656.0);
    lldiv_t parts = lldiv(-7, 2);
    CHECK(parts.quot == -3 && parts.rem == -1);
}

/* Has a child do something that ends it; gives its status and what it printed to its error. */
static int child(const char *program, const char *what, char *text, size_t size) {
    char command[128], path[] = "/tmp/message-XXXXXX";
    int fd = mkstemp(path);
    snprintf(command, sizeof command, "%s %s 2> %s", program, what, path);
    int status = system(command);
    ssize_t count = pread(fd, text, size - 1, 0);
    text[count > 0 ? count : 0] = 0;
    close(fd);
    unlink(path);
    return WEXITSTATUS(status);
}

static void messages(const char *program) {
    const char *name = strrchr(program, '/') ? strrchr(program, '/') + 1 : program;
    char text[256], wanted[256];
    CHECK(child(program, "err", text, sizeof text) == 3);
    snprintf(wanted, sizeof wanted, "%s: opening 7: %s\n", name, strerror(ENOENT));
    CHECK(!strcmp(text, wanted));
    CHECK(child(program, "errx", text, sizeof text) == 4);
    snprintf(wanted, sizeof wanted, "%s: no error\n", name);
    CHECK(!strcmp(text, wanted));
    CHECK(child(program, "error", text, sizeof text) == 5);
    snprintf(wanted, sizeof wanted, "%s: twice: %s\n%s: end\n", name, strerror(EACCES), name);
    CHECK(!strcmp(text, wanted));
    CHECK(setlogmask(0) == 0xff && setlogmask(LOG_UPTO(LOG_WARNING)) == 0xff);
    openlog("library", LOG_PID, LOG_USER);
    syslog(LOG_INFO, "not logged");
    syslog(LOG_WARNING, "logged: %d%%", 100);
    closelog();
    FILE *log = fopen("/scheme/log", "r");
    int seen = 0, wrong = 0;
    while (log && fgets(text, sizeof text, log)) {
        snprintf(wanted, sizeof wanted, "WARN library[%d]: logged: 100%%\n", getpid());
        seen += strstr(text, wanted) != NULL;
        wrong += strstr(text, "not logged") != NULL;
    }
    CHECK(log && fclose(log) == 0 && seen == 1 && wrong == 0);
}

/* Descriptors behind the streams. */
static int count_descriptors(void) {
    int count = 0;
    for (int number = 3; number < 64; number++)
        count += fcntl(number, F_GETFD) >= 0;
    return count;
}

/* What a file that was opened for a program leaves behind: a descriptor of the library's own has
 * its number next, and is for no program. 0 when all is well. */
static int spawn_twice(const char *program) {
    char *arguments[] = { (char *)program, "count", NULL };
    int statuses[2];
    uint16_t node;
    pid_t process;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/scheme/null", O_RDONLY, 0);
    for (int i = 0; i < 2; i++) {
        if (posix_spawnp(&process, program, &actions, NULL, arguments, NULL) != 0)
            return 1;
        if (waitpid(process, &statuses[i], 0) != process || scif_get_node_ids(NULL, 0, &node) < 1)
            return 2;
    }
    return statuses[0] == statuses[1] ? 0 : 3;
}

static int message_of(const char *program, const char *what) {
    if (!strcmp(what, "count"))
        return count_descriptors();
    if (!strcmp(what, "twice"))
        return spawn_twice(program);
    char *variables[] = { "STATUS=9", NULL };
    if (!strcmp(what, "execl"))
        execl("/scheme/initfs/bin/sh", "sh", "-c", "exit 7", NULL);
    if (!strcmp(what, "execlp"))
        execlp("sh", "sh", "-c", "exit 8", NULL);
    if (!strcmp(what, "execle"))
        execle("/scheme/initfs/bin/sh", "sh", "-c", "exit $STATUS", NULL, variables);
    if (!strcmp(what, "named"))
        execlp(program, "another", "errx", NULL);
    errno = ENOENT;
    if (!strcmp(what, "err"))
        err(3, "opening %d", 7);
    if (!strcmp(what, "errx"))
        errx(4, "no error");
    error(0, EACCES, "twice");
    error(5, 0, "end");
    return 0;
}

static int started(const char *program, char **arguments, posix_spawn_file_actions_t *actions,
                   posix_spawnattr_t *attributes) {
    pid_t process;
    int status = 0, result = posix_spawnp(&process, program, actions, attributes, arguments, NULL);
    if (result == 0)
        CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status));
    return result ? -result : WEXITSTATUS(status);
}

#define L64 "----------------------------------------------------------------"

/* Scripts: their first line names who reads them. */
static void check_scripts(void) {
    static const struct {
        const char *text;
        /* An error number, negated; or the exit status. */
        int result;
    } cases[] = {
        { "#!/scheme/initfs/bin/sh\nexit $(($# + 3))\n", 5 },
        /* Directories of other systems. */
        { "#! /bin/sh -e\nfalse\nexit 9\n", 1 },
        { "#!/usr/bin/env sh\ntest \"$1$2\" = ab && exit 6\n", 6 },
        { "#!/bin/no-such-interpreter\n", -ENOENT },
        { "#!/scheme/initfs/bin\n", -EACCES },
        { "#!\n", -ENOEXEC },
        { "#!\xff\xfe\n", -ENOEXEC },
        /* A name that goes on behind what is read of the line. */
        { "#!/bin/sh" L64 L64 L64 L64, -ENOEXEC },
        { "exit 7\n", -ENOEXEC },
        { "", -ENOEXEC },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[] = "/tmp/script-XXXXXX", *arguments[] = { "name", "a", "b", NULL };
        int fd = mkstemp(path);
        size_t length = strlen(cases[i].text);
        CHECK(fd >= 0 && write(fd, cases[i].text, length) == (ssize_t)length && close(fd) == 0);
        CHECK(chmod(path, 0755) == 0);
        /* What a program inherits is in nobody's way there. */
        int inherited = open("/dev/null", O_RDONLY);
        CHECK(inherited == 3);
        pid_t process;
        int status, result = posix_spawn(&process, path, NULL, NULL, arguments, environ);
        if (result == 0) {
            CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status));
            result = WEXITSTATUS(status);
        } else {
            result = -result;
        }
        if (result != cases[i].result)
            printf("script %u: %d\n", i, result);
        CHECK(result == cases[i].result);
        /* The same by exec. */
        process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            execv(path, arguments);
            _exit(100 + errno);
        }
        CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status));
        int wanted = cases[i].result < 0 ? 100 - cases[i].result : cases[i].result;
        CHECK(WEXITSTATUS(status) == wanted);
        CHECK(close(inherited) == 0 && unlink(path) == 0);
    }
}

/* Commands whose output is read, or that read. */
static void check_commands(void) {
    char text[256];
    FILE *file = popen("echo first; exit 5", "r");
    CHECK(file && fgets(text, sizeof text, file) && !strcmp(text, "first\n"));
    CHECK(!fgets(text, sizeof text, file) && feof(file));
    CHECK(pclose(file) == 5 << 8);
    char path[] = "/tmp/command-XXXXXX", command[64];
    int fd = mkstemp(path);
    snprintf(command, sizeof command, "cat > %s", path);
    FILE *other = popen("cat > /dev/null", "w");
    file = popen(command, "w");
    CHECK(fd >= 0 && file && other && fprintf(file, "to be %s\n", "read") == 11);
    /* The first one's end is not in the second. */
    CHECK(pclose(other) == 0 && pclose(file) == 0);
    CHECK(read(fd, text, sizeof text) == 11 && !memcmp(text, "to be read\n", 11));
    CHECK(close(fd) == 0 && unlink(path) == 0);
    file = popen("exit 3", "w");
    CHECK(file && pclose(file) == 3 << 8);
    FAILS(pclose(stdin), ECHILD);
    errno = 0;
    CHECK(!popen("true", "rw") && errno == EINVAL);
}

/* Programs that are started while other threads open and close descriptors. */
static volatile int stop;

static void *open_and_close(void *argument) {
    (void)argument;
    while (!stop) {
        int copies[40];
        for (int i = 0; i < 40; i++)
            CHECK((copies[i] = dup(1)) >= 0);
        for (int i = 0; i < 40; i++)
            CHECK(close(copies[i]) == 0);
    }
    return NULL;
}

static void check_beside_threads(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, open_and_close, NULL) == 0);
    for (int i = 0; i < 10; i++) {
        CHECK(system("exit 3") == 3 << 8);
        FILE *file = popen("exit 4", "r");
        CHECK(file && pclose(file) == 4 << 8);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void check_groups_and_zone(void) {
    gid_t groups[4] = { 7 };
    CHECK(getgroups(0, NULL) == 0 && getgroups(4, groups) == 0 && setgroups(1, groups) == 0);
    FAILS(getgroups(-1, groups), EINVAL);
    FAILS(setgroups(65537, groups), EINVAL);
    CHECK(initgroups("root", 0) == 0);
    tzset();
    CHECK(!strcmp(tzname[0], "UTC") && !strcmp(tzname[1], "UTC") && timezone == 0 && daylight == 0);
}

/* Process groups and sessions, as those need that become daemons. */
static void check_sessions(void) {
    int status;
    CHECK(getpgrp() == getpgid(0) && getsid(0) == getsid(getpid()));
    pid_t group = getpgrp(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (getpgrp() != group || setpgrp() != 0 || getpgrp() != getpid())
            _exit(1);
        /* It leads a group now. */
        errno = 0;
        if (setsid() != -1 || errno != EPERM || getsid(0) != getsid(getppid()))
            _exit(2);
        pid_t other = fork();
        if (other == 0) {
            int leads = setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid();
            _exit(leads && setpgid(0, 0) == -1 && errno == EPERM ? 7 : 8);
        }
        _exit(waitpid(other, &status, 0) == other && WIFEXITED(status) ? WEXITSTATUS(status) : 3);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(getpgrp() == group);
    FAILS(setpgid(-1, 0), EINVAL);
    FAILS(getpgid(999999), ESRCH);
    FAILS(getsid(-5), EINVAL);
}

/* A program that pauses stays until somebody ends it. */
static void check_pause(void) {
    int ready[2], status;
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (write(ready[1], "r", 1) != 1)
            _exit(8);
        pause();
        _exit(9);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    /* It would have ended by then; if it has not begun yet, nothing is wrong. */
    usleep(50 * 1000);
    CHECK(waitpid(child, &status, WNOHANG) == 0 && kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(close(ready[0]) == 0 && close(ready[1]) == 0);
}

static void programs(char *program) {
    char text[256], wanted[256];
    check_scripts();
    check_commands();
    check_beside_threads();
    check_groups_and_zone();
    check_sessions();
    check_pause();
    CHECK(child(program, "named", text, sizeof text) == 4 && !strcmp(text, "another: no error\n"));
    CHECK(child(program, "twice", text, sizeof text) == 0);
    CHECK(child(program, "execl", text, sizeof text) == 7);
    CHECK(child(program, "execlp", text, sizeof text) == 8);
    CHECK(child(program, "execle", text, sizeof text) == 9);
    FAILS(execl("/scheme/initfs/bin/no-such-program", "none", NULL), ENOENT);

    char *arguments[] = { program, "errx", NULL }, path[] = "/tmp/output-XXXXXX";
    int fd = mkstemp(path), opened;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    short flags = 77;
    sigset_t all;
    CHECK(sigfillset(&all) == 0 && posix_spawnattr_init(&attributes) == 0);
    CHECK(posix_spawnattr_setsigmask(&attributes, &all) == 0);
    CHECK(posix_spawnattr_getflags(&attributes, &flags) == 0 && flags == 0);
    CHECK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_USEVFORK) == 0);
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, -1, path, O_WRONLY, 0) == EBADF);
    CHECK(posix_spawn_file_actions_addopen(&actions, 1, path, O_WRONLY | O_TRUNC, 0) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, 1, 2) == 0);
    CHECK(posix_spawn_file_actions_addclose(&actions, 1) == 0);
    opened = dup(fd);
    CHECK(opened > fd && close(opened) == 0);
    CHECK(started(program, arguments, &actions, &attributes) == 4);
    /* What was opened for the program is closed here. */
    CHECK(dup(fd) == opened && close(opened) == 0);
    ssize_t count = pread(fd, text, sizeof text - 1, 0);
    text[count > 0 ? count : 0] = 0;
    snprintf(wanted, sizeof wanted, "%s: no error\n",
             strrchr(program, '/') ? strrchr(program, '/') + 1 : program);
    CHECK(!strcmp(text, wanted));
    /* A flag that does not exist here; elsewhere it sets a priority. */
    CHECK(posix_spawnattr_setflags(&attributes, 0x10) == 0);
    CHECK(started(program, arguments, &actions, &attributes) == -ENOTSUP);
    CHECK(posix_spawnattr_destroy(&attributes) == 0);
    /* What an action has closed, the next one cannot duplicate. */
    posix_spawn_file_actions_t closing;
    CHECK(posix_spawn_file_actions_init(&closing) == 0);
    CHECK(posix_spawn_file_actions_addclose(&closing, fd) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&closing, fd, 1) == 0);
    CHECK(started(program, arguments, &closing, NULL) == -EBADF);
    CHECK(posix_spawn_file_actions_destroy(&closing) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 3, "/tmp/no-such-file", O_RDONLY, 0) == 0);
    CHECK(started(program, arguments, &actions, NULL) == -ENOENT);
    CHECK(posix_spawn_file_actions_destroy(&actions) == 0 && close(fd) == 0 && unlink(path) == 0);
    arguments[0] = "no-such-program";
    CHECK(started("no-such-program", arguments, NULL, NULL) == -ENOENT);
}

/* What is in a file is mapped as a copy. */
static void mapped_files(void) {
    char name[] = "/tmp/mapped-XXXXXX";
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = mkstemp(name);
    CHECK(fd >= 0 && pwrite(fd, "first page", 10, 0) == 10);
    CHECK(pwrite(fd, "second page", 11, (off_t)page) == 11);
    char *own = mmap(NULL, page + 11, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(own != MAP_FAILED && !memcmp(own, "first page", 11));
    CHECK(!memcmp(own + page, "second page", 12) && own[2 * page - 1] == 0);
    own[0] = 'F';
    char *shown = mmap(NULL, 11, PROT_READ, MAP_SHARED, fd, (off_t)page);
    CHECK(shown != MAP_FAILED && !strcmp(shown, "second page"));
    char first;
    CHECK(pread(fd, &first, 1, 0) == 1 && first == 'f');
    /* In place of pages that are there. */
    CHECK(mmap(own + page, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == own + page);
    CHECK(!strcmp(own + page, "first page") && own[0] == 'F');
    CHECK(munmap(own, 2 * page) == 0 && munmap(shown, page) == 0);
    FAILS(mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 1), EINVAL);
    CHECK(close(fd) == 0);
    fd = open(name, O_WRONLY);
    FAILS(mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0), EACCES);
    /* What is refused leaves what is there. */
    own = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    own[0] = 'o';
    FAILS(mmap(own, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0), EACCES);
    CHECK(own[0] == 'o' && munmap(own, page) == 0);
    FAILS(mmap(NULL, page, PROT_READ, MAP_PRIVATE, -1, 0), EBADF);
    CHECK(close(fd) == 0 && unlink(name) == 0);
    int ends[2];
    CHECK(pipe(ends) == 0);
    FAILS(mmap(NULL, page, PROT_READ, MAP_PRIVATE, ends[0], 0), ENODEV);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static mode_t mode_of(const char *name) {
    struct stat stat_of;
    CHECK(stat(name, &stat_of) == 0);
    return stat_of.st_mode & 0777;
}

static void masks(void) {
    CHECK(umask(027) == 0 && umask(07022) == 027 && umask(027) == 022);
    int fd = open("/tmp/masked", O_CREAT | O_RDWR, 0666);
    CHECK(fd >= 0 && mode_of("/tmp/masked") == 0640 && close(fd) == 0);
    CHECK(chmod("/tmp/masked", 0666) == 0 && mode_of("/tmp/masked") == 0666);
    CHECK(mkdir("/tmp/masked.d", 0777) == 0 && mode_of("/tmp/masked.d") == 0750);
    CHECK(rmdir("/tmp/masked.d") == 0 && unlink("/tmp/masked") == 0 && umask(0) == 027);
}

static void absent(void) {
    void *places[4] = { (void *)0x1000, 0, 0, 0 };
    CHECK(dlopen("libm.so", RTLD_NOW) == NULL && dlerror() != NULL && dlerror() == NULL);
    CHECK(dlsym(RTLD_DEFAULT, "main") == NULL && dlclose(NULL) != 0);
    CHECK(backtrace(places, 4) == 0);
    char **lines = backtrace_symbols(places, 1);
    CHECK(lines && !strcmp(lines[0], "[0x1000]"));
    free(lines);
    CHECK(!strcmp(setlocale(LC_ALL, ""), "C") && !setlocale(LC_ALL, "de_DE"));
    CHECK(!setlocale(99, "C") && !strcmp(localeconv()->decimal_point, "."));
}

/* Names that begin at a directory, times, file systems. */
static void directories(void) {
    char path[] = "/tmp/at-XXXXXX";
    struct stat stat;
    CHECK(mkdtemp(path));
    int at = open(path, O_RDONLY | O_DIRECTORY);
    CHECK(at >= 0 && mkdirat(at, "inner", 0700) == 0);
    int file = openat(at, "inner/file", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && write(file, "12345", 5) == 5);
    CHECK(fstatat(at, "inner/file", &stat, 0) == 0 && stat.st_size == 5 && S_ISREG(stat.st_mode));
    CHECK(fstatat(AT_FDCWD, path, &stat, 0) == 0 && S_ISDIR(stat.st_mode));
    CHECK(faccessat(at, "inner", F_OK, 0) == 0 && fchmodat(at, "inner/file", 0640, 0) == 0);
    CHECK(fstat(file, &stat) == 0 && (stat.st_mode & 0777) == 0640);
    FAILS(openat(at, "nothing", O_RDONLY), ENOENT);
    FAILS(openat(99, "inner", O_RDONLY), EBADF);
    struct timespec wrong[2] = {{1, -1}, {1, 0}};
    FAILS(utimensat(at, "inner/file", wrong, 0), EINVAL);
    FAILS(futimens(99, NULL), EBADF);
    struct timespec times[2] = {{1000, 0}, {2000, 500}};
    CHECK(futimens(file, times) == 0 && fstat(file, &stat) == 0);
    CHECK(stat.st_mtim.tv_sec == 2000 && stat.st_mtim.tv_nsec == 500);
    times[1].tv_nsec = UTIME_OMIT;
    CHECK(utimensat(at, "inner/file", times, 0) == 0 && fstat(file, &stat) == 0);
    CHECK(stat.st_mtim.tv_sec == 2000 && stat.st_mtim.tv_nsec == 500);
    CHECK(futimens(at, NULL) == 0 && fstat(at, &stat) == 0 && stat.st_mtime > 2000);
    struct utimbuf seconds = { 3000, 4000 };
    char inner[64];
    snprintf(inner, sizeof inner, "%s/inner/file", path);
    CHECK(utime(inner, &seconds) == 0 && fstat(file, &stat) == 0 && stat.st_mtime == 4000);
    CHECK(utime(inner, NULL) == 0 && fstat(file, &stat) == 0 && stat.st_mtime > 4000);
    FAILS(utime("/tmp/nothing", &seconds), ENOENT);
    struct statvfs system;
    FAILS(statvfs("/tmp/nothing", &system), ENOENT);
    CHECK(pathconf("/tmp", _PC_PATH_MAX) == 4096 && fpathconf(at, _PC_NAME_MAX) == 255);
    FAILS(pathconf("/tmp", 99), EINVAL);
    CHECK(close(file) == 0 && renameat(at, "inner/file", at, "moved") == 0);
    FAILS(renameat2(at, "moved", at, "inner", RENAME_NOREPLACE), EEXIST);
    FAILS(renameat2(at, "nothing", at, "inner/file", RENAME_NOREPLACE), ENOENT);
    FAILS(renameat2(at, "inner", at, "outer", RENAME_NOREPLACE), EINVAL);
    FAILS(renameat2(at, "moved", at, "inner/file", 99), EINVAL);
    FAILS(faccessat(at, "inner/file", F_OK, 0), ENOENT);
    CHECK(renameat2(at, "moved", at, "inner/file", RENAME_NOREPLACE) == 0);
    CHECK(fstatat(at, "inner/file", &stat, 0) == 0 && stat.st_size == 5);
    FAILS(faccessat(at, "moved", F_OK, 0), ENOENT);
    CHECK(unlinkat(at, "inner/file", 0) == 0);
    FAILS(unlinkat(at, "inner/file", 0), ENOENT);
    CHECK(unlinkat(at, "inner", AT_REMOVEDIR) == 0 && close(at) == 0 && rmdir(path) == 0);
    char name[L_tmpnam];
    CHECK(tmpnam(name) == name && access(name, F_OK) == -1 && tmpnam(NULL));
    fpos_t position;
    FILE *stream = tmpfile();
    CHECK(fputs("abc", stream) >= 0 && fgetpos(stream, &position) == 0 && fputs("d", stream) >= 0);
    CHECK(fsetpos(stream, &position) == 0 && getc(stream) == 'd' && fclose(stream) == 0);
}

static void locales(void) {
    locale_t locale = newlocale(LC_ALL_MASK, "C", NULL);
    CHECK(locale && newlocale(LC_ALL_MASK, "", NULL) == locale && duplocale(locale) == locale);
    errno = 0;
    CHECK(!newlocale(LC_ALL_MASK, "de_DE", NULL) && errno == ENOENT);
    CHECK(uselocale(NULL) == LC_GLOBAL_LOCALE && uselocale(locale) == LC_GLOBAL_LOCALE);
    CHECK(uselocale(LC_GLOBAL_LOCALE) == locale && uselocale(NULL) == LC_GLOBAL_LOCALE);
    CHECK(isdigit_l('7', locale) && !isalpha_l('7', locale));
    CHECK(strtod_l("2.5", NULL, locale) == 2.5);
    freelocale(locale);
    CHECK(!strcmp(nl_langinfo(CODESET), "UTF-8") && !strcmp(nl_langinfo(RADIXCHAR), "."));
    CHECK(!strcmp(nl_langinfo(DAY_1), "Sunday") && !strcmp(nl_langinfo(ABDAY_7), "Sat"));
    CHECK(!strcmp(nl_langinfo(MON_12), "December") && !strcmp(nl_langinfo(ABMON_1), "Jan"));
    CHECK(!strcmp(nl_langinfo(-1), "") && !strcmp(nl_langinfo(9999), ""));
    CHECK(catopen("any", 0) == (nl_catd)-1);
    imaxdiv_t parts = imaxdiv(-7, 2);
    CHECK(parts.quot == -3 && parts.rem == -1 && imaxabs(-7) == 7);
    stack_t stack = {.ss_sp = malloc(SIGSTKSZ), .ss_size = SIGSTKSZ}, old;
    CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaltstack(NULL, &old) == 0);
    CHECK(old.ss_sp == stack.ss_sp && old.ss_size == SIGSTKSZ && old.ss_flags == 0);
    stack.ss_size = 16;
    FAILS(sigaltstack(&stack, NULL), ENOMEM);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, &old) == 0 && old.ss_size == SIGSTKSZ);
    free(stack.ss_sp);
}

/* Bytes that can be read. */
static void bytes_there(void) {
    int ends[2], there = -1;
    char text[8];
    CHECK(pipe(ends) == 0);
    CHECK(ioctl(ends[0], FIONREAD, &there) == 0 && there == 0);
    CHECK(write(ends[1], "12345", 5) == 5);
    CHECK(ioctl(ends[0], FIONREAD, &there) == 0 && there == 5);
    CHECK(read(ends[0], text, 2) == 2);
    CHECK(ioctl(ends[0], FIONREAD, &there) == 0 && there == 3);
    CHECK(close(ends[1]) == 0);
    CHECK(ioctl(ends[0], FIONREAD, &there) == 0 && there == 3);
    CHECK(close(ends[0]) == 0);
    FAILS(ioctl(ends[0], FIONREAD, &there), EBADF);
    int fd = open("/tmp/there", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, "123456", 6) == 6 && lseek(fd, 2, SEEK_SET) == 2);
    CHECK(ioctl(fd, FIONREAD, &there) == 0 && there == 4);
    CHECK(lseek(fd, 9, SEEK_SET) == 9);
    CHECK(ioctl(fd, FIONREAD, &there) == 0 && there == 0);
    CHECK(close(fd) == 0 && unlink("/tmp/there") == 0);
}

static void terminals(void) {
    struct termios lines, bytes;
    int ends[2];
    CHECK(pipe(ends) == 0);
    FAILS(tcgetattr(ends[0], &lines), ENOTTY);
    FAILS(tcgetattr(-1, &lines), EBADF);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    int fd = open("/scheme/console", O_RDWR);
    CHECK(fd >= 0 && isatty(fd));
    CHECK(tcgetattr(fd, &lines) == 0);
    CHECK((lines.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG));
    CHECK(lines.c_cc[VINTR] == 3 && lines.c_cc[VEOF] == 4);
    FAILS(tcsetattr(fd, 7, &lines), EINVAL);
    bytes = lines;
    bytes.c_lflag &= ~(tcflag_t)ECHO;
    FAILS(tcsetattr(fd, TCSANOW, &bytes), EINVAL);
    cfmakeraw(&bytes);
    bytes.c_cc[VMIN] = 0;
    FAILS(tcsetattr(fd, TCSANOW, &bytes), EINVAL);
    bytes.c_cc[VMIN] = 1;
    CHECK(tcsetattr(fd, TCSAFLUSH, &bytes) == 0 && isatty(fd));
    CHECK(tcgetattr(fd, &bytes) == 0 && !(bytes.c_lflag & (ICANON | ECHO)));
    char byte;
    CHECK(fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    FAILS(read(fd, &byte, 1), EAGAIN);
    CHECK(write(fd, "", 0) == 0);
    CHECK(tcsetattr(fd, TCSADRAIN, &lines) == 0);
    CHECK(tcgetattr(fd, &bytes) == 0 && (bytes.c_lflag & ICANON));
    FAILS(read(fd, &byte, 1), EAGAIN);
    CHECK(tcdrain(fd) == 0 && tcflush(fd, TCIFLUSH) == 0 && cfgetospeed(&lines) == B38400);
    CHECK(close(fd) == 0);
}

/* As many descriptors as there can be. */
static void all_descriptors(void) {
    enum { MORE = 70000 };
    static int copies[MORE];
    int count = 0;
    while (count < MORE && (copies[count] = dup(1)) >= 0)
        count++;
    CHECK(count < MORE && errno == EMFILE);
    FAILS(open("/tmp", O_RDONLY | O_DIRECTORY), EMFILE);
    FAILS(fcntl(1, F_DUPFD, 3), EMFILE);
    /* Numbers that no descriptor has. */
    FAILS(fcntl(1, F_DUPFD, sysconf(_SC_OPEN_MAX)), EINVAL);
    FAILS(fcntl(1, F_DUPFD, -1), EINVAL);
    FAILS(dup2(1, (int)sysconf(_SC_OPEN_MAX)), EBADF);
    while (count > 0)
        CHECK(close(copies[--count]) == 0);
    int copy = dup(1);
    CHECK(copy == copies[0] && close(copy) == 0);
}

int main(int count, char **arguments) {
    if (count > 1)
        return message_of(arguments[0], arguments[1]);
    positions();
    empty_names();
    own_signals();
    borrowed();
    short_reads();
    names();
    users();
    bytes();
    processors();
    usage();
    clocks();
    own_time();
    numbers();
    messages(arguments[0]);
    programs(arguments[0]);
    directories();
    locales();
    bytes_there();
    terminals();
    passwords();
    mapped_files();
    masks();
    absent();
    all_descriptors();
    return finish("calls");
}
