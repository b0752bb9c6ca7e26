//! The KEY=VALUE words of the command line, checked once and turned into values.

use crate::report::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Most nodes a run can have; node ids are 0 to 7.
pub const MAX_NODES: usize = 8;

/// Explains the settings; printed below the commands.
pub const HELP: &str = "  \
  NODES=n        number of nodes, 1 to 8 (default 2): node 0 is the host, the others are cards
  SCRIPT=file    run this shell script on node 0, then power off; exit with its status
  SCRIPTi=file   the same for node i (1 to 7); nodes without a script wait for the others
  FILES=dir      lay the files of a directory over the root of the initfs
  MEM=mib        memory of each node in MiB (default in config/node.toml)
  TIMEOUT=s      hard limit for scripts, demo and each guest test, in seconds
  BOOT=pvh|bios|uefi  boot the kernel directly (default), or the ISO image as a PC's firmware does
  ACCEL=tcg|kvm|auto  emulation (default), KVM, or KVM where a probe finds that it works
  PIN=0          do not bind each node to a processor core
  NODE=n         which node `console` attaches to
  ONLY=word      `test`: only stages and guest suites whose name contains the word; `bench`: steps
  REPS=n         `bench`: boots of every step, 1 to 20 (default 3)
  QUICK=1        `bench`: a smoke run with one short boot of every step
  SEEDS=n        `sim`: number of seeds (default 200); SEED=n: the first one, alone by default
  MINUTES=n      `soak`: how long (default 5)
  COUNT=n        `node-kills`: how often a node's power is cut (default 100)
  TARGET=name    `fuzz`: only this target
  SECONDS=n      `fuzz`: how long each target runs (default 60)
  INPUT=file     `fuzz`: repeat one input of TARGET
  KIND=address|thread  `sanitize`: only this one
environment:
  SKIFF_TOOLCHAIN  a rustup toolchain's name, or a directory with bin/cargo and bin/rustc; it must
                   have the library source (rust-src)";

const KNOWN: &[&str] = &[
    "NODES", "FILES", "MEM", "TIMEOUT", "BOOT", "ACCEL", "PIN", "NODE", "ONLY", "SEED", "SEEDS",
    "REPS", "QUICK", "MINUTES", "TARGET", "SECONDS", "INPUT", "KIND", "COUNT",
];

/// How a node gets its kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boot {
    /// QEMU loads kernel and initfs itself (PVH entry): fast.
    #[default]
    #[serde(rename = "pvh")]
    Direct,
    /// GRUB loads them from the ISO image, as on hardware whose firmware is a BIOS (SeaBIOS).
    Bios,
    /// The same with UEFI (OVMF).
    Uefi,
}

/// What QEMU executes guest code with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// The emulator: works everywhere.
    Tcg,
    /// Hardware virtualisation.
    Kvm,
    /// Kvm where a tiny guest shows that it works, Tcg elsewhere.
    Auto,
}

/// The settings of one call of the tool.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// Scripts by node.
    pub scripts: BTreeMap<usize, PathBuf>,
}

impl Settings {
    /// Reads the words after the command.
    pub fn parse(words: &[String]) -> Result<Self> {
        let mut settings = Self::default();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return Err(format!("'{word}' is not KEY=VALUE, for example NODES=3").into());
            };
            if let Some(digits) = key.strip_prefix("SCRIPT") {
                let node = script_node(key, digits)?;
                if settings
                    .scripts
                    .insert(node, PathBuf::from(value))
                    .is_some()
                {
                    return Err(format!("{key}: node {node} has two scripts, give one").into());
                }
            } else if KNOWN.contains(&key) {
                settings.values.insert(key.to_string(), value.to_string());
            } else {
                return Err(format!("unknown setting '{key}': see `cargo xtask help`").into());
            }
        }
        settings.check()
    }

    /// Reads every value once, so that a bad one is reported before any work is done.
    fn check(self) -> Result<Self> {
        let nodes = self.nodes(2)?;
        if let Some((node, path)) = self.scripts.iter().find(|(node, _)| **node >= nodes) {
            let path = path.display();
            return Err(format!(
                "SCRIPT{node}={path}: there is no node {node} among {nodes}; add NODES={}",
                node + 1
            )
            .into());
        }
        for path in self.scripts.values() {
            if !path.is_file() {
                return Err(format!("SCRIPT: '{}' is not a file", path.display()).into());
            }
        }
        self.files()?;
        self.memory_mib()?;
        self.timeout()?;
        self.boot()?;
        self.accel()?;
        self.pin()?;
        self.repetitions()?;
        self.quick()?;
        self.seconds()?;
        Ok(self)
    }

    fn number(&self, key: &str, low: u64, high: u64) -> Result<Option<u64>> {
        let Some(value) = self.values.get(key) else {
            return Ok(None);
        };
        match value.parse::<u64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(Some(number)),
            _ => Err(format!("{key}={value}: must be a number from {low} to {high}").into()),
        }
    }

    /// Number of nodes.
    pub fn nodes(&self, default: usize) -> Result<usize> {
        let given = self.number("NODES", 1, MAX_NODES as u64)?;
        Ok(given.map_or(default, |number| number as usize))
    }

    /// The node to attach to.
    pub fn node(&self) -> Result<usize> {
        Ok(self.number("NODE", 0, MAX_NODES as u64 - 1)?.unwrap_or(1) as usize)
    }

    /// Memory of each node, if given. The upper limit keeps all of it below 4 GiB of guest-physical
    /// addresses on q35, where RAM up to 2 GiB is one piece: the aperture depends on it.
    pub fn memory_mib(&self) -> Result<Option<u64>> {
        self.number("MEM", 32, 2048)
    }

    /// Hard time limit, if given.
    pub fn timeout(&self) -> Result<Option<Duration>> {
        Ok(self.number("TIMEOUT", 1, 86_400)?.map(Duration::from_secs))
    }

    /// How to boot.
    pub fn boot(&self) -> Result<Boot> {
        match self.values.get("BOOT").map(String::as_str) {
            None | Some("pvh") => Ok(Boot::Direct),
            Some("bios") => Ok(Boot::Bios),
            Some("uefi") => Ok(Boot::Uefi),
            Some(other) => Err(format!("BOOT={other}: must be pvh, bios or uefi").into()),
        }
    }

    /// What to execute guests with.
    pub fn accel(&self) -> Result<Accel> {
        match self.values.get("ACCEL").map(String::as_str) {
            None | Some("tcg") => Ok(Accel::Tcg),
            Some("kvm") => Ok(Accel::Kvm),
            Some("auto") => Ok(Accel::Auto),
            Some(other) => Err(format!("ACCEL={other}: must be tcg, kvm or auto").into()),
        }
    }

    /// Whether nodes are bound to cores.
    pub fn pin(&self) -> Result<bool> {
        Ok(self.number("PIN", 0, 1)? != Some(0))
    }

    /// Boots of every step of the benchmark, if given.
    pub fn repetitions(&self) -> Result<Option<u64>> {
        self.number("REPS", 1, 20)
    }

    /// Whether the benchmark is only a smoke run.
    pub fn quick(&self) -> Result<bool> {
        Ok(self.number("QUICK", 0, 1)? == Some(1))
    }

    /// The directory to lay over the initfs.
    pub fn files(&self) -> Result<Option<PathBuf>> {
        let Some(value) = self.values.get("FILES") else {
            return Ok(None);
        };
        let path = std::fs::canonicalize(value)
            .context(|| format!("find the directory of FILES={value}"))?;
        if !path.is_dir() {
            return Err(format!("FILES={value}: must be a directory").into());
        }
        Ok(Some(path))
    }

    /// Word that selects tests.
    pub fn only(&self) -> Option<&str> {
        self.values.get("ONLY").map(String::as_str)
    }

    /// The fuzz target to run, if not all.
    pub fn target(&self) -> Option<&str> {
        self.values.get("TARGET").map(String::as_str)
    }

    /// The input a fuzz target is to repeat.
    pub fn input(&self) -> Option<&str> {
        self.values.get("INPUT").map(String::as_str)
    }

    /// How long each fuzz target runs, if given.
    pub fn seconds(&self) -> Result<Option<Duration>> {
        Ok(self
            .number("SECONDS", 1, 1_000_000)?
            .map(Duration::from_secs))
    }

    /// Word that selects sanitizers.
    pub fn kind(&self) -> Option<&str> {
        self.values.get("KIND").map(String::as_str)
    }

    /// A plain number passed on to the simulator.
    pub fn simulation(&self, key: &str) -> Result<Option<u64>> {
        self.number(key, 0, u64::MAX)
    }
}

fn script_node(key: &str, digits: &str) -> Result<usize> {
    if digits.is_empty() {
        return Ok(0);
    }
    match digits.parse::<usize>() {
        Ok(node) if node < MAX_NODES && digits.len() == 1 => Ok(node),
        _ => Err(format!("{key}: the node in SCRIPT<node> must be 0 to 7").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Settings> {
        Settings::parse(
            &words
                .iter()
                .map(|word| word.to_string())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn defaults() {
        let settings = parse(&[]).unwrap();
        assert_eq!(settings.nodes(2).unwrap(), 2);
        assert_eq!(settings.boot().unwrap(), Boot::Direct);
        assert_eq!(settings.accel().unwrap(), Accel::Tcg);
        assert!(settings.pin().unwrap());
    }

    #[test]
    fn bad_values_name_key_and_value() {
        for words in [
            "NODES=9",
            "NODES=0",
            "NODES=two",
            "MEM=1",
            "BOOT=iso",
            "ACCEL=x",
            "FOO=1",
            "run",
            "SCRIPT9=x",
            "SCRIPT01=x",
            "FILES=/nonexistent",
            "SCRIPT=/nonexistent",
        ] {
            let message = parse(&[words]).unwrap_err().message;
            let value = words.split('=').next_back().unwrap();
            let key = words.split('=').next().unwrap();
            assert!(
                message.contains(key) || message.contains(value),
                "{words}: {message}"
            );
        }
    }

    #[test]
    fn a_script_needs_its_node() {
        let file = file!().to_string();
        let word = format!("SCRIPT3={}/../{file}", env!("CARGO_MANIFEST_DIR"));
        assert!(parse(&[&word]).unwrap_err().message.contains("NODES=4"));
        assert_eq!(parse(&[&word, "NODES=4"]).unwrap().scripts.len(), 1);
    }
}
