//! Switches the machine off, and resets it.

use acpi::address::{AddressSpace, GenericAddress};
use acpi::sdt::fadt::Fadt;
use kernel_core::acpi_power::{SCI_ENABLED, enable_request, sleep_types_s5, sleep_word};
use spin::Once;

use super::{cpu, pit, port, smp};
use crate::mm::phys;

/// The registers for soft-off and reset, from the ACPI fixed table.
#[derive(Clone, Copy, Debug, Default)]
struct Registers {
    /// PM1a and PM1b control ports, with the sleep type that means off.
    off: [Option<(u16, u8)>; 2],
    /// The request to the firmware to hand over power management: port and value.
    enable: Option<(u16, u8)>,
    /// Reset register and its value.
    reset: Option<(Reset, u8)>,
}

/// The place of the reset register.
#[derive(Clone, Copy, Debug)]
enum Reset {
    Port(u16),
    /// A physical address that is mapped.
    Memory(usize),
}

static REGISTERS: Once<Registers> = Once::new();

/// Waits of 10 ms that the firmware may take to hand over power management.
const ENABLE_WAITS: usize = 300;
/// Waits of 50 ms that the machine may take to go off. Hardware goes off at once; an emulator only
/// records the request, and the guest continues until a thread of the emulator gets a processor.
const OFF_WAITS: usize = 100;
const KEYBOARD_COMMAND: u16 = 0x64;
const KEYBOARD_PULSE_RESET: u8 = 0xFE;
const PCI_RESET: u16 = 0xCF9;
/// QEMU's isa-debug-exit: a byte written here ends QEMU with status 2n + 1.
const DEBUG_EXIT: u16 = 0xF4;
/// The byte that a panic writes there.
const PANIC_CODE: u8 = 0x31;

/// The port of a register in I/O space.
pub(super) fn io_port(register: GenericAddress) -> Option<u16> {
    let port = u16::try_from(register.address).ok()?;
    (register.address_space == AddressSpace::SystemIo && port != 0).then_some(port)
}

/// Records the registers. `dsdt` holds the sleep types of state S5.
pub(super) fn init(fadt: &Fadt, dsdt: &[u8]) {
    let (type_a, type_b) = sleep_types_s5(dsdt).unwrap_or_else(|| {
        log::warn!("no _S5_ in the DSDT: power-off uses sleep type 0");
        (0, 0)
    });
    let flags = fadt.flags;
    if flags.system_is_hw_reduced_acpi() {
        log::warn!("hardware-reduced ACPI has no PM1 registers: power-off will have no effect");
    }
    let control = |register: Option<GenericAddress>, sleep_type: u8| {
        Some((register.and_then(io_port)?, sleep_type))
    };
    let reset = match fadt.reset_register() {
        Ok(register) if flags.supports_system_reset_via_fadt() => reset_place(register),
        _ => None,
    };
    REGISTERS.call_once(|| Registers {
        off: [
            control(fadt.pm1a_control_block().ok(), type_a),
            control(fadt.pm1b_control_block().ok().flatten(), type_b),
        ],
        enable: enable_request(fadt.smi_cmd_port, fadt.acpi_enable),
        reset: reset.map(|place| (place, fadt.reset_value)),
    });
}

/// The place of a reset register, if it can be written.
fn reset_place(register: GenericAddress) -> Option<Reset> {
    let address = usize::try_from(register.address).ok()?;
    let place = match register.address_space {
        AddressSpace::SystemIo => io_port(register).map(Reset::Port),
        AddressSpace::SystemMemory => {
            (address != 0 && phys::is_mapped(address, 1)).then_some(Reset::Memory(address))
        }
        _ => None,
    };
    if place.is_none() {
        let space = register.address_space;
        log::warn!("ACPI's reset register is not used: {space:?} {address:#x}");
    }
    place
}

/// Powers off through ACPI. If that fails, logs it and halts.
pub fn shutdown() -> ! {
    x86_64::instructions::interrupts::disable();
    smp::stop_others();
    let registers = REGISTERS.get().copied().unwrap_or_default();
    if let (Some((control, _)), Some(request)) = (registers.off[0], registers.enable) {
        take_power_management(control, request);
    }
    for (port, sleep_type) in registers.off.into_iter().flatten() {
        port::write16(port, sleep_word(port::read16(port), sleep_type));
    }
    match registers.off {
        [None, None] => log::error!("ACPI names no register to power off"),
        _ => {
            for _ in 0..OFF_WAITS {
                pit::wait_ms(50);
            }
            log::error!("power-off through ACPI had no effect");
        }
    }
    log::error!("the machine is halted, turn it off");
    cpu::halt()
}

/// Asks the firmware to hand over power management, unless it has: before that it may ignore the
/// registers.
fn take_power_management(control: u16, (port, value): (u16, u8)) {
    let is_ours = || port::read16(control) & SCI_ENABLED != 0;
    if is_ours() {
        return;
    }
    port::write8(port, value);
    for _ in 0..ENABLE_WAITS {
        if is_ours() {
            return;
        }
        pit::wait_ms(10);
    }
    let now = port::read16(control);
    log::warn!("the firmware keeps power management: PM1 control (port {control:#x}) is {now:#x}");
}

/// Resets the machine.
pub fn reset() -> ! {
    x86_64::instructions::interrupts::disable();
    smp::stop_others();
    if let Some((place, value)) = REGISTERS.get().and_then(|registers| registers.reset) {
        match place {
            Reset::Port(port) => port::write8(port, value),
            Reset::Memory(address) => phys::write(address, &[value]),
        }
        pit::wait_ms(50);
    }
    // System reset, then full reset.
    port::write8(PCI_RESET, 0x02);
    port::write8(PCI_RESET, 0x06);
    pit::wait_ms(50);
    port::write8(KEYBOARD_COMMAND, KEYBOARD_PULSE_RESET);
    pit::wait_ms(50);
    cpu::triple_fault()
}

/// Stops after a panic: the emulator ends with a status of its own; any other machine halts, so
/// that the message stays readable.
pub fn stop_after_panic() -> ! {
    port::write8(DEBUG_EXIT, PANIC_CODE);
    cpu::halt()
}
