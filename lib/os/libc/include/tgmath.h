/* Mathematics by the type of the arguments: the function for float if all are float, for double if
 * one is double or an integer; complex if one of them is. A long double is a double (skiff-cc sees
 * to it). In C only: C++ overloads. */
#ifndef _TGMATH_H
#define _TGMATH_H
#include <complex.h>
#include <math.h>

#ifndef __cplusplus

/* The argument as it decides: an integer as a double. */
#define __tg(x) _Generic((x), \
    float: (float)0, double: (double)0, long double: (long double)0, \
    float _Complex: (float _Complex)0, double _Complex: (double _Complex)0, \
    long double _Complex: (long double _Complex)0, default: (double)0)

/* By the type of a sum, to which all that decide contribute: real functions, and real or complex. */
#define __tg_real(by, name) _Generic((by), \
    float: name##f, long double: name##l, default: name)
#define __tg_both(by, name, complex_name) _Generic((by), \
    float: name##f, long double: name##l, double: name, \
    float _Complex: complex_name##f, long double _Complex: complex_name##l, \
    double _Complex: complex_name)
#define __tg_complex(by, name) _Generic((by), \
    float: name##f, float _Complex: name##f, \
    long double: name##l, long double _Complex: name##l, \
    double: name, double _Complex: name)

#define __tg_1(name, x) __tg_real(__tg(x), name)(x)
#define __tg_2(name, x, y) __tg_real(__tg(x) + __tg(y), name)(x, y)
#define __tg_3(name, x, y, z) __tg_real(__tg(x) + __tg(y) + __tg(z), name)(x, y, z)

#define acos(x) __tg_both(__tg(x), acos, cacos)(x)
#define asin(x) __tg_both(__tg(x), asin, casin)(x)
#define atan(x) __tg_both(__tg(x), atan, catan)(x)
#define acosh(x) __tg_both(__tg(x), acosh, cacosh)(x)
#define asinh(x) __tg_both(__tg(x), asinh, casinh)(x)
#define atanh(x) __tg_both(__tg(x), atanh, catanh)(x)
#define cos(x) __tg_both(__tg(x), cos, ccos)(x)
#define sin(x) __tg_both(__tg(x), sin, csin)(x)
#define tan(x) __tg_both(__tg(x), tan, ctan)(x)
#define cosh(x) __tg_both(__tg(x), cosh, ccosh)(x)
#define sinh(x) __tg_both(__tg(x), sinh, csinh)(x)
#define tanh(x) __tg_both(__tg(x), tanh, ctanh)(x)
#define exp(x) __tg_both(__tg(x), exp, cexp)(x)
#define log(x) __tg_both(__tg(x), log, clog)(x)
#define sqrt(x) __tg_both(__tg(x), sqrt, csqrt)(x)
#define fabs(x) __tg_both(__tg(x), fabs, cabs)(x)
#define pow(x, y) __tg_both(__tg(x) + __tg(y), pow, cpow)(x, y)

#define carg(z) __tg_complex(__tg(z), carg)(z)
#define cimag(z) __tg_complex(__tg(z), cimag)(z)
#define conj(z) __tg_complex(__tg(z), conj)(z)
#define cproj(z) __tg_complex(__tg(z), cproj)(z)
#define creal(z) __tg_complex(__tg(z), creal)(z)

#define atan2(x, y) __tg_2(atan2, x, y)
#define cbrt(x) __tg_1(cbrt, x)
#define ceil(x) __tg_1(ceil, x)
#define copysign(x, y) __tg_2(copysign, x, y)
#define erf(x) __tg_1(erf, x)
#define erfc(x) __tg_1(erfc, x)
#define exp2(x) __tg_1(exp2, x)
#define expm1(x) __tg_1(expm1, x)
#define fdim(x, y) __tg_2(fdim, x, y)
#define floor(x) __tg_1(floor, x)
#define fma(x, y, z) __tg_3(fma, x, y, z)
#define fmax(x, y) __tg_2(fmax, x, y)
#define fmin(x, y) __tg_2(fmin, x, y)
#define fmod(x, y) __tg_2(fmod, x, y)
#define frexp(x, n) __tg_real(__tg(x), frexp)(x, n)
#define hypot(x, y) __tg_2(hypot, x, y)
#define ilogb(x) __tg_1(ilogb, x)
#define ldexp(x, n) __tg_real(__tg(x), ldexp)(x, n)
#define lgamma(x) __tg_1(lgamma, x)
#define llrint(x) __tg_1(llrint, x)
#define llround(x) __tg_1(llround, x)
#define log10(x) __tg_1(log10, x)
#define log1p(x) __tg_1(log1p, x)
#define log2(x) __tg_1(log2, x)
#define logb(x) __tg_1(logb, x)
#define lrint(x) __tg_1(lrint, x)
#define lround(x) __tg_1(lround, x)
#define nearbyint(x) __tg_1(nearbyint, x)
#define nextafter(x, y) __tg_2(nextafter, x, y)
#define nexttoward(x, y) __tg_real(__tg(x), nexttoward)(x, y)
#define remainder(x, y) __tg_2(remainder, x, y)
#define remquo(x, y, n) __tg_real(__tg(x) + __tg(y), remquo)(x, y, n)
#define rint(x) __tg_1(rint, x)
#define round(x) __tg_1(round, x)
#define scalbn(x, n) __tg_real(__tg(x), scalbn)(x, n)
#define scalbln(x, n) __tg_real(__tg(x), scalbln)(x, n)
#define tgamma(x) __tg_1(tgamma, x)
#define trunc(x) __tg_1(trunc, x)

#endif
#endif
