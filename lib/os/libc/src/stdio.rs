//! `stdio.h`: opening, bytes, lines, positions. Formatted output and input are in `print.rs`.

use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr::null_mut;

use runtime::{Error, Result};
use syscall::error::{EAGAIN, EBADF, EINVAL, ENOMEM};
use syscall::flag::{O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};

use crate::memory_stream::{Memory, Opening};
use crate::stream::{self, File, Mode, State};
use crate::{descriptor, errno, files, malloc, strings};

const EOF: c_int = -1;

/// The flags of `open` for a mode of `fopen`.
unsafe fn flags_of(mode: *const c_char) -> Result<usize> {
    // SAFETY: the caller's string.
    let mode = unsafe { strings::bytes(mode) };
    let has = |letter| mode.contains(&letter);
    let plus = has(b'+');
    let flags = match mode.first() {
        Some(b'r') => {
            if plus {
                O_RDWR
            } else {
                O_RDONLY
            }
        }
        Some(b'w') => O_CREAT | O_TRUNC | if plus { O_RDWR } else { O_WRONLY },
        Some(b'a') => O_CREAT | O_APPEND | if plus { O_RDWR } else { O_WRONLY },
        _ => return Err(Error::new(EINVAL)),
    };
    let exclusive = if has(b'x') { O_EXCL } else { 0 };
    let closing = if has(b'e') {
        libredox::flag::O_CLOEXEC as usize
    } else {
        0
    };
    Ok(flags | exclusive | closing)
}

fn rights(flags: usize) -> (bool, bool) {
    (flags & O_RDONLY != 0, flags & O_WRONLY != 0)
}

/// Moves to the end of a file that is written only there, as a program may ask for the position.
fn begin_appending(number: c_int, flags: usize) {
    if flags & O_APPEND != 0 && flags & O_RDONLY == 0 {
        // A pipe or a device has no positions.
        let _ = descriptor::seek(number, 0, syscall::SEEK_END);
    }
}

fn open_file(path: &str, flags: usize) -> Result<(c_int, bool, bool)> {
    let number = files::open_path(path, flags as c_int, 0o666)?;
    let (readable, writable) = rights(flags);
    begin_appending(number, flags);
    Ok((number, readable, writable))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut File {
    // SAFETY: the caller's strings.
    let opened =
        unsafe { flags_of(mode).and_then(|flags| open_file(files::path_of(path)?, flags)) };
    given(
        opened.map(|(number, readable, writable)| {
            stream::open(number, readable, writable, Mode::Full)
        }),
    )
}

/// The stream, or null with `errno` set.
fn given(opened: Result<*mut File>) -> *mut File {
    opened.unwrap_or_else(|error| {
        errno::set(error.errno);
        null_mut()
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fmemopen(block: *mut c_void, size: usize, mode: *const c_char) -> *mut File {
    // SAFETY: the caller's string.
    given(unsafe { flags_of(mode) }.and_then(|flags| {
        let opening = Opening {
            truncates: flags & O_TRUNC != 0,
            appends: flags & O_APPEND != 0,
        };
        // SAFETY: the caller's block, which is valid until it closes the stream.
        let memory = unsafe { Memory::fixed(block, size, opening) }?;
        Ok(stream::open_memory(memory, rights(flags)))
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open_memstream(block: *mut *mut c_char, length: *mut usize) -> *mut File {
    // SAFETY: the caller's places, which are valid until it closes the stream.
    let memory = unsafe { Memory::growing(block, length) };
    given(memory.map(|memory| stream::open_memory(memory, (false, true))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(number: c_int, mode: *const c_char) -> *mut File {
    let use_open = |flags| {
        let number = descriptor::check(number)?;
        let old = runtime::fd::fcntl(number, syscall::F_GETFL, 0)?;
        // Pipes and some devices do not say how they are open.
        if old & O_RDWR != 0 && flags & O_RDWR & !old != 0 {
            return Err(Error::new(EINVAL));
        }
        if flags & O_APPEND != 0 && old & O_APPEND == 0 {
            runtime::fd::fcntl(number, syscall::F_SETFL, old | O_APPEND)?;
            begin_appending(number as c_int, flags);
        }
        Ok(flags)
    };
    // SAFETY: the caller's string.
    given(unsafe { flags_of(mode) }.and_then(use_open).map(|flags| {
        let (readable, writable) = rights(flags);
        stream::open(number, readable, writable, Mode::Full)
    }))
}

/// Moves a file to another descriptor number, in place of the file that is there.
fn moved(number: c_int, place: c_int) -> Result<c_int> {
    let (index, copy) = (number as usize, place as usize);
    let replaced = descriptor::replaced(index, copy, || runtime::fd::dup2(index, copy, b""));
    descriptor::close(number)?;
    replaced
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    file: *mut File,
) -> *mut File {
    // SAFETY: the caller's strings and open stream.
    let result = unsafe {
        stream::with(file, |state| {
            // C says to disregard errors of closing the old file.
            let _ = state.flush();
            let flags = flags_of(mode)?;
            if path.is_null() {
                return state.open_again(flags);
            }
            let (number, readable, writable) = open_file(files::path_of(path)?, flags)?;
            // The number stays, so that standard streams keep their numbers for new programs. A
            // stream that was closed has none.
            let number = match state.number {
                old @ 0.. if old != number => {
                    let moved = moved(number, old)?;
                    let closes = flags & libredox::flag::O_CLOEXEC as usize != 0;
                    descriptor::set_close_on_exec(moved as usize, closes);
                    moved
                }
                _ => number,
            };
            state.replace(number, readable, writable);
            Ok::<(), Error>(())
        })
    };
    match result {
        Ok(()) => {
            // SAFETY: the caller's stream.
            unsafe { stream::reopened(file) };
            file
        }
        Err(error) => {
            // C says to close the old file even then, and to disregard its errors.
            // SAFETY: the caller's open stream, which is of no more use to it.
            let _ = unsafe { stream::close(file) };
            errno::set(error.errno);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fclose(file: *mut File) -> c_int {
    // SAFETY: the caller's open stream, which it gives up.
    errno::done(unsafe { stream::close(file) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fflush(file: *mut File) -> c_int {
    if file.is_null() {
        return stream::flush_all();
    }
    // SAFETY: the caller's open stream.
    errno::done(unsafe { stream::with(file, State::synchronize) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fileno(file: *mut File) -> c_int {
    // SAFETY: the caller's open stream.
    match unsafe { stream::with(file, |state| state.number) } {
        number @ 0.. => number,
        // A stream over memory or a closed one has no descriptor.
        _ => errno::fail(EBADF),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn feof(file: *mut File) -> c_int {
    // SAFETY: the caller's open stream.
    unsafe { stream::with(file, |state| state.ended.into()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ferror(file: *mut File) -> c_int {
    // SAFETY: the caller's open stream.
    unsafe { stream::with(file, |state| state.failed.into()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clearerr(file: *mut File) {
    // SAFETY: the caller's open stream.
    unsafe { stream::with(file, |state| (state.ended, state.failed) = (false, false)) };
}

/// Sets the mode. The caller's buffer is not used, as each stream has its own.
#[unsafe(no_mangle)]
unsafe extern "C" fn setvbuf(
    file: *mut File,
    _buffer: *mut c_char,
    mode: c_int,
    _size: usize,
) -> c_int {
    let mode = match mode {
        0 => Mode::Full,
        1 => Mode::Line,
        2 => Mode::None,
        _ => return errno::fail(EINVAL),
    };
    // SAFETY: the caller's open stream.
    unsafe { stream::with(file, |state| state.mode = mode) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setbuf(file: *mut File, buffer: *mut c_char) {
    let mode = if buffer.is_null() { 2 } else { 0 };
    // SAFETY: the same contract.
    unsafe { setvbuf(file, buffer, mode, 0) };
}

/// As `setbuf`: streams have buffers of their own size.
#[unsafe(no_mangle)]
unsafe extern "C" fn setbuffer(file: *mut File, buffer: *mut c_char, _size: usize) {
    // SAFETY: the same contract.
    unsafe { setbuf(file, buffer) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setlinebuf(file: *mut File) {
    // SAFETY: the same contract.
    unsafe { setvbuf(file, null_mut(), 1, 0) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fread(
    place: *mut c_void,
    size: usize,
    count: usize,
    file: *mut File,
) -> usize {
    let total = size.saturating_mul(count);
    if total == 0 {
        return 0;
    }
    let place = place.cast::<u8>();
    let mut done = 0;
    // SAFETY: the caller's open stream, and room for `total` bytes.
    let result = unsafe {
        stream::with(file, |state| {
            while done < total && state.peek()?.is_some() {
                let part = state.buffered();
                let length = part.len().min(total - done);
                place
                    .add(done)
                    .copy_from_nonoverlapping(part.as_ptr(), length);
                state.consume(length);
                done += length;
            }
            Ok::<(), Error>(())
        })
    };
    if let Err(error) = result {
        errno::set(error.errno);
    }
    done / size
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fwrite(
    place: *const c_void,
    size: usize,
    count: usize,
    file: *mut File,
) -> usize {
    let total = size.saturating_mul(count);
    if total == 0 {
        return 0;
    }
    // SAFETY: the caller's bytes and open stream.
    let result = unsafe {
        let bytes = core::slice::from_raw_parts(place.cast::<u8>(), total);
        stream::with(file, |state| state.write_counted(bytes))
    };
    if let (_, Err(error)) = result {
        errno::set(error.errno);
    }
    result.0 / size
}

/// Writes bytes to a stream; `EOF` if that fails.
///
/// # Safety
/// `file` is an open stream.
unsafe fn put(file: *mut File, bytes: &[u8]) -> c_int {
    // SAFETY: the caller's promise.
    errno::done(unsafe { stream::with(file, |state| state.write(bytes)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fputc(byte: c_int, file: *mut File) -> c_int {
    // SAFETY: the same contract.
    match unsafe { put(file, &[byte as u8]) } {
        0 => c_int::from(byte as u8),
        _ => EOF,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn putc(byte: c_int, file: *mut File) -> c_int {
    // SAFETY: the same contract.
    unsafe { fputc(byte, file) }
}

#[unsafe(no_mangle)]
extern "C" fn putchar(byte: c_int) -> c_int {
    // SAFETY: the standard output is open.
    unsafe { fputc(byte, stream::standard_output()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fputs(text: *const c_char, file: *mut File) -> c_int {
    // SAFETY: the caller's string and open stream.
    unsafe { put(file, strings::bytes(text)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn puts(text: *const c_char) -> c_int {
    // SAFETY: the caller's string; in one piece, so that lines of threads do not mix.
    unsafe {
        let line = [strings::bytes(text), b"\n"].concat();
        put(stream::standard_output(), &line)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fgetc(file: *mut File) -> c_int {
    // SAFETY: the caller's open stream.
    match unsafe { stream::with(file, State::get) } {
        Ok(Some(byte)) => byte.into(),
        Ok(None) => EOF,
        Err(error) => errno::fail(error.errno),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getc(file: *mut File) -> c_int {
    // SAFETY: the same contract.
    unsafe { fgetc(file) }
}

#[unsafe(no_mangle)]
extern "C" fn getchar() -> c_int {
    // SAFETY: the standard input is open.
    unsafe { fgetc(stream::standard_input()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ungetc(byte: c_int, file: *mut File) -> c_int {
    if byte == EOF {
        return EOF;
    }
    // SAFETY: the caller's open stream.
    match unsafe { stream::with(file, |state| state.unget(byte as u8)) } {
        true => c_int::from(byte as u8),
        false => EOF,
    }
}

/// Reads up to and including the byte `end`, but at most `limit` bytes. If an error ends the line
/// and `keeps` accepts it, the result is what had been read, if that is not empty. The next read
/// finds the error again.
unsafe fn line(
    file: *mut File,
    end: u8,
    limit: usize,
    keeps: impl Fn(c_int) -> bool,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // SAFETY: the caller's open stream.
    unsafe {
        stream::with(file, |state| {
            while bytes.len() < limit {
                match state.get() {
                    Ok(Some(byte)) => bytes.push(byte),
                    Err(error) if bytes.is_empty() || !keeps(error.errno) => return Err(error),
                    _ => break,
                }
                if bytes.last() == Some(&end) {
                    break;
                }
            }
            Ok(bytes)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fgets(buffer: *mut c_char, size: c_int, file: *mut File) -> *mut c_char {
    let Some(limit) = usize::try_from(size).ok().filter(|size| *size > 0) else {
        errno::set(EINVAL);
        return null_mut();
    };
    // SAFETY: the caller's open stream, and a buffer of `size` bytes.
    unsafe {
        match line(file, b'\n', limit - 1, |number| number == EAGAIN) {
            Ok(bytes) if !bytes.is_empty() || limit == 1 => {
                buffer.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
                *buffer.add(bytes.len()) = 0;
                buffer
            }
            Ok(_) => null_mut(),
            Err(error) => {
                errno::set(error.errno);
                null_mut()
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getdelim(
    place: *mut *mut c_char,
    size: *mut usize,
    end: c_int,
    file: *mut File,
) -> isize {
    if place.is_null() || size.is_null() {
        return errno::fail(EINVAL);
    }
    // SAFETY: the caller's open stream; the buffer is null or allocated with the size given.
    unsafe {
        match line(file, end as u8, usize::MAX, |_| true) {
            Ok(bytes) if bytes.is_empty() => -1,
            Ok(bytes) => {
                if (*place).is_null() || *size <= bytes.len() {
                    let new = malloc::realloc((*place).cast(), bytes.len() + 1);
                    if new.is_null() {
                        return errno::fail(ENOMEM);
                    }
                    (*place, *size) = (new.cast(), bytes.len() + 1);
                }
                (*place).copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
                *(*place).add(bytes.len()) = 0;
                bytes.len() as isize
            }
            Err(error) => errno::fail(error.errno),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getline(place: *mut *mut c_char, size: *mut usize, file: *mut File) -> isize {
    // SAFETY: the same contract.
    unsafe { getdelim(place, size, b'\n'.into(), file) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fseek(file: *mut File, offset: c_long, whence: c_int) -> c_int {
    let Ok(whence) = usize::try_from(whence) else {
        return errno::fail(EINVAL);
    };
    // SAFETY: the caller's open stream.
    errno::done(unsafe { stream::with(file, |state| state.seek(offset, whence)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fseeko(file: *mut File, offset: i64, whence: c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { fseek(file, offset, whence) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftell(file: *mut File) -> c_long {
    // SAFETY: the caller's open stream.
    errno::give(unsafe { stream::with(file, State::tell) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftello(file: *mut File) -> i64 {
    // SAFETY: the same contract.
    unsafe { ftell(file) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rewind(file: *mut File) {
    // SAFETY: the same contract.
    unsafe {
        fseek(file, 0, 0);
        clearerr(file);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fgetpos(file: *mut File, place: *mut c_long) -> c_int {
    // SAFETY: the caller's open stream and place.
    unsafe {
        let position = ftell(file);
        if position < 0 {
            return -1;
        }
        *place = position;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsetpos(file: *mut File, place: *const c_long) -> c_int {
    // SAFETY: the caller's open stream and place.
    unsafe { fseek(file, *place, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn perror(text: *const c_char) {
    let message = errno::message(errno::get());
    // SAFETY: null or the caller's string; the standard error is open.
    unsafe {
        let text = if text.is_null() {
            &[]
        } else {
            strings::bytes(text)
        };
        let separator: &[u8] = if text.is_empty() { b"" } else { b": " };
        let line = [text, separator, message.as_bytes(), b"\n"].concat();
        put(stream::standard_error(), &line);
    }
}
