/* The older place of poll.h. */
#include <poll.h>
