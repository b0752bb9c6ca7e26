//! A connection that is set up: its channels, addresses and end.

use alloc::sync::Arc;

use scif::Endpoint;
use st_core::record::Parameters;

use crate::channel::Channel;
use crate::error::Result;
use crate::options::Options;
use crate::shared::Shared;

/// One end of a connection. Its channels are attached one by one; the connection stays open as
/// long as this value or any of them exists.
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
    options: Options,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, options: &Options) -> Self {
        Self {
            shared,
            options: *options,
        }
    }

    /// Attaches a channel.
    ///
    /// # Errors
    /// `Invalid`: there is no such channel. `Busy`: it is attached, or memory is still mapped on
    /// it.
    pub fn channel(&self, channel: u32) -> Result<Channel> {
        Channel::attach(&self.shared, channel, self.options.waiting)
    }

    /// Tells the peer that this end closes the connection, even if channels are still attached:
    /// the peer's calls fail with [`Error::Ended`](crate::Error::Ended), after the last header
    /// that has arrived.
    pub fn say_end(&self) {
        self.shared.say_end();
    }

    /// For the child of a fork: closes its copies of the connection's descriptors, so that the
    /// connection ends with the parent. Afterwards all parts of the connection must be forgotten,
    /// neither used nor dropped.
    pub fn close_in_child(&self) {
        self.shared.endpoint.close_in_child();
    }

    /// The endpoint below, for its addresses and for event queues. Only the library may send and
    /// receive on it.
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// The parameters of this end: its port, key, channels and slots.
    pub fn own(&self) -> Parameters {
        self.shared.with_connection(|connection| *connection.own())
    }

    /// The parameters of the peer.
    pub fn peer(&self) -> Parameters {
        let agreed = |protocol: &mut st_core::connection::Connection| protocol.agreed().parameters;
        self.shared.with_connection(agreed)
    }
}
