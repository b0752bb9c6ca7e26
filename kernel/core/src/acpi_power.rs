//! Finding the soft-off values without an AML interpreter.

/// The sleep types for PM1a and PM1b of state S5, from the `_S5_` package in the byte code of a
/// DSDT or SSDT (table header included or not). `None` when there is no such package.
///
/// The package is a constant in all machines known, so looking for its name and decoding the
/// bytes behind it is enough: `08 '_S5_' 12 <package length> <count> <value> <value> ...`.
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
    fn junk() {
        assert_eq!(sleep_types_s5(b""), None);
        assert_eq!(sleep_types_s5(b"_S5_"), None);
        assert_eq!(sleep_types_s5(b"_S5_\x12"), None);
        assert_eq!(sleep_types_s5(b"_S5_\x12\xff\x01"), None);
        assert_eq!(sleep_types_s5(b"_S5_\x12\x04\x02\x0a"), None);
        assert_eq!(sleep_types_s5(b"\x10_S5_\x70\x00\x00"), None);
    }
}
