//! Code that the guest test programs share: checks and their report, connections, the peer program.
//!
//! Each program prints one line per check, `STEP <program> <check>: ok` or `…: FAIL <detail>`, and
//! ends with status 0 only if there was one and all were ok. Those that need a peer take a node
//! number and expect `scif-peer` to run there; without one they start it themselves on the own
//! node.
#![no_std]

extern crate alloc;

pub mod memory;
pub mod pattern;
pub mod peer;
pub mod peers;
pub mod uverbs;
pub mod windows;

use alloc::format;
use alloc::string::String;
use core::fmt::Debug;

use runtime::time::{Duration, sleep};
use runtime::{fs, println};
use scif::{Endpoint, Errno, Error, Listener, Options, PortId};

/// A number that the kernel counts (`/scheme/sys/stat`).
///
/// # Errors
/// As text: the file cannot be read, or has no such line.
pub fn kernel_count(name: &str) -> Result<u64, String> {
    let stat = fs::read_to_string("/scheme/sys/stat").map_err(|error| format!("{error}"))?;
    let value = stat
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| format!("sys/stat has no {name}"))
}

/// The checks of one program.
pub struct Suite {
    program: &'static str,
    passed: usize,
    failed: usize,
}

impl Suite {
    /// No checks yet.
    pub fn new(program: &'static str) -> Self {
        Self {
            program,
            passed: 0,
            failed: 0,
        }
    }

    /// Reports one check. `name` must not contain a colon before a space, which would end it in
    /// the printed line.
    pub fn check(&mut self, name: &str, result: Result<(), String>) {
        assert!(!name.contains(": "), "the name of a check: {name}");
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("STEP {} {name}: ok", self.program);
            }
            Err(detail) => {
                self.failed += 1;
                println!("STEP {} {name}: FAIL {detail}", self.program);
            }
        }
    }

    /// Checks that two values are equal.
    pub fn equal<T: PartialEq + Debug>(&mut self, name: &str, found: T, expected: T) {
        let result = if found == expected {
            Ok(())
        } else {
            Err(alloc::format!("found {found:?}, expected {expected:?}"))
        };
        self.check(name, result);
    }

    /// Checks that something holds.
    pub fn holds(&mut self, name: &str, condition: bool) {
        self.check(
            name,
            if condition {
                Ok(())
            } else {
                Err("it does not hold".into())
            },
        );
    }

    /// The program's exit status, after a line of totals. No check at all is a failure, too.
    pub fn finish(self) -> i32 {
        println!(
            "{}: {} passed, {} failed",
            self.program, self.passed, self.failed
        );
        i32::from(self.failed > 0 || self.passed == 0)
    }
}

/// Turns any error into the text of a failed check.
pub fn text<E: Debug>(what: &str) -> impl FnOnce(E) -> String {
    let what = String::from(what);
    move |error| alloc::format!("{what}: {error:?}")
}

/// Both ends of a connection inside this process: the connector's and the acceptor's.
///
/// # Errors
/// Those of the calls it makes.
pub fn pair() -> scif::Result<(Endpoint, Endpoint)> {
    let listener = Listener::bind(0)?;
    let own = scif::nodes()?.own;
    let to = PortId::new(own, listener.port()?);
    let client = Endpoint::open()?;
    client.set_nonblocking(true)?;
    match client.connect(to) {
        Err(Error::Scif(Errno::InProgress)) => {}
        other => return other.map(|_| unreachable_success()),
    }
    let (server, _) = listener.accept()?;
    client.connect(to)?;
    client.set_nonblocking(false)?;
    Ok((client, server))
}

/// A connect to a listener of this very thread cannot have succeeded before the accept.
fn unreachable_success() -> (Endpoint, Endpoint) {
    panic!("a connect succeeded that nobody had accepted")
}

/// Connects, and tries again for 20 s while no endpoint listens there yet or the node is not up.
///
/// # Errors
/// The last one.
pub fn connect_patiently(to: PortId) -> scif::Result<Endpoint> {
    let time_limit = Duration::from_secs(20);
    Options::new().retry_for(time_limit).connect(to)
}

/// Looks again and again until the value is the wanted one, at most 20 s; returns the last value,
/// to be checked. For what others do in their own time: no result depends on how fast they are.
pub fn settled<T: PartialEq>(mut look: impl FnMut() -> T, wanted: &T) -> T {
    for _ in 0..400 {
        let found = look();
        if found == *wanted {
            return found;
        }
        sleep(Duration::from_millis(50));
    }
    look()
}

/// Looks again and again until two looks in a row find the same, which is `enough`, at most 20 s;
/// returns the last one, to be checked.
pub fn at_rest<T: PartialEq>(mut look: impl FnMut() -> T, enough: impl Fn(&T) -> bool) -> T {
    let mut last = look();
    for _ in 0..400 {
        sleep(Duration::from_millis(50));
        let now = look();
        let is_at_rest = now == last && enough(&now);
        last = now;
        if is_at_rest {
            break;
        }
    }
    last
}

/// The value of a counter of the `stats` file.
///
/// # Errors
/// A description of the missing part.
pub fn counter(name: &str) -> Result<u64, String> {
    let stats = runtime::fs::read_to_string("/scheme/scif/stats").map_err(text("stats"))?;
    let line = stats
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name));
    let value = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    value.ok_or_else(|| alloc::format!("no counter {name}"))
}

/// The process whose name is `micd`.
///
/// # Errors
/// A text that says what is missing.
pub fn driver() -> Result<u32, String> {
    let list = runtime::fs::read_to_string("/scheme/proc/ps").map_err(text("ps"))?;
    let line = list.lines().find(|line| line.ends_with(" micd"));
    let pid = line.and_then(|line| line.split(' ').next()?.parse().ok());
    pid.ok_or_else(|| "micd does not run".into())
}
