//! The functions of `complex.h` for numbers of double precision. They keep their precision where
//! the formulas of textbooks lose it: near the points where a result is 0 or infinite, and where a
//! step in between would overflow. Infinities and NaN are as Annex G of the C standard says.
//!
//! `complex.rs` gives them their C names. The functions for `float` are these, rounded.

use core::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

use libm::{
    asin, asinh, atan, atan2, atanh, cos, cosh, exp, fabs, fma, hypot, log, log1p, pow, sin, sinh,
    sqrt, tan,
};

/// A complex number, as C passes it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

impl<T> Complex<T> {
    /// The number with these parts.
    pub const fn new(re: T, im: T) -> Self {
        Self { re, im }
    }
}

type C = Complex<f64>;

/// Above it, `exp` overflows soon.
const LARGE: f64 = 709.0;
/// Below it, the square of a number is no normal number.
const SQUARES_FROM: f64 = 6e-154;
/// Above it, the square of a number overflows soon.
const SQUARES_TO: f64 = 1e153;

/// The product of a number that may be infinite with a sine or cosine, which is 0 only exactly.
fn times(size: f64, part: f64) -> f64 {
    if part == 0.0 { part } else { size * part }
}

/// The number with both parts in the other order. Functions of trigonometry are those of
/// hyperbolas with both argument and result turned so.
fn swapped(z: C) -> C {
    C::new(z.im, z.re)
}

/// e to the power of a number.
pub fn cexp(C { re: x, im: y }: C) -> C {
    if y == 0.0 {
        return C::new(exp(x), y);
    }
    if !y.is_finite() {
        return match x {
            f64::NEG_INFINITY => C::new(0.0, (0.0f64).copysign(y)),
            f64::INFINITY => C::new(x, f64::NAN),
            _ => C::new(f64::NAN, f64::NAN),
        };
    }
    if x > LARGE && x.is_finite() {
        // The power itself may overflow where its product with a small sine does not.
        let half = exp(x / 2.0);
        return C::new(half * cos(y) * half, half * sin(y) * half);
    }
    C::new(exp(x) * cos(y), exp(x) * sin(y))
}

/// The hyperbolic cosine.
pub fn ccosh(C { re: x, im: y }: C) -> C {
    if y == 0.0 {
        let sign = if x.is_sign_negative() { -y } else { y };
        return C::new(cosh(x), sign);
    }
    if !y.is_finite() {
        return match x {
            _ if x == 0.0 => C::new(f64::NAN, (0.0f64).copysign(x)),
            _ if x.is_infinite() => C::new(f64::INFINITY, f64::NAN),
            _ => C::new(f64::NAN, f64::NAN),
        };
    }
    if fabs(x) > LARGE && x.is_finite() {
        let half = exp(fabs(x) / 2.0);
        let im = half * (sin(y) / 2.0) * half;
        return C::new(half * (cos(y) / 2.0) * half, if x < 0.0 { -im } else { im });
    }
    C::new(cosh(x) * cos(y), sinh(x) * sin(y))
}

/// The hyperbolic sine.
pub fn csinh(C { re: x, im: y }: C) -> C {
    if y == 0.0 {
        return C::new(sinh(x), y);
    }
    if !y.is_finite() {
        let re = if x == 0.0 || x.is_infinite() {
            x
        } else {
            f64::NAN
        };
        return C::new(re, f64::NAN);
    }
    if fabs(x) > LARGE && x.is_finite() {
        let half = exp(fabs(x) / 2.0);
        let re = half * (cos(y) / 2.0) * half;
        return C::new(if x < 0.0 { -re } else { re }, half * (sin(y) / 2.0) * half);
    }
    C::new(times(sinh(x), cos(y)), cosh(x) * sin(y))
}

/// The hyperbolic tangent.
pub fn ctanh(C { re: x, im: y }: C) -> C {
    /// From here on the real part is 1.
    const FLAT: f64 = 22.0;
    if x.is_nan() {
        return C::new(x, if y == 0.0 { y } else { f64::NAN });
    }
    if x.is_infinite() {
        let sign = if y.is_finite() { sin(y) * cos(y) } else { y };
        return C::new((1.0f64).copysign(x), (0.0f64).copysign(sign));
    }
    if !y.is_finite() {
        return C::new(if x == 0.0 { x } else { f64::NAN }, f64::NAN);
    }
    if fabs(x) >= FLAT {
        let small = exp(-fabs(x));
        let im = 4.0 * sin(y) * cos(y) * small * small;
        return C::new((1.0f64).copysign(x), im);
    }
    // Kahan's: with t = tan(y), tanh(x + iy) is (cosh x sinh x (1 + t^2) + it) / (1 + (1 + t^2)
    // sinh^2 x). No step cancels.
    let (t, s) = (tan(y), sinh(x));
    let (beta, rho) = (1.0 + t * t, sqrt(1.0 + s * s));
    let below = 1.0 + beta * s * s;
    C::new(beta * rho * s / below, t / below)
}

/// The cosine.
pub fn ccos(z: C) -> C {
    ccosh(C::new(-z.im, z.re))
}

/// The sine.
pub fn csin(z: C) -> C {
    swapped(csinh(swapped(z)))
}

/// The tangent.
pub fn ctan(z: C) -> C {
    swapped(ctanh(swapped(z)))
}

/// The absolute value.
pub fn cabs(z: C) -> f64 {
    hypot(z.re, z.im)
}

/// The angle.
pub fn carg(z: C) -> f64 {
    atan2(z.im, z.re)
}

/// The square root with a real part that is not negative.
pub fn csqrt(C { re: x, im: y }: C) -> C {
    if x == 0.0 && y == 0.0 {
        return C::new(0.0, y);
    }
    if y.is_infinite() {
        return C::new(f64::INFINITY, y);
    }
    if x.is_infinite() {
        let of_other = if y.is_nan() { y } else { 0.0 };
        return match x > 0.0 {
            true => C::new(x, of_other.copysign(y)),
            false => C::new(of_other, (-x).copysign(y)),
        };
    }
    if x.is_nan() || y.is_nan() {
        return C::new(f64::NAN, f64::NAN);
    }
    // Brings both parts between the numbers whose sum overflows and those that lose precision.
    let largest = fabs(x).max(fabs(y));
    let (scale, back) = match largest {
        _ if largest > 1e307 => (0.0625, 4.0),
        _ if largest < 1e-290 => (
            f64::from_bits((1023 + 108) << 52),
            f64::from_bits((1023 - 54) << 52),
        ),
        _ => (1.0, 1.0),
    };
    let (x, y) = (x * scale, y * scale);
    let t = sqrt((fabs(x) + hypot(x, y)) / 2.0);
    let other = fabs(y) / (2.0 * t);
    let (re, im) = if x < 0.0 { (other, t) } else { (t, other) };
    C::new(re * back, (im * back).copysign(y))
}

/// The natural logarithm.
pub fn clog(z: C) -> C {
    let (x, y) = (fabs(z.re), fabs(z.im));
    let (large, small) = if x < y { (y, x) } else { (x, y) };
    let square = large * large + small * small;
    let re = if large > SQUARES_TO && large.is_finite() && small.is_finite() {
        log(hypot(large / 2.0, small / 2.0)) + LN_2
    } else if large < SQUARES_FROM && large > 0.0 {
        const UP: f64 = 18_014_398_509_481_984.0;
        log(hypot(large * UP, small * UP)) - 54.0 * LN_2
    } else if (0.5..3.0).contains(&square) {
        // Near a circle of radius 1, the square less 1 with the parts that its products lose.
        let (a, b) = (large * large, small * small);
        let lost = fma(large, large, -a) + fma(small, small, -b);
        log1p((a - 1.0) + b + lost) / 2.0
    } else {
        log(hypot(x, y))
    };
    C::new(re, carg(z))
}

/// `z` to the power `w`.
pub fn cpow(z: C, w: C) -> C {
    if w.re == 0.0 && w.im == 0.0 {
        return C::new(1.0, 0.0);
    }
    if z.re == 0.0 && z.im == 0.0 && w.re > 0.0 {
        return C::new(0.0, 0.0);
    }
    let angle = carg(z);
    if w.im == 0.0 {
        let (size, turn) = (pow(cabs(z), w.re), w.re * angle);
        return C::new(times(size, cos(turn)), times(size, sin(turn)));
    }
    let size = pow(cabs(z), w.re) * exp(-w.im * angle);
    let turn = w.re * angle + w.im * clog(z).re;
    C::new(times(size, cos(turn)), times(size, sin(turn)))
}

/// What the arc functions have in common: the real parts of arc cosine and arc sine, and the size
/// of the imaginary part of both, for finite `x` and `y` that are not negative. The method is that
/// of Hull, Fairgrieve and Tang (ACM TOMS 23, 1997).
struct Arcs {
    cosine: f64,
    sine: f64,
    imaginary: f64,
}

fn arcs(x: f64, y: f64) -> Arcs {
    let safe = SQUARES_FROM..SQUARES_TO;
    match safe.contains(&x) && safe.contains(&y) {
        true => usual_arcs(x, y),
        false => arcs_at_edges(x, y),
    }
}

/// For parts whose squares are normal numbers.
fn usual_arcs(x: f64, y: f64) -> Arcs {
    /// Below it, `b` is far enough from 1 for its arc sine.
    const LEAST_NEAR_ONE: f64 = 0.6417;
    /// Above it, `a` is far enough from 1 for its logarithm.
    const MOST_NEAR_ONE: f64 = 1.5;
    // The distances of the point from -1 and 1, and half their sum.
    let (r, s) = (hypot(x + 1.0, y), hypot(x - 1.0, y));
    let a = (r + s) / 2.0;
    let b = x / a;
    // `s` less the distance along the real axis, without cancelling.
    let (far, near) = match x <= 1.0 {
        true => (y * y / (r + x + 1.0), s + (1.0 - x)),
        false => (y * y / (r + x + 1.0), y * y / (s + (x - 1.0))),
    };
    let (sine, cosine) = if b <= LEAST_NEAR_ONE {
        (asin(b), libm::acos(b))
    } else {
        // The root of a^2 - x^2.
        let root = match x <= 1.0 {
            true => sqrt((a + x) / 2.0 * (far + near)),
            false => {
                let parts = 1.0 / (r + x + 1.0) + 1.0 / (s + (x - 1.0));
                y * sqrt((a + x) / 2.0 * parts)
            }
        };
        (atan(x / root), atan(root / x))
    };
    let imaginary = if a <= MOST_NEAR_ONE {
        // `a` less 1.
        let above = match x < 1.0 {
            true => (far + y * y / near) / 2.0,
            false => (far + (s + (x - 1.0))) / 2.0,
        };
        log1p(above + sqrt(above * (a + 1.0)))
    } else {
        log(a + sqrt(a * a - 1.0))
    };
    Arcs {
        cosine,
        sine,
        imaginary,
    }
}

/// For parts that are 0, very small or very large.
fn arcs_at_edges(x: f64, y: f64) -> Arcs {
    const EPSILON: f64 = f64::EPSILON;
    if y <= EPSILON * fabs(x - 1.0) {
        if x < 1.0 {
            return Arcs {
                cosine: libm::acos(x),
                sine: asin(x),
                imaginary: y / sqrt((1.0 - x) * (1.0 + x)),
            };
        }
        let (above, below) = (x - 1.0, x + 1.0);
        let overflows = below > f64::MAX / above.max(1.0);
        return Arcs {
            cosine: match overflows {
                true => y / x,
                false if y == 0.0 => 0.0,
                false => y / sqrt(above * below),
            },
            sine: FRAC_PI_2,
            imaginary: match overflows {
                true => LN_2 + log(x),
                false => log1p(above + sqrt(above * below)),
            },
        };
    }
    if y <= SQUARES_FROM {
        // So close to 1 that only the distance upwards counts.
        return Arcs {
            cosine: sqrt(y),
            sine: FRAC_PI_2 - sqrt(y),
            imaginary: sqrt(y),
        };
    }
    if EPSILON * y - 1.0 >= x {
        return Arcs {
            cosine: FRAC_PI_2,
            sine: x / y,
            imaginary: LN_2 + log(y),
        };
    }
    if x > 1.0 {
        let ratio = x / y;
        return Arcs {
            cosine: atan(y / x),
            sine: atan(ratio),
            imaginary: LN_2 + log(y) + log1p(ratio * ratio) / 2.0,
        };
    }
    Arcs {
        cosine: FRAC_PI_2,
        sine: x / hypot(1.0, y),
        imaginary: asinh(y),
    }
}

/// The arc cosine.
pub fn cacos(C { re: x, im: y }: C) -> C {
    if x.is_infinite() || y.is_infinite() {
        let infinity = f64::INFINITY.copysign(-y);
        let angle = match (x.is_infinite(), y.is_infinite()) {
            _ if x.is_nan() => f64::NAN,
            (true, false) if y.is_nan() => return C::new(y, f64::INFINITY),
            (true, true) if x < 0.0 => 3.0 * FRAC_PI_4,
            (true, true) => FRAC_PI_4,
            (true, false) if x < 0.0 => PI,
            (true, false) => 0.0,
            (false, _) => FRAC_PI_2,
        };
        return C::new(angle, infinity);
    }
    if x.is_nan() || y.is_nan() {
        return C::new(if x == 0.0 { FRAC_PI_2 } else { f64::NAN }, f64::NAN);
    }
    let found = arcs(fabs(x), fabs(y));
    let angle = match x.is_sign_negative() {
        true => PI - found.cosine,
        false => found.cosine,
    };
    C::new(angle, found.imaginary.copysign(-y))
}

/// The inverse of the hyperbolic sine.
pub fn casinh(C { re: x, im: y }: C) -> C {
    if x.is_infinite() || y.is_infinite() {
        let angle = match (x.is_infinite(), y.is_infinite()) {
            (true, true) => FRAC_PI_4,
            (true, false) if y.is_nan() => y,
            (true, false) => 0.0,
            (false, _) if x.is_nan() => f64::NAN,
            (false, _) => FRAC_PI_2,
        };
        return C::new(f64::INFINITY.copysign(x), angle.copysign(y));
    }
    if x.is_nan() || y.is_nan() {
        return C::new(f64::NAN, if y == 0.0 { y } else { f64::NAN });
    }
    let found = arcs(fabs(y), fabs(x));
    C::new(found.imaginary.copysign(x), found.sine.copysign(y))
}

/// The inverse of the hyperbolic tangent.
pub fn catanh(z: C) -> C {
    const EPSILON: f64 = f64::EPSILON;
    let (x, y) = (fabs(z.re), fabs(z.im));
    if y == 0.0 && x <= 1.0 {
        return C::new(atanh(z.re), z.im);
    }
    if x == 0.0 {
        return C::new(z.re, atan(z.im));
    }
    if x.is_infinite() || y.is_infinite() {
        return C::new((0.0f64).copysign(z.re), FRAC_PI_2.copysign(z.im));
    }
    if x.is_nan() || y.is_nan() {
        return C::new(f64::NAN, f64::NAN);
    }
    let (re, im) = if x.max(y) > 1.0 / EPSILON {
        // 1/z, without squares that overflow.
        let (large, small) = (x.max(y), x.min(y));
        let ratio = small / large;
        let re = (x / large) / (large * (1.0 + ratio * ratio));
        (re, FRAC_PI_2)
    } else if x.max(y) < 1e-9 {
        (x, y)
    } else {
        let (left, right) = (1.0 - x, 1.0 + x);
        // A part whose square is nothing beside the other's is left out.
        let square = if y < SQUARES_FROM { 0.0 } else { y * y };
        let re = match left == 0.0 && y < EPSILON {
            true => (LN_2 - log(y)) / 2.0,
            false => log1p(4.0 * x / (left * left + square)) / 4.0,
        };
        let im = match left == 0.0 {
            true => atan2(2.0, -y) / 2.0,
            false => atan2(2.0 * y, left * right - square) / 2.0,
        };
        (re, im)
    };
    C::new(re.copysign(z.re), im.copysign(z.im))
}

/// The arc sine.
pub fn casin(z: C) -> C {
    swapped(casinh(swapped(z)))
}

/// The arc tangent.
pub fn catan(z: C) -> C {
    swapped(catanh(swapped(z)))
}

/// The inverse of the hyperbolic cosine, with a real part that is not negative.
pub fn cacosh(z: C) -> C {
    let C {
        re: angle,
        im: size,
    } = cacos(z);
    if angle.is_nan() && !size.is_nan() {
        return C::new(fabs(size), angle);
    }
    C::new(fabs(size), angle.copysign(z.im))
}

#[cfg(test)]
#[expect(
    clippy::approx_constant,
    reason = "a table has each value as it is, parts of pi, too"
)]
mod tests {
    use super::*;

    type Function = fn(C) -> C;

    /// Numbers with their functions to 700 digits, rounded.
    #[rustfmt::skip]
    const VALUES: &[(Function, f64, f64, f64, f64)] = &[
        (cexp, 1.0, 2.0, -1.1312043837568135, 2.4717266720048188),
        (cexp, -745.0, 1.0, 0.0, 0.0),
        (cexp, 700.0, 3.0, -1.0040821239993067e304, 1.4312843573877954e303),
        (cexp, 709.9, 1.5707963, 5.416325905048797e300, f64::INFINITY),
        (cexp, 720.0, 1.5707963267948966, 3.0130603219044924e296, f64::INFINITY),
        (cexp, 1e-20, 1e-20, 1.0, 1e-20),
        (cexp, 0.5, 100000000.0, -0.5991207262759938, 1.5360130806101786),
        (ccosh, 1.0, 2.0, -0.64214812471552, 1.0686074213827783),
        (ccosh, -720.0, 1.5707963267948966, 1.5065301609522462e296, -f64::INFINITY),
        (ccosh, 710.0, 1.0, 6.035162617272641e307, 9.399208879688907e307),
        (ccosh, 1e-10, 1e-12, 1.0, 1e-22),
        (ccosh, -3.0, 100.0, 8.681534938772657, 5.072707660175293),
        (csinh, 1.0, 2.0, -0.4890562590412937, 1.4031192506220407),
        (csinh, -720.0, 1.5707963267948966, -1.5065301609522462e296, f64::INFINITY),
        (csinh, 710.0, 1.0, 6.035162617272641e307, 9.399208879688907e307),
        (csinh, 1e-10, 1e-12, 1e-10, 1e-12),
        (csinh, -3.0, 100.0, -8.63860261012317, -5.097918120968362),
        (ctanh, 1.0, 2.0, 1.16673625724092, -0.24345820118572525),
        (ctanh, 400.0, 1.0, 1.0, 0.0),
        (ctanh, -400.0, 1.0, -1.0, 0.0),
        (ctanh, 21.5, 3.0, 1.0, -1.1820007852490456e-19),
        (ctanh, 1e-20, 1e-20, 1e-20, 1e-20),
        (ctanh, 1.0, 1.5707963267948966, 1.3130352854993312, 4.433598977438541e-17),
        (ctanh, 1e-05, 1.5707963267948966, 100000.00000333332, 6.123233995532657e-07),
        (ccos, 1.0, 2.0, 2.0327230070196656, -3.0518977991518),
        (ccos, 1.0, 720.0, f64::INFINITY, -f64::INFINITY),
        (ccos, 1e-10, 1e-12, 1.0, -1e-22),
        (csin, 1.0, 2.0, 3.165778513216168, 1.9596010414216058),
        (csin, 1.0, -710.0, 9.399208879688907e307, -6.035162617272641e307),
        (csin, 1e-10, 1e-12, 1e-10, 1e-12),
        (ctan, 1.0, 400.0, 0.0, 1.0),
        (ctan, 1e-20, 1e-20, 1e-20, 1e-20),
        (ctan, -2.0, 0.5, 0.8508781211449377, 1.3212865837711918),
        (ctan, 1.5707963267948966, 1e-05, 6.123233995532657e-07, 100000.00000333332),
        (csqrt, 1.0, 2.0, 1.272019649514069, 0.7861513777574233),
        (csqrt, -4.0, 1e-20, 2.5e-21, 2.0),
        (csqrt, 4.0, -1e-20, 2.0, -2.5e-21),
        (csqrt, 1e308, 1.7e308, 1.2190792206275198e154, 6.9724755013252e153),
        (csqrt, -1e308, 1e300, 5e145, 1e154),
        (csqrt, 5e-324, 5e-324, 2.4421097261308304e-162, 1.0115549693666347e-162),
        (csqrt, -1e-310, 1e-315, 4.999999992345927e-161, 1.0000000000124985e-155),
        (csqrt, -1.0, -1.0, 0.45508986056222733, -1.09868411346781),
        (clog, 1.0, 2.0, 0.8047189562170501, 1.1071487177940904),
        (clog, 0.6, 0.8, 2.2204460492503132e-17, 0.9272952180016123),
        (clog, 1.0, 1e-20, 5e-41, 1e-20),
        (clog, 1e-200, 1e-300, -460.51701859880916, 1e-100),
        (clog, 1e308, 1.7e308, 709.8754132209813, 1.039072259536091),
        (clog, 5e-324, 5e-324, -744.0934983311013, 0.7853981633974483),
        (clog, -0.8, 0.6000000000000001, 8.881784197001252e-17, 2.498091544796509),
        (clog, 1e200, 1.0, 460.51701859880916, 1e-200),
        (cacos, 1.0, 2.0, 1.1437177404024206, -1.5285709194809982),
        (cacos, 1e200, 1e200, 0.7853981633974483, -461.55673936964905),
        (cacos, 1e200, 1.0, 1e-200, -461.2101657793691),
        (cacos, 1e200, 1e190, 1.0000000000000002e-10, -461.2101657793691),
        (cacos, -0.5, 1e-20, 2.0943951023931957, -1.1547005383792515e-20),
        (cacos, 1.0, 1e-100, 1e-50, -1e-50),
        (cacos, 1.0, 1e-300, 1e-150, -1e-150),
        (cacos, 1.0000000000000002, 1e-20, 4.745313280009497e-13, -2.1073424260789764e-08),
        (cacos, 0.9999999999999999, -1e-20, 1.490116120895923e-08, 6.710886393194353e-13),
        (cacos, -3.0, 1e-10, 3.141592653554438, -1.762747174039086),
        (cacos, 1e-200, 10000000000.0, 1.5707963267948966, -23.7189981105004),
        (cacos, 1e-200, 1e300, 1.5707963267948966, -691.4686750787737),
        (cacos, 0.3, 0.7, 1.3250643206938169, -0.6703367429877897),
        (cacos, -1.4, 0.1, 3.040415272377357, -0.8743214125243551),
        (cacos, 100000000.0, 100000000.0, 0.7853981633974483, -19.460401514792284),
        (cacos, 2.0, 1e-300, 5.773502691896257e-301, -1.3169578969248168),
        (catanh, 1.0, 2.0, 0.17328679513998632, 1.1780972450961724),
        (catanh, 1e-20, 1e-20, 1e-20, 1e-20),
        (catanh, 1e-20, 3e-21, 1e-20, 3e-21),
        (catanh, 1.0, 1e-20, 23.37242452022043, 0.7853981633974483),
        (catanh, 1.0, 1e-300, 345.73433753938684, 0.7853981633974483),
        (catanh, 1e200, 1e200, 5e-201, 1.5707963267948966),
        (catanh, 1e300, 1.0, 1e-300, 1.5707963267948966),
        (catanh, 3.0, 1e-300, 0.34657359027997264, 1.5707963267948966),
        (catanh, 0.5, 1e-300, 0.5493061443340549, 1.3333333333333334e-300),
        (catanh, -0.999999999999, 1e-08, -9.556913959756017, 0.785348167003701),
        (catanh, 1e-10, 0.7, 6.711409395973155e-11, 0.6107259643892086),
        (catanh, 10000000000.0, -1000000000.0, 9.900990099009901e-11, -1.5707963267849956),
        (casinh, -10000000000.0, 1.0, -23.7189981105004, 1e-10),
        (casinh, -10000000000.0, -2.0, -23.7189981105004, -2e-10),
        (casinh, 1e-20, 1e-30, 1e-20, 1e-30),
        (casinh, 0.5, 2.0, 1.3618009008578458, 1.2930420702371828),
        (casinh, 2.0, 1.0, 1.5285709194809982, 0.42707858639247614),
        (casinh, 1e200, 1e200, 461.55673936964905, 0.7853981633974483),
        (casinh, 1.0, 1e200, 461.2101657793691, 1.5707963267948966),
        (casinh, 1e190, 1e200, 461.2101657793691, 1.5707963266948965),
        (casinh, 1e-20, -0.5, 1.1547005383792515e-20, -0.5235987755982989),
        (casinh, 1e-100, 1.0, 1e-50, 1.5707963267948966),
        (casinh, 1e-300, 1.0, 1e-150, 1.5707963267948966),
        (casinh, 1e-20, 1.0000000000000002, 2.1073424260789764e-08, 1.570796326794422),
        (casinh, -1e-20, 0.9999999999999999, -6.710886393194353e-13, 1.5707963118937354),
        (casinh, 1e-10, -3.0, 1.762747174039086, -1.5707963267595413),
        (casinh, 10000000000.0, 1e-200, 23.7189981105004, 1e-210),
        (casinh, 1e300, 1e-200, 691.4686750787737, 0.0),
        (casinh, 0.7, 0.3, 0.6703367429877897, 0.2457320061010797),
        (casinh, 0.1, -1.4, 0.8743214125243551, -1.4696189455824602),
        (casinh, 100000000.0, 100000000.0, 19.460401514792284, 0.7853981633974483),
        (casinh, 1e-300, 2.0, 1.3169578969248168, 1.5707963267948966),
        (cacosh, 1.0, 2.0, 1.5285709194809982, 1.1437177404024206),
        (cacosh, 1.0001, 1e-12, 0.014142017775251545, 7.070891041799418e-11),
        (cacosh, 0.5, -1e-20, 1.1547005383792515e-20, -1.0471975511965979),
        (cacosh, -1e200, 3.0, 461.2101657793691, 3.141592653589793),
        (casin, 1.0, 2.0, 0.42707858639247614, 1.5285709194809982),
        (casin, 1e200, 1e200, 0.7853981633974483, 461.55673936964905),
        (casin, 1e200, 1.0, 1.5707963267948966, 461.2101657793691),
        (casin, 1e200, 1e190, 1.5707963266948965, 461.2101657793691),
        (casin, -0.5, 1e-20, -0.5235987755982989, 1.1547005383792515e-20),
        (casin, 1.0, 1e-100, 1.5707963267948966, 1e-50),
        (casin, 1.0, 1e-300, 1.5707963267948966, 1e-150),
        (casin, 1.0000000000000002, 1e-20, 1.570796326794422, 2.1073424260789764e-08),
        (casin, 0.9999999999999999, -1e-20, 1.5707963118937354, -6.710886393194353e-13),
        (casin, -3.0, 1e-10, -1.5707963267595413, 1.762747174039086),
        (casin, 1e-200, 10000000000.0, 1e-210, 23.7189981105004),
        (casin, 1e-200, 1e300, 0.0, 691.4686750787737),
        (casin, 0.3, 0.7, 0.2457320061010797, 0.6703367429877897),
        (casin, -1.4, 0.1, -1.4696189455824602, 0.8743214125243551),
        (casin, 100000000.0, 100000000.0, 0.7853981633974483, 19.460401514792284),
        (casin, 2.0, 1e-300, 1.5707963267948966, 1.3169578969248168),
        (catan, 2.0, 1.0, 1.1780972450961724, 0.17328679513998632),
        (catan, 1e-20, 1e-20, 1e-20, 1e-20),
        (catan, 3e-21, 1e-20, 3e-21, 1e-20),
        (catan, 1e-20, 1.0, 0.7853981633974483, 23.37242452022043),
        (catan, 1e-300, 1.0, 0.7853981633974483, 345.73433753938684),
        (catan, 1e200, 1e200, 1.5707963267948966, 5e-201),
        (catan, 1.0, 1e300, 1.5707963267948966, 1e-300),
        (catan, 1e-300, 3.0, 1.5707963267948966, 0.34657359027997264),
        (catan, 1e-300, 0.5, 1.3333333333333334e-300, 0.5493061443340549),
        (catan, 1e-08, -0.999999999999, 0.785348167003701, -9.556913959756017),
        (catan, 0.7, 1e-10, 0.6107259643892086, 6.711409395973155e-11),
        (catan, -1000000000.0, 10000000000.0, -1.5707963267849956, 9.900990099009901e-11),
    ];

    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;

    /// What Annex G of the C standard says of zeros, infinities and NaN, with signs.
    #[rustfmt::skip]
    const EDGES: &[(Function, f64, f64, f64, f64)] = &[
        (cexp, 1000.0, 0.0, INF, 0.0),
        (cexp, 1000.0, -0.0, INF, -0.0),
        (cexp, INF, 0.0, INF, 0.0),
        (cexp, INF, 2.0, -INF, INF),
        (cexp, -INF, 2.0, -0.0, 0.0),
        (cexp, -INF, INF, 0.0, 0.0),
        (cexp, 1.0, INF, NAN, NAN),
        (cexp, INF, NAN, INF, NAN),
        (cexp, NAN, 0.0, NAN, 0.0),
        (ccosh, 800.0, 0.0, INF, 0.0),
        (ccosh, -800.0, 0.0, INF, -0.0),
        (ccosh, 0.0, INF, NAN, 0.0),
        (ccosh, INF, 2.0, -INF, INF),
        (ccosh, -INF, NAN, INF, NAN),
        (csinh, 800.0, 0.0, INF, 0.0),
        (csinh, -800.0, -0.0, -INF, -0.0),
        (csinh, -0.0, INF, -0.0, NAN),
        (csinh, -INF, 2.0, INF, INF),
        (csinh, 0.0, 2.0, -0.0, 0.9092974268256817),
        (ctanh, 400.0, 0.0, 1.0, 0.0),
        (ctanh, -400.0, -0.0, -1.0, -0.0),
        (ctanh, INF, 2.0, 1.0, -0.0),
        (ctanh, -INF, INF, -1.0, 0.0),
        (ctanh, NAN, 0.0, NAN, 0.0),
        (ctan, 0.0, 400.0, 0.0, 1.0),
        (csqrt, 0.0, -0.0, 0.0, -0.0),
        (csqrt, -0.0, 0.0, 0.0, 0.0),
        (csqrt, -4.0, 0.0, 0.0, 2.0),
        (csqrt, -4.0, -0.0, 0.0, -2.0),
        (csqrt, NAN, INF, INF, INF),
        (csqrt, -INF, 1.0, 0.0, INF),
        (csqrt, -INF, -1.0, 0.0, -INF),
        (csqrt, INF, -1.0, INF, -0.0),
        (clog, 0.0, 0.0, -INF, 0.0),
        (clog, -0.0, 0.0, -INF, PI),
        (clog, INF, NAN, INF, NAN),
        (clog, -1.0, -0.0, 0.0, -PI),
        (cacos, 2.0, 0.0, 0.0, -1.3169578969248166),
        (cacos, 2.0, -0.0, 0.0, 1.3169578969248166),
        (cacos, -2.0, 0.0, PI, -1.3169578969248166),
        (cacos, 1.0, 0.0, 0.0, -0.0),
        (cacos, 0.0, 0.0, FRAC_PI_2, -0.0),
        (cacos, 1e200, 0.0, 0.0, -461.2101657793691),
        (cacos, -INF, 1.0, PI, -INF),
        (cacos, -INF, INF, 3.0 * FRAC_PI_4, -INF),
        (cacos, NAN, INF, NAN, -INF),
        (cacos, 0.0, NAN, FRAC_PI_2, NAN),
        (casin, 1e200, 0.0, FRAC_PI_2, 461.2101657793691),
        (casin, -2.0, -0.0, -FRAC_PI_2, -1.3169578969248166),
        (casinh, 1e-20, 0.0, 1e-20, 0.0),
        (casinh, 0.0, 0.0, 0.0, 0.0),
        (casinh, -0.0, -0.0, -0.0, -0.0),
        (casinh, 1.0, INF, INF, FRAC_PI_2),
        (casinh, -INF, INF, -INF, FRAC_PI_4),
        (casinh, NAN, 0.0, NAN, 0.0),
        (cacosh, 0.0, 0.0, 0.0, FRAC_PI_2),
        (cacosh, -2.0, -0.0, 1.3169578969248166, -PI),
        (cacosh, INF, INF, INF, FRAC_PI_4),
        (cacosh, INF, NAN, INF, NAN),
        (catanh, 1e-20, 0.0, 1e-20, 0.0),
        (catanh, 1.0, 0.0, INF, 0.0),
        (catanh, 2.0, -0.0, 0.5493061443340548, -FRAC_PI_2),
        (catanh, INF, 1.0, 0.0, FRAC_PI_2),
        (catanh, NAN, INF, 0.0, FRAC_PI_2),
        (catan, 0.0, 1e-20, 0.0, 1e-20),
    ];

    /// Whether two numbers have the same sign, and are equal or differ in the last places.
    fn near(found: f64, wanted: f64) -> bool {
        if wanted.is_nan() || found.is_nan() {
            return wanted.is_nan() && found.is_nan();
        }
        let most = (wanted.abs() * f64::EPSILON * 8.0).max(f64::MIN_POSITIVE * f64::EPSILON);
        found.is_sign_negative() == wanted.is_sign_negative()
            && (found == wanted || (found - wanted).abs() <= most)
    }

    #[test]
    fn functions_have_the_known_values() {
        for (index, (function, x, y, re, im)) in VALUES.iter().chain(EDGES).enumerate() {
            let found = function(C::new(*x, *y));
            // Which function it is shows in the value and the place of the row.
            assert!(
                near(found.re, *re) && near(found.im, *im),
                "row {index}, of {x:?} and {y:?}: {found:?}, not {re:?} and {im:?}"
            );
        }
    }

    #[test]
    fn functions_are_odd_or_symmetric() {
        let odd: [Function; 8] = [csinh, ctanh, csin, ctan, casinh, catanh, casin, catan];
        for (_, x, y, ..) in VALUES {
            for function in odd {
                let (there, back) = (function(C::new(*x, *y)), function(C::new(-x, -y)));
                assert_eq!(there, C::new(-back.re, -back.im), "of {x:?} and {y:?}");
            }
        }
    }

    #[test]
    fn powers_have_the_known_values() {
        let power = |z: (f64, f64), w: (f64, f64)| cpow(C::new(z.0, z.1), C::new(w.0, w.1));
        for (found, re, im) in [
            (power((2.0, 0.0), (10.0, 0.0)), 1024.0, 0.0),
            (power((0.0, 0.0), (2.0, 0.0)), 0.0, 0.0),
            (power((0.0, 0.0), (0.0, 0.0)), 1.0, 0.0),
            (power((1e200, 0.0), (2.0, 0.0)), INF, 0.0),
            (
                power((1.0, 2.0), (-0.5, 0.25)),
                0.475890750761209,
                -0.17500623809564933,
            ),
        ] {
            assert!(
                near(found.re, re) && near(found.im, im),
                "{found:?}, not {re:?} and {im:?}"
            );
        }
    }
}
