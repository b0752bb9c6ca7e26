/* Callers of a function. None is found: programs hold nothing to find them by. */
#ifndef _EXECINFO_H
#define _EXECINFO_H
#include <features.h>
__BEGIN_DECLS
int backtrace(void **places, int size);
char **backtrace_symbols(void *const *places, int count);
void backtrace_symbols_fd(void *const *places, int count, int fd);
__END_DECLS
#endif
