//! Numbers in text, in the forms that `strtol` and `strtod` read.

use core::num::FpCategory;

/// An integer in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Its magnitude; the largest `u64` if it does not fit.
    pub magnitude: u64,
    /// Whether it has a minus sign.
    pub negative: bool,
    /// Whether it is too large for `magnitude`.
    pub overflow: bool,
    /// Its length in bytes, with the white space before it; 0 if there is no number.
    pub length: usize,
}

/// Whether a byte is white space for C's `isspace`.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The number of bytes of white space at the start.
pub fn spaces(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| !is_space(*byte));
    end.unwrap_or(text.len())
}

/// The base of an integer by its number in C: 0 if the prefix decides, `None` if C has none such.
pub fn base(number: i32) -> Option<u32> {
    let base = u32::try_from(number).ok();
    base.filter(|base| *base == 0 || (2..=36).contains(base))
}

/// The length in bytes of the beginning of `text` that decides which number is there: the white
/// space and what can be a number behind it. `continues` is made by [`integer_parts`] or
/// [`float_parts`]. Only one byte more is taken from `text`, as programs read one number after the
/// other out of a long text.
pub fn length(text: impl Iterator<Item = u8>, mut continues: impl FnMut(u8) -> bool) -> usize {
    let mut has_begun = false;
    let belongs = |byte: &u8| {
        has_begun |= !is_space(*byte);
        !has_begun || continues(*byte)
    };
    text.take_while(belongs).count()
}

/// Tells, byte by byte, whether it can continue an integer in `base`, which is 2 to 36, or 0 if the
/// prefix decides.
pub fn integer_parts(base: u32) -> impl FnMut(u8) -> bool {
    parts(IntegerPart::Start, move |part, byte| part.next(byte, base))
}

/// The part of an integer that has been read.
#[derive(Clone, Copy)]
enum IntegerPart {
    Start,
    Signed,
    /// A first 0, after which an `x` may come.
    Zero,
    /// Digits in this base; or just `0x`.
    Digits(u32),
}

impl IntegerPart {
    /// The next part if `byte` comes now; `None` if it does not belong to the number.
    fn next(self, byte: u8, base: u32) -> Option<IntegerPart> {
        use IntegerPart as Part;
        let digits = |base| {
            let is_digit = char::from(byte).is_digit(base);
            is_digit.then_some(Part::Digits(base))
        };
        match (self, byte) {
            (Part::Start, b'+' | b'-') => Some(Part::Signed),
            (Part::Start | Part::Signed, b'0') => Some(Part::Zero),
            (Part::Start | Part::Signed, _) => digits(if base == 0 { 10 } else { base }),
            (Part::Zero, b'x' | b'X') if matches!(base, 0 | 16) => Some(Part::Digits(16)),
            (Part::Zero, _) => digits(if base == 0 { 8 } else { base }),
            (Part::Digits(base), _) => digits(base),
        }
    }
}

/// As [`integer_parts`], for a floating point number.
pub fn float_parts() -> impl FnMut(u8) -> bool {
    parts(FloatPart::Start, FloatPart::next)
}

/// Goes on from part to part as long as there is a next one.
fn parts<P: Copy>(mut part: P, next: impl Fn(P, u8) -> Option<P>) -> impl FnMut(u8) -> bool {
    move |byte| {
        let next = next(part, byte);
        part = next.unwrap_or(part);
        next.is_some()
    }
}

/// The part of a floating point number that has been read. Each byte takes one step, however long
/// the number is.
#[derive(Clone, Copy)]
enum FloatPart {
    Start,
    Signed,
    /// A first 0, after which an `x` may come.
    Zero,
    /// Digits before the point, in this base; or just `0x`.
    Whole(u32),
    /// A point; whether there were digits before it.
    Point(u32, bool),
    /// Digits after the point.
    Fraction(u32),
    Exponent,
    ExponentSigned,
    ExponentDigits,
    /// The first letters of a word, and how many were read.
    Word(&'static [u8], usize),
    /// Inside the parentheses of a `nan`.
    Kind,
    End,
}

impl FloatPart {
    /// The next part if `byte` comes now; `None` if it does not belong to the number.
    fn next(self, byte: u8) -> Option<FloatPart> {
        use FloatPart as Part;
        let is_digit = |base| char::from(byte).is_digit(base);
        let starts_exponent = |base| matches!((base, byte), (10, b'e' | b'E') | (16, b'p' | b'P'));
        match self {
            Part::Start if matches!(byte, b'+' | b'-') => Some(Part::Signed),
            Part::Start | Part::Signed => match byte {
                b'0' => Some(Part::Zero),
                b'1'..=b'9' => Some(Part::Whole(10)),
                b'.' => Some(Part::Point(10, false)),
                b'i' | b'I' => Some(Part::Word(b"infinity", 1)),
                b'n' | b'N' => Some(Part::Word(b"nan", 1)),
                _ => None,
            },
            Part::Zero if matches!(byte, b'x' | b'X') => Some(Part::Whole(16)),
            Part::Zero => Part::Whole(10).next(byte),
            Part::Whole(base) if is_digit(base) => Some(self),
            Part::Whole(base) if byte == b'.' => Some(Part::Point(base, true)),
            Part::Point(base, _) | Part::Fraction(base) if is_digit(base) => {
                Some(Part::Fraction(base))
            }
            Part::Whole(base) | Part::Point(base, true) | Part::Fraction(base) => {
                starts_exponent(base).then_some(Part::Exponent)
            }
            Part::Exponent if matches!(byte, b'+' | b'-') => Some(Part::ExponentSigned),
            Part::Exponent | Part::ExponentSigned | Part::ExponentDigits => {
                is_digit(10).then_some(Part::ExponentDigits)
            }
            Part::Word(b"nan", 3) => (byte == b'(').then_some(Part::Kind),
            Part::Word(word, count) => {
                let is_next = word.get(count) == Some(&byte.to_ascii_lowercase());
                is_next.then_some(Part::Word(word, count + 1))
            }
            Part::Kind if byte == b')' => Some(Part::End),
            Part::Kind => (byte.is_ascii_alphanumeric() || byte == b'_').then_some(Part::Kind),
            Part::Point(_, false) | Part::End => None,
        }
    }
}

/// Whether the number in `text` is beyond the range of the type in which it was read as a value of
/// the class `read`: too large, or too small to have all its digits. Numbers below the normal
/// range count as exact if they are hexadecimal, as programs print them in this form to be exact.
pub fn is_beyond(text: &[u8], read: FpCategory) -> bool {
    let prefix = text.iter().position(|byte| matches!(byte, b'x' | b'X'));
    let (digits, exponent) = match prefix {
        Some(prefix) => (&text[prefix + 1..], b'p'),
        None => (text, b'e'),
    };
    let counts = |byte: &u8| match prefix {
        Some(_) => byte.is_ascii_hexdigit() && *byte != b'0',
        None => matches!(byte, b'1'..=b'9'),
    };
    // The words for infinity have no digits.
    let is_other_than_zero = digits
        .iter()
        .take_while(|byte| byte.to_ascii_lowercase() != exponent)
        .any(counts);
    match read {
        FpCategory::Infinite | FpCategory::Zero => is_other_than_zero,
        FpCategory::Subnormal => prefix.is_none(),
        FpCategory::Normal | FpCategory::Nan => false,
    }
}

/// Reads an integer at the start of `text`, in `base` 2 to 36; with base 0 its prefix decides.
pub fn integer(text: &[u8], base: u32) -> Integer {
    let mut at = spaces(text);
    let mut found = Integer {
        magnitude: 0,
        negative: false,
        overflow: false,
        length: 0,
    };
    if let Some(sign @ (b'+' | b'-')) = text.get(at) {
        found.negative = *sign == b'-';
        at += 1;
    }
    let digit = |at: usize, base: u32| char::from(*text.get(at)?).to_digit(base);
    let mut base = base;
    let hexadecimal = text.get(at) == Some(&b'0')
        && matches!(text.get(at + 1), Some(b'x' | b'X'))
        && digit(at + 2, 16).is_some();
    if matches!(base, 0 | 16) && hexadecimal {
        base = 16;
        at += 2;
    } else if base == 0 {
        base = if text.get(at) == Some(&b'0') { 8 } else { 10 };
    }
    while let Some(value) = digit(at, base) {
        let next = found.magnitude.checked_mul(base.into());
        match next.and_then(|next| next.checked_add(value.into())) {
            Some(next) => found.magnitude = next,
            None => found.overflow = true,
        }
        at += 1;
        found.length = at;
    }
    if found.overflow {
        found.magnitude = u64::MAX;
    }
    found
}

impl Integer {
    /// Converts it to a `long`; the second value says whether it did not fit, and was set to the
    /// nearest one.
    pub fn signed(&self) -> (i64, bool) {
        let limit = 1_u64 << 63;
        match (self.negative, self.magnitude) {
            (true, magnitude) if magnitude > limit || self.overflow => (i64::MIN, true),
            (true, magnitude) => (magnitude.wrapping_neg() as i64, false),
            (false, magnitude) if magnitude >= limit => (i64::MAX, true),
            (false, magnitude) => (magnitude as i64, false),
        }
    }

    /// Converts it to an `unsigned long`, with a negative number modulo 2^64; the second value
    /// says whether the magnitude did not fit.
    pub fn unsigned(&self) -> (u64, bool) {
        match (self.overflow, self.negative) {
            (true, _) => (u64::MAX, true),
            (false, true) => (self.magnitude.wrapping_neg(), false),
            (false, false) => (self.magnitude, false),
        }
    }
}

/// Reads a floating point number at the start of `text` as a `double`. The second value is its
/// length in bytes, with the white space before it; 0 if there is no number.
pub fn float(text: &[u8]) -> (f64, usize) {
    let (shape, length) = shape(text);
    let value = match shape.form {
        Form::Infinite => f64::INFINITY,
        Form::NotANumber => f64::NAN,
        Form::Hexadecimal { mantissa, scale } => scaled(mantissa, scale, 53, -1074),
        Form::Decimal(digits) => digits.parse().unwrap_or(0.0),
    };
    (if shape.negative { -value } else { value }, length)
}

/// As [`float`], but a `float`, which is rounded once, not by way of a `double`.
pub fn single(text: &[u8]) -> (f32, usize) {
    let (shape, length) = shape(text);
    let value = match shape.form {
        Form::Infinite => f32::INFINITY,
        Form::NotANumber => f32::NAN,
        Form::Hexadecimal { mantissa, scale } => scaled(mantissa, scale, 24, -149) as f32,
        Form::Decimal(digits) => digits.parse().unwrap_or(0.0),
    };
    (if shape.negative { -value } else { value }, length)
}

/// A floating point number in text, before it is rounded to a type.
struct Shape<'a> {
    negative: bool,
    form: Form<'a>,
}

enum Form<'a> {
    Infinite,
    NotANumber,
    /// `mantissa` times two to the power of `scale`.
    Hexadecimal {
        mantissa: u64,
        scale: i32,
    },
    Decimal(&'a str),
}

/// Finds a floating point number at the start of `text`, and its end.
fn shape(text: &[u8]) -> (Shape<'_>, usize) {
    let start = spaces(text);
    let mut at = start;
    let negative = text.get(at) == Some(&b'-');
    if matches!(text.get(at), Some(b'+' | b'-')) {
        at += 1;
    }
    let shape = |form| Shape { negative, form };
    let rest = &text[at..];
    let word = |word: &[u8]| {
        let head = rest.get(..word.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    for name in ["infinity", "inf"] {
        if word(name.as_bytes()) {
            return (shape(Form::Infinite), at + name.len());
        }
    }
    if word(b"nan") {
        return (shape(Form::NotANumber), at + 3 + kind_length(&rest[3..]));
    }
    if word(b"0x") {
        let (mantissa, scale, length) = hexadecimal(&rest[2..]);
        if length > 0 {
            let form = Form::Hexadecimal { mantissa, scale };
            return (shape(form), at + 2 + length);
        }
    }
    let (mut length, mut digits) = (0, 0);
    let mut run = |length: &mut usize| {
        while rest.get(*length).is_some_and(u8::is_ascii_digit) {
            *length += 1;
            digits += 1;
        }
    };
    run(&mut length);
    if rest.get(length) == Some(&b'.') {
        length += 1;
        run(&mut length);
    }
    if digits == 0 {
        return (shape(Form::Decimal("")), 0);
    }
    length += exponent_length(&rest[length..], b'e');
    let number = str::from_utf8(&rest[..length]).unwrap_or("");
    (shape(Form::Decimal(number)), at + length)
}

/// The length of the parentheses after a `nan`, which may name its kind; 0 if there are none.
fn kind_length(text: &[u8]) -> usize {
    if text.first() != Some(&b'(') {
        return 0;
    }
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let inside = text[1..].iter().take_while(is_part).count();
    match text.get(1 + inside) {
        Some(b')') => inside + 2,
        _ => 0,
    }
}

/// `mantissa` times two to the power of `scale`, rounded once to `precision` bits. The last of
/// these bits is never below two to the power of `least`.
fn scaled(mantissa: u64, scale: i32, precision: i32, least: i32) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let bits = 64 - mantissa.leading_zeros() as i32;
    let cut = (bits - precision).max(least.saturating_sub(scale)).max(0);
    let mantissa = u128::from(mantissa);
    let rounded = if cut > 64 {
        0
    } else {
        let (kept, rest) = (mantissa >> cut, mantissa & ((1 << cut) - 1));
        let half = if cut == 0 { 1 } else { 1 << (cut - 1) };
        kept + u128::from(rest > half || rest == half && kept & 1 == 1)
    };
    // At most `precision` bits are left, so no step rounds.
    let mut value = rounded as f64;
    let scale = scale.saturating_add(cut);
    let step: f64 = if scale < 0 { 0.5 } else { 2.0 };
    for _ in 0..scale.unsigned_abs().min(2200) {
        value *= step;
    }
    value
}

/// The length of an exponent like `e-12`; 0 if there is none.
fn exponent_length(text: &[u8], letter: u8) -> usize {
    if !text
        .first()
        .is_some_and(|byte| byte.eq_ignore_ascii_case(&letter))
    {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    let digits = text[1 + sign..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}

/// Reads the digits after `0x`: mantissa, power of two and length in bytes. If not all bits fit
/// into the mantissa, its last bit, which is beyond the precision of a double, shows whether
/// others were set.
fn hexadecimal(text: &[u8]) -> (u64, i32, usize) {
    let (mut mantissa, mut scale) = (0_u64, 0_i32);
    let (mut at, mut digits, mut point) = (0, 0, false);
    while let Some(byte) = text.get(at) {
        if *byte == b'.' && !point {
            point = true;
        } else if let Some(digit) = char::from(*byte).to_digit(16) {
            digits += 1;
            if mantissa >> 56 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                scale = scale.saturating_sub(if point { 4 } else { 0 });
            } else {
                mantissa |= u64::from(digit != 0);
                scale = scale.saturating_add(if point { 0 } else { 4 });
            }
        } else {
            break;
        }
        at += 1;
    }
    if digits == 0 {
        return (0, 0, 0);
    }
    let length = exponent_length(&text[at..], b'p');
    if length > 0 {
        let exponent = integer(&text[at + 1..at + length], 10).signed().0;
        scale = scale.saturating_add(exponent.clamp(-100_000, 100_000) as i32);
    }
    (mantissa, scale, at + length)
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::{float, float_parts, integer, integer_parts, length, single};

    #[test]
    fn integers_in_every_base() {
        let signed = |text: &str, base| {
            let found = integer(text.as_bytes(), base);
            (found.signed().0, found.length)
        };
        assert_eq!(signed("  42x", 10), (42, 4));
        assert_eq!(signed("-0x1F", 0), (-31, 5));
        assert_eq!(signed("0x", 16), (0, 1));
        assert_eq!(signed("017", 0), (15, 3));
        assert_eq!(signed("zz", 36), (1295, 2));
        assert_eq!(signed("+", 10), (0, 0));
        assert_eq!(signed("8", 8), (0, 0));
    }

    #[test]
    fn integers_that_do_not_fit_are_cut() {
        let found = |text: &str| integer(text.as_bytes(), 10);
        assert_eq!(found("9223372036854775807").signed(), (i64::MAX, false));
        assert_eq!(found("9223372036854775808").signed(), (i64::MAX, true));
        assert_eq!(found("-9223372036854775808").signed(), (i64::MIN, false));
        assert_eq!(found("-9223372036854775809").signed(), (i64::MIN, true));
        assert_eq!(found("18446744073709551616").unsigned(), (u64::MAX, true));
        assert_eq!(found("-1").unsigned(), (u64::MAX, false));
    }

    #[test]
    fn floats() {
        assert_eq!(float(b" 1.5e3x"), (1500.0, 6));
        assert_eq!(float(b"-.5"), (-0.5, 3));
        assert_eq!(float(b"1e"), (1.0, 1));
        assert_eq!(float(b"."), (0.0, 0));
        assert_eq!(float(b"inf"), (f64::INFINITY, 3));
        assert!(float(b"-NaN").0.is_nan());
        assert_eq!(float(b"0x1.8p1"), (3.0, 7));
        assert_eq!(float(b"0xg"), (0.0, 1));
        assert_eq!(float(b"1e400").0, f64::INFINITY);
    }

    #[test]
    fn floats_that_say_which_nan() {
        assert_eq!(float(b"nan(1_x)2").1, 8);
        assert_eq!(float(b"NAN(1-)").1, 3);
        assert_eq!(float(b"nan(").1, 3);
    }

    #[test]
    fn floats_are_rounded_once() {
        // Just above the middle between two floats, but exactly in the middle once rounded to a
        // double.
        assert_eq!(single(b"1.00000017881393432617187499"), (1.000_000_1, 28));
        assert_eq!(
            single(b"340282356779733661637539395458142568447.9").0,
            f32::MAX
        );
        assert_eq!(single(b"0x1.000001000000000001p0").0, 1.000_000_1);
        assert_eq!(single(b"0x1.8p-149").0, f32::from_bits(2));
        assert_eq!(float(b"0x1.00000000000008001p0").0, 1.0 + f64::EPSILON);
        assert_eq!(float(b"0x1.00000000000008p0").0, 1.0);
        assert_eq!(float(b"0x.0000000000000000001p1").0, 2_f64.powi(-75));
        assert_eq!(float(b"0x0.8p-1074").0, 0.0);
        assert_eq!(float(b"0x0.80001p-1074").0, f64::from_bits(1));
        assert_eq!(float(b"0x1p99999999999999999999").0, f64::INFINITY);
        assert_eq!(float(b"0x1p-99999999999999999999").0, 0.0);
    }

    /// The sum of the integers or floats that follow one another in a text, and how many bytes
    /// were looked at to find them.
    fn sum_of_all(text: &[u8], are_floats: bool) -> (f64, usize) {
        let looks = Cell::new(0);
        let (mut sum, mut rest) = (0.0, text);
        loop {
            let bytes = rest.iter().copied();
            let bytes = bytes.inspect(|_| looks.set(looks.get() + 1));
            let (value, end) = if are_floats {
                float(&rest[..length(bytes, float_parts())])
            } else {
                let found = integer(&rest[..length(bytes, integer_parts(10))], 10);
                (found.signed().0 as f64, found.length)
            };
            if end == 0 {
                return (sum, looks.get());
            }
            sum += value;
            rest = &rest[end..];
        }
    }

    #[test]
    fn numbers_of_a_long_text_are_looked_at_once() {
        for (one, value) in [("12 ", 12.0), ("-12", -12.0), ("\n\n+7\t\n", 7.0)] {
            let text = one.repeat(10_000);
            let most = text.len() + 10_000 + 1;
            for are_floats in [false, true] {
                let (sum, looks) = sum_of_all(text.as_bytes(), are_floats);
                assert_eq!(sum, value * 10_000.0);
                assert!(looks <= most, "{looks} looks at {} bytes", text.len());
            }
        }
        let text = "1.5e3 0x1p1\t-.5-inf inf".repeat(1000);
        let (_, looks) = sum_of_all(text.as_bytes(), true);
        assert!(looks <= text.len() + 5 * 1000 + 1);
    }

    #[test]
    fn what_decides_about_a_number() {
        let of_integer = |text: &str, base| length(text.bytes(), integer_parts(base));
        assert_eq!(of_integer(" \n-12-3", 10), 5);
        assert_eq!(of_integer("+-1", 10), 1);
        assert_eq!(of_integer("0x1Fg", 0), 4);
        assert_eq!(of_integer("0x1Fg", 16), 4);
        assert_eq!(of_integer("0x1F", 10), 1);
        assert_eq!(of_integer("0x1z ", 36), 4);
        assert_eq!(of_integer("0789", 0), 2);
        assert_eq!(of_integer("00x1", 0), 2);
        assert_eq!(of_integer("  ", 10), 2);
        let of_float = |text: &str| length(text.bytes(), float_parts());
        assert_eq!(of_float("  -1.5e+3.5"), 9);
        assert_eq!(of_float("1 2"), 1);
        assert_eq!(of_float("1-2"), 1);
        assert_eq!(of_float("0x1.8p-3p"), 8);
        assert_eq!(of_float("infinity1"), 8);
        assert_eq!(of_float("nan(1_x)(2)"), 8);
    }
}
