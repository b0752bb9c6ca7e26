/* Registered memory stays where it is: patterns 60 to 66. */
#include "pattern.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL (SCIF_PROT_READ | SCIF_PROT_WRITE)
#define COUNT(array) (sizeof array / sizeof *array)

/* Byte `i` of a buffer that was filled with `seed`. */
static unsigned char byte_at(size_t i, unsigned seed) {
    return (unsigned char)(i * 31 + (i >> 8) * 7 + seed);
}

static void fill_part(unsigned char *place, size_t first, size_t length, unsigned seed) {
    for (size_t i = 0; i < length; i++)
        place[i] = byte_at(first + i, seed);
}

static size_t mismatch_part(const unsigned char *place, size_t first, size_t length,
                            unsigned seed) {
    for (size_t i = 0; i < length; i++)
        if (place[i] != byte_at(first + i, seed))
            return i;
    return length;
}

/*
 * What a serving side is asked for. It knows nothing of the caller's memory but offsets of windows:
 * `place` bytes behind `offset`, `length` bytes that are bytes `first` and following of a buffer
 * that was filled with `seed`.
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
static size_t map_and_store(scif_epd_t epd, const struct order *order) {
    unsigned char *place = scif_mmap(NULL, order->length, ALL, 0, epd, order->offset);
    CHECK(place != SCIF_MMAP_FAILED);
    size_t right = mismatch_part(place, order->first, order->length, order->seed);
    fill_part(place, order->first, order->length, order->seed + 1);
    GIVES(scif_munmap(place, order->length), 0);
    return right;
}

/* Obeys one connection's orders until the last; answers each with how many bytes were right. */
static void obey(scif_epd_t epd) {
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

static void give_order(scif_epd_t epd, char what, off_t offset, size_t first, size_t length,
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

/* 60: overlapping and neighbouring ranges, registered in every order. */
static void serve_orders(void) {
    scif_epd_t epd = serve_one(2060);
    unsigned char *memory = NULL;
    GIVES(posix_memalign((void **)&memory, PAGE, 4 * PAGE), 0);
    fill_part(memory, 0, 4 * PAGE, 200);
    off_t offset = scif_register(epd, memory, 4 * PAGE, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    tell_number(epd, offset);
    obey(epd);
    free(memory);
}

struct range {
    size_t first, pages;
};

/* What programs register that round buffers out to pages: neighbours share pages. */
static const struct range ranges[] = { { 4, 4 }, { 2, 8 }, { 8, 5 }, { 7, 1 }, { 0, 14 } };
enum { RANGES = COUNT(ranges), BUFFER_PAGES = 14 };

struct window {
    struct range range;
    off_t offset;
};

/* Every byte through every window, both ways. */
static void check_windows(scif_epd_t epd, unsigned char *buffer, const struct window *windows,
                          size_t count, unsigned *seed) {
    for (size_t i = 0; i < count; i++) {
        size_t first = windows[i].range.first * PAGE, length = windows[i].range.pages * PAGE;
        fill_part(buffer, 0, BUFFER_PAGES * PAGE, ++*seed);
        give_order(epd, 'r', windows[i].offset, first, length, *seed);
        unsigned before = *seed;
        give_order(epd, 'w', windows[i].offset, first, length, ++*seed);
        CHECK(mismatch_part(buffer, 0, first, before) == first);
        CHECK(mismatch_part(buffer + first, first, length, *seed) == length);
        size_t end = first + length, rest = BUFFER_PAGES * PAGE - end;
        CHECK(mismatch_part(buffer + end, end, rest, before) == rest);
    }
}

/* Registers the ranges in one order. From a window of the peer at `remote` something is read in
 * between, by a transfer that may keep the pages of its target known. */
static void play_order(scif_epd_t epd, unsigned char *buffer, const size_t *order, off_t remote) {
    struct window windows[RANGES];
    unsigned seed = 0;
    for (size_t i = 0; i < RANGES; i++) {
        struct range range = ranges[order[i]];
        void *start = buffer + range.first * PAGE;
        size_t length = range.pages * PAGE;
        fill_part(buffer, 0, BUFFER_PAGES * PAGE, ++seed);
        windows[i].range = range;
        windows[i].offset = scif_register(epd, start, length, 0, ALL, 0);
        CHECK(windows[i].offset != SCIF_REGISTER_FAILED);
        /* The address and what is there stay. */
        CHECK(mismatch_part(buffer, 0, BUFFER_PAGES * PAGE, seed) == BUFFER_PAGES * PAGE);
        unsigned char *target = buffer + 5 * PAGE + 33;
        size_t part = 3 * PAGE - 77;
        GIVES(scif_vreadfrom(epd, target, part, remote + 5, SCIF_RMA_USECACHE | SCIF_RMA_SYNC), 0);
        CHECK(mismatch_part(target, 5, part, 200) == part);
        check_windows(epd, buffer, windows, i + 1, &seed);
    }
    for (size_t i = 0; i < RANGES; i++) {
        /* Not in the order in which they came. */
        size_t at = (i * 3 + 1) % RANGES;
        struct window gone = windows[at];
        GIVES(scif_unregister(epd, gone.offset, gone.range.pages * PAGE), 0);
        FAILS(scif_unregister(epd, gone.offset, gone.range.pages * PAGE), ENXIO);
    }
}

/* All orders of the ranges, by Heap's method. */
static void permute(scif_epd_t epd, unsigned char *buffer, size_t *order, size_t count,
                    off_t remote) {
    if (count == 1) {
        play_order(epd, buffer, order, remote);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        permute(epd, buffer, order, count - 1, remote);
        size_t other = count % 2 ? 0 : i;
        size_t kept = order[other];
        order[other] = order[count - 1];
        order[count - 1] = kept;
    }
}

static void call_orders(uint16_t node) {
    scif_epd_t epd = call_one(node, 2060);
    off_t remote = told_number(epd);
    size_t order[RANGES];
    for (size_t i = 0; i < RANGES; i++)
        order[i] = i;
    unsigned char *heap = malloc((BUFFER_PAGES + 1) * PAGE);
    CHECK(heap != NULL);
    unsigned char *aligned = (unsigned char *)(((uintptr_t)heap + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    permute(epd, aligned, order, RANGES, remote);
    free(heap);
    /* Memory of other kinds: pages that nobody has touched, data of the program, and memory that
     * was asked of SCIF. */
    unsigned char *mapped = mmap(NULL, BUFFER_PAGES * PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    play_order(epd, mapped, order, remote);
    GIVES(munmap(mapped, BUFFER_PAGES * PAGE), 0);
    static unsigned char data[BUFFER_PAGES * PAGE] __attribute__((aligned(PAGE)));
    play_order(epd, data, order, remote);
    unsigned char *own = scif_memory(BUFFER_PAGES * PAGE);
    CHECK(own != NULL);
    play_order(epd, own, order, remote);
    GIVES(munmap(own, BUFFER_PAGES * PAGE), 0);
    give_order(epd, 'q', 0, 0, 0, 0);
    GIVES(scif_close(epd), 0);
}

/* 61: threads that register pieces of the heap, beside others that use the heap. */
enum { REGISTERING = 8, COMPUTING = 4, ROUNDS = 40 };

static void *obeying_thread(void *argument) {
    obey((scif_epd_t)(intptr_t)argument);
    return NULL;
}

static void serve_threads(void) {
    scif_epd_t on = listener(2061, REGISTERING);
    pthread_t threads[REGISTERING];
    for (int i = 0; i < REGISTERING; i++) {
        scif_epd_t epd = accept_one(on);
        GIVES(pthread_create(&threads[i], NULL, obeying_thread, (void *)(intptr_t)epd), 0);
    }
    for (int i = 0; i < REGISTERING; i++)
        GIVES(pthread_join(threads[i], NULL), 0);
    GIVES(scif_close(on), 0);
}

static uint16_t threads_node;
static int registering_left;

/* Registers the pages around a buffer of the heap; the peer works on the buffer alone. */
static void *registering_thread(void *argument) {
    unsigned number = (unsigned)(intptr_t)argument;
    scif_epd_t epd = call_one(threads_node, 2061);
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t length = 40 + (round * 977 + number * 131) % (3 * PAGE);
        unsigned char *buffer = NULL;
        GIVES(posix_memalign((void **)&buffer, 8, length), 0);
        unsigned seed = round * 7 + number;
        fill_part(buffer, 0, length, seed);
        uintptr_t first = (uintptr_t)buffer & ~(uintptr_t)(PAGE - 1);
        uintptr_t end = ((uintptr_t)buffer + length + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
        off_t offset = scif_register(epd, (void *)first, end - first, 0, ALL, 0);
        CHECK(offset != SCIF_REGISTER_FAILED);
        off_t at = offset + (off_t)((uintptr_t)buffer - first);
        give_order(epd, 'r', at, 0, length, seed);
        give_order(epd, 'w', at, 0, length, seed + 1);
        CHECK(mismatch_part(buffer, 0, length, seed + 1) == length);
        GIVES(scif_unregister(epd, offset, end - first), 0);
        free(buffer);
    }
    give_order(epd, 'q', 0, 0, 0, 0);
    GIVES(scif_close(epd), 0);
    __atomic_sub_fetch(&registering_left, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* A program's work on the heap: a ring of buffers, each checked before it is freed. */
static void *computing_thread(void *argument) {
    enum { HELD = 24 };
    unsigned number = (unsigned)(intptr_t)argument;
    unsigned char *held[HELD] = { NULL };
    size_t lengths[HELD] = { 0 };
    unsigned seeds[HELD] = { 0 };
    for (unsigned turn = 0; __atomic_load_n(&registering_left, __ATOMIC_SEQ_CST) > 0; turn++) {
        unsigned slot = turn % HELD;
        if (held[slot]) {
            CHECK(mismatch_part(held[slot], 0, lengths[slot], seeds[slot]) == lengths[slot]);
            free(held[slot]);
        }
        lengths[slot] = 1 + (turn * 389 + number * 57) % 2500;
        seeds[slot] = turn + number;
        held[slot] = malloc(lengths[slot]);
        CHECK(held[slot] != NULL);
        fill_part(held[slot], 0, lengths[slot], seeds[slot]);
    }
    for (unsigned slot = 0; slot < HELD; slot++)
        if (held[slot]) {
            CHECK(mismatch_part(held[slot], 0, lengths[slot], seeds[slot]) == lengths[slot]);
            free(held[slot]);
        }
    return NULL;
}

static void call_threads(uint16_t node) {
    threads_node = node;
    registering_left = REGISTERING;
    pthread_t threads[REGISTERING + COMPUTING];
    for (int i = 0; i < REGISTERING + COMPUTING; i++)
        GIVES(pthread_create(&threads[i], NULL,
                             i < REGISTERING ? registering_thread : computing_thread,
                             (void *)(intptr_t)i), 0);
    for (int i = 0; i < REGISTERING + COMPUTING; i++)
        GIVES(pthread_join(threads[i], NULL), 0);
}

/* 62: constants, and rights that are those of the pages each time. */
static const unsigned char constants[2 * PAGE] __attribute__((aligned(PAGE))) = { 1, 2, 3, 4, 5 };

static void serve_constants(void) {
    scif_epd_t epd = serve_one(2062);
    unsigned char *memory = NULL;
    GIVES(posix_memalign((void **)&memory, PAGE, 4 * PAGE), 0);
    memset(memory, 0xee, 4 * PAGE);
    off_t offset = scif_register(epd, memory, 4 * PAGE, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    tell_number(epd, offset);
    expect(epd, 'c');
    CHECK(memory[100] == 0xee && memory[101] == 2 && memory[104] == 5 && memory[105] == 0);
    CHECK(memory[100 + sizeof constants - 3] == 0 && memory[100 + sizeof constants - 2] == 0xee);
    tell(epd, 'k');
    obey(epd);
}

static void call_constants(uint16_t node) {
    scif_epd_t epd = call_one(node, 2062);
    off_t remote = told_number(epd);
    /* A source that is constant, and in no way a multiple of anything. */
    GIVES(scif_vwriteto(epd, (void *)(constants + 1), sizeof constants - 3, remote + 101,
                        SCIF_RMA_SYNC), 0);
    tell(epd, 'c');
    expect(epd, 'k');
    void *place = (void *)constants;
    off_t offset = scif_register(epd, place, sizeof constants, 0, SCIF_PROT_READ, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    FAILS(scif_register(epd, place, sizeof constants, 0, ALL, 0), EFAULT);
    FAILS(scif_register(epd, place, PAGE, 0, SCIF_PROT_WRITE, 0), EFAULT);
    give_order(epd, 'e', offset, 0, PAGE, 1);
    CHECK(constants[0] == 1 && constants[4] == 5 && constants[5] == 0);
    FAILS(scif_readfrom(epd, offset, PAGE, remote, SCIF_RMA_SYNC), EACCES);
    FAILS(scif_vreadfrom(epd, place, PAGE, remote, SCIF_RMA_SYNC), EFAULT);
    CHECK(constants[0] == 1 && constants[4] == 5 && constants[5] == 0);
    /* Rights that are taken away after the memory was registered. */
    unsigned char *memory = NULL;
    GIVES(posix_memalign((void **)&memory, PAGE, 2 * PAGE), 0);
    fill_part(memory, 0, 2 * PAGE, 3);
    off_t both = scif_register(epd, memory, 2 * PAGE, 0, ALL, 0);
    CHECK(both != SCIF_REGISTER_FAILED);
    GIVES(mprotect(memory, 2 * PAGE, PROT_READ), 0);
    FAILS(scif_register(epd, memory, 2 * PAGE, 0, ALL, 0), EFAULT);
    off_t readable = scif_register(epd, memory, 2 * PAGE, 0, SCIF_PROT_READ, 0);
    CHECK(readable != SCIF_REGISTER_FAILED);
    give_order(epd, 'r', readable, 0, 2 * PAGE, 3);
    GIVES(mprotect(memory, 2 * PAGE, PROT_READ | PROT_WRITE), 0);
    fill_part(memory, 0, 2 * PAGE, 4);
    give_order(epd, 'r', readable, 0, 2 * PAGE, 4);
    give_order(epd, 'w', both, 0, 2 * PAGE, 5);
    CHECK(mismatch_part(memory, 0, 2 * PAGE, 5) == 2 * PAGE);
    /* The stack this very function runs on. */
    volatile unsigned char here[3 * PAGE];
    unsigned char *on_stack = (unsigned char *)(((uintptr_t)here + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    off_t stack = scif_register(epd, on_stack, 2 * PAGE, 0, ALL, 0);
    CHECK(stack != SCIF_REGISTER_FAILED);
    give_order(epd, 'w', stack, 0, 2 * PAGE, 6);
    CHECK(mismatch_part(on_stack, 0, 2 * PAGE, 6) == 2 * PAGE);
    give_order(epd, 'q', 0, 0, 0, 0);
    GIVES(scif_close(epd), 0);
    free(memory);
}

/* 63: transfers of virtual addresses change nothing but their target, whoever stores beside it. */
static void serve_beside(void) {
    scif_epd_t on = listener(2063, 4);
    unsigned char *memory = NULL;
    size_t length = 80 * PAGE;
    GIVES(posix_memalign((void **)&memory, PAGE, length), 0);
    for (;;) {
        scif_epd_t epd = accept_one(on);
        fill_part(memory, 0, length, 9);
        off_t offset = scif_register(epd, memory, length, 0, ALL, 0);
        CHECK(offset != SCIF_REGISTER_FAILED);
        tell_number(epd, offset);
        char step = 0;
        recv_all(epd, &step, 1);
        tell(epd, 'k');
        wait_for_end(epd);
        GIVES(scif_close(epd), 0);
        if (step == 'q')
            break;
    }
    GIVES(scif_close(on), 0);
    free(memory);
}

struct beside {
    volatile uint32_t *words[4];
    uint32_t counts[4];
    int stop;
};

static void *storing_thread(void *argument) {
    struct beside *beside = argument;
    while (!__atomic_load_n(&beside->stop, __ATOMIC_SEQ_CST))
        for (size_t i = 0; i < COUNT(beside->words); i++)
            if (beside->words[i]) {
                /* Plain stores, as programs make them. */
                *beside->words[i] = *beside->words[i] + 1;
                beside->counts[i]++;
                if (*beside->words[i] != beside->counts[i])
                    failed(__FILE__, __LINE__, "word %zu is %u after %u stores", i,
                           *beside->words[i], beside->counts[i]);
            }
    return NULL;
}

static void call_beside(uint16_t node) {
    static const size_t sizes[] = { 100, 5000, 70000, 300000 };
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        /* A connection of its own: the first transfers of one go another way than later ones. */
        scif_epd_t epd = call_one(node, 2063);
        off_t remote = told_number(epd);
        size_t length = sizes[i / 2];
        int reads = i % 2;
        unsigned char *memory = NULL;
        GIVES(posix_memalign((void **)&memory, PAGE, length + 2 * PAGE), 0);
        memset(memory, 0, length + 2 * PAGE);
        unsigned char *part = memory + 72;
        struct beside beside = { { NULL }, { 0 }, 0 };
        /* Right before and right behind; into a source itself, too. */
        beside.words[0] = (uint32_t *)(void *)(part - 8);
        beside.words[1] = (uint32_t *)(void *)(memory + ((72 + length + 7) & ~(size_t)7));
        if (!reads) {
            beside.words[2] = (uint32_t *)(void *)part;
            beside.words[3] = (uint32_t *)(void *)(part + ((length - 8) & ~(size_t)7));
        }
        pthread_t other;
        GIVES(pthread_create(&other, NULL, storing_thread, &beside), 0);
        for (int round = 0; round < 40; round++) {
            int flags = round % 3 == 2 ? SCIF_RMA_USECACHE | SCIF_RMA_SYNC : SCIF_RMA_SYNC;
            if (reads) {
                GIVES(scif_vreadfrom(epd, part, length, remote + 1000, flags), 0);
                CHECK(mismatch_part(part, 1000, length, 9) == length);
            } else {
                /* Not over what is read later. */
                GIVES(scif_vwriteto(epd, part, length < 700 ? length : 700, remote, flags), 0);
                if (length > 700)
                    GIVES(scif_vwriteto(epd, part, length, remote + 1000, flags), 0);
            }
        }
        __atomic_store_n(&beside.stop, 1, __ATOMIC_SEQ_CST);
        GIVES(pthread_join(other, NULL), 0);
        for (size_t word = 0; word < COUNT(beside.words); word++)
            if (beside.words[word])
                CHECK(*beside.words[word] == beside.counts[word]);
        free(memory);
        tell(epd, i + 1 == 2 * COUNT(sizes) ? 'q' : 'n');
        expect(epd, 'k');
        GIVES(scif_close(epd), 0);
    }
}

/* 64: what malloc gives, read and written by the peer where it is. */
static void serve_heap(void) {
    obey(serve_one(2064));
}

static void call_heap(uint16_t node) {
    scif_epd_t epd = call_one(node, 2064);
    size_t length = (3 << 20) + 77;
    unsigned char *buffer = malloc(length);
    CHECK(buffer != NULL);
    fill_part(buffer, 0, length, 17);
    uintptr_t first = (uintptr_t)buffer & ~(uintptr_t)(PAGE - 1);
    uintptr_t end = ((uintptr_t)buffer + length + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    off_t offset = scif_register(epd, (void *)first, end - first, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    off_t at = offset + (off_t)((uintptr_t)buffer - first);
    give_order(epd, 'r', at, 0, length, 17);
    give_order(epd, 'w', at, 0, length, 18);
    CHECK(mismatch_part(buffer, 0, length, 18) == length);
    printf("malloc gave %p; the peer has read and written its %zu bytes there\n", (void *)buffer,
           length);
    give_order(epd, 'q', 0, 0, 0, 0);
    GIVES(scif_close(epd), 0);
    free(buffer);
}

/* 65: a large window of scattered pages, mapped. */
static void serve_large(void) {
    obey(serve_one(2065));
}

static void call_large(uint16_t node) {
    scif_epd_t epd = call_one(node, 2065);
    size_t length = 40 << 20;
    unsigned char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                 -1, 0);
    CHECK(memory != MAP_FAILED);
    /* Pages come when they are touched: pieces of some pages, the last piece first. */
    size_t piece = 100 * PAGE;
    for (size_t end = length; end > 0;) {
        size_t start = end > piece ? end - piece : 0;
        fill_part(memory + start, start, end - start, 21);
        end = start;
    }
    off_t offset = scif_register(epd, memory, length, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    give_order(epd, 'm', offset, 0, length, 21);
    CHECK(mismatch_part(memory, 0, length, 22) == length);
    GIVES(scif_unregister(epd, offset, length), 0);
    give_order(epd, 'q', 0, 0, 0, 0);
    GIVES(scif_close(epd), 0);
    GIVES(munmap(memory, length), 0);
}

/* 66: a process that forks keeps its registered pages; the child has copies. */
static void serve_fork(void) {
    obey(serve_one(2066));
}

/* A child that finds the buffer filled with `seed` and stores something else there. */
static pid_t child_with_copy(unsigned char *buffer, size_t length, unsigned seed) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int right = mismatch_part(buffer, 0, length, seed) == length;
        fill_part(buffer, 0, length, seed + 100);
        right = right && mismatch_part(buffer, 0, length, seed + 100) == length;
        _exit(right ? 3 : 4);
    }
    return child;
}

static void end_of_child(pid_t child) {
    int status;
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void call_fork(uint16_t node) {
    scif_epd_t epd = call_one(node, 2066);
    size_t pages = 6, length = pages * PAGE;
    unsigned char *heap = malloc((pages + 1) * PAGE);
    CHECK(heap != NULL);
    unsigned char *buffer = (unsigned char *)(((uintptr_t)heap + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    fill_part(buffer, 0, length, 31);
    off_t offset = scif_register(epd, buffer, length, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    for (unsigned seed = 31; seed < 39; seed += 2) {
        pid_t child = child_with_copy(buffer, length, seed);
        /* Before the child has ended and afterwards, in both directions. */
        fill_part(buffer, 0, length, seed + 1);
        give_order(epd, 'r', offset, 0, length, seed + 1);
        give_order(epd, 'w', offset, 0, length, seed + 2);
        CHECK(mismatch_part(buffer, 0, length, seed + 2) == length);
        end_of_child(child);
        give_order(epd, 'r', offset, 0, length, seed + 2);
    }
    give_order(epd, 'q', 0, 0, 0, 0);
    GIVES(scif_close(epd), 0);
    free(heap);
}

const struct pattern patterns[] = {
    { 60, "overlapping and neighbouring ranges in every order", serve_orders, call_orders },
    { 61, "threads register pieces of a heap that others use", serve_threads, call_threads },
    { 62, "constants, and rights of the pages each time", serve_constants, call_constants },
    { 63, "transfers change nothing beside their target", serve_beside, call_beside },
    { 64, "a buffer of the heap, used by the peer where it is", serve_heap, call_heap },
    { 65, "a large window of scattered pages, mapped", serve_large, call_large },
    { 66, "a process that forks keeps its registered pages", serve_fork, call_fork },
    { 0, NULL, NULL, NULL },
};

/* `heap-serve`, `heap-call n`: pattern 64 alone. */
int play_part(const char *part, int count, char **arguments) {
    playing = 64;
    if (!strcmp(part, "heap-serve")) {
        serve_heap();
        return 0;
    }
    if (!strcmp(part, "heap-call") && count == 1) {
        call_heap((uint16_t)atoi(arguments[0]));
        return 0;
    }
    printf("there is no part %s\n", part);
    return 2;
}
