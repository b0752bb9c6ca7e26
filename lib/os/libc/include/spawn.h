/* Starting programs. */
#ifndef _SPAWN_H
#define _SPAWN_H
#include <sched.h>
#include <signal.h>
#include <sys/types.h>

/* SETPGROUP and SETSIGDEF do what they say. What RESETIDS and USEVFORK ask for is so anyway, and
 * SETSIGMASK has no effect, because a program begins with no signal blocked. */
#define POSIX_SPAWN_RESETIDS 0x01
#define POSIX_SPAWN_SETPGROUP 0x02
#define POSIX_SPAWN_SETSIGDEF 0x04
#define POSIX_SPAWN_SETSIGMASK 0x08
#define POSIX_SPAWN_USEVFORK 0x40

typedef struct {
    void *__list;
} posix_spawn_file_actions_t;
typedef struct {
    short __flags;
    pid_t __group;
    sigset_t __defaults, __mask;
} posix_spawnattr_t;

__BEGIN_DECLS
int posix_spawn(pid_t *process, const char *program, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[],
                char *const variables[]);
int posix_spawnp(pid_t *process, const char *program, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[],
                 char *const variables[]);
int posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions);
int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *actions);
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int from, int to);
int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t *actions, int fd);
int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path,
                                     int flags, mode_t mode);
int posix_spawnattr_init(posix_spawnattr_t *attributes);
int posix_spawnattr_destroy(posix_spawnattr_t *attributes);
int posix_spawnattr_setflags(posix_spawnattr_t *attributes, short flags);
int posix_spawnattr_getflags(const posix_spawnattr_t *attributes, short *flags);
int posix_spawnattr_setpgroup(posix_spawnattr_t *attributes, pid_t group);
int posix_spawnattr_getpgroup(const posix_spawnattr_t *attributes, pid_t *group);
int posix_spawnattr_setsigdefault(posix_spawnattr_t *attributes, const sigset_t *signals);
int posix_spawnattr_getsigdefault(const posix_spawnattr_t *attributes, sigset_t *signals);
int posix_spawnattr_setsigmask(posix_spawnattr_t *attributes, const sigset_t *signals);
int posix_spawnattr_getsigmask(const posix_spawnattr_t *attributes, sigset_t *signals);
__END_DECLS
#endif
