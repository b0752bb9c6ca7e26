/*
 * What threads want of each other: cancellation (pthread_cancel) and signals (pthread_kill), and the
 * calls that handlers end. Nothing here depends on whether the other thread sleeps already.
 */
#include "library.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the waits of this program use: nothing ever comes by them. */
static int quiet[2], pair[2], listener, set, locked, counter, timer;
static sem_t never, begun;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_t sleeper;
static pid_t child;

static void open_everything(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(pipe(quiet) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listener, 4) == 0 && (set = epoll_create1(0)) >= 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, quiet[0], &event) == 0);
    CHECK(sem_init(&never, 0, 0) == 0 && sem_init(&begun, 0, 0) == 0);
    CHECK((counter = eventfd(0, 0)) >= 0);
    CHECK((timer = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0);
    CHECK((locked = open("/tmp/library-cancel", O_CREAT | O_RDWR, 0600)) >= 0);
}

static void *sleep_on(void *unused) {
    sem_t other;
    (void)unused;
    CHECK(sem_init(&other, 0, 0) == 0);
    while (sem_wait(&other) == 0)
        ;
    return NULL;
}

/* A call that waits for ever. */
static int wait_by(int way) {
    struct timespec late = {4000000000, 0}, rest = {1000000, 0};
    struct pollfd entry = {.fd = quiet[0], .events = POLLIN};
    struct pollfd socket_entry = {.fd = pair[0], .events = POLLIN};
    struct epoll_event event;
    struct flock lock = {.l_type = F_WRLCK};
    uint64_t value;
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    fd_set readable;
    sigset_t signals;
    int number;
    FD_ZERO(&readable);
    FD_SET(quiet[0], &readable);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    switch (way) {
    case 0: return read(quiet[0], &byte, 1);
    case 1: return read(pair[0], &byte, 1);
    case 2: return recv(pair[0], &byte, 1, 0);
    case 3: return recvmsg(pair[0], &message, 0);
    case 4: return accept(listener, NULL, NULL);
    case 5: return poll(&entry, 1, -1);
    case 6: return poll(&socket_entry, 1, -1);
    case 7: return select(quiet[0] + 1, &readable, NULL, NULL, NULL);
    case 8: return epoll_wait(set, &event, 1, -1);
    case 9: return sem_wait(&never);
    case 10: return sem_timedwait(&never, &late);
    case 11: return nanosleep(&rest, NULL);
    case 12: return sleep(1000000);
    case 13: return pause();
    case 14: return waitpid(child, &number, 0);
    case 15: return fcntl(locked, F_SETLKW, &lock);
    case 16: return read(counter, &value, sizeof value);
    case 17: return read(timer, &value, sizeof value);
    case 18: return sigwait(&signals, &number);
    case 19: return pthread_join(sleeper, NULL);
    case 20: return pthread_cond_wait(&condition, &mutex);
    default: return pthread_cond_timedwait(&condition, &mutex, &late);
    }
}
enum { CALLS = 18, WAYS = 22, SIGWAIT = 18, JOIN = 19, CONDITIONS = 20 };

static int order[8], orders;

static void note(void *number) {
    order[orders++ % 8] = (int)(long)number;
}

static void unlock(void *unused) {
    (void)unused;
    /* The wait has taken it again. */
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY && pthread_mutex_unlock(&mutex) == 0);
}

static void *wait_cancelled(void *way) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
    pthread_cleanup_push(note, (void *)1L);
    pthread_cleanup_push(note, (void *)2L);
    if ((long)way >= CONDITIONS) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        pthread_cleanup_push(unlock, NULL);
        sem_post(&begun);
        for (;;)
            wait_by((int)(long)way);
        pthread_cleanup_pop(0);
    }
    sem_post(&begun);
    for (;;)
        wait_by((int)(long)way);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *result_of(pthread_t thread) {
    void *result = NULL;
    CHECK(pthread_join(thread, &result) == 0);
    return result;
}

static pthread_t begin(void *(*function)(void *), long argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, (void *)argument) == 0);
    CHECK(sem_wait(&begun) == 0);
    return thread;
}

/* The thread is cancelled in each wait, or just before it; another one holds the lock of the file. */
static void cancelled_waits(void) {
    CHECK(pthread_create(&sleeper, NULL, sleep_on, NULL) == 0);
    for (int round = 0; round < 3; round++) {
        for (long way = 0; way < WAYS; way++) {
            orders = 0;
            pthread_t thread = begin(wait_cancelled, way);
            for (int turn = 0; turn < 100 * round; turn++)
                sched_yield();
            CHECK(pthread_cancel(thread) == 0 && result_of(thread) == PTHREAD_CANCELED);
            CHECK(orders == 2 && order[0] == 2 && order[1] == 1);
        }
    }
    CHECK(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    /* The thread that was joined in vain can still be joined. */
    CHECK(pthread_cancel(sleeper) == 0 && result_of(sleeper) == PTHREAD_CANCELED);
}

/* Calls that do not wait. */
static int pass_by(int way) {
    char byte = 'x';
    switch (way) {
    case 0: return write(quiet[1], &byte, 0);
    case 1: return close(-1);
    case 2: return open("/nowhere/at/all", O_RDONLY);
    case 3: return fsync(locked);
    case 4: return send(pair[0], &byte, 0, 0);
    default: pthread_testcancel(); return 0;
    }
}
enum { PASSES = 6 };

static void *pass_cancelled(void *way) {
    int old;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0);
    CHECK(old == PTHREAD_CANCEL_ENABLE);
    sem_post(&begun);
    /* Cancelled here, by the semaphore's next post; nothing happens. */
    CHECK(sem_wait(&never) == 0);
    pthread_testcancel();
    pass_by((int)(long)way);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0);
    CHECK(old == PTHREAD_CANCEL_DISABLE);
    orders++;
    pass_by((int)(long)way);
    return NULL;
}

static void *cancel_at_any_time(void *unused) {
    int old;
    (void)unused;
    CHECK(pthread_setcanceltype(2, NULL) == EINVAL && pthread_setcancelstate(2, NULL) == EINVAL);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old) == 0);
    CHECK(old == PTHREAD_CANCEL_DEFERRED);
    sem_post(&begun);
    CHECK(sem_wait(&never) == 0);
    orders++;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    return NULL;
}

static void *cancel_itself(void *unused) {
    (void)unused;
    sem_post(&begun);
    CHECK(pthread_cancel(pthread_self()) == 0);
    orders++;
    pthread_testcancel();
    return NULL;
}

static void wait_in_handler(void *unused) {
    char byte;
    (void)unused;
    /* A handler is not cancelled: these are cancellation points. */
    pthread_testcancel();
    CHECK(write(pair[1], "w", 1) == 1 && read(pair[0], &byte, 1) == 1 && byte == 'w');
    orders++;
}

static void *exit_cancelled(void *unused) {
    (void)unused;
    pthread_cleanup_push(wait_in_handler, NULL);
    sem_post(&begun);
    sem_wait(&never);
    pthread_cleanup_pop(0);
    return NULL;
}

static void settings(void) {
    for (long way = 0; way < PASSES; way++) {
        orders = 0;
        pthread_t thread = begin(pass_cancelled, way);
        CHECK(pthread_cancel(thread) == 0 && sem_post(&never) == 0);
        CHECK(result_of(thread) == PTHREAD_CANCELED && orders == 1);
    }
    orders = 0;
    pthread_t thread = begin(cancel_at_any_time, 0);
    CHECK(pthread_cancel(thread) == 0 && sem_post(&never) == 0);
    CHECK(result_of(thread) == PTHREAD_CANCELED && orders == 1);
    orders = 0;
    CHECK(result_of(begin(cancel_itself, 0)) == PTHREAD_CANCELED && orders == 1);
    orders = 0;
    thread = begin(exit_cancelled, 0);
    CHECK(pthread_cancel(thread) == 0 && pthread_cancel(thread) == 0);
    CHECK(result_of(thread) == PTHREAD_CANCELED && orders == 1);
}

/* Bytes that were there are not lost to a thread that is cancelled meanwhile. */
static void *read_all(void *unused) {
    (void)unused;
    static char bytes[16];
    sem_post(&begun);
    for (;;) {
        long count = read(quiet[0], bytes, sizeof bytes);
        CHECK(count > 0);
        for (long place = 0; place < count; place++)
            orders += bytes[place];
        if (count == 0)
            return NULL;
    }
}

static void bytes_stay(void) {
    char byte = 0;
    for (int round = 0; round < 50; round++) {
        orders = 0;
        pthread_t thread = begin(read_all, 0);
        CHECK(write(quiet[1], "\1", 1) == 1 && pthread_cancel(thread) == 0);
        CHECK(result_of(thread) == PTHREAD_CANCELED);
        if (orders == 0)
            CHECK(read(quiet[0], &byte, 1) == 1 && byte == 1);
        else
            CHECK(orders == 1);
    }
}

/* Signals to one thread. */
static volatile sig_atomic_t calls;
static pthread_t handled_by;

static void count_call(int number) {
    (void)number;
    handled_by = pthread_self();
    calls++;
}

static void handle(int number, int flags) {
    struct sigaction action = {.sa_handler = count_call, .sa_flags = flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static volatile int stop;

/* Waits until a handler has ended the wait; the signal may come before the first one. */
static void *wait_for_handler(void *way) {
    sem_post(&begun);
    do {
        errno = 0;
        int result = wait_by((int)(long)way);
        if ((long)way != 12)
            CHECK(result == -1 && errno == EINTR);
        stop = 1;
    } while (calls == 0);
    return (void *)1L;
}

static void interrupted_waits(void) {
    handle(SIGUSR1, 0);
    for (long way = 0; way < CALLS; way++) {
        calls = stop = 0;
        pthread_t thread = begin(wait_for_handler, way);
        /* A signal before the wait does not end it: another one follows. */
        while (!stop) {
            int sent = pthread_kill(thread, SIGUSR1);
            CHECK(sent == 0 || sent == ESRCH);
            sched_yield();
        }
        CHECK(result_of(thread) == (void *)1L && calls > 0 && pthread_equal(handled_by, thread));
    }
}

/* Handlers for signals that were sent to one thread end no call of another one. */
static void *raise_all_along(void *unused) {
    (void)unused;
    CHECK(sem_post(&begun) == 0);
    while (!stop) {
        CHECK(raise(SIGUSR1) == 0);
        sched_yield();
    }
    return NULL;
}

static volatile int is_suspended;

static void *suspend(void *unused) {
    sigset_t nothing;
    (void)unused;
    CHECK(sigemptyset(&nothing) == 0 && sem_post(&begun) == 0);
    is_suspended = 1;
    CHECK(sigsuspend(&nothing) == -1 && errno == EINTR);
    is_suspended = 0;
    return NULL;
}

static void calls_of_others(void) {
    struct timespec moment = {.tv_nsec = 200000000};
    handle(SIGUSR1, 0);
    handle(SIGUSR2, 0);
    calls = stop = 0;
    pthread_t suspended = begin(suspend, 0);
    pthread_t thread = begin(raise_all_along, 0);
    while (calls == 0 || !is_suspended)
        sched_yield();
    CHECK(nanosleep(&moment, NULL) == 0 && poll(NULL, 0, 100) == 0);
    CHECK(is_suspended);
    stop = 1;
    CHECK(result_of(thread) == NULL);
    CHECK(pthread_kill(suspended, SIGUSR2) == 0 && result_of(suspended) == NULL);
}

/* With SA_RESTART these calls go on. */
static void *read_on(void *way) {
    char byte = 0;
    sem_post(&begun);
    switch ((long)way) {
    case 0: CHECK(read(quiet[0], &byte, 1) == 1); break;
    case 1: CHECK(recv(pair[0], &byte, 1, 0) == 1); break;
    default: CHECK(sem_wait(&never) == 0); byte = 'x';
    }
    return (void *)(long)byte;
}

static void restarted_waits(void) {
    handle(SIGUSR1, SA_RESTART);
    for (long way = 0; way < 3; way++) {
        pthread_t thread = begin(read_on, way);
        for (int round = 0; round < 5; round++) {
            calls = 0;
            CHECK(pthread_kill(thread, SIGUSR1) == 0);
            while (calls == 0)
                sched_yield();
        }
        CHECK(way == 0 ? write(quiet[1], "x", 1) == 1
                       : way == 1 ? write(pair[1], "x", 1) == 1 : sem_post(&never) == 0);
        CHECK(result_of(thread) == (void *)(long)'x');
    }
}

static void *wait_for_signal(void *unused) {
    sigset_t signals, pending;
    int number = 0;
    (void)unused;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
    sem_post(&begun);
    CHECK(sem_wait(&never) == 0 && calls == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
    CHECK(sigwait(&signals, &number) == 0 && number == SIGUSR1 && calls == 0);
    sem_post(&begun);
    CHECK(sigwait(&signals, &number) == 0 && number == SIGUSR1 && calls == 0);
    sem_post(&begun);
    CHECK(sem_wait(&never) == 0 && calls == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &signals, NULL) == 0 && calls == 1);
    return NULL;
}

static void blocked_signals(void) {
    calls = 0;
    handle(SIGUSR1, 0);
    pthread_t thread = begin(wait_for_signal, 0);
    CHECK(pthread_kill(thread, SIGUSR1) == 0 && sem_post(&never) == 0 && sem_wait(&begun) == 0);
    CHECK(pthread_kill(thread, SIGUSR1) == 0 && sem_wait(&begun) == 0);
    CHECK(pthread_kill(thread, SIGUSR1) == 0 && pthread_kill(thread, 0) == 0);
    CHECK(pthread_kill(thread, 65) == EINVAL && pthread_kill(thread, -1) == EINVAL);
    CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR && pthread_kill(thread, SIGUSR2) == 0);
    CHECK(signal(SIGUSR2, SIG_DFL) == SIG_IGN && sem_post(&never) == 0);
    CHECK(result_of(thread) == NULL && pthread_equal(handled_by, thread));
}

/* A handler for a signal from another process ends the waits of the first thread. */
static void say(int pipe_end, char word) {
    if (write(pipe_end, &word, 1) != 1)
        _exit(90);
}

/* A child that does nothing. */
static pid_t begin_idle(void) {
    pid_t process = fork();
    if (process == 0)
        for (;;)
            pause();
    CHECK(process > 0);
    return process;
}

static void end_idle(pid_t process) {
    int ended = 0;
    CHECK(kill(process, SIGKILL) == 0 && waitpid(process, &ended, 0) == process);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
}

static void first_waits(int pipe_end) {
    /* The parent's sockets are the parent's. */
    open_everything();
    child = begin_idle();
    handle(SIGUSR1, 0);
    for (int way = 0; way < CALLS; way++) {
        say(pipe_end, 'r');
        calls = 0;
        errno = 0;
        int result = wait_by(way);
        say(pipe_end, calls > 0 && (way == 12 || (result == -1 && errno == EINTR))
                          ? (char)('a' + way) : '-');
    }
    end_idle(child);
}

static void first_thread(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t process = fork();
    if (process == 0) {
        failures = 0;
        first_waits(ends[1]);
        _exit(failures);
    }
    char word = 0;
    struct pollfd entry = {.fd = ends[0], .events = POLLIN};
    for (int way = 0; way < CALLS; way++) {
        CHECK(read(ends[0], &word, 1) == 1 && word == 'r');
        /* A signal that comes before the wait does not end it: another one follows. */
        do {
            CHECK(kill(process, SIGUSR1) == 0);
        } while (poll(&entry, 1, 20) == 0);
        CHECK(read(ends[0], &word, 1) == 1 && word == 'a' + way);
    }
    int ended = -1;
    CHECK(waitpid(process, &ended, 0) == process && ended == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* The first thread can be cancelled; the process goes on with the others. */
static void *leave_later(void *unused) {
    (void)unused;
    CHECK(sem_wait(&never) == 0);
    exit(failures == 0 ? 5 : 6);
}

static void post_never(void *unused) {
    (void)unused;
    sem_post(&never);
}

static void first_cancelled(void) {
    pid_t process = fork();
    if (process == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, leave_later, NULL) == 0);
        pthread_cleanup_push(post_never, NULL);
        CHECK(pthread_cancel(pthread_self()) == 0);
        pause();
        pthread_cleanup_pop(0);
        _exit(7);
    }
    int ended = -1;
    CHECK(waitpid(process, &ended, 0) == process && WIFEXITED(ended) && WEXITSTATUS(ended) == 5);
}

/* A program that has cancelled threads can still become another one. */
static void become_another(const char *path) {
    pid_t process = fork();
    if (process == 0) {
        pthread_t thread = begin(wait_cancelled, 0);
        CHECK(pthread_cancel(thread) == 0 && result_of(thread) == PTHREAD_CANCELED);
        execl(path, path, "exec", NULL);
        _exit(8);
    }
    int ended = -1;
    CHECK(waitpid(process, &ended, 0) == process && WIFEXITED(ended) && WEXITSTATUS(ended) == 9);
}

/* A process that has locked the file. */
static pid_t holder;

static void hold_lock(void) {
    char byte = 0;
    holder = fork();
    if (holder == 0) {
        struct flock lock = {.l_type = F_WRLCK};
        /* A file of its own, whose locks end with it. */
        int own = open("/tmp/library-cancel", O_RDWR);
        say(quiet[1], fcntl(own, F_SETLK, &lock) == 0 ? 'l' : '-');
        for (;;)
            pause();
    }
    CHECK(holder > 0 && read(quiet[0], &byte, 1) == 1 && byte == 'l');
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int initialised;

static void wait_for_ever(void) {
    CHECK(sem_post(&begun) == 0);
    sem_wait(&never);
}

static void initialise(void) {
    initialised++;
}

static void *wait_once(void *unused) {
    (void)unused;
    pthread_once(&once, wait_for_ever);
    return NULL;
}

static void *initialise_once(void *unused) {
    (void)unused;
    CHECK(pthread_once(&once, initialise) == 0);
    return NULL;
}

/* A function of pthread_once that is cancelled counts as never called. */
static void cancelled_once(void) {
    pthread_t thread, next;
    void *result;
    CHECK(pthread_create(&thread, NULL, wait_once, NULL) == 0 && sem_wait(&begun) == 0);
    CHECK(pthread_create(&next, NULL, initialise_once, NULL) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(pthread_join(next, NULL) == 0 && initialised == 1);
    CHECK(pthread_once(&once, initialise) == 0 && initialised == 1);
}

int main(int count, char **arguments) {
    if (count > 1)
        return 9;
    open_everything();
    hold_lock();
    child = begin_idle();
    cancelled_waits();
    cancelled_once();
    settings();
    bytes_stay();
    interrupted_waits();
    calls_of_others();
    restarted_waits();
    blocked_signals();
    first_thread();
    first_cancelled();
    become_another(arguments[0]);
    end_idle(child);
    end_idle(holder);
    return finish("library-cancel");
}
