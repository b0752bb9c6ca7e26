//! Shows the progress of calls of cargo that run in parallel: how many units (crates and build
//! scripts) are built, of how many, and the last one.

use harness::base::report::{Context, Failure, Result};
use serde::Deserialize;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a build must take before its progress is shown; most take less.
const SILENT: Duration = Duration::from_secs(2);
/// Time between two lines of progress if there is no terminal on which one line can be rewritten.
const PAUSE: Duration = Duration::from_secs(10);

/// One call of cargo.
pub struct Build<'a> {
    /// What is built, for the message of a failure.
    pub what: String,
    /// Makes the command, without options about its output.
    pub cargo: &'a (dyn Fn() -> Command + Sync),
}

/// Runs calls of cargo in parallel to their end. Cargo's warnings and errors are shown.
pub fn run(builds: &[Build<'_>]) -> Result<()> {
    let progress = Progress {
        start: Instant::now(),
        is_terminal: std::io::stderr().is_terminal(),
        state: Mutex::default(),
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let progress = &progress;
        let work = |build| scope.spawn(move || follow(build, progress));
        let running: Vec<_> = builds.iter().map(work).collect();
        scope.spawn(|| progress.count(builds));
        let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Failure::silent(1)))
        };
        let results = running.into_iter().map(ended).collect();
        progress.end();
        results
    });
    results.into_iter().collect()
}

/// A line of cargo's output, with the fields that are needed here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Runs one call to its end.
fn follow(build: &Build<'_>, progress: &Progress) -> Result<()> {
    let mut cargo = (build.cargo)();
    cargo.args(["--quiet", "--message-format=json-render-diagnostics"]);
    let mut child = cargo
        .stdout(Stdio::piped())
        .spawn()
        .context(|| "start cargo".to_string())?;
    let output = child.stdout.take();
    for line in output
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
    {
        let line = line.context(|| "read what cargo writes".to_string())?;
        if let Some(name) = built(&line) {
            progress.built(name);
        }
    }
    let status = child.wait().context(|| "wait for cargo".to_string())?;
    if status.success() {
        return Ok(());
    }
    let what = &build.what;
    Err(format!("building {what} failed; cargo's words are above").into())
}

/// The name of the unit that a line reports as built, if it does.
fn built(line: &str) -> Option<String> {
    let message: Message = serde_json::from_str(line).ok()?;
    let target = message
        .target
        .filter(|_| message.reason == "compiler-artifact")?;
    Some(target.name)
}

/// The progress of all calls of cargo.
struct Progress {
    start: Instant,
    is_terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    built: usize,
    /// The number of units, once that is known.
    total: Option<usize>,
    has_ended: bool,
    /// When progress was last shown.
    shown: Option<Instant>,
}

impl Progress {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let state = self.state.lock();
        work(&mut state.unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Counts one more unit.
    fn built(&self, name: String) {
        self.with(|state| {
            state.built += 1;
            self.show(state, &name);
        });
    }

    /// Shows the progress, unless it was shown just now.
    fn show(&self, state: &mut State, name: &str) {
        let last = state.shown;
        if self.start.elapsed() < SILENT
            || !self.is_terminal && last.is_some_and(|last| last.elapsed() < PAUSE)
        {
            return;
        }
        let seconds = self.start.elapsed().as_secs();
        let text = text(state.built, state.total, seconds, name);
        let text = match self.is_terminal {
            // Returns to the beginning of the line and clears a longer one.
            true => format!("\r    {text}\x1b[K"),
            false => format!("    {text}\n"),
        };
        state.shown = Some(Instant::now());
        // A failure of the display does not matter.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Counts the units of the builds, if they take long enough to show progress.
    fn count(&self, builds: &[Build<'_>]) {
        while self.start.elapsed() < SILENT {
            std::thread::sleep(Duration::from_millis(50));
            if self.with(|state| state.has_ended) {
                return;
            }
        }
        let total = builds.iter().map(|build| units((build.cargo)())).sum();
        self.with(|state| state.total = total);
    }

    /// Clears the line of progress.
    fn end(&self) {
        self.with(|state| {
            state.has_ended = true;
            if self.is_terminal && state.shown.is_some() {
                // A failure of the display does not matter.
                let _ = std::io::stderr().write_all(b"\r\x1b[K");
            }
        });
    }
}

fn text(built: usize, total: Option<usize>, seconds: u64, name: &str) -> String {
    match total {
        Some(total) => format!("{built} of {total} built after {seconds} s: {name}"),
        None => format!("{built} built after {seconds} s: {name}"),
    }
}

/// The number of units of a call that end with a message, from cargo's own plan.
fn units(mut cargo: Command) -> Option<usize> {
    #[derive(Deserialize)]
    struct Plan {
        units: Vec<Unit>,
    }
    #[derive(Deserialize)]
    struct Unit {
        mode: String,
    }
    cargo.args(["--quiet", "--unit-graph", "-Zunstable-options"]);
    // The build itself will print the error.
    let output = cargo.stderr(Stdio::null()).output().ok()?;
    let plan: Plan = serde_json::from_slice(&output.stdout).ok()?;
    let is_compiled = |unit: &&Unit| unit.mode != "run-custom-build";
    Some(plan.units.iter().filter(is_compiled).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_says_what_is_built() {
        let line = r#"{"reason":"compiler-artifact","target":{"name":"scif-core"},"fresh":true}"#;
        assert_eq!(built(line), Some("scif-core".to_string()));
        let other = r#"{"reason":"build-script-executed","package_id":"x"}"#;
        assert_eq!(built(other), None);
        assert_eq!(built("no message"), None);
    }

    #[test]
    fn the_end_of_a_build_is_shown_once_it_is_known() {
        assert_eq!(text(3, None, 4, "core"), "3 built after 4 s: core");
        assert_eq!(text(3, Some(9), 4, "core"), "3 of 9 built after 4 s: core");
    }
}
