//! Paths: the project's root and the places below `target/`.

use crate::base::report::{Context, Result};
use std::path::PathBuf;

/// A file that is in the project's root directory only.
const SIGN: &str = "Cargo.lock";

/// The project's root directory.
pub fn root() -> PathBuf {
    // Cargo sets the variable, to the directory of the package whose program or test runs, for
    // `cargo xtask` and for tests; the compile-time value serves a binary that is started by hand.
    let here = std::env::var("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_string());
    let here = PathBuf::from(here);
    let root = here.ancestors().find(|path| path.join(SIGN).is_file());
    root.map(PathBuf::from).unwrap_or(here)
}

/// The directory everything built goes to. Cargo puts what runs on this machine into it, with the
/// usual flags; whatever is built otherwise, or is no build, has a [`Place`] in it.
pub fn target() -> PathBuf {
    root().join("target")
}

/// A directory below `target/`. There are no others but cargo's own, and `clean` removes all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Finished files: initfs, ISO.
    Image,
    /// Logs and records of runs.
    Run,
    /// Build of the programs; elsewhere if `SKIFF_GUEST_TARGET` says so.
    Guest,
    /// Build of the kernel, in the directory of the programs.
    GuestKernel,
    /// Check of the programs with `std`.
    Redox,
    /// The SDK for C programs.
    Sdk,
    /// C programs of the tests, and their SDK.
    Patterns,
    /// Sources and build of the library of C++.
    PlusPlus,
    /// Build of the tests' programs with Rust's standard library.
    Std,
    /// Build of the fuzz targets, and inputs that were found.
    Fuzz,
    /// Results of the benchmark, what it downloads and builds.
    Bench,
    /// Build under AddressSanitizer.
    Address,
    /// Build under ThreadSanitizer.
    Thread,
}

impl Place {
    /// The directory, which may not exist yet.
    pub fn path(self) -> PathBuf {
        let name = match self {
            Self::Image => "image",
            Self::Run => "run",
            Self::Guest => match std::env::var_os("SKIFF_GUEST_TARGET") {
                Some(path) => return PathBuf::from(path),
                None => "guest",
            },
            Self::GuestKernel => return Self::Guest.path().join("kernel"),
            Self::Redox => "redox",
            Self::Sdk => "sdk",
            Self::Patterns => "patterns",
            Self::PlusPlus => "plusplus",
            Self::Std => "std",
            Self::Fuzz => "fuzz",
            Self::Bench => "bench",
            Self::Address => "address",
            Self::Thread => "thread",
        };
        target().join(name)
    }
}

/// The directory, which exists then.
pub fn make(place: Place) -> Result<PathBuf> {
    make_dir(place.path())
}

fn make_dir(path: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&path)
        .context(|| format!("create the directory {}", path.display()))?;
    Ok(path)
}

/// The directory where cargo keeps the sources of crates.
fn cargo_home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

/// A place of this machine that is named in a file's bytes: the project's or cargo's directory.
/// What is built names neither.
pub fn place_in(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let places = [Some(root()), cargo_home()];
    let names = places.into_iter().flatten();
    let mut names = names.map(|place| place.to_string_lossy().into_owned());
    names.find(|name| name.len() > 1 && text.contains(name))
}

/// A path as the user would write it: relative to the project where possible.
pub fn display(path: &std::path::Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_this_machine_are_found_anywhere() {
        let name = root().display().to_string();
        let bytes = [b"\xff\x00", name.as_bytes(), b"/kernel\xff"].concat();
        assert_eq!(place_in(&bytes), Some(name));
        assert_eq!(place_in(b"\xffkernel/src/main.rs\x00"), None);
    }
}
