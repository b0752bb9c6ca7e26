/* Messages to the standard error, with the program's name, and the end of the program. */
#ifndef _ERR_H
#define _ERR_H
#include <features.h>
#include <stdarg.h>

__BEGIN_DECLS
void warn(const char *format, ...) __printf_like(1, 2);
void warnx(const char *format, ...) __printf_like(1, 2);
void vwarn(const char *format, va_list list) __printf_like(1, 0);
void vwarnx(const char *format, va_list list) __printf_like(1, 0);
_Noreturn void err(int status, const char *format, ...) __printf_like(2, 3);
_Noreturn void errx(int status, const char *format, ...) __printf_like(2, 3);
_Noreturn void verr(int status, const char *format, va_list list) __printf_like(2, 0);
_Noreturn void verrx(int status, const char *format, va_list list) __printf_like(2, 0);
__END_DECLS
#endif
