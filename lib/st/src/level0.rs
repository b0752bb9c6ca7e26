//! Level 0: Schedule Headers that the program makes itself.

use scif::RmaFlags;
use scif::raw::{Room, Source, Target};
use st_core::connection::Connection;
use st_core::header::{Flags, Header, Operation, PAYLOAD_BYTES};
use st_core::level0::{Action, Function, Refused, plan};
use st_core::queue::{Descriptor, Kind};
use syscall::error::EFAULT;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::half::transfer_error;
use crate::receiver::Receiver;
use crate::sender::Sender;

/// The optional payload behind a header.
pub type Payload = [u8; PAYLOAD_BYTES];

/// The local memory of an operation.
#[derive(Debug)]
pub enum Local<'a> {
    /// There is none: no data moves.
    Nothing,
    /// The data that goes to the peer.
    From(Source<'a>),
    /// The place for data from the peer, or for the former value of a locked operation.
    To(Target<'a>),
}

/// A descriptor that has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrived {
    /// Its header. One of level 1 appears as [`Operation::Nop`].
    pub header: Header,
    /// Its optional payload; for level 1 the whole header.
    pub payload: Option<Payload>,
    /// Bytes of data that moved with it.
    pub length: u64,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Invalid => Self::Invalid,
            Refused::NotAllowed => Self::NotAllowed,
        }
    }
}

impl Local<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::From(Source::Slice(bytes)) => bytes.len(),
            Self::From(Source::Range(range)) | Self::To(Target::Range(range)) => range.bytes(),
            Self::To(Target::Slice(bytes)) => bytes.len(),
        }
    }
}

impl Sender {
    /// Carries out an operation (`st_tx`). Data goes to, or comes from, ⟨buffer, offset⟩ of the
    /// memory that the peer has mapped on this channel, in buffers of 4096 bytes, the first of
    /// which begins where the memory that its program has given begins. The peer gets a
    /// descriptor if there is a payload, if no data moves, or with [`Flags::INTERRUPT`], but never
    /// with [`Flags::SILENT`]. Waits while the peer's queue is full. Ports and key may be 0.
    ///
    /// # Errors
    /// `Invalid`: no operation, a wrong port or key, or local memory that does not fit the
    /// operation. `NotAllowed`: an operation on connections. `EFAULT`: local memory that cannot be
    /// read or written; nothing has changed in the peer's memory. `Outside`, `Gone`, `WouldBlock`,
    /// `TimedOut`. `Ended`, `Broken`, `ENODEV`: the connection has ended.
    pub fn raw(
        &mut self,
        header: &Header,
        payload: Option<&Payload>,
        local: Local<'_>,
        deadline: Deadline,
    ) -> Result<()> {
        let length = local.bytes() as u64;
        let plan = self
            .half
            .shared
            .with_connection(|connection: &mut Connection| {
                let peer = &connection.agreed().parameters;
                plan(header, connection.own(), peer, payload.is_some(), length)
            })?;
        let descriptor = Descriptor::level0(&plan.header, length, payload);
        if plan.is_delivered {
            self.wait_for_room(descriptor.kind().slots(), deadline)?;
        }
        match (plan.action, local) {
            (Action::Nothing, _) => {}
            (Action::Put(ahead), Local::From(from)) => {
                let to = self.remote(deadline)?.buffer(ahead)?;
                self.put_source(from, to)?;
            }
            (Action::Get(ahead), Local::To(to)) => {
                let from = self.remote(deadline)?.buffer(ahead)?;
                self.get_raw(to, from)?;
            }
            (Action::Fetch(ahead, function), Local::To(mut to)) => {
                let place = self.remote(deadline)?.buffer(ahead)?;
                // First, because the operation cannot be undone.
                let mut room = to.writable().ok_or(syscall::error::Error::new(EFAULT))?;
                let value = match function {
                    Function::Increment => self.fetch_add(place, 1),
                    Function::Decrement => self.fetch_sub(place, 1),
                    Function::Clear => self.fetch_clear(place),
                }?;
                room.copy_in(&value.to_le_bytes());
            }
            _ => return Err(Error::Invalid),
        }
        match plan.is_delivered {
            true => self.send(&descriptor, Deadline::Now),
            false => Ok(()),
        }
    }

    fn get_raw(&mut self, to: Target<'_>, from: crate::Place) -> Result<()> {
        let shared = &self.half.shared;
        let bytes = match &to {
            Target::Slice(bytes) => bytes.len(),
            Target::Range(range) => range.bytes(),
        };
        let offset = from.check(shared, bytes as u64)?;
        let read = shared.endpoint.vread_target(to, offset, RmaFlags::SYNC);
        read.map_err(transfer_error)
    }
}

impl Receiver {
    /// Receives a descriptor (`st_rx`); waits for it. One of level 1 appears as
    /// [`Operation::Nop`].
    ///
    /// # Errors
    /// `WouldBlock`, `TimedOut`. `Ended`, `Broken`, `ENODEV`: the connection has ended, and all
    /// descriptors that had arrived have been received.
    pub fn raw(&mut self, deadline: Deadline) -> Result<Arrived> {
        let descriptor = self.peek(deadline)?;
        self.take(descriptor.kind())?;
        if let Some((header, length, payload)) = descriptor.as_level0() {
            return Ok(Arrived {
                header,
                payload,
                length,
            });
        }
        debug_assert_eq!(descriptor.kind(), Kind::Message);
        let header = self.half.shared.with_connection(|connection| Header {
            destination_port: connection.own().port,
            source_port: connection.agreed().parameters.port,
            destination_key: connection.own().key,
            ..Header::new(Operation::Nop, Flags::empty())
        });
        Ok(Arrived {
            header,
            payload: descriptor.bytes().try_into().ok(),
            length: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use scif::Waiting;
    use scif::raw::Range;
    use st_core::record::Record;
    use st_core::region::Region;
    use syscall::error::EOPNOTSUPP;

    use super::*;
    use crate::channel::Channel;
    use crate::options::Options;
    use crate::played::Driver;

    #[test]
    fn a_locked_operation_needs_a_place_for_the_former_value() {
        let driver = Driver::default();
        driver.play(|| {
            let shared = driver.connection(&Options::new());
            let region = Region {
                base: 0x1000,
                length: 4096,
                offset: 0x1000,
                generation: 1,
                origin: 0,
            };
            let announced = Record::Announce { channel: 0, region };
            driver.speak_after(0, &announced.encode());
            let channel = Channel::attach(&shared, 0, Waiting::Sleep).expect("a channel");
            let (mut tx, _rx) = channel.split();
            let header = Header::new(Operation::Get, Flags::FETCH_INCREMENT);
            let mut fetch = |to| {
                let fetched = tx.raw(&header, None, Local::To(to), Deadline::Now);
                fetched.map_err(Error::errno)
            };
            let [mut place, mut other] = [[0; 8]; 2];
            // The played peer has no memory for it.
            let to = Target::Slice(&mut place);
            assert_eq!(fetch(to), Err(EOPNOTSUPP));
            // The played system says of no address that it can be written.
            let to = Target::Range(Range::of(&mut other));
            assert_eq!(fetch(to), Err(EFAULT));
        });
    }
}
