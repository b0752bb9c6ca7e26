//! The relay of datagrams to groups: the device's daemon, which passes them on from one program to
//! all others. A program has a lane to it as soon as it has joined a group, or sends to one.

use core::time::Duration;

use scif::{Endpoint, NodeId, Options, Port, PortId, SendFlags};
use syscall::error::EIO;

use crate::error::{Error, Result};
use crate::links::{self, Key};

/// The port at which the daemon of each node listens. It is reserved for this use, and only root
/// can bind it.
pub const PORT: Port = 60;
/// The length of the greeting with which a connection to the relay begins.
pub const GREETING_BYTES: usize = links::HELLO_BYTES;
/// How long to wait for a daemon that has just begun.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first bytes of a connection to the relay.
pub fn greeting() -> [u8; GREETING_BYTES] {
    links::hello(links::DATAGRAMS, PORT)
}

/// The key of the lane to the relay of this node.
pub(crate) fn key(node: NodeId) -> Key {
    Key {
        own: links::DATAGRAMS,
        node,
        peer: PORT,
    }
}

/// Connects to the relay of this node, and waits until the relay has accepted: from then on it
/// passes what is sent to groups on to this connection.
///
/// # Errors
/// Those of connecting; `EIO`: the connection has ended at once.
pub(crate) fn connect(node: NodeId) -> Result<Endpoint> {
    let patient = Options::new().retry_for(PATIENCE);
    let endpoint = patient.connect(PortId::new(node, PORT))?;
    endpoint.set_nonblocking(true)?;
    match endpoint.send(&greeting(), SendFlags::empty())? {
        GREETING_BYTES => Ok(endpoint),
        _ => Err(Error::from_errno(EIO)),
    }
}
