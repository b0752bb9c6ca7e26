//! `build`: compiles kernel and programs and packs them into the initfs.
//!
//! Cargo decides what is out of date. Packing takes milliseconds and is always done.

use crate::config::{self, Image};
use crate::elf;
use crate::initfs::{self, Tree};
use crate::progress::{self, Build};
use crate::sdk;
use crate::toolchain::{self, Target, Toolchain};
use harness::base::packages::{self, Package};
use harness::base::report::{Context, Result, TimedStep};
use harness::base::settings::{Purpose, Settings};
use harness::base::workspace::{self, Place};
use harness::node::image::{Additions, Contents};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The duration and size of the first build, for the person who waits for it.
const FIRST_TIME: &str = "three to seven on two free processors, and 1 GB below target/";

/// The kernel and the files of an image, in memory, before a run adds its own. Another build may
/// change the files that they were read from.
pub struct Parts {
    /// The kernel's ELF file, as the build has left it.
    kernel: PathBuf,
    /// Its contents.
    kernel_bytes: Vec<u8>,
    bootstrap: String,
    /// The contents of the programs that can be the bootstrap, by name.
    bootstraps: BTreeMap<String, Vec<u8>>,
    tree: Tree,
}

/// Runs the command.
pub fn command(settings: &Settings) -> Result<()> {
    let parts = build(&Contents::product(settings.purpose()?))?;
    let overlay = settings.files()?;
    let initfs = parts.pack(&Additions {
        overlay: overlay.as_deref(),
        ..Additions::default()
    })?;
    let directory = workspace::make(Place::Image)?;
    let path = directory.join("initfs");
    std::fs::write(&path, &initfs).context(|| format!("write {}", path.display()))?;
    println!("{}  {} bytes", workspace::display(&path), initfs.len());
    println!("{}", workspace::display(&parts.kernel));
    Ok(())
}

/// The Debian packages that building these contents needs.
pub fn packages(contents: &Contents) -> Result<Vec<Package>> {
    let mut wanted = toolchain::packages();
    let image = config::image()?;
    wanted.extend(sdk::packages_for(&c_programs(contents, &image)?));
    if !std_programs(contents, &image)?.is_empty() {
        wanted.extend([
            packages::C_COMPILER,
            packages::CXX_COMPILER,
            packages::ARCHIVER,
        ]);
    }
    Ok(wanted)
}

/// The C programs among the contents.
fn c_programs(contents: &Contents, image: &Image) -> Result<Vec<sdk::Program>> {
    let mut programs = sdk::programs(&workspace::root().join(&image.test_c_programs))?;
    programs.retain(|program| contents.tests.want(std::slice::from_ref(&program.name)));
    Ok(programs)
}

/// The names of the programs with Rust's standard library among the contents.
pub fn std_programs(contents: &Contents, image: &Image) -> Result<Vec<String>> {
    let mut programs = sdk::std_programs(&std_package(image))?;
    programs.retain(|program| contents.tests.want(std::slice::from_ref(program)));
    Ok(programs)
}

/// The directory of the programs with Rust's standard library.
fn std_package(image: &Image) -> PathBuf {
    workspace::root().join(&image.test_std_programs)
}

/// Builds the programs with Rust's standard library alone, with the SDK of the last image with C
/// programs.
pub fn std_tests() -> Result<()> {
    let package = std_package(&config::image()?);
    let programs = sdk::std_programs(&package)?;
    let toolchain = toolchain::find()?;
    sdk::build_std(&sdk::place_for_tests(), &toolchain, &package, &programs)?;
    Ok(())
}

/// The file of a program of the image, once it has been built.
pub fn program(name: &str) -> PathBuf {
    built(Target::Program, name)
}

/// Compiles the contents of an image and reads the results.
pub fn build(contents: &Contents) -> Result<Parts> {
    let image = config::image()?;
    packages::ensure(&packages(contents)?)?;
    let toolchain = toolchain::find()?;
    let mut in_image = image.programs.clone();
    let mut others = vec![image.bootstrap.clone()];
    for (packages, chosen) in [
        (&image.test_programs, &mut in_image),
        (&image.test_bootstraps, &mut others),
    ] {
        for package in packages {
            if contents.tests.want(&binaries(package)?) {
                chosen.push(package.clone());
            }
        }
    }
    let step = TimedStep::start(format!(
        "building kernel and programs with {}",
        toolchain.name
    ));
    if !Place::Guest.path().exists() {
        eprintln!("    the first time this takes minutes: {FIRST_TIME}");
    }
    let c_programs = c_programs(contents, &image)?;
    let std_programs = std_programs(contents, &image)?;
    let takes_sdk = !(c_programs.is_empty() && std_programs.is_empty());
    let mut programs = [in_image.as_slice(), &others].concat();
    if takes_sdk {
        // In the same call, because most of its dependencies are built for the others anyway.
        programs.push(sdk::PACKAGE.to_string());
    }
    compile(&toolchain, contents.purpose, &image, &programs)?;
    step.done();

    let mut tree = Tree::default();
    for package in &in_image {
        for binary in binaries(package)? {
            let path = built(Target::Program, &binary);
            tree.insert(&format!("bin/{binary}"), read_built(&path)?, 0o755)?;
        }
    }
    let mut linked = Vec::new();
    let sdk = if takes_sdk {
        Some(sdk::for_tests(&c_programs, !std_programs.is_empty())?)
    } else {
        None
    };
    if let Some(sdk) = sdk.as_ref().filter(|_| !c_programs.is_empty()) {
        let step = TimedStep::start(format!("compiling {} C programs", c_programs.len()));
        linked.extend(sdk::compile_all(sdk, &c_programs)?);
        step.done();
    }
    if let Some(sdk) = sdk.as_ref().filter(|_| !std_programs.is_empty()) {
        let package = std_package(&image);
        let step = TimedStep::start("building Rust's standard library and its tests".to_string());
        linked.extend(sdk::build_std(sdk, &toolchain, &package, &std_programs)?);
        step.done();
    }
    for program in linked {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        tree.insert(&format!("bin/{name}"), read(&program)?, 0o755)?;
    }
    let kernel = built(Target::Kernel, &image.kernel);
    let bytes = read_built(&kernel)?;
    // The kernel that is booted has no symbols; the other file is for debuggers.
    let kernel = kernel.with_extension("boot");
    std::fs::write(&kernel, &bytes).context(|| format!("write {}", kernel.display()))?;
    tree.insert("boot/kernel", bytes.clone(), 0o644)?;
    let mut bootstraps = BTreeMap::new();
    for package in &others {
        for binary in binaries(package)? {
            let bytes = read(&built(Target::Program, &binary))?;
            bootstraps.insert(binary, bytes);
        }
    }
    for (inside, here) in &image.files {
        let path = workspace::root().join(here);
        if path.is_dir() {
            tree.overlay(&path, &format!("{inside}/"))?;
        } else {
            tree.insert(inside, read(&path)?, mode_of(&path)?)?;
        }
    }
    Ok(Parts {
        kernel,
        kernel_bytes: bytes,
        bootstrap: image.bootstrap,
        bootstraps,
        tree,
    })
}

/// The mode in the image for a file of the repository. As in git, it says whether all or nobody
/// may run the file.
fn mode_of(path: &Path) -> Result<u32> {
    let data = std::fs::metadata(path).context(|| format!("read {}", path.display()))?;
    Ok(match data.permissions().mode() & 0o100 {
        0 => 0o644,
        _ => 0o755,
    })
}

impl Parts {
    /// Writes the kernel's ELF file to a directory and returns its path.
    pub fn write_kernel(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join("kernel");
        std::fs::write(&path, &self.kernel_bytes)
            .context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Packs the image with the files that a run adds.
    pub fn pack(&self, additions: &Additions<'_>) -> Result<Vec<u8>> {
        let mut tree = self.tree.clone();
        if let Some(directory) = additions.overlay {
            tree.overlay(directory, "")?;
        }
        for (path, data) in additions.files {
            tree.insert(path, data.clone(), 0o644)?;
        }
        let first = additions.first.unwrap_or(&self.bootstrap);
        let program = self.bootstraps.get(first);
        let program = program.ok_or_else(|| format!("{first} was not built with the image"))?;
        let bootstrap = elf::flatten(program, initfs::BOOTSTRAP_ADDRESS)
            .map_err(|failure| format!("{first}: {}", failure.message))?;
        let mut image = initfs::pack(&bootstrap, &tree)?;
        if initfs::unpack(&image)? != tree {
            return Err("the packed initfs does not read back as packed: a fault of xtask".into());
        }
        if additions.spoiled {
            initfs::spoil(&mut image);
        }
        Ok(image)
    }
}

/// Reads an executable, which must be the same wherever it is built, without its symbols.
fn read_built(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    if let Some(place) = workspace::place_in(&bytes) {
        return Err(format!("{} names {place}", path.display()).into());
    }
    elf::without_symbols(&bytes)
        .map_err(|failure| format!("{}: {}", path.display(), failure.message).into())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| format!("read {}", path.display()))
}

/// Compiles the kernel and the packages of programs in parallel, since each has a long phase with
/// work for only one processor.
fn compile(
    toolchain: &Toolchain,
    purpose: Purpose,
    image: &Image,
    programs: &[String],
) -> Result<()> {
    let kernel = || {
        let mut cargo = toolchain.cargo("build", Target::Kernel, purpose);
        cargo.args(["--package", &image.kernel]);
        cargo
    };
    let programs = || {
        let mut cargo = toolchain.cargo("build", Target::Program, purpose);
        for package in programs {
            cargo.args(["--package", package]);
        }
        cargo.args(image.common_features());
        cargo
    };
    let build = |what: &str, target: Target| format!("{what} for {}", target.triple());
    progress::run(&[
        Build {
            what: build("programs", Target::Program),
            cargo: &programs,
        },
        Build {
            what: build(&image.kernel, Target::Kernel),
            cargo: &kernel,
        },
    ])
}

/// The file of a binary that cargo has built.
fn built(target: Target, binary: &str) -> PathBuf {
    let place = target.place().path();
    place.join(target.triple()).join("release").join(binary)
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
pub fn package_directory(package: &str) -> Result<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use harness::base::cargo;
    use harness::base::run_directory::RunDirectory;
    use std::collections::BTreeSet;

    /// Another build into the same directory must not change the image of a run.
    #[test]
    fn an_image_needs_no_file_once_it_is_built() {
        let address = initfs::BOOTSTRAP_ADDRESS;
        let program = elf::tests::tiny(address, address);
        let parts = Parts {
            kernel: "/not/there".into(),
            kernel_bytes: b"kernel".to_vec(),
            bootstrap: "first".to_string(),
            bootstraps: [("first".to_string(), program)].into(),
            tree: Tree::default(),
        };
        assert!(parts.pack(&Additions::default()).is_ok());
        let other = Additions {
            first: Some("other"),
            ..Additions::default()
        };
        let message = parts.pack(&other).unwrap_err().message;
        assert_eq!(message, "other was not built with the image");
        let directory = RunDirectory::new().unwrap();
        let kernel = parts.write_kernel(directory.path()).unwrap();
        assert_eq!(std::fs::read(kernel).unwrap(), b"kernel");
    }

    /// Otherwise libraries would be compiled again for each choice of packages.
    #[test]
    fn libraries_have_the_same_features_whatever_is_built() {
        let image = config::image().unwrap();
        let mut few = image.programs.clone();
        few.push(image.bootstrap.clone());
        let few = features(&image, &few);
        let all = features(&image, &image.packages());
        for (package, features) in &few {
            assert_eq!(all.get(package), Some(features), "{package}: {COMMON}");
        }
    }

    const COMMON: &str = "add what differs to common_features in config/image.toml";

    /// The features with which each package is built for the image if these packages are built,
    /// from cargo's own plan of the build; nothing is compiled.
    fn features(image: &Image, packages: &[String]) -> BTreeMap<String, BTreeSet<String>> {
        let mut cargo = cargo::in_project();
        cargo
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["build", "--quiet", "--unit-graph", "-Zunstable-options"])
            .args(["--target", Target::Program.triple()])
            .args(image.common_features());
        for package in packages {
            cargo.args(["--package", package]);
        }
        let output = cargo.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let plan: serde_json::Value = serde_json::from_str(&text)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        let mut features = BTreeMap::<_, BTreeSet<_>>::new();
        for unit in plan["units"].as_array().unwrap() {
            // Units for this machine, such as derive macros, have features of their own.
            if unit["platform"].is_string() {
                let package = unit["pkg_id"].as_str().unwrap().to_string();
                let words = unit["features"].as_array().unwrap();
                let words = words.iter().map(|word| word.as_str().unwrap().to_string());
                features.entry(package).or_default().extend(words);
            }
        }
        assert!(features.len() > packages.len());
        features
    }
}
