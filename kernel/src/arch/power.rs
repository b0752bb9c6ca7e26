//! Turning the machine off and on again.

use acpi::address::{AddressSpace, GenericAddress};
use acpi::sdt::fadt::Fadt;
use kernel_core::acpi_power::sleep_types_s5;
use spin::Once;

use super::{cpu, pit, port, smp};
use crate::mm::phys;

/// What soft-off and reset need, from the ACPI fixed table.
#[derive(Clone, Copy, Debug, Default)]
struct Registers {
    /// PM1a and PM1b control ports, with the value that means off.
    off: [Option<(u16, u16)>; 2],
    /// Reset register and its value.
    reset: Option<(GenericAddress, u8)>,
}

static REGISTERS: Once<Registers> = Once::new();

const SLEEP_ENABLE: u16 = 1 << 13;
const SLEEP_TYPE_SHIFT: u16 = 10;
const KEYBOARD_COMMAND: u16 = 0x64;
const KEYBOARD_PULSE_RESET: u8 = 0xFE;
const PCI_RESET: u16 = 0xCF9;
/// QEMU's isa-debug-exit: a byte written here ends QEMU with status 2n + 1.
const DEBUG_EXIT: u16 = 0xF4;
/// What a panic writes there.
const PANIC_CODE: u8 = 0x31;

/// Remembers the registers. `dsdt` holds the sleep types of state S5.
pub(super) fn init(fadt: &Fadt, dsdt: &[u8]) {
    let (type_a, type_b) = sleep_types_s5(dsdt).unwrap_or_else(|| {
        log::warn!("no _S5_ in the DSDT: power-off uses sleep type 0");
        (0, 0)
    });
    let control = |address: Option<GenericAddress>, sleep_type: u8| {
        let address = address.filter(|a| a.address_space == AddressSpace::SystemIo)?;
        let port = u16::try_from(address.address).ok().filter(|&p| p != 0)?;
        Some((
            port,
            u16::from(sleep_type) << SLEEP_TYPE_SHIFT | SLEEP_ENABLE,
        ))
    };
    let flags = fadt.flags;
    let reset = if flags.supports_system_reset_via_fadt() {
        fadt.reset_register()
            .ok()
            .map(|register| (register, fadt.reset_value))
    } else {
        None
    };
    REGISTERS.call_once(|| Registers {
        off: [
            control(fadt.pm1a_control_block().ok(), type_a),
            control(fadt.pm1b_control_block().ok().flatten(), type_b),
        ],
        reset,
    });
}

/// Powers off through ACPI; when that fails, logs so and halts.
pub fn shutdown() -> ! {
    x86_64::instructions::interrupts::disable();
    smp::stop_others();
    for (port, value) in REGISTERS.get().iter().flat_map(|r| r.off).flatten() {
        port::write16(port, value);
    }
    pit::wait_ms(50);
    log::error!("power-off through ACPI had no effect: the machine is halted, turn it off");
    cpu::halt()
}

/// Resets the machine.
pub fn reset() -> ! {
    x86_64::instructions::interrupts::disable();
    smp::stop_others();
    if let Some((register, value)) = REGISTERS.get().and_then(|r| r.reset) {
        match register.address_space {
            AddressSpace::SystemIo => port::write8(register.address as u16, value),
            AddressSpace::SystemMemory => phys::write(register.address as usize, &[value]),
            _ => {}
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

/// Stops after a panic: the emulator ends with a code of its own, any other machine halts so that
/// the message stays readable.
pub fn stop_after_panic() -> ! {
    port::write8(DEBUG_EXIT, PANIC_CODE);
    cpu::halt()
}

/// The XSDT or RSDT, header included, for `kernel.acpi`; empty without ACPI.
pub fn rxsdt() -> alloc::vec::Vec<u8> {
    super::acpi::root_table()
}
