//! Soft-off: finds its values without an AML interpreter, and makes the words of its registers
//! (ACPI 6.5, 4.8.3.2.1 and 16.3.1).

/// Bit of a PM1 control register: the system, not the firmware, controls power management.
pub const SCI_ENABLED: u16 = 1;
const SLEEP_TYPE_SHIFT: u16 = 10;
const SLEEP_TYPES: u16 = 7 << SLEEP_TYPE_SHIFT;
const SLEEP_ENABLE: u16 = 1 << 13;

/// The word that begins the sleep of this type, for a PM1 control register whose value is `now`:
/// all other bits stay.
pub fn sleep_word(now: u16, sleep_type: u8) -> u16 {
    let sleep_type = (u16::from(sleep_type) << SLEEP_TYPE_SHIFT) & SLEEP_TYPES;
    now & !SLEEP_TYPES | sleep_type | SLEEP_ENABLE
}

/// The port and the byte with which the firmware is asked to hand over power management, from the
/// fixed table's SMI_CMD and ACPI_ENABLE. `None` when it need not be asked, or cannot be.
pub fn enable_request(command: u32, enable: u8) -> Option<(u16, u8)> {
    let port = u16::try_from(command).ok()?;
    (port != 0 && enable != 0).then_some((port, enable))
}

/// The sleep types for PM1a and PM1b of state S5, from the `_S5_` package in the byte code of a
/// DSDT or SSDT (with or without the table header). `None` when there is no such package.
///
/// On all known machines the package is a constant, so it is enough to find its name and decode
/// the bytes behind it: `08 '_S5_' 12 <package length> <count> <value> <value> ...`.
pub fn sleep_types_s5(aml: &[u8]) -> Option<(u8, u8)> {
    let at = aml.windows(4).position(|w| w == b"_S5_")?;
    let rest = aml.get(at + 4..)?;
    let (&op, rest) = rest.split_first()?;
    if op != 0x12 {
        return None;
    }
    // The two top bits of the first length byte count further length bytes.
    let extra = usize::from(*rest.first()? >> 6);
    let (&count, mut rest) = rest.get(1 + extra..)?.split_first()?;
    if count < 1 {
        return None;
    }
    let mut value = || {
        let (&first, tail) = rest.split_first()?;
        let (value, tail) = match first {
            0x0a => (*tail.first()?, &tail[1..]), // byte constant
            0x0b => (*tail.first()?, tail.get(2..)?),
            0x00 | 0x01 => (first, tail),
            _ => return None,
        };
        rest = tail;
        Some(value & 7)
    };
    let a = value()?;
    Some((a, if count > 1 { value().unwrap_or(a) } else { a }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages() {
        let qemu = [
            1, 2, 0x08, b'_', b'S', b'5', b'_', 0x12, 0x06, 0x04, 0, 0, 0, 0,
        ];
        assert_eq!(sleep_types_s5(&qemu), Some((0, 0)));
        let board = [
            b'_', b'S', b'5', b'_', 0x12, 0x0a, 4, 0x0a, 7, 0x0a, 5, 0, 0,
        ];
        assert_eq!(sleep_types_s5(&board), Some((7, 5)));
        let long = [b'_', b'S', b'5', b'_', 0x12, 0x40, 1, 1, 0x0a, 5];
        assert_eq!(sleep_types_s5(&long), Some((5, 5)));
    }

    #[test]
    fn words() {
        // The firmware's bits stay, an old sleep type does not.
        assert_eq!(sleep_word(0x1c07, 5), 0x3407);
        assert_eq!(sleep_word(0, 0), 0x2000);
        assert_eq!(sleep_word(0xffff, 0), 0xe3ff);
        assert_eq!(sleep_word(0, 0xff), 0x3c00);
        assert_eq!(enable_request(0xb2, 2), Some((0xb2, 2)));
        assert_eq!(enable_request(0, 2), None);
        assert_eq!(enable_request(0xb2, 0), None);
        assert_eq!(enable_request(0x1_00b2, 2), None);
    }

    #[test]
    fn junk() {
        assert_eq!(sleep_types_s5(b""), None);
        assert_eq!(sleep_types_s5(b"_S5_"), None);
        assert_eq!(sleep_types_s5(b"_S5_\x12"), None);
        assert_eq!(sleep_types_s5(b"_S5_\x12\xff\x01"), None);
        assert_eq!(sleep_types_s5(b"_S5_\x12\x04\x02\x0a"), None);
        assert_eq!(sleep_types_s5(b"\x10_S5_\x70\x00\x00"), None);
    }
}
