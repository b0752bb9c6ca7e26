//! `fuzz`: runs the fuzz targets of `tests/fuzz`, each for a while, beginning with the inputs kept
//! there.
//!
//! The targets have the form of cargo-fuzz. Here they are built without it and without a nightly
//! compiler, which continuous integration does not have: an option of the installed compiler
//! measures coverage, and libFuzzer comes from crates.io as C++ source. New inputs stay below
//! `target/fuzz`; the inputs in the repository are only read.

use harness::base::cargo;
use harness::base::packages;
use harness::base::report::{Context, Failure, Result, TimedStep};
use harness::base::run_directory::RunDirectory;
use harness::base::settings::Settings;
use harness::base::workspace::{self, Place};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The targets' package.
pub const PACKAGE: &str = "fuzz";
/// Directory of the targets and their inputs.
const PLACE: &str = "tests/fuzz";
/// The target of the programs. It is given explicitly so that build scripts do not get the flags
/// below.
pub const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Flags by which libFuzzer sees which branches were taken and which values were compared. Checks
/// for overflow and the like are on.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares \
                     -Cllvm-args=-simplifycfg-branch-fold-threshold=0 -Cdebug-assertions";
/// How long each target runs without `SECONDS=`.
const USUAL: Duration = Duration::from_secs(60);
/// How long each target makes new inputs for `make test`. All inputs in the repository are run
/// first, and their time counts.
const SMOKE: Duration = Duration::from_secs(1);
/// Seed of the new inputs of `make test`. It is always the same, and so are the inputs that the
/// stage begins with: it draws the same new inputs each time. How many of them it gets to in its
/// time depends on the machine. Without a seed, each run makes other inputs.
const SMOKE_SEED: &str = "-seed=1";
/// Longest input, in bytes.
const MAX_INPUT: usize = 1024;
/// Seconds after which an input counts as a finding: some loop does not end.
const INPUT_TIMEOUT: usize = 60;
/// Lines of a target's output to show with a finding.
const SHOWN_LINES: usize = 60;
/// Time between two lines of progress.
const PULSE: Duration = Duration::from_secs(10);

/// The result of one target.
struct Outcome {
    target: String,
    executions: u64,
    time: Duration,
    /// The input of the finding, if there is one.
    finding: Option<PathBuf>,
}

/// Runs the command.
pub fn command(settings: &Settings) -> Result<()> {
    let targets = match settings.target() {
        Some(name) => vec![checked(name)?],
        None => targets()?,
    };
    let input = settings.input()?;
    build(&targets)?;
    if let Some((input, target)) = input {
        return repeat(target, input);
    }
    let time = settings.seconds()?.unwrap_or(USUAL);
    report(&run_all(&targets, |target| run(target, time, false)))
}

/// The stage of `make test`: runs all inputs of the repository in all targets, and makes a few new
/// ones.
pub fn smoke() -> Result<()> {
    let targets = targets()?;
    build(&targets)?;
    report(&run_all(&targets, |target| run(target, SMOKE, true)))
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let directory = workspace::root().join(PLACE).join("fuzz_targets");
    let items =
        std::fs::read_dir(&directory).context(|| format!("read {}", directory.display()))?;
    let names = items.flatten().filter_map(|item| {
        let name = item.file_name();
        Some(name.to_str()?.strip_suffix(".rs")?.to_string())
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    Ok(names)
}

fn checked(name: &str) -> Result<String> {
    let targets = targets()?;
    if targets.iter().any(|target| target == name) {
        return Ok(name.to_string());
    }
    Err(format!("TARGET={name}: must be one of {}", targets.join(", ")).into())
}

/// Builds the targets.
fn build(targets: &[String]) -> Result<()> {
    packages::ensure(&[packages::CXX_COMPILER])?;
    let mut command = cargo::in_project();
    command
        .args(["build", "--release", "--quiet", "--package", PACKAGE])
        .args(["--target", TRIPLE])
        .env("CARGO_TARGET_DIR", directory())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", FLAGS)
        // Debug information would take much of the build time and is not used.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    for target in targets {
        command.args(["--bin", target]);
    }
    let step = TimedStep::start(format!("building the fuzz targets {}", targets.join(" ")));
    let status = command.status().context(|| "start cargo".to_string())?;
    if status.success() {
        step.done();
        return Ok(());
    }
    Err(format!("the fuzz targets do not build: {status}").into())
}

fn directory() -> PathBuf {
    Place::Fuzz.path()
}

/// A command that starts a target's program.
fn program(target: &str) -> Command {
    Command::new(directory().join(TRIPLE).join("release").join(target))
}

fn repeat(target: &str, input: &Path) -> Result<()> {
    let mut command = program(target);
    command.arg(input).env("RUST_BACKTRACE", "1");
    let status = command.status().context(|| format!("start {target}"))?;
    if status.success() {
        println!("{target}: {} does no harm", input.display());
        return Ok(());
    }
    Err(Failure::silent(1))
}

/// Runs targets one after the other. Each gets its turn, whatever became of the others.
fn run_all(
    targets: &[String],
    run: impl Fn(&str) -> Result<Outcome>,
) -> Vec<(String, Result<Outcome>)> {
    let results = targets.iter().map(|target| (target.clone(), run(target)));
    results.collect()
}

/// Prints the results of all targets; an error if one of them is bad.
fn report(results: &[(String, Result<Outcome>)]) -> Result<()> {
    println!(
        "     {:<10} {:>12} {:>8}  findings",
        "target", "executions", "seconds"
    );
    let outcomes = results.iter().map(|(_, result)| result.as_ref());
    for outcome in outcomes.flatten() {
        println!(
            "     {:<10} {:>12} {:>8}  {}",
            outcome.target,
            outcome.executions,
            outcome.time.as_secs(),
            usize::from(outcome.finding.is_some())
        );
    }
    let mut bad = 0;
    for (target, result) in results {
        let what = match result {
            Ok(Outcome { finding: None, .. }) => continue,
            Ok(Outcome {
                finding: Some(input),
                ..
            }) => {
                let input = workspace::display(input);
                format!("repeat with `cargo xtask fuzz TARGET={target} INPUT={input}`")
            }
            Err(failure) => failure.message.clone(),
        };
        println!("     {target}: {what}");
        bad += 1;
    }
    match bad {
        0 => Ok(()),
        count => Err(format!("fuzz: {count} targets found something or failed, see above").into()),
    }
}

/// Runs a target for a time, with the inputs of the repository and, unless this is the stage of
/// `make test`, those that earlier runs have found.
fn run(target: &str, time: Duration, smoke: bool) -> Result<Outcome> {
    let kept = workspace::root().join(PLACE).join("corpus").join(target);
    let fresh = RunDirectory::new()?;
    let grown = match smoke {
        true => fresh.path().join(target),
        false => directory().join("corpus").join(target),
    };
    let findings = directory().join("findings").join(target);
    for directory in [&grown, &findings] {
        std::fs::create_dir_all(directory)
            .context(|| format!("create the directory {}", directory.display()))?;
    }
    let inputs = std::fs::read_dir(&kept).map_or(0, Iterator::count);
    if inputs == 0 {
        return Err(format!("{target} has no inputs in {}", workspace::display(&kept)).into());
    }
    let before = newest(&findings);
    let mut command = program(target);
    command
        .args([&grown, &kept])
        .args(smoke.then_some(SMOKE_SEED))
        .arg(format!("-max_total_time={}", time.as_secs()))
        .arg(format!("-max_len={MAX_INPUT}"))
        .arg(format!("-timeout={INPUT_TIMEOUT}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args(["-print_final_stats=1", "-rss_limit_mb=4096"])
        // Long inputs from the start, because most targets interpret them as sequences of steps.
        .arg("-len_control=0")
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().context(|| format!("start {target}"))?;
    let mut tail = VecDeque::new();
    let mut executions = 0;
    if let Some(output) = child.stderr.take() {
        let mut shown = start;
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context(|| format!("read what {target} says"))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            executions = executions_in(&line).unwrap_or(executions);
            if shown.elapsed() >= PULSE {
                shown = Instant::now();
                let seconds = start.elapsed().as_secs();
                println!("     {target}: {executions} executions after {seconds} s");
            }
            tail.push_back(line);
            if tail.len() > SHOWN_LINES {
                tail.pop_front();
            }
        }
    }
    let status = child.wait().context(|| format!("wait for {target}"))?;
    let finding = if status.success() {
        None
    } else {
        tail.iter().for_each(|line| println!("     {line}"));
        let input = newest(&findings).filter(|input| Some(input) != before.as_ref());
        let input = input.ok_or_else(|| format!("{status}, and no input is to blame"))?;
        Some(input.0)
    };
    Ok(Outcome {
        target: target.to_string(),
        executions,
        time: start.elapsed(),
        finding,
    })
}

/// The file that was written last, and its time.
fn newest(directory: &Path) -> Option<(PathBuf, std::time::SystemTime)> {
    let items = std::fs::read_dir(directory).ok()?;
    let files = items.flatten().filter_map(|item| {
        let time = item.metadata().ok()?.modified().ok()?;
        Some((item.path(), time))
    });
    files.max_by_key(|(_, time)| *time)
}

/// The number of executions in a line of libFuzzer, if the line has it: a number after `#`, or the
/// final count.
fn executions_in(line: &str) -> Option<u64> {
    if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
        return count.trim().parse().ok();
    }
    let digits = line.strip_prefix('#')?.split('\t').next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_from_what_libfuzzer_says() {
        assert_eq!(
            executions_in("#4096\tpulse  cov: 12 ft: 30 exec/s: 9"),
            Some(4096)
        );
        assert_eq!(
            executions_in("stat::number_of_executed_units: 77"),
            Some(77)
        );
        assert_eq!(executions_in("INFO: seed corpus: files: 3"), None);
    }

    #[test]
    fn a_target_that_fails_does_not_stop_the_others() {
        let targets = ["dies", "finds", "passes"].map(str::to_string);
        let run = |finding: fn(&str) -> Result<Option<PathBuf>>| {
            run_all(&targets, |target| {
                Ok(Outcome {
                    target: target.to_string(),
                    executions: 1,
                    time: Duration::ZERO,
                    finding: finding(target)?,
                })
            })
        };
        let results = run(|target| match target {
            "dies" => Err("signal 9, and no input is to blame".into()),
            "finds" => Ok(Some("/input".into())),
            _ => Ok(None),
        });
        assert_eq!(results.len(), targets.len());
        let message = report(&results).unwrap_err().message;
        assert!(message.contains("2 targets"), "{message}");
        assert!(report(&run(|_| Ok(None))).is_ok());
    }

    #[test]
    fn every_target_is_declared_and_has_inputs() {
        let manifest = workspace::root().join(PLACE).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let corpus = workspace::root().join(PLACE).join("corpus");
        for target in targets().unwrap() {
            assert!(
                manifest.contains(&format!("name = \"{target}\"")),
                "{target}"
            );
            let inputs = std::fs::read_dir(corpus.join(&target)).map_or(0, Iterator::count);
            assert!(inputs > 0, "{target} has no inputs");
        }
        assert!(checked("engine").is_ok());
        let message = checked("nothing").unwrap_err().message;
        assert!(message.contains("TARGET=nothing") && message.contains("engine"));
    }
}
