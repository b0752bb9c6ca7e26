//! Cuts a node's power again and again in the middle of transfers of all kinds.

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::pattern::Random;
use guest_tests::{Suite, counter, settled, text};
use runtime::process::{Child, Command};
use runtime::time::{Duration, Instant, sleep};

use crate::load::{KINDS, TOLD, mark};
use crate::nodes::{launcher, wait_for};
use crate::{COUNTERS, be_impatient, counters};

/// Milliseconds of load before the power goes, at most.
const LOAD_MS: u64 = 400;

/// The program: kills the node `count` times.
pub fn main(node: u16, count: &str) -> i32 {
    let mut suite = Suite::new("scif-loss");
    let Ok(count) = count.parse::<u64>() else {
        runtime::eprintln!("scif-loss: '{count}' is no number of kills");
        return 2;
    };
    suite.check("limits", be_impatient());
    suite.check("node comes", wait_for(node, true));
    let before = counters();
    let begin = Instant::now();
    let mut leaked = 0;
    let mut bytes = 0;
    for round in 0..count {
        let moved = kill(node, round);
        bytes += *moved.as_ref().unwrap_or(&0);
        suite.check(&alloc::format!("kill {round}"), moved.map(|_| ()));
        let after = settled(counters, &before);
        if after != before {
            leaked += 1;
            for ((name, after), before) in COUNTERS.iter().zip(after).zip(&before) {
                suite.equal(&alloc::format!("{name} after kill {round}"), &after, before);
            }
        }
        launcher(&alloc::format!("start {node}"));
        suite.check(&alloc::format!("back {round}"), wait_for(node, true));
    }
    let (seconds, mebibytes) = (begin.elapsed().as_millis() / 1000, bytes >> 20);
    runtime::println!(
        "kills: {count} kills of node {node} in {seconds} s, {mebibytes} MiB moved, {leaked} leaks"
    );
    suite.finish()
}

/// Bytes that went through connections, and through windows as far as the daemon copied them, so
/// far.
fn moved() -> Result<u64, String> {
    let names = ["bytes_sent", "bytes_received", "rma_bytes_cpu"];
    names.iter().map(|name| counter(name)).sum()
}

/// One kill under load; how many bytes were moved before it.
fn kill(node: u16, round: u64) -> Result<u64, String> {
    let start = moved()?;
    for (kind, _) in KINDS {
        // It may not be there.
        let _ = runtime::fs::remove_file(&mark(kind));
    }
    let children: Result<Vec<Child>, _> = KINDS
        .iter()
        .map(|(kind, _)| {
            let seed = alloc::format!("{}", round * 10 + 1);
            Command::new("scif-loss")
                .args(["load", kind, &seed])
                .spawn()
        })
        .collect();
    let children = children.map_err(text("starting"))?;
    // Until all of them work, then some time more.
    let works = |kind: &str| runtime::fs::metadata(&mark(kind)).is_ok();
    let begun = settled(|| KINDS.iter().all(|(kind, _)| works(kind)), &true);
    if !begun {
        return Err("the load does not begin".into());
    }
    sleep(Duration::from_millis(Random::new(round + 1).up_to(LOAD_MS)));
    launcher(&alloc::format!("kill {node}"));
    let mut wrong = String::new();
    for (mut child, (kind, _)) in children.into_iter().zip(KINDS) {
        let status = child.wait().map_err(text("waiting"))?;
        if status.code() != Some(TOLD) {
            wrong += &alloc::format!(" {kind}: {status}");
        }
    }
    wait_for(node, false)?;
    match wrong.is_empty() {
        true => Ok(moved()?.saturating_sub(start)),
        false => Err(alloc::format!(
            "the load ended otherwise than it should:{wrong}"
        )),
    }
}
