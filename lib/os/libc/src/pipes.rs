//! What a write to a pipe does besides moving bytes: it goes on until readers have made room for
//! all of them, and raises SIGPIPE when there is no reader.

use core::ffi::c_int;

use runtime::{Error, Result, fd};
use syscall::error::EPIPE;
use syscall::flag::O_NONBLOCK;

use crate::{descriptor, points};

/// SIGPIPE, as its bit.
const SIGPIPE: u64 = 1 << (13 - 1);

/// The most bytes that a pipe takes as a whole or not at all (`PIPE_BUF`).
const TOGETHER: usize = 4096;

/// Writes `size` bytes by `write`, which writes those behind a count and may write a part of them.
/// Only for a pipe that may wait is it called again. What was written before an error counts.
///
/// If a pipe has no reader, the calling thread gets a SIGPIPE, which the caller has to have
/// [handled](points::handle_signals) when it holds no lock.
///
/// # Errors
/// Those of the first `write`.
pub fn whole(
    number: c_int,
    size: usize,
    mut write: impl FnMut(usize) -> Result<usize>,
) -> Result<usize> {
    // Another thread may close the pipe, also while the first part waits for room, and the number
    // may then mean another file.
    let turn = match size > TOGETHER {
        true => descriptor::turn(number as usize).ok(),
        false => None,
    };
    let mut written = write(0);
    if let Ok(count) = &mut written
        && (1..size).contains(count)
        && let Some(turn) = turn
        && descriptor::is_turn(number as usize, turn)
        && waits_for_readers(number)
    {
        while *count < size && descriptor::is_turn(number as usize, turn) {
            match write(*count) {
                Ok(more) if more > 0 => *count += more,
                _ => break,
            }
        }
    }
    if matches!(written, Err(Error { errno: EPIPE })) && descriptor::is_pipe(number) == Ok(true) {
        points::own().send(SIGPIPE);
    }
    written
}

/// Whether a write waits for room: the kernel's takes what there is room for.
fn waits_for_readers(number: c_int) -> bool {
    let flags = || fd::fcntl(descriptor::check(number)?, syscall::F_GETFL, 0);
    descriptor::is_pipe(number) == Ok(true) && flags().is_ok_and(|flags| flags & O_NONBLOCK == 0)
}
