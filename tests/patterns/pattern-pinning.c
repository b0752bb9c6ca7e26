/* Registered memory stays where it is: patterns 60 to 62, 64 to 66 and 70. */
#include "orders.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Obeys orders, and registers a window that the calling side reads. */
static void obey_with_window(uint16_t port) {
    scif_epd_t epd = serve_one(port);
    unsigned char *memory = NULL;
    GIVES(posix_memalign((void **)&memory, PAGE, 4 * PAGE), 0);
    fill_part(memory, 0, 4 * PAGE, 200);
    off_t offset = scif_register(epd, memory, 4 * PAGE, 0, ALL, 0);
    CHECK(offset != SCIF_REGISTER_FAILED);
    tell_number(epd, offset);
    obey(epd);
    free(memory);
}

/* 60: overlapping and neighbouring ranges, registered in every order. */
static void serve_orders(void) {
    obey_with_window(2060);
}

struct range {
    size_t first, pages;
};

/* What programs register that round buffers out to pages: neighbours share pages. */
static const struct range ranges[] = { { 4, 4 }, { 2, 8 }, { 8, 5 }, { 7, 1 }, { 0, 14 } };
enum { RANGES = sizeof ranges / sizeof *ranges, BUFFER_PAGES = 14 };

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
    for (size_t left = RANGES; left > 0;) {
        /* Not in the order in which they came. */
        size_t at = left / 2;
        struct window gone = windows[at];
        GIVES(scif_unregister(epd, gone.offset, gone.range.pages * PAGE), 0);
        FAILS(scif_unregister(epd, gone.offset, gone.range.pages * PAGE), ENXIO);
        windows[at] = windows[--left];
        check_windows(epd, buffer, windows, left, &seed);
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

/* 70: memory that processes share. */
static void serve_shared(void) {
    obey_with_window(2070);
}

/* A child that waits for a byte over the pipe, finds the buffer filled with `seed` and fills it with
 * the next one. */
static pid_t child_that_shares(unsigned char *buffer, size_t length, unsigned seed, int ends[2]) {
    GIVES(pipe(ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char step = 0;
        int right = read(ends[0], &step, 1) == 1 && mismatch_part(buffer, 0, length, seed) == length;
        fill_part(buffer, 0, length, seed + 1);
        _exit(right ? 3 : 4);
    }
    return child;
}

static void let_child_end(pid_t child, int ends[2]) {
    GIVES(write(ends[1], "", 1), 1);
    end_of_child(child);
    GIVES(close(ends[0]), 0);
    GIVES(close(ends[1]), 0);
}

static void call_shared(uint16_t node) {
    scif_epd_t epd = call_one(node, 2070);
    off_t remote = told_number(epd);
    size_t order[RANGES] = { 0, 1, 2, 3, 4 }, length = BUFFER_PAGES * PAGE;
    unsigned char *shared = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                 -1, 0);
    CHECK(shared != MAP_FAILED);
    play_order(epd, shared, order, remote);
    /* Windows from before the child began and from afterwards are of the pages that it has. */
    int ends[2];
    off_t before = scif_register(epd, shared, length, 0, ALL, 0);
    CHECK(before != SCIF_REGISTER_FAILED);
    pid_t child = child_that_shares(shared, length, 50, ends);
    off_t after = scif_register(epd, shared, length, 0, ALL, 0);
    CHECK(after != SCIF_REGISTER_FAILED);
    give_order(epd, 'w', before, 0, length, 50);
    give_order(epd, 'r', after, 0, length, 50);
    let_child_end(child, ends);
    give_order(epd, 'r', before, 0, length, 51);
    give_order(epd, 'r', after, 0, length, 51);
    CHECK(mismatch_part(shared, 0, length, 51) == length);
    /* They stay when this process has the pages no longer. */
    child = child_that_shares(shared, length, 60, ends);
    GIVES(munmap(shared, length), 0);
    give_order(epd, 'w', before, 0, length, 60);
    give_order(epd, 'r', after, 0, length, 60);
    let_child_end(child, ends);
    give_order(epd, 'r', before, 0, length, 61);
    give_order(epd, 'r', after, 0, length, 61);
    give_order(epd, 'q', 0, 0, 0, 0);
    GIVES(scif_close(epd), 0);
}

const struct pattern patterns[] = {
    { 60, "overlapping and neighbouring ranges in every order", serve_orders, call_orders },
    { 61, "threads register pieces of a heap that others use", serve_threads, call_threads },
    { 62, "constants, and rights of the pages each time", serve_constants, call_constants },
    { 64, "a buffer of the heap, used by the peer where it is", serve_heap, call_heap },
    { 65, "a large window of scattered pages, mapped", serve_large, call_large },
    { 66, "a process that forks keeps its registered pages", serve_fork, call_fork },
    { 70, "memory that processes share", serve_shared, call_shared },
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
