/* Mappings. mmap of a SCIF endpoint maps its peer's window, as scif_mmap does. */
#ifndef _SYS_MMAN_H
#define _SYS_MMAN_H
#include <sys/types.h>

/* The numbers are Linux's, as programs give these to SCIF, too. They are not those of the functions
 * mmap and mprotect of the library, which Rust's standard library calls. */

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define PROT_EXEC 4
#define MAP_SHARED 0x01
#define MAP_PRIVATE 0x02
#define MAP_FIXED 0x10
#define MAP_ANONYMOUS 0x20
#define MAP_ANON MAP_ANONYMOUS
#define MAP_FIXED_NOREPLACE 0x100000
#define MAP_LOCKED 0
#define MAP_POPULATE 0
#define MAP_NORESERVE 0
#define MAP_FAILED ((void *)-1)
#define MADV_NORMAL 0
#define MADV_RANDOM 1
#define MADV_SEQUENTIAL 2
#define MADV_WILLNEED 3
#define MADV_DONTFORK 10
#define MADV_DOFORK 11
#define MADV_HUGEPAGE 14
/* Advice for posix_madvise, which has no effect. */
#define POSIX_MADV_NORMAL 0
#define POSIX_MADV_RANDOM 1
#define POSIX_MADV_SEQUENTIAL 2
#define POSIX_MADV_WILLNEED 3
#define POSIX_MADV_DONTNEED 4
#define MCL_CURRENT 1
#define MCL_FUTURE 2
#define MS_ASYNC 1
#define MS_INVALIDATE 2
#define MS_SYNC 4

__BEGIN_DECLS
void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
    __asm__("skiff_mmap");
int munmap(void *address, size_t length);
int mprotect(void *address, size_t length, int protection) __asm__("skiff_mprotect");
int madvise(void *address, size_t length, int advice);
int posix_madvise(void *address, size_t length, int advice);
int msync(void *address, size_t length, int flags);
int mlock(const void *address, size_t length);
int mlockall(int flags);
int munlockall(void);
int shm_open(const char *name, int flags, mode_t mode);
int shm_unlink(const char *name);
int munlock(const void *address, size_t length);
__END_DECLS
#endif
