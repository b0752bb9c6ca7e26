//! The pump: works on all channels. Processes take turns, and so do the channels of each.

use scif_abi::Error;
use scif_abi::trace::What;

use crate::base::context::Context;
use crate::base::ids::ChannelId;
use crate::base::memory::{BadAddress, Memory, Place};
use crate::call::Calls;
use crate::rma::Transfers;
use crate::rma::copy_engine::{CopyEngine, CpuEngine, SubmitError, Submitted};
use crate::rma::job::{Step, Work};
use crate::window::Windows;

/// How many bytes are copied for one channel before the next one gets its turn.
const SLICE_BYTES: u64 = 64 << 10;

/// The least cost of a descriptor, in bytes, so that many small descriptors are bounded, too.
const MIN_COST_BYTES: u64 = 512;

/// How a channel's turn ended.
enum SliceEnd {
    /// There is more to submit.
    More,
    /// There is nothing to submit.
    Idle,
    /// The copy engine accepts nothing more for now.
    Full,
}

/// The copy engine and the memory.
struct Machine<'a> {
    mem: &'a mut dyn Memory,
    copier: &'a mut dyn CopyEngine,
}

impl Transfers {
    /// Does about `budget` bytes of queued work. Processes take turns, and so do the connections
    /// of each.
    pub(crate) fn pump(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        windows: &mut Windows,
        calls: &mut Calls,
        copier: &mut dyn CopyEngine,
        budget: usize,
    ) {
        for channel in core::mem::take(&mut self.forgotten) {
            copier.forget(channel.number());
        }
        let machine = &mut Machine { mem, copier };
        self.collect(machine, cx, windows, calls);
        for id in core::mem::take(&mut self.full) {
            self.push_active(id);
        }
        let mut left = budget as u64;
        while left > 0
            && let Some(id) = self.active.pop()
        {
            match self.submit_slice(machine, cx, windows, calls, id, &mut left) {
                SliceEnd::More => self.push_active(id),
                SliceEnd::Full => self.full.push(id),
                SliceEnd::Idle => {
                    if let Some(channel) = self.channels.get_mut(id) {
                        channel.is_active = false;
                    }
                    self.drop_if_done(cx, id);
                }
            }
        }
    }

    /// Whether [`pump`](Self::pump) would find queued work.
    pub(crate) fn has_work(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether the copy engine has accepted descriptors that complete later.
    pub(crate) fn awaits_copies(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Asks the copy engine which descriptors have completed, and retires their jobs.
    fn collect(
        &mut self,
        machine: &mut Machine<'_>,
        cx: &mut Context,
        windows: &mut Windows,
        calls: &mut Calls,
    ) {
        let mut busy = core::mem::take(&mut self.busy);
        busy.retain(|id| {
            let Some(channel) = self.channels.get_mut(*id) else {
                return false;
            };
            let completed = machine.copier.completed(machine.mem, id.number());
            channel.completed = channel.completed.max(completed);
            self.retire(cx, windows, calls, *id);
            let stays = self.channels.get_mut(*id).is_some_and(|channel| {
                channel.is_busy = channel.last_cookie > channel.completed;
                channel.is_busy
            });
            if !stays {
                self.drop_if_done(cx, *id);
            }
            stays
        });
        self.busy.append(&mut busy);
    }

    /// Works on one channel until its share or the budget is used up.
    fn submit_slice(
        &mut self,
        Machine { mem, copier }: &mut Machine<'_>,
        cx: &mut Context,
        windows: &mut Windows,
        calls: &mut Calls,
        id: ChannelId,
        budget: &mut u64,
    ) -> SliceEnd {
        let mut share = SLICE_BYTES.min(*budget);
        while share > 0 {
            let Some(channel) = self.channels.get_mut(id) else {
                return SliceEnd::Idle;
            };
            let node = channel.node();
            let Some(job) = channel.jobs.get_mut(channel.submitted) else {
                return SliceEnd::Idle;
            };
            let mut cost = MIN_COST_BYTES;
            match job.step(windows, *copier) {
                Step::Wait => {
                    if let Some(call) = job.call {
                        calls.wake(cx, call);
                    }
                    return SliceEnd::Idle;
                }
                Step::Over => {
                    channel.submitted += 1;
                    self.retire(cx, windows, calls, id);
                }
                Step::Fail => job.fail(Error::ConnectionReset),
                Step::StoreParts(places, value) => {
                    if channel.submitted > 0 {
                        return SliceEnd::Full;
                    }
                    match store_parts(*mem, places, value) {
                        Ok(()) => job.is_over = true,
                        Err(_) => job.fail(Error::NoDevice),
                    }
                }
                Step::Submit(descriptor, by_cpu) => {
                    let mut cpu = CpuEngine;
                    let engine: &mut dyn CopyEngine = if by_cpu { &mut cpu } else { *copier };
                    match engine.submit(*mem, id.number(), &descriptor) {
                        Ok(Submitted::Done) => {}
                        Ok(Submitted::Later(cookie)) => {
                            job.cookie = cookie;
                            channel.last_cookie = cookie;
                            if !channel.is_busy {
                                channel.is_busy = true;
                                self.busy.push(id);
                            }
                        }
                        Err(SubmitError::Full) => return SliceEnd::Full,
                        Err(SubmitError::Failed) => {
                            cx.stats.failed_copies += 1;
                            job.fail(Error::NoDevice);
                            cx.trace(What::CopyFailed, node, 0);
                            continue;
                        }
                    }
                    job.advance(windows, &descriptor);
                    let is_cpu = engine.is_cpu(&descriptor);
                    let bytes = descriptor.count(&mut cx.stats, is_cpu);
                    let [written, read] = job.work.as_traffic(bytes);
                    cx.count_copied(node, written, read);
                    cost = cost.max(bytes);
                }
            }
            share = share.saturating_sub(cost);
            *budget = budget.saturating_sub(cost);
        }
        SliceEnd::More
    }

    /// Queues a channel, because it may have something to submit.
    pub(crate) fn activate(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(id)
            && !channel.is_active
        {
            channel.is_active = true;
            self.push_active(id);
        }
    }

    /// Queues a channel behind those of its process.
    fn push_active(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.get(id) {
            self.active.push(channel.process, id);
        }
    }
}

// Jobs that their callers carry out.
impl Transfers {
    /// Whether virtual job `number` is the first that is not submitted.
    pub(crate) fn is_current(&self, id: ChannelId, number: u64) -> bool {
        let channel = self.channels.get(id);
        channel.is_some_and(|channel| channel.is_current(number))
    }

    /// Moves up to `budget` bytes of a current virtual job between `data`, the whole of the
    /// caller's buffer, and the peer's window. Returns whether the job is over.
    pub(crate) fn step_virtual(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        windows: &Windows,
        (id, number): (ChannelId, u64),
        data: &mut [u8],
        budget: usize,
    ) -> bool {
        let Some(channel) = self.channels.get_mut(id) else {
            return false;
        };
        let node = channel.node();
        let Some(job) = channel.job_mut(number) else {
            return false;
        };
        let Work::Virtual(work) = &mut job.work else {
            return false;
        };
        let before = work.done;
        let moved = work.step(windows, mem, data, budget);
        let bytes = work.done - before;
        cx.stats.rma_bytes_cpu += bytes;
        let (is_over, [written, read]) = (work.done >= work.length, job.work.as_traffic(bytes));
        cx.count_copied(node, written, read);
        match moved {
            Ok(()) if !is_over => return false,
            Ok(()) => job.is_over = true,
            Err(error) => job.fail(error),
        }
        channel.submitted += 1;
        true
    }

    /// Ends virtual job `number`, which its caller has given up.
    pub(crate) fn end_virtual(&mut self, id: ChannelId, number: u64) {
        let job = self.channels.get_mut(id).and_then(|c| c.job_mut(number));
        if let Some(job) = job {
            job.call = None;
            job.is_over = true;
            self.activate(id);
        }
    }

    /// Takes the error of a virtual job whose call ends before the job.
    pub(crate) fn take_error(&mut self, id: ChannelId, number: u64) -> Option<Error> {
        let job = self.channels.get_mut(id)?.job_mut(number)?;
        job.call = None;
        job.error
    }
}

/// Stores a value that is half on one page and half on another.
fn store_parts(mem: &mut dyn Memory, places: [Place; 2], value: u64) -> Result<(), BadAddress> {
    mem.fence();
    let bytes = value.to_le_bytes();
    for (place, half) in places.into_iter().zip(bytes.chunks_exact(4)) {
        place.write(mem, half)?;
    }
    Ok(())
}
