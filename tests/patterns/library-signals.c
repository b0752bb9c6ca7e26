/*
 * Signals between processes: handlers, masks, waits for signals, SIGCHLD, and what a handler
 * interrupts. Children say by a pipe when they are ready for a signal, and how they got on.
 */
#include "library.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t calls, last, sender, code, status;

static void count_call(int number) {
    last = number;
    calls++;
}

static void tell_more(int number, siginfo_t *information, void *context) {
    (void)context;
    last = number == information->si_signo ? number : -1;
    sender = information->si_pid;
    code = information->si_code;
    status = information->si_status;
    calls++;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static sigset_t set_of(int number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return set;
}

/* A child and the pipe by which it writes. */
struct child {
    pid_t process;
    int pipe;
};

static struct child begin(void (*action)(int)) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct child child = {fork(), ends[0]};
    if (child.process == 0) {
        close(ends[0]);
        action(ends[1]);
        _exit(0);
    }
    CHECK(child.process > 0 && close(ends[1]) == 0);
    return child;
}

static void say(int pipe, char word) {
    if (write(pipe, &word, 1) != 1)
        _exit(90);
}

/* The next byte of the child; 0 once it has ended. */
static char word_of(struct child *child) {
    char word = 0;
    CHECK(read(child->pipe, &word, 1) >= 0);
    return word;
}

static int end_of(struct child *child) {
    int ended = -1;
    CHECK(close(child->pipe) == 0 && waitpid(child->process, &ended, 0) == child->process);
    return ended;
}

static void on_term(int number) {
    (void)number;
    _exit(7);
}

static void serve_until_term(int pipe) {
    handle(SIGTERM, on_term);
    say(pipe, 'r');
    for (;;)
        pause();
}

static void die_by_default(int pipe) {
    say(pipe, 'r');
    for (;;)
        pause();
}

static void ignore(int pipe) {
    signal(SIGHUP, SIG_IGN);
    handle(SIGUSR1, count_call);
    say(pipe, 'r');
    while (calls == 0)
        pause();
    say(pipe, 'c');
    signal(SIGUSR1, SIG_DFL);
    say(pipe, 'd');
    for (;;)
        pause();
}

/* Handlers, what is ignored, and what ends a process. */
static void dispositions(void) {
    struct child child = begin(serve_until_term);
    CHECK(word_of(&child) == 'r' && kill(child.process, 0) == 0);
    CHECK(kill(child.process, SIGTERM) == 0 && word_of(&child) == 0);
    int ended = end_of(&child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 7);
    child = begin(die_by_default);
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGTERM) == 0);
    ended = end_of(&child);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGTERM);
    child = begin(serve_until_term);
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGKILL) == 0);
    ended = end_of(&child);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    child = begin(ignore);
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGHUP) == 0);
    CHECK(kill(child.process, SIGCHLD) == 0 && kill(child.process, SIGUSR1) == 0);
    CHECK(word_of(&child) == 'c' && word_of(&child) == 'd');
    CHECK(kill(child.process, SIGUSR1) == 0);
    ended = end_of(&child);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGUSR1);
    FAILS(kill(child.process, SIGTERM), ESRCH);
    FAILS(kill(getpid(), 65), EINVAL);
    struct sigaction action = {.sa_handler = count_call, .sa_flags = SA_RESTART}, old;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0 && sigaction(SIGUSR2, NULL, &old) == 0);
    CHECK(old.sa_handler == count_call && old.sa_flags == SA_RESTART);
    CHECK(signal(SIGUSR2, SIG_DFL) == count_call);
    FAILS(sigaction(SIGKILL, &action, NULL), EINVAL);
    CHECK(signal(SIGSTOP, SIG_IGN) == SIG_ERR);
}

static sigjmp_buf before_signal;

static void jump_back(int number) {
    siglongjmp(before_signal, number);
}

/* Jumps out of handlers: the mask is as it was, if sigsetjmp is told to keep it. */
static void jumps(void) {
    sigset_t set = set_of(SIGUSR2), now;
    handle(SIGUSR1, jump_back);
    volatile int times = 0;
    memset(&before_signal, -1, sizeof before_signal);
    CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
    int number = sigsetjmp(before_signal, 1);
    CHECK(number == (times ? SIGUSR1 : 0));
    CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR2) == 1);
    CHECK(sigismember(&now, SIGUSR1) == 0);
    if (times++ < 3) {
        sigemptyset(&set);
        CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
        raise(SIGUSR1);
        CHECK(0);
    }
    CHECK(times == 4);
    times = 0;
    number = sigsetjmp(before_signal, 0);
    CHECK(number == times * SIGUSR1);
    if (times++ == 0)
        raise(SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR1) == 1);
    /* Without a signal; 0 becomes 1. */
    times = 0;
    number = sigsetjmp(before_signal, 0);
    if (times++ == 0)
        siglongjmp(before_signal, 0);
    CHECK(number == 1 && times == 2);
    sigemptyset(&set);
    CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
    handle(SIGUSR1, count_call);
}

static int nested;

static void raise_again(int number) {
    int before = calls++;
    if (before == 0) {
        raise(number); /* Waits until this one returns. */
        nested = calls == 1;
    }
}

/* What the own process blocks, and sends to itself. */
static void masks(void) {
    sigset_t set = set_of(SIGUSR1), other = set_of(SIGUSR2), old, pending;
    calls = 0;
    handle(SIGUSR1, count_call);
    handle(SIGUSR2, count_call);
    CHECK(raise(SIGUSR1) == 0 && calls == 1 && last == SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0 && !sigismember(&old, SIGUSR1));
    CHECK(raise(SIGUSR1) == 0 && kill(getpid(), SIGUSR1) == 0 && calls == 1);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
    CHECK(sigismember(&pending, SIGUSR2) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &other, &old) == 0 && sigismember(&old, SIGUSR1) == 1);
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 && calls == 2);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &old) == 0 && sigismember(&old, SIGUSR2) == 1);
    sigemptyset(&set);
    CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0 && calls == 2);
    FAILS(sigprocmask(3, &set, NULL), EINVAL);
    CHECK(pthread_sigmask(3, &set, NULL) == EINVAL);
    /* A handler's own signal waits for its end; with SA_RESETHAND it is called once. */
    calls = 0;
    handle(SIGUSR1, raise_again);
    CHECK(raise(SIGUSR1) == 0 && nested && calls == 2);
    struct sigaction once = {.sa_handler = count_call, .sa_flags = SA_RESETHAND};
    CHECK(sigaction(SIGUSR1, &once, NULL) == 0 && raise(SIGUSR1) == 0 && calls == 3);
    CHECK(sigaction(SIGUSR1, NULL, &once) == 0 && once.sa_handler == SIG_DFL);
    /* Signals that are ignored stay ignored. */
    once = (struct sigaction){.sa_handler = SIG_IGN, .sa_flags = SA_RESETHAND};
    CHECK(sigaction(SIGUSR1, &once, NULL) == 0 && raise(SIGUSR1) == 0);
    CHECK(sigaction(SIGUSR1, NULL, &once) == 0 && once.sa_handler == SIG_IGN);
    CHECK(raise(SIGUSR1) == 0 && calls == 3);
    /* What waits is dropped when the signal is ignored. */
    handle(SIGUSR1, count_call);
    set = set_of(SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0);
    CHECK(signal(SIGUSR1, SIG_IGN) == count_call && sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    CHECK(calls == 3);
    handle(SIGUSR1, count_call);
}

static void block_then_wait(int pipe) {
    sigset_t set = set_of(SIGUSR1), none;
    sigaddset(&set, SIGUSR2);
    sigemptyset(&none);
    handle(SIGUSR1, count_call);
    calls = 0;
    sigprocmask(SIG_BLOCK, &set, NULL);
    say(pipe, 'r');
    /* Both signals are pending before this one goes on. */
    siginfo_t information;
    struct timespec soon = {0, 1000000}, long_time = {60, 0};
    int number = sigtimedwait(&set, &information, &long_time), second = 0;
    say(pipe, number == SIGUSR1 && information.si_pid == getppid() && calls == 0 ? 'a' : 'A');
    say(pipe, sigwait(&set, &second) == 0 && second == SIGUSR2 ? 'b' : 'B');
    say(pipe, sigtimedwait(&set, NULL, &soon) == -1 && errno == EAGAIN ? 'c' : 'C');
    say(pipe, sigwaitinfo(&set, &information) == SIGUSR2 ? 'd' : 'D');
    say(pipe, 'r');
    /* The handler runs in the wait and not before. */
    int before = calls, result = sigsuspend(&none);
    say(pipe, result == -1 && errno == EINTR && before == 0 && calls == 1 ? 'e' : 'E');
}

static void waits(void) {
    struct child child = begin(block_then_wait);
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGUSR2) == 0);
    /* The lower number comes first if both wait; the child begins with the first one it sees. */
    CHECK(kill(child.process, SIGUSR1) == 0);
    char first = word_of(&child);
    if (first == 'A') {
        /* It saw SIGUSR2 before SIGUSR1 was there: then the rest is the other way round. */
        CHECK(word_of(&child) == 'B');
    } else {
        CHECK(first == 'a' && word_of(&child) == 'b');
    }
    CHECK(word_of(&child) == 'c' && kill(child.process, SIGUSR2) == 0 && word_of(&child) == 'd');
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGUSR1) == 0 && word_of(&child) == 'e');
    CHECK(end_of(&child) == 0);
}

/* One signal has a handler, another one is blocked and waits on. */
static volatile sig_atomic_t blocked_calls;

static void count_blocked(int number) {
    (void)number;
    blocked_calls++;
}

static void block_one_of_two(int pipe) {
    sigset_t set = set_of(SIGUSR1), pending;
    handle(SIGUSR1, count_blocked);
    handle(SIGUSR2, count_call);
    calls = 0;
    sigprocmask(SIG_BLOCK, &set, NULL);
    say(pipe, 'r');
    while (calls < 3)
        pause();
    say(pipe, blocked_calls == 0 && sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1)
                  ? 'a' : 'A');
    say(pipe, sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 && blocked_calls == 1 ? 'b' : 'B');
}

static void one_of_two(void) {
    struct child child = begin(block_one_of_two);
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGUSR1) == 0);
    struct pollfd entry = {.fd = child.pipe, .events = POLLIN};
    do {
        CHECK(kill(child.process, SIGUSR2) == 0);
    } while (poll(&entry, 1, 20) == 0);
    CHECK(word_of(&child) == 'a' && word_of(&child) == 'b' && end_of(&child) == 0);
}

/* The waits that a handler ends, in the child's first thread. */
static int wait_by(int way, int quiet) {
    struct timespec rest = {60, 0}, left = {0, 0};
    struct pollfd entry = {.fd = quiet, .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    fd_set readable;
    sigset_t none;
    int set;
    sigemptyset(&none);
    FD_ZERO(&readable);
    FD_SET(quiet, &readable);
    switch (way) {
    case 0: return nanosleep(&rest, &left) == -1 && errno == EINTR && left.tv_sec > 0;
    case 1: return sleep(60) > 0;
    case 2: return usleep(60000000) == -1 && errno == EINTR;
    case 3: return clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &left) == EINTR && left.tv_sec > 0;
    case 4: return poll(&entry, 1, -1) == -1 && errno == EINTR;
    case 5: return ppoll(&entry, 1, &rest, &none) == -1 && errno == EINTR;
    case 6: return select(quiet + 1, &readable, NULL, NULL, NULL) == -1 && errno == EINTR;
    case 7: return pselect(quiet + 1, &readable, NULL, NULL, NULL, &none) == -1 && errno == EINTR;
    case 8:
    case 9:
        set = epoll_create1(0);
        if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, quiet, &event) != 0)
            return 0;
        int found = way == 8 ? epoll_wait(set, &event, 1, -1)
                             : epoll_pwait(set, &event, 1, -1, &none);
        return found == -1 && errno == EINTR && close(set) == 0;
    default: return pause() == -1 && errno == EINTR;
    }
}

enum { WAYS = 11 };
/* Those that unblock the signal for the wait only, so that it cannot come before. */
static int is_masked(int way) {
    return way == 5 || way == 7 || way == 9;
}

static void wait_in_all_ways(int pipe_end) {
    int quiet[2];
    sigset_t set = set_of(SIGUSR1);
    signal(SIGUSR1, count_call);
    if (pipe(quiet) != 0)
        _exit(91);
    for (int way = 0; way < WAYS; way++) {
        calls = 0;
        sigprocmask(is_masked(way) ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
        say(pipe_end, 'r');
        say(pipe_end, wait_by(way, quiet[0]) && calls > 0 ? (char)('a' + way) : '-');
    }
}

static void interruptions(void) {
    struct child child = begin(wait_in_all_ways);
    for (int way = 0; way < WAYS; way++) {
        CHECK(word_of(&child) == 'r');
        /* A signal that comes before an unmasked wait does not end it: another one follows. */
        struct pollfd entry = {.fd = child.pipe, .events = POLLIN};
        int sent = 0;
        do {
            CHECK(kill(child.process, SIGUSR1) == 0);
            sent++;
        } while (poll(&entry, 1, is_masked(way) ? 20000 : 50) == 0 && !is_masked(way));
        CHECK(word_of(&child) == (char)('a' + way));
        CHECK(!is_masked(way) || sent == 1);
    }
    CHECK(end_of(&child) == 0);
}

/* A handler ends no wait that begins after it, whatever became of a wait with a mask before. */
static void later_waits(void) {
    int quiet[2];
    sigset_t none;
    sigemptyset(&none);
    CHECK(pipe(quiet) == 0);
    struct pollfd entry = {.fd = quiet[0], .events = POLLIN};
    handle(SIGUSR1, count_call);
    struct epoll_event event;
    FAILS(epoll_pwait(quiet[0], &event, 1, -1, &none), EINVAL);
    CHECK(raise(SIGUSR1) == 0 && poll(&entry, 1, 1) == 0);
    CHECK(raise(SIGUSR1) == 0 && usleep(1) == 0);
    CHECK(close(quiet[0]) == 0 && close(quiet[1]) == 0);
}

/* A handler ends no wait of another thread, and no read. */
static void *wait_for_a_byte(void *pipe_end) {
    struct pollfd entry = {.fd = *(int *)pipe_end, .events = POLLIN};
    return (void *)(long)poll(&entry, 1, -1);
}

static void read_on(int pipe_end) {
    int ends[2];
    char byte = 0;
    pthread_t thread;
    void *result = NULL;
    handle(SIGUSR1, count_call);
    calls = 0;
    if (pipe(ends) != 0 || pthread_create(&thread, NULL, wait_for_a_byte, &ends[0]) != 0)
        _exit(92);
    say(pipe_end, 'r');
    while (calls < 3)
        pause();
    say(pipe_end, 'r');
    if (write(ends[1], "x", 1) != 1 || pthread_join(thread, &result) != 0)
        _exit(93);
    say(pipe_end, (long)result == 1 ? 'a' : 'A');
    say(pipe_end, read(ends[0], &byte, 1) == 1 && byte == 'x' ? 'b' : 'B');
}

static void other_calls(void) {
    struct child child = begin(read_on);
    CHECK(word_of(&child) == 'r');
    struct pollfd entry = {.fd = child.pipe, .events = POLLIN};
    do {
        CHECK(kill(child.process, SIGUSR1) == 0);
    } while (poll(&entry, 1, 20) == 0);
    CHECK(word_of(&child) == 'r' && word_of(&child) == 'a' && word_of(&child) == 'b');
    CHECK(end_of(&child) == 0);
}

/* Threads that block a signal leave it to one that does not, or to one that waits for it. */
static sigset_t awaited;

static void *wait_for_signals(void *unused) {
    (void)unused;
    int number = 0, sum = 0;
    while (number != SIGTERM) {
        if (sigwait(&awaited, &number) != 0)
            return NULL;
        sum += number;
    }
    return (void *)(long)sum;
}

static void leave_signals_to_a_thread(int pipe_end) {
    pthread_t thread;
    void *sum = NULL;
    sigfillset(&awaited);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    awaited = set_of(SIGTERM);
    sigaddset(&awaited, SIGUSR1);
    if (pthread_create(&thread, NULL, wait_for_signals, NULL) != 0)
        _exit(94);
    say(pipe_end, 'r');
    if (pthread_join(thread, &sum) != 0)
        _exit(95);
    say(pipe_end, (long)sum == SIGUSR1 + SIGTERM ? 'a' : 'A');
}

static void threads(void) {
    struct child child = begin(leave_signals_to_a_thread);
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGUSR2) == 0);
    CHECK(kill(child.process, SIGUSR1) == 0);
    CHECK(kill(child.process, SIGTERM) == 0 && word_of(&child) == 'a');
    CHECK(end_of(&child) == 0);
}

/* SIGCHLD, with the child's status. */
static void leave_with_3(int pipe) {
    (void)pipe;
    _exit(3);
}

static void children(void) {
    struct sigaction action = {.sa_sigaction = tell_more, .sa_flags = SA_SIGINFO};
    sigset_t set = set_of(SIGCHLD), none;
    sigemptyset(&none);
    calls = 0;
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct child child = begin(leave_with_3);
    FAILS(sigsuspend(&none), EINTR);
    CHECK(calls == 1 && last == SIGCHLD && sender == child.process);
    CHECK(code == CLD_EXITED && status == 3);
    CHECK(WEXITSTATUS(end_of(&child)) == 3);
    child = begin(die_by_default);
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGINT) == 0);
    FAILS(sigsuspend(&none), EINTR);
    CHECK(calls == 2 && sender == child.process && code == CLD_KILLED && status == SIGINT);
    CHECK(WTERMSIG(end_of(&child)) == SIGINT);
    /* Children whose ends are ignored leave nothing. */
    CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    child = begin(leave_with_3);
    CHECK(word_of(&child) == 0 && close(child.pipe) == 0);
    FAILS(waitpid(child.process, NULL, 0), ECHILD);
    CHECK(signal(SIGCHLD, SIG_DFL) == SIG_IGN && sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    child = begin(leave_with_3);
    CHECK(word_of(&child) == 0 && WEXITSTATUS(end_of(&child)) == 3);
}

static char *own_path;

/* Another program begins with the usual effects, but for what was ignored. */
static void become_another(int pipe) {
    char number[12];
    snprintf(number, sizeof number, "%d", pipe);
    char *arguments[] = {own_path, "exec", number, NULL};
    handle(SIGUSR1, count_call);
    signal(SIGHUP, SIG_IGN);
    execv(own_path, arguments);
    _exit(96);
}

static void programs(void) {
    struct child child = begin(become_another);
    CHECK(word_of(&child) == 'r' && kill(child.process, SIGHUP) == 0);
    CHECK(kill(child.process, SIGUSR2) == 0 && word_of(&child) == 'h');
    CHECK(kill(child.process, SIGUSR1) == 0);
    int ended = end_of(&child);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGUSR1);
    /* A child that was started has a handler of its own, and its parent's does not run. */
    pid_t process;
    char *arguments[] = {own_path, "sleep", NULL};
    calls = 0;
    handle(SIGUSR1, count_call);
    CHECK(posix_spawn(&process, own_path, NULL, NULL, arguments, environ) == 0);
    CHECK(kill(process, SIGUSR1) == 0 && waitpid(process, &ended, 0) == process);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGUSR1 && calls == 0);
    /* A child ignores what its parent does, unless that is to have its usual effect there. */
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    CHECK(posix_spawn(&process, own_path, NULL, NULL, arguments, environ) == 0);
    CHECK(getpgid(process) == getpgrp());
    CHECK(kill(process, SIGUSR1) == 0 && kill(process, SIGTERM) == 0);
    CHECK(waitpid(process, &ended, 0) == process && WTERMSIG(ended) == SIGTERM);
    posix_spawnattr_t attributes;
    sigset_t usual = set_of(SIGUSR1);
    CHECK(posix_spawnattr_init(&attributes) == 0);
    CHECK(posix_spawnattr_setsigdefault(&attributes, &usual) == 0);
    CHECK(posix_spawnattr_setflags(&attributes,
                                   POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP) == 0);
    CHECK(posix_spawn(&process, own_path, NULL, &attributes, arguments, environ) == 0);
    CHECK(getpgid(process) == process);
    CHECK(kill(process, SIGUSR2) == 0 && kill(process, SIGUSR1) == 0);
    CHECK(waitpid(process, &ended, 0) == process && WTERMSIG(ended) == SIGUSR1);
    CHECK(posix_spawnattr_setpgroup(&attributes, getpgrp()) == 0);
    CHECK(posix_spawn(&process, own_path, NULL, &attributes, arguments, environ) == 0);
    CHECK(getpgid(process) == getpgrp() && kill(process, SIGUSR1) == 0);
    CHECK(waitpid(process, &ended, 0) == process && WTERMSIG(ended) == SIGUSR1);
    CHECK(posix_spawnattr_setpgroup(&attributes, 30000) == 0);
    CHECK(posix_spawn(&process, own_path, NULL, &attributes, arguments, environ) == EPERM);
    CHECK(posix_spawnattr_destroy(&attributes) == 0);
    handle(SIGUSR1, count_call);
    signal(SIGUSR2, SIG_DFL);
}

/* Waits for a signal that is blocked meanwhile. */
static int next_signal(int number) {
    sigset_t set = set_of(number);
    int found = 0;
    return sigwait(&set, &found) == 0 ? found : -1;
}

static void own_group(int pipe) {
    sigset_t set = set_of(SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    say(pipe, setpgid(0, 0) == 0 && kill(0, SIGUSR1) == 0 ? 'a' : 'A');
    say(pipe, next_signal(SIGUSR1) == SIGUSR1 ? 'b' : 'B');
    say(pipe, next_signal(SIGUSR1) == SIGUSR1 ? 'c' : 'C');
}

/* The child's group has the child alone. */
static void groups(void) {
    calls = 0;
    struct child child = begin(own_group);
    CHECK(word_of(&child) == 'a' && word_of(&child) == 'b');
    CHECK(killpg(child.process, SIGUSR1) == 0 && word_of(&child) == 'c');
    CHECK(killpg(getpgrp(), 0) == 0 && killpg(0, 0) == 0);
    CHECK(end_of(&child) == 0 && calls == 0);
    FAILS(killpg(-1, SIGUSR1), EINVAL);
    FAILS(killpg(30000, SIGUSR1), ESRCH);
}

/* System V's calls. */
static void by_number(void) {
    sigset_t pending;
    calls = 0;
    CHECK(sigset(SIGUSR1, count_call) == count_call && sighold(SIGUSR1) == 0);
    CHECK(raise(SIGUSR1) == 0 && calls == 0 && sigset(SIGUSR1, SIG_HOLD) == SIG_HOLD);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
    FAILS(sigpause(SIGUSR1), EINTR);
    CHECK(calls == 1 && raise(SIGUSR1) == 0 && calls == 1 && sigrelse(SIGUSR1) == 0 && calls == 2);
    CHECK(sigset(SIGUSR1, SIG_HOLD) == count_call && sigset(SIGUSR1, count_call) == SIG_HOLD);
    CHECK(raise(SIGUSR1) == 0 && calls == 3 && sigignore(SIGUSR1) == 0);
    CHECK(raise(SIGUSR1) == 0 && calls == 3 && sigset(SIGUSR1, SIG_DFL) == SIG_IGN);
    FAILS(sighold(SIGKILL), EINVAL);
    FAILS(sigignore(0), EINVAL);
    CHECK(sigset(SIGSTOP, SIG_IGN) == SIG_ERR && errno == EINVAL);
}

/* A handler that runs as the mask of `pselect` lets its signal come ends the wait, also where
 * descriptors are named only for exceptions. The limit is there for a failure. */
static void exceptions(void) {
    int quiet[2];
    sigset_t held = set_of(SIGUSR1), none;
    struct timespec limit = {10, 0};
    CHECK(pipe(quiet) == 0 && sigemptyset(&none) == 0);
    handle(SIGUSR1, count_call);
    CHECK(sigprocmask(SIG_BLOCK, &held, NULL) == 0);
    for (int round = 0; round < 2; round++) {
        fd_set readable, exceptional;
        FD_ZERO(&readable);
        FD_ZERO(&exceptional);
        if (round == 1)
            FD_SET(quiet[0], &readable);
        FD_SET(quiet[1], &exceptional);
        calls = 0;
        CHECK(raise(SIGUSR1) == 0 && calls == 0);
        FAILS(pselect(quiet[1] + 1, &readable, NULL, &exceptional, &limit, &none), EINTR);
        CHECK(calls == 1);
    }
    CHECK(sigprocmask(SIG_UNBLOCK, &held, NULL) == 0 && close(quiet[0]) == 0 && close(quiet[1]) == 0);
}

/* SIGALRM ends a sleep, as any handler does. */
static void alarms(void) {
    calls = 0;
    handle(SIGALRM, count_call);
    CHECK(alarm(1) == 0 && sleep(60) > 0 && calls == 1 && last == SIGALRM);
    CHECK(signal(SIGALRM, SIG_DFL) == count_call);
}

int main(int count, char **arguments) {
    own_path = arguments[0];
    if (count > 1 && !strcmp(arguments[1], "exec")) {
        int pipe = atoi(arguments[2]);
        sigset_t set = set_of(SIGUSR2), none;
        sigemptyset(&none);
        handle(SIGUSR2, count_call);
        /* Blocked until the wait, which it would not end if it came just before. */
        sigprocmask(SIG_BLOCK, &set, NULL);
        say(pipe, 'r');
        sigsuspend(&none);
        say(pipe, calls == 1 ? 'h' : 'H');
        for (;;)
            pause();
    }
    if (count > 1) {
        for (;;)
            pause();
    }
    dispositions();
    masks();
    jumps();
    waits();
    one_of_two();
    interruptions();
    later_waits();
    other_calls();
    threads();
    children();
    programs();
    groups();
    by_number();
    exceptions();
    alarms();
    return finish("library-signals");
}
