/* What programs written for Intel's library expect of its header alone: names, values, and other
 * headers that come with it. Most of it is shown by this file's being compiled. */
#include <scif.h>

#if !defined(SCIF_PROT_READ) || !defined(SCIF_MAP_FIXED) || !defined(SCIF_FENCE_INIT_SELF) || \
    !defined(SCIF_SIGNAL_LOCAL) || !defined(SCIF_RMA_SYNC) || SCIF_RMA_SYNC != 4
#error flags are macros
#endif
#ifdef PAGE_SIZE
#error programs define this one themselves
#endif

static const int PAGE_SIZE = 4096;

/* Ten ports each, from the first to the last. */
#define TEN(name, first)                                                              \
    _Static_assert(SCIF_##name##_PORT_0 == first && SCIF_##name##_PORT_9 == first + 9, #name); \
    static const int ten_##name[] = { SCIF_##name##_PORT_1, SCIF_##name##_PORT_2,     \
                                      SCIF_##name##_PORT_3, SCIF_##name##_PORT_4,     \
                                      SCIF_##name##_PORT_5, SCIF_##name##_PORT_6,     \
                                      SCIF_##name##_PORT_7, SCIF_##name##_PORT_8 };
TEN(COI, 40)
TEN(OFED, 60)
TEN(NETDEV, 80)
TEN(RAS, 100)
TEN(PM, 120)
TEN(BT, 130)
TEN(MYO, 1025)
TEN(ST, 1044)
static const int services[] = { MPSSD_MONRECV, MIC_NOTIFY,  MPSSD_CRED,  MPSSD_MONSEND,
                                MPSSD_MICCTRL, MPSSD_RESV5, MPSSD_RESV6, MPSSD_RESV7,
                                MPSSD_RESV8,   MPSSD_RESV9 };
_Static_assert(SCIF_COSM_LISTEN_PORT == 201 && SCIF_PORT_RSVD == 1088, "ports");
_Static_assert(SCIF_ADMIN_PORT_END == 1024, "ports");
_Static_assert(ACCEPT_SYNC == SCIF_ACCEPT_SYNC && SEND_BLOCK == SCIF_SEND_BLOCK, "older names");
_Static_assert(RECV_BLOCK == SCIF_RECV_BLOCK, "older names");
_Static_assert(sizeof(struct portID) == 4 && sizeof(portID_t) == 4, "older names");

/* Nothing of these headers is included here by itself. */
static int from_other_headers(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(STDOUT_FILENO, &set);
    struct timeval now = { 0, 0 };
    struct pollfd entry = { STDOUT_FILENO, POLLOUT, 0 };
    errno = 0;
    return select(STDOUT_FILENO + 1, NULL, &set, NULL, &now) >= 0 && poll(&entry, 1, 0) >= 0 &&
           getpid() > 0 && errno == 0;
}

#include "library.h"

int main(void) {
    for (int i = 0; i < 8; i++) {
        CHECK(ten_COI[i] == 41 + i && ten_OFED[i] == 61 + i && ten_NETDEV[i] == 81 + i);
        CHECK(ten_RAS[i] == 101 + i && ten_PM[i] == 121 + i && ten_BT[i] == 131 + i);
        CHECK(ten_MYO[i] == 1026 + i && ten_ST[i] == 1045 + i);
    }
    for (int i = 0; i < 10; i++)
        CHECK(services[i] == 160 + i);
    CHECK(from_other_headers() && PAGE_SIZE == getpagesize());
    return finish("header");
}
