//! `setup`: installs everything that building, running and testing need.

use crate::packages;
use crate::report::Result;
use crate::settings::Settings;
use crate::test;
use crate::toolchain;

/// The command.
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
