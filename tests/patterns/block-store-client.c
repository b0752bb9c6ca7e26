/*
 * A client of block-store-server: PUTs blocks with headers and without, fences, GETs them, appends
 * records by level 0 and detaches, twice. `block-store-client NODE`.
 */
#include "block-store.h"

static char buffer[2 * BLOCK];

static void make_block(char *block, unsigned number, unsigned version) {
    for (unsigned i = 0; i < BLOCK; i++)
        block[i] = (char)(i * 7 + number * 3 + version);
}

static int open_store(int node) {
    struct sockaddr_in address = store_address(node);
    for (int tries = 0;; tries++) {
        int s = store_socket(32);
        if (connect(s, (struct sockaddr *)&address, sizeof address) == 0)
            return s;
        need((errno == ECONNREFUSED || errno == EHOSTUNREACH) && tries < 600, 60, "connect");
        close(s);
        usleep(100000);
    }
}

/* What is configured wrongly is found by connect. */
static void open_wrongly(int node) {
    struct sockaddr_in address = store_address(node);
    int s = store_socket(33);
    need(connect(s, (struct sockaddr *)&address, sizeof address) < 0, 61, "33 slots");
    need(errno == EINVAL, 62, "the error of 33 slots");
    close(s);
    s = store_socket(32);
    int flag = 0;
    need(setsockopt(s, IPPROTO_STP, ST_BYPASS, &flag, sizeof flag) == 0, 63, "bypass off");
    need(connect(s, (struct sockaddr *)&address, sizeof address) < 0, 64, "no bypass");
    need(errno == ECONNREFUSED, 65, "the error without bypass");
    close(s);
}

static void ask(st_peer_t *peer, struct request *request) {
    need(st1_push(peer, request, NULL, NULL, 0) == 0, 66, "push of a request");
    need(st1_pull(peer, request, NULL, NULL, 0) == 0, 67, "pull of an answer");
    need(request->operation == DONE, 68, "the answer");
}

/* As many PUTs under way as the client has slots for answers. */
static void put_all(st_peer_t *peer, char *store, int slots) {
    int answered = 0;
    for (int i = 0; i < BLOCKS || answered < BLOCKS;) {
        if (i < BLOCKS && i - answered < slots) {
            make_block(buffer, (unsigned)i, 1);
            struct request put = { PUT, (uint32_t)i, sum(buffer, BLOCK), 0, 0, 0 };
            need(st1_push(peer, &put, buffer, store + i * BLOCK, BLOCK) == 0, 70, "PUT");
            i++;
            continue;
        }
        struct request done;
        need(st1_pull(peer, &done, NULL, NULL, 0) == 0, 71, "pull of an answer to PUT");
        need(done.operation == DONE, 72, "a block's sum");
        need(done.block == (uint32_t)answered++, 73, "the order of answers");
    }
}

static void get(st_peer_t *peer, char *store, int number, unsigned version) {
    static char expected[BLOCK];
    make_block(expected, (unsigned)number, version);
    memset(buffer, 0, BLOCK);
    need(st1_pull(peer, NULL, buffer, store + number * BLOCK, BLOCK) == 0, 74, "GET");
    need(!memcmp(buffer, expected, BLOCK), 75, "what GET has brought");
}

/* PUTs that nobody notices, a fence, and one header for all of them. */
static void commit(st_peer_t *peer, char *store) {
    enum { FIRST = 8, COUNT = 16 };
    static char blocks[COUNT * BLOCK];
    for (int i = 0; i < COUNT; i++) {
        make_block(blocks + i * BLOCK, FIRST + (unsigned)i, 2);
        char *place = store + (FIRST + i) * BLOCK;
        need(st1_push(peer, NULL, blocks + i * BLOCK, place, BLOCK) == 0, 76, "silent PUT");
    }
    need(st_fence(peer) == 0, 77, "fence");
    need(st_flush(peer) == 0, 78, "flush");
    struct request request = { COMMIT, FIRST, sum(blocks, sizeof blocks), 0, 0, COUNT };
    ask(peer, &request);
}

/* GET behind a header, and PUT by the server, a header and GET. */
static void read_behind_headers(st_peer_t *peer, char *store, char *window) {
    struct request request = { STAMP, 5, 0x5a, 0, 0, 0 };
    need(st1_push(peer, &request, NULL, NULL, 0) == 0, 80, "STAMP");
    need(st1_pull(peer, &request, buffer, store + 5 * BLOCK, BLOCK) == 0, 81, "header and GET");
    need(request.operation == DONE, 82, "the answer to STAMP");
    for (int i = 0; i < BLOCK; i++)
        need(buffer[i] == 0x5a, 83, "the stamped block");

    request = (struct request){ SWAP, 6, 0, 0, 7, 0 };
    need(st1_push(peer, &request, NULL, NULL, 0) == 0, 84, "SWAP");
    need(st1_pull(peer, &request, buffer, store + 7 * BLOCK, BLOCK) == 0, 85, "PUT and GET");
    make_block(buffer + BLOCK, 6, 1);
    need(!memcmp(window, buffer + BLOCK, BLOCK), 86, "what the server has PUT");
    make_block(buffer + BLOCK, 7, 1);
    need(!memcmp(buffer, buffer + BLOCK, BLOCK), 87, "what GET has brought behind the PUT");
}

/* Records of different lengths behind each other, each with a descriptor of level 0. */
static uint32_t append(st_peer_t *records) {
    void *log = NULL;
    need(st_map(records, &log, BLOCK) == 0, 90, "map of the log");
    uint32_t count = 0;
    int length = 100;
    for (size_t end = 0; end + (size_t)length <= BLOCK; count++, length += 37) {
        char *text = (char *)log + end;
        for (int i = 0; i < length; i++)
            text[i] = (char)(count + (unsigned)i);
        st_header_t header;
        memset(&header, 0, sizeof header);
        header.op = ST_OP(ST_OP_DATA);
        header.bufx = (uint32_t)(end >> 12);
        header.offset = end & 0xfff;
        header.sync = count;
        char payload[ST_OPT_SIZE] = { 0 };
        memcpy(payload, text, 8);
        need(st_tx(records, &header, payload, length, (int)(end >> 12), (int)(end & 0xfff)) == 0,
             91, "st_tx");
        end += (size_t)length;
    }
    return count;
}

static void use_store(int node) {
    int s = open_store(node);
    int slots = get_option(s, ST_L_NUMSLOTS);
    need(slots == 32 && get_option(s, ST_R_NUMSLOTS) == 128, 69, "the slots of both");
    st_peer_t *peer, *records;
    need(st_attach(s, REQUESTS, 0, &peer) == 0, 100, "attach");
    need(st_attach(s, RECORDS, 0, &records) == 0, 101, "attach of channel 1");
    /* The client's memory is its own. */
    void *window = malloc(BLOCK);
    need(window != NULL, 102, "malloc");
    need(st_map(peer, &window, BLOCK) == 0, 103, "map of own memory");
    struct request hello;
    need(st1_pull(peer, &hello, NULL, NULL, 0) == 0, 104, "HELLO");
    need(hello.operation == HELLO && hello.length == BLOCKS * BLOCK, 105, "the store's size");
    char *store = (char *)(uintptr_t)hello.value;
    hello = (struct request){ HELLO, 0, (uint64_t)(uintptr_t)window, BLOCK, 0, 0 };
    need(st1_push(peer, &hello, NULL, NULL, 0) == 0, 106, "push of HELLO");

    put_all(peer, store, slots);
    for (int i = 0; i < BLOCKS; i++)
        get(peer, store, i, 1);
    commit(peer, store);
    for (int i = 0; i < BLOCKS; i++)
        get(peer, store, i, i >= 8 && i < 24 ? 2 : 1);
    read_behind_headers(peer, store, window);

    struct request request = { CLOSE_STORE, 0, 0, 0, 0, append(records) };
    ask(peer, &request);
    /* The store's memory has been taken back. */
    need(st1_push(peer, NULL, buffer, store, 1) < 0, 110, "PUT after the store closed");
    need(errno == ENXIO, 111, "the error of a PUT after the store closed");
    request.value = 77;
    need(st1_push(peer, &request, NULL, NULL, 0) == 0, 112, "push of the last header");
    need(st_unmap(peer, &window, BLOCK) == 0, 113, "unmap of own memory");
    need(window != NULL, 114, "own memory stays");
    free(window);
    need(st_detach(&peer) == 0 && peer == NULL, 115, "detach");
    need(st_detach(&records) == 0, 116, "detach of channel 1");
    need(close(s) == 0, 117, "close");
}

int main(int count, char **arguments) {
    need(count == 2, 2, "usage: block-store-client NODE");
    int node = atoi(arguments[1]);
    use_store(node);
    open_wrongly(node);
    use_store(node);
    printf("block-store-client: ok\n");
    return 0;
}
