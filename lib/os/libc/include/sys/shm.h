/* System V shared memory. Segments are files in /dev/shm. */
#ifndef _SYS_SHM_H
#define _SYS_SHM_H
#include <sys/ipc.h>

#define SHM_R 0400
#define SHM_W 0200
#define SHM_RDONLY 010000
#define SHM_RND 020000
#define SHM_REMAP 040000
#define SHM_EXEC 0100000
#define SHM_LOCK 11
#define SHM_UNLOCK 12
/* Of the mode that IPC_STAT gives: it was removed, and goes when the last process detaches it. */
#define SHM_DEST 01000
#define SHMLBA 4096

typedef unsigned long shmatt_t;

struct shmid_ds {
    struct ipc_perm shm_perm;
    size_t shm_segsz;
    time_t shm_atime;
    time_t shm_dtime;
    time_t shm_ctime;
    pid_t shm_cpid;
    pid_t shm_lpid;
    shmatt_t shm_nattch;
};

__BEGIN_DECLS
int shmget(key_t key, size_t size, int flags);
void *shmat(int id, const void *address, int flags);
int shmdt(const void *address);
int shmctl(int id, int command, struct shmid_ds *status);
__END_DECLS
#endif
