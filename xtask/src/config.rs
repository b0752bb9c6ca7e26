//! Reads `config/image.toml`, the contents of the image. The harness reads the other files in
//! `config`.

use harness::base::config;
use harness::base::report::Result;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `config/image.toml`: the contents of the image.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Package of the program that the kernel starts first.
    pub bootstrap: String,
    /// Package of the kernel; its ELF file is also `boot/kernel` in the image.
    pub kernel: String,
    /// Packages whose binaries go to `bin/`.
    pub programs: Vec<String>,
    /// Packages whose binaries go to `bin/` of images made for tests only.
    pub test_programs: Vec<String>,
    /// Packages of programs that take the bootstrap's place in suites that say so.
    pub test_bootstraps: Vec<String>,
    /// Features, as `package/feature`, that some programs need of a library of the workspace.
    pub common_features: Vec<String>,
    /// Directory of C programs: in images made for tests each file becomes `bin/<name>`.
    pub test_c_programs: String,
    /// A package whose programs use Rust's standard library: in images made for tests each becomes
    /// `bin/<name>`.
    pub test_std_programs: String,
    /// Directories or files of the project laid into the image: path inside = path here.
    pub files: BTreeMap<String, String>,
}

impl Image {
    /// All packages that are built for the image's own target.
    pub fn packages(&self) -> Vec<String> {
        let mut packages = self.programs.clone();
        packages.extend(self.test_programs.iter().cloned());
        packages.extend(self.test_bootstraps.iter().cloned());
        packages.push(self.bootstrap.clone());
        packages
    }

    /// The arguments by which cargo builds libraries with the features that any program needs,
    /// whichever programs are built.
    pub fn common_features(&self) -> Vec<String> {
        let mut words = Vec::new();
        for feature in &self.common_features {
            // Cargo requires the package to be among those it builds.
            let package = feature.split('/').next().unwrap_or_default();
            words.extend(["--package", package, "--features", feature].map(str::to_string));
        }
        words
    }
}

/// Reads `config/image.toml`.
pub fn image() -> Result<Image> {
    config::read("image.toml")
}
