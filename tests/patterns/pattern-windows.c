/* Registered memory: patterns 25 to 31. */
#include "pattern.h"

#include <sys/mman.h>

#define ALL (SCIF_PROT_READ | SCIF_PROT_WRITE)

/* Pages for windows; they stay until the program ends, as clients keep their buffers. */
static void *pages(size_t count) {
    void *memory = NULL;
    GIVES(posix_memalign(&memory, PAGE, count * PAGE), 0);
    memset(memory, 0, count * PAGE);
    return memory;
}

/* What windows and mappings leave behind when nothing should be left. */
struct left {
    long windows, mapped, pinned;
};

static struct left left_now(void) {
    struct left left = {
        stat_number("windows"), stat_number("mapped_pages"), stat_number("pinned_pages")
    };
    CHECK(left.windows >= 0 && left.mapped >= 0 && left.pinned >= 0);
    return left;
}

/* Waits until no more is left than there was: what the peer still has to answer takes a moment. */
static void nothing_left(struct left before) {
    for (int tries = 0;; tries++) {
        struct left now = left_now();
        if (now.windows <= before.windows && now.mapped <= before.mapped &&
            now.pinned <= before.pinned)
            return;
        if (tries >= TIMEOUT_MS / 20)
            failed(__FILE__, __LINE__, "left: %ld windows, %ld mapped pages, %ld pinned",
                   now.windows - before.windows, now.mapped - before.mapped,
                   now.pinned - before.pinned);
        usleep(20000);
    }
}

/* 25: register, tell the offset by a message, and the peer transfers at once. */
static void serve_register(void) {
    scif_epd_t epd = serve_one(2025);
    for (unsigned round = 0; round < 4; round++) {
        off_t offset = told_number(epd);
        size_t length = (size_t)told_number(epd);
        char *copy = malloc(length);
        CHECK(copy != NULL);
        GIVES(scif_vreadfrom(epd, copy, length, offset, SCIF_RMA_SYNC), 0);
        CHECK(mismatch(copy, length, round) == length);
        fill(copy, length, round + 100);
        GIVES(scif_vwriteto(epd, copy, length, offset, SCIF_RMA_SYNC), 0);
        tell(epd, 'w');
        free(copy);
    }
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

static void call_register(uint16_t node) {
    scif_epd_t epd = call_one(node, 2025);
    size_t length = 3 * PAGE;
    void *memory[4];
    off_t offsets[4];
    for (unsigned round = 0; round < 4; round++) {
        memory[round] = pages(3);
        fill(memory[round], length, round);
        off_t wanted = 0;
        int flags = 0;
        if (round == 0) {
            flags = SCIF_MAP_FIXED;
        } else if (round == 1) {
            /* As programs that use addresses as offsets do. */
            wanted = (off_t)(uintptr_t)memory[round];
            flags = SCIF_MAP_FIXED;
        }
        offsets[round] = scif_register(epd, memory[round], length, wanted, ALL, flags);
        CHECK(offsets[round] != SCIF_REGISTER_FAILED);
        CHECK(offsets[round] >= 0 && offsets[round] % PAGE == 0);
        if (flags)
            GIVES(offsets[round], wanted);
        for (unsigned i = 0; i < round; i++)
            CHECK(offsets[i] + (off_t)length <= offsets[round] ||
                  offsets[round] + (off_t)length <= offsets[i]);
        /* The address and what is there stay. */
        CHECK(mismatch(memory[round], length, round) == length);
        tell_number(epd, offsets[round]);
        tell_number(epd, (int64_t)length);
        expect(epd, 'w');
        CHECK(mismatch(memory[round], length, round + 100) == length);
    }
    void *other;
    GIVES(posix_memalign(&other, PAGE, PAGE), 0);
    FAILS(scif_register(epd, other, PAGE, offsets[0], ALL, SCIF_MAP_FIXED), EADDRINUSE);
    FAILS(scif_register(epd, other, 100, 0, ALL, 0), EINVAL);
    FAILS(scif_register(epd, (char *)other + 8, PAGE, 0, ALL, 0), EINVAL);
    FAILS(scif_register(epd, other, PAGE, 8, ALL, SCIF_MAP_FIXED), EINVAL);
    FAILS(scif_register(epd, other, PAGE, -PAGE, ALL, SCIF_MAP_FIXED), EINVAL);
    FAILS(scif_register(epd, other, PAGE, 0, ALL, SCIF_MAP_KERNEL), EINVAL);
    FAILS(scif_register(epd, (void *)(1UL << 46), PAGE, 0, ALL, 0), EFAULT);
    for (int round = 0; round < 4; round++) {
        GIVES(scif_unregister(epd, offsets[round], length), 0);
        free(memory[round]);
    }
    FAILS(scif_unregister(epd, offsets[0], length), ENXIO);
    free(other);
    GIVES(scif_close(epd), 0);
}

/* 26: the matrix of transfers, with guard bytes around each destination. */
enum { LARGE = 3 << 20, SPACE = LARGE + 4 * PAGE };

static const size_t lengths[] = {
    1, 63, 64, 65, PAGE - 1, PAGE, PAGE + 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, LARGE + 17
};
static const size_t alignments[][2] = { { 0, 0 }, { 1, 1 }, { 63, 63 }, { 1, 65 }, { 0, 7 }, { 63, 2 } };
static const int transfer_flags[] = {
    0, SCIF_RMA_SYNC, SCIF_RMA_ORDERED | SCIF_RMA_SYNC, SCIF_RMA_USECPU,
    SCIF_RMA_USECACHE, SCIF_RMA_USECACHE | SCIF_RMA_SYNC
};
#define COUNT(array) (sizeof array / sizeof *array)

/* The server only lends its window; it sees what was written at the end. */
static void serve_matrix(void) {
    scif_epd_t epd = serve_one(2026);
    char *memory = pages(SPACE / PAGE);
    off_t offset = scif_register(epd, memory, SPACE, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    tell_number(epd, offset);
    expect(epd, 'm');
    CHECK(mismatch(memory, SPACE, 26) == SPACE);
    tell(epd, 'k');
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

static void finish(scif_epd_t epd, int flags) {
    if (flags & (SCIF_RMA_SYNC | SCIF_RMA_USECPU))
        return;
    int mark;
    GIVES(scif_fence_mark(epd, SCIF_FENCE_INIT_SELF, &mark), 0);
    GIVES(scif_fence_wait(epd, mark), 0);
}

static void call_matrix(uint16_t node) {
    scif_epd_t epd = call_one(node, 2026);
    off_t remote = told_number(epd);
    char *own = pages(SPACE / PAGE);
    char *plain = pages(SPACE / PAGE);
    char *image = malloc(SPACE);
    CHECK(image != NULL);
    off_t local = scif_register(epd, own, SPACE, 0, ALL, 0);
    CHECK(local != SCIF_REGISTER_FAILED);
    /* `image` is what the peer's window holds. */
    memset(image, 0, SPACE);
    unsigned seed = 1;
    int transfers = 0;
    for (unsigned f = 0; f < COUNT(transfer_flags); f++) {
        for (unsigned a = 0; a < COUNT(alignments); a++) {
            for (unsigned l = 0; l < COUNT(lengths); l++) {
                int flags = transfer_flags[f];
                size_t length = lengths[l];
                /* The long ones by some alignments and flags only: an emulated machine is slow. */
                if (length > 2 * PAGE && (f + a + l) % 4 != 0)
                    continue;
                int virtual = (f + a + l) & 1;
                size_t near = PAGE + alignments[a][0], far = PAGE + alignments[a][1];
                char *side = virtual ? plain : own;
                seed++;
                fill(side + near, length, seed);
                if (virtual)
                    GIVES(scif_vwriteto(epd, side + near, length, remote + (off_t)far, flags), 0);
                else
                    GIVES(scif_writeto(epd, local + (off_t)near, length, remote + (off_t)far,
                                       flags), 0);
                finish(epd, flags);
                memcpy(image + far, side + near, length);
                /* Back, with a page of guards before and behind. */
                memset(side, 0x5a, length + 3 * PAGE);
                if (virtual)
                    GIVES(scif_vreadfrom(epd, side + near, length, remote + (off_t)far, flags), 0);
                else
                    GIVES(scif_readfrom(epd, local + (off_t)near, length, remote + (off_t)far,
                                        flags), 0);
                finish(epd, flags);
                if (mismatch(side + near, length, seed) != length)
                    failed(__FILE__, __LINE__, "flags %d, length %zu, %zu to %zu, virtual %d: "
                           "wrong at %zu", flags, length, near, far, virtual,
                           mismatch(side + near, length, seed));
                for (size_t i = 0; i < PAGE; i++) {
                    CHECK(side[near - 1 - i % near] == 0x5a);
                    CHECK(side[near + length + i] == 0x5a);
                }
                transfers++;
            }
        }
    }
    /* All of the peer's window: nothing but what was meant has changed. */
    GIVES(scif_vreadfrom(epd, plain, SPACE, remote, SCIF_RMA_SYNC), 0);
    CHECK(!memcmp(plain, image, SPACE));
    fill(own, SPACE, 26);
    GIVES(scif_writeto(epd, local, SPACE, remote, SCIF_RMA_SYNC), 0);
    tell(epd, 'm');
    expect(epd, 'k');
    /* Flags and ranges that are none. */
    FAILS(scif_writeto(epd, local, PAGE, remote, 16), EINVAL);
    FAILS(scif_writeto(epd, local, 0, remote, 0), EINVAL);
    FAILS(scif_writeto(epd, local, SPACE + 1, remote, 0), ENXIO);
    FAILS(scif_readfrom(epd, -PAGE, PAGE, remote, 0), ENXIO);
    FAILS(scif_vreadfrom(epd, NULL, PAGE, remote, 0), EFAULT);
    GIVES(scif_close(epd), 0);
    printf("transfers: %d\n", 2 * transfers);
    free(image);
}

/* 27: two windows side by side are one range; with a hole, or a read-only one, they are not. */
static void serve_adjacent(void) {
    scif_epd_t epd = serve_one(2027);
    char *a = pages(2), *b = pages(2), *c = pages(1);
    off_t base = 0x100000;
    GIVES(scif_register(epd, a, 2 * PAGE, base, ALL, SCIF_MAP_FIXED), base);
    GIVES(scif_register(epd, b, 2 * PAGE, base + 2 * PAGE, ALL, SCIF_MAP_FIXED), base + 2 * PAGE);
    GIVES(scif_register(epd, c, PAGE, base + 4 * PAGE, SCIF_PROT_READ, SCIF_MAP_FIXED),
          base + 4 * PAGE);
    tell(epd, 'r');
    expect(epd, 'w');
    CHECK(mismatch(a + 100, 2 * PAGE - 100, 27) == 2 * PAGE - 100);
    /* The hole. */
    FAILS(scif_unregister(epd, base + PAGE, 2 * PAGE), EINVAL);
    GIVES(scif_unregister(epd, base, 2 * PAGE), 0);
    tell(epd, 'h');
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

static void call_adjacent(uint16_t node) {
    scif_epd_t epd = call_one(node, 2027);
    expect(epd, 'r');
    char *memory = pages(5);
    off_t local = scif_register(epd, memory, 5 * PAGE, 0, ALL, 0);
    CHECK(local != SCIF_REGISTER_FAILED);
    off_t base = 0x100000;
    fill(memory, 4 * PAGE, 27);
    GIVES(scif_writeto(epd, local, 4 * PAGE - 100, base + 100, SCIF_RMA_SYNC), 0);
    memset(memory, 0, 5 * PAGE);
    GIVES(scif_readfrom(epd, local, 4 * PAGE - 100, base + 100, SCIF_RMA_SYNC), 0);
    CHECK(mismatch(memory, 4 * PAGE - 100, 27) == 4 * PAGE - 100);
    GIVES(scif_readfrom(epd, local, 5 * PAGE, base, SCIF_RMA_SYNC), 0);
    FAILS(scif_writeto(epd, local, 5 * PAGE, base, SCIF_RMA_SYNC), EACCES);
    FAILS(scif_vwriteto(epd, memory, PAGE, base + 4 * PAGE, SCIF_RMA_SYNC), EACCES);
    FAILS(scif_writeto(epd, local, PAGE, base - 1, SCIF_RMA_SYNC), ENXIO);
    /* Mapped over other memory: all of it or, as the last page must not be written, nothing. */
    char *place = pages(2);
    fill(place, 2 * PAGE, 72);
    FAILS(scif_mmap(place, 2 * PAGE, ALL, SCIF_MAP_FIXED, epd, base + 3 * PAGE), EACCES);
    CHECK(mismatch(place, 2 * PAGE, 72) == 2 * PAGE);
    char *mapped = scif_mmap(place, 2 * PAGE, SCIF_PROT_READ, SCIF_MAP_FIXED, epd, base + 3 * PAGE);
    CHECK(mapped == place);
    CHECK(!memcmp(place, memory + 3 * PAGE, 2 * PAGE));
    GIVES(scif_munmap(place, 2 * PAGE), 0);
    tell(epd, 'w');
    expect(epd, 'h');
    FAILS(scif_readfrom(epd, local, 3 * PAGE, base + PAGE, SCIF_RMA_SYNC), ENXIO);
    GIVES(scif_readfrom(epd, local, 3 * PAGE, base + 2 * PAGE, SCIF_RMA_SYNC), 0);
    tell(epd, 'k');
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

/* 28: the peer's window is mapped and outlives its unregistering. */
static void serve_mapped(void) {
    scif_epd_t epd = serve_one(2028);
    volatile char *memory = pages(4);
    off_t base = 0x200000;
    GIVES(scif_register(epd, (void *)memory, 4 * PAGE, base, ALL, SCIF_MAP_FIXED), base);
    memory[0] = 'o';
    tell(epd, 'r');
    expect(epd, 'm');
    CHECK(memory[PAGE] == 'p');
    GIVES(scif_unregister(epd, base, 4 * PAGE), 0);
    memory[1] = 'u';
    tell(epd, 'u');
    expect(epd, 's');
    CHECK(memory[3 * PAGE + 7] == 's');
    /* The offsets are taken as long as the mapping is there, and free as soon as it is gone. */
    void *other = pages(4);
    FAILS(scif_register(epd, other, 4 * PAGE, base, ALL, SCIF_MAP_FIXED), EADDRINUSE);
    tell(epd, 'b');
    expect(epd, 'g');
    GIVES(scif_register(epd, other, 4 * PAGE, base, ALL, SCIF_MAP_FIXED), base);
    tell(epd, 'k');
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

static void call_mapped(uint16_t node) {
    struct left before = left_now();
    scif_epd_t epd = call_one(node, 2028);
    expect(epd, 'r');
    off_t base = 0x200000;
    FAILS(scif_mmap(NULL, 5 * PAGE, ALL, 0, epd, base), ENXIO);
    FAILS(scif_mmap(NULL, PAGE, ALL, 0, epd, base + 8), EINVAL);
    volatile char *map = scif_mmap(NULL, 4 * PAGE, ALL, 0, epd, base);
    CHECK(map != SCIF_MMAP_FAILED);
    CHECK(map[0] == 'o');
    map[PAGE] = 'p';
    __sync_synchronize();
    tell(epd, 'm');
    expect(epd, 'u');
    FAILS(scif_mmap(NULL, PAGE, ALL, 0, epd, base), ENXIO);
    CHECK(map[1] == 'u');
    map[3 * PAGE + 7] = 's';
    __sync_synchronize();
    tell(epd, 's');
    expect(epd, 'b');
    /* In two parts, the first by munmap. */
    GIVES(munmap((void *)map, PAGE), 0);
    GIVES(scif_munmap((char *)map + PAGE, 3 * PAGE), 0);
    tell(epd, 'g');
    expect(epd, 'k');
    /* At an address of our own, by mmap of the descriptor. */
    char *place = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED);
    GIVES(mmap(place, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               scif_get_fd(epd), base), place);
    place[2 * PAGE] = 'x';
    /* It outlives the endpoint. */
    GIVES(scif_close(epd), 0);
    CHECK(place[2 * PAGE] == 'x');
    GIVES(munmap(place, 4 * PAGE), 0);
    nothing_left(before);
}

/* 29: data, then a flag behind it by fence_signal; marks of both sides. */
enum { SIGNAL_BYTES = 256 * 1024, FLAG_AT = SIGNAL_BYTES };

static void serve_fence(void) {
    scif_epd_t epd = serve_one(2029);
    char *memory = pages(SIGNAL_BYTES / PAGE + 1);
    off_t offset = scif_register(epd, memory, SIGNAL_BYTES + PAGE, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    tell_number(epd, offset);
    volatile uint64_t *flag = (volatile uint64_t *)(memory + FLAG_AT);
    for (unsigned round = 1; round <= 8; round++) {
        for (int tries = 0; *flag != round; tries++) {
            CHECK(tries < TIMEOUT_MS);
            usleep(1000);
        }
        CHECK(mismatch(memory, SIGNAL_BYTES, round) == SIGNAL_BYTES);
        tell(epd, 'n');
    }
    /* Transfers of the other side are waited for by a mark of this one. */
    expect(epd, 't');
    int mark;
    GIVES(scif_fence_mark(epd, SCIF_FENCE_INIT_PEER, &mark), 0);
    GIVES(scif_fence_wait(epd, mark), 0);
    CHECK(mismatch(memory, SIGNAL_BYTES, 99) == SIGNAL_BYTES);
    tell(epd, 'k');
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

static void call_fence(uint16_t node) {
    scif_epd_t epd = call_one(node, 2029);
    off_t remote = told_number(epd);
    char *memory = pages(SIGNAL_BYTES / PAGE + 1);
    volatile uint64_t *done = (volatile uint64_t *)(memory + FLAG_AT);
    off_t local = scif_register(epd, memory, SIGNAL_BYTES + PAGE, 0, ALL, 0);
    CHECK(local != SCIF_REGISTER_FAILED);
    for (unsigned round = 1; round <= 8; round++) {
        fill(memory, SIGNAL_BYTES, round);
        GIVES(scif_writeto(epd, local, SIGNAL_BYTES, remote, 0), 0);
        GIVES(scif_fence_signal(epd, local + FLAG_AT, 1000 + round, remote + FLAG_AT, round,
                                SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL | SCIF_SIGNAL_REMOTE), 0);
        expect(epd, 'n');
        for (int tries = 0; *done != 1000 + round; tries++) {
            CHECK(tries < TIMEOUT_MS);
            usleep(1000);
        }
    }
    int mark;
    fill(memory, SIGNAL_BYTES, 99);
    GIVES(scif_writeto(epd, local, SIGNAL_BYTES, remote, 0), 0);
    tell(epd, 't');
    expect(epd, 'k');
    GIVES(scif_readfrom(epd, local, SIGNAL_BYTES, remote, 0), 0);
    GIVES(scif_fence_mark(epd, SCIF_FENCE_INIT_SELF, &mark), 0);
    GIVES(scif_fence_wait(epd, mark), 0);
    CHECK(mismatch(memory, SIGNAL_BYTES, 99) == SIGNAL_BYTES);
    FAILS(scif_fence_mark(epd, 0, &mark), EINVAL);
    FAILS(scif_fence_mark(epd, SCIF_FENCE_INIT_SELF | SCIF_FENCE_INIT_PEER, &mark), EINVAL);
    FAILS(scif_fence_wait(epd, 123456), EINVAL);
    FAILS(scif_fence_signal(epd, local + 2, 0, remote, 0,
                            SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL), EINVAL);
    FAILS(scif_fence_signal(epd, local, 0, remote, 0, SCIF_FENCE_INIT_SELF), EINVAL);
    FAILS(scif_fence_signal(epd, local - PAGE, 0, remote, 0,
                            SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL), ENXIO);
    GIVES(scif_close(epd), 0);
}

/* 30: the last byte of an ordered transfer comes last. */
static void serve_ordered(void) {
    scif_epd_t epd = serve_one(2030);
    char *memory = pages(16);
    off_t offset = scif_register(epd, memory, 16 * PAGE, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    tell_number(epd, offset);
    volatile unsigned char *last = (volatile unsigned char *)memory + 16 * PAGE - 1;
    for (unsigned round = 1; round <= 16; round++) {
        unsigned char wanted = (unsigned char)((16 * PAGE - 1) * 31 +
                                               ((16 * PAGE - 1) >> 8) * 7 + round);
        for (int tries = 0; *last != wanted; tries++) {
            CHECK(tries < TIMEOUT_MS);
            usleep(1000);
        }
        CHECK(mismatch(memory, 16 * PAGE, round) == 16 * PAGE);
        tell(epd, 'n');
    }
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

static void call_ordered(uint16_t node) {
    scif_epd_t epd = call_one(node, 2030);
    off_t remote = told_number(epd);
    char *memory = pages(16);
    off_t local = scif_register(epd, memory, 16 * PAGE, 0, ALL, 0);
    CHECK(local != SCIF_REGISTER_FAILED);
    for (unsigned round = 1; round <= 16; round++) {
        fill(memory, 16 * PAGE, round);
        if (round & 1)
            GIVES(scif_writeto(epd, local, 16 * PAGE, remote, SCIF_RMA_ORDERED), 0);
        else
            GIVES(scif_vwriteto(epd, memory, 16 * PAGE, remote, SCIF_RMA_ORDERED), 0);
        expect(epd, 'n');
    }
    GIVES(scif_close(epd), 0);
}

/* 31: unregistering and closing while transfers run: each page of the destination is complete or
 * untouched, and nothing is left behind. */
enum { RUNNING_PAGES = 1024 };

static void serve_running(void) {
    struct left before = left_now();
    for (int round = 0; round < 2; round++) {
        scif_epd_t epd = serve_one(2031);
        char *memory = pages(RUNNING_PAGES);
        off_t offset = scif_register(epd, memory, RUNNING_PAGES * PAGE, 0, ALL, 0);
        CHECK(offset != SCIF_REGISTER_FAILED);
        tell_number(epd, offset);
        expect(epd, 's');
        if (round == 0) {
            GIVES(scif_unregister(epd, offset, RUNNING_PAGES * PAGE), 0);
            tell(epd, 'u');
        }
        wait_for_end(epd);
        GIVES(scif_close(epd), 0);
        nothing_left(before);
        for (size_t i = 0; i < RUNNING_PAGES; i++) {
            char first = memory[i * PAGE];
            CHECK(first == 0 || first == 'r');
            for (size_t at = 0; at < PAGE; at++)
                CHECK(memory[i * PAGE + at] == first);
        }
    }
}

static void call_running(uint16_t node) {
    struct left before = left_now();
    for (int round = 0; round < 2; round++) {
        scif_epd_t epd = call_one(node, 2031);
        off_t remote = told_number(epd);
        char *memory = pages(RUNNING_PAGES);
        memset(memory, 'r', RUNNING_PAGES * PAGE);
        off_t local = scif_register(epd, memory, RUNNING_PAGES * PAGE, 0, ALL, 0);
        CHECK(local != SCIF_REGISTER_FAILED);
        GIVES(scif_writeto(epd, local, RUNNING_PAGES * PAGE, remote, 0), 0);
        tell(epd, 's');
        if (round == 0) {
            int mark;
            GIVES(scif_fence_mark(epd, SCIF_FENCE_INIT_SELF, &mark), 0);
            GIVES(scif_unregister(epd, local, RUNNING_PAGES * PAGE), 0);
            GIVES(scif_fence_wait(epd, mark), 0);
            expect(epd, 'u');
            FAILS(scif_writeto(epd, local, PAGE, remote, 0), ENXIO);
        }
        GIVES(scif_close(epd), 0);
    }
    nothing_left(before);
}

const struct pattern patterns[] = {
    { 25, "register, tell, transfer at once", serve_register, call_register },
    { 26, "matrix of transfers", serve_matrix, call_matrix },
    { 27, "windows side by side", serve_adjacent, call_adjacent },
    { 28, "map the peer's window", serve_mapped, call_mapped },
    { 29, "fence idiom", serve_fence, call_fence },
    { 30, "ordered idiom", serve_ordered, call_ordered },
    { 31, "unregister and close under transfers", serve_running, call_running },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
