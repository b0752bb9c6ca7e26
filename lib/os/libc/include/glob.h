/* The files whose names match a pattern, in the order of their names. */
#ifndef _GLOB_H
#define _GLOB_H
#include <features.h>
#include <stddef.h>

#define GLOB_ERR 1
#define GLOB_MARK 2
#define GLOB_NOSORT 4
#define GLOB_DOOFFS 8
#define GLOB_NOCHECK 16
#define GLOB_APPEND 32
#define GLOB_NOESCAPE 64
#define GLOB_PERIOD 128
/* A ~ at the beginning is the home directory. */
#define GLOB_TILDE 0x1000

#define GLOB_NOSPACE 1
#define GLOB_ABORTED 2
#define GLOB_NOMATCH 3

typedef struct {
    size_t gl_pathc;
    char **gl_pathv;
    size_t gl_offs;
    size_t __has_offset;
} glob_t;

__BEGIN_DECLS
int glob(const char *pattern, int flags, int (*report)(const char *path, int error), glob_t *found);
void globfree(glob_t *found);
__END_DECLS
#endif
