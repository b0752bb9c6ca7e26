//! Streams to and from shell commands: `popen` and `pclose`.

use alloc::vec::Vec;
use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use libredox::flag::O_CLOEXEC;
use runtime::process::Child;
use runtime::{Error, Result};
use syscall::error::{ECHILD, EINVAL};

use crate::descriptor;
use crate::files::pipe2;
use crate::stream::{self, File, Mode};
use crate::sync::Shared;
use crate::{errno, spawn, strings};

/// The streams of `popen` with their commands.
pub static COMMANDS: Shared<Vec<(*mut File, Child)>> = Shared::new(Vec::new());

/// Whether the program reads the output of the command; `None` for an invalid mode.
fn reads(mode: &[u8]) -> Option<bool> {
    match mode {
        b"r" | b"re" | b"rb" => Some(true),
        b"w" | b"we" | b"wb" => Some(false),
        _ => None,
    }
}

/// Starts the command; returns the stream's descriptor and the command.
fn start(text: &[u8], reads: bool) -> Result<(c_int, Child)> {
    let mut pair = [0; 2];
    // SAFETY: a place for two numbers.
    if unsafe { pipe2(pair.as_mut_ptr(), O_CLOEXEC as c_int) } < 0 {
        return Err(Error::new(errno::get()));
    }
    let [own, other] = if reads { pair } else { [pair[1], pair[0]] };
    let child = spawn::retried(|| {
        let mut command = spawn::shell(text);
        match reads {
            true => command.stdout(other as usize),
            false => command.stdin(other as usize),
        };
        command.spawn()
    });
    // The child has it, or was not started.
    let _ = descriptor::close(other);
    match child {
        Ok(child) => Ok((own, child)),
        Err(error) => {
            // What counts is why the command was not started.
            let _ = descriptor::close(own);
            Err(error)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn popen(text: *const c_char, mode: *const c_char) -> *mut File {
    // SAFETY: the caller's strings.
    let (text, mode) = unsafe { (strings::bytes(text), strings::bytes(mode)) };
    stream::flush_idle();
    let started = reads(mode)
        .ok_or(Error::new(EINVAL))
        .and_then(|reads| start(text, reads).map(|(own, child)| (own, child, reads)));
    match started {
        Ok((own, child, reads)) => {
            let file = stream::open(own, reads, !reads, Mode::Full);
            COMMANDS.with(|commands| commands.push((file, child)));
            file
        }
        Err(error) => {
            errno::set(error.errno);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pclose(file: *mut File) -> c_int {
    let found = COMMANDS.with(|commands| {
        let index = commands.iter().position(|(known, _)| *known == file)?;
        Some(commands.swap_remove(index).1)
    });
    let Some(mut child) = found else {
        return errno::fail(ECHILD);
    };
    // SAFETY: from `popen`, which the caller gives up. The command's end is what is asked for,
    // also of one that did not take all.
    let _ = unsafe { stream::close(file) };
    errno::give(child.wait().map(|status| status.into_raw()))
}
