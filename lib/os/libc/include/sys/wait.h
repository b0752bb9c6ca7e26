/* Waiting for started programs. */
#ifndef _SYS_WAIT_H
#define _SYS_WAIT_H
#include <sys/types.h>

#define WNOHANG 1
/* No process stops: there is nothing else to wait for than ends. */
#define WUNTRACED 2
#define WCONTINUED 8
#define WIFEXITED(status) (((status) & 0x7f) == 0)
#define WEXITSTATUS(status) (((status) >> 8) & 0xff)
#define WIFSIGNALED(status) (((status) & 0x7f) != 0)
#define WTERMSIG(status) ((status) & 0x7f)
#define WCOREDUMP(status) ((void)(status), 0)
#define WIFSTOPPED(status) ((void)(status), 0)
#define WSTOPSIG(status) WEXITSTATUS(status)
#define WIFCONTINUED(status) ((void)(status), 0)

__BEGIN_DECLS
pid_t wait(int *status);
pid_t waitpid(pid_t process, int *status, int options);
__END_DECLS
#endif
