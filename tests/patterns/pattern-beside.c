/* Transfers change nothing beside their target: pattern 63. */
#include "orders.h"

#define COUNT(array) (sizeof array / sizeof *array)

/*
 * 63: transfers of virtual addresses change nothing but their target, whoever stores beside it, and
 * bring what is there.
 */
enum { BESIDE_PAGES = 80, BESIDE_FIRST = 700, BESIDE_SECOND = 1000, BESIDE_BEFORE = 9 };

/* What the calling side has written: `length` bytes of a buffer that was filled with `seed` but for
 * two words, once from byte BESIDE_SECOND on and before that their beginning, BESIDE_FIRST bytes at
 * most. Length 0: no more. */
struct written {
    uint64_t length;
    uint32_t seed;
    /* Whether the words were at rest, and then their values. */
    uint32_t at_rest, words[2];
};

static size_t place_of_word(size_t length, int word) {
    return word ? (length - 8) & ~(size_t)7 : 0;
}

/* Whether a byte is of one of the two words. */
static int is_of_word(size_t i, size_t length) {
    return i - place_of_word(length, 0) < 4 || i - place_of_word(length, 1) < 4;
}

/* How many of the first `count` bytes have arrived. A word that changes meanwhile may arrive as no
 * value that it ever had. */
static size_t arrived(const unsigned char *place, size_t count, const struct written *written) {
    for (size_t i = 0; i < count; i++)
        if (!is_of_word(i, written->length) && place[i] != byte_at(i, written->seed))
            return i;
    for (int word = 0; word < 2 && written->at_rest; word++) {
        size_t at = place_of_word(written->length, word);
        if (at + 4 <= count && memcmp(place + at, &written->words[word], 4))
            return at;
    }
    return count;
}

/* Whether all has arrived and nothing else has changed. */
static int64_t is_all_written(const unsigned char *memory, const struct written *written) {
    size_t first = written->length < BESIDE_FIRST ? written->length : BESIDE_FIRST;
    size_t second = written->length > BESIDE_FIRST ? written->length : 0;
    size_t end = BESIDE_SECOND + second, gap = BESIDE_SECOND - first, rest = BESIDE_PAGES * PAGE - end;
    return arrived(memory, first, written) == first
        && mismatch_part(memory + first, first, gap, BESIDE_BEFORE) == gap
        && arrived(memory + BESIDE_SECOND, second, written) == second
        && mismatch_part(memory + end, end, rest, BESIDE_BEFORE) == rest;
}

static void serve_beside(void) {
    scif_epd_t on = listener(2063, 4);
    unsigned char *memory = NULL;
    size_t length = BESIDE_PAGES * PAGE;
    GIVES(posix_memalign((void **)&memory, PAGE, length), 0);
    for (;;) {
        scif_epd_t epd = accept_one(on);
        fill_part(memory, 0, length, BESIDE_BEFORE);
        off_t offset = scif_register(epd, memory, length, 0, ALL, 0);
        CHECK(offset != SCIF_REGISTER_FAILED);
        tell_number(epd, offset);
        for (;;) {
            struct written written;
            recv_all(epd, &written, sizeof written);
            if (written.length == 0)
                break;
            tell_number(epd, is_all_written(memory, &written));
        }
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

/* Fills the source but for its words, writes it and has the peer compare what has arrived. */
static void write_part(scif_epd_t epd, unsigned char *part, off_t remote, int flags,
                       struct written *written) {
    size_t length = written->length;
    written->seed++;
    for (size_t i = 0; i < length; i++)
        if (!is_of_word(i, length))
            part[i] = byte_at(i, written->seed);
    size_t first = length < BESIDE_FIRST ? length : BESIDE_FIRST;
    GIVES(scif_vwriteto(epd, part, first, remote, flags), 0);
    if (length > BESIDE_FIRST)
        GIVES(scif_vwriteto(epd, part, length, remote + BESIDE_SECOND, flags), 0);
    send_all(epd, written, sizeof *written);
    GIVES(told_number(epd), 1);
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
        struct written written = { length, 30, 0, { 0 } };
        /* Right before and right behind; into a source itself, too. */
        beside.words[0] = (uint32_t *)(void *)(part - 8);
        beside.words[1] = (uint32_t *)(void *)(memory + ((72 + length + 7) & ~(size_t)7));
        for (int word = 0; word < 2 && !reads; word++)
            beside.words[2 + word] = (uint32_t *)(void *)(part + place_of_word(length, word));
        pthread_t other;
        GIVES(pthread_create(&other, NULL, storing_thread, &beside), 0);
        for (int round = 0; round < 40; round++) {
            int flags = round % 3 == 2 ? SCIF_RMA_USECACHE | SCIF_RMA_SYNC : SCIF_RMA_SYNC;
            if (reads) {
                GIVES(scif_vreadfrom(epd, part, length, remote + 1000, flags), 0);
                CHECK(mismatch_part(part, 1000, length, BESIDE_BEFORE) == length);
            } else {
                write_part(epd, part, remote, flags, &written);
            }
        }
        __atomic_store_n(&beside.stop, 1, __ATOMIC_SEQ_CST);
        GIVES(pthread_join(other, NULL), 0);
        for (size_t word = 0; word < COUNT(beside.words); word++)
            if (beside.words[word])
                CHECK(*beside.words[word] == beside.counts[word]);
        if (!reads) {
            written.at_rest = 1;
            memcpy(written.words, &beside.counts[2], sizeof written.words);
            write_part(epd, part, remote, SCIF_RMA_SYNC, &written);
        }
        written.length = 0;
        send_all(epd, &written, sizeof written);
        free(memory);
        tell(epd, i + 1 == 2 * COUNT(sizes) ? 'q' : 'n');
        expect(epd, 'k');
        GIVES(scif_close(epd), 0);
    }
}

const struct pattern patterns[] = {
    { 63, "transfers change nothing beside their target", serve_beside, call_beside },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    printf("there is no part %s\n", part);
    return 2;
}
