//! The QEMU of one node: its command line, and its start.
//!
//! A node's RAM is shared memory of this process, which QEMU opens by its name in /proc; so peers
//! can map it as their aperture, and nothing is left behind when this process ends, however it
//! ends: the kernel frees the memory and kills the QEMUs (`setpriv --pdeathsig`).

use crate::base::config::Node;
use crate::base::packages;
use crate::base::report::{Context, Result};
use crate::node::image::BootFiles;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Everything that makes one node.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Node number.
    pub node: usize,
    /// The common description.
    pub config: Node,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Whether KVM executes it.
    pub kvm: bool,
    /// Processor core to bind it to.
    pub core: Option<usize>,
    /// The image that it boots.
    pub boot: BootFiles,
    /// The RAM of every node by node number, this one's included.
    pub memories: Vec<PathBuf>,
    /// Socket of the link with each node by node number; unused for this node's own.
    pub links: Vec<PathBuf>,
    /// Socket of this node's console; the launcher listens on it.
    pub console: PathBuf,
    /// Socket of this node's monitor, likewise; used if the node has a screen.
    pub monitor: PathBuf,
}

/// QEMU splits option values at commas; a doubled comma is one comma.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

impl Guest {
    /// The words of QEMU's command line, program name first.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = Words(vec!["qemu-system-x86_64".to_string()]);
        self.add_machine(&mut words);
        self.add_console(&mut words);
        for peer in (0..self.memories.len()).filter(|peer| *peer != self.node) {
            self.add_link(&mut words, peer);
        }
        self.add_boot(&mut words);
        words.0
    }

    /// Processor, memory and board.
    fn add_machine(&self, words: &mut Words) {
        for option in ["-nodefaults", "-no-user-config"] {
            words.flag(option);
        }
        if !self.config.reboots {
            words.flag("-no-reboot");
        }
        words.option("-display", "none");
        words.option("-name", format!("skiff-node-{}", self.node));
        words.option("-accel", if self.kvm { "kvm" } else { "tcg" });
        words.option("-cpu", if self.kvm { "host" } else { &self.config.cpu });
        words.option("-smp", &*self.config.smp);
        words.option("-m", format!("{}M", self.memory_mib));
        let no_keyboard = self.config.parts.no_keyboard;
        let keyboard = if no_keyboard { ",i8042=off" } else { "" };
        let machine = &self.config.machine;
        words.option(
            "-machine",
            format!("{machine},memory-backend=ram{keyboard}"),
        );
        words.option("-object", self.memory_object("ram", self.node));
        let port = self.config.exit_port;
        words.option(
            "-device",
            format!("isa-debug-exit,iobase={port:#x},iosize=4"),
        );
    }

    /// Serial port and screen.
    fn add_console(&self, words: &mut Words) {
        let parts = &self.config.parts;
        if parts.screen {
            let monitor = quoted(&self.monitor);
            words.option("-device", "VGA");
            words.option("-chardev", format!("socket,id=monitor,path={monitor}"));
            words.option("-mon", "chardev=monitor,mode=control");
        }
        let console = quoted(&self.console);
        words.option("-chardev", format!("socket,id=console,path={console}"));
        if !parts.no_serial {
            words.option("-serial", "chardev:console");
        }
    }

    /// The link with `peer`: one device with two functions, doorbells and the peer's memory.
    fn add_link(&self, words: &mut Words, peer: usize) {
        let slot = self.config.first_link_slot + peer as u32;
        let vectors = self.config.doorbell_vectors;
        let socket = quoted(&self.links[peer]);
        words.option("-chardev", format!("socket,id=link{peer},path={socket}"));
        words.option("-object", self.memory_object(&format!("peer{peer}"), peer));
        words.option(
            "-device",
            format!(
                "ivshmem-doorbell,chardev=link{peer},vectors={vectors},addr={slot:#x}.0,\
                 multifunction=on"
            ),
        );
        words.option(
            "-device",
            format!("ivshmem-plain,memdev=peer{peer},addr={slot:#x}.1"),
        );
    }

    /// The image that it boots.
    fn add_boot(&self, words: &mut Words) {
        match &self.boot {
            BootFiles::Direct {
                kernel,
                initfs,
                command_line,
            } => {
                words.option("-kernel", kernel.display().to_string());
                words.option("-initrd", initfs.display().to_string());
                if !command_line.is_empty() {
                    words.option("-append", &**command_line);
                }
            }
            BootFiles::Iso { image, uefi } => {
                let file = quoted(image);
                if *uefi {
                    words.option("-bios", packages::UEFI_FIRMWARE);
                }
                if self.config.parts.stick {
                    let drive = "if=none,id=stick,format=raw,readonly=on";
                    words.option("-drive", format!("{drive},file={file}"));
                    words.option("-device", "qemu-xhci");
                    words.option("-device", "usb-storage,drive=stick,bootindex=0");
                } else {
                    let drive = "if=ide,media=cdrom,readonly=on";
                    words.option("-drive", format!("{drive},file={file}"));
                    words.option("-boot", "d");
                }
            }
        }
    }

    fn memory_object(&self, id: &str, node: usize) -> String {
        let path = quoted(&self.memories[node]);
        let size = self.memory_mib;
        format!("memory-backend-file,id={id},size={size}M,mem-path={path},share=on")
    }

    /// Starts QEMU; its own messages go to `log`.
    pub fn spawn(&self, log: &Path) -> Result<Child> {
        let file = File::create(log).context(|| format!("create {}", log.display()))?;
        let copy = file
            .try_clone()
            .context(|| format!("share {}", log.display()))?;
        start(&self.arguments(), self.core, file.into(), copy)
    }
}

/// The words of a command line.
struct Words(Vec<String>);

impl Words {
    fn flag(&mut self, option: &str) {
        self.0.push(option.to_string());
    }

    fn option(&mut self, option: &str, value: impl Into<String>) {
        self.flag(option);
        self.0.push(value.into());
    }
}

/// Returns the processor core to bind a guest with this number to, if that can be found out: this
/// process may use only some of the machine's, for example in a container.
pub fn core_of(guest: usize) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let cores = allowed_cores(&status)?;
    let index = guest.checked_rem(cores.len())?;
    cores.get(index).copied()
}

/// Parses the list of cores in a process's status, such as `0-2,5`.
fn allowed_cores(status: &str) -> Option<Vec<usize>> {
    let list = |line: &str| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_string());
    let mut cores = Vec::new();
    for part in status.lines().find_map(list)?.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.parse().ok()?;
        cores.extend(first..=last.parse().ok()?);
    }
    Some(cores)
}

/// Starts a QEMU with this command line, bound to a processor core if one is given. It ends with
/// this process.
pub fn start(
    arguments: &[String],
    core: Option<usize>,
    output: Stdio,
    errors: File,
) -> Result<Child> {
    let mut words = Vec::new();
    if let Some(core) = core {
        words.extend(["taskset", "-c"].map(str::to_string));
        words.push(core.to_string());
    }
    words.extend(["setpriv", "--pdeathsig", "KILL"].map(str::to_string));
    words.extend_from_slice(arguments);
    Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .context(|| {
            let first = &words[0];
            format!("start '{}' (is {first} installed?)", words.join(" "))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::config;

    fn guest(node: usize, nodes: usize) -> Guest {
        Guest {
            node,
            config: config::node().unwrap(),
            memory_mib: 256,
            kvm: false,
            core: Some(node % 2),
            boot: BootFiles::Direct {
                kernel: "/k".into(),
                initfs: "/i".into(),
                command_line: "SKIFF_CONSOLE=1".to_string(),
            },
            memories: (0..nodes)
                .map(|n| PathBuf::from(format!("/ram{n}")))
                .collect(),
            links: (0..nodes)
                .map(|n| PathBuf::from(format!("/link{n}")))
                .collect(),
            console: "/console".into(),
            monitor: "/monitor".into(),
        }
    }

    fn value<'a>(words: &'a [String], option: &str) -> &'a str {
        let at = words.iter().position(|word| word == option).expect(option);
        &words[at + 1]
    }

    /// Locked instructions hold between nodes only with more than one possible processor, and the
    /// emulator's fast copies only without ERMS: these options must never get lost.
    #[test]
    fn shared_memory_is_safe_and_fast() {
        let words = guest(0, 2).arguments();
        assert_eq!(value(&words, "-smp"), "1,maxcpus=2");
        assert_eq!(value(&words, "-cpu"), "max,-erms");
        assert_eq!(value(&words, "-accel"), "tcg");
        for object in words
            .iter()
            .filter(|word| word.starts_with("memory-backend-file"))
        {
            assert!(object.ends_with(",share=on"), "{object}");
        }
    }

    #[test]
    fn guests_are_bound_to_cores_that_this_process_may_use() {
        let cores = |list: &str| allowed_cores(&format!("Name:\tx\nCpus_allowed_list:\t{list}\n"));
        assert_eq!(cores("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cores("2,3"), Some(vec![2, 3]));
        assert_eq!(cores(""), None);
        assert_eq!(allowed_cores("Name:\tx\n"), None);
        // With one core left, that is the one of every guest, also if it is not the first.
        let core = core_of(1).unwrap();
        let mut bound = Command::new("taskset");
        bound.args([
            "-c",
            &core.to_string(),
            "grep",
            "Cpus_allowed_list",
            "/proc/self/status",
        ]);
        let output = bound.output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        assert_eq!(allowed_cores(&status), Some(vec![core]));
    }

    #[test]
    fn every_peer_is_one_device_with_two_functions() {
        let words = guest(1, 3).arguments();
        let devices: Vec<_> = words
            .iter()
            .filter(|word| word.starts_with("ivshmem"))
            .collect();
        assert_eq!(
            devices,
            [
                "ivshmem-doorbell,chardev=link0,vectors=2,addr=0x8.0,multifunction=on",
                "ivshmem-plain,memdev=peer0,addr=0x8.1",
                "ivshmem-doorbell,chardev=link2,vectors=2,addr=0xa.0,multifunction=on",
                "ivshmem-plain,memdev=peer2,addr=0xa.1",
            ]
        );
        assert!(
            words
                .iter()
                .any(|word| word.contains("id=peer2,size=256M,mem-path=/ram2,"))
        );
        assert!(
            words
                .iter()
                .any(|word| word.contains("id=ram,size=256M,mem-path=/ram1,"))
        );
    }

    #[test]
    fn a_pc_has_the_parts_it_is_given() {
        let has = |words: &[String], part: &str| words.iter().any(|word| word.contains(part));
        let usual = guest(0, 1).arguments();
        assert!(has(&usual, "chardev:console"));
        for absent in ["VGA", "mode=control", "i8042=off", "usb-storage", "-bios"] {
            assert!(!has(&usual, absent), "{absent}");
        }
        let mut pc = guest(0, 1);
        pc.config.parts = config::PcParts {
            screen: true,
            no_serial: true,
            no_keyboard: true,
            stick: true,
        };
        pc.boot = BootFiles::Iso {
            image: "/i.iso".into(),
            uefi: true,
        };
        let words = pc.arguments();
        assert!(!has(&words, "chardev:console"));
        for present in ["VGA", "mode=control", "i8042=off", "usb-storage", "OVMF"] {
            assert!(has(&words, present), "{present}");
        }
        assert!(!has(&words, "cdrom"));
    }

    #[test]
    fn a_reset_is_the_end_unless_nodes_reboot() {
        let mut node = guest(0, 1);
        let flag = "-no-reboot".to_string();
        assert!(node.arguments().contains(&flag));
        node.config.reboots = true;
        assert!(!node.arguments().contains(&flag));
    }

    #[test]
    fn a_lone_node_has_no_link() {
        assert!(
            !guest(0, 1)
                .arguments()
                .iter()
                .any(|word| word.contains("ivshmem"))
        );
    }

    #[test]
    fn commas_in_paths_are_doubled() {
        let mut guest = guest(0, 1);
        guest.boot = BootFiles::Iso {
            image: "/a,b.iso".into(),
            uefi: false,
        };
        assert!(value(&guest.arguments(), "-drive").ends_with("file=/a,,b.iso"));
    }
}
