//! The receiving half of a session.

use super::{Fault, Phase, Session};
use crate::queue::{Armed, Descriptor, QueueMemory};

impl<D> Session<D> {
    /// Takes the next transfer for this end's program. Also returns whether the peer has to be
    /// woken; `None`: there is no transfer. What has arrived comes first, also after the
    /// connection is lost or the session is over.
    ///
    /// # Errors
    /// All of [`Fault`]. That the peer cannot be reached any more is found by the next send or
    /// arm.
    pub fn receive<M: QueueMemory>(
        &mut self,
        mem: &mut M,
    ) -> Result<Option<(Descriptor, bool)>, Fault<M::Error>> {
        let Some(receiver) = &mut self.receiver else {
            return self.check().map(|()| None).map_err(Fault::Over);
        };
        let descriptor = match receiver.peek(mem) {
            Ok(Some(descriptor)) => descriptor,
            Ok(None) => return self.check().map(|()| None).map_err(Fault::Over),
            Err(error) => return Err(self.fault(error)),
        };
        // The program gets the transfer, even if the peer cannot be notified. It is notified at
        // once: a program that takes no more may itself wait until its own transfers are taken.
        let notified = receiver.take_and_give_back(mem, descriptor.kind());
        let wake = notified.unwrap_or(false);
        self.received += 1;
        Ok(Some((descriptor, wake)))
    }

    /// Whether a transfer can be received, by a look at this end's memory.
    pub fn is_ready<M: QueueMemory>(&self, mem: &M) -> bool {
        let receiver = self.receiver.as_ref();
        receiver.is_some_and(|receiver| receiver.is_ready(mem))
    }

    /// Asks the peer to wake this end when it sends something, and looks once more. If nothing is
    /// there, it is safe to sleep until woken, until there is another connection, or until the
    /// session is over.
    ///
    /// # Errors
    /// All of [`Fault`].
    pub fn arm<M: QueueMemory>(&mut self, mem: &mut M) -> Result<Armed, Fault<M::Error>> {
        let nothing = Armed {
            is_ready: false,
            wake: false,
        };
        let Some(receiver) = &mut self.receiver else {
            return self.check().map(|()| nothing).map_err(Fault::Over);
        };
        if receiver.is_ready(mem) {
            return Ok(Armed {
                is_ready: true,
                wake: false,
            });
        }
        match &self.phase {
            Phase::Over(over) => Err(Fault::Over(*over)),
            Phase::Apart | Phase::Quoted { .. } => Ok(nothing),
            Phase::Open(_) => {
                let armed = receiver.arm(mem);
                armed.map_err(|error| self.fault(error))
            }
        }
    }

    /// Transfers that this end's program has taken, on all connections.
    pub const fn received(&self) -> u64 {
        self.received
    }
}
