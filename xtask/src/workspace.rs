//! Where things are: the project's root and the places below `target/`.

use crate::report::{Context, Result};
use std::path::PathBuf;

/// The project's root directory.
pub fn root() -> PathBuf {
    // Cargo sets the variable for `cargo xtask` and for tests; the compile-time value serves a
    // binary that is started by hand.
    let here = std::env::var("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_string());
    let here = PathBuf::from(here);
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// The directory everything built goes to.
pub fn target() -> PathBuf {
    root().join("target")
}

/// Cargo's target directory for kernel and programs of the image. `SKIFF_GUEST_TARGET` moves it,
/// for those who share the sources between several builds.
pub fn guest_target() -> PathBuf {
    match std::env::var_os("SKIFF_GUEST_TARGET") {
        Some(path) => PathBuf::from(path),
        None => target().join("guest"),
    }
}

/// Finished files: kernel, initfs, ISO.
pub fn image_dir() -> Result<PathBuf> {
    make_dir(target().join("image"))
}

/// Logs and records of runs.
pub fn run_dir() -> Result<PathBuf> {
    make_dir(target().join("run"))
}

fn make_dir(path: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&path)
        .context(|| format!("create the directory {}", path.display()))?;
    Ok(path)
}

/// A path as the user would write it: relative to the project where possible.
pub fn display(path: &std::path::Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}
