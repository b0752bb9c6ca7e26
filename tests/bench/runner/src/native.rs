//! Programs of this machine: builds those of the benchmark, and runs the one that measures without
//! QEMU.

use harness::base::cargo;
use harness::base::report::{Context, Result, TimedStep};
use harness::base::workspace::Place;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The program that measures without QEMU.
pub const NATIVE: &str = "bench-native";

/// Builds a program for this machine's system. It is static, so that it also runs in a guest
/// without libraries. Returns its file.
pub fn build(package: &str) -> Result<PathBuf> {
    const TRIPLE: &str = "x86_64-unknown-linux-gnu";
    let step = TimedStep::start(format!("building {package}"));
    let target = Place::Bench.path().join("build");
    let status = cargo::in_project()
        // Two of the dependencies use unstable features (see `test`).
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_TARGET_DIR", &target)
        .args(["build", "--quiet", "--release", "--target", TRIPLE])
        .args(["--package", package])
        .status()
        .context(|| "start cargo".to_string())?;
    if !status.success() {
        return Err(format!("building {package} failed; cargo's words are above").into());
    }
    step.done();
    Ok(target.join(TRIPLE).join("release").join(package))
}

/// Measures without QEMU. Passes the program's lines to `line`.
pub fn run(quick: bool, line: &mut dyn FnMut(&str)) -> Result<()> {
    let mut command = Command::new(build(NATIVE)?);
    command.arg("--json");
    if quick {
        command.arg("--quick");
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context(|| format!("start {NATIVE}"))?;
    if let Some(output) = child.stdout.take() {
        for text in BufReader::new(output).lines() {
            line(&text.context(|| format!("read what {NATIVE} prints"))?);
        }
    }
    let status = child.wait().context(|| format!("wait for {NATIVE}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{NATIVE}: {status}; its own words are above").into()),
    }
}
