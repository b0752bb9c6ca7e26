/* Stream sockets with a path, within a node: names, errors, files that are none of a socket, and
 * what forks and programs inherit. */
#define NO_PATTERNS
#include "socket.h"
#include <spawn.h>
#include <stddef.h>
#include <sys/un.h>
#include <sys/wait.h>

#define PLACE "/tmp/socket-paths"
/* Bytes of an address before its path: an address without one is as long. */
enum { UNNAMED = offsetof(struct sockaddr_un, sun_path) };

static int unix_stream(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    return fd;
}

static struct sockaddr_un name_of(const char *path) {
    struct sockaddr_un name = { 0 };
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, path, strnlen(path, sizeof name.sun_path));
    return name;
}

static int bind_path(int fd, const char *path) {
    struct sockaddr_un name = name_of(path);
    return bind(fd, (struct sockaddr *)&name, sizeof name);
}

static int connect_path(int fd, const char *path) {
    struct sockaddr_un name = name_of(path);
    return connect(fd, (struct sockaddr *)&name, sizeof name);
}

static int listen_at(const char *path) {
    int fd = unix_stream();
    GIVES(bind_path(fd, path), 0);
    GIVES(listen(fd, 4), 0);
    return fd;
}

/* Checks an address; null: it is the unnamed one. */
static void is_name(const struct sockaddr_un *name, socklen_t length, const char *path) {
    CHECK(name->sun_family == AF_UNIX);
    GIVES(length, path ? UNNAMED + strlen(path) + 1 : UNNAMED);
    CHECK(!path || !strcmp(name->sun_path, path));
}

typedef int namer(int, struct sockaddr *, socklen_t *);

static void has_name(namer *call, int fd, const char *path) {
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    memset(&name, 'x', sizeof name);
    GIVES(call(fd, (struct sockaddr *)&name, &length), 0);
    is_name(&name, length, path);
}

static void put_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void check_a_connection(void) {
    struct stat status;
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    char bytes[8];
    mode_t mask = umask(027);
    int on = listen_at(PLACE);
    umask(mask);
    GIVES(stat(PLACE, &status), 0);
    CHECK(S_ISSOCK(status.st_mode) && (status.st_mode & 0777) == 0750);
    GIVES(chmod(PLACE, 0700), 0);
    GIVES(stat(PLACE, &status), 0);
    CHECK(S_ISSOCK(status.st_mode) && (status.st_mode & 0777) == 0700);
    has_name(getsockname, on, PLACE);
    FAILS(getpeername(on, (struct sockaddr *)&name, &length), ENOTCONN);
    GIVES(option(on, SOL_SOCKET, SO_DOMAIN), AF_UNIX);
    GIVES(option(on, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    GIVES(option(on, SOL_SOCKET, SO_PROTOCOL), 0);
    FAILS(bind_path(on, PLACE "-2"), EINVAL);
    FAILS(access(PLACE "-2", F_OK), ENOENT);

    int caller = unix_stream();
    has_name(getsockname, caller, NULL);
    GIVES(connect_path(caller, PLACE), 0);
    FAILS(connect_path(caller, PLACE), EISCONN);
    /* It is connected before it is accepted. */
    GIVES(send(caller, "early", 5, 0), 5);
    length = sizeof name;
    int fd = accept(on, (struct sockaddr *)&name, &length);
    CHECK(fd >= 0);
    is_name(&name, length, NULL);
    has_name(getsockname, fd, PLACE);
    has_name(getpeername, fd, NULL);
    has_name(getsockname, caller, NULL);
    has_name(getpeername, caller, PLACE);
    GIVES(option(fd, SOL_SOCKET, SO_DOMAIN), AF_UNIX);
    GIVES(recv(fd, bytes, sizeof bytes, 0), 5);
    CHECK(!memcmp(bytes, "early", 5));
    GIVES(write(fd, "answer", 6), 6);
    GIVES(read(caller, bytes, sizeof bytes), 6);
    int copy = dup(caller);
    has_name(getpeername, copy, PLACE);
    GIVES(close(copy), 0);
    GIVES(shutdown(caller, SHUT_WR), 0);
    read_end(fd);
    GIVES(close(fd), 0);
    read_end(caller);
    GIVES(close(caller), 0);

    /* Descriptors are not sent. */
    struct msghdr message = { 0 };
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    FAILS(sendmsg(on, &message, 0), EOPNOTSUPP);

    /* The file outlives the socket, and takes its name until it is removed. */
    GIVES(close(on), 0);
    int other = unix_stream();
    FAILS(connect_path(other, PLACE), ECONNREFUSED);
    FAILS(bind_path(other, PLACE), EADDRINUSE);
    GIVES(unlink(PLACE), 0);
    FAILS(connect_path(other, PLACE), ENOENT);
    GIVES(bind_path(other, PLACE), 0);
    /* It does not listen yet. */
    int early = unix_stream();
    FAILS(connect_path(early, PLACE), ECONNREFUSED);
    GIVES(listen(other, 1), 0);
    GIVES(connect_path(early, PLACE), 0);
    GIVES(close(early), 0);
    GIVES(close(other), 0);
    GIVES(unlink(PLACE), 0);
}

static void check_addresses(void) {
    struct sockaddr_un name = name_of(PLACE);
    struct sockaddr *any = (struct sockaddr *)&name;
    struct sockaddr_in inet = address_of(-1, 0);
    int fd = unix_stream();
    FAILS(listen(fd, 1), EINVAL);
    FAILS(bind(fd, any, UNNAMED), EINVAL);
    FAILS(bind(fd, any, sizeof name + 1), EINVAL);
    FAILS(bind(fd, any, 1), EINVAL);
    FAILS(bind(fd, NULL, sizeof name), EFAULT);
    FAILS(bind(fd, (struct sockaddr *)&inet, sizeof inet), EINVAL);
    FAILS(connect(fd, (struct sockaddr *)&inet, sizeof inet), EINVAL);
    FAILS(bind_path(fd, "/tmp"), EADDRINUSE);
    FAILS(bind_path(fd, "/tmp/absent/a"), ENOENT);
    FAILS(bind_path(fd, "/dev/null/a"), ENOTDIR);
    FAILS(bind_path(fd, "/scheme/null"), EADDRINUSE);
    FAILS(connect_path(fd, "/tmp"), ECONNREFUSED);
    FAILS(connect_path(fd, "/scheme/null"), ECONNREFUSED);
    /* Names without a file. */
    name.sun_path[0] = 0;
    FAILS(bind(fd, any, sizeof name), EINVAL);
    FAILS(connect(fd, any, sizeof name), EINVAL);
    int other = stream();
    FAILS(bind_path(other, PLACE), EAFNOSUPPORT);
    FAILS(connect_path(other, PLACE), EAFNOSUPPORT);
    GIVES(close(other), 0);
    /* The longest path, without a zero byte at its end; and one that is too long. */
    memset(name.sun_path, 'x', sizeof name.sun_path);
    memcpy(name.sun_path, "/tmp/", 5);
    FAILS(bind(fd, any, sizeof name), ENAMETOOLONG);
    GIVES(bind(fd, any, sizeof name - 1), 0);
    struct sockaddr_un back;
    socklen_t length = sizeof back;
    GIVES(getsockname(fd, (struct sockaddr *)&back, &length), 0);
    CHECK(length == sizeof back && strlen(back.sun_path) == sizeof back.sun_path - 1);
    CHECK(!memcmp(back.sun_path, name.sun_path, sizeof back.sun_path - 1));
    GIVES(unlink(back.sun_path), 0);
    GIVES(close(fd), 0);
    /* A relative path, whose end is the end of the address. */
    GIVES(chdir("/tmp"), 0);
    name = name_of("relative!");
    fd = unix_stream();
    GIVES(bind(fd, any, UNNAMED + 8), 0);
    has_name(getsockname, fd, "relative");
    GIVES(unlink("/tmp/relative"), 0);
    GIVES(close(fd), 0);
}

/* Files that some user has written. The right mode is that of a socket. */
static void check_forged_files(void) {
    static const struct {
        const char *text;
        int is_socket;
    } files[] = {
        { "port 60000\n", 0 }, { "", 1 }, { "port \n", 1 }, { "port 22\n", 1 },
        { "port 65536\n", 1 }, { "port 99999999999999999999999999\n", 1 }, { "\xff\xfe", 1 },
        { "port 60000\n", 1 }, { "port 60000\nport 60000\n", 1 }, { "port -1\n", 1 },
    };
    int fd = unix_stream();
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        put_file(PLACE, files[i].text);
        if (files[i].is_socket)
            GIVES(chmod(PLACE, S_IFSOCK | 0600), 0);
        FAILS(connect_path(fd, PLACE), ECONNREFUSED);
        GIVES(unlink(PLACE), 0);
    }
    GIVES(close(fd), 0);
}

/* Only who may write to the file may connect. */
static void check_rights(void) {
    int on = listen_at(PLACE), status;
    GIVES(chmod(PLACE, 0755), 0);
    GIVES(mkdir(PLACE "-own", 0755), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        GIVES(setuid(7), 0);
        int fd = unix_stream();
        FAILS(connect_path(fd, PLACE), EACCES);
        FAILS(bind_path(fd, PLACE "-own/a"), EACCES);
        _exit(0);
    }
    GIVES(waitpid(child, &status, 0), child);
    GIVES(status, 0);
    GIVES(rmdir(PLACE "-own"), 0);
    GIVES(unlink(PLACE), 0);
    GIVES(close(on), 0);
}

/* Calls that do not wait, and poll. */
static void check_without_waiting(void) {
    int on = listen_at(PLACE);
    set_waiting(on, 0);
    FAILS(accept(on, NULL, NULL), EAGAIN);
    int caller = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(caller >= 0);
    if (connect_path(caller, PLACE) < 0) {
        GIVES(errno, EINPROGRESS);
        CHECK(poll_one(caller, POLLOUT, TIMEOUT_MS) & POLLOUT);
    }
    GIVES(option(caller, SOL_SOCKET, SO_ERROR), 0);
    CHECK(poll_one(on, POLLIN, TIMEOUT_MS) == POLLIN);
    int fd = accept_on(on);
    has_name(getpeername, caller, PLACE);
    write_all(fd, "x", 1);
    CHECK(poll_one(caller, POLLIN, TIMEOUT_MS) == POLLIN);
    GIVES(close(fd), 0);
    GIVES(close(caller), 0);
    GIVES(close(on), 0);
    GIVES(unlink(PLACE), 0);
}

/* A child of fork accepts with the listener that it has inherited. */
static void check_fork(void) {
    int on = listen_at(PLACE), status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int fd = accept_on(on);
        has_name(getsockname, fd, PLACE);
        await(fd, 'a');
        step(fd, 'b');
        read_end(fd);
        _exit(0);
    }
    GIVES(close(on), 0);
    int caller = unix_stream();
    GIVES(connect_path(caller, PLACE), 0);
    step(caller, 'a');
    await(caller, 'b');
    GIVES(close(caller), 0);
    GIVES(waitpid(child, &status, 0), child);
    GIVES(status, 0);
    GIVES(unlink(PLACE), 0);
}

/* A program with one end of a connection as its standard input. */
static int look_at_what_was_passed(void) {
    has_name(getsockname, 0, NULL);
    has_name(getpeername, 0, NULL);
    GIVES(option(0, SOL_SOCKET, SO_DOMAIN), AF_UNIX);
    GIVES(option(0, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    await(0, 'p');
    step(0, 'q');
    return 0;
}

static void pass(const char *program, int kept, int passed) {
    int status;
    posix_spawn_file_actions_t actions;
    GIVES(posix_spawn_file_actions_init(&actions), 0);
    GIVES(posix_spawn_file_actions_adddup2(&actions, passed, 0), 0);
    GIVES(posix_spawn_file_actions_addclose(&actions, kept), 0);
    char *arguments[] = { (char *)program, "passed", NULL };
    pid_t child;
    GIVES(posix_spawnp(&child, program, &actions, NULL, arguments, NULL), 0);
    GIVES(posix_spawn_file_actions_destroy(&actions), 0);
    GIVES(close(passed), 0);
    step(kept, 'p');
    await(kept, 'q');
    read_end(kept);
    GIVES(close(kept), 0);
    GIVES(waitpid(child, &status, 0), child);
    GIVES(status, 0);
}

static void check_passing_to_programs(const char *program) {
    int pair[2];
    GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    has_name(getsockname, pair[0], NULL);
    has_name(getpeername, pair[1], NULL);
    GIVES(option(pair[0], SOL_SOCKET, SO_DOMAIN), AF_UNIX);
    pass(program, pair[0], pair[1]);
    GIVES(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pass(program, pair[1], pair[0]);
    int on = listen_at(PLACE), caller = unix_stream();
    GIVES(connect_path(caller, PLACE), 0);
    int fd = accept_on(on);
    GIVES(close(on), 0);
    pass(program, caller, fd);
    GIVES(unlink(PLACE), 0);
}

int main(int count, char **arguments) {
    playing = 121;
    if (count > 1)
        return look_at_what_was_passed();
    unlink(PLACE);
    check_a_connection();
    check_addresses();
    check_forged_files();
    check_rights();
    check_without_waiting();
    check_fork();
    check_passing_to_programs(arguments[0]);
    printf("socket-paths: ok\n");
    return 0;
}
