//! Ids of endpoints, connections, windows, channels, handles and calls. Each is the key of one
//! [`Table`](super::table::Table), so an id is never valid again once the thing is gone, and ids of
//! different things cannot be mixed up. To peers and clients an id is a plain number.

use super::table::Key;

macro_rules! ids {
    ($($(#[$attribute:meta])* $visibility:vis struct $name:ident;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility struct $name(u64);

        impl $name {
            /// The id as a number, for messages, tables and logs.
            $visibility fn number(self) -> u64 {
                self.0
            }
        }

        impl Key for $name {
            fn from_number(number: u64) -> Self {
                $name(number)
            }

            fn number(self) -> u64 {
                self.0
            }
        }
    )*};
}

ids! {
    /// Names an endpoint of one engine. Never reused: an id of a closed endpoint is invalid for
    /// ever.
    pub struct EndpointId;
    /// Names a connection; what peers see as our "endpoint id".
    pub(crate) struct ConnectionId;
    /// Names a local window; what peers see as "the owner's id".
    pub(crate) struct WindowId;
    /// A window of a peer (or of this node, for connections within it), by a name that is never
    /// reused and stays valid after the connection has ended.
    pub struct RemoteWindowId;
    /// Names a channel.
    pub(crate) struct ChannelId;
    /// Names a bypass handle; never reused.
    pub struct BypassId;
    /// A call that was accepted and whose result has not been taken.
    pub struct Ticket;
}
