/* Complex numbers. A long double is a double (skiff-cc sees to it). */
#ifndef _COMPLEX_H
#define _COMPLEX_H
#include <features.h>

#ifndef __cplusplus
#define complex _Complex
#endif
#define _Complex_I (__extension__ 1.0iF)
#define I _Complex_I
#ifdef __clang__
#define __complex_of(type, x, y) __extension__(type _Complex){ x, y }
#else
#define __complex_of(type, x, y) __builtin_complex((type)(x), (type)(y))
#endif
#define CMPLX(x, y) __complex_of(double, x, y)
#define CMPLXF(x, y) __complex_of(float, x, y)
#define CMPLXL(x, y) __complex_of(long double, x, y)

__BEGIN_DECLS
/* Each for double, float and long double. */
#define __complex_1(name)                           \
    double _Complex name(double _Complex z);        \
    float _Complex name##f(float _Complex z);       \
    long double _Complex name##l(long double _Complex z);
#define __complex_real(name)                \
    double name(double _Complex z);         \
    float name##f(float _Complex z);        \
    long double name##l(long double _Complex z);

__complex_1(cacos) __complex_1(cacosh) __complex_1(casin) __complex_1(casinh) __complex_1(catan)
__complex_1(catanh) __complex_1(ccos) __complex_1(ccosh) __complex_1(cexp) __complex_1(clog)
__complex_1(conj) __complex_1(cproj) __complex_1(csin) __complex_1(csinh) __complex_1(csqrt)
__complex_1(ctan) __complex_1(ctanh)
__complex_real(cabs) __complex_real(carg) __complex_real(cimag) __complex_real(creal)

#undef __complex_1
#undef __complex_real

double _Complex cpow(double _Complex z, double _Complex w);
float _Complex cpowf(float _Complex z, float _Complex w);
long double _Complex cpowl(long double _Complex z, long double _Complex w);
__END_DECLS
#endif
