//! The measurements without QEMU: programs of this machine.

use crate::report::{Context, Result};
use crate::toolchain;
use crate::workspace;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// The package of the program.
const PACKAGE: &str = "bench-native";

fn cargo(subcommand: &str) -> Command {
    let mut command = toolchain::clean(Command::new("cargo"));
    // The libraries of the image are built with unstable features.
    command.env("RUSTC_BOOTSTRAP", "1");
    command.current_dir(workspace::root()).args([
        subcommand,
        "--quiet",
        "--release",
        "--package",
        PACKAGE,
    ]);
    command
}

/// Builds it, so that nothing is compiled while it measures.
fn build() -> Result<()> {
    let status = cargo("build").status();
    match status.context(|| "start cargo".to_string())?.success() {
        true => Ok(()),
        false => Err(format!("building {PACKAGE} failed; cargo's words are above").into()),
    }
}

/// Runs it; `line` gets its lines.
pub fn run(quick: bool, line: &mut dyn FnMut(&str)) -> Result<()> {
    build()?;
    let mut command = cargo("run");
    command.args(["--", "--json"]);
    if quick {
        command.arg("--quick");
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context(|| "start cargo".to_string())?;
    if let Some(output) = child.stdout.take() {
        for text in BufReader::new(output).lines() {
            line(&text.context(|| format!("read what {PACKAGE} prints"))?);
        }
    }
    let status = child.wait().context(|| format!("wait for {PACKAGE}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{PACKAGE}: {status}; its own words are above").into()),
    }
}
