//! The conversions of `scanf`: reads values from text.

use alloc::vec::Vec;

use crate::format::MOST_NUMBERED;
use crate::number;

/// A source of text: one byte at a time, with one byte of lookahead.
pub trait Input {
    /// The next byte, which is not taken yet.
    fn peek(&mut self) -> Option<u8>;
    /// Takes the next byte.
    fn take(&mut self);
}

/// The destinations of values: the pointers that the caller of `scanf` passes, in order.
pub trait Targets {
    /// Makes the pointer of this number the next one; the first has number 1.
    fn select(&mut self, number: usize);
    /// Stores the address of new memory with a copy of the bytes and a zero byte behind them, which
    /// the program frees. False if there is no memory.
    fn allocated(&mut self, bytes: &[u8]) -> bool;
    /// Stores an integer in `bytes` bytes at the next pointer.
    fn integer(&mut self, value: i64, bytes: usize);
    /// Stores a `double`.
    fn double(&mut self, value: f64);
    /// Stores a `float`.
    fn single(&mut self, value: f32);
    /// Stores bytes, followed by a zero byte if `terminated`.
    fn text(&mut self, bytes: &[u8], terminated: bool);
}

/// Input from memory.
pub struct Bytes<'a>(pub &'a [u8]);

impl Input for Bytes<'_> {
    fn peek(&mut self) -> Option<u8> {
        self.0.first().copied()
    }

    fn take(&mut self) {
        self.0 = self.0.get(1..).unwrap_or(&[]);
    }
}

/// Counts the bytes that are taken.
struct Counted<'a> {
    input: &'a mut dyn Input,
    taken: usize,
}

impl Counted<'_> {
    fn peek(&mut self) -> Option<u8> {
        self.input.peek()
    }

    fn take(&mut self) {
        self.input.take();
        self.taken += 1;
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(number::is_space) {
            self.take();
        }
    }

    /// Takes bytes as long as `wanted` accepts them, at most `limit`.
    fn collect(&mut self, limit: usize, mut wanted: impl FnMut(u8) -> bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < limit
            && let Some(byte) = self.peek()
            && wanted(byte)
        {
            bytes.push(byte);
            self.take();
        }
        bytes
    }
}

/// How a conversion ended.
enum End {
    Assigned,
    Nothing,
    Mismatch,
    OutOfInput,
}

/// Reads `input` according to `format`. Returns the number of values stored, or -1 if the input
/// ended before the first value.
pub fn scan(input: &mut dyn Input, format: &[u8], targets: &mut dyn Targets) -> i32 {
    let mut input = Counted { input, taken: 0 };
    let mut format = Bytes(format);
    let mut assigned = 0;
    while let Some(byte) = format.peek() {
        format.take();
        let end = if number::is_space(byte) {
            input.skip_spaces();
            End::Nothing
        } else if byte == b'%' {
            conversion(&mut input, &mut format, targets)
        } else {
            literal(&mut input, byte)
        };
        match end {
            End::Assigned => assigned += 1,
            End::Nothing => {}
            End::Mismatch => return assigned,
            End::OutOfInput if assigned == 0 => return -1,
            End::OutOfInput => return assigned,
        }
    }
    assigned
}

fn literal(input: &mut Counted<'_>, byte: u8) -> End {
    match input.peek() {
        Some(found) if found == byte => {
            input.take();
            End::Nothing
        }
        Some(_) => End::Mismatch,
        None => End::OutOfInput,
    }
}

/// What `%p` writes for a null pointer.
const NULL: &[u8] = b"(nil)";

/// A conversion, from its `%` to its letter, and the set of `%[…]`.
struct Specification {
    /// The number of the pointer, if the format gives one (`%2$d`).
    number: Option<usize>,
    /// `m`: text is stored in new memory, whose address goes to the pointer.
    allocates: bool,
    /// `*`: the value is not stored.
    suppressed: bool,
    /// The most bytes to take; 0 if not given.
    width: usize,
    /// The size of the integer at the pointer; 8 also stands for `double`.
    bytes: usize,
    /// The letter of the conversion.
    letter: u8,
    /// The set of bytes that `%[…]` takes; empty for other letters.
    set: Set,
}

impl Specification {
    /// Reads a specification from `format`, just after the `%`; `None` if the format ends before
    /// the letter.
    fn read(format: &mut Bytes<'_>) -> Option<Self> {
        let found = number::integer(format.0, 10);
        let number = (format.0.get(found.length) == Some(&b'$'))
            .then(|| usize::try_from(found.magnitude).ok())
            .flatten()
            .filter(|number| (1..=MOST_NUMBERED).contains(number));
        if number.is_some() {
            format.0 = &format.0[found.length + 1..];
        }
        // `'` is for groups of digits, which the locale "C" does not have.
        let is_flag = |format: &mut Bytes<'_>| {
            let is_quote = format.peek() == Some(b'\'');
            if is_quote {
                format.take();
            }
            is_quote
        };
        while is_flag(format) {}
        let suppressed = format.peek() == Some(b'*');
        if suppressed {
            format.take();
        }
        while is_flag(format) {}
        let mut width = 0;
        if format.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            let number = number::integer(format.0, 10);
            format.0 = &format.0[number.length..];
            width = usize::try_from(number.magnitude).unwrap_or(usize::MAX);
        }
        let allocates = format.peek() == Some(b'm');
        if allocates {
            format.take();
        }
        let mut bytes = 4;
        while let Some(letter @ (b'h' | b'l' | b'j' | b'z' | b't' | b'q' | b'L')) = format.peek() {
            bytes = match (letter, bytes) {
                (b'h', 2) => 1,
                (b'h', _) => 2,
                _ => 8,
            };
            format.take();
        }
        let letter = format.peek()?;
        format.take();
        let set = if letter == b'[' {
            Set::read(format)
        } else {
            Set::default()
        };
        Some(Specification {
            number,
            allocates,
            suppressed,
            width,
            bytes,
            letter,
            set,
        })
    }

    /// The most bytes to take.
    fn limit(&self) -> usize {
        if self.width == 0 {
            usize::MAX
        } else {
            self.width
        }
    }

    /// Stores the value by calling `store`, unless the conversion is suppressed.
    fn assign(&self, targets: &mut dyn Targets, store: impl FnOnce(&mut dyn Targets)) -> End {
        if self.suppressed {
            return End::Nothing;
        }
        if let Some(number) = self.number {
            targets.select(number);
        }
        store(targets);
        End::Assigned
    }

    /// Stores text, in new memory if the conversion asks for that.
    fn assign_text(&self, targets: &mut dyn Targets, text: &[u8], terminated: bool) -> End {
        let mut has_memory = true;
        let end = self.assign(targets, |targets| match self.allocates {
            true => has_memory = targets.allocated(text),
            false => targets.text(text, terminated),
        });
        // As where a read fails.
        if has_memory { end } else { End::OutOfInput }
    }

    /// `%d`, `%i`, `%u`, `%x`, `%X`, `%o`, `%p`.
    fn integer(&self, input: &mut Counted<'_>, targets: &mut dyn Targets) -> End {
        let base = match self.letter {
            b'd' | b'u' => 10,
            b'o' => 8,
            b'i' => 0,
            _ => 16,
        };
        if self.letter == b'p' && input.peek() == Some(b'(') && self.limit() >= NULL.len() {
            for wanted in NULL {
                match input.peek() {
                    Some(byte) if byte.to_ascii_lowercase() == *wanted => input.take(),
                    _ => return End::Mismatch,
                }
            }
            return self.assign(targets, |targets| targets.integer(0, 8));
        }
        let text = input.collect(self.limit(), number::integer_parts(base));
        let found = number::integer(&text, base);
        if found.length == 0 || found.length != text.len() {
            return End::Mismatch;
        }
        let value = match self.letter {
            b'd' | b'i' => found.signed().0,
            _ => found.unsigned().0 as i64,
        };
        let bytes = if self.letter == b'p' { 8 } else { self.bytes };
        self.assign(targets, |targets| targets.integer(value, bytes))
    }

    /// `%f`, `%e`, `%g`, `%a`, in lower or upper case.
    fn float(&self, input: &mut Counted<'_>, targets: &mut dyn Targets) -> End {
        let text = input.collect(self.limit(), number::float_parts());
        let (value, length) = number::float(&text);
        if length == 0 || length != text.len() {
            return End::Mismatch;
        }
        self.assign(targets, |targets| match self.bytes {
            8 => targets.double(value),
            _ => targets.single(number::single(&text).0),
        })
    }

    /// `%c`: exactly as many bytes as the width, spaces included, without a zero byte.
    fn characters(&self, input: &mut Counted<'_>, targets: &mut dyn Targets) -> End {
        let wanted = self.width.max(1);
        let text = input.collect(wanted, |_| true);
        if text.len() < wanted {
            return End::OutOfInput;
        }
        self.assign_text(targets, &text, false)
    }

    /// `%s`: the bytes up to the next space.
    fn word(&self, input: &mut Counted<'_>, targets: &mut dyn Targets) -> End {
        let text = input.collect(self.limit(), |byte| !number::is_space(byte));
        self.assign_text(targets, &text, true)
    }

    /// `%[…]`.
    fn members(&self, input: &mut Counted<'_>, targets: &mut dyn Targets) -> End {
        let text = input.collect(self.limit(), |byte| self.set.contains(byte));
        if text.is_empty() {
            return End::Mismatch;
        }
        self.assign_text(targets, &text, true)
    }
}

fn conversion(input: &mut Counted<'_>, format: &mut Bytes<'_>, targets: &mut dyn Targets) -> End {
    let Some(specification) = Specification::read(format) else {
        return End::Mismatch;
    };
    match specification.letter {
        b'n' => {
            let taken = input.taken as i64;
            specification.assign(targets, |targets| {
                targets.integer(taken, specification.bytes)
            });
            // It does not count as a value.
            return End::Nothing;
        }
        b'c' | b'[' => {}
        b'%' => {
            input.skip_spaces();
            return literal(input, b'%');
        }
        _ => input.skip_spaces(),
    }
    if input.peek().is_none() {
        return End::OutOfInput;
    }
    match specification.letter {
        b'd' | b'i' | b'u' | b'x' | b'X' | b'o' | b'p' => specification.integer(input, targets),
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
            specification.float(input, targets)
        }
        b's' => specification.word(input, targets),
        b'c' => specification.characters(input, targets),
        b'[' => specification.members(input, targets),
        _ => End::Mismatch,
    }
}

/// The set of bytes of `%[…]`.
struct Set {
    members: [bool; 256],
}

impl Default for Set {
    fn default() -> Self {
        Set {
            members: [false; 256],
        }
    }
}

impl Set {
    fn read(format: &mut Bytes<'_>) -> Set {
        let mut set = Set::default();
        let inverted = format.peek() == Some(b'^');
        if inverted {
            format.take();
        }
        let mut first = true;
        let mut last = None;
        while let Some(byte) = format.peek() {
            format.take();
            let range = byte == b'-' && !matches!(format.peek(), None | Some(b']'));
            match (byte, last) {
                (b']', _) if !first => break,
                (b'-', Some(from)) if range => {
                    let to = format.peek().unwrap_or(from);
                    format.take();
                    set.members[usize::from(from)..=usize::from(to).max(usize::from(from))]
                        .fill(true);
                    last = None;
                }
                _ => {
                    set.members[usize::from(byte)] = true;
                    last = Some(byte);
                }
            }
            first = false;
        }
        if inverted {
            set.members.iter_mut().for_each(|member| *member = !*member);
        }
        set
    }

    fn contains(&self, byte: u8) -> bool {
        self.members[usize::from(byte)]
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Targets, scan};

    #[derive(Default)]
    struct List(Vec<String>);

    impl Targets for List {
        fn select(&mut self, number: usize) {
            self.0.push(format!("{number}$"));
        }
        fn allocated(&mut self, bytes: &[u8]) -> bool {
            self.0
                .push(format!("{}:allocated", String::from_utf8_lossy(bytes)));
            bytes != b"full"
        }
        fn integer(&mut self, value: i64, bytes: usize) {
            self.0.push(format!("{value}:{bytes}"));
        }
        fn double(&mut self, value: f64) {
            self.0.push(format!("{value}:true"));
        }
        fn single(&mut self, value: f32) {
            self.0.push(format!("{value}:false"));
        }
        fn text(&mut self, bytes: &[u8], terminated: bool) {
            self.0
                .push(format!("{}:{terminated}", String::from_utf8_lossy(bytes)));
        }
    }

    fn check(text: &str, format: &str, count: i32, values: &[&str]) {
        let mut list = List::default();
        let found = scan(&mut Bytes(text.as_bytes()), format.as_bytes(), &mut list);
        assert_eq!(
            (found, list.0),
            (count, values.iter().map(|v| v.to_string()).collect())
        );
    }

    // The results of glibc for the same calls.
    #[test]
    fn as_the_standard_says() {
        check("12 -7 0x1f", "%d%i %x", 3, &["12:4", "-7:4", "31:4"]);
        check("1/2050", "%hu/%lu%n", 2, &["1:2", "2050:8", "6:4"]);
        check(
            "abc def",
            "%2s%c %s",
            3,
            &["ab:true", "c:false", "def:true"],
        );
        check("key=value", "%[a-z]=%[^x]", 2, &["key:true", "value:true"]);
        check("1.5e2 2", "%lf %f", 2, &["150:true", "2:false"]);
        check("5 6", "%*d %d", 1, &["6:4"]);
        check("x", "%d", 0, &[]);
        check("", "%d", -1, &[]);
        check("  ", "%d", -1, &[]);
        check("12", "%d%d", 1, &["12:4"]);
        check("10%", "%d%%", 1, &["10:4"]);
        check("123456", "%3d%d", 2, &["123:4", "456:4"]);
        check("-", "%d", 0, &[]);
        check("]x", "%[]x]", 1, &["]x:true"]);
        check("5", "%*d%n", 0, &["1:4"]);
        check("12", "%d%hhn", 1, &["12:4", "2:1"]);
        check(" ab", "%3c%n", 1, &[" ab:false", "3:4"]);
        check("0x7f 9", "%p %*s", 1, &["127:8"]);
        check("1", "%d%", 1, &["1:4"]);
        check("(nil) (NIL)5", "%p%p%d", 3, &["0:8", "0:8", "5:4"]);
        check("(nil)", "%4p", 0, &[]);
        check("(nix)", "%p", 0, &[]);
    }

    #[test]
    fn pointers_by_number_and_new_memory() {
        check("5 6", "%2$d %1$hd", 2, &["2$", "5:4", "1$", "6:2"]);
        check("5 6", "%'d %*'d", 1, &["5:4"]);
        check(
            "ab cd1",
            "%ms %m[a-z]",
            2,
            &["ab:allocated", "cd:allocated"],
        );
        check(
            "abc",
            "%1$2mc%m[^x]",
            2,
            &["1$", "ab:allocated", "c:allocated"],
        );
        check("ab 5", "%*ms %d", 1, &["5:4"]);
        check("full 5", "%ms %d", -1, &["full:allocated"]);
        check("5", "$%d", 0, &[]);
    }

    #[test]
    fn floating_point_numbers_of_every_form() {
        check("0x1.8p1 2", "%lf%d", 2, &["3:true", "2:4"]);
        check("0x.1p4    012", "%lf%n %i", 2, &["1:true", "6:4", "10:4"]);
        check("inf -INFINITY", "%lf%lf", 2, &["inf:true", "-inf:true"]);
        check(
            "nan NaN(12)x",
            "%lf%lf%c",
            3,
            &["NaN:true", "NaN:true", "x:false"],
        );
        check(
            "1.00000017881393432617187499",
            "%f",
            1,
            &["1.0000001:false"],
        );
        check("1p 2", "%lf%c", 2, &["1:true", "p:false"]);
        check("1.e1.5", "%lf%lf", 2, &["10:true", "0.5:true"]);
        // Takes what could have become a longer number, and finds no number.
        for text in [
            "0x1p 12", "0x", "10e", "10e+", "infi", "nan(", ".", "-", "+.e1",
        ] {
            check(text, "%lf", 0, &[]);
        }
    }

    #[test]
    fn long_numbers_take_a_moment() {
        let text = "1".repeat(1 << 20);
        check(&text, "%lf", 1, &["inf:true"]);
    }
}
