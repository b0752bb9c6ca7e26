//! `complex.h`: the functions of `complex_functions.rs` under their C names, and the products and
//! quotients for which compilers call functions.

use crate::complex_functions::{self as functions, Complex};

/// The functions for one floating point type, which compute with double precision.
macro_rules! complex {
    ($float:ty: unary $($name:ident = $function:ident),*;
        creal $creal:ident cimag $cimag:ident cabs $cabs:ident carg $carg:ident conj $conj:ident
        cproj $cproj:ident cpow $cpow:ident) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(z: Complex<$float>) -> Complex<$float> {
                narrow!($float, functions::$function(wide!(z)))
            }
        )*

        #[unsafe(no_mangle)]
        extern "C" fn $creal(z: Complex<$float>) -> $float {
            z.re
        }

        #[unsafe(no_mangle)]
        extern "C" fn $cimag(z: Complex<$float>) -> $float {
            z.im
        }

        #[unsafe(no_mangle)]
        extern "C" fn $cabs(z: Complex<$float>) -> $float {
            functions::cabs(wide!(z)) as $float
        }

        #[unsafe(no_mangle)]
        extern "C" fn $carg(z: Complex<$float>) -> $float {
            functions::carg(wide!(z)) as $float
        }

        #[unsafe(no_mangle)]
        extern "C" fn $conj(z: Complex<$float>) -> Complex<$float> {
            Complex::new(z.re, -z.im)
        }

        /// Maps all infinities to one.
        #[unsafe(no_mangle)]
        extern "C" fn $cproj(z: Complex<$float>) -> Complex<$float> {
            if z.re.is_infinite() || z.im.is_infinite() {
                Complex::new(<$float>::INFINITY, (0.0 as $float).copysign(z.im))
            } else {
                z
            }
        }

        #[unsafe(no_mangle)]
        extern "C" fn $cpow(z: Complex<$float>, w: Complex<$float>) -> Complex<$float> {
            narrow!($float, functions::cpow(wide!(z), wide!(w)))
        }
    };
}

/// A complex number of either type in double precision.
macro_rules! wide {
    ($z:expr) => {
        Complex::new(f64::from($z.re), f64::from($z.im))
    };
}

/// A complex number in the precision of a type.
macro_rules! narrow {
    ($float:ty, $z:expr) => {{
        let z = $z;
        Complex::new(z.re as $float, z.im as $float)
    }};
}

complex!(f64: unary cexp = cexp, clog = clog, csqrt = csqrt, csin = csin, ccos = ccos, ctan =
    ctan, casin = casin, cacos = cacos, catan = catan, csinh = csinh, ccosh = ccosh, ctanh =
    ctanh, casinh = casinh, cacosh = cacosh, catanh = catanh;
    creal creal cimag cimag cabs cabs carg carg conj conj cproj cproj cpow cpow);
complex!(f32: unary cexpf = cexp, clogf = clog, csqrtf = csqrt, csinf = csin, ccosf = ccos,
    ctanf = ctan, casinf = casin, cacosf = cacos, catanf = catan, csinhf = csinh, ccoshf =
    ccosh, ctanhf = ctanh, casinhf = casinh, cacoshf = cacosh, catanhf = catanh;
    creal crealf cimag cimagf cabs cabsf carg cargf conj conjf cproj cprojf cpow cpowf);
complex!(f64: unary cexpl = cexp, clogl = clog, csqrtl = csqrt, csinl = csin, ccosl = ccos,
    ctanl = ctan, casinl = casin, cacosl = cacos, catanl = catan, csinhl = csinh, ccoshl =
    ccosh, ctanhl = ctanh, casinhl = casinh, cacoshl = cacosh, catanhl = catanh;
    creal creall cimag cimagl cabs cabsl carg cargl conj conjl cproj cprojl cpow cpowl);

/// The functions that compilers call for the product and the quotient of two complex numbers, with
/// C's rules for infinities. The arguments are the real and the imaginary part of each.
macro_rules! arithmetic {
    ($float:ty: $multiply:ident $divide:ident $scale:path, $exponent:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn $multiply(a: $float, b: $float, c: $float, d: $float) -> Complex<$float> {
            let (x, y) = (a * c - b * d, a * d + b * c);
            if !(x.is_nan() && y.is_nan()) {
                return Complex::new(x, y);
            }
            let infinite = |x: $float, y: $float| x.is_infinite() || y.is_infinite();
            // An infinite factor has 1 and 0 for its parts; a NaN of the other factor becomes 0.
            let (first, second) = (infinite(a, b), infinite(c, d));
            let (mut a, mut b, mut c, mut d) = (a, b, c, d);
            if first {
                (a, b) = (unit(a.is_infinite(), a), unit(b.is_infinite(), b));
                (c, d) = (number(c), number(d));
            }
            if second {
                (c, d) = (unit(c.is_infinite(), c), unit(d.is_infinite(), d));
                (a, b) = (number(a), number(b));
            }
            // The factors are finite, but the product of two of their parts is not.
            let grown =
                !first && !second && [a * c, b * d, a * d, b * c].iter().any(|p| p.is_infinite());
            if grown {
                (a, b, c, d) = (number(a), number(b), number(c), number(d));
            }
            if first || second || grown {
                let infinity = <$float>::INFINITY;
                return Complex::new(infinity * (a * c - b * d), infinity * (a * d + b * c));
            }
            return Complex::new(x, y);

            fn unit(infinite: bool, part: $float) -> $float {
                (if infinite { 1.0 as $float } else { 0.0 }).copysign(part)
            }

            fn number(part: $float) -> $float {
                if part.is_nan() {
                    (0.0 as $float).copysign(part)
                } else {
                    part
                }
            }
        }

        #[unsafe(no_mangle)]
        extern "C" fn $divide(a: $float, b: $float, c: $float, d: $float) -> Complex<$float> {
            // Scales the divisor close to 1, as its square would overflow too early.
            let largest = c.abs().max(d.abs());
            let exponent = if largest.is_finite() && largest != 0.0 {
                $exponent(largest)
            } else {
                0
            };
            let (c, d) = ($scale(c, -exponent), $scale(d, -exponent));
            let square = c * c + d * d;
            let part = |sum: $float| $scale(sum / square, -exponent);
            let (x, y) = (part(a * c + b * d), part(b * c - a * d));
            if !(x.is_nan() && y.is_nan()) {
                return Complex::new(x, y);
            }
            let infinity = <$float>::INFINITY;
            let unit = |part: $float| -> $float {
                (if part.is_infinite() {
                    1.0 as $float
                } else {
                    0.0
                })
                .copysign(part)
            };
            if square == 0.0 && !(a.is_nan() && b.is_nan()) {
                let infinity = infinity.copysign(c);
                return Complex::new(infinity * a, infinity * b);
            }
            if (a.is_infinite() || b.is_infinite()) && c.is_finite() && d.is_finite() {
                let (a, b) = (unit(a), unit(b));
                return Complex::new(infinity * (a * c + b * d), infinity * (b * c - a * d));
            }
            if largest.is_infinite() && a.is_finite() && b.is_finite() {
                let (c, d) = (unit(c), unit(d));
                return Complex::new(0.0 * (a * c + b * d), 0.0 * (b * c - a * d));
            }
            Complex::new(x, y)
        }
    };
}

arithmetic!(f64: __muldc3 __divdc3 libm::scalbn, libm::ilogb);
arithmetic!(f32: __mulsc3 __divsc3 libm::scalbnf, libm::ilogbf);
