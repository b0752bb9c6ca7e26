//! `fnmatch.h` and `glob.h`: patterns of file names, and the files that match one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

use patterns::file_name::{Pattern, Rules};
use runtime::{Error, fs};
use syscall::error::{ENOENT, ENOTDIR};

use crate::{directories, environment, files, linux_names, malloc, strings};

/// C's `FNM_NOMATCH`.
const NO_MATCH: c_int = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn fnmatch(pattern: *const c_char, text: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's strings.
    let (pattern, text) = unsafe { (strings::bytes(pattern), strings::bytes(text)) };
    match Pattern::new(pattern, Rules::from_bits_truncate(flags)).matches(text) {
        true => 0,
        false => NO_MATCH,
    }
}

// The flags of `glob`, as in relibc; GLOB_NOSORT needs no code.
const GLOB_ERR: c_int = 1;
const GLOB_MARK: c_int = 2;
const GLOB_DOOFFS: c_int = 8;
const GLOB_NOCHECK: c_int = 16;
const GLOB_APPEND: c_int = 32;
const GLOB_NOESCAPE: c_int = 64;
const GLOB_PERIOD: c_int = 128;
const GLOB_TILDE: c_int = 0x1000;

/// Why `glob` has stored no more paths.
#[repr(i32)]
enum Failure {
    NoSpace = 1,
    Aborted = 2,
    NoMatch = 3,
}

/// C's `glob_t`.
#[repr(C)]
struct Found {
    count: usize,
    /// With `GLOB_DOOFFS` first `skipped` null pointers; then the paths, and a null pointer.
    paths: *mut *mut c_char,
    skipped: usize,
    /// 1 if `skipped` counts, else 0; stored by the first call.
    has_offset: usize,
}

/// Called with a directory that cannot be read and the error number; returns whether to stop.
type Report = unsafe extern "C" fn(*const c_char, c_int) -> c_int;

/// A search for the paths of a pattern.
struct Search {
    rules: Rules,
    /// Whether an error ends the search whatever `report` returns.
    ends_at_errors: bool,
    report: Option<Report>,
    found: Vec<String>,
}

impl Search {
    /// Adds the files that match `pattern` in the directory `at`, which is empty or ends with `/`.
    /// Calls itself no deeper than there are directories.
    fn visit(&mut self, mut at: String, mut pattern: &str) -> Result<(), Failure> {
        while !pattern.is_empty() {
            let length = pattern.find('/').unwrap_or(pattern.len());
            let (name, behind) = pattern.split_at(length);
            let rest = behind.trim_start_matches('/');
            let slashes = &behind[..behind.len() - rest.len()];
            let wanted = Pattern::new(name.as_bytes(), self.rules);
            if wanted.is_special() {
                for found in self.names(&at)? {
                    if wanted.matches(found.as_bytes()) {
                        self.visit(format!("{at}{found}{slashes}"), rest)?;
                    }
                }
                return Ok(());
            }
            at += &String::from_utf8_lossy(&wanted.literal());
            at += slashes;
            pattern = rest;
        }
        if is_there(&at) {
            self.found.push(at);
        }
        Ok(())
    }

    /// The names in a directory; none if it does not exist or is no directory.
    fn names(&self, at: &str) -> Result<Vec<String>, Failure> {
        let path = if at.is_empty() { "." } else { at };
        match directories::names(&linux_names::here(path)) {
            Ok(names) => Ok(names),
            Err(Error {
                errno: ENOENT | ENOTDIR,
            }) => Ok(Vec::new()),
            Err(Error { errno }) => {
                let is_over = self.report.is_some_and(|report| {
                    let path = format!("{path}\0");
                    // SAFETY: the caller's function, and a string that lives across the call.
                    unsafe { report(path.as_ptr().cast(), errno) != 0 }
                });
                match is_over || self.ends_at_errors {
                    true => Err(Failure::Aborted),
                    false => Ok(Vec::new()),
                }
            }
        }
    }
}

/// Whether there is a file at a path. It has to be a directory if the path ends with `/`.
fn is_there(path: &str) -> bool {
    let is_fit = |file: fs::Metadata| file.is_dir() || !path.ends_with('/');
    fs::metadata(&linux_names::here(path)).is_ok_and(is_fit)
}

/// Replaces a tilde at the beginning of a pattern by the home directory. A tilde with the name of
/// a user stays, as users have no directories here.
fn with_home(pattern: &str) -> String {
    let rest = pattern.strip_prefix('~');
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('/'));
    // SAFETY: variables are strings, which are copied at once.
    let home = environment::find(b"HOME").map(|home| unsafe { strings::bytes(home) });
    match (rest, home) {
        (Some(rest), Some(home)) => format!("{}{rest}", String::from_utf8_lossy(home)),
        _ => pattern.into(),
    }
}

/// The paths that match a pattern.
fn search(pattern: &str, flags: c_int, report: Option<Report>) -> Result<Vec<String>, Failure> {
    let has = |flag| flags & flag != 0;
    let mut rules = Rules::PATHNAME;
    rules.set(Rules::NOESCAPE, has(GLOB_NOESCAPE));
    rules.set(Rules::PERIOD, !has(GLOB_PERIOD));
    let mut search = Search {
        rules,
        ends_at_errors: has(GLOB_ERR),
        report,
        found: Vec::new(),
    };
    let whole = match has(GLOB_TILDE) {
        true => with_home(pattern),
        false => pattern.into(),
    };
    let pattern = whole.as_str();
    let relative = pattern.trim_start_matches('/');
    let root = &pattern[..pattern.len() - relative.len()];
    search.visit(root.into(), relative)?;
    let mut found = search.found;
    found.sort_unstable();
    if has(GLOB_MARK) {
        for path in &mut found {
            if !path.ends_with('/') && is_there(&format!("{path}/")) {
                path.push('/');
            }
        }
    }
    match found.is_empty() {
        true if has(GLOB_NOCHECK) => Ok(Vec::from([pattern.into()])),
        true => Err(Failure::NoMatch),
        false => Ok(found),
    }
}

impl Found {
    /// The index of the null pointer after the paths.
    fn end(&self) -> usize {
        self.has_offset * self.skipped + self.count
    }
}

/// Adds paths to those of a structure.
///
/// # Safety
/// `glob` has filled in the structure, or it has no paths.
unsafe fn store(found: &mut Found, paths: &[String]) -> Result<(), Failure> {
    let is_new = found.paths.is_null();
    let skipped = found.has_offset.checked_mul(found.skipped);
    let words = skipped.and_then(|skipped| skipped.checked_add(found.count + paths.len() + 1));
    let bytes = words.and_then(|words| words.checked_mul(size_of::<*mut c_char>()));
    let bytes = bytes.ok_or(Failure::NoSpace)?;
    // SAFETY: null, or what a call before has allocated here.
    let list = unsafe { malloc::realloc(found.paths.cast(), bytes) };
    if list.is_null() {
        return Err(Failure::NoSpace);
    }
    found.paths = list.cast();
    if is_new {
        // SAFETY: allocated for these pointers and one more.
        unsafe { found.paths.write_bytes(0, found.end() + 1) };
    }
    for path in paths {
        let copy = strings::duplicate(path.as_bytes());
        if copy.is_null() {
            return Err(Failure::NoSpace);
        }
        // SAFETY: allocated for all paths and the null pointer behind them.
        unsafe {
            found.paths.add(found.end()).write(copy);
            found.count += 1;
            found.paths.add(found.end()).write(null_mut());
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn glob(
    pattern: *const c_char,
    flags: c_int,
    report: Option<Report>,
    found: *mut Found,
) -> c_int {
    // SAFETY: the caller's structure, which `glob` has filled in before if it says so.
    let found = unsafe { &mut *found };
    if flags & GLOB_APPEND == 0 {
        (found.count, found.paths) = (0, null_mut());
        found.has_offset = usize::from(flags & GLOB_DOOFFS != 0);
    }
    // SAFETY: the caller's string.
    let paths = match unsafe { files::path_of(pattern) } {
        Ok(pattern) => search(pattern, flags, report),
        Err(Error { errno: ENOENT }) if flags & GLOB_NOCHECK != 0 => Ok(Vec::from([String::new()])),
        // It is empty, or not UTF-8, as all names of files are.
        Err(_) => Err(Failure::NoMatch),
    };
    // SAFETY: as above.
    match paths.and_then(|paths| unsafe { store(found, &paths) }) {
        Ok(()) => 0,
        Err(failure) => failure as c_int,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn globfree(found: *mut Found) {
    // SAFETY: a structure that `glob` has filled in, with its blocks.
    unsafe {
        let found = &mut *found;
        let skipped = found.has_offset * found.skipped;
        for place in skipped..skipped + found.count {
            malloc::free((*found.paths.add(place)).cast());
        }
        malloc::free(found.paths.cast::<c_void>());
        (found.count, found.paths) = (0, null_mut());
    }
}
