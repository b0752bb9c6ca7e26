/* RDMA in fifty lines: `verbs-hello` is a server, `verbs-hello NAME` writes into its memory. */
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call) if (!(call)) { perror(#call); exit(1); }

struct place { uint64_t address; uint32_t key; };
static char memory[4096];

int main(int count, char **words) {
    const char *server = count > 1 ? words[1] : NULL;
    struct rdma_addrinfo *found, hints = { .ai_flags = server ? 0 : RAI_PASSIVE };
    struct ibv_qp_init_attr queues = { .cap = { 4, 4, 1, 1, 64 }, .sq_sig_all = 1 };
    struct rdma_cm_id *id, *listener = NULL;
    struct ibv_wc done;

    queues.qp_type = IBV_QPT_RC;
    TRY(rdma_getaddrinfo(server, "2072", &hints, &found) == 0);
    TRY(rdma_create_ep(server ? &id : &listener, found, NULL, &queues) == 0);
    if (!server) {
        TRY(rdma_listen(listener, 1) == 0);
        TRY(rdma_get_request(listener, &id) == 0);
    }
    struct ibv_mr *mr = rdma_reg_write(id, memory, sizeof memory);
    TRY(mr != NULL);
    if (!server) {
        /* The client is told where to write, and a message of it is waited for. */
        struct place place = { (uintptr_t)memory, mr->rkey };
        struct rdma_conn_param told = { .private_data = &place, .private_data_len = sizeof place };
        TRY(rdma_post_recv(id, NULL, memory + 2048, 64, mr) == 0);
        TRY(rdma_accept(id, &told) == 0);
        TRY(rdma_get_recv_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS);
        printf("server: %s\n", memory);
    } else {
        TRY(rdma_connect(id, NULL) == 0);
        struct place place = *(const struct place *)id->event->param.conn.private_data;
        strcpy(memory, "written by the client");
        TRY(rdma_post_write(id, NULL, memory, 64, mr, 0, place.address, place.key) == 0);
        TRY(rdma_post_send(id, NULL, memory, 1, mr, 0) == 0);
        for (int requests = 0; requests < 2; requests++)
            TRY(rdma_get_send_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS);
        puts("client: it is there");
    }
    rdma_disconnect(id);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    return 0;
}
