/* Mathematics. A long double is a double (skiff-cc sees to it). Errors set errno: EDOM when numbers
 * gave none, ERANGE when finite ones gave infinity. */
#ifndef _MATH_H
#define _MATH_H
#include <features.h>

#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define HUGE_VALL __builtin_huge_vall()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define MAXFLOAT 3.40282346638528859812e+38F

#define FP_NAN 0
#define FP_INFINITE 1
#define FP_ZERO 2
#define FP_SUBNORMAL 3
#define FP_NORMAL 4
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN (-2147483647 - 1)
#define MATH_ERRNO 1
#define MATH_ERREXCEPT 2
#define math_errhandling MATH_ERRNO

#define fpclassify(x) \
    __builtin_fpclassify(FP_NAN, FP_INFINITE, FP_NORMAL, FP_SUBNORMAL, FP_ZERO, x)
#define isfinite(x) __builtin_isfinite(x)
#define isinf(x) __builtin_isinf_sign(x)
#define isnan(x) __builtin_isnan(x)
#define isnormal(x) __builtin_isnormal(x)
#define signbit(x) __builtin_signbit(x)
#define isgreater(x, y) __builtin_isgreater(x, y)
#define isgreaterequal(x, y) __builtin_isgreaterequal(x, y)
#define isless(x, y) __builtin_isless(x, y)
#define islessequal(x, y) __builtin_islessequal(x, y)
#define islessgreater(x, y) __builtin_islessgreater(x, y)
#define isunordered(x, y) __builtin_isunordered(x, y)

#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

typedef float float_t;
typedef double double_t;

__BEGIN_DECLS
/* Each for double, float and long double: of one number, of two, and of a number and what a second
 * result is stored at or taken from. */
#define __math_1(name)            \
    double name(double x);        \
    float name##f(float x);       \
    long double name##l(long double x);
#define __math_2(name)                    \
    double name(double x, double y);      \
    float name##f(float x, float y);      \
    long double name##l(long double x, long double y);
#define __math_with(name, type)           \
    double name(double x, type y);        \
    float name##f(float x, type y);       \
    long double name##l(long double x, type y);
#define __math_to(name, type)     \
    type name(double x);          \
    type name##f(float x);        \
    type name##l(long double x);

__math_1(acos) __math_1(acosh) __math_1(asin) __math_1(asinh) __math_1(atan) __math_1(atanh)
__math_1(cbrt) __math_1(ceil) __math_1(cos) __math_1(cosh) __math_1(erf) __math_1(erfc)
__math_1(exp) __math_1(exp2) __math_1(exp10) __math_1(expm1) __math_1(fabs) __math_1(floor)
__math_1(gamma) __math_1(j0) __math_1(j1) __math_1(lgamma) __math_1(log) __math_1(log10)
__math_1(log1p) __math_1(log2) __math_1(logb) __math_1(nearbyint) __math_1(pow10) __math_1(rint)
__math_1(round) __math_1(roundeven) __math_1(sin) __math_1(sinh) __math_1(sqrt) __math_1(tan)
__math_1(tanh) __math_1(tgamma) __math_1(trunc) __math_1(y0) __math_1(y1)

__math_2(atan2) __math_2(copysign) __math_2(drem) __math_2(fdim) __math_2(fmax) __math_2(fmin)
__math_2(fmod) __math_2(hypot) __math_2(nextafter) __math_2(pow) __math_2(remainder)

__math_with(frexp, int *) __math_with(ldexp, int) __math_with(scalbln, long)
__math_with(scalbn, int) __math_with(nexttoward, long double)

__math_to(ilogb, int) __math_to(lrint, long) __math_to(llrint, long long)
__math_to(lround, long) __math_to(llround, long long) __math_to(finite, int)

#undef __math_1
#undef __math_2
#undef __math_with
#undef __math_to

double fma(double x, double y, double z);
float fmaf(float x, float y, float z);
long double fmal(long double x, long double y, long double z);
double jn(int n, double x);
float jnf(int n, float x);
long double jnl(int n, long double x);
double yn(int n, double x);
float ynf(int n, float x);
long double ynl(int n, long double x);
double lgamma_r(double x, int *sign);
float lgammaf_r(float x, int *sign);
long double lgammal_r(long double x, int *sign);
double modf(double x, double *whole);
float modff(float x, float *whole);
long double modfl(long double x, long double *whole);
double remquo(double x, double y, int *quotient);
float remquof(float x, float y, int *quotient);
long double remquol(long double x, long double y, int *quotient);
void sincos(double x, double *sin, double *cos);
void sincosf(float x, float *sin, float *cos);
void sincosl(long double x, long double *sin, long double *cos);
double nan(const char *text);
float nanf(const char *text);
long double nanl(const char *text);
/* The sign of the last lgamma or gamma. */
extern int signgam;
__END_DECLS
#endif
