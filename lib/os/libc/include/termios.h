/* Terminals: the console. It edits lines, or gives bytes as they come (ICANON off). */
#ifndef _TERMIOS_H
#define _TERMIOS_H
#include <features.h>
#include <sys/types.h>

typedef unsigned char cc_t;
typedef unsigned int speed_t;
typedef unsigned int tcflag_t;

#define NCCS 32

struct termios {
    tcflag_t c_iflag;
    tcflag_t c_oflag;
    tcflag_t c_cflag;
    tcflag_t c_lflag;
    cc_t c_line;
    cc_t c_cc[NCCS];
    speed_t c_ispeed;
    speed_t c_ospeed;
};

#define VINTR 8
#define VQUIT 9
#define VERASE 3
#define VKILL 5
#define VEOF 0
#define VTIME 17
#define VMIN 16
#define VSTART 12
#define VSTOP 13
#define VSUSP 10
#define VEOL 1

#define IGNBRK 0000001
#define BRKINT 0000002
#define IGNPAR 0000004
#define PARMRK 0000010
#define INPCK 0000020
#define ISTRIP 0000040
#define INLCR 0000100
#define IGNCR 0000200
#define ICRNL 0000400
#define IXON 01000
#define IXANY 0004000
#define IXOFF 02000

#define OPOST 0000001
#define ONLCR 02
#define OCRNL 0000010
#define ONOCR 0000020
#define ONLRET 0000040

#define CSIZE 01400
#define CS5 0000000
#define CS6 0400
#define CS7 01000
#define CS8 01400
#define CSTOPB 02000
#define CREAD 04000
#define PARENB 010000
#define PARODD 020000
#define HUPCL 040000
#define CLOCAL 0100000

#define ISIG 0x80
#define ICANON 0x100
#define ECHO 0000010
#define ECHOE 0x2
#define ECHOK 0x4
#define ECHONL 0x10
#define NOFLSH 0x80000000
#define TOSTOP 0x400000
#define IEXTEN 0x400

#define B0 0000000
#define B9600 0000015
#define B19200 0000016
#define B38400 0000017
#define B115200 021

#define TCSANOW 0
#define TCSADRAIN 1
#define TCSAFLUSH 2

#define TCIFLUSH 0
#define TCOFLUSH 1
#define TCIOFLUSH 2
#define TCOOFF 0
#define TCOON 1
#define TCIOFF 2
#define TCION 3

__BEGIN_DECLS
int tcgetattr(int fd, struct termios *settings);
/* EINVAL: lines without ECHO, or reads that end by VTIME, which the console does not have. */
int tcsetattr(int fd, int when, const struct termios *settings);
int tcdrain(int fd);
int tcflow(int fd, int action);
int tcflush(int fd, int queue);
int tcsendbreak(int fd, int duration);
void cfmakeraw(struct termios *settings);
speed_t cfgetispeed(const struct termios *settings);
speed_t cfgetospeed(const struct termios *settings);
int cfsetispeed(struct termios *settings, speed_t speed);
int cfsetospeed(struct termios *settings, speed_t speed);
int cfsetspeed(struct termios *settings, speed_t speed);
__END_DECLS
#endif
