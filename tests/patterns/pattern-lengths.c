/* Lengths that are no whole pages, and places that a program does not give. Intel's library passes
 * every length on as it is: its drivers refuse such lengths of windows and copy the bytes of a transfer
 * exactly, and only mmap and munmap, which are the system's own, round up. */
#include "pattern.h"

#include <sys/mman.h>

#define ALL (SCIF_PROT_READ | SCIF_PROT_WRITE)
#define PAGES 4
#define BASE 0x400000
#define GUARD ((char)0xa5)

static char *memory_of_pages(void) {
    void *memory;
    GIVES(posix_memalign(&memory, PAGE, PAGES * PAGE), 0);
    memset(memory, GUARD, PAGES * PAGE);
    return memory;
}

/* 66: windows have whole pages; what is refused changes nothing. */
static void serve_windows(void) {
    scif_epd_t epd = serve_one(2066);
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
}

static void call_windows(uint16_t node) {
    static const size_t wrong[] = { 1, 100, PAGE / 2, PAGE - 1, PAGE + 1, 3 * PAGE + 8 };
    scif_epd_t epd = call_one(node, 2066);
    char *memory = memory_of_pages();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        FAILS(scif_register(epd, memory, wrong[i], 0, ALL, 0), EINVAL);
        FAILS(scif_register(epd, memory, wrong[i], BASE, ALL, SCIF_MAP_FIXED), EINVAL);
    }
    FAILS(scif_register(epd, memory + 1, PAGE, 0, ALL, 0), EINVAL);
    FAILS(scif_register(epd, memory, 0, 0, ALL, 0), EINVAL);
    GIVES(scif_register(epd, memory, 3 * PAGE, BASE, ALL, SCIF_MAP_FIXED), BASE);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        FAILS(scif_unregister(epd, BASE, wrong[i]), EINVAL);
    FAILS(scif_unregister(epd, BASE, 3 * PAGE - 1), EINVAL);
    FAILS(scif_unregister(epd, BASE + 1, 3 * PAGE), EINVAL);
    FAILS(scif_unregister(epd, BASE, 0), EINVAL);
    GIVES(scif_unregister(epd, BASE, 3 * PAGE), 0);
    FAILS(scif_unregister(epd, BASE, 3 * PAGE), ENXIO);
    GIVES(scif_close(epd), 0);
    free(memory);
}

/* 67: a mapping has the pages that its length touches, and so has what munmap takes down. */
static void serve_mapped(void) {
    scif_epd_t epd = serve_one(2067);
    char *memory = memory_of_pages();
    GIVES(scif_register(epd, memory, PAGES * PAGE, BASE, ALL, SCIF_MAP_FIXED), BASE);
    tell(epd, 'r');
    expect(epd, 'm');
    CHECK(memory[2 * PAGE - 1] == 'e' && memory[PAGES * PAGE - 1] == 'f');
    /* The offsets are free as soon as nothing of the mappings is left. */
    GIVES(scif_unregister(epd, BASE, PAGES * PAGE), 0);
    FAILS(scif_register(epd, memory, PAGES * PAGE, BASE, ALL, SCIF_MAP_FIXED), EADDRINUSE);
    tell(epd, 'u');
    expect(epd, 'g');
    GIVES(scif_register(epd, memory, PAGES * PAGE, BASE, ALL, SCIF_MAP_FIXED), BASE);
    tell(epd, 'k');
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
    free(memory);
}

static void call_mapped(uint16_t node) {
    scif_epd_t epd = call_one(node, 2067);
    expect(epd, 'r');
    FAILS(scif_mmap(NULL, PAGES * PAGE + 1, ALL, 0, epd, BASE), ENXIO);
    FAILS(scif_mmap(NULL, 0, ALL, 0, epd, BASE), EINVAL);
    FAILS(scif_mmap(NULL, 1, ALL, 0, epd, BASE + 1), EINVAL);
    volatile char *two = scif_mmap(NULL, PAGE + 1, ALL, 0, epd, BASE);
    volatile char *one = mmap(NULL, 1, ALL, MAP_SHARED, scif_get_fd(epd), BASE + 3 * PAGE);
    CHECK(two != SCIF_MMAP_FAILED && one != MAP_FAILED);
    two[2 * PAGE - 1] = 'e';
    one[PAGE - 1] = 'f';
    __sync_synchronize();
    tell(epd, 'm');
    expect(epd, 'u');
    FAILS(scif_munmap((void *)(two + 1), PAGE), EINVAL);
    GIVES(scif_munmap((void *)two, PAGE + 1), 0);
    GIVES(munmap((void *)one, 1), 0);
    tell(epd, 'g');
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

/* 68: a transfer moves the bytes that it is told, none beside them. */
static void serve_exact(void) {
    scif_epd_t epd = serve_one(2068);
    char *memory = memory_of_pages();
    GIVES(scif_register(epd, memory, PAGES * PAGE, BASE, ALL, SCIF_MAP_FIXED), BASE);
    tell(epd, 'r');
    for (;;) {
        size_t length = (size_t)told_number(epd);
        if (length == 0)
            break;
        CHECK(mismatch(memory + 3, length, (unsigned)length) == length);
        for (size_t i = 0; i < PAGES * PAGE; i++)
            CHECK((i >= 3 && i < 3 + length) || memory[i] == GUARD);
        fill(memory + 3, length, (unsigned)length + 1);
        tell(epd, 'c');
        expect(epd, 'r');
        memset(memory, GUARD, PAGES * PAGE);
        tell(epd, 'n');
    }
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
    free(memory);
}

/* Whether the place at 5 has what the peer wrote, and nothing was written beside it. */
static void check_read(char *memory, size_t length) {
    CHECK(mismatch(memory + 5, length, (unsigned)length + 1) == length);
    for (size_t i = 0; i < PAGES * PAGE; i++)
        CHECK((i >= 5 && i < 5 + length) || memory[i] == GUARD);
    memset(memory, GUARD, PAGES * PAGE);
}

static void call_exact(uint16_t node) {
    static const size_t lengths[] = { 1, 2, 7, 63, 65, 1000, PAGE - 1, PAGE + 1, 3 * PAGE - 7 };
    scif_epd_t epd = call_one(node, 2068);
    char *memory = memory_of_pages(), *plain = memory_of_pages();
    off_t own = scif_register(epd, memory, PAGES * PAGE, 0, ALL, 0);
    CHECK(own != SCIF_REGISTER_FAILED);
    expect(epd, 'r');
    for (int way = 0; way < 4; way++) {
        int flags = SCIF_RMA_SYNC | (way & 1 ? SCIF_RMA_USECPU : 0);
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            size_t length = lengths[i];
            char *side = way & 2 ? plain : memory;
            fill(side + 5, length, (unsigned)length);
            if (way & 2)
                GIVES(scif_vwriteto(epd, side + 5, length, BASE + 3, flags), 0);
            else
                GIVES(scif_writeto(epd, own + 5, length, BASE + 3, flags), 0);
            tell_number(epd, (int64_t)length);
            expect(epd, 'c');
            if (way & 2)
                GIVES(scif_vreadfrom(epd, side + 5, length, BASE + 3, flags), 0);
            else
                GIVES(scif_readfrom(epd, own + 5, length, BASE + 3, flags), 0);
            check_read(side, length);
            tell(epd, 'r');
            expect(epd, 'n');
        }
    }
    /* To the last byte of a window, and not one further. */
    GIVES(scif_writeto(epd, own, PAGES * PAGE - 3, BASE + 3, SCIF_RMA_SYNC), 0);
    FAILS(scif_writeto(epd, own, PAGES * PAGE - 2, BASE + 3, SCIF_RMA_SYNC), ENXIO);
    FAILS(scif_readfrom(epd, own + 1, PAGES * PAGE, BASE, SCIF_RMA_SYNC), ENXIO);
    FAILS(scif_vwriteto(epd, plain, PAGE + 1, BASE + 3 * PAGE, SCIF_RMA_SYNC), ENXIO);
    FAILS(scif_vreadfrom(epd, plain, 1, BASE + PAGES * PAGE, SCIF_RMA_SYNC), ENXIO);
    FAILS(scif_vreadfrom(epd, plain, 0, BASE, SCIF_RMA_SYNC), EINVAL);
    FAILS(scif_readfrom(epd, own, 0, BASE, SCIF_RMA_SYNC), EINVAL);
    tell_number(epd, 0);
    GIVES(scif_close(epd), 0);
    free(memory);
    free(plain);
}

/* 69: the numbers of nodes, without places for what is not wanted. */
static void call_places(uint16_t node) {
    uint16_t ids[64], self = 0xffff;
    int count = scif_get_nodeIDs(NULL, 0, NULL);
    CHECK(count >= 1 && count <= 64);
    GIVES(scif_get_nodeIDs(NULL, 0, &self), count);
    CHECK(self != 0xffff);
    memset(ids, 0xff, sizeof ids);
    GIVES(scif_get_nodeIDs(ids, 64, NULL), count);
    int found = 0;
    for (int i = 0; i < count; i++)
        found += ids[i] == self || ids[i] == node;
    CHECK(ids[count] == 0xffff && found == (self == node ? 1 : 2));
    ids[0] = ids[1] = 0xffff;
    GIVES(scif_get_node_ids(ids, 1, &self), count);
    CHECK(ids[0] != 0xffff && ids[1] == 0xffff);
    FAILS(scif_get_nodeIDs(ids, -1, &self), EINVAL);
    FAILS(scif_get_nodeIDs(NULL, 1, &self), EFAULT);
    FAILS(scif_get_nodeIDs(ids, 1, (uint16_t *)8), EFAULT);
}

const struct pattern patterns[] = {
    { 66, "windows of whole pages", serve_windows, call_windows },
    { 67, "mappings of the pages that a length touches", serve_mapped, call_mapped },
    { 68, "transfers of exact lengths", serve_exact, call_exact },
    { 69, "numbers of nodes without places", NULL, call_places },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count;
    (void)arguments;
    printf("there is no part %s\n", part);
    return 2;
}
