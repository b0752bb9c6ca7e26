/* Random bytes that nobody can guess. */
#ifndef _SYS_RANDOM_H
#define _SYS_RANDOM_H
#include <sys/types.h>

/* The generator never blocks, so these change nothing. */
#define GRND_NONBLOCK 1
#define GRND_RANDOM 2
#define GRND_INSECURE 4

__BEGIN_DECLS
ssize_t getrandom(void *place, size_t size, unsigned flags);
int getentropy(void *place, size_t size);
__END_DECLS
#endif
