/* The older place of signal.h. */
#include <signal.h>
