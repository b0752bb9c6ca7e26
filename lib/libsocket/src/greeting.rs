//! Set-up of an accepted connection of Scheduled Transfers (`docs/st.md`): it lasts until the
//! peer's request has come.

use alloc::boxed::Box;
use core::time::Duration;

use libredox::Fd;
use runtime::time::Instant;
use scif::raw;
use scif_abi::PortId;
use st::Handshake;
use st_core::record::{RECORD_BYTES, Record};
use st_core::setup::Refused;
use syscall::error::{EINVAL, EPROTO};

use crate::Result;
use crate::transfers::{Established, Transfers};

/// How long a peer may take to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// A connection that is being set up.
pub struct Greeting {
    /// The descriptor that the program gets when the set-up is complete.
    file: Fd,
    peer: PortId,
    stage: Stage,
}

enum Stage {
    /// With the bypass: `st` does the set-up.
    Bypass(Box<Handshake>),
    /// Without the bypass: the request so far, its length, and the time by which it must be
    /// complete.
    Request([u8; RECORD_BYTES], usize, Instant),
    /// The set-up has failed with this error.
    Failed(i32),
}

/// A connection whose set-up is complete.
pub struct Accepted {
    /// Its descriptor.
    pub file: Fd,
    /// The other end.
    pub peer: PortId,
    /// The parameters that both ends have agreed on.
    pub established: Established,
}

impl Greeting {
    /// Begins the set-up of an accepted connection, with the options of its listener.
    pub fn begin(file: Fd, peer: PortId, listener: &Transfers) -> Self {
        let deadline = Instant::now() + REQUEST_TIME;
        let stage = match listener.begin_answer(file.raw()) {
            Ok(Some(handshake)) => Stage::Bypass(Box::new(handshake)),
            Ok(None) => Stage::Request([0; RECORD_BYTES], 0, deadline),
            Err(error) => Stage::Failed(error_of(error)),
        };
        Self { file, peer, stage }
    }

    /// Fails the set-up with `EPROTO`, as after a fault of the peer.
    pub fn fail(&mut self) {
        self.stage = Stage::Failed(EPROTO);
    }

    /// The descriptor, which is readable when more bytes have come.
    pub fn descriptor(&self) -> usize {
        self.file.raw()
    }

    /// Takes the bytes that have come; `true` when the request is complete. Once the set-up has
    /// failed, every call returns its error.
    pub fn advance(&mut self) -> Result<bool> {
        match &mut self.stage {
            Stage::Bypass(handshake) => handshake.advance().map_err(error_of),
            Stage::Failed(error) => Err(*error),
            Stage::Request(bytes, filled, deadline) => {
                while *filled < RECORD_BYTES {
                    let count = raw::recv(self.file.raw(), &mut bytes[*filled..], 0);
                    match count.map_err(|_| EPROTO)? {
                        0 if Instant::now() > *deadline => return Err(EPROTO),
                        0 => return Ok(false),
                        count => *filled += count,
                    }
                }
                Ok(true)
            }
        }
    }

    /// Whether the set-up still waits for the peer.
    pub fn is_silent(&mut self) -> bool {
        self.advance() == Ok(false)
    }

    /// Completes the set-up after [`advance`](Self::advance) has returned `true`.
    ///
    /// # Errors
    /// `EPROTO`; `EINVAL` if our own options are bad.
    pub fn finish(self, listener: &Transfers) -> Result<Accepted> {
        let established = match self.stage {
            Stage::Bypass(handshake) => handshake.finish().map(Established::with),
            Stage::Request(bytes, ..) => {
                let request = Record::decode(&bytes).map_err(|_| Refused::Protocol.into());
                request.and_then(|request| listener.answer(self.file.raw(), request))
            }
            Stage::Failed(error) => return Err(error),
        };
        Ok(Accepted {
            file: self.file,
            peer: self.peer,
            established: established.map_err(error_of)?,
        })
    }
}

/// The error that a server gets for a set-up that has failed.
fn error_of(error: st::Error) -> i32 {
    match error {
        st::Error::Refused(Refused::OwnOptions) => EINVAL,
        _ => EPROTO,
    }
}
