//! Copies between memory by address and slices, made by the kernel, which checks the address:
//! through a pipe from this process to itself.

use alloc::vec::Vec;

use hal::lock::Mutex;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use syscall::error::{EIO, ENOMEM, Error, Result};
use syscall::flag::{F_DUPFD, UPPER_FDTBL_TAG};

use crate::range::{self, Range};

/// The pipe, once it was needed. A copy that fails closes it, as bytes may be left in it.
static PIPE: Mutex<Option<Pipe>> = Mutex::new(None);

/// Bytes that go through the pipe at a time. It holds 64 KiB.
const PIECE: usize = 32 * 1024;

/// Part of [`fork::before`](crate::fork::before).
pub(crate) fn before_fork() {
    PIPE.hold();
}

/// Part of [`fork::after`](crate::fork::after): the child makes a pipe of its own, as this one's
/// contents are shared with the parent.
///
/// # Safety
/// As for [`fork::after`](crate::fork::after).
pub(crate) unsafe fn after_fork(in_child: bool) {
    // SAFETY: the caller's promise.
    let mut lock = unsafe { PIPE.regain() };
    if in_child {
        drop(lock.take());
    }
}

struct Pipe {
    /// The end to read from.
    output: Fd,
    /// The end to write to.
    input: Fd,
}

impl Pipe {
    fn new() -> Result<Self> {
        let output = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0)?;
        let input = Fd::new(output.dup(b"write")?);
        // The program may close or replace any of the lower descriptors.
        let up = |end: Fd| end.fcntl(F_DUPFD, UPPER_FDTBL_TAG).map(Fd::new);
        Ok(Self {
            output: up(output)?,
            input: up(input)?,
        })
    }
}

/// Runs `copy` with the pipe.
fn with_pipe(copy: impl FnOnce(&Pipe) -> Result<()>) -> Result<()> {
    let mut kept = PIPE.lock();
    let pipe = match kept.take() {
        Some(pipe) => pipe,
        None => Pipe::new()?,
    };
    copy(&pipe)?;
    *kept = Some(pipe);
    Ok(())
}

/// `EIO` unless a piece went through the pipe as a whole.
fn check(count: usize, piece: &[u8]) -> Result<()> {
    match count == piece.len() {
        true => Ok(()),
        false => Err(Error::new(EIO)),
    }
}

impl Range<'_> {
    /// Copies the first bytes out.
    ///
    /// # Errors
    /// `EFAULT` when a byte cannot be read or `to` is longer than the range; those of pipes.
    pub fn copy_out(self, to: &mut [u8]) -> Result<()> {
        self.part(0, to.len())?;
        with_pipe(|pipe| {
            for (index, piece) in to.chunks_mut(PIECE).enumerate() {
                let from = self.part(index * PIECE, piece.len())?;
                check(range::write(pipe.input.raw(), from)?, piece)?;
                check(pipe.output.read(piece)?, piece)?;
            }
            Ok(())
        })
    }

    /// Copies bytes in, at the start.
    ///
    /// # Errors
    /// `EFAULT` when a byte cannot be written or the range is shorter; those of pipes.
    pub fn copy_in(self, from: &[u8]) -> Result<()> {
        self.part(0, from.len())?;
        with_pipe(|pipe| {
            for (index, piece) in from.chunks(PIECE).enumerate() {
                let to = self.part(index * PIECE, piece.len())?;
                check(pipe.input.write(piece)?, piece)?;
                check(range::read(pipe.output.raw(), to)?, piece)?;
            }
            Ok(())
        })
    }

    /// A copy of the bytes.
    ///
    /// # Errors
    /// Those of [`copy_out`](Self::copy_out), and `ENOMEM`.
    pub fn to_vec(self) -> Result<Vec<u8>> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(self.bytes())
            .map_err(|_| Error::new(ENOMEM))?;
        copy.resize(self.bytes(), 0);
        self.copy_out(&mut copy)?;
        Ok(copy)
    }
}
