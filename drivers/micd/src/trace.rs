//! Records the engine's events in a trace that the log daemon keeps: it can be read while the
//! driver runs and after its end.

mod ring;

use alloc::boxed::Box;

use ring::Ring;
use scif_abi::trace::{TraceEntry, What};
use scif_core::{Engine, Tracer};

/// Name of the trace.
pub const NAME: &str = "micd";

struct Recorder(Ring);

impl Tracer for Recorder {
    fn record(&mut self, entry: TraceEntry) {
        self.0.record(entry);
    }
}

/// Has the engine's events recorded. If the log daemon has no place for them, they are not.
pub fn begin(engine: &mut Engine, process: u32) {
    match Ring::create(NAME, engine.node()) {
        Ok(ring) => {
            engine.set_tracer(Box::new(Recorder(ring)));
            engine.trace(What::Started, engine.node(), process.into());
        }
        Err(error) => log::warn!("no trace is kept, the log daemon has no place for it: {error}"),
    }
}
