/* What the C programs of the benchmarks share: times of single round trips, and their report. */
#ifndef TIMES_H
#define TIMES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time) < 0)
        fail("clock_gettime");
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Nanoseconds of a tick of the processor's counter. */
__attribute__((unused))
static double tick(void) {
    double start = now();
    uint64_t first = __builtin_ia32_rdtsc();
    while (now() < start + 20e6)
        ;
    double end = now();
    return (end - start) / (double)(__builtin_ia32_rdtsc() - first);
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(const double *sorted, int count, int percent) {
    int rank = (count * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

#define MOST_REPETITIONS 100

/* The number of repetitions that a word says. */
static int repetitions_of(const char *word) {
    int repetitions = atoi(word);
    if (repetitions < 1 || repetitions > MOST_REPETITIONS) {
        fprintf(stderr, "%s repetitions: 1 to %d are possible\n", word, MOST_REPETITIONS);
        exit(2);
    }
    return repetitions;
}

/*
 * Prints a line of JSON, as scif-perf does: nanoseconds of a round trip, and the median of each
 * repetition, which are of `rounds` round trips each. Sorts the times.
 */
__attribute__((unused))
static void report(const char *test, int bytes, double *times, const double *medians,
                   int repetitions, int rounds) {
    int all = repetitions * rounds;
    qsort(times, (size_t)all, sizeof *times, by_size);
    printf("{\"test\":\"%s\",\"size\":%d,\"unit\":\"ns\",\"n\":%d,\"min\":%.1f,\"p50\":%.1f,"
           "\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f,\"repetitions\":[",
           test, bytes, all, times[0], percentile(times, all, 50), percentile(times, all, 90),
           percentile(times, all, 99), times[all - 1]);
    for (int repetition = 0; repetition < repetitions; repetition++)
        printf("%s%.1f", repetition ? "," : "", medians[repetition]);
    printf("]}\n");
}

#endif
