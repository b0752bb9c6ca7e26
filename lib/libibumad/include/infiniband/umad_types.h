/* What datagrams of all management classes have in common. Fields are in the byte order of the network. */
#ifndef _UMAD_TYPES_H
#define _UMAD_TYPES_H
#include <infiniband/umad.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UMAD_BASE_VERSION 1
#define UMAD_QKEY 0x80010000
#define UMAD_RMPP_VERSION 1

enum {
  UMAD_CLASS_SUBN_LID_ROUTED = 1,
  UMAD_CLASS_SUBN_ADM = 3,
  UMAD_CLASS_PERF_MGMT,
  UMAD_CLASS_BM,
  UMAD_CLASS_DEVICE_MGMT,
  UMAD_CLASS_CM,
  UMAD_CLASS_SNMP,
  UMAD_CLASS_VENDOR_RANGE1_START,
  UMAD_CLASS_VENDOR_RANGE1_END = 0xf,
  UMAD_CLASS_APPLICATION_START,
  UMAD_CLASS_DEVICE_ADM = UMAD_CLASS_APPLICATION_START,
  UMAD_CLASS_BOOT_MGMT,
  UMAD_CLASS_BIS,
  UMAD_CLASS_CONG_MGMT = 0x21,
  UMAD_CLASS_APPLICATION_END = 0x2f,
  UMAD_CLASS_VENDOR_RANGE2_START,
  UMAD_CLASS_VENDOR_RANGE2_END = 0x4f,
  UMAD_CLASS_SUBN_DIRECTED_ROUTE = 0x81
};

enum {
  UMAD_METHOD_GET = 1,
  UMAD_METHOD_SET,
  UMAD_METHOD_SEND,
  UMAD_METHOD_TRAP = 5,
  UMAD_METHOD_REPORT,
  UMAD_METHOD_TRAP_REPRESS,
  UMAD_METHOD_RESP_MASK = 0x80,
  UMAD_METHOD_GET_RESP,
  UMAD_METHOD_REPORT_RESP = 0x86
};

/* Bits of a status; 2 to 4 hold a number, 8 to 15 are the class's. */
enum {
  UMAD_STATUS_SUCCESS = 0,
  UMAD_STATUS_BUSY = 1,
  UMAD_STATUS_REDIRECT = 2,
  UMAD_STATUS_BAD_VERSION = 1 << 2,
  UMAD_STATUS_METHOD_NOT_SUPPORTED = 2 << 2,
  UMAD_STATUS_ATTR_NOT_SUPPORTED = 3 << 2,
  UMAD_STATUS_INVALID_ATTR_VALUE = 7 << 2,
  UMAD_STATUS_INVALID_FIELD_MASK = 7 << 2,
  UMAD_STATUS_CLASS_MASK = 0xff00
};

enum {
  UMAD_ATTR_CLASS_PORT_INFO = 1,
  UMAD_ATTR_NOTICE,
  UMAD_ATTR_INFORM_INFO
};

enum {
  UMAD_RMPP_FLAG_ACTIVE = 1
};

enum {
  UMAD_OPENIB_OUI = 0x001405
};

/* Bytes behind the headers of a datagram. */
enum {
  UMAD_LEN_DATA = 232,
  UMAD_LEN_RMPP_DATA = 220,
  UMAD_LEN_VENDOR_DATA = 216,
  UMAD_LEN_DM_DATA = 192
};

struct umad_hdr {
  uint8_t base_version;
  uint8_t mgmt_class;
  uint8_t class_version;
  uint8_t method;
  __be16 status;
  __be16 class_specific;
  __be64 tid;
  __be16 attr_id;
  __be16 resv;
  __be32 attr_mod;
};

struct umad_rmpp_hdr {
  uint8_t rmpp_version;
  uint8_t rmpp_type;
  uint8_t rmpp_rtime_flags;
  uint8_t rmpp_status;
  __be32 seg_num;
  __be32 paylen_newwin;
};

struct umad_packet {
  struct umad_hdr mad_hdr;
  uint8_t data[UMAD_LEN_DATA];
};

struct umad_rmpp_packet {
  struct umad_hdr mad_hdr;
  struct umad_rmpp_hdr rmpp_hdr;
  uint8_t data[UMAD_LEN_RMPP_DATA];
};

struct umad_dm_packet {
  struct umad_hdr mad_hdr;
  uint8_t reserved[40];
  uint8_t data[UMAD_LEN_DM_DATA];
};

struct umad_vendor_packet {
  struct umad_hdr mad_hdr;
  struct umad_rmpp_hdr rmpp_hdr;
  uint8_t reserved;
  uint8_t oui[3];
  uint8_t data[UMAD_LEN_VENDOR_DATA];
};

struct umad_class_port_info {
  uint8_t base_ver;
  uint8_t class_ver;
  __be16 cap_mask;
  __be32 cap_mask2_resp_time;
  union {
    uint8_t redir_gid[16] __attribute__((deprecated));
    union umad_gid redirgid;
  };
  __be32 redir_tc_sl_fl;
  __be16 redir_lid;
  __be16 redir_pkey;
  __be32 redir_qp;
  __be32 redir_qkey;
  union {
    uint8_t trap_gid[16] __attribute__((deprecated));
    union umad_gid trapgid;
  };
  __be32 trap_tc_sl_fl;
  __be16 trap_lid;
  __be16 trap_pkey;
  __be32 trap_hl_qp;
  __be32 trap_qkey;
};

/* The lower bits of cap_mask2_resp_time. */
enum {
  UMAD_CLASS_RESP_TIME_MASK = 31
};

static inline uint8_t umad_class_resp_time(struct umad_class_port_info *info) {
  return be32toh(info->cap_mask2_resp_time) & UMAD_CLASS_RESP_TIME_MASK;
}

static inline uint32_t umad_class_cap_mask2(struct umad_class_port_info *info) {
  return be32toh(info->cap_mask2_resp_time) / (UMAD_CLASS_RESP_TIME_MASK + 1);
}

#ifdef __cplusplus
}
#endif
#endif
