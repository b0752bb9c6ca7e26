//! Interrupts by number: vector = number + 32, numbers 0..224. 0..16 are the legacy lines.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::apic;

/// Numbers that the irq scheme may use: 0..224.
pub const COUNT: u8 = 224;
/// The local timer's number: that of the machine's own timer, which is not used.
pub const TIMER: u8 = 0;
/// First number that is not a legacy line.
const LEGACY_END: u8 = 16;
/// The local APIC delivers this when an interrupt vanished; it is not acknowledged.
pub const SPURIOUS: u8 = 223;
/// Another processor sends this to bring this one into the kernel; it has no other effect.
pub const CALL: u8 = 222;
/// Vector of number 0.
pub const FIRST_VECTOR: u8 = 32;

/// Called for an interrupt, with its number, from the handler: must not block.
pub type Handler = fn(u8);

/// Handler addresses by number, 0 = none.
static HANDLERS: [AtomicUsize; COUNT as usize] = [const { AtomicUsize::new(0) }; COUNT as usize];
static DEFAULT: AtomicUsize = AtomicUsize::new(0);

fn load(slot: &AtomicUsize) -> Option<Handler> {
    match slot.load(Ordering::Acquire) {
        0 => None,
        // SAFETY: only `Handler` values are ever stored (see the two setters).
        address => Some(unsafe { core::mem::transmute::<usize, Handler>(address) }),
    }
}

/// Sets the handler for all interrupts that the kernel does not consume itself (the irq scheme's).
pub fn set_default_handler(handler: Handler) {
    DEFAULT.store(handler as usize, Ordering::Release);
}

/// Sets the handler of one interrupt, which the kernel consumes from now on.
pub fn register(irq: u8, handler: Handler) {
    HANDLERS[usize::from(irq)].store(handler as usize, Ordering::Release);
}

/// Whether the kernel consumes this number itself (0, 1, 2, 3, 4, 12, call, spurious), or it is a
/// legacy line: such numbers cannot be allocated as message-signalled vectors.
pub fn is_reserved(irq: u8) -> bool {
    !(LEGACY_END..CALL).contains(&irq)
}

/// Masks a legacy line (0..16). The kernel does so itself when a legacy interrupt without a
/// handler of its own arrives.
pub fn mask(irq: u8) {
    if irq < LEGACY_END {
        apic::set_masked(irq, true);
    }
}

/// Unmasks a legacy line.
pub fn unmask(irq: u8) {
    if irq < LEGACY_END {
        apic::set_masked(irq, false);
    }
}

/// Handles an interrupt vector (32..256).
pub(super) fn dispatch(vector: u8) {
    let irq = vector - FIRST_VECTOR;
    if irq == SPURIOUS {
        return;
    }
    if irq == CALL {
        apic::end_of_interrupt();
        return;
    }
    if let Some(handler) = load(&HANDLERS[usize::from(irq)]) {
        handler(irq);
    } else {
        // A level line would come again at once: it stays masked until its driver has finished.
        mask(irq);
        if let Some(handler) = load(&DEFAULT) {
            handler(irq);
        }
    }
    apic::end_of_interrupt();
}
