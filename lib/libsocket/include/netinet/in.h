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
__BEGIN_DECLS
extern const struct in6_addr in6addr_any;
extern const struct in6_addr in6addr_loopback;
__END_DECLS
#define __in6_word(address, index) (((const uint32_t *)(const void *)(address))[index])
#define __in6_byte(address, index) (((const uint8_t *)(const void *)(address))[index])
#define __in6_first(address, words, last) \
    (__in6_word(address, 0) == 0 && __in6_word(address, 1) == 0 && \
     __in6_word(address, 2) == (words) && (last))
#define IN6_IS_ADDR_UNSPECIFIED(a) __in6_first(a, 0, __in6_word(a, 3) == 0)
#define IN6_IS_ADDR_LOOPBACK(a) __in6_first(a, 0, __in6_word(a, 3) == htonl(1))
#define IN6_IS_ADDR_V4MAPPED(a) __in6_first(a, htonl(0xffff), 1)
#define IN6_IS_ADDR_V4COMPAT(a) __in6_first(a, 0, ntohl(__in6_word(a, 3)) > 1)
#define IN6_IS_ADDR_MULTICAST(a) (__in6_byte(a, 0) == 0xff)
#define IN6_IS_ADDR_LINKLOCAL(a) (__in6_byte(a, 0) == 0xfe && (__in6_byte(a, 1) & 0xc0) == 0x80)
#define IN6_IS_ADDR_SITELOCAL(a) (__in6_byte(a, 0) == 0xfe && (__in6_byte(a, 1) & 0xc0) == 0xc0)
#define IN6_ARE_ADDR_EQUAL(a, b) \
    (__in6_word(a, 0) == __in6_word(b, 0) && __in6_word(a, 1) == __in6_word(b, 1) && \
     __in6_word(a, 2) == __in6_word(b, 2) && __in6_word(a, 3) == __in6_word(b, 3))
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
#define IP_MULTICAST_IF 32
#define IP_MULTICAST_TTL 33
#define IP_MULTICAST_LOOP 34
#define IP_ADD_MEMBERSHIP 35
#define IP_DROP_MEMBERSHIP 36
#define IPV6_UNICAST_HOPS 16
#define IPV6_MULTICAST_IF 17
#define IPV6_MULTICAST_HOPS 18
#define IPV6_MULTICAST_LOOP 19
#define IPV6_JOIN_GROUP 20
#define IPV6_LEAVE_GROUP 21
#define IPV6_ADD_MEMBERSHIP IPV6_JOIN_GROUP
#define IPV6_DROP_MEMBERSHIP IPV6_LEAVE_GROUP
#define IPV6_V6ONLY 26

/* What the options of groups take. There are no sockets of datagrams. */
struct ip_mreq {
    struct in_addr imr_multiaddr;
    struct in_addr imr_interface;
};
struct ip_mreqn {
    struct in_addr imr_multiaddr;
    struct in_addr imr_address;
    int imr_ifindex;
};
struct ipv6_mreq {
    struct in6_addr ipv6mr_multiaddr;
    unsigned ipv6mr_interface;
};

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
