//! `soak`: boots three nodes and keeps them under mixed random load while programs and nodes are
//! killed; reports bytes, faults and violations.
//!
//! The load is `scif-soak` (tests/guest/src/bin/scif-soak); this side boots it, adds its sums up
//! and writes the report.

use crate::base::report::{Context, Failure, Result};
use crate::base::settings::Settings;
use crate::base::workspace;
use crate::node::image::{Builder, Contents, prepare};
use crate::suite::console_protocol::{Meaning, Order};
use crate::suite::suite_run::{Observer, Outcome, Run};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Minutes unless MINUTES= says otherwise.
const MINUTES: u64 = 5;
/// Seconds between two restarts of nodes.
const RESTART_S: u64 = 30;
/// How long the end may take: programs end, nodes compare what they hold, machines power off.
const END: Duration = Duration::from_secs(300);

/// The load.
const PROGRAM: &str = "scif-soak";

/// The command.
pub fn command(builder: &dyn Builder, settings: &Settings) -> Result<()> {
    let minutes = settings.minutes()?.unwrap_or(MINUTES);
    let seed = settings.seed()?.unwrap_or(1);
    let contents = Contents::named_in(settings.purpose()?, [PROGRAM]);
    let image = prepare(builder, settings, &contents)?;
    let mut run = Run::new("soak", settings, Duration::from_secs(minutes * 60) + END)?;
    run.nodes = settings.nodes(3)?;
    let restart_s = if run.nodes > 1 { RESTART_S } else { 0 };
    for node in 0..run.nodes {
        let script = match node {
            0 => format!("scif-soak conduct {} {seed} {restart_s}\n", minutes * 60),
            _ => "scif-soak conduct\n".to_string(),
        };
        run.scripts.insert(node, script.into_bytes());
    }
    println!("soak: {} nodes, {minutes} minutes, seed {seed}", run.nodes);
    let start = Instant::now();
    let mut watch = Watch::default();
    let outcome = run.execute(&*image, &mut watch)?;
    let text = report(&watch, &outcome, seed, start.elapsed());
    let path = outcome.logs.join("report.txt");
    std::fs::write(&path, &text).context(|| format!("write {}", path.display()))?;
    print!("\n{text}");
    println!("report: {}", workspace::display(&path));
    match violations(&watch, &outcome) {
        0 => Ok(()),
        _ => Err(Failure::silent(1)),
    }
}

/// The sums of one node.
type Sums = BTreeMap<String, u64>;

/// The lines of the consoles.
#[derive(Default)]
struct Watch {
    /// Sums of former lives of nodes.
    past: Sums,
    /// Latest sums of each node.
    latest: BTreeMap<usize, Sums>,
    restarts: u64,
    steps: u64,
    failed: Vec<String>,
}

/// The words `name=value` of a line of sums.
fn sums(line: &str) -> Option<Sums> {
    let words = line.strip_prefix("SOAK ")?.split_whitespace();
    let pair = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_string(), value.parse().ok()?))
    };
    Some(words.filter_map(pair).collect())
}

fn add(to: &mut Sums, from: &Sums) {
    for (name, value) in from {
        *to.entry(name.clone()).or_default() += value;
    }
}

impl Watch {
    /// All sums together.
    fn total(&self) -> Sums {
        let mut total = self.past.clone();
        for latest in self.latest.values() {
            add(&mut total, latest);
        }
        total
    }
}

impl Observer for Watch {
    fn line(&mut self, node: usize, text: &str, meaning: Option<&Meaning>) {
        match meaning {
            Some(Meaning::Order(Order::Start(started))) => {
                self.restarts += 1;
                // It begins from nothing.
                if let Some(former) = self.latest.remove(started) {
                    add(&mut self.past, &former);
                }
                println!("     node {started} was killed and boots again");
            }
            Some(Meaning::Step { name, failure }) => {
                self.steps += 1;
                if let Some(failure) = failure {
                    let line = format!("node {node}: {name}: {failure}");
                    println!("FAIL {line}");
                    self.failed.push(line);
                }
            }
            _ => {}
        }
        if let Some(sums) = sums(text) {
            self.latest.insert(node, sums);
            if node == 0 {
                let total = self.total();
                let get = |name: &str| total.get(name).copied().unwrap_or(0);
                println!(
                    "{:>5} s  {} sessions, {} MiB, {} cut by {} kills and {} restarts, {} wrong",
                    self.latest[&0].get("seconds").copied().unwrap_or(0),
                    sessions(&total),
                    get("bytes") >> 20,
                    get("cut"),
                    get("killed"),
                    self.restarts,
                    get("wrong"),
                );
            }
        }
    }
}

/// Names of what is no kind of session in a line of sums.
const OTHER: [&str; 6] = ["node", "seconds", "bytes", "cut", "killed", "wrong"];

/// Sessions that were whole.
fn sessions(total: &Sums) -> u64 {
    let is_kind = |name: &&String| !OTHER.contains(&name.as_str());
    total
        .keys()
        .filter(is_kind)
        .filter_map(|name| total.get(name))
        .sum()
}

/// Failed steps, panics, exceptions, addresses of the kernel and nodes that did not end well.
fn violations(watch: &Watch, outcome: &Outcome) -> usize {
    let bad_ends = usize::from(outcome.status() != 0);
    let nothing_done = usize::from(sessions(&watch.total()) == 0);
    watch.failed.len() + outcome.reports().count() + bad_ends + nothing_done
}

fn report(watch: &Watch, outcome: &Outcome, seed: u64, took: Duration) -> String {
    let total = watch.total();
    let get = |name: &str| total.get(name).copied().unwrap_or(0);
    let mut text = format!("soak, seed {seed}, {} s\n\n", took.as_secs());
    // Writing to a string does not fail.
    for (name, value) in total
        .iter()
        .filter(|(name, _)| !OTHER.contains(&name.as_str()))
    {
        let _ = writeln!(
            text,
            "{name:<10} {value:>10} sessions, every byte as it must be"
        );
    }
    let _ = writeln!(
        text,
        "{:<10} {:>10} MiB in them",
        "bytes",
        get("bytes") >> 20
    );
    let _ = writeln!(
        text,
        "{:<10} {:>10} programs, {} nodes",
        "killed",
        get("killed"),
        watch.restarts
    );
    let _ = writeln!(
        text,
        "{:<10} {:>10} sessions ended by that",
        "cut",
        get("cut")
    );
    let _ = writeln!(
        text,
        "{:<10} {:>10} sessions with a byte or an error too many",
        "wrong",
        get("wrong")
    );
    let _ = writeln!(
        text,
        "{:<10} {:>10} at the end, {} of them failed",
        "checks",
        watch.steps,
        watch.failed.len()
    );
    let lines = watch.failed.iter().cloned();
    let lines = lines.chain(outcome.complaints());
    let lines = lines.chain(outcome.reports().map(|(_, line)| line.clone()));
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "\nsoak: {} violations", violations(watch, outcome));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::suite_run::NodeEnd;

    fn outcome(end: NodeEnd) -> Outcome {
        Outcome {
            ends: vec![end],
            program_panics: Vec::new(),
            exceptions: Vec::new(),
            kernel_addresses: Vec::new(),
            logs: "target".into(),
        }
    }

    #[test]
    fn lives_of_nodes_are_added_up() {
        let mut watch = Watch::default();
        watch.line(1, "SOAK node=1 seconds=10 rma=3 bytes=100 cut=1", None);
        watch.line(1, "SOAK node=1 seconds=20 rma=5 bytes=200 cut=1", None);
        watch.line(
            0,
            "LAUNCHER start 1",
            Some(&Meaning::Order(Order::Start(1))),
        );
        watch.line(1, "SOAK node=1 seconds=10 rma=2 bytes=1 cut=0", None);
        watch.line(0, "SOAK node=0 seconds=30 rma=1 map=1 bytes=1", None);
        let total = watch.total();
        assert_eq!((total["rma"], total["bytes"], total["cut"]), (8, 202, 1));
        assert_eq!((sessions(&total), watch.restarts), (9, 1));
        assert_eq!(violations(&watch, &outcome(NodeEnd::Status(0))), 0);
    }

    #[test]
    fn whatever_goes_wrong_is_a_violation() {
        let mut watch = Watch::default();
        assert_eq!(
            violations(&watch, &outcome(NodeEnd::Status(0))),
            1,
            "nothing done"
        );
        watch.line(0, "SOAK rma=1", None);
        assert_eq!(violations(&watch, &outcome(NodeEnd::Status(3))), 1);
        assert_eq!(violations(&watch, &outcome(NodeEnd::TimedOut)), 1);
        let failed = Meaning::Step {
            name: "rma".into(),
            failure: Some("byte 3".into()),
        };
        watch.line(2, "STEP rma: FAIL byte 3", Some(&failed));
        let mut bad = outcome(NodeEnd::Status(0));
        bad.program_panics.push((1, "PANIC micd".into()));
        assert_eq!(violations(&watch, &bad), 2);
        let mut leak = outcome(NodeEnd::Status(0));
        leak.kernel_addresses.push((1, "ffffffff80100000".into()));
        assert_eq!(violations(&watch, &leak), 2);
        let text = report(&watch, &bad, 7, Duration::from_secs(1));
        assert!(text.contains("node 2: rma: byte 3") && text.ends_with("soak: 2 violations\n"));
    }
}
