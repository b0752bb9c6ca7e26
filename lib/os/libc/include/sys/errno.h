/* The older place of errno.h. */
#include <errno.h>
