/* Signals. Handlers of those from other processes, of SIGALRM and of SIGCHLD run in a thread of the
 * library; those of raise, abort and kill to oneself in the calling thread. */
#ifndef _SIGNAL_H
#define _SIGNAL_H
#include <sys/types.h>
#include <time.h>

#define SIGHUP 1
#define SIGINT 2
#define SIGQUIT 3
#define SIGILL 4
#define SIGTRAP 5
#define SIGABRT 6
#define SIGBUS 7
#define SIGFPE 8
#define SIGKILL 9
#define SIGUSR1 10
#define SIGSEGV 11
#define SIGUSR2 12
#define SIGPIPE 13
#define SIGALRM 14
#define SIGTERM 15
#define SIGCHLD 17
#define SIGCONT 18
#define SIGSTOP 19
#define SIGTSTP 20
#define SIGTTIN 21
#define SIGTTOU 22
#define SIGURG 23
#define SIGXCPU 24
#define SIGXFSZ 25
#define SIGVTALRM 26
#define SIGPROF 27
#define SIGWINCH 28
#define SIGIO 29
#define SIGPOLL SIGIO
#define SIGIOT SIGABRT
#define SIGCLD SIGCHLD
#define SIGPWR 30
#define SIGSYS 31
#define SIGRTMIN 35
#define SIGRTMAX 64
#define NSIG 65

typedef int sig_atomic_t;
typedef unsigned long sigset_t;
typedef void (*sighandler_t)(int);
union sigval {
    int sival_int;
    void *sival_ptr;
};
typedef union sigval sigval_t;

/* How to tell a program that a timer has expired. */
struct sigevent {
    union sigval sigev_value;
    int sigev_signo;
    int sigev_notify;
    void (*sigev_notify_function)(union sigval);
    void *sigev_notify_attributes;
};
#define SIGEV_SIGNAL 0
#define SIGEV_NONE 1
#define SIGEV_THREAD 2

typedef struct {
    int si_signo;
    int si_errno;
    int si_code;
    union {
        void *si_addr;
        struct {
            pid_t si_pid;
            unsigned int si_uid;
            union {
                int si_status;
                union sigval si_value;
            };
        };
        int __reserved[28];
    };
} siginfo_t;

/* Values of `si_code`: a program's own call, an alarm, a timer of timer_create. */
#define SI_USER 0
#define SI_KERNEL 128
#define SI_TIMER (-2)
/* Values that no signal here has, for programs that name them. */
#define SI_QUEUE (-1)
#define SI_MESGQ (-3)
#define SI_ASYNCIO (-4)
#define ILL_ILLOPC 1
#define ILL_ILLOPN 2
#define ILL_ILLADR 3
#define ILL_ILLTRP 4
#define ILL_PRVOPC 5
#define ILL_PRVREG 6
#define ILL_COPROC 7
#define ILL_BADSTK 8
#define FPE_INTDIV 1
#define FPE_INTOVF 2
#define FPE_FLTDIV 3
#define FPE_FLTOVF 4
#define FPE_FLTUND 5
#define FPE_FLTRES 6
#define FPE_FLTINV 7
#define FPE_FLTSUB 8
#define SEGV_MAPERR 1
#define SEGV_ACCERR 2
#define BUS_ADRALN 1
#define BUS_ADRERR 2
#define BUS_OBJERR 3
#define TRAP_BRKPT 1
#define TRAP_TRACE 2
/* Those of SIGCHLD. */
#define CLD_EXITED 1
#define CLD_KILLED 2
#define CLD_DUMPED 3
#define CLD_TRAPPED 4
#define CLD_STOPPED 5
#define CLD_CONTINUED 6

#define SIG_DFL ((sighandler_t)0)
#define SIG_IGN ((sighandler_t)1)
#define SIG_ERR ((sighandler_t)-1)
#define SIG_HOLD ((sighandler_t)2)
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
#define SA_NOCLDWAIT 0x00000002
#define SA_SIGINFO 0x02000000
#define SA_ONSTACK 0x04000000
#define SA_RESTART 0x08000000
#define SA_NODEFER 0x10000000
#define SA_RESETHAND 0x20000000
#define SA_NOCLDSTOP 0x40000000

#define SS_ONSTACK 1
#define SS_DISABLE 2
#define MINSIGSTKSZ 2048
#define SIGSTKSZ 8192

typedef struct {
    void *ss_sp;
    int ss_flags;
    size_t ss_size;
} stack_t;

struct sigaction {
    union {
        sighandler_t sa_handler;
        void (*sa_sigaction)(int, siginfo_t *, void *);
    };
    int sa_flags;
    void (*sa_restorer)(void);
    sigset_t sa_mask;
};

__BEGIN_DECLS
sighandler_t signal(int number, sighandler_t handler);
int sigaction(int number, const struct sigaction *action, struct sigaction *old);
int raise(int number);
/* The other thread calls the handler when it is in, or gets to, a cancellation point. Number 0 asks
 * whether the thread runs. */
int pthread_kill(pthread_t thread, int number);
int kill(pid_t process, int number);
int killpg(pid_t group, int number);
int sigsuspend(const sigset_t *mask);
int sigpending(sigset_t *set);
int sigwait(const sigset_t *set, int *number);
int sigwaitinfo(const sigset_t *set, siginfo_t *information);
int sigtimedwait(const sigset_t *set, siginfo_t *information, const struct timespec *limit);
int sighold(int number);
int sigrelse(int number);
int sigignore(int number);
int sigpause(int number);
sighandler_t sigset(int number, sighandler_t handler);
int sigemptyset(sigset_t *set);
int sigfillset(sigset_t *set);
int sigaddset(sigset_t *set, int number);
int sigdelset(sigset_t *set, int number);
int sigismember(const sigset_t *set, int number);
int sigprocmask(int how, const sigset_t *set, sigset_t *old);
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int sigaltstack(const stack_t *stack, stack_t *old);
void psignal(int number, const char *text);
__END_DECLS
#endif
