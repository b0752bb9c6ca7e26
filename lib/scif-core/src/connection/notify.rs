//! Notifications: what connections owe their peers, sent when the engine is flushed.

use scif_abi::flags::{Kicks, Readiness};
use scif_abi::message::{Message, NodeMessage};
use scif_abi::{NodeId, PortId};

use crate::base::context::Context;
use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::{Connection, Connections, Phase};

/// Nanoseconds a peer that waits for room waits at most for more of it.
const CREDIT_DELAY_NS: u64 = 1_000_000;

/// What is to be told to the peer about one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Notify {
    /// Nothing.
    #[default]
    No,
    /// Something has changed: tell it if it wants to know.
    IfArmed,
    /// Tell it.
    Always,
}

/// Notifications owed to the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notifications {
    /// CLIENT_SENT.
    sent: Notify,
    /// CLIENT_RCVD.
    received: Notify,
    /// The connection is in the list of those that owe something.
    is_queued: bool,
    /// It is in the list of those whose peers wait for more room.
    is_credit_update_due: bool,
}

impl Notifications {
    /// Nothing is owed any more.
    pub(super) fn clear(&mut self) {
        (self.sent, self.received) = (Notify::No, Notify::No);
    }
}

impl Connections {
    /// A connection owes its peer, at least so much, that there are bytes (IN) or room (OUT). One
    /// that owes both, or the same several times, is listed once: the notification says "look", not
    /// how much, and it is sent after the last index it is about.
    pub(super) fn owe(&mut self, id: ConnectionId, what: Readiness, notify: Notify) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let owed = &mut connection.notify;
        if what.contains(Readiness::IN) {
            owed.sent = owed.sent.max(notify);
        }
        if what.contains(Readiness::OUT) {
            owed.received = owed.received.max(notify);
        }
        if !core::mem::replace(&mut owed.is_queued, true) {
            self.notifications.push(id);
        }
    }

    /// Has the peer look, as a client asks that has found its word armed.
    pub(crate) fn kick(&mut self, id: ConnectionId, kicks: Kicks) {
        let mut what = Readiness::empty();
        what.set(Readiness::IN, kicks.contains(Kicks::BYTES));
        what.set(Readiness::OUT, kicks.contains(Kicks::ROOM));
        if !kicks.is_empty() {
            self.owe(id, what, Notify::Always);
        }
    }

    /// Whether a notification for `node` waits for room.
    pub(crate) fn has_notifications_for(&self, node: NodeId) -> bool {
        let connections = self.notifications.iter();
        let mut connections = connections.filter_map(|id| self.table.get(*id));
        connections.any(|c| c.phase == Phase::Connected && c.node() == node)
    }

    /// Sends the notifications owed. Those for which `send`, to another node, finds no room stay
    /// owed.
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

    /// Tells peers that wait of the room there is, however little.
    pub(crate) fn send_credit_updates(&mut self, mem: &mut dyn Memory) {
        let mut credit_updates = core::mem::take(&mut self.credit_updates);
        for id in credit_updates.drain(..) {
            let Some(connection) = self.table.get_mut(id) else {
                continue;
            };
            let owed = &mut connection.notify;
            owed.is_credit_update_due = false;
            let is_waiting = owed.received == Notify::IfArmed;
            let rings = connection.rings.as_mut().filter(|_| is_waiting);
            if rings.is_some_and(|rings| rings.wants_room(mem)) {
                self.owe(id, Readiness::OUT, Notify::Always);
            } else if is_waiting {
                owed.received = Notify::No;
            }
        }
        self.credit_updates = credit_updates;
    }
}

impl Connection {
    /// Sends what it owes; false when there was no room for all of it.
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

    /// Whether its peer, which waits for room, is told of it later: when half of the ring is free,
    /// or soon, as whoever takes from the ring may stop in the middle. True once.
    fn must_update_credit(&mut self) -> bool {
        let owed = &mut self.notify;
        if owed.received != Notify::IfArmed || self.phase != Phase::Connected {
            owed.received = Notify::No;
            return false;
        }
        !core::mem::replace(&mut owed.is_credit_update_due, true)
    }

    /// Decides for everything that has changed whether the peer is told.
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

    /// The messages for what it owes its peer; none unless it is connected.
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
