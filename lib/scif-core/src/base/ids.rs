//! Ids of endpoints, connections, windows, channels, handles and calls. Each is the key of one
//! [`Table`](super::table::Table), so an id never becomes valid again once its entry is gone, and
//! ids of different kinds cannot be mixed up. To peers and clients an id is a plain number.

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
    /// Names an endpoint of one engine. It is never reused: the id of a closed endpoint stays
    /// invalid.
    pub struct EndpointId;
    /// Names a connection. Peers see it as our "endpoint id".
    pub(crate) struct ConnectionId;
    /// Names a local window. Peers see it as "the owner's id".
    pub(crate) struct WindowId;
    /// Names a window of a peer (or of this node, for connections within it). It is never reused
    /// and stays valid after the connection has ended.
    pub struct RemoteWindowId;
    /// Names a channel.
    pub(crate) struct ChannelId;
    /// Names a bypass handle; never reused.
    pub struct BypassId;
    /// Names a call that was accepted and whose result has not been taken.
    pub struct Ticket;
}
