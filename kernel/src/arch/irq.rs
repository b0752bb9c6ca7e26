//! The handlers of interrupts, by number.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::apic;
use super::vector::{CALL, COUNT, FIRST_VECTOR, LEGACY_END, SPURIOUS};

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
