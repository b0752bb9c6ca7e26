/* Jumps out of functions. */
#ifndef _SETJMP_H
#define _SETJMP_H
#include <features.h>

typedef unsigned long jmp_buf[8];
typedef jmp_buf sigjmp_buf;

__BEGIN_DECLS
int setjmp(jmp_buf buffer) __attribute__((__returns_twice__));
_Noreturn void longjmp(jmp_buf buffer, int value);
__END_DECLS
/* Without a mask of signals to keep, as none is kept anyway. */
#define _setjmp(buffer) setjmp(buffer)
#define _longjmp(buffer, value) longjmp(buffer, value)
#define sigsetjmp(buffer, mask) setjmp(buffer)
#define siglongjmp(buffer, value) longjmp(buffer, value)
#endif
