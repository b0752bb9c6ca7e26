//! Runs shell scripts on nodes and determines their results, for `run SCRIPT=`, the demo and the
//! guest suites.
//!
//! The scripts are packed into the initfs as `etc/run/<node>.sh`. A run is over when every script
//! has ended and its node has powered off; nodes without a script, and nodes that stay, idle until
//! then. When a script fails, the others get a short time to end by themselves. A kernel panic ends
//! the run at once.

use crate::base::config::{self, Node};
use crate::base::report::{Failure, Result, status};
use crate::base::run_directory::RunDirectory;
use crate::base::settings::{Accel, Boot, Settings};
use crate::network::fabric::{Fault, Heard};
use crate::node::image::{Additions, Image};
use crate::node::machine::{End, Event, Machine, Plan};
use crate::node::page_table_audit::Audit;
use crate::suite::console_protocol::{Meaning, Order, Splitter, kernel_address, meaning};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long other scripts may go on after one failed.
const GRACE: Duration = Duration::from_secs(10);
/// How long a node whose kernel panicked may take to print the rest of its report.
const DRAIN: Duration = Duration::from_secs(3);

/// A run of scripts.
#[derive(Debug)]
pub struct Run {
    /// Name for the logs.
    pub name: String,
    /// Description of every node.
    pub config: Node,
    /// Memory of each node in MiB.
    pub memory_mib: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// Scripts by node: their text.
    pub scripts: BTreeMap<usize, Vec<u8>>,
    /// Directory to lay over the initfs.
    pub overlay: Option<PathBuf>,
    /// Nodes a script starts.
    pub late: Vec<usize>,
    /// The start script that a node leaves out, by node.
    pub skip: BTreeMap<usize, String>,
    /// A program that takes the bootstrap's place on every node, instead of scripts.
    pub bootstrap: Option<String>,
    /// Spoil the image so that the kernel finds no program to start.
    pub no_bootstrap: bool,
    /// Hard limit.
    pub timeout: Duration,
    /// How to boot.
    pub boot: Boot,
    /// The way the nodes are executed.
    pub accel: Accel,
    /// Whether to bind nodes to cores.
    pub pin: bool,
    /// Nodes other than 0 stay up when their script has ended, so that what it left in the
    /// background goes on serving; they are switched off with the last script.
    pub stay: bool,
}

/// How one node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeEnd {
    /// It had no script.
    Idle,
    /// Its script ended with this status.
    Status(i32),
    /// Its script's status was never seen.
    NoStatus,
    /// It was cut off at the time limit.
    TimedOut,
    /// Its kernel panicked.
    KernelPanic,
    /// A script asked the launcher to cut its power.
    Killed,
    /// Its script ended, but it had not powered off at the time limit.
    StillOn,
    /// Its QEMU failed, or it went off although nothing on it had to switch it off.
    Broke,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// By node.
    pub ends: Vec<NodeEnd>,
    /// Lines that report a panic of a program, with their node.
    pub program_panics: Vec<(usize, String)>,
    /// Lines that report an exception, with their node.
    pub exceptions: Vec<(usize, String)>,
    /// Lines that show an address of the kernel, with their node.
    pub kernel_addresses: Vec<(usize, String)>,
    /// Where the consoles were logged.
    pub logs: PathBuf,
}

impl Outcome {
    /// The exit status for the user: node 0's script's if that is not 0, else the first other one
    /// that is not 0. A kernel panic, the time limit and a missing status have their own numbers.
    pub fn status(&self) -> u8 {
        let has = |end| self.ends.contains(&end);
        if has(NodeEnd::KernelPanic) {
            return status::KERNEL_PANIC;
        }
        let failed = |end: &NodeEnd| match end {
            NodeEnd::Status(status) if *status != 0 => Some(*status),
            _ => None,
        };
        match self.ends.iter().find_map(failed) {
            // Only the low byte reaches the parent of a process; it must not become success.
            Some(status) => u8::try_from(status).unwrap_or(1),
            None if has(NodeEnd::TimedOut) || has(NodeEnd::StillOn) => status::TIMEOUT,
            None if has(NodeEnd::NoStatus) || has(NodeEnd::Broke) => status::NO_END_MARKER,
            None => 0,
        }
    }

    /// Lines that tell of a fault of a program or of the kernel, with their node.
    pub fn reports(&self) -> impl Iterator<Item = &(usize, String)> {
        let of_programs = self.program_panics.iter().chain(&self.exceptions);
        of_programs.chain(&self.kernel_addresses)
    }

    /// One sentence for each node that did not end well.
    pub fn complaints(&self) -> Vec<String> {
        let logs = crate::base::workspace::display(&self.logs);
        let complaint = |(node, end): (usize, &NodeEnd)| {
            let what = match end {
                NodeEnd::Idle | NodeEnd::Killed | NodeEnd::Status(0) => return None,
                NodeEnd::Status(status) => format!("the script ended with status {status}"),
                NodeEnd::NoStatus => "ended without the script's status".to_string(),
                NodeEnd::TimedOut => {
                    "still ran at the time limit (TIMEOUT= gives more seconds)".to_string()
                }
                NodeEnd::KernelPanic => "kernel panic".to_string(),
                NodeEnd::StillOn => "had not powered off at the time limit".to_string(),
                NodeEnd::Broke => "QEMU failed, or the node went off by itself".to_string(),
            };
            Some(format!("node {node}: {what} (log: {logs}/node{node}.log)"))
        };
        self.ends.iter().enumerate().filter_map(complaint).collect()
    }
}

/// Follows a run as it happens.
pub trait Observer {
    /// A console line, with its meaning if it has one.
    fn line(&mut self, node: usize, text: &str, meaning: Option<&Meaning>);
}

/// Prints all lines, each with its node in front.
pub struct Printer;

impl Observer for Printer {
    fn line(&mut self, node: usize, text: &str, _: Option<&Meaning>) {
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), "[{node}] {text}");
    }
}

/// Where the node finds its script.
fn script_path(node: usize) -> String {
    format!("etc/run/{node}.sh")
}

impl Run {
    /// A run of scripts with the user's settings and nothing to run yet.
    pub fn new(name: &str, settings: &Settings, limit: Duration) -> Result<Self> {
        let config = config::node()?;
        Ok(Self {
            name: name.to_string(),
            memory_mib: settings.memory_mib()?.unwrap_or(config.memory_mib),
            config,
            nodes: settings.nodes(2)?,
            scripts: BTreeMap::new(),
            overlay: settings.files()?,
            late: Vec::new(),
            skip: BTreeMap::new(),
            bootstrap: None,
            no_bootstrap: false,
            timeout: settings.timeout()?.unwrap_or(limit),
            boot: settings.boot()?,
            accel: settings.accel()?,
            pin: settings.pin()?,
            stay: false,
        })
    }

    /// Whether the node stays up after its script. What only a screen shows must stay on it.
    fn stays(&self, node: usize) -> bool {
        (self.stay && node != 0) || self.config.parts.no_serial
    }

    /// Whether the fabric may have to inject faults: a script says so itself, or by a comment where
    /// a program asks for them.
    fn asks_for_faults(&self) -> bool {
        let texts = self.scripts.values();
        let mut texts = texts.map(|text| String::from_utf8_lossy(text));
        let orders = ["LAUNCHER doorbells", "LAUNCHER cut"];
        texts.any(|text| orders.iter().any(|order| text.contains(order)))
    }

    /// Runs it to its end.
    pub fn execute(&self, image: &dyn Image, observer: &mut dyn Observer) -> Result<Outcome> {
        let directory = RunDirectory::new()?;
        let extra: Vec<_> = self
            .scripts
            .iter()
            .map(|(node, text)| (script_path(*node), text.clone()))
            .collect();
        let additions = Additions {
            first: self.bootstrap.as_deref(),
            overlay: self.overlay.as_deref(),
            files: &extra,
            spoiled: self.no_bootstrap,
        };
        let line = |node| match self.scripts.contains_key(&node) {
            true if self.stays(node) => format!("{} SKIFF_STAY=1", run_setting(node)),
            true => run_setting(node),
            false => String::new(),
        };
        let skipped = |node| match self.skip.get(&node) {
            Some(script) => format!("{} SKIFF_SKIP={script}", line(node)),
            None => line(node),
        };
        let lines: Vec<_> = (0..self.nodes).map(skipped).collect();
        let boot = image.boot_files(self.boot, &additions, &lines, directory.path())?;
        let plan = Plan {
            name: self.name.clone(),
            config: self.config.clone(),
            memory_mib: self.memory_mib,
            kvm: crate::node::accel::use_kvm(self.accel)?,
            pin: self.pin,
            boot,
            late: self.late.clone(),
            relayed: self.asks_for_faults(),
        };
        let machine = Machine::start(plan, directory)?;
        let logs = machine.logs().path().to_path_buf();
        let mut watch = Watch::new(machine, self, observer);
        watch.until_done();
        watch.settle();
        watch.save_traces();
        Ok(watch.outcome(logs))
    }
}

/// The setting by which a node's init finds its script.
fn run_setting(node: usize) -> String {
    format!("SKIFF_RUN=/scheme/initfs/{}", script_path(node))
}

/// The state of a run while it goes on.
struct Watch<'a> {
    machine: Machine,
    observer: &'a mut dyn Observer,
    splitters: Vec<Splitter>,
    /// How each node ended; `None` while its script runs.
    ends: Vec<Option<NodeEnd>>,
    running: Vec<bool>,
    /// Which nodes have a script.
    works: Vec<bool>,
    /// Which nodes boot again as soon as they are off.
    restarts: Vec<bool>,
    /// Nodes that do not switch themselves off.
    stays: Vec<bool>,
    /// Nodes whose power the launcher has cut since they were booted last.
    killed: Vec<bool>,
    /// The time limit of the whole run.
    limit: Instant,
    deadline: Instant,
    /// Set when the deadline is an earlier one than the time limit.
    closing: bool,
    program_panics: Vec<(usize, String)>,
    exceptions: Vec<(usize, String)>,
    kernel_addresses: Vec<(usize, String)>,
}

impl<'a> Watch<'a> {
    fn new(machine: Machine, run: &Run, observer: &'a mut dyn Observer) -> Self {
        let works = |node: usize| run.bootstrap.is_some() || run.scripts.contains_key(&node);
        let idle = |node: usize| (!works(node)).then_some(NodeEnd::Idle);
        let limit = Instant::now() + run.timeout;
        Self {
            machine,
            observer,
            splitters: (0..run.nodes).map(|_| Splitter::default()).collect(),
            ends: (0..run.nodes).map(idle).collect(),
            running: (0..run.nodes)
                .map(|node| !run.late.contains(&node))
                .collect(),
            works: (0..run.nodes).map(works).collect(),
            restarts: vec![false; run.nodes],
            stays: (0..run.nodes).map(|node| run.stays(node)).collect(),
            killed: vec![false; run.nodes],
            limit,
            deadline: limit,
            closing: false,
            program_panics: Vec::new(),
            exceptions: Vec::new(),
            kernel_addresses: Vec::new(),
        }
    }

    /// Whether nothing more can come: every script ended, and its node is off or waits to be.
    fn done(&self) -> bool {
        let off = |(node, end): (usize, &Option<NodeEnd>)| match end {
            Some(NodeEnd::Idle) => true,
            Some(_) => self.stays[node] || !self.running[node],
            None => false,
        };
        self.ends.iter().enumerate().all(off)
    }

    fn until_done(&mut self) {
        while !self.done() {
            // What a script that failed left undone does not excuse a node that cannot power off.
            let deadline = match only_power_off_is_left(&self.ends) {
                true => self.limit,
                false => self.deadline,
            };
            let Some(event) = self.machine.next(deadline) else {
                return;
            };
            match event {
                Event::Output { node, bytes } => {
                    for text in self.splitters[node].push(&bytes) {
                        self.line(node, &text);
                    }
                }
                Event::Ended { node, end } => {
                    if let Some(text) = self.splitters[node].finish() {
                        self.line(node, &text);
                    }
                    self.running[node] = false;
                    self.ended(node, end);
                    if std::mem::take(&mut self.restarts[node]) {
                        self.obey(node, Order::Start(node));
                    }
                }
            }
        }
    }

    /// Allows the run only this much more time.
    fn close_within(&mut self, limit: Duration) {
        self.deadline = self.deadline.min(Instant::now() + limit);
        self.closing = true;
    }

    fn line(&mut self, node: usize, text: &str) {
        let meaning = meaning(text);
        if kernel_address(text).is_some() {
            self.kernel_addresses.push((node, text.to_string()));
        }
        self.observer.line(node, text, meaning.as_ref());
        match meaning {
            Some(Meaning::KernelPanic) => {
                self.ends[node] = Some(NodeEnd::KernelPanic);
                self.close_within(DRAIN);
            }
            Some(Meaning::ProgramPanic) => self.program_panics.push((node, text.to_string())),
            Some(Meaning::Exception) => self.exceptions.push((node, text.to_string())),
            Some(Meaning::ScriptStatus(status)) if self.ends[node].is_none() => {
                self.ends[node] = Some(NodeEnd::Status(status));
                if status != 0 {
                    // The others may wait for this one for ever.
                    self.close_within(GRACE);
                }
            }
            Some(Meaning::Order(order)) => self.obey(node, order),
            Some(Meaning::BadOrder(wrong)) => self.disobeyed(node, &wrong),
            Some(Meaning::BadStep) => {
                self.disobeyed(node, &format!("neither ok nor FAIL in '{text}'"));
            }
            _ => {}
        }
    }

    /// Walks all page tables of a node; the result is a step of that node.
    fn audit(&mut self, node: usize) {
        let step = match self.machine.audit(node) {
            Ok(Audit {
                spaces,
                user_pages,
                kernel_pages,
            }) => {
                println!(
                    "     node {node}: {spaces} address spaces, {user_pages} pages of programs, \
                     {kernel_pages} of the kernel"
                );
                "ok".to_string()
            }
            Err(failure) => format!("FAIL {}", failure.message),
        };
        self.line(node, &format!("STEP page tables of node {node}: {step}"));
    }

    /// An order was wrong or failed: the script that gave it counts on it.
    fn disobeyed(&mut self, node: usize, why: &str) {
        self.line(node, &format!("STEP launcher: FAIL {why}"));
    }

    /// The doorbells of a link are treated otherwise from now on; what was asked for before must
    /// have happened.
    fn judge_doorbells(&mut self, node: usize, nodes: [usize; 2], heard: &Heard) {
        let Heard { faults, rung, lost } = heard;
        if faults.lose.0 == 0 {
            return;
        }
        let [first, second] = nodes;
        let step = match lost {
            0 => format!("FAIL of {rung} none was lost"),
            _ => "ok".to_string(),
        };
        println!("     {lost} of {rung} doorbells between {first} and {second} were lost");
        self.line(
            node,
            &format!("STEP doorbells of {first} and {second}: {step}"),
        );
    }

    /// Does what the script of a node asks for.
    fn obey(&mut self, from: usize, order: Order) {
        let done = match order {
            Order::Start(node) if self.running.get(node) == Some(&true) => {
                // Its former life is about to end.
                self.restarts[node] = self.ends[node] == Some(NodeEnd::Killed);
                match self.restarts[node] {
                    true => Ok(()),
                    false => Err(format!("node {node} runs already").into()),
                }
            }
            Order::Start(node) => self.start(node),
            Order::Kill(node) => {
                if let Some(end) = self.ends.get_mut(node).filter(|end| end.is_none()) {
                    *end = Some(NodeEnd::Killed);
                }
                if let Some(killed) = self.killed.get_mut(node) {
                    *killed = true;
                }
                self.machine.kill(node)
            }
            Order::Audit(node) => {
                self.audit(node);
                Ok(())
            }
            Order::Freeze(node) => self.machine.freeze(node, true),
            Order::Thaw(node) => self.machine.freeze(node, false),
            Order::Type(node, words) => self.machine.type_line(node, &words),
            Order::Screen(node, words) => {
                let step = match self.machine.find_on_screen(node, &words) {
                    Ok(()) => "ok".to_string(),
                    Err(failure) => format!("FAIL {}", failure.message),
                };
                self.line(node, &format!("STEP screen of node {node}: {step}"));
                Ok(())
            }
            Order::Cut(nodes) => self.machine.inject(nodes, Fault::Cut).map(drop),
            Order::Heal(nodes) => self.machine.inject(nodes, Fault::Heal).map(drop),
            Order::Doorbells(nodes, faults) => {
                let heard = self.machine.inject(nodes, Fault::Doorbells(faults));
                heard.map(|heard| self.judge_doorbells(from, nodes, &heard))
            }
        };
        if let Err(failure) = done {
            self.disobeyed(from, &failure.message);
        }
    }

    /// Boots a node; one that was killed lives again, and its script is to end once more.
    fn start(&mut self, node: usize) -> Result<()> {
        self.machine.start_node(node)?;
        self.running[node] = true;
        self.killed[node] = false;
        if self.ends[node] == Some(NodeEnd::Killed) && self.works[node] {
            self.ends[node] = None;
        }
        Ok(())
    }

    fn ended(&mut self, node: usize, end: End) {
        let before = self.ends[node];
        let now = end_after(before, end, self.killed[node]);
        if before == Some(now) {
            return;
        }
        if now != NodeEnd::KernelPanic {
            let log = format!("node{node}-qemu.log");
            let log = self.machine.logs().path().join(log);
            let words = std::fs::read_to_string(&log).unwrap_or_default();
            eprintln!(
                "launcher: node {node} ended unexpectedly ({end:?}) {}; QEMU's words are in {}",
                words.lines().last().unwrap_or_default(),
                crate::base::workspace::display(&log)
            );
        }
        self.ends[node] = Some(now);
        self.close_within(GRACE);
    }

    /// Determines the ends of the nodes that were still at work, or still on.
    fn settle(&mut self) {
        // In a closing run, those that were still at work were cut off because of another node.
        let open = if self.closing {
            NodeEnd::NoStatus
        } else {
            NodeEnd::TimedOut
        };
        // Otherwise there was no time to power off.
        let had_time = only_power_off_is_left(&self.ends);
        for (node, end) in self.ends.iter_mut().enumerate() {
            let must_be_off = had_time && !self.stays[node];
            match *end {
                None => *end = Some(open),
                Some(NodeEnd::Status(_)) if must_be_off && self.running[node] => {
                    *end = Some(NodeEnd::StillOn);
                }
                Some(_) => {}
            }
        }
    }

    /// Keeps what the SCIF drivers wrote down on nodes that cannot be asked any more.
    fn save_traces(&self) {
        for (node, end) in self.ends.iter().enumerate() {
            if !matches!(
                end,
                Some(NodeEnd::Status(_) | NodeEnd::Killed | NodeEnd::Idle)
            ) {
                match self.machine.save_trace(node) {
                    Ok(None) => {}
                    Ok(Some((events, path))) => eprintln!(
                        "launcher: the last {events} events of node {node}'s SCIF driver are in {}",
                        crate::base::workspace::display(&path)
                    ),
                    Err(failure) => eprintln!("launcher: {}", failure.message),
                }
            }
        }
    }

    fn outcome(self, logs: PathBuf) -> Outcome {
        Outcome {
            ends: self.ends.into_iter().flatten().collect(),
            program_panics: self.program_panics,
            exceptions: self.exceptions,
            kernel_addresses: self.kernel_addresses,
            logs,
        }
    }
}

/// Whether every script has ended and no node broke, so that all that is left is powering off.
fn only_power_off_is_left(ends: &[Option<NodeEnd>]) -> bool {
    let has_ended =
        |end: &Option<NodeEnd>| !matches!(end, None | Some(NodeEnd::KernelPanic | NodeEnd::Broke));
    ends.iter().all(has_ended)
}

/// How a node ended that had ended like `before` when its QEMU ended. `killed`: the launcher cut
/// its power.
fn end_after(before: Option<NodeEnd>, end: End, killed: bool) -> NodeEnd {
    match (end, before) {
        (End::ExitPort, _) => NodeEnd::KernelPanic,
        (_, Some(before @ NodeEnd::KernelPanic)) => before,
        (_, Some(before)) if killed => before,
        (End::Signal(_) | End::Failed(_), Some(_)) => NodeEnd::Broke,
        // An idle node has no reason to: with -no-reboot, a triple fault looks like this.
        (End::PowerOff, Some(NodeEnd::Idle)) => NodeEnd::Broke,
        (End::PowerOff, Some(before)) => before,
        (_, None) => NodeEnd::NoStatus,
    }
}

/// Turns an outcome into the result of a command: the reason of a failure, and the status. A panic
/// or an exception of a program is a failure, whatever the scripts say.
pub fn conclude(outcome: &Outcome) -> Result<()> {
    for (node, line) in outcome.reports() {
        eprintln!("node {node}: {line}");
    }
    for complaint in outcome.complaints() {
        eprintln!("{complaint}");
    }
    match outcome.status() {
        0 if outcome.reports().next().is_some() => Err(Failure::silent(status::BAD_REPORT)),
        0 => Ok(()),
        status => Err(Failure::silent(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(ends: &[NodeEnd]) -> u8 {
        let outcome = Outcome {
            ends: ends.to_vec(),
            program_panics: Vec::new(),
            exceptions: Vec::new(),
            kernel_addresses: Vec::new(),
            logs: PathBuf::new(),
        };
        assert_eq!(outcome.complaints().is_empty(), outcome.status() == 0);
        outcome.status()
    }

    #[test]
    fn a_node_gets_all_the_time_of_the_run_to_power_off() {
        use NodeEnd::*;
        let left = |ends: &[Option<NodeEnd>]| only_power_off_is_left(ends);
        assert!(!left(&[Some(Status(0)), None]), "a script is at work");
        assert!(left(&[Some(Idle), Some(Status(1)), Some(Killed)]));
        assert!(!left(&[Some(Status(0)), Some(KernelPanic)]));
        assert!(!left(&[Some(Status(0)), Some(Broke)]));
    }

    #[test]
    fn no_end_of_a_machine_is_overlooked() {
        use NodeEnd::*;
        let crash = End::Signal(6);
        let done = Some(Status(0));
        for (before, end, killed, after) in [
            (None, End::PowerOff, false, NoStatus),
            (None, crash, false, NoStatus),
            (done, End::PowerOff, false, Status(0)),
            (done, crash, false, Broke),
            (done, End::Failed(1), false, Broke),
            (done, End::ExitPort, false, KernelPanic),
            (done, crash, true, Status(0)),
            (Some(Killed), crash, true, Killed),
            (Some(Idle), End::PowerOff, false, Broke),
            (Some(Idle), crash, false, Broke),
            (Some(Idle), crash, true, Idle),
            (Some(KernelPanic), End::PowerOff, false, KernelPanic),
        ] {
            assert_eq!(end_after(before, end, killed), after, "{before:?} {end:?}");
        }
    }

    #[test]
    fn what_consoles_report_makes_a_run_fail() {
        let good = || Outcome {
            ends: vec![NodeEnd::Status(0)],
            program_panics: Vec::new(),
            exceptions: Vec::new(),
            kernel_addresses: Vec::new(),
            logs: PathBuf::new(),
        };
        assert!(conclude(&good()).is_ok());
        let line = || vec![(0, "a line".to_string())];
        let panic = Outcome {
            program_panics: line(),
            ..good()
        };
        let exception = Outcome {
            exceptions: line(),
            ..good()
        };
        let address = Outcome {
            kernel_addresses: line(),
            ..good()
        };
        for bad in [&panic, &exception, &address] {
            let failure = conclude(bad).unwrap_err();
            assert_eq!(failure.status, status::BAD_REPORT);
        }
        // The scripts' own status says more.
        let both = Outcome {
            ends: vec![NodeEnd::Status(3)],
            ..panic
        };
        assert_eq!(conclude(&both).unwrap_err().status, 3);
    }

    #[test]
    fn node_zero_decides_then_the_others() {
        use NodeEnd::*;
        assert_eq!(status(&[Status(0), Idle]), 0);
        assert_eq!(status(&[Status(3), Status(4)]), 3);
        assert_eq!(status(&[Status(0), Status(4)]), 4);
        assert_eq!(status(&[Status(3), TimedOut]), 3);
        assert_eq!(status(&[Status(256), Idle]), 1);
        assert_eq!(status(&[Status(0), TimedOut]), status::TIMEOUT);
        assert_eq!(status(&[NoStatus, Idle]), status::NO_END_MARKER);
        assert_eq!(status(&[Status(0), KernelPanic]), status::KERNEL_PANIC);
        assert_eq!(status(&[Status(0), Killed]), 0);
        assert_eq!(status(&[Status(0), StillOn]), status::TIMEOUT);
        assert_eq!(status(&[Status(0), Broke]), status::NO_END_MARKER);
    }
}
