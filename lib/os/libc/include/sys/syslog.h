/* The older place of syslog.h. */
#include <syslog.h>
