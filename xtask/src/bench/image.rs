//! Runs on our own nodes: boot to shell, the bare nodes that give the limits, and `scif-perf`.

use crate::build::Parts;
use crate::image;
use crate::lines::Meaning;
use crate::machine::{Event, Machine, Plan, RunDirectory};
use crate::report::{Failure, Result};
use crate::run;
use crate::script::Observer;
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What the console ends with when the shell waits for the first command.
const PROMPT: &[u8] = b" # ";
/// Longest boot.
const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// Boots one node, alone, with a shell on its console; nanoseconds from the start of QEMU to the
/// shell's first prompt.
pub fn boot(settings: &Settings, parts: &Parts) -> Result<f64> {
    let run = run::run_of("bench-boot", settings, BOOT_LIMIT)?;
    let directory = RunDirectory::new()?;
    let initfs = parts.pack(None, None, &[])?;
    let lines = ["SKIFF_CONSOLE=1".to_string()];
    let boot = image::boot_files(run.boot, parts, &initfs, &lines, directory.path())?;
    let plan = Plan {
        name: run.name,
        config: run.config,
        memory_mib: run.memory_mib,
        kvm: false,
        pin: run.pin,
        boot,
        late: vec![0],
        relayed: false,
    };
    let mut machine = Machine::start(plan, directory)?;
    let start = Instant::now();
    machine.start_node(0)?;
    let mut seen = Vec::new();
    loop {
        match machine.next(start + BOOT_LIMIT) {
            Some(Event::Output { bytes, .. }) => {
                let at = start.elapsed();
                seen.extend_from_slice(&bytes);
                if seen.ends_with(PROMPT) {
                    return Ok(at.as_nanos() as f64);
                }
            }
            Some(Event::Ended { .. }) => {
                return Err("the node ended before its first prompt".into());
            }
            None => return Err("the shell's prompt did not appear".into()),
        }
    }
}

/// A run of measuring programs on our nodes.
#[derive(Debug)]
pub struct Nodes {
    /// Name for the logs.
    pub name: &'static str,
    /// Number of nodes.
    pub nodes: usize,
    /// Script of each node.
    pub scripts: BTreeMap<usize, String>,
    /// Hard limit.
    pub limit: Duration,
}

/// Gives the lines of node 0 to a function.
struct Lines<'a>(&'a mut dyn FnMut(&str));

impl Observer for Lines<'_> {
    fn line(&mut self, node: usize, text: &str, _: Option<&Meaning>) {
        if node == 0 {
            (self.0)(text);
        }
    }
}

impl Nodes {
    /// Runs it; `line` gets the lines of node 0.
    pub fn run(
        &self,
        settings: &Settings,
        parts: &Parts,
        line: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let mut run = run::run_of(self.name, settings, self.limit)?;
        run.nodes = self.nodes;
        run.timeout = self.limit;
        run.stay = true;
        for (node, text) in &self.scripts {
            run.scripts.insert(*node, text.clone().into_bytes());
        }
        let outcome = run.execute(parts, &mut Lines(line))?;
        let mut complaints = outcome.complaints();
        for (node, text) in outcome.program_panics.iter().chain(&outcome.exceptions) {
            complaints.push(format!("node {node}: {text}"));
        }
        if complaints.is_empty() {
            return Ok(());
        }
        Err(Failure::from(complaints.join("; ")))
    }
}
