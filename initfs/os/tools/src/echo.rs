//! `echo [-n] [-e] [word…]`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::printf::escape;

/// Returns the output of `echo` for these arguments, without the program's name. `-n` leaves out
/// the line end, `-e` turns backslash escapes on, and `-E` turns them off (the default).
pub fn text(arguments: &[String]) -> Vec<u8> {
    let mut newline = true;
    let mut escapes = false;
    let mut words = arguments;
    while let Some((first, rest)) = words.split_first() {
        let flags = first.strip_prefix('-').unwrap_or("");
        if flags.is_empty() || !flags.bytes().all(|b| b"neE".contains(&b)) {
            break;
        }
        for flag in flags.bytes() {
            match flag {
                b'n' => newline = false,
                b'e' => escapes = true,
                _ => escapes = false,
            }
        }
        words = rest;
    }
    let mut out = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        if escapes {
            if escape(word, true, &mut out) {
                return out;
            }
        } else {
            out.extend_from_slice(word.as_bytes());
        }
    }
    if newline {
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn options_and_escapes() {
        let cases: &[(&[&str], &str)] = &[
            (&[], "\n"),
            (&["a", "", "b"], "a  b\n"),
            (&["-n", "a"], "a"),
            (&["-nx", "a"], "-nx a\n"),
            (&["a\\tb"], "a\\tb\n"),
            (&["-e", "a\\tb\\x41\\0101\\q"], "a\tbAA\\q\n"),
            (&["-e", "a\\cb", "d"], "a"),
            (&["-ne", "\\\\"], "\\"),
            (&["-", "-n"], "- -n\n"),
        ];
        for (arguments, expected) in cases {
            let arguments: Vec<String> = arguments.iter().map(|a| a.to_string()).collect();
            assert_eq!(text(&arguments), expected.as_bytes(), "{arguments:?}");
        }
    }
}
