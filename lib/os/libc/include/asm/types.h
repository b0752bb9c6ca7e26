/* Types alone. */
#include <linux/types.h>
