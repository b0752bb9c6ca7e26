//! The steps of a run: what each boots or starts, and the scripts of those that run on our nodes.

use crate::nodes::Nodes;
use harness::base::settings::Purpose;
use harness::node::image::Contents;
use std::collections::BTreeMap;
use std::time::Duration;

/// A step of the benchmark, by what it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Boots a Linux guest, from the start of QEMU to its first process.
    LinuxBoot,
    /// Boots our node, from the start of QEMU to the shell's prompt.
    SkiffBoot,
    /// Two Linux guests: the peers that ours are compared with.
    LinuxPair,
    /// Two of our nodes: the limits and our values in turn.
    Pair,
    /// Two of our nodes: tests beside a thread that computes.
    Beside,
    /// Four of our nodes, two of them idle: the echoes of [`Beside`](Self::Beside).
    BesideFour,
    /// Two of our nodes: messages by C programs and by Rust programs.
    Languages,
    /// One of our nodes: connections inside it.
    Loopback,
    /// Programs on this machine, without QEMU.
    Native,
    /// Two Linux guests: RDMA verbs in software over their network cards.
    LinuxRdma,
    /// Two Linux guests: TCP and shared memory, all sizes.
    LinuxSizes,
    /// Two of our nodes: all sizes, and the costs of connecting, registering and mapping.
    Sizes,
    /// Round trips with more and more idle connections.
    Connections,
    /// Transfers with more and more windows.
    Windows,
    /// Transfers with more and more mapped pages.
    Pages,
    /// Round trips with this number of nodes.
    Nodes(usize),
}

/// The steps of one boot, in order.
const REPEATED: &[Step] = &[
    Step::LinuxBoot,
    Step::SkiffBoot,
    Step::LinuxPair,
    Step::LinuxRdma,
    Step::Pair,
    Step::Beside,
    Step::BesideFour,
    Step::Languages,
    Step::Loopback,
    Step::Native,
    Step::Connections,
];
/// The boot number of the steps that run once, with all repetitions inside one boot.
pub const ONCE: u64 = 0;
/// The steps that run once.
const SINGLE: &[Step] = &[
    Step::LinuxSizes,
    Step::Sizes,
    Step::Windows,
    Step::Pages,
    Step::Nodes(2),
    Step::Nodes(4),
    Step::Nodes(8),
];

/// Returns the steps, each with the number of its boot. The steps of one boot follow each other,
/// so that the values to compare are measured shortly one after the other. A smoke run leaves out
/// a step that would be the same as another one.
pub fn steps(boots: u64, only: Option<&str>, quick: bool) -> Vec<(Step, u64)> {
    let selected = |step: &&Step| only.is_none_or(|word| step.name().contains(word));
    let repeated = |boot| {
        let steps = REPEATED.iter().filter(selected);
        steps.map(move |step| (*step, boot))
    };
    let is_other = |step: &&Step| !quick || **step != Step::LinuxSizes;
    let once = SINGLE.iter().filter(selected).filter(is_other);
    let once = once.map(|step| (*step, ONCE));
    (1..=boots).flat_map(repeated).chain(once).collect()
}

/// Returns the contents of the image for these steps: what a user gets, and the test programs that
/// their scripts name.
pub fn contents(steps: &[(Step, u64)], quick: bool) -> Contents {
    let nodes = steps.iter().filter_map(|(step, _)| step.on_nodes(quick));
    let scripts: Vec<String> = nodes
        .flat_map(|nodes| nodes.scripts.into_values())
        .collect();
    Contents::named_in(Purpose::Release, scripts.iter().map(String::as_str))
}

/// Returns the names of all steps, for ONLY=.
pub fn names() -> Vec<&'static str> {
    let all = REPEATED.iter().chain(SINGLE);
    let mut names: Vec<_> = all.map(|step| step.name()).collect();
    names.dedup();
    names
}

/// Returns the number of repetitions inside a boot, and the time for one size in a repetition, of
/// tests that run alone.
fn effort(quick: bool) -> &'static str {
    match quick {
        true => "--json --repetitions 2 --budget-ms 5",
        false => "--json --repetitions 5 --budget-ms 15",
    }
}

/// Returns the number of repetitions and the time of tests that run in turn: many short
/// repetitions, because the machine's speed changes within some ten milliseconds.
fn turns(quick: bool, repetitions: u32, budget_ms: u32) -> String {
    let repetitions = if quick { repetitions / 6 } else { repetitions };
    format!("--json --repetitions {repetitions} --budget-ms {budget_ms}")
}

/// Makes a script that runs all lines and fails if one of them fails. The server's script ends
/// when a client passes `--stop`.
fn script(lines: &[String]) -> String {
    let mut text = "failed=0\n".to_string();
    for line in lines {
        text.push_str(&format!("{line} || failed=1\n"));
    }
    text + "exit $failed\n"
}

impl Step {
    /// Returns the short name, for ONLY=.
    pub fn name(self) -> &'static str {
        match self {
            Self::LinuxBoot => "linux-boot",
            Self::SkiffBoot => "skiff-boot",
            Self::LinuxPair => "linux-pair",
            Self::LinuxRdma => "linux-rdma",
            Self::Pair => "skiff-pair",
            Self::Beside => "skiff-beside",
            Self::BesideFour => "skiff-four",
            Self::Languages => "skiff-languages",
            Self::Loopback => "skiff-loopback",
            Self::Native => "native",
            Self::LinuxSizes => "linux-sizes",
            Self::Sizes => "skiff-sizes",
            Self::Connections => "growth-connections",
            Self::Windows => "growth-windows",
            Self::Pages => "growth-pages",
            Self::Nodes(_) => "growth-nodes",
        }
    }

    /// Returns the title, for people.
    pub fn title(self) -> String {
        match self {
            Self::LinuxBoot => "Linux guest: boot to its first process".to_string(),
            Self::SkiffBoot => "our node: boot to the shell's prompt".to_string(),
            Self::LinuxPair => "two Linux guests: TCP".to_string(),
            Self::LinuxRdma => "two Linux guests: RDMA verbs over virtio-net".to_string(),
            Self::Pair => "two of our nodes: limits and ours in turn".to_string(),
            Self::Beside => "two of our nodes: beside a thread that computes".to_string(),
            Self::BesideFour => "four of our nodes on two cores".to_string(),
            Self::Languages => "two of our nodes: C and Rust".to_string(),
            Self::Loopback => "one of our nodes: loopback".to_string(),
            Self::Native => "without QEMU".to_string(),
            Self::LinuxSizes => "two Linux guests: all sizes".to_string(),
            Self::Sizes => "two of our nodes: all sizes, and costs".to_string(),
            Self::Connections => "growth: idle connections".to_string(),
            Self::Windows => "growth: windows".to_string(),
            Self::Pages => "growth: mapped pages".to_string(),
            Self::Nodes(nodes) => format!("growth: {nodes} nodes"),
        }
    }

    /// Returns the prefix of the names of the step's tests: programs do not know beside what they
    /// run.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Loopback => "loop_",
            Self::BesideFour => "four_",
            Self::Languages => "lang_",
            _ => "",
        }
    }

    /// Returns whether the step boots Linux guests with the usual kernel.
    pub fn boots_linux(self) -> bool {
        matches!(self, Self::LinuxBoot | Self::LinuxPair | Self::LinuxSizes)
    }

    /// Returns the effort of the Linux guests, in the words of their program.
    pub fn linux_effort(self, quick: bool) -> &'static str {
        match self {
            _ if quick => "quick",
            Self::LinuxSizes => "full",
            _ => "brief",
        }
    }

    /// Returns the run on our nodes, if the step is one.
    pub fn on_nodes(self, quick: bool) -> Option<Nodes> {
        let growth = |test: &str, full: u32, small: u32| {
            let max = if quick { small } else { full };
            let effort = turns(quick, 20, 5);
            vec![format!(
                "scif-perf 1 {effort} --test {test} --poll --max {max} --stop"
            )]
        };
        let lines = match self {
            Self::Pair => pair(quick),
            Self::Sizes => sizes(quick),
            Self::Beside => beside(quick),
            Self::Languages => languages(quick),
            Self::Loopback => return Some(loopback(quick)),
            Self::Connections => {
                let transfers = format!(
                    "scif-perf 1 {} --test st_idle --poll --max 1000",
                    turns(quick, 20, 5)
                );
                [vec![transfers], growth("idle", 4000, 1000)].concat()
            }
            Self::Windows => growth("windows", 100000, 100),
            Self::Pages => growth("pages", 65536, 256),
            Self::Nodes(nodes) => return Some(many(self, nodes, quick)),
            Self::BesideFour => return Some(many(self, 4, quick)),
            Self::LinuxBoot
            | Self::SkiffBoot
            | Self::LinuxPair
            | Self::LinuxRdma
            | Self::LinuxSizes
            | Self::Native => return None,
        };
        let server: &[&str] = match self {
            Self::Pair | Self::Sizes => &["scif-bare -s"],
            Self::Windows => &MANY_WINDOWS,
            Self::Languages => &[
                "message-times &\nloop-times &\nfile-times &\ntrue",
                "scif-perf -s",
            ],
            _ => &["scif-perf -s"],
        };
        let server: Vec<_> = server.iter().map(|line| line.to_string()).collect();
        Some(Nodes {
            name: self.name(),
            nodes: 2,
            scripts: BTreeMap::from([(0, script(&lines)), (1, script(&server))]),
            limit: Duration::from_secs(600),
        })
    }
}

/// Allows a process 131,072 windows of one page each. The default limits are lower.
const MANY_WINDOWS: [&str; 4] = [
    "scifctl limits windows_per_user 131072",
    "scifctl limits windows_per_process 131072",
    "scifctl limits pinned_pages_per_user 131072",
    "scif-perf -s",
];

/// Returns node 0's lines for the comparison with limits, one test of each at a time.
fn pair(quick: bool) -> Vec<String> {
    let fast = turns(quick, 48, 4);
    let copies = turns(quick, 18, 5);
    // A stream of verbs begins and ends with some hundred microseconds for connections and for
    // memory that was not accessed lately.
    let streams = turns(quick, 18, 20);
    let one_size = "--size 64 --poll";
    vec![
        format!("scif-bare 1 {fast} --test bare_pingpong+pio_rtt+msg_rtt+msg_rtt_usual {one_size}"),
        format!("scif-bare 1 {fast} --test bare_doorbell+msg_rtt --size 64 --block"),
        format!("scif-bare 1 {copies} --test bare_write+rma_write --size 1M,16M,64M"),
        format!("scif-bare 1 {copies} --test bare_read+rma_read --size 1M,16M,64M"),
        format!("scif-bare 1 {fast} --test bare_write+bare_read+bare_copy_read+stream --size 4K"),
        format!(
            "scif-bare 1 {copies} --test own_rma_write+rma_write,own_rma_read+rma_read --size 1M"
        ),
        format!("scif-bare 1 {copies} --test rma_write+marked_write+signaled_write --size 4K"),
        format!("scif-bare 1 {copies} --test bare_write+own_rma_write --size 16M,64M"),
        format!("scif-bare 1 {copies} --test bare_read+own_rma_read --size 16M,64M"),
        format!("scif-bare 1 {copies} --test own_register+copy_register --size 256K,2M"),
        format!("scif-bare 1 {fast} --test bare_pingpong+st_rtt+st_put_rtt --poll"),
        format!("scif-bare 1 {fast} --test bare_doorbell+st_rtt --block"),
        format!("scif-bare 1 {fast} --test stream+st_stream+st_stream_several --size 32"),
        format!("scif-bare 1 {copies} --test bare_write+st_put --size 1M"),
        format!("scif-bare 1 {copies} --test bare_read+st_get --size 1M"),
        format!("scif-bare 1 {fast} --test bare_pingpong+rdma_write_rtt --poll"),
        format!("scif-bare 1 {fast} --test msg_rtt+rdma_send_rtt --size 64 --poll"),
        format!("scif-bare 1 {fast} --test bare_doorbell+rdma_send_rtt --block"),
        format!("scif-bare 1 {streams} --test stream+rdma_stream --size 64"),
        format!("scif-bare 1 {copies} --test rma_write+rdma_write,rma_read+rdma_read --size 1M"),
        format!("scif-bare 1 {fast} --test rdma_pairs --poll"),
        format!("scif-bare 1 {copies} --test connect"),
        format!("scif-bare 1 {} --test file_stream --stop", effort(quick)),
    ]
}

/// Returns node 0's lines for the comparison with the same test beside a thread that computes.
fn beside(quick: bool) -> Vec<String> {
    let effort = turns(quick, 18, 20);
    let echo = "echo_idle+echo_own+echo_peer";
    vec![
        format!("scif-perf 1 {effort} --test {echo}"),
        format!("scif-perf 1 {effort} --test {echo} --block"),
        format!("scif-perf 1 {effort} --test register_idle+register_own+register_peer --stop"),
    ]
}

/// Returns node 0's lines for messages by C programs and by Rust programs, and for a stream by C
/// programs: some repetitions of each, in turn.
fn languages(quick: bool) -> Vec<String> {
    let (rounds, repetitions) = if quick { (2, 2) } else { (6, 8) };
    let mut lines = Vec::new();
    for round in 1..=rounds {
        let (rust, c) = match round == rounds {
            true => (" --stop", " stop"),
            false => ("", ""),
        };
        lines.push(format!("message-times 1 {repetitions}{c}"));
        lines.push(format!("loop-times 1 {repetitions}{c}"));
        lines.push(format!("file-times 1 {repetitions}{c}"));
        lines.push(format!(
            "scif-perf 1 --json --repetitions {repetitions} --budget-ms 4 --test msg_rtt \
             --size 64 --poll{rust}"
        ));
    }
    lines
}

/// Returns node 0's lines for the curves.
fn sizes(quick: bool) -> Vec<String> {
    let effort = effort(quick);
    let sizes = match quick {
        true => "--size 64,4K,64K,1M",
        false => "--size 64,256,1K,4K,16K,64K,256K,1M,4M,16M,64M",
    };
    vec![
        format!("scif-bare 1 {effort} --test msg_rtt"),
        format!("scif-bare 1 {effort} --test bare_write+rma_write,bare_read+rma_read {sizes}"),
        format!("scif-bare 1 {effort} --test pio_write,pio_read {sizes}"),
        format!("scif-bare 1 {effort} --test stream,file_stream --size 64,4K,64K"),
        format!("scif-bare 1 {effort} --test costs"),
        format!("scif-bare 1 {effort} --test msg_rtt --size 64,4K --path file --stop"),
    ]
}

fn loopback(quick: bool) -> Nodes {
    let (fast, copies) = (turns(quick, 48, 8), turns(quick, 48, 5));
    let lines = [
        "scif-perf -s &\ntrue".to_string(),
        format!("scif-perf 0 {fast} --test ring_rtt+msg_rtt --size 64 --poll"),
        format!("scif-perf 0 {copies} --test local_copy+rma_read+rma_write --size 1M --stop"),
    ];
    Nodes {
        name: Step::Loopback.name(),
        nodes: 1,
        scripts: BTreeMap::from([(0, script(&lines))]),
        limit: Duration::from_secs(120),
    }
}

/// Makes a run with round trips between two nodes while the other nodes are idle.
fn many(step: Step, nodes: usize, quick: bool) -> Nodes {
    // One line is the head of the table.
    let seen = "$(cat /scheme/scif/nodes | wc -l)";
    let mut lines = vec![format!(
        "until [ \"{seen}\" -gt {nodes} ]; do sleep 0.2; done"
    )];
    match step {
        Step::BesideFour => {
            let effort = turns(quick, 18, 20);
            lines.push(format!("scif-perf 1 {effort} --test echo_idle"));
            lines.push(format!(
                "scif-perf 1 {effort} --test echo_idle --block --stop"
            ));
        }
        _ => {
            let effort = turns(quick, 20, 5);
            lines.push(format!("scif-perf 1 {effort} --test nodes --poll --stop"));
        }
    }
    let server = ["scif-perf -s".to_string()];
    Nodes {
        name: step.name(),
        nodes,
        scripts: BTreeMap::from([(0, script(&lines)), (1, script(&server))]),
        limit: Duration::from_secs(120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_one_boot_stand_together() {
        let all = steps(2, None, false);
        assert_eq!(all.len(), 2 * REPEATED.len() + SINGLE.len());
        assert_eq!(all[0], (Step::LinuxBoot, 1));
        assert_eq!(all[REPEATED.len()], (Step::LinuxBoot, 2));
        let only = steps(2, Some("linux"), false);
        assert!(only.iter().all(|(step, _)| step.name().contains("linux")));
        assert_eq!(only.len(), 7);
        assert!(steps(2, Some("no such step"), false).is_empty());
    }

    #[test]
    fn a_line_that_fails_fails_the_script_but_not_the_lines_after_it() {
        let text = script(&["false".to_string(), "echo on".to_string()]);
        let output = std::process::Command::new("sh")
            .args(["-c", &text])
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"on\n");
        assert_eq!(output.status.code(), Some(1));
    }

    #[test]
    fn the_image_has_the_programs_of_its_steps() {
        let wants = |only: &str, program: &str| {
            let contents = contents(&steps(1, Some(only), true), true);
            contents.tests.want(&[program.to_string()])
        };
        assert!(wants("skiff-pair", "scif-bare"));
        assert!(!wants("skiff-pair", "message-times"));
        assert!(wants("skiff-languages", "message-times"));
        assert!(wants("skiff-languages", "loop-times"));
        assert!(wants("skiff-languages", "file-times"));
        assert!(!wants("skiff-languages", "message-times-clang"));
    }

    #[test]
    fn every_step_runs_somewhere() {
        for (step, _) in steps(1, None, false) {
            let alone = matches!(step, Step::Native | Step::LinuxRdma);
            let ours = step == Step::SkiffBoot || step.on_nodes(false).is_some();
            let places = [ours, step.boots_linux(), alone];
            assert_eq!(places.iter().filter(|place| **place).count(), 1, "{step:?}");
        }
    }
}
