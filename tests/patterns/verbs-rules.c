/* Rules of rdma-core's manual that only few programs touch: attributes that are ignored or not
 * supported, regions whose addresses begin at 0, and domains that are still in use. */
#include "library.h"
#include <infiniband/verbs.h>
#include <stdint.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;

/* The limit of a shared receive queue is what ibv_modify_srq sets. */
static void limit_of_a_new_queue(void) {
    static const uint32_t limits[] = { 0xffffffff, 2 };
    for (int i = 0; i < 2; i++) {
        struct ibv_srq_init_attr init = { .attr = { 4, 1, limits[i] } };
        struct ibv_srq *srq = ibv_create_srq(pd, &init);
        struct ibv_srq_attr found;
        CHECK(srq && ibv_query_srq(srq, &found) == 0 && found.srq_limit == 0);
        CHECK(srq && ibv_destroy_srq(srq) == 0);
    }
}

int main(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0] && (context = ibv_open_device(list[0])));
    CHECK((pd = ibv_alloc_pd(context)) && ibv_query_port(context, 1, &port) == 0);
    limit_of_a_new_queue();
    CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    ibv_free_device_list(list);
    return finish("rules of verbs");
}
