//! The rows of RDMA verbs on booted nodes.
//!
//! `verbs-conformance PLACE b` is the end B; `verbs-conformance PLACE NODE [ROW…]` is the end A,
//! with B on that node. The place is `node` or `pair`; both ends get the same rows. In the place
//! `node` A first runs the commands against the scheme `infiniband`, unless rows are given. The
//! exit status is 1 if a row failed, 3 if the place itself did, 4 if a row is missing.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use conformance::verbs::bench::{Checked, Place};
use conformance::verbs::changes::ByCommands;
use conformance::verbs::run::{count, run};
use conformance::verbs::{commands, transitions};
use conformance_guest::verbs::{Guest, Scheme};
use runtime::{eprintln, println};

runtime::main!(main);

fn main() -> i32 {
    let words: Vec<String> = runtime::env::args().skip(1).collect();
    let Some((place, peer, rows)) = parse(&words) else {
        eprintln!("usage: verbs-conformance node | pair b | NODE [ROW...]");
        return 2;
    };
    match test(place, peer, rows) {
        Ok(status) => status,
        Err(what) => {
            println!("STEP verbs {}: FAIL {what}", place.name());
            3
        }
    }
}

fn parse(words: &[String]) -> Option<(Place, Option<u16>, &[String])> {
    let [place, peer, rows @ ..] = words else {
        return None;
    };
    let place = Place::ALL.into_iter().find(|known| known.name() == place)?;
    let peer = match &peer[..] {
        "b" => None,
        node => Some(node.parse().ok()?),
    };
    Some((place, peer, rows))
}

fn test(place: Place, peer: Option<u16>, rows: &[String]) -> Checked<i32> {
    let mut failed = 0;
    if place == Place::Node && peer.is_some() && rows.is_empty() {
        let mut print = |line: &str| println!("{line}");
        // Both runs use one device: its context is closed before another one is opened.
        let mut scheme = Scheme::default();
        let changes = &mut ByCommands::new(&mut scheme);
        failed += transitions::run("scheme", changes, &mut print).failed;
        failed += commands::run("scheme", &mut scheme, &mut print).failed;
    }
    let mut guest = Guest::new(place, peer)?;
    // Both ends see the same results; A prints them.
    let totals = run(&mut guest, 0, rows, &mut |line| {
        if peer.is_some() {
            println!("{line}");
        }
    });
    guest.meet()?;
    Ok(match totals {
        _ if failed > 0 => 1,
        totals if totals.failed > 0 => 1,
        totals if totals.rows() != count() || totals.passed == 0 => 4,
        _ => 0,
    })
}
