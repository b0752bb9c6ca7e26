/* tgmath.h: which function is called, by the types of the arguments. */
#include "library.h"

#include <math.h>

/* The functions themselves, as long as their names are no macros. */
static double (*const plain_sin)(double) = sin;
static double (*const plain_pow)(double, double) = pow;

#include <tgmath.h>

/* The type of an expression, which is not evaluated. */
#define TYPE(x)                                                                              \
    _Generic((x), float: 'f', double: 'd', long double: 'l', float _Complex: 'F',            \
             double _Complex: 'D', long double _Complex: 'L', int: 'i', long: 'j',           \
             long long: 'k', default: '?')

static volatile float f = 0.5F;
static volatile double d = 0.5;
static volatile long double l = 0.5L;
static volatile int i = 2;
static volatile unsigned char c = 2;
static const double constant = 0.5;

static void types(void) {
    float _Complex F = 0.5F + 0.25F * I;
    double _Complex D = 0.5 + 0.25 * I;
    long double _Complex L = 0.5L + 0.25L * I;
    CHECK(TYPE(sin(f)) == 'f' && TYPE(sin(d)) == 'd' && TYPE(sin(l)) == 'l');
    CHECK(TYPE(sin(i)) == 'd' && TYPE(sin(c)) == 'd' && TYPE(sin(constant)) == 'd');
    CHECK(TYPE(sin(F)) == 'F' && TYPE(sin(D)) == 'D' && TYPE(sin(L)) == 'L');
    CHECK(TYPE(fabs(f)) == 'f' && TYPE(fabs(F)) == 'f' && TYPE(fabs(D)) == 'd');
    CHECK(TYPE(pow(f, f)) == 'f' && TYPE(pow(f, i)) == 'd' && TYPE(pow(f, l)) == 'l');
    CHECK(TYPE(pow(f, D)) == 'D' && TYPE(pow(F, f)) == 'F' && TYPE(pow(F, l)) == 'L');
    CHECK(TYPE(atan2(f, f)) == 'f' && TYPE(atan2(f, d)) == 'd' && TYPE(atan2(i, i)) == 'd');
    CHECK(TYPE(fma(f, f, f)) == 'f' && TYPE(fma(f, f, d)) == 'd' && TYPE(fma(l, f, i)) == 'l');
    CHECK(TYPE(creal(F)) == 'f' && TYPE(cimag(d)) == 'd' && TYPE(carg(L)) == 'l');
    CHECK(TYPE(conj(F)) == 'F' && TYPE(cproj(D)) == 'D');
    CHECK(TYPE(ilogb(f)) == 'i' && TYPE(lround(f)) == 'j' && TYPE(llrint(l)) == 'k');
    CHECK(TYPE(ldexp(f, 1)) == 'f' && TYPE(scalbln(f, 1L)) == 'f' && TYPE(nexttoward(f, l)) == 'f');
}

static void values(void) {
    float _Complex F = 3.0F + 4.0F * I;
    CHECK(sin(f) == sinf(0.5F) && sin(d) == plain_sin(0.5) && sin(i) == plain_sin(2.0));
    CHECK(sin(l) == (long double)sin(d) && sin(c) == sin(i) && sin(constant) == sin(d));
    /* The function for double would give more digits. */
    CHECK((double)sin(f) != plain_sin(0.5));
    CHECK(sqrt(sqrt(16.0F)) == 2.0F && fabs(-f) == 0.5F && fabs(F) == 5.0F);
    CHECK(pow(i, 3) == 8.0 && pow(f, 2.0F) == 0.25F && pow(d, 3) == plain_pow(0.5, 3.0));
    CHECK(creal(pow(F, 1.0F)) > 2.99F && cimag(conj(F)) == -4.0F && creal(d) == 0.5);
    CHECK(fmax(f, 2) == 2.0 && hypot(3, 4) == 5.0 && fma(2, 3, 4) == 10.0);
    int exponent = 0, quotient = 0;
    CHECK(frexp(8.0F, &exponent) == 0.5F && exponent == 4);
    CHECK(remquo(7.0F, 2, &quotient) == -1.0 && (quotient & 7) == 4);
    CHECK(lround(2.5F) == 3 && trunc(-2.5L) == -2.0L && ilogb(8.0F) == 3);
}

int main(void) {
    types();
    values();
    return finish("generic");
}
