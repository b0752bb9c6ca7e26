//! `unistd.h`, `fcntl.h` and `sys/stat.h`: descriptors, files and directories.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::{Error, Result, env, fd, fs, path, sys};
use syscall::error::{EAGAIN, EBADF, ECONNRESET, EFAULT, EINTR, EINVAL, EIO, ENOENT, ERANGE};
use syscall::flag::{
    MODE_FILE, MODE_TYPE, O_ACCMODE, O_CREAT, O_DIRECTORY, O_RDONLY, O_STAT, O_TRUNC, O_WRONLY,
    RwFlags,
};

use crate::parts::{self, Part, parts_of};
use crate::scif_files::{self, of_library};
use crate::{
    descriptor, errno, given, linux_names, machine, own, pipes, points, slashes, strings, umad,
    uverbs,
};

unsafe extern "C" {
    /// Reads from a socket into the parts; the count, or a negated error number. In `libsocket`.
    fn skiff_socket_read(number: c_int, parts: *const Part, count: usize) -> isize;
    /// Writes the parts to a socket; the count, or a negated error number. In `libsocket`.
    fn skiff_socket_write(number: c_int, parts: *const Part, count: usize) -> isize;
}

const O_CLOEXEC: usize = libredox::flag::O_CLOEXEC as usize;
const O_PATH: usize = libredox::flag::O_PATH as usize;

/// Converts a path for the runtime, in UTF-8. An empty path names nothing, also below a directory:
/// `ENOENT`.
///
/// # Safety
/// `path` is null or a string that stays as long as the result.
pub unsafe fn path_of<'a>(path: *const c_char) -> Result<&'a str> {
    if path.is_null() {
        return Err(Error::new(EFAULT));
    }
    // SAFETY: the caller's string.
    let path = unsafe { strings::bytes(path) };
    let path = core::str::from_utf8(path).map_err(|_| Error::new(EINVAL))?;
    (!path.is_empty()).then_some(path).ok_or(Error::new(ENOENT))
}

/// The permission bits that new files do not get.
static MASK: AtomicU32 = AtomicU32::new(0);

#[unsafe(no_mangle)]
extern "C" fn umask(mask: c_uint) -> c_uint {
    MASK.swap(mask & 0o777, Ordering::Relaxed)
}

/// The mode of a file that is made with `mode`, without the bits of the mask.
pub fn made_with(mode: c_uint) -> usize {
    (mode & 0o7777 & !MASK.load(Ordering::Relaxed)) as usize
}

/// Opens a file; `mode` has an effect only when the file is made.
pub fn open_path(path: &str, flags: c_int, mode: c_uint) -> Result<c_int> {
    let mut flags = flags as u32 as usize;
    if flags & (O_ACCMODE | O_PATH | O_STAT) == 0 {
        // Linux's O_RDONLY is 0, and programs rely on that.
        flags |= O_RDONLY;
    }
    let mode = if flags & O_CREAT != 0 {
        made_with(mode)
    } else {
        0
    };
    let closes = flags & O_CLOEXEC != 0;
    let processors = || machine::processors().map_or(1, |count| count as usize);
    if let Some(opened) = linux_names::open_own(path, processors) {
        return opened.map(|number| descriptor::opened(number, closes));
    }
    let number = slashes::open(path, flags & !0o7777 | mode)?;
    let path = linux_names::here(path);
    uverbs::note_opened(&path);
    let number = match path::canonical(&path) {
        Ok(path) => {
            descriptor::opened_of(number, closes, descriptor::is_scif_path(path.as_bytes()))
        }
        Err(_) => descriptor::opened(number, closes),
    };
    if umad::is_device(&path) {
        descriptor::set_umad(number);
    }
    Ok(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mut arguments: ...) -> c_int {
    points::pass();
    // SAFETY: the caller's string; with O_CREAT a mode was passed.
    let (path, mode) = unsafe {
        let creates = flags as u32 as usize & O_CREAT != 0;
        (
            path_of(path),
            if creates {
                arguments.arg::<c_uint>()
            } else {
                0
            },
        )
    };
    errno::give(path.and_then(|path| open_path(path, flags, mode)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat(path: *const c_char, mode: c_uint) -> c_int {
    points::pass();
    let flags = (O_WRONLY | O_CREAT | O_TRUNC) as c_int;
    // SAFETY: the caller's string.
    let path = unsafe { path_of(path) };
    errno::give(path.and_then(|path| open_path(path, flags, mode)))
}

#[unsafe(no_mangle)]
extern "C" fn close(number: c_int) -> c_int {
    points::pass();
    errno::done(descriptor::close(number))
}

/// Reads into memory given by a raw pointer.
///
/// # Safety
/// The kernel checks the range and answers `EFAULT`, but nothing else may use the memory that it
/// writes.
pub unsafe fn read_raw(number: c_int, buffer: *mut c_void, size: usize) -> Result<usize> {
    // SAFETY: the caller's promise.
    let result = unsafe { read_of_kind(number, buffer, size) };
    descriptor::note_use(number);
    match result {
        Err(Error { errno: ECONNRESET }) if given::is_connection(number) => Ok(0),
        result => result,
    }
}

unsafe fn read_of_kind(number: c_int, buffer: *mut c_void, size: usize) -> Result<usize> {
    if descriptor::is_socket(number) {
        let part = Part::new(buffer, size);
        // SAFETY: the caller's promise.
        return of_library(unsafe { skiff_socket_read(number, &raw const part, 1) });
    }
    loop {
        let turns = own::turns();
        // SAFETY: the caller's promise.
        if let Some(result) = unsafe { own::read(number, buffer, size) } {
            return result;
        }
        // SAFETY: the caller's promise.
        if let Some(read) = unsafe { scif_files::read(number, buffer, size) } {
            return read;
        }
        let arguments = [descriptor::check(number)?, buffer as usize, size, 0, 0, 0];
        // SAFETY: the caller's promise.
        match unsafe { sys::call(syscall::SYS_READ, arguments) } {
            // `dup2` may have put a counter or a set there meanwhile, so that this was its pipe.
            Err(Error { errno: EAGAIN }) if own::turns() != turns => {}
            read => return read.map_err(|error| umad::of_transfer(number, error)),
        }
    }
}

/// Writes all bytes, by as many calls as it takes. Also returns how many were written, which are
/// not all if there is an error: one of [`write_raw`], or `EIO` if a call wrote nothing.
pub fn write_all(number: c_int, bytes: &[u8]) -> (usize, Result<()>) {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: these are bytes.
        match unsafe { write_raw(number, rest.as_ptr().cast(), rest.len()) } {
            Ok(0) => return (done, Err(Error::new(EIO))),
            Ok(count) => done += count,
            Err(Error { errno: EINTR }) => {}
            Err(error) => return (done, Err(error)),
        }
    }
    (done, Ok(()))
}

/// Writes memory given by a raw pointer. If a pipe has no reader, the thread gets a SIGPIPE, which
/// the caller has to have [handled](points::handle_signals) when it holds no lock.
///
/// # Safety
/// The kernel checks the range and answers `EFAULT`. But writes to sockets, counters and devices
/// are made here, and for these the memory must be readable.
pub unsafe fn write_raw(number: c_int, buffer: *const c_void, size: usize) -> Result<usize> {
    // SAFETY: the caller's promise.
    let result = unsafe { write_of_kind(number, buffer, size) };
    descriptor::note_use(number);
    result
}

unsafe fn write_of_kind(number: c_int, buffer: *const c_void, size: usize) -> Result<usize> {
    if descriptor::is_socket(number) {
        let part = Part::new(buffer.cast_mut(), size);
        // SAFETY: the memory is only read.
        return of_library(unsafe { skiff_socket_write(number, &raw const part, 1) });
    }
    loop {
        let turns = own::turns();
        // SAFETY: the caller's memory, which is only read.
        if let Some(result) = unsafe { own::write(number, buffer, size) } {
            return result;
        }
        // SAFETY: the memory is only read.
        if let Some(written) = unsafe { scif_files::write(number, buffer, size) } {
            return written;
        }
        if size > 0 && uverbs::is_device(number) {
            // SAFETY: the caller's memory, and a command that its writer means.
            return unsafe {
                let command = core::slice::from_raw_parts(buffer.cast(), size);
                uverbs::write(number, command)
            };
        }
        let file = descriptor::check(number)?;
        let write = |done| {
            let arguments = [file, buffer as usize + done, size - done, 0, 0, 0];
            // SAFETY: the kernel only reads, and answers EFAULT for a range that cannot be read.
            unsafe { sys::call(syscall::SYS_WRITE, arguments) }
        };
        match pipes::whole(number, size, write) {
            // As in `read_of_kind`; the end of a pipe for reading refuses every write with
            // `EBADF`.
            Err(Error { errno: EBADF }) if own::turns() != turns => {}
            written => return written.map_err(|error| umad::of_transfer(number, error)),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(number: c_int, buffer: *mut c_void, size: usize) -> isize {
    // SAFETY: the caller's buffer.
    let read = points::interruptible(|| unsafe { read_raw(number, buffer, size) });
    errno::give(read.map(|count| count as isize))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(number: c_int, buffer: *const c_void, size: usize) -> isize {
    // SAFETY: the caller's bytes.
    let written = points::interruptible(|| unsafe { write_raw(number, buffer, size) });
    points::handle_signals();
    errno::give(written.map(|count| count as isize))
}

#[unsafe(no_mangle)]
extern "C" fn lseek(number: c_int, offset: c_long, whence: c_int) -> c_long {
    let seek = || {
        descriptor::check(number)?;
        let whence = usize::try_from(whence).map_err(|_| Error::new(EINVAL))?;
        descriptor::seek(number, offset, whence).map(|position| position as c_long)
    };
    errno::give(seek())
}

/// Has nothing to do: no file system here keeps changes back.
#[unsafe(no_mangle)]
extern "C" fn sync() {}

#[unsafe(no_mangle)]
extern "C" fn fsync(number: c_int) -> c_int {
    points::pass();
    let sync = || {
        // A pipe or a connection has no storage to write through to.
        if descriptor::is_socket(number) || descriptor::is_pipe(number)? {
            return Err(Error::new(EINVAL));
        }
        let number = descriptor::check(number)?;
        // SAFETY: plain numbers only.
        unsafe { sys::call(syscall::SYS_FSYNC, [number, 0, 0, 0, 0, 0]) }
    };
    errno::small(sync().map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(number: c_int) -> c_int {
    fsync(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pipe(pair: *mut c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { pipe2(pair, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
    let flags = flags as u32 as usize;
    let make = || {
        let reader = path::open("/scheme/pipe", flags & !O_CLOEXEC)?;
        match fd::dup(reader, b"write") {
            Ok(writer) => Ok((reader, writer)),
            Err(error) => {
                // The reader is of no use alone.
                let _ = fd::close(reader);
                Err(error)
            }
        }
    };
    match make() {
        Ok((reader, writer)) => {
            let closes = flags & O_CLOEXEC != 0;
            let opened = |number| descriptor::opened_of(number, closes, false);
            let numbers = [reader, writer].map(opened);
            // SAFETY: the caller's place for two numbers.
            unsafe { pair.cast::<[c_int; 2]>().write(numbers) };
            0
        }
        Err(error) => errno::fail(error.errno),
    }
}

/// Returns 1 for the console, else 0 with `errno` `ENOTTY` or `EBADF`.
#[unsafe(no_mangle)]
extern "C" fn isatty(number: c_int) -> c_int {
    let mut path = [0; 32];
    let length = descriptor::check(number).and_then(|number| fd::fpath(number, &mut path));
    match length {
        Ok(length) => {
            let path = path.get(..length).unwrap_or(&path);
            let console = path.starts_with(b"/scheme/console") || path.starts_with(b"console:");
            if !console {
                errno::set(syscall::ENOTTY);
            }
            console.into()
        }
        Err(error) => {
            errno::set(if error.errno == EBADF {
                EBADF
            } else {
                syscall::ENOTTY
            });
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    errno::done(unsafe { path_of(path) }.and_then(slashes::remove_file))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    errno::done(unsafe { path_of(path) }.and_then(fs::remove_dir))
}

/// `unlink` for files, `rmdir` for directories.
#[unsafe(no_mangle)]
unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    let result = unsafe { path_of(path) }.and_then(|path| {
        if slashes::metadata(path)?.is_dir() {
            fs::remove_dir(path)
        } else {
            fs::remove_file(path)
        }
    });
    errno::done(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: the caller's string.
    let result = unsafe { path_of(path) }.and_then(|path| {
        slashes::can_be_made(path)?;
        let flags = O_CREAT | syscall::O_EXCL | O_DIRECTORY | O_CLOEXEC;
        fd::close(path::open(path, flags | made_with(mode))?)
    });
    errno::done(result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    let path = unsafe { path_of(path) };
    errno::done(path.and_then(|path| env::set_current_dir(&linux_names::here(path))))
}

/// Allocates the result if the buffer is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn getcwd(buffer: *mut c_char, size: usize) -> *mut c_char {
    let directory = env::current_dir();
    if buffer.is_null() {
        return strings::duplicate(directory.as_bytes());
    }
    if size == 0 || directory.len() + 1 > size {
        errno::set(if size == 0 { EINVAL } else { ERANGE });
        return core::ptr::null_mut();
    }
    // SAFETY: the path and its end fit into the caller's buffer.
    unsafe {
        buffer.copy_from_nonoverlapping(directory.as_ptr().cast(), directory.len());
        *buffer.add(directory.len()) = 0;
    }
    buffer
}

/// C's `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Timespec {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds, below 1 000 000 000.
    pub nanoseconds: c_long,
}

/// The bits of the mode that hold the kind of a file, and the kind of a socket.
const S_IFMT: u32 = 0o170_000;
const S_IFSOCK: u32 = 0o140_000;

/// C's `struct stat`.
#[repr(C)]
#[derive(Default)]
pub struct Stat {
    device: u64,
    inode: u64,
    links: u64,
    mode: u32,
    user: u32,
    group: u32,
    reserved: u32,
    special: u64,
    size: i64,
    block_size: i64,
    blocks: i64,
    accessed: Timespec,
    modified: Timespec,
    changed: Timespec,
    /// Fills the structure up to the size of relibc's.
    padding: [u64; 3],
}

const _: () = assert!(size_of::<Stat>() == 144);

impl From<syscall::Stat> for Stat {
    fn from(stat: syscall::Stat) -> Self {
        let time = |seconds: u64, nanoseconds: u32| Timespec {
            seconds: seconds as i64,
            nanoseconds: nanoseconds.into(),
        };
        Stat {
            device: stat.st_dev,
            inode: stat.st_ino,
            links: stat.st_nlink.into(),
            mode: stat.st_mode.into(),
            user: stat.st_uid,
            group: stat.st_gid,
            reserved: 0,
            special: 0,
            size: stat.st_size as i64,
            block_size: stat.st_blksize.into(),
            blocks: stat.st_blocks as i64,
            accessed: time(stat.st_atime, stat.st_atime_nsec),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
            padding: [0; 3],
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat(number: c_int, place: *mut Stat) -> c_int {
    let stat = descriptor::check(number).and_then(fd::fstat);
    errno::done(stat.map(|stat| {
        let mut stat = Stat::from(stat);
        if descriptor::is_socket(number) || given::is_connection(number) {
            stat.mode = stat.mode & !S_IFMT | S_IFSOCK;
        }
        // SAFETY: the caller's place for the structure.
        unsafe { place.write(stat) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn stat(path: *const c_char, place: *mut Stat) -> c_int {
    // SAFETY: the caller's string and place for the structure.
    let result = unsafe {
        path_of(path)
            .and_then(slashes::metadata)
            .map(|metadata| place.write((*metadata.stat()).into()))
    };
    errno::done(result)
}

/// The same as `stat`, as there are no symbolic links.
#[unsafe(no_mangle)]
unsafe extern "C" fn lstat(path: *const c_char, place: *mut Stat) -> c_int {
    // SAFETY: the same contract.
    unsafe { stat(path, place) }
}

/// Converts a count of bytes for C.
fn count_of(moved: Result<usize>) -> isize {
    errno::give(moved.map(|count| count as isize))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(number: c_int, parts: *const Part, count: c_int) -> isize {
    // SAFETY: the caller's parts.
    let parts = match unsafe { parts_of(parts, count) } {
        Ok(parts) => parts,
        Err(error) => return errno::fail(error.errno),
    };
    count_of(points::interruptible(|| {
        if descriptor::is_socket(number) {
            // SAFETY: the same contract.
            let result = unsafe { skiff_socket_read(number, parts.as_ptr(), parts.len()) };
            descriptor::note_use(number);
            return of_library(result);
        }
        let mut has_data = false;
        parts::each(parts, |part| {
            // SAFETY: the caller's buffers, for both.
            let count = unsafe {
                match has_data {
                    false => read_raw(number, part.start, part.length),
                    true => read_rest(number, part),
                }
            }?;
            has_data |= count > 0;
            Ok(count)
        })
    }))
}

/// Reads what is there without waiting, for a call that has read a part before. Reads nothing from
/// files of which this library does not know how to do that.
///
/// # Safety
/// As of [`read_raw`].
unsafe fn read_rest(number: c_int, part: &Part) -> Result<usize> {
    let is_device = descriptor::is_umad(number) || uverbs::is_device(number);
    if is_device || own::is_own(number) {
        return Ok(0);
    }
    let descriptor = descriptor::check(number)?;
    // SAFETY: the caller's promise.
    if let Some(read) = unsafe { scif_files::read_now(number, part.start, part.length) } {
        return read;
    }
    if fd::fstat(descriptor)?.st_mode & MODE_TYPE == MODE_FILE {
        // It never waits, and the next part is at its position, which the call below leaves alone.
        // SAFETY: the caller's promise.
        return unsafe { read_raw(number, part.start, part.length) };
    }
    let flags = RwFlags::NONBLOCK.bits() as usize;
    let place = part.start as usize;
    let arguments = [descriptor, place, part.length, usize::MAX, flags, 0];
    // SAFETY: the caller's promise.
    unsafe { sys::call(syscall::SYS_READ2, arguments) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(number: c_int, parts: *const Part, count: c_int) -> isize {
    // SAFETY: the caller's parts.
    let parts = match unsafe { parts_of(parts, count) } {
        Ok(parts) => parts,
        Err(error) => return errno::fail(error.errno),
    };
    let written = points::interruptible(|| {
        if descriptor::is_socket(number) {
            // SAFETY: the same contract.
            let result = unsafe { skiff_socket_write(number, parts.as_ptr(), parts.len()) };
            descriptor::note_use(number);
            return of_library(result);
        }
        // SAFETY: the caller's bytes, here and in the call below.
        unsafe { parts::write_groups(parts, |part| write_raw(number, part.start, part.length)) }
    });
    points::handle_signals();
    count_of(written)
}
