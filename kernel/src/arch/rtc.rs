//! The CMOS clock, read once at boot.

use kernel_core::calendar::DateTime;

use super::port;

const ADDRESS: u16 = 0x70;
const DATA: u16 = 0x71;
/// Seconds, minutes, hours, day of month, month, year.
const REGISTERS: [u8; 6] = [0, 2, 4, 7, 8, 9];
const STATUS_A: u8 = 0x0A;
const STATUS_B: u8 = 0x0B;
const UPDATING: u8 = 0x80;
const BINARY: u8 = 4;
const HOURS_24: u8 = 2;

fn read(register: u8) -> u8 {
    port::write8(ADDRESS, register);
    port::read8(DATA)
}

/// Seconds since 1970; 0 when the clock's values are invalid.
pub fn seconds() -> u64 {
    let mut last = [0xFF; 6];
    // Two equal consecutive readings were not torn by an update.
    for _ in 0..1000 {
        if read(STATUS_A) & UPDATING != 0 {
            continue;
        }
        let now = REGISTERS.map(read);
        if now == last {
            break;
        }
        last = now;
    }
    let status = read(STATUS_B);
    let date = DateTime::from_registers(last, status & BINARY != 0, status & HOURS_24 != 0);
    date.unix_seconds().unwrap_or_else(|| {
        log::warn!("the CMOS clock shows no valid date: {date:?}");
        0
    })
}
