//! The numbers of interrupts: vector = number + 32, numbers 0..224. 0..16 are the legacy lines.

/// Numbers that the irq scheme may use: 0..224.
pub const COUNT: u8 = 224;
/// The local timer's number: that of the machine's own timer, which is not used.
pub const TIMER: u8 = 0;
/// First number that is not a legacy line.
pub const LEGACY_END: u8 = 16;
/// The local APIC delivers this when an interrupt vanished; it is not acknowledged.
pub const SPURIOUS: u8 = 223;
/// Another processor sends this to bring this one into the kernel; it has no other effect.
pub const CALL: u8 = 222;
/// Vector of number 0.
pub const FIRST_VECTOR: u8 = 32;
