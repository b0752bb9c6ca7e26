//! `clean`: removes what was built.

use crate::report::{Context, Result};
use crate::settings::Settings;
use crate::workspace;

/// The command. The tool itself lies below `target/`, so cargo's own directories stay usable: only
/// the image, the logs and the guest build are removed.
pub fn command(_settings: &Settings) -> Result<()> {
    for directory in [
        workspace::target().join("image"),
        workspace::target().join("run"),
        workspace::target().join("sdk"),
        workspace::target().join("sdk-build"),
        workspace::target().join("patterns"),
        workspace::guest_target(),
    ] {
        if directory.exists() {
            println!("removing {}", workspace::display(&directory));
            std::fs::remove_dir_all(&directory)
                .context(|| format!("remove {}", directory.display()))?;
        }
    }
    Ok(())
}
