/*
 * What block-store-server.c and block-store-client.c share: a store of blocks in the server's
 * memory, written and read by clients with Scheduled Transfers.
 */
#ifndef BLOCK_STORE_H
#define BLOCK_STORE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <st.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STORE_PORT 3095
#define BLOCK 8192
#define BLOCKS 64

/* Requests and answers travel on channel 0 as headers of level 1, appended records on channel 1. */
enum { REQUESTS, RECORDS };

enum operation { HELLO = 1, PUT, COMMIT, STAMP, SWAP, CLOSE_STORE, DONE, FAILED };

/* A header of level 1. */
struct request {
    uint32_t operation;
    uint32_t block;
    uint64_t value;  /* PUT: the block's sum; COMMIT: of all blocks; HELLO: the sender's memory */
    uint64_t length; /* HELLO: the memory's */
    uint32_t other;  /* SWAP: the block that is read back */
    uint32_t count;  /* COMMIT: blocks from `block` */
};

/* Ends the program; each check has a status of its own. */
static void need(int condition, int status, const char *what) {
    if (condition)
        return;
    int error = errno;
    printf("block-store: FAIL %d: %s (errno %d: %s)\n", status, what, error, strerror(error));
    fflush(stdout);
    _exit(status);
}

static inline uint64_t sum(const void *data, size_t length) {
    const unsigned char *bytes = data;
    uint64_t sum = 1;
    for (size_t i = 0; i < length; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

/* Steps 1 to 3 of the API's description: a socket, the bypass, its options. */
static inline int store_socket(int slots) {
    int s = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
    need(s >= 0, 10, "socket");
    int flag = 1, size = sizeof(int);
    need(setsockopt(s, IPPROTO_STP, ST_BYPASS, &flag, size) == 0, 11, "enable the bypass");
    need(setsockopt(s, IPPROTO_STP, ST_L_NUMSLOTS, &slots, size) == 0, 12, "ST_L_NUMSLOTS");
    return s;
}

static inline int get_option(int s, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    need(getsockopt(s, IPPROTO_STP, name, &value, &size) == 0, 13, "getsockopt");
    need(size == sizeof value, 14, "the length of an option");
    return value;
}

static inline struct sockaddr_in store_address(int node) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = PF_INET;
    address.sin_port = htons(STORE_PORT);
    address.sin_addr.s_addr = htonl(node < 0 ? INADDR_ANY : 0x0a000001u + (unsigned)node);
    return address;
}

#endif
