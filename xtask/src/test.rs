//! `test`: everything that continuous integration runs, stage by stage. A stage that fails does
//! not stop the others, except that without an image no guest can be tested.
//!
//! The stages that need no image run beside the guests at the lowest priority: guests wait for
//! each other for much of their time, and compilers use the time that they leave. Rust's standard
//! library is built in this way, too, which takes minutes; the suites that need it come last.
//!
//! The guest suites are listed in `config/tests.toml`; the same engine as for users' scripts runs
//! them. Each has a hard time limit, and a panic of a kernel or of any program fails it.

use crate::build;
use crate::fuzz;
use crate::image::ImageBuilder;
use crate::redox;
use crate::sdk;
use crate::tidy;
use crate::toolchain::{self, Target};
use harness::base::cargo;
use harness::base::config::{self, Suite, Tests};
use harness::base::packages::{self, Package};
use harness::base::priority;
use harness::base::report::{Context, Failure, Result};
use harness::base::run_directory::RunDirectory;
use harness::base::settings::{Boot, Purpose, Settings};
use harness::command::demo;
use harness::node::image::{Additions, Contents, Image, prepare};
use harness::suite::suites::{self, Show, is_summary};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Runs the command.
pub fn command(settings: &Settings) -> Result<()> {
    let tests = config::tests()?;
    if settings.only().is_none() {
        // All packages are installed at once, rather than one after the other and after long
        // stages.
        packages::ensure(&packages_wanted())?;
    }
    let score = Score::new(settings.only());
    score.stage("format", check_format);
    score.stage("tidy", || tidy::command(settings));
    let (suites, with_std) = chosen(&score, settings, &tests)?;
    let (built, is_built) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| on_host(&score, settings, &tests, is_built));
        in_guests(&score, settings, &suites, built)
    })?;
    with_the_standard_library(&score, settings, &with_std)?;
    score.conclude()
}

/// The suites to run: those of the first part of a whole run, and those of its second part, whose
/// scripts may start programs with Rust's standard library. Runs of single suites have one part.
fn chosen<'a>(
    score: &Score,
    settings: &Settings,
    tests: &'a Tests,
) -> Result<(Vec<&'a Suite>, Vec<&'a Suite>)> {
    let image = crate::config::image()?;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for suite in &tests.suite {
        if !score.asks_for(&stage_name(suite)) {
            continue;
        }
        let waits = settings.only().is_none() && {
            let scripts = suites::scripts([suite])?;
            let contents = named(Purpose::Release, &scripts);
            !build::std_programs(&contents, &image)?.is_empty()
        };
        if waits { &mut second } else { &mut first }.push(suite);
    }
    Ok((first, second))
}

/// Runs the stages without guests. The one that uses the directory of the image's build comes
/// last, except for the one that needs the results of that build.
fn on_host(score: &Score, settings: &Settings, tests: &Tests, is_built: Receiver<()>) {
    if let Err(failure) = priority::give_way() {
        println!("     stages beside the guests: {}", failure.message);
    }
    score.stage("test-host", || test_host(tests));
    score.stage("lint-host", || lint_host(tests));
    score.stage("fuzz", fuzz::smoke);
    score.stage("check-redox", || redox::command(settings));
    score.stage("lint-guest", lint_guest);
    // Runs of single stages build it with their image.
    if settings.only().is_none() && is_built.recv().is_ok() {
        score.stage("build-std", build::std_tests);
    }
}

/// Builds the image and runs the stages that boot it. Reports over `built` when it is built.
fn in_guests(
    score: &Score,
    settings: &Settings,
    suites: &[&Suite],
    built: Sender<()>,
) -> Result<()> {
    let demo = score.asks_for("demo");
    let is_built = score.asks_for("build");
    let mut image = None;
    if !suites.is_empty() || demo || is_built {
        let contents = contents(settings, suites, demo)?;
        image = build_image(score, "build", settings, &contents);
    }
    if image.is_some() {
        // If the other thread has panicked, nothing receives this, and the scope reports the
        // panic.
        let _ = built.send(());
    }
    drop(built);
    score.stage("image-size", || image_size(settings));
    score.stage("elsewhere", || elsewhere(settings));
    if let Some(image) = image.as_deref() {
        boot(score, settings, image, suites);
        if demo {
            score.required("demo", || demonstrate(settings, image));
        }
    }
    Ok(())
}

/// Builds the image with all test programs, and runs the suites that need those with Rust's
/// standard library. The image is built beside the other guests, since that takes minutes.
fn with_the_standard_library(score: &Score, settings: &Settings, suites: &[&Suite]) -> Result<()> {
    if suites.is_empty() {
        return Ok(());
    }
    let purpose = settings.given_purpose()?.unwrap_or(Purpose::Release);
    let contents = Contents::tests(purpose);
    if let Some(image) = build_image(score, "build-all", settings, &contents) {
        boot(score, settings, &*image, suites);
    }
    Ok(())
}

/// The stage that builds an image; `None` if it failed.
fn build_image(
    score: &Score,
    name: &str,
    settings: &Settings,
    contents: &Contents,
) -> Option<Box<dyn Image>> {
    let mut image = None;
    score.required(name, || {
        image = Some(prepare(&ImageBuilder, settings, contents)?);
        Ok(())
    });
    image
}

fn boot(score: &Score, settings: &Settings, image: &dyn Image, suites: &[&Suite]) {
    for suite in suites {
        score.required(&stage_name(suite), || {
            suites::guest(settings, suite, image, Show::Summaries)
        });
    }
}

/// The contents of the image for the stages: the programs that their scripts name. A whole run
/// tests the image that users get. Runs of single stages must be quick, so their image is compiled
/// for edit cycles.
fn contents(settings: &Settings, suites: &[&Suite], demo: bool) -> Result<Contents> {
    let purpose = settings.given_purpose()?.unwrap_or(match settings.only() {
        None => Purpose::Release,
        Some(_) => Purpose::Edit,
    });
    let mut scripts = suites::scripts(suites.iter().copied())?;
    if demo {
        scripts.extend(demo::scripts()?.into_iter().map(|(_, text)| text));
    }
    match scripts.is_empty() {
        // The stage `build` alone.
        true => Ok(Contents::tests(purpose)),
        false => Ok(named(purpose, &scripts)),
    }
}

fn named(purpose: Purpose, scripts: &[String]) -> Contents {
    Contents::named_in(purpose, scripts.iter().map(String::as_str))
}

/// Most bytes of the files that a user's node starts from: the goal of the benchmark's row
/// `image_bytes`.
const MOST_IMAGE_BYTES: u64 = 16 << 20;

/// Checks the size of the image that users get, in a whole run. A single value that is not zero in
/// a large table of a library makes the whole table a part of each program's file.
fn image_size(settings: &Settings) -> Result<()> {
    let contents = Contents::product(Purpose::Release);
    let image = prepare(&ImageBuilder, settings, &contents)?;
    let directory = RunDirectory::new()?;
    let lines = [String::new()];
    let files = image.boot_files(
        Boot::Direct,
        &Additions::default(),
        &lines,
        directory.path(),
    )?;
    for files in files {
        let bytes = files.bytes()?;
        println!("     kernel and files of the image: {bytes} bytes");
        if bytes > MOST_IMAGE_BYTES {
            return Err(format!(
                "kernel and files of the image have {bytes} bytes, at most {MOST_IMAGE_BYTES} are \
                 wanted: compare the programs' sizes with those of an earlier build"
            )
            .into());
        }
    }
    Ok(())
}

/// The signal of an instruction that there is not.
const SIGILL: i32 = 4;

/// A program that is started on another system by mistake ends. Configure scripts do that with what
/// they have just compiled, to find out whether they compile for the machine that they run on.
fn elsewhere(settings: &Settings) -> Result<()> {
    let purpose = settings.given_purpose()?.unwrap_or(Purpose::Edit);
    build::build(&Contents::product(purpose))?;
    // A limit in seconds of the processor: no other work on the machine shortens it.
    let mut command = Command::new("prlimit");
    command.arg("--cpu=20").arg(build::program("true"));
    let status = command
        .stderr(Stdio::null())
        .status()
        .context(|| format!("start {command:?}"))?;
    if status.signal() == Some(SIGILL) {
        Ok(())
    } else {
        Err(format!("{command:?} did not end by an instruction that there is not: {status}").into())
    }
}

fn stage_name(suite: &Suite) -> String {
    format!("guest-{}", suite.name)
}

/// Counts the stages and prints their results.
struct Score {
    only: Option<String>,
    told: Mutex<Told>,
}

/// The results to print at the end.
#[derive(Default)]
struct Told {
    /// The names of all stages.
    names: Vec<String>,
    passed: usize,
    /// Name and reason of each stage that failed.
    failed: Vec<String>,
}

impl Score {
    fn new(only: Option<&str>) -> Self {
        Self {
            only: only.map(str::to_string),
            told: Mutex::default(),
        }
    }

    /// The results. A stage that panicked has left them consistent.
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a stage is to run.
    fn asks_for(&self, name: &str) -> bool {
        self.told().names.push(name.to_string());
        let only = self.only.as_ref();
        only.is_none_or(|only| name.contains(only.as_str()))
    }

    /// Runs a stage if it is to run.
    fn stage(&self, name: &str, work: impl FnOnce() -> Result<()>) {
        if self.asks_for(name) {
            self.required(name, work);
        }
    }

    fn required(&self, name: &str, work: impl FnOnce() -> Result<()>) {
        println!("---- {name}");
        let start = Instant::now();
        let result = work();
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                self.told().passed += 1;
                println!("ok   {name} ({seconds:.1} s)");
            }
            Err(failure) => {
                println!("FAIL {name} ({seconds:.1} s) {}", failure.message);
                let failed = format!("{name} {}", failure.message);
                self.told().failed.push(failed.trim_end().to_string());
            }
        }
    }

    fn conclude(self) -> Result<()> {
        let Told {
            names,
            passed,
            failed,
        } = &*self.told();
        if let Some(only) = &self.only
            && *passed == 0
            && failed.is_empty()
        {
            let names = names.join(" ");
            return Err(format!("ONLY={only}: in the name of no stage; they are {names}").into());
        }
        for name in failed {
            println!("failed: {name}");
        }
        println!("{passed} passed, {} failed", failed.len());
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Failure::silent(1))
        }
    }
}

/// Runs a program to its end. Its output is shown only if it fails, except for summaries.
fn quietly(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .context(|| format!("start {:?}", command.get_program()))?;
    if output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines().filter(|line| is_summary(line)) {
            println!("     {line}");
        }
        return Ok(());
    }
    print!("{}", String::from_utf8_lossy(&output.stdout));
    print!("{}", String::from_utf8_lossy(&output.stderr));
    let words: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy())
        .collect();
    Err(format!("'cargo {}': {}", words.join(" "), output.status).into())
}

/// A call of the user's cargo.
fn host_cargo(subcommand: &str) -> Command {
    let mut command = cargo::in_project();
    command.arg(subcommand);
    command
}

/// The packages that all stages need.
pub fn packages_wanted() -> Vec<Package> {
    let mut wanted = packages::all();
    wanted.extend(toolchain::packages());
    // The cargo of rustup has these as components.
    if !cargo_is_of_rustup() {
        wanted.extend([packages::FORMATTER, packages::LINTER]);
    }
    wanted
}

/// Whether the user's cargo is that of rustup, which may be installed beside another one.
fn cargo_is_of_rustup() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    has_cargo_of_rustup(std::env::split_paths(&path))
}

/// Whether the first directory with a cargo also has rustup, as which that cargo is installed.
fn has_cargo_of_rustup(mut directories: impl Iterator<Item = PathBuf>) -> bool {
    let first = directories.find(|directory| directory.join("cargo").is_file());
    first.is_some_and(|directory| directory.join("rustup").is_file())
}

/// Makes sure that the user's cargo has a subcommand that is installed separately: as a component
/// of rustup, or as a package.
fn ensure_component(subcommand: &str, component: &str, package: Package) -> Result<()> {
    let works = || {
        let output = host_cargo(subcommand).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    if works() {
        return Ok(());
    }
    println!("     cargo has no '{subcommand}': adding it");
    if cargo_is_of_rustup() {
        // If this fails, perhaps the package helps.
        let _ = Command::new("rustup")
            .args(["component", "add", component])
            .status();
    }
    if works() {
        return Ok(());
    }
    packages::ensure(&[package])?;
    if works() {
        return Ok(());
    }
    Err(format!("`cargo {subcommand}` does not work: install the component {component}").into())
}

/// Makes sure that the user's cargo can format and lint.
pub fn ensure_components() -> Result<()> {
    ensure_component("fmt", "rustfmt", packages::FORMATTER)?;
    ensure_component("clippy", "clippy", packages::LINTER)
}

fn check_format() -> Result<()> {
    ensure_component("fmt", "rustfmt", packages::FORMATTER)?;
    quietly(host_cargo("fmt").args(["--all", "--check"]))
}

fn lint_host(tests: &Tests) -> Result<()> {
    ensure_component("clippy", "clippy", packages::LINTER)?;
    quietly(host_cargo("clippy").args(["--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    // `--tests` would also select the programs, which build only for the image. The profile `test`
    // is the library with its tests.
    for profile in ["dev", "test"] {
        let mut libraries = host_cargo("clippy");
        libraries.args(["--lib", "--quiet", "--profile", profile]);
        for package in &tests.host_libraries {
            libraries.args(["--package", package]);
        }
        quietly(libraries.args(["--", "-D", "warnings"]))?;
    }
    // Nothing is linked here, so libFuzzer is not needed, which the build of its crate would
    // compile.
    let mut targets = host_cargo("clippy");
    targets
        .args(["--bins", "--tests", "--quiet"])
        .args([
            "--package",
            fuzz::PACKAGE,
            "--package",
            bench_runner::native::NATIVE,
        ])
        .env("CUSTOM_LIBFUZZER_PATH", "/not/linked/libfuzzer.a");
    quietly(targets.args(["--", "-D", "warnings"]))
}

fn test_host(tests: &Tests) -> Result<()> {
    quietly(host_cargo("test").arg("--quiet"))?;
    // The examples in the documentation are run, too; some show code that must not compile.
    for kind in ["--lib", "--doc"] {
        let mut libraries = host_cargo("test");
        libraries.args([kind, "--quiet"]);
        for package in &tests.host_libraries {
            libraries.args(["--package", package]);
        }
        quietly(&mut libraries)?;
    }
    let native = bench_runner::native::NATIVE;
    quietly(host_cargo("test").args(["--quiet", "--package", native]))
}

fn lint_guest() -> Result<()> {
    let image = crate::config::image()?;
    let toolchain = toolchain::find()?;
    toolchain.ensure_linter()?;
    let mut programs = image.packages();
    programs.push(sdk::PACKAGE.to_string());
    for (target, packages) in [
        (Target::Kernel, vec![image.kernel]),
        (Target::Program, programs),
    ] {
        let mut command = toolchain.cargo("clippy", target, Purpose::Edit);
        command.arg("--quiet");
        for package in &packages {
            command.args(["--package", package]);
        }
        quietly(command.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

fn demonstrate(settings: &Settings, image: &dyn Image) -> Result<()> {
    if demo::play(settings, image)? {
        Ok(())
    } else {
        Err("see the steps above".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_added_to_the_cargo_that_is_used() {
        let place = RunDirectory::new().unwrap();
        let directory = |name: &str, programs: &[&str]| {
            let directory = place.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            for program in programs {
                std::fs::write(directory.join(program), "").unwrap();
            }
            directory
        };
        let empty = directory("empty", &[]);
        let debian = directory("debian", &["cargo"]);
        let rustup = directory("rustup", &["cargo", "rustup"]);
        let is_of = |path: &[&PathBuf]| has_cargo_of_rustup(path.iter().copied().cloned());
        assert!(is_of(&[&empty, &rustup, &debian]));
        assert!(!is_of(&[&empty, &debian, &rustup]));
        assert!(!is_of(&[&empty]));
    }

    #[test]
    fn a_word_in_no_name_is_answered_with_the_names() {
        let score = Score::new(Some("nosuch"));
        score.stage("format", || panic!("was not asked for"));
        score.stage("tidy", || panic!("was not asked for"));
        let message = score.conclude().unwrap_err().message;
        assert_eq!(
            message,
            "ONLY=nosuch: in the name of no stage; they are format tidy"
        );
    }
}
