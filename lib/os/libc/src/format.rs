//! The conversions of `printf`: formats arguments as bytes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The arguments of a format, in order.
pub trait Arguments {
    /// Makes the argument of this number the next one; the first has number 1.
    fn select(&mut self, number: usize);
    /// The next argument: an `int`, or a `long` if `wide`; sign extended to 64 bits.
    fn integer(&mut self, wide: bool) -> i64;
    /// The next argument, a `double`.
    fn double(&mut self) -> f64;
    /// The next argument, a pointer.
    fn pointer(&mut self) -> usize;
    /// The bytes of the string at `pointer`, at most `limit`.
    fn string(&mut self, pointer: usize, limit: Option<usize>) -> Vec<u8>;
    /// The wide string at `pointer` as UTF-8; whole characters, at most `limit` bytes.
    fn wide_string(&mut self, pointer: usize, limit: Option<usize>) -> Vec<u8>;
    /// Stores the count for `%n` at `pointer`, in `bytes` bytes.
    fn store(&mut self, pointer: usize, bytes: usize, count: i64);
    /// The message for the present error number, for `%m`.
    fn error_message(&mut self) -> Vec<u8>;
    /// Notes that an argument is a wide character that does not exist.
    fn refuse(&mut self);
}

/// Where the result goes. An output that is full drops further bytes, which are still counted.
pub trait Output {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// The length of bytes as the result and `%n` count it.
    fn count(&self, bytes: &[u8]) -> usize {
        bytes.len()
    }
}

impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        if self.try_reserve(bytes.len()).is_ok() {
            self.extend_from_slice(bytes);
        }
    }
}

/// The greatest width and precision, as the result is an `int`.
const LIMIT: usize = i32::MAX as usize;

/// The greatest precision of floating-point numbers, whose digits take memory. All digits beyond
/// it are zeros.
const MOST_DIGITS: usize = 1 << 20;

/// The greatest number of an argument, C's `NL_ARGMAX`.
pub const MOST_NUMBERED: usize = 4096;

#[derive(Clone, Copy, Default)]
struct Specification {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    length: Length,
    /// The number of the argument, if the format gives one (`%2$d`).
    number: Option<usize>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Length {
    Char,
    Short,
    #[default]
    Int,
    Long,
}

impl Length {
    fn bytes(self) -> usize {
        match self {
            Self::Char => 1,
            Self::Short => 2,
            Self::Int => 4,
            Self::Long => 8,
        }
    }

    fn signed(self, value: i64) -> i64 {
        match self {
            Self::Char => i64::from(value as i8),
            Self::Short => i64::from(value as i16),
            Self::Int => i64::from(value as i32),
            Self::Long => value,
        }
    }

    fn unsigned(self, value: i64) -> u64 {
        match self {
            Self::Char => u64::from(value as u8),
            Self::Short => u64::from(value as u16),
            Self::Int => u64::from(value as u32),
            Self::Long => value as u64,
        }
    }
}

/// Counts what goes to an output.
struct Counted<'a> {
    output: &'a mut dyn Output,
    count: usize,
}

impl Counted<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.count += self.output.count(bytes);
        self.output.put(bytes);
    }

    fn repeat(&mut self, byte: u8, mut count: usize) {
        let block = [byte; 32];
        while count > 0 {
            let part = count.min(block.len());
            self.put(&block[..part]);
            count -= part;
        }
    }
}

/// Reads a format byte by byte.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.rest = &self.rest[1..];
        Some(byte)
    }

    fn number(&mut self) -> usize {
        let mut number = 0_usize;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = (number * 10 + usize::from(digit - b'0')).min(LIMIT);
            self.next();
        }
        number
    }
}

impl Reader<'_> {
    /// Takes the number of an argument with its `$`, if that is what follows.
    fn argument_number(&mut self) -> Option<usize> {
        let mut ahead = Reader { rest: self.rest };
        let number = ahead.number();
        let is_number = (1..=MOST_NUMBERED).contains(&number) && ahead.next() == Some(b'$');
        is_number.then(|| {
            self.rest = &self.rest[self.rest.len() - ahead.rest.len()..];
            number
        })
    }
}

/// Writes the converted format; returns its length as the output counts it. Unknown conversions
/// are copied unchanged. `arguments` must be able to select them if the format numbers them.
pub fn print(output: &mut dyn Output, text: &[u8], arguments: &mut dyn Arguments) -> usize {
    let mut output = Counted { output, count: 0 };
    let mut reader = Reader { rest: text };
    while !reader.rest.is_empty() {
        let plain = reader.rest.iter().position(|byte| *byte == b'%');
        let plain = plain.unwrap_or(reader.rest.len());
        output.put(&reader.rest[..plain]);
        reader.rest = &reader.rest[plain..];
        if reader.rest.is_empty() {
            break;
        }
        let whole = reader.rest;
        reader.next();
        let specification = specification(&mut reader, arguments);
        let known = match reader.next() {
            Some(conversion) => {
                if let Some(number) = specification.number {
                    arguments.select(number);
                }
                convert(&mut output, conversion, specification, arguments)
            }
            None => false,
        };
        if !known {
            output.put(&whole[..whole.len() - reader.rest.len()]);
        }
    }
    output.count
}

fn specification(reader: &mut Reader<'_>, arguments: &mut dyn Arguments) -> Specification {
    let mut found = Specification {
        number: reader.argument_number(),
        ..Specification::default()
    };
    /// The next argument, or the one whose number follows the `*`.
    fn width(reader: &mut Reader<'_>, arguments: &mut dyn Arguments) -> i64 {
        reader.next();
        if let Some(number) = reader.argument_number() {
            arguments.select(number);
        }
        arguments.integer(false)
    }
    loop {
        match reader.peek() {
            Some(b'-') => found.left = true,
            Some(b'+') => found.plus = true,
            Some(b' ') => found.space = true,
            Some(b'#') => found.alternate = true,
            Some(b'0') => found.zero = true,
            // Groups of digits, which the locale "C" does not have.
            Some(b'\'') => {}
            _ => break,
        }
        reader.next();
    }
    if reader.peek() == Some(b'*') {
        let width = width(reader, arguments);
        found.left |= width < 0;
        found.width = usize::try_from(width.unsigned_abs()).map_or(LIMIT, |width| width.min(LIMIT));
    } else {
        found.width = reader.number();
    }
    if reader.peek() == Some(b'.') {
        reader.next();
        if reader.peek() == Some(b'*') {
            // A negative precision means none.
            let precision = usize::try_from(width(reader, arguments)).ok();
            found.precision = precision.map(|precision| precision.min(LIMIT));
        } else {
            found.precision = Some(reader.number());
        }
    }
    loop {
        found.length = match (reader.peek(), found.length) {
            (Some(b'h'), Length::Short) => Length::Char,
            (Some(b'h'), _) => Length::Short,
            // A `long double` is a `double` here.
            (Some(b'l' | b'j' | b'z' | b't' | b'q' | b'L'), _) => Length::Long,
            _ => return found,
        };
        reader.next();
    }
}

/// Converts one argument; false if there is no such conversion.
fn convert(
    output: &mut Counted<'_>,
    conversion: u8,
    specification: Specification,
    arguments: &mut dyn Arguments,
) -> bool {
    // `S` and `C` are old names of `ls` and `lc`.
    let (conversion, length) = match conversion {
        b'S' | b'C' => (conversion.to_ascii_lowercase(), Length::Long),
        _ => (conversion, specification.length),
    };
    let mut integer = || arguments.integer(length == Length::Long);
    match conversion {
        b'd' | b'i' => {
            let value = length.signed(integer());
            let sign = sign(specification, value < 0);
            digits(output, specification, sign, value.unsigned_abs(), Base::Ten);
        }
        b'u' => digits(
            output,
            specification,
            "",
            length.unsigned(integer()),
            Base::Ten,
        ),
        b'o' => digits(
            output,
            specification,
            "",
            length.unsigned(integer()),
            Base::Eight,
        ),
        b'x' | b'X' => {
            let value = length.unsigned(integer());
            let upper = conversion == b'X';
            let prefix = match (specification.alternate && value != 0, upper) {
                (false, _) => "",
                (true, false) => "0x",
                (true, true) => "0X",
            };
            digits(
                output,
                specification,
                prefix,
                value,
                Base::Sixteen { upper },
            );
        }
        b'p' => match arguments.pointer() {
            0 => pad(output, specification, b"(nil)"),
            value => pad(output, specification, format!("{value:#x}").as_bytes()),
        },
        b'c' if length == Length::Long => match char::from_u32(arguments.integer(false) as u32) {
            Some(wide) => pad(output, specification, String::from(wide).as_bytes()),
            None => arguments.refuse(),
        },
        b'c' => pad(output, specification, &[integer() as u8]),
        b's' => match arguments.pointer() {
            0 => pad(output, specification, b"(null)"),
            pointer => {
                let text = match length {
                    Length::Long => arguments.wide_string(pointer, specification.precision),
                    _ => arguments.string(pointer, specification.precision),
                };
                pad(output, specification, &text);
            }
        },
        b'm' => {
            let text = arguments.error_message();
            pad(output, specification, &text);
        }
        b'n' => {
            let pointer = arguments.pointer();
            arguments.store(pointer, length.bytes(), output.count as i64);
        }
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
            let value = arguments.double();
            float(output, specification, conversion, value);
        }
        b'%' => output.put(b"%"),
        _ => return false,
    }
    true
}

fn sign(specification: Specification, negative: bool) -> &'static str {
    match (negative, specification.plus, specification.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        (false, false, false) => "",
    }
}

/// Writes text, filled up with spaces to the width.
fn pad(output: &mut Counted<'_>, specification: Specification, text: &[u8]) {
    let fill = specification.width.saturating_sub(text.len());
    if !specification.left {
        output.repeat(b' ', fill);
    }
    output.put(text);
    if specification.left {
        output.repeat(b' ', fill);
    }
}

enum Base {
    Eight,
    Ten,
    Sixteen { upper: bool },
}

fn digits(
    output: &mut Counted<'_>,
    specification: Specification,
    prefix: &str,
    value: u64,
    base: Base,
) {
    let mut text = match base {
        _ if value == 0 && specification.precision == Some(0) => String::new(),
        Base::Eight => format!("{value:o}"),
        Base::Ten => format!("{value}"),
        Base::Sixteen { upper: false } => format!("{value:x}"),
        Base::Sixteen { upper: true } => format!("{value:X}"),
    };
    if matches!(base, Base::Eight) && specification.alternate && !text.starts_with('0') {
        text.insert(0, '0');
    }
    let zeros = match specification.precision {
        Some(precision) => precision.saturating_sub(text.len()),
        None if specification.zero && !specification.left => specification
            .width
            .saturating_sub(prefix.len() + text.len()),
        None => 0,
    };
    let fill = specification
        .width
        .saturating_sub(prefix.len() + zeros + text.len());
    if !specification.left {
        output.repeat(b' ', fill);
    }
    output.put(prefix.as_bytes());
    output.repeat(b'0', zeros);
    output.put(text.as_bytes());
    if specification.left {
        output.repeat(b' ', fill);
    }
}

fn float(output: &mut Counted<'_>, specification: Specification, conversion: u8, value: f64) {
    let upper = conversion.is_ascii_uppercase();
    let sign = sign(specification, value.is_sign_negative());
    let magnitude = value.abs();
    let wanted = specification
        .precision
        .map(|digits| digits.min(MOST_DIGITS));
    let (mut prefix, mut text) = (sign, String::new());
    if magnitude.is_nan() {
        text.push_str("nan");
    } else if magnitude.is_infinite() {
        text.push_str("inf");
    } else {
        let precision = wanted.unwrap_or(6);
        let alternate = specification.alternate;
        text = match conversion.to_ascii_lowercase() {
            b'f' => fixed(magnitude, precision, alternate),
            b'e' => scientific(magnitude, precision, alternate),
            b'g' => general(magnitude, precision.max(1), alternate),
            _ => {
                prefix = match sign {
                    "-" => "-0x",
                    "+" => "+0x",
                    " " => " 0x",
                    _ => "0x",
                };
                hexadecimal(magnitude, wanted, alternate)
            }
        };
    }
    let mut prefix = String::from(prefix);
    if upper {
        text.make_ascii_uppercase();
        prefix.make_ascii_uppercase();
    }
    let fill = specification
        .width
        .saturating_sub(prefix.len() + text.len());
    let zero = specification.zero && !specification.left && magnitude.is_finite();
    if !specification.left && !zero {
        output.repeat(b' ', fill);
    }
    output.put(prefix.as_bytes());
    if zero {
        output.repeat(b'0', fill);
    }
    output.put(text.as_bytes());
    if specification.left {
        output.repeat(b' ', fill);
    }
}

/// The most digits behind the point that the standard library is asked for: it writes at most
/// 65535. All others are 0.
const LONGEST: usize = 1 << 15;

fn fixed(value: f64, precision: usize, alternate: bool) -> String {
    let shown = precision.min(LONGEST);
    let mut text = format!("{value:.shown$}");
    if precision == 0 && alternate {
        text.push('.');
    }
    text.extend(core::iter::repeat_n('0', precision - shown));
    text
}

/// The digits as `d.ddd`, at most [`LONGEST`] behind the point, and the decimal exponent.
fn normalized(value: f64, precision: usize) -> (String, i32) {
    let precision = precision.min(LONGEST);
    let text = format!("{value:.precision$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => (String::from(digits), exponent.parse().unwrap_or(0)),
        None => (text, 0),
    }
}

fn scientific(value: f64, precision: usize, alternate: bool) -> String {
    let (mut digits, exponent) = normalized(value, precision);
    if precision == 0 && alternate {
        digits.push('.');
    }
    digits.extend(core::iter::repeat_n('0', precision.saturating_sub(LONGEST)));
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn general(value: f64, precision: usize, alternate: bool) -> String {
    let (_, exponent) = normalized(value, precision - 1);
    let scale = precision as i32;
    let (mut mantissa, exponent) = if (-4..scale).contains(&exponent) {
        let places = (scale - 1 - exponent) as usize;
        (fixed(value, places, alternate), None)
    } else {
        let text = scientific(value, precision - 1, alternate);
        let at = text.find('e').unwrap_or(text.len());
        (String::from(&text[..at]), Some(String::from(&text[at..])))
    };
    if !alternate && mantissa.contains('.') {
        let kept = mantissa.trim_end_matches('0').trim_end_matches('.').len();
        mantissa.truncate(kept);
    }
    mantissa + exponent.as_deref().unwrap_or("")
}

/// `h.hhhp±d`, without the `0x`.
fn hexadecimal(value: f64, precision: Option<usize>, alternate: bool) -> String {
    const FRACTION: u32 = 52;
    let bits = value.to_bits();
    let (mut mantissa, exponent) = match bits >> FRACTION {
        0 if bits == 0 => (0, 0),
        0 => (bits, -1022),
        biased => (
            bits & ((1 << FRACTION) - 1) | 1 << FRACTION,
            biased as i32 - 1023,
        ),
    };
    let mut digits = 13;
    if let Some(wanted) = precision.filter(|wanted| *wanted < 13) {
        // Rounds half to even at the last digit that is kept.
        let dropped = 4 * (13 - wanted as u32);
        let (rest, half) = (mantissa & ((1 << dropped) - 1), 1 << (dropped - 1));
        mantissa >>= dropped;
        mantissa += u64::from(rest > half || rest == half && mantissa & 1 == 1);
        digits = wanted;
    }
    let shift = 4 * digits as u32;
    let (whole, fraction) = (mantissa >> shift, mantissa & ((1_u64 << shift) - 1));
    let mut tail = if digits == 0 {
        String::new()
    } else {
        format!("{fraction:0digits$x}")
    };
    match precision {
        Some(precision) => tail.extend(core::iter::repeat_n('0', precision - digits)),
        None => tail.truncate(tail.trim_end_matches('0').len()),
    }
    let point = if tail.is_empty() && !alternate {
        ""
    } else {
        "."
    };
    format!("{whole:x}{point}{tail}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::{Arguments, print};

    enum Value {
        Integer(i64),
        Double(f64),
        Text(&'static str),
    }

    struct List {
        values: std::collections::VecDeque<Value>,
        stored: Vec<(usize, i64)>,
        text: &'static str,
    }

    impl Arguments for List {
        fn select(&mut self, _number: usize) {
            panic!("a list is read in order");
        }
        fn integer(&mut self, wide: bool) -> i64 {
            match self.values.pop_front() {
                Some(Value::Integer(value)) if wide => value,
                Some(Value::Integer(value)) => i64::from(value as i32),
                _ => panic!("an integer was expected"),
            }
        }
        fn double(&mut self) -> f64 {
            match self.values.pop_front() {
                Some(Value::Double(value)) => value,
                _ => panic!("a double was expected"),
            }
        }
        fn pointer(&mut self) -> usize {
            match self.values.pop_front() {
                Some(Value::Integer(value)) => value as usize,
                Some(Value::Text(text)) => {
                    self.text = text;
                    1
                }
                _ => panic!("a pointer was expected"),
            }
        }
        fn string(&mut self, _: usize, limit: Option<usize>) -> Vec<u8> {
            let limit = limit.unwrap_or(usize::MAX).min(self.text.len());
            self.text.as_bytes()[..limit].to_vec()
        }
        fn wide_string(&mut self, pointer: usize, limit: Option<usize>) -> Vec<u8> {
            self.string(pointer, limit)
        }
        fn store(&mut self, _: usize, bytes: usize, count: i64) {
            self.stored.push((bytes, count));
        }
        fn error_message(&mut self) -> Vec<u8> {
            b"No such device".to_vec()
        }
        fn refuse(&mut self) {
            self.stored.push((0, -1));
        }
    }

    fn list(values: Vec<Value>) -> List {
        List {
            values: values.into(),
            stored: Vec::new(),
            text: "",
        }
    }

    fn check(format: &str, values: Vec<Value>, expected: &str) {
        let mut output = Vec::new();
        let mut arguments = list(values);
        let count = print(&mut output, format.as_bytes(), &mut arguments);
        assert_eq!(String::from_utf8_lossy(&output), expected, "{format}");
        assert_eq!(count, expected.len(), "{format}");
        assert!(arguments.values.is_empty(), "{format} left arguments");
    }

    // The output of glibc for the same calls.
    #[test]
    fn integers() {
        use Value::Integer as I;
        check(
            "%d|%5d|%-5d|%05d",
            vec![I(1), I(-2), I(3), I(-4)],
            "1|   -2|3    |-0004",
        );
        check(
            "%+d % d %.3d %.0d|",
            vec![I(5), I(6), I(7), I(0)],
            "+5  6 007 |",
        );
        check(
            "%u %x %X %#x %#o",
            vec![I(-1), I(255), I(255), I(255), I(8)],
            "4294967295 ff FF 0xff 010",
        );
        check(
            "%lu %ld %zx",
            vec![I(-1), I(i64::MIN), I(4096)],
            "18446744073709551615 -9223372036854775808 1000",
        );
        check(
            "%hhd %hhu %hd",
            vec![I(200), I(-1), I(70000)],
            "-56 255 4464",
        );
        check(
            "%*d|%-*d|%.*d",
            vec![I(4), I(1), I(3), I(2), I(2), I(3)],
            "   1|2  |03",
        );
        check(
            "%08.3x|%#08x|%#x",
            vec![I(10), I(10), I(0)],
            "     00a|0x00000a|0",
        );
    }

    #[test]
    fn texts() {
        use Value::{Integer as I, Text};
        check(
            "%s|%5s|%-5s|%.2s",
            vec![Text("ab"), Text("cd"), Text("ef"), Text("ghi")],
            "ab|   cd|ef   |gh",
        );
        check(
            "%s %p %p",
            vec![I(0), I(0), I(0x1000)],
            "(null) (nil) 0x1000",
        );
        check("%c%c %% %m", vec![I(104), I(105)], "hi % No such device");
        check("%y %", vec![], "%y %");
        check("%C|%S|%d", vec![I(0xe9), Text("ab"), I(1)], "é|ab|1");
        let mut arguments = list(vec![I(0xd800)]);
        print(&mut Vec::new(), b"%lc", &mut arguments);
        assert_eq!(arguments.stored, [(0, -1)]);
    }

    #[test]
    fn long_texts_are_whole() {
        const LENGTH: usize = (1 << 20) + 5;
        for format in ["%*d", "%.*d"] {
            let mut arguments = list(vec![Value::Integer(LENGTH as i64), Value::Integer(1)]);
            let count = print(&mut Vec::new(), format.as_bytes(), &mut arguments);
            assert_eq!(count, LENGTH, "{format}");
        }
        let count = print(
            &mut Vec::new(),
            b"%1048581d",
            &mut list(vec![Value::Integer(1)]),
        );
        assert_eq!(count, LENGTH);
    }

    #[test]
    fn floats() {
        use Value::Double as D;
        check(
            "%f %.2f %.0f %5.1f|%-7.2f|",
            vec![D(1.5), D(2.345), D(0.5), D(9.95), D(1.0)],
            "1.500000 2.35 0   9.9|1.00   |",
        );
        check(
            "%e %.0e %E",
            vec![D(12345.678), D(5e-10), D(0.0)],
            "1.234568e+04 5e-10 0.000000E+00",
        );
        check(
            "%g %g %g %g %g",
            vec![D(0.0001), D(0.00001), D(123456.0), D(1234567.0), D(100.0)],
            "0.0001 1e-05 123456 1.23457e+06 100",
        );
        check(
            "%#g %.3g %G",
            vec![D(1.0), D(2.0), D(1e-10)],
            "1.00000 2 1E-10",
        );
        check(
            "%f %5.1f %+f %08.2f",
            vec![D(f64::INFINITY), D(f64::NAN), D(0.0), D(-3.13784)],
            "inf   nan +0.000000 -0003.14",
        );
        check(
            "%a %.1a %A",
            vec![D(1.0), D(3.1), D(0.1)],
            "0x1p+0 0x1.9p+1 0X1.999999999999AP-4",
        );
    }

    #[test]
    fn counts_are_stored_with_their_length() {
        let mut output = Vec::new();
        let mut arguments = list(vec![Value::Integer(1), Value::Integer(1)]);
        print(&mut output, b"abc%nd%hhn", &mut arguments);
        assert_eq!(arguments.stored, [(4, 3), (1, 4)]);
    }
}
