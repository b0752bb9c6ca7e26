//! A channel of the DMA engine: its ring, the transfers in flight, and the completions that the
//! engine has reported.

use alloc::collections::VecDeque;

use hal::Result;
use hal::mem::drain_writes;
use hal::mem::{BoundsError, PAGE, Region};
use hal::mmio::Mmio;
use scif_core::Descriptor;

use super::super::registers::{
    DCAR, DCAR_MASK_HOST, DCHERR, DCHERRMSK, DCR, DESCRIPTOR_BYTES, DHPR, DRAR_HIGH, DRAR_LOW,
    DSTAT, DSTAT_QUIESCED, DSTATWB_ERROR, DSTATWB_HIGH, DSTATWB_LOW, channel, dcr_enable,
    dcr_owner, drar_high, status_descriptor,
};

/// Descriptors of a ring: a multiple of 64. They have room for 40 MiB in flight.
const RING: u32 = 256;

/// Descriptors of one transfer: its own and two status descriptors. The engine loses the interrupt
/// of a status descriptor that does not follow one without an interrupt.
const SLOTS: u32 = 3;

/// Bytes for a channel's words in the last page, which are in a cache line of their own: the word
/// that the status descriptors store (8 bytes), and the write-back of DSTAT (4 bytes).
pub(super) const WORDS_BYTES: usize = 64;
const AT_DONE: usize = 0;
const AT_WRITE_BACK: usize = 8;

const _: () = assert!(RING as usize * DESCRIPTOR_BYTES == PAGE && RING.is_multiple_of(64));

/// Whether a channel can be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    /// The channel is not set up: the card is being reset. Earlier transfers may still arrive.
    Off,
    /// The channel takes descriptors.
    Works,
    /// The channel has failed, and the CPU does its remaining transfers, slice by slice.
    Mending,
    /// The channel could not be set up: the CPU copies.
    Broken,
}

/// A transfer in flight.
struct Flight {
    cookie: u64,
    what: Descriptor,
}

/// The last progress that was seen: the completed transfers, and the time of the last change.
#[derive(Default)]
struct Progress {
    completed: u64,
    at: u64,
}

/// One channel of the host.
pub(super) struct Channel {
    number: usize,
    ring: Region,
    ring_at: u64,
    words: Region,
    words_at: u64,
    state: State,
    /// Index of the next free descriptor.
    head: u32,
    /// Cookie of the last transfer that was queued.
    issued: u64,
    /// Cookie of the last transfer that is done.
    completed: u64,
    flights: VecDeque<Flight>,
    progress: Progress,
    /// Whether the channel has failed, and the CPU has not yet done its remaining transfers.
    has_failed: bool,
}

impl Channel {
    /// Channel `number`. The pairs are its ring and its words, each with its card address.
    pub fn new(number: usize, ring: (Region, u64), words: (Region, u64)) -> Self {
        Self {
            number,
            ring: ring.0,
            ring_at: ring.1,
            words: words.0,
            words_at: words.1,
            state: State::Off,
            head: 0,
            issued: 0,
            completed: 0,
            flights: VecDeque::new(),
            progress: Progress::default(),
            has_failed: false,
        }
    }

    /// The channel's number in the card.
    pub fn number(&self) -> usize {
        self.number
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Cookie of the last transfer that is done.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Whether the channel has failed, and the CPU has not yet done its remaining transfers.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The number of transfers in flight.
    pub fn transfers(&self) -> usize {
        self.flights.len()
    }

    pub fn read(&self, registers: &dyn Mmio, register: usize) -> u32 {
        registers.read32(channel(self.number, register))
    }

    fn write(&self, registers: &dyn Mmio, register: usize, value: u32) {
        registers.write32(channel(self.number, register), value);
    }

    /// Turns the channel off and masks its interrupts.
    fn turn_off(&self, registers: &dyn Mmio) {
        let dcr = registers.read32(DCR) | dcr_owner(self.number);
        registers.write32(DCR, dcr & !dcr_enable(self.number));
        let dcar = self.read(registers, DCAR);
        self.write(registers, DCAR, dcar | DCAR_MASK_HOST);
    }

    /// Sets the channel up with an empty ring. `false`: it does not work. A steppings write
    /// nothing back and report all errors; there, an error shows as a channel that stands still.
    pub fn set_up(
        &mut self,
        registers: &dyn Mmio,
        is_first_stepping: bool,
    ) -> Result<bool, BoundsError> {
        self.turn_off(registers);
        // Descriptors that a failed channel has not executed become NOPs.
        self.ring.zero(0, PAGE)?;
        self.words.write(AT_WRITE_BACK, 0_u32)?;
        self.words.write(AT_DONE, self.issued)?;
        self.write(registers, DRAR_LOW, self.ring_at as u32);
        self.write(registers, DRAR_HIGH, drar_high(self.ring_at, RING));
        if !is_first_stepping {
            let write_back = self.words_at + AT_WRITE_BACK as u64;
            self.write(registers, DSTATWB_LOW, write_back as u32);
            self.write(registers, DSTATWB_HIGH, (write_back >> 32) as u32);
            self.write(registers, DCHERRMSK, 0);
        }
        // Go on at the engine's index; the tail is the same, or catches up over NOPs.
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

    /// Takes note of completed transfers.
    pub fn note_completions(&mut self) {
        if self.state != State::Works {
            return;
        }
        let done = self.words.load_acquire_u64(AT_DONE);
        let state = self.words.load_acquire_u32(AT_WRITE_BACK);
        // The engine stores nothing but cookies that were given out.
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

    /// Stops the channel, because the card is reset. Transfers in flight may still arrive.
    pub fn stop(&mut self) {
        self.state = State::Off;
        self.has_failed = false;
    }

    /// Ends all transfers: the card moves nothing any more. Those in flight are lost, and count as
    /// done.
    pub fn abort(&mut self) {
        self.stop();
        self.completed = self.issued;
        self.flights.clear();
    }

    /// Serves the channel's interrupt: masking and unmasking acknowledges it, and the register has
    /// to be read back after each.
    pub fn acknowledge(&mut self, registers: &dyn Mmio) {
        if self.state != State::Works {
            return;
        }
        let dcar = self.read(registers, DCAR) & !DCAR_MASK_HOST;
        self.write(registers, DCAR, dcar | DCAR_MASK_HOST);
        self.read(registers, DCAR);
        self.write(registers, DCAR, dcar);
        self.read(registers, DCAR);
        self.note_completions();
    }

    /// Notices that the channel has stood still for `stall_ns`. Returns the time for the next
    /// call, if anything is in flight.
    pub fn watch(&mut self, now: u64, stall_ns: u64) -> Option<u64> {
        if self.is_idle() || self.progress.completed != self.completed {
            self.progress = Progress {
                completed: self.completed,
                at: now,
            };
        }
        if self.flights.is_empty() || self.state == State::Off {
            return None;
        }
        let limit = match self.state {
            State::Mending => now,
            _ => self.progress.at.saturating_add(stall_ns),
        };
        self.has_failed |= now >= limit;
        Some(limit)
    }

    /// Stops the channel, because it has failed: from now on the CPU does the transfers in flight.
    /// After this the engine must copy nothing, and nothing may be copied twice.
    pub fn begin_mending(&mut self, registers: &dyn Mmio) {
        self.turn_off(registers);
        self.note_completions();
        self.state = State::Mending;
    }

    /// The next transfer for the CPU on a failed channel. The caller replaces it by what is left
    /// of it.
    pub fn first_left(&mut self) -> Option<&mut Descriptor> {
        self.flights.front_mut().map(|flight| &mut flight.what)
    }

    /// Records that the CPU has done all of the first remaining transfer.
    pub fn end_first(&mut self) {
        if let Some(flight) = self.flights.pop_front() {
            self.completed = flight.cookie;
        }
    }

    /// Leaves the channel off: the CPU copies.
    pub fn disable(&mut self) {
        self.state = State::Broken;
    }

    /// Whether there is nothing to wait for: no transfer, or none that the channel will complete.
    pub fn is_idle(&mut self) -> bool {
        self.note_completions();
        self.flights.is_empty() || self.state == State::Off
    }

    /// Whether another transfer can be queued: one slot of the ring always stays empty. The first
    /// status descriptor ends a transfer, so the second one of an ended transfer may still be in
    /// the ring.
    pub fn has_room(&mut self) -> bool {
        let has = |flights: usize| (flights as u32 + 1) * SLOTS + 1 < RING;
        if !has(self.flights.len()) {
            self.note_completions();
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

    /// Queues one descriptor and the status descriptors behind it; there must be room. Returns the
    /// transfer's cookie.
    pub fn queue(
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
        // Make the descriptors visible before the index that passes them to the engine.
        drain_writes();
        self.write(registers, DHPR, self.head);
        Ok(cookie)
    }
}
