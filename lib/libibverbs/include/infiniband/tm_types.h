/* The headers of messages with tags, as they are on the wire. Messages have none here (verbs.md). */
#ifndef _TM_TYPES_H
#define _TM_TYPES_H
#include <linux/types.h>
#include <stdint.h>

/* What a message with a tag is for. */
enum ibv_tmh_op {
    IBV_TMH_NO_TAG,
    IBV_TMH_RNDV,
    IBV_TMH_FIN,
    IBV_TMH_EAGER
};

struct ibv_tmh {
    uint8_t opcode; /* enum ibv_tmh_op */
    uint8_t reserved[3];
    __be32 app_ctx;
    __be64 tag;
};

/* Follows with IBV_TMH_RNDV: where the receiver reads the message. */
struct ibv_rvh {
    __be64 va;
    __be32 rkey;
    __be32 len;
};
#endif
