/* The order of bytes by Linux's names. */
#ifndef _ASM_BYTEORDER_H
#define _ASM_BYTEORDER_H
#include <endian.h>
#include <linux/types.h>

#define __LITTLE_ENDIAN_BITFIELD
#define __cpu_to_be16(x) ((__be16)htobe16(x))
#define __cpu_to_be32(x) ((__be32)htobe32(x))
#define __cpu_to_be64(x) ((__be64)htobe64(x))
#define __cpu_to_le16(x) ((__le16)(x))
#define __cpu_to_le32(x) ((__le32)(x))
#define __cpu_to_le64(x) ((__le64)(x))
#define __be16_to_cpu(x) be16toh(x)
#define __be32_to_cpu(x) be32toh(x)
#define __be64_to_cpu(x) ((__u64)be64toh(x))
#define __le16_to_cpu(x) ((__u16)(x))
#define __le32_to_cpu(x) ((__u32)(x))
#define __le64_to_cpu(x) ((__u64)(x))
#endif
