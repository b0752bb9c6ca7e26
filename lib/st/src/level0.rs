//! Level 0: Schedule Headers that the program makes itself.

use scif::RmaFlags;
use scif::raw::{Source, Target};
use st_core::connection::Connection;
use st_core::header::{Flags, Header, Operation, PAYLOAD_BYTES};
use st_core::level0::{Action, Function, Refused, plan};
use st_core::queue::{Descriptor, Kind};

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
    /// operation. `NotAllowed`: an operation on connections. `Outside`, `Gone`, `WouldBlock`,
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
            (Action::Fetch(ahead, function), Local::To(to)) => {
                let place = self.remote(deadline)?.buffer(ahead)?;
                let value = match function {
                    Function::Increment => self.fetch_add(place, 1),
                    Function::Decrement => self.fetch_sub(place, 1),
                    Function::Clear => self.fetch_clear(place),
                }?;
                store(to, &value.to_le_bytes())?;
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

/// Copies bytes into the program's memory.
fn store(to: Target<'_>, bytes: &[u8]) -> Result<()> {
    match to {
        Target::Slice(slice) => slice.copy_from_slice(bytes),
        Target::Range(range) => {
            let writable = range.writable().ok_or(Error::Invalid);
            writable?.copy_in(bytes);
        }
    }
    Ok(())
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
