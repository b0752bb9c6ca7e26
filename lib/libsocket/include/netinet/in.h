/* Internet addresses: node n is 10.0.0.(n+1). */
#ifndef _NETINET_IN_H
#define _NETINET_IN_H
#include <stdint.h>
#include <sys/socket.h>

typedef uint16_t in_port_t;
typedef uint32_t in_addr_t;

struct in_addr {
    in_addr_t s_addr;
};

struct sockaddr_in {
    sa_family_t sin_family;
    in_port_t sin_port;
    struct in_addr sin_addr;
    unsigned char sin_zero[8];
};

/* There is no AF_INET6, but for inet_ntop: the types are here so that programs which can do without it compile. */
struct in6_addr {
    union {
        uint8_t __bytes[16];
        uint16_t __shorts[8];
        uint32_t __words[4];
    } __in6;
};
#define s6_addr __in6.__bytes
#define s6_addr16 __in6.__shorts
#define s6_addr32 __in6.__words

struct sockaddr_in6 {
    sa_family_t sin6_family;
    in_port_t sin6_port;
    uint32_t sin6_flowinfo;
    struct in6_addr sin6_addr;
    uint32_t sin6_scope_id;
};
#define IN6ADDR_ANY_INIT { { { 0 } } }
#define IN6ADDR_LOOPBACK_INIT { { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 } } }

#define IPPROTO_IP 0
#define IPPROTO_ICMP 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_IPV6 41
#define IPPROTO_RAW 255
#define SOL_IP 0
#define IP_TOS 1
#define IP_TTL 2
#define IPV6_V6ONLY 26

#define IPPORT_RESERVED 1024
#define INET_ADDRSTRLEN 16
#define INET6_ADDRSTRLEN 46
#define INADDR_ANY ((in_addr_t)0)
#define INADDR_BROADCAST ((in_addr_t)0xffffffff)
#define INADDR_NONE ((in_addr_t)0xffffffff)
#define INADDR_LOOPBACK ((in_addr_t)0x7f000001)
#define IN_MULTICAST(host) (((in_addr_t)(host) & 0xf0000000) == 0xe0000000)
#define IN_LOOPBACKNET 127

#define htons(host) __builtin_bswap16((uint16_t)(host))
#define ntohs(net) __builtin_bswap16((uint16_t)(net))
#define htonl(host) __builtin_bswap32((uint32_t)(host))
#define ntohl(net) __builtin_bswap32((uint32_t)(net))
#endif
