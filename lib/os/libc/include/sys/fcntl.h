/* The older place of fcntl.h. */
#include <fcntl.h>
