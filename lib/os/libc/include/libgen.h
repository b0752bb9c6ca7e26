/* The parts of a path. */
#ifndef _LIBGEN_H
#define _LIBGEN_H
#include <string.h>
__BEGIN_DECLS
char *dirname(char *path);
/* POSIX's, which cuts slashes at the end; that of string.h is GNU's. */
char *__xpg_basename(char *path);
__END_DECLS
#define basename __xpg_basename
#endif
