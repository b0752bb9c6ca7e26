/* Odds and ends. */
#ifndef _SYS_PARAM_H
#define _SYS_PARAM_H
#include <limits.h>
#define MAXPATHLEN PATH_MAX
#define MAXHOSTNAMELEN HOST_NAME_MAX
#define howmany(count, unit) (((count) + ((unit) - 1)) / (unit))
#define roundup(count, unit) (howmany(count, unit) * (unit))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
