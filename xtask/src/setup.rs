//! `setup`: installs everything that building, running and testing need.

use crate::packages;
use crate::report::Result;
use crate::settings::Settings;
use crate::toolchain;

/// The command.
pub fn command(_settings: &Settings) -> Result<()> {
    let mut wanted = vec![packages::QEMU, packages::LINKER];
    wanted.extend(packages::ISO);
    packages::ensure(&wanted)?;
    let toolchain = toolchain::find()?;
    toolchain.ensure_linter()?;
    println!(
        "everything is there; the image is built with {}",
        toolchain.name
    );
    Ok(())
}
