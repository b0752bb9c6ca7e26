/*
 * Round trips of 64 bytes between two C programs, polling. Without arguments it serves, one client
 * after the other, until one says stop.
 *
 *   message-times &                          on node 1
 *   message-times 1 repetitions [stop]       on node 0
 *
 * It prints a line of JSON, as scif-perf does: nanoseconds of a round trip, and the median of each
 * repetition.
 */
#include "times.h"
#include <scif.h>
#include <string.h>
#include <unistd.h>

#define PORT 1300
#define BYTES 64
/* Round trips of a repetition, and some before it that do not count. */
#define ROUNDS 2000
#define WARM_UP 200
/* Times a client tries to connect, 20 ms apart: the server's node may have to boot. */
#define TRIES 1000
/* Looks before the peer counts as lost: some seconds. */
#define LOOKS 2000000000u

/* This and the next function are parts of their callers, as in the Rust program that is compared:
 * under the emulator a call and its return take a tenth of a round trip. */
__attribute__((always_inline))
static inline void send_all(scif_epd_t epd, const char *bytes) {
    int sent = 0;
    for (unsigned look = 0; sent < BYTES; look++) {
        int count = scif_send(epd, (void *)(bytes + sent), BYTES - sent, 0);
        if (count < 0 || look == LOOKS)
            fail("scif_send");
        sent += count;
    }
}

__attribute__((always_inline))
static inline void receive_all(scif_epd_t epd, char *bytes) {
    int got = 0;
    for (unsigned look = 0; got < BYTES; look++) {
        int count = scif_recv(epd, bytes + got, BYTES - got, 0);
        if (count < 0 || look == LOOKS)
            fail("scif_recv");
        got += count;
    }
}

/* Sends back the messages that a client says it has; false when it was the last client. */
static int attend(scif_epd_t epd) {
    uint64_t order[2];
    char message[BYTES];
    while (scif_recv(epd, order, sizeof order, SCIF_RECV_BLOCK) == sizeof order) {
        for (uint64_t round = 0; round < order[0]; round++) {
            receive_all(epd, message);
            send_all(epd, message);
        }
        if (order[1])
            return 0;
    }
    return 1;
}

static void serve(void) {
    scif_epd_t listener = scif_open();
    if (listener < 0 || scif_bind(listener, PORT) < 0 || scif_listen(listener, 4) < 0)
        fail("listening");
    for (int goes_on = 1; goes_on;) {
        struct scif_port_id peer;
        scif_epd_t epd;
        if (scif_accept(listener, &peer, &epd, SCIF_ACCEPT_SYNC) < 0)
            fail("scif_accept");
        goes_on = attend(epd);
        scif_close(epd);
    }
    scif_close(listener);
}

static scif_epd_t call(uint16_t node) {
    struct scif_port_id to = { node, PORT };
    for (int attempt = 0; attempt < TRIES; attempt++) {
        scif_epd_t epd = scif_open();
        if (epd < 0)
            fail("scif_open");
        if (scif_connect(epd, &to) >= 0)
            return epd;
        scif_close(epd);
        usleep(20000);
    }
    fail("scif_connect");
    return -1;
}

static void play(scif_epd_t epd, uint64_t rounds, double tick, double *times) {
    uint64_t order[2] = { rounds, 0 };
    char message[BYTES], back[BYTES];
    memset(message, 0x5a, sizeof message);
    if (scif_send(epd, order, sizeof order, SCIF_SEND_BLOCK) != sizeof order)
        fail("scif_send");
    uint64_t last = __builtin_ia32_rdtsc();
    for (uint64_t round = 0; round < rounds; round++) {
        send_all(epd, message);
        receive_all(epd, back);
        uint64_t time = __builtin_ia32_rdtsc();
        times[round] = (double)(time - last) * tick;
        last = time;
    }
    if (memcmp(back, message, sizeof message) != 0) {
        fprintf(stderr, "wrong bytes came back\n");
        exit(1);
    }
}

int main(int count, char **words) {
    static double times[MOST_REPETITIONS * ROUNDS];
    double medians[MOST_REPETITIONS];
    if (count < 3) {
        serve();
        return 0;
    }
    int repetitions = repetitions_of(words[2]);
    double per_tick = tick();
    scif_epd_t epd = call((uint16_t)atoi(words[1]));
    play(epd, WARM_UP, per_tick, times);
    for (int repetition = 0; repetition < repetitions; repetition++) {
        double *own = times + repetition * ROUNDS;
        play(epd, ROUNDS, per_tick, own);
        qsort(own, ROUNDS, sizeof *own, by_size);
        medians[repetition] = percentile(own, ROUNDS, 50);
    }
    uint64_t order[2] = { 0, count > 3 && !strcmp(words[3], "stop") };
    if (scif_send(epd, order, sizeof order, SCIF_SEND_BLOCK) != sizeof order)
        fail("scif_send");
    scif_close(epd);
    report("c_rtt", BYTES, times, medians, repetitions, ROUNDS);
    return 0;
}
