/* The older place of string.h. */
#include <string.h>
