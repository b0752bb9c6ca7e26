/* The system's numbers are Linux's. */
#include <errno.h>
