//! Level 0 at the ends of a connection.

use st_core::header::{Flags, Header, Operation, PAYLOAD_BYTES};
use st_core::level0::{Action, Function, Plan, Refused as BadHeader, plan};
use st_core::queue::Descriptor;

use super::{At, End, Ends, Failed, Result};

/// A descriptor that has arrived.
pub type Arrived = (Header, u64, Option<[u8; PAYLOAD_BYTES]>);

impl Ends {
    /// Executes a header of level 0. `local` has the bytes of a put, or the length of a get.
    /// Returns the bytes that came.
    ///
    /// # Errors All of [`Failed`] but `OtherLevel`.
    pub fn transmit(
        &mut self,
        side: usize,
        channel: u32,
        header: &Header,
        payload: Option<&[u8; PAYLOAD_BYTES]>,
        local: &[u8],
    ) -> Result<Vec<u8>> {
        self.live(side)?;
        let length = local.len() as u64;
        let [own, peer] = self.parameters(side);
        let planned = plan(header, &own, &peer, payload.is_some(), length);
        let Plan {
            header,
            action,
            is_delivered,
        } = planned.map_err(|refused| match refused {
            BadHeader::Invalid => Failed::Invalid,
            BadHeader::NotAllowed => Failed::NotAllowed,
        })?;
        let descriptor = Descriptor::level0(&header, length, payload);
        if is_delivered {
            self.room(side, channel, descriptor.kind().slots())?;
        }
        let came = self.act(side, channel, action, local)?;
        if !is_delivered {
            return Ok(came);
        }
        let End {
            access, senders, ..
        } = &mut self.ends[side];
        let sent = senders[channel as usize].send(access, &descriptor);
        self.sent(side, channel, sent)?;
        Ok(came)
    }

    fn act(&mut self, side: usize, channel: u32, action: Action, local: &[u8]) -> Result<Vec<u8>> {
        let ahead = match action {
            Action::Nothing => return Ok(Vec::new()),
            Action::Put(ahead) | Action::Get(ahead) | Action::Fetch(ahead, _) => ahead,
        };
        let offset = self.remote(side, channel, At::Ahead(ahead), local.len())?;
        match action {
            Action::Put(_) => self.put(side, offset, local).map(|()| Vec::new()),
            Action::Fetch(_, function) => self.locked(side, offset, function),
            _ => self.fetch(side, offset, local.len()),
        }
    }

    /// Executes a locked operation: nothing happens between the load and the store.
    fn locked(&mut self, side: usize, offset: i64, function: Function) -> Result<Vec<u8>> {
        let before = self.fetch(side, offset, size_of::<u64>())?;
        let value = before
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word));
        let value = match function {
            Function::Increment => value.wrapping_add(1),
            Function::Decrement => value.wrapping_sub(1),
            Function::Clear => 0,
        };
        let access = &mut self.ends[side].access;
        match access.put(offset, &value.to_le_bytes(), true) {
            Ok(()) => Ok(before),
            Err(_) => Err(self.gone(side)),
        }
    }

    /// Takes the next descriptor. A header of level 1 counts as a NOP with its bytes as payload.
    ///
    /// # Errors `Waits`, `Ended`, `Broken`, `Dead`.
    pub fn receive(&mut self, side: usize, channel: u32) -> Result<Arrived> {
        self.hear(side)?;
        let End {
            access, receivers, ..
        } = &mut self.ends[side];
        let is_down = access.is_down();
        match receivers[channel as usize].receive(access) {
            Ok(Some(received)) => {
                if received.wake {
                    self.wake(side, channel)?;
                }
                let descriptor = received.descriptor;
                Ok(descriptor.as_level0().unwrap_or_else(|| {
                    let header = Header::new(Operation::Nop, Flags::empty());
                    (header, 0, descriptor.bytes().first_chunk().copied())
                }))
            }
            Ok(None) if is_down => Err(Failed::Ended),
            Ok(None) => Err(self.fall_asleep(side, channel)),
            Err(error) => Err(self.queue_error(side, error)),
        }
    }
}
