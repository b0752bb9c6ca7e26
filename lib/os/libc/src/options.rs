//! `getopt`, `getopt_long` and `getopt_long_only`; `getsubopt`. As in glibc, operands before an
//! option are moved behind it in `argv`, unless the letters begin with `+` or `-`, or
//! `POSIXLY_CORRECT` is in the environment.

use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use crate::{environment, strings};

// C programs read and set these variables from one thread.
#[unsafe(no_mangle)]
static mut optarg: *mut c_char = null_mut();
#[unsafe(no_mangle)]
static mut optind: c_int = 1;
#[unsafe(no_mangle)]
static mut opterr: c_int = 1;
#[unsafe(no_mangle)]
static mut optopt: c_int = 0;
/// The position inside an argument like `-abc`; 0 at its beginning.
static mut INSIDE: usize = 0;
/// The argument in which [`INSIDE`] is a position. A program may read another one next.
static mut CLUSTER: *mut c_char = null_mut();

/// C's `struct option`.
#[repr(C)]
struct Option {
    name: *const c_char,
    takes: c_int,
    flag: *mut c_int,
    value: c_int,
}

const UNKNOWN: c_int = b'?' as c_int;
const MISSING: c_int = b':' as c_int;
/// The result for an operand that is returned like an option.
const OPERAND: c_int = 1;
/// The result of `getsubopt` for a name that is not in its list.
const UNKNOWN_NAME: c_int = -1;

/// The options that a caller accepts.
#[derive(Clone, Copy)]
struct Known {
    letters: *const c_char,
    /// Long options, or null.
    long: *const Option,
    /// Where to store the index of a long option in their list, or null.
    index: *mut c_int,
    /// Whether a single `-` begins a long option, too.
    is_long_only: bool,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getopt(
    count: c_int,
    arguments: *const *mut c_char,
    letters: *const c_char,
) -> c_int {
    // SAFETY: the same contract, without long options.
    unsafe { getopt_long(count, arguments, letters, core::ptr::null(), null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getopt_long(
    count: c_int,
    arguments: *const *mut c_char,
    letters: *const c_char,
    long: *const Option,
    index: *mut c_int,
) -> c_int {
    let known = Known {
        letters,
        long,
        index,
        is_long_only: false,
    };
    // SAFETY: the same contract.
    unsafe { next(count, arguments, known) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getopt_long_only(
    count: c_int,
    arguments: *const *mut c_char,
    letters: *const c_char,
    long: *const Option,
    index: *mut c_int,
) -> c_int {
    let known = Known {
        letters,
        long,
        index,
        is_long_only: !long.is_null(),
    };
    // SAFETY: the same contract.
    unsafe { next(count, arguments, known) }
}

/// What happens to operands before an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// They are moved behind the option.
    Permuted,
    /// The first operand ends the options.
    Posix,
    /// Each is returned as the argument of option [`OPERAND`].
    Returned,
}

/// The order for which a caller's letters ask, and the letters without its mark.
fn order_of(letters: &[u8]) -> (Order, &[u8]) {
    match letters {
        [b'+', letters @ ..] => (Order::Posix, letters),
        [b'-', letters @ ..] => (Order::Returned, letters),
        _ if environment::find(b"POSIXLY_CORRECT").is_some() => (Order::Posix, letters),
        _ => (Order::Permuted, letters),
    }
}

/// Whether an argument is an option or `--`. A single `-` is an operand, which stands for a
/// standard stream.
///
/// # Safety
/// `text` is null or a string.
unsafe fn is_option(text: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    !text.is_null() && matches!(unsafe { strings::bytes(text) }, [b'-', _, ..])
}

/// Takes the next option and moves it in front of the operands before it.
///
/// # Safety
/// C's contract of `getopt_long`: `count` strings, which may be reordered, and long options up to
/// one without a name. Only one thread reads options.
unsafe fn next(count: c_int, arguments: *const *mut c_char, known: Known) -> c_int {
    // SAFETY: the caller's promise; all places are before `count`.
    unsafe {
        if optind == 0 {
            (optind, INSIDE) = (1, 0);
        }
        optarg = null_mut();
        let (order, letters) = order_of(strings::bytes(known.letters));
        let first = optind;
        if order == Order::Permuted {
            let found = (first..count).find(|at| is_option(*arguments.add(*at as usize)));
            let Some(found) = found else {
                return -1;
            };
            optind = found;
        }
        let option = optind;
        let result = take(count, arguments, order, letters, &known);
        if option > first {
            // The option comes first, then its argument if it has one, then the operands. Nothing
            // moves as long as letters of the option are left.
            let (operands, taken) = (option - first, optind - option);
            let start = arguments.cast_mut().add(first as usize);
            let moved = core::slice::from_raw_parts_mut(start, (operands + taken) as usize);
            moved.rotate_left(operands as usize);
            optind = first + taken;
        }
        result
    }
}

/// Takes the option at `optind`.
///
/// # Safety
/// As for [`next`].
unsafe fn take(
    count: c_int,
    arguments: *const *mut c_char,
    order: Order,
    letters: &[u8],
    known: &Known,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let argument = |at: c_int| (at < count).then(|| *arguments.add(at as usize));
        let quiet = opterr == 0 || letters.starts_with(b":");
        let missing = if letters.starts_with(b":") {
            MISSING
        } else {
            UNKNOWN
        };
        let Some(text) = argument(optind).filter(|text| !text.is_null()) else {
            return -1;
        };
        let bytes = strings::bytes(text);
        if CLUSTER != text || INSIDE >= bytes.len() {
            (CLUSTER, INSIDE) = (text, 0);
        }
        if INSIDE == 0 {
            let long = |name| Name {
                bytes: name,
                ends: text.add(bytes.len()),
            };
            match bytes {
                b"--" => {
                    optind += 1;
                    return -1;
                }
                [b'-', b'-', name @ ..] if !known.long.is_null() => {
                    optind += 1;
                    return long_option(long(name), known, quiet, missing, argument);
                }
                [b'-', name @ ..] if known.is_long_only && names_long(name, letters, known) => {
                    optind += 1;
                    return long_option(long(name), known, quiet, missing, argument);
                }
                [b'-', _, ..] => INSIDE = 1,
                _ if order == Order::Returned => {
                    (optarg, optind) = (text, optind + 1);
                    return OPERAND;
                }
                _ => return -1,
            }
        }
        let letter = bytes[INSIDE];
        INSIDE += 1;
        let rest = INSIDE;
        if rest == bytes.len() {
            (optind, INSIDE) = (optind + 1, 0);
        }
        optopt = letter.into();
        let Some(place) = position(letters, letter) else {
            complain(quiet, "unknown option", &[letter]);
            return UNKNOWN;
        };
        if letters.get(place + 1) == Some(&b':') {
            let optional = letters.get(place + 2) == Some(&b':');
            if rest < bytes.len() {
                optarg = text.add(rest);
                (optind, INSIDE) = (optind + 1, 0);
            } else if !optional {
                match argument(optind) {
                    Some(value) => {
                        optarg = value;
                        optind += 1;
                    }
                    None => {
                        complain(quiet, "argument missing for option", &[letter]);
                        return missing;
                    }
                }
            }
        }
        letter.into()
    }
}

/// The position of a letter among those of a caller.
fn position(letters: &[u8], letter: u8) -> core::option::Option<usize> {
    let is_it = |known: &u8| *known == letter && letter != b':';
    letters.iter().position(is_it)
}

/// The text of a long option, with its value if it has one.
struct Name<'a> {
    bytes: &'a [u8],
    /// The place after its last byte.
    ends: *mut c_char,
}

/// Whether an argument after a single `-` names a long option: its first letter is no short option
/// of the caller, or it is longer than one letter and names a long option.
///
/// # Safety
/// As for [`next`].
unsafe fn names_long(name: &[u8], letters: &[u8], known: &Known) -> bool {
    let is_short = name
        .first()
        .is_some_and(|letter| position(letters, *letter).is_some());
    // SAFETY: the caller's promise.
    !is_short || name.len() > 1 && unsafe { find(key_of(name), known) }.is_some()
}

/// The name of a long option, without its value.
fn key_of(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b'=').next().unwrap_or(text)
}

/// The index of the long option with this name, or of the first one whose name begins with it, if
/// all of these mean the same.
///
/// # Safety
/// As for [`next`].
unsafe fn find(name: &[u8], known: &Known) -> core::option::Option<usize> {
    let mut found: core::option::Option<usize> = None;
    let mut is_ambiguous = false;
    for at in 0.. {
        // SAFETY: the option without a name has not been reached.
        let option = unsafe { &*known.long.add(at) };
        if option.name.is_null() {
            break;
        }
        // SAFETY: the caller's string.
        let full = unsafe { strings::bytes(option.name) };
        if full == name {
            return Some(at);
        }
        if full.starts_with(name) {
            // SAFETY: an option that was found before.
            let first = unsafe { &*known.long.add(*found.get_or_insert(at)) };
            let is_same =
                (first.takes, first.flag, first.value) == (option.takes, option.flag, option.value);
            // As in glibc, `getopt_long_only` accepts no two, whatever they mean.
            is_ambiguous |= !is_same || known.is_long_only && found != Some(at);
        }
    }
    found.filter(|_| !is_ambiguous)
}

/// Takes a long option.
///
/// # Safety
/// As for [`next`].
unsafe fn long_option(
    text: Name<'_>,
    known: &Known,
    quiet: bool,
    missing: c_int,
    argument: impl Fn(c_int) -> core::option::Option<*mut c_char>,
) -> c_int {
    let name = key_of(text.bytes);
    let value = match text.bytes.len() - name.len() {
        0 => null_mut(),
        // The part after the `=`.
        rest => text.ends.wrapping_sub(rest - 1),
    };
    // SAFETY: the caller's promise.
    unsafe {
        optopt = 0;
        let Some(at) = find(name, known) else {
            complain(quiet, "unknown or ambiguous option", name);
            return UNKNOWN;
        };
        let option = &*known.long.add(at);
        match (option.takes, value.is_null()) {
            (0, false) => {
                optopt = option.value;
                complain(quiet, "option takes no argument", name);
                return UNKNOWN;
            }
            (1, true) => match argument(optind) {
                Some(value) => {
                    optarg = value;
                    optind += 1;
                }
                None => {
                    optopt = option.value;
                    complain(quiet, "argument missing for option", name);
                    return missing;
                }
            },
            _ => optarg = value,
        }
        if !known.index.is_null() {
            *known.index = at as c_int;
        }
        if option.flag.is_null() {
            return option.value;
        }
        *option.flag = option.value;
        0
    }
}

/// Cuts the next option off a comma-separated list. `value` becomes the text after its `=`, or
/// null if it has none. For an option that is not in the list of names, `value` becomes the whole
/// option.
#[unsafe(no_mangle)]
unsafe extern "C" fn getsubopt(
    rest: *mut *mut c_char,
    names: *const *mut c_char,
    value: *mut *mut c_char,
) -> c_int {
    // SAFETY: C's contract: a string that may be changed, and names that end with a null pointer.
    unsafe {
        let option = *rest;
        let text = strings::bytes(option);
        let end = text.iter().position(|byte| *byte == b',');
        let length = end.unwrap_or(text.len());
        *rest = option.add(end.map_or(length, |end| end + 1));
        let text = &text[..length];
        let equals = text.iter().position(|byte| *byte == b'=');
        let name = &text[..equals.unwrap_or(length)];
        let mut found = UNKNOWN_NAME;
        for at in 0.. {
            let known = *names.add(at as usize);
            if known.is_null() {
                break;
            }
            if strings::bytes(known) == name {
                found = at;
                break;
            }
        }
        // Only now, as `name` is in the same memory.
        *option.add(length) = 0;
        *value = match equals {
            _ if found == UNKNOWN_NAME => option,
            Some(equals) => option.add(equals + 1),
            None => null_mut(),
        };
        found
    }
}

fn complain(quiet: bool, what: &str, name: &[u8]) {
    if !quiet {
        let program = runtime::env::program_name();
        let name = alloc::string::String::from_utf8_lossy(name);
        runtime::eprintln!("{program}: {what} '{name}'");
    }
}
