//! The card's hardware: registers with their side effects, firmware, memory, interrupts both ways.
//!
//! It is stricter than the hardware. Whatever a driver may not rely on is noted as a complaint:
//! accesses that are not aligned or hit no register, in the second after a reset, to bits that
//! belong to the other side, in an order that the published drivers avoid. A test ends with
//! [`Card::complaints`] being empty, or is about one of them.

use std::collections::VecDeque;
use std::rc::Rc;

use hal::mem::Region;
use hal::testing::counting::drains;
use micd::x100::registers::{
    ALL_ONES, APICICR7, APICICR7_HIGH, BOOT_VECTOR, CARD_INTERRUPTS, CAUSES, CHANNELS, DCR,
    DOORBELLS, DOWNLOAD, DOWNLOAD_ADDRESS, DOWNLOAD_READY, HOST_CHANNELS, ICR_SEND, MSIXPBACR,
    MXAR0, POSTCODE, RGCR, RGCR_RESET, SDBIC_REQUEST, SHUTDOWN_INTERRUPT, SIAC0, SICC0, SICE0,
    SICR0, SMPT_ENTRIES, SMPT_SHIFT, SMPT_WINDOW, THERMAL_STATUS, apicicr, boot_processor,
    cause_doorbell, channel, dcr_enable, dcr_owner, rdmasr, scratch, sdbic, smpt,
};

use crate::dma::{Channel, Done};
use crate::host::HostRam;

/// Bytes of the card's memory.
pub const MEMORY: usize = 128 << 20;
/// Where the firmware wants the image.
pub const LOAD: u32 = 16 << 20;
/// The processor the firmware runs on.
pub const PROCESSOR: u32 = 0x5a;
/// Nanoseconds after a reset in which no register may be touched.
const SETTLE_NS: u64 = 1_000_000_000;
/// Nanoseconds that the firmware needs.
const FIRMWARE_NS: u64 = 4_500_000_000;

/// The faults of the card.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The firmware never gets ready.
    pub never_ready: bool,
    /// The number of resets that fail.
    pub failed_resets: u32,
    /// All registers read all ones.
    pub is_gone: bool,
    /// The configuration space does not answer.
    pub no_config: bool,
    /// The value that SCRATCH2 reads as instead.
    pub download: Option<u32>,
    /// The host's DMA channels report an error as soon as they work.
    pub dead_channels: bool,
    /// The number of copies that end in an error.
    pub dma_errors: u32,
    /// The number of status descriptors that end in an error.
    pub status_errors: u32,
}

/// The reasons for interrupts of the card's processors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interrupt {
    /// APICICR of this number.
    Apic(usize),
    /// RDMASR of this number.
    Rdma(usize),
    /// The firmware is to start the image.
    Boot,
}

/// Accesses of the host to registers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Accesses {
    /// Loads, each a round trip over the bus.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// How often it drained gathered stores: in [`Fixture::count`](crate::fixture::Fixture::count).
    pub drains: u64,
}

/// A card.
pub struct Card {
    /// Bits 7:4 of SCRATCH13.
    stepping: u32,
    /// The card's memory.
    pub memory: Region,
    host: Rc<HostRam>,
    /// The faults of the card.
    pub faults: Faults,
    /// Whether the card may write to the host's memory and send messages (PCI: bus master). Who
    /// finds a card on the bus turns it off, as something may run on it.
    pub is_master: bool,
    now: u64,
    /// When the last reset was, and whether the firmware has begun anew since.
    reset_at: Option<u64>,
    is_booted: bool,
    scratch: [u32; 16],
    smpt: [u32; SMPT_ENTRIES],
    /// Entries that the card has used since they were written.
    used: [bool; SMPT_ENTRIES],
    sicr: u32,
    /// The bits that the host has read from SICR0 and not acknowledged.
    seen: u32,
    sice: u32,
    mxar: u32,
    /// MSI-X pending bit: no further message before it is cleared (A steppings).
    pending: bool,
    message: bool,
    sdbic: [u32; DOORBELLS],
    apic: [u32; CARD_INTERRUPTS],
    apic_read: [bool; CARD_INTERRUPTS],
    processor: u32,
    interrupts: VecDeque<Interrupt>,
    dcr: u32,
    pub(crate) channels: Vec<Channel>,
    /// The counts of the DMA engine.
    pub done: Done,
    /// The errors of the host.
    pub complaints: Vec<String>,
    /// The accesses of the host.
    pub accesses: Accesses,
    /// How often it had drained gathered stores when it last had the card poll what it had
    /// stored.
    drains: u64,
    /// Resets so far.
    pub resets: u32,
}

impl Card {
    /// A card that something ran on before: its registers are not what a reset leaves.
    pub fn new(host: Rc<HostRam>, stepping: u32) -> Self {
        let mut scratch = [0; 16];
        scratch[2] = 0xdead_b000;
        scratch[14] = 0x1234_5000;
        scratch[13] = stepping << 4 | 11 << 12;
        Self {
            stepping,
            memory: Region::heap(MEMORY),
            host,
            faults: Faults::default(),
            is_master: false,
            now: 0,
            reset_at: None,
            is_booted: false,
            scratch,
            smpt: [0; SMPT_ENTRIES],
            used: [false; SMPT_ENTRIES],
            sicr: cause_doorbell(0),
            seen: 0,
            sice: CAUSES,
            mxar: 0,
            pending: false,
            message: false,
            sdbic: [7; DOORBELLS],
            apic: [0x31; CARD_INTERRUPTS],
            apic_read: [false; CARD_INTERRUPTS],
            processor: 0,
            interrupts: VecDeque::new(),
            dcr: 0,
            channels: vec![Channel::default(); CHANNELS],
            done: Done::default(),
            complaints: Vec::new(),
            accesses: Accesses::default(),
            drains: drains(),
            resets: 0,
        }
    }

    pub(crate) fn complain(&mut self, what: String) {
        self.complaints.push(what);
    }

    /// The host tells the card to look at what it has stored, so it must have drained its stores at
    /// least once since it last rang the card. That it drains after the last of them, the exact
    /// counts of drains in the tests of messages and copies say.
    pub(crate) fn must_be_drained(&mut self, what: &str) {
        if core::mem::replace(&mut self.drains, drains()) == drains() {
            self.complain(format!("{what}: stores are not drained before"));
        }
    }

    pub(crate) fn is_first_stepping(&self) -> bool {
        self.stepping == 0
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.faults.is_gone
    }

    pub(crate) fn is_enabled(&self, n: usize) -> bool {
        self.dcr & dcr_enable(n) != 0
    }

    /// Time passes: the firmware may get ready.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
        let is_due = self.reset_at.is_some_and(|at| now >= at + FIRMWARE_NS);
        let is_ready = self.scratch[2] & DOWNLOAD_READY != 0;
        if is_due && !is_ready && !self.is_booted && !self.faults.never_ready {
            if self.faults.failed_resets >= self.resets {
                return;
            }
            self.scratch[0] = (MEMORY as u32 >> 10) << 3;
            self.scratch[2] = LOAD | PROCESSOR << 1 | DOWNLOAD_READY;
            self.scratch[7] = 0x0203_0000 | 251;
            self.scratch[13] = self.stepping << 4 | 11 << 12;
        }
    }

    /// The card begins anew, because of the host or by itself.
    pub fn reset(&mut self) {
        self.resets += 1;
        self.reset_at = Some(self.now);
        self.is_booted = false;
        self.scratch = [0; 16];
        self.smpt = [0; SMPT_ENTRIES];
        self.used = [false; SMPT_ENTRIES];
        (self.sicr, self.seen, self.sice, self.mxar) = (0, 0, 0, 0);
        (self.pending, self.message) = (false, false);
        self.sdbic = [0; DOORBELLS];
        self.interrupts.clear();
        self.dcr = 0;
        self.channels.iter_mut().for_each(Channel::reset);
    }

    /// Whether something on the card may still write to the host's memory. A reset that was ordered
    /// is not one that has happened, and a card that does not answer may run nevertheless.
    pub fn may_write(&self) -> bool {
        self.is_master && (self.is_booted || self.settles())
    }

    fn settles(&self) -> bool {
        self.reset_at.is_some_and(|at| self.now < at + SETTLE_NS)
    }

    /// Whether a message has come to the host since it was asked.
    pub fn has_message(&mut self) -> bool {
        core::mem::take(&mut self.message)
    }

    /// Whether its processor was told to start what is loaded, and has not.
    pub fn is_about_to_start(&self) -> bool {
        self.interrupts.contains(&Interrupt::Boot)
    }

    /// The next interrupt of the card's processors.
    pub fn take_interrupt(&mut self) -> Option<Interrupt> {
        self.interrupts.pop_front()
    }

    /// The card rings the host.
    pub fn ring_host(&mut self, doorbell: usize, value: u32) {
        self.sdbic[doorbell] = SDBIC_REQUEST | value;
        self.raise(cause_doorbell(doorbell as u32));
    }

    /// A scratchpad, for the card's system.
    pub fn scratchpad(&self, n: usize) -> u32 {
        self.scratch[n]
    }

    /// A cause of interrupts is there.
    pub(crate) fn raise(&mut self, cause: u32) {
        self.sicr |= cause;
        self.signal();
    }

    fn signal(&mut self) {
        if self.sicr & self.sice & self.mxar != 0 && !self.pending && self.is_master {
            self.pending = self.is_first_stepping();
            self.message = true;
        }
    }

    /// The memory behind an address of the card.
    pub fn reach(&mut self, address: u64, bytes: usize) -> Option<Region> {
        let Some(within) = address.checked_sub(SMPT_WINDOW) else {
            return self.memory.part(usize::try_from(address).ok()?, bytes).ok();
        };
        if !self.is_master {
            return None;
        }
        let index = usize::try_from(within >> SMPT_SHIFT).ok()?;
        let entry = *self.smpt.get(index)?;
        self.used[index] = true;
        let page = u64::from(entry >> 2);
        let physical = (page << SMPT_SHIFT) + (within & ((1 << SMPT_SHIFT) - 1));
        self.host.window(physical, bytes)
    }

    fn post_code(&self) -> u32 {
        let code = match self.reset_at {
            None => *b"FF",
            Some(_) if self.is_booted => *b"FF",
            Some(_) if self.faults.failed_resets >= self.resets => *b"F2",
            Some(_) if self.scratch[2] & DOWNLOAD_READY != 0 => *b"12",
            Some(_) => *b"3C",
        };
        u32::from(u16::from_le_bytes(code))
    }

    /// The host may not touch registers now.
    fn is_settling(&mut self, offset: usize) -> bool {
        let settles = self.settles();
        if settles {
            self.complain(format!(
                "{offset:#x} is touched in the second after a reset"
            ));
        }
        settles
    }

    /// The host reads a register.
    pub fn read(&mut self, offset: usize) -> u32 {
        self.accesses.reads += 1;
        if self.is_gone() || self.is_settling(offset) {
            return ALL_ONES;
        }
        match offset {
            DOWNLOAD if self.faults.download.is_some() => self.faults.download.unwrap_or(0),
            SICR0 => {
                self.seen = self.sicr;
                self.sicr
            }
            SICE0 => self.sice,
            MXAR0 => self.mxar,
            RGCR | SIAC0 => 0,
            THERMAL_STATUS => 1 << 31 | 54 << 22,
            POSTCODE => self.post_code(),
            APICICR7_HIGH => self.processor,
            DCR => self.dcr,
            _ => self.read_indexed(offset),
        }
    }

    fn read_indexed(&mut self, offset: usize) -> u32 {
        if let Some(n) = index_of(offset, scratch(0), 4, 16) {
            return self.scratch[n];
        }
        if let Some(n) = index_of(offset, smpt(0), 4, SMPT_ENTRIES) {
            return self.smpt[n];
        }
        if let Some(n) = index_of(offset, sdbic(0), 4, DOORBELLS) {
            return self.sdbic[n];
        }
        if let Some(n) = index_of(offset, apicicr(0), 8, CARD_INTERRUPTS) {
            self.apic_read[n] = true;
            return self.apic[n];
        }
        if let Some((n, register)) = channel_of(offset) {
            return self.read_channel(n, register);
        }
        self.complain(format!("{offset:#x} is read: no register"));
        ALL_ONES
    }

    /// The host writes a register.
    pub fn write(&mut self, offset: usize, value: u32) {
        self.accesses.writes += 1;
        if self.is_gone() || self.is_settling(offset) {
            return;
        }
        match offset {
            SICR0 => {
                if value & !self.seen != 0 {
                    self.complain(format!("SICR0: {value:#x} clears what was not seen"));
                }
                self.sicr &= !value;
                self.seen = 0;
                if !self.is_first_stepping() {
                    // The trap of later steppings: acknowledging turns interrupts off.
                    self.sice &= !value;
                }
            }
            SICE0 if value & !CAUSES == 0 => {
                self.sice |= value;
                self.signal();
            }
            SICC0 if value & !CAUSES == 0 => self.sice &= !value,
            MXAR0 if value & !CAUSES == 0 => self.mxar = value,
            MSIXPBACR if value == 1 && self.is_first_stepping() => {
                self.pending = false;
                self.signal();
            }
            RGCR if value == RGCR_RESET => self.host_resets(),
            APICICR7 => self.start_image(value),
            APICICR7_HIGH => self.processor = value,
            DCR => self.write_dcr(value),
            _ => self.write_indexed(offset, value),
        }
    }

    fn write_indexed(&mut self, offset: usize, value: u32) {
        if let Some(n) = index_of(offset, scratch(0), 4, 16) {
            let is_hosts = matches!(offset, o if o == scratch(3) || o == scratch(5))
                || matches!(n, 14 | 15)
                || (offset == DOWNLOAD && value == 0);
            if is_hosts {
                self.scratch[n] = value;
                return;
            }
        } else if let Some(n) = index_of(offset, smpt(0), 4, SMPT_ENTRIES) {
            let is_bad = value & 3 != 0 || (self.used[n] && self.smpt[n] != value);
            if !is_bad {
                self.smpt[n] = value;
                return;
            }
        } else if let Some(n) = index_of(offset, sdbic(0), 4, DOORBELLS) {
            if value == 0 {
                self.sdbic[n] = 0;
                return;
            }
        } else if let Some(n) = index_of(offset, apicicr(0), 8, CARD_INTERRUPTS - 1) {
            if core::mem::take(&mut self.apic_read[n]) && value == self.apic[n] | ICR_SEND {
                // A system that is asked to end need not read anything.
                if n != SHUTDOWN_INTERRUPT {
                    self.must_be_drained("APICICR");
                }
                self.interrupts.push_back(Interrupt::Apic(n));
                return;
            }
        } else if let Some(n) = index_of(offset, rdmasr(0), 4, CARD_INTERRUPTS) {
            self.must_be_drained("RDMASR");
            self.interrupts.push_back(Interrupt::Rdma(n));
            return;
        } else if let Some((n, register)) = channel_of(offset) {
            return self.write_channel(n, register, value);
        }
        self.complain(format!("{offset:#x} may not be set to {value:#x}"));
    }

    fn host_resets(&mut self) {
        let is_prepared = self.scratch[2] == 0 && self.scratch[14] == 0 && self.sdbic[1] == 0;
        if !is_prepared || self.sice != 0 {
            self.complain("reset without clearing SCRATCH2, SCRATCH14, SDBIC1, SICE0".into());
        }
        self.reset();
    }

    fn start_image(&mut self, value: u32) {
        let is_ready = self.scratch[2] & DOWNLOAD_READY != 0 && !self.is_booted;
        let is_right = value == BOOT_VECTOR | ICR_SEND
            && self.processor == boot_processor(self.scratch[2])
            && self.scratch[5] != 0;
        if is_ready && is_right {
            self.must_be_drained("APICICR7");
            self.is_booted = true;
            self.scratch[2] &= DOWNLOAD_ADDRESS;
            self.interrupts.push_back(Interrupt::Boot);
        } else {
            self.complain(format!(
                "APICICR7: {value:#x}, but the image cannot be started"
            ));
        }
    }

    fn write_dcr(&mut self, value: u32) {
        let own = (0..HOST_CHANNELS).fold(0, |bits, n| bits | dcr_owner(n) | dcr_enable(n));
        if (value ^ self.dcr) & !own != 0 {
            self.complain(format!("DCR: {value:#x} changes channels of the card"));
            return;
        }
        for n in 0..HOST_CHANNELS {
            if value & dcr_enable(n) == 0 && self.is_busy(n) {
                // It is not known whether the copy under way still arrives.
                self.complain(format!("DCR: channel {n} is turned off while it works"));
            }
            if value & dcr_enable(n) == 0 {
                self.channels[n].disable();
            } else if value & dcr_owner(n) == 0 {
                self.complain(format!("DCR: channel {n} works without an owner"));
            }
        }
        self.dcr = value;
    }

    /// The size of the image, for the firmware.
    pub fn image_bytes(&self) -> u32 {
        self.scratch[5]
    }
}

/// The index of a register in a row of them.
fn index_of(offset: usize, first: usize, step: usize, count: usize) -> Option<usize> {
    let distance = offset.checked_sub(first)?;
    (distance.is_multiple_of(step) && distance / step < count).then(|| distance / step)
}

/// The channel of the host's and the register in it.
fn channel_of(offset: usize) -> Option<(usize, usize)> {
    let distance = offset.checked_sub(channel(0, 0))?;
    let n = distance / 0x40;
    (n < HOST_CHANNELS && offset.is_multiple_of(4)).then_some((n, distance % 0x40))
}
