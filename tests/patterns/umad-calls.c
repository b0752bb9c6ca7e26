/* Management datagrams within a program: the device, agents, sends and receives, long messages, and what is wrong with
 * calls. */
#include "library.h"
#include <fcntl.h>
#include <infiniband/umad.h>
#include <infiniband/umad_cm.h>
#include <infiniband/umad_sa.h>
#include <infiniband/umad_sa_mcm.h>
#include <infiniband/umad_sm.h>
#include <infiniband/umad_str.h>
#include <poll.h>
#include <spawn.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define SAYS(call, text) CHECK(strcmp(call, text) == 0)

/* A vendor's class, in which this program asks itself. */
#define VENDOR 0x35

static void sizes(void) {
    CHECK(sizeof(struct ib_user_mad) == 64 && offsetof(struct ib_user_mad, addr) == 20);
    CHECK(offsetof(struct ib_user_mad, addr.pkey_index) == 56);
    CHECK(sizeof(struct umad_packet) == 256 && sizeof(struct umad_rmpp_packet) == 256);
    CHECK(sizeof(struct umad_sa_packet) == 256 && sizeof(struct umad_vendor_packet) == 256);
    CHECK(sizeof(struct umad_smp) == 256 && sizeof(struct umad_dm_packet) == 256);
    CHECK(sizeof(struct umad_sa_mcmember_record) == 56 && sizeof(struct umad_class_port_info) == 72);
    CHECK(offsetof(struct umad_sa_packet, comp_mask) == 48);
    struct umad_class_port_info info = { .cap_mask2_resp_time = htobe32(5 << 5 | 18) };
    CHECK(umad_class_cap_mask2(&info) == 5 && umad_class_resp_time(&info) == 18);
    CHECK(umad_sa_set_rate_mtu_or_life(UMAD_SA_SELECTOR_EXACTLY, 0x44) == 0x84);
    CHECK(umad_sa_get_rate_mtu_or_life(0x84) == 4);
    uint32_t flow;
    uint8_t level, hops, scope, state;
    umad_sa_mcm_get_sl_flow_hop(umad_sa_mcm_set_sl_flow_hop(9, 0x12345, 7), &level, &flow, &hops);
    CHECK(level == 9 && flow == 0x12345 && hops == 7);
    umad_sa_mcm_get_scope_state(umad_sa_mcm_set_scope_state(5, 3), &scope, &state);
    CHECK(scope == 5 && state == 3);
}

static void names(void) {
    SAYS(umad_class_str(UMAD_CLASS_SUBN_DIRECTED_ROUTE), "Subn");
    SAYS(umad_class_str(UMAD_CLASS_DEVICE_ADM), "DevAdm");
    SAYS(umad_class_str(0x20), "Application");
    SAYS(umad_class_str(VENDOR), "Vendor");
    SAYS(umad_class_str(0x60), "<unknown>");
    SAYS(umad_method_str(UMAD_CLASS_SUBN_ADM, UMAD_SA_METHOD_GET_TABLE), "GetTable");
    SAYS(umad_method_str(UMAD_CLASS_PERF_MGMT, UMAD_METHOD_GET_RESP), "GetResp");
    SAYS(umad_attribute_str(UMAD_CLASS_SUBN_LID_ROUTED, htobe16(UMAD_SM_ATTR_PORT_INFO)), "PortInfo");
    SAYS(umad_attribute_str(UMAD_CLASS_SUBN_ADM, htobe16(UMAD_SA_ATTR_PATH_REC)), "PathRecord");
    SAYS(umad_attribute_str(UMAD_CLASS_CM, htobe16(UMAD_CM_ATTR_REJ)), "ConnectReject");
    SAYS(umad_attribute_str(UMAD_CLASS_PERF_MGMT, htobe16(UMAD_ATTR_CLASS_PORT_INFO)), "Class Port Info");
    SAYS(umad_common_mad_status_str(htobe16(UMAD_STATUS_ATTR_NOT_SUPPORTED)), "Method/Attribute combo not supported");
    SAYS(umad_common_mad_status_str(0), "Success");
    SAYS(umad_sa_mad_status_str(htobe16(UMAD_SA_STATUS_NO_RECORDS << 8)), "No Records");
    SAYS(umad_sa_mad_status_str(htobe16(99 << 8)), "Undefined Error");
}

static unsigned own_lid;

static void devices(void) {
    char list[4][UMAD_CA_NAME_LEN];
    GIVES(umad_init(), 0);
    GIVES(umad_get_cas_names(list, 4), 1);
    SAYS(list[0], "scif0");
    GIVES(umad_get_cas_names(list, 0), 0);

    umad_ca_t ca;
    GIVES(umad_get_ca("scif0", &ca), 0);
    CHECK(ca.node_type == 1 && ca.numports == 1 && ca.ports[0] == NULL && ca.ports[1] != NULL);
    CHECK(be64toh(ca.node_guid) >> 32 == 0x02534b49);
    SAYS(ca.ca_type, "SCIF");
    GIVES(umad_release_ca(&ca), 0);
    CHECK(ca.ports[1] == NULL);
    GIVES(umad_get_ca("mthca0", &ca), -ENOENT);
    GIVES(umad_get_ca(NULL, &ca), 0);
    umad_release_ca(&ca);

    umad_port_t port;
    GIVES(umad_get_port(NULL, UMAD_ANY_PORT, &port), 0);
    CHECK(port.portnum == 1 && port.state == 4 && port.phys_state == 5 && port.rate == 100 && port.lmc == 0);
    CHECK(port.sm_lid == 1 && port.base_lid >= 1 && port.pkeys_size == 1 && port.pkeys[0] == 0xffff);
    CHECK(be64toh(port.gid_prefix) == 0xfe80000000000000);
    SAYS(port.link_layer, "InfiniBand");
    SAYS(port.ca_name, "scif0");
    own_lid = port.base_lid;
    __be64 guids[2];
    GIVES(umad_get_ca_portguids("scif0", guids, 2), 2);
    CHECK(guids[0] == 0 && guids[1] == port.port_guid);
    GIVES(umad_get_ca_portguids("scif0", guids, 1), -ENOMEM);
    GIVES(umad_release_port(&port), 0);
    CHECK(port.pkeys == NULL);
    GIVES(umad_get_port("scif0", 2, &port), -EIO);

    struct umad_device_node *nodes = umad_get_ca_device_list();
    CHECK(nodes && nodes->next == NULL && strcmp(nodes->ca_name, "scif0") == 0);
    umad_free_ca_device_list(nodes);
    struct umad_device_node b = { NULL, "b" }, a = { &b, "a" }, c = { &a, "c" }, *head = &c;
    GIVES(umad_sort_ca_device_list(&head, 2), EINVAL);
    GIVES(umad_sort_ca_device_list(&head, 0), 0);
    CHECK(head == &a && a.next == &b && b.next == &c && c.next == NULL);

    struct umad_ca_pair pair;
    GIVES(umad_get_smi_gsi_pairs(&pair, 1), 1);
    SAYS(pair.smi_name, "scif0");
    GIVES(umad_get_smi_gsi_pair_by_ca_name(NULL, 0, &pair, 1), 0);
    CHECK(pair.smi_preferred_port == 1 && pair.gsi_preferred_port == 1 && strcmp(pair.gsi_name, "scif0") == 0);
    GIVES(umad_get_smi_gsi_pair_by_ca_name("mthca0", 0, &pair, 1), -ENODEV);

    char path[64];
    GIVES(umad_get_issm_path(NULL, 0, path, sizeof path), 0);
    SAYS(path, "/dev/infiniband/issm0");
    GIVES(umad_get_issm_path(NULL, 0, path, 5), 0);
    SAYS(path, "/dev");
}

static void agents(void) {
    int fd = umad_open_port("scif0", 1);
    CHECK(fd >= 0 && umad_get_fd(fd) == fd && umad_size() == 64);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    GIVES(umad_open_port("scif0", 2), -EINVAL);
    GIVES(umad_open_port("mthca0", 0), -ENODEV);
    GIVES(umad_register(fd, UMAD_CLASS_PERF_MGMT, 1, 0, NULL), 0);
    GIVES(umad_register(fd, UMAD_CLASS_PERF_MGMT, 1, 1, NULL), -EPERM);
    long methods[16 / sizeof(long)] = { 1 << UMAD_METHOD_GET };
    uint8_t organisation[3] = { 0, 0x14, 5 };
    GIVES(umad_register_oui(fd, VENDOR, 1, organisation, methods), 1);
    GIVES(umad_register_oui(fd, VENDOR, 1, organisation, methods), -EPERM);
    GIVES(umad_register_oui(fd, UMAD_CLASS_PERF_MGMT, 1, organisation, NULL), -EINVAL);
    uint32_t id = 99;
    struct umad_reg_attr attributes = { .mgmt_class = VENDOR, .mgmt_class_version = 1 };
    GIVES(umad_register2(fd, &attributes, &id), EINVAL);
    attributes.oui = 0x1000001;
    GIVES(umad_register2(fd, &attributes, &id), EINVAL);
    attributes.oui = UMAD_OPENIB_OUI;
    attributes.flags = 0x80;
    GIVES(umad_register2(fd, &attributes, &id), EINVAL);
    CHECK(attributes.flags == UMAD_USER_RMPP);
    attributes.rmpp_version = 1;
    GIVES(umad_register2(fd, &attributes, &id), 0);
    CHECK(id == 2);
    GIVES(umad_register2(fd, NULL, &id), EINVAL);
    GIVES(umad_unregister(fd, 2), 0);
    FAILS(umad_unregister(fd, 2), EINVAL);
    FAILS(ioctl(fd, IB_USER_MAD_ENABLE_PKEY), EINVAL);
    umad_close_port(fd);
    FAILS(umad_unregister(fd, 0), EBADF);
}

static union {
    struct ib_user_mad header;
    uint8_t bytes[64 + 100 * 1024];
} sent, got;

static struct umad_hdr *mad(void) { return (struct umad_hdr *)umad_get_mad(&sent); }

static void begin(int class_, int version, int method, int attribute) {
    memset(&sent, 0, sizeof sent);
    mad()->base_version = UMAD_BASE_VERSION;
    mad()->mgmt_class = (uint8_t)class_;
    mad()->class_version = (uint8_t)version;
    mad()->method = (uint8_t)method;
    mad()->attr_id = htobe16((uint16_t)attribute);
    /* One of a long message that has come is not to be used again for a while. */
    static uint32_t transaction = 0x55667788;
    mad()->tid = htobe64((uint64_t)0x11223344 << 32 | transaction++);
}

static void questions(void) {
    int fd = umad_open_port(NULL, 0), length = 256;
    int agent = umad_register(fd, UMAD_CLASS_SUBN_DIRECTED_ROUTE, 1, 0, NULL);
    GIVES(umad_recv(fd, &got, &length, 0), -EWOULDBLOCK);
    GIVES(umad_recv(fd, &got, &length, 20), -ETIMEDOUT);
    GIVES(umad_poll(fd, 20), -ETIMEDOUT);
    GIVES(umad_recv(fd, NULL, &length, 0), -EINVAL);

    begin(UMAD_CLASS_SUBN_DIRECTED_ROUTE, 1, UMAD_METHOD_GET, UMAD_SM_ATTR_NODE_INFO);
    struct umad_smp *smp = (struct umad_smp *)mad();
    smp->dr_slid = smp->dr_dlid = 0xffff;
    umad_set_addr(&sent, 0xffff, 0, 0, 0);
    umad_set_grh(&sent, NULL);
    umad_set_pkey(&sent, 0);
    GIVES(umad_send(fd, agent, &sent, 256, 1000, 3), 0);
    GIVES(umad_poll(fd, 5000), 0);
    length = 10;
    GIVES(umad_recv(fd, &got, &length, 5000), -EINVAL);
    length = 256;
    GIVES(umad_recv(fd, &got, &length, 5000), agent);
    smp = (struct umad_smp *)umad_get_mad(&got);
    CHECK(length == 256 && umad_status(&got) == 0 && smp->method == UMAD_METHOD_GET_RESP);
    CHECK(smp->data[2] == 1 && smp->data[3] == 1 && be64toh(smp->tid) << 32 == 0x5566778800000000);

    /* Nobody is there: what was sent comes back. */
    agent = umad_register(fd, UMAD_CLASS_SUBN_LID_ROUTED, 1, 0, NULL);
    begin(UMAD_CLASS_SUBN_LID_ROUTED, 1, UMAD_METHOD_GET, UMAD_SM_ATTR_NODE_INFO);
    umad_set_addr_net(&sent, htobe16(99), 0, 0, 0);
    GIVES(umad_send(fd, agent, &sent, 256, 20, 1), 0);
    GIVES(umad_send(fd, agent, &sent, 256, 20, 1), -EIO);
    CHECK(errno == EINVAL);
    length = 256;
    GIVES(umad_recv(fd, &got, &length, 5000), agent);
    CHECK(umad_status(&got) == ETIMEDOUT && length == 24);
    GIVES(umad_send(fd, 30, &sent, 256, 20, 1), -EIO);
    CHECK(errno == EIO);
    umad_close_port(fd);
}

/* A program that asks itself, with as many bytes of data, and is answered with as many. */
static void exchange(int fd, int client, int server, int bytes) {
    begin(VENDOR, 1, UMAD_METHOD_GET, 1);
    struct umad_vendor_packet *vendor = (struct umad_vendor_packet *)mad();
    vendor->oui[1] = 0x14;
    vendor->oui[2] = 5;
    vendor->rmpp_hdr.rmpp_version = UMAD_RMPP_VERSION;
    vendor->rmpp_hdr.rmpp_rtime_flags = UMAD_RMPP_FLAG_ACTIVE;
    vendor->rmpp_hdr.rmpp_type = 1;
    for (int at = 0; at < bytes; at++)
        vendor->data[at] = (uint8_t)(at * 7);
    umad_set_addr(&sent, (int)own_lid, 1, 0, (int)UMAD_QKEY);
    GIVES(umad_send(fd, client, &sent, 40 + bytes, 20000, 3), 0);
    int length = 256, result = umad_recv(fd, &got, &length, 20000);
    if (bytes > (int)sizeof vendor->data) {
        GIVES(result, -ENOSPC);
        GIVES(length, 40 + bytes);
        result = umad_recv(fd, &got, &length, 20000);
    }
    GIVES(result, server);
    vendor = (struct umad_vendor_packet *)umad_get_mad(&got);
    CHECK(vendor->mad_hdr.method == UMAD_METHOD_GET && length >= 40 + bytes);
    memcpy(&sent, &got, (size_t)(64 + length));
    mad()->method = UMAD_METHOD_GET_RESP;
    umad_set_addr_net(&sent, umad_get_mad_addr(&got)->lid, umad_get_mad_addr(&got)->qpn, 0, htobe32(UMAD_QKEY));
    GIVES(umad_send(fd, server, &sent, 40 + bytes, 0, 0), 0);
    length = (int)sizeof got - 64;
    GIVES(umad_recv(fd, &got, &length, 20000), client);
    CHECK(vendor->mad_hdr.method == UMAD_METHOD_GET_RESP && length >= 40 + bytes);
    int wrong = 0;
    for (int at = 0; at < bytes; at++)
        wrong += vendor->data[at] != (uint8_t)(at * 7);
    GIVES(wrong, 0);
}

static void messages(void) {
    int fd = umad_open_smi_port(NULL, 0);
    long methods[16 / sizeof(long)] = { 1 << UMAD_METHOD_GET };
    int server = umad_register(fd, VENDOR, 1, 1, methods);
    int client = umad_register(fd, VENDOR, 1, 1, NULL);
    CHECK(server == 0 && client == 1);
    const int lengths[] = { 1, 216, 217, 432, 433, 100000 };
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++)
        exchange(fd, client, server, lengths[at]);
    umad_close_port(fd);
}

static void addresses(void) {
    ib_mad_addr_t from;
    memset(&from, 0, sizeof from);
    from.gid[15] = 7;
    from.flow_label = 0x12345;
    from.hop_limit = 3;
    from.traffic_class = 4;
    umad_set_grh(&sent, &from);
    CHECK(sent.header.addr.grh_present == 1 && sent.header.addr.flow_label == htobe32(0x12345));
    CHECK(sent.header.addr.gid[15] == 7 && sent.header.addr.hop_limit == 3 && sent.header.addr.traffic_class == 4);
    umad_set_grh_net(&sent, &from);
    CHECK(sent.header.addr.flow_label == 0x12345);
    umad_set_grh_net(&sent, NULL);
    CHECK(sent.header.addr.grh_present == 0);
    umad_set_pkey(&sent, 3);
    GIVES(umad_get_pkey(&sent), 3);
    CHECK(umad_get_mad_addr(&sent) == &sent.header.addr && umad_get_mad(&sent) == sent.header.data);
    GIVES(umad_debug(-1), 0);
    GIVES(umad_debug(2), 2);
    umad_dump(&sent);
    GIVES(umad_debug(0), 0);
}

/* Of the kernel's <rdma/ib_user_mad.h>, which libibumad's users bring along. */
struct ib_user_mad_reg_req2 {
    uint32_t id;
    uint32_t qpn;
    uint8_t mgmt_class;
    uint8_t mgmt_class_version;
    uint16_t res;
    uint32_t flags;
    uint64_t method_mask[2];
    uint32_t oui;
    uint8_t rmpp_version;
    uint8_t reserved[3];
};

/* An agent for a vendor's class, by the request of ioctl. */
static int ask_for_agent(int fd) {
    struct ib_user_mad_reg_req2 asked = {
        .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 1, .oui = 0x001405, .rmpp_version = 1
    };
    return ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &asked) == 0 ? (int)asked.id : -errno;
}

/* What this program does with a descriptor that came with it: agent 0 is its parent's. */
static int inherited(int fd) {
    GIVES(ask_for_agent(fd), 1);
    int copy = dup(fd);
    GIVES(ask_for_agent(copy), 2);
    GIVES(close(copy), 0);
    return failures;
}

/* The requests work in a program that has not opened the device itself. */
static void inheritance(char *name) {
    int fd = open("/dev/infiniband/umad0", O_RDWR);
    GIVES(ask_for_agent(fd), 0);
    char number[12];
    snprintf(number, sizeof number, "%d", fd);
    char *arguments[] = { name, "inherited", number, NULL };
    pid_t child;
    GIVES(posix_spawnp(&child, name, NULL, NULL, arguments, environ), 0);
    int status = -1;
    GIVES(waitpid(child, &status, 0), child);
    GIVES(status, 0);
    GIVES(close(fd), 0);
}

/* What an open device gives after its daemon was killed, which happens while this program waits. */
static int gone(void) {
    int fd = umad_open_port(NULL, 0);
    GIVES(umad_register(fd, VENDOR, 1, 1, NULL), 0);
    struct pollfd files = { .fd = fd, .events = POLLIN };
    GIVES(poll(&files, 1, 100000), 1);
    GIVES(poll(&files, 1, 0), 1);
    CHECK(files.revents & POLLERR);
    FAILS(read(fd, &got, sizeof got), EIO);
    FAILS(write(fd, &sent, 64 + 256), EIO);
    FAILS(ioctl(fd, IB_USER_MAD_ENABLE_PKEY, NULL), EPIPE);
    uint32_t agent = 0;
    FAILS(ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &agent), EPIPE);
    GIVES(ask_for_agent(fd), -EPIPE);
    int length = 256;
    GIVES(umad_recv(fd, &got, &length, 1000), -EIO);
    GIVES(umad_send(fd, 0, &sent, 256, 0, 0), -EIO);
    CHECK(umad_register(fd, VENDOR, 1, 1, NULL) < 0);
    umad_close_port(fd);
    return finish("umad of a device that has gone");
}

int main(int count, char **arguments) {
    if (count == 3 && strcmp(arguments[1], "inherited") == 0)
        return inherited(atoi(arguments[2]));
    if (count == 2 && strcmp(arguments[1], "gone") == 0)
        return gone();
    sizes();
    names();
    devices();
    agents();
    questions();
    messages();
    addresses();
    inheritance(arguments[0]);
    GIVES(umad_done(), 0);
    return finish("umad");
}
