//! Further calls on files: transfers at a position, lengths, renaming, unused file names, and
//! parts of paths.

use alloc::string::String;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use runtime::{Error, Result, fd, path, process, sys, time};
use syscall::error::{EEXIST, EFBIG, EINVAL, ESPIPE};
use syscall::flag::{O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_RDWR, O_WRONLY};

use crate::files::{open_path, path_of};
use crate::parts::Part;
use crate::stream::{self, File, Mode};
use crate::sync::Shared;
use crate::{descriptor, environment, errno, parts, points, slashes, strings};

const O_CLOEXEC: usize = libredox::flag::O_CLOEXEC as usize;

/// Checks a descriptor and a position; `ESPIPE` if the file has no positions.
fn place(number: c_int, offset: c_long) -> Result<(usize, usize)> {
    const TYPE: u16 = 0o170_000;
    const FIFO: u16 = 0o010_000;
    const SOCKET: u16 = 0o140_000;
    let offset = usize::try_from(offset).map_err(|_| Error::new(EINVAL))?;
    if descriptor::is_scif_file(number)? {
        return Err(Error::new(ESPIPE));
    }
    let number = descriptor::check(number)?;
    match fd::fstat(number)?.st_mode & TYPE {
        FIFO | SOCKET => Err(Error::new(ESPIPE)),
        _ => Ok((number, offset)),
    }
}

/// Tells the kernel to use the flags of the descriptor itself.
const OWN_FLAGS: usize = usize::MAX;

#[unsafe(no_mangle)]
unsafe extern "C" fn pread(
    number: c_int,
    buffer: *mut c_void,
    size: usize,
    offset: c_long,
) -> isize {
    points::pass();
    let result = place(number, offset).and_then(|(number, offset)| {
        // SAFETY: the caller's buffer, which the kernel checks.
        unsafe { fd::read_at(number, buffer as usize, size, offset) }
    });
    errno::give(result.map(|count| count as isize))
}

#[unsafe(no_mangle)]
extern "C" fn pwrite(number: c_int, buffer: *const c_void, size: usize, offset: c_long) -> isize {
    points::pass();
    let result = place(number, offset).and_then(|(number, offset)| {
        let arguments = [number, buffer as usize, size, offset, OWN_FLAGS, 0];
        // SAFETY: the kernel only reads, and answers EFAULT for a range that cannot be read.
        unsafe { sys::call(syscall::SYS_WRITE2, arguments) }
    });
    errno::give(result.map(|count| count as isize))
}

fn set_length(number: usize, length: c_long) -> Result<()> {
    let length = u64::try_from(length).map_err(|_| Error::new(EINVAL))?;
    fd::truncate(number, length)
}

/// Reads into parts, from a position that advances with them.
#[unsafe(no_mangle)]
unsafe extern "C" fn preadv(
    number: c_int,
    parts: *const Part,
    count: c_int,
    offset: c_long,
) -> isize {
    // SAFETY: the caller's parts and buffers.
    unsafe {
        at_places(parts, count, offset, |part, offset| {
            pread(number, part.start, part.length, offset)
        })
    }
}

/// Writes parts, to a position that advances with them.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev(
    number: c_int,
    parts: *const Part,
    count: c_int,
    offset: c_long,
) -> isize {
    // SAFETY: the caller's parts.
    unsafe {
        at_places(parts, count, offset, |part, offset| {
            pwrite(number, part.start, part.length, offset)
        })
    }
}

/// Transfers parts one after the other, each to or from the position behind the one before.
///
/// # Safety
/// `parts` is null or points to that many.
unsafe fn at_places(
    parts: *const Part,
    count: c_int,
    offset: c_long,
    mut transfer: impl FnMut(&Part, c_long) -> isize,
) -> isize {
    let mut place = offset;
    // SAFETY: the caller's promise.
    let moved = unsafe { parts::parts_of(parts, count) }.and_then(|parts| {
        parts::each(parts, |part| {
            let moved = usize::try_from(transfer(part, place));
            let moved = moved.map_err(|_| Error::new(errno::get()))?;
            place = place.saturating_add(moved as c_long);
            Ok(moved)
        })
    });
    errno::give(moved.map(|count| count as isize))
}

/// Advice has no effect here, as POSIX allows.
#[unsafe(no_mangle)]
extern "C" fn posix_fadvise(
    number: c_int,
    _offset: c_long,
    length: c_long,
    advice: c_int,
) -> c_int {
    /// `POSIX_FADV_NOREUSE`, the last one.
    const LAST: c_int = 5;
    let check = || {
        fd::fcntl(descriptor::check(number)?, syscall::F_GETFD, 0)?;
        if descriptor::is_socket(number) || descriptor::is_pipe(number)? {
            return Err(Error::new(ESPIPE));
        }
        match length >= 0 && (0..=LAST).contains(&advice) {
            true => Ok(()),
            false => Err(Error::new(EINVAL)),
        }
    };
    check().map_or_else(|error| error.errno, |()| 0)
}

/// Makes a file long enough to contain these bytes; returns the error number.
#[unsafe(no_mangle)]
extern "C" fn posix_fallocate(number: c_int, offset: c_long, length: c_long) -> c_int {
    let allocate = || {
        let end = offset.checked_add(length).ok_or(Error::new(EFBIG))?;
        if offset < 0 || length <= 0 {
            return Err(Error::new(EINVAL));
        }
        let (number, _) = place(number, offset)?;
        match fd::fstat(number)?.st_size as c_long >= end {
            true => Ok(()),
            false => set_length(number, end),
        }
    };
    allocate().map_or_else(|error| error.errno, |()| 0)
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate(number: c_int, length: c_long) -> c_int {
    errno::done(descriptor::check(number).and_then(|number| set_length(number, length)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate(path: *const c_char, length: c_long) -> c_int {
    // SAFETY: the caller's string.
    let result = unsafe { path_of(path) }.and_then(|path| {
        let number = slashes::open(path, O_WRONLY | O_CLOEXEC)?;
        let result = set_length(number, length);
        fd::close(number)?;
        result
    });
    errno::done(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's strings.
    let (from, to) = unsafe { (path_of(from), path_of(to)) };
    errno::done(from.and_then(|from| slashes::rename(from, to?)))
}

/// Replaces the six letters `X` in front of the last `behind` bytes of a path by others until
/// `make` succeeds in making a file there, or fails with another error than `EEXIST`.
///
/// # Safety
/// `path` is a writable string.
unsafe fn with_free_name(
    path: *mut c_char,
    behind: c_int,
    mut make: impl FnMut(&str) -> Result<c_int>,
) -> Result<c_int> {
    const LETTERS: &[u8; 6] = b"XXXXXX";
    const TRIES: usize = 1000;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // SAFETY: the caller's string.
    let mut name = unsafe { path_of(path) }.map(String::from)?;
    let behind = usize::try_from(behind).ok();
    let end = behind.and_then(|behind| name.len().checked_sub(behind));
    let start = end.and_then(|end| end.checked_sub(LETTERS.len()));
    let start = start.filter(|start| name.as_bytes()[*start..].starts_with(LETTERS));
    let start = start.ok_or(Error::new(EINVAL))?;
    let behind = name.split_off(start + LETTERS.len());
    for _ in 0..TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) ^ time::Instant::now().as_nanos();
        let mut rest = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(process::id());
        name.truncate(start);
        for _ in LETTERS {
            const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
            name.push(char::from(DIGITS[(rest >> 59) as usize]));
            rest <<= 5;
        }
        name.push_str(&behind);
        match make(&name) {
            Err(Error { errno: EEXIST }) => {}
            result => {
                // SAFETY: the caller's string, which is as long.
                unsafe {
                    let end = path.cast::<u8>().add(start);
                    end.copy_from_nonoverlapping(name[start..].as_ptr(), LETTERS.len());
                }
                return result;
            }
        }
    }
    Err(Error::new(EEXIST))
}

/// Makes and opens a file at a path where there is none.
pub fn open_new(path: &str) -> Result<c_int> {
    open_path(path, (O_RDWR | O_CREAT | O_EXCL) as c_int, 0o600)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkstemp(path: *mut c_char) -> c_int {
    // SAFETY: the caller's string.
    errno::give(unsafe { with_free_name(path, 0, open_new) })
}

/// As `mkstemp`, for a name with an end of its own.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkstemps(path: *mut c_char, behind: c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { mkostemps(path, behind, 0) }
}

/// As `mkstemp`, with more flags for `open`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkostemp(path: *mut c_char, flags: c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { mkostemps(path, 0, flags) }
}

/// As `mkstemps`, with more flags for `open`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkostemps(path: *mut c_char, behind: c_int, flags: c_int) -> c_int {
    let open = |path: &str| {
        let own = O_RDWR | O_CREAT | O_EXCL;
        open_path(path, own as c_int | flags & !(O_ACCMODE as c_int), 0o600)
    };
    // SAFETY: the caller's string.
    errno::give(unsafe { with_free_name(path, behind, open) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdtemp(path: *mut c_char) -> *mut c_char {
    let make = |path: &str| {
        let flags = O_CREAT | O_EXCL | O_DIRECTORY | O_CLOEXEC;
        fd::close(path::open(path, flags | 0o700)?).map(|()| 0)
    };
    // SAFETY: the caller's string.
    match unsafe { with_free_name(path, 0, make) } {
        Ok(_) => path,
        Err(error) => {
            errno::set(error.errno);
            core::ptr::null_mut()
        }
    }
}

/// C's `L_tmpnam`.
const NAME_LENGTH: usize = 20;

/// The result of `tmpnam` for callers that pass no buffer.
pub static NAME: Shared<[u8; NAME_LENGTH]> = Shared::new([0; NAME_LENGTH]);

/// Returns a name that no file has; null if none was found. Another process may take the name
/// before the caller does, which `mkstemp` avoids.
#[unsafe(no_mangle)]
unsafe extern "C" fn tmpnam(place: *mut c_char) -> *mut c_char {
    let mut path = *b"/tmp/name-XXXXXX\0\0\0\0";
    // SAFETY: a local string.
    if unsafe { with_free_name(path.as_mut_ptr().cast(), 0, free) }.is_err() {
        return core::ptr::null_mut();
    }
    if place.is_null() {
        return NAME.with(|name| {
            *name = path;
            name.as_mut_ptr().cast()
        });
    }
    // SAFETY: the caller's place has that many bytes.
    unsafe {
        place
            .cast::<u8>()
            .copy_from_nonoverlapping(path.as_ptr(), NAME_LENGTH)
    };
    place
}

/// Allocates a name that no file in the directory has: that of `TMPDIR`, else `directory`, else
/// `/tmp`. Another process may take it, as with `tmpnam`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tempnam(directory: *const c_char, prefix: *const c_char) -> *mut c_char {
    /// The most bytes of the prefix.
    const LONGEST: usize = 5;
    // SAFETY: null, or the caller's strings; a variable is a string, which is copied at once.
    let (wanted, own, prefix) = unsafe {
        let text = |text: *const c_char| (!text.is_null()).then(|| strings::bytes(text));
        let own = environment::find(b"TMPDIR").map(|own| strings::bytes(own));
        (text(directory), own, text(prefix).unwrap_or_default())
    };
    let is_directory = |path: &&[u8]| {
        let path = core::str::from_utf8(path).unwrap_or_default();
        !path.is_empty() && slashes::metadata(path).is_ok_and(|found| found.is_dir())
    };
    let parent = own
        .filter(is_directory)
        .or(wanted.filter(is_directory))
        .unwrap_or(b"/tmp");
    let prefix = &prefix[..prefix.len().min(LONGEST)];
    let mut path = [parent, b"/", prefix, b"XXXXXX\0"].concat();
    // SAFETY: a local string.
    match unsafe { with_free_name(path.as_mut_ptr().cast(), 0, free) } {
        Ok(_) => strings::duplicate(&path[..path.len() - 1]),
        Err(error) => {
            errno::set(error.errno);
            core::ptr::null_mut()
        }
    }
}

/// Succeeds if there is no file at a path.
fn free(path: &str) -> Result<c_int> {
    match slashes::metadata(path) {
        Ok(_) => Err(Error::new(EEXIST)),
        Err(_) => Ok(0),
    }
}

/// Opens a stream over a new file whose name is removed at once.
#[unsafe(no_mangle)]
extern "C" fn tmpfile() -> *mut File {
    let mut path = *b"/tmp/file-XXXXXX\0";
    let make = |path: &str| {
        let number = open_new(path)?;
        runtime::fs::remove_file(path).map(|()| number)
    };
    // SAFETY: a local string.
    match unsafe { with_free_name(path.as_mut_ptr().cast(), 0, make) } {
        Ok(number) => stream::open(number, true, true, Mode::Full),
        Err(error) => {
            errno::set(error.errno);
            core::ptr::null_mut()
        }
    }
}

/// The directory part of a path. May write to the string to cut it.
#[unsafe(no_mangle)]
unsafe extern "C" fn dirname(path: *mut c_char) -> *mut c_char {
    const HERE: &core::ffi::CStr = c".";
    const ROOT: &core::ffi::CStr = c"/";
    if path.is_null() {
        return HERE.as_ptr().cast_mut();
    }
    // SAFETY: the caller's string.
    let text = unsafe { strings::bytes(path) };
    let named = text.iter().rposition(|byte| *byte != b'/');
    let slash = named.and_then(|end| text[..end].iter().rposition(|byte| *byte == b'/'));
    let end = slash.and_then(|slash| text[..slash].iter().rposition(|byte| *byte != b'/'));
    match (end, slash, named) {
        (Some(end), _, _) => {
            // SAFETY: within the caller's string, which it lets be cut.
            unsafe { *path.add(end + 1) = 0 };
            path
        }
        (None, Some(_), _) => ROOT.as_ptr().cast_mut(),
        (None, None, None) if !text.is_empty() => ROOT.as_ptr().cast_mut(),
        _ => HERE.as_ptr().cast_mut(),
    }
}

/// The last part of a path: POSIX's `basename`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __xpg_basename(path: *mut c_char) -> *mut c_char {
    const HERE: &core::ffi::CStr = c".";
    if path.is_null() {
        return HERE.as_ptr().cast_mut();
    }
    // SAFETY: the caller's string.
    let text = unsafe { strings::bytes(path) };
    let Some(last) = text.iter().rposition(|byte| *byte != b'/') else {
        // Only slashes, of which one remains; or an empty string.
        return match text.len() {
            0 => HERE.as_ptr().cast_mut(),
            length => path.wrapping_add(length - 1),
        };
    };
    if last + 1 < text.len() {
        // SAFETY: within the caller's string, which it lets be cut.
        unsafe { *path.add(last + 1) = 0 };
    }
    let slash = text[..last].iter().rposition(|byte| *byte == b'/');
    path.wrapping_add(slash.map_or(0, |slash| slash + 1))
}
