//! The relay of datagrams for groups: the device's daemon passes them on from one program to all
//! others. A program has a lane to it from the time on when it is in a group, or sends to one.

use core::time::Duration;

use scif::{Endpoint, NodeId, Options, Port, PortId, SendFlags};
use syscall::error::EIO;

use crate::error::{Error, Result};
use crate::links::{self, Key};

/// Where the daemon of each node listens: a port that is reserved for this use, and that only root
/// binds.
pub const PORT: Port = 60;
/// Bytes that a connection to it begins with.
pub const GREETING_BYTES: usize = links::HELLO_BYTES;
/// How long a daemon that has just begun is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first bytes of a connection to it.
pub fn greeting() -> [u8; GREETING_BYTES] {
    links::hello(links::DATAGRAMS, PORT)
}

/// The lane to the relay of this node.
pub(crate) fn key(node: NodeId) -> Key {
    Key {
        own: links::DATAGRAMS,
        node,
        peer: PORT,
    }
}

/// Connects with the relay of this node, and waits until it has agreed: what is sent to groups from
/// then on is passed to this connection.
///
/// # Errors
/// Those of connecting; `EIO`: it has ended at once.
pub(crate) fn connect(node: NodeId) -> Result<Endpoint> {
    let patient = Options::new().retry_for(PATIENCE);
    let endpoint = patient.connect(PortId::new(node, PORT))?;
    endpoint.set_nonblocking(true)?;
    match endpoint.send(&greeting(), SendFlags::empty())? {
        GREETING_BYTES => Ok(endpoint),
        _ => Err(Error::from_errno(EIO)),
    }
}
