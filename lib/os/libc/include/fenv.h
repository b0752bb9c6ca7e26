/* Rounding and exceptions of floating point numbers. Compilers may compute beforehand and reorder
 * unless told otherwise (-frounding-math, volatile). */
#ifndef _FENV_H
#define _FENV_H
#include <features.h>

#define FE_INVALID 0x01
#define FE_DIVBYZERO 0x04
#define FE_OVERFLOW 0x08
#define FE_UNDERFLOW 0x10
#define FE_INEXACT 0x20
#define FE_ALL_EXCEPT 0x3d
#define FE_TONEAREST 0
#define FE_DOWNWARD 0x400
#define FE_UPWARD 0x800
#define FE_TOWARDZERO 0xc00

typedef unsigned short fexcept_t;
typedef struct {
    unsigned __control;
} fenv_t;
#define FE_DFL_ENV ((const fenv_t *)-1)

__BEGIN_DECLS
int feclearexcept(int exceptions);
int fetestexcept(int exceptions);
int feraiseexcept(int exceptions);
int fegetexceptflag(fexcept_t *flags, int exceptions);
int fesetexceptflag(const fexcept_t *flags, int exceptions);
int fegetround(void);
int fesetround(int mode);
int fegetenv(fenv_t *place);
int fesetenv(const fenv_t *place);
int feholdexcept(fenv_t *place);
int feupdateenv(const fenv_t *place);
int feenableexcept(int exceptions);
int fedisableexcept(int exceptions);
int fegetexcept(void);
__END_DECLS
#endif
