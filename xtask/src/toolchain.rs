//! Finds a Rust toolchain that can build for the image's two targets: one with the library source.
//!
//! The order is: the toolchain that SKIFF_TOOLCHAIN names; a rustup toolchain with rust-src;
//! Debian's packages, which are installed if missing. The build uses unstable options, so
//! RUSTC_BOOTSTRAP is set.

use harness::base::cargo;
use harness::base::packages::{self, Package};
use harness::base::report::{Context, Result};
use harness::base::settings::Purpose;
use harness::base::workspace::{self, Place};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Minor version of the oldest compiler that builds the sources.
const MIN_MINOR: u32 = 95;
/// The environment variable that names a toolchain.
const CHOICE: &str = "SKIFF_TOOLCHAIN";
/// A path below a sysroot that exists if the library source is installed.
const SOURCE_SIGN: &str = "lib/rustlib/src/rust/library/core/src/lib.rs";

/// A target of the image's build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The kernel: no operating system below it.
    Kernel,
    /// A program of the image.
    Program,
}

impl Target {
    /// The compiler's name of the target.
    pub fn triple(self) -> &'static str {
        match self {
            Self::Kernel => "x86_64-unknown-none",
            Self::Program => "x86_64-unknown-redox",
        }
    }

    /// The directory of the target's build. Cargo lets only one build at a time into a directory,
    /// and the two targets are built in parallel.
    pub fn place(self) -> Place {
        match self {
            Self::Kernel => Place::GuestKernel,
            Self::Program => Place::Guest,
        }
    }

    fn rustflags(self) -> &'static str {
        match self {
            Self::Kernel => {
                "-Clinker-flavor=gnu-lld -Zunstable-options -Crelocation-model=static \
                 -Ccode-model=kernel"
            }
            Self::Program => {
                "-Clinker-flavor=gnu-lld -Zunstable-options -Crelocation-model=static \
                 -Ctarget-feature=+crt-static"
            }
        }
    }
}

/// A toolchain with the library source.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// Its name for messages.
    pub name: String,
    /// Directory of `cargo` and `rustc`.
    bin: PathBuf,
}

/// The packages that building for the image needs: the linker, and Debian's toolchain if there is
/// no other. If Debian's is not installed yet, prints why other toolchains cannot be used.
pub fn packages() -> Vec<Package> {
    let mut wanted = vec![packages::LINKER];
    if std::env::var_os(CHOICE).is_some() {
        return wanted;
    }
    if let Err(passed_over) = any_of_rustup() {
        if packages::TOOLCHAIN.iter().any(|package| !package.present()) {
            for why in passed_over {
                eprintln!("    passed over: {why}");
            }
        }
        wanted.extend(packages::TOOLCHAIN);
    }
    wanted
}

/// Finds the toolchain. Installs Debian's if there is no other.
pub fn find() -> Result<Toolchain> {
    packages::ensure(&packages())?;
    if let Ok(wanted) = std::env::var(CHOICE) {
        return named(&wanted);
    }
    any_of_rustup().or_else(|_| check(Path::new("/usr"), "Debian's rustc-web".to_string()))
}

/// The first toolchain of rustup that can be used, or the reason for each why it cannot.
fn any_of_rustup() -> std::result::Result<Toolchain, Vec<String>> {
    let mut passed_over = Vec::new();
    for name in rustup_names() {
        match from_rustup(&name) {
            Ok(found) => return Ok(found),
            Err(failure) => passed_over.push(failure.message),
        }
    }
    Err(passed_over)
}

/// The toolchain that SKIFF_TOOLCHAIN names: a directory, or a rustup toolchain.
fn named(wanted: &str) -> Result<Toolchain> {
    let found = if wanted.contains('/') {
        check(Path::new(wanted), wanted.to_string())
    } else {
        from_rustup(wanted)
    };
    found.map_err(|failure| {
        format!(
            "SKIFF_TOOLCHAIN={wanted} cannot be used: {}",
            failure.message
        )
        .into()
    })
}

fn rustup_names() -> Vec<String> {
    let Ok(output) = cargo::clean(Command::new("rustup"))
        .args(["toolchain", "list"])
        .output()
    else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_string)
        .collect()
}

fn from_rustup(name: &str) -> Result<Toolchain> {
    let output = cargo::clean(Command::new("rustup"))
        .args(["run", name, "rustc", "--print", "sysroot"])
        .output()
        .context(|| "start rustup".to_string())?;
    if !output.status.success() {
        return Err(format!("rustup has no toolchain '{name}'").into());
    }
    let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_string();
    check(Path::new(&sysroot), format!("rustup toolchain {name}"))
}

/// Checks that a directory has the programs, a recent enough compiler, and the library source.
fn check(directory: &Path, name: String) -> Result<Toolchain> {
    let bin = directory.join("bin");
    for program in ["cargo", "rustc"] {
        if !bin.join(program).is_file() {
            return Err(format!("{} has no bin/{program}", directory.display()).into());
        }
    }
    let sysroot = output_of(&bin.join("rustc"), &["--print", "sysroot"])?;
    if !Path::new(&sysroot).join(SOURCE_SIGN).is_file() {
        return Err(format!(
            "{name} has no library source: add it with `rustup component add rust-src`"
        )
        .into());
    }
    let version = output_of(&bin.join("rustc"), &["--version"])?;
    match minor_version(&version) {
        Some(minor) if minor >= MIN_MINOR => Ok(Toolchain { name, bin }),
        _ => Err(
            format!("{name} is {version}: need 1.{MIN_MINOR} or newer (`rustup update`)").into(),
        ),
    }
}

fn output_of(program: &Path, words: &[&str]) -> Result<String> {
    let output = cargo::clean(Command::new(program))
        .args(words)
        .output()
        .context(|| format!("start {}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// The minor version: the 96 in "rustc 1.96.0 (…)".
fn minor_version(text: &str) -> Option<u32> {
    text.strip_prefix("rustc 1.")?
        .split('.')
        .next()?
        .parse()
        .ok()
}

impl Toolchain {
    /// The directory that contains `bin`.
    pub fn directory(&self) -> &Path {
        self.bin.parent().unwrap_or(&self.bin)
    }

    /// A call of cargo for one of the image's targets, with all options but the packages.
    pub fn cargo(&self, subcommand: &str, target: Target, purpose: Purpose) -> Command {
        let mut command = self.cargo_for(subcommand, target);
        command
            .env("CARGO_TARGET_DIR", target.place().path())
            .arg("-Zbuild-std=core,alloc,compiler_builtins")
            .arg("-Zbuild-std-features=compiler-builtins-mem");
        match target {
            Target::Kernel => {
                // Every call and every page of code costs time when the address translations have
                // just been flushed: one unit makes a system call or a context switch a tenth
                // shorter.
                command.env("CARGO_PROFILE_RELEASE_LTO", "fat");
                command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
            }
            Target::Program => {
                // Line tables of the programs would double the image; the kernel keeps its own.
                command.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
                command.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
            }
        }
        if target == Target::Program && purpose == Purpose::Edit {
            command.env("CARGO_INCREMENTAL", "1");
        }
        command
    }

    /// A call of cargo with the standard library, which needs a build directory of its own. Its
    /// results cannot be linked here: that takes a Redox sysroot.
    pub fn cargo_with_std(&self, subcommand: &str, target: Target) -> Command {
        let mut command = self.cargo_for(subcommand, target);
        command
            .env("CARGO_TARGET_DIR", Place::Redox.path())
            .arg("-Zbuild-std=std,panic_abort");
        command
    }

    fn cargo_for(&self, subcommand: &str, target: Target) -> Command {
        let mut command = cargo::clean(Command::new(self.bin.join("cargo")));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            std::iter::once(self.bin.clone()).chain(std::env::split_paths(&path)),
        );
        let variable = target.triple().to_uppercase().replace('-', "_");
        command
            .current_dir(workspace::root())
            .env("PATH", path.unwrap_or_default())
            .env("RUSTC", self.bin.join("rustc"))
            .env("RUSTC_BOOTSTRAP", "1")
            .env(format!("CARGO_TARGET_{variable}_LINKER"), "ld.lld")
            .env(
                format!("CARGO_TARGET_{variable}_RUSTFLAGS"),
                target.rustflags(),
            )
            // No path of this machine goes into the results: the same sources give the same bytes
            // in any directory.
            .env("CARGO_PROFILE_RELEASE_TRIM_PATHS", "all")
            .env_remove("CARGO_INCREMENTAL")
            .args([subcommand, "--release", "--target", target.triple()])
            .arg("-Ztrim-paths");
        command
    }

    /// Makes sure that `cargo clippy` works with this toolchain.
    pub fn ensure_linter(&self) -> Result<()> {
        if self.bin.join("cargo-clippy").is_file() {
            return Ok(());
        }
        if self.bin == Path::new("/usr/bin") {
            return packages::ensure(&[packages::LINTER]);
        }
        Err(format!(
            "{} has no clippy: add it with `rustup component add clippy`",
            self.name
        )
        .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(
            minor_version("rustc 1.96.0 (ac68faa20 2026-05-25)"),
            Some(96)
        );
        assert_eq!(minor_version("rustc 2.0.0"), None);
        assert_eq!(minor_version(""), None);
    }

    #[test]
    fn a_directory_without_a_toolchain_says_what_is_missing() {
        let failure = named("/nonexistent/dir").unwrap_err();
        assert!(failure.message.contains("SKIFF_TOOLCHAIN=/nonexistent/dir"));
        assert!(failure.message.contains("bin/cargo"));
    }
}
