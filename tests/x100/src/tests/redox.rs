//! The file by which Redox's `pcid-spawner` finds micd names what micd drives.

use micd::vmic::IVSHMEM;
use micd::x100::registers::{DEVICES, VENDOR};

const MATCHES: &str = include_str!("../../../../config/redox/pcid.d/micd.toml");

/// The devices that the file names of a vendor.
fn named(vendor: u16) -> Vec<u16> {
    let before = format!("{vendor:#06x} = [");
    let (_, rest) = MATCHES.split_once(&before).expect("the vendor");
    let (list, _) = rest.split_once(']').expect("the end of the list");
    let words = list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    let number = |word: &str| u16::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    words.map(number).collect()
}

#[test]
fn the_match_file_names_every_card_and_the_links_of_machines() {
    assert_eq!(named(VENDOR), DEVICES.collect::<Vec<_>>());
    assert_eq!(named(IVSHMEM.0), [IVSHMEM.1]);
}
