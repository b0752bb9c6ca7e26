/* Pattern 35: limits on pinned pages and on ports, and what a new program inherits. For root, on
 * one node. */
#include "pattern.h"

#include <spawn.h>
#include <sys/wait.h>

#define ALL (SCIF_PROT_READ | SCIF_PROT_WRITE)
#define LIMITS "/scheme/scif/limits"

static void *pages(size_t count) {
    void *memory = NULL;
    GIVES(posix_memalign(&memory, PAGE, count * PAGE), 0);
    memset(memory, 'l', count * PAGE);
    return memory;
}

static void set_limit(long number) {
    FILE *limits = fopen(LIMITS, "w");
    CHECK(limits != NULL);
    CHECK(fprintf(limits, "pinned_pages_per_user %ld\n", number) > 0);
    GIVES(fclose(limits), 0);
    GIVES(text_number(LIMITS, "pinned_pages_per_user", 1), number);
}

static int run_part(const char *part, const char *a, const char *b) {
    char *arguments[] = { program_invocation_name, (char *)part, (char *)a, (char *)b, NULL };
    pid_t child;
    int status;
    GIVES(posix_spawnp(&child, program_invocation_name, NULL, NULL, arguments, NULL), 0);
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The other side of whatever connects to port 2035, until it goes. */
static void *answer(void *argument) {
    scif_epd_t epd = accept_one(*(scif_epd_t *)argument);
    wait_for_end(epd);
    GIVES(scif_close(epd), 0);
    return NULL;
}

static void pinned_pages(void) {
    long usual = text_number(LIMITS, "pinned_pages_per_user", 1);
    CHECK(usual > 64);
    set_limit(64);
    scif_epd_t on = listener(2035, 4);
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, answer, &on), 0);
    GIVES(run_part("pin", NULL, NULL), 0);
    GIVES(pthread_join(thread, NULL), 0);
    GIVES(scif_close(on), 0);
    set_limit(usual);
}

/* As a user who is not root: 64 pages may be pinned, not one more. */
static void pin(void) {
    GIVES(setuid(1000), 0);
    CHECK(fopen(LIMITS, "w") == NULL && (errno == EACCES || errno == EPERM));
    GIVES(text_number(LIMITS, "pinned_pages_per_user", 1), 64);
    scif_epd_t epd = call_one(own_node(), 2035);
    char *memory = pages(65);
    off_t first = scif_register(epd, memory, 40 * PAGE, 0, ALL, 0);
    CHECK(first != SCIF_REGISTER_FAILED);
    FAILS(scif_register(epd, memory + 40 * PAGE, 25 * PAGE, 0, ALL, 0), EAGAIN);
    off_t second = scif_register(epd, memory + 40 * PAGE, 24 * PAGE, 0, ALL, 0);
    CHECK(second != SCIF_REGISTER_FAILED);
    /* The same pages a second time count a second time. */
    FAILS(scif_register(epd, memory, PAGE, 0, ALL, 0), EAGAIN);
    GIVES(scif_unregister(epd, second, 24 * PAGE), 0);
    off_t third = scif_register(epd, memory, 24 * PAGE, 0, ALL, 0);
    CHECK(third != SCIF_REGISTER_FAILED);
    GIVES(scif_close(epd), 0);
}

/* Ports, until there is no more: ENOSPC, or ENOMEM where the memory for endpoints ends before. */
static void ports(void) {
    enum { ALL_PORTS = 65536 - SCIF_PORT_RSVD };
    scif_epd_t *epds = malloc(ALL_PORTS * sizeof *epds);
    CHECK(epds != NULL);
    int count = 0;
    for (;;) {
        scif_epd_t epd = scif_open();
        if (epd == SCIF_OPEN_FAILED) {
            GIVES(errno, ENOMEM);
            break;
        }
        if (scif_bind(epd, 0) < 0) {
            GIVES(errno, ENOSPC);
            struct scif_portID to = { own_node(), 2035 };
            FAILS(scif_connect(epd, &to), ENOSPC);
            GIVES(scif_close(epd), 0);
            break;
        }
        CHECK(count < ALL_PORTS);
        epds[count++] = epd;
    }
    printf("ports bound at once: %d\n", count);
    CHECK(count > 4000);
    /* What becomes free can be had. */
    GIVES(scif_close(epds[--count]), 0);
    scif_epd_t epd = scif_open();
    CHECK(scif_bind(epd, 0) >= SCIF_PORT_RSVD);
    GIVES(scif_close(epd), 0);
    while (count > 0)
        GIVES(scif_close(epds[--count]), 0);
    free(epds);
}

/* A new program inherits what scif_accept made, not what scif_open made. */
static void *connect_and_listen(void *argument) {
    scif_epd_t epd = *(scif_epd_t *)argument;
    connect_to(epd, own_node(), 2035);
    expect(epd, 'i');
    wait_for_end(epd);
    return NULL;
}

static void inherited(void) {
    scif_epd_t on = listener(2035, 4);
    scif_epd_t opened = scif_open();
    CHECK(fcntl(opened, F_GETFD) == FD_CLOEXEC);
    pthread_t thread;
    GIVES(pthread_create(&thread, NULL, connect_and_listen, &opened), 0);
    scif_epd_t accepted = accept_one(on);
    GIVES(fcntl(accepted, F_GETFD), 0);
    char a[12], b[12];
    snprintf(a, sizeof a, "%d", accepted);
    snprintf(b, sizeof b, "%d", opened);
    GIVES(run_part("inherit", a, b), 0);
    GIVES(scif_close(accepted), 0);
    GIVES(pthread_join(thread, NULL), 0);
    GIVES(scif_close(opened), 0);
    GIVES(scif_close(on), 0);
}

static void inherit(scif_epd_t accepted, scif_epd_t opened) {
    FAILS(scif_send(opened, "x", 1, SCIF_SEND_BLOCK), EBADF);
    tell(accepted, 'i');
}

static void call_limits(uint16_t node) {
    (void)node;
    /* Clients start a thread for each. */
    GIVES(sysconf(_SC_NPROCESSORS_ONLN), text_number("/scheme/sys/cpu", "CPUs:", 1));
    pinned_pages();
    inherited();
    ports();
}

const struct pattern patterns[] = {
    { 35, "limits and inheritance", NULL, call_limits },
    { 0, NULL, NULL, NULL },
};

int play_part(const char *part, int count, char **arguments) {
    playing = 35;
    if (!strcmp(part, "pin")) {
        pin();
    } else if (!strcmp(part, "inherit") && count == 2) {
        inherit(atoi(arguments[0]), atoi(arguments[1]));
    } else {
        fprintf(stderr, "no part '%s'\n", part);
        return 100;
    }
    return 0;
}
