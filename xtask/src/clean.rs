//! `clean`: removes everything that was built.

use harness::base::report::{Context, Result};
use harness::base::settings::Settings;
use harness::base::workspace::{self, Place};

/// Runs the command. This tool itself lies below `target/`, and may be removed while it runs;
/// cargo builds it again at the next call.
pub fn command(_settings: &Settings) -> Result<()> {
    // The second directory is in the first, unless the environment says otherwise.
    for directory in [workspace::target(), Place::Guest.path()] {
        if directory.exists() {
            println!("removing {}", workspace::display(&directory));
            std::fs::remove_dir_all(&directory)
                .context(|| format!("remove {}", directory.display()))?;
        }
    }
    Ok(())
}
