//! `app APP=dir`: builds a Rust program that lies outside the project for the image, with the
//! options that the project's own programs are built with (docs/rust.md).

use crate::toolchain::{self, Target};
use harness::base::packages;
use harness::base::report::{Context, Result, TimedStep};
use harness::base::settings::{Purpose, Settings};
use harness::base::workspace;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Directory of the build, in the program's directory.
const PLACE: &str = "target/skiff";

/// Runs the command.
pub fn command(settings: &Settings) -> Result<()> {
    let files = build(&settings.app()?)?;
    println!("{}", files.display());
    println!("run with: make run FILES={}", files.display());
    Ok(())
}

/// Builds the programs of a package. Returns a directory that has them in `bin`, in the form that
/// FILES= takes.
pub fn build(package: &Path) -> Result<PathBuf> {
    packages::ensure(&toolchain::packages())?;
    let toolchain = toolchain::find()?;
    keep_versions(package)?;
    let place = package.join(PLACE);
    let step = TimedStep::start(format!("building with {}", toolchain.name));
    let mut cargo = toolchain.cargo("build", Target::Program, Purpose::Release);
    cargo
        .env("CARGO_TARGET_DIR", &place)
        // The project's own profile gives these settings to the programs of the image.
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
        .arg("--manifest-path")
        .arg(package.join("Cargo.toml"))
        .arg("--message-format=json-render-diagnostics");
    let programs = executables(&output_of(&mut cargo)?);
    step.done();
    if programs.is_empty() {
        let package = package.display();
        return Err(format!("{package} has no program: no src/main.rs, src/bin or [[bin]]").into());
    }
    let files = place.join("files");
    lay_out(&programs, &files.join("bin"))?;
    Ok(files)
}

/// Gives a package without a lock file the versions of the project's dependencies, which are known
/// to build for the image.
fn keep_versions(package: &Path) -> Result<()> {
    let lock = package.join("Cargo.lock");
    if lock.exists() {
        return Ok(());
    }
    std::fs::copy(workspace::root().join("Cargo.lock"), &lock)
        .map(|_| ())
        .context(|| format!("write {}", lock.display()))
}

/// Runs cargo and returns its output for other programs; its messages for people go to the
/// terminal.
fn output_of(cargo: &mut Command) -> Result<String> {
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.context(|| "start cargo".to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err("building failed; cargo's words are above".into()),
    }
}

/// The files of the programs that cargo reports as built.
fn executables(messages: &str) -> Vec<PathBuf> {
    let of_line = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    messages.lines().filter_map(of_line).collect()
}

/// Puts programs into a directory, in place of those of an earlier build.
fn lay_out(programs: &[PathBuf], directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("cannot remove {}: {error}", directory.display()).into());
        }
        _ => {}
    }
    let doing = || format!("create {}", directory.display());
    std::fs::create_dir_all(directory).context(doing)?;
    for program in programs {
        let name = program.file_name().unwrap_or_default();
        std::fs::copy(program, directory.join(name))
            .context(|| format!("copy {}", program.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","executable":"/a/release/hello"}"#,
            "\nno message\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        assert_eq!(executables(messages), [PathBuf::from("/a/release/hello")]);
    }

    /// The packages that docs/rust.md names exist.
    #[test]
    fn the_page_names_packages_where_they_are() {
        let page = std::fs::read_to_string(workspace::root().join("docs/rust.md")).unwrap();
        let mut seen = 0;
        for line in page.lines().filter(|line| line.contains("path = \"")) {
            let path = line.split('"').nth(1).unwrap();
            let inside = path.strip_prefix("../skiff/").expect("below the clone");
            let manifest = workspace::root().join(inside).join("Cargo.toml");
            assert!(manifest.is_file(), "{line}");
            seen += 1;
        }
        assert_eq!(seen, 3);
    }
}
