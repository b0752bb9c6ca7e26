/* Datagrams of communication management. */
#ifndef _UMAD_CM_H
#define _UMAD_CM_H
#include <infiniband/umad_types.h>

enum {
  UMAD_CM_ATTR_REQ = 0x10,
  UMAD_CM_ATTR_MRA,
  UMAD_CM_ATTR_REJ,
  UMAD_CM_ATTR_REP,
  UMAD_CM_ATTR_RTU,
  UMAD_CM_ATTR_DREQ,
  UMAD_CM_ATTR_DREP,
  UMAD_CM_ATTR_SIDR_REQ,
  UMAD_CM_ATTR_SIDR_REP,
  UMAD_CM_ATTR_LAP,
  UMAD_CM_ATTR_APR,
  UMAD_CM_ATTR_SAP,
  UMAD_CM_ATTR_SPR
};
#endif
