//! The KEY=VALUE words of the command line, checked once and turned into values.

use crate::base::report::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most nodes a run can have; node ids are 0 to 7.
pub const MAX_NODES: usize = 8;

/// A setting, for the help.
struct Explained {
    key: &'static str,
    value: &'static str,
    what: &'static str,
}

/// All settings. Which of them a command reads is said with the command, in the `main.rs` of
/// `xtask`.
const ALL: &[Explained] = &[
    explained(
        "NODES",
        "n",
        "number of nodes, 1 to 8 (2): node 0 is the host, others are cards",
    ),
    explained(
        "SCRIPT",
        "file",
        "run this shell script on node 0, then power off; exit with its status.\n\
         SCRIPT1=file to SCRIPT7=file: the same for those nodes; nodes without\n\
         a script wait for the others",
    ),
    explained(
        "SUITE",
        "name",
        "run the scripts of this suite of the tests (config/tests.toml)",
    ),
    explained(
        "FILES",
        "dir",
        "lay the files of a directory over the root of the initfs",
    ),
    explained(
        "MEM",
        "mib",
        "memory of each node in MiB (as config/node.toml says)",
    ),
    explained(
        "TIMEOUT",
        "s",
        "hard limit for scripts and the demo, in seconds",
    ),
    explained(
        "BOOT",
        "how",
        "pvh: boot the kernel directly (default); bios, uefi: boot the ISO image\n\
         as a PC with that firmware does",
    ),
    explained(
        "ACCEL",
        "how",
        "tcg: emulation (default); kvm; auto: KVM where a probe finds it to work",
    ),
    explained(
        "BUILD",
        "how",
        "edit: programs compiled so that the next change costs seconds (default);\n\
         release: as fast as in the image for hardware, in the benchmark and in\n\
         a whole `make test`",
    ),
    explained("APP", "dir", "the directory of a program's Cargo.toml"),
    explained("PIN", "0", "do not bind each node to a processor core"),
    explained("NODE", "n", "which node to attach to, or to start (1)"),
    explained(
        "RUN",
        "name",
        "of which run, if several go on: the name of its folder in target/run",
    ),
    explained(
        "ONLY",
        "word",
        "only stages and suites, steps or places whose name contains the word",
    ),
    explained("REPS", "n", "boots of every step, 1 to 20 (3)"),
    explained(
        "QUICK",
        "1",
        "a smoke run with one short boot of every step",
    ),
    explained(
        "SEED",
        "n",
        "the first seed; `sim` plays it alone unless SEEDS= is given",
    ),
    explained("SEEDS", "n", "number of seeds (200)"),
    explained("MINUTES", "n", "how long (5)"),
    explained("COUNT", "n", "how often a node's power is cut (100)"),
    explained("TARGET", "name", "only this fuzz target"),
    explained("SECONDS", "n", "how long each fuzz target runs (60)"),
    explained("INPUT", "file", "repeat one input of TARGET"),
    explained("KIND", "name", "only the sanitizer `address` or `thread`"),
    explained("DIR", "dir", "count the project that lies there"),
];

const ENVIRONMENT: &str = "\
environment:
  SKIFF_TOOLCHAIN     a rustup toolchain's name, or a directory with bin/cargo and bin/rustc; it
                      must have the library source (rust-src)
  SKIFF_GUEST_TARGET  where kernel and programs are built, in place of target/guest";

const fn explained(key: &'static str, value: &'static str, what: &'static str) -> Explained {
    Explained { key, value, what }
}

/// The keys of all settings.
pub fn keys() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|setting| setting.key)
}

/// The text below the commands.
pub fn help() -> String {
    let mut text = String::new();
    for Explained { key, value, what } in ALL {
        let mut left = format!("{key}={value}");
        for line in what.lines() {
            text.push_str(&format!("  {left:12} {line}\n"));
            left.clear();
        }
    }
    text + ENVIRONMENT
}

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

/// QEMU's way to execute guest code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// The emulator: works everywhere.
    Tcg,
    /// Hardware virtualisation.
    Kvm,
    /// Kvm where a tiny guest shows that it works, Tcg elsewhere.
    Auto,
}

/// The purpose of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be used, measured or given away: as fast as it gets.
    Release,
    /// To be tried out after an edit: programs are compiled in pieces that are kept, so that a
    /// changed line costs seconds; they run slower. The kernel is the same for both.
    Edit,
}

/// The settings of one call of the tool.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// Scripts by node.
    pub scripts: BTreeMap<usize, PathBuf>,
}

impl Settings {
    /// Reads the words after a command. `read` are the settings that it reads, with a blank between
    /// two; any other is refused, as it would change nothing.
    pub fn parse(command: &str, read: &str, words: &[String]) -> Result<Self> {
        let mut settings = Self::default();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return Err(format!("'{word}' is not KEY=VALUE, for example NODES=3").into());
            };
            let digits = key.strip_prefix("SCRIPT");
            let known = if digits.is_some() { "SCRIPT" } else { key };
            if !ALL.iter().any(|setting| setting.key == known) {
                return Err(format!("{word}: unknown setting, see `make help`").into());
            }
            if !read.split_whitespace().any(|setting| setting == known) {
                let choice = match read {
                    "" => "no settings".to_string(),
                    read => format!("only {read}"),
                };
                return Err(format!("{word}: `{command}` reads {choice}").into());
            }
            if let Some(digits) = digits {
                let node = script_node(word, digits)?;
                let former = settings.scripts.insert(node, PathBuf::from(value));
                if former.is_some() {
                    return Err(format!("{word}: node {node} has two scripts, give one").into());
                }
            } else {
                settings.values.insert(key.to_string(), value.to_string());
            }
        }
        settings.check()
    }

    /// Reads every value once, so that a bad one is reported before any work is done. Names (ONLY,
    /// TARGET, KIND) are checked by their commands, which know the right ones.
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
                return Err(format!("SCRIPT={}: is not a file", path.display()).into());
            }
        }
        self.files()?;
        self.memory_mib()?;
        self.timeout()?;
        self.boot()?;
        self.accel()?;
        self.purpose()?;
        self.pin()?;
        self.repetitions()?;
        self.quick()?;
        self.seconds()?;
        self.node()?;
        self.seed()?;
        self.seeds()?;
        self.minutes()?;
        self.count()?;
        self.input()?;
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
        let mib = self.number("MEM", 32, 2048)?;
        match mib {
            Some(mib) if !mib.is_power_of_two() && self.nodes(2)? > 1 => Err(format!(
                "MEM={mib}: must be a power of two, as other nodes reach it through a window of \
                 PCI (with NODES=1 any number)"
            )
            .into()),
            mib => Ok(mib),
        }
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

    /// The way to execute guests.
    pub fn accel(&self) -> Result<Accel> {
        match self.values.get("ACCEL").map(String::as_str) {
            None | Some("tcg") => Ok(Accel::Tcg),
            Some("kvm") => Ok(Accel::Kvm),
            Some("auto") => Ok(Accel::Auto),
            Some(other) => Err(format!("ACCEL={other}: must be tcg, kvm or auto").into()),
        }
    }

    /// The purpose that programs are compiled for, if given.
    pub fn given_purpose(&self) -> Result<Option<Purpose>> {
        match self.values.get("BUILD").map(String::as_str) {
            None => Ok(None),
            Some("edit") => Ok(Some(Purpose::Edit)),
            Some("release") => Ok(Some(Purpose::Release)),
            Some(other) => Err(format!("BUILD={other}: must be edit or release").into()),
        }
    }

    /// The purpose that programs are compiled for: trying out, unless BUILD= says otherwise.
    pub fn purpose(&self) -> Result<Purpose> {
        Ok(self.given_purpose()?.unwrap_or(Purpose::Edit))
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

    /// The directory of the package to build.
    pub fn app(&self) -> Result<PathBuf> {
        let Some(value) = self.values.get("APP") else {
            return Err("APP= is missing: the directory of the program's Cargo.toml".into());
        };
        let path = std::fs::canonicalize(value)
            .context(|| format!("find the directory of APP={value}"))?;
        if !path.join("Cargo.toml").is_file() {
            return Err(format!("APP={value}: has no Cargo.toml").into());
        }
        Ok(path)
    }

    /// The run to attach to, if given.
    pub fn run(&self) -> Option<&str> {
        self.values.get("RUN").map(String::as_str)
    }

    /// The suite to run.
    pub fn suite(&self) -> Option<&str> {
        self.values.get("SUITE").map(String::as_str)
    }

    /// Word that selects tests.
    pub fn only(&self) -> Option<&str> {
        self.values.get("ONLY").map(String::as_str)
    }

    /// The fuzz target to run, if not all.
    pub fn target(&self) -> Option<&str> {
        self.values.get("TARGET").map(String::as_str)
    }

    /// The input to repeat, and its fuzz target.
    pub fn input(&self) -> Result<Option<(&Path, &str)>> {
        let Some(input) = self.values.get("INPUT") else {
            return Ok(None);
        };
        let Some(target) = self.target() else {
            return Err(format!("INPUT={input}: add TARGET=, the target it is for").into());
        };
        let path = Path::new(input);
        if !path.is_file() {
            return Err(format!("INPUT={input}: there is no such file").into());
        }
        Ok(Some((path, target)))
    }

    /// How long each fuzz target runs, if given.
    pub fn seconds(&self) -> Result<Option<Duration>> {
        Ok(self
            .number("SECONDS", 1, 1_000_000)?
            .map(Duration::from_secs))
    }

    /// The directory of another state of the project.
    pub fn directory(&self) -> Option<&Path> {
        self.values.get("DIR").map(Path::new)
    }

    /// Word that selects sanitizers.
    pub fn kind(&self) -> Option<&str> {
        self.values.get("KIND").map(String::as_str)
    }

    /// The seed to begin with, if given.
    pub fn seed(&self) -> Result<Option<u64>> {
        self.number("SEED", 0, u64::MAX)
    }

    /// Number of seeds, if given.
    pub fn seeds(&self) -> Result<Option<u64>> {
        self.number("SEEDS", 1, u64::MAX)
    }

    /// How long random load lasts, if given.
    pub fn minutes(&self) -> Result<Option<u64>> {
        self.number("MINUTES", 1, 1_000_000)
    }

    /// How often a node's power is cut, if given.
    pub fn count(&self) -> Result<Option<u64>> {
        self.number("COUNT", 1, 1_000_000)
    }
}

fn script_node(word: &str, digits: &str) -> Result<usize> {
    if digits.is_empty() {
        return Ok(0);
    }
    match digits.parse::<usize>() {
        Ok(node) if node < MAX_NODES && digits.len() == 1 => Ok(node),
        _ => Err(format!("{word}: the node in SCRIPT<node> must be 0 to 7").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a command that reads all of them.
    fn parse(words: &[&str]) -> Result<Settings> {
        let keys: Vec<_> = keys().collect();
        parse_for(&keys.join(" "), words)
    }

    fn parse_for(read: &str, words: &[&str]) -> Result<Settings> {
        let words: Vec<_> = words.iter().map(|word| word.to_string()).collect();
        Settings::parse("try", read, &words)
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
    fn memory_of_one_node_needs_no_window() {
        let settings = parse(&["MEM=1536", "NODES=1"]).unwrap();
        assert_eq!(settings.memory_mib().unwrap(), Some(1536));
    }

    #[test]
    fn bad_values_name_key_and_value() {
        for word in [
            "NODES=9",
            "NODES=0",
            "NODES=two",
            "MEM=1",
            "MEM=1536",
            "BOOT=iso",
            "ACCEL=x",
            "BUILD=x",
            "FOO=1",
            "run",
            "SCRIPT9=x",
            "SCRIPT01=x",
            "FILES=/nonexistent",
            "SCRIPT=/nonexistent",
            "NODE=8",
            "SEED=-1",
            "SEEDS=0",
            "MINUTES=0",
            "COUNT=0",
            "SECONDS=0",
            "REPS=21",
            "INPUT=/nonexistent",
        ] {
            let message = parse(&[word]).unwrap_err().message;
            assert!(message.contains(word), "{word}: {message}");
        }
        let message = parse(&["TARGET=x", "INPUT=/nonexistent"]).unwrap_err();
        assert!(message.message.contains("no such file"), "{message:?}");
    }

    #[test]
    fn what_a_command_does_not_read_is_refused() {
        assert!(parse_for("SEED SEEDS", &["SEED=1", "SEEDS=2"]).is_ok());
        let failure = parse_for("SEED SEEDS", &["SECONDS=10"]).unwrap_err();
        assert_eq!(failure.message, "SECONDS=10: `try` reads only SEED SEEDS");
        let failure = parse_for("", &["SCRIPT1=x"]).unwrap_err();
        assert_eq!(failure.message, "SCRIPT1=x: `try` reads no settings");
    }

    #[test]
    fn a_package_to_build_has_a_manifest() {
        let missing = Settings::parse("app", "APP", &[]).unwrap();
        assert!(missing.app().unwrap_err().message.contains("APP="));
        let of = |path: &str| Settings::parse("app", "APP", &[format!("APP={path}")]).unwrap();
        assert!(of(env!("CARGO_MANIFEST_DIR")).app().is_ok());
        assert!(of("/").app().unwrap_err().message.contains("Cargo.toml"));
        assert!(of("/nonexistent").app().is_err());
    }

    #[test]
    fn a_script_needs_its_node() {
        let word = format!("SCRIPT3={}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
        assert!(parse(&[&word]).unwrap_err().message.contains("NODES=4"));
        assert_eq!(parse(&[&word, "NODES=4"]).unwrap().scripts.len(), 1);
    }
}
