//! Timers of known speed for calibrating the other clocks, and short waits by polling: the
//! programmable interval timer (8254), or ACPI's power management timer on machines whose firmware
//! stopped the former.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel_core::calibration;
use spin::Once;

use super::port;

const CHANNEL_2: u16 = 0x42;
const MODE: u16 = 0x43;
/// Gate, speaker and output of channel 2.
const CONTROL: u16 = 0x61;
const GATE: u8 = 1 << 0;
const SPEAKER: u8 = 1 << 1;
const OUTPUT: u8 = 1 << 5;
const FREQUENCY: u64 = 1_193_182;
/// Channel 2, both bytes, interrupt on terminal count.
const ONE_SHOT: u8 = 0b1011_0000;
/// Channel 2, both bytes, counts down repeatedly.
const PERIODIC: u8 = 0b1011_0100;
/// Latches the count of channel 2 until it is read.
const LATCH: u8 = 0b1000_0000;

/// Ticks per second of ACPI's timer, and the bits that each such timer counts (ACPI specification
/// 6.5, section 4.8.3.3).
const ACPI_FREQUENCY: u64 = 3_579_545;
const ACPI_BITS: u32 = 0x00FF_FFFF;

/// Longest wait, in milliseconds: the limit of the interval timer's 16 bits.
const LONGEST_MS: u64 = 54;
/// Polls after which a timer counts as dead: no port is read in less than 0.1 µs, so this is
/// longer than any wait.
const MAX_POLLS: u32 = 1_000_000;

/// Whether the interval timer did not count.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// Port of ACPI's timer.
static ACPI_TIMER: Once<u16> = Once::new();

/// A timer of known speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruler {
    /// The 8254.
    Interval,
    /// ACPI's timer at this port.
    Acpi(u16),
}

/// Records the port of ACPI's timer. Called once.
pub(super) fn set_acpi_timer(port: u16) {
    ACPI_TIMER.call_once(|| port);
}

/// Waits some milliseconds (at most 54) by polling. Returns the timer that was polled; `None` when
/// no timer counts, and the time that passed is unknown. The first wait finds the timer and may
/// take longer.
pub fn wait_ms(ms: u64) -> Option<Ruler> {
    let ms = ms.min(LONGEST_MS);
    if !STOPPED.load(Ordering::Relaxed) {
        if wait_interval(ms) {
            return Some(Ruler::Interval);
        }
        STOPPED.store(true, Ordering::Relaxed);
    }
    let port = *ACPI_TIMER.get()?;
    wait_acpi(port, ms).then_some(Ruler::Acpi(port))
}

impl Ruler {
    /// A timer that can be read and counts: ACPI's timer, which takes one access to read, or
    /// otherwise the interval timer, which is started here.
    pub fn find() -> Option<Self> {
        let acpi = ACPI_TIMER.get().map(|&port| Self::Acpi(port));
        let counts = |ruler: &Self| {
            let first = ruler.read();
            (0..MAX_POLLS).any(|_| ruler.read() != first)
        };
        acpi.filter(counts).or_else(|| {
            let control = port::read8(CONTROL) & !(GATE | SPEAKER);
            port::write8(CONTROL, control);
            port::write8(MODE, PERIODIC);
            // 65536.
            port::write8(CHANNEL_2, 0);
            port::write8(CHANNEL_2, 0);
            port::write8(CONTROL, control | GATE);
            Some(Self::Interval).filter(counts)
        })
    }

    /// The frequency and width of the timer.
    pub fn speed(&self) -> calibration::Ruler {
        match self {
            Self::Interval => calibration::Ruler {
                frequency: FREQUENCY,
                mask: 0xFFFF,
            },
            Self::Acpi(_) => calibration::Ruler {
                frequency: ACPI_FREQUENCY,
                mask: ACPI_BITS,
            },
        }
    }

    /// The count, in ascending order.
    pub fn read(&self) -> u32 {
        match self {
            Self::Acpi(port) => port::read32(*port),
            Self::Interval => {
                port::write8(MODE, LATCH);
                let low = port::read8(CHANNEL_2);
                let high = port::read8(CHANNEL_2);
                0_u32.wrapping_sub(u16::from_le_bytes([low, high]).into())
            }
        }
    }
}

/// Whether the interval timer counted that far.
fn wait_interval(ms: u64) -> bool {
    let count = (FREQUENCY * ms / 1000) as u16;
    let control = port::read8(CONTROL) & !(GATE | SPEAKER);
    port::write8(CONTROL, control);
    port::write8(MODE, ONE_SHOT);
    port::write8(CHANNEL_2, count as u8);
    port::write8(CHANNEL_2, (count >> 8) as u8);
    port::write8(CONTROL, control | GATE);
    for _ in 0..MAX_POLLS {
        let control = port::read8(CONTROL);
        if control & (GATE | SPEAKER) != GATE {
            // This is not the value that was written: there is no timer, and the output has no
            // meaning.
            return false;
        }
        if control & OUTPUT != 0 {
            return true;
        }
    }
    false
}

/// Whether ACPI's timer counted that far.
fn wait_acpi(port: u16, ms: u64) -> bool {
    let ticks = (ACPI_FREQUENCY * ms / 1000) as u32;
    let start = port::read32(port);
    (0..MAX_POLLS).any(|_| port::read32(port).wrapping_sub(start) & ACPI_BITS >= ticks)
}
