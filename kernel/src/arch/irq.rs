//! Interrupts by number: vector = number + 32, numbers 0..224. 0..16 are the legacy lines.

/// Numbers the irq scheme may use: 0..224.
pub const COUNT: u8 = 224;

/// Called for an interrupt, with its number, from the handler: must not block.
pub type Handler = fn(u8);

/// Sets the handler for all interrupts the kernel does not consume itself (the irq scheme's).
pub fn set_default_handler(handler: Handler) {
    let _ = handler;
}

/// Sets the handler of one interrupt; the kernel consumes it from now on.
pub fn register(irq: u8, handler: Handler) {
    let _ = (irq, handler);
}

/// Whether the kernel consumes this number itself (0, 1, 2, 3, 4, 12, its IPIs, spurious).
pub fn is_reserved(irq: u8) -> bool {
    irq < 16 || irq >= 223
}

/// Masks a legacy line (0..16). The kernel does so itself when a legacy interrupt arrives that has
/// no handler of its own.
pub fn mask(irq: u8) {
    let _ = irq;
}

/// Unmasks a legacy line.
pub fn unmask(irq: u8) {
    let _ = irq;
}
