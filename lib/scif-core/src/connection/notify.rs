//! Notifications from connections to their peers: CLIENT_SENT and CLIENT_RCVD. They are sent at
//! the end of an iteration, so that several merge into one.

use scif_abi::flags::{Kicks, Readiness};
use scif_abi::message::{Message, NodeMessage};
use scif_abi::{NodeId, PortId};

use crate::base::context::Context;
use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::{Connection, Connections, Phase};

/// Nanoseconds after which a peer that waits for room is notified of any room, however little.
const CREDIT_DELAY_NS: u64 = 1_000_000;

/// Whether a notification about one direction is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Notify {
    /// No.
    #[default]
    No,
    /// Pending if the peer has armed its word.
    IfArmed,
    /// Pending.
    Always,
}

/// Pending notifications of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notifications {
    /// CLIENT_SENT.
    sent: Notify,
    /// CLIENT_RCVD.
    received: Notify,
    /// Whether the connection is in the list of those with pending notifications.
    is_queued: bool,
    /// Whether the connection is in the list of those whose peers wait for more room.
    is_credit_update_due: bool,
}

impl Notifications {
    /// Drops all pending notifications.
    pub(super) fn clear(&mut self) {
        (self.sent, self.received) = (Notify::No, Notify::No);
    }
}

impl Connections {
    /// Makes a notification of bytes (IN) or room (OUT) pending. A connection is listed once for
    /// any number of them: a notification says that something has changed and not how much, and it
    /// is sent after the last index that it is about.
    pub(super) fn add_notification(&mut self, id: ConnectionId, what: Readiness, notify: Notify) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let pending = &mut connection.notify;
        if what.contains(Readiness::IN) {
            pending.sent = pending.sent.max(notify);
        }
        if what.contains(Readiness::OUT) {
            pending.received = pending.received.max(notify);
        }
        if !core::mem::replace(&mut pending.is_queued, true) {
            self.notifications.push(id);
        }
    }

    /// Makes the notifications pending for which a client asks because it has found the peer's
    /// words armed.
    pub(crate) fn kick(&mut self, id: ConnectionId, kicks: Kicks) {
        let mut what = Readiness::empty();
        what.set(Readiness::IN, kicks.contains(Kicks::BYTES));
        what.set(Readiness::OUT, kicks.contains(Kicks::ROOM));
        if !kicks.is_empty() {
            self.add_notification(id, what, Notify::Always);
        }
    }

    /// Whether a notification for `node` waits for room in the node ring.
    pub(crate) fn has_notifications_for(&self, node: NodeId) -> bool {
        let connections = self.notifications.iter();
        let mut connections = connections.filter_map(|id| self.table.get(*id));
        connections.any(|c| c.phase == Phase::Connected && c.node() == node)
    }

    /// Sends pending notifications. Those for which `send`, to another node, finds no room stay
    /// pending.
    pub(crate) fn send_notifications(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        mut send: impl FnMut(&mut dyn Memory, &mut Context, NodeId, &Message) -> bool,
    ) {
        if self.notifications.is_empty() {
            return;
        }
        let mut notifications = core::mem::take(&mut self.notifications);
        notifications.retain(|id| {
            let connection = self.table.get_mut(*id);
            connection.is_some_and(|connection| {
                let is_sent = connection.send_notifications(mem, cx, &mut send);
                if is_sent && connection.must_update_credit() {
                    let at = cx.after(CREDIT_DELAY_NS);
                    cx.timers.set_earliest(Timer::CreditUpdate, at);
                    self.credit_updates.push(*id);
                }
                !is_sent
            })
        });
        self.notifications = notifications;
    }

    /// Notifies the peers that wait for room of any room, however little.
    pub(crate) fn send_credit_updates(&mut self, mem: &mut dyn Memory) {
        let mut credit_updates = core::mem::take(&mut self.credit_updates);
        for id in credit_updates.drain(..) {
            let Some(connection) = self.table.get_mut(id) else {
                continue;
            };
            let pending = &mut connection.notify;
            pending.is_credit_update_due = false;
            let is_waiting = pending.received == Notify::IfArmed;
            let rings = connection.rings.as_mut().filter(|_| is_waiting);
            if rings.is_some_and(|rings| rings.wants_room(mem)) {
                self.add_notification(id, Readiness::OUT, Notify::Always);
            } else if is_waiting {
                pending.received = Notify::No;
            }
        }
        self.credit_updates = credit_updates;
    }
}

impl Connection {
    /// Sends the connection's pending notifications. `false` when there was no room for all of
    /// them.
    fn send_notifications(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        send: &mut impl FnMut(&mut dyn Memory, &mut Context, NodeId, &Message) -> bool,
    ) -> bool {
        self.resolve_notifications(mem);
        let (node, own) = (self.node(), cx.config.node);
        for message in self.notification_messages(own).into_iter().flatten() {
            if node == own {
                cx.loopback.push_back(message);
            } else if !send(mem, cx, node, &message) {
                return false;
            }
            match message.opcode.get() {
                NodeMessage::CLIENT_SENT => self.notify.sent = Notify::No,
                _ => self.notify.received = Notify::No,
            }
        }
        self.notify.is_queued = false;
        self.notify.sent = Notify::No;
        true
    }

    /// Whether the peer, which waits for room, must be notified later: when half of the ring is
    /// free, or after a while, because the receiver may stop in the middle. Returns true only
    /// once.
    fn must_update_credit(&mut self) -> bool {
        let pending = &mut self.notify;
        if pending.received != Notify::IfArmed || self.phase != Phase::Connected {
            pending.received = Notify::No;
            return false;
        }
        !core::mem::replace(&mut pending.is_credit_update_due, true)
    }

    /// Decides for each direction whether the peer has armed its word.
    fn resolve_notifications(&mut self, mem: &mut dyn Memory) {
        let Some(rings) = &mut self.rings else {
            return;
        };
        let is_armable = rings.is_armable();
        let decide = |asks: bool| if asks { Notify::Always } else { Notify::No };
        if self.notify.sent == Notify::IfArmed {
            self.notify.sent = decide(!is_armable || rings.wants_bytes(mem));
        }
        if self.notify.received == Notify::IfArmed
            && !rings.is_credit_small(mem, self.block.ring_bytes() / 2)
        {
            self.notify.received = decide(!is_armable || rings.wants_room(mem));
        }
    }

    /// The messages for the pending notifications; none unless the connection is connected.
    fn notification_messages(&self, own: NodeId) -> [Option<Message>; 2] {
        let (ends, peer) = (self.ends, self.remote);
        let from = PortId::new(own, ends.local);
        let message = |notify, body| {
            let is_due = self.phase == Phase::Connected && notify == Notify::Always;
            is_due.then(|| Message::new(from, ends.peer, body))
        };
        [
            message(self.notify.sent, NodeMessage::ClientSent { peer }),
            message(self.notify.received, NodeMessage::ClientReceived { peer }),
        ]
    }
}
