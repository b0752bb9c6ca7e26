//! Turning the machine off and on again.

/// Powers off through ACPI; when that fails, logs so and halts.
pub fn shutdown() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Resets the machine.
pub fn reset() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// The XSDT or RSDT, header included, for `kernel.acpi`; empty without ACPI.
pub fn rxsdt() -> alloc::vec::Vec<u8> {
    alloc::vec::Vec::new()
}
