/* Network interfaces: there are none. Sockets reach nodes by their addresses. */
#ifndef _NET_IF_H
#define _NET_IF_H
#include <features.h>
#include <sys/socket.h>

#define IF_NAMESIZE 16
#define IFNAMSIZ IF_NAMESIZE

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
/* 0, with errno ENXIO. */
unsigned int if_nametoindex(const char *name);
/* NULL, with errno ENXIO. */
char *if_indextoname(unsigned int index, char *name);
/* An empty list. */
struct if_nameindex *if_nameindex(void);
void if_freenameindex(struct if_nameindex *list);
__END_DECLS
#endif
