/*
 * Products of matrices by a worker on another node, with each of the six combinations of push and
 * pull: the host has two factors, the worker fetches or is given them and returns the product.
 *
 * `st-matrix work` is the worker, `st-matrix host NAME` the host of that worker. Written from the
 * API's description: only sockets and the calls of st.h.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <st.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 3120, ROUNDS = 12, N = 96, TRIES = 300 };

typedef uint32_t matrix[N][N];

/* What each side has mapped for the other one. */
struct area {
    matrix x, y, product;
    uint64_t told; /* the round whose x is there: stored by PUTs that nobody is told of */
};

/* What a header says here. */
struct message {
    struct area *area; /* where the sender's mapped memory is */
    uint64_t round, unused[2];
};
_Static_assert(sizeof(struct message) == ST1_HDR_SIZE, "a header has 32 bytes");

static struct area *own, *other;
static st_peer_t *peer;

static void need(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "st-matrix: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void fill(matrix m, uint32_t seed) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            m[i][j] = (uint32_t)(i * 7919 + j * 104729) * (seed + 1) + seed;
}

static void multiply(matrix x, matrix y, matrix product) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            uint32_t sum = 0;
            for (int k = 0; k < N; k++)
                sum += x[i][k] * y[k][j];
            product[i][j] = sum;
        }
}

static int stream(void) {
    int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP), flag = 1;
    need(fd >= 0, "socket");
    need(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &flag, sizeof flag) == 0, "ST_BYPASS");
    return fd;
}

static int accepted(void) {
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    int listener = stream();
    need(bind(listener, (struct sockaddr *)&any, sizeof any) == 0, "bind");
    need(listen(listener, 1) == 0, "listen");
    int fd = accept(listener, NULL, NULL);
    need(fd >= 0, "accept");
    close(listener);
    return fd;
}

static int connected(const char *name) {
    struct addrinfo hints = { .ai_family = AF_INET }, *found;
    need(getaddrinfo(name, NULL, &hints, &found) == 0, "no such name");
    struct sockaddr_in address = *(struct sockaddr_in *)found->ai_addr;
    address.sin_port = htons(PORT);
    freeaddrinfo(found);
    for (int tries = 0; tries < TRIES; tries++, usleep(100000)) {
        int fd = stream();
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        need(errno == ECONNREFUSED || errno == EHOSTUNREACH, "connect");
        close(fd);
    }
    need(0, "connect");
    return -1;
}

/* Combination 1: a header each way, with the place of the memory. */
static void meet(void) {
    struct message message = { .area = own };
    need(st1_push(peer, &message, NULL, NULL, 0) == 0, "push");
    need(st1_pull(peer, &message, NULL, NULL, 0) == 0, "pull");
    other = message.area;
}

/* The product comes by combination 4, and is the right one. */
static void check(uint64_t round) {
    static matrix right;
    struct message message;
    need(st1_pull(peer, &message, NULL, NULL, 0) == 0, "the product's header");
    need(message.round == round, "another round");
    multiply(own->x, own->y, right);
    need(memcmp(right, own->product, sizeof right) == 0, "a wrong product");
}

static void host(void) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        struct message message = { .area = own, .round = round };
        fill(own->x, (uint32_t)(2 * round));
        fill(own->y, (uint32_t)(2 * round + 1));
        own->told = round;
        switch (round % 3) {
        case 0: /* 2: the worker looks at its memory; its GET of y is combination 3 */
            need(st1_push(peer, NULL, own->x, other->x, sizeof own->x) == 0, "put");
            need(st_fence(peer) == 0, "fence");
            need(st1_push(peer, NULL, &own->told, &other->told, sizeof own->told) == 0, "put");
            break;
        case 1: /* 5: a header; the worker's pull gets y, and then x */
            need(st1_push(peer, &message, NULL, NULL, 0) == 0, "push");
            break;
        case 2: /* 4 or 6: x, then a header; the worker's pull gets y */
            need(st1_push(peer, &message, own->x, other->x, sizeof own->x) == 0, "put and push");
            break;
        }
        check(round);
    }
}

static void work(void) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        struct message message = { .round = round };
        if (round % 3 == 0) {
            while (__atomic_load_n(&own->told, __ATOMIC_ACQUIRE) != round)
                usleep(100);
            need(st1_pull(peer, NULL, own->y, other->y, sizeof own->y) == 0, "get");
        } else {
            need(st1_pull(peer, &message, own->y, other->y, sizeof own->y) == 0, "pull and get");
            need(message.round == round, "another round");
        }
        if (round % 3 == 1)
            need(st1_pull(peer, NULL, own->x, other->x, sizeof own->x) == 0, "get");
        multiply(own->x, own->y, own->product);
        need(st1_push(peer, &message, own->product, other->product, sizeof own->product) == 0,
             "put of the product");
    }
}

int main(int argc, char **argv) {
    int is_worker = argc == 2 && strcmp(argv[1], "work") == 0;
    if (!is_worker && !(argc == 3 && strcmp(argv[1], "host") == 0)) {
        fprintf(stderr, "usage: st-matrix work | st-matrix host NAME\n");
        return 64;
    }
    int fd = is_worker ? accepted() : connected(argv[2]);
    need(st_attach(fd, 0, 0, &peer) == 0, "attach");
    void *memory = NULL;
    need(st_map(peer, &memory, sizeof(struct area)) == 0, "map");
    own = memory;
    meet();
    is_worker ? work() : host();
    /* The last product is taken before its memory goes. */
    meet();
    need(st_unmap(peer, &memory, sizeof(struct area)) == 0, "unmap");
    need(st_detach(&peer) == 0 && peer == NULL, "detach");
    close(fd);
    printf("st-matrix: %d products\n", ROUNDS);
    return 0;
}
