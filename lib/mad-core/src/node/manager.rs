//! The agents of a node that manage the subnet: subnet administration, and the receiver of traps.

use alloc::vec::Vec;

use super::Node;
use crate::agents::{AgentId, Owner, Registration};
use crate::attributes::attribute;
use crate::mad::{Mad, class, method};
use crate::packet::{Destination, Packet};
use crate::port::{Delivery, Happened, Port, Request};
use crate::sa::subscribers::Notice;
use crate::sa::{self, Administration};

/// Milliseconds until a report to a subscriber is sent again, and how often that is done.
const REPORT_TIMEOUT_MS: u32 = 1000;
const REPORT_RETRIES: u32 = 3;
/// How often segments of an answer of subnet administration are sent again.
const ANSWER_RETRIES: u32 = 5;

/// The built-in agents, except those that answer at once.
#[derive(Debug)]
pub struct Manager {
    /// The database of subnet administration.
    pub administration: Administration,
    /// The agent that answers requests and reports to subscribers.
    requests: AgentId,
    /// The agent that gets traps.
    traps: AgentId,
    last_report: u32,
}

impl Manager {
    /// Registers the agents of the manager.
    pub fn new(port: &mut Port) -> Option<Manager> {
        // GetTraceTable and GetMulti are answered with a refusal.
        const METHODS: [u8; 6] = [
            method::GET,
            method::SET,
            method::GET_TABLE,
            method::DELETE,
            0x13,
            0x14,
        ];
        let requests = Registration {
            qpn: 1,
            class: class::SUBNET_ADMINISTRATION,
            class_version: sa::CLASS_VERSION,
            methods: METHODS.iter().fold(0, |mask, method| mask | 1 << method),
            rmpp_version: 1,
            ..Registration::default()
        };
        let traps = Registration {
            qpn: 0,
            class: class::SUBNET_LID,
            class_version: 1,
            methods: 1 << method::TRAP,
            ..Registration::default()
        };
        Some(Manager {
            administration: Administration::default(),
            requests: port.register(Owner::BuiltIn, requests).ok()?,
            traps: port.register(Owner::BuiltIn, traps).ok()?,
            last_report: 0,
        })
    }
}

impl Node {
    /// Handles an event for the manager.
    pub(super) fn manage(&mut self, delivery: Delivery, now: u64) {
        let capabilities = self.capabilities();
        let (
            Some(manager),
            Happened::Received {
                packet, message, ..
            },
        ) = (&mut self.manager, delivery.what)
        else {
            return;
        };
        // A subscriber's answer ends the report, and needs nothing more.
        if packet.mad.header.is_response() {
            return;
        }
        if delivery.agent == manager.traps {
            self.take_trap(&packet, now);
            return;
        }
        let administration = &mut manager.administration;
        let answer = administration.answer(&self.fabric, capabilities, &packet, &message);
        let agent = manager.requests;
        if let Some(message) = answer {
            self.send_own(agent, packet.back(), message, 0, ANSWER_RETRIES, now);
        }
    }

    /// Handles a trap: tells its sender that it has arrived, and the subscribers what it reports.
    fn take_trap(&mut self, packet: &Packet, now: u64) {
        let Some(agent) = self.manager.as_ref().map(|manager| manager.traps) else {
            return;
        };
        let mut smp = packet.mad.smp();
        smp.header.method = method::TRAP_REPRESS;
        let message = Mad::from_smp(smp).bytes().to_vec();
        self.send_own(agent, packet.back(), message, 0, 0, now);
        if packet.mad.header.attribute.get() == attribute::NOTICE {
            let notice = Notice::of_trap(packet.source, &packet.mad.smp().data);
            self.report(&notice, now);
        }
    }

    /// Reports a notice to its subscribers.
    pub(super) fn report(&mut self, notice: &Notice, now: u64) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        let agent = manager.requests;
        for to in manager.administration.subscribers.of(notice) {
            let Some(manager) = &mut self.manager else {
                return;
            };
            manager.last_report = manager.last_report.wrapping_add(1);
            let number = manager.last_report;
            let mut message = notice.report();
            message[12..16].copy_from_slice(&number.to_be_bytes());
            self.send_own(agent, to, message, REPORT_TIMEOUT_MS, REPORT_RETRIES, now);
        }
    }

    fn send_own(
        &mut self,
        agent: AgentId,
        to: Destination,
        message: Vec<u8>,
        timeout_ms: u32,
        retries: u32,
        now: u64,
    ) {
        let request = Request {
            agent,
            to,
            responder: to.lid,
            message,
            timeout_ms,
            retries,
        };
        // If the manager has too much to do, it does not answer; the requester asks again.
        let _ = self.port.send(request, now);
    }
}
