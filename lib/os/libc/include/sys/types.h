/* Types of the system's calls. */
#ifndef _SYS_TYPES_H
#define _SYS_TYPES_H
#include <features.h>
#include <stddef.h>
#include <stdint.h>
/* As elsewhere: programs use be64toh with this header or any that includes it. */
#include <endian.h>

#ifndef __ssize_t_defined
#define __ssize_t_defined
typedef long ssize_t;
#endif
typedef long off_t;
typedef long off64_t;
typedef long loff_t;
typedef int pid_t;
typedef int key_t;
typedef unsigned uid_t;
typedef unsigned gid_t;
typedef unsigned id_t;
typedef unsigned mode_t;
typedef unsigned long dev_t;
typedef unsigned long ino_t;
typedef unsigned long nlink_t;
typedef long blksize_t;
typedef long blkcnt_t;
typedef long time_t;
/* As elsewhere: programs use it with sys/time.h or sys/select.h alone. */
struct timespec {
    time_t tv_sec;
    long tv_nsec;
};
typedef long suseconds_t;
typedef unsigned useconds_t;
typedef int clockid_t;
typedef void *timer_t;
typedef long clock_t;
typedef const struct __skiff_thread *pthread_t;
typedef unsigned char u_char;
typedef unsigned short u_short;
typedef unsigned u_int;
typedef unsigned long u_long;
typedef unsigned uint;
typedef unsigned short ushort;
typedef unsigned long ulong;
typedef uint8_t u_int8_t;
typedef uint16_t u_int16_t;
typedef uint32_t u_int32_t;
typedef uint64_t u_int64_t;
#endif
