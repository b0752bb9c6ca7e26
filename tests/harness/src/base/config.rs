//! Reads the descriptions in `config/`: what a node is, what is tested.

use crate::base::report::{Context, Result};
use crate::base::settings::Boot;
use crate::base::workspace;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `config/node.toml`: the virtual machine of every node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// QEMU's machine.
    pub machine: String,
    /// QEMU's processor model under emulation.
    pub cpu: String,
    /// Value of `-smp`; more than one possible processor is a must (see the file).
    pub smp: String,
    /// Memory in MiB unless MEM= says otherwise.
    pub memory_mib: u64,
    /// Size of the memory two nodes share on a link, in KiB, a power of two.
    pub link_memory_kib: u64,
    /// Interrupt vectors each side of a link has.
    pub doorbell_vectors: u32,
    /// PCI device number of the link with peer 0; peer n has this plus n.
    pub first_link_slot: u32,
    /// I/O port by which a panicking kernel ends QEMU.
    pub exit_port: u16,
    /// Whether a guest that resets itself boots again, or its QEMU ends.
    #[serde(default)]
    pub reboots: bool,
    /// The further devices of a PC.
    #[serde(default)]
    pub parts: PcParts,
}

/// Parts that PCs have or lack; nodes have a serial port and a keyboard controller, and no screen,
/// unless a suite says otherwise.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PcParts {
    /// A screen.
    pub screen: bool,
    /// No serial port. The launcher then reads the screen, so there must be one.
    pub no_serial: bool,
    /// No PS/2 keyboard controller.
    pub no_keyboard: bool,
    /// The ISO image is on a USB stick, not on a disc.
    pub stick: bool,
}

/// `config/tests.toml`: the suites that run in guests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    /// Packages whose library is tested on the development machine, besides the default members.
    pub host_libraries: Vec<String>,
    /// The suites, in order.
    pub suite: Vec<Suite>,
}

/// One guest suite.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Name, unique.
    pub name: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Script of each node by node number, paths in the project.
    #[serde(default)]
    pub scripts: BTreeMap<String, String>,
    /// A program that takes the bootstrap's place on every node, instead of scripts.
    pub bootstrap: Option<String>,
    /// Hard limit in seconds.
    pub timeout_s: u64,
    /// The expected outcome.
    #[serde(default)]
    pub expect: Expect,
    /// The text that a line of a console must contain: the reason of an expected failure.
    pub says: Option<String>,
    /// How its nodes get their kernel; as BOOT= says if not given here.
    pub boot: Option<Boot>,
    /// The hardware that its nodes have or lack.
    #[serde(default)]
    pub parts: PcParts,
    /// QEMU's machine, if not as usual.
    pub machine: Option<String>,
    /// Memory of each node in MiB; as MEM= says if not given here.
    pub memory_mib: Option<u64>,
    /// Value of QEMU's `-smp`, if not as usual.
    pub smp: Option<String>,
    /// Whether nodes that reset themselves boot again; else that is their end.
    #[serde(default)]
    pub reboots: bool,
    /// Nodes that are started by a script (line `LAUNCHER start <node>`), not at once.
    #[serde(default)]
    pub late: Vec<usize>,
    /// The start script (in `initfs/lib/init.d`) that a node leaves out, by node number.
    #[serde(default)]
    pub skip: BTreeMap<String, String>,
    /// Spoil the image so that the kernel finds no program to start.
    #[serde(default)]
    pub no_bootstrap: bool,
    /// Programs that may be killed by exceptions; any other exception fails the suite.
    #[serde(default)]
    pub exceptions_of: Vec<String>,
    /// Texts that the reports of exceptions must contain, in order; with none it does not matter.
    #[serde(default)]
    pub exceptions: Vec<String>,
}

/// The outcome a suite must have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// Every script ends with status 0 and nothing panics.
    #[default]
    Success,
    /// The kernel of a node panics; used to show that panics are noticed.
    KernelPanic,
    /// A program of a node panics; used to show that panics are noticed.
    ProgramPanic,
    /// A script ends with a status other than 0.
    Failure,
}

/// Reads a file of `config/`.
pub fn read<T: for<'de> Deserialize<'de>>(name: &str) -> Result<T> {
    let path = workspace::root().join("config").join(name);
    let text = std::fs::read_to_string(&path).context(|| format!("read config/{name}"))?;
    toml::from_str(&text).context(|| format!("understand config/{name}"))
}

/// Reads `config/tests.toml`.
pub fn tests() -> Result<Tests> {
    read("tests.toml")
}

/// Reads and checks `config/node.toml`.
pub fn node() -> Result<Node> {
    let node: Node = read("node.toml")?;
    if !node.link_memory_kib.is_power_of_two() {
        let size = node.link_memory_kib;
        return Err(
            format!("config/node.toml: link_memory_kib = {size}: not a power of two").into(),
        );
    }
    Ok(node)
}
