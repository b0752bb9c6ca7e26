/* A message to the standard error, and the end of the program unless the status is 0. */
#ifndef _ERROR_H
#define _ERROR_H
#include <features.h>
__BEGIN_DECLS
void error(int status, int number, const char *format, ...) __printf_like(3, 4);
__END_DECLS
#endif
