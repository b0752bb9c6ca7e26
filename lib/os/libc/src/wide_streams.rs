//! The wide streams and formats of `wchar.h`. The text of streams is UTF-8, so each function
//! converts and calls the one for bytes. Widths and precisions in formats count bytes. A stream
//! has no orientation: functions of both kinds may be mixed.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{VaList, c_char, c_int, c_void};
use core::ptr::null_mut;

use runtime::Result;
use syscall::error::{EAGAIN, EILSEQ, EINVAL, EOVERFLOW, Error};

use crate::errno;
use crate::print::{self, vfscanf, vsscanf};
use crate::stream::{self, File, State};
use crate::wide::{self, END, Wide, WideOrEnd};

/// Converts a wide string to a C string of UTF-8, up to an invalid character.
///
/// # Safety
/// `text` is a wide string.
unsafe fn narrow(text: *const Wide) -> Vec<u8> {
    // SAFETY: the same contract.
    let mut bytes = unsafe { wide::text(text, usize::MAX) }.unwrap_or_else(|valid| valid);
    bytes.push(0);
    bytes
}

/// As [`wide::text`] without a limit.
///
/// # Errors
/// `EILSEQ`: a character is invalid.
///
/// # Safety
/// `text` is a wide string.
unsafe fn valid(text: *const Wide) -> Result<Vec<u8>> {
    // SAFETY: the same contract.
    unsafe { wide::text(text, usize::MAX) }.map_err(|_| Error::new(EILSEQ))
}

/// Formats into new memory. Also returns the number of characters.
///
/// # Errors
/// `EILSEQ`; those of [`print::wide_text`].
///
/// # Safety
/// `format` is a wide string, and `list` has the arguments that it names.
unsafe fn formatted(format: *const Wide, list: &mut VaList<'_>) -> Result<(Vec<u8>, c_int)> {
    // SAFETY: the same contract.
    unsafe {
        let mut format = valid(format)?;
        format.push(0);
        print::wide_text(format.as_ptr().cast(), list)
    }
}

/// Takes a character; `None` at the end of the file.
fn take(state: &mut State) -> Result<Option<char>> {
    let mut bytes = [0; 4];
    for used in 0..bytes.len() {
        let byte = match state.get() {
            Ok(Some(byte)) => byte,
            Ok(None) if used == 0 => return Ok(None),
            Ok(None) => return Err(Error::new(EILSEQ)),
            Err(error) => {
                // The rest of the character may still come.
                bytes[..used].iter().rev().all(|byte| state.unget(*byte));
                return Err(error);
            }
        };
        bytes[used] = byte;
        match core::str::from_utf8(&bytes[..=used]) {
            Ok(text) => return Ok(text.chars().next()),
            Err(error) if error.error_len().is_none() => {}
            Err(_) => break,
        }
    }
    state.failed = true;
    Err(Error::new(EILSEQ))
}

/// Converts a character for C; sets `errno` after an error.
fn given(found: Result<Option<char>>) -> WideOrEnd {
    match found {
        Ok(found) => found.map_or(END, WideOrEnd::from),
        Err(error) => {
            errno::set(error.errno);
            END
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fgetwc(file: *mut File) -> WideOrEnd {
    // SAFETY: the caller's open stream.
    given(unsafe { stream::with(file, take) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getwc(file: *mut File) -> WideOrEnd {
    // SAFETY: the same contract.
    unsafe { fgetwc(file) }
}

#[unsafe(no_mangle)]
extern "C" fn getwchar() -> WideOrEnd {
    // SAFETY: the standard input is open.
    unsafe { fgetwc(stream::standard_input()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ungetwc(wide: WideOrEnd, file: *mut File) -> WideOrEnd {
    let Some(c) = char::from_u32(wide) else {
        return END;
    };
    let mut bytes = [0; 4];
    let text = c.encode_utf8(&mut bytes).as_bytes();
    // SAFETY: the caller's open stream.
    let is_back = unsafe {
        stream::with(file, |state| {
            text.iter().rev().all(|byte| state.unget(*byte))
        })
    };
    if is_back { wide } else { END }
}

/// Reads a line of at most `size - 1` characters; null at the end of the file.
#[unsafe(no_mangle)]
unsafe extern "C" fn fgetws(place: *mut Wide, size: c_int, file: *mut File) -> *mut Wide {
    let Some(limit) = usize::try_from(size).ok().filter(|size| *size > 0) else {
        errno::set(EINVAL);
        return null_mut();
    };
    let mut count = 0;
    // SAFETY: the caller's open stream, and room for `size` characters.
    let read: Result<()> = unsafe {
        stream::with(file, |state| {
            while count + 1 < limit {
                let c = match take(state) {
                    Ok(Some(c)) => c,
                    // The next read finds the error again.
                    Err(error) if count == 0 || error.errno != EAGAIN => return Err(error),
                    _ => break,
                };
                *place.add(count) = c as Wide;
                count += 1;
                if c == '\n' {
                    break;
                }
            }
            Ok(())
        })
    };
    if let Err(error) = read {
        errno::set(error.errno);
        return null_mut();
    }
    if count == 0 && limit > 1 {
        return null_mut();
    }
    // SAFETY: as above.
    unsafe { *place.add(count) = 0 };
    place
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fputwc(wide: Wide, file: *mut File) -> WideOrEnd {
    let Some(c) = char::from_u32(wide as u32) else {
        errno::set(EILSEQ);
        return END;
    };
    let mut bytes = [0; 4];
    let text = c.encode_utf8(&mut bytes).as_bytes();
    // SAFETY: the caller's open stream.
    given(unsafe { stream::with(file, |state| state.write(text)) }.map(|()| Some(c)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn putwc(wide: Wide, file: *mut File) -> WideOrEnd {
    // SAFETY: the same contract.
    unsafe { fputwc(wide, file) }
}

#[unsafe(no_mangle)]
extern "C" fn putwchar(wide: Wide) -> WideOrEnd {
    // SAFETY: the standard output is open.
    unsafe { fputwc(wide, stream::standard_output()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fputws(text: *const Wide, file: *mut File) -> c_int {
    // SAFETY: the caller's string and open stream.
    unsafe {
        errno::done(valid(text).and_then(|text| stream::with(file, |state| state.write(&text))))
    }
}

/// Always 0, as streams have no orientation.
#[unsafe(no_mangle)]
extern "C" fn fwide(_file: *mut File, _mode: c_int) -> c_int {
    0
}

unsafe extern "C" {
    fn strftime(
        place: *mut c_char,
        size: usize,
        format: *const c_char,
        date: *const c_void,
    ) -> usize;
}

/// Stores text followed by a zero. Returns the number of characters; `None` if they do not all
/// fit.
///
/// # Safety
/// `place` has room for `size` characters.
unsafe fn widen(place: *mut Wide, size: usize, text: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(text);
    let count = text.chars().count();
    for (index, c) in text.chars().take(size.saturating_sub(1)).enumerate() {
        // SAFETY: below the size.
        unsafe { *place.add(index) = c as Wide };
    }
    if size > 0 {
        // SAFETY: below the size.
        unsafe { *place.add(count.min(size - 1)) = 0 };
    }
    (count < size).then_some(count)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vswprintf(
    place: *mut Wide,
    size: usize,
    format: *const Wide,
    mut list: VaList<'_>,
) -> c_int {
    // SAFETY: the caller's string, arguments and buffer.
    unsafe {
        let count = formatted(format, &mut list).and_then(|(text, _)| {
            let count = widen(place, size, &text).ok_or(Error::new(EOVERFLOW))?;
            Ok(count as c_int)
        });
        errno::give(count)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vfwprintf(
    file: *mut File,
    format: *const Wide,
    mut list: VaList<'_>,
) -> c_int {
    // SAFETY: the caller's string, arguments and open stream.
    let written = unsafe {
        formatted(format, &mut list).and_then(|(text, count)| {
            stream::with(file, |state| state.write(&text)).map(|()| count)
        })
    };
    errno::give(written)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vwprintf(format: *const Wide, list: VaList<'_>) -> c_int {
    // SAFETY: the same contract.
    unsafe { vfwprintf(stream::standard_output(), format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vfwscanf(file: *mut File, format: *const Wide, list: VaList<'_>) -> c_int {
    // SAFETY: the same contract.
    unsafe { vfscanf(file, narrow(format).as_ptr().cast(), list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vwscanf(format: *const Wide, list: VaList<'_>) -> c_int {
    // SAFETY: the same contract.
    unsafe { vfwscanf(stream::standard_input(), format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vswscanf(text: *const Wide, format: *const Wide, list: VaList<'_>) -> c_int {
    // SAFETY: the caller's strings and pointers.
    unsafe {
        let (text, format) = (narrow(text), narrow(format));
        vsscanf(text.as_ptr().cast(), format.as_ptr().cast(), list)
    }
}

// SAFETY of the functions below: each passes its own arguments on, under the same contract.

#[unsafe(no_mangle)]
unsafe extern "C" fn wprintf(format: *const Wide, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vwprintf(format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fwprintf(file: *mut File, format: *const Wide, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vfwprintf(file, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn swprintf(
    place: *mut Wide,
    size: usize,
    format: *const Wide,
    list: ...
) -> c_int {
    // SAFETY: see above.
    unsafe { vswprintf(place, size, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wscanf(format: *const Wide, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vwscanf(format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fwscanf(file: *mut File, format: *const Wide, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vfwscanf(file, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn swscanf(text: *const Wide, format: *const Wide, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vswscanf(text, format, list) }
}

/// Returns 0 if the text and its zero do not fit.
#[unsafe(no_mangle)]
unsafe extern "C" fn wcsftime(
    place: *mut Wide,
    size: usize,
    format: *const Wide,
    date: *const c_void,
) -> usize {
    // SAFETY: the caller's string, structure and buffer; a character has at most four bytes.
    unsafe {
        let format = narrow(format);
        let mut text = alloc::vec![0_u8; size.saturating_mul(4).min(1 << 20)];
        let length = strftime(
            text.as_mut_ptr().cast(),
            text.len(),
            format.as_ptr().cast(),
            date,
        );
        match length {
            0 => 0,
            length => widen(place, size, &text[..length]).unwrap_or(0),
        }
    }
}
