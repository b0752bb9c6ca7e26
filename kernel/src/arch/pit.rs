//! The programmable interval timer, used only as a ruler for the other clocks.

use super::port;

const CHANNEL_2: u16 = 0x42;
const MODE: u16 = 0x43;
/// Gate (bit 0), speaker (bit 1) and output (bit 5) of channel 2.
const CONTROL: u16 = 0x61;
const FREQUENCY: u64 = 1_193_182;
/// Channel 2, both bytes, interrupt on terminal count.
const ONE_SHOT: u8 = 0b1011_0000;
/// Polls after which the timer is taken for dead.
const PATIENCE: u32 = 100_000_000;

/// Waits some milliseconds (at most 54) by polling.
pub fn wait_ms(ms: u64) {
    let count = (FREQUENCY * ms / 1000).min(0xFFFF) as u16;
    let control = port::read8(CONTROL) & !0b11;
    port::write8(CONTROL, control);
    port::write8(MODE, ONE_SHOT);
    port::write8(CHANNEL_2, count as u8);
    port::write8(CHANNEL_2, (count >> 8) as u8);
    port::write8(CONTROL, control | 1);
    for _ in 0..PATIENCE {
        if port::read8(CONTROL) & 0x20 != 0 {
            return;
        }
    }
    log::error!("the interval timer does not count: clocks will be wrong");
}
