//! The trace of events of links, connections and windows. Layout and names are in
//! `scif_abi::trace`.

use alloc::boxed::Box;

use scif_abi::trace::{TraceEntry, What};
use scif_abi::{NodeId, Port};

/// Keeps the latest events. It is called rarely: never for the bytes of connections.
pub trait Tracer {
    /// Takes an event, complete but for its number.
    fn record(&mut self, entry: TraceEntry);
}

/// The tracer, if there is one.
#[derive(Default)]
pub(crate) struct Trace(Option<Box<dyn Tracer>>);

impl Trace {
    /// Sends events to `tracer` from now on.
    pub(crate) fn set(&mut self, tracer: Box<dyn Tracer>) {
        self.0 = Some(tracer);
    }

    /// Records what happened at `now` (ns), if there is a tracer.
    pub(crate) fn record(
        &mut self,
        now: u64,
        what: What,
        node: NodeId,
        ports: [Port; 2],
        value: u64,
    ) {
        if let Some(tracer) = &mut self.0 {
            let mut entry = TraceEntry::new(what, node, ports, value);
            entry.time = now.into();
            tracer.record(entry);
        }
    }
}
