//! The DMA engine of a card, as far as it is the host's: four channels, each with a ring of
//! descriptors in host memory (as in `drivers/dma/mic_x100_dma.c` of Linux 4.x).
//!
//! A transfer becomes a copy descriptor and two status descriptors that store how many transfers
//! the channel has done, so that the driver need not read from the card. The CPU does what the
//! engine cannot do: ends that are no multiples of 64 bytes, ranges that are shifted against each
//! other, copies within the host. When a channel fails, the CPU does its remaining transfers, and
//! the channel is set up again. A channel that stands still without reporting an error may still
//! move bytes, so nothing may be done in its place: the card has to be reset.

mod channel;

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

use hal::Result;
use hal::mem::{PAGE, Region};
use hal::mmio::Mmio;
use scif_abi::NodeId;
use scif_core::{CopyEngine, CpuEngine, Descriptor, Memory, Place, SubmitError, Submitted};

use self::channel::{Channel, State, WORDS_BYTES};
use super::registers::{
    self, ADDRESS, ALL_ONES, DCHERR, DMA_ALIGN, DSTAT, DSTAT_COUNT, DSTAT_QUIESCED, DTPR,
    HOST_CHANNELS, HOST_COPY_BYTES, SMPT_WINDOW, cause_dma, copy_descriptor, status_descriptor,
};

/// Nanoseconds without progress after which a channel counts as failed.
pub const STALL_NS: u64 = 5_000_000_000;

/// Bytes of memory that the channels need: a page for each ring, and one for the channels' words.
pub const MEMORY_BYTES: usize = (HOST_CHANNELS + 1) * PAGE;

/// Counters of copies.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Bytes copied by the engine.
    pub dma_bytes: u64,
    /// Bytes copied by the CPU in its place.
    pub cpu_bytes: u64,
    /// Transfers that the CPU repeated after an error.
    pub repeated: u64,
    /// Channels that failed.
    pub errors: u64,
}

/// The hardware channel for one of SCIF's channels. Other SCIF channels may use it, too.
#[derive(Clone, Copy, Debug)]
struct Assigned {
    index: usize,
    /// Cookie of the SCIF channel's last transfer there.
    last: u64,
}

/// The host's channels of one card.
pub struct Dma {
    /// The card, for messages.
    name: String,
    node: NodeId,
    registers: Rc<dyn Mmio>,
    /// Whether the tail is read from DTPR, because DSTAT does not count on A steppings.
    is_first_stepping: bool,
    channels: Vec<Channel>,
    /// The hardware channel of each of SCIF's channels.
    assigned: BTreeMap<u64, Assigned>,
    next: usize,
    /// Whether a channel has failed in a way that only a reset of the card ends.
    is_stuck: bool,
    counters: Rc<Cell<Counters>>,
}

/// The part of a copy that the engine can do: bytes to skip, and length. `None`: no part.
fn body(from: u64, to: u64, bytes: u64) -> Option<(u64, u64)> {
    if !(from ^ to).is_multiple_of(DMA_ALIGN) {
        return None;
    }
    let skip = from.next_multiple_of(DMA_ALIGN) - from;
    let rest = bytes.checked_sub(skip)?;
    let length = rest - rest % DMA_ALIGN;
    (length > 0).then_some((skip, length))
}

/// The part of a descriptor that the CPU does at a time, and the rest.
fn slice(descriptor: Descriptor) -> (Descriptor, Option<Descriptor>) {
    let Descriptor::Copy {
        from,
        to,
        bytes,
        fence,
    } = descriptor
    else {
        return (descriptor, None);
    };
    let copy = |at: u32, bytes| Descriptor::Copy {
        from: from.offset(at.into()),
        to: to.offset(at.into()),
        bytes,
        fence,
    };
    let part = bytes.min(CpuEngine.max_bytes(from, to));
    let rest = bytes - part;
    (copy(0, part), (rest > 0).then(|| copy(part, rest)))
}

/// Whether the engine cannot copy between two places because one is shifted against the other. The
/// lowest bits of an address are the same for the card.
fn is_shifted(from: Place, to: Place) -> bool {
    let lowest = |place| match place {
        Place::Own(address) | Place::Peer(_, address) => address % DMA_ALIGN,
    };
    lowest(from) != lowest(to)
}

impl Dma {
    /// The host's channels. `memory` has [`MEMORY_BYTES`]; the card sees it at `card_address`.
    ///
    /// # Errors
    /// `EFAULT` when the memory is shorter.
    pub fn new(
        name: String,
        node: NodeId,
        registers: Rc<dyn Mmio>,
        memory: &Region,
        card_address: u64,
    ) -> Result<Self> {
        let words = memory.part(HOST_CHANNELS * PAGE, PAGE)?;
        let words_at = card_address + (HOST_CHANNELS * PAGE) as u64;
        let mut channels = Vec::new();
        for number in 0..HOST_CHANNELS {
            let ring = memory.part(number * PAGE, PAGE)?;
            let ring_at = card_address + (number * PAGE) as u64;
            let own = words.part(number * WORDS_BYTES, WORDS_BYTES)?;
            let own_at = words_at + (number * WORDS_BYTES) as u64;
            channels.push(Channel::new(number, (ring, ring_at), (own, own_at)));
        }
        Ok(Self {
            name,
            node,
            registers,
            is_first_stepping: false,
            channels,
            assigned: BTreeMap::new(),
            next: 0,
            is_stuck: false,
            counters: Rc::default(),
        })
    }

    /// The counters so far.
    pub fn counters(&self) -> Rc<Cell<Counters>> {
        self.counters.clone()
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Sets up all channels after a reset.
    pub fn set_up(&mut self, is_first_stepping: bool) -> Result<()> {
        self.is_first_stepping = is_first_stepping;
        for channel in &mut self.channels {
            if !channel.set_up(&*self.registers, is_first_stepping)? {
                let (name, number) = (&self.name, channel.number());
                log::error!("{name}: DMA channel {number} cannot be set up: the CPU copies");
            }
        }
        Ok(())
    }

    /// Stops all channels, because the card is reset. Transfers in flight may arrive until the
    /// reset has certainly happened, so they do not count as done.
    pub fn stop(&mut self) {
        self.channels.iter_mut().for_each(Channel::stop);
        self.is_stuck = false;
    }

    /// Ends all transfers: the card moves nothing any more. Those in flight are lost, and count as
    /// done.
    pub fn abort(&mut self) {
        self.channels.iter_mut().for_each(Channel::abort);
    }

    /// Whether only a reset of the card helps.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Whether no channel has anything to wait for.
    pub fn is_idle(&mut self) -> bool {
        self.channels.iter_mut().all(Channel::is_idle)
    }

    /// Serves the interrupts of the channels in `causes`.
    pub fn acknowledge(&mut self, causes: u32) {
        for channel in &mut self.channels {
            if causes & cause_dma(channel.number()) != 0 {
                channel.acknowledge(&*self.registers);
            }
        }
    }

    /// Notices channels that stand still; `now` in nanoseconds. Returns the time for the next
    /// call.
    pub fn watch(&mut self, now: u64) -> Option<u64> {
        let watch = |channel: &mut Channel| channel.watch(now, STALL_NS);
        self.channels.iter_mut().filter_map(watch).min()
    }

    /// The card's address of a place. `None` when the card cannot reach it.
    ///
    /// # Errors
    /// `Failed` for a place that the peer does not have.
    fn card_address(
        &self,
        mem: &dyn Memory,
        place: Place,
        bytes: u64,
    ) -> core::result::Result<Option<u64>, SubmitError> {
        match place {
            Place::Own(address) => {
                let address = mem.export(self.node, address);
                Ok((SMPT_WINDOW..=ADDRESS - bytes)
                    .contains(&address)
                    .then_some(address))
            }
            Place::Peer(node, address) => {
                let is_there = mem.peer_reaches(node, address, bytes as usize);
                let is_card = node == self.node && address < SMPT_WINDOW;
                match is_there {
                    true => Ok(is_card.then_some(address)),
                    false => Err(SubmitError::Failed),
                }
            }
        }
    }

    /// The hardware channel for one of SCIF's channels, which gets one at its first use.
    fn assigned(&mut self, channel: u64) -> Assigned {
        let next = &mut self.next;
        *self.assigned.entry(channel).or_insert_with(|| {
            *next += 1;
            let index = *next % HOST_CHANNELS;
            Assigned { index, last: 0 }
        })
    }

    /// Whether all transfers of one of SCIF's channels are done.
    fn is_done(&mut self, assigned: Assigned) -> bool {
        let channel = &mut self.channels[assigned.index];
        channel.note_completions();
        channel.completed() >= assigned.last
    }

    /// Has the CPU carry out a descriptor at once, ahead of the transfers in flight.
    fn by_cpu(
        &mut self,
        mem: &mut dyn Memory,
        assigned: Assigned,
        descriptor: &Descriptor,
    ) -> core::result::Result<Submitted, SubmitError> {
        CpuEngine.submit(mem, 0, descriptor)?;
        if let Descriptor::Copy { bytes, .. } = descriptor {
            self.count(|counters| counters.cpu_bytes += u64::from(*bytes));
        }
        Ok(match self.is_done(assigned) {
            true => Submitted::Done,
            false => Submitted::Later(assigned.last),
        })
    }

    fn copy(
        &mut self,
        mem: &mut dyn Memory,
        assigned: Assigned,
        descriptor: &Descriptor,
        (from, to): (Place, Place),
        bytes: u64,
    ) -> core::result::Result<Submitted, SubmitError> {
        let from_at = self.card_address(mem, from, bytes)?;
        let to_at = self.card_address(mem, to, bytes)?;
        let is_within_host = matches!((from, to), (Place::Own(_), Place::Own(_)));
        let both = from_at.zip(to_at).filter(|_| !is_within_host);
        let part = both.and_then(|(from, to)| Some((from, to, body(from, to, bytes)?)));
        let Some((from_at, to_at, (skip, length))) = part else {
            return self.by_cpu(mem, assigned, descriptor);
        };
        let channel = &mut self.channels[assigned.index];
        if channel.state() == State::Mending {
            return Err(SubmitError::Full);
        }
        if channel.state() != State::Works {
            return self.by_cpu(mem, assigned, descriptor);
        }
        if !channel.has_room() {
            return Err(SubmitError::Full);
        }
        let edge = |mem: &mut dyn Memory, at: u64, bytes: u64| match bytes {
            0 => Ok(()),
            _ => mem.copy(from.offset(at), to.offset(at), bytes as usize),
        };
        let tail = bytes - skip - length;
        edge(mem, 0, skip)
            .and_then(|()| edge(mem, skip + length, tail))
            .map_err(|_| SubmitError::Failed)?;
        let what = Descriptor::Copy {
            from: from.offset(skip),
            to: to.offset(skip),
            bytes: length as u32,
            fence: false,
        };
        let words = copy_descriptor(from_at + skip, to_at + skip, length);
        let cookie = channel.queue(&*self.registers, words, what);
        self.count(|counters| {
            counters.dma_bytes += length;
            counters.cpu_bytes += skip + tail;
        });
        cookie
            .map(Submitted::Later)
            .map_err(|_| SubmitError::Failed)
    }

    fn store(
        &mut self,
        mem: &mut dyn Memory,
        assigned: Assigned,
        descriptor: &Descriptor,
        (to, value): (Place, u64),
    ) -> core::result::Result<Submitted, SubmitError> {
        if self.is_done(assigned) {
            return self.by_cpu(mem, assigned, descriptor);
        }
        let to_at = self.card_address(mem, to, 8)?;
        let Some(to_at) = to_at.filter(|address| address.is_multiple_of(8)) else {
            return Err(SubmitError::Full);
        };
        let channel = &mut self.channels[assigned.index];
        if channel.state() != State::Works || !channel.has_room() {
            return Err(SubmitError::Full);
        }
        let words = status_descriptor(value, to_at, false);
        channel
            .queue(&*self.registers, words, *descriptor)
            .map(Submitted::Later)
            .map_err(|_| SubmitError::Failed)
    }

    /// Continues the repair of a channel that has failed.
    fn repair(&mut self, mem: &mut dyn Memory, index: usize) {
        let channel = &self.channels[index];
        match channel.state() {
            State::Works if channel.has_failed() && !self.is_stuck => self.recover(index),
            State::Mending => self.mend(mem, index),
            _ => {}
        }
    }

    /// Logs the error of a channel that has failed, and stops the channel.
    fn recover(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        let registers = &*self.registers;
        let (error, status) = (
            channel.read(registers, DCHERR),
            channel.read(registers, DSTAT),
        );
        if error == ALL_ONES {
            // The card is gone: the link notices it at its next step.
            return;
        }
        let tail = match self.is_first_stepping {
            true => channel.read(registers, DTPR),
            false => status & DSTAT_COUNT,
        };
        let (name, number, left) = (&self.name, channel.number(), channel.transfers());
        if error == 0 && status & DSTAT_QUIESCED == 0 {
            let place = registers::channel(number, DSTAT);
            log::error!(
                "{name}: DMA channel {number} stands still at descriptor {tail} and reports no \
                 error: DSTAT (BAR 4 + {place:#x}) is {status:#x}; the card is reset"
            );
            self.is_stuck = true;
            return;
        }
        log::error!(
            "{name}: DMA channel {number} failed at descriptor {tail} (DCHERR {error:#x}, DSTAT \
             {status:#x}): the CPU does the {left} transfers on it"
        );
        channel.begin_mending(registers);
        self.count(|counters| counters.errors += 1);
    }

    /// Has the CPU do a slice of a failed channel's remaining transfers. Sets up the channel again
    /// after the last one.
    fn mend(&mut self, mem: &mut dyn Memory, index: usize) {
        let channel = &mut self.channels[index];
        let number = channel.number();
        if let Some(left) = channel.first_left() {
            let (part, rest) = slice(*left);
            if CpuEngine.submit(mem, 0, &part).is_err() {
                // Its window is gone with the link, which reports that.
                let name = &self.name;
                log::warn!("{name}: a transfer on DMA channel {number} leads nowhere any more");
            }
            match rest {
                Some(rest) => *left = rest,
                None => {
                    channel.end_first();
                    self.count(|counters| counters.repeated += 1);
                }
            }
        }
        let channel = &mut self.channels[index];
        if channel.transfers() > 0 {
            return;
        }
        let set_up = channel.set_up(&*self.registers, self.is_first_stepping);
        if !matches!(set_up, Ok(true)) {
            channel.disable();
            let (name, number) = (&self.name, channel.number());
            log::error!("{name}: DMA channel {number} stays off: the CPU copies");
        }
    }
}

impl CopyEngine for Dma {
    fn submit(
        &mut self,
        mem: &mut dyn Memory,
        channel: u64,
        descriptor: &Descriptor,
    ) -> core::result::Result<Submitted, SubmitError> {
        let assigned = self.assigned(channel);
        self.repair(mem, assigned.index);
        let submitted = match *descriptor {
            Descriptor::Copy { fence: true, .. } if !self.is_done(assigned) => {
                Err(SubmitError::Full)
            }
            Descriptor::Copy {
                from, to, bytes, ..
            } => self.copy(mem, assigned, descriptor, (from, to), bytes.into()),
            Descriptor::Store { to, value } => self.store(mem, assigned, descriptor, (to, value)),
        };
        if let (Ok(Submitted::Later(cookie)), Some(assigned)) =
            (submitted, self.assigned.get_mut(&channel))
        {
            assigned.last = cookie;
        }
        submitted
    }

    fn completed(&mut self, mem: &mut dyn Memory, channel: u64) -> u64 {
        let index = self.assigned(channel).index;
        self.channels[index].note_completions();
        self.repair(mem, index);
        self.channels[index].completed()
    }

    fn forget(&mut self, channel: u64) {
        self.assigned.remove(&channel);
    }

    fn max_bytes(&self, from: Place, to: Place) -> u32 {
        let works = |channel: &Channel| channel.state() == State::Works;
        match is_shifted(from, to) || !self.channels.iter().all(works) {
            true => CpuEngine.max_bytes(from, to),
            false => HOST_COPY_BYTES,
        }
    }

    fn is_cpu(&self, descriptor: &Descriptor) -> bool {
        match *descriptor {
            Descriptor::Copy { from, to, .. } => is_shifted(from, to),
            Descriptor::Store { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn the_engine_copies_whole_lines() {
        assert_eq!(body(0x1000, 0x2000, 0x1000), Some((0, 0x1000)));
        assert_eq!(body(0x1001, 0x2041, 200), Some((63, 128)));
        assert_eq!(body(0x1001, 0x2041, 126), None);
        assert_eq!(body(0x1001, 0x2041, 10), None);
        assert_eq!(body(0x1000, 0x2001, 0x1000), None);
    }
}
