/* The headers of rdma-core that programs include beside verbs.h and rdma_cma.h: their names, the
 * sizes of what is on the wire, and calls that are not supported. */
#include <infiniband/arch.h>
#include <infiniband/opcode.h>
#include <infiniband/sa.h>
#include <infiniband/tm_types.h>
#include <infiniband/verbs_api.h>
#include <rdma/rdma_cma.h>

#include "library.h"

static void opcodes(void) {
    CHECK(IBV_OPCODE_RC_SEND_FIRST == 0 && IBV_OPCODE_RC_RDMA_WRITE_FIRST == 6);
    CHECK(IBV_OPCODE_RC_RDMA_READ_REQUEST == 0x0c && IBV_OPCODE_RC_ACKNOWLEDGE == 0x11);
    CHECK(IBV_OPCODE_RC_FETCH_ADD == 0x14 && IBV_OPCODE_UC_SEND_ONLY == 0x24);
    CHECK(IBV_OPCODE_UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE == 0x2b);
    CHECK(IBV_OPCODE_RD_SEND_FIRST == 0x40 && IBV_OPCODE_RD_COMPARE_SWAP == 0x53);
    CHECK(IBV_OPCODE_UD_SEND_ONLY == 0x64 && IBV_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE == 0x65);
}

static void structures(void) {
    CHECK(sizeof(struct ibv_path_record) == 64 && sizeof(struct ibv_path_data) == 72);
    CHECK(offsetof(struct ibv_path_record, flowlabel_hoplimit) == 44);
    CHECK(offsetof(struct ibv_path_record, preference) == 57);
    CHECK(IBV_PATH_RECORD_REVERSIBLE == 0x80 && IBV_PATH_FLAG_BIDIRECTIONAL == 0x28);
    CHECK((IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_ALTERNATE) == 7);
    CHECK(IBV_PATH_FLAG_INBOUND == 16);
    struct ibv_sa_path_rec path = { .hop_limit = 1, .preference = 2 };
    struct ibv_sa_mcmember_rec member = { .mlid = 0xc000, .proxy_join = 1 };
    struct ibv_sa_service_rec service = { .lease = 3, .data64 = { 0, 4 } };
    CHECK(path.preference == 2 && member.proxy_join == 1 && service.data64[1] == 4);
    CHECK(sizeof(struct ibv_tmh) == 16 && sizeof(struct ibv_rvh) == 16);
    CHECK(IBV_TMH_NO_TAG == 0 && IBV_TMH_RNDV == 1 && IBV_TMH_FIN == 2 && IBV_TMH_EAGER == 3);
    struct ibv_flow_action_esp esp = {
        .flags = IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD | IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT |
                 IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT | IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW,
    };
    struct ibv_flow_action_esp_encap encap = { .val_ptr = &esp };
    struct ibv_flow_action_esp_keymat_aes_gcm keys = { .iv_algo = IBV_FLOW_ACTION_IV_ALGO_SEQ };
    struct ibv_flow_action_esp_replay_bmp replay = { .size = 64 };
    struct ibv_flow_action_esp_attr attr = {
        .esp_attr = &esp, .keymat_proto = IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM,
        .keymat_len = sizeof keys, .keymat_ptr = &keys,
        .replay_proto = IBV_FLOW_ACTION_ESP_REPLAY_BMP, .replay_len = sizeof replay,
        .replay_ptr = &replay, .esp_encap = &encap, .comp_mask = IBV_FLOW_ACTION_ESP_MASK_ESN,
    };
    CHECK(sizeof keys == 56 && sizeof encap == 24 && encap.val_ptr_data_u64 == (uintptr_t)&esp);
    CHECK(esp.flags == 15 && sizeof esp == 24);
    CHECK(!ibv_create_flow_action_esp(NULL, &attr) && errno == EOPNOTSUPP);
}

static void numbers(void) {
    CHECK(htonll(1) == 1ULL << 56 && ntohll(htonll(0x123456789abcdef)) == 0x123456789abcdef);
    CHECK(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT == 2 && IBV_ADVISE_MR_FLAG_FLUSH == 1);
    CHECK(IBV_QPF_GRH_REQUIRED == 1 && IBV_ACCESS_OPTIONAL_FIRST == 1 << 20);
    CHECK(IBV_ACCESS_OPTIONAL_RANGE == 0x3ff00000);
    enum ibv_port_cap_flags2 all =
        IBV_PORT_SET_NODE_DESC_SUP | IBV_PORT_INFO_EXT_SUP | IBV_PORT_VIRT_SUP |
        IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP | IBV_PORT_LINK_WIDTH_2X_SUP |
        IBV_PORT_LINK_SPEED_HDR_SUP | IBV_PORT_LINK_SPEED_NDR_SUP | IBV_PORT_LINK_SPEED_XDR_SUP;
    CHECK(all == 0x143f);
    CHECK(RDMA_IB_IP_PS_TCP >> 16 == RDMA_PS_TCP && RDMA_IB_IP_PS_UDP >> 16 == RDMA_PS_UDP);
    CHECK(RAI_DNS == 0x20 && RDMA_OPTION_IB_PATH == 1);
}

static void addresses(void) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_addrinfo *info = NULL, hints = { .ai_flags = RAI_DNS };
    struct ibv_path_data path = { .flags = IBV_PATH_FLAG_PRIMARY };
    struct ibv_ece ece = { 0 };
    struct rdma_cm_id *id = NULL;
    CHECK(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    FAILS(rdma_set_local_ece(id, &ece), EOPNOTSUPP);
    FAILS(rdma_get_remote_ece(id, &ece), EOPNOTSUPP);
    FAILS(rdma_reject_ece(id, NULL, 0), EOPNOTSUPP);
    FAILS(rdma_resolve_addrinfo(id, "localhost", "1", &hints), EOPNOTSUPP);
    FAILS(rdma_query_addrinfo(id, &info), EOPNOTSUPP);
    FAILS(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 1), EOPNOTSUPP);
    FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof path), EOPNOTSUPP);
    CHECK(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(channel);
    const char *name = rdma_event_str(RDMA_CM_EVENT_ADDRINFO_RESOLVED);
    CHECK(strcmp(name, "RDMA_CM_EVENT_ADDRINFO_RESOLVED") == 0);
    name = rdma_event_str(RDMA_CM_EVENT_ADDRINFO_ERROR);
    CHECK(strcmp(name, "RDMA_CM_EVENT_ADDRINFO_ERROR") == 0);
    CHECK(strcmp(rdma_event_str(RDMA_CM_EVENT_USER), "UNKNOWN EVENT") == 0);
    CHECK(RDMA_CM_EVENT_INTERNAL == 19);
}

int main(void) {
    opcodes();
    structures();
    numbers();
    addresses();
    return finish("names of rdma-core");
}
