//! The processor and the devices around it: descriptor tables, interrupts, system call entry,
//! power.

pub mod acpi;
pub(crate) mod apic;
pub(crate) mod cpu;
mod entry;
mod exception;
mod fpu;
mod frame;
pub(crate) mod framebuffer;
mod handlers;
pub mod irq;
pub(crate) mod machine;
pub(crate) mod pit;
pub(crate) mod port;
pub mod power;
pub(crate) mod rtc;
pub(crate) mod smp;
mod start;
pub mod vector;

pub(crate) use exception::quiesce;
pub(crate) use frame::Frame;
pub(crate) use handlers::{Exception, Handlers, PAGE_FAULT, init_handlers};
pub(crate) use start::start_others;

/// Sets up descriptor tables, control bits and floating point of the boot processor.
pub fn init_cpu() {
    cpu::init();
    smp::init();
    entry::init();
    fpu::init();
}

/// Sets up the interrupt controllers, wired as ACPI describes; every line is masked.
pub fn init_interrupts(rsdp: Option<u64>) {
    // By now there is a heap, so the log keeps the line.
    cpu::log_guards();
    apic::silence_legacy_controllers();
    apic::init_local();
    acpi::init(rsdp);
}

/// The CPU id to which interrupts are sent, for `irq/bsp` (logical id; equals the APIC id).
pub fn bsp_id() -> u32 {
    apic::boot_id()
}

/// Number of running processors.
pub fn cpu_count() -> usize {
    smp::online().count_ones() as usize
}

/// Lines about the processor, for `sys/cpu`.
pub fn cpu_info() -> alloc::string::String {
    alloc::format!("Model: {}\n", cpu_model())
}

fn cpu_model() -> alloc::string::String {
    use core::arch::x86_64::__cpuid;
    const FIRST: u32 = 0x8000_0002;
    if __cpuid(0x8000_0000).eax < FIRST + 2 {
        return alloc::string::String::from("unknown");
    }
    let mut bytes = alloc::vec::Vec::new();
    for leaf in FIRST..FIRST + 3 {
        let part = __cpuid(leaf);
        for register in [part.eax, part.ebx, part.ecx, part.edx] {
            bytes.extend(register.to_le_bytes());
        }
    }
    let text: alloc::string::String = bytes
        .into_iter()
        .take_while(|&b| b != 0)
        .map(char::from)
        .collect();
    text.trim().into()
}
