/* Datagrams of subnet management. */
#ifndef _UMAD_SM_H
#define _UMAD_SM_H
#include <infiniband/umad_types.h>

/* The bit of a status that says that a datagram is on its way back. */
enum {
  UMAD_SMP_DIRECTION = 0x8000
};

enum {
  UMAD_SM_ATTR_NODE_DESC = 0x10,
  UMAD_SM_ATTR_NODE_INFO,
  UMAD_SM_ATTR_SWITCH_INFO,
  UMAD_SM_ATTR_GUID_INFO = 0x14,
  UMAD_SM_ATTR_PORT_INFO,
  UMAD_SM_ATTR_PKEY_TABLE,
  UMAD_SM_ATTR_SLVL_TABLE,
  UMAD_SM_ATTR_VL_ARB_TABLE,
  UMAD_SM_ATTR_LINEAR_FT,
  UMAD_SM_ATTR_RANDOM_FT,
  UMAD_SM_ATTR_MCAST_FT,
  UMAD_SM_ATTR_LINK_SPD_WIDTH_TABLE,
  UMAD_SM_ATTR_VENDOR_MADS_TABLE,
  UMAD_SM_ATTR_HIERARCHY_INFO,
  UMAD_SM_ATTR_SM_INFO = 0x20,
  UMAD_SM_ATTR_VENDOR_DIAG = 0x30,
  UMAD_SM_ATTR_LED_INFO,
  UMAD_SM_ATTR_CABLE_INFO,
  UMAD_SM_ATTR_PORT_INFO_EXT,
  UMAD_SM_ATTR_VENDOR_MASK = 0xff00,
  UMAD_SM_ATTR_MLNX_EXT_PORT_INFO = 0xff90
};

/* Numbers of notices. */
enum {
  UMAD_SM_GID_IN_SERVICE_TRAP = 64,
  UMAD_SM_GID_OUT_OF_SERVICE_TRAP,
  UMAD_SM_MGID_CREATED_TRAP,
  UMAD_SM_MGID_DESTROYED_TRAP,
  UMAD_SM_UNPATH_TRAP,
  UMAD_SM_REPATH_TRAP,
  UMAD_SM_LINK_STATE_CHANGED_TRAP = 128,
  UMAD_SM_LINK_INTEGRITY_THRESHOLD_TRAP,
  UMAD_SM_BUFFER_OVERRUN_THRESHOLD_TRAP,
  UMAD_SM_WATCHDOG_TIMER_EXPIRED_TRAP,
  UMAD_SM_LOCAL_CHANGES_TRAP = 144,
  UMAD_SM_SYS_IMG_GUID_CHANGED_TRAP,
  UMAD_SM_BAD_MKEY_TRAP = 256,
  UMAD_SM_BAD_PKEY_TRAP,
  UMAD_SM_BAD_QKEY_TRAP,
  UMAD_SM_BAD_SWITCH_PKEY_TRAP
};

enum {
  UMAD_LEN_SMP_DATA = 64,
  UMAD_SMP_MAX_HOPS = 64
};

struct umad_smp {
  uint8_t base_version;
  uint8_t mgmt_class;
  uint8_t class_version;
  uint8_t method;
  __be16 status;
  uint8_t hop_ptr;
  uint8_t hop_cnt;
  __be64 tid;
  __be16 attr_id;
  __be16 resv;
  __be32 attr_mod;
  __be64 mkey;
  __be16 dr_slid;
  __be16 dr_dlid;
  uint8_t reserved[28];
  uint8_t data[UMAD_LEN_SMP_DATA];
  uint8_t initial_path[UMAD_SMP_MAX_HOPS];
  uint8_t return_path[UMAD_SMP_MAX_HOPS];
};
#endif
