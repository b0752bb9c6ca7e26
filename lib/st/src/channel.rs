//! A channel: its two halves, which are attached together and can be split.

use alloc::sync::Arc;

use scif::Waiting;

use crate::error::Result;
use crate::half::Half;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::shared::Shared;

/// An attached channel of a connection. It is detached when both halves and the memory mapped on
/// it have been dropped; what the peer has pushed then stays for the next attach.
pub struct Channel {
    sender: Sender,
    receiver: Receiver,
}

impl Channel {
    pub(crate) fn attach(shared: &Arc<Shared>, channel: u32, waiting: Waiting) -> Result<Self> {
        let (sender, receiver) = shared.attach(channel)?;
        let half = || Half {
            shared: shared.clone(),
            channel,
            waiting,
            sleeper: None,
        };
        Ok(Self {
            sender: Sender::new(half(), sender),
            receiver: Receiver::new(half(), receiver),
        })
    }

    /// Both halves, which may be used by two threads.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}
