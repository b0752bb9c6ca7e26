/* The operation of an InfiniBand packet, the first byte of its base transport header: the upper
 * three bits are the transport. For programs that read or write packets; the library has none. */
#ifndef INFINIBAND_OPCODE_H
#define INFINIBAND_OPCODE_H

#define IBV_OPCODE(transport, op) \
    IBV_OPCODE_##transport##_##op = IBV_OPCODE_##transport + IBV_OPCODE_##op

/* What all connected transports have. */
#define SKIFF_OPCODES_OF_MESSAGES(transport)                   \
    IBV_OPCODE(transport, SEND_FIRST),                         \
    IBV_OPCODE(transport, SEND_MIDDLE),                        \
    IBV_OPCODE(transport, SEND_LAST),                          \
    IBV_OPCODE(transport, SEND_LAST_WITH_IMMEDIATE),           \
    IBV_OPCODE(transport, SEND_ONLY),                          \
    IBV_OPCODE(transport, SEND_ONLY_WITH_IMMEDIATE),           \
    IBV_OPCODE(transport, RDMA_WRITE_FIRST),                   \
    IBV_OPCODE(transport, RDMA_WRITE_MIDDLE),                  \
    IBV_OPCODE(transport, RDMA_WRITE_LAST),                    \
    IBV_OPCODE(transport, RDMA_WRITE_LAST_WITH_IMMEDIATE),     \
    IBV_OPCODE(transport, RDMA_WRITE_ONLY),                    \
    IBV_OPCODE(transport, RDMA_WRITE_ONLY_WITH_IMMEDIATE)

/* What those have that answer. */
#define SKIFF_OPCODES_OF_ANSWERS(transport)                    \
    IBV_OPCODE(transport, RDMA_READ_REQUEST),                  \
    IBV_OPCODE(transport, RDMA_READ_RESPONSE_FIRST),           \
    IBV_OPCODE(transport, RDMA_READ_RESPONSE_MIDDLE),          \
    IBV_OPCODE(transport, RDMA_READ_RESPONSE_LAST),            \
    IBV_OPCODE(transport, RDMA_READ_RESPONSE_ONLY),            \
    IBV_OPCODE(transport, ACKNOWLEDGE),                        \
    IBV_OPCODE(transport, ATOMIC_ACKNOWLEDGE),                 \
    IBV_OPCODE(transport, COMPARE_SWAP),                       \
    IBV_OPCODE(transport, FETCH_ADD)

enum {
    IBV_OPCODE_RC = 0 << 5,
    IBV_OPCODE_UC = 1 << 5,
    IBV_OPCODE_RD = 2 << 5,
    IBV_OPCODE_UD = 3 << 5,

    /* The lower five bits, in the order of their numbers. */
    IBV_OPCODE_SEND_FIRST = 0,
    IBV_OPCODE_SEND_MIDDLE,
    IBV_OPCODE_SEND_LAST,
    IBV_OPCODE_SEND_LAST_WITH_IMMEDIATE,
    IBV_OPCODE_SEND_ONLY,
    IBV_OPCODE_SEND_ONLY_WITH_IMMEDIATE,
    IBV_OPCODE_RDMA_WRITE_FIRST,
    IBV_OPCODE_RDMA_WRITE_MIDDLE,
    IBV_OPCODE_RDMA_WRITE_LAST,
    IBV_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE,
    IBV_OPCODE_RDMA_WRITE_ONLY,
    IBV_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE,
    IBV_OPCODE_RDMA_READ_REQUEST,
    IBV_OPCODE_RDMA_READ_RESPONSE_FIRST,
    IBV_OPCODE_RDMA_READ_RESPONSE_MIDDLE,
    IBV_OPCODE_RDMA_READ_RESPONSE_LAST,
    IBV_OPCODE_RDMA_READ_RESPONSE_ONLY,
    IBV_OPCODE_ACKNOWLEDGE,
    IBV_OPCODE_ATOMIC_ACKNOWLEDGE,
    IBV_OPCODE_COMPARE_SWAP,
    IBV_OPCODE_FETCH_ADD,

    SKIFF_OPCODES_OF_MESSAGES(RC),
    SKIFF_OPCODES_OF_ANSWERS(RC),
    SKIFF_OPCODES_OF_MESSAGES(UC),
    SKIFF_OPCODES_OF_MESSAGES(RD),
    SKIFF_OPCODES_OF_ANSWERS(RD),
    IBV_OPCODE(UD, SEND_ONLY),
    IBV_OPCODE(UD, SEND_ONLY_WITH_IMMEDIATE)
};

#undef SKIFF_OPCODES_OF_MESSAGES
#undef SKIFF_OPCODES_OF_ANSWERS
#endif
