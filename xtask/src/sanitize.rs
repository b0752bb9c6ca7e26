//! `sanitize`: runs the native tests under AddressSanitizer and ThreadSanitizer with the installed
//! compiler. Its option for them is unstable, so an environment variable allows it.
//!
//! The code that the image's programs share is built and tested on the development machine with
//! each load and store checked. The standard library is not rebuilt: it is not part of this
//! project, and most of its code that works for the project is inlined into the project's code and
//! checked there.

use crate::build;
use crate::fuzz::TRIPLE;
use crate::tidy::UNSAFE_HOMES;
use harness::base::cargo;
use harness::base::config;
use harness::base::report::{Context, Result};
use harness::base::settings::Settings;
use harness::base::workspace::{self, Place};

/// A sanitizer, and the tests that run under it.
struct Kind {
    name: &'static str,
    /// The directory of its build.
    place: Place,
    rustflags: &'static str,
    /// The environment variable for its options, and the options.
    options: (&'static str, &'static str),
    /// Calls of cargo, each as a line of arguments.
    calls: &'static [&'static str],
    /// Whether the first call also gets the libraries with unsafe code.
    with_unsafe: bool,
}

const KINDS: &[Kind] = &[
    // The crates with unsafe code, and these, which work on shared memory through them.
    Kind {
        name: "address",
        place: Place::Address,
        rustflags: "-Zsanitizer=address",
        // Tests leak memory on purpose that lives as long as the program.
        options: ("ASAN_OPTIONS", "detect_leaks=0"),
        calls: &[
            "test --quiet --lib -p scif -p micd -p pcid -p scif-abi -p scif-ring -p scif-core \
             -p scheme-scif -p kernel-core",
            "test --quiet --test plain -p scif-ring",
        ],
        with_unsafe: true,
    },
    // The rings of a connection with its two ends on threads. It runs no tests: the test harness
    // passes them to threads through the standard library, and since that is not checked, it looks
    // like a race.
    Kind {
        name: "thread",
        place: Place::Thread,
        rustflags: "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
        options: ("TSAN_OPTIONS", "halt_on_error=1"),
        calls: &["run --quiet --release -p bench-native -- --quick"],
        with_unsafe: false,
    },
];

/// Runs the command: one kind, or all.
pub fn command(settings: &Settings) -> Result<()> {
    let wanted = |kind: &&Kind| settings.kind().is_none_or(|name| name == kind.name);
    let kinds: Vec<_> = KINDS.iter().filter(wanted).collect();
    if kinds.is_empty() {
        let name = settings.kind().unwrap_or_default();
        return Err(format!("KIND={name}: must be address or thread").into());
    }
    for kind in kinds {
        for call in calls(kind)? {
            println!("---- {}: cargo {call}", kind.name);
            run(kind, &call)?;
        }
    }
    println!("sanitize: nothing found");
    Ok(())
}

/// The calls of cargo for a kind.
fn calls(kind: &Kind) -> Result<Vec<String>> {
    let mut calls: Vec<String> = kind.calls.iter().map(|call| call.to_string()).collect();
    if let Some(first) = calls.first_mut().filter(|_| kind.with_unsafe) {
        for library in unsafe_libraries()? {
            *first += &format!(" -p {library}");
        }
    }
    Ok(calls)
}

/// The packages with unsafe code whose libraries run on the development machine.
fn unsafe_libraries() -> Result<Vec<String>> {
    let homes: Vec<_> = UNSAFE_HOMES
        .iter()
        .map(|home| workspace::root().join(home))
        .collect();
    let mut libraries = Vec::new();
    for library in config::tests()?.host_libraries {
        if homes.contains(&build::package_directory(&library)?) {
            libraries.push(library);
        }
    }
    Ok(libraries)
}

fn run(kind: &Kind, call: &str) -> Result<()> {
    let mut words: Vec<&str> = call.split_whitespace().collect();
    let end = words.iter().position(|word| *word == "--");
    // The target is given explicitly, so that build scripts are not checked.
    let target = ["--target", TRIPLE];
    let at = end.unwrap_or(words.len());
    words.splice(at..at, target);
    let mut command = cargo::in_project();
    command
        .args(words)
        // Each kind has a build directory of its own, because flags change everything that is
        // built.
        .env("CARGO_TARGET_DIR", kind.place.path())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", kind.rustflags)
        .env(kind.options.0, kind.options.1);
    let status = command.status().context(|| "start cargo".to_string())?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "the {} sanitizer found something, or a test failed ({status}): see above",
        kind.name
    )
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_unsafe_code_that_runs_here_is_checked() {
        let libraries = unsafe_libraries().unwrap();
        for library in ["hal", "scheme", "client-memory", "skiff-libc", "libsocket"] {
            assert!(libraries.iter().any(|found| found == library), "{library}");
        }
        assert!(!libraries.iter().any(|library| library == "scif"));
        let call = calls(&KINDS[0]).unwrap().remove(0);
        assert!(
            libraries
                .iter()
                .all(|name| call.contains(&format!(" -p {name}"))),
            "{call}"
        );
        assert_eq!(calls(&KINDS[1]).unwrap(), KINDS[1].calls);
    }
}
