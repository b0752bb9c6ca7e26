//! `dirent.h`: the names in directories.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_long};

use libredox::flag::O_PATH;
use runtime::{Error, Result, fd, fs};
use syscall::error::{EBADF, ENOMEM, ENOTDIR};
use syscall::flag::{MODE_DIR, MODE_TYPE, O_RDONLY};

use crate::files::path_of;
use crate::{descriptor, errno, linux_names, malloc};

/// C's `struct dirent`.
#[repr(C)]
struct Entry {
    inode: u64,
    /// Where the next entry is, as `telldir` gives it.
    offset: i64,
    length: u16,
    kind: u8,
    name: [c_char; 256],
}

/// The names in the directory at a path of the system.
pub fn names(path: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(path)?;
    entries.map(|entry| Ok(entry?.file_name().into())).collect()
}

/// C's `DIR`.
struct Directory {
    names: fs::ReadDir,
    entry: Entry,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> *mut Directory {
    // SAFETY: the caller's string.
    let directory = unsafe { path_of(path) };
    let names = directory.and_then(|path| {
        let names = fs::read_dir(&linux_names::here(path))?;
        // The program may ask for the descriptor.
        descriptor::opened(names.as_raw_fd(), true);
        Ok(names)
    });
    given(names)
}

/// Gives C a directory, or null with `errno` set.
fn given(names: Result<fs::ReadDir>) -> *mut Directory {
    match names {
        Ok(names) => {
            let entry = Entry {
                inode: 0,
                offset: 0,
                length: size_of::<Entry>() as u16,
                kind: 0,
                name: [0; 256],
            };
            Box::into_raw(Box::new(Directory { names, entry }))
        }
        Err(error) => {
            errno::set(error.errno);
            core::ptr::null_mut()
        }
    }
}

/// The descriptor belongs to the result, which `closedir` closes. It has to be open for reading:
/// otherwise the program would see its mistake only when it reads names.
#[unsafe(no_mangle)]
extern "C" fn fdopendir(number: c_int) -> *mut Directory {
    given(descriptor::check(number).and_then(|number| {
        let is_unreadable = |flags| flags & O_PATH as usize != 0 || flags & O_RDONLY == 0;
        // Many drivers do not know this request; their directories can be read.
        let flags = fd::fcntl(number, syscall::F_GETFL, 0);
        match fd::fstat(number)?.st_mode & MODE_TYPE {
            MODE_DIR if flags.is_ok_and(is_unreadable) => Err(Error::new(EBADF)),
            MODE_DIR => Ok(fs::ReadDir::from_raw_fd(number)),
            _ => Err(Error::new(ENOTDIR)),
        }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dirfd(directory: *mut Directory) -> c_int {
    // SAFETY: what `opendir` gave.
    unsafe { &*directory }.names.as_raw_fd() as c_int
}

/// Null at the end, or after an error, which also sets `errno`.
#[unsafe(no_mangle)]
unsafe extern "C" fn readdir(directory: *mut Directory) -> *mut Entry {
    // SAFETY: what `opendir` gave.
    let directory = unsafe { &mut *directory };
    match directory.names.next() {
        Some(Ok(found)) => {
            let entry = &mut directory.entry;
            let name: Vec<c_char> = found
                .file_name()
                .bytes()
                .map(|byte| byte as c_char)
                .collect();
            let length = name.len().min(entry.name.len() - 1);
            entry.name[..length].copy_from_slice(&name[..length]);
            entry.name[length] = 0;
            entry.inode = found.inode();
            entry.offset = directory.names.position() as i64;
            // C's DT_DIR and DT_REG.
            entry.kind = match (found.is_dir(), found.is_file()) {
                (true, _) => 4,
                (_, true) => 8,
                _ => 0,
            };
            entry
        }
        Some(Err(error)) => {
            errno::set(error.errno);
            core::ptr::null_mut()
        }
        None => core::ptr::null_mut(),
    }
}

/// Tells an error from the end by its result.
#[unsafe(no_mangle)]
unsafe extern "C" fn readdir_r(
    directory: *mut Directory,
    place: *mut Entry,
    found: *mut *mut Entry,
) -> c_int {
    let before = errno::get();
    errno::set(0);
    // SAFETY: the same contract.
    let entry = unsafe { readdir(directory) };
    let error = errno::get();
    errno::set(before);
    // SAFETY: the caller's places; an entry is one of the directory's own.
    unsafe {
        if entry.is_null() {
            found.write(entry);
            return error;
        }
        place.copy_from_nonoverlapping(entry, 1);
        found.write(place);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rewinddir(directory: *mut Directory) {
    // SAFETY: what `opendir` gave.
    unsafe { &mut *directory }.names.seek(0);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn telldir(directory: *mut Directory) -> c_long {
    // SAFETY: what `opendir` gave.
    unsafe { &*directory }.names.position() as c_long
}

#[unsafe(no_mangle)]
unsafe extern "C" fn seekdir(directory: *mut Directory, position: c_long) {
    // SAFETY: what `opendir` gave.
    unsafe { &mut *directory }.names.seek(position as u64);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closedir(directory: *mut Directory) -> c_int {
    // SAFETY: what `opendir` gave, which the caller gives up.
    let directory = unsafe { Box::from_raw(directory) };
    errno::done(descriptor::close(directory.names.into_raw_fd() as c_int))
}

/// The functions by which a caller of `scandir` selects and orders entries.
type Selects = unsafe extern "C" fn(*const Entry) -> c_int;
type Compare = unsafe extern "C" fn(*mut *const Entry, *mut *const Entry) -> c_int;

/// Copies the selected entries, each into memory that the caller frees.
///
/// # Safety
/// `directory` is the result of `opendir`.
unsafe fn copies(
    directory: *mut Directory,
    selects: Option<Selects>,
    found: &mut Vec<*const Entry>,
) -> Result<()> {
    let before = errno::get();
    loop {
        errno::set(0);
        // SAFETY: the caller's promise.
        let entry = unsafe { readdir(directory) };
        if entry.is_null() {
            return match errno::get() {
                0 => {
                    errno::set(before);
                    Ok(())
                }
                error => Err(Error::new(error)),
            };
        }
        // SAFETY: an entry that stands until the next call, for the caller's function.
        if selects.is_some_and(|selects| unsafe { selects(entry) } == 0) {
            continue;
        }
        let copy: *mut Entry = malloc::allocate(size_of::<Entry>(), 0).cast();
        if copy.is_null() {
            return Err(Error::new(ENOMEM));
        }
        // SAFETY: both have room for an entry.
        unsafe { copy.copy_from_nonoverlapping(entry, 1) };
        found.push(copy);
    }
}

/// Sorts entries in the caller's order. If that order contradicts itself, the result has any
/// order.
fn sort(found: &mut [*const Entry], compare: Compare) {
    for end in 1..found.len() {
        let mut at = end;
        while at > 0 {
            let (mut one, mut other) = (found[at - 1], found[at]);
            // SAFETY: two entries, for the caller's function.
            if unsafe { compare(&raw mut one, &raw mut other) } <= 0 {
                break;
            }
            found.swap(at - 1, at);
            at -= 1;
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scandir(
    path: *const c_char,
    entries: *mut *mut *const Entry,
    selects: Option<Selects>,
    compare: Option<Compare>,
) -> c_int {
    // SAFETY: the caller's string.
    let directory = unsafe { opendir(path) };
    if directory.is_null() {
        return -1;
    }
    let mut found = Vec::new();
    // SAFETY: what `opendir` gave, which is given up behind it.
    let copied = unsafe {
        let copied = copies(directory, selects, &mut found);
        closedir(directory);
        copied
    };
    if let Some(compare) = compare {
        sort(&mut found, compare);
    }
    let bytes = size_of::<*const Entry>() * found.len().max(1);
    let array: *mut *const Entry = match copied {
        Ok(()) => malloc::allocate(bytes, 0).cast(),
        Err(_) => core::ptr::null_mut(),
    };
    if array.is_null() {
        for entry in found {
            // SAFETY: made above, and nobody has it.
            unsafe { malloc::free(entry.cast_mut().cast()) };
        }
        return errno::fail(copied.map_or_else(|error| error.errno, |()| ENOMEM));
    }
    // SAFETY: room for that many, and the caller's place for an array.
    unsafe {
        array.copy_from_nonoverlapping(found.as_ptr(), found.len());
        *entries = array;
    }
    found.len() as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn alphasort(one: *mut *const Entry, other: *mut *const Entry) -> c_int {
    // SAFETY: two entries, whose names end with a zero byte.
    let names = unsafe {
        [one, other].map(|entry| CStr::from_ptr((&raw const (**entry).name).cast::<c_char>()))
    };
    names[0].cmp(names[1]) as c_int
}

// The size that `dirent.h` and relibc promise.
const _: () = assert!(size_of::<Entry>() == 280);
