/* The older place of memalign. */
#ifndef _MALLOC_H
#define _MALLOC_H
#include <stdlib.h>
__BEGIN_DECLS
size_t malloc_usable_size(void *block);
__END_DECLS
#endif
