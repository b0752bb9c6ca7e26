//! The steps of a run: what each boots or starts, and the scripts of those that run on our nodes.

use crate::bench::image::Nodes;
use std::collections::BTreeMap;
use std::time::Duration;

/// What one step measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A Linux guest, from the start of QEMU to its first process.
    LinuxBoot,
    /// Our node, from the start of QEMU to the shell's prompt.
    SkiffBoot,
    /// Two Linux guests: TCP and shared memory.
    LinuxPair,
    /// Two of our nodes: the limits and `scif-perf`.
    Pair,
    /// One of our nodes: connections inside it.
    Loopback,
    /// Programs on this machine, without QEMU.
    Native,
    /// Round trips beside more and more idle connections.
    Connections,
    /// Transfers beside more and more windows.
    Windows,
    /// Transfers beside more and more mapped pages.
    Pages,
    /// Round trips with so many nodes.
    Nodes(usize),
}

/// The steps of one boot, in order.
const REPEATED: &[Step] = &[
    Step::LinuxBoot,
    Step::SkiffBoot,
    Step::LinuxPair,
    Step::Pair,
    Step::Loopback,
    Step::Native,
];
/// Steps whose repetitions are all inside one boot.
const ONCE: &[Step] = &[
    Step::Connections,
    Step::Windows,
    Step::Pages,
    Step::Nodes(2),
    Step::Nodes(4),
    Step::Nodes(8),
];

/// The steps with the number of their boot. Steps of one boot stand together, so that what is
/// compared is measured shortly one after the other.
pub fn steps(boots: u64, only: Option<&str>) -> Vec<(Step, u64)> {
    let selected = |step: &&Step| only.is_none_or(|word| step.name().contains(word));
    let repeated = |boot| {
        let steps = REPEATED.iter().filter(selected);
        steps.map(move |step| (*step, boot))
    };
    let once = ONCE.iter().filter(selected).map(|step| (*step, 1));
    (1..=boots).flat_map(repeated).chain(once).collect()
}

/// Repetitions inside a boot, and the time for one size in a repetition.
fn effort(quick: bool) -> &'static str {
    match quick {
        true => "--json --repetitions 2 --budget-ms 5",
        false => "--json --repetitions 5 --budget-ms 20",
    }
}

/// A script whose lines are all run; it fails when one of them fails. The server's script ends when
/// a client says `--stop`.
fn script(lines: &[String]) -> String {
    let mut text = "failed=0\n".to_string();
    for line in lines {
        text.push_str(&format!("{line} || failed=1\n"));
    }
    text + "exit $failed\n"
}

impl Step {
    /// Short name, for ONLY=.
    pub fn name(self) -> &'static str {
        match self {
            Self::LinuxBoot => "linux-boot",
            Self::SkiffBoot => "skiff-boot",
            Self::LinuxPair => "linux-pair",
            Self::Pair => "skiff-pair",
            Self::Loopback => "skiff-loopback",
            Self::Native => "native",
            Self::Connections => "growth-connections",
            Self::Windows => "growth-windows",
            Self::Pages => "growth-pages",
            Self::Nodes(_) => "growth-nodes",
        }
    }

    /// What it measures, for people.
    pub fn title(self) -> String {
        match self {
            Self::LinuxBoot => "Linux guest: boot to its first process".to_string(),
            Self::SkiffBoot => "our node: boot to the shell's prompt".to_string(),
            Self::LinuxPair => "two Linux guests: TCP and shared memory".to_string(),
            Self::Pair => "two of our nodes: the limits, then scif-perf".to_string(),
            Self::Loopback => "one of our nodes: loopback".to_string(),
            Self::Native => "without QEMU".to_string(),
            Self::Connections => "growth: idle connections".to_string(),
            Self::Windows => "growth: windows".to_string(),
            Self::Pages => "growth: mapped pages".to_string(),
            Self::Nodes(nodes) => format!("growth: {nodes} nodes"),
        }
    }

    /// What is put before the names of its tests: programs do not know what they run beside.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Loopback => "loop_",
            _ => "",
        }
    }

    /// Whether it boots our image.
    pub fn boots_ours(self) -> bool {
        self == Self::SkiffBoot || self.on_nodes(false).is_some()
    }

    /// Whether it boots Linux guests.
    pub fn boots_linux(self) -> bool {
        matches!(self, Self::LinuxBoot | Self::LinuxPair)
    }

    /// The run on our nodes, if it is one.
    pub fn on_nodes(self, quick: bool) -> Option<Nodes> {
        let effort = effort(quick);
        let growth = |test: &str, full: u32, small: u32| {
            let max = if quick { small } else { full };
            vec![format!(
                "scif-perf 1 {effort} --test {test} --max {max} --stop"
            )]
        };
        let lines = match self {
            Self::Pair => pair(quick),
            Self::Loopback => return Some(loopback(quick)),
            Self::Connections => growth("idle", 4000, 1000),
            Self::Windows => growth("windows", 100000, 100),
            Self::Pages => growth("pages", 65536, 256),
            Self::Nodes(nodes) => return Some(many(nodes, effort)),
            Self::LinuxBoot | Self::SkiffBoot | Self::LinuxPair | Self::Native => return None,
        };
        let server = match self {
            Self::Pair => ["scif-bare --json".to_string(), "scif-perf -s".to_string()].to_vec(),
            _ => ["scif-perf -s".to_string()].to_vec(),
        };
        Some(Nodes {
            name: self.name(),
            nodes: 2,
            scripts: BTreeMap::from([(0, script(&lines)), (1, script(&server))]),
            // Only there do the bare doorbells run, before the driver takes the device.
            overlay: (self == Self::Pair).then_some("tests/bench/bare/files"),
            limit: Duration::from_secs(240),
        })
    }
}

/// Node 0's part of the limits and `scif-perf`.
fn pair(quick: bool) -> Vec<String> {
    let effort = effort(quick);
    let bare = match quick {
        true => "--repetitions 1 --budget-ms 2",
        false => "--repetitions 3 --budget-ms 8",
    };
    let sizes = "64,256,1K,4K,16K,64K,256K,1M,4M,16M,64M";
    vec![
        format!("scif-bare --json --size {sizes} {bare}"),
        format!("scif-perf 1 {effort} --test latency,bandwidth,costs"),
        format!("scif-perf 1 {effort} --test msg_rtt --size 64,4K --path file --stop"),
    ]
}

fn loopback(quick: bool) -> Nodes {
    let effort = effort(quick);
    let lines = [
        "scif-perf -s &\ntrue".to_string(),
        format!("scif-perf 0 {effort} --test ring_rtt,msg_rtt --size 64"),
        format!("scif-perf 0 {effort} --test rma_read,rma_write,local_copy --size 1M --stop"),
    ];
    Nodes {
        name: Step::Loopback.name(),
        nodes: 1,
        scripts: BTreeMap::from([(0, script(&lines))]),
        overlay: None,
        limit: Duration::from_secs(120),
    }
}

/// Round trips between two nodes while the others only are there.
fn many(nodes: usize, effort: &str) -> Nodes {
    // One line is the table's head.
    let seen = "$(cat /scheme/scif/nodes | wc -l)";
    let lines = [
        format!("until [ \"{seen}\" -gt {nodes} ]; do sleep 0.2; done"),
        format!("scif-perf 1 {effort} --test nodes --stop"),
    ];
    let server = ["scif-perf -s".to_string()];
    Nodes {
        name: Step::Nodes(nodes).name(),
        nodes,
        scripts: BTreeMap::from([(0, script(&lines)), (1, script(&server))]),
        overlay: None,
        limit: Duration::from_secs(120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_one_boot_stand_together() {
        let all = steps(2, None);
        assert_eq!(all.len(), 2 * REPEATED.len() + ONCE.len());
        assert_eq!(all[0], (Step::LinuxBoot, 1));
        assert_eq!(all[REPEATED.len()], (Step::LinuxBoot, 2));
        let only = steps(2, Some("linux"));
        assert!(only.iter().all(|(step, _)| step.name().contains("linux")));
        assert_eq!(only.len(), 4);
        assert!(steps(2, Some("no such step")).is_empty());
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
    fn every_step_runs_somewhere() {
        for (step, _) in steps(1, None) {
            let places = [step.boots_ours(), step.boots_linux(), step == Step::Native];
            assert_eq!(places.iter().filter(|place| **place).count(), 1, "{step:?}");
        }
    }
}
