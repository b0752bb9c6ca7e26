/* Timers that end by SIGALRM. sys/time.h comes first: with it alone there are both structures. */
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

int main(void) {
    struct timespec time = converted((struct timeval){ 7, 8 });
    CHECK(time.tv_sec == 7 && time.tv_nsec == 8000);
    CHECK(signal(SIGALRM, ring) == SIG_DFL);
    repeated();
    once();
    children();
    ends();
    information();
    return finish("alarm");
}
