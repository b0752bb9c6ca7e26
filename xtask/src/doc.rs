//! `doc`: the documentation of the libraries, as pages for a browser.

use crate::config;
use crate::report::{Context, Failure, Result};
use crate::settings::Settings;
use crate::toolchain;
use crate::workspace;
use std::process::Command;

/// The page to begin with: the client library.
const START: &str = "doc/scif/index.html";

/// The command.
pub fn command(_settings: &Settings) -> Result<()> {
    let mut cargo = toolchain::clean(Command::new("cargo"));
    cargo
        .current_dir(workspace::root())
        .args(["doc", "--no-deps", "--lib"]);
    for package in config::tests()?.host_libraries {
        cargo.args(["--package", &package]);
    }
    for package in ["scif-abi", "scif-core", "scif-ring", "syscall-derive"] {
        cargo.args(["--package", package]);
    }
    let status = cargo.status().context(|| "start cargo".to_string())?;
    if !status.success() {
        return Err(Failure::from(format!("cargo doc: {status}")));
    }
    println!("{}", workspace::display(&workspace::target().join(START)));
    Ok(())
}
