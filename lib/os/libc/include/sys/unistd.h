/* The older place of unistd.h. */
#include <unistd.h>
