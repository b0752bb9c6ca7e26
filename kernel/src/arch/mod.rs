//! The processor and its companions: descriptor tables, interrupts, system call entry, power.

pub mod irq;
pub mod power;
pub mod port;

/// The CPU id interrupts are sent to, as `irq/bsp` tells it (logical id; equals the APIC id).
pub fn bsp_id() -> u32 {
    0
}

/// Number of processors that run.
pub fn cpu_count() -> usize {
    1
}
