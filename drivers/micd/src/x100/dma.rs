//! The DMA engine of a card, as far as it is the host's: four channels, each with a ring of
//! descriptors in host memory (`scif.md`, section 10.9).
//!
//! A transfer becomes a copy descriptor and two status descriptors that store how many the channel
//! has done, so that nothing needs to be read from the card to know. What the engine cannot do
//! (ends that are no multiples of 64 bytes, ranges that are shifted against each other, copies
//! within the host) the CPU does. When a channel fails, the CPU does what is left on it, and the
//! channel is set up anew.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use platform::Result;
use platform::direct::drain_writes;
use platform::mem::{BoundsError, PAGE, Region};
use platform::mmio::Mmio;
use scif_abi::NodeId;
use scif_core::{CopyEngine, CpuEngine, Descriptor, Memory, Place, SubmitError, Submitted};

use super::registers::{
    ADDRESS, ALL_ONES, DCAR, DCAR_MASK_HOST, DCHERR, DCHERRMSK, DCR, DESCRIPTOR_BYTES, DHPR,
    DMA_ALIGN, DRAR_HIGH, DRAR_LOW, DSTAT, DSTAT_COUNT, DSTAT_QUIESCED, DSTATWB_ERROR,
    DSTATWB_HIGH, DSTATWB_LOW, DTPR, HOST_CHANNELS, HOST_COPY_BYTES, SMPT_WINDOW, cause_dma,
    channel, copy_descriptor, dcr_enable, dcr_owner, drar_high, status_descriptor,
};

/// Descriptors of a ring: a multiple of 64. Room for 40 MiB on their way.
const RING: u32 = 256;

/// Slots of a transfer: the descriptor itself and two status descriptors. The engine loses the
/// interrupt of a status descriptor that does not follow one without.
const SLOTS: u32 = 3;

/// Nanoseconds without progress after which a channel is taken to have failed.
pub const STALL_NS: u64 = 5_000_000_000;

/// Bytes of memory that the channels need: a page for each ring, and one for the words below.
pub const MEMORY_BYTES: usize = (HOST_CHANNELS + 1) * PAGE;

/// Words of a channel in the last page: what the status descriptors store (8 bytes), and the
/// write-back of DSTAT (4 bytes), in a cache line of their own.
const WORDS_BYTES: usize = 64;
const AT_DONE: usize = 0;
const AT_WRITE_BACK: usize = 8;

const _: () = assert!(RING as usize * DESCRIPTOR_BYTES == PAGE && RING.is_multiple_of(64));

/// Whether a channel can be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Not set up: the card is being reset.
    Off,
    /// It takes descriptors.
    Works,
    /// It could not be set up: the CPU copies.
    Broken,
}

/// A transfer on its way.
struct Flight {
    cookie: u64,
    what: Descriptor,
}

/// One channel.
struct Channel {
    number: usize,
    ring: Region,
    ring_at: u64,
    words: Region,
    words_at: u64,
    state: State,
    /// Index of the next free descriptor.
    head: u32,
    /// Cookie of the last transfer given to it.
    issued: u64,
    /// Cookie of the last that is done.
    completed: u64,
    flights: VecDeque<Flight>,
    /// When it was last seen to make progress.
    progress_at: u64,
    progress: u64,
    /// It has failed and nobody has done its work yet.
    has_failed: bool,
}

/// What was done, for the file `cards` and for tests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Bytes copied by the engine.
    pub dma_bytes: u64,
    /// Bytes copied by the CPU in its place.
    pub cpu_bytes: u64,
    /// Transfers that the CPU did again after an error.
    pub repeated: u64,
    /// Errors of channels.
    pub errors: u64,
}

/// The host's channels of one card.
pub struct Dma {
    /// The card, for messages.
    name: String,
    node: NodeId,
    registers: Rc<dyn Mmio>,
    /// Whether the tail is read from DTPR, as DSTAT does not count: A steppings.
    is_first_stepping: bool,
    channels: Vec<Channel>,
    /// The channel of each of SCIF's.
    assigned: BTreeMap<u64, usize>,
    next: usize,
    counters: Counters,
}

/// The part of a copy that the engine can do: bytes to skip, and how many. `None`: no part.
fn body(from: u64, to: u64, bytes: u64) -> Option<(u64, u64)> {
    if !(from ^ to).is_multiple_of(DMA_ALIGN) {
        return None;
    }
    let skip = from.next_multiple_of(DMA_ALIGN) - from;
    let rest = bytes.checked_sub(skip)?;
    let length = rest - rest % DMA_ALIGN;
    (length > 0).then_some((skip, length))
}

impl Channel {
    fn read(&self, registers: &dyn Mmio, register: usize) -> u32 {
        registers.read32(channel(self.number, register))
    }

    fn write(&self, registers: &dyn Mmio, register: usize, value: u32) {
        registers.write32(channel(self.number, register), value);
    }

    /// Turns the channel off and keeps its interrupts away.
    fn turn_off(&self, registers: &dyn Mmio) {
        let dcr = registers.read32(DCR) | dcr_owner(self.number);
        registers.write32(DCR, dcr & !dcr_enable(self.number));
        let dcar = self.read(registers, DCAR);
        self.write(registers, DCAR, dcar | DCAR_MASK_HOST);
    }

    /// Sets it up with an empty ring. False: it does not work.
    fn set_up(&mut self, registers: &dyn Mmio) -> Result<bool, BoundsError> {
        self.turn_off(registers);
        // What a channel that failed has not executed is a NOP from now on.
        self.ring.zero(0, PAGE)?;
        self.words.write(AT_WRITE_BACK, 0_u32)?;
        self.words.write(AT_DONE, self.issued)?;
        self.write(registers, DCHERRMSK, 0);
        self.write(registers, DRAR_LOW, self.ring_at as u32);
        self.write(registers, DRAR_HIGH, drar_high(self.ring_at, RING));
        let write_back = self.words_at + AT_WRITE_BACK as u64;
        self.write(registers, DSTATWB_LOW, write_back as u32);
        self.write(registers, DSTATWB_HIGH, (write_back >> 32) as u32);
        // The index the engine has; the tail is the same, or follows over NOPs.
        let head = self.read(registers, DHPR);
        let dcar = self.read(registers, DCAR);
        self.write(registers, DCAR, dcar & !DCAR_MASK_HOST);
        self.read(registers, DCAR);
        let dcr = registers.read32(DCR);
        registers.write32(DCR, dcr | dcr_enable(self.number));
        self.flights.clear();
        self.completed = self.issued;
        self.has_failed = false;
        let failed = self.read(registers, DCHERR) != 0
            || self.read(registers, DSTAT) & DSTAT_QUIESCED != 0
            || head >= RING;
        if failed {
            self.turn_off(registers);
            self.state = State::Broken;
        } else {
            self.head = head;
            self.state = State::Works;
        }
        Ok(!failed)
    }

    /// Notes what has completed.
    fn look(&mut self) {
        let done = self.words.load_acquire_u64(AT_DONE);
        let state = self.words.load_acquire_u32(AT_WRITE_BACK);
        // Anything else than a cookie that was given out is nothing the engine stores.
        match done {
            Ok(done) if (self.completed..=self.issued).contains(&done) => self.completed = done,
            _ => self.has_failed = true,
        }
        self.has_failed |= state.is_ok_and(|state| state & DSTATWB_ERROR != 0);
        while self
            .flights
            .pop_front_if(|flight| flight.cookie <= self.completed)
            .is_some()
        {}
    }

    fn is_idle(&mut self) -> bool {
        self.look();
        self.flights.is_empty()
    }

    /// Whether another transfer can be queued: one slot of the ring always stays empty. The first
    /// status descriptor ends a flight, so one that has ended may still have its second one there.
    fn has_room(&mut self) -> bool {
        let has = |flights: usize| (flights as u32 + 1) * SLOTS + 1 < RING;
        if !has(self.flights.len()) {
            self.look();
        }
        !self.has_failed && has(self.flights.len())
    }

    fn put(&mut self, words: [u64; 2]) -> Result<(), BoundsError> {
        let place = self.head as usize * DESCRIPTOR_BYTES;
        self.ring.write(place, words[0])?;
        self.ring.write(place + 8, words[1])?;
        self.head = (self.head + 1) % RING;
        Ok(())
    }

    /// Queues one descriptor with what tells of its end; there must be room. Returns its cookie.
    fn queue(
        &mut self,
        registers: &dyn Mmio,
        words: [u64; 2],
        what: Descriptor,
    ) -> Result<u64, BoundsError> {
        let cookie = self.issued + 1;
        let done_at = self.words_at + AT_DONE as u64;
        self.put(words)?;
        self.put(status_descriptor(cookie, done_at, false))?;
        self.put(status_descriptor(cookie, done_at, true))?;
        self.issued = cookie;
        self.flights.push_back(Flight { cookie, what });
        // The descriptors before the index that makes them the engine's.
        drain_writes();
        self.write(registers, DHPR, self.head);
        Ok(cookie)
    }
}

impl Dma {
    /// The host's channels. `memory` has [`MEMORY_BYTES`] and is at `card_address` for the card.
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
            channels.push(Channel {
                number,
                ring: memory.part(number * PAGE, PAGE)?,
                ring_at: card_address + (number * PAGE) as u64,
                words: words.part(number * WORDS_BYTES, WORDS_BYTES)?,
                words_at: words_at + (number * WORDS_BYTES) as u64,
                state: State::Off,
                head: 0,
                issued: 0,
                completed: 0,
                flights: VecDeque::new(),
                progress_at: 0,
                progress: 0,
                has_failed: false,
            });
        }
        Ok(Self {
            name,
            node,
            registers,
            is_first_stepping: false,
            channels,
            assigned: BTreeMap::new(),
            next: 0,
            counters: Counters::default(),
        })
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Sets all channels up, after a reset.
    pub fn set_up(&mut self, is_first_stepping: bool) -> Result<()> {
        self.is_first_stepping = is_first_stepping;
        for channel in &mut self.channels {
            if !channel.set_up(&*self.registers)? {
                let (name, number) = (&self.name, channel.number);
                log::error!("{name}: DMA channel {number} cannot be set up: the CPU copies");
            }
        }
        Ok(())
    }

    /// The card is reset: what was on its way is lost, and counts as done.
    pub fn abort(&mut self) {
        for channel in &mut self.channels {
            channel.state = State::Off;
            channel.completed = channel.issued;
            channel.flights.clear();
            channel.has_failed = false;
        }
    }

    /// Whether nothing is on its way.
    pub fn is_idle(&mut self) -> bool {
        self.channels.iter_mut().all(Channel::is_idle)
    }

    /// Serves the interrupts of channels: masking and unmasking acknowledges, and the register has
    /// to be read back before the next can come.
    pub fn acknowledge(&mut self, causes: u32) {
        for channel in &mut self.channels {
            if causes & cause_dma(channel.number) != 0 && channel.state == State::Works {
                let registers = &*self.registers;
                let dcar = channel.read(registers, DCAR) & !DCAR_MASK_HOST;
                channel.write(registers, DCAR, dcar | DCAR_MASK_HOST);
                channel.write(registers, DCAR, dcar);
                channel.read(registers, DCAR);
                channel.look();
            }
        }
    }

    /// Notices channels that stand still; `now` in nanoseconds, at each look. Returns when to look
    /// again.
    pub fn watch(&mut self, now: u64) -> Option<u64> {
        let mut next = None;
        for channel in &mut self.channels {
            if channel.is_idle() || channel.progress != channel.completed {
                channel.progress = channel.completed;
                channel.progress_at = now;
            }
            if channel.flights.is_empty() {
                continue;
            }
            let limit = channel.progress_at.saturating_add(STALL_NS);
            channel.has_failed |= now >= limit;
            next = Some(next.map_or(limit, |next: u64| next.min(limit)));
        }
        next
    }

    /// How the card calls a place; `None`: it cannot reach it.
    ///
    /// # Errors
    /// `Failed` for a place that the peer has not.
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

    /// The channel for one of SCIF's.
    fn channel_for(&mut self, channel: u64) -> usize {
        let next = &mut self.next;
        *self.assigned.entry(channel).or_insert_with(|| {
            *next += 1;
            *next % HOST_CHANNELS
        })
    }

    /// The CPU does a descriptor, ahead of what is on its way.
    fn by_cpu(
        &mut self,
        mem: &mut dyn Memory,
        index: usize,
        descriptor: &Descriptor,
    ) -> core::result::Result<Submitted, SubmitError> {
        CpuEngine.submit(mem, 0, descriptor)?;
        if let Descriptor::Copy { bytes, .. } = descriptor {
            self.counters.cpu_bytes += u64::from(*bytes);
        }
        let channel = &mut self.channels[index];
        Ok(if channel.is_idle() {
            Submitted::Done
        } else {
            Submitted::Later(channel.issued)
        })
    }

    fn copy(
        &mut self,
        mem: &mut dyn Memory,
        index: usize,
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
            return self.by_cpu(mem, index, descriptor);
        };
        let channel = &mut self.channels[index];
        if channel.state != State::Works {
            return self.by_cpu(mem, index, descriptor);
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
        self.counters.dma_bytes += length;
        self.counters.cpu_bytes += skip + tail;
        cookie
            .map(Submitted::Later)
            .map_err(|_| SubmitError::Failed)
    }

    fn store(
        &mut self,
        mem: &mut dyn Memory,
        index: usize,
        descriptor: &Descriptor,
        (to, value): (Place, u64),
    ) -> core::result::Result<Submitted, SubmitError> {
        if self.channels[index].is_idle() {
            return self.by_cpu(mem, index, descriptor);
        }
        let to_at = self.card_address(mem, to, 8)?;
        let Some(to_at) = to_at.filter(|address| address.is_multiple_of(8)) else {
            return Err(SubmitError::Full);
        };
        let channel = &mut self.channels[index];
        if channel.state != State::Works || !channel.has_room() {
            return Err(SubmitError::Full);
        }
        let words = status_descriptor(value, to_at, false);
        channel
            .queue(&*self.registers, words, *descriptor)
            .map(Submitted::Later)
            .map_err(|_| SubmitError::Failed)
    }

    /// Recovers a channel that has failed.
    fn repair(&mut self, mem: &mut dyn Memory, index: usize) {
        let channel = &self.channels[index];
        if channel.has_failed && channel.state == State::Works {
            self.recover(mem, index);
        }
    }

    /// Says what is wrong with a channel that failed, does what is left on it, and sets it up anew.
    fn recover(&mut self, mem: &mut dyn Memory, index: usize) {
        let channel = &mut self.channels[index];
        let registers = &*self.registers;
        let (error, status) = (
            channel.read(registers, DCHERR),
            channel.read(registers, DSTAT),
        );
        if error == ALL_ONES {
            // The card is gone; whoever looks at the link notices.
            return;
        }
        let tail = match self.is_first_stepping {
            true => channel.read(registers, DTPR),
            false => status & DSTAT_COUNT,
        };
        let (name, number, left) = (&self.name, channel.number, channel.flights.len());
        log::error!(
            "{name}: DMA channel {number} failed at descriptor {tail} (DCHERR {error:#x}, DSTAT \
             {status:#x}): the CPU does the {left} transfers on it"
        );
        // Before the CPU copies: nothing may be copied behind its back.
        channel.turn_off(registers);
        let flights = core::mem::take(&mut channel.flights);
        self.counters.errors += 1;
        for flight in flights {
            self.counters.repeated += 1;
            if CpuEngine.submit(mem, 0, &flight.what).is_err() {
                // Its window has gone with the link, which reports it.
                log::warn!("{name}: a transfer on DMA channel {number} leads nowhere any more");
            }
        }
        let channel = &mut self.channels[index];
        if !matches!(channel.set_up(registers), Ok(true)) {
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
        let index = self.channel_for(channel);
        self.repair(mem, index);
        match *descriptor {
            Descriptor::Copy { fence: true, .. } if !self.channels[index].is_idle() => {
                Err(SubmitError::Full)
            }
            Descriptor::Copy {
                from, to, bytes, ..
            } => self.copy(mem, index, descriptor, (from, to), bytes.into()),
            Descriptor::Store { to, value } => self.store(mem, index, descriptor, (to, value)),
        }
    }

    fn completed(&mut self, mem: &mut dyn Memory, channel: u64) -> u64 {
        let index = self.channel_for(channel);
        self.channels[index].look();
        self.repair(mem, index);
        self.channels[index].completed
    }

    fn forget(&mut self, channel: u64) {
        self.assigned.remove(&channel);
    }

    fn max_bytes(&self, _node: NodeId) -> u32 {
        HOST_COPY_BYTES
    }

    fn is_cpu(&self, _node: NodeId) -> bool {
        false
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
