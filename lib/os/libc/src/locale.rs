//! `locale.h`, `langinfo.h` and the functions of other headers that end in `_l`. There is one
//! locale, "C", whose characters are UTF-8, and every `locale_t` stands for it.

use core::ffi::{CStr, c_char, c_double, c_int, c_void};
use core::ptr::null_mut;

use syscall::error::{EINVAL, ENOENT};

use crate::sync::Shared;
use crate::{calendar, errno, strings, tls};

const LOCALE: &CStr = c"C";

/// The categories, from `LC_ALL` to `LC_TIME`.
const CATEGORIES: core::ops::RangeInclusive<c_int> = 0..=6;

/// Whether a name is one of the names of the only locale.
///
/// # Safety
/// `name` is a string.
unsafe fn is_known(name: *const c_char) -> bool {
    // SAFETY: the same contract.
    let name = unsafe { strings::bytes(name) };
    [b"".as_slice(), b"C", b"POSIX", b"C.UTF-8", b"C.utf8"].contains(&name)
}

/// Accepts the names of the only locale, among them "C", "POSIX" and the user's own (""); refuses
/// others.
#[unsafe(no_mangle)]
unsafe extern "C" fn setlocale(category: c_int, name: *const c_char) -> *mut c_char {
    // SAFETY: the caller's string.
    let known = name.is_null() || unsafe { is_known(name) };
    match known && CATEGORIES.contains(&category) {
        true => LOCALE.as_ptr().cast_mut(),
        false => null_mut(),
    }
}

/// C's `struct lconv`: ten texts, and fourteen numbers without a value.
#[repr(C)]
pub struct Conventions {
    texts: [*const c_char; 10],
    numbers: [u8; 14],
}

pub static CONVENTIONS: Shared<Conventions> = Shared::new(Conventions {
    texts: {
        let mut texts = [c"".as_ptr(); 10];
        texts[0] = c".".as_ptr();
        texts
    },
    // CHAR_MAX means that there is no value.
    numbers: [i8::MAX as u8; 14],
});

#[unsafe(no_mangle)]
extern "C" fn localeconv() -> *mut c_void {
    CONVENTIONS.with(|conventions| (&raw mut *conventions).cast())
}

/// The only value that a `locale_t` points to.
static ONLY: u8 = 0;

/// C's `locale_t`.
type Locale = *const u8;

/// C's `LC_GLOBAL_LOCALE`: the locale of a thread that has chosen none.
const GLOBAL: Locale = usize::MAX as Locale;
/// C's `LC_ALL_MASK`: a bit for each category except `LC_ALL`, which is 0.
const ALL: c_int = 0x7e;

#[unsafe(no_mangle)]
unsafe extern "C" fn newlocale(mask: c_int, name: *const c_char, _base: Locale) -> Locale {
    if name.is_null() || mask & !ALL != 0 {
        errno::set(EINVAL);
        return core::ptr::null();
    }
    // SAFETY: the caller's string.
    if !unsafe { is_known(name) } {
        errno::set(ENOENT);
        return core::ptr::null();
    }
    &raw const ONLY
}

#[unsafe(no_mangle)]
extern "C" fn duplocale(_locale: Locale) -> Locale {
    &raw const ONLY
}

/// Frees nothing, as there is only one locale.
#[unsafe(no_mangle)]
extern "C" fn freelocale(_locale: Locale) {}

/// Sets the calling thread's locale unless it is null; returns the former one.
#[unsafe(no_mangle)]
extern "C" fn uselocale(locale: Locale) -> Locale {
    // SAFETY: the control block of the calling thread, which no other uses.
    let chosen = unsafe { &mut (*tls::control()).locale };
    let old = if chosen.is_null() { GLOBAL } else { *chosen };
    if !locale.is_null() {
        *chosen = locale;
    }
    old
}

/// Defines functions that ignore their locale and call another function.
macro_rules! local {
    ($($name:ident = $other:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        unsafe extern "C" {
            $(fn $other($($argument: $type),*) -> $result;)*
        }
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type,)* _locale: Locale) -> $result {
                // SAFETY: the same contract.
                unsafe { $other($($argument),*) }
            }
        )*
    };
}

type Text = *const c_char;
type Wide = *const i32;

local! {
    isalnum_l = isalnum(value: c_int) -> c_int;
    isalpha_l = isalpha(value: c_int) -> c_int;
    isblank_l = isblank(value: c_int) -> c_int;
    iscntrl_l = iscntrl(value: c_int) -> c_int;
    isdigit_l = isdigit(value: c_int) -> c_int;
    isgraph_l = isgraph(value: c_int) -> c_int;
    islower_l = islower(value: c_int) -> c_int;
    isprint_l = isprint(value: c_int) -> c_int;
    ispunct_l = ispunct(value: c_int) -> c_int;
    isspace_l = isspace(value: c_int) -> c_int;
    isupper_l = isupper(value: c_int) -> c_int;
    isxdigit_l = isxdigit(value: c_int) -> c_int;
    tolower_l = tolower(value: c_int) -> c_int;
    toupper_l = toupper(value: c_int) -> c_int;
    iswalnum_l = iswalnum(value: u32) -> c_int;
    iswalpha_l = iswalpha(value: u32) -> c_int;
    iswblank_l = iswblank(value: u32) -> c_int;
    iswcntrl_l = iswcntrl(value: u32) -> c_int;
    iswdigit_l = iswdigit(value: u32) -> c_int;
    iswgraph_l = iswgraph(value: u32) -> c_int;
    iswlower_l = iswlower(value: u32) -> c_int;
    iswprint_l = iswprint(value: u32) -> c_int;
    iswpunct_l = iswpunct(value: u32) -> c_int;
    iswspace_l = iswspace(value: u32) -> c_int;
    iswupper_l = iswupper(value: u32) -> c_int;
    iswxdigit_l = iswxdigit(value: u32) -> c_int;
    towlower_l = towlower(value: u32) -> u32;
    towupper_l = towupper(value: u32) -> u32;
    strerror_l = strerror(number: c_int) -> *mut c_char;
    strcoll_l = strcoll(a: Text, b: Text) -> c_int;
    strxfrm_l = strxfrm(place: *mut c_char, text: Text, size: usize) -> usize;
    wcscoll_l = wcscoll(a: Wide, b: Wide) -> c_int;
    wcsxfrm_l = wcsxfrm(place: *mut i32, text: Wide, size: usize) -> usize;
    strtod_l = strtod(text: Text, end: *mut *mut c_char) -> c_double;
    strtof_l = strtof(text: Text, end: *mut *mut c_char) -> f32;
    strtold_l = strtold(text: Text, end: *mut *mut c_char) -> c_double;
    strftime_l =
        strftime(place: *mut c_char, size: usize, format: Text, date: *const c_void) -> usize;
}

/// The first items of `langinfo.h`. After them come the names of days, their short forms, the
/// names of months, and their short forms.
const ITEMS: [&CStr; 13] = [
    c"UTF-8",
    c".",
    c"",
    c"^[yY]",
    c"^[nN]",
    c"",
    c"%a %b %e %H:%M:%S %Y",
    c"%m/%d/%y",
    c"%H:%M:%S",
    c"%I:%M:%S %p",
    c"AM",
    c"PM",
    c"",
];

/// The bytes for a name of the calendar with a zero byte.
const NAME: usize = 12;

/// The names, each with a zero byte, in full and cut to three letters.
static NAMES: [[[u8; NAME]; 2]; 19] = {
    let mut names = [[[0; NAME]; 2]; 19];
    let mut index = 0;
    while index < names.len() {
        let name = match index < 7 {
            true => calendar::WEEKDAYS[index].as_bytes(),
            false => calendar::MONTHS[index - 7].as_bytes(),
        };
        let mut at = 0;
        while at < name.len() {
            names[index][0][at] = name[at];
            if at < 3 {
                names[index][1][at] = name[at];
            }
            at += 1;
        }
        index += 1;
    }
    names
};

/// Returns an empty text for unknown items.
#[unsafe(no_mangle)]
extern "C" fn nl_langinfo(item: c_int) -> *mut c_char {
    let item = usize::try_from(item).unwrap_or(usize::MAX);
    let text: *const c_char = match (ITEMS.get(item), item.checked_sub(ITEMS.len())) {
        (Some(text), _) => text.as_ptr(),
        (None, Some(name)) if name < 2 * NAMES.len() => {
            // Days, short days, months, short months.
            let (index, form) = match name {
                0..14 => (name % 7, name / 7),
                _ => (7 + (name - 14) % 12, (name - 14) / 12),
            };
            NAMES[index][form].as_ptr().cast()
        }
        _ => c"".as_ptr(),
    };
    text.cast_mut()
}

#[unsafe(no_mangle)]
extern "C" fn nl_langinfo_l(item: c_int, _locale: Locale) -> *mut c_char {
    nl_langinfo(item)
}
