//! `wchar.h` and the wide characters of `stdlib.h`. A `wchar_t` is a Unicode character, and text
//! in bytes is UTF-8. Wide streams and formats are in `wide_streams.rs`.

mod copies;

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::c_int;
use core::ptr::{null, null_mut};
use core::slice;

use syscall::error::EILSEQ;

use crate::sync::Shared;
use crate::{errno, find, malloc};

/// `wchar_t`.
pub type Wide = i32;
/// `wint_t`, whose largest value means the end of a file.
pub type WideOrEnd = u32;
/// That largest value.
pub const END: WideOrEnd = u32::MAX;
/// The results for an invalid and for an incomplete character.
const WRONG: usize = usize::MAX;
const INCOMPLETE: usize = usize::MAX - 1;

/// `mbstate_t`: the first bytes of an incomplete character.
#[repr(C)]
#[derive(Default)]
pub struct Partial {
    bytes: [u8; 4],
    count: u32,
}

enum Step {
    Whole(char),
    More,
    Wrong,
}

impl Partial {
    /// Adds a byte.
    fn push(&mut self, byte: u8) -> Step {
        let used = (self.count as usize).min(self.bytes.len() - 1);
        self.bytes[used] = byte;
        let step = match core::str::from_utf8(&self.bytes[..=used]) {
            Ok(text) => text.chars().next().map_or(Step::Wrong, Step::Whole),
            Err(error) if error.error_len().is_none() => Step::More,
            Err(_) => Step::Wrong,
        };
        self.count = match step {
            Step::More => used as u32 + 1,
            _ => 0,
        };
        step
    }
}

/// The state for calls without a state of their own.
pub static STATE: Shared<Partial> = Shared::new(Partial {
    bytes: [0; 4],
    count: 0,
});

fn with_state<T>(state: *mut Partial, action: impl FnOnce(&mut Partial) -> T) -> T {
    if state.is_null() {
        return STATE.with(action);
    }
    // SAFETY: the caller's state.
    action(unsafe { &mut *state })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mbsinit(state: *const Partial) -> c_int {
    // SAFETY: the caller's state or null.
    unsafe { state.as_ref() }
        .is_none_or(|state| state.count == 0)
        .into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mbrtowc(
    place: *mut Wide,
    text: *const u8,
    limit: usize,
    state: *mut Partial,
) -> usize {
    with_state(state, |state| {
        if text.is_null() {
            let whole = state.count == 0;
            *state = Partial::default();
            return if whole {
                0
            } else {
                errno::set(EILSEQ);
                WRONG
            };
        }
        for taken in 0..limit {
            // SAFETY: within the caller's bytes; none behind a whole character is read.
            match state.push(unsafe { *text.add(taken) }) {
                Step::More => {}
                Step::Wrong => {
                    errno::set(EILSEQ);
                    return WRONG;
                }
                Step::Whole(c) => {
                    if !place.is_null() {
                        // SAFETY: the caller's place.
                        unsafe { *place = c as Wide };
                    }
                    return if c == '\0' { 0 } else { taken + 1 };
                }
            }
        }
        INCOMPLETE
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mbrlen(text: *const u8, limit: usize, state: *mut Partial) -> usize {
    // SAFETY: the same contract.
    unsafe { mbrtowc(null_mut(), text, limit, state) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mbtowc(place: *mut Wide, text: *const u8, limit: usize) -> c_int {
    if text.is_null() {
        return 0;
    }
    let mut state = Partial::default();
    // SAFETY: the same contract.
    match unsafe { mbrtowc(place, text, limit, &raw mut state) } {
        WRONG => -1,
        INCOMPLETE => errno::fail(EILSEQ),
        length => length as c_int,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mblen(text: *const u8, limit: usize) -> c_int {
    // SAFETY: the same contract.
    unsafe { mbtowc(null_mut(), text, limit) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcrtomb(place: *mut u8, wide: Wide, _state: *mut Partial) -> usize {
    if place.is_null() {
        return 1;
    }
    let Some(c) = char::from_u32(wide as u32) else {
        errno::set(EILSEQ);
        return WRONG;
    };
    let mut bytes = [0; 4];
    let text = c.encode_utf8(&mut bytes);
    // SAFETY: the caller's place has MB_CUR_MAX bytes, the longest a character is.
    unsafe { place.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    text.len()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wctomb(place: *mut u8, wide: Wide) -> c_int {
    if place.is_null() {
        return 0;
    }
    // SAFETY: the same contract.
    unsafe { wcrtomb(place, wide, null_mut()) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mbsrtowcs(
    place: *mut Wide,
    text: *mut *const u8,
    limit: usize,
    state: *mut Partial,
) -> usize {
    // SAFETY: the same contract.
    unsafe { mbsnrtowcs(place, text, usize::MAX, limit, state) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mbsnrtowcs(
    place: *mut Wide,
    text: *mut *const u8,
    bytes: usize,
    limit: usize,
    state: *mut Partial,
) -> usize {
    let (mut count, mut left) = (0, bytes);
    // SAFETY: the caller's string, read up to its end; no more than `limit` places are filled.
    unsafe {
        let mut next = *text;
        loop {
            if left == 0 || !place.is_null() && count == limit {
                if !place.is_null() {
                    *text = next;
                }
                return count;
            }
            let mut wide = 0;
            let length = mbrtowc(&raw mut wide, next, left.min(4), state);
            // The bytes end inside a character: the state keeps its first bytes.
            if length == INCOMPLETE {
                next = next.add(left);
                left = 0;
                continue;
            }
            if length == WRONG {
                if !place.is_null() {
                    *text = next;
                }
                return WRONG;
            }
            if !place.is_null() {
                *place.add(count) = wide;
            }
            if length == 0 {
                if !place.is_null() {
                    *text = null();
                }
                return count;
            }
            next = next.add(length);
            left -= length;
            count += 1;
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mbstowcs(place: *mut Wide, mut text: *const u8, limit: usize) -> usize {
    let mut state = Partial::default();
    // SAFETY: the same contract.
    unsafe { mbsrtowcs(place, &raw mut text, limit, &raw mut state) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsrtombs(
    place: *mut u8,
    text: *mut *const Wide,
    limit: usize,
    state: *mut Partial,
) -> usize {
    // SAFETY: the same contract.
    unsafe { wcsnrtombs(place, text, usize::MAX, limit, state) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsnrtombs(
    place: *mut u8,
    text: *mut *const Wide,
    wides: usize,
    limit: usize,
    _state: *mut Partial,
) -> usize {
    let (mut count, mut taken) = (0, 0);
    // SAFETY: the caller's string, read up to its end; no more than `limit` bytes are filled.
    unsafe {
        let mut next = *text;
        loop {
            if taken == wides {
                return count;
            }
            taken += 1;
            let mut bytes = [0; 4];
            let length = wcrtomb(bytes.as_mut_ptr(), *next, null_mut());
            if length == WRONG {
                if !place.is_null() {
                    *text = next;
                }
                return WRONG;
            }
            let ends = *next == 0;
            if !place.is_null() {
                if count + length > limit {
                    *text = next;
                    return count;
                }
                place
                    .add(count)
                    .copy_from_nonoverlapping(bytes.as_ptr(), length);
                *text = if ends { null() } else { next.add(1) };
            }
            if ends {
                return count;
            }
            next = next.add(1);
            count += length;
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstombs(place: *mut u8, mut text: *const Wide, limit: usize) -> usize {
    // SAFETY: the same contract.
    unsafe { wcsrtombs(place, &raw mut text, limit, null_mut()) }
}

#[unsafe(no_mangle)]
extern "C" fn btowc(byte: c_int) -> WideOrEnd {
    if (0..0x80).contains(&byte) {
        byte as WideOrEnd
    } else {
        END
    }
}

#[unsafe(no_mangle)]
extern "C" fn wctob(wide: WideOrEnd) -> c_int {
    if wide < 0x80 { wide as c_int } else { -1 }
}

/// The characters of a wide string without the zero.
///
/// # Safety
/// `text` is a wide string that does not change while the result is in use.
pub unsafe fn wides<'a>(text: *const Wide) -> &'a [Wide] {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(text, wcslen(text)) }
}

/// A wide string as UTF-8: whole characters, at most `limit` bytes. If it has an invalid
/// character, what is in front of that is the error.
///
/// # Safety
/// `wide` is a wide string, as far as it is read.
pub unsafe fn text(mut wide: *const Wide, limit: usize) -> Result<Vec<u8>, Vec<u8>> {
    let mut text = String::new();
    while text.len() < limit {
        // SAFETY: neither the zero nor the limit has been reached.
        match char::from_u32(unsafe { *wide } as u32) {
            Some(c) if c != '\0' && text.len() + c.len_utf8() <= limit => text.push(c),
            Some(_) => break,
            None => return Err(text.into_bytes()),
        }
        wide = wide.wrapping_add(1);
    }
    Ok(text.into_bytes())
}

fn at(text: *const Wide, index: Option<usize>) -> *mut Wide {
    index.map_or(null_mut(), |index| text.wrapping_add(index).cast_mut())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcslen(text: *const Wide) -> usize {
    // SAFETY: the caller's string.
    unsafe { wcsnlen(text, usize::MAX) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsnlen(text: *const Wide, limit: usize) -> usize {
    let mut length = 0;
    // SAFETY: nothing behind the zero or the limit is read.
    while length < limit && unsafe { *text.add(length) } != 0 {
        length += 1;
    }
    length
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcscmp(a: *const Wide, b: *const Wide) -> c_int {
    // SAFETY: the same contract.
    unsafe { wcsncmp(a, b, usize::MAX) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsncmp(a: *const Wide, b: *const Wide, count: usize) -> c_int {
    for index in 0..count {
        // SAFETY: the caller's strings; nothing behind the end of either is read.
        let (x, y) = unsafe { (*a.add(index), *b.add(index)) };
        if x != y || x == 0 {
            return x.cmp(&y) as c_int;
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcscoll(a: *const Wide, b: *const Wide) -> c_int {
    // SAFETY: the same contract.
    unsafe { wcscmp(a, b) }
}

/// Copies the text unchanged, as wide strings are ordered by their characters.
#[unsafe(no_mangle)]
unsafe extern "C" fn wcsxfrm(place: *mut Wide, text: *const Wide, size: usize) -> usize {
    // SAFETY: the caller's string, and a place of `size` characters.
    unsafe {
        let length = wcslen(text);
        if length < size {
            place.copy_from_nonoverlapping(text, length + 1);
        }
        length
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcschr(text: *const Wide, wanted: Wide) -> *mut Wide {
    // SAFETY: the caller's string; the result lies in it or is its end.
    unsafe {
        let found = text.add(length_while(text, |wide| wide != wanted));
        if *found == wanted {
            found.cast_mut()
        } else {
            null_mut()
        }
    }
}

/// How many characters at the start of a string are as `wanted` says. Its end ends the count, and
/// nothing behind the first other character is read, as a text may be long.
///
/// # Safety
/// `text` is a wide string.
pub unsafe fn length_while(text: *const Wide, wanted: impl Fn(Wide) -> bool) -> usize {
    let mut length = 0;
    loop {
        // SAFETY: the caller's string, of which all characters before this one were wanted.
        let wide = unsafe { *text.add(length) };
        if wide == 0 || !wanted(wide) {
            return length;
        }
        length += 1;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsrchr(text: *const Wide, wanted: Wide) -> *mut Wide {
    // SAFETY: the caller's string, the zero included.
    let all = unsafe { slice::from_raw_parts(text, wcslen(text) + 1) };
    at(text, all.iter().rposition(|wide| *wide == wanted))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsstr(text: *const Wide, wanted: *const Wide) -> *mut Wide {
    // SAFETY: the caller's string.
    let wanted = unsafe { wides(wanted) };
    let mut known = 0;
    let reaches = |end: usize| {
        // SAFETY: all characters before are in the string, without its end.
        while known < end && unsafe { *text.add(known) } != 0 {
            known += 1;
        }
        known >= end
    };
    // SAFETY: `find` reads only what it has been told to be there.
    let read = |place| unsafe { *text.add(place) };
    let found = find::find(wanted.len(), |place| wanted[place], reaches, read);
    at(text, found)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsspn(text: *const Wide, members: *const Wide) -> usize {
    // SAFETY: the caller's strings.
    unsafe {
        let members = wides(members);
        length_while(text, |wide| members.contains(&wide))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcscspn(text: *const Wide, members: *const Wide) -> usize {
    // SAFETY: the caller's strings.
    unsafe {
        let members = wides(members);
        length_while(text, |wide| !members.contains(&wide))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcspbrk(text: *const Wide, members: *const Wide) -> *mut Wide {
    // SAFETY: the caller's strings; the result lies in the first or is its end.
    unsafe {
        let found = text.add(wcscspn(text, members));
        if *found == 0 {
            null_mut()
        } else {
            found.cast_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstok(
    text: *mut Wide,
    members: *const Wide,
    place: *mut *mut Wide,
) -> *mut Wide {
    // SAFETY: the caller's string, or what an earlier call left in `place`.
    unsafe {
        let start = if text.is_null() { *place } else { text };
        if start.is_null() {
            return null_mut();
        }
        let start = start.add(wcsspn(start, members));
        if *start == 0 {
            *place = null_mut();
            return null_mut();
        }
        let end = start.add(wcscspn(start, members));
        *place = if *end == 0 {
            null_mut()
        } else {
            *end = 0;
            end.add(1)
        };
        start
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsdup(text: *const Wide) -> *mut Wide {
    // SAFETY: the caller's string; the block has room for it and its zero.
    unsafe {
        let length = wcslen(text) + 1;
        let copy = malloc::allocate(length * size_of::<Wide>(), 0).cast::<Wide>();
        if !copy.is_null() {
            copy.copy_from_nonoverlapping(text, length);
        }
        copy
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wmemcpy(to: *mut Wide, from: *const Wide, count: usize) -> *mut Wide {
    // SAFETY: the caller's ranges.
    unsafe { to.copy_from_nonoverlapping(from, count) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wmemmove(to: *mut Wide, from: *const Wide, count: usize) -> *mut Wide {
    // SAFETY: the caller's ranges.
    unsafe { to.copy_from(from, count) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wmemset(start: *mut Wide, wide: Wide, count: usize) -> *mut Wide {
    // SAFETY: the caller's range.
    unsafe { slice::from_raw_parts_mut(start, count) }.fill(wide);
    start
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wmemcmp(a: *const Wide, b: *const Wide, count: usize) -> c_int {
    // SAFETY: the caller's ranges.
    let (a, b) = unsafe {
        (
            slice::from_raw_parts(a, count),
            slice::from_raw_parts(b, count),
        )
    };
    a.cmp(b) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wmemchr(start: *const Wide, wanted: Wide, count: usize) -> *mut Wide {
    // SAFETY: the caller's range.
    let all = unsafe { slice::from_raw_parts(start, count) };
    at(start, all.iter().position(|wide| *wide == wanted))
}
