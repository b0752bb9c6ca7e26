//! `setup`: installs everything that building, running and testing need.

use crate::test;
use crate::toolchain;
use harness::base::packages;
use harness::base::report::Result;
use harness::base::settings::Settings;

/// Runs the command.
pub fn command(_settings: &Settings) -> Result<()> {
    packages::ensure(&test::packages_wanted())?;
    let toolchain = toolchain::find()?;
    toolchain.ensure_linter()?;
    test::ensure_components()?;
    println!(
        "everything is there; the image is built with {}",
        toolchain.name
    );
    Ok(())
}
