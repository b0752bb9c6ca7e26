/* Waiting for started programs. */
#ifndef _SYS_WAIT_H
#define _SYS_WAIT_H
#include <sys/types.h>

#define WNOHANG 1
#define WIFEXITED(status) (((status) & 0x7f) == 0)
#define WEXITSTATUS(status) (((status) >> 8) & 0xff)
#define WIFSIGNALED(status) (((status) & 0x7f) != 0)
#define WTERMSIG(status) ((status) & 0x7f)

__BEGIN_DECLS
pid_t wait(int *status);
pid_t waitpid(pid_t process, int *status, int options);
__END_DECLS
#endif
