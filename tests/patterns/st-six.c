/*
 * The six combinations of push and pull, one after the other: the shortest program for st.h, and a
 * part of the demo. `st-six serve` is process B of each, `st-six call NODE` process A.
 *
 * Both print the sum of what each combination has moved, as `VALUE name: sum`: A of its own memory,
 * B of what has arrived. The demo compares them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <st.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 3090, SIZE = 256 * 1024, HALF = SIZE / 2 };

/* What a header of level 1 carries here. */
struct header {
    uint64_t step;
    char *memory; /* where the sender's mapped memory begins */
    uint64_t unused[2];
};
_Static_assert(sizeof(struct header) == ST1_HDR_SIZE, "a header has 32 bytes");

/* Ends the program with a status of its own for each step that fails. */
static void need(int condition, int status, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "st-six: %s: %s\n", what, strerror(errno));
    exit(status);
}

/* FNV-1a. */
static uint64_t sum(const void *data, size_t length) {
    const unsigned char *bytes = data;
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3;
    return sum;
}

static void moved(const char *name, const void *data, size_t length) {
    printf("VALUE %s: %016llx\n", name, (unsigned long long)sum(data, length));
    fflush(stdout);
}

static void fill(char *data, size_t length, unsigned seed) {
    for (size_t i = 0; i < length; i++)
        data[i] = (char)(i * 13 + (i >> 8) * 31 + seed);
}

static int bypass_socket(void) {
    int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP), on = 1;
    need(fd >= 0, 10, "socket");
    need(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &on, sizeof on) == 0, 11, "ST_BYPASS");
    return fd;
}

static struct sockaddr_in address_of(int node) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    address.sin_addr.s_addr = htonl(node < 0 ? INADDR_ANY : 0x0a000001 + (unsigned)node);
    return address;
}

static int accept_peer(void) {
    int listener = bypass_socket();
    struct sockaddr_in any = address_of(-1);
    need(bind(listener, (struct sockaddr *)&any, sizeof any) == 0, 12, "bind");
    need(listen(listener, 1) == 0, 13, "listen");
    int fd = accept(listener, NULL, NULL);
    need(fd >= 0, 14, "accept");
    close(listener);
    return fd;
}

static int connect_peer(int node) {
    struct sockaddr_in address = address_of(node);
    for (int tries = 0;; tries++) {
        int fd = bypass_socket();
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        /* The other node may not listen yet. */
        need((errno == ECONNREFUSED || errno == EHOSTUNREACH) && tries < 600, 15, "connect");
        close(fd);
        usleep(100000);
    }
}

/* Process A. Its memory is `own`, the peer's `far`. */
static void call(st_peer_t *peer, char *own, char *far) {
    /* 1: a header. */
    struct header header = { .step = 1, .memory = own };
    fill((char *)header.unused, sizeof header.unused, 1);
    moved("st-header", &header, sizeof header);
    need(st1_push(peer, &header, NULL, NULL, 0) == 0, 21, "push of a header");

    /* 2: PUT. Nothing tells the peer, which looks at its last byte: that follows the others. */
    fill(own, HALF, 2);
    own[HALF - 1] = 'x';
    moved("st-put", own, HALF);
    need(st1_push(peer, NULL, own, far, HALF - 1) == 0, 22, "PUT");
    need(st_fence(peer) == 0, 23, "fence");
    need(st1_push(peer, NULL, own + HALF - 1, far + HALF - 1, 1) == 0, 24, "PUT of the last byte");

    /* 3: GET by the peer, of what is in this memory already; B's header says that it has it. */
    need(st1_pull(peer, &header, NULL, NULL, 0) == 0 && header.step == 3, 25, "header after GET");
    moved("st-get", own, HALF);

    /* 4: PUT with a header. */
    fill(own, HALF, 4);
    moved("st-put-header", own, HALF);
    header.step = 4;
    need(st1_push(peer, &header, own, far, HALF) == 0, 26, "PUT with a header");

    /* 5: GET with a header: the peer waits until this memory is ready. */
    fill(own + HALF, HALF, 5);
    moved("st-get-header", own + HALF, HALF);
    header.step = 5;
    need(st1_push(peer, &header, NULL, NULL, 0) == 0, 27, "header before GET");
    need(st1_pull(peer, &header, NULL, NULL, 0) == 0 && header.step == 5, 28, "header of B's");

    /* 6: PUT from the first half, a header, and the peer's GET from the second half. */
    fill(own, HALF, 6);
    fill(own + HALF, HALF, 7);
    moved("st-both", own, SIZE);
    header.step = 6;
    need(st1_push(peer, &header, own, far, HALF) == 0, 29, "PUT before GET");
    need(st1_pull(peer, &header, NULL, NULL, 0) == 0 && header.step == 6, 30, "last header");
}

/* Process B. */
static void serve(st_peer_t *peer, char *own, char *far) {
    struct header header;
    need(st1_pull(peer, &header, NULL, NULL, 0) == 0 && header.step == 1, 41, "pull of a header");
    need(header.memory == far, 42, "the address in the header");
    /* Both print A's header. */
    moved("st-header", &header, sizeof header);

    while (*(volatile char *)(own + HALF - 1) != 'x')
        usleep(100);
    moved("st-put", own, HALF);

    memset(own + HALF, 0, HALF);
    need(st1_pull(peer, NULL, own + HALF, far, HALF) == 0, 43, "GET");
    moved("st-get", own + HALF, HALF);
    header.step = 3;
    need(st1_push(peer, &header, NULL, NULL, 0) == 0, 44, "header after GET");

    need(st1_pull(peer, &header, NULL, NULL, 0) == 0 && header.step == 4, 45, "PUT with a header");
    moved("st-put-header", own, HALF);

    need(st1_pull(peer, &header, own + HALF, far + HALF, HALF) == 0, 46, "GET with a header");
    need(header.step == 5, 47, "the header before GET");
    moved("st-get-header", own + HALF, HALF);
    need(st1_push(peer, &header, NULL, NULL, 0) == 0, 48, "header of B's");

    need(st1_pull(peer, &header, own + HALF, far + HALF, HALF) == 0, 49, "PUT and GET");
    need(header.step == 6, 50, "the header between PUT and GET");
    moved("st-both", own, SIZE);
    need(st1_push(peer, &header, NULL, NULL, 0) == 0, 51, "last header");
}

int main(int count, char **arguments) {
    int serves = count == 2 && !strcmp(arguments[1], "serve");
    if (!serves && (count != 3 || strcmp(arguments[1], "call"))) {
        fprintf(stderr, "usage: st-six serve | call NODE\n");
        return 2;
    }
    int fd = serves ? accept_peer() : connect_peer(atoi(arguments[2]));
    st_peer_t *peer;
    need(st_attach(fd, 0, 0, &peer) == 0, 16, "attach");

    /* Each maps memory, and tells the other where it is. */
    void *own = NULL;
    need(st_map(peer, &own, SIZE) == 0, 17, "map");
    struct header header = { .memory = own };
    need(st1_push(peer, &header, NULL, NULL, 0) == 0, 18, "push of the address");
    need(st1_pull(peer, &header, NULL, NULL, 0) == 0, 19, "pull of the address");
    if (serves)
        serve(peer, own, header.memory);
    else
        call(peer, own, header.memory);

    need(st_unmap(peer, &own, SIZE) == 0, 60, "unmap");
    need(st_detach(&peer) == 0, 61, "detach");
    need(close(fd) == 0, 62, "close");
    return 0;
}
