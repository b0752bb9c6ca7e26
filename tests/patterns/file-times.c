/*
 * A stream of bytes between two C programs, by `write` and `read` of 64 KiB. Without arguments it
 * serves, one client after the other, until one says stop.
 *
 *   file-times &                             on node 1
 *   file-times 1 repetitions [stop]          on node 0
 *
 * It prints a line of JSON, as scif-perf does: bytes in a second, and those of each repetition.
 */
#include "times.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PORT 1302
#define BYTES (64 << 10)
/* Writes of a repetition, and of one before the first that does not count. */
#define WRITES 512
/* Times a client tries to connect, 20 ms apart: the server's node may have to boot. */
#define TRIES 1000
/* The first byte of a stream that ends the server, and of others. */
#define STOP 's'
#define GO_ON 'g'

/* From the heap, as programs have their data: static memory is slower in the emulator. */
static char *bytes;

/* Reads a repetition, and tells the client that all of it is here; false at the end. */
static int take(int fd, int *goes_on) {
    size_t wanted = (size_t)WRITES * BYTES;
    for (size_t got = 0; got < wanted;) {
        ssize_t count = read(fd, bytes, wanted - got < BYTES ? wanted - got : BYTES);
        if (count < 0 && errno == ECONNRESET && got == 0)
            return 0;
        if (count <= 0)
            fail("read");
        if (got == 0)
            *goes_on = bytes[0] != STOP;
        got += (size_t)count;
    }
    if (write(fd, bytes, 1) != 1)
        fail("write");
    return 1;
}

static void serve(void) {
    char path[40];
    snprintf(path, sizeof path, "/scheme/scif/accept/%d", PORT);
    for (int goes_on = 1; goes_on;) {
        int fd = open(path, O_RDWR);
        if (fd < 0)
            fail(path);
        while (take(fd, &goes_on))
            ;
        close(fd);
    }
}

static int call(int node) {
    char path[40];
    snprintf(path, sizeof path, "/scheme/scif/%d/%d", node, PORT);
    for (int attempt = 0; attempt < TRIES; attempt++) {
        int fd = open(path, O_RDWR);
        if (fd >= 0)
            return fd;
        usleep(20000);
    }
    fail(path);
    return -1;
}

/* Writes a repetition; returns the bytes of a second. */
static double play(int fd) {
    char answer;
    double start = now();
    for (int i = 0; i < WRITES; i++)
        if (write(fd, bytes, BYTES) != BYTES)
            fail("write");
    if (read(fd, &answer, 1) != 1)
        fail("read");
    return (double)WRITES * BYTES * 1e9 / (now() - start);
}

int main(int count, char **words) {
    double rates[MOST_REPETITIONS], sorted[MOST_REPETITIONS];
    bytes = malloc(BYTES);
    if (bytes == NULL)
        fail("malloc");
    if (count < 3) {
        serve();
        return 0;
    }
    int repetitions = repetitions_of(words[2]);
    int fd = call(atoi(words[1]));
    memset(bytes, count > 3 && !strcmp(words[3], "stop") ? STOP : GO_ON, BYTES);
    play(fd);
    for (int repetition = 0; repetition < repetitions; repetition++)
        rates[repetition] = play(fd);
    close(fd);
    memcpy(sorted, rates, sizeof sorted);
    qsort(sorted, (size_t)repetitions, sizeof *sorted, by_size);
    printf("{\"test\":\"c_file_stream\",\"size\":%d,\"unit\":\"bytes_per_s\",\"n\":%d,\"min\":%.1f,"
           "\"p50\":%.1f,\"max\":%.1f,\"repetitions\":[",
           BYTES, repetitions, sorted[0], percentile(sorted, repetitions, 50),
           sorted[repetitions - 1]);
    for (int repetition = 0; repetition < repetitions; repetition++)
        printf("%s%.1f", repetition ? "," : "", rates[repetition]);
    printf("]}\n");
    return 0;
}
