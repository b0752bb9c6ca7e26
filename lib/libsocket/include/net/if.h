/* Network interfaces: `lo` is the own node, `scif0` leads to all nodes (docs/c.md). */
#ifndef _NET_IF_H
#define _NET_IF_H
#include <features.h>
#include <sys/socket.h>

#define IF_NAMESIZE 16
#define IFNAMSIZ IF_NAMESIZE

#define IFF_UP 0x1
#define IFF_BROADCAST 0x2
#define IFF_DEBUG 0x4
#define IFF_LOOPBACK 0x8
#define IFF_POINTOPOINT 0x10
#define IFF_RUNNING 0x40
#define IFF_NOARP 0x80
#define IFF_PROMISC 0x100
#define IFF_MULTICAST 0x1000

struct if_nameindex {
    unsigned int if_index;
    char *if_name;
};

struct ifreq {
    char ifr_name[IFNAMSIZ];
    union {
        struct sockaddr ifr_addr;
        struct sockaddr ifr_dstaddr;
        struct sockaddr ifr_broadaddr;
        struct sockaddr ifr_netmask;
        short ifr_flags;
        int ifr_ifindex;
        int ifr_mtu;
    };
};

__BEGIN_DECLS
/* 0, with errno ENXIO, if there is none of this name. */
unsigned int if_nametoindex(const char *name);
/* NULL, with errno ENXIO, if there is none of this number. `name` has IF_NAMESIZE bytes. */
char *if_indextoname(unsigned int index, char *name);
struct if_nameindex *if_nameindex(void);
void if_freenameindex(struct if_nameindex *list);
__END_DECLS
#endif
