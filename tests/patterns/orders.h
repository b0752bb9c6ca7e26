/*
 * Orders: what the calling side of a pattern asks of a serving side that knows nothing of the
 * caller's memory but offsets of windows.
 */
#ifndef ORDERS_H
#define ORDERS_H

#include "pattern.h"

#define ALL (SCIF_PROT_READ | SCIF_PROT_WRITE)

/* Byte `i` of a buffer that was filled with `seed`. */
static inline unsigned char byte_at(size_t i, unsigned seed) {
    return (unsigned char)(i * 31 + (i >> 8) * 7 + seed);
}

static inline void fill_part(unsigned char *place, size_t first, size_t length, unsigned seed) {
    for (size_t i = 0; i < length; i++)
        place[i] = byte_at(first + i, seed);
}

static inline size_t mismatch_part(const unsigned char *place, size_t first, size_t length,
                                   unsigned seed) {
    for (size_t i = 0; i < length; i++)
        if (place[i] != byte_at(first + i, seed))
            return i;
    return length;
}

/*
 * What a serving side is asked for: work on the `length` bytes of the window at `offset`. They are
 * bytes `first` and following of a buffer that was filled with `seed`.
 */
struct order {
    char what; /* 'r' compare, 'w' write, 'e' a write that must fail with EACCES, 'm' map, compare and
                  store what was filled with the next seed, 'q' quit */
    char pad[3];
    uint32_t seed;
    int64_t offset;
    uint64_t first, length;
};

/* Maps a window, compares what is there and stores something else. */
static inline size_t map_and_store(scif_epd_t epd, const struct order *order) {
    unsigned char *place = scif_mmap(NULL, order->length, ALL, 0, epd, order->offset);
    CHECK(place != SCIF_MMAP_FAILED);
    size_t right = mismatch_part(place, order->first, order->length, order->seed);
    fill_part(place, order->first, order->length, order->seed + 1);
    GIVES(scif_munmap(place, order->length), 0);
    return right;
}

/* Obeys one connection's orders until the last; answers each with how many bytes were right. */
static inline void obey(scif_epd_t epd) {
    for (;;) {
        struct order order;
        recv_all(epd, &order, sizeof order);
        if (order.what == 'q')
            break;
        if (order.what == 'm') {
            tell_number(epd, (int64_t)map_and_store(epd, &order));
            continue;
        }
        unsigned char *copy = malloc(order.length);
        CHECK(copy != NULL);
        size_t right = order.length;
        if (order.what == 'r') {
            GIVES(scif_vreadfrom(epd, copy, order.length, order.offset, SCIF_RMA_SYNC), 0);
            right = mismatch_part(copy, order.first, order.length, order.seed);
        } else {
            fill_part(copy, order.first, order.length, order.seed);
            int result = scif_vwriteto(epd, copy, order.length, order.offset, SCIF_RMA_SYNC);
            if (order.what == 'e')
                CHECK(result == -1 && errno == EACCES);
            else
                GIVES(result, 0);
        }
        free(copy);
        tell_number(epd, (int64_t)right);
    }
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

static inline void give_order(scif_epd_t epd, char what, off_t offset, size_t first, size_t length,
                              unsigned seed) {
    struct order order = { what, { 0 }, seed, offset, first, length };
    send_all(epd, &order, sizeof order);
    if (what == 'q')
        return;
    size_t right = (size_t)told_number(epd);
    if (right != length)
        failed(__FILE__, __LINE__, "the peer found %zu of %zu bytes right, order %c at %ld", right,
               length, what, (long)offset);
}

#endif
