/* Jumps out of functions. */
#ifndef _SETJMP_H
#define _SETJMP_H
#include <features.h>

typedef unsigned long jmp_buf[8];
/* A jmp_buf, whether the mask of signals is in the last word, and that mask. */
typedef unsigned long sigjmp_buf[10];

__BEGIN_DECLS
int setjmp(jmp_buf buffer) __attribute__((__returns_twice__));
_Noreturn void longjmp(jmp_buf buffer, int value);
int sigsetjmp(sigjmp_buf buffer, int save_mask) __attribute__((__returns_twice__));
_Noreturn void siglongjmp(sigjmp_buf buffer, int value);
__END_DECLS
/* setjmp keeps no mask of signals, as on System V. */
#define _setjmp(buffer) setjmp(buffer)
#define _longjmp(buffer, value) longjmp(buffer, value)
#endif
