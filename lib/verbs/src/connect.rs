//! Connecting queue pairs by a SCIF port, for programs that have no other way to exchange the
//! addresses of their queue pairs.

use scif::{Endpoint, PortId, RecvFlags, SendFlags};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};
use crate::queue_pair::{Address, QueuePair, Settings};

/// An address as it is sent.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct Card {
    lid: u32,
    number: u32,
    psn: u32,
}

/// Connects to a program that listens at a port, for [`QueuePair::meet`].
///
/// # Errors
/// Those of SCIF's connect: `ECONNREFUSED`, `ENODEV`, …
pub fn connect(to: PortId) -> Result<Endpoint> {
    Ok(scif::connect(to)?)
}

impl QueuePair {
    /// Connects this queue pair, after [`init`](QueuePair::init), to the one for which the program
    /// at the other end of `endpoint` makes the same call. Returns when both can send. The
    /// endpoint is free for other uses then.
    ///
    /// # Errors
    /// Those of the connection, and of [`connect_to`](QueuePair::connect_to).
    pub fn meet(&self, endpoint: &Endpoint, settings: &Settings) -> Result<()> {
        let peer = exchange(endpoint, self.address())?;
        self.connect_to(peer, settings)?;
        // A second exchange confirms that the peer has come this far, too.
        exchange(endpoint, self.address())?;
        Ok(())
    }
}

/// Sends an address to the peer, and receives the peer's.
fn exchange(endpoint: &Endpoint, own: Address) -> Result<Address> {
    let card = Card {
        lid: u32::from(own.lid).to_le(),
        number: own.number.to_le(),
        psn: own.psn.to_le(),
    };
    let ended = Error::Scif(scif::Errno::ConnectionReset.into());
    let sent = endpoint.send(card.as_bytes(), SendFlags::BLOCK)?;
    let mut card = Card::new_zeroed();
    let got = endpoint.recv(card.as_mut_bytes(), RecvFlags::BLOCK)?;
    if sent != size_of::<Card>() || got != size_of::<Card>() {
        return Err(ended);
    }
    Ok(Address {
        lid: u16::try_from(u32::from_le(card.lid)).map_err(|_| Error::Invalid)?,
        number: u32::from_le(card.number),
        psn: u32::from_le(card.psn),
    })
}
