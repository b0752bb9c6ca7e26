/* Locks of whole files, which an opening of the file has. */
#ifndef _SYS_FILE_H
#define _SYS_FILE_H
#include <fcntl.h>

#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_NB 4
#define LOCK_UN 8

__BEGIN_DECLS
int flock(int fd, int operation);
__END_DECLS
#endif
