/* The types of Linux's interfaces, for programs that use their names. */
#ifndef _LINUX_TYPES_H
#define _LINUX_TYPES_H
#include <sys/types.h>

typedef int8_t __s8;
typedef uint8_t __u8;
typedef int16_t __s16;
typedef uint16_t __u16;
typedef int32_t __s32;
typedef uint32_t __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __le16, __be16;
typedef __u32 __le32, __be32;
typedef __u64 __le64, __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;
#define __bitwise
#define __aligned_u64 __u64 __attribute__((aligned(8)))
#endif
