//! Program start: relibc calls this once it has prepared everything.
//!
//! `std` is used without its own `main`, so that the programs' sources are the same for both
//! builds. This module does what that `main` would do.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};

use libredox::data::SigAction;
use libredox::flag::SIGPIPE;

use crate::env;

/// Runs a program, and returns its exit status.
///
/// # Safety
/// `words` must hold `count` pointers to zero-terminated strings.
pub unsafe fn run(count: i32, words: *const *const c_char, main: fn() -> i32) -> i32 {
    let count = usize::try_from(count).unwrap_or(0);
    let text = |index: usize| {
        // SAFETY: the caller promises that number of pointers to such strings.
        let word = unsafe { CStr::from_ptr(words.add(index).read()) };
        String::from_utf8_lossy(word.to_bytes()).into_owned()
    };
    env::set_args((0..count).map(text).collect());
    // The environment is text here; entries that are not UTF-8 are omitted.
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    env::environment(|all| *all = variables);
    ignore_broken_pipes();
    main()
}

/// Makes a write without a reader return EPIPE instead of killing the process, which may be a
/// daemon.
fn ignore_broken_pipes() {
    // SAFETY: zeros are an action without flags and with an empty mask.
    let mut action: SigAction = unsafe { core::mem::zeroed() };
    /// The "handler" that discards a signal, of POSIX's `signal.h`.
    const IGNORE: usize = 1;
    action.sa_sigaction = IGNORE;
    // It fails only for numbers that are not signals.
    let _ = libredox::call::sigaction(SIGPIPE, Some(&action), None);
}
