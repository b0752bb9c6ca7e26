//! Runs on our own nodes: boot to the shell, the bare nodes that give the limits, and `scif-perf`.

use harness::base::report::{Failure, Result};
use harness::base::run_directory::RunDirectory;
use harness::base::settings::Settings;
use harness::node::image::{Additions, Image};
use harness::node::machine::{Event, Machine, Plan};
use harness::suite::console_protocol::Meaning;
use harness::suite::suite_run::{Observer, Run};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The console's last bytes when the shell waits for the first command.
const PROMPT: &[u8] = b" # ";
/// Longest time of a boot.
const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// A boot to the shell.
pub struct Booted {
    /// Nanoseconds from the start of QEMU to the shell's first prompt.
    pub nanoseconds: f64,
    /// Size in bytes of the kernel and the files that were booted.
    pub image_bytes: f64,
}

/// Boots one node alone, with a shell on its console.
pub fn boot(settings: &Settings, image: &dyn Image) -> Result<Booted> {
    let run = Run::new("bench-boot", settings, BOOT_LIMIT)?;
    let directory = RunDirectory::new()?;
    let lines = ["SKIFF_CONSOLE=1".to_string()];
    let boot = image.boot_files(run.boot, &Additions::default(), &lines, directory.path())?;
    let mut image_bytes = 0;
    for files in &boot {
        image_bytes += files.bytes()?;
    }
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
                    return Ok(Booted {
                        nanoseconds: at.as_nanos() as f64,
                        image_bytes: image_bytes as f64,
                    });
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
    /// The name for the logs.
    pub name: &'static str,
    /// Number of nodes.
    pub nodes: usize,
    /// The script of each node.
    pub scripts: BTreeMap<usize, String>,
    /// Longest time of the run.
    pub limit: Duration,
}

/// Passes the lines of node 0 to a function, and collects the wrong clocks that kernels report.
struct Lines<'a> {
    take: &'a mut dyn FnMut(&str),
    wrong_clocks: Vec<String>,
}

impl Observer for Lines<'_> {
    fn line(&mut self, node: usize, text: &str, _: Option<&Meaning>) {
        if let Some(khz) = timer_khz(text)
            && khz.abs_diff(TIMER_KHZ) > TIMER_KHZ / MOST_OFF
        {
            let wrong = format!("node {node} took its timer of {TIMER_KHZ} kHz for {khz} kHz");
            self.wrong_clocks.push(wrong);
        }
        if node == 0 {
            (self.take)(text);
        }
    }
}

/// The rate in kHz of the local timer that QEMU gives a guest: 1 GHz, divided by 16. A kernel
/// measures its clock in the same windows, so its clock is as wrong as its reading of this timer.
const TIMER_KHZ: u64 = 62_500;
/// A guest whose reading is off by more than one part in this number, 2 %, is refused.
const MOST_OFF: u64 = 50;

/// Parses our kernel's line about its local timer: `kernel: clock: TSC <MHz> MHz, timer <kHz>
/// kHz`.
fn timer_khz(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("kernel: clock: ")?;
    let (_, rest) = rest.split_once(", timer ")?;
    rest.split_once(" kHz")?.0.parse().ok()
}

impl Nodes {
    /// Runs the programs. Passes the lines of node 0 to `line`.
    pub fn run(
        &self,
        settings: &Settings,
        image: &dyn Image,
        line: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let mut run = Run::new(self.name, settings, self.limit)?;
        run.nodes = self.nodes;
        run.timeout = self.limit;
        run.stay = true;
        for (node, text) in &self.scripts {
            run.scripts.insert(*node, text.clone().into_bytes());
        }
        let mut lines = Lines {
            take: line,
            wrong_clocks: Vec::new(),
        };
        let outcome = run.execute(image, &mut lines)?;
        let mut complaints = outcome.complaints();
        complaints.append(&mut lines.wrong_clocks);
        for (node, text) in outcome.reports() {
            complaints.push(format!("node {node}: {text}"));
        }
        if complaints.is_empty() {
            return Ok(());
        }
        Err(Failure::from(complaints.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_with_a_wrong_clock_is_noticed() {
        let mut seen = Vec::new();
        let mut take = |text: &str| seen.push(text.to_string());
        let mut lines = Lines {
            take: &mut take,
            wrong_clocks: Vec::new(),
        };
        let clock = |khz: u64| format!("kernel: clock: TSC 2500 MHz, timer {khz} kHz");
        lines.line(0, &clock(62_500), None);
        lines.line(0, "kernel: clock: what?", None);
        lines.line(1, &clock(63_700), None);
        assert!(lines.wrong_clocks.is_empty());
        lines.line(1, &clock(63_800), None);
        lines.line(0, &clock(61_200), None);
        assert_eq!(lines.wrong_clocks.len(), 2);
        assert_eq!(seen.len(), 3);
    }
}
