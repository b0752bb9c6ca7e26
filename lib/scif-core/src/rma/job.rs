//! Jobs: transfers and stores that are queued on a channel, and the next step of each.

use scif_abi::Error;
use scif_abi::flags::{Protection, RmaFlags};
use scif_abi::limits::TRANSFER_PIECES;

use crate::base::ids::Ticket;
use crate::base::memory::{Memory, Place};
use crate::base::owner::Owner;
use crate::rma::copy_engine::{CopyEngine, CpuEngine, Descriptor};
use crate::rma::span::Span;
use crate::window::Windows;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer's window to this end (`readfrom`).
    Read,
    /// From this end to the peer's window (`writeto`).
    Write,
}

impl Direction {
    /// The rights that the local and the remote window must have.
    pub(crate) fn needs(self) -> (Protection, Protection) {
        match self {
            Direction::Read => (Protection::WRITE, Protection::READ),
            Direction::Write => (Protection::READ, Protection::WRITE),
        }
    }
}

/// A transfer between two spans.
#[derive(Debug)]
pub(super) struct Copy {
    direction: Direction,
    pub(super) from: Span,
    pub(super) to: Span,
    /// How many bytes are not submitted yet.
    pub(super) left: u64,
    /// Whether the last byte must arrive last.
    pub(super) is_ordered: bool,
    /// Whether the CPU must copy, whatever copy engine there is.
    pub(super) is_by_cpu: bool,
}

/// A transfer whose local side is the caller's buffer; the caller carries it out.
#[derive(Debug)]
pub(super) struct Virtual {
    pub(super) direction: Direction,
    pub(super) remote: Span,
    /// How many bytes were moved.
    pub(super) done: u64,
    pub(super) length: u64,
    pub(super) is_ordered: bool,
}

/// The work of a job.
#[derive(Debug)]
pub(super) enum Work {
    Copy(Copy),
    Virtual(Virtual),
    /// Store a value once everything before it is done.
    Store {
        to: Span,
        value: u64,
    },
}

/// A job of a channel.
#[derive(Debug)]
pub(crate) struct Job {
    pub(super) work: Work,
    /// The call that ends with the job.
    pub(super) call: Option<Ticket>,
    /// The cookie of its last descriptor that completes later; 0: none.
    pub(super) cookie: u64,
    /// Why the job failed.
    pub(super) error: Option<Error>,
    /// Whether there is nothing left to submit.
    pub(super) is_over: bool,
    /// Whether the peer asked for the job.
    pub(super) is_for_peer: bool,
    /// The owner to whom the job is charged, if it is not for the peer.
    pub(super) owner: Option<Owner>,
}

/// The next step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// None: the job is over.
    Over,
    /// None: the caller has to carry the job out.
    Wait,
    /// Submit this descriptor: to the CPU if true, else to the copy engine.
    Submit(Descriptor, bool),
    /// Store the value four bytes at a time, because its pages are not neighbours, once everything
    /// before it has completed.
    StoreParts([Place; 2], u64),
    /// Fail: a window has gone with its node.
    Fail,
}

impl Work {
    /// Splits a number of copied bytes into those written into the peer's memory and those read
    /// from it.
    pub(super) fn as_traffic(&self, bytes: u64) -> [u64; 2] {
        let direction = match self {
            Work::Copy(copy) => copy.direction,
            Work::Virtual(work) => work.direction,
            Work::Store { .. } => return [0; 2],
        };
        match direction {
            Direction::Write => [bytes, 0],
            Direction::Read => [0, bytes],
        }
    }
}

impl Job {
    /// A transfer between registered or pinned memory here and a window of the peer.
    pub(crate) fn copy(
        direction: Direction,
        local: Span,
        remote: Span,
        length: u64,
        flags: RmaFlags,
    ) -> Job {
        let (from, to) = match direction {
            Direction::Read => (remote, local),
            Direction::Write => (local, remote),
        };
        Job::new(Work::Copy(Copy {
            direction,
            from,
            to,
            left: length,
            is_ordered: flags.contains(RmaFlags::ORDERED),
            is_by_cpu: flags.contains(RmaFlags::USECPU),
        }))
    }

    /// A transfer that the caller carries out.
    pub(crate) fn virtual_copy(
        direction: Direction,
        remote: Span,
        length: u64,
        flags: RmaFlags,
    ) -> Job {
        Job::new(Work::Virtual(Virtual {
            direction,
            remote,
            done: 0,
            length,
            is_ordered: flags.contains(RmaFlags::ORDERED),
        }))
    }

    /// A store of `value` once everything before it is done.
    pub(crate) fn store(to: Span, value: u64) -> Job {
        Job::new(Work::Store { to, value })
    }

    /// The same job, as one that the peer asked for.
    pub(crate) fn for_peer(mut self) -> Job {
        self.is_for_peer = true;
        self
    }

    /// The same job, as one that ends a call.
    pub(crate) fn ending(mut self, call: Ticket) -> Job {
        self.call = Some(call);
        self
    }

    fn new(work: Work) -> Job {
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

    /// The windows that the job reads and writes.
    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.work.spans()
    }

    /// How many transfers the job counts as: one, and one more for each part of its lists.
    pub(crate) fn cost(&self) -> u64 {
        let kept: usize = self.spans().map(Span::kept).sum();
        1 + (kept / TRANSFER_PIECES) as u64
    }

    /// Whether the job is charged to an owner.
    pub(super) fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether the caller must carry the job out.
    pub(super) fn awaits_caller(&self) -> bool {
        !self.is_over && matches!(self.work, Work::Virtual(_))
    }

    /// The next step. A copy has as many bytes as `copier`, or the CPU in its place, takes at
    /// once.
    pub(super) fn step(&self, windows: &Windows, copier: &dyn CopyEngine) -> Step {
        if self.is_over {
            return Step::Over;
        }
        match &self.work {
            Work::Virtual(_) => Step::Wait,
            Work::Copy(copy) => copy.step(windows, copier),
            Work::Store { to, value } => store_step(to, *value, windows),
        }
    }

    /// Notes that a step has been submitted.
    pub(super) fn advance(&mut self, windows: &Windows, descriptor: &Descriptor) {
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

    /// Ends the job with an error.
    pub(super) fn fail(&mut self, error: Error) {
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
            // The last byte has a descriptor of its own, behind a fence.
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
    // Offsets are multiples of 4, so one half of the value is on this page and the other on the
    // next.
    match to.run_after(windows, rest) {
        Some((next, _)) => Step::StoreParts([place, next], value),
        None => Step::Fail,
    }
}

impl Work {
    /// The windows that the work reads and writes.
    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        let (first, second) = match self {
            Work::Copy(copy) => (&copy.from, Some(&copy.to)),
            Work::Virtual(work) => (&work.remote, None),
            Work::Store { to, .. } => (to, None),
        };
        core::iter::once(first).chain(second)
    }

    /// As `spans`, by value.
    pub(super) fn into_spans(self) -> impl Iterator<Item = Span> {
        let (first, second) = match self {
            Work::Copy(copy) => (copy.from, Some(copy.to)),
            Work::Virtual(work) => (work.remote, None),
            Work::Store { to, .. } => (to, None),
        };
        core::iter::once(first).chain(second)
    }
}

impl Virtual {
    /// Moves up to `budget` bytes.
    ///
    /// # Errors
    /// `EFAULT`: `data` is too short. `ENODEV`: the peer's memory is gone.
    pub(super) fn step(
        &mut self,
        windows: &Windows,
        mem: &mut dyn Memory,
        data: &mut [u8],
        budget: usize,
    ) -> Result<(), Error> {
        let mut budget = budget as u64;
        while budget > 0 && self.done < self.length {
            let (place, rest) = self.remote.run(windows).ok_or(Error::ConnectionReset)?;
            let left = self.length - self.done;
            let mut bytes = rest.min(left).min(budget);
            if self.is_ordered && left > 1 {
                bytes = bytes.min(left - 1);
            } else if self.is_ordered {
                mem.fence();
            }
            let range = self.done as usize..(self.done + bytes) as usize;
            let part = data.get_mut(range).ok_or(Error::BadAddress)?;
            let moved = match self.direction {
                Direction::Read => place.read(mem, part),
                Direction::Write => place.write(mem, part),
            };
            moved.map_err(|_| Error::NoDevice)?;
            self.remote.advance(windows, bytes);
            self.done += bytes;
            budget -= bytes;
        }
        Ok(())
    }
}
