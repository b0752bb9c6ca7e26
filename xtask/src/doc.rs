//! `doc`: the documentation of the libraries, as pages for a browser.

use harness::base::cargo;
use harness::base::config;
use harness::base::report::{Context, Failure, Result};
use harness::base::settings::Settings;
use harness::base::workspace;

/// The page to begin with: the client library.
const START: &str = "doc/scif/index.html";

/// Runs the command.
pub fn command(_settings: &Settings) -> Result<()> {
    let mut cargo = cargo::in_project();
    cargo.args(["doc", "--no-deps", "--lib"]);
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
