/* Waiting for started programs. */
#ifndef _SYS_WAIT_H
#define _SYS_WAIT_H
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#define WNOHANG 1
/* No process stops: there is nothing else to wait for than ends. */
#define WUNTRACED 2
#define WCONTINUED 8
#define WSTOPPED 2
#define WEXITED 4
#define WIFEXITED(status) (((status) & 0x7f) == 0)
#define WEXITSTATUS(status) (((status) >> 8) & 0xff)
#define WIFSIGNALED(status) (((status) & 0x7f) != 0)
#define WTERMSIG(status) ((status) & 0x7f)
#define WCOREDUMP(status) ((void)(status), 0)
#define WIFSTOPPED(status) ((void)(status), 0)
#define WSTOPSIG(status) WEXITSTATUS(status)
#define WIFCONTINUED(status) ((void)(status), 0)

typedef enum { P_ALL, P_PID, P_PGID } idtype_t;

__BEGIN_DECLS
pid_t wait(int *status);
pid_t waitpid(pid_t process, int *status, int options);
/* What the child has used is unknown and stored as 0. */
pid_t wait3(int *status, int options, struct rusage *used);
pid_t wait4(pid_t process, int *status, int options, struct rusage *used);
/* WEXITED must be among the options, as nothing else happens to a child; WNOWAIT is not there. */
int waitid(idtype_t kind, id_t id, siginfo_t *information, int options);
__END_DECLS
#endif
