/* Some programs include this for the macros of features.h. */
#include <features.h>
