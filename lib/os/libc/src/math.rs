//! `math.h`: the functions of the crate `libm` under their C names, with `errno`. A `long double`
//! is a `double` here, as `skiff-cc` tells the compiler.

use core::arch::x86_64::{_mm_cvtsd_si64, _mm_cvtss_si64, _mm_set_sd, _mm_set_ss};
use core::ffi::{c_char, c_int, c_long};

use syscall::error::{EDOM, ERANGE};

use crate::errno;

/// Sets `errno` as C says: `EDOM` if the result is NaN but no argument is, `ERANGE` if it is
/// infinite but all arguments are finite.
macro_rules! checked {
    ($result:expr, $($argument:expr),+) => {{
        let result = $result;
        if result.is_nan() {
            if !($($argument.is_nan())||+) {
                errno::set(EDOM);
            }
        } else if result.is_infinite() && $($argument.is_finite())&&+ {
            errno::set(ERANGE);
        }
        result
    }};
}

/// Functions of one number: the names for `double`, `float` and `long double`.
macro_rules! unary {
    ($($double:ident $float:ident $long:ident;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $double(x: f64) -> f64 {
            checked!(libm::$double(x), x)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $float(x: f32) -> f32 {
            checked!(libm::$float(x), x)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $long(x: f64) -> f64 {
            $double(x)
        }
    )* };
}

/// Functions of two numbers: the names for `double`, `float` and `long double`.
macro_rules! binary {
    ($($double:ident $float:ident $long:ident;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $double(x: f64, y: f64) -> f64 {
            checked!(libm::$double(x, y), x, y)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $float(x: f32, y: f32) -> f32 {
            checked!(libm::$float(x, y), x, y)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $long(x: f64, y: f64) -> f64 {
            $double(x, y)
        }
    )* };
}

/// A function for each of the three types, with the given arguments and result.
macro_rules! each {
    ($($double:ident $float:ident $long:ident
        ($($argument:ident: $double_type:ty | $float_type:ty),*)
        -> $double_result:ty | $float_result:ty
        = $of_double:expr, $of_float:expr;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $double($($argument: $double_type),*) -> $double_result {
            $of_double
        }

        #[unsafe(no_mangle)]
        extern "C" fn $float($($argument: $float_type),*) -> $float_result {
            $of_float
        }

        #[unsafe(no_mangle)]
        extern "C" fn $long($($argument: $double_type),*) -> $double_result {
            $double($($argument),*)
        }
    )* };
}

unary! {
    acos acosf acosl;
    acosh acoshf acoshl;
    asin asinf asinl;
    asinh asinhf asinhl;
    atan atanf atanl;
    atanh atanhf atanhl;
    cbrt cbrtf cbrtl;
    ceil ceilf ceill;
    cos cosf cosl;
    cosh coshf coshl;
    erf erff erfl;
    erfc erfcf erfcl;
    exp expf expl;
    exp2 exp2f exp2l;
    exp10 exp10f exp10l;
    expm1 expm1f expm1l;
    fabs fabsf fabsl;
    floor floorf floorl;
    j0 j0f j0l;
    j1 j1f j1l;
    log logf logl;
    log10 log10f log10l;
    log1p log1pf log1pl;
    log2 log2f log2l;
    rint rintf rintl;
    round roundf roundl;
    roundeven roundevenf roundevenl;
    sin sinf sinl;
    sinh sinhf sinhl;
    sqrt sqrtf sqrtl;
    tan tanf tanl;
    tanh tanhf tanhl;
    tgamma tgammaf tgammal;
    trunc truncf truncl;
    y0 y0f y0l;
    y1 y1f y1l;
}

binary! {
    atan2 atan2f atan2l;
    copysign copysignf copysignl;
    fdim fdimf fdiml;
    fmax fmaxf fmaxl;
    fmin fminf fminl;
    fmod fmodf fmodl;
    hypot hypotf hypotl;
    nextafter nextafterf nextafterl;
    pow powf powl;
    remainder remainderf remainderl;
}

/// The exponent of a number, as a floating point number; infinities and NaN as C says.
macro_rules! logb {
    ($x:expr, $ilogb:path, $float:ty) => {{
        let x = $x;
        if x == 0.0 {
            errno::set(ERANGE);
            <$float>::NEG_INFINITY
        } else if !x.is_finite() {
            x * x
        } else {
            $ilogb(x) as $float
        }
    }};
}

/// Converts a rounded number to a C `long`; `EDOM` if it does not fit.
macro_rules! whole {
    ($rounded:expr) => {{
        let rounded = $rounded;
        // Both bounds are powers of two and so exact in either type; NaN is not between them.
        if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
            rounded as c_long
        } else {
            errno::set(EDOM);
            c_long::MIN
        }
    }};
}

fn ilogb_of(found: c_int, plain: bool) -> c_int {
    if !plain {
        errno::set(EDOM);
    }
    found
}

/// Rounds to an integer in the direction that the control register says.
fn nearest(x: f64) -> c_long {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x);
    if !fits {
        errno::set(EDOM);
    }
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { _mm_cvtsd_si64(_mm_set_sd(x)) }
}

fn nearest_f(x: f32) -> c_long {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x);
    if !fits {
        errno::set(EDOM);
    }
    // SAFETY: as above.
    unsafe { _mm_cvtss_si64(_mm_set_ss(x)) }
}

each! {
    fma fmaf fmal(x: f64 | f32, y: f64 | f32, z: f64 | f32) -> f64 | f32
        = checked!(libm::fma(x, y, z), x, y, z), checked!(libm::fmaf(x, y, z), x, y, z);
    ldexp ldexpf ldexpl(x: f64 | f32, n: c_int | c_int) -> f64 | f32
        = checked!(libm::ldexp(x, n), x), checked!(libm::ldexpf(x, n), x);
    scalbn scalbnf scalbnl(x: f64 | f32, n: c_int | c_int) -> f64 | f32
        = ldexp(x, n), ldexpf(x, n);
    scalbln scalblnf scalblnl(x: f64 | f32, n: c_long | c_long) -> f64 | f32
        = ldexp(x, clamped(n)), ldexpf(x, clamped(n));
    jn jnf jnl(n: c_int | c_int, x: f64 | f32) -> f64 | f32
        = checked!(libm::jn(n, x), x), checked!(libm::jnf(n, x), x);
    yn ynf ynl(n: c_int | c_int, x: f64 | f32) -> f64 | f32
        = checked!(libm::yn(n, x), x), checked!(libm::ynf(n, x), x);
    nearbyint nearbyintf nearbyintl(x: f64 | f32) -> f64 | f32 = libm::rint(x), libm::rintf(x);
    logb logbf logbl(x: f64 | f32) -> f64 | f32
        = logb!(x, libm::ilogb, f64), logb!(x, libm::ilogbf, f32);
    ilogb ilogbf ilogbl(x: f64 | f32) -> c_int | c_int
        = ilogb_of(libm::ilogb(x), x.is_finite() && x != 0.0),
          ilogb_of(libm::ilogbf(x), x.is_finite() && x != 0.0);
    lround lroundf lroundl(x: f64 | f32) -> c_long | c_long
        = whole!(libm::round(x)), whole!(libm::roundf(x));
    llround llroundf llroundl(x: f64 | f32) -> c_long | c_long = lround(x), lroundf(x);
    lrint lrintf lrintl(x: f64 | f32) -> c_long | c_long = nearest(x), nearest_f(x);
    llrint llrintf llrintl(x: f64 | f32) -> c_long | c_long = nearest(x), nearest_f(x);
    // Names older than C99.
    drem dremf dreml(x: f64 | f32, y: f64 | f32) -> f64 | f32 = remainder(x, y), remainderf(x, y);
    pow10 pow10f pow10l(x: f64 | f32) -> f64 | f32 = exp10(x), exp10f(x);
    finite finitef finitel(x: f64 | f32) -> c_int | c_int
        = x.is_finite().into(), x.is_finite().into();
}

fn clamped(n: c_long) -> c_int {
    n.clamp(c_int::MIN.into(), c_int::MAX.into()) as c_int
}

/// The sign that the last call of an `lgamma` function has found, for programs that read it here.
#[unsafe(no_mangle)]
static signgam: core::sync::atomic::AtomicI32 = core::sync::atomic::AtomicI32::new(0);

/// `lgamma` and the functions with a second result, for one type.
macro_rules! with_places {
    ($float:ty: $lgamma:ident $lgamma_r:ident $gamma:ident $frexp:ident $modf:ident $remquo:ident
        $sincos:ident $nexttoward:ident $nan:ident = $of_lgamma:path, $of_frexp:path, $of_modf:path,
        $of_remquo:path, $of_sincos:path, $of_next:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $lgamma_r(x: $float, sign: *mut c_int) -> $float {
            let (result, found) = $of_lgamma(x);
            // SAFETY: the caller's place for a number.
            unsafe { sign.write(found) };
            checked!(result, x)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $lgamma(x: $float) -> $float {
            let (result, found) = $of_lgamma(x);
            signgam.store(found, core::sync::atomic::Ordering::Relaxed);
            checked!(result, x)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $gamma(x: $float) -> $float {
            $lgamma(x)
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $frexp(x: $float, exponent: *mut c_int) -> $float {
            let (fraction, found) = $of_frexp(x);
            // SAFETY: the caller's place for a number.
            unsafe { exponent.write(found) };
            fraction
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $modf(x: $float, whole: *mut $float) -> $float {
            let (fraction, found) = $of_modf(x);
            // SAFETY: the caller's place for a number.
            unsafe { whole.write(found) };
            // The fraction of an infinite number is 0. Every fraction has the sign of its number.
            (if x.is_infinite() { 0.0 } else { fraction }).copysign(x)
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $remquo(x: $float, y: $float, quotient: *mut c_int) -> $float {
            let (rest, found) = $of_remquo(x, y);
            // SAFETY: the caller's place for a number.
            unsafe { quotient.write(found) };
            checked!(rest, x, y)
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $sincos(x: $float, sin: *mut $float, cos: *mut $float) {
            let (of_sin, of_cos) = $of_sincos(x);
            // SAFETY: the caller's places for two numbers.
            unsafe {
                sin.write(checked!(of_sin, x));
                cos.write(of_cos);
            }
        }

        #[unsafe(no_mangle)]
        extern "C" fn $nexttoward(x: $float, y: f64) -> $float {
            checked!($of_next(x, y), x, y)
        }

        /// Ignores the text, as no NaN carries one here.
        #[unsafe(no_mangle)]
        extern "C" fn $nan(_text: *const c_char) -> $float {
            <$float>::NAN
        }
    };
}

fn next_of_float(x: f32, y: f64) -> f32 {
    let wide = f64::from(x);
    if wide == y || x.is_nan() || y.is_nan() {
        // Returns the second of two equal numbers, as they may be zeros with different signs.
        return if x.is_nan() { x } else { y as f32 };
    }
    let towards = if y > wide {
        f32::INFINITY
    } else {
        f32::NEG_INFINITY
    };
    libm::nextafterf(x, towards)
}

with_places!(f64: lgamma lgamma_r gamma frexp modf remquo sincos nexttoward nan
    = libm::lgamma_r, libm::frexp, libm::modf, libm::remquo, libm::sincos, libm::nextafter);
with_places!(f32: lgammaf lgammaf_r gammaf frexpf modff remquof sincosf nexttowardf nanf
    = libm::lgammaf_r, libm::frexpf, libm::modff, libm::remquof, libm::sincosf, next_of_float);
with_places!(f64: lgammal lgammal_r gammal frexpl modfl remquol sincosl nexttowardl nanl
    = libm::lgamma_r, libm::frexp, libm::modf, libm::remquo, libm::sincos, libm::nextafter);
