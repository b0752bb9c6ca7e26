/* Timers that end by SIGALRM, and those of timer_create. sys/time.h comes first: with it alone there are both structures. */
#include <sys/time.h>

static struct timespec converted(struct timeval from) {
    struct timespec to;
    TIMEVAL_TO_TIMESPEC(&from, &to);
    return to;
}

#include "library.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int rings;

static void ring(int number) {
    rings += number == SIGALRM;
    errno = 0;
}

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct itimerval every(long first, long then) {
    return (struct itimerval){ { then / 1000, then % 1000 * 1000 },
                               { first / 1000, first % 1000 * 1000 } };
}

static void repeated(void) {
    struct itimerval timer = every(30, 20), old;
    long start = milliseconds();
    rings = 0;
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    while (rings < 4 && milliseconds() - start < 20000)
        usleep(1000);
    CHECK(rings >= 4 && milliseconds() - start >= 30 + 3 * 20 - 1);
    CHECK(getitimer(ITIMER_REAL, &old) == 0 && old.it_interval.tv_usec == 20000);
    CHECK(old.it_value.tv_sec == 0 && old.it_value.tv_usec > 0 && old.it_value.tv_usec <= 20000);
    timer = every(0, 0);
    CHECK(setitimer(ITIMER_REAL, &timer, &old) == 0 && old.it_interval.tv_usec == 20000);
    CHECK(getitimer(ITIMER_REAL, &old) == 0 && !timerisset(&old.it_value));
    usleep(50000);
    int before = rings;
    usleep(100000);
    CHECK(rings == before);
    timer.it_value.tv_usec = 1000000;
    FAILS(setitimer(ITIMER_REAL, &timer, NULL), EINVAL);
    FAILS(setitimer(ITIMER_PROF, &timer, NULL), EINVAL);
    FAILS(getitimer(7, &old), EINVAL);
}

static void once(void) {
    long start = milliseconds();
    rings = 0;
    CHECK(alarm(100) == 0 && alarm(1) == 100);
    FAILS(pause(), EINTR);
    CHECK(rings == 1 && milliseconds() - start >= 999);
    CHECK(alarm(50) == 0);
    usleep(1000);
    CHECK(alarm(0) == 50 && alarm(0) == 0);
}

/* A child begins without its parent's timer; one that handles none is ended by its own. */
static void children(void) {
    alarm(100);
    pid_t child = fork();
    if (child == 0) {
        if (alarm(0) != 0)
            _exit(1);
        signal(SIGALRM, SIG_DFL);
        alarm(1);
        for (;;)
            pause();
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
    CHECK(alarm(0) > 0);
    child = fork();
    if (child == 0) {
        struct itimerval timer = every(10, 0);
        rings = 0;
        setitimer(ITIMER_REAL, &timer, NULL);
        while (rings == 0)
            usleep(1000);
        _exit(rings);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* The library's thread is none that the process would wait for. */
static void *last(void *unused) {
    usleep(10000);
    return unused;
}

static void ends(void) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        alarm(1000);
        pthread_create(&thread, NULL, last, NULL);
        pthread_exit(NULL);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static volatile int told;

static void inform(int number, siginfo_t *information, void *context) {
    told = number == SIGUSR1 && information->si_signo == number && information->si_code == 0;
    (void)context;
}

static void information(void) {
    struct sigaction action = { .sa_flags = SA_SIGINFO };
    action.sa_sigaction = inform;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0 && told);
}

/* ---- timer_create ---- */

static volatile int expired, code, value;
static volatile long overruns;
static timer_t given;

static void expire(int number, siginfo_t *information, void *context) {
    code = information->si_code;
    value = information->si_value.sival_int;
    overruns += timer_getoverrun(given);
    expired += information->si_signo == number;
    (void)context;
}

static struct itimerspec after(long first, long then) {
    return (struct itimerspec){ { then / 1000, then % 1000 * 1000000 },
                                { first / 1000, first % 1000 * 1000000 } };
}

static timer_t make(int clock, int notify, int signal) {
    struct sigevent event = { .sigev_notify = notify, .sigev_signo = signal };
    event.sigev_value.sival_int = 42;
    CHECK(timer_create(clock, &event, &given) == 0);
    return given;
}

static void by_signal(int clock) {
    struct sigaction action = { .sa_flags = SA_SIGINFO };
    action.sa_sigaction = expire;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    timer_t timer = make(clock, SIGEV_SIGNAL, SIGUSR2);
    struct itimerspec times = after(30, 20), left;
    CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0);
    expired = value = 0;
    overruns = 0;
    long start = milliseconds();
    CHECK(timer_settime(timer, 0, &times, NULL) == 0);
    while (expired + overruns < 4)
        usleep(1000);
    CHECK(milliseconds() - start >= 30 + 3 * 20 - 1 && code == SI_TIMER && value == 42);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 20000000);
    CHECK(left.it_value.tv_sec == 0 && left.it_value.tv_nsec > 0 && left.it_value.tv_nsec <= 20000000);
    times = after(0, 0);
    CHECK(timer_settime(timer, 0, &times, &left) == 0 && left.it_interval.tv_nsec == 20000000);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_nsec == 0);
    usleep(50000);
    int before = expired;
    usleep(100000);
    CHECK(expired == before);

    /* Once, at a time that is over; then at one that is to come. */
    times = after(0, 0);
    times.it_value.tv_nsec = 1;
    CHECK(timer_settime(timer, TIMER_ABSTIME, &times, NULL) == 0);
    while (expired == before)
        usleep(1000);
    struct timespec now;
    CHECK(clock_gettime(clock, &now) == 0);
    times.it_value = now;
    times.it_value.tv_sec++;
    CHECK(timer_settime(timer, TIMER_ABSTIME, &times, NULL) == 0);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec <= 1);
    while (expired == before + 1)
        usleep(1000);
    CHECK(clock_gettime(clock, &now) == 0 && now.tv_sec >= times.it_value.tv_sec);
    CHECK(expired == before + 2 && timer_delete(timer) == 0);
    FAILS(timer_gettime(timer, &left), EINVAL);
    FAILS(timer_delete(timer), EINVAL);
}

/* A signal that waits stands for the expirations that follow. */
static void blocked(void) {
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, &before) == 0);
    timer_t timer = make(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR2);
    struct itimerspec times = after(10, 10);
    CHECK(timer_settime(timer, 0, &times, NULL) == 0);
    while (timer_getoverrun(timer) < 3)
        usleep(1000);
    times = after(0, 0);
    CHECK(timer_settime(timer, 0, &times, NULL) == 0);
    siginfo_t information;
    CHECK(sigwaitinfo(&set, &information) == SIGUSR2 && information.si_code == SI_TIMER);
    CHECK(information.si_value.sival_int == 42);
    struct timespec none = { 0, 0 };
    FAILS(sigtimedwait(&set, &information, &none), EAGAIN);
    CHECK(timer_delete(timer) == 0 && sigprocmask(SIG_SETMASK, &before, NULL) == 0);
}

static volatile int threads;
static pthread_t own;

static void in_thread(union sigval given_value) {
    if (given_value.sival_int == 42 && !pthread_equal(pthread_self(), own))
        __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
}

static void by_thread(void) {
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread };
    pthread_attr_t attributes;
    own = pthread_self();
    for (int detached = 0; detached < 3; detached++) {
        event.sigev_value.sival_int = 42;
        event.sigev_notify_attributes = detached ? &attributes : NULL;
        CHECK(pthread_attr_init(&attributes) == 0);
        if (detached == 2)
            CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
        CHECK(timer_create(CLOCK_REALTIME, &event, &given) == 0);
        struct itimerspec times = after(5, 5);
        threads = 0;
        CHECK(timer_settime(given, 0, &times, NULL) == 0);
        while (threads < 3)
            usleep(1000);
        CHECK(timer_delete(given) == 0);
    }
}

static void without_notice(void) {
    timer_t timer = make(CLOCK_MONOTONIC, SIGEV_NONE, 0);
    struct itimerspec times = after(10, 0), left;
    CHECK(timer_settime(timer, 0, &times, NULL) == 0);
    do {
        CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec == 0);
    } while (left.it_value.tv_nsec > 0);
    /* One that is over and repeats has the time to its next end. */
    times = after(1, 100000);
    CHECK(timer_settime(timer, 0, &times, NULL) == 0);
    usleep(5000);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec >= 10 && left.it_interval.tv_sec == 100);
    CHECK(timer_getoverrun(timer) == 0 && timer_delete(timer) == 0);

    /* Without an event: SIGALRM. A child of fork has no timers. */
    int before = rings;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
    times = after(1, 0);
    CHECK(timer_settime(timer, 0, &times, NULL) == 0);
    while (rings == before)
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        if (timer_gettime(timer, &left) == 0 || errno != EINVAL)
            _exit(1);
        expired = 0;
        timer = make(CLOCK_REALTIME, SIGEV_SIGNAL, SIGUSR2);
        if (timer_settime(timer, 0, &times, NULL) != 0)
            _exit(2);
        while (!expired)
            usleep(1000);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    times.it_value.tv_nsec = 1000000000;
    FAILS(timer_settime(timer, 0, &times, NULL), EINVAL);
    FAILS(timer_settime(timer, 0, NULL, NULL), EINVAL);
    CHECK(timer_delete(timer) == 0);
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = 99 };
    FAILS(timer_create(CLOCK_REALTIME, &event, &timer), EINVAL);
    event.sigev_notify = 7;
    FAILS(timer_create(CLOCK_REALTIME, &event, &timer), EINVAL);
    FAILS(timer_create(77, NULL, &timer), EINVAL);
    FAILS(timer_create(CLOCK_PROCESS_CPUTIME_ID, NULL, &timer), ENOTSUP);
    FAILS(timer_getoverrun(timer), EINVAL);
}

int main(void) {
    struct timespec time = converted((struct timeval){ 7, 8 });
    CHECK(time.tv_sec == 7 && time.tv_nsec == 8000);
    CHECK(signal(SIGALRM, ring) == SIG_DFL);
    repeated();
    once();
    children();
    ends();
    information();
    by_signal(CLOCK_REALTIME);
    by_signal(CLOCK_MONOTONIC);
    blocked();
    by_thread();
    without_notice();
    return finish("alarm");
}
