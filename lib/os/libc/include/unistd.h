/* Descriptors, files, ids. What a child of fork has: docs/c.md. */
#ifndef _UNISTD_H
#define _UNISTD_H
#include <sys/types.h>
#include <getopt.h>
#include <stdint.h>

#define STDIN_FILENO 0
#define STDOUT_FILENO 1
#define STDERR_FILENO 2
#ifndef SEEK_SET
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#endif
#define F_OK 0
#define X_OK 1
#define W_OK 2
#define R_OK 4

#define _POSIX_VERSION 200809L
#define _POSIX_CPUTIME 200809L
#define _POSIX_THREAD_CPUTIME (-1)
#define _SC_ARG_MAX 0
#define _SC_CHILD_MAX 1
#define _SC_NGROUPS_MAX 3
#define _SC_STREAM_MAX 5
#define _SC_TZNAME_MAX 6
#define _SC_JOB_CONTROL 7
#define _SC_SAVED_IDS 8
#define _SC_VERSION 29
#define _SC_LINE_MAX 43
#define _SC_THREADS 67
#define _SC_REALTIME_SIGNALS 9
#define _SC_PRIORITY_SCHEDULING 10
#define _SC_TIMERS 11
#define _SC_ASYNCHRONOUS_IO 12
#define _SC_FSYNC 15
#define _SC_MAPPED_FILES 16
#define _SC_MEMLOCK 17
#define _SC_MEMLOCK_RANGE 18
#define _SC_MEMORY_PROTECTION 19
#define _SC_MESSAGE_PASSING 20
#define _SC_SEMAPHORES 21
#define _SC_SHARED_MEMORY_OBJECTS 22
#define _SC_THREAD_SAFE_FUNCTIONS 68
#define _SC_THREAD_DESTRUCTOR_ITERATIONS 73
#define _SC_THREAD_KEYS_MAX 74
#define _SC_THREAD_STACK_MIN 75
#define _SC_THREAD_THREADS_MAX 76
#define _SC_THREAD_ATTR_STACKADDR 77
#define _SC_THREAD_ATTR_STACKSIZE 78
#define _SC_THREAD_PRIORITY_SCHEDULING 79
#define _SC_THREAD_PROCESS_SHARED 82
#define _SC_PHYS_PAGES 85
#define _SC_AVPHYS_PAGES 86
#define _SC_BARRIERS 133
#define _SC_READER_WRITER_LOCKS 153
#define _SC_SPIN_LOCKS 154
#define _SC_TIMEOUTS 164
#define _SC_GETGR_R_SIZE_MAX 69
#define _SC_GETPW_R_SIZE_MAX 70
#define _SC_LOGIN_NAME_MAX 71
#define _SC_TTY_NAME_MAX 72
#define _SC_MONOTONIC_CLOCK 149
#define _SC_SYMLOOP_MAX 173
#define _SC_HOST_NAME_MAX 180
#define _SC_LEVEL1_DCACHE_LINESIZE 190
#define _SC_OPEN_MAX 4
#define _SC_CLK_TCK 2
#define _SC_PAGESIZE 30
#define _SC_PAGE_SIZE _SC_PAGESIZE
#define _SC_IOV_MAX 60
#define _SC_NPROCESSORS_CONF 57
#define _SC_NPROCESSORS_ONLN 58
#define _SC_CPUTIME 138
#define _SC_THREAD_CPUTIME 139

#define _PC_LINK_MAX 0
#define _PC_NAME_MAX 3
#define _PC_PATH_MAX 4
#define _PC_PIPE_BUF 5
#define _PC_NO_TRUNC 7

__BEGIN_DECLS
extern char **environ;

ssize_t read(int fd, void *place, size_t size);
ssize_t write(int fd, const void *place, size_t size);
/* Locks of the process from the position on; a length of 0 is all that follows. */
#define F_ULOCK 0
#define F_LOCK 1
#define F_TLOCK 2
#define F_TEST 3
int lockf(int fd, int operation, off_t length);
int close(int fd);
off_t lseek(int fd, off_t offset, int whence);
ssize_t pread(int fd, void *place, size_t size, off_t offset);
ssize_t pwrite(int fd, const void *place, size_t size, off_t offset);
int ftruncate(int fd, off_t length);
int truncate(const char *path, off_t length);
int fsync(int fd);
void sync(void);
int fdatasync(int fd);
int dup(int fd);
int dup2(int fd, int number);
int dup3(int fd, int number, int flags);
int pipe(int pair[2]);
int pipe2(int pair[2], int flags);
int isatty(int fd);
int access(const char *path, int mode);
int eaccess(const char *path, int mode);
int faccessat(int directory, const char *path, int mode, int flags);
int unlink(const char *path);
int unlinkat(int directory, const char *path, int flags);
int rmdir(const char *path);
int chown(const char *path, uid_t user, gid_t group);
int lchown(const char *path, uid_t user, gid_t group);
int fchown(int fd, uid_t user, gid_t group);
ssize_t readlink(const char *path, char *place, size_t size);
/* EOPNOTSUPP: no file system here has links, no namespace a root. */
int link(const char *from, const char *to);
int symlink(const char *text, const char *path);
int chroot(const char *path);
int chdir(const char *path);
char *getcwd(char *place, size_t size);

pid_t getpid(void);
pid_t getppid(void);
pid_t getpgid(pid_t process);
pid_t getpgrp(void);
pid_t getsid(pid_t process);
int setpgid(pid_t process, pid_t group);
int setpgrp(void);
pid_t setsid(void);
pid_t gettid(void);
uid_t getuid(void);
uid_t geteuid(void);
gid_t getgid(void);
int getgroups(int count, gid_t *groups);
gid_t getegid(void);
int setuid(uid_t user);
int setgid(gid_t group);
int seteuid(uid_t user);
int setegid(gid_t group);
pid_t setsid(void);
pid_t getsid(pid_t process);
int setpgid(pid_t process, pid_t group);
pid_t getpgid(pid_t process);
pid_t getpgrp(void);
pid_t fork(void);
pid_t vfork(void);
int execl(const char *program, const char *first, ...);
int execle(const char *program, const char *first, ...);
int execlp(const char *program, const char *first, ...);
int execv(const char *program, char *const arguments[]);
int execve(const char *program, char *const arguments[], char *const variables[]);
int execvp(const char *program, char *const arguments[]);
int execvpe(const char *program, char *const arguments[], char *const variables[]);
_Noreturn void _exit(int status);

int pause(void);
unsigned alarm(unsigned seconds);
unsigned sleep(unsigned seconds);
int usleep(useconds_t micros);
long sysconf(int name);
long pathconf(const char *path, int name);
long fpathconf(int fd, int name);
int getpagesize(void);
int nice(int change);
int getentropy(void *place, size_t size);
void swab(const void *from, void *to, ssize_t size);
int gethostname(char *place, size_t size);
int getdomainname(char *place, size_t size);
char *getpass(const char *prompt);
__END_DECLS
#endif
