//! One node's QEMU: its command line, and starting it.
//!
//! A node's RAM is shared memory of this process, which QEMU opens by its name in /proc; so peers
//! can map it as their aperture, and nothing is left behind when this process ends, however it
//! ends: the kernel frees the memory and kills the QEMUs (`setpriv --pdeathsig`).

use crate::config::Node;
use crate::packages;
use crate::report::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a node is started from.
#[derive(Debug, Clone)]
pub enum BootFiles {
    /// QEMU loads these itself.
    Direct {
        /// The kernel's ELF file with a PVH entry.
        kernel: PathBuf,
        /// The packed initfs.
        initfs: PathBuf,
        /// Words KEY=VALUE for the kernel's environment.
        command_line: String,
    },
    /// The image for hardware, with boot loaders; the command line is inside.
    Iso {
        /// The ISO image.
        image: PathBuf,
        /// Whether UEFI firmware boots it, or a BIOS.
        uefi: bool,
    },
}

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
    /// What it boots.
    pub boot: BootFiles,
    /// The RAM of every node by node number, this one's included.
    pub memories: Vec<PathBuf>,
    /// Socket of the link with each node by node number; unused for this node's own.
    pub links: Vec<PathBuf>,
    /// Socket on which somebody waits for this node's console.
    pub console: PathBuf,
    /// Socket on which somebody waits for this node's monitor; used if it has a screen.
    pub monitor: PathBuf,
}

/// QEMU splits option values at commas; a doubled comma is one comma.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

impl Guest {
    /// The words of QEMU's command line, program name first.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec!["qemu-system-x86_64".to_string()];
        let mut add = |option: &str, value: String| {
            words.push(option.to_string());
            if !value.is_empty() {
                words.push(value);
            }
        };
        add("-nodefaults", String::new());
        add("-no-user-config", String::new());
        add("-no-reboot", String::new());
        add("-display", "none".to_string());
        add("-name", format!("skiff-node-{}", self.node));
        add("-accel", if self.kvm { "kvm" } else { "tcg" }.to_string());
        add(
            "-cpu",
            if self.kvm {
                "host".to_string()
            } else {
                self.config.cpu.clone()
            },
        );
        add("-smp", self.config.smp.clone());
        add("-m", format!("{}M", self.memory_mib));
        let parts = &self.config.parts;
        let keyboard = if parts.no_keyboard { ",i8042=off" } else { "" };
        let machine = &self.config.machine;
        add(
            "-machine",
            format!("{machine},memory-backend=ram{keyboard}"),
        );
        if parts.screen {
            let monitor = quoted(&self.monitor);
            add("-device", "VGA".to_string());
            add("-chardev", format!("socket,id=monitor,path={monitor}"));
            add("-mon", "chardev=monitor,mode=control".to_string());
        }
        add("-object", self.memory_object("ram", self.node));
        let console = quoted(&self.console);
        add("-chardev", format!("socket,id=console,path={console}"));
        if !parts.no_serial {
            add("-serial", "chardev:console".to_string());
        }
        add(
            "-device",
            format!(
                "isa-debug-exit,iobase={:#x},iosize=4",
                self.config.exit_port
            ),
        );
        for peer in (0..self.memories.len()).filter(|peer| *peer != self.node) {
            let slot = self.config.first_link_slot + peer as u32;
            let vectors = self.config.doorbell_vectors;
            let socket = quoted(&self.links[peer]);
            add("-chardev", format!("socket,id=link{peer},path={socket}"));
            add("-object", self.memory_object(&format!("peer{peer}"), peer));
            add(
                "-device",
                format!(
                    "ivshmem-doorbell,chardev=link{peer},vectors={vectors},addr={slot:#x}.0,\
                     multifunction=on"
                ),
            );
            add(
                "-device",
                format!("ivshmem-plain,memdev=peer{peer},addr={slot:#x}.1"),
            );
        }
        match &self.boot {
            BootFiles::Direct {
                kernel,
                initfs,
                command_line,
            } => {
                add("-kernel", kernel.display().to_string());
                add("-initrd", initfs.display().to_string());
                if !command_line.is_empty() {
                    add("-append", command_line.clone());
                }
            }
            BootFiles::Iso { image, uefi } => {
                let file = quoted(image);
                if *uefi {
                    add("-bios", packages::UEFI_FIRMWARE.to_string());
                }
                if parts.stick {
                    let drive = "if=none,id=stick,format=raw,readonly=on";
                    add("-drive", format!("{drive},file={file}"));
                    add("-device", "qemu-xhci".to_string());
                    add("-device", "usb-storage,drive=stick,bootindex=0".to_string());
                } else {
                    add(
                        "-drive",
                        format!("if=ide,media=cdrom,readonly=on,file={file}"),
                    );
                    add("-boot", "d".to_string());
                }
            }
        }
        words
    }

    fn memory_object(&self, id: &str, node: usize) -> String {
        let path = quoted(&self.memories[node]);
        let size = self.memory_mib;
        format!("memory-backend-file,id={id},size={size}M,mem-path={path},share=on")
    }

    /// Starts QEMU; what it says itself goes to `log`.
    pub fn spawn(&self, log: &Path) -> Result<Child> {
        let file = File::create(log).context(|| format!("create {}", log.display()))?;
        let copy = file
            .try_clone()
            .context(|| format!("share {}", log.display()))?;
        let mut words = Vec::new();
        if let Some(core) = self.core {
            words.extend(["taskset", "-c"].map(str::to_string));
            words.push(core.to_string());
        }
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(str::to_string));
        words.extend(self.arguments());
        Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(copy)
            .spawn()
            .context(|| format!("start '{}'", words.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

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
