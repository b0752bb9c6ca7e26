//! What an engine tells of its links, connections and windows, for people who want to know what
//! happened. The layout and the words are in `scif_abi::trace`.

use alloc::boxed::Box;

use scif_abi::trace::{Entry, What};
use scif_abi::{NodeId, Port};

/// Keeps the latest events. Called seldom: never for the bytes of connections.
pub trait Tracer {
    /// Takes an event; only its number is missing.
    fn record(&mut self, entry: Entry);
}

/// Where events go, if anywhere.
#[derive(Default)]
pub(crate) struct Trace(Option<Box<dyn Tracer>>);

impl Trace {
    /// From now on events go there.
    pub(crate) fn set(&mut self, tracer: Box<dyn Tracer>) {
        self.0 = Some(tracer);
    }

    /// Records what happened at `now` (ns), if anybody keeps it.
    pub(crate) fn record(
        &mut self,
        now: u64,
        what: What,
        node: NodeId,
        ports: [Port; 2],
        value: u64,
    ) {
        if let Some(tracer) = &mut self.0 {
            let mut entry = Entry::new(what, node, ports, value);
            entry.time = now.into();
            tracer.record(entry);
        }
    }
}
