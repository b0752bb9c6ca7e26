//! `printf format [argument…]`, and the backslash escapes it shares with `echo -e`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Appends `text` with its escapes (`\n \t \r \a \b \f \v \e \\ \" \' \NNN \xHH`) replaced.
/// Unknown ones stay. With `echo`, octal numbers need a leading 0 as in `\0101`. Returns true
/// after `\c`, which ends all output.
pub fn escape(text: &str, echo: bool, out: &mut Vec<u8>) -> bool {
    let mut bytes = text.as_bytes();
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&kind, rest)) = bytes.split_first() else {
            out.push(b'\\');
            break;
        };
        let digits = |from: &[u8], most: usize, radix: u32| {
            from.iter()
                .take(most)
                .take_while(|b| char::from(**b).is_digit(radix))
                .count()
        };
        let value = |digits: &[u8], radix: u32| {
            digits.iter().fold(0u32, |sum, digit| {
                sum * radix + char::from(*digit).to_digit(radix).unwrap_or(0)
            }) as u8
        };
        let simple = match kind {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'e' => 27,
            b'\\' | b'"' | b'\'' => kind,
            b'c' => return true,
            b'0'..=b'7' if !echo || kind == b'0' => {
                let from = if echo { rest } else { bytes };
                let count = digits(from, 3, 8);
                out.push(value(&from[..count], 8));
                bytes = &from[count..];
                continue;
            }
            b'x' if digits(rest, 2, 16) > 0 => {
                let count = digits(rest, 2, 16);
                out.push(value(&rest[..count], 16));
                bytes = &rest[count..];
                continue;
            }
            _ => {
                out.push(b'\\');
                continue;
            }
        };
        out.push(simple);
        bytes = rest;
    }
    false
}

/// The text that `printf` writes. The format is used again while arguments are left. If there is
/// an error, the text so far must still be written.
pub fn text(format: &str, arguments: &[String]) -> (Vec<u8>, Result<(), String>) {
    let mut out = Vec::new();
    let mut arguments = arguments.iter();
    let mut result = Ok(());
    loop {
        let before = arguments.len();
        match once(format, &mut arguments, &mut out, &mut result) {
            Ok(false) if arguments.len() > 0 && arguments.len() < before => {}
            Ok(_) => return (out, result),
            Err(message) => return (out, Err(message)),
        }
    }
}

/// One pass over the format; true when `\c` in a `%b` argument ended the output.
fn once(
    format: &str,
    arguments: &mut Arguments<'_>,
    out: &mut Vec<u8>,
    result: &mut Result<(), String>,
) -> Result<bool, String> {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        if escape(&rest[..at], false, out) {
            return Ok(true);
        }
        rest = &rest[at + 1..];
        let specification = Specification::read(&mut rest, arguments)?;
        match specification.kind {
            '%' => out.push(b'%'),
            's' | 'b' | 'c' => {
                let argument = arguments.next().map_or("", String::as_str);
                if specification.string(argument, out) {
                    return Ok(true);
                }
            }
            'd' | 'i' | 'u' | 'o' | 'x' | 'X' => {
                let value = integer(arguments.next().map_or("0", String::as_str), result);
                specification.integer(value, out);
            }
            other => return Err(format!("`%{other}` is not a known conversion")),
        }
    }
    Ok(escape(rest, false, out))
}

/// The arguments that are left.
type Arguments<'a> = core::slice::Iter<'a, String>;

/// A conversion, from its `%` to its letter.
#[derive(Default)]
struct Specification {
    /// `-`: the padding is behind.
    left: bool,
    /// `0`: zeros instead of spaces before a number.
    zero: bool,
    /// `+`: a sign before numbers that are not negative, too.
    plus: bool,
    /// A space: one before numbers that are not negative.
    space: bool,
    /// `#`: `0x` or `0` before a number.
    alternate: bool,
    /// Least number of bytes; 0 if not given.
    width: usize,
    /// Least number of digits, or most bytes of a string.
    precision: Option<usize>,
    /// The letter.
    kind: char,
}

impl Specification {
    /// Parses a conversion at the beginning of `rest`, after its `%`.
    fn read(rest: &mut &str, arguments: &mut Arguments<'_>) -> Result<Self, String> {
        let start = *rest;
        let mut read = Self::default();
        while let Some(flag) = rest.bytes().next().filter(|b| b"-0+ #".contains(b)) {
            match flag {
                b'-' => read.left = true,
                b'0' => read.zero = true,
                b'+' => read.plus = true,
                b' ' => read.space = true,
                _ => read.alternate = true,
            }
            *rest = &rest[1..];
        }
        read.width = field(rest, arguments)?.unwrap_or(0);
        if let Some(after) = rest.strip_prefix('.') {
            *rest = after;
            read.precision = Some(field(rest, arguments)?.unwrap_or(0));
        }
        let Some(kind) = rest.chars().next() else {
            return Err(format!("`%{start}` ends without a conversion"));
        };
        read.kind = kind;
        *rest = &rest[kind.len_utf8()..];
        Ok(read)
    }

    /// `%s`, `%b`, `%c`; true when `\c` in the argument of `%b` ended the output.
    fn string(&self, argument: &str, out: &mut Vec<u8>) -> bool {
        let mut body = Vec::new();
        match self.kind {
            'b' => {
                if escape(argument, true, &mut body) {
                    out.extend(body);
                    return true;
                }
            }
            'c' => body.extend(argument.chars().take(1).collect::<String>().bytes()),
            _ => body.extend_from_slice(argument.as_bytes()),
        }
        if let Some(precision) = self.precision {
            body.truncate(precision);
        }
        self.pad(&body, out);
        false
    }

    /// `%d`, `%i`, `%u`, `%o`, `%x`, `%X`.
    fn integer(&self, value: i64, out: &mut Vec<u8>) {
        let digits = match self.kind {
            'd' | 'i' => value.unsigned_abs().to_string(),
            'u' => (value as u64).to_string(),
            'o' => format!("{value:o}"),
            'x' => format!("{value:x}"),
            _ => format!("{value:X}"),
        };
        let signed = matches!(self.kind, 'd' | 'i');
        let prefix = match self.kind {
            _ if signed && value < 0 => "-",
            _ if signed && self.plus => "+",
            _ if signed && self.space => " ",
            'x' if self.alternate && value != 0 => "0x",
            'X' if self.alternate && value != 0 => "0X",
            'o' if self.alternate => "0",
            _ => "",
        };
        let least = match self.precision {
            Some(precision) => precision,
            None if self.zero && !self.left => self.width.saturating_sub(prefix.len()),
            None => 1,
        };
        let mut body = Vec::from(prefix);
        body.resize(prefix.len() + least.saturating_sub(digits.len()), b'0');
        body.extend_from_slice(digits.as_bytes());
        self.pad(&body, out);
    }

    /// Appends `body`, filled with spaces to the width.
    fn pad(&self, body: &[u8], out: &mut Vec<u8>) {
        let padding = self.width.saturating_sub(body.len());
        if !self.left {
            out.resize(out.len() + padding, b' ');
        }
        out.extend_from_slice(body);
        if self.left {
            out.resize(out.len() + padding, b' ');
        }
    }
}

/// The widest field. A wider one is a mistake and must not use up the memory.
const MAX_WIDTH: usize = 4096;

/// Digits, or `*` for the next argument.
fn field(rest: &mut &str, arguments: &mut Arguments<'_>) -> Result<Option<usize>, String> {
    let text = if let Some(after) = rest.strip_prefix('*') {
        *rest = after;
        arguments.next().map_or("0", String::as_str)
    } else {
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, after) = rest.split_at(length);
        *rest = after;
        digits
    };
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(width) if width <= MAX_WIDTH => Ok(Some(width)),
        _ => Err(format!(
            "field width `{text}` is not a number from 0 to {MAX_WIDTH}"
        )),
    }
}

/// Decimal, `0x…`, `0…`, or `'c` for the number of a character. Remembers an error and goes on
/// with 0.
fn integer(text: &str, result: &mut Result<(), String>) -> i64 {
    let trimmed = text.trim();
    if let Some(character) = trimmed.strip_prefix(['\'', '"']) {
        return character
            .chars()
            .next()
            .map_or(0, |c| i64::from(u32::from(c)));
    }
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let value = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else if digits.is_empty() {
        Ok(0)
    } else {
        digits.parse()
    };
    match value {
        Ok(value) if negative => (value as i64).wrapping_neg(),
        Ok(value) => value as i64,
        Err(_) => {
            *result = Err(format!("`{text}` is not a number"));
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(format: &str, arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|a| a.to_string()).collect();
        let (out, result) = text(format, &arguments);
        let out = String::from_utf8_lossy(&out).into_owned();
        match result {
            Ok(()) => out,
            Err(message) => out + "!" + &message,
        }
    }

    #[test]
    fn conversions() {
        assert_eq!(print("%s=%d\\n", &["a", "5"]), "a=5\n");
        assert_eq!(
            print("%5s|%-5s|%.2s\\n", &["ab", "cd", "efg"]),
            "   ab|cd   |ef\n"
        );
        assert_eq!(
            print(
                "%05d %x %X %#x %o %+d",
                &["-42", "255", "255", "16", "8", "3"]
            ),
            "-0042 ff FF 0x10 10 +3"
        );
        assert_eq!(print("%s\\n", &["a", "b", "c"]), "a\nb\nc\n");
        assert_eq!(print("%c%c%%", &["hello", "w"]), "hw%");
        assert_eq!(print("%b", &["a\\tb\\0101"]), "a\tbA");
        assert_eq!(print("\\101\\x42", &[]), "AB");
        assert_eq!(print("%d %d", &["0x10", "'A"]), "16 65");
        assert_eq!(print("%*d", &["5", "42"]), "   42");
        assert_eq!(print("%.3d", &["7"]), "007");
        assert_eq!(print("[%s] [%d]", &[]), "[] [0]");
        assert_eq!(print("%b%s", &["x\\cy", "z"]), "x");
        assert_eq!(
            print("[%-6d|% d|%-05d|%+.4d]", &["-7", "7", "8", "9"]),
            "[-7    | 7|8    |+0009]"
        );
        assert_eq!(
            print("%#o %#X %X %u %i", &["8", "255", "-1", "-1", "-1"]),
            "010 0XFF FFFFFFFFFFFFFFFF 18446744073709551615 -1"
        );
    }

    #[test]
    fn errors_keep_the_text_before_them() {
        assert_eq!(print("%d!", &["x1"]), "0!!`x1` is not a number");
        assert_eq!(print("a%q", &[]), "a!`%q` is not a known conversion");
        assert_eq!(print("a%-", &[]), "a!`%-` ends without a conversion");
        assert!(print("%999999999d", &["1"]).contains("is not a number from 0 to 4096"));
        assert!(print("%99999999999999999999d", &["1"]).contains("field width"));
        assert!(print("%*d", &["-5", "1"]).contains("field width"));
    }

    #[test]
    fn a_format_without_conversions_ends() {
        assert_eq!(print("x", &["a", "b"]), "x");
        assert_eq!(print("", &["a"]), "");
    }
}
