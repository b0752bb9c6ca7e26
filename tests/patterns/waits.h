/*
 * Calls that wait for ever, and end all the same: with their thread when it is cancelled, and with
 * EINTR when a signal's handler has run. For programs with a macro CHECK.
 */
#ifndef WAITS_H
#define WAITS_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

/* A thread in such a call. */
struct waiter {
    int (*wait_by)(int way);
    int way;
    volatile int is_begun, is_ended;
};

static void ignore_signal(int number) { (void)number; }

static void note_end(void *waiter) { ((struct waiter *)waiter)->is_ended = 1; }

static void *wait_until_ended(void *argument) {
    struct waiter *waiter = argument;
    intptr_t error;
    pthread_cleanup_push(note_end, waiter);
    waiter->is_begun = 1;
    errno = 0;
    error = waiter->wait_by(waiter->way) == -1 ? errno : 0;
    pthread_cleanup_pop(1);
    return (void *)error;
}

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Makes the call in a thread, and cancels that, or sends it signals until one comes in the wait;
 * its result. A thread that does not end is left alone. */
static void *result_of_wait(int (*wait_by)(int), int way, int cancels) {
    static struct waiter waiters[64];
    static int count;
    struct waiter *waiter = &waiters[count++ % 64];
    void *result = NULL;
    pthread_t thread;
    *waiter = (struct waiter){ .wait_by = wait_by, .way = way };
    CHECK(pthread_create(&thread, NULL, wait_until_ended, waiter) == 0);
    while (!waiter->is_begun)
        usleep(1000);
    usleep(10000);
    if (cancels)
        CHECK(pthread_cancel(thread) == 0);
    for (long start = milliseconds(); !waiter->is_ended && milliseconds() < start + 60000;) {
        int sent = cancels ? 0 : pthread_kill(thread, SIGUSR1);
        /* It may just have ended. */
        CHECK(sent == 0 || sent == ESRCH);
        /* The handler ends the pauses of the first thread as well. */
        struct timespec pause = { 0, 10000000 };
        while (nanosleep(&pause, &pause) != 0)
            ;
    }
    CHECK(waiter->is_ended);
    if (waiter->is_ended)
        CHECK(pthread_join(thread, &result) == 0);
    return result;
}

/* All of these calls end so. */
__attribute__((unused)) static void end_waits(int (*wait_by)(int), int ways) {
    struct sigaction action = { .sa_handler = ignore_signal };
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int way = 0; way < ways; way++) {
        CHECK(result_of_wait(wait_by, way, 1) == PTHREAD_CANCELED);
        CHECK(result_of_wait(wait_by, way, 0) == (void *)EINTR);
    }
}

#endif
