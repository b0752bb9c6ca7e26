//! `printf`, `scanf` and their kin: connect C's argument lists to `format` and `scan`.

use alloc::vec::Vec;
use core::ffi::{VaList, c_char, c_int};

use runtime::{Error, Result};
use syscall::error::{EILSEQ, ENOMEM, EOVERFLOW};

use crate::format::{Arguments, Output};
use crate::scan::{self, Input, Targets};
use crate::stream::{self, File, State};
use crate::{descriptor, errno, files, numbered, points, strings, wide};

/// C's argument list for a format.
struct List<'a, 'b> {
    list: &'a mut VaList<'b>,
    /// An argument has a wide character that does not exist.
    is_refused: bool,
}

impl<'a, 'b> List<'a, 'b> {
    fn new(list: &'a mut VaList<'b>) -> Self {
        let is_refused = false;
        Self { list, is_refused }
    }

    /// The result of a function that has printed this many bytes.
    ///
    /// # Errors
    /// `EILSEQ`: of a wide character that does not exist; `EOVERFLOW`: they are too many.
    fn result(&self, count: usize) -> Result<c_int> {
        match c_int::try_from(count) {
            _ if self.is_refused => Err(Error::new(EILSEQ)),
            Ok(count) => Ok(count),
            Err(_) => Err(Error::new(EOVERFLOW)),
        }
    }
}

// Each method reads the next argument with the type that the format names: C's contract for the
// caller.
impl Arguments for List<'_, '_> {
    fn select(&mut self, _number: usize) {
        // `numbered::print` reads a list in its order only.
    }

    fn integer(&mut self, wide: bool) -> i64 {
        // SAFETY: see above.
        unsafe {
            if wide {
                self.list.arg::<i64>()
            } else {
                self.list.arg::<i32>().into()
            }
        }
    }

    fn double(&mut self) -> f64 {
        // SAFETY: see above.
        unsafe { self.list.arg::<f64>() }
    }

    fn pointer(&mut self) -> usize {
        // SAFETY: see above.
        unsafe { self.list.arg::<usize>() }
    }

    fn string(&mut self, pointer: usize, limit: Option<usize>) -> Vec<u8> {
        let text = pointer as *const c_char;
        // SAFETY: the pointer was an argument for `%s`: a string, or `limit` bytes.
        unsafe {
            match limit {
                Some(limit) => strings::bytes_within(text, limit).to_vec(),
                None => strings::bytes(text).to_vec(),
            }
        }
    }

    fn wide_string(&mut self, pointer: usize, limit: Option<usize>) -> Vec<u8> {
        // SAFETY: the pointer was an argument for `%ls`: a wide string, of which no more
        // characters are read than have room in `limit` bytes.
        let text = unsafe { wide::text(pointer as *const i32, limit.unwrap_or(usize::MAX)) };
        text.unwrap_or_else(|valid| {
            self.is_refused = true;
            valid
        })
    }

    fn store(&mut self, pointer: usize, bytes: usize, count: i64) {
        // SAFETY: the pointer was an argument for `%n` with that length.
        unsafe { store(pointer as *mut u8, bytes, count) };
    }

    fn error_message(&mut self) -> Vec<u8> {
        errno::message(errno::get()).into_bytes()
    }

    fn refuse(&mut self) {
        self.is_refused = true;
    }
}

/// Stores the low `bytes` bytes of a number.
unsafe fn store(place: *mut u8, bytes: usize, value: i64) {
    // SAFETY: the caller's place for a number of that length.
    unsafe { place.copy_from_nonoverlapping(value.to_le_bytes().as_ptr(), bytes.min(8)) };
}

/// Formats into new memory.
///
/// # Errors
/// `ENOMEM`; those of [`List::result`].
///
/// # Safety
/// `format` is a string, and `list` has the arguments that it names.
pub unsafe fn text(format: *const c_char, list: &mut VaList<'_>) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    // SAFETY: the same contract.
    unsafe { add(&mut text, format, list) }?;
    Ok(text)
}

/// As [`text`], for the functions of wide characters: the result, and `%n`, count characters.
///
/// # Errors
/// Those of [`text`].
///
/// # Safety
/// As of [`text`].
pub unsafe fn wide_text(format: *const c_char, list: &mut VaList<'_>) -> Result<(Vec<u8>, c_int)> {
    let mut text = Characters(Vec::new());
    // SAFETY: the same contract.
    let count = unsafe { add(&mut text, format, list) }?;
    Ok((text.0, count))
}

/// Formats into an output that takes all there is memory for. Returns the count.
///
/// # Safety
/// As of [`text`].
unsafe fn add(
    output: &mut (impl Output + AsRef<[u8]>),
    format: *const c_char,
    list: &mut VaList<'_>,
) -> Result<c_int> {
    let mut list = List::new(list);
    // SAFETY: the caller's string.
    let format = unsafe { strings::bytes(format) };
    let count = numbered::print(output, format, &mut list);
    let result = list.result(count)?;
    match output.count(output.as_ref()) == count {
        true => Ok(result),
        false => Err(Error::new(ENOMEM)),
    }
}

/// Text in UTF-8 whose length is the number of its characters.
struct Characters(Vec<u8>);

impl AsRef<[u8]> for Characters {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Output for Characters {
    fn put(&mut self, bytes: &[u8]) {
        self.0.put(bytes);
    }

    fn count(&self, bytes: &[u8]) -> usize {
        // Each character has one byte that does not continue another one.
        bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
    }
}

/// A caller's buffer of a fixed size.
struct Buffer {
    place: *mut c_char,
    size: usize,
    used: usize,
}

impl Output for Buffer {
    fn put(&mut self, bytes: &[u8]) {
        // The last byte is for the zero byte.
        let room = self.size.saturating_sub(self.used + 1);
        let length = bytes.len().min(room);
        // SAFETY: within the buffer that the caller of `vsnprintf` gave.
        unsafe {
            let place = self.place.cast::<u8>().add(self.used);
            place.copy_from_nonoverlapping(bytes.as_ptr(), length);
        }
        self.used += length;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vsnprintf(
    place: *mut c_char,
    size: usize,
    format: *const c_char,
    mut list: VaList<'_>,
) -> c_int {
    let mut buffer = Buffer {
        place,
        size,
        used: 0,
    };
    // SAFETY: the caller's string, arguments and buffer.
    unsafe {
        let bytes = strings::bytes(format);
        let mut list = List::new(&mut list);
        let count = numbered::print(&mut buffer, bytes, &mut list);
        if size > 0 {
            *place.add(buffer.used) = 0;
        }
        errno::give(list.result(count))
    }
}

/// The size of a buffer without a limit: large, but not so large that addresses wrap.
const UNLIMITED: usize = 1 << 46;

#[unsafe(no_mangle)]
unsafe extern "C" fn vsprintf(
    place: *mut c_char,
    format: *const c_char,
    list: VaList<'_>,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { vsnprintf(place, UNLIMITED, format, list) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfprintf(
    file: *mut File,
    format: *const c_char,
    mut list: VaList<'_>,
) -> c_int {
    // SAFETY: the caller's string, arguments and open stream.
    unsafe {
        let written = text(format, &mut list).and_then(|text| {
            stream::with(file, |state| state.write(&text)).map(|()| text.len() as c_int)
        });
        errno::give(written)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vprintf(format: *const c_char, list: VaList<'_>) -> c_int {
    // SAFETY: the same contract.
    unsafe { vfprintf(stream::standard_output(), format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vdprintf(number: c_int, format: *const c_char, mut list: VaList<'_>) -> c_int {
    // SAFETY: the caller's string and arguments.
    let text = unsafe { text(format, &mut list) };
    let written = text.and_then(|text| {
        descriptor::check(number)?;
        files::write_all(number, &text)
            .1
            .map(|()| text.len() as c_int)
    });
    points::handle_signals();
    errno::give(written)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vasprintf(
    place: *mut *mut c_char,
    format: *const c_char,
    mut list: VaList<'_>,
) -> c_int {
    // SAFETY: the caller's string, arguments and place.
    unsafe {
        *place = core::ptr::null_mut();
        let text = match text(format, &mut list) {
            Ok(text) => text,
            Err(error) => return errno::fail(error.errno),
        };
        *place = strings::duplicate(&text);
        match (*place).is_null() {
            true => errno::fail(ENOMEM),
            false => text.len() as c_int,
        }
    }
}

// SAFETY of the functions below: each passes its own arguments on, under the same contract.

#[unsafe(no_mangle)]
unsafe extern "C" fn printf(format: *const c_char, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vprintf(format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fprintf(file: *mut File, format: *const c_char, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vfprintf(file, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sprintf(place: *mut c_char, format: *const c_char, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vsprintf(place, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn snprintf(
    place: *mut c_char,
    size: usize,
    format: *const c_char,
    list: ...
) -> c_int {
    // SAFETY: see above.
    unsafe { vsnprintf(place, size, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dprintf(number: c_int, format: *const c_char, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vdprintf(number, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn asprintf(place: *mut *mut c_char, format: *const c_char, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vasprintf(place, format, list) }
}

/// C's list of pointers for `scanf`.
struct Places<'a, 'b> {
    list: &'a mut VaList<'b>,
    /// The first pointers of the list, once a format has picked one by its number.
    first: Vec<usize>,
    /// The number that the format has given for the next pointer.
    number: Option<usize>,
}

impl<'a, 'b> Places<'a, 'b> {
    fn new(list: &'a mut VaList<'b>) -> Self {
        Places {
            list,
            first: Vec::new(),
            number: None,
        }
    }

    /// The next pointer, or the one that was selected.
    ///
    /// # Safety
    /// The list has it.
    unsafe fn next<T>(&mut self) -> *mut T {
        let Some(number) = self.number.take() else {
            // SAFETY: the caller's promise.
            return unsafe { self.list.arg::<*mut T>() };
        };
        while self.first.len() < number {
            // SAFETY: the caller's promise; all arguments of `scanf` are pointers.
            self.first.push(unsafe { self.list.arg::<usize>() });
        }
        self.first[number - 1] as *mut T
    }
}

// Each method takes the next pointer, which by the format points to such a value.
impl Targets for Places<'_, '_> {
    fn select(&mut self, number: usize) {
        self.number = Some(number);
    }

    fn allocated(&mut self, bytes: &[u8]) -> bool {
        // The copy has a zero byte behind it, which `%mc` does not ask for and which does no harm.
        let copy = strings::duplicate(bytes);
        if copy.is_null() {
            errno::set(ENOMEM);
            return false;
        }
        // SAFETY: see above.
        unsafe { self.next::<*mut c_char>().write_unaligned(copy) };
        true
    }

    fn integer(&mut self, value: i64, bytes: usize) {
        // SAFETY: see above.
        unsafe { store(self.next::<u8>(), bytes, value) };
    }

    fn double(&mut self, value: f64) {
        // SAFETY: see above.
        unsafe { self.next::<f64>().write_unaligned(value) };
    }

    fn single(&mut self, value: f32) {
        // SAFETY: see above.
        unsafe { self.next::<f32>().write_unaligned(value) };
    }

    fn text(&mut self, bytes: &[u8], terminated: bool) {
        // SAFETY: see above.
        unsafe {
            let place = self.next::<u8>();
            place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            if terminated {
                *place.add(bytes.len()) = 0;
            }
        }
    }
}

impl Input for &mut State {
    fn peek(&mut self) -> Option<u8> {
        // An error ends the input. The stream's state records it, too.
        State::peek(self).unwrap_or_else(|error| {
            errno::set(error.errno);
            None
        })
    }

    fn take(&mut self) {
        self.consume(1);
    }
}

/// The rest of a string, which is read no further than the conversions go, as it may be long.
struct Text(*const c_char);

impl Input for Text {
    fn peek(&mut self) -> Option<u8> {
        // SAFETY: the string that the caller of `sscanf` has passed; `take` does not pass its end.
        let byte = unsafe { *self.0 } as u8;
        (byte != 0).then_some(byte)
    }

    fn take(&mut self) {
        if self.peek().is_some() {
            self.0 = self.0.wrapping_add(1);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn vsscanf(
    text: *const c_char,
    format: *const c_char,
    mut list: VaList<'_>,
) -> c_int {
    // SAFETY: the caller's strings and pointers.
    unsafe {
        let mut input = Text(text);
        let mut places = Places::new(&mut list);
        scan::scan(&mut input, strings::bytes(format), &mut places)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfscanf(
    file: *mut File,
    format: *const c_char,
    mut list: VaList<'_>,
) -> c_int {
    // SAFETY: the caller's string, pointers and open stream.
    unsafe {
        let format = strings::bytes(format);
        stream::with(file, |mut state| {
            scan::scan(&mut state, format, &mut Places::new(&mut list))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vscanf(format: *const c_char, list: VaList<'_>) -> c_int {
    // SAFETY: the same contract.
    unsafe { vfscanf(stream::standard_input(), format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sscanf(text: *const c_char, format: *const c_char, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vsscanf(text, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fscanf(file: *mut File, format: *const c_char, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vfscanf(file, format, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scanf(format: *const c_char, list: ...) -> c_int {
    // SAFETY: see above.
    unsafe { vscanf(format, list) }
}
