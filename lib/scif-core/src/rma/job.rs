//! Jobs: what is queued on a channel, and the next step of each.

use scif_abi::Error;

use crate::base::config::Owner;
use crate::base::ids::Ticket;
use crate::base::memory::Place;
use crate::flow::rma::Direction;
use crate::rma::copy_engine::{CopyEngine, CpuEngine, Descriptor};
use crate::rma::span::Span;
use crate::window::Windows;

/// A transfer between two spans.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) from: Span,
    pub(crate) to: Span,
    /// Bytes not submitted yet.
    pub(crate) left: u64,
    /// The last byte has to arrive last.
    pub(crate) is_ordered: bool,
    /// The CPU shall copy, whatever engine there is.
    pub(crate) is_by_cpu: bool,
}

/// A transfer whose local side is the caller's buffer; the caller carries it out.
#[derive(Debug)]
pub(crate) struct Virtual {
    pub(crate) direction: Direction,
    pub(crate) remote: Span,
    /// Bytes moved.
    pub(crate) done: u64,
    pub(crate) length: u64,
    pub(crate) is_ordered: bool,
}

/// What a job does.
#[derive(Debug)]
pub(crate) enum Work {
    Copy(Copy),
    Virtual(Virtual),
    /// Store a value once everything before has been done.
    Store {
        to: Span,
        value: u64,
    },
}

/// A job of a channel.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    /// The call that ends with it.
    pub(crate) call: Option<Ticket>,
    /// Cookie of its last descriptor that completes later; 0: none.
    pub(crate) cookie: u64,
    /// Why it failed.
    pub(crate) error: Option<Error>,
    /// There is nothing left to submit.
    pub(crate) is_over: bool,
    /// It was asked for by the peer.
    pub(crate) is_for_peer: bool,
    /// Who it counts for, if it is not for the peer.
    pub(crate) owner: Option<Owner>,
}

/// What to do next for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: it is over.
    Over,
    /// Nothing: its caller has to carry it out.
    Wait,
    /// Submit this, to the CPU if so said.
    Submit(Descriptor, bool),
    /// Store the value four bytes at a time, as its pages are not neighbours, once everything
    /// before has completed.
    StoreParts([Place; 2], u64),
    /// A window has gone with its node.
    Fail,
}

impl Job {
    pub(crate) fn new(work: Work) -> Job {
        Job {
            work,
            call: None,
            cookie: 0,
            error: None,
            is_over: false,
            is_for_peer: false,
            owner: None,
        }
    }

    /// The next step; a copy of as many bytes as `copier`, or the CPU in its place, takes at once.
    pub(crate) fn step(&self, windows: &Windows, copier: &dyn CopyEngine) -> Step {
        if self.is_over {
            return Step::Over;
        }
        match &self.work {
            Work::Virtual(_) => Step::Wait,
            Work::Copy(copy) => copy.step(windows, copier),
            Work::Store { to, value } => store_step(to, *value, windows),
        }
    }

    /// Notes that the step was taken.
    pub(crate) fn advance(&mut self, windows: &Windows, descriptor: &Descriptor) {
        match (&mut self.work, descriptor) {
            (Work::Copy(copy), Descriptor::Copy { bytes, .. }) => {
                let bytes = u64::from(*bytes);
                copy.from.advance(windows, bytes);
                copy.to.advance(windows, bytes);
                copy.left = copy.left.saturating_sub(bytes);
                self.is_over = copy.left == 0;
            }
            _ => self.is_over = true,
        }
    }

    /// Ends it early.
    pub(crate) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
        self.is_over = true;
    }
}

impl Copy {
    fn step(&self, windows: &Windows, copier: &dyn CopyEngine) -> Step {
        let runs = self.from.run(windows).zip(self.to.run(windows));
        let Some(((from, readable), (to, writable))) = runs else {
            return Step::Fail;
        };
        let engine: &dyn CopyEngine = if self.is_by_cpu { &CpuEngine } else { copier };
        let max = u64::from(engine.max_bytes(from, to));
        let mut bytes = self.left.min(readable).min(writable).min(max);
        let is_last = self.left == 1;
        if self.is_ordered && !is_last {
            // The last byte gets a descriptor of its own, behind a fence.
            bytes = bytes.min(self.left - 1);
        }
        let descriptor = Descriptor::Copy {
            from,
            to,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            fence: self.is_ordered && is_last,
        };
        Step::Submit(descriptor, self.is_by_cpu)
    }
}

fn store_step(to: &Span, value: u64, windows: &Windows) -> Step {
    let Some((place, rest)) = to.run(windows) else {
        return Step::Fail;
    };
    if rest >= 8 {
        return Step::Submit(Descriptor::Store { to: place, value }, false);
    }
    // Offsets are multiples of 4, so the value is half on this page and half on the next.
    match to.run_after(windows, rest) {
        Some((next, _)) => Step::StoreParts([place, next], value),
        None => Step::Fail,
    }
}

impl Work {
    /// What it reads and writes.
    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        let (first, second) = match self {
            Work::Copy(copy) => (&copy.from, Some(&copy.to)),
            Work::Virtual(work) => (&work.remote, None),
            Work::Store { to, .. } => (to, None),
        };
        core::iter::once(first).chain(second)
    }

    /// The same, given away.
    pub(crate) fn into_spans(self) -> impl Iterator<Item = Span> {
        let (first, second) = match self {
            Work::Copy(copy) => (copy.from, Some(copy.to)),
            Work::Virtual(work) => (work.remote, None),
            Work::Store { to, .. } => (to, None),
        };
        core::iter::once(first).chain(second)
    }
}
