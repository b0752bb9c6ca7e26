//! Cancelled and abandoned requests: the clean-up when the answer comes after the client is gone.

use ::syscall::schemev2::{Opcode, Sqe, SqeFlags};

use super::UserScheme;
use super::request_buffer::Mapping;
use crate::mm::space::Piece;
use crate::object::deferred::{Entry, Message, Notices};

/// The step that undoes an abandoned request if the daemon has carried it out.
pub enum Undo {
    /// Nothing.
    Nothing,
    /// Close the object with the answered number: no client has it.
    Close,
    /// Send a Munmap: the daemon counts a mapping that no client has. The piece keeps its file open
    /// until then.
    Unmap(Entry<Piece>),
}

impl Undo {
    /// The step for a request with this opcode, whose answer is an object, or no object.
    pub fn of(opcode: Opcode) -> Self {
        match opcode {
            Opcode::OpenAt | Opcode::Dup => Self::Close,
            _ => Self::Nothing,
        }
    }
}

/// A request whose client was killed before the answer came.
pub struct AbandonedRequest {
    /// The buffer that is still mapped in the daemon.
    pub mapping: Option<Mapping>,
    /// The step for an answer that is no error.
    pub undo: Undo,
}

impl UserScheme {
    /// Sends the daemon, once, a cancellation of a request whose client was interrupted.
    pub(super) fn cancel(&self, tag: u32) {
        let first = self.state.lock().requests.cancel(tag);
        if first {
            let cancel = Sqe {
                sqe_flags: SqeFlags::ONEWAY,
                tag,
                ..Sqe::default()
            };
            self.post(Entry::new(Message::Request(Sqe {
                opcode: Opcode::Cancel as u8,
                ..cancel
            })));
        }
    }

    /// Cleans up after a client that is gone, once the daemon has answered. `answered` is the
    /// value, if any.
    pub(super) fn clear_up(&self, abandoned: AbandonedRequest, answered: Option<usize>) {
        if let Some(mapping) = abandoned.mapping {
            // Nobody is left to whom an error could be reported.
            let _ = mapping.release();
        }
        match (abandoned.undo, answered) {
            (Undo::Close, Some(number)) => {
                let (scheme, notices) = (self.id(), Notices::new());
                self.post(Entry::new(Message::Close {
                    scheme,
                    number,
                    notices,
                }));
            }
            (Undo::Unmap(piece), Some(_)) => self.post_unmapped(piece),
            (Undo::Nothing, _) | (_, None) => {}
        }
    }
}
