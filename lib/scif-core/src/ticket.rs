//! Tickets: calls that may have to wait for the peer or for copies.

use scif_abi::Error;

use crate::engine::Engine;
use crate::memory::Memory;

/// A call that was accepted and whose result has not been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

impl Engine {
    /// Takes the result of a call; `None` while it is under way. `Event::Changed` of the call's
    /// endpoint tells when to look again. When an endpoint is closed all its calls end, without an
    /// event: whoever closes it asks for them. A ticket whose result was taken is unknown:
    /// `EBADF`.
    pub fn finish(&mut self, _mem: &mut dyn Memory, _ticket: Ticket) -> Option<Result<u64, Error>> {
        Some(Err(Error::BadDescriptor))
    }

    /// Nobody waits for this call any more (its caller was interrupted or died): what can be undone
    /// is undone, what is running runs on, and everything is freed in the end.
    pub fn abandon(&mut self, _mem: &mut dyn Memory, _ticket: Ticket) {}
}
