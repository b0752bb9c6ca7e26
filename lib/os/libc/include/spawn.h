/* Starting programs. */
#ifndef _SPAWN_H
#define _SPAWN_H
#include <sys/types.h>

typedef struct {
    void *__list;
} posix_spawn_file_actions_t;
typedef struct __skiff_spawn_attributes posix_spawnattr_t;

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
__END_DECLS
#endif
