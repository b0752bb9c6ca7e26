/*
 * Parts of the C library that servers and their tools ask for: the zone of `gettimeofday`, dates by
 * `ctime_r`, ticks of the processor, random bytes, the size of the terminal, who has sent a signal,
 * options within an option, formats of least and fast integers, owners of descriptors, and marks in
 * streams.
 */
#include "library.h"

#include <cpuid.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

static void dates(void) {
    struct timeval now;
    struct timezone zone = {77, 77};
    char text[26];
    time_t start = 0;
    CHECK(gettimeofday(&now, &zone) == 0);
    CHECK(zone.tz_minuteswest == 0 && zone.tz_dsttime == 0);
    CHECK(ctime_r(&start, text) == text);
    CHECK(strcmp(text, "Thu Jan  1 00:00:00 1970\n") == 0);
}

static void ticks(void) {
    struct tms used = {-2, -2, -2, -2};
    clock_t first = times(&used);
    CHECK(first != (clock_t)-1);
    CHECK(used.tms_utime >= 0 && used.tms_stime == 0);
    CHECK(used.tms_cutime == 0 && used.tms_cstime == 0);
    clock_t next = times(&used);
    CHECK(next >= first);
    CHECK(times(NULL) >= next);
}

static int differ(const unsigned char *left, const unsigned char *right, size_t size) {
    return memcmp(left, right, size) != 0;
}

static void random_bytes(void) {
    unsigned char one[64] = {0}, other[64] = {0}, zeros[64] = {0};
    static unsigned char large[100000];
    CHECK(getrandom(one, sizeof one, 0) == (ssize_t)sizeof one);
    CHECK(getrandom(other, sizeof other, GRND_NONBLOCK) == (ssize_t)sizeof other);
    CHECK(differ(one, other, sizeof one) && differ(one, zeros, sizeof one));
    CHECK(getrandom(one, 0, 0) == 0);
    FAILS(getrandom(one, 1, 0x100), EINVAL);
    CHECK(getrandom(large, sizeof large, GRND_RANDOM) == (ssize_t)sizeof large);
    CHECK(differ(large + sizeof large - 64, zeros, 64));

    /* Nothing behind what is asked for is touched. */
    memset(one, 7, sizeof one);
    arc4random_buf(one, 11);
    CHECK(one[11] == 7 && one[63] == 7);

    memset(one, 0, sizeof one);
    CHECK(getentropy(one, sizeof one) == 0);
    CHECK(differ(one, zeros, sizeof one) && differ(one, other, sizeof one));
    FAILS(getentropy(large, 257), EIO);

    memset(one, 0, sizeof one);
    arc4random_buf(one, sizeof one);
    CHECK(differ(one, zeros, sizeof one) && differ(one, other, sizeof one));
    arc4random_buf(large, sizeof large);
    CHECK(differ(large, large + 50000, 64));
    int low = 0, high = 0;
    for (int round = 0; round < 1000; round++) {
        uint32_t number = arc4random_uniform(10);
        CHECK(number < 10);
        low |= number == 0;
        high |= number == 9;
    }
    CHECK(low && high);
    CHECK(arc4random_uniform(0) == 0 && arc4random_uniform(1) == 0);

    /* A child goes on with numbers of its own. */
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    arc4random_buf(one, sizeof one);
    if (child == 0) {
        _exit(write(pipes[1], one, sizeof one) != sizeof one);
    }
    CHECK(child > 0);
    CHECK(read(pipes[0], other, sizeof other) == sizeof other);
    CHECK(differ(one, other, sizeof one));
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(pipes[0]);
    close(pipes[1]);
}

static void terminals(void) {
    struct winsize size = {0, 0, 9, 9};
    int null = open("/dev/null", O_RDONLY);
    CHECK(null >= 0);
    FAILS(ioctl(null, TIOCGWINSZ, &size), ENOTTY);
    FAILS(ioctl(-1, TIOCGWINSZ, &size), EBADF);
    close(null);
    int terminal = open("/dev/tty", O_RDONLY);
    CHECK(terminal >= 0);
    CHECK(ioctl(terminal, TIOCGWINSZ, &size) == 0);
    CHECK(size.ws_row > 0 && size.ws_col > 0 && size.ws_xpixel == 0 && size.ws_ypixel == 0);
    close(terminal);
}

static siginfo_t told;

static void tell(int number, siginfo_t *information, void *context) {
    (void)number;
    (void)context;
    told = *information;
}

static void senders(void) {
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(told.si_signo == SIGUSR1 && told.si_code == SI_USER);
    CHECK(told.si_pid == getpid() && told.si_uid == getuid());
    signal(SIGUSR1, SIG_DFL);
}

static void options(void) {
    char *const tokens[] = {"ro", "size", "name", NULL};
    char text[] = "ro,size=12,,bad=1,name";
    char *rest = text, *value = text;
    CHECK(getsubopt(&rest, tokens, &value) == 0 && value == NULL);
    CHECK(getsubopt(&rest, tokens, &value) == 1 && strcmp(value, "12") == 0);
    CHECK(getsubopt(&rest, tokens, &value) == -1 && strcmp(value, "") == 0);
    CHECK(getsubopt(&rest, tokens, &value) == -1 && strcmp(value, "bad=1") == 0);
    CHECK(getsubopt(&rest, tokens, &value) == 2 && value == NULL);
    CHECK(*rest == 0);
}

static void formats(void) {
    char text[128];
    uint_fast64_t bytes = 0;
    uint_least16_t small = 0;
    snprintf(text, sizeof text, "%" PRIuFAST64 " %" PRIxLEAST16 " %" PRIdFAST32 " %" PRIiLEAST8,
             (uint_fast64_t)-1, (uint_least16_t)0xabcd, (int_fast32_t)-5, (int_least8_t)-6);
    CHECK(strcmp(text, "18446744073709551615 abcd -5 -6") == 0);
    CHECK(sscanf("9 ff", "%" SCNuFAST64 " %" SCNxLEAST16, &bytes, &small) == 2);
    CHECK(bytes == 9 && small == 0xff);
    /* The same for both compilers, whose objects may be in one program. */
    CHECK(sizeof(int_fast16_t) == 8 && sizeof(uint_fast32_t) == 8 && sizeof(int_fast8_t) == 1);
    CHECK(INT_FAST16_MAX == INT64_MAX && UINT_LEAST32_MAX == UINT32_MAX);
    CHECK(LOG_AUTHPRIV == 10 << 3 && LOG_CRON == 9 << 3 && LOG_FTP == 11 << 3);
}

static void streams(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(sockatmark(pair[0]) == 0);
    FAILS(sockatmark(-1), EBADF);
    CHECK(fcntl(pair[0], F_SETOWN, getpid()) == 0);
    CHECK(fcntl(pair[0], F_GETOWN) == getpid());
    CHECK(fcntl(pair[1], F_GETOWN) == 0);
    FAILS(fcntl(-1, F_SETOWN, getpid()), EBADF);
    CHECK(fcntl(pair[0], F_SETOWN, 0) == 0 && fcntl(pair[0], F_GETOWN) == 0);
    int null = open("/dev/null", O_RDONLY);
    FAILS(sockatmark(null), ENOTSOCK);
    close(null);
    close(pair[0]);
    close(pair[1]);

    /* What programs that try IPv6 first look at before they go on with IPv4. */
    struct addrinfo hints = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    errno = 0;
    CHECK(getaddrinfo(NULL, "5201", &hints, &found) == EAI_FAMILY);
    CHECK(errno == EAFNOSUPPORT);
}

/* What code for several processors asks; by the processor's own word. */
static void processor(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __builtin_cpu_init();
    CHECK(__get_cpuid(1, &a, &b, &c, &d));
    CHECK(__builtin_cpu_supports("sse2") && __builtin_cpu_supports("cmov"));
    CHECK(!__builtin_cpu_supports("popcnt") == !(c & bit_POPCNT));
    CHECK(!__builtin_cpu_supports("sse4.2") == !(c & bit_SSE4_2));
    CHECK(!__builtin_cpu_supports("aes") == !(c & bit_AES));
    if (!(c & bit_AVX) || !(c & bit_OSXSAVE)) {
        CHECK(!__builtin_cpu_supports("avx") && !__builtin_cpu_supports("avx2"));
    }
    CHECK(__get_cpuid(0, &a, &b, &c, &d));
    CHECK(!__builtin_cpu_is("intel") == (b != signature_INTEL_ebx));
    CHECK(!__builtin_cpu_is("amd") == (b != signature_AMD_ebx));
}

int main(void) {
    processor();
    dates();
    ticks();
    random_bytes();
    terminals();
    senders();
    options();
    formats();
    streams();
    return finish("library-system");
}
