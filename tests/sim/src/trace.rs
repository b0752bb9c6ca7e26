//! The latest events of a world, printed when a failing run is repeated. The events are passed as
//! closures, which are called only then.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use scif_abi::message::{MESSAGE_BYTES, Message};
use zerocopy::FromBytes;

/// Number of events that are kept.
const KEPT: usize = 120;

#[derive(Default)]
struct Lines {
    is_on: bool,
    step: u64,
    lines: VecDeque<String>,
}

/// The last events of a run. Clones share them.
#[derive(Clone, Default)]
pub struct Trace(Rc<RefCell<Lines>>);

impl Trace {
    /// Makes a trace that keeps nothing.
    pub fn off() -> Trace {
        Trace::default()
    }

    /// Makes a trace that keeps the last events.
    pub fn on() -> Trace {
        let trace = Trace::default();
        trace.0.borrow_mut().is_on = true;
        trace
    }

    /// Begins a step.
    pub fn begin(&self, step: u64) {
        self.0.borrow_mut().step = step;
    }

    /// Returns the current step.
    pub fn step(&self) -> u64 {
        self.0.borrow().step
    }

    /// Records an event, if the trace is on.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if !self.0.borrow().is_on {
            return;
        }
        let line = line();
        let mut lines = self.0.borrow_mut();
        if lines.lines.len() == KEPT {
            lines.lines.pop_front();
        }
        let line = format!("step {:>6}  {line}", lines.step);
        lines.lines.push_back(line);
    }

    /// Records bytes that are stored into another node's memory, if they are one whole message.
    pub fn note_store(&self, from: usize, to: usize, bytes: &[u8]) {
        if bytes.len() != MESSAGE_BYTES {
            return;
        }
        self.note(|| match Message::read_from_bytes(bytes) {
            Ok(message) => {
                let body = message.body();
                let (source, destination) = (message.source.port(), message.destination.port());
                match body {
                    Ok(body) => format!("node {from}:{source} -> {to}:{destination} {body:?}"),
                    Err(error) => format!("node {from} -> {to} {error}"),
                }
            }
            Err(_) => String::new(),
        });
    }

    /// Takes the events that are kept.
    fn take(&self) -> Vec<String> {
        self.0.borrow_mut().lines.drain(..).collect()
    }
}

/// A broken rule, and what is needed to repeat the run.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind of the world.
    pub world: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// The step in which the rule was broken.
    pub step: u64,
    /// The rule.
    pub what: String,
    /// The last events, oldest first.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        let Failure {
            world,
            seed,
            step,
            what,
            ..
        } = self;
        write!(f, "{world}, seed {seed}, step {step}: {what}")
    }
}

/// Plays a run. If it fails, plays it once more with a trace. A panic is a failure too.
///
/// # Errors The first rule that was broken.
pub fn play<T>(
    world: &'static str,
    seed: u64,
    run: impl Fn(&Trace) -> Result<T, String>,
) -> Result<T, Failure> {
    let attempt = |trace: &Trace| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(trace)));
        outcome.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(format!("panic: {}", text.unwrap_or_default()))
        })
    };
    let first = match attempt(&Trace::off()) {
        Ok(value) => return Ok(value),
        Err(what) => what,
    };
    let trace = Trace::on();
    let what = match attempt(&trace) {
        Err(what) => what,
        Ok(_) => format!("{first} (and not when it was repeated)"),
    };
    Err(Failure {
        world,
        seed,
        step: trace.step(),
        what,
        trace: trace.take(),
    })
}

#[cfg(test)]
mod tests {
    use super::{KEPT, play};

    #[test]
    fn a_failure_has_the_last_events() {
        let failure = play("test", 7, |trace| -> Result<(), String> {
            for step in 0..1000 {
                trace.begin(step);
                trace.note(|| format!("event {step}"));
            }
            panic!("this is {}", "wrong")
        });
        let failure = failure.unwrap_err();
        assert_eq!((failure.seed, failure.step), (7, 999));
        assert_eq!(failure.trace.len(), KEPT);
        assert_eq!(failure.trace.last().unwrap(), "step    999  event 999");
        let text = failure.to_string();
        assert!(text.ends_with("test, seed 7, step 999: panic: this is wrong"));
        assert!(play("test", 1, |_| Ok(5)).is_ok_and(|five| five == 5));
    }
}
