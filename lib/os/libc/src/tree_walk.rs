//! `ftw.h`: calls a function for each file under a directory.

use alloc::format;
use alloc::string::String;
use core::ffi::{c_char, c_int};

use runtime::{Error, fs, path};
use syscall::error::EACCES;

use crate::files::{Stat, path_of};
use crate::{directories, errno, linux_names, slashes};

// The flags of `nftw`, as in Linux. There are no links, so FTW_PHYS has no effect.
const FTW_MOUNT: c_int = 2;
const FTW_CHDIR: c_int = 4;
const FTW_DEPTH: c_int = 8;

/// What kind of file a call is about.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Kind {
    File = 0,
    Directory = 1,
    /// A directory that cannot be read.
    Unreadable = 2,
    /// A file whose metadata cannot be read.
    Unknown = 3,
    /// A directory, after everything in it.
    After = 5,
}

/// C's `struct FTW`.
#[repr(C)]
struct Place {
    /// The index in the path at which the name begins.
    base: c_int,
    /// The depth of the file in the tree, whose root has 0.
    level: c_int,
}

type Call = unsafe extern "C" fn(*const c_char, *const Stat, c_int) -> c_int;
type CallWithPlace = unsafe extern "C" fn(*const c_char, *const Stat, c_int, *mut Place) -> c_int;

/// The caller's function.
#[derive(Clone, Copy)]
enum Callback {
    Plain(Call),
    WithPlace(CallWithPlace),
}

/// A walk through a tree.
struct Walk<'a> {
    callback: Callback,
    flags: c_int,
    /// The path of the tree as the caller has given it, and the same as an absolute path.
    given: &'a str,
    whole: String,
    /// The device of the tree's root, for FTW_MOUNT.
    device: Option<u64>,
}

/// Why a walk has ended early.
enum Over {
    /// A call has returned this value, which is not 0.
    Returned(c_int),
    Failed(Error),
}

impl From<Error> for Over {
    fn from(error: Error) -> Over {
        Over::Failed(error)
    }
}

impl Walk<'_> {
    fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    /// Calls the function for a file, given by its path inside the tree, and for all files under
    /// it.
    fn visit(&mut self, inside: &str, level: c_int) -> Result<(), Over> {
        let path = format!("{}{inside}", self.whole);
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            // The tree itself has to exist.
            Err(error) if level == 0 => return Err(error.into()),
            Err(_) => return self.call(inside, &Stat::default(), Kind::Unknown, level),
        };
        let stat = Stat::from(*metadata.stat());
        let device = metadata.stat().st_dev;
        if self.has(FTW_MOUNT) && *self.device.get_or_insert(device) != device {
            return Ok(());
        }
        if !metadata.is_dir() {
            return self.call(inside, &stat, Kind::File, level);
        }
        let names = match directories::names(&path) {
            Err(Error { errno: EACCES }) => {
                return self.call(inside, &stat, Kind::Unreadable, level);
            }
            names => names?,
        };
        if !self.has(FTW_DEPTH) {
            self.call(inside, &stat, Kind::Directory, level)?;
        }
        for name in names {
            self.visit(&format!("{inside}/{name}"), level + 1)?;
        }
        match self.has(FTW_DEPTH) {
            true => self.call(inside, &stat, Kind::After, level),
            false => Ok(()),
        }
    }

    fn call(&self, inside: &str, stat: &Stat, kind: Kind, level: c_int) -> Result<(), Over> {
        let path = match (self.given, inside) {
            // The root, whose path ends with the slash that others begin with.
            ("", "") => String::from("/\0"),
            (given, inside) => format!("{given}{inside}\0"),
        };
        let name = path.trim_end_matches(['/', '\0']);
        let base = name.rfind('/').map_or(0, |slash| slash + 1);
        if self.has(FTW_CHDIR) {
            let (parent, _) = inside.rsplit_once('/').unwrap_or_default();
            let parent = match level {
                0 => path::canonical(&format!("{}/..", self.whole))?,
                _ => format!("{}{parent}", self.whole),
            };
            path::set_current_dir(&parent)?;
        }
        let mut place = Place {
            base: base as c_int,
            level,
        };
        let (path, kind) = (path.as_ptr().cast(), kind as c_int);
        // SAFETY: the caller's function, and values that live across the call.
        let returned = unsafe {
            match self.callback {
                Callback::Plain(call) => call(path, stat, kind),
                Callback::WithPlace(call) => call(path, stat, kind, &raw mut place),
            }
        };
        match returned {
            0 => Ok(()),
            other => Err(Over::Returned(other)),
        }
    }
}

/// Walks through the tree at a caller's path.
///
/// # Safety
/// `path` is a string, and `callback` a function as C demands.
unsafe fn walk(path: *const c_char, callback: Callback, flags: c_int) -> c_int {
    // SAFETY: the caller's string.
    let path = unsafe { path_of(path) };
    let given = match path.and_then(|path| slashes::metadata(path).map(|_| path)) {
        Ok("/") => "",
        Ok(path) => path.strip_suffix('/').unwrap_or(path),
        Err(error) => return errno::fail(error.errno),
    };
    let here = match given {
        "" => "/".into(),
        given => linux_names::here(given),
    };
    let whole = match path::canonical(&here) {
        Ok(whole) => whole,
        Err(error) => return errno::fail(error.errno),
    };
    let mut walk = Walk {
        callback,
        flags,
        given,
        whole,
        device: None,
    };
    let home = path::current_dir();
    let over = walk.visit("", 0);
    let back = match walk.has(FTW_CHDIR) {
        true => path::set_current_dir(&home),
        false => Ok(()),
    };
    match over {
        Ok(()) => errno::done(back),
        Err(Over::Returned(value)) => value,
        Err(Over::Failed(error)) => errno::fail(error.errno),
    }
}

/// `_descriptors` limits how many directories are open at once, which here is one at most.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftw(path: *const c_char, call: Call, _descriptors: c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { walk(path, Callback::Plain(call), 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nftw(
    path: *const c_char,
    call: CallWithPlace,
    _descriptors: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { walk(path, Callback::WithPlace(call), flags) }
}
