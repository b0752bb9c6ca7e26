//! `wctype.h`: kinds of wide characters according to Unicode's tables, and upper and lower case.

use core::ffi::{c_char, c_int, c_ulong};

use unicode_width::UnicodeWidthChar;

use crate::strings;
use crate::wide::WideOrEnd;

macro_rules! classes {
    ($($name:ident = $of:expr;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name(wide: WideOrEnd) -> c_int {
            let of: fn(char) -> bool = $of;
            char::from_u32(wide).is_some_and(of).into()
        }
    )* };
}

classes! {
    iswalnum = char::is_alphanumeric;
    iswalpha = char::is_alphabetic;
    iswblank = |c| c == ' ' || c == '\t';
    iswcntrl = char::is_control;
    iswdigit = |c| c.is_ascii_digit();
    iswgraph = |c| !c.is_control() && !c.is_whitespace();
    iswlower = char::is_lowercase;
    iswprint = |c| !c.is_control();
    iswpunct = |c| !c.is_control() && !c.is_whitespace() && !c.is_alphanumeric();
    // As in glibc, text is not broken at these, so they are no spaces.
    iswspace = |c| c.is_whitespace() && !matches!(c, '\u{a0}' | '\u{2007}' | '\u{202f}');
    iswupper = char::is_uppercase;
    iswxdigit = |c| c.is_ascii_hexdigit();
}

/// The other case if it is a single character, else the same character.
fn changed(wide: WideOrEnd, change: impl FnOnce(char) -> Option<char>) -> WideOrEnd {
    char::from_u32(wide)
        .and_then(change)
        .map_or(wide, WideOrEnd::from)
}

fn only(mut characters: impl Iterator<Item = char>) -> Option<char> {
    characters.next().filter(|_| characters.next().is_none())
}

#[unsafe(no_mangle)]
extern "C" fn towlower(wide: WideOrEnd) -> WideOrEnd {
    changed(wide, |c| only(c.to_lowercase()))
}

#[unsafe(no_mangle)]
extern "C" fn towupper(wide: WideOrEnd) -> WideOrEnd {
    changed(wide, |c| only(c.to_uppercase()))
}

/// Columns of a character on a terminal: 0 for the end of a string and for marks on others, -1 for
/// what is not shown.
#[unsafe(no_mangle)]
extern "C" fn wcwidth(wide: WideOrEnd) -> c_int {
    match char::from_u32(wide) {
        Some('\0') => 0,
        Some(c) => c.width().map_or(-1, |width| width as c_int),
        None => -1,
    }
}

/// Columns of the first `count` characters, or of those up to the end of the string; -1 if one of
/// them is not shown.
#[unsafe(no_mangle)]
unsafe extern "C" fn wcswidth(text: *const WideOrEnd, count: usize) -> c_int {
    let mut columns: c_int = 0;
    for index in 0..count {
        // SAFETY: the caller's string, or so many characters; nothing behind its end is read.
        let wide = unsafe { *text.add(index) };
        if wide == 0 {
            break;
        }
        match wcwidth(wide) {
            -1 => return -1,
            width => columns = columns.saturating_add(width),
        }
    }
    columns
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcscasecmp(a: *const WideOrEnd, b: *const WideOrEnd) -> c_int {
    // SAFETY: the same contract.
    unsafe { wcsncasecmp(a, b, usize::MAX) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsncasecmp(a: *const WideOrEnd, b: *const WideOrEnd, count: usize) -> c_int {
    for index in 0..count {
        // SAFETY: the caller's strings; nothing behind the end of either is read.
        let (x, y) = unsafe { (towlower(*a.add(index)), towlower(*b.add(index))) };
        if x != y || x == 0 {
            return x.cmp(&y) as c_int;
        }
    }
    0
}

/// The named kinds of characters; a `wctype_t` is an index here plus 1.
const KINDS: [(&[u8], extern "C" fn(WideOrEnd) -> c_int); 12] = [
    (b"alnum", iswalnum),
    (b"alpha", iswalpha),
    (b"blank", iswblank),
    (b"cntrl", iswcntrl),
    (b"digit", iswdigit),
    (b"graph", iswgraph),
    (b"lower", iswlower),
    (b"print", iswprint),
    (b"punct", iswpunct),
    (b"space", iswspace),
    (b"upper", iswupper),
    (b"xdigit", iswxdigit),
];
/// The named mappings; a `wctrans_t` is an index here plus 1.
const MAPPINGS: [(&[u8], extern "C" fn(WideOrEnd) -> WideOrEnd); 2] =
    [(b"tolower", towlower), (b"toupper", towupper)];

/// The index of a name plus 1; 0 if it is not there.
///
/// # Safety
/// `name` is a string.
unsafe fn named<T>(list: &[(&[u8], T)], name: *const c_char) -> c_ulong {
    // SAFETY: the same contract.
    let name = unsafe { strings::bytes(name) };
    let place = list.iter().position(|(known, _)| *known == name);
    place.map_or(0, |place| place as c_ulong + 1)
}

/// The entry of a list for which a `wctype_t` or `wctrans_t` stands.
fn of_number<'a, T>(list: &'a [(&[u8], T)], number: c_ulong) -> Option<&'a T> {
    let place = usize::try_from(number).ok()?.checked_sub(1)?;
    list.get(place).map(|(_, value)| value)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wctype(name: *const c_char) -> c_ulong {
    // SAFETY: the same contract.
    unsafe { named(&KINDS, name) }
}

#[unsafe(no_mangle)]
extern "C" fn iswctype(wide: WideOrEnd, kind: c_ulong) -> c_int {
    of_number(&KINDS, kind).map_or(0, |is| is(wide))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wctrans(name: *const c_char) -> c_ulong {
    // SAFETY: the same contract.
    unsafe { named(&MAPPINGS, name) }
}

#[unsafe(no_mangle)]
extern "C" fn towctrans(wide: WideOrEnd, mapping: c_ulong) -> WideOrEnd {
    of_number(&MAPPINGS, mapping).map_or(wide, |map| map(wide))
}
