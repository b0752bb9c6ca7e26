/* The times of a file, in seconds. */
#ifndef _UTIME_H
#define _UTIME_H
#include <sys/types.h>

struct utimbuf {
    time_t actime;
    time_t modtime;
};

__BEGIN_DECLS
int utime(const char *path, const struct utimbuf *times);
__END_DECLS
#endif
