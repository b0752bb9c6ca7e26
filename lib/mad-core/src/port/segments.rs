//! Segments that arrive for agents whose messages the port reassembles.

use super::{Body, Port, wait};
use crate::agents::AgentId;
use crate::mad::{GSI_QKEY, Mad, class};
use crate::packet::{Destination, Packet};
use crate::rmpp::{self, Acknowledged, MESSAGE_TIMEOUT_NS, Transfer, kind, reason};

impl Port {
    pub(super) fn receive_segment(&mut self, agent: AgentId, packet: &Packet, now: u64) {
        let header = packet.mad.rmpp();
        if header.version != rmpp::VERSION {
            self.refuse(agent, packet, reason::BAD_VERSION);
            return;
        }
        let aborts = rmpp::reason::TOTAL_TIME..=rmpp::reason::LAST;
        match header.kind {
            kind::DATA => self.receive_data(agent, packet, now),
            kind::ACK if header.status != 0 => self.refuse(agent, packet, reason::BAD_STATUS),
            kind::ACK => self.receive_ack(agent, packet, now),
            kind::STOP if header.status == reason::NO_RESOURCES => self.give_up(agent, packet),
            kind::ABORT if aborts.contains(&header.status) => self.give_up(agent, packet),
            kind::STOP | kind::ABORT => self.refuse(agent, packet, reason::BAD_STATUS),
            _ => self.refuse(agent, packet, reason::BAD_KIND),
        }
    }

    fn receive_data(&mut self, agent: AgentId, packet: &Packet, now: u64) {
        let header = &packet.mad.header;
        let transfer = Transfer {
            agent,
            lid: packet.source,
            qpn: packet.source_qpn,
            tid: header.tid.get(),
            class: [header.class, header.class_version],
            method: header.method,
        };
        if header.is_response() {
            match self.waiting_for(agent, packet) {
                // The answer has begun to arrive: the request ends when the answer is given up.
                Some(key) => {
                    let until = now.saturating_add(MESSAGE_TIMEOUT_NS);
                    let deadline = self.sends[&key].deadline.max(until);
                    self.set_deadline(key, deadline);
                }
                None if self.incoming.knows(&transfer) => {}
                None => {
                    self.counters.dropped += 1;
                    return;
                }
            }
        }
        let step = self.incoming.data(transfer, &packet.mad, now);
        if let Some(mad) = step.answer {
            self.post(agent, packet.back(), mad);
        }
        for (transfer, mad) in step.given_up {
            self.tell_sender(&transfer, mad);
        }
        if let Some(message) = step.message {
            let first = Packet {
                mad: Mad::padded(&message),
                ..*packet
            };
            self.hand_over(agent, &first, message, false);
        }
    }

    /// Tells the sender of a long message that it was given up.
    pub(super) fn tell_sender(&mut self, transfer: &Transfer, mad: Mad) {
        let to = Destination {
            lid: transfer.lid,
            qpn: transfer.qpn,
            qkey: GSI_QKEY,
            ..Destination::default()
        };
        self.post(transfer.agent, to, mad);
    }

    fn receive_ack(&mut self, agent: AgentId, packet: &Packet, now: u64) {
        let Some(key) = self.sending_of(agent, packet) else {
            return;
        };
        let Some(sending) = self.sends.get_mut(&key) else {
            return;
        };
        let Body::Long(outgoing) = &mut sending.body else {
            return;
        };
        let header = packet.mad.rmpp();
        match outgoing.acknowledge(header.segment.get(), header.length.get()) {
            Acknowledged::Wrong(reason) => self.refuse(agent, packet, reason),
            Acknowledged::Nothing => {}
            Acknowledged::Progress => {
                sending.retries_left = sending.request.retries;
                let wait = wait(&sending.request, true);
                self.set_deadline(key, now.saturating_add(wait));
                self.pump(key);
            }
            Acknowledged::All if sending.request.timeout_ms == 0 => {
                self.end(key);
            }
            Acknowledged::All => {
                let wait = wait(&sending.request, false);
                self.set_deadline(key, now.saturating_add(wait));
            }
        }
    }

    /// Refuses a wrong segment: its message ends at both ends.
    fn refuse(&mut self, agent: AgentId, packet: &Packet, reason: u8) {
        self.give_up(agent, packet);
        let header_bytes = class::header_bytes(packet.mad.header.class);
        let mad = rmpp::abort(&packet.mad, header_bytes, reason);
        self.post(agent, packet.back(), mad);
    }

    /// Ends the long message that a datagram refers to. Its sender is not told: the answer does
    /// not come.
    fn give_up(&mut self, agent: AgentId, packet: &Packet) {
        if let Some(key) = self.sending_of(agent, packet)
            && let Some(sending) = self.sends.get(&key)
            && let Body::Long(outgoing) = &sending.body
            && !outgoing.is_complete()
        {
            self.end(key);
        }
    }
}
