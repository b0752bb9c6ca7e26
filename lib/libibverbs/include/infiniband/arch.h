/* Numbers of 64 bits in the order of the network, for old programs; endian.h has these by its own
 * names. */
#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H
#include <endian.h>
#include <stdint.h>

#ifndef ntohll
static inline uint64_t htonll(uint64_t number) { return htobe64(number); }
static inline uint64_t ntohll(uint64_t number) { return be64toh(number); }
#define htonll htonll
#define ntohll ntohll
#endif
#endif
