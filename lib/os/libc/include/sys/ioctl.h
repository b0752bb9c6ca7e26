/* ioctl: the requests of scif_ioctl.h, those for umad files of InfiniBand devices, and these here. */
#ifndef _SYS_IOCTL_H
#define _SYS_IOCTL_H
#include <features.h>

/* Direction, size of the argument, group, number. */
#define _IOC_NONE 0U
#define _IOC_WRITE 1U
#define _IOC_READ 2U
#define _IOC(direction, group, number, size) \
    (((direction) << 30) | ((unsigned)(size) << 16) | ((group) << 8) | (number))
#define _IO(group, number) _IOC(_IOC_NONE, group, number, 0)
#define _IOR(group, number, type) _IOC(_IOC_READ, group, number, sizeof(type))
#define _IOW(group, number, type) _IOC(_IOC_WRITE, group, number, sizeof(type))
#define _IOWR(group, number, type) _IOC(_IOC_READ | _IOC_WRITE, group, number, sizeof(type))

/* Bytes that can be received, of a socket; no waiting (int). */
#define FIONREAD 0x541b
#define FIONBIO 0x5421

/* The size of a terminal. */
#define TIOCGWINSZ 0x5413
struct winsize {
    unsigned short ws_row;
    unsigned short ws_col;
    unsigned short ws_xpixel;
    unsigned short ws_ypixel;
};

__BEGIN_DECLS
int ioctl(int fd, unsigned long request, ...);
__END_DECLS
#endif
