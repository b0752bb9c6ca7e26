//! The DMA channels of the model: descriptors are fetched from the ring in the host's memory and
//! executed one at a time, when the test says so.

use micd::x100::registers::{
    ADDRESS, DCAR, DCAR_MASK_HOST, DCHERR, DCHERRMSK, DESCRIPTOR_BYTES, DHPR, DMA_ALIGN, DRAR_HIGH,
    DRAR_LOW, DSTAT, DSTAT_COUNT, DSTAT_QUIESCED, DSTATWB_ERROR, DSTATWB_HIGH, DSTATWB_LOW, DTPR,
    HOST_COPY_BYTES, LENGTH_SHIFT, SMPT_SHIFT, SMPT_WINDOW, STATUS_INTERRUPT, TYPE_COPY,
    TYPE_SHIFT, TYPE_STATUS, cause_dma,
};

use crate::card::Card;

/// Bit of DCAR: an interrupt was raised and not acknowledged.
const DCAR_PENDING: u32 = 1 << 26;

/// Why a channel stops: the value of DCHERR. The numbers are the model's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Fault {
    /// The same head twice: the engine takes the whole ring for filled.
    DoubleHead = 1 << 0,
    /// Addresses or length are no multiples of 64, or the length is 0.
    Alignment = 1 << 1,
    /// More than a channel of the host may copy at once.
    Length = 1 << 2,
    /// An address leads nowhere, or both are in the host.
    Address = 1 << 3,
    /// An unknown descriptor.
    Type = 1 << 4,
    /// The test said so.
    Injected = 1 << 5,
}

/// One channel.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    dcar: u32,
    dhpr: u32,
    dtpr: u32,
    drar_low: u32,
    drar_high: u32,
    write_back: [u32; 2],
    dcherr: u32,
    mask: u32,
    /// Unmasked and not read back since.
    wants_read_back: bool,
    /// Masked, and not read back since.
    is_mask_new: bool,
    /// The last descriptor executed, if it was a status without interrupt.
    plain: Option<[u64; 2]>,
}

/// The counts of the channels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Done {
    /// Descriptors.
    pub descriptors: u64,
    /// Bytes moved by copies.
    pub bytes: u64,
    /// Interrupts that were lost, as their status descriptor did not follow one without.
    pub lost_interrupts: u64,
    /// Times a channel stopped because of a wrong command.
    pub faults: u64,
    /// Times a channel stopped because the test said so.
    pub injected: u64,
}

impl Channel {
    fn ring(&self) -> u32 {
        self.drar_high >> 4 & 0x1_ffff
    }

    fn ring_at(&self) -> u64 {
        let entry = u64::from(self.drar_high >> 21 & 0x1f);
        let within = u64::from(self.drar_high & 0x3) << 32 | u64::from(self.drar_low);
        SMPT_WINDOW + (entry << SMPT_SHIFT) + within
    }

    /// The state after a reset.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The channel is turned off.
    pub fn disable(&mut self) {
        self.dcherr = 0;
    }
}

impl Card {
    fn dstat(&self, n: usize) -> u32 {
        let channel = &self.channels[n];
        let count = match self.is_first_stepping() {
            true => 0,
            false => channel.dtpr & DSTAT_COUNT,
        };
        match channel.dcherr {
            0 => count,
            _ => count | DSTAT_QUIESCED,
        }
    }

    /// The host reads a register of a channel.
    pub(crate) fn read_channel(&mut self, n: usize, register: usize) -> u32 {
        let dstat = self.dstat(n);
        let is_dead = self.faults.dead_channels && self.is_enabled(n);
        let channel = &mut self.channels[n];
        match register {
            DCAR => {
                channel.wants_read_back = false;
                channel.is_mask_new = false;
                channel.dcar
            }
            DHPR => channel.dhpr,
            DTPR => channel.dtpr,
            DSTAT => dstat,
            DCHERR if is_dead => Fault::Injected as u32,
            DCHERR => channel.dcherr,
            _ => {
                self.complain(format!("channel {n}: register {register:#x} is read"));
                0
            }
        }
    }

    /// The host writes one.
    pub(crate) fn write_channel(&mut self, n: usize, register: usize, value: u32) {
        let (is_enabled, is_first) = (self.is_enabled(n), self.is_first_stepping());
        let channel = &mut self.channels[n];
        if channel.wants_read_back && register != DCAR {
            self.complain(format!(
                "channel {n}: DCAR was not read back after unmasking"
            ));
            return;
        }
        let needs_disabled = matches!(
            register,
            DRAR_LOW | DRAR_HIGH | DSTATWB_LOW | DSTATWB_HIGH | DCHERRMSK
        );
        if needs_disabled && is_enabled {
            self.complain(format!(
                "channel {n}: {register:#x} is written while it works"
            ));
            return;
        }
        match register {
            DCAR => {
                let changed = (value ^ channel.dcar) & !DCAR_PENDING;
                if changed & !DCAR_MASK_HOST != 0 {
                    self.complain(format!("channel {n}: DCAR is set to {value:#x}"));
                    return;
                }
                let is_unmasked = channel.dcar & DCAR_MASK_HOST != 0 && value & DCAR_MASK_HOST == 0;
                if is_unmasked && channel.is_mask_new {
                    self.complain(format!("channel {n}: DCAR was not read back after masking"));
                    return;
                }
                channel.wants_read_back |= is_unmasked;
                channel.is_mask_new = value & DCAR_MASK_HOST != 0;
                let pending = channel.dcar & DCAR_PENDING;
                channel.dcar = value & DCAR_MASK_HOST;
                if value & DCAR_MASK_HOST == 0 {
                    channel.dcar |= pending;
                }
            }
            DHPR => self.write_head(n, value, is_enabled),
            DRAR_LOW if value.is_multiple_of(64) => channel.drar_low = value,
            DRAR_HIGH => {
                channel.drar_high = value;
                let size = channel.ring();
                if size == 0 || !size.is_multiple_of(64) {
                    self.complain(format!("channel {n}: a ring of {size} descriptors"));
                }
            }
            DSTATWB_LOW if !is_first => channel.write_back[0] = value,
            DSTATWB_HIGH if !is_first => channel.write_back[1] = value,
            DCHERRMSK if !is_first => channel.mask = value,
            _ => self.complain(format!("channel {n}: {register:#x} is set to {value:#x}")),
        }
    }

    fn write_head(&mut self, n: usize, value: u32, is_enabled: bool) {
        let channel = &mut self.channels[n];
        if !is_enabled || value >= channel.ring() {
            self.complain(format!(
                "channel {n}: the head is set to {value} out of place"
            ));
        } else if value == channel.dhpr {
            self.complain(format!("channel {n}: the head {value} is written twice"));
            self.stop(n, Fault::DoubleHead);
        } else {
            // One slot stays empty: a head that has caught up with the tail is an empty ring.
            let size = channel.ring();
            let behind = |from: u32, to: u32| (to + size - from) % size;
            if behind(channel.dtpr, channel.dhpr) + behind(channel.dhpr, value) >= size {
                let tail = channel.dtpr;
                self.complain(format!(
                    "channel {n}: the head {value} passes the tail {tail}"
                ));
                return;
            }
            channel.dhpr = value;
            self.must_be_drained("DHPR");
        }
    }

    /// Whether a channel has something to do.
    pub fn is_busy(&self, n: usize) -> bool {
        let channel = &self.channels[n];
        self.is_enabled(n) && channel.dcherr == 0 && channel.dhpr != channel.dtpr
    }

    /// Executes one descriptor of a channel; whether there was one.
    pub fn run_channel(&mut self, n: usize) -> bool {
        if !self.is_busy(n) || self.is_gone() {
            return false;
        }
        let channel = &self.channels[n];
        let place = channel.ring_at() + u64::from(channel.dtpr) * DESCRIPTOR_BYTES as u64;
        let words = self
            .reach(place, DESCRIPTOR_BYTES)
            .and_then(|region| Some([region.read(0).ok()?, region.read(8).ok()?]));
        let Some(words) = words else {
            self.stop(n, Fault::Address);
            return true;
        };
        if self.faults.dma_errors > 0 && words[1] >> TYPE_SHIFT == TYPE_COPY {
            self.faults.dma_errors -= 1;
            self.stop(n, Fault::Injected);
            return true;
        }
        if self.faults.status_errors > 0 && words[1] >> TYPE_SHIFT == TYPE_STATUS {
            self.faults.status_errors -= 1;
            self.stop(n, Fault::Injected);
            return true;
        }
        if let Err(fault) = self.execute(n, words) {
            self.stop(n, fault);
            return true;
        }
        let channel = &mut self.channels[n];
        channel.dtpr = (channel.dtpr + 1) % channel.ring();
        self.done.descriptors += 1;
        let status = self.dstat(n);
        self.write_status_back(n, status);
        true
    }

    fn execute(&mut self, n: usize, words: [u64; 2]) -> Result<(), Fault> {
        let plain = self.channels[n].plain.take();
        let to = words[1] & ADDRESS;
        match words[1] >> TYPE_SHIFT {
            0 if words == [0, 0] => Ok(()),
            TYPE_COPY => self.copy(words[0], words[1]),
            TYPE_STATUS => {
                let known = TYPE_STATUS << TYPE_SHIFT | STATUS_INTERRUPT | ADDRESS;
                if words[1] & !known != 0 || !to.is_multiple_of(8) {
                    return Err(Fault::Type);
                }
                let region = self.reach(to, 8).ok_or(Fault::Address)?;
                region
                    .store_release_u64(0, words[0])
                    .map_err(|_| Fault::Address)?;
                if words[1] & STATUS_INTERRUPT == 0 {
                    self.channels[n].plain = Some(words);
                } else if plain == Some([words[0], words[1] & !STATUS_INTERRUPT]) {
                    self.interrupt(n);
                } else {
                    self.done.lost_interrupts += 1;
                }
                Ok(())
            }
            _ => Err(Fault::Type),
        }
    }

    fn copy(&mut self, low: u64, high: u64) -> Result<(), Fault> {
        let (from, to) = (low & ADDRESS, high & ADDRESS);
        let bytes = (low >> LENGTH_SHIFT & 0x3fff) * DMA_ALIGN;
        let known_low = ADDRESS | 0x3fff << LENGTH_SHIFT;
        if low & !known_low != 0 || high & !(TYPE_COPY << TYPE_SHIFT | ADDRESS) != 0 {
            return Err(Fault::Type);
        }
        if bytes == 0 || !from.is_multiple_of(DMA_ALIGN) || !to.is_multiple_of(DMA_ALIGN) {
            return Err(Fault::Alignment);
        }
        if bytes > u64::from(HOST_COPY_BYTES) {
            return Err(Fault::Length);
        }
        if from >= SMPT_WINDOW && to >= SMPT_WINDOW {
            return Err(Fault::Address);
        }
        let from = self.reach(from, bytes as usize).ok_or(Fault::Address)?;
        let to = self.reach(to, bytes as usize).ok_or(Fault::Address)?;
        to.copy_from(0, &from, 0, bytes as usize)
            .map_err(|_| Fault::Address)?;
        self.done.bytes += bytes;
        Ok(())
    }

    fn interrupt(&mut self, n: usize) {
        let channel = &mut self.channels[n];
        if channel.dcar & (DCAR_MASK_HOST | DCAR_PENDING) == 0 {
            channel.dcar |= DCAR_PENDING;
            self.raise(cause_dma(n));
        }
    }

    fn stop(&mut self, n: usize, fault: Fault) {
        self.channels[n].dcherr = fault as u32;
        match fault {
            Fault::Injected => self.done.injected += 1,
            _ => self.done.faults += 1,
        }
        let status = self.dstat(n) | DSTATWB_ERROR;
        self.write_status_back(n, status);
    }

    fn write_status_back(&mut self, n: usize, status: u32) {
        let [low, high] = self.channels[n].write_back;
        let place = u64::from(high) << 32 | u64::from(low);
        if place != 0
            && let Some(word) = self.reach(place, 4)
        {
            // Cannot fail: a word of four bytes, whose alignment DSTATWB has.
            let stored = word.store_release_u32(0, status);
            assert!(stored.is_ok(), "DSTATWB is {place:#x}");
        }
    }
}
