//! Connecting again as a client, without waiting.

use alloc::boxed::Box;
use core::time::Duration;

use scif::{Endpoint, Errno, PortId};

use super::desk::Arrival;
use crate::deadline::now;
use crate::error::Result;
use crate::handshake::Handshake;
use crate::options::Options;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Attempts to connect to a server, one after the other.
pub struct Attempt {
    to: PortId,
    options: Options,
    phase: Phase,
}

enum Phase {
    /// The next attempt begins at this time.
    Pausing(Duration),
    Connecting(Box<Endpoint>),
    Greeting(Box<Handshake>),
}

impl Attempt {
    /// No attempt has begun. They use any free port, because the former connection may still have
    /// its own.
    pub fn new(to: PortId, options: &Options) -> Result<Self> {
        Ok(Self {
            to,
            options: options.port(0),
            phase: Phase::Pausing(now()?),
        })
    }

    /// Advances the attempt. Returns a new connection when there is one. An attempt that fails is
    /// followed by the next.
    ///
    /// # Errors
    /// Those of reading the clock.
    pub fn advance(&mut self) -> Result<Option<Arrival>> {
        let now = now()?;
        let rest = Phase::Pausing(now.saturating_add(PAUSE));
        let phase = core::mem::replace(&mut self.phase, rest);
        // A failed attempt is dropped with all that it has made.
        let next = match phase {
            Phase::Pausing(until) if now < until => Ok(Phase::Pausing(until)),
            Phase::Pausing(_) => self.begin(),
            Phase::Connecting(endpoint) => self.connect(*endpoint),
            Phase::Greeting(mut handshake) => match handshake.advance() {
                Ok(false) => Ok(Phase::Greeting(handshake)),
                Ok(true) => match handshake.finish() {
                    Ok(link) => {
                        return Ok(Some(Arrival {
                            shared: link.shared,
                            state: None,
                        }));
                    }
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            },
        };
        if let Ok(next) = next {
            self.phase = next;
        }
        Ok(None)
    }

    fn begin(&self) -> Result<Phase> {
        let endpoint = scif::Options::new().nonblocking(true).bind()?;
        self.connect(endpoint)
    }

    fn connect(&self, endpoint: Endpoint) -> Result<Phase> {
        match endpoint.connect(self.to) {
            Err(scif::Error::Scif(Errno::InProgress)) => {
                return Ok(Phase::Connecting(Box::new(endpoint)));
            }
            Ok(_) | Err(scif::Error::Scif(Errno::IsConnected)) => {}
            Err(error) => return Err(error.into()),
        }
        endpoint.set_nonblocking(false)?;
        let handshake = Handshake::request(endpoint, &self.options)?;
        Ok(Phase::Greeting(Box::new(handshake)))
    }
}
