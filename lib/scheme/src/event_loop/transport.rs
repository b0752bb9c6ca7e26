//! The source of requests and destination of answers: the kernel's scheme socket, or a fake one in
//! tests.

use alloc::rc::Rc;
use core::mem::size_of;

use redox_scheme::Socket;
use syscall::error::{EAGAIN, EIO, EWOULDBLOCK, Error, Result};
use syscall::schemev2::{Cqe, CqeOpcode, Sqe};

/// A source of requests and sink of answers.
pub trait Transport {
    /// Whether [`read`](Self::read) waits for the first request.
    fn blocking(&self) -> bool;

    /// Takes requests: `Some(0)` when the other end is closed, `None` when nothing waits.
    ///
    /// # Errors
    /// Those of the socket: `EINTR` when the wait was interrupted, `EIO` for a part of a request.
    fn read(&mut self, requests: &mut [Sqe]) -> Result<Option<usize>>;

    /// Delivers answers in order and returns how many were taken; an error refers to the first.
    ///
    /// # Errors
    /// The first answer is refused: its request is gone, or the call was interrupted (`EINTR`).
    fn write(&mut self, answers: &[Cqe]) -> Result<usize>;
}

/// The kernel's scheme socket.
pub struct SocketTransport {
    socket: Rc<Socket>,
    blocking: bool,
}

impl SocketTransport {
    pub(crate) fn new(socket: Rc<Socket>, blocking: bool) -> Self {
        Self { socket, blocking }
    }

    pub(super) fn socket(&self) -> &Rc<Socket> {
        &self.socket
    }
}

impl Transport for SocketTransport {
    fn blocking(&self) -> bool {
        self.blocking
    }

    fn read(&mut self, requests: &mut [Sqe]) -> Result<Option<usize>> {
        // SAFETY: `Sqe` is a C structure of integers without padding (64 bytes), so any bytes the
        // kernel stores are a valid value; the slice covers exactly the borrowed entries.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut(
                requests.as_mut_ptr().cast::<u8>(),
                core::mem::size_of_val(requests),
            )
        };
        match self.socket.inner().read(bytes).map_err(Error::from) {
            Ok(count) if count % size_of::<Sqe>() != 0 => Err(Error::new(EIO)),
            Ok(count) => Ok(Some(count / size_of::<Sqe>())),
            Err(Error {
                errno: EAGAIN | EWOULDBLOCK,
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, answers: &[Cqe]) -> Result<usize> {
        // SAFETY: `Cqe` is a C structure of integers without padding (16 bytes); the slice covers
        // exactly the borrowed entries.
        let bytes = unsafe {
            core::slice::from_raw_parts(
                answers.as_ptr().cast::<u8>(),
                core::mem::size_of_val(answers),
            )
        };
        let count = self.socket.inner().write(bytes).map_err(Error::from)? / size_of::<Cqe>();
        for answer in answers.iter().take(count) {
            if answer.flags == CqeOpcode::RespondWithFd as u8 {
                // The kernel took the descriptor out of our table. This close ends the library's
                // record of it; its EBADF is expected.
                let _ = libredox::call::close(answer.result as usize);
            }
        }
        Ok(count)
    }
}

const _: () = assert!(size_of::<Sqe>() == 64 && size_of::<Cqe>() == 16);
