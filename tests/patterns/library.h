/*
 * What the programs that test the C library share. A check that fails is printed, and the program
 * goes on; its status is the number of such checks, at most 100.
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int failures;
static int checks;

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        int held_ = (condition) ? 1 : 0;                                                  \
        __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);                                 \
        if (!held_) {                                                                     \
            __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                           \
            printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);      \
        }                                                                                 \
    } while (0)

/* A call that fails with this error. */
#define FAILS(call, error)               \
    do {                                 \
        errno = 0;                       \
        CHECK((long)(call) == -1);       \
        CHECK(errno == (error));         \
    } while (0)

/* A call that gives this number. */
#define GIVES(call, number) CHECK((long)(call) == (long)(number))

__attribute__((unused)) static int finish(const char *what) {
    printf("%s: %d checks, %d failed\n", what, checks, failures);
    return failures < 100 ? failures : 100;
}

#endif
