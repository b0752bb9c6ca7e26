/*
 * System V shared memory: segments that processes find by a key or a number. A child is a process
 * of its own by `fork`, or this program started again.
 */
#include "library.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { PAGE = 4096, SIZE = 3 * PAGE - 5, KEY = 0x5ca1ab1e, THREADS = 4, ROUNDS = 8, TURNS = 64 };
#define NONE ((void *)-1)

static int status_of(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int start(char *program, const char *what, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    char *arguments[] = {program, (char *)what, text, NULL};
    pid_t child;
    CHECK(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0);
    return status_of(child);
}

static int attached(int id) {
    struct shmid_ds status;
    return shmctl(id, IPC_STAT, &status) == 0 ? (int)status.shm_nattch : -1;
}

/* The files of segments. */
static int files(void) {
    int count = 0;
    DIR *directory = opendir("/dev/shm");
    CHECK(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        count += !strncmp(entry->d_name, "sysv.", 5);
    }
    CHECK(closedir(directory) == 0);
    return count;
}

static void keys(void) {
    FAILS(shmget(KEY, SIZE, 0600), ENOENT);
    FAILS(shmget(KEY, 0, IPC_CREAT | 0600), EINVAL);
    FAILS(shmget(IPC_PRIVATE, 0, 0600), EINVAL);
    FAILS(shmget(KEY, (size_t)-1, IPC_CREAT | 0600), ENOMEM);
    FAILS(shmget(KEY, SIZE, 0600), ENOENT);
    int id = shmget(KEY, SIZE, IPC_CREAT | IPC_EXCL | 0600);
    CHECK(id >= 0 && shmget(KEY, SIZE, 0600) == id && shmget(KEY, 0, 0) == id);
    CHECK(shmget(KEY, 1, IPC_CREAT | 0600) == id);
    FAILS(shmget(KEY, SIZE, IPC_CREAT | IPC_EXCL | 0600), EEXIST);
    FAILS(shmget(KEY, SIZE + 1, 0600), EINVAL);
    int other = shmget(KEY + 1, 1, IPC_CREAT | 0600), own = shmget(IPC_PRIVATE, 1, 0600);
    int second = shmget(IPC_PRIVATE, 1, 0600);
    CHECK(other >= 0 && own >= 0 && other != id && own != id && own != other && second != own);
    CHECK(shmctl(other, IPC_RMID, NULL) == 0 && shmctl(own, IPC_RMID, NULL) == 0);
    CHECK(shmctl(second, IPC_RMID, NULL) == 0);
    FAILS(shmctl(other, IPC_RMID, NULL), EINVAL);
    FAILS(shmget(KEY + 1, 1, 0600), ENOENT);
    /* Another segment has another number, although the key is the same. */
    int again = shmget(KEY + 1, 1, IPC_CREAT | 0600);
    CHECK(again >= 0 && again != other && shmctl(again, IPC_RMID, NULL) == 0);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    key_t first = ftok("/tmp", 'a'), next = ftok("/tmp", 'b');
    CHECK(first != -1 && first != next && first == ftok("/tmp/.", 'a') && first != ftok("/dev", 'a'));
    FAILS(ftok("/tmp/none", 'a'), ENOENT);
}

static void status(void) {
    struct shmid_ds status;
    time_t before = time(NULL);
    int id = shmget(KEY, SIZE, IPC_CREAT | 0640);
    CHECK(shmctl(id, IPC_STAT, &status) == 0 && status.shm_segsz == SIZE);
    CHECK(status.shm_perm.__key == KEY && (status.shm_perm.mode & 0777) == 0640);
    CHECK(status.shm_perm.uid == getuid() && status.shm_perm.cuid == getuid());
    CHECK(status.shm_nattch == 0 && status.shm_cpid == getpid() && status.shm_lpid == 0);
    CHECK(status.shm_atime == 0 && status.shm_dtime == 0 && status.shm_ctime >= before);
    char *bytes = shmat(id, NULL, 0);
    CHECK(bytes != NONE && bytes[0] == 0 && bytes[SIZE - 1] == 0);
    CHECK(shmctl(id, IPC_STAT, &status) == 0 && status.shm_nattch == 1);
    CHECK(status.shm_atime >= before && status.shm_lpid == getpid() && status.shm_dtime == 0);
    CHECK(shmdt(bytes) == 0 && shmctl(id, IPC_STAT, &status) == 0 && status.shm_nattch == 0);
    CHECK(status.shm_dtime >= status.shm_atime);
    status.shm_perm.mode = 0600;
    CHECK(shmctl(id, IPC_SET, &status) == 0 && shmctl(id, IPC_STAT, &status) == 0);
    CHECK((status.shm_perm.mode & 0777) == 0600);
    CHECK(shmctl(id, SHM_LOCK, NULL) == 0 && shmctl(id, SHM_UNLOCK, NULL) == 0);
    FAILS(shmctl(id, IPC_STAT, NULL), EFAULT);
    FAILS(shmctl(id, 99, &status), EINVAL);
    FAILS(shmctl(-1, IPC_STAT, &status), EINVAL);
    /* The number of a file that is no segment. */
    struct stat file;
    int other = open("/dev/shm/library-segments", O_RDWR | O_CREAT, 0600);
    CHECK(other >= 0 && fstat(other, &file) == 0 && close(other) == 0);
    FAILS(shmctl((int)file.st_ino, IPC_STAT, &status), EINVAL);
    CHECK(unlink("/dev/shm/library-segments") == 0 && shmctl(id, IPC_RMID, NULL) == 0);
    FAILS(shmctl(id, IPC_STAT, &status), EINVAL);
}

static void addresses(void) {
    int id = shmget(IPC_PRIVATE, SIZE, 0600);
    char *one = shmat(id, NULL, 0), *other = shmat(id, NULL, SHM_RDONLY);
    CHECK(one != NONE && other != NONE && one != other && attached(id) == 2);
    strcpy(one + PAGE, "shared");
    CHECK(!strcmp(other + PAGE, "shared"));
    FAILS(mprotect(other, PAGE, PROT_READ | PROT_WRITE), EACCES);
    FAILS(shmdt(one + PAGE), EINVAL);
    CHECK(shmdt(other) == 0 && attached(id) == 1);
    FAILS(shmdt(other), EINVAL);
    /* At an address of the program's: only where nothing is, unless it says so. */
    FAILS(shmat(id, one, 0), EINVAL);
    FAILS(shmat(id, other + 1, 0), EINVAL);
    FAILS(shmat(id, NULL, SHM_REMAP), EINVAL);
    CHECK(shmat(id, other, 0) == other && !strcmp(other + PAGE, "shared") && shmdt(other) == 0);
    CHECK(shmat(id, other + 9, SHM_RND) == other && shmdt(other) == 0);
    char *room = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    room[PAGE] = 'x';
    FAILS(shmat(id, room, 0), EINVAL);
    CHECK(room[PAGE] == 'x' && attached(id) == 1);
    CHECK(shmat(id, room, SHM_REMAP) == room && !strcmp(room + PAGE, "shared"));
    CHECK(attached(id) == 2 && shmdt(room) == 0 && shmdt(one) == 0 && attached(id) == 0);
    /* What is in it stays while nobody has it attached. */
    one = shmat(id, NULL, 0);
    CHECK(one != NONE && !strcmp(one + PAGE, "shared") && shmdt(one) == 0);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    FAILS(shmat(id, NULL, 0), EINVAL);
    /* The flag of `mmap` for the same. */
    room = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    room[0] = 'y';
    FAILS(mmap(room, PAGE, PROT_READ, flags, -1, 0), EEXIST);
    CHECK(room[0] == 'y' && munmap(room, PAGE) == 0);
    CHECK(mmap(room, PAGE, PROT_READ, flags, -1, 0) == room && munmap(room, PAGE) == 0);
}

/* A segment that was removed lives, and can be attached by its number, until nobody has it. */
static void removal(void) {
    struct shmid_ds status;
    int id = shmget(KEY, SIZE, IPC_CREAT | 0600), before = files();
    char *bytes = shmat(id, NULL, 0);
    CHECK(bytes != NONE && shmctl(id, IPC_RMID, NULL) == 0);
    FAILS(shmget(KEY, SIZE, 0600), ENOENT);
    CHECK(shmctl(id, IPC_STAT, &status) == 0 && status.shm_perm.mode & SHM_DEST);
    CHECK(status.shm_nattch == 1 && status.shm_perm.__key == IPC_PRIVATE);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    char *other = shmat(id, NULL, 0);
    bytes[7] = 's';
    CHECK(other != NONE && other[7] == 's' && shmdt(bytes) == 0 && attached(id) == 1);
    /* The key is free for another one meanwhile. */
    int next = shmget(KEY, PAGE, IPC_CREAT | IPC_EXCL | 0600);
    CHECK(next >= 0 && next != id && files() == before + 1);
    CHECK(shmdt(other) == 0 && files() == before && attached(id) == -1);
    CHECK(shmctl(next, IPC_RMID, NULL) == 0 && files() == before - 1);
}

/* Children by `fork` have what their parents have attached; other programs do not. */
static void processes(char *program) {
    int id = shmget(KEY, SIZE, IPC_CREAT | 0600), pipes[2];
    int *numbers = shmat(id, NULL, 0);
    CHECK(numbers != NONE && start(program, "key", 5) == 0 && numbers[5] == 55);
    CHECK(start(program, "number", id) == 0 && numbers[0] == 7 && attached(id) == 1);
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        numbers[1] = attached(id);
        /* Until the parent has counted. */
        close(pipes[1]);
        _exit(read(pipes[0], &byte, 1) == 0 && shmdt(numbers) == 0 ? attached(id) : 99);
    }
    while (__atomic_load_n(&numbers[1], __ATOMIC_SEQ_CST) == 0) {
        sched_yield();
    }
    CHECK(numbers[1] == 2 && attached(id) == 2);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0 && status_of(child) == 1);
    /* One that ends, one that is killed and one that becomes another program: none has it then. */
    child = fork();
    if (child == 0) {
        _exit(attached(id));
    }
    CHECK(status_of(child) == 2 && attached(id) == 1);
    child = fork();
    if (child == 0) {
        __atomic_store_n(&numbers[2], 1, __ATOMIC_SEQ_CST);
        pause();
        _exit(0);
    }
    while (__atomic_load_n(&numbers[2], __ATOMIC_SEQ_CST) == 0) {
        sched_yield();
    }
    CHECK(kill(child, SIGKILL) == 0 && status_of(child) == -1 && attached(id) == 1);
    child = fork();
    if (child == 0) {
        char text[16], *arguments[] = {program, "count", text, NULL};
        snprintf(text, sizeof text, "%d", id);
        execv("/tmp/none", arguments);
        if (attached(id) == 2) {
            execv(program, arguments);
        }
        _exit(99);
    }
    CHECK(status_of(child) == 1 && attached(id) == 1);
    /* Removed, and its last user killed: the next segment that is made takes its place. */
    int before = files();
    child = fork();
    if (child == 0) {
        int own = shmget(IPC_PRIVATE, PAGE, 0600);
        int *bytes = shmat(own, NULL, 0);
        shmctl(own, IPC_RMID, NULL);
        numbers[3] = bytes != NONE ? attached(own) : -1;
        raise(SIGKILL);
    }
    CHECK(status_of(child) == -1 && numbers[3] == 1 && files() == before + 1);
    int next = shmget(IPC_PRIVATE, PAGE, 0600);
    CHECK(next >= 0 && files() == before + 1 && shmctl(next, IPC_RMID, NULL) == 0);
    CHECK(shmdt(numbers) == 0 && shmctl(id, IPC_RMID, NULL) == 0 && files() == before - 1);
}

/* Threads that make and remove the segment of one key at the same time. */
static void *contend(void *made) {
    for (int i = 0; i < ROUNDS; i++) {
        int id = shmget(KEY, PAGE, IPC_CREAT | 0600);
        CHECK(id >= 0);
        char *bytes = shmat(id, NULL, 0);
        if (bytes != NONE) {
            __atomic_fetch_add((int *)made, 1, __ATOMIC_RELAXED);
            bytes[0] = 1;
            CHECK(shmdt(bytes) == 0);
        } else {
            /* Another thread has removed it. */
            CHECK(errno == EINVAL);
        }
        CHECK(shmctl(id, IPC_RMID, NULL) == 0 || errno == EINVAL);
    }
    return NULL;
}

static void threads(void) {
    pthread_t all[THREADS];
    int made = 0, before = files();
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&all[i], NULL, contend, &made) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(all[i], NULL) == 0);
    }
    CHECK(made > 0 && files() == before);
    FAILS(shmget(KEY, PAGE, 0600), ENOENT);
}

/* A segment that one thread removes while another detaches it, some turns later. */
static void *remove_segment(void *id) {
    CHECK(shmctl(*(int *)id, IPC_RMID, NULL) == 0);
    return NULL;
}

static void removal_while_detaching(void) {
    int before = files();
    for (int turns = 0; turns < TURNS; turns++) {
        int id = shmget(IPC_PRIVATE, PAGE, 0600);
        char *bytes = shmat(id, NULL, 0);
        CHECK(id >= 0 && bytes != NONE);
        pthread_t remover;
        CHECK(pthread_create(&remover, NULL, remove_segment, &id) == 0);
        for (int i = 0; i < turns; i++) {
            sched_yield();
        }
        CHECK(shmdt(bytes) == 0);
        CHECK(pthread_join(remover, NULL) == 0 && files() == before);
    }
}

/* Files of that name with other contents are no segments. */
static void foreign(void) {
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/sysv.shm.key.%08x", KEY);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0);
    FAILS(shmget(KEY, PAGE, 0600), ENOENT);
    CHECK(pwrite(file, "x", 1, 0) == 1 && pwrite(file, "y", 1, 2 * PAGE - 1) == 1);
    CHECK(pwrite(file, "\1", 1, PAGE + 2) == 1);
    FAILS(shmget(KEY, PAGE, 0600), EINVAL);
    FAILS(shmget(KEY, PAGE, IPC_CREAT | 0600), EINVAL);
    CHECK(close(file) == 0 && unlink(path) == 0);
}

int main(int count, char **arguments) {
    if (count > 2) {
        int number = atoi(arguments[2]), by_key = !strcmp(arguments[1], "key");
        if (!strcmp(arguments[1], "count")) {
            return attached(number);
        }
        int *numbers = shmat(by_key ? shmget(KEY, 0, 0) : number, NULL, 0);
        if (numbers == NONE) {
            return 1;
        }
        numbers[by_key ? number : 0] = by_key ? 55 : 7;
        return 0;
    }
    keys();
    status();
    addresses();
    removal();
    processes(arguments[0]);
    threads();
    removal_while_detaching();
    foreign();
    return finish("library-segments");
}
