/*
 * Programs of Scheduled Transfers that are killed at random moments.
 *
 * `st-storm KILLS SEED NODE` runs two servers and two clients of `NODE`'s servers, and kills one of
 * the four again and again, in any call it may be in. The others must see the documented errors,
 * and before them every header that had arrived, in order and with its data. In the end those that
 * are left must still get on. A second one runs on the other node; both end together.
 *
 * `st-storm until-loss SEED NODE` kills until the other node is lost. Once each of its programs has
 * ended a session with that node, it makes the file BOTH: then the node may go.
 *
 * The programs are `st-storm server SEED PORT` and `st-storm client SEED NODE PORT`.
 */
#include "socket.h"
#include <signal.h>
#include <spawn.h>
#include <st.h>
#include <sys/wait.h>
#include <time.h>

#define BOTH "/tmp/st-storm-both"

enum {
    PROGRAMS = 4,
    PORTS = 3200,
    MEETING = 3210,
    SLOTS = 64,
    /* Headers that one side pushes before the other's turn: they all have room. */
    MOST_IN_TURN = SLOTS / 2,
    /* Places for data, more than headers can be under way. */
    PLACES = 4 * SLOTS,
    PLACE_BYTES = 512,
    RANGE_BYTES = PLACES * PLACE_BYTES,
    LONGEST_LIFE_MS = 120,
    /* A program that has not ended a session for so long hangs. */
    SESSION_MS = 40000,
};

extern char **environ;

/* xorshift64*. */
static uint64_t random_state;

static uint64_t any(uint64_t below) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * 0x2545f4914f6cdd1d >> 33) % below;
}

static void seed_with(const char *text) {
    random_state = 0x9e3779b97f4a7c15 * (strtoull(text, NULL, 10) + 1);
    for (int i = 0; i < 8; i++)
        any(1);
}

/* What a header says. */
enum kind { MEMORY = 1, PLAIN, DATA, TURN, LEAVE };

struct header {
    uint32_t kind;
    uint32_t number; /* counts the headers of one direction */
    char *place;     /* MEMORY: the sender's range; DATA: where the data is */
    uint32_t length;
    uint32_t check;
    uint64_t unused;
};

struct session {
    int fd;
    st_peer_t *peer;
    void *own;
    char *far;
    uint32_t pushed, pulled;
    int is_left; /* the peer waits for the end */
};

/* A call that may fail because somebody was killed, in no other way. Whether it did. */
static int ended(int result, const char *call, int line) {
    if (result == 0)
        return 0;
    if (errno != ECONNRESET && errno != ENODEV)
        failed(__FILE__, line, "%s ended with another error", call);
    return 1;
}

#define ENDED(call) ended(call, #call, __LINE__)

/* The descriptor is closed in any case; a driver that has gone may be noticed here first. */
static void shut(int fd) {
    if (close(fd) != 0)
        GIVES(errno, ENODEV);
}

/* Takes the next header, which is the next one also when the peer has gone. 0: the end. */
static int take(struct session *session, struct header *header) {
    memset(header, 0, sizeof *header);
    if (ENDED(st1_pull(session->peer, header, NULL, NULL, 0)))
        return 0;
    GIVES(header->number, session->pulled);
    session->pulled++;
    CHECK(header->check == header->number * 7 + header->kind);
    if (header->kind == DATA) {
        CHECK(header->length <= PLACE_BYTES);
        GIVES(mismatch(header->place, header->length, header->number), header->length);
    }
    if (header->kind == MEMORY)
        session->far = header->place;
    return 1;
}

/* Takes everything that had arrived before the end. */
static void drain(struct session *session) {
    struct header header;
    while (take(session, &header))
        ;
}

static struct header next(struct session *session, enum kind kind) {
    struct header header = { kind, session->pushed, NULL, 0, session->pushed * 7 + kind, 0 };
    return header;
}

static int push(struct session *session, struct header header) {
    if (ENDED(st1_push(session->peer, &header, NULL, NULL, 0)))
        return 0;
    session->pushed++;
    return 1;
}

static int map_anew(struct session *session) {
    if (session->own)
        GIVES(st_unmap(session->peer, &session->own, 0), 0);
    session->own = NULL;
    if (ENDED(st_map(session->peer, &session->own, RANGE_BYTES)))
        return 0;
    struct header header = next(session, MEMORY);
    header.place = session->own;
    return push(session, header);
}

/* PUT, with a header or without, or GET. The peer may have taken its memory back meanwhile; then
 * nothing moves, and its next header has the new place. */
static int move(struct session *session) {
    static char data[PLACE_BYTES];
    struct header header = next(session, DATA);
    header.length = 1 + (uint32_t)any(PLACE_BYTES);
    header.place = session->far + session->pushed % PLACES * PLACE_BYTES;
    fill(data, header.length, header.number);
    int result;
    switch (any(4)) {
    case 0:
        result = st1_pull(session->peer, NULL, data, header.place, (int)header.length);
        break;
    case 1: /* the place of a header that is not used before this one's turn */
        result = st1_push(session->peer, NULL, data, header.place, (int)header.length);
        break;
    default:
        result = st1_push(session->peer, &header, data, header.place, (int)header.length);
        session->pushed += result == 0;
    }
    if (result < 0 && errno == ENXIO)
        return 1;
    return !ENDED(result);
}

/* A turn of pushing. */
static int push_turn(struct session *session) {
    for (uint64_t left = 1 + any(MOST_IN_TURN); left; left--) {
        int goes_on;
        switch (any(12)) {
        case 0:
            goes_on = !ENDED(st_fence(session->peer));
            break;
        case 1:
            goes_on = any(4) || map_anew(session);
            break;
        case 2:
        case 3:
            goes_on = push(session, next(session, PLAIN));
            break;
        default:
            goes_on = !session->far || move(session);
        }
        if (!goes_on)
            return 0;
    }
    return push(session, next(session, any(40) ? TURN : LEAVE));
}

/* A turn of pulling: 1 when it is over, 0 at the end. */
static int pull_turn(struct session *session) {
    struct header header;
    do {
        if (!take(session, &header))
            return 0;
    } while (header.kind != TURN && header.kind != LEAVE);
    session->is_left = header.kind == LEAVE;
    return header.kind == TURN;
}

static void play(int fd, int begins) {
    struct session session = { .fd = fd };
    if (ENDED(st_attach(fd, 0, 0, &session.peer))) {
        shut(fd);
        return;
    }
    int goes_on = map_anew(&session);
    while (goes_on && (!begins || (goes_on = push_turn(&session)))) {
        goes_on = pull_turn(&session);
        begins = 1;
    }
    if (!session.is_left)
        drain(&session);
    if (session.own && any(2))
        GIVES(st_unmap(session.peer, &session.own, 0), 0);
    GIVES(st_detach(&session.peer), 0);
    shut(session.fd);
    /* For the program that counts sessions. */
    GIVES(write(1, "s", 1), 1);
}

/* A socket, or -1 while there is no driver. */
static int transfers(void) {
    int on = 1, slots = SLOTS;
    int fd = socket(PF_INET, SOCK_SEQPACKET, IPPROTO_STP);
    if (fd < 0) {
        usleep(5000);
        return -1;
    }
    GIVES(setsockopt(fd, IPPROTO_STP, ST_BYPASS, &on, sizeof on), 0);
    GIVES(setsockopt(fd, IPPROTO_STP, ST_L_NUMSLOTS, &slots, sizeof slots), 0);
    return fd;
}

__attribute__((noreturn))
static void serve_storm(int port) {
    for (;;) {
        int listener = transfers();
        if (listener < 0)
            continue;
        /* The port of the one that was killed is free; a driver that has gone has none. */
        int listens = bind_to(listener, -1, (uint16_t)port) == 0 && listen(listener, 2) == 0;
        while (listens) {
            int fd = accept(listener, NULL, NULL);
            if (fd >= 0)
                play(fd, 0);
            else if (errno != EPROTO && errno != ECONNABORTED)
                break;
        }
        shut(listener);
        usleep(2000);
    }
}

__attribute__((noreturn))
static void call_storm(int node, int port) {
    for (;;) {
        int fd = transfers();
        if (fd < 0)
            continue;
        if (try_connect(fd, node, (uint16_t)port) == 0) {
            play(fd, 1);
            continue;
        }
        int error = errno;
        if (error != ECONNREFUSED && error != EHOSTUNREACH && error != ETIMEDOUT &&
            error != ECONNRESET && error != ENODEV)
            failed(__FILE__, __LINE__, "connect ended with another error");
        shut(fd);
        usleep(2000);
    }
}

/* One of the programs. */
struct program {
    pid_t process;
    int sessions; /* a pipe in which it writes a byte for each */
};

static void start(struct program *program, int which, int node) {
    int ends[2];
    char seed[24], to[12], port[12];
    GIVES(pipe(ends), 0);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)any(1u << 30));
    snprintf(to, sizeof to, "%d", node);
    snprintf(port, sizeof port, "%d", PORTS + which % 2);
    char *serve[] = { "st-storm", "server", seed, port, NULL };
    char *call[] = { "st-storm", "client", seed, to, port, NULL };
    posix_spawn_file_actions_t actions;
    GIVES(posix_spawn_file_actions_init(&actions), 0);
    GIVES(posix_spawn_file_actions_adddup2(&actions, ends[1], 1), 0);
    GIVES(posix_spawn_file_actions_addclose(&actions, ends[0]), 0);
    GIVES(posix_spawn_file_actions_addclose(&actions, ends[1]), 0);
    GIVES(posix_spawnp(&program->process, "st-storm", &actions, NULL, which < 2 ? serve : call,
                       environ), 0);
    GIVES(posix_spawn_file_actions_destroy(&actions), 0);
    GIVES(close(ends[1]), 0);
    program->sessions = ends[0];
    set_waiting(ends[0], 0);
}

/* Takes note of the sessions of a program; of one that has ended by itself, which none does. */
static int sessions_of(struct program *program) {
    char bytes[256];
    ssize_t count = read(program->sessions, bytes, sizeof bytes);
    if (count < 0) {
        CHECK(errno == EAGAIN);
        return 0;
    }
    /* A check has failed: what it says is in the bytes. */
    if (count == 0 || memchr(bytes, 'F', (size_t)count)) {
        printf("st-storm: a program ended: %.*s\n", (int)count, bytes);
        failed(__FILE__, __LINE__, "a program has found something wrong");
    }
    return (int)count;
}

static void end(struct program *program) {
    int status;
    GIVES(kill(program->process, SIGKILL), 0);
    GIVES(waitpid(program->process, &status, 0), program->process);
    CHECK(WIFSIGNALED(status));
    GIVES(close(program->sessions), 0);
}

static int is_lost(int node) {
    scif_epd_t epd = scif_open();
    struct scif_portID to = { (uint16_t)node, 1 };
    int lost = epd >= 0 && scif_connect(epd, &to) < 0 && errno == ENODEV;
    if (epd >= 0)
        scif_close(epd);
    return lost;
}

/* Waits until each program has ended a session since now. Gives the number of sessions seen. */
static int all_get_on(struct program programs[], const int wanted[]) {
    int seen[PROGRAMS] = { 0 }, sessions = 0;
    for (int i = 0; i < PROGRAMS; i++)
        while (sessions_of(&programs[i]))
            ;
    for (int waited = 0;; waited += 10) {
        int missing = 0;
        for (int i = 0; i < PROGRAMS; i++) {
            int count = sessions_of(&programs[i]);
            seen[i] |= count;
            sessions += count;
            missing |= wanted[i] && !seen[i];
        }
        if (!missing)
            return sessions;
        if (waited > SESSION_MS)
            failed(__FILE__, __LINE__, "sessions: servers %d %d, clients %d %d", seen[0], seen[1],
                   seen[2], seen[3]);
        usleep(10000);
    }
}

static int storm(int kills, int node) {
    struct program programs[PROGRAMS];
    int everybody[PROGRAMS] = { 1, 1, 1, 1 };
    for (int i = 0; i < PROGRAMS; i++)
        start(&programs[i], i, node);
    int sessions = all_get_on(programs, everybody);
    if (kills == 0) {
        int both = open(BOTH, O_CREAT | O_WRONLY, 0600);
        CHECK(both >= 0);
        GIVES(close(both), 0);
    }
    for (int i = 0; kills == 0 ? !is_lost(node) : i < kills; i++) {
        usleep((useconds_t)any(LONGEST_LIFE_MS * 1000));
        int victim = (int)any(PROGRAMS);
        for (int other = 0; other < PROGRAMS; other++)
            sessions += sessions_of(&programs[other]);
        end(&programs[victim]);
        start(&programs[victim], victim, node);
    }
    if (kills > 0) {
        /* Nobody kills any more, on either side, and nobody hangs. */
        int own = own_node();
        int meeting = own < node ? call_stream(node, MEETING) : serve_stream(MEETING);
        step(meeting, 'a'), await(meeting, 'a');
        sessions += all_get_on(programs, everybody);
        step(meeting, 'b'), await(meeting, 'b');
        for (int i = 0; i < PROGRAMS; i++)
            end(&programs[i]);
        step(meeting, 'c'), await(meeting, 'c');
        GIVES(close(meeting), 0);
    } else {
        for (int i = 0; i < PROGRAMS; i++)
            end(&programs[i]);
    }
    CHECK(sessions >= PROGRAMS);
    printf("st-storm: ok (%d sessions seen)\n", sessions);
    return 0;
}

const struct pattern patterns[] = { { 0, NULL, NULL, NULL } };

int play_part(const char *part, int count, char **arguments) {
    playing = 1;
    if (count < 2)
        return 2;
    seed_with(arguments[0]);
    int number = atoi(arguments[1]);
    if (!strcmp(part, "server"))
        serve_storm(number);
    if (!strcmp(part, "client") && count > 2)
        call_storm(number, atoi(arguments[2]));
    if (!strcmp(part, "until-loss"))
        return storm(0, number);
    return storm(atoi(part), number);
}
