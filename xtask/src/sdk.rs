//! `sdk`: lays out what a C programmer needs in `target/sdk`: headers, libraries, `skiff-cc`.
//!
//! The libraries are one static library of Rust's, taken apart: libscif.a has the objects of the
//! crates behind `scif.h`, libc.a all others, start-up code included. Nothing in the directory
//! names a place of this machine, so it can be moved and given away.

use crate::packages::{self, Package};
use crate::report::{Context, Failure, Result, Step};
use crate::settings::Settings;
use crate::toolchain::{self, Purpose, Target};
use crate::workspace::{self, Place};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What making it and compiling the tests' programs takes, besides the toolchain.
pub const PACKAGES: &[Package] = &[packages::ARCHIVER, packages::C_COMPILER];
/// The package whose static library it is, and the file cargo makes.
pub const PACKAGE: &str = "libscif";
const LIBRARY: &str = "liblibscif.a";
/// Crates whose objects belong to libscif.a.
const SCIF_CRATES: &[&str] = &["libscif", "scif"];
/// Libraries that programs name though all of them is in libc.a.
const EMPTY: &[&str] = &["libm.a", "libpthread.a", "librt.a", "libdl.a"];
/// Where headers come from, in the project.
const HEADERS: &[&str] = &["lib/libc/include", "lib/libscif/include"];
const COMPILER: &str = "lib/libscif/skiff-cc";

/// The command.
pub fn command(_settings: &Settings) -> Result<()> {
    let sdk = make()?;
    println!("{}", workspace::display(&sdk));
    println!(
        "compile with: {} -o program program.c",
        workspace::display(&sdk.join("bin/skiff-cc"))
    );
    Ok(())
}

/// Makes the SDK; returns its directory.
pub fn make() -> Result<PathBuf> {
    let mut wanted = toolchain::packages();
    wanted.push(packages::ARCHIVER);
    packages::ensure(&wanted)?;
    let toolchain = toolchain::find()?;
    let step = Step::start(format!("building the C libraries with {}", toolchain.name));
    let mut cargo = toolchain.cargo("build", Target::Program, Purpose::Release);
    run(cargo.args(["--quiet", "--package", PACKAGE]))?;
    step.done();

    let library = Target::Program.place().path();
    let library = library
        .join(Target::Program.triple())
        .join("release")
        .join(LIBRARY);
    let sdk = Place::Sdk.path();
    let fresh = Place::NextSdk.path();
    remove(&fresh)?;
    for part in ["include", "lib", "bin"] {
        make_dir(&fresh.join(part))?;
    }
    for headers in HEADERS {
        copy_tree(&workspace::root().join(headers), &fresh.join("include"))?;
    }
    split(&library, &fresh.join("lib"))?;
    let compiler = fresh.join("bin/skiff-cc");
    // The copy keeps the right to be executed.
    std::fs::copy(workspace::root().join(COMPILER), &compiler)
        .context(|| format!("write {}", compiler.display()))?;
    let problem = find_path(&fresh)?;
    if let Some(problem) = problem {
        return Err(format!("the SDK would hold a path of this machine: {problem}").into());
    }
    // Programs that are being compiled meanwhile see the old one or the new one.
    remove(&sdk)?;
    std::fs::rename(&fresh, &sdk).context(|| format!("put {} in place", sdk.display()))?;
    Ok(sdk)
}

/// Makes the SDK and compiles each C file of a directory with it; returns the programs.
pub fn compile_all(directory: &Path) -> Result<Vec<PathBuf>> {
    packages::ensure(&[packages::C_COMPILER])?;
    let sdk = make()?;
    let place = Place::Patterns.path();
    make_dir(&place)?;
    let mut built = Vec::new();
    for program in programs(directory)? {
        let source = directory.join(&program).with_extension("c");
        let program = place.join(program);
        compile(&sdk, &[source], &program)?;
        built.push(program);
    }
    Ok(built)
}

/// The names of the programs that a directory of C files makes.
pub fn programs(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for source in entries(directory)? {
        if source.extension().is_some_and(|extension| extension == "c") {
            let name = source.file_stem().unwrap_or_default();
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Compiles one C program; the messages of the compiler, warnings included, are errors.
fn compile(sdk: &Path, sources: &[PathBuf], program: &Path) -> Result<()> {
    let mut command = Command::new(sdk.join("bin/skiff-cc"));
    command
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s"])
        .arg("-o")
        .arg(program)
        .args(sources);
    run(&mut command)
}

/// Runs a program to its end; what it printed is shown if it failed.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().context(|| format!("start {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(Failure::from(format!("{name} failed: {}", output.status)))
}

fn make_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).context(|| format!("create {}", path.display()))
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()).into())
        }
        _ => Ok(()),
    }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let doing = || format!("list {}", directory.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory).context(doing)? {
        entries.push(entry.context(doing)?.path());
    }
    entries.sort();
    Ok(entries)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for path in entries(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            make_dir(&target)?;
            copy_tree(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Takes the static library apart into the SDK's two.
fn split(library: &Path, to: &Path) -> Result<()> {
    let objects = to.join("objects");
    make_dir(&objects)?;
    run(Command::new("ar")
        .arg("x")
        .arg(library)
        .current_dir(&objects))?;
    let members = entries(&objects)?;
    let listed = Command::new("ar").arg("t").arg(library).output();
    let listed = listed.context(|| "start ar".to_string())?.stdout;
    let listed = listed
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    if members.is_empty() || members.len() != listed.count() {
        return Err("two objects of the static library have the same name".into());
    }
    let (scif, rest): (Vec<_>, Vec<_>) = members
        .into_iter()
        .partition(|path| SCIF_CRATES.contains(&crate_of(path).as_str()));
    for (name, objects) in [("libscif.a", scif), ("libc.a", rest)] {
        archive(&to.join(name), &objects)?;
    }
    for name in EMPTY {
        archive(&to.join(name), &[])?;
    }
    remove(&objects)
}

/// Makes an archive with an index, the same bytes for the same objects.
fn archive(path: &Path, objects: &[PathBuf]) -> Result<()> {
    run(Command::new("ar").arg("rcsD").arg(path).args(objects))
}

/// The crate an object belongs to: `scif-0123.scif.4567-cgu.0.rcgu.o` is of `scif`.
fn crate_of(object: &Path) -> String {
    let name = object.file_name().unwrap_or_default().to_string_lossy();
    let end = name.find(['-', '.']).unwrap_or(name.len());
    name[..end].to_string()
}

/// Looks for paths of this machine in the SDK; says where one is.
fn find_path(directory: &Path) -> Result<Option<String>> {
    for path in entries(directory)? {
        if path.is_dir() {
            if let Some(problem) = find_path(&path)? {
                return Ok(Some(problem));
            }
            continue;
        }
        let bytes = std::fs::read(&path).context(|| format!("read {}", path.display()))?;
        if let Some(place) = workspace::place_in(&bytes) {
            return Ok(Some(format!("{place} in {}", workspace::display(&path))));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_apart_by_their_crate() {
        let of = |name: &str| crate_of(Path::new(name));
        assert_eq!(of("scif-8f3a.scif.1b-cgu.0.rcgu.o"), "scif");
        assert_eq!(of("scif_abi-8f3a.scif_abi.1b-cgu.0.rcgu.o"), "scif_abi");
        assert_eq!(of("libscif.1b-cgu.0.rcgu.o"), "libscif");
    }

    #[test]
    fn the_compiler_script_names_no_place() {
        let script = std::fs::read_to_string(workspace::root().join(COMPILER)).unwrap();
        let code = script
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        for line in code {
            // Absolute paths but the null device; `$sdk/…` and patterns are none.
            let words = line.replace("/dev/null", "");
            let absolute = |word: &str| word.starts_with('/') && word.len() > 3;
            assert!(!words.split_whitespace().any(absolute), "{line}");
        }
    }
}
