/*
 * The ioctl interface of a SCIF endpoint, for programs that were written for the character device:
 * open "/dev/scif" (or "/scheme/scif/endpoint") and ioctl(fd, SCIF_..., &argument).
 *
 * The interface exists in two shapes. The default is the one that was shipped: structures of
 * fixed-width fields, numbers that hold the size of the structure. With SCIF_IOCTL_POSTED defined
 * before inclusion it is the one first posted: pointers, and numbers that hold the size of a
 * pointer. Both are understood.
 */
#ifndef SCIF_IOCTL_H
#define SCIF_IOCTL_H

#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/types.h>

/* A port of a node. Intel's library calls it scif_portID. */
struct scif_port_id {
    uint16_t node;
    uint16_t port;
};
#define scif_portID scif_port_id

/* SCIF_CONNECT: self is filled in, peer is where to. */
struct scifioctl_connect {
    struct scif_port_id self;
    struct scif_port_id peer;
};

#ifdef SCIF_IOCTL_POSTED

#define __SCIF_POINTER(type) type
#define __SCIF_SIZE(type) type *

#else

#define __SCIF_POINTER(type) uint64_t
#define __SCIF_SIZE(type) type

#endif

/* SCIF_ACCEPTREQ: peer and endpt are filled in; SCIF_ACCEPTREG on another, fresh descriptor makes
 * that one the accepted endpoint. */
struct scifioctl_accept {
    int32_t flags;
    struct scif_port_id peer;
    __SCIF_POINTER(void *) endpt;
};

/* SCIF_SEND, SCIF_RECV: out_len is filled in. */
struct scifioctl_msg {
    __SCIF_POINTER(void *) msg;
    int32_t len;
    int32_t flags;
    int32_t out_len;
};

/* SCIF_REG: out_offset is filled in. */
struct scifioctl_reg {
    __SCIF_POINTER(void *) addr;
    uint64_t len;
    int64_t offset;
    int32_t prot;
    int32_t flags;
    int64_t out_offset;
};

/* SCIF_UNREG. */
struct scifioctl_unreg {
    int64_t offset;
    uint64_t len;
};

/* SCIF_READFROM and SCIF_WRITETO (without addr), SCIF_VREADFROM and SCIF_VWRITETO (without
 * loffset). */
struct scifioctl_copy {
    int64_t loffset;
    uint64_t len;
    int64_t roffset;
    __SCIF_POINTER(uint8_t *) addr;
    int32_t flags;
};

/* SCIF_FENCE_MARK: mark points to an int for the result. */
struct scifioctl_fence_mark {
    int32_t flags;
    __SCIF_POINTER(int *) mark;
};

/* SCIF_FENCE_SIGNAL. */
struct scifioctl_fence_signal {
    int64_t loff;
    uint64_t lval;
    int64_t roff;
    uint64_t rval;
    int32_t flags;
};

/* SCIF_GET_NODEIDS: nodes points to an array of len ids, self to one. Afterwards len is the number
 * of nodes, also of those for which the array has no room. */
#ifdef SCIF_IOCTL_POSTED
struct scifioctl_node_ids {
    uint16_t *nodes;
    int32_t len;
    uint16_t *self;
};
#else
struct scifioctl_node_ids {
    uint64_t nodes;
    uint64_t self;
    int32_t len;
};
#endif

/* SCIF_LISTEN and SCIF_FENCE_WAIT take their number as the argument itself. */
#ifdef SCIF_IOCTL_POSTED
#define SCIF_BIND _IOWR('s', 1, int *)
#define SCIF_ACCEPTREG _IOWR('s', 5, void *)
#else
#define SCIF_BIND _IOWR('s', 1, uint64_t)
#define SCIF_ACCEPTREG _IOWR('s', 5, uint64_t)
#endif
#define SCIF_LISTEN _IOW('s', 2, int32_t)
#define SCIF_CONNECT _IOWR('s', 3, struct scifioctl_connect)
#define SCIF_ACCEPTREQ _IOWR('s', 4, __SCIF_SIZE(struct scifioctl_accept))
#define SCIF_SEND _IOWR('s', 6, __SCIF_SIZE(struct scifioctl_msg))
#define SCIF_RECV _IOWR('s', 7, __SCIF_SIZE(struct scifioctl_msg))
#define SCIF_REG _IOWR('s', 8, __SCIF_SIZE(struct scifioctl_reg))
#define SCIF_UNREG _IOWR('s', 9, __SCIF_SIZE(struct scifioctl_unreg))
#define SCIF_READFROM _IOWR('s', 10, __SCIF_SIZE(struct scifioctl_copy))
#define SCIF_WRITETO _IOWR('s', 11, __SCIF_SIZE(struct scifioctl_copy))
#define SCIF_VREADFROM _IOWR('s', 12, __SCIF_SIZE(struct scifioctl_copy))
#define SCIF_VWRITETO _IOWR('s', 13, __SCIF_SIZE(struct scifioctl_copy))
#define SCIF_GET_NODEIDS _IOWR('s', 14, __SCIF_SIZE(struct scifioctl_node_ids))
#define SCIF_FENCE_MARK _IOWR('s', 15, __SCIF_SIZE(struct scifioctl_fence_mark))
#define SCIF_FENCE_WAIT _IOWR('s', 16, int32_t)
#define SCIF_FENCE_SIGNAL _IOWR('s', 17, __SCIF_SIZE(struct scifioctl_fence_signal))
#define SCIF_GET_VERSION _IO('s', 23)

#endif
