/*
 * Scheduled Transfers: push and pull between two programs without the operating system.
 *
 * A connection is made by sockets: socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP), then
 * setsockopt(fd, IPPROTO_STP, ST_BYPASS, &one, sizeof one), then bind, listen, accept and connect
 * as ever. Both ends must have set ST_BYPASS; without it, send and recv carry messages that keep
 * their boundaries. A connection has four channels, 0 to 3, unless ST_X_CHANNELS says otherwise.
 *
 * All functions return 0, or -1 with errno: ECONNRESET the peer has gone, ENODEV its node is lost,
 * EPROTO the peer has broken the protocol, EBADF the socket was closed, EAGAIN the socket has
 * O_NONBLOCK and the call would have to wait, EINTR a signal's handler has run, EOPNOTSUPP the
 * handle is the parent's of a fork, EINVAL a handle that is NULL, EFAULT a pointer whose memory is
 * not there.
 */
#ifndef _ST_H
#define _ST_H
#include <stdint.h>
#include <sys/socket.h>

#define IPPROTO_STP 118
#define AF_STP AF_INET
#define PF_STP AF_STP

/* Options of the level IPPROTO_STP, all ints. Those that are set must be set before bind and
 * connect. Hints, 1 to 14, are kept and have no effect; ST_OUT_VCNUM must be 1 to 3. */
#define ST_CTS_OUTSTD 1
#define ST_BLKSZ 2
#define ST_BUFSZ 3
#define ST_OUT_VCNUM 4
#define ST_TX_SPRAY_WIDTH 5
#define ST_RX_SPRAY_WIDTH 6
#define ST_NUM_SLOTS 7
#define ST_STUSZ 11
/* 1: the functions below; 0, as at first: messages by send and recv. */
#define ST_BYPASS 1000
/* Keys and ports of both ends, which level 0 quotes; L_ is the own end. Get only. */
#define ST_L_KEY 1001
#define ST_R_KEY 1002
#define ST_L_PORT 1006
#define ST_R_PORT 1007
/* Headers for which the own queue of a channel has room: a power of two from 8 to 4096, 64 at first.
 * Up to a quarter more can wait. Others make connect and accept fail. R_: the peer's; V_: another
 * name of L_. */
#define ST_L_NUMSLOTS 1003
#define ST_R_NUMSLOTS 1004
#define ST_V_NUMSLOTS 1005
/* Logarithms of sizes; get only. */
#define ST_L_MAXSTU 1008
#define ST_R_MAXSTU 1009
#define ST_L_BUFSIZE 1010
#define ST_R_BUFSIZE 1011
/* Channels, 1 to 64, the same at both ends. */
#define ST_X_CHANNELS 2000

/* A channel of a connection. One thread may push and another pull at the same time. */
typedef struct st_peer st_peer_t;

/* Bytes of a header of level 1, and of the optional payload of level 0: always all of them. */
#define ST1_HDR_SIZE 32
#define ST_OPT_SIZE 32

/* A header of level 0, in the host's byte order. Ports and key may be 0: they are filled in. */
typedef struct {
    uint16_t op;     /* ST_OP_... << 11 | flags */
    uint16_t param;
    uint16_t d_port;
    uint16_t s_port;
    uint32_t d_key;
    uint16_t cksum;
    uint16_t b_id;
    uint32_t bufx;   /* with offset: a place in the receiver's mapped range, see st_tx */
    uint32_t offset;
    uint32_t sync;
    uint32_t b_num;
    uint32_t d_id;
    uint32_t s_id;
} st_header_t;

#define ST_OP(code) ((uint16_t)((code) << 11))
#define ST_OP_CODE(op) ((op) >> 11)
#define ST_OP_NOP 0x10
#define ST_OP_RMR 0x13
#define ST_OP_MRA 0x14
#define ST_OP_GET 0x15
#define ST_OP_RTS 0x16
#define ST_OP_RA 0x17
#define ST_OP_RTR 0x18
#define ST_OP_CTS 0x1a
#define ST_OP_DATA 0x1b
#define ST_OP_RS 0x1c
#define ST_OP_RSR 0x1d
#define ST_OP_END 0x1e
#define ST_OP_END_ACK 0x1f
#define ST_FLAG_REJECT 0x004
#define ST_FLAG_LAST 0x008
#define ST_FLAG_OUT_OF_ORDER 0x010
#define ST_FLAG_SEND_STATE 0x020
#define ST_FLAG_INTERRUPT 0x040
#define ST_FLAG_SILENT 0x080
#define ST_FLAG_FETCH_INC 0x100
#define ST_FLAG_FETCH_DEC 0x200
#define ST_FLAG_FETCH_CLEAR 0x300

__BEGIN_DECLS

/* Attaches a channel of a connected socket; flags is 0. The peer need not be attached. EBUSY: it is
 * attached. EINVAL: there is no such channel, or flags is not 0. ENOTCONN. EOPNOTSUPP: ST_BYPASS is
 * off.
 * If SO_BUSY_POLL of the socket is above 0, calls that wait look all the time and never sleep. */
int st_attach(int fd, int channel, int flags, st_peer_t **handle);

/* Unmaps and detaches; *handle becomes NULL, the socket stays open. What the peer has pushed waits
 * for the next st_attach. EBUSY: a thread is in a call. */
int st_detach(st_peer_t **handle);

/* Returns when all that was pushed before is in the peer's memory. Two names for one function. */
int st_fence(st_peer_t *handle);
int st_flush(st_peer_t *handle) __asm__("st_fence");

/* Lets the peer reach memory: len bytes at *ptr, whose pages it reaches as a whole, or, when *ptr is
 * NULL, memory of the library's, whose address is stored there. One range at a time for each
 * handle: EBUSY. EAGAIN: the limit on pinned pages. EFAULT: it is not there. EINVAL: len is not
 * positive. ENOMEM. ETIMEDOUT: the peer's driver does not answer. */
int st_map(st_peer_t *handle, void **ptr, int len);

/* Takes it back: afterwards no peer reads or writes it. len is that of st_map, or 0. The library's
 * memory goes, and *ptr becomes NULL. ENXIO: nothing is mapped. EINVAL: it is not that range. */
int st_unmap(st_peer_t *handle, void **ptr, int len);

/* Level 1. peer is the handle. Either hdr, or loc and rem, or all three are given; others are NULL
 * (EINVAL).
 * st1_push: PUTs len bytes from loc to rem in the peer's mapped memory, then sends hdr. loc and hdr
 * may be changed when it returns. Waits for room in the peer's queue.
 * st1_pull: waits for the next hdr of the peer's, then GETs len bytes from rem to loc.
 * rem is an address in the peer's program. As long as the peer has never mapped memory, the call
 * waits for that. ENXIO: not all of it is mapped; then nothing was moved, but a header of st1_pull
 * has been taken. */
int st1_push(void *peer, void *hdr, void *loc, void *rem, int len);
int st1_pull(void *peer, void *hdr, void *loc, void *rem, int len);
/* Their names in the summary of the API's description. */
#define st_push st1_push
#define st_pull st1_pull

/* Level 0. A place in mapped memory is (bufx << 12) + offset bytes behind the beginning of the range.
 * st_tx: carries an operation out. With len, data goes between the place bufx, off in the own range
 * and that of the header in the peer's: to the peer, or from it for ST_OP_GET. ST_OP_GET with one of
 * ST_FLAG_FETCH_... and a len of 8 reads an aligned word of 8 bytes and adds 1, subtracts 1 or
 * stores 0 in one step. The peer gets a descriptor if there is opt_pay or no len, or by
 * ST_FLAG_INTERRUPT; never with ST_FLAG_SILENT. Operations on connections are EPERM, unknown ones
 * and wrong ports or keys EINVAL.
 * st_rx: waits for a descriptor: its header, payload and length. Headers of level 1 come as
 * ST_OP_NOP with their 32 bytes as payload. */
int st_tx(st_peer_t *handle, st_header_t *hdr, void *opt_pay, int len, int bufx, int off);
int st_rx(st_peer_t *handle, st_header_t *hdr, void *opt_pay, int *len);

__END_DECLS
#endif
