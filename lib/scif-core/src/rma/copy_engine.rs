//! Copy engines: they execute the descriptors of transfers and fences.
//!
//! The engine cuts each transfer into descriptors at the ends of physically contiguous chunks and
//! gives them to a [`CopyEngine`], which it borrows for one call of
//! [`Engine::pump`](crate::Engine::pump) at a time. Each connection has a channel, and the
//! descriptors of a channel take effect in order as far as fences ask for it. A DMA engine queues
//! descriptors and completes them later; the CPU engine executes them at once.

use crate::base::memory::{Memory, Place};
use crate::base::stats::Stats;

/// One step of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// Copy bytes that are contiguous on both sides.
    Copy {
        /// Source.
        from: Place,
        /// Destination.
        to: Place,
        /// Bytes, at least 1 and at most [`CopyEngine::max_bytes`].
        bytes: u32,
        /// Whether everything submitted before on this channel must be visible before any of these
        /// bytes.
        fence: bool,
    },
    /// Store eight bytes once everything submitted before on this channel is visible.
    Store {
        /// Destination, a multiple of 4.
        to: Place,
        /// The value to store, little endian.
        value: u64,
    },
}

impl Descriptor {
    /// Counts a descriptor that the copy engine accepted. Returns how many bytes it copies.
    pub(super) fn count(&self, stats: &mut Stats, by_cpu: bool) -> u64 {
        let Descriptor::Copy { bytes, .. } = self else {
            stats.signals += 1;
            return 0;
        };
        let bytes = u64::from(*bytes);
        stats.copies += 1;
        if by_cpu {
            stats.rma_bytes_cpu += bytes;
        } else {
            stats.rma_bytes_dma += bytes;
        }
        bytes
    }
}

/// The result of submitting a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The descriptor has been executed, and so has everything before it on its channel.
    Done,
    /// The descriptor is queued. [`CopyEngine::completed`] will reach this cookie. Cookies of one
    /// channel grow.
    Later(u64),
}

/// Why a descriptor was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The queue is full. Nothing was done; submit it again when something has completed.
    Full,
    /// The descriptor cannot be executed: an address is bad, or the link is gone.
    Failed,
}

/// Executes descriptors. [`CpuEngine`] and DMA engines implement it.
pub trait CopyEngine {
    /// Accepts one descriptor for `channel`.
    ///
    /// # Errors
    /// See [`SubmitError`].
    fn submit(
        &mut self,
        mem: &mut dyn Memory,
        channel: u64,
        descriptor: &Descriptor,
    ) -> Result<Submitted, SubmitError>;

    /// The cookie of the last descriptor of `channel` that has completed, as have all before it; 0
    /// before the first one. An engine that finds here that its hardware has failed may carry out
    /// what is left of `channel` in `mem` itself.
    fn completed(&mut self, mem: &mut dyn Memory, channel: u64) -> u64;

    /// Forgets `channel`, which will not be used any more.
    fn forget(&mut self, _channel: u64) {}

    /// Most bytes of one copy between these places. The limit of the CPU bounds how long other
    /// channels wait.
    fn max_bytes(&self, from: Place, to: Place) -> u32;

    /// Whether the CPU executes this descriptor, for the counters.
    fn is_cpu(&self, descriptor: &Descriptor) -> bool;
}

/// Most bytes of one copy by the CPU. Bounds how long other channels wait for a turn.
const CPU_SLICE_BYTES: u32 = 64 << 10;

/// The copy engine without hardware: executes descriptors when they are submitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuEngine;

impl CopyEngine for CpuEngine {
    fn submit(
        &mut self,
        mem: &mut dyn Memory,
        _channel: u64,
        descriptor: &Descriptor,
    ) -> Result<Submitted, SubmitError> {
        let done = match *descriptor {
            Descriptor::Copy {
                from,
                to,
                bytes,
                fence,
            } => {
                if fence {
                    mem.fence();
                }
                mem.copy(from, to, bytes as usize)
            }
            Descriptor::Store { to, value } => mem.store_u64(to, value),
        };
        done.map(|()| Submitted::Done)
            .map_err(|_| SubmitError::Failed)
    }

    fn completed(&mut self, _mem: &mut dyn Memory, _channel: u64) -> u64 {
        0
    }

    fn max_bytes(&self, _from: Place, _to: Place) -> u32 {
        CPU_SLICE_BYTES
    }

    fn is_cpu(&self, _descriptor: &Descriptor) -> bool {
        true
    }
}
