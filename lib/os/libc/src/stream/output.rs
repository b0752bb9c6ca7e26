//! The output of streams.

use core::sync::atomic::Ordering;

use runtime::{Error, Result};
use syscall::error::{EAGAIN, EBADF, ENOSPC};

use super::{BUFFER, Mode, State};
use crate::{descriptor, files};

impl State {
    /// Writes what is buffered. What could not be written stays if the file may take it later
    /// (`EAGAIN`); after another error it is lost.
    pub fn flush(&mut self) -> Result<()> {
        self.flush_after(0).1
    }

    /// As [`flush`](Self::flush), for a call that has put `new` bytes behind the others. If there
    /// is an error, those of them that were not written are taken back. Also returns the number of
    /// those.
    fn flush_after(&mut self, new: usize) -> (usize, Result<()>) {
        if self.output.is_empty() {
            return (0, Ok(()));
        }
        // A process that is forked meanwhile has nothing to write. Keeps the buffer's allocation.
        let mut output = core::mem::take(&mut self.output);
        let write = || files::write_all(self.number, &output);
        let (done, written) = match &mut self.memory {
            Some(memory) => match memory.write(&output) {
                Ok(done) if done < output.len() => (done, Err(Error::new(ENOSPC))),
                Ok(done) => (done, Ok(())),
                Err(error) => (0, Err(error)),
            },
            None => match descriptor::check(self.number) {
                Ok(_) => self.shown.sleep(write),
                Err(error) => (0, Err(error)),
            },
        };
        output.drain(..done);
        let taken_back = output.len().min(new);
        match written {
            Err(Error { errno: EAGAIN }) => output.truncate(output.len() - taken_back),
            _ => output.clear(),
        }
        self.output = output;
        self.shown
            .has_output
            .store(!self.output.is_empty(), Ordering::Release);
        (taken_back, written.inspect_err(|_| self.failed = true))
    }

    pub(super) fn drop_output(&mut self) {
        self.output.clear();
        self.shown.has_output.store(false, Ordering::Release);
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// `EBADF` when the stream is not for writing; those of writing.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_counted(bytes).1
    }

    /// As [`write`](Self::write), and also returns how many bytes are written or buffered: the
    /// first ones. The stream does not keep the others.
    pub fn write_counted(&mut self, bytes: &[u8]) -> (usize, Result<()>) {
        if !self.writable {
            return (0, self.fail(EBADF));
        }
        if self.drop_input().is_err() {
            // A pipe or a connection has no position to go back to; its bytes are lost.
            self.input.clear();
            self.next = 0;
        }
        let mut done = 0;
        for part in bytes.chunks(BUFFER) {
            if self.output.len() + part.len() > BUFFER
                && let (taken_back, Err(error)) = self.flush_after(done)
            {
                return (done - taken_back, Err(error));
            }
            self.output.extend_from_slice(part);
            self.shown.has_output.store(true, Ordering::Release);
            done += part.len();
        }
        let (taken_back, flushed) = match self.mode {
            Mode::None => self.flush_after(done),
            Mode::Line if bytes.contains(&b'\n') => self.flush_after(done),
            _ => (0, Ok(())),
        };
        (done - taken_back, flushed)
    }
}
