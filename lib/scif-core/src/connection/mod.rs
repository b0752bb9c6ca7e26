//! Connections: the pair of rings behind an endpoint, and its handshakes with the peer.
//!
//! The ids on the wire are those of connections, not of endpoints. So an endpoint can be closed, or
//! connect anew, at once, while the old connection lives on until the peer has promised not to
//! write to its pages any more. Only then are the pages freed.

use crate::base::config::Owner;
use crate::base::context::Ends;
use crate::base::ids::EndpointId;
use crate::flow::bypass::Bypass;
use crate::queue_pair::block::Block;
use crate::queue_pair::rings::Rings;

use scif_abi::flags::Readiness;
use scif_abi::{Port, PortId};
use scif_ring::Side;

/// Where a connection stands with its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// CNCT_REQ sent, not answered.
    Requested,
    /// As `Requested`, but nobody waits for it any more. Ends with TERM_ACK, CNCT_REJ or CNCT_GNT.
    Withdrawn,
    /// CNCT_GNT sent; ends with CNCT_GNTACK or CNCT_GNTNACK.
    Granted,
    /// In use.
    Connected,
    /// Over for us, but clients still have the peer's memory mapped, so DISCNCT has to wait.
    Draining,
    /// DISCNCT sent; ends with DISCNT_ACK.
    Closing,
    /// The link broke; whether the peer still writes is not known. Ends with `link_down`.
    Severed,
    /// The peer does not touch it any more. Lives as long as an endpoint refers to it.
    Disconnected,
}

/// What is to be told to the peer about one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Notify {
    /// Nothing.
    #[default]
    No,
    /// Something has changed: tell it if it wants to know.
    IfArmed,
    /// Tell it.
    Always,
}

/// Notifications owed to the peer, sent when the engine is flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notifications {
    /// CLIENT_SENT.
    pub(crate) sent: Notify,
    /// CLIENT_RCVD.
    pub(crate) received: Notify,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Our port.
    pub(crate) local: Port,
    /// The peer's node, which is certain, and port, which is what the peer says.
    pub(crate) peer: PortId,
    pub(crate) phase: Phase,
    /// The endpoint it belongs to, unless that was closed.
    pub(crate) endpoint: Option<EndpointId>,
    /// Who asked for it, until the peer has answered; counted there.
    pub(crate) requested_by: Option<Owner>,
    /// The peer's id; 0 until known.
    pub(crate) remote: u64,
    pub(crate) block: Block,
    /// The rings, once both sides' memory is known.
    pub(crate) rings: Option<Rings>,
    pub(crate) notify: Notifications,
    /// It is in the engine's list of connections that owe something.
    pub(crate) is_notification_queued: bool,
    /// It is in the list of connections whose peers wait for more room.
    pub(crate) is_credit_update_due: bool,
    /// Somebody waits for room at its peer, which does not ask who wants to hear of it.
    pub(crate) awaits_credit: bool,
    /// Bytes sent and received by rings that were spoilt and are gone.
    pub(crate) moved: [u64; 2],
    /// Bytes not taken yet, here and by the peer, when somebody last asked.
    pub(crate) queued: [u64; 2],
    /// What clients that work on the rings themselves share with us, while there are some.
    pub(crate) bypass: Option<Bypass>,
    /// What somebody always wants to hear of, also while clients work on the rings.
    pub(crate) waiting: Readiness,
    /// Looks at a ring that a client had locked, since we last had a ring to ourselves.
    pub(crate) failed_locks: u32,
    /// The peer's DISCNCT has to be acknowledged once nobody has its memory mapped any more.
    pub(crate) owes_ack: bool,
}

impl Connection {
    pub(crate) fn new(phase: Phase, endpoint: EndpointId, ends: Ends, block: Block) -> Connection {
        Connection {
            local: ends.local,
            peer: ends.peer,
            phase,
            endpoint: Some(endpoint),
            requested_by: None,
            remote: 0,
            block,
            rings: None,
            notify: Notifications::default(),
            is_notification_queued: false,
            is_credit_update_due: false,
            awaits_credit: false,
            moved: [0; 2],
            queued: [0; 2],
            bypass: None,
            waiting: Readiness::empty(),
            failed_locks: 0,
            owes_ack: false,
        }
    }

    /// Bytes sent and received, as far as we have seen.
    pub(crate) fn moved(&self) -> [u64; 2] {
        let of_rings = |rings: &Rings| [Side::Send, Side::Receive].map(|side| rings.position(side));
        self.rings.as_ref().map_or(self.moved, of_rings)
    }

    /// Its two ports.
    pub(crate) fn ends(&self) -> Ends {
        Ends {
            local: self.local,
            peer: self.peer,
        }
    }

    /// Whether nobody needs it any more: the peer, an endpoint, clients.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Disconnected && self.endpoint.is_none() && !self.is_mapped()
    }

    /// Whether clients have the rings of both ends mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.bypass.is_some()
    }
}
