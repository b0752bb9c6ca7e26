/* Datagrams to a group whose members are programs of any node.
 *
 * `verbs-group member PORT` is one: it listens there for the sender. `verbs-group NAME PORT …` is the
 * sender, and a member itself, with the other members at these names and ports. */
#include "library.h"
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEY 0x11111111
#define RECEIVES 8
#define HEAD 40
#define LONGEST 4000
#define MOST 8

/* What the sender does. */
enum word { NEXT = 'n', LEAVE = 'l', JOIN = 'j', QUIT = 'q' };

struct card {
    uint32_t qpn;
    uint16_t lid;
};

static struct ibv_pd *pd;
static struct ibv_cq *sends, *receives;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_port_attr port;
static char *memory;
static const union ibv_gid group = { .raw = { 0xff, 0x12, 0xa0, 0x1b, [15] = 7 } };
static const union ibv_gid another = { .raw = { 0xff, 0x12, 0xa0, 0x1b, [15] = 8 } };

static void receive(uint64_t slot) {
    struct ibv_sge sge = { (uintptr_t)memory + slot * 8192, HEAD + LONGEST, mr->lkey };
    struct ibv_recv_wr wr = { slot, NULL, &sge, 1 }, *bad;
    CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}

static void set_up(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    CHECK(context && ibv_query_port(context, 1, &port) == 0);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    memory = aligned_alloc(4096, (RECEIVES + 1) * 8192);
    mr = ibv_reg_mr(pd, memory, (RECEIVES + 1) * 8192, IBV_ACCESS_LOCAL_WRITE);
    sends = ibv_create_cq(context, 16, NULL, NULL, 0);
    receives = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = sends, .recv_cq = receives, .cap = { 8, RECEIVES, 1, 1, 0 },
        .qp_type = IBV_QPT_UD, .sq_sig_all = 1,
    };
    qp = ibv_create_qp(pd, &init);
    CHECK(pd && mr && sends && receives && qp);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = KEY };
    int first = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | first) == 0);
    attr.qp_state = IBV_QPS_RTR;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    for (uint64_t slot = 0; slot < RECEIVES; slot++)
        receive(slot);
    CHECK(ibv_attach_mcast(qp, &group, 0xc001) == 0);
}

static struct ibv_wc next(struct ibv_cq *cq) {
    struct ibv_wc wc = { 0 };
    for (long tries = 0; ibv_poll_cq(cq, 1, &wc) == 0; tries++) {
        if (tries > 100000000) {
            puts("verbs-group: a completion does not come");
            exit(101);
        }
    }
    CHECK(wc.status == IBV_WC_SUCCESS);
    return wc;
}

static uint32_t length(uint32_t number) {
    return number % 2 ? LONGEST : 4 + number;
}

static char byte(uint32_t number, uint32_t at) {
    return (char)(number * 31 + at * 7 + (at >> 8));
}

/* The next datagram has this number, and is the sender's. */
static void expect(uint32_t number, struct card sender) {
    struct ibv_wc wc = next(receives);
    char *at = memory + wc.wr_id * 8192;
    int wrong = 0;
    CHECK(wc.byte_len == HEAD + length(number) && wc.imm_data == htonl(number));
    CHECK(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM));
    CHECK(wc.src_qp == sender.qpn && wc.slid == sender.lid);
    CHECK(memcmp(at + 24, &group, sizeof group) == 0);
    for (uint32_t place = 0; place < length(number); place++)
        wrong += at[HEAD + place] != byte(number, place);
    CHECK(wrong == 0);
    receive(wc.wr_id);
}

static int end(const char *what) {
    struct ibv_wc wc;
    CHECK(ibv_poll_cq(receives, 1, &wc) == 0);
    CHECK(ibv_destroy_qp(qp) == EBUSY);
    CHECK(ibv_detach_mcast(qp, &group, 0xc001) == 0 && ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(sends) == 0 && ibv_destroy_cq(receives) == 0);
    CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0);
    return finish(what);
}

/* ---- A member ---- */

static int member(int at) {
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(at) };
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 1) == 0);
    int peer = accept(listener, NULL, NULL);
    CHECK(peer >= 0);
    set_up();
    struct card sender;
    char word = JOIN;
    CHECK(write(peer, &word, 1) == 1);
    CHECK(recv(peer, &sender, sizeof sender, MSG_WAITALL) == sizeof sender);
    uint32_t number = 0;
    while (recv(peer, &word, 1, MSG_WAITALL) == 1 && word != QUIT) {
        switch (word) {
        case NEXT:
            expect(number++, sender);
            break;
        case LEAVE:
            CHECK(ibv_detach_mcast(qp, &group, 0xc001) == 0);
            number++;
            break;
        case JOIN:
            CHECK(ibv_attach_mcast(qp, &group, 0xc001) == 0);
            break;
        }
        CHECK(write(peer, &word, 1) == 1);
    }
    close(peer);
    close(listener);
    return end("a member of a group");
}

/* ---- The sender ---- */

static int members[MOST], count;

static int reach(const char *name, const char *service) {
    struct addrinfo *found;
    CHECK(getaddrinfo(name, service, NULL, &found) == 0);
    for (int tries = 0; tries < 600; tries++) {
        int peer = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(peer, found->ai_addr, found->ai_addrlen) == 0) {
            freeaddrinfo(found);
            return peer;
        }
        close(peer);
        usleep(100000);
    }
    printf("verbs-group: nobody at %s %s\n", name, service);
    exit(101);
}

static void answer(int peer, char expected) {
    char word = 0;
    CHECK(recv(peer, &word, 1, MSG_WAITALL) == 1 && word == expected);
}

static void tell(int peer, char word) {
    CHECK(write(peer, &word, 1) == 1);
}

static void post(const union ibv_gid *to, uint32_t number) {
    struct ibv_ah_attr attr = {
        .dlid = 0xc001, .port_num = 1, .is_global = 1, .grh = { .dgid = *to, .hop_limit = 1 },
    };
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    char *from = memory + RECEIVES * 8192;
    for (uint32_t place = 0; place < length(number); place++)
        from[place] = byte(number, place);
    struct ibv_sge sge = { (uintptr_t)from, length(number), mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM }, *bad;
    wr.imm_data = htonl(number);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = 0xffffff;
    wr.wr.ud.remote_qkey = KEY;
    CHECK(ah && ibv_post_send(qp, &wr, &bad) == 0);
    next(sends);
    CHECK(ibv_destroy_ah(ah) == 0);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "member") == 0)
        return member(atoi(argv[2]));
    for (int at = 1; at + 1 < argc && count < MOST; at += 2)
        members[count++] = reach(argv[at], argv[at + 1]);
    set_up();
    struct card own = { qp->qp_num, port.lid };
    for (int at = 0; at < count; at++) {
        answer(members[at], JOIN);
        CHECK(write(members[at], &own, sizeof own) == sizeof own);
    }
    uint32_t number = 0;
    for (; number < 20; number++) {
        /* What is sent to another group comes to nobody. */
        post(&another, number);
        post(&group, number);
        expect(number, own);
        for (int at = 0; at < count; at++)
            tell(members[at], NEXT);
        for (int at = 0; at < count; at++)
            answer(members[at], NEXT);
    }
    /* The first one leaves, misses one, and comes again. */
    tell(members[0], LEAVE);
    answer(members[0], LEAVE);
    post(&group, number);
    expect(number++, own);
    for (int at = 1; at < count; at++) {
        tell(members[at], NEXT);
        answer(members[at], NEXT);
    }
    tell(members[0], JOIN);
    answer(members[0], JOIN);
    post(&group, number);
    expect(number, own);
    for (int at = 0; at < count; at++) {
        tell(members[at], NEXT);
        answer(members[at], NEXT);
        tell(members[at], QUIT);
        close(members[at]);
    }
    return end("the sender of a group");
}
