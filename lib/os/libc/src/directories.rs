//! `dirent.h`: the names in directories.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};

use runtime::fs;

use crate::files::path_of;
use crate::{errno, linux_names};

/// C's `struct dirent`.
#[repr(C)]
struct Entry {
    inode: u64,
    /// Where the next one is: not told.
    offset: i64,
    length: u16,
    kind: u8,
    name: [c_char; 256],
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
    match directory.and_then(|path| fs::read_dir(&linux_names::here(path))) {
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

/// Null at the end, and with `errno` set after an error.
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

#[unsafe(no_mangle)]
unsafe extern "C" fn closedir(directory: *mut Directory) -> c_int {
    // SAFETY: what `opendir` gave, which the caller gives up.
    drop(unsafe { Box::from_raw(directory) });
    0
}

// The size that `dirent.h` and relibc promise.
const _: () = assert!(size_of::<Entry>() == 280);
