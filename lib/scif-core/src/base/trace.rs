//! What an engine tells of its links, connections and windows, for people who want to know what
//! happened. The layout and the words are in `scif_abi::trace`.

use alloc::boxed::Box;

use scif_abi::message::Message;
use scif_abi::trace::{Entry, What, is_traced};
use scif_abi::{NodeId, Port, PortId};

use crate::connection::Ends;
use crate::engine::Engine;

/// Keeps the latest events. Called seldom: never for the bytes of connections.
pub trait Tracer {
    /// Takes an event; only its number is missing.
    fn record(&mut self, entry: Entry);
}

/// Where events go, if anywhere.
#[derive(Default)]
pub(crate) struct Trace(Option<Box<dyn Tracer>>);

impl Engine {
    /// From now on events are recorded there.
    pub fn set_tracer(&mut self, tracer: Box<dyn Tracer>) {
        self.trace = Trace(Some(tracer));
    }

    /// Records what the engine's user knows of: `value` as [`What`] says.
    pub fn trace(&mut self, what: What, node: NodeId, value: u64) {
        self.record(what, node, [0, 0], value);
    }

    /// Records what happened between two ports.
    pub(crate) fn trace_ends(&mut self, what: What, ends: Ends, value: u64) {
        let ports = [ends.local, ends.peer.port()];
        self.record(what, ends.peer.node(), ports, value);
    }

    /// Records a message.
    pub(crate) fn trace_message(
        &mut self,
        what: What,
        node: NodeId,
        [own, other]: [PortId; 2],
        message: &Message,
    ) {
        let opcode = message.opcode.get();
        if is_traced(opcode) {
            self.record(what, node, [own.port(), other.port()], opcode.into());
        }
    }

    fn record(&mut self, what: What, node: NodeId, ports: [Port; 2], value: u64) {
        if let Some(tracer) = &mut self.trace.0 {
            let mut entry = Entry::new(what, node, ports, value);
            entry.time = self.now.into();
            tracer.record(entry);
        }
    }
}
