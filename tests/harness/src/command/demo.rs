//! `demo`: two nodes boot and show what SCIF does, step by step, each with its result.
//!
//! The scripts are in `tests/demo`; they print `STEP` lines, and `VALUE` lines that must agree
//! between the nodes. The demo passes only when every step of the list below passed.

use crate::base::report::{Context, Failure, Result};
use crate::base::settings::Settings;
use crate::base::workspace;
use crate::node::image::{Builder, Contents, Image, prepare};
use crate::suite::console_protocol::Meaning;
use crate::suite::suite_run::{self, Observer, Run};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(180);

/// The steps that must be seen, with what to tell the user.
const STEPS: &[(&str, &str)] = &[
    ("card-up", "the card finds the host in /scheme/scif/nodes"),
    ("host-up", "the host finds the card in /scheme/scif/nodes"),
    (
        "greeting-to-card",
        "the host sends a line of text to the card, with cat on both",
    ),
    (
        "greeting-to-host",
        "the card sends a line of text to the host, with cat on both",
    ),
    (
        "kernel-to-card",
        "the host sends the file boot/kernel to the card, sha256 equal on both",
    ),
    (
        "kernel-to-host",
        "the card sends the file boot/kernel to the host, sha256 equal on both",
    ),
    (
        "eight-at-once",
        "eight connections are open at the same time",
    ),
    (
        "eight-intact",
        "each of the eight connections delivered the right bytes",
    ),
    (
        "refused",
        "a connection to a port without a listener is refused",
    ),
    (
        "mapping",
        "the host maps memory of the card, and both load and store there",
    ),
    (
        "rma-write",
        "the host writes 64 MiB into the card's memory, sha256 equal on both",
    ),
    (
        "rma-read",
        "the host reads 64 MiB from the card's memory, sha256 equal on both",
    ),
    (
        "signal",
        "when the card sees a flag (scif_fence_signal), the data before it is there",
    ),
    (
        "c-program",
        "a C program for scif.h runs on both nodes (tests/patterns)",
    ),
    (
        "heap",
        "the card reads and writes a buffer that malloc gave on the host, in place",
    ),
    (
        "st-header",
        "Scheduled Transfers (st.h, in C): push and pull of a header, equal on both",
    ),
    (
        "st-put",
        "Scheduled Transfers: PUT of 128 KiB, equal on both",
    ),
    (
        "st-get",
        "Scheduled Transfers: GET of 128 KiB, equal on both",
    ),
    (
        "st-put-header",
        "Scheduled Transfers: PUT, then a header, data equal on both",
    ),
    (
        "st-get-header",
        "Scheduled Transfers: a header, then GET, data equal on both",
    ),
    (
        "st-both",
        "Scheduled Transfers: PUT, a header, then GET, data equal on both",
    ),
];

/// Those of a demo with a second card.
const CARD_STEPS: &[(&str, &str)] = &[
    (
        "card-to-card-write",
        "card 1 writes 16 MiB into card 2's memory, sha256 equal on both",
    ),
    (
        "card-to-card-read",
        "card 1 reads 16 MiB from card 2's memory, sha256 equal on both",
    ),
];

/// The command.
pub fn command(builder: &dyn Builder, settings: &Settings) -> Result<()> {
    let scripts = scripts()?;
    let scripts = scripts.iter().map(|(_, text)| text.as_str());
    let contents = Contents::named_in(settings.purpose()?, scripts);
    let image = prepare(builder, settings, &contents)?;
    let passed = play(settings, &*image)?;
    if passed {
        Ok(())
    } else {
        Err(Failure::silent(1))
    }
}

/// The scripts, each with its node.
pub fn scripts() -> Result<Vec<(usize, String)>> {
    let mut scripts = Vec::new();
    for (node, name) in ["host.sh", "card.sh", "second-card.sh"].iter().enumerate() {
        let path = workspace::root().join("tests/demo").join(name);
        let text = std::fs::read_to_string(&path);
        scripts.push((node, text.context(|| format!("read {}", path.display()))?));
    }
    Ok(scripts)
}

/// Plays it; whether all was right.
pub fn play(settings: &Settings, image: &dyn Image) -> Result<bool> {
    let mut demo = Run::new("demo", settings, LIMIT)?;
    if demo.nodes < 2 {
        return Err("the demo needs two nodes: leave NODES out, or give NODES=2 or more".into());
    }
    for (node, text) in scripts()? {
        if node < demo.nodes {
            let script = format!("nodes={}\n{text}", demo.nodes);
            demo.scripts.insert(node, script.into_bytes());
        }
    }
    println!("booting {} nodes", demo.nodes);
    let mut score = Score::new(demo.nodes);
    let outcome = demo.execute(image, &mut score)?;
    let quiet = outcome.reports().next().is_none();
    for (node, line) in outcome.reports() {
        println!("✗ node {node}: {line}");
    }
    let off = outcome.status() == 0;
    score.print(
        "power-off",
        "all scripts have succeeded and all nodes have powered off",
        off,
        "",
    );
    for complaint in outcome.complaints() {
        println!("  {complaint}");
    }
    let logs = workspace::display(&outcome.logs);
    let passed = score.finish() && quiet && off;
    println!(
        "{} (consoles: {logs}/node*.log)",
        if passed { "demo passed" } else { "demo FAILED" }
    );
    // Kept apart from the steps: the status of the scripts was printed above.
    if !passed && outcome.status() != 0 {
        suite_run::conclude(&outcome).ok();
    }
    Ok(passed)
}

/// Collects the steps as they happen.
struct Score {
    start: Instant,
    /// The steps that must be seen.
    steps: Vec<(&'static str, &'static str)>,
    /// Result of each step seen, by name.
    seen: BTreeMap<String, bool>,
    /// Values waiting for the other node's: name → (node, value).
    values: BTreeMap<String, (usize, String)>,
    failed: bool,
}

impl Score {
    fn new(nodes: usize) -> Self {
        let mut steps = STEPS.to_vec();
        if nodes > 2 {
            steps.extend(CARD_STEPS);
        }
        Self {
            start: Instant::now(),
            steps,
            seen: BTreeMap::new(),
            values: BTreeMap::new(),
            failed: false,
        }
    }

    fn print(&mut self, name: &str, what: &str, good: bool, detail: &str) {
        let mark = if good { '✓' } else { '✗' };
        let time = self.start.elapsed().as_secs_f64();
        let detail = if detail.is_empty() {
            String::new()
        } else {
            format!(": {detail}")
        };
        println!("{mark} {time:5.1} s  {what}{detail}");
        let _ = std::io::stdout().flush();
        self.failed |= !good;
        let both = self.seen.get(name).is_none_or(|before| *before) && good;
        self.seen.insert(name.to_string(), both);
    }

    fn describe(&self, name: &str) -> String {
        let known = self.steps.iter().find(|(step, _)| *step == name);
        known.map_or(name, |(_, what)| what).to_string()
    }

    /// Says which steps were never seen; whether all was right.
    fn finish(&mut self) -> bool {
        for (name, what) in self.steps.clone() {
            if !self.seen.contains_key(name) {
                self.print(name, what, false, "this step was not reached");
            }
        }
        !self.failed
    }

    fn value(&mut self, node: usize, name: &str, value: &str) {
        match self.values.remove(name) {
            Some((other, before)) if other != node => {
                let same = before == value && !value.is_empty();
                let detail = match same {
                    true => value.chars().take(16).collect::<String>() + "…",
                    false => format!("node {other} has '{before}', node {node} has '{value}'"),
                };
                self.print(name, &self.describe(name), same, &detail);
            }
            _ => {
                self.values
                    .insert(name.to_string(), (node, value.to_string()));
            }
        }
    }
}

impl Observer for Score {
    fn line(&mut self, node: usize, text: &str, meaning: Option<&Meaning>) {
        match meaning {
            Some(Meaning::Step { name, failure }) => {
                let detail = failure.clone().unwrap_or_default();
                self.print(name, &self.describe(name), failure.is_none(), &detail);
            }
            Some(Meaning::Value { name, value }) => self.value(node, name, value),
            Some(Meaning::KernelPanic) => {
                self.print("kernel", &format!("node {node}: {text}"), false, "");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(score: &mut Score, node: usize, text: &str) {
        score.line(
            node,
            text,
            crate::suite::console_protocol::meaning(text).as_ref(),
        );
    }

    fn all_but(left_out: &str) -> Score {
        let mut score = Score::new(2);
        for (name, _) in STEPS.iter().filter(|(name, _)| *name != left_out) {
            see(&mut score, 0, &format!("STEP {name}: ok"));
        }
        score
    }

    #[test]
    fn all_steps_must_be_seen_and_right() {
        assert!(all_but("").finish());
        assert!(!all_but("refused").finish());
        let mut score = all_but("refused");
        see(&mut score, 1, "STEP refused: FAIL it was accepted");
        assert!(!score.finish());
        see(&mut score, 1, "STEP refused: ok");
        assert!(!score.finish(), "a failure is not undone");
    }

    #[test]
    fn a_second_card_has_steps_of_its_own() {
        let mut score = all_but("");
        assert!(score.finish());
        score.steps.extend(CARD_STEPS);
        assert!(!score.finish(), "they were not seen");
    }

    #[test]
    fn values_must_agree_between_two_nodes() {
        for (second, right) in [("VALUE refused: ab", true), ("VALUE refused: cd", false)] {
            let mut score = all_but("refused");
            see(&mut score, 0, "VALUE refused: ab");
            see(&mut score, 0, "VALUE refused: ab");
            assert!(
                !score.seen.contains_key("refused"),
                "one node alone proves nothing"
            );
            see(&mut score, 1, second);
            assert_eq!(score.finish(), right);
        }
    }
}
