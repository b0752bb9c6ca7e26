/* What programs use of the interface between the library of verbs and its drivers. */
#ifndef INFINIBAND_DRIVER_H
#define INFINIBAND_DRIVER_H
#include <infiniband/verbs.h>

__BEGIN_DECLS

enum ibv_gid_type_sysfs { IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2 };

/* The bytes of a file, without the line's end and with a 0 behind; the number of bytes, or -1. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
/* -1 on failure. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
                       enum ibv_gid_type_sysfs *type);

__END_DECLS
#endif
