/*
 * A store of blocks in memory, for clients with Scheduled Transfers: written by somebody who had the
 * API's description and st.h. `block-store-server CLIENTS` serves so many, one after the other.
 */
#include "block-store.h"

struct store {
    int s;
    st_peer_t *requests;
    char *blocks;
    char *client;         /* where the client's memory is */
    st_peer_t *records;
    char *log;
};

static void answer(struct store *store, struct request *request, enum operation operation) {
    request->operation = operation;
    need(st1_push(store->requests, request, NULL, NULL, 0) == 0, 30, "push of an answer");
}

/* Exchanges where memory is. */
static void greet(struct store *store) {
    struct request hello = { HELLO, 0, (uint64_t)(uintptr_t)store->blocks, BLOCKS * BLOCK, 0, 0 };
    need(st1_push(store->requests, &hello, NULL, NULL, 0) == 0, 31, "push of HELLO");
    need(st1_pull(store->requests, &hello, NULL, NULL, 0) == 0, 32, "pull of HELLO");
    need(hello.operation == HELLO && hello.length == BLOCK, 33, "the client's HELLO");
    store->client = (char *)(uintptr_t)hello.value;
}

/* Records come by level 0: data behind the end of the log, and a descriptor with its length. */
static void append(struct store *store, uint32_t expected) {
    size_t end = 0;
    for (uint32_t i = 0; i < expected; i++) {
        st_header_t header;
        char text[ST_OPT_SIZE];
        int length;
        need(st_rx(store->records, &header, text, &length) == 0, 34, "st_rx");
        need(ST_OP_CODE(header.op) == ST_OP_DATA, 35, "the operation of a record");
        need(header.s_port == get_option(store->s, ST_R_PORT), 36, "the port of a record");
        need(header.sync == i && length > 0, 37, "the number of a record");
        size_t place = ((size_t)header.bufx << 12) + header.offset;
        need(place == end, 38, "the place of a record");
        need(!memcmp(store->log + place, text, 8), 39, "the data of a record");
        end += (size_t)length;
    }
}

static void serve(struct store *store) {
    struct request request;
    for (;;) {
        need(st1_pull(store->requests, &request, NULL, NULL, 0) == 0, 40, "pull of a request");
        need(request.block < BLOCKS && request.other < BLOCKS, 41, "the number of a block");
        char *block = store->blocks + request.block * BLOCK;
        switch (request.operation) {
        case PUT:
            request.count = sum(block, BLOCK) == request.value;
            answer(store, &request, request.count ? DONE : FAILED);
            break;
        case COMMIT:
            request.count = sum(block, request.count * BLOCK) == request.value;
            answer(store, &request, request.count ? DONE : FAILED);
            break;
        case STAMP: /* the client reads the block behind this answer */
            memset(block, (int)request.value, BLOCK);
            answer(store, &request, DONE);
            break;
        case SWAP: { /* one block to the client; it reads another behind the header */
            request.operation = DONE;
            need(st1_push(store->requests, &request, block, store->client, BLOCK) == 0, 42,
                 "PUT to the client");
            break;
        }
        case CLOSE_STORE:
            append(store, request.count);
            need(st_unmap(store->requests, (void **)&store->blocks, BLOCKS * BLOCK) == 0, 43,
                 "unmap");
            need(store->blocks == NULL, 44, "the pointer after unmap");
            answer(store, &request, DONE);
            return;
        default:
            need(0, 45, "an unknown request");
        }
    }
}

int main(int count, char **arguments) {
    int clients = count > 1 ? atoi(arguments[1]) : 1;
    int listener = store_socket(128);
    struct sockaddr_in address = store_address(-1);
    need(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, 20, "bind");
    int flag = 0;
    need(setsockopt(listener, IPPROTO_STP, ST_BYPASS, &flag, sizeof flag) < 0, 21,
         "disabling the bypass after bind is erroneous");
    need(listen(listener, 5) == 0, 22, "listen");
    while (clients > 0) {
        struct store store = { 0 };
        store.s = accept(listener, NULL, NULL);
        /* A client whose configuration is invalid. */
        if (store.s < 0)
            continue;
        need(get_option(store.s, ST_BYPASS) == 1, 23, "the bypass of an accepted socket");
        need(get_option(store.s, ST_R_NUMSLOTS) == 32, 24, "the client's slots");
        need(st_attach(store.s, REQUESTS, 0, &store.requests) == 0, 25, "attach");
        need(st_attach(store.s, RECORDS, 0, &store.records) == 0, 26, "attach of channel 1");
        need(st_map(store.requests, (void **)&store.blocks, BLOCKS * BLOCK) == 0, 27, "map");
        need(st_map(store.records, (void **)&store.log, BLOCK) == 0, 28, "map of the log");
        greet(&store);
        serve(&store);
        /* The client's last header waits for whoever attaches next. */
        struct request last;
        need(st_detach(&store.requests) == 0 && store.requests == NULL, 50, "detach");
        need(st_attach(store.s, REQUESTS, 0, &store.requests) == 0, 51, "attach again");
        need(st1_pull(store.requests, &last, NULL, NULL, 0) == 0, 52, "the last header");
        need(last.operation == DONE && last.value == 77, 53, "what the last header says");
        /* Then the end. */
        need(st1_pull(store.requests, &last, NULL, NULL, 0) < 0, 54, "a pull behind the end");
        need(errno == ECONNRESET, 55, "the error behind the end");
        need(st_detach(&store.requests) == 0 && st_detach(&store.records) == 0, 56, "detach all");
        need(close(store.s) == 0, 57, "close");
        clients--;
    }
    need(close(listener) == 0, 58, "close of the listener");
    printf("block-store-server: ok\n");
    return 0;
}
