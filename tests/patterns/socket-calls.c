/* Sockets within a node: errors as a table, options, names, socketpair. */
#define NO_PATTERNS
#include "socket.h"
#include <ifaddrs.h>
#include <net/if.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>

static int own;

/* Sockets in the states that the table names. */
static int fresh(void) {
    return stream();
}

static int bound(void) {
    int fd = stream();
    GIVES(bind_to(fd, -1, 0), 0);
    return fd;
}

static int listening(void) {
    int fd = bound();
    GIVES(listen(fd, 1), 0);
    return fd;
}

static int other_end = -1;

static int connected(void) {
    int pair[2];
    GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    other_end = pair[1];
    return pair[0];
}

static int ended(void) {
    int fd = connected();
    GIVES(close(other_end), 0);
    other_end = -1;
    read_end(fd);
    return fd;
}

/* The peer has ended, and nobody has looked. */
static int unseen(void) {
    int fd = connected();
    GIVES(close(other_end), 0);
    other_end = -1;
    while (!(poll_one(fd, 0, TIMEOUT_MS) & POLLHUP))
        ;
    return fd;
}

static int told(void) {
    int fd = unseen();
    GIVES(send(fd, "last words", 10, 0), 10);
    return fd;
}

static int nowaiting(void) {
    int fd = listening();
    set_waiting(fd, 0);
    return fd;
}

static int file(void) {
    return open("/scheme/null", O_RDWR);
}

static int none(void) {
    return -1;
}

/* The calls. */
static char byte;
static struct sockaddr_in place;
static socklen_t length = sizeof place;

static long do_bind(int fd) { return bind_to(fd, -1, 3070); }
static long do_bind_low(int fd) {
    /* Ports below 1024 are root's; this program is root's too. */
    return bind_to(fd, -1, 1000);
}
static long do_bind_other(int fd) { return bind_to(fd, own + 1, 3070); }
static long do_bind_foreign(int fd) {
    struct sockaddr_in address = address_of(own, 3070);
    address.sin_addr.s_addr = inet_addr("192.168.1.1");
    return bind(fd, (struct sockaddr *)&address, sizeof address);
}
static long do_bind_used(int fd) {
    int user = listening();
    socklen_t size = sizeof place;
    GIVES(getsockname(user, (struct sockaddr *)&place, &size), 0);
    long result = bind_to(fd, -1, ntohs(place.sin_port));
    int error = errno;
    close(user);
    errno = error;
    return result;
}
static long do_bind_short(int fd) {
    struct sockaddr_in address = address_of(-1, 3070);
    return bind(fd, (struct sockaddr *)&address, 8);
}
static long do_bind_family(int fd) {
    struct sockaddr_in address = address_of(-1, 3070);
    address.sin_family = AF_INET6;
    return bind(fd, (struct sockaddr *)&address, sizeof address);
}
static long do_bind_no_family(int fd) {
    struct sockaddr_in address = address_of(-1, 3070);
    address.sin_family = AF_UNSPEC;
    return bind(fd, (struct sockaddr *)&address, sizeof address);
}
static long do_bind_null(int fd) { return bind(fd, NULL, sizeof place); }
static long do_listen(int fd) { return listen(fd, 5); }
static long do_accept(int fd) { return accept(fd, NULL, NULL); }
static long do_accept_null(int fd) {
    return accept(fd, (struct sockaddr *)&place, NULL);
}
static long do_accept_flags(int fd) { return accept4(fd, NULL, NULL, 1); }
static long do_connect(int fd) { return try_connect(fd, own, 3071); }
static long do_connect_any(int fd) { return try_connect(fd, -1, 3071); }
static long do_connect_nobody(int fd) { return try_connect(fd, 100, 3071); }
static long do_connect_zero(int fd) { return try_connect(fd, own, 0); }
static long do_connect_foreign(int fd) {
    struct sockaddr_in address = address_of(own, 3071);
    address.sin_addr.s_addr = inet_addr("192.168.1.1");
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}
static long do_connect_short(int fd) {
    struct sockaddr_in address = address_of(own, 3071);
    return connect(fd, (struct sockaddr *)&address, 15);
}
static long do_connect_unix(int fd) {
    struct sockaddr_un address = { AF_UNIX, "/tmp/socket" };
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}
static long do_send(int fd) { return send(fd, "x", 1, 0); }
static long do_send_none(int fd) { return send(fd, NULL, 0, 0); }
static long do_send_oob(int fd) { return send(fd, "x", 1, MSG_OOB); }
static long do_send_bad(int fd) { return send(fd, (void *)8, 100, 0); }
static long do_send_control(int fd) {
    struct msghdr message = { 0 };
    message.msg_control = &byte;
    message.msg_controllen = 16;
    return sendmsg(fd, &message, 0);
}
static long do_write(int fd) { return write(fd, "x", 1); }
static long do_recv(int fd) { return recv(fd, &byte, 1, 0); }
static long do_recv_now(int fd) { return recv(fd, &byte, 1, MSG_DONTWAIT); }
static long do_recv_none(int fd) { return recv(fd, NULL, 0, 0); }
static long do_recv_oob(int fd) { return recv(fd, &byte, 1, MSG_OOB); }
static long do_recv_bad(int fd) {
    GIVES(send(other_end, "x", 1, 0), 1);
    return recv(fd, (void *)8, 100, 0);
}
static long do_read(int fd) { return read(fd, &byte, 1); }
static long do_name(int fd) {
    length = sizeof place;
    return getsockname(fd, (struct sockaddr *)&place, &length);
}
static long do_name_null(int fd) { return getsockname(fd, NULL, NULL); }
static long do_peer(int fd) {
    length = sizeof place;
    return getpeername(fd, (struct sockaddr *)&place, &length);
}
static long do_shutdown(int fd) { return shutdown(fd, SHUT_RDWR); }
static long do_shutdown_bad(int fd) { return shutdown(fd, 3); }
static long do_shutdown_read(int fd) {
    long result = shutdown(fd, SHUT_RD);
    if (result == 0)
        read_end(fd);
    return result;
}
static long do_option(int fd) {
    int on = 1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}
static long do_option_unknown(int fd) {
    int on = 1;
    return setsockopt(fd, SOL_SOCKET, 9999, &on, sizeof on);
}
static long do_option_level(int fd) {
    int on = 1;
    return setsockopt(fd, 77, 1, &on, sizeof on);
}
static long do_option_short(int fd) {
    int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, 2);
}
static long do_option_null(int fd) {
    return setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, NULL, 4);
}
/* As Rust's standard library has it: 32 bits of microseconds, and then anything. */
static long do_option_half(int fd) {
    struct timeval limit = { 1, 5 | 7L << 32 };
    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}
static long do_option_time(int fd) {
    struct timeval limit = { 1, 1000000 };
    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}
static long do_get_unknown(int fd) {
    int value;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, 9999, &value, &size);
}
static long do_get_null(int fd) { return getsockopt(fd, SOL_SOCKET, SO_TYPE, NULL, NULL); }
static long do_seek(int fd) { return lseek(fd, 0, SEEK_SET); }
static long do_sync(int fd) { return fsync(fd); }

static const struct row {
    const char *what;
    int (*make)(void);
    long (*call)(int fd);
    long result;
    int error;
} rows[] = {
    { "bind a number that is no descriptor", none, do_bind, -1, EBADF },
    { "bind a file", file, do_bind, -1, ENOTSOCK },
    { "bind", fresh, do_bind, 0, 0 },
    { "bind below 1024 as root", fresh, do_bind_low, 0, 0 },
    { "bind to another node's address", fresh, do_bind_other, -1, EADDRNOTAVAIL },
    { "bind to no node's address", fresh, do_bind_foreign, -1, EADDRNOTAVAIL },
    { "bind to a port in use", fresh, do_bind_used, -1, EADDRINUSE },
    { "bind twice", bound, do_bind, -1, EINVAL },
    { "bind a listener", listening, do_bind, -1, EINVAL },
    { "bind a connection", connected, do_bind, -1, EINVAL },
    { "bind with a short address", fresh, do_bind_short, -1, EINVAL },
    { "bind with another family", fresh, do_bind_family, -1, EAFNOSUPPORT },
    { "bind without a family", fresh, do_bind_no_family, 0, 0 },
    { "bind without an address", fresh, do_bind_null, -1, EFAULT },
    { "listen without a port", fresh, do_listen, 0, 0 },
    { "listen", bound, do_listen, 0, 0 },
    { "listen again", listening, do_listen, 0, 0 },
    { "listen on a connection", connected, do_listen, -1, EINVAL },
    { "listen on a file", file, do_listen, -1, ENOTSOCK },
    { "accept without listening", bound, do_accept, -1, EINVAL },
    { "accept on a connection", connected, do_accept, -1, EINVAL },
    { "accept without waiting", nowaiting, do_accept, -1, EAGAIN },
    { "accept with no place for a length", nowaiting, do_accept_null, -1, EFAULT },
    { "accept with unknown flags", nowaiting, do_accept_flags, -1, EINVAL },
    { "connect to a port without listener", fresh, do_connect, -1, ECONNREFUSED },
    { "connect to any address", fresh, do_connect_any, -1, ECONNREFUSED },
    { "connect to port 0", fresh, do_connect_zero, -1, ECONNREFUSED },
    { "connect to a node that is not there", fresh, do_connect_nobody, -1, EHOSTUNREACH },
    { "connect to no node's address", fresh, do_connect_foreign, -1, ENETUNREACH },
    { "connect with a short address", fresh, do_connect_short, -1, EINVAL },
    { "connect with another family", fresh, do_connect_unix, -1, EAFNOSUPPORT },
    { "connect a bound socket", bound, do_connect, -1, ECONNREFUSED },
    { "connect a connection", connected, do_connect, -1, EISCONN },
    { "connect what was one", ended, do_connect, -1, EISCONN },
    { "connect a listener", listening, do_connect, -1, EOPNOTSUPP },
    { "connect a file", file, do_connect, -1, ENOTSOCK },
    { "send without a connection", fresh, do_send, -1, ENOTCONN },
    { "send on a listener", listening, do_send, -1, ENOTCONN },
    { "send on a file", file, do_send, -1, ENOTSOCK },
    { "send nothing", connected, do_send_none, 0, 0 },
    { "send out of band", connected, do_send_oob, -1, EOPNOTSUPP },
    { "send what is not there", connected, do_send_bad, -1, EFAULT },
    { "send control data", connected, do_send_control, -1, EOPNOTSUPP },
    { "send after the peer's end", ended, do_send, -1, EPIPE },
    { "first send after an end that nobody has seen", unseen, do_send, 1, 0 },
    { "second send after an end that nobody has seen", told, do_send, -1, EPIPE },
    { "first write after an end that nobody has seen", unseen, do_write, 1, 0 },
    { "second write after an end that nobody has seen", told, do_write, -1, EPIPE },
    { "write without a connection", fresh, do_write, -1, ENOTCONN },
    { "write after the peer's end", ended, do_write, -1, EPIPE },
    { "recv without a connection", fresh, do_recv, -1, ENOTCONN },
    { "recv without waiting", connected, do_recv_now, -1, EAGAIN },
    { "recv nothing", connected, do_recv_none, 0, 0 },
    { "recv out of band", connected, do_recv_oob, -1, EINVAL },
    { "recv to nowhere", connected, do_recv_bad, -1, EFAULT },
    { "recv at the end", ended, do_recv, 0, 0 },
    { "recv of a file", file, do_recv, -1, ENOTSOCK },
    { "read without a connection", fresh, do_read, -1, ENOTCONN },
    { "read at the end", ended, do_read, 0, 0 },
    { "getsockname", fresh, do_name, 0, 0 },
    { "getsockname to nowhere", bound, do_name_null, -1, EFAULT },
    { "getpeername without a connection", bound, do_peer, -1, ENOTCONN },
    { "getpeername of a listener", listening, do_peer, -1, ENOTCONN },
    { "getpeername", connected, do_peer, 0, 0 },
    { "getpeername of a file", file, do_peer, -1, ENOTSOCK },
    { "shutdown without a connection", fresh, do_shutdown, -1, ENOTCONN },
    { "shutdown", connected, do_shutdown, 0, 0 },
    { "shutdown of reading", connected, do_shutdown_read, 0, 0 },
    { "shutdown how", connected, do_shutdown_bad, -1, EINVAL },
    { "setsockopt", fresh, do_option, 0, 0 },
    { "setsockopt, unknown", fresh, do_option_unknown, -1, ENOPROTOOPT },
    { "setsockopt, unknown level", fresh, do_option_level, -1, ENOPROTOOPT },
    { "setsockopt, too short", fresh, do_option_short, -1, EINVAL },
    { "setsockopt without a value", fresh, do_option_null, -1, EFAULT },
    { "setsockopt, no time", fresh, do_option_time, -1, EDOM },
    { "setsockopt, 32 bits of microseconds", fresh, do_option_half, 0, 0 },
    { "setsockopt of a file", file, do_option, -1, ENOTSOCK },
    { "getsockopt, unknown", fresh, do_get_unknown, -1, ENOPROTOOPT },
    { "getsockopt to nowhere", fresh, do_get_null, -1, EFAULT },
    { "lseek", connected, do_seek, -1, ESPIPE },
    { "fsync", connected, do_sync, -1, EINVAL },
};

static void check_rows(void) {
    int count = (int)(sizeof rows / sizeof rows[0]), bad = 0;
    for (int i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        int fd = row->make();
        errno = 0;
        long result = row->call(fd);
        int error = result < 0 ? errno : 0;
        if (result != row->result || error != row->error) {
            printf("socket-calls: %s: %ld, errno %d (%s), not %ld, errno %d\n", row->what, result,
                   error, strerror(error), row->result, row->error);
            bad++;
        }
        if (fd >= 0)
            GIVES(close(fd), 0);
        if (other_end >= 0)
            GIVES(close(other_end), 0);
        other_end = -1;
    }
    printf("socket-calls: %d rows, %d failed\n", count, bad);
    CHECK(bad == 0);
}

static void check_kinds(void) {
    static const struct {
        int domain, type, protocol, error;
    } kinds[] = {
        { AF_INET, SOCK_STREAM, 0, 0 },
        { AF_INET, SOCK_STREAM, IPPROTO_TCP, 0 },
        { AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0 },
        { AF_INET, SOCK_STREAM, IPPROTO_UDP, EPROTONOSUPPORT },
        { AF_INET, SOCK_STREAM, 118, EPROTOTYPE },
        { AF_INET, SOCK_DGRAM, 0, ESOCKTNOSUPPORT },
        { AF_INET, SOCK_RAW, 0, ESOCKTNOSUPPORT },
        { AF_INET6, SOCK_STREAM, 0, EAFNOSUPPORT },
        { AF_UNIX, SOCK_STREAM, 0, 0 },
        { AF_UNIX, SOCK_STREAM, AF_UNIX, 0 },
        { AF_UNIX, SOCK_STREAM, IPPROTO_TCP, EPROTONOSUPPORT },
        { AF_UNIX, SOCK_SEQPACKET, 0, ESOCKTNOSUPPORT },
        { AF_UNIX, SOCK_DGRAM, 0, ESOCKTNOSUPPORT },
    };
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        errno = 0;
        int fd = socket(kinds[i].domain, kinds[i].type, kinds[i].protocol);
        CHECK(kinds[i].error ? fd == -1 && errno == kinds[i].error : fd >= 0);
        if (fd >= 0) {
            CHECK(!(fcntl(fd, F_GETFD) & FD_CLOEXEC) == !(kinds[i].type & SOCK_CLOEXEC));
            CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK) == !(kinds[i].type & SOCK_NONBLOCK));
            GIVES(close(fd), 0);
        }
    }
}

static void check_options(void) {
    int fd = stream(), on = 1;
    GIVES(option(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    GIVES(option(fd, SOL_SOCKET, SO_DOMAIN), AF_INET);
    GIVES(option(fd, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
    GIVES(option(fd, SOL_SOCKET, SO_ERROR), 0);
    GIVES(option(fd, SOL_SOCKET, SO_ACCEPTCONN), 0);
    CHECK(option(fd, SOL_SOCKET, SO_RCVBUF) > 0);
    static const int names[][2] = {
        { SOL_SOCKET, SO_REUSEADDR }, { SOL_SOCKET, SO_KEEPALIVE }, { SOL_SOCKET, SO_BROADCAST },
        { SOL_SOCKET, SO_REUSEPORT }, { IPPROTO_TCP, TCP_NODELAY }, { IPPROTO_TCP, TCP_CORK },
    };
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        GIVES(option(fd, names[i][0], names[i][1]), 0);
        GIVES(setsockopt(fd, names[i][0], names[i][1], &on, sizeof on), 0);
        GIVES(option(fd, names[i][0], names[i][1]), 1);
    }
    struct linger linger = { 1, 7 }, back = { 0, 0 };
    socklen_t size = sizeof back;
    GIVES(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    GIVES(getsockopt(fd, SOL_SOCKET, SO_LINGER, &back, &size), 0);
    CHECK(size == sizeof back && back.l_onoff == 1 && back.l_linger == 7);
    /* A place that is too small gets what fits. */
    short part = -1;
    size = sizeof part;
    GIVES(getsockopt(fd, SOL_SOCKET, SO_TYPE, &part, &size), 0);
    CHECK(size == sizeof part && part == SOCK_STREAM);
    GIVES(listen(fd, 1), 0);
    GIVES(option(fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
    GIVES(close(fd), 0);
}

static void put_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The text of a file; null: there is none. */
static char *text_of(const char *path) {
    enum { MOST = 65536 };
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    char *text = calloc(1, MOST);
    CHECK(text && fread(text, 1, MOST, file) < MOST && fclose(file) == 0);
    return text;
}

/* Leaves a file as it was found. */
static void put_back(const char *path, char *text) {
    if (text)
        put_file(path, text);
    free(text);
}

static unsigned host_of(const char *name) {
    struct addrinfo *found = NULL;
    if (getaddrinfo(name, "1", NULL, &found) != 0)
        return 0;
    unsigned host = ntohl(((struct sockaddr_in *)found->ai_addr)->sin_addr.s_addr);
    freeaddrinfo(found);
    return host;
}

/* The names that an administrator has given to machines, by files. */
static void names_of_files(void) {
    char name[65];
    struct utsname machine;
    CHECK(mkdir("/etc", 0755) == 0 || errno == EEXIST);
    char *hosts = text_of("/etc/hosts"), *hostname = text_of("/etc/hostname");
    // At boot the machine gets the name of its node, which every node knows.
    char *first_line = hostname ? strndup(hostname, strcspn(hostname, "\n")) : NULL;
    CHECK(first_line && host_of(first_line) == 0x0a000001u + own);
    free(first_line);
    put_file("/etc/hosts", "# names\n10.0.0.9 saguaro8 Eight # nine\n10.0.0.1 host8\n");
    CHECK(host_of("saguaro8") == 0x0a000009 && host_of("eight") == 0x0a000009);
    CHECK(host_of("nine") == 0 && host_of("names") == 0);
    CHECK(host_of("host") == 0x0a000001 && host_of("node3") == 0x0a000004);
    struct hostent *entry = gethostbyname("Eight");
    CHECK(entry && ntohl(((struct in_addr *)entry->h_addr)->s_addr) == 0x0a000009);
    struct in_addr first = { htonl(0x0a000001) };
    entry = gethostbyaddr(&first, sizeof first, AF_INET);
    CHECK(entry && !strcmp(entry->h_name, "host8"));
    GIVES(unlink("/etc/hosts"), 0);
    CHECK(host_of("saguaro8") == 0);

    put_file("/etc/hostname", "saguaro7\n");
    GIVES(gethostname(name, sizeof name), 0);
    CHECK(!strcmp(name, "saguaro7"));
    GIVES(uname(&machine), 0);
    CHECK(!strcmp(machine.nodename, "saguaro7"));
    CHECK(host_of("saguaro7") == 0x0a000001u + own);
    put_file("/etc/hostname", "not a name\n");
    GIVES(gethostname(name, sizeof name), 0);
    CHECK(!strcmp(name, "skiff"));
    GIVES(unlink("/etc/hostname"), 0);
    CHECK(host_of("saguaro7") == 0);
    put_back("/etc/hosts", hosts);
    put_back("/etc/hostname", hostname);
}

/* The same where the administrator has given some: they are there afterwards. */
static void names_of_others(void) {
    char *hosts = text_of("/etc/hosts");
    put_file("/etc/hosts", "10.0.0.9 ocotillo\n");
    names_of_files();
    CHECK(host_of("ocotillo") == 0x0a000009);
    GIVES(unlink("/etc/hosts"), 0);
    put_back("/etc/hosts", hosts);
}

static void check_names(void) {
    struct addrinfo hints = { .ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM }, *found;
    GIVES(getaddrinfo("host", "80", &hints, &found), 0);
    struct sockaddr_in *address = (struct sockaddr_in *)found->ai_addr;
    CHECK(found->ai_family == AF_INET && found->ai_socktype == SOCK_STREAM);
    CHECK(found->ai_addrlen == sizeof *address && found->ai_next == NULL);
    CHECK(ntohs(address->sin_port) == 80 && ntohl(address->sin_addr.s_addr) == 0x0a000001);
    CHECK(!strcmp(found->ai_canonname, "host"));
    char host[32], service[32];
    GIVES(getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, service,
                      sizeof service, 0), 0);
    CHECK(!strcmp(host, "host") && !strcmp(service, "http"));
    GIVES(getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, service,
                      sizeof service, NI_NUMERICHOST | NI_NUMERICSERV), 0);
    CHECK(!strcmp(host, "10.0.0.1") && !strcmp(service, "80"));
    GIVES(getnameinfo(found->ai_addr, found->ai_addrlen, host, 4, NULL, 0, 0), EAI_OVERFLOW);
    freeaddrinfo(found);
    struct addrinfo passive = { .ai_flags = AI_PASSIVE };
    GIVES(getaddrinfo(NULL, "echo", &passive, &found), 0);
    address = (struct sockaddr_in *)found->ai_addr;
    CHECK(address->sin_addr.s_addr == INADDR_ANY && ntohs(address->sin_port) == 7);
    freeaddrinfo(found);
    GIVES(getaddrinfo(NULL, "7", NULL, &found), 0);
    address = (struct sockaddr_in *)found->ai_addr;
    CHECK(ntohl(address->sin_addr.s_addr) == INADDR_LOOPBACK);
    freeaddrinfo(found);
    struct addrinfo six = { .ai_family = AF_INET6 }, datagram = { .ai_socktype = SOCK_DGRAM };
    struct addrinfo numeric = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    GIVES(getaddrinfo("nobody", "1", NULL, &found), EAI_NONAME);
    GIVES(getaddrinfo("host", "gopher", NULL, &found), EAI_SERVICE);
    GIVES(getaddrinfo(NULL, NULL, NULL, &found), EAI_NONAME);
    GIVES(getaddrinfo("host", "1", &six, &found), EAI_FAMILY);
    GIVES(getaddrinfo("host", "1", &datagram, &found), EAI_SOCKTYPE);
    GIVES(getaddrinfo("host", "1", &numeric, &found), EAI_NONAME);
    GIVES(getaddrinfo("10.0.0.3", "http", &numeric, &found), EAI_NONAME);
    CHECK(strlen(gai_strerror(EAI_NONAME)) > 5);

    char name[64];
    GIVES(gethostname(name, sizeof name), 0);
    struct hostent *entry = gethostbyname(name);
    CHECK(entry && entry->h_addrtype == AF_INET && entry->h_length == 4);
    CHECK(!strcmp(entry->h_name, name) && entry->h_aliases[0] == NULL);
    CHECK(entry->h_addr_list[1] == NULL);
    struct in_addr first = *(struct in_addr *)entry->h_addr;
    CHECK(ntohl(first.s_addr) == 0x0a000001u + own);
    entry = gethostbyaddr(&first, sizeof first, AF_INET);
    snprintf(name, sizeof name, own ? "node%d" : "host", own);
    CHECK(entry && !strcmp(entry->h_name, name));
    CHECK(gethostbyname("nobody") == NULL && h_errno == HOST_NOT_FOUND);
    names_of_files();
    names_of_others();
    struct servent *known = getservbyname("http", "tcp");
    CHECK(known && ntohs(known->s_port) == 80 && known->s_aliases[0] == NULL);
    CHECK(getservbyname("http", "udp") == NULL);
    CHECK(getservbyport(htons(7), NULL) && getservbyport(htons(3000), NULL) == NULL);
    struct protoent *protocol = getprotobyname("tcp");
    CHECK(protocol && protocol->p_proto == IPPROTO_TCP && protocol->p_aliases[0] == NULL);
    CHECK(getprotobyname("udp") == NULL && !strcmp(getprotobynumber(0)->p_name, "ip"));

    struct in_addr parsed;
    CHECK(inet_addr("10.0.0.2") == htonl(0x0a000002) && inet_addr("x") == INADDR_NONE);
    CHECK(inet_aton("127.1", &parsed) == 1 && ntohl(parsed.s_addr) == INADDR_LOOPBACK);
    CHECK(inet_aton("1.2.3.4.5", &parsed) == 0);
    CHECK(inet_pton(AF_INET, "10.0.0.9", &parsed) == 1 && ntohl(parsed.s_addr) == 0x0a000009);
    CHECK(inet_pton(AF_INET, "10.9", &parsed) == 0);
    unsigned char sixteen[16];
    CHECK(inet_pton(AF_INET6, "ff05::1.2.3.4", sixteen) == 1 && sixteen[0] == 0xff && sixteen[1] == 5);
    CHECK(sixteen[2] == 0 && sixteen[12] == 1 && sixteen[15] == 4 && inet_pton(AF_INET6, "1.2.3.4", sixteen) == 0);
    CHECK(inet_ntop(AF_INET6, sixteen, name, sizeof name) && !strcmp(name, "ff05::102:304"));
    FAILS(inet_pton(99, "::1", &parsed), EAFNOSUPPORT);
    CHECK(!strcmp(inet_ntoa(parsed), "10.0.0.9"));
    CHECK(inet_ntop(AF_INET, &parsed, name, sizeof name) == name && !strcmp(name, "10.0.0.9"));
    errno = 0;
    CHECK(inet_ntop(AF_INET, &parsed, name, 8) == NULL && errno == ENOSPC);
    CHECK(htons(0x1234) == 0x3412 && ntohl(0x01020304) == 0x04030201);
}

/* The own node, and the way to all nodes, each with its address. */
static void check_interfaces(void) {
    char name[IF_NAMESIZE];
    CHECK(if_nametoindex("lo") == 1 && if_nametoindex("scif0") == 2);
    CHECK(if_indextoname(2, name) == name && !strcmp(name, "scif0"));
    errno = 0;
    CHECK(if_nametoindex("eth0") == 0 && errno == ENXIO);
    errno = 0;
    CHECK(if_indextoname(3, name) == NULL && errno == ENXIO && !if_indextoname(0, name));
    struct if_nameindex *list = if_nameindex();
    CHECK(list && list[0].if_index == 1 && !strcmp(list[0].if_name, "lo"));
    CHECK(list[1].if_index == 2 && !strcmp(list[1].if_name, "scif0"));
    CHECK(list[2].if_index == 0 && !list[2].if_name);
    if_freenameindex(list);
    struct ifaddrs *found;
    struct addrinfo *own;
    CHECK(getifaddrs(&found) == 0 && getaddrinfo("skiff", NULL, NULL, &own) == 0);
    const struct ifaddrs *of = found;
    CHECK(!strcmp(of->ifa_name, "lo") && of->ifa_flags == (IFF_UP | IFF_LOOPBACK | IFF_RUNNING));
    CHECK(((struct sockaddr_in *)of->ifa_addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(((struct sockaddr_in *)of->ifa_netmask)->sin_addr.s_addr == htonl(0xff000000));
    CHECK(of->ifa_broadaddr == NULL && of->ifa_addr->sa_family == AF_INET);
    of = of->ifa_next;
    CHECK(!strcmp(of->ifa_name, "scif0") && of->ifa_flags == (IFF_UP | IFF_BROADCAST | IFF_RUNNING));
    CHECK(((struct sockaddr_in *)of->ifa_addr)->sin_addr.s_addr ==
          ((struct sockaddr_in *)own->ai_addr)->sin_addr.s_addr);
    CHECK(((struct sockaddr_in *)of->ifa_netmask)->sin_addr.s_addr == htonl(0xffffff00));
    CHECK(((struct sockaddr_in *)of->ifa_broadaddr)->sin_addr.s_addr == htonl(0x0a0000ff));
    CHECK(of->ifa_next == NULL);
    freeaddrinfo(own);
    freeifaddrs(found);
    freeifaddrs(NULL);
    FAILS(getifaddrs(NULL), EINVAL);
}

/* A pair: both ends work, with everything that sockets have. */
static void check_pair(void) {
    int pair[2];
    FAILS(socketpair(AF_INET, SOCK_STREAM, 0, pair), EAFNOSUPPORT);
    FAILS(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), EOPNOTSUPP);
    FAILS(socketpair(AF_UNIX, SOCK_STREAM, 0, NULL), EFAULT);
    for (int turn = 0; turn < 20; turn++) {
        GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        for (int end = 0; end < 2; end++) {
            write_all(pair[end], "pair", 4);
            char text[10];
            GIVES(recv(pair[!end], text, sizeof text, 0), 4);
            CHECK(!memcmp(text, "pair", 4));
        }
        GIVES(close(pair[turn % 2]), 0);
        read_end(pair[!(turn % 2)]);
        GIVES(close(pair[!(turn % 2)]), 0);
    }
}

/* A socket bound to the loopback address serves this node, by each of its addresses. Both ends of a
   connection by that address have it. */
static void check_ends(int fd, in_addr_t host, uint16_t server) {
    struct sockaddr_in names[2];
    socklen_t lengths[2] = { sizeof names[0], sizeof names[1] };
    GIVES(getsockname(fd, (struct sockaddr *)&names[0], &lengths[0]), 0);
    GIVES(getpeername(fd, (struct sockaddr *)&names[1], &lengths[1]), 0);
    CHECK(ntohl(names[0].sin_addr.s_addr) == host && ntohl(names[1].sin_addr.s_addr) == host);
    CHECK(ntohs(names[0].sin_port) == server || ntohs(names[1].sin_port) == server);
}

static void *accept_twice(void *argument) {
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        int fd = accept(*(int *)argument, (struct sockaddr *)&peer, &length);
        CHECK(fd >= 0 && ntohl(peer.sin_addr.s_addr) == INADDR_LOOPBACK);
        check_ends(fd, INADDR_LOOPBACK, 3072);
        await(fd, 'l');
        GIVES(close(fd), 0);
    }
    return NULL;
}

static void check_loopback(void) {
    int on = stream();
    struct sockaddr_in address = address_of(-1, 3072);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    GIVES(bind(on, (struct sockaddr *)&address, sizeof address), 0);
    GIVES(listen(on, 1), 0);
    pthread_t other;
    GIVES(pthread_create(&other, NULL, accept_twice, &on), 0);
    for (int i = 0; i < 2; i++) {
        int fd = stream();
        if (i)
            address = address_of(own, 3072);
        GIVES(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        check_ends(fd, i ? 0x0a000001u + own : INADDR_LOOPBACK, 3072);
        step(fd, 'l');
        read_end(fd);
        GIVES(close(fd), 0);
    }
    GIVES(pthread_join(other, NULL), 0);
    GIVES(close(on), 0);
}

/* The ends of a pair have the family of one, and no name. */
static void check_names_of_pairs(void) {
    int pair[2];
    GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in name = { .sin_port = 7 };
        socklen_t length = sizeof name;
        GIVES(getsockname(pair[i], (struct sockaddr *)&name, &length), 0);
        CHECK(name.sin_family == AF_UNIX && length == sizeof name.sin_family);
        length = sizeof name;
        GIVES(getpeername(pair[i], (struct sockaddr *)&name, &length), 0);
        CHECK(name.sin_family == AF_UNIX && length == sizeof name.sin_family);
        CHECK(name.sin_port == 7);
    }
    for (int i = 0; i < 2; i++)
        GIVES(close(pair[i]), 0);
}

/* A connection waits as its listener does, unless accept4 says so. */
static void check_waiting_is_inherited(void) {
    int on = listening();
    GIVES(fcntl(on, F_SETFL, fcntl(on, F_GETFL) | O_NONBLOCK), 0);
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    GIVES(getsockname(on, (struct sockaddr *)&address, &length), 0);
    for (int flags = 0; flags < 2; flags++) {
        int caller = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK(connect(caller, (struct sockaddr *)&address, sizeof address) == -1);
        CHECK(errno == EINPROGRESS);
        /* The caller has its address before it is connected. */
        struct sockaddr_in name;
        socklen_t bytes = sizeof name;
        GIVES(getsockname(caller, (struct sockaddr *)&name, &bytes), 0);
        CHECK(ntohl(name.sin_addr.s_addr) == INADDR_LOOPBACK && name.sin_port != 0);
        CHECK(poll_one(on, POLLIN, TIMEOUT_MS) == POLLIN);
        int fd = flags ? accept4(on, NULL, NULL, 0) : accept(on, NULL, NULL);
        CHECK(fd >= 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK ? 0 : 1) == flags);
        char byte;
        if (!flags)
            FAILS(recv(fd, &byte, 1, 0), EAGAIN);
        GIVES(close(fd), 0);
        GIVES(close(caller), 0);
    }
    GIVES(close(on), 0);
}

/* One thread connects, sends and only then accepts, as with TCP. */
static void check_connections_before_accept(void) {
    int on = bound();
    GIVES(listen(on, 2), 0);
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    GIVES(getsockname(on, (struct sockaddr *)&address, &length), 0);
    int callers[3];
    for (int i = 0; i < 3; i++) {
        callers[i] = stream();
        errno = 0;
        int result = connect(callers[i], (struct sockaddr *)&address, sizeof address);
        /* The backlog is two. */
        CHECK(i < 2 ? result == 0 : result == -1 && errno == ECONNREFUSED);
    }
    GIVES(close(callers[2]), 0);
    GIVES(send(callers[0], "early", 5, 0), 5);
    GIVES(close(callers[1]), 0);
    CHECK(poll_one(on, POLLIN, TIMEOUT_MS) == POLLIN);
    char bytes[8];
    int first = accept(on, NULL, NULL), second = accept(on, NULL, NULL);
    CHECK(first >= 0 && second >= 0);
    GIVES(recv(first, bytes, sizeof bytes, 0), 5);
    CHECK(!memcmp(bytes, "early", 5));
    GIVES(send(first, "answer", 6, 0), 6);
    GIVES(recv(callers[0], bytes, sizeof bytes, 0), 6);
    GIVES(recv(second, bytes, sizeof bytes, 0), 0);
    GIVES(close(second), 0);
    /* One that nobody accepts ends with its listener. */
    int last = stream();
    GIVES(connect(last, (struct sockaddr *)&address, sizeof address), 0);
    GIVES(close(on), 0);
    GIVES(recv(last, bytes, sizeof bytes, 0), 0);
    GIVES(close(last), 0);
    GIVES(close(first), 0);
    GIVES(close(callers[0]), 0);
}

/* Closing or shutting down a listener ends the wait of another thread. */
static int awaited;

static void *accept_until_end(void *argument) {
    (void)argument;
    errno = 0;
    CHECK(accept(awaited, NULL, NULL) == -1);
    return (void *)(long)errno;
}

static void check_ends_of_listeners(void) {
    for (int how = 0; how < 2; how++) {
        awaited = listening();
        pthread_t other;
        GIVES(pthread_create(&other, NULL, accept_until_end, NULL), 0);
        for (int i = 0; i < 10; i++)
            pause_shortly();
        if (how)
            GIVES(shutdown(awaited, SHUT_RD), 0);
        else
            GIVES(close(awaited), 0);
        void *error;
        GIVES(pthread_join(other, &error), 0);
        GIVES((long)error, how ? EINVAL : EBADF);
        if (how)
            GIVES(close(awaited), 0);
    }
    /* One of two descriptors of a listener is closed: the other one listens on. */
    int first = listening(), second = dup(first);
    CHECK(second >= 0);
    GIVES(close(first), 0);
    set_waiting(second, 0);
    FAILS(accept(second, NULL, NULL), EAGAIN);
    GIVES(close(second), 0);
}

/* A program whose standard input is one end of a connection: it has not called any function of
 * sockets. */
static int read_what_was_passed(void) {
    struct stat status;
    char line[32];
    CHECK(fstat(0, &status) == 0 && S_ISSOCK(status.st_mode));
    CHECK(fgets(line, sizeof line, stdin) && !strcmp(line, "for the child"));
    CHECK(feof(stdin) && !ferror(stdin));
    GIVES(read(0, line, sizeof line), 0);
    return 37;
}

static void check_passing_to_programs(const char *program) {
    int pair[2], status;
    GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    posix_spawn_file_actions_t actions;
    GIVES(posix_spawn_file_actions_init(&actions), 0);
    GIVES(posix_spawn_file_actions_adddup2(&actions, pair[1], 0), 0);
    GIVES(posix_spawn_file_actions_addclose(&actions, pair[0]), 0);
    char *arguments[] = { (char *)program, "passed", NULL };
    pid_t child;
    GIVES(posix_spawnp(&child, program, &actions, NULL, arguments, NULL), 0);
    GIVES(posix_spawn_file_actions_destroy(&actions), 0);
    GIVES(close(pair[1]), 0);
    GIVES(write(pair[0], "for the child", 13), 13);
    GIVES(close(pair[0]), 0);
    GIVES(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 37);
}

int main(int count, char **arguments) {
    playing = 50;
    if (count > 1)
        return read_what_was_passed();
    own = own_node();
    long before = stat_number("endpoints");
    check_kinds();
    check_rows();
    check_options();
    check_names();
    check_interfaces();
    check_pair();
    check_loopback();
    check_names_of_pairs();
    check_waiting_is_inherited();
    check_connections_before_accept();
    check_ends_of_listeners();
    check_passing_to_programs(arguments[0]);
    /* What was closed is gone, soon. */
    for (int tries = 0; stat_number("endpoints") > before; tries++) {
        CHECK(tries < TIMEOUT_MS / 2);
        pause_shortly();
    }
    printf("socket-calls: ok\n");
    return 0;
}
