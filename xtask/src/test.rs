//! `test`: everything continuous integration runs, stage by stage, fastest first. A stage that
//! fails does not stop the others, except that without an image no guest can be tested.
//!
//! The guest suites are listed in `config/tests.toml`; the same engine as for users' scripts runs
//! them. Each has a hard time limit, and a panic of a kernel or of any program fails it.

use crate::bench;
use crate::build::{Contents, Parts};
use crate::config::{self, Expect, Suite, Tests};
use crate::demo;
use crate::fuzz;
use crate::lines::Meaning;
use crate::packages::{self, Package};
use crate::redox;
use crate::report::{Context, Failure, Result};
use crate::run;
use crate::script::{NodeEnd, Observer, Outcome, Run};
use crate::sdk;
use crate::settings::Settings;
use crate::tidy;
use crate::toolchain::{self, Purpose, Target};
use crate::workspace::{self, Place};
use std::process::Command;
use std::time::{Duration, Instant};

/// Lines of each console shown when a suite fails.
const SHOWN_LINES: usize = 40;

/// The command.
pub fn command(settings: &Settings) -> Result<()> {
    let tests = config::tests()?;
    if settings.only().is_none() {
        // At once, in place of one after the other and after long stages.
        packages::ensure(&packages_wanted())?;
    }
    let mut score = Score {
        only: settings.only().map(str::to_string),
        ..Score::default()
    };
    score.stage("format", check_format);
    score.stage("tidy", || tidy::command(settings));
    score.stage("lint-host", || lint_host(&tests));
    score.stage("test-host", || test_host(&tests));
    score.stage("fuzz", fuzz::smoke);
    score.stage("lint-guest", lint_guest);
    score.stage("check-redox", || redox::command(settings));
    score.names.push("build".to_string());
    score.names.extend(tests.suite.iter().map(stage_name));
    score.names.push("demo".to_string());
    let suites = tests
        .suite
        .iter()
        .filter(|suite| score.wants(&stage_name(suite)));
    let suites: Vec<_> = suites.collect();
    let mut parts = None;
    let demo = score.wants("demo");
    if !suites.is_empty() || demo || score.wants("build") {
        let contents = contents(settings, &suites, demo)?;
        score.required("build", || {
            parts = Some(run::prepare(settings, &contents)?);
            Ok(())
        });
    }
    if let Some(parts) = &parts {
        for suite in suites {
            score.required(&stage_name(suite), || {
                guest(settings, suite, parts, Show::Summaries)
            });
        }
        if demo {
            score.required("demo", || demonstrate(settings, parts));
        }
    }
    score.conclude()
}

/// What the stages boot. A whole run tests what is given away. Single stages are a matter of
/// seconds: they get what their scripts name, compiled for trying out.
fn contents(settings: &Settings, suites: &[&Suite], demo: bool) -> Result<Contents> {
    let purpose = settings.given_purpose()?;
    if settings.only().is_none() {
        return Ok(Contents::tests(purpose.unwrap_or(Purpose::Release)));
    }
    let purpose = purpose.unwrap_or(Purpose::Edit);
    let mut scripts = scripts(suites.iter().copied())?;
    if demo {
        scripts.extend(demo::scripts()?.into_iter().map(|(_, text)| text));
    }
    match scripts.is_empty() {
        // The build alone.
        true => Ok(Contents::tests(purpose)),
        false => Ok(Contents::named_in(
            purpose,
            scripts.iter().map(String::as_str),
        )),
    }
}

/// The texts of the scripts of suites, and the programs that take the bootstrap's place.
pub fn scripts<'a>(suites: impl IntoIterator<Item = &'a Suite>) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for suite in suites {
        texts.extend(suite.bootstrap.clone());
        for script in suite.scripts.values() {
            let text = std::fs::read_to_string(workspace::root().join(script));
            texts.push(text.context(|| format!("read {script}"))?);
        }
    }
    Ok(texts)
}

fn stage_name(suite: &Suite) -> String {
    format!("guest-{}", suite.name)
}

/// Counts and announces.
#[derive(Default)]
struct Score {
    only: Option<String>,
    /// The stages there are.
    names: Vec<String>,
    passed: usize,
    failed: Vec<String>,
}

impl Score {
    /// Whether a stage was asked for.
    fn wants(&self, name: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| name.contains(only.as_str()))
    }

    /// Runs a stage if it was asked for.
    fn stage(&mut self, name: &str, work: impl FnOnce() -> Result<()>) {
        self.names.push(name.to_string());
        if self.wants(name) {
            self.required(name, work);
        }
    }

    fn required(&mut self, name: &str, work: impl FnOnce() -> Result<()>) {
        println!("---- {name}");
        let start = Instant::now();
        let result = work();
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("ok   {name} ({seconds:.1} s)");
            }
            Err(failure) => {
                println!("FAIL {name} ({seconds:.1} s) {}", failure.message);
                self.failed.push(name.to_string());
            }
        }
    }

    fn conclude(self) -> Result<()> {
        if let Some(only) = self
            .only
            .filter(|_| self.passed == 0 && self.failed.is_empty())
        {
            let names = self.names.join(" ");
            return Err(format!("ONLY={only}: in the name of no stage; they are {names}").into());
        }
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        if self.failed.is_empty() {
            Ok(())
        } else {
            Err(Failure::silent(1))
        }
    }
}

/// Whether a line sums a conformance run up; those are always shown.
fn is_summary(line: &str) -> bool {
    line.starts_with("conformance ")
}

/// Runs a program to its end; what it printed is shown only if it failed, except summaries.
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

/// A call of the cargo that the user has.
fn host_cargo(subcommand: &str) -> Command {
    let mut command = toolchain::clean(Command::new("cargo"));
    command.arg(subcommand).current_dir(workspace::root());
    command
}

/// Cargo for the libraries of the image's programs. Two of their dependencies (redox-scheme, acpi)
/// use unstable language features, which the user's compiler accepts when told so; in a target
/// directory of its own, because telling so changes what it makes of all other crates.
fn library_cargo(subcommand: &str) -> Command {
    let mut command = host_cargo(subcommand);
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", Place::Libraries.path());
    command
}

/// The packages that everything here takes.
pub fn packages_wanted() -> Vec<Package> {
    let mut wanted = packages::all();
    wanted.extend(toolchain::packages());
    // A cargo of rustup gets these as components.
    if Command::new("rustup").arg("--version").output().is_err() {
        wanted.extend([packages::FORMATTER, packages::LINTER]);
    }
    wanted
}

/// Makes sure that the user's cargo has a subcommand that comes apart from it: as a component of
/// rustup, or as a package.
fn ensure_component(subcommand: &str, component: &str, package: Package) -> Result<()> {
    let works = || {
        let output = host_cargo(subcommand).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    if works() {
        return Ok(());
    }
    println!("     cargo has no '{subcommand}': adding it");
    let mut rustup = Command::new("rustup");
    match rustup.args(["component", "add", component]).status() {
        Ok(_) => {}
        Err(_) => packages::ensure(&[package])?,
    }
    if works() {
        return Ok(());
    }
    Err(format!("`cargo {subcommand}` does not work: install the component {component}").into())
}

/// Makes sure that the user's cargo formats and lints.
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
    // Not with --tests: that selects the programs too, which only build for the image.
    let mut libraries = library_cargo("clippy");
    libraries.args(["--lib", "--quiet"]);
    for package in &tests.host_libraries {
        libraries.args(["--package", package]);
    }
    quietly(libraries.args(["--", "-D", "warnings"]))?;
    // Nothing is linked here: no need for libFuzzer, which the build of its crate would compile.
    let mut targets = library_cargo("clippy");
    targets
        .args(["--bins", "--quiet"])
        .args([
            "--package",
            fuzz::PACKAGE,
            "--package",
            bench::native::NATIVE,
        ])
        .env("CUSTOM_LIBFUZZER_PATH", "/not/linked/libfuzzer.a");
    quietly(targets.args(["--", "-D", "warnings"]))
}

fn test_host(tests: &Tests) -> Result<()> {
    quietly(host_cargo("test").arg("--quiet"))?;
    // The examples in the documentation too: some show what must not compile.
    for kind in ["--lib", "--doc"] {
        let mut libraries = library_cargo("test");
        libraries.args([kind, "--quiet"]);
        for package in &tests.host_libraries {
            libraries.args(["--package", package]);
        }
        quietly(&mut libraries)?;
    }
    Ok(())
}

fn lint_guest() -> Result<()> {
    let image = config::image()?;
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

fn demonstrate(settings: &Settings, parts: &Parts) -> Result<()> {
    if demo::play(settings, parts)? {
        Ok(())
    } else {
        Err("see the steps above".into())
    }
}

/// Which lines of a suite are shown as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Those that sum a run up.
    Summaries,
    /// Those and the result of every step.
    Cases,
}

/// Keeps the end of every console, for the case of failure.
struct Tail {
    show: Show,
    lines: Vec<String>,
    failed_steps: Vec<String>,
}

impl Observer for Tail {
    fn line(&mut self, node: usize, text: &str, meaning: Option<&Meaning>) {
        self.lines.push(format!("     [{node}] {text}"));
        let is_step = matches!(meaning, Some(Meaning::Step { .. }));
        if is_summary(text) || (is_step && self.show == Show::Cases) {
            println!("     {text}");
        }
        if let Some(Meaning::Step {
            name,
            failure: Some(detail),
        }) = meaning
        {
            self.failed_steps.push(format!("{name} ({detail})"));
        }
    }
}

/// The run of a suite.
pub fn run_of(settings: &Settings, suite: &Suite) -> Result<Run> {
    let limit = Duration::from_secs(suite.timeout_s);
    let mut run = run::run_of(&suite.name, settings, limit)?;
    run.nodes = suite.nodes;
    run.late = suite.late.clone();
    run.no_bootstrap = suite.no_bootstrap;
    run.bootstrap = suite.bootstrap.clone();
    run.boot = suite.boot.unwrap_or(run.boot);
    run.memory_mib = suite.memory_mib.unwrap_or(run.memory_mib);
    run.config.parts = suite.parts.clone();
    if let Some(machine) = &suite.machine {
        run.config.machine = machine.clone();
    }
    if let Some(smp) = &suite.smp {
        run.config.smp = smp.clone();
    }
    let number = |node: &str| -> Result<usize> {
        let number = node.parse().ok().filter(|number| *number < suite.nodes);
        Ok(number.ok_or_else(|| format!("config/tests.toml: no node '{node}'"))?)
    };
    for (node, script) in &suite.skip {
        run.skip.insert(number(node)?, script.clone());
    }
    for (node, script) in &suite.scripts {
        let number = number(node)?;
        let path = workspace::root().join(script);
        let text = std::fs::read(&path).context(|| format!("read {script}"))?;
        run.scripts.insert(number, text);
    }
    Ok(run)
}

/// Runs one suite.
///
/// # Errors
/// What is wrong with how it ended.
pub fn guest(settings: &Settings, suite: &Suite, parts: &Parts, show: Show) -> Result<()> {
    let run = run_of(settings, suite)?;
    let mut tail = Tail {
        show,
        lines: Vec::new(),
        failed_steps: Vec::new(),
    };
    let outcome = run.execute(parts, &mut tail)?;
    let verdict = judge(suite, &outcome, &tail.failed_steps)
        .and_then(|()| judge_words(suite.says.as_deref(), &tail.lines));
    if verdict.is_err() {
        let hidden = tail.lines.len().saturating_sub(SHOWN_LINES * suite.nodes);
        for line in &tail.lines[hidden..] {
            println!("{line}");
        }
        for complaint in outcome.complaints() {
            println!("     {complaint}");
        }
    }
    verdict
}

/// Whether the exceptions are those the suite says.
fn judge_exceptions(suite: &Suite, found: &[(usize, String)]) -> Result<()> {
    let expected = |line: &str| {
        let of = |program: &String| line.contains(&format!(" in {program} (pid "));
        suite.exceptions_of.iter().any(of)
    };
    if let Some((node, line)) = found.iter().find(|(_, line)| !expected(line)) {
        return Err(format!("an exception on node {node}: {line}").into());
    }
    if suite.exceptions.is_empty() {
        return Ok(());
    }
    for (index, wanted) in suite.exceptions.iter().enumerate() {
        match found.get(index) {
            Some((_, line)) if line.contains(wanted) => {}
            Some((_, line)) => {
                return Err(format!("exception {index} is '{line}', not '{wanted}'").into());
            }
            None => return Err(format!("exception {index} is missing: '{wanted}'").into()),
        }
    }
    match found.get(suite.exceptions.len()) {
        Some((_, line)) => Err(format!("an exception too many: {line}").into()),
        None => Ok(()),
    }
}

/// Whether what a suite must say was said.
fn judge_words(says: Option<&str>, lines: &[String]) -> Result<()> {
    match says {
        Some(words) if !lines.iter().any(|line| line.contains(words)) => {
            Err(format!("no line with '{words}'").into())
        }
        _ => Ok(()),
    }
}

/// Whether an outcome is what the suite says.
fn judge(suite: &Suite, outcome: &Outcome, failed_steps: &[String]) -> Result<()> {
    if let Some((node, line)) = outcome.kernel_addresses.first() {
        return Err(format!("an address of the kernel on node {node}'s console: {line}").into());
    }
    let kernel_panic = outcome.ends.contains(&NodeEnd::KernelPanic);
    let program_panic = !outcome.program_panics.is_empty();
    match suite.expect {
        Expect::KernelPanic if kernel_panic => return Ok(()),
        Expect::KernelPanic => return Err("no kernel panicked, but one had to".into()),
        Expect::ProgramPanic if program_panic && !kernel_panic => return Ok(()),
        Expect::ProgramPanic => return Err("no program panicked, but one had to".into()),
        Expect::Success | Expect::Failure => {}
    }
    if let Some((node, line)) = outcome.program_panics.first() {
        return Err(format!("a program panicked on node {node}: {line}").into());
    }
    judge_exceptions(suite, &outcome.exceptions)?;
    let failed = |end: &NodeEnd| matches!(end, NodeEnd::Status(status) if *status != 0);
    let ended = |end: &NodeEnd| !matches!(end, NodeEnd::NoStatus | NodeEnd::TimedOut);
    let plain = !kernel_panic && outcome.ends.iter().all(ended);
    match suite.expect {
        Expect::Failure if plain && outcome.ends.iter().any(failed) => Ok(()),
        Expect::Failure => Err("a script had to end with a status other than 0".into()),
        _ if outcome.status() != 0 => Err(format!("status {}", outcome.status()).into()),
        _ if !failed_steps.is_empty() => Err(failed_steps.join(", ").into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn suite(expect: Expect) -> Suite {
        Suite {
            name: "x".to_string(),
            nodes: 1,
            scripts: Default::default(),
            timeout_s: 1,
            expect,
            says: None,
            boot: None,
            parts: config::PcParts::default(),
            machine: None,
            memory_mib: None,
            smp: None,
            late: Vec::new(),
            skip: Default::default(),
            bootstrap: None,
            no_bootstrap: false,
            exceptions_of: Vec::new(),
            exceptions: Vec::new(),
        }
    }

    fn outcome(end: NodeEnd, panics: &[&str], exceptions: &[&str]) -> Outcome {
        let lines = |lines: &[&str]| lines.iter().map(|line| (0, line.to_string())).collect();
        Outcome {
            ends: vec![end],
            program_panics: lines(panics),
            exceptions: lines(exceptions),
            kernel_addresses: Vec::new(),
            logs: PathBuf::new(),
        }
    }

    #[test]
    fn a_word_in_no_name_is_answered_with_the_names() {
        let mut score = Score {
            only: Some("nosuch".to_string()),
            ..Score::default()
        };
        score.stage("format", || panic!("was not asked for"));
        score.stage("tidy", || panic!("was not asked for"));
        let message = score.conclude().unwrap_err().message;
        assert_eq!(
            message,
            "ONLY=nosuch: in the name of no stage; they are format tidy"
        );
    }

    #[test]
    fn a_panic_anywhere_fails_a_suite() {
        let good = suite(Expect::Success);
        assert!(judge(&good, &outcome(NodeEnd::Status(0), &[], &[]), &[]).is_ok());
        assert!(
            judge(
                &good,
                &outcome(NodeEnd::Status(0), &["PANIC x: "], &[]),
                &[]
            )
            .is_err()
        );
        assert!(judge(&good, &outcome(NodeEnd::KernelPanic, &[], &[]), &[]).is_err());
        assert!(
            judge(
                &good,
                &outcome(NodeEnd::Status(0), &[], &["EXCEPTION"]),
                &[]
            )
            .is_err()
        );
        let step = ["step".to_string()];
        assert!(judge(&good, &outcome(NodeEnd::Status(0), &[], &[]), &step).is_err());
        for end in [NodeEnd::Status(1), NodeEnd::NoStatus, NodeEnd::TimedOut] {
            assert!(judge(&good, &outcome(end, &[], &[]), &[]).is_err());
        }
    }

    #[test]
    fn an_address_of_the_kernel_fails_any_suite() {
        for expect in [Expect::Success, Expect::KernelPanic] {
            let mut leak = outcome(NodeEnd::KernelPanic, &[], &[]);
            leak.kernel_addresses
                .push((0, "rip ffffffff80100000".to_string()));
            assert!(judge(&suite(expect), &leak, &[]).is_err());
        }
    }

    #[test]
    fn exceptions_must_be_those_of_the_suite() {
        let line = "EXCEPTION Page fault in x (pid 7): store to 0x8 (not mapped), error code 0x6";
        let mut guarded = suite(Expect::Success);
        let judged = |suite: &Suite, lines: &[&str]| {
            judge(suite, &outcome(NodeEnd::Status(0), &[], lines), &[]).is_ok()
        };
        assert!(!judged(&guarded, &[line]));
        guarded.exceptions_of = vec!["y".to_string()];
        assert!(!judged(&guarded, &[line]));
        guarded.exceptions_of.push("x".to_string());
        assert!(judged(&guarded, &[line, line]));
        guarded.exceptions = vec!["store to 0x8 ".to_string()];
        assert!(judged(&guarded, &[line]));
        assert!(!judged(&guarded, &[]));
        assert!(!judged(&guarded, &[line, line]));
        guarded.exceptions = vec!["load from".to_string()];
        assert!(!judged(&guarded, &[line]));
    }

    #[test]
    fn an_expected_failure_must_be_the_expected_one() {
        let panic = suite(Expect::KernelPanic);
        assert!(judge(&panic, &outcome(NodeEnd::KernelPanic, &[], &[]), &[]).is_ok());
        assert!(judge(&panic, &outcome(NodeEnd::Status(0), &[], &[]), &[]).is_err());
        assert!(judge(&panic, &outcome(NodeEnd::TimedOut, &[], &[]), &[]).is_err());
        let program = suite(Expect::ProgramPanic);
        assert!(
            judge(
                &program,
                &outcome(NodeEnd::Status(101), &["PANIC x: "], &[]),
                &[]
            )
            .is_ok()
        );
        assert!(judge(&program, &outcome(NodeEnd::Status(101), &[], &[]), &[]).is_err());
        let failure = suite(Expect::Failure);
        assert!(judge(&failure, &outcome(NodeEnd::Status(7), &[], &[]), &[]).is_ok());
        assert!(judge(&failure, &outcome(NodeEnd::TimedOut, &[], &[]), &[]).is_err());
        assert!(judge(&failure, &outcome(NodeEnd::Status(0), &[], &[]), &[]).is_err());
    }

    #[test]
    fn the_reason_of_a_failure_must_be_the_right_one() {
        let lines = ["     [0] PANIC x: on purpose".to_string()];
        assert!(judge_words(None, &lines).is_ok());
        assert!(judge_words(Some("on purpose"), &lines).is_ok());
        let failure = judge_words(Some("by accident"), &lines).unwrap_err();
        assert_eq!(failure.message, "no line with 'by accident'");
    }
}
