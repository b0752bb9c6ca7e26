/*
 * A program that gives commands to an RDMA device by write, as on Linux: by its name there, with
 * answers at the addresses that the commands have, and descriptors of events in answers.
 */
#include "library.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GET_CONTEXT, QUERY_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, REG_MR = 9, DEREG_MR = 13,
       COMP_CHANNEL = 17, CREATE_CQ, DESTROY_CQ = 20, POLL_CQ, REQ_NOTIFY_CQ = 23, CREATE_QP,
       MODIFY_QP = 26, DESTROY_QP, POST_SEND, POST_RECV };

struct header {
    uint32_t command;
    uint16_t in_words, out_words;
};

static int device;

/* A request follows its header; the first field of one with an answer is the answer's address. */
static long give(uint32_t command, void *with_header, size_t size, size_t room) {
    struct header *header = with_header;
    header->command = command;
    header->in_words = (uint16_t)(size / 4);
    header->out_words = (uint16_t)(room / 4);
    return write(device, with_header, size);
}

/* A queue for 8 completions; the answer is its handle and its size. */
static long create_cq(uint32_t answer[2], uint64_t user_handle, int32_t channel) {
    struct {
        struct header header;
        uint64_t response, user_handle;
        uint32_t cqe, vector;
        int32_t channel;
        uint32_t reserved;
    } cq = {{0}, (uintptr_t)answer, user_handle, 8, 0, channel, 0};
    return give(CREATE_CQ, &cq, sizeof cq, 8);
}

static void names(void) {
    char text[64] = "";
    FILE *file = fopen("/sys/class/infiniband_verbs/abi_version", "r");
    CHECK(file && fgets(text, sizeof text, file) && atoi(text) == 6);
    CHECK(file && fclose(file) == 0);
    struct stat found;
    CHECK(stat("/sys/class/infiniband/scif0", &found) == 0 && S_ISDIR(found.st_mode));
    CHECK(stat("/dev/infiniband/uverbs0", &found) == 0 && S_ISCHR(found.st_mode));
    CHECK(access("/dev/infiniband/uverbs0", R_OK | W_OK) == 0);
    FAILS(access("/dev/infiniband/uverbs1", R_OK), ENOENT);
    DIR *directory = opendir("/sys/class/infiniband");
    int devices = 0;
    struct dirent *entry;
    while (directory && (entry = readdir(directory)) != NULL)
        devices += strcmp(entry->d_name, "scif0") == 0;
    CHECK(directory && devices == 1 && closedir(directory) == 0);
    double megahertz = 0;
    file = fopen("/proc/cpuinfo", "r");
    CHECK(file != NULL);
    while (file && fgets(text, sizeof text, file))
        sscanf(text, "cpu MHz : %lf", &megahertz);
    CHECK(megahertz > 10 && megahertz < 100000);
    CHECK(file && fclose(file) == 0);
}

static void commands(void) {
    struct {
        struct header header;
        uint64_t response;
    } plain = {{0}, 0};
    uint32_t answer[2] = {7, 7}, pd = 7;
    plain.response = (uintptr_t)&pd;
    FAILS(give(ALLOC_PD, &plain, sizeof plain, 4), EINVAL);
    plain.response = (uintptr_t)answer;
    FAILS(give(GET_CONTEXT, &plain, sizeof plain, 4), ENOSPC);
    CHECK(give(GET_CONTEXT, &plain, sizeof plain, 8) == sizeof plain && answer[1] == 1);
    int events = (int)answer[0];
    CHECK(events > 2 && fcntl(events, F_GETFL) >= 0);
    FAILS(give(GET_CONTEXT, &plain, sizeof plain, 8), EINVAL);

    unsigned char described[176] = {0}, port[40] = {0};
    plain.response = (uintptr_t)described;
    CHECK(give(QUERY_DEVICE, &plain, sizeof plain, sizeof described) == sizeof plain);
    CHECK(described[8] == 2 && described[9] == 0x53 && described[171] == 1);
    struct {
        struct header header;
        uint64_t response;
        uint8_t number, reserved[7];
    } query = {{0}, (uintptr_t)port, 1, {0}};
    CHECK(give(QUERY_PORT, &query, sizeof query, sizeof port) == sizeof query && port[26] == 4);
    plain.response = 0;
    FAILS(give(ALLOC_PD, &plain, sizeof plain, 4), EFAULT);
    plain.response = (uintptr_t)&pd;
    CHECK(give(ALLOC_PD, &plain, sizeof plain, 4) == sizeof plain && pd == 0);
    FAILS(give(99, &plain, sizeof plain, 4), EOPNOTSUPP);
    FAILS(write(device, &plain, 4), EINVAL);

    uint32_t channel = 0;
    plain.response = (uintptr_t)&channel;
    CHECK(give(COMP_CHANNEL, &plain, sizeof plain, 4) == sizeof plain && channel > 2);
    CHECK(create_cq(answer, 0x1234567890, (int32_t)channel) > 0 && answer[1] == 8);
    uint32_t cq_handle = answer[0];
    FAILS(create_cq(answer, 0, device), EBADF);
    FAILS(create_cq(answer, 0, 0), EBADF);

    struct {
        struct header header;
        uint64_t response, user_handle;
        uint32_t pd, send_cq, recv_cq, srq, send_wr, recv_wr, send_sge, recv_sge, inline_data;
        uint8_t all, type, is_srq, reserved;
    } qp = {{0}, 0, 5, pd, cq_handle, cq_handle, 0, 2, 2, 1, 1, 0, 0, 2, 0, 0};
    uint32_t made[8] = {0};
    qp.response = (uintptr_t)made;
    CHECK(give(CREATE_QP, &qp, sizeof qp, sizeof made) == sizeof qp && made[3] == 2);

    struct {
        struct header header;
        uint8_t addresses[64];
        uint32_t qp, mask, numbers[5];
        uint16_t keys[2];
        uint8_t state, bytes[7], port, rest[7];
    } modify;
    memset(&modify, 0, sizeof modify);
    modify.qp = made[0];
    modify.mask = 1 | 1 << 3 | 1 << 4 | 1 << 5;
    modify.state = modify.port = 1;
    CHECK(give(MODIFY_QP, &modify, sizeof modify, 0) == sizeof modify);
    struct {
        struct header header;
        uint32_t cq, solicited;
    } arm = {{0}, cq_handle, 0};
    CHECK(give(REQ_NOTIFY_CQ, &arm, sizeof arm, 0) == sizeof arm);
    struct {
        struct header header;
        uint64_t response;
        uint32_t qp, requests, elements, size;
        struct {
            uint64_t id;
            uint32_t elements, reserved;
        } list[3];
    } post = {{0}, 0, made[0], 3, 0, 16, {{21, 0, 0}, {22, 0, 0}, {23, 0, 0}}};
    uint32_t bad = 77;
    post.response = (uintptr_t)&bad;
    FAILS(give(POST_RECV, &post, sizeof post, 4), ENOMEM);
    CHECK(bad == 3);
    struct pollfd waited = {(int)channel, POLLIN, 0};
    CHECK(poll(&waited, 1, 0) == 0);
    modify.mask = 1;
    modify.state = 6;
    CHECK(give(MODIFY_QP, &modify, sizeof modify, 0) == sizeof modify);
    CHECK(poll(&waited, 1, 20000) == 1 && waited.revents == POLLIN);
    uint64_t record = 0;
    CHECK(read((int)channel, &record, sizeof record) == 8 && record == 0x1234567890);
    struct {
        struct header header;
        uint64_t response;
        uint32_t cq, count;
    } poll_cq = {{0}, 0, cq_handle, 4};
    unsigned char completions[8 + 4 * 48] = {0};
    poll_cq.response = (uintptr_t)completions;
    CHECK(give(POLL_CQ, &poll_cq, sizeof poll_cq, sizeof completions) == sizeof poll_cq);
    CHECK(completions[0] == 2 && completions[8] == 21 && completions[16] == 5);
    CHECK(completions[56] == 22);

    struct {
        struct header header;
        uint64_t response;
        uint32_t handle, reserved;
    } destroy = {{0}, (uintptr_t)answer, made[0], 0};
    CHECK(give(DESTROY_QP, &destroy, sizeof destroy, 4) == sizeof destroy);
    destroy.handle = cq_handle;
    CHECK(give(DESTROY_CQ, &destroy, sizeof destroy, 8) == sizeof destroy && answer[0] == 1);
    struct {
        struct header header;
        uint32_t handle;
    } dealloc = {{0}, pd};
    CHECK(give(DEALLOC_PD, &dealloc, sizeof dealloc, 0) == sizeof dealloc);
    FAILS(give(DEALLOC_PD, &dealloc, sizeof dealloc, 0), ENOENT);
    CHECK(close(device) == 0);
    unsigned char event[16];
    FAILS(read(events, event, sizeof event), EIO);
    FAILS(read((int)channel, event, sizeof event), EIO);
    CHECK(close(events) == 0 && close((int)channel) == 0);
}

/* Two queue pairs of a context, which are connected by commands: a message, and memory that is
 * written and read. */
static void data(void) {
    static unsigned char memory[3 * 4096];
    struct {
        struct header header;
        uint64_t response;
    } plain = {{0}, 0};
    uint32_t answer[3] = {7, 7, 7}, pd = 7;
    unsigned char port[40] = {0};
    device = open("/dev/infiniband/uverbs0", O_RDWR);
    plain.response = (uintptr_t)answer;
    CHECK(give(GET_CONTEXT, &plain, sizeof plain, 8) == sizeof plain);
    int events = (int)answer[0];
    struct {
        struct header header;
        uint64_t response;
        uint8_t number, reserved[7];
    } query = {{0}, (uintptr_t)port, 1, {0}};
    CHECK(give(QUERY_PORT, &query, sizeof query, sizeof port) == sizeof query);
    uint16_t lid;
    memcpy(&lid, port + 22, sizeof lid);
    plain.response = (uintptr_t)&pd;
    CHECK(give(ALLOC_PD, &plain, sizeof plain, 4) == sizeof plain);
    struct {
        struct header header;
        uint64_t response, start, length, address;
        uint32_t pd, access;
    } region = {{0}, (uintptr_t)answer, 4096, 4096, 4096, pd, 7};
    FAILS(give(REG_MR, &region, sizeof region, 12), EFAULT);
    region.start = region.address = (uintptr_t)memory;
    region.length = sizeof memory;
    CHECK(give(REG_MR, &region, sizeof region, 12) == sizeof region && answer[1] == answer[2]);
    uint32_t mr = answer[0], key = answer[1];
    CHECK(create_cq(answer, 0, -1) > 0);
    uint32_t cq_handle = answer[0], pairs[2][8];
    memset(pairs, 0, sizeof pairs);
    for (int i = 0; i < 2; i++) {
        struct {
            struct header header;
            uint64_t response, user_handle;
            uint32_t pd, send_cq, recv_cq, srq, send_wr, recv_wr, send_sge, recv_sge, inline_data;
            uint8_t all, type, is_srq, reserved;
        } qp = {{0}, (uintptr_t)pairs[i], 0, pd, cq_handle, cq_handle, 0, 4, 4, 1, 1, 0, 1, 2, 0, 0};
        CHECK(give(CREATE_QP, &qp, sizeof qp, sizeof pairs[i]) == sizeof qp);
    }
    for (int i = 0; i < 2; i++) {
        /* As ib_user_verbs.h has it: the paths are 32 bytes each, the LID behind 24 of the first. */
        struct {
            struct header header;
            uint8_t gid[16];
            uint32_t flow;
            uint16_t lid, reserved;
            uint8_t sgid, hops, class, sl, path_bits, rate, global, port;
            uint8_t other[32];
            uint32_t qp, mask, qkey, rq_psn, sq_psn, peer, access;
            uint16_t pkey, alt_pkey;
            uint8_t state, current, mtu, migration, notify, reads, peer_reads, rnr_timer;
            uint8_t number, timeout, retries, rnr_retries, alt_port, alt_timeout, last[2];
        } modify;
        memset(&modify, 0, sizeof modify);
        modify.qp = pairs[i][0];
        modify.mask = 1 | 1 << 3 | 1 << 4 | 1 << 5;
        modify.state = modify.number = 1;
        modify.access = 7;
        CHECK(give(MODIFY_QP, &modify, sizeof modify, 0) == sizeof modify);
        modify.mask = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
        modify.state = 2;
        modify.lid = lid;
        modify.port = modify.reads = modify.peer_reads = modify.rnr_timer = 1;
        modify.peer = pairs[1 - i][1];
        modify.mtu = 5;
        CHECK(give(MODIFY_QP, &modify, sizeof modify, 0) == sizeof modify);
        modify.mask = 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;
        modify.state = 3;
        modify.timeout = 18;
        modify.retries = modify.rnr_retries = 7;
        CHECK(give(MODIFY_QP, &modify, sizeof modify, 0) == sizeof modify);
    }
    struct element {
        uint64_t address;
        uint32_t length, key;
    };
    uint32_t bad = 77;
    struct {
        struct header header;
        uint64_t response;
        uint32_t qp, requests, elements, size;
        uint64_t id;
        uint32_t count, reserved;
        struct element element;
    } receive = {{0}, (uintptr_t)&bad, pairs[1][0], 1, 1, 16, 31, 1, 0,
                 {(uintptr_t)memory + 4096, 4096, key}};
    CHECK(give(POST_RECV, &receive, sizeof receive, 4) == sizeof receive && bad == 0);
    struct {
        struct header header;
        uint64_t response;
        uint32_t qp, requests, elements, size;
        uint64_t id;
        uint32_t count, opcode, flags, immediate;
        uint64_t address, key, more[2];
        struct element element;
    } send = {{0}, (uintptr_t)&bad, pairs[0][0], 1, 1, 56, 0, 1, 0, 2, 0,
              (uintptr_t)memory + 8192, key, {0, 0}, {(uintptr_t)memory, 1000, key}};
    memset(memory, 0x5a, 1000);
    static const uint32_t opcodes[2] = {2, 0};
    for (int i = 0; i < 2; i++) {
        send.id = 41 + (uint64_t)i;
        send.opcode = opcodes[i];
        CHECK(give(POST_SEND, &send, sizeof send, 4) == sizeof send && bad == 0);
    }
    struct {
        struct header header;
        uint64_t response;
        uint32_t cq, count;
    } poll_cq = {{0}, 0, cq_handle, 4};
    unsigned char completions[8 + 4 * 48];
    int found[3] = {0, 0, 0}, good = 0;
    for (int i = 0; i < 20000 && good < 3; i++) {
        memset(completions, 0, sizeof completions);
        poll_cq.response = (uintptr_t)completions;
        if (give(POLL_CQ, &poll_cq, sizeof poll_cq, sizeof completions) != sizeof poll_cq)
            break;
        for (int j = 0; j < completions[0]; j++) {
            const unsigned char *one = completions + 8 + 48 * j;
            int which = one[0] == 31 ? 0 : one[0] - 40;
            CHECK(one[8] == 0 && which >= 0 && which < 3);
            if (one[8] == 0 && which >= 0 && which < 3)
                good += found[which]++ == 0;
        }
        usleep(1000);
    }
    CHECK(good == 3);
    CHECK(memcmp(memory, memory + 4096, 1000) == 0 && memory[4096 + 1000] == 0);
    CHECK(memcmp(memory, memory + 8192, 1000) == 0 && memory[8192 + 1000] == 0);
    struct {
        struct header header;
        uint32_t handle;
    } end = {{0}, mr};
    CHECK(give(DEREG_MR, &end, sizeof end, 0) == sizeof end);
    /* All else goes with the context. */
    CHECK(close(device) == 0 && close(events) == 0);
}

int main(void) {
    names();
    device = open("/dev/infiniband/uverbs0", O_RDWR);
    CHECK(device >= 0);
    commands();
    data();
    return finish("library-uverbs");
}
