/*
 * SCIF, the symmetric communication interface between the nodes of one machine, for C and C++.
 *
 * Names, types, values and meaning are those of the SCIF header for user mode; the spellings of
 * Intel's library (scif_portID, scif_get_nodeIDs, SCIF_POLLIN, ...) are there as well. Every
 * function that fails returns -1 (or the constant ending in _FAILED) and sets errno. Besides the
 * errors listed each gives EBADF when epd is no descriptor and ENOTTY when it is none of SCIF's.
 * Where an endpoint must be connected: ENOTCONN when it is not, ECONNRESET when the peer or its node
 * is gone. ENODEV: the own driver has died; or, from calls on registered memory, the link to the
 * peer's node is just being given up.
 */
#ifndef __SCIF_H__
#define __SCIF_H__

/* Programs count on these coming with this header. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/types.h>
#include <unistd.h>

#include <scif_ioctl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An endpoint; in user mode a file descriptor, close-on-exec from scif_open, not from
 * scif_accept. */
typedef int scif_epd_t;

#define SCIF_OPEN_FAILED ((scif_epd_t)-1)
#define SCIF_REGISTER_FAILED ((off_t)-1)
#define SCIF_MMAP_FAILED ((void *)-1)

/* All flags are macros, so that programs can ask for them by #ifdef. */

/* Flags of scif_accept, scif_send and scif_recv: wait. */
#define SCIF_ACCEPT_SYNC 1
#define SCIF_SEND_BLOCK 1
#define SCIF_RECV_BLOCK 1
/* The names of their first version. */
#define ACCEPT_SYNC SCIF_ACCEPT_SYNC
#define SEND_BLOCK SCIF_SEND_BLOCK
#define RECV_BLOCK SCIF_RECV_BLOCK

/* What a window allows. */
#define SCIF_PROT_READ (1 << 0)
#define SCIF_PROT_WRITE (1 << 1)

/* Flags of scif_register and scif_mmap. SCIF_MAP_KERNEL is for drivers: EINVAL here. */
#define SCIF_MAP_FIXED 0x10
#define SCIF_MAP_KERNEL 0x20

/* Flags of the fences. The two with RAS were never open to programs: EINVAL. */
#define SCIF_FENCE_INIT_SELF (1 << 0)
#define SCIF_FENCE_INIT_PEER (1 << 1)
#define SCIF_FENCE_RAS_SELF (1 << 2)
#define SCIF_FENCE_RAS_PEER (1 << 3)
#define SCIF_SIGNAL_LOCAL (1 << 4)
#define SCIF_SIGNAL_REMOTE (1 << 5)

/* Flags of the transfers. */
#define SCIF_RMA_USECPU (1 << 0)
#define SCIF_RMA_USECACHE (1 << 1)
#define SCIF_RMA_SYNC (1 << 2)
#define SCIF_RMA_ORDERED (1 << 3)

/* What scif_poll waits for and reports: the values of poll. */
#define SCIF_POLLIN POLLIN
#define SCIF_POLLOUT POLLOUT
#define SCIF_POLLERR POLLERR
#define SCIF_POLLHUP POLLHUP
#define SCIF_POLLNVAL POLLNVAL

/* Ports below are for privileged users; ports below the second are reserved for services. */
#define SCIF_ADMIN_PORT_END 1024
#define SCIF_PORT_RSVD 1088

/* The ports that the services of a Xeon Phi are known by: ten each. */
#define SCIF_COI_PORT_0 40
#define SCIF_COI_PORT_1 41
#define SCIF_COI_PORT_2 42
#define SCIF_COI_PORT_3 43
#define SCIF_COI_PORT_4 44
#define SCIF_COI_PORT_5 45
#define SCIF_COI_PORT_6 46
#define SCIF_COI_PORT_7 47
#define SCIF_COI_PORT_8 48
#define SCIF_COI_PORT_9 49
#define SCIF_OFED_PORT_0 60
#define SCIF_OFED_PORT_1 61
#define SCIF_OFED_PORT_2 62
#define SCIF_OFED_PORT_3 63
#define SCIF_OFED_PORT_4 64
#define SCIF_OFED_PORT_5 65
#define SCIF_OFED_PORT_6 66
#define SCIF_OFED_PORT_7 67
#define SCIF_OFED_PORT_8 68
#define SCIF_OFED_PORT_9 69
#define SCIF_NETDEV_PORT_0 80
#define SCIF_NETDEV_PORT_1 81
#define SCIF_NETDEV_PORT_2 82
#define SCIF_NETDEV_PORT_3 83
#define SCIF_NETDEV_PORT_4 84
#define SCIF_NETDEV_PORT_5 85
#define SCIF_NETDEV_PORT_6 86
#define SCIF_NETDEV_PORT_7 87
#define SCIF_NETDEV_PORT_8 88
#define SCIF_NETDEV_PORT_9 89
#define SCIF_RAS_PORT_0 100
#define SCIF_RAS_PORT_1 101
#define SCIF_RAS_PORT_2 102
#define SCIF_RAS_PORT_3 103
#define SCIF_RAS_PORT_4 104
#define SCIF_RAS_PORT_5 105
#define SCIF_RAS_PORT_6 106
#define SCIF_RAS_PORT_7 107
#define SCIF_RAS_PORT_8 108
#define SCIF_RAS_PORT_9 109
#define SCIF_PM_PORT_0 120
#define SCIF_PM_PORT_1 121
#define SCIF_PM_PORT_2 122
#define SCIF_PM_PORT_3 123
#define SCIF_PM_PORT_4 124
#define SCIF_PM_PORT_5 125
#define SCIF_PM_PORT_6 126
#define SCIF_PM_PORT_7 127
#define SCIF_PM_PORT_8 128
#define SCIF_PM_PORT_9 129
#define SCIF_BT_PORT_0 130
#define SCIF_BT_PORT_1 131
#define SCIF_BT_PORT_2 132
#define SCIF_BT_PORT_3 133
#define SCIF_BT_PORT_4 134
#define SCIF_BT_PORT_5 135
#define SCIF_BT_PORT_6 136
#define SCIF_BT_PORT_7 137
#define SCIF_BT_PORT_8 138
#define SCIF_BT_PORT_9 139
#define MPSSD_MONRECV 160
#define MIC_NOTIFY 161
#define MPSSD_CRED 162
#define MPSSD_MONSEND 163
#define MPSSD_MICCTRL 164
#define MPSSD_RESV5 165
#define MPSSD_RESV6 166
#define MPSSD_RESV7 167
#define MPSSD_RESV8 168
#define MPSSD_RESV9 169
#define SCIF_COSM_LISTEN_PORT 201
#define SCIF_MYO_PORT_0 1025
#define SCIF_MYO_PORT_1 1026
#define SCIF_MYO_PORT_2 1027
#define SCIF_MYO_PORT_3 1028
#define SCIF_MYO_PORT_4 1029
#define SCIF_MYO_PORT_5 1030
#define SCIF_MYO_PORT_6 1031
#define SCIF_MYO_PORT_7 1032
#define SCIF_MYO_PORT_8 1033
#define SCIF_MYO_PORT_9 1034
#define SCIF_ST_PORT_0 1044
#define SCIF_ST_PORT_1 1045
#define SCIF_ST_PORT_2 1046
#define SCIF_ST_PORT_3 1047
#define SCIF_ST_PORT_4 1048
#define SCIF_ST_PORT_5 1049
#define SCIF_ST_PORT_6 1050
#define SCIF_ST_PORT_7 1051
#define SCIF_ST_PORT_8 1052
#define SCIF_ST_PORT_9 1053

/* Intel's older spellings of a port of a node. */
#define portID scif_portID
typedef struct portID portID_t;

/* What Intel's header puts before declarations on other systems. */
#define MICACCESSAPI

/* An endpoint for scif_poll. */
struct scif_pollepd {
    scif_epd_t epd;
    short events;
    short revents;
};

/* Makes an endpoint. ENOMEM; ENODEV or ENOENT when there is no SCIF. */
scif_epd_t scif_open(void);

/* Binds to port pn, or to a free one from SCIF_PORT_RSVD when it is 0; returns the port.
 * EACCES pn is below SCIF_ADMIN_PORT_END and the user is not root; EINVAL endpoint or port are
 * bound already; EISCONN; ENOSPC no port is free. */
int scif_bind(scif_epd_t epd, uint16_t pn);

/* Lets backlog requests wait to be accepted. EINVAL the endpoint is not bound, or backlog is not
 * positive; EISCONN it is connected or listening; ENOMEM. */
int scif_listen(scif_epd_t epd, int backlog);

/* Connects to a port; returns the local port once the other side has accepted. With O_NONBLOCK set
 * by fcntl it fails with EINPROGRESS; poll reports POLLOUT when the attempt has ended, and the same
 * call again gives its result. After ECONNREFUSED the endpoint stays bound and may try again.
 * ECONNREFUSED; EFAULT dst; EINPROGRESS; EINTR a signal's handler has run; EINVAL dst is null, its
 * port 0, or the connection of this endpoint has ended; EISCONN; ENODEV no such node online; ENOMEM;
 * ENOSPC; EOPNOTSUPP the endpoint listens. */
int scif_connect(scif_epd_t epd, struct scif_port_id *dst);

/* Takes the first request that waits: a new endpoint, connected, in newepd; who asked, in peer.
 * Without SCIF_ACCEPT_SYNC it fails with EAGAIN when none waits. EAGAIN; EFAULT peer or newepd (no
 * request is taken then); EINTR a signal's handler has run, or the listener was closed; EINVAL not
 * listening, unknown flag, null pointer; EMFILE; ENODEV; ENOENT; ENOMEM. */
int scif_accept(scif_epd_t epd, struct scif_port_id *peer, scif_epd_t *newepd, int flags);

/* Closes an endpoint. Its windows go; what it has sent stays readable for the peer; mappings of the
 * peer's windows live on. Returns when the transfers through both ends have ended, after at most
 * 30 s if the peer's driver does not answer. A signal does not end it. */
int scif_close(scif_epd_t epd);

/* Sends len bytes; returns how many were taken: all with SCIF_SEND_BLOCK, unless the connection
 * ends, else as many as there is room for, perhaps 0. EFAULT; EINTR a signal's handler has run before
 * a byte was taken; EINVAL len is negative or a flag unknown. */
int scif_send(scif_epd_t epd, void *msg, int len, int flags);

/* Receives; returns how many bytes: len with SCIF_RECV_BLOCK, unless the connection ends, else what
 * is there, perhaps 0. After the peer has closed, what it sent comes first, then ECONNRESET.
 * EFAULT; EINTR a signal's handler has run before a byte came; EINVAL len is negative or a flag
 * unknown. */
int scif_recv(scif_epd_t epd, void *msg, int len, int flags);

/* Opens a window: lets the peer reach len bytes at addr, both multiples of the page size, at an
 * offset of the registered address space: the one given with SCIF_MAP_FIXED, else one that is
 * chosen. Returns it. The memory keeps its address and content.
 * EADDRINUSE the offset is taken; EAGAIN the limit on pinned pages is reached; EFAULT; EINVAL;
 * ENOMEM. */
off_t scif_register(scif_epd_t epd, void *addr, size_t len, off_t offset, int prot_flags,
                    int map_flags);

/* Closes the windows within a range, which must cover each of them whole; on an error none.
 * Mappings and transfers that are there keep the pages until they end. EINVAL a window would be
 * cut; ENXIO there is a hole. */
int scif_unregister(scif_epd_t epd, off_t offset, size_t len);

/* Maps the peer's windows. With SCIF_MAP_FIXED at addr, else where the system likes.
 * EACCES a window does not allow prot_flags; EINVAL; ENOMEM; ENXIO there is a hole. */
void *scif_mmap(void *addr, size_t len, int prot_flags, int map_flags, scif_epd_t epd,
                off_t offset);

/* Unmaps whole pages of such a mapping. EINVAL. */
int scif_munmap(void *addr, size_t len);

/* Copies from the peer's windows (readfrom) or to them (writeto), between them and the own windows,
 * or memory at addr for the two with a v. They may return before the data is there, unless
 * SCIF_RMA_SYNC is given; the fences tell when it is.
 * EACCES a window does not allow it; EFAULT (v) addr; EINVAL len is 0 or a flag unknown; ENOMEM;
 * ENXIO a range is not all within windows that follow each other. */
int scif_readfrom(scif_epd_t epd, off_t loffset, size_t len, off_t roffset, int rma_flags);
int scif_writeto(scif_epd_t epd, off_t loffset, size_t len, off_t roffset, int rma_flags);
int scif_vreadfrom(scif_epd_t epd, void *addr, size_t len, off_t roffset, int rma_flags);
int scif_vwriteto(scif_epd_t epd, void *addr, size_t len, off_t roffset, int rma_flags);

/* Marks the transfers started so far from this side (SCIF_FENCE_INIT_SELF) or from the peer's
 * (SCIF_FENCE_INIT_PEER); scif_fence_wait returns when those of a mark are complete.
 * EFAULT mark; EINVAL flags are not exactly one of the two, mark is not one that was given out;
 * ENOMEM. */
int scif_fence_mark(scif_epd_t epd, int flags, int *mark);
int scif_fence_wait(scif_epd_t epd, int mark);

/* As scif_fence_mark; when the transfers are complete lval is written at loff of the own windows
 * (SCIF_SIGNAL_LOCAL) and rval at roff of the peer's (SCIF_SIGNAL_REMOTE). Does not wait.
 * EACCES; EINVAL flags, or an offset that is no multiple of 4; ENOMEM; ENXIO. */
int scif_fence_signal(scif_epd_t epd, off_t loff, uint64_t lval, off_t roff, uint64_t rval,
                      int flags);

/* Fills nodes with up to len ids of the nodes online, ascending, and self with the own one; returns
 * how many are online. nodes may be null when len is 0, and self always. It makes an endpoint for the
 * question. EFAULT; EINVAL len is negative; EMFILE and ENOMEM as scif_open. */
int scif_get_node_ids(uint16_t *nodes, int len, uint16_t *self);
int scif_get_nodeIDs(uint16_t *nodes, int len, uint16_t *self);

/* Waits until one of the endpoints is ready, at most timeout_msecs (negative: without limit);
 * returns how many are. SCIF_POLLERR, SCIF_POLLHUP and SCIF_POLLNVAL are always reported. EINTR a
 * signal's handler has run. */
int scif_poll(struct scif_pollepd *epds, unsigned int nepds, long timeout_msecs);

/* The descriptor of an endpoint, for poll, select and fcntl. */
int scif_get_fd(scif_epd_t epd);

/* The version of the interface: 1. */
int scif_get_driver_version(void);

/* Zeroed memory of SCIF's own, length rounded up to pages, in pieces of consecutive physical pages
 * as large as there are; munmap() gives it back. scif_register takes any memory of a program and
 * leaves it where it is; this is quicker to register, and copied in larger pieces. Not in Intel's
 * library. NULL and errno: EAGAIN the user's limit, EINVAL, ENOMEM. */
void *scif_memory(size_t length);

#ifdef __cplusplus
}
#endif

#endif
