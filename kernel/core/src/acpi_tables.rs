//! Checks firmware's ACPI tables before the crate `acpi` walks them: it trusts lengths and counts,
//! and panics or walks for ever where they make no sense.

/// Bytes before the entries of a MADT: header, address, flags.
const MADT_ENTRIES: usize = 44;
/// Kinds of entries: a processor by its old and its new id.
const LOCAL_APIC: u8 = 0;
const LOCAL_X2APIC: u8 = 9;
/// Places in a FADT: bytes of the PM1 control registers and of the power management timer.
const PM1_CONTROL_LENGTH: usize = 89;
const PM_TIMER_LENGTH: usize = 91;
/// The crate multiplies these lengths by 8, in one byte.
const MAX_REGISTER: u8 = 31;

/// Fewest bytes of a MADT's entry, by its kind: those that the crate reads (ACPI 6.5, 5.2.12).
fn shortest(kind: u8) -> usize {
    match kind {
        LOCAL_APIC | 3 => 8,
        1 | 5 | 10 => 12,
        2 => 10,
        4 => 6,
        LOCAL_X2APIC | 6 | 8 | 0x10 => 16,
        // A header only: the crate refuses these tables, or passes over the entry.
        _ => 2,
    }
}

/// Checks a MADT.
///
/// # Errors
/// What is wrong with it.
pub fn check_madt(table: &[u8]) -> Result<(), &'static str> {
    let mut entries = table.get(MADT_ENTRIES..).ok_or("it is too short")?;
    let mut processors = 0;
    while !entries.is_empty() {
        let &[kind, length, ..] = entries else {
            return Err("half of an entry's header ends it");
        };
        let length = usize::from(length);
        // The crate ends here, too.
        let Some((_, rest)) = entries.split_at_checked(length) else {
            break;
        };
        if length < shortest(kind) {
            return Err("an entry is shorter than those of its kind are");
        }
        processors += usize::from(matches!(kind, LOCAL_APIC | LOCAL_X2APIC));
        entries = rest;
    }
    match processors {
        0 => Err("it lists no processor"),
        _ => Ok(()),
    }
}

/// Checks the fields of a FADT that the kernel uses.
///
/// # Errors
/// What is wrong with it.
pub fn check_fadt(table: &[u8]) -> Result<(), &'static str> {
    let length = |at: usize| table.get(at).copied().ok_or("it is too short");
    if length(PM1_CONTROL_LENGTH)?.max(length(PM_TIMER_LENGTH)?) > MAX_REGISTER {
        return Err("a register is longer than any is");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const PROCESSOR: [u8; 8] = [LOCAL_APIC, 8, 0, 0, 1, 0, 0, 0];
    const IO_APIC: [u8; 12] = [1, 12, 0, 0, 0, 0, 0xC0, 0xFE, 0, 0, 0, 0];

    fn madt(entries: &[&[u8]]) -> Vec<u8> {
        [&[0; MADT_ENTRIES], entries.concat().as_slice()].concat()
    }

    #[test]
    fn usual_tables_pass() {
        assert_eq!(check_madt(&madt(&[&PROCESSOR, &IO_APIC])), Ok(()));
        // Kinds of vendors, and of later versions.
        let unknown = [0x80, 2, 0x7f, 3, 0];
        assert_eq!(check_madt(&madt(&[&unknown, &PROCESSOR])), Ok(()));
        // What follows the last whole entry is not read.
        assert_eq!(check_madt(&madt(&[&PROCESSOR, &[1, 12, 0]])), Ok(()));
        let mut fadt = [0; 244];
        (fadt[PM1_CONTROL_LENGTH], fadt[PM_TIMER_LENGTH]) = (2, 4);
        assert_eq!(check_fadt(&fadt), Ok(()));
    }

    #[test]
    fn tables_that_cannot_be_walked_are_refused() {
        for length in 0..MADT_ENTRIES {
            assert!(check_madt(&madt(&[])[..length]).is_err(), "{length}");
        }
        // An entry that leads to itself.
        for kind in [0, 1, 9, 0x11, 0x80, 0xff] {
            for length in [0, 1] {
                let entry = [kind, length, 0, 0];
                assert!(check_madt(&madt(&[&PROCESSOR, &entry])).is_err(), "{kind}");
            }
        }
        for (entry, at_least) in [(PROCESSOR.as_slice(), 8), (&IO_APIC, 12)] {
            let mut short = Vec::from(entry);
            short[1] = at_least - 1;
            assert!(check_madt(&madt(&[&PROCESSOR, &short])).is_err());
        }
        assert!(check_madt(&madt(&[&PROCESSOR, &[0x80]])).is_err());
        assert!(check_madt(&madt(&[])).is_err());
        assert!(check_madt(&madt(&[&IO_APIC])).is_err());
        for at in [PM1_CONTROL_LENGTH, PM_TIMER_LENGTH] {
            let mut fadt = [0; 244];
            fadt[at] = 32;
            assert!(check_fadt(&fadt).is_err());
            assert!(check_fadt(&fadt[..at]).is_err());
        }
    }
}
