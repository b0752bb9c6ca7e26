/* Catalogs of messages. There are none: none can be opened. */
#ifndef _NL_TYPES_H
#define _NL_TYPES_H
#include <features.h>
#include <langinfo.h>

#define NL_SETD 1
#define NL_CAT_LOCALE 1

typedef void *nl_catd;

__BEGIN_DECLS
nl_catd catopen(const char *name, int flags);
char *catgets(nl_catd catalog, int set, int message, const char *text);
int catclose(nl_catd catalog);
__END_DECLS
#endif
