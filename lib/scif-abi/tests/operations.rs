//! The operations of the `scif:` scheme: whether the tables of docs/scheme.md list each one with
//! its number.

use scif_abi::call::{Call, MemoryCall};
use scif_abi::codec::Operation as _;

const DOCUMENT: &str = include_str!("../../../docs/scheme.md");

/// Whether a row has a cell with the name of the operation, and the number in the next cell.
fn is_listed(document: &str, name: &str, number: u64) -> bool {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    let mut pairs = rows.flat_map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let next = cells.clone().into_iter().skip(1);
        cells.into_iter().zip(next).collect::<Vec<_>>()
    });
    let (name, number) = (format!("`{name}`"), number.to_string());
    pairs.any(|(cell, next)| {
        let mut numbers = next.split(|c: char| !c.is_ascii_digit());
        cell.contains(&name) && numbers.any(|found| found == number)
    })
}

#[test]
fn the_page_lists_every_operation() {
    for number in 0..256 {
        let names = [Call::name(number), MemoryCall::name(number)];
        for name in names.into_iter().flatten() {
            let found = is_listed(DOCUMENT, name, number);
            assert!(found, "docs/scheme.md lacks `{name}`, {number}");
        }
    }
}

#[test]
fn a_missing_row_is_noticed() {
    let page = "| `scif_x` | `One`, then `Two` | 3: flags; 4 | – |\n`Three`, 5\n";
    assert!(is_listed(page, "One", 3) && is_listed(page, "Two", 4));
    assert!(!is_listed(page, "One", 5));
    assert!(!is_listed(page, "Three", 5));
}
