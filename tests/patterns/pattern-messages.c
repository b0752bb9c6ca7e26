/* Messages: patterns 4 to 8, 15, 18, 19 and 22 to 24. */
#include "pattern.h"

/* 4: many short sends are one receive; a header tells the length of the body. */
struct header {
    uint32_t kind;
    uint32_t length;
};

static void serve_exact(void) {
    scif_epd_t epd = serve_one(2004);
    char all[70];
    recv_all(epd, all, sizeof all);
    for (int i = 0; i < 70; i++)
        CHECK(all[i] == 'a' + i / 7);
    for (unsigned round = 0; round < 5; round++) {
        struct header header;
        recv_all(epd, &header, sizeof header);
        CHECK(header.kind == round);
        char *body = malloc(header.length);
        CHECK(body != NULL);
        recv_all(epd, body, (int)header.length);
        CHECK(mismatch(body, header.length, round) == header.length);
        free(body);
    }
    tell(epd, 'k');
    GIVES(scif_close(epd), 0);
}

static void call_exact(uint16_t node) {
    scif_epd_t epd = call_one(node, 2004);
    for (int i = 0; i < 10; i++) {
        char part[7];
        memset(part, 'a' + i, sizeof part);
        send_all(epd, part, sizeof part);
    }
    for (unsigned round = 0; round < 5; round++) {
        struct header header = { round, 1 + round * 1111 };
        char body[8192];
        fill(body, header.length, round);
        send_all(epd, &header, sizeof header);
        send_all(epd, body, (int)header.length);
    }
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

/* 5: what is there is drained by receives that do not wait, until one gives 0. */
static void serve_drain(void) {
    scif_epd_t epd = serve_one(2005);
    char data[300];
    fill(data, sizeof data, 5);
    for (int i = 0; i < 3; i++)
        send_all(epd, data + 100 * i, 100);
    expect(epd, 'd');
    GIVES(scif_close(epd), 0);
}

static void call_drain(uint16_t node) {
    scif_epd_t epd = call_one(node, 2005);
    char data[400];
    int total = 0;
    while (total < 300) {
        CHECK(wait_for(epd, SCIF_POLLIN) & SCIF_POLLIN);
        int count;
        while ((count = scif_recv(epd, data + total, (int)sizeof data - total, 0)) > 0)
            total += count;
        GIVES(count, 0);
    }
    CHECK(mismatch(data, 300, 5) == 300);
    GIVES(scif_recv(epd, data, 1, 0), 0);
    tell(epd, 'd');
    GIVES(scif_close(epd), 0);
}

/* 6: leftover input is thrown away byte by byte. */
static void serve_flush(void) {
    scif_epd_t epd = serve_one(2006);
    send_all(epd, "leftover input...", 17);
    expect(epd, 'f');
    send_all(epd, "fresh", 5);
    expect(epd, 'e');
    GIVES(scif_close(epd), 0);
}

static void call_flush(uint16_t node) {
    scif_epd_t epd = call_one(node, 2006);
    int total = 0;
    char byte;
    while (total < 17) {
        wait_for(epd, SCIF_POLLIN);
        int count;
        while ((count = scif_recv(epd, &byte, 1, 0)) == 1)
            total++;
        GIVES(count, 0);
    }
    GIVES(total, 17);
    tell(epd, 'f');
    char text[5];
    recv_all(epd, text, 5);
    CHECK(!memcmp(text, "fresh", 5));
    tell(epd, 'e');
    GIVES(scif_close(epd), 0);
}

/* 7: the peer closes with data under way: all of it arrives, then ECONNRESET. */
static void serve_closing(void) {
    scif_epd_t epd = serve_one(2007);
    char data[3000];
    fill(data, sizeof data, 7);
    send_all(epd, data, sizeof data);
    GIVES(scif_close(epd), 0);
}

static void call_closing(uint16_t node) {
    scif_epd_t epd = call_one(node, 2007);
    wait_for_end(epd);
    struct scif_pollepd entry = { epd, SCIF_POLLIN, 0 };
    GIVES(scif_poll(&entry, 1, 0), 1);
    GIVES(entry.revents, SCIF_POLLIN | SCIF_POLLHUP);
    char data[4000];
    GIVES(scif_recv(epd, data, 2000, SCIF_RECV_BLOCK), 2000);
    GIVES(scif_recv(epd, data + 2000, 2000, SCIF_RECV_BLOCK), 1000);
    CHECK(mismatch(data, 3000, 7) == 3000);
    FAILS(scif_recv(epd, data, 1, SCIF_RECV_BLOCK), ECONNRESET);
    FAILS(scif_recv(epd, data, 1, 0), ECONNRESET);
    GIVES(scif_poll(&entry, 1, 0), 1);
    GIVES(entry.revents, SCIF_POLLHUP);
    GIVES(scif_close(epd), 0);
}

/* 8: a send after the peer has closed fails; only a fresh endpoint can connect again. */
static void serve_again(void) {
    scif_epd_t on = listener(2008, 4);
    for (int i = 0; i < 2; i++) {
        scif_epd_t epd = accept_one(on);
        expect(epd, 'a');
        GIVES(scif_close(epd), 0);
    }
    GIVES(scif_close(on), 0);
}

static void call_again(uint16_t node) {
    for (int i = 0; i < 2; i++) {
        scif_epd_t epd = call_one(node, 2008);
        tell(epd, 'a');
        wait_for_end(epd);
        FAILS(scif_send(epd, "x", 1, SCIF_SEND_BLOCK), ECONNRESET);
        FAILS(scif_send(epd, "x", 1, 0), ECONNRESET);
        struct scif_portID to = { node, 2008 };
        FAILS(scif_connect(epd, &to), EINVAL);
        GIVES(scif_close(epd), 0);
    }
}

/* 15: a connection that its maker has closed by the time it is looked at. */
static void serve_gone(void) {
    scif_epd_t on = listener(2015, 4);
    scif_epd_t epd = accept_one(on);
    wait_for_end(epd);
    char data[16];
    GIVES(scif_recv(epd, data, sizeof data, SCIF_RECV_BLOCK), 5);
    CHECK(!memcmp(data, "ghost", 5));
    FAILS(scif_recv(epd, data, sizeof data, SCIF_RECV_BLOCK), ECONNRESET);
    GIVES(scif_close(epd), 0);

    /* One that went before it was accepted is not there any more, or is at its end. */
    scif_epd_t control = accept_one(on);
    CHECK(wait_for(on, SCIF_POLLIN) & SCIF_POLLIN);
    tell(control, 'q');
    expect(control, 'c');
    struct scif_portID peer;
    if (scif_accept(on, &peer, &epd, 0) == 0) {
        FAILS(scif_recv(epd, data, sizeof data, SCIF_RECV_BLOCK), ECONNRESET);
        GIVES(scif_close(epd), 0);
    } else {
        GIVES(errno, EAGAIN);
    }
    GIVES(scif_close(control), 0);
    GIVES(scif_close(on), 0);
}

static void call_gone(uint16_t node) {
    scif_epd_t epd = call_one(node, 2015);
    send_all(epd, "ghost", 5);
    GIVES(scif_close(epd), 0);

    scif_epd_t control = call_one(node, 2015);
    epd = scif_open();
    CHECK(fcntl(scif_get_fd(epd), F_SETFL, O_NONBLOCK) == 0);
    struct scif_portID to = { node, 2015 };
    FAILS(scif_connect(epd, &to), EINPROGRESS);
    expect(control, 'q');
    GIVES(scif_close(epd), 0);
    tell(control, 'c');
    wait_for_end(control);
    GIVES(scif_close(control), 0);
}

/* Calls with wrong arguments, which move nothing. */
static void try_wrong_arguments(scif_epd_t epd) {
    char byte = 0;
    FAILS(scif_send(epd, &byte, -1, 0), EINVAL);
    FAILS(scif_recv(epd, &byte, -1, 0), EINVAL);
    FAILS(scif_send(epd, &byte, 1, 64), EINVAL);
    FAILS(scif_recv(epd, &byte, 1, 64), EINVAL);
    GIVES(scif_send(epd, &byte, 0, 0), 0);
    GIVES(scif_recv(epd, &byte, 0, 0), 0);
    for (int length = 1; length <= 2 * PAGE; length *= 2) {
        FAILS(scif_send(epd, NULL, length, 0), EFAULT);
        FAILS(scif_send(epd, (void *)PAGE, length, 0), EFAULT);
        FAILS(scif_send(epd, (void *)-PAGE, length, 0), EFAULT);
    }
    FAILS(scif_send(-1, &byte, 1, 0), EBADF);
    FAILS(scif_recv(-1, &byte, 1, 0), EBADF);
}

/* 18: several sends that do not wait, then one that does; they fit without a reader. Their memory is
 * the stack's and the heap's in turn, and calls with wrong arguments are among them. */
static void serve_mixed(void) {
    scif_epd_t epd = serve_one(2018);
    expect(epd, 's');
    char data[9 * 64];
    recv_all(epd, data, sizeof data);
    CHECK(mismatch(data, sizeof data, 18) == sizeof data);
    tell(epd, 'k');
    GIVES(scif_close(epd), 0);
}

static void call_mixed(uint16_t node) {
    scif_epd_t epd = call_one(node, 2018);
    char data[9 * 64];
    fill(data, sizeof data, 18);
    tell(epd, 's');
    char *copy = malloc(sizeof data);
    CHECK(copy != NULL);
    memcpy(copy, data, sizeof data);
    for (int i = 0; i < 8; i++) {
        GIVES(scif_send(epd, (i % 2 ? copy : data) + 64 * i, 64, 0), 64);
        try_wrong_arguments(epd);
    }
    free(copy);
    send_all(epd, data + 8 * 64, 64);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

/* 19: a send larger than the ring, to a slow reader; and one whose reader goes in the middle. */
enum { MEBIBYTE = 1 << 20 };

static void serve_large(void) {
    scif_epd_t epd = serve_one(2019);
    char *data = malloc(MEBIBYTE);
    CHECK(data != NULL);
    for (int done = 0; done < MEBIBYTE;) {
        int part = MEBIBYTE - done < 1000 ? MEBIBYTE - done : 1000;
        recv_all(epd, data + done, part);
        done += part;
    }
    CHECK(mismatch(data, MEBIBYTE, 19) == MEBIBYTE);
    recv_all(epd, data, 100000);
    GIVES(scif_close(epd), 0);
    free(data);
}

static void call_large(uint16_t node) {
    scif_epd_t epd = call_one(node, 2019);
    char *data = malloc(MEBIBYTE);
    CHECK(data != NULL);
    fill(data, MEBIBYTE, 19);
    send_all(epd, data, MEBIBYTE);
    int count = scif_send(epd, data, MEBIBYTE, SCIF_SEND_BLOCK);
    CHECK(count >= 100000 && count < MEBIBYTE);
    FAILS(scif_send(epd, data, 1, SCIF_SEND_BLOCK), ECONNRESET);
    GIVES(scif_close(epd), 0);
    free(data);
}

/* 22: a duplicate connection is accepted and closed at once: the other end sees ECONNRESET. */
static void serve_duplicate(void) {
    scif_epd_t on = listener(2022, 4);
    scif_epd_t first = accept_one(on);
    scif_epd_t second = accept_one(on);
    GIVES(scif_close(second), 0);
    expect(first, 'k');
    GIVES(scif_close(first), 0);
    GIVES(scif_close(on), 0);
}

static void call_duplicate(uint16_t node) {
    scif_epd_t first = call_one(node, 2022);
    scif_epd_t second = call_one(node, 2022);
    char byte;
    FAILS(scif_recv(second, &byte, 1, SCIF_RECV_BLOCK), ECONNRESET);
    tell(first, 'k');
    GIVES(scif_close(second), 0);
    GIVES(scif_close(first), 0);
}

/* 23: short sends that never wait: the count may be 0, and what was counted arrives. */
static void serve_atomic(void) {
    scif_epd_t epd = serve_one(2023);
    scif_epd_t control = serve_one(2123);
    int total = (int)told_number(control);
    char *data = malloc(total);
    CHECK(data != NULL);
    recv_all(epd, data, total);
    CHECK(mismatch(data, total, 23) == (size_t)total);
    GIVES(scif_recv(epd, data, 1, 0), 0);
    tell(control, 'k');
    expect(control, 'd');
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(control), 0);
    free(data);
}

static void call_atomic(uint16_t node) {
    scif_epd_t epd = call_one(node, 2023);
    scif_epd_t control = call_one(node, 2123);
    static char data[4 << 20];
    fill(data, sizeof data, 23);
    int total = 0, count;
    while ((count = scif_send(epd, data + total, 32, 0)) > 0) {
        CHECK(count <= 32);
        total += count;
        CHECK(total <= (int)sizeof data - 32);
    }
    GIVES(count, 0);
    CHECK(total >= 4000);
    struct scif_pollepd entry = { epd, SCIF_POLLOUT, 0 };
    GIVES(scif_poll(&entry, 1, 0), 0);
    tell_number(control, total);
    expect(control, 'k');
    CHECK(wait_for(epd, SCIF_POLLOUT) & SCIF_POLLOUT);
    /* Only now: who has closed leaves no room to report. */
    tell(control, 'd');
    GIVES(scif_close(epd), 0);
    GIVES(scif_close(control), 0);
}

/* 24: one thread sends while another receives; sends of two threads do not mix. */
enum { BLOCK = 6000, BLOCKS = 20 };

struct part {
    scif_epd_t epd;
    char letter;
};

static void *send_blocks(void *argument) {
    struct part *part = argument;
    char block[BLOCK];
    memset(block, part->letter, sizeof block);
    for (int i = 0; i < BLOCKS; i++)
        send_all(part->epd, block, sizeof block);
    return NULL;
}

static void recv_blocks(scif_epd_t epd, int blocks) {
    char block[BLOCK];
    for (int i = 0; i < blocks; i++) {
        recv_all(epd, block, sizeof block);
        for (int at = 1; at < BLOCK; at++)
            CHECK(block[at] == block[0]);
    }
}

static void serve_threads(void) {
    scif_epd_t epd = serve_one(2024);
    struct part part = { epd, 'S' };
    pthread_t sender;
    GIVES(pthread_create(&sender, NULL, send_blocks, &part), 0);
    recv_blocks(epd, 2 * BLOCKS);
    GIVES(pthread_join(sender, NULL), 0);
    expect(epd, 'k');
    GIVES(scif_close(epd), 0);
}

static void call_threads(uint16_t node) {
    scif_epd_t epd = call_one(node, 2024);
    struct part parts[2] = { { epd, 'A' }, { epd, 'B' } };
    pthread_t senders[2];
    for (int i = 0; i < 2; i++)
        GIVES(pthread_create(&senders[i], NULL, send_blocks, &parts[i]), 0);
    recv_blocks(epd, BLOCKS);
    for (int i = 0; i < 2; i++)
        GIVES(pthread_join(senders[i], NULL), 0);
    tell(epd, 'k');
    GIVES(scif_close(epd), 0);
}

const struct pattern patterns[] = {
    { 4, "exact-size receive", serve_exact, call_exact },
    { 5, "drain without waiting", serve_drain, call_drain },
    { 6, "flush byte by byte", serve_flush, call_flush },
    { 7, "peer closes with data under way", serve_closing, call_closing },
    { 8, "send after peer close", serve_again, call_again },
    { 15, "connect, then close before accept", serve_gone, call_gone },
    { 18, "mixed sends", serve_mixed, call_mixed },
    { 19, "send larger than the ring", serve_large, call_large },
    { 22, "duplicate connection", serve_duplicate, call_duplicate },
    { 23, "sends that never wait", serve_atomic, call_atomic },
    { 24, "two threads on one endpoint", serve_threads, call_threads },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    (void)count, (void)arguments;
    fprintf(stderr, "no part '%s'\n", part);
    return 100;
}
