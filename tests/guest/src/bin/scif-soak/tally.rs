//! The reports of soak workers, and the sums that node 0 prints.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use runtime::fd;

/// One piece of a worker's work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A stream to the peer.
    Send,
    /// A stream from the peer.
    Receive,
    /// Messages there and back.
    Echo,
    /// Transfers between registered memory.
    Rma,
    /// Loads and stores in mapped memory.
    Map,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [Kind::Send, Kind::Receive, Kind::Echo, Kind::Rma, Kind::Map];

    fn name(self) -> &'static str {
        match self {
            Kind::Send => "send",
            Kind::Receive => "receive",
            Kind::Echo => "echo",
            Kind::Rma => "rma",
            Kind::Map => "map",
        }
    }
}

/// Sums of one driver.
#[derive(Default)]
pub struct Tally {
    whole: [AtomicU64; Kind::ALL.len()],
    bytes: AtomicU64,
    cut: AtomicU64,
    wrong: AtomicU64,
    killed: AtomicU64,
}

impl Tally {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            whole: [const { AtomicU64::new(0) }; Kind::ALL.len()],
            bytes: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            killed: AtomicU64::new(0),
        }
    }

    /// A program was killed.
    pub fn killed(&self) {
        self.killed.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether sessions of every kind were whole, and a program was killed.
    pub fn has_all(&self) -> bool {
        let sums = self.whole.iter().chain([&self.killed]);
        sums.into_iter().all(|sum| sum.load(Ordering::Relaxed) > 0)
    }

    /// Sessions in which something was wrong.
    pub fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Adds up the reports that come out of a pipe, until its last writer is gone.
    pub fn collect(&self, pipe: usize) {
        let mut report = [0; REPORT_BYTES];
        while read_exact(pipe, &mut report) {
            let [kind, outcome, rest @ ..] = report;
            let counter = match (outcome, self.whole.get(usize::from(kind))) {
                (WHOLE, Some(whole)) => whole,
                (CUT, _) => &self.cut,
                _ => &self.wrong,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            let bytes = u64::from_le_bytes(rest);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// The sums as words that `make soak` adds up: `name=value`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (kind, whole) in Kind::ALL.iter().zip(&self.whole) {
            write!(f, "{}={} ", kind.name(), load(whole))?;
        }
        let [bytes, cut] = [&self.bytes, &self.cut].map(load);
        let [wrong, killed] = [&self.wrong, &self.killed].map(load);
        write!(f, "bytes={bytes} cut={cut} killed={killed} wrong={wrong}")
    }
}

/// A session ended as it should.
const WHOLE: u8 = 0;
/// A program was killed during it.
const CUT: u8 = 1;
/// Something was not as it must be.
const WRONG: u8 = 2;

const REPORT_BYTES: usize = 10;

/// How a session can end before its time.
#[derive(Debug)]
pub enum Trouble {
    /// The other side went.
    Cut,
    /// Bytes or errors that nothing explains.
    Wrong(String),
}

/// Reports a session's end through the pipe that is the standard output.
pub fn report(kind: Kind, result: &Result<u64, Trouble>) {
    let (outcome, bytes) = match result {
        Ok(bytes) => (WHOLE, *bytes),
        Err(Trouble::Cut) => (CUT, 0),
        Err(Trouble::Wrong(what)) => {
            let name = kind.name();
            runtime::eprintln!("STEP scif-soak {name}: FAIL {what}");
            (WRONG, 0)
        }
    };
    let mut report = [0; REPORT_BYTES];
    report[0] = kind as u8;
    report[1] = outcome;
    report[2..].copy_from_slice(&u64::to_le_bytes(bytes));
    // Short writes to a pipe are not divided. Without a driver there is nobody to tell.
    let _ = fd::write(1, &report);
}

fn read_exact(pipe: usize, buffer: &mut [u8]) -> bool {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match fd::read(pipe, rest) {
            Ok(0) | Err(_) => return false,
            Ok(count) => done += count,
        }
    }
    true
}

/// A text for something that must not be.
pub fn wrong<T>(what: impl fmt::Display) -> Result<T, Trouble> {
    Err(Trouble::Wrong(format!("{what}")))
}
