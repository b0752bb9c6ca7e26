//! `build`: compiles kernel and programs and packs them into the initfs.
//!
//! Cargo decides what is out of date; packing takes milliseconds and is always done.

use crate::config;
use crate::elf;
use crate::initfs::{self, Tree};
use crate::report::{Context, Failure, Result, Step};
use crate::sdk;
use crate::settings::Settings;
use crate::toolchain::{self, Target, Toolchain};
use crate::workspace::{self, Place};
use std::path::{Path, PathBuf};

/// Kernel and files of the image, in memory, before a run adds its own.
pub struct Parts {
    /// The kernel's ELF file.
    pub kernel: PathBuf,
    bootstrap: String,
    tree: Tree,
}

/// The command.
pub fn command(settings: &Settings) -> Result<()> {
    let parts = build(Contents::Product)?;
    let initfs = parts.pack(None, settings.files()?.as_deref(), &[])?;
    let directory = workspace::make(Place::Image)?;
    let path = directory.join("initfs");
    std::fs::write(&path, &initfs).context(|| format!("write {}", path.display()))?;
    println!("{}  {} bytes", workspace::display(&path), initfs.len());
    println!("{}", workspace::display(&parts.kernel));
    Ok(())
}

/// Which programs go into the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// What a user gets.
    Product,
    /// The same and the test programs, those in C too.
    Tests,
    /// The same and the test programs in Rust, among them the benchmarks' own.
    Bench,
}

/// Compiles everything. The test programs are always compiled along: cargo builds libraries with
/// the features of all packages it is given, so another list would build everything again.
pub fn build(contents: Contents) -> Result<Parts> {
    let image = config::image()?;
    let toolchain = toolchain::find()?;
    let packages = image.packages();
    let step = Step::start(format!(
        "building kernel and programs with {}",
        toolchain.name
    ));
    compile(
        &toolchain,
        Target::Kernel,
        std::slice::from_ref(&image.kernel),
    )?;
    compile(&toolchain, Target::Program, &packages)?;
    step.done();

    let kernel = built(Target::Kernel, &image.kernel);
    let mut tree = Tree::default();
    let tests = image
        .test_programs
        .iter()
        .filter(|_| contents != Contents::Product);
    for package in image.programs.iter().chain(tests) {
        for binary in binaries(package)? {
            let path = built(Target::Program, &binary);
            tree.insert(&format!("bin/{binary}"), read(&path)?, 0o755)?;
        }
    }
    if contents == Contents::Tests {
        for program in sdk::compile_all(&workspace::root().join(&image.test_c_programs))? {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            tree.insert(&format!("bin/{name}"), read(&program)?, 0o755)?;
        }
    }
    tree.insert("boot/kernel", read(&kernel)?, 0o644)?;
    for (inside, here) in &image.files {
        let path = workspace::root().join(here);
        if path.is_dir() {
            tree.overlay(&path, &format!("{inside}/"))?;
        } else {
            tree.insert(inside, read(&path)?, 0o644)?;
        }
    }
    Ok(Parts {
        kernel,
        bootstrap: image.bootstrap,
        tree,
    })
}

impl Parts {
    /// Packs the image with a user's files laid over it, and `extra` files over those. `first` is
    /// the program the kernel starts, if not the bootstrap.
    pub fn pack(
        &self,
        first: Option<&str>,
        overlay: Option<&Path>,
        extra: &[(String, Vec<u8>)],
    ) -> Result<Vec<u8>> {
        let mut tree = self.tree.clone();
        if let Some(directory) = overlay {
            tree.overlay(directory, "")?;
        }
        for (path, data) in extra {
            tree.insert(path, data.clone(), 0o644)?;
        }
        let program = built(Target::Program, first.unwrap_or(&self.bootstrap));
        let bootstrap = elf::flatten(&read(&program)?, initfs::BOOTSTRAP_ADDRESS)
            .map_err(|failure| format!("{}: {}", program.display(), failure.message))?;
        let image = initfs::pack(&bootstrap, &tree)?;
        if initfs::unpack(&image)? != tree {
            return Err("the packed initfs does not read back as packed: a fault of xtask".into());
        }
        Ok(image)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| format!("read {}", path.display()))
}

fn compile(toolchain: &Toolchain, target: Target, packages: &[String]) -> Result<()> {
    let mut command = toolchain.cargo("build", target);
    for package in packages {
        command.args(["--package", package]);
    }
    let status = command.status().context(|| "start cargo".to_string())?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::from(format!(
        "building {} for {} failed; cargo's words are above",
        packages.join(", "),
        target.triple()
    )))
}

/// The file cargo makes of a binary target.
fn built(target: Target, binary: &str) -> PathBuf {
    Place::Guest
        .path()
        .join(target.triple())
        .join("release")
        .join(binary)
}

/// The names of a package's binaries, by cargo's own rules: `src/main.rs`, `src/bin/*` and the
/// `[[bin]]` tables of its manifest.
fn binaries(package: &str) -> Result<Vec<String>> {
    let directory = package_directory(package)?;
    let path = directory.join("Cargo.toml");
    let manifest: toml::Table = String::from_utf8_lossy(&read(&path)?)
        .parse()
        .context(|| format!("understand {}", path.display()))?;
    let mut names = std::collections::BTreeSet::new();
    let tables = manifest.get("bin").and_then(|bin| bin.as_array());
    for table in tables.into_iter().flatten() {
        names.extend(
            table
                .get("name")
                .and_then(|name| name.as_str())
                .map(str::to_string),
        );
    }
    if tables.is_none() && directory.join("src/main.rs").is_file() {
        names.insert(package.to_string());
    }
    for item in std::fs::read_dir(directory.join("src/bin"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = item.file_name().to_string_lossy().into_owned();
        if item.path().is_dir() && item.path().join("main.rs").is_file() {
            names.insert(name);
        } else if let Some(name) = name.strip_suffix(".rs") {
            names.insert(name.to_string());
        }
    }
    if names.is_empty() {
        return Err(format!("config/image.toml: the package '{package}' has no binary").into());
    }
    Ok(names.into_iter().collect())
}

/// The directory of a workspace member.
fn package_directory(package: &str) -> Result<PathBuf> {
    for member in workspace_members()? {
        let path = workspace::root().join(&member).join("Cargo.toml");
        let text = String::from_utf8_lossy(&read(&path)?).into_owned();
        let manifest: toml::Table = text
            .parse()
            .context(|| format!("understand {}", path.display()))?;
        let name = manifest
            .get("package")
            .and_then(|table| table.get("name")?.as_str());
        if name == Some(package) {
            return Ok(workspace::root().join(member));
        }
    }
    Err(format!("the workspace has no package '{package}': correct config/image.toml").into())
}

/// The members of the workspace, as paths in the project.
pub fn workspace_members() -> Result<Vec<String>> {
    let path = workspace::root().join("Cargo.toml");
    let manifest: toml::Table = String::from_utf8_lossy(&read(&path)?)
        .parse()
        .context(|| format!("understand {}", path.display()))?;
    let members = manifest
        .get("workspace")
        .and_then(|table| table.get("members")?.as_array());
    let members = members.into_iter().flatten();
    Ok(members
        .filter_map(|member| member.as_str())
        .map(str::to_string)
        .collect())
}
