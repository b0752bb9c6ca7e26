//! The rows of Scheduled Transfers on booted nodes.
//!
//! `st-conformance [seed=N] PLACE A B [MANY [ROW…]]`: the place is `node`, `pair` or `cards`; on
//! the nodes A and B `st-agent 3910` and `st-agent 3911` run. MANY is the number of repetitions in
//! rows that repeat very often, 0 for that of the page. Numbers of rows select rows. N is the seed
//! of random numbers, as a run has printed it (hexadecimal with `0x`); without it the clock gives
//! one. The exit status is 1 if a row failed, 3 if the place itself did, 4 if a row is missing.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use conformance::st::bench::Place;
use conformance::st::run::run;
use conformance_guest::transfers::Guest;
use runtime::{eprintln, println};

runtime::main!(main);

/// Number of rows in the table.
const ROWS: usize = 90;

fn main() -> i32 {
    let words: Vec<String> = runtime::env::args().skip(1).collect();
    let Some((seed, (place, nodes, many, rows))) = parse(&words) else {
        eprintln!("usage: st-conformance [seed=N] node | pair | cards A B [MANY [ROW...]]");
        return 2;
    };
    match test(seed, place, nodes, many, &rows) {
        Ok(status) => status,
        Err(what) => {
            println!("STEP st {}: FAIL {what}", place.name());
            3
        }
    }
}

type Arguments = (Place, [u16; 2], Option<u64>, Vec<u32>);

/// The seed, if one is given, and the other arguments.
fn parse(words: &[String]) -> Option<(Option<u64>, Arguments)> {
    let (first, rest) = words.split_first()?;
    match first.strip_prefix("seed=") {
        Some(seed) => {
            let seed = match seed.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => seed.parse(),
            };
            Some((Some(seed.ok()?), parse_rest(rest)?))
        }
        None => Some((None, parse_rest(words)?)),
    }
}

fn parse_rest(words: &[String]) -> Option<Arguments> {
    let (place, words) = words.split_first()?;
    let place = Place::ALL.into_iter().find(|known| known.name() == place)?;
    let mut numbers = words.iter().map(|word| word.parse::<u32>());
    let a = numbers.next()?.ok()?;
    let b = numbers.next()?.ok()?;
    let many = match numbers.next() {
        Some(many) => Some(u64::from(many.ok()?)).filter(|many| *many > 0),
        None => None,
    };
    let rows: Result<Vec<u32>, _> = numbers.collect();
    Some((place, [a as u16, b as u16], many, rows.ok()?))
}

fn test(
    seed: Option<u64>,
    place: Place,
    nodes: [u16; 2],
    many: Option<u64>,
    rows: &[u32],
) -> Result<i32, String> {
    let mut guest = Guest::new(place, nodes, many, seed)?;
    let totals = run(&mut guest, rows, &mut |line| println!("{line}"));
    guest.dismiss()?;
    Ok(match totals {
        totals if totals.failed > 0 => 1,
        totals if totals.rows() != ROWS || totals.passed == 0 => 4,
        _ => 0,
    })
}
