//! The file by which Redox's `pcid-spawner` finds micd names the cards that micd drives.

use micd::x100::registers::{DEVICES, VENDOR};

const MATCHES: &str = include_str!("../../../../config/redox/pcid.d/micd.toml");

#[test]
fn the_match_file_names_every_card() {
    let before = format!("{{ {VENDOR:#06x} = [");
    let (_, rest) = MATCHES.split_once(&before).unwrap();
    let (list, _) = rest.split_once(']').unwrap();
    let words = list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    let named: Vec<u16> = words
        .map(|word| u16::from_str_radix(word.trim_start_matches("0x"), 16).unwrap())
        .collect();
    assert_eq!(named, DEVICES.collect::<Vec<_>>());
}
