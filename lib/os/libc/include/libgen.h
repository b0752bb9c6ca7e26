/* The parts of a path. */
#ifndef _LIBGEN_H
#define _LIBGEN_H
#include <string.h>
__BEGIN_DECLS
char *dirname(char *path);
__END_DECLS
#endif
