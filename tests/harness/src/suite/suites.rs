//! The suites of `config/tests.toml`: their scripts, their runs, and the verdict on each run.

use crate::base::config::{Expect, Suite};
use crate::base::report::{Context, Result};
use crate::base::settings::Settings;
use crate::base::workspace;
use crate::node::image::Image;
use crate::suite::console_protocol::Meaning;
use crate::suite::suite_run::{NodeEnd, Observer, Outcome, Printer, Run};
use std::time::Duration;

/// Lines of each console shown when a suite fails.
const SHOWN_LINES: usize = 40;

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

/// Whether a line sums a conformance run up; those are always shown.
pub fn is_summary(line: &str) -> bool {
    line.starts_with("conformance ")
}

/// Which lines of a suite are shown as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Those that sum a run up.
    Summaries,
    /// Those and the result of every step.
    Cases,
    /// All, each with its node in front.
    Lines,
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
        if self.show == Show::Lines {
            Printer.line(node, text, meaning);
        } else if is_summary(text) || (is_step && self.show == Show::Cases) {
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
    let mut run = Run::new(&suite.name, settings, limit)?;
    run.nodes = suite.nodes;
    run.late = suite.late.clone();
    run.no_bootstrap = suite.no_bootstrap;
    run.bootstrap = suite.bootstrap.clone();
    run.boot = suite.boot.unwrap_or(run.boot);
    run.memory_mib = suite.memory_mib.unwrap_or(run.memory_mib);
    run.config.parts = suite.parts.clone();
    run.config.reboots = suite.reboots;
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
pub fn guest(settings: &Settings, suite: &Suite, image: &dyn Image, show: Show) -> Result<()> {
    let run = run_of(settings, suite)?;
    let mut tail = Tail {
        show,
        lines: Vec::new(),
        failed_steps: Vec::new(),
    };
    let outcome = run.execute(image, &mut tail)?;
    let verdict = judge(suite, &outcome, &tail.failed_steps)
        .and_then(|()| judge_words(suite.says.as_deref(), &tail.lines));
    if verdict.is_err() {
        // They may have come long before the end.
        for step in &tail.failed_steps {
            println!("     failed step: {step}");
        }
        let hidden = match show {
            Show::Lines => tail.lines.len(),
            _ => tail.lines.len().saturating_sub(SHOWN_LINES * suite.nodes),
        };
        for line in tail.lines.iter().skip(hidden) {
            println!("{line}");
        }
        for complaint in outcome.complaints() {
            println!("     {complaint}");
        }
    }
    verdict
}

/// Whether the exceptions are those that the suite lists.
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

/// Whether the lines that a suite must print were printed.
fn judge_words(says: Option<&str>, lines: &[String]) -> Result<()> {
    match says {
        Some(words) if !lines.iter().any(|line| line.contains(words)) => {
            Err(format!("no line with '{words}'").into())
        }
        _ => Ok(()),
    }
}

/// Whether an outcome is the one that the suite expects.
fn judge(suite: &Suite, outcome: &Outcome, failed_steps: &[String]) -> Result<()> {
    if let Some((node, line)) = outcome.kernel_addresses.first() {
        return Err(format!("an address of the kernel on node {node}'s console: {line}").into());
    }
    let kernel_panic = outcome.ends.contains(&NodeEnd::KernelPanic);
    let program_panic = !outcome.program_panics.is_empty();
    let failed = |end: &NodeEnd| matches!(end, NodeEnd::Status(status) if *status != 0);
    let ended = |end: &NodeEnd| matches!(end, NodeEnd::Idle | NodeEnd::Killed | NodeEnd::Status(_));
    let plain = outcome.ends.iter().all(ended);
    match suite.expect {
        Expect::KernelPanic if kernel_panic => return Ok(()),
        Expect::KernelPanic => return Err("no kernel panicked, but one had to".into()),
        Expect::ProgramPanic if program_panic && plain => return Ok(()),
        Expect::ProgramPanic if program_panic => return Err("a node did not end well".into()),
        Expect::ProgramPanic => return Err("no program panicked, but one had to".into()),
        Expect::Success | Expect::Failure => {}
    }
    if let Some((node, line)) = outcome.program_panics.first() {
        return Err(format!("a program panicked on node {node}: {line}").into());
    }
    judge_exceptions(suite, &outcome.exceptions)?;
    match suite.expect {
        Expect::Failure if plain && outcome.ends.iter().any(failed) => Ok(()),
        Expect::Failure => Err("a script had to end with a status other than 0".into()),
        // Both: a failed step says more than the status 1 that follows from it, and nothing of a
        // node that did not end.
        _ if outcome.status() != 0 && failed_steps.is_empty() => {
            Err(format!("status {}", outcome.status()).into())
        }
        _ if outcome.status() != 0 => {
            let steps = failed_steps.join(", ");
            Err(format!("status {}, failed: {steps}", outcome.status()).into())
        }
        _ if !failed_steps.is_empty() => Err(failed_steps.join(", ").into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::config::PcParts;
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
            parts: PcParts::default(),
            machine: None,
            memory_mib: None,
            smp: None,
            reboots: false,
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
        for (status, message) in [(0, "step"), (1, "status 1, failed: step")] {
            let failure = judge(&good, &outcome(NodeEnd::Status(status), &[], &[]), &step);
            assert_eq!(failure.unwrap_err().message, message);
        }
        for end in [
            NodeEnd::Status(1),
            NodeEnd::NoStatus,
            NodeEnd::TimedOut,
            NodeEnd::StillOn,
            NodeEnd::Broke,
        ] {
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
        for end in [NodeEnd::StillOn, NodeEnd::Broke, NodeEnd::KernelPanic] {
            assert!(judge(&program, &outcome(end, &["PANIC x: "], &[]), &[]).is_err());
        }
        let failure = suite(Expect::Failure);
        assert!(judge(&failure, &outcome(NodeEnd::StillOn, &[], &[]), &[]).is_err());
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
