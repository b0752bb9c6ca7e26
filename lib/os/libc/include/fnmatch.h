/* Patterns of names. */
#ifndef _FNMATCH_H
#define _FNMATCH_H
#include <features.h>

#define FNM_NOMATCH 1
#define FNM_NOESCAPE 1
#define FNM_PATHNAME 2
#define FNM_FILE_NAME FNM_PATHNAME
#define FNM_PERIOD 4
#define FNM_CASEFOLD 8
#define FNM_LEADING_DIR 16

__BEGIN_DECLS
int fnmatch(const char *pattern, const char *text, int flags);
__END_DECLS
#endif
