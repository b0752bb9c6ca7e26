//! `getopt` and `getopt_long`. Options end at the first argument that is none; `argv` is not put
//! into another order.

use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use crate::strings;

// C programs read and set these from one thread.
#[unsafe(no_mangle)]
static mut optarg: *mut c_char = null_mut();
#[unsafe(no_mangle)]
static mut optind: c_int = 1;
#[unsafe(no_mangle)]
static mut opterr: c_int = 1;
#[unsafe(no_mangle)]
static mut optopt: c_int = 0;
/// Position within an argument like `-abc`.
static mut INSIDE: usize = 0;

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

#[unsafe(no_mangle)]
unsafe extern "C" fn getopt(
    count: c_int,
    arguments: *const *mut c_char,
    short: *const c_char,
) -> c_int {
    // SAFETY: the same contract, without long options.
    unsafe { getopt_long(count, arguments, short, core::ptr::null(), null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getopt_long(
    count: c_int,
    arguments: *const *mut c_char,
    short: *const c_char,
    long: *const Option,
    index: *mut c_int,
) -> c_int {
    // SAFETY: C's contract: `count` strings, and options that end with one without a name. The
    // variables belong to the one thread that reads options.
    unsafe {
        if optind == 0 {
            (optind, INSIDE) = (1, 0);
        }
        optarg = null_mut();
        let argument = |at: c_int| (at < count).then(|| *arguments.add(at as usize));
        let short = strings::bytes(short);
        let short = short.strip_prefix(b"+").unwrap_or(short);
        let quiet = opterr == 0 || short.starts_with(b":");
        let missing = if short.starts_with(b":") {
            MISSING
        } else {
            UNKNOWN
        };
        if INSIDE == 0 {
            let Some(text) = argument(optind).filter(|text| !text.is_null()) else {
                return -1;
            };
            match strings::bytes(text) {
                b"--" => {
                    optind += 1;
                    return -1;
                }
                [b'-', b'-', name @ ..] if !long.is_null() => {
                    optind += 1;
                    return long_option(name, text, long, index, quiet, missing, argument);
                }
                [b'-', _, ..] => INSIDE = 1,
                _ => return -1,
            }
        }
        let Some(text) = argument(optind) else {
            return -1;
        };
        let bytes = strings::bytes(text);
        let letter = bytes[INSIDE];
        INSIDE += 1;
        let rest = INSIDE;
        if rest == bytes.len() {
            (optind, INSIDE) = (optind + 1, 0);
        }
        optopt = letter.into();
        let known = short
            .iter()
            .position(|known| *known == letter && letter != b':');
        let Some(known) = known else {
            complain(quiet, "unknown option", &[letter]);
            return UNKNOWN;
        };
        if short.get(known + 1) == Some(&b':') {
            let optional = short.get(known + 2) == Some(&b':');
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

unsafe fn long_option(
    name: &[u8],
    text: *mut c_char,
    long: *const Option,
    index: *mut c_int,
    quiet: bool,
    missing: c_int,
    argument: impl Fn(c_int) -> core::option::Option<*mut c_char>,
) -> c_int {
    let length = name.iter().position(|byte| *byte == b'=');
    let (name, value) = match length {
        Some(length) => (&name[..length], text.wrapping_add(2 + length + 1)),
        None => (name, null_mut()),
    };
    // SAFETY: as for `getopt_long`.
    unsafe {
        optopt = 0;
        // An exact name, or the beginning of exactly one.
        let (mut found, mut matches) = (None, 0);
        for at in 0.. {
            let option = &*long.add(at);
            if option.name.is_null() {
                break;
            }
            let known = strings::bytes(option.name);
            if known == name {
                (found, matches) = (Some(at), 1);
                break;
            }
            if known.starts_with(name) {
                (found, matches) = (Some(at), matches + 1);
            }
        }
        let Some(at) = found.filter(|_| matches == 1) else {
            complain(quiet, "unknown or ambiguous option", name);
            return UNKNOWN;
        };
        let option = &*long.add(at);
        match (option.takes, value.is_null()) {
            (0, false) => {
                complain(quiet, "option takes no argument", name);
                return UNKNOWN;
            }
            (1, true) => match argument(optind) {
                Some(value) => {
                    optarg = value;
                    optind += 1;
                }
                None => {
                    complain(quiet, "argument missing for option", name);
                    return missing;
                }
            },
            _ => optarg = value,
        }
        if !index.is_null() {
            *index = at as c_int;
        }
        if option.flag.is_null() {
            return option.value;
        }
        *option.flag = option.value;
        0
    }
}

fn complain(quiet: bool, what: &str, name: &[u8]) {
    if !quiet {
        let program = runtime::env::program_name();
        let name = alloc::string::String::from_utf8_lossy(name);
        runtime::eprintln!("{program}: {what} '{name}'");
    }
}
