//! `regex.h`: regular expressions.

use alloc::boxed::Box;
use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use patterns::expression::Wrong;

use crate::expressions::{Compiled, Failure, Rules};
use crate::strings;

// The flags of `regexec`, as in relibc, which has no REG_STARTEND.
const REG_NOTBOL: c_int = 16;
const REG_NOTEOL: c_int = 32;
const REG_STARTEND: c_int = 64;

/// The errors, with relibc's numbers.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Error {
    NoMatch = 1,
    BadPat = 2,
    ECollate = 3,
    ECType = 4,
    EEscape = 5,
    ESubreg = 6,
    EBrack = 7,
    EParen = 9,
    EBrace = 10,
    BadBr = 11,
    ERange = 12,
    ESpace = 13,
    BadRpt = 14,
}

/// The texts of the errors, by their numbers.
const TEXTS: [&str; 15] = [
    "No error",
    "No match",
    "Invalid regular expression",
    "Invalid collation character",
    "Invalid character class name",
    "Trailing backslash",
    "References back are not supported",
    "Unmatched [, [^, [:, [., or [=",
    "Not supported",
    "Unmatched ( or \\(",
    "Unmatched { or \\{",
    "Invalid content of {} or \\{\\}",
    "Invalid range end",
    "Regular expression too big",
    "Invalid preceding regular expression",
];

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Text => Error::BadPat,
            Failure::Space | Failure::Wrong(Wrong::Depth) => Error::ESpace,
            Failure::Wrong(wrong) => match wrong {
                Wrong::Escape => Error::EEscape,
                Wrong::BackReference => Error::ESubreg,
                Wrong::Bracket => Error::EBrack,
                Wrong::Class => Error::ECType,
                Wrong::Collation => Error::ECollate,
                Wrong::Range => Error::ERange,
                Wrong::Parenthesis => Error::EParen,
                Wrong::Brace => Error::EBrace,
                Wrong::Interval => Error::BadBr,
                Wrong::Repetition => Error::BadRpt,
                Wrong::Depth => Error::ESpace,
            },
        }
    }
}

/// C's `regex_t`.
#[repr(C)]
struct Regex {
    groups: usize,
    /// From a box; null if nothing is compiled.
    compiled: *mut Compiled,
}

/// C's `regmatch_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Match {
    begin: isize,
    end: isize,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn regcomp(regex: *mut Regex, text: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's string.
    let text = unsafe { strings::bytes(text) };
    let (made, error) = match Compiled::new(text, Rules::from_bits_truncate(flags)) {
        Ok(compiled) => {
            let groups = compiled.groups();
            let compiled = Box::into_raw(Box::new(compiled));
            (Regex { groups, compiled }, 0)
        }
        Err(failure) => {
            let nothing = Regex {
                groups: 0,
                compiled: null_mut(),
            };
            (nothing, Error::from(failure) as c_int)
        }
    };
    // SAFETY: the caller's structure, in which nothing counts yet.
    unsafe { regex.write(made) };
    error
}

#[unsafe(no_mangle)]
unsafe extern "C" fn regexec(
    regex: *const Regex,
    text: *const c_char,
    count: usize,
    matches: *mut Match,
    flags: c_int,
) -> c_int {
    // SAFETY: a structure that `regcomp` has filled in; what it points to never changes.
    let Some(compiled) = (unsafe { (*regex).compiled.as_ref() }) else {
        return Error::BadPat as c_int;
    };
    let (text, start) = if flags & REG_STARTEND != 0 {
        // SAFETY: with this flag there is a first match.
        let Match { begin, end } = unsafe { *matches };
        let (Ok(start), Ok(length)) = (
            usize::try_from(begin),
            usize::try_from(end.saturating_sub(begin)),
        ) else {
            return Error::NoMatch as c_int;
        };
        // SAFETY: the caller's text is as long as this says.
        let text = unsafe { core::slice::from_raw_parts(text.cast::<u8>().add(start), length) };
        (text, begin)
    } else {
        // SAFETY: the caller's string.
        (unsafe { strings::bytes(text) }, 0)
    };
    let count = if compiled.has_places() { count } else { 0 };
    let (begins, ends) = (flags & REG_NOTBOL == 0, flags & REG_NOTEOL == 0);
    let places = match compiled.find(text, begins, ends, count) {
        Ok(Some(places)) => places,
        Ok(None) => return Error::NoMatch as c_int,
        Err(failure) => return Error::from(failure) as c_int,
    };
    for index in 0..count {
        let place = places.get(index).copied().flatten();
        let place = place.map_or(Match { begin: -1, end: -1 }, |(begin, end)| Match {
            begin: begin as isize + start,
            end: end as isize + start,
        });
        // SAFETY: the caller's array has this many.
        unsafe { matches.add(index).write(place) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn regerror(
    error: c_int,
    _regex: *const Regex,
    into: *mut c_char,
    size: usize,
) -> usize {
    let text = usize::try_from(error)
        .ok()
        .and_then(|error| TEXTS.get(error));
    let text = text.copied().unwrap_or("Unknown error");
    if size > 0 {
        let length = text.len().min(size - 1);
        // SAFETY: the caller's buffer has room for that, and for a zero byte behind it.
        unsafe {
            into.copy_from_nonoverlapping(text.as_ptr().cast(), length);
            into.add(length).write(0);
        }
    }
    text.len() + 1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn regfree(regex: *mut Regex) {
    // SAFETY: a structure that `regcomp` has filled in; its box is freed once.
    unsafe {
        let compiled = core::mem::replace(&mut (*regex).compiled, null_mut());
        if !compiled.is_null() {
            drop(Box::from_raw(compiled));
        }
    }
}
