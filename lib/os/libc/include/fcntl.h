/* Opening files. The flags are the system's own numbers, which are not Linux's. */
#ifndef _FCNTL_H
#define _FCNTL_H
#include <sys/stat.h>
#include <sys/types.h>

#define O_RDONLY 0x00010000
#define O_WRONLY 0x00020000
#define O_RDWR 0x00030000
#define O_ACCMODE 0x00030000
#define O_NONBLOCK 0x00040000
#define O_NDELAY O_NONBLOCK
#define O_APPEND 0x00080000
#define O_ASYNC 0x00400000
#define O_SYNC 0x00800000
#define O_DSYNC O_SYNC
#define O_CLOEXEC 0x01000000
#define O_CREAT 0x02000000
#define O_TRUNC 0x04000000
#define O_EXCL 0x08000000
#define O_DIRECTORY 0x10000000
#define O_PATH 0x20000000
#define O_NOFOLLOW ((int)0x80000000)
#define O_NOCTTY 0
#define O_LARGEFILE 0

#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 0x0200
#define AT_REMOVEDIR 0x0400
#define AT_SYMLINK_FOLLOW 0x2000
#define AT_EACCESS 0x0400

#define F_DUPFD 0
#define F_GETFD 1
#define F_SETFD 2
#define F_GETFL 3
#define F_SETFL 4
#define F_GETLK 5
#define F_SETLK 6
#define F_SETLKW 7
/* The process that out-of-band data is told to, of which there is none: remembered. */
#define F_SETOWN 8
#define F_GETOWN 9
#define F_DUPFD_CLOEXEC 1030
#define FD_CLOEXEC 0x01000000
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2

/* Locks of an opening of the file, which all descriptors that came from it have together. */
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38

/* A lock of a file. File systems that keep none: ENOLCK. */
struct flock {
    short l_type;
    short l_whence;
    off_t l_start;
    off_t l_len;
    pid_t l_pid;
};

/* Advice for posix_fadvise, which has no effect. */
#define POSIX_FADV_NORMAL 0
#define POSIX_FADV_RANDOM 1
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_WILLNEED 3
#define POSIX_FADV_DONTNEED 4
#define POSIX_FADV_NOREUSE 5

__BEGIN_DECLS
int open(const char *path, int flags, ...);
int openat(int directory, const char *path, int flags, ...);
int creat(const char *path, mode_t mode);
int fcntl(int fd, int command, ...);
int posix_fadvise(int fd, off_t offset, off_t length, int advice);
int posix_fallocate(int fd, off_t offset, off_t length);
__END_DECLS
#endif
