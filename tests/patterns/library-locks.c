/*
 * Locks of files, between processes and between openings of a file: those of `fcntl`, `lockf` and
 * `flock`. A child takes orders by a pipe and answers with an error number.
 */
#include "library.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const path = "/tmp/library-locks";

static int lock(int file, int command, short kind, off_t start, off_t length) {
    struct flock request = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(file, command, &request);
}

/* What the child is to do, with a file of its own opening. */
struct order {
    int call, command;
    short kind;
    off_t start, length;
};
enum { FCNTL, FLOCK, LOCKF, CLOSE, LEAVE };

static struct {
    pid_t process;
    int orders[2], answers[2];
} child;

static void obey(void) {
    int file = open(path, O_RDWR), other = open(path, O_RDWR);
    struct order order;
    while (read(child.orders[0], &order, sizeof order) == sizeof order) {
        int result = 0;
        switch (order.call) {
        case FCNTL: result = lock(file, order.command, order.kind, order.start, order.length); break;
        case FLOCK: result = flock(other, order.command); break;
        case LOCKF: result = lockf(file, order.command, order.length); break;
        case CLOSE: result = close(order.command ? other : file); break;
        default: _exit(0);
        }
        int answer = result < 0 ? errno : 0;
        if (write(child.answers[1], &answer, sizeof answer) != sizeof answer) {
            break;
        }
    }
    _exit(1);
}

static void begin(void) {
    CHECK(pipe(child.orders) == 0 && pipe(child.answers) == 0);
    child.process = fork();
    if (child.process == 0) {
        obey();
    }
    CHECK(child.process > 0);
}

static void give(struct order order) {
    CHECK(write(child.orders[1], &order, sizeof order) == sizeof order);
}

static int answer(void) {
    int answer = -1;
    CHECK(read(child.answers[0], &answer, sizeof answer) == sizeof answer);
    return answer;
}

static int ask(struct order order) {
    give(order);
    return answer();
}

static void end(void) {
    int status = -1;
    give((struct order){.call = LEAVE});
    CHECK(waitpid(child.process, &status, 0) == child.process && status == 0);
    for (int each = 0; each < 2; each++) {
        close(child.orders[each]);
        close(child.answers[each]);
    }
}

/* Whether anything arrives from the child; it does when it has the lock. */
static int has_answered(void) {
    int bytes = 0;
    CHECK(ioctl(child.answers[0], FIONREAD, &bytes) == 0);
    return bytes != 0;
}

static void of_processes(void) {
    int file = open(path, O_RDWR);
    begin();
    CHECK(lock(file, F_SETLK, F_WRLCK, 10, 10) == 0);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_WRLCK, 19, 1}) == EAGAIN);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 0, 0}) == EAGAIN);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_WRLCK, 20, 10}) == 0);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 0, 10}) == 0);
    FAILS(lock(file, F_SETLK, F_WRLCK, 25, 0), EAGAIN);
    CHECK(lock(file, F_SETLK, F_RDLCK, 0, 20) == 0);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 12, 1}) == 0);

    struct flock request = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 15, .l_len = 100};
    CHECK(fcntl(file, F_GETLK, &request) == 0);
    CHECK(request.l_type == F_WRLCK && request.l_whence == SEEK_SET);
    CHECK(request.l_start == 20 && request.l_len == 10 && request.l_pid == child.process);
    request = (struct flock){.l_type = F_WRLCK, .l_start = 1000};
    CHECK(fcntl(file, F_GETLK, &request) == 0 && request.l_type == F_UNLCK);

    /* One that waits has it once the last one has given it back. */
    give((struct order){FCNTL, F_SETLKW, F_WRLCK, 0, 5});
    CHECK(lock(file, F_SETLK, F_UNLCK, 4, 16) == 0);
    CHECK(!has_answered());
    CHECK(lock(file, F_SETLK, F_UNLCK, 0, 0) == 0);
    CHECK(answer() == 0);
    FAILS(lock(file, F_SETLK, F_RDLCK, 3, 1), EAGAIN);

    /* A process that closes a file gives back what it had locked. */
    CHECK(ask((struct order){CLOSE, 0, 0, 0, 0}) == 0);
    CHECK(lock(file, F_SETLKW, F_WRLCK, 0, 0) == 0);
    CHECK(ask((struct order){FLOCK, LOCK_SH | LOCK_NB, 0, 0, 0}) == EWOULDBLOCK);
    close(file);
    CHECK(ask((struct order){FLOCK, LOCK_EX, 0, 0, 0}) == 0);
    end();

    /* One that ends does. */
    file = open(path, O_RDWR);
    CHECK(lock(file, F_SETLKW, F_WRLCK, 0, 0) == 0);
    begin();
    CHECK(lock(file, F_SETLK, F_UNLCK, 0, 0) == 0);
    CHECK(ask((struct order){FCNTL, F_SETLKW, F_WRLCK, 0, 0}) == 0);
    end();
    CHECK(lock(file, F_SETLKW, F_WRLCK, 0, 0) == 0);
    close(file);
}

static void from_places(void) {
    int file = open(path, O_RDWR | O_TRUNC);
    CHECK(write(file, "0123456789", 10) == 10);
    CHECK(lseek(file, 4, SEEK_SET) == 4);
    begin();
    struct flock request = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = 1, .l_len = -2};
    CHECK(fcntl(file, F_SETLK, &request) == 0);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 3, 1}) == EAGAIN);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 4, 1}) == EAGAIN);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 2, 1}) == 0);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 5, 1}) == 0);
    request = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = 0, .l_len = 0};
    CHECK(fcntl(file, F_SETLK, &request) == 0);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 1 << 20, 1}) == EAGAIN);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_RDLCK, 9, 1}) == 0);

    /* `lockf` is about what follows the position. */
    CHECK(lock(file, F_SETLK, F_UNLCK, 0, 0) == 0);
    CHECK(ask((struct order){FCNTL, F_SETLK, F_UNLCK, 0, 0}) == 0);
    CHECK(lockf(file, F_TLOCK, 2) == 0);
    CHECK(ask((struct order){LOCKF, F_TEST, 0, 0, 4}) == 0);
    CHECK(ask((struct order){LOCKF, F_TEST, 0, 0, 5}) == EACCES);
    CHECK(ask((struct order){LOCKF, F_TLOCK, 0, 0, 0}) == EAGAIN);
    CHECK(ask((struct order){LOCKF, F_LOCK, 0, 0, 4}) == 0);
    CHECK(lockf(file, F_ULOCK, 0) == 0);
    CHECK(ask((struct order){LOCKF, F_TLOCK, 0, 0, 0}) == 0);
    end();
    close(file);
}

static void of_openings(void) {
    int file = open(path, O_RDWR), other = open(path, O_RDONLY), copy = dup(file);
    CHECK(flock(file, LOCK_SH) == 0 && flock(other, LOCK_SH) == 0);
    FAILS(flock(other, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CHECK(flock(file, LOCK_UN) == 0);
    CHECK(flock(other, LOCK_EX | LOCK_NB) == 0);
    FAILS(flock(copy, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    CHECK(flock(other, LOCK_UN) == 0);

    /* The copy is the same opening, in a child as well. */
    CHECK(flock(file, LOCK_EX) == 0 && flock(copy, LOCK_EX) == 0);
    pid_t process = fork();
    if (process == 0) {
        _exit(flock(copy, LOCK_EX | LOCK_NB) != 0);
    }
    int status = -1;
    CHECK(waitpid(process, &status, 0) == process && status == 0);
    close(copy);
    FAILS(flock(other, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    close(file);
    CHECK(flock(other, LOCK_SH) == 0);
    close(other);

    /* The same by `fcntl`. */
    file = open(path, O_RDWR), other = open(path, O_RDWR);
    CHECK(lock(file, F_OFD_SETLK, F_WRLCK, 0, 10) == 0);
    FAILS(lock(other, F_OFD_SETLK, F_RDLCK, 9, 1), EAGAIN);
    /* The longest length there is means the rest of the file, and does not wait. */
    FAILS(lock(other, F_OFD_SETLK, F_RDLCK, 0, 0x7fffffffffffffff), EAGAIN);
    CHECK(lock(other, F_OFD_SETLKW, F_RDLCK, 10, 0) == 0);
    struct flock request = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    CHECK(fcntl(other, F_OFD_GETLK, &request) == 0);
    CHECK(request.l_type == F_WRLCK && request.l_len == 10 && request.l_pid == -1);
    close(file);
    close(other);
}

static void refused(void) {
    int reader = open(path, O_RDONLY), writer = open(path, O_WRONLY);
    FAILS(lock(reader, F_SETLK, F_WRLCK, 0, 0), EBADF);
    FAILS(lock(writer, F_SETLK, F_RDLCK, 0, 0), EBADF);
    CHECK(lock(reader, F_SETLK, F_RDLCK, 0, 0) == 0);
    FAILS(lock(-1, F_SETLK, F_RDLCK, 0, 0), EBADF);
    FAILS(lock(reader, F_SETLK, 7, 0, 0), EINVAL);
    FAILS(lock(reader, F_SETLK, F_RDLCK, -1, 0), EINVAL);
    FAILS(lock(reader, F_SETLK, F_RDLCK, 0x7fffffffffffffff, 1), EOVERFLOW);
    struct flock request = {.l_type = F_RDLCK, .l_whence = 9};
    FAILS(fcntl(reader, F_SETLK, &request), EINVAL);
    FAILS(flock(reader, 0), EINVAL);
    FAILS(flock(reader, LOCK_SH | LOCK_EX), EINVAL);
    FAILS(flock(-1, LOCK_SH), EBADF);
    FAILS(lockf(writer, 9, 0), EINVAL);
    close(reader);
    close(writer);

    /* Files of other schemes have none. */
    int constant = open("/scheme/initfs/bin/library-locks", O_RDONLY);
    CHECK(constant >= 0);
    FAILS(lock(constant, F_SETLK, F_RDLCK, 0, 0), ENOLCK);
    FAILS(flock(constant, LOCK_SH), ENOLCK);
    close(constant);
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    FAILS(flock(pipes[0], LOCK_SH), ENOLCK);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    close(file);
    of_processes();
    from_places();
    of_openings();
    refused();
    CHECK(unlink(path) == 0);
    return finish("library-locks");
}
