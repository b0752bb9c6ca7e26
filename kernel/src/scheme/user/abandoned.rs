//! Abandoned requests: the clean-up when the answer comes and the client is gone.

use ::syscall::schemev2::Opcode;

use super::request_buffer::Mapping;
use super::{File, UserScheme};
use crate::scheme::{MunmapRequest, Scheme};

/// The step that undoes an abandoned request which the daemon has carried out.
pub enum Undo {
    /// Nothing.
    Nothing,
    /// The object with the answered number is closed: no client has it.
    Close,
    /// The daemon counts a mapping that no client has. The file stays open until the daemon has got
    /// a Munmap.
    Unmap(File, MunmapRequest),
}

impl Undo {
    /// Of a request whose answer is an object, or no object.
    pub fn of(opcode: Opcode) -> Self {
        match opcode {
            Opcode::OpenAt | Opcode::Dup => Self::Close,
            _ => Self::Nothing,
        }
    }
}

/// A request whose client was killed before the answer came.
pub struct AbandonedRequest {
    /// The buffer that the daemon still has.
    pub mapping: Option<Mapping>,
    /// For an answer that is no error.
    pub undo: Undo,
}

impl UserScheme {
    /// Clears up behind a client that is gone, once the daemon has answered, and with which value.
    pub(super) fn clear_up(&self, abandoned: AbandonedRequest, answered: Option<usize>) {
        if let Some(mapping) = abandoned.mapping {
            mapping.release();
        }
        match (abandoned.undo, answered) {
            (Undo::Close, Some(number)) => self.close(number),
            (Undo::Unmap(file, request), Some(_)) => {
                self.unmapped_without_waiting(file.number(), request);
            }
            (Undo::Nothing, _) | (_, None) => {}
        }
    }
}
