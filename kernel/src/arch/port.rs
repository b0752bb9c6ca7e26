//! Port input and output.

use x86_64::instructions::port::Port;

/// Reads a byte from a port.
pub(crate) fn read8(port: u16) -> u8 {
    // SAFETY: the callers (in `arch`, the console, and `serio`) know their device.
    unsafe { Port::new(port).read() }
}

/// Writes a byte to a port.
pub(crate) fn write8(port: u16, value: u8) {
    // SAFETY: as above.
    unsafe { Port::new(port).write(value) }
}

/// Reads 16 bits from a port.
pub(crate) fn read16(port: u16) -> u16 {
    // SAFETY: as above.
    unsafe { Port::new(port).read() }
}

/// Reads 32 bits from a port.
pub(crate) fn read32(port: u16) -> u32 {
    // SAFETY: as above.
    unsafe { Port::new(port).read() }
}

/// Writes 16 bits to a port.
pub(crate) fn write16(port: u16, value: u16) {
    // SAFETY: as above.
    unsafe { Port::new(port).write(value) }
}
