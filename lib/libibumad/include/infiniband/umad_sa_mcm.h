/* Records of members of multicast groups. */
#ifndef _UMAD_SA_MCM_H
#define _UMAD_SA_MCM_H
#include <infiniband/umad_sa.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Components of a record, in their order. */
enum {
  UMAD_SA_MCM_COMP_MASK_MGID = 1ull << 0,
  UMAD_SA_MCM_COMP_MASK_PORT_GID = 1ull << 1,
  UMAD_SA_MCM_COMP_MASK_QKEY = 1ull << 2,
  UMAD_SA_MCM_COMP_MASK_MLID = 1ull << 3,
  UMAD_SA_MCM_COMP_MASK_MTU_SEL = 1ull << 4,
  UMAD_SA_MCM_COMP_MASK_MTU = 1ull << 5,
  UMAD_SA_MCM_COMP_MASK_TCLASS = 1ull << 6,
  UMAD_SA_MCM_COMP_MASK_PKEY = 1ull << 7,
  UMAD_SA_MCM_COMP_MASK_RATE_SEL = 1ull << 8,
  UMAD_SA_MCM_COMP_MASK_RATE = 1ull << 9,
  UMAD_SA_MCM_COMP_MASK_LIFE_TIME_SEL = 1ull << 10,
  UMAD_SA_MCM_COMP_MASK_LIFE_TIME = 1ull << 11,
  UMAD_SA_MCM_COMP_MASK_SL = 1ull << 12,
  UMAD_SA_MCM_COMP_MASK_FLOW_LABEL = 1ull << 13,
  UMAD_SA_MCM_COMP_MASK_HOP_LIMIT = 1ull << 14,
  UMAD_SA_MCM_COMP_MASK_SCOPE = 1ull << 15,
  UMAD_SA_MCM_COMP_MASK_JOIN_STATE = 1ull << 16,
  UMAD_SA_MCM_COMP_MASK_PROXY_JOIN = 1ull << 17
};

enum {
  UMAD_SA_MCM_JOIN_STATE_FULL_MEMBER = 1 << 0,
  UMAD_SA_MCM_JOIN_STATE_NON_MEMBER = 1 << 1,
  UMAD_SA_MCM_JOIN_STATE_SEND_ONLY_NON_MEMBER = 1 << 2,
  UMAD_SA_MCM_JOIN_STATE_SEND_ONLY_FULL_MEMBER = 1 << 3
};

enum {
  UMAD_SA_MCM_ADDR_SCOPE_LINK_LOCAL = 2,
  UMAD_SA_MCM_ADDR_SCOPE_SITE_LOCAL = 5,
  UMAD_SA_MCM_ADDR_SCOPE_ORG_LOCAL = 8,
  UMAD_SA_MCM_ADDR_SCOPE_GLOBAL = 14
};

/* mtu, rate and pkt_life have a selector in their upper two bits. sl_flow_hop: 4, 20, 8 bits; scope_state: 4, 4. */
struct umad_sa_mcmember_record {
  uint8_t mgid[16];
  uint8_t portgid[16];
  __be32 qkey;
  __be16 mlid;
  uint8_t mtu;
  uint8_t tclass;
  __be16 pkey;
  uint8_t rate;
  uint8_t pkt_life;
  __be32 sl_flow_hop;
  uint8_t scope_state;
  uint8_t proxy_join;
  uint8_t reserved[2];
  uint8_t pad[4];
};

/* What a null pointer stands for is not wanted. */
static inline void umad_sa_mcm_get_sl_flow_hop(__be32 field, uint8_t *const sl, uint32_t *const flow,
                                               uint8_t *const hops) {
  const uint32_t value = ntohl(field);
  if (sl) *sl = (uint8_t)(value >> 28);
  if (flow) *flow = value >> 8 & 0xfffff;
  if (hops) *hops = (uint8_t)value;
}

static inline __be32 umad_sa_mcm_set_sl_flow_hop(uint8_t sl, uint32_t flow, uint8_t hops) {
  return htonl((uint32_t)sl << 28 | (flow & 0xfffff) << 8 | hops);
}

static inline void umad_sa_mcm_get_scope_state(const uint8_t field, uint8_t *const scope, uint8_t *const state) {
  if (scope) *scope = field >> 4;
  if (state) *state = field & 15;
}

static inline uint8_t umad_sa_mcm_set_scope_state(const uint8_t scope, const uint8_t state) {
  return (uint8_t)(scope << 4) | state;
}

static inline void umad_sa_mcm_set_join_state(struct umad_sa_mcmember_record *record, const uint8_t state) {
  record->scope_state = (uint8_t)(record->scope_state >> 4 << 4) | (state & 15);
}

static inline int umad_sa_mcm_get_proxy_join(struct umad_sa_mcmember_record *record) {
  return record->proxy_join >> 7;
}

#ifdef __cplusplus
}
#endif
#endif
