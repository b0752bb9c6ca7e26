//! Connection set-up: the parameters that both ends send each other before the first transfer, and
//! agree on.
//!
//! ```text
//! client                                    server
//! │ Request(its parameters) ──────────────► │ checks them against its own
//! │ ◄──────────── Answer(its parameters)    │ connected       (or Reject)
//! │ checks them: connected                  │
//! ```
//!
//! Bad options are found here and nowhere else: by the API's description connect and accept fail
//! then.

use crate::queue::{Layout, MAX_CHANNELS, MAX_SLOTS, MIN_SLOTS};
use crate::record::{Parameters, Record};

/// The options of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether transfers bypass the operating system.
    pub bypass: bool,
    /// Channels, 1 to 64; the same at both ends.
    pub channels: u32,
    /// Slots of each queue in which this end receives: a power of two, 8 to 4096.
    pub slots: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bypass: true,
            channels: 4,
            slots: 64,
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The options of this end are out of range.
    OwnOptions,
    /// The peer's parameters are out of range, or its key is 0.
    PeerParameters,
    /// One end uses the bypass and the other does not.
    Bypass,
    /// The ends have different numbers of channels.
    Channels,
    /// The peer has refused.
    Rejected,
    /// The peer has sent another record than the one that is due.
    Protocol,
}

/// The parameters that two ends have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The layout of this end's queue window.
    pub own: Layout,
    /// The layout of the peer's queue window.
    pub peer: Layout,
    /// The peer's parameters.
    pub parameters: Parameters,
}

/// Checks the options of an end: returns the layout of its queue window.
///
/// # Errors
/// `OwnOptions`.
pub fn layout(options: Options) -> Result<Layout, Refused> {
    checked(options.channels, options.slots).ok_or(Refused::OwnOptions)
}

fn checked(channels: u32, slots: u32) -> Option<Layout> {
    let in_range = channels <= MAX_CHANNELS && (MIN_SLOTS..=MAX_SLOTS).contains(&slots);
    Layout::new(channels, slots).filter(|_| in_range)
}

/// The server's side: answers the first record of a connection.
///
/// # Errors
/// All of [`Refused`] but `Rejected`. After an error the answer to send is [`Record::Reject`].
pub fn accept(own: Parameters, record: Record) -> Result<(Agreed, Record), Refused> {
    let Record::Request(peer) = record else {
        return Err(Refused::Protocol);
    };
    Ok((agree(own, peer)?, Record::Answer(own)))
}

/// The client's side: handles the answer to its [`Record::Request`].
///
/// # Errors
/// All of [`Refused`].
pub fn connected(own: Parameters, record: Record) -> Result<Agreed, Refused> {
    match record {
        Record::Answer(peer) => agree(own, peer),
        Record::Reject => Err(Refused::Rejected),
        _ => Err(Refused::Protocol),
    }
}

fn agree(own: Parameters, peer: Parameters) -> Result<Agreed, Refused> {
    let own_layout = checked(own.channels, own.slots).ok_or(Refused::OwnOptions)?;
    let peer_layout = checked(peer.channels, peer.slots).ok_or(Refused::PeerParameters)?;
    if peer.key == 0 || peer.window < 0 {
        return Err(Refused::PeerParameters);
    }
    if own.bypass != peer.bypass {
        return Err(Refused::Bypass);
    }
    if own.channels != peer.channels {
        return Err(Refused::Channels);
    }
    Ok(Agreed {
        own: own_layout,
        peer: peer_layout,
        parameters: peer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(options: Options, key: u32) -> Parameters {
        Parameters {
            port: 2050,
            key,
            bypass: options.bypass,
            channels: options.channels,
            slots: options.slots,
            window: 0x1000,
        }
    }

    #[test]
    fn both_ends_agree_crosswise() {
        let client = end(Options::default(), 1);
        let wide = Options {
            slots: 128,
            ..Options::default()
        };
        let server = end(wide, 2);
        let (at_server, answer) = accept(server, Record::Request(client)).unwrap();
        let at_client = connected(client, answer).unwrap();
        assert_eq!(
            (at_client.own, at_client.peer),
            (at_server.peer, at_server.own)
        );
        assert_eq!(at_client.parameters, server);
        assert_eq!(at_server.parameters, client);
    }

    #[test]
    fn what_cannot_be_agreed_on_is_refused() {
        let good = Options::default();
        let own = end(good, 1);
        let change = |bypass, channels, slots, key| {
            let options = Options {
                bypass,
                channels,
                slots,
            };
            accept(own, Record::Request(end(options, key))).unwrap_err()
        };
        assert_eq!(change(false, 4, 64, 2), Refused::Bypass);
        assert_eq!(change(true, 5, 64, 2), Refused::Channels);
        assert_eq!(change(true, 0, 64, 2), Refused::PeerParameters);
        assert_eq!(change(true, 65, 64, 2), Refused::PeerParameters);
        assert_eq!(change(true, 4, 4, 2), Refused::PeerParameters);
        assert_eq!(change(true, 4, 65, 2), Refused::PeerParameters);
        assert_eq!(change(true, 4, 64, 0), Refused::PeerParameters);
        let outside = Parameters {
            window: -4096,
            ..end(good, 2)
        };
        let refused = connected(own, Record::Answer(outside));
        assert_eq!(refused, Err(Refused::PeerParameters));
        assert_eq!(connected(own, Record::Reject), Err(Refused::Rejected));
        assert_eq!(connected(own, Record::Disconnect), Err(Refused::Protocol));
        let wrong = accept(own, Record::Answer(own)).unwrap_err();
        assert_eq!(wrong, Refused::Protocol);
        let few = Options { slots: 3, ..good };
        assert_eq!(layout(few), Err(Refused::OwnOptions));
    }
}
