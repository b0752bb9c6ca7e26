//! Table names and the scheme's paths.

use alloc::vec;
use alloc::vec::Vec;

use crate::table::{Table, unique};

fn bytes(signature: &[u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    bytes[..4].copy_from_slice(signature);
    bytes[10..16].copy_from_slice(b"BOCHS ");
    bytes[16..24].copy_from_slice(b"BXPC\0\xff  ");
    bytes
}

#[test]
fn names_are_those_of_redox() {
    let table = Table::new(bytes(b"MCFG")).unwrap();
    assert_eq!(table.name, "MCFG-424F43485320-4258504300FF2020");
    assert_eq!(Table::new(bytes(b"MC/G")), None);
    assert_eq!(Table::new(bytes(b"\xff\xffxx")), None);
    assert_eq!(Table::new(vec![0; 35]), None);
}

#[test]
fn one_table_per_name() {
    let tables = [b"SSDT", b"APIC", b"SSDT"].map(|signature| Table::new(bytes(signature)).unwrap());
    assert_eq!(unique(tables).len(), 2);
}
