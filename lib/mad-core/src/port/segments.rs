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
        let asked = match header.is_response() {
            true => self.waiting_for(agent, packet),
            false => None,
        };
        if header.is_response() && asked.is_none() && !self.incoming.knows(&transfer) {
            self.counters.dropped += 1;
            return;
        }
        let step = self.incoming.data(transfer, &packet.mad, now);
        // The answer is arriving: the request ends when the answer is given up.
        if let Some(key) = asked
            && step.has_moved
            && let Some(sending) = self.sends.get(&key)
        {
            let until = now.saturating_add(MESSAGE_TIMEOUT_NS);
            let deadline = sending.deadline.max(until);
            self.set_deadline(key, deadline);
        }
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
            // A receiver that takes nothing more must not keep the send for ever.
            Acknowledged::Opened => self.pump(key),
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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::agents::{Owner, Registration};
    use crate::mad::{Mad, class, method};
    use crate::packet::{Destination, Packet};
    use crate::port::{Port, Request};
    use crate::rmpp::{MESSAGE_TIMEOUT_NS, Outgoing, kind};

    const MS: u64 = 1_000_000;

    /// A port whose agent has sent a Get of 56 bytes of headers and this many bytes of data to
    /// port 2, and the first datagram of it.
    fn asking(data: usize) -> (Port, Packet) {
        let mut port = Port::new(1);
        let registration = Registration {
            qpn: 1,
            class: class::SUBNET_ADMINISTRATION,
            class_version: 2,
            rmpp_version: 1,
            ..Registration::default()
        };
        let agent = port.register(Owner::User(1), registration).unwrap();
        let mut message = Vec::from([1, 3, 2, method::GET_TABLE]);
        message.resize(56 + data, 0);
        message[26] = u8::from(data > 0);
        let request = Request {
            agent,
            to: Destination {
                lid: 2,
                qpn: 1,
                ..Destination::default()
            },
            responder: 2,
            message,
            timeout_ms: 100,
            retries: 0,
        };
        port.send(request, 0).unwrap();
        let sent = port.next_packet().unwrap();
        (port, sent)
    }

    /// A datagram from the other end.
    fn back(sent: &Packet, mad: Mad) -> Packet {
        Packet {
            source: 2,
            source_qpn: 1,
            to: Destination {
                lid: 1,
                qpn: 1,
                ..Destination::default()
            },
            mad: Mad {
                header: crate::mad::Header {
                    tid: sent.mad.header.tid,
                    ..mad.header
                },
                ..mad
            },
        }
    }

    #[test]
    fn only_a_segment_that_is_taken_gives_the_answer_more_time() {
        let (mut port, sent) = asking(0);
        let mut answer = Vec::from([1, 3, 2, method::GET_TABLE | method::RESPONSE]);
        answer.resize(56 + 500, 0);
        let mut outgoing = Outgoing::new(answer);
        outgoing.acknowledge(0, u32::MAX);
        let segments: Vec<Mad> = core::iter::from_fn(|| outgoing.next_segment()).collect();
        port.receive(&back(&sent, segments[1]), 50 * MS);
        assert_eq!(port.deadline(), Some(100 * MS), "the middle of nothing");
        port.receive(&back(&sent, segments[0]), 60 * MS);
        let until = 60 * MS + MESSAGE_TIMEOUT_NS;
        assert_eq!(port.deadline(), Some(until));
        port.receive(&back(&sent, segments[0]), 70 * MS);
        assert_eq!(port.deadline(), Some(until), "a repetition");
    }

    #[test]
    fn a_receiver_that_only_opens_its_window_does_not_keep_a_send() {
        let (mut port, sent) = asking(200 * 100);
        let ack = |port: &mut Port, segment: u32, window: u32, at: u64| {
            let mut mad = sent.mad;
            mad.header.method |= method::RESPONSE;
            let mut rmpp = mad.rmpp();
            (rmpp.kind, rmpp.segment, rmpp.length) = (kind::ACK, segment.into(), window.into());
            mad.set_rmpp(rmpp);
            port.receive(&back(&sent, mad), at);
        };
        ack(&mut port, 1, 2, 50 * MS);
        assert_eq!(port.deadline(), Some(150 * MS));
        ack(&mut port, 1, 3, 140 * MS);
        assert_eq!(port.deadline(), Some(150 * MS));
        // What the window has room for is sent all the same.
        assert_eq!(core::iter::from_fn(|| port.next_packet()).count(), 2);
        port.progress(150 * MS);
        assert_eq!(port.sends(), 0);
    }
}
