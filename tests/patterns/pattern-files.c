/* Files: bytes by `read` and `write` of descriptors of the scheme: patterns 80 to 84. */
#include "pattern.h"
#include <poll.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { MEBIBYTE = 1 << 20, PIECE = 64 << 10 };

static void write_all(int fd, const char *data, size_t length) {
    GIVES(write(fd, data, length), length);
}

static void read_all(int fd, char *data, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t count = read(fd, data + done, length - done);
        CHECK(count > 0);
        done += (size_t)count;
    }
}

/* Opens the path of a peer's port, however long it takes until somebody listens there. */
static int open_path(uint16_t node, int port, int flags) {
    char path[40];
    snprintf(path, sizeof path, "/scheme/scif/%u/%d", node, port);
    for (int tries = 0;; tries++) {
        int fd = open(path, flags);
        if (fd >= 0)
            return fd;
        CHECK(errno == ECONNREFUSED || errno == ENODEV);
        CHECK(tries < TIMEOUT_MS / 2);
        pause_shortly();
    }
}

/* 80: long and short pieces there and back. Short ones take no request of the driver each. */
enum { ROUNDS = 1000 };

static void serve_pieces(void) {
    scif_epd_t epd = serve_one(2080);
    char *data = malloc(MEBIBYTE);
    CHECK(data != NULL);
    read_all(epd, data, MEBIBYTE);
    write_all(epd, data, MEBIBYTE);
    for (int round = 0; round < ROUNDS; round++) {
        read_all(epd, data, 64);
        write_all(epd, data, 64);
    }
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
    free(data);
}

static void call_pieces(uint16_t node) {
    int fd = open_path(node, 2080, O_RDWR);
    char *data = malloc(MEBIBYTE), *back = calloc(1, MEBIBYTE);
    CHECK(data != NULL && back != NULL);
    fill(data, MEBIBYTE, 80);
    for (int at = 0; at < MEBIBYTE; at += PIECE)
        write_all(fd, data + at, PIECE);
    read_all(fd, back, MEBIBYTE);
    CHECK(mismatch(back, MEBIBYTE, 80) == MEBIBYTE);
    long before = stat_number("requests");
    for (int round = 0; round < ROUNDS; round++) {
        write_all(fd, data + round, 64);
        read_all(fd, back, 64);
        CHECK(!memcmp(back, data + round, 64));
    }
    /* Programs of one node wait for each other, and both of them are this driver's. */
    long requests = stat_number("requests") - before;
    if (node != own_node() && requests >= ROUNDS)
        failed(__FILE__, __LINE__, "%d round trips took %ld requests", ROUNDS, requests);
    tell(fd, 'k');
    GIVES(close(fd), 0);
    free(data);
    free(back);
}

/* 81: a descriptor that does not wait moves what can be moved. */
enum { LOOKS = 100 };

static void serve_now(void) {
    scif_epd_t epd = serve_one(2081);
    int total = (int)told_number(epd);
    char *data = malloc(total);
    CHECK(data != NULL);
    tell(epd, 'r');
    read_all(epd, data, total);
    CHECK(mismatch(data, total, 81) == (size_t)total);
    tell(epd, 'k');
    expect(epd, 'c');
    GIVES(scif_close(epd), 0);
    free(data);
}

static void call_now(uint16_t node) {
    int fd = open_path(node, 2081, O_RDWR);
    static char data[4 * MEBIBYTE];
    fill(data, sizeof data, 81);
    char byte;
    /* Without the rings, and with them, which come after some calls that succeed. */
    for (int with = 0; with < 2; with++) {
        GIVES(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        long before = stat_number("requests");
        for (int i = 0; i < LOOKS; i++)
            FAILS(read(fd, &byte, 1), EAGAIN);
        long requests = stat_number("requests") - before;
        if (node != own_node() && (requests >= LOOKS) == with)
            failed(__FILE__, __LINE__, "%d looks took %ld requests", LOOKS, requests);
        GIVES(fcntl(fd, F_SETFL, 0), 0);
        if (with == 0) {
            int64_t number = 3 * MEBIBYTE;
            for (size_t i = 0; i < sizeof number; i++)
                write_all(fd, (char *)&number + i, 1);
            expect(fd, 'r');
        }
    }
    GIVES(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    size_t total = 0;
    int was_full = 0;
    while (total < 3 * MEBIBYTE) {
        size_t left = 3 * MEBIBYTE - total;
        ssize_t count = write(fd, data + total, left);
        if (count < 0) {
            GIVES(errno, EAGAIN);
            was_full = 1;
            struct pollfd entry = { fd, POLLOUT, 0 };
            GIVES(poll(&entry, 1, TIMEOUT_MS), 1);
            GIVES(entry.revents, POLLOUT);
            continue;
        }
        CHECK(count > 0);
        total += (size_t)count;
    }
    CHECK(was_full);
    struct pollfd entry = { fd, POLLIN, 0 };
    GIVES(poll(&entry, 1, TIMEOUT_MS), 1);
    GIVES(read(fd, &byte, 1), 1);
    CHECK(byte == 'k');
    FAILS(read(fd, &byte, 1), EAGAIN);
    GIVES(fcntl(fd, F_SETFL, 0), 0);
    tell(fd, 'c');
    /* The peer closes: the end is an error, as for scif_recv. */
    FAILS(read(fd, &byte, 1), ECONNRESET);
    FAILS(write(fd, &byte, 1), ECONNRESET);
    GIVES(close(fd), 0);
}

/* 82: a descriptor for one direction does not serve the other one, however often it is tried. */
static void serve_half(void) {
    scif_epd_t epd = serve_one(2082);
    char data[10];
    read_all(epd, data, sizeof data);
    CHECK(!memcmp(data, "0123456789", sizeof data));
    GIVES(scif_close(epd), 0);
}

static void call_half(uint16_t node) {
    int fd = open_path(node, 2082, O_WRONLY);
    char byte;
    for (int i = 0; i < 10; i++) {
        write_all(fd, &"0123456789"[i], 1);
        FAILS(read(fd, &byte, 1), EBADF);
    }
    GIVES(close(fd), 0);
}

/* 83: copies of a descriptor, by dup and in a child, and calls of SCIF between them. */
static void serve_copies(void) {
    scif_epd_t epd = serve_one(2083);
    char *data = malloc(60 * 1000);
    CHECK(data != NULL);
    read_all(epd, data, 60 * 1000);
    CHECK(mismatch(data, 60 * 1000, 83) == 60 * 1000);
    write_all(epd, data, 1000);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
    free(data);
}

static void call_copies(uint16_t node) {
    int fd = open_path(node, 2083, O_RDWR);
    char *data = malloc(60 * 1000);
    CHECK(data != NULL);
    fill(data, 60 * 1000, 83);
    int copy = dup(fd);
    CHECK(copy >= 0);
    for (int i = 0; i < 40; i++) {
        if (i % 3 == 2)
            send_all(fd, data + 1000 * i, 1000);
        else
            write_all(i % 3 ? copy : fd, data + 1000 * i, 1000);
    }
    /* The library's own descriptors are not among those that a program may close, also after calls
     * with memory by address. */
    scif_epd_t refused = scif_open();
    struct scif_portID nowhere = { own_node(), 2083 };
    FAILS(scif_connect(refused, (struct scif_portID *)4096), EFAULT);
    FAILS(scif_connect(refused, &nowhere), ECONNREFUSED);
    GIVES(scif_close(refused), 0);
    for (int i = 3; node != own_node() && i < 100; i++)
        CHECK(i == fd || i == copy || (close(i) == -1 && errno == EBADF));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 40; i < 60; i++)
            write_all(i % 2 ? copy : fd, data + 1000 * i, 1000);
        _exit(7);
    }
    int status;
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    /* Another file at the number of the copy. */
    int other[2];
    GIVES(pipe(other), 0);
    GIVES(dup2(other[1], copy), copy);
    write_all(copy, "pipe", 4);
    char word[4], back[1000];
    read_all(other[0], word, 4);
    CHECK(!memcmp(word, "pipe", 4));
    for (size_t done = 0; done < sizeof back;) {
        /* Two parts: the second one does not wait. */
        size_t first = (sizeof back - done + 1) / 2;
        struct iovec rest[2] = {
            { back + done, first },
            { back + done + first, sizeof back - done - first },
        };
        ssize_t count = readv(fd, rest, 2);
        CHECK(count > 0);
        done += (size_t)count;
    }
    CHECK(mismatch(back, sizeof back, 83) == sizeof back);
    tell(fd, 'k');
    GIVES(close(copy) | close(other[0]) | close(other[1]) | close(fd), 0);
    free(data);
}

/* 84: long writes of two threads do not mix, also while a third one reads. */
enum { BLOCK = 100000, BLOCKS = 10 };

struct part {
    int fd;
    char letter;
};

static void *write_blocks(void *argument) {
    struct part *part = argument;
    char *block = malloc(BLOCK);
    CHECK(block != NULL);
    memset(block, part->letter, BLOCK);
    for (int i = 0; i < BLOCKS; i++)
        write_all(part->fd, block, BLOCK);
    free(block);
    return NULL;
}

static void read_blocks(int fd, int blocks) {
    char *block = malloc(BLOCK);
    CHECK(block != NULL);
    for (int i = 0; i < blocks; i++) {
        read_all(fd, block, BLOCK);
        for (int at = 1; at < BLOCK; at++)
            CHECK(block[at] == block[0]);
    }
    free(block);
}

static void serve_threads(void) {
    scif_epd_t epd = serve_one(2084);
    struct part part = { epd, 'S' };
    pthread_t writer;
    GIVES(pthread_create(&writer, NULL, write_blocks, &part), 0);
    read_blocks(epd, 2 * BLOCKS);
    GIVES(pthread_join(writer, NULL), 0);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

static void call_threads(uint16_t node) {
    int fd = open_path(node, 2084, O_RDWR);
    struct part parts[2] = { { fd, 'A' }, { fd, 'B' } };
    pthread_t writers[2];
    for (int i = 0; i < 2; i++)
        GIVES(pthread_create(&writers[i], NULL, write_blocks, &parts[i]), 0);
    read_blocks(fd, BLOCKS);
    for (int i = 0; i < 2; i++)
        GIVES(pthread_join(writers[i], NULL), 0);
    tell(fd, 'k');
    GIVES(close(fd), 0);
}

/* 85: a descriptor that is closed while another thread waits in it, and whose number then means
 * another file: the call ends, and leaves that file alone. */
enum { LARGE = 4 << 20 };

static void serve_closed(void) {
    for (int round = 0; round < 2; round++) {
        scif_epd_t epd = serve_one(2085);
        char byte;
        for (int i = 0; i < 40; i++) {
            read_all(epd, &byte, 1);
            write_all(epd, &byte, 1);
        }
        /* Takes nothing more until the peer has closed. */
        wait_for_end(epd);
        GIVES(scif_close(epd), 0);
    }
}

struct call {
    int fd;
    int writes;
    char *data;
    ssize_t result;
    int error;
};

static void *wait_in_call(void *argument) {
    struct call *call = argument;
    call->result = call->writes ? write(call->fd, call->data, LARGE)
                                : read(call->fd, call->data, LARGE);
    call->error = errno;
    return NULL;
}

static void call_closed(uint16_t node) {
    static const char path[] = "/tmp/pattern-files";
    struct call call = { .data = calloc(1, LARGE) };
    CHECK(call.data != NULL);
    for (call.writes = 0; call.writes < 2; call.writes++) {
        int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(file >= 0);
        write_all(file, "the file", 8);
        GIVES(close(file), 0);
        call.fd = open_path(node, 2085, O_RDWR);
        for (int i = 0; i < 40; i++) {
            write_all(call.fd, call.data, 1);
            read_all(call.fd, call.data, 1);
        }
        if (call.writes) {
            /* No room is left, so that the call moves nothing. */
            GIVES(fcntl(call.fd, F_SETFL, O_NONBLOCK), 0);
            while (write(call.fd, call.data, 4096) > 0)
                ;
            CHECK(errno == EAGAIN);
            GIVES(fcntl(call.fd, F_SETFL, 0), 0);
        }
        pthread_t thread;
        GIVES(pthread_create(&thread, NULL, wait_in_call, &call), 0);
        usleep(300 * 1000);
        GIVES(close(call.fd), 0);
        GIVES(open(path, O_RDWR), call.fd);
        GIVES(pthread_join(thread, NULL), 0);
        CHECK(call.result == -1 && call.error == EBADF);
        GIVES(lseek(call.fd, 0, SEEK_CUR), 0);
        GIVES(lseek(call.fd, 0, SEEK_END), 8);
        GIVES(close(call.fd), 0);
    }
    GIVES(unlink(path), 0);
    free(call.data);
}

const struct pattern patterns[] = {
    { 80, "bytes by read and write", serve_pieces, call_pieces },
    { 81, "files that do not wait", serve_now, call_now },
    { 82, "a file for one direction", serve_half, call_half },
    { 83, "copies of a file", serve_copies, call_copies },
    { 84, "files and threads", serve_threads, call_threads },
    { 85, "a file closed by another thread", serve_closed, call_closed },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
