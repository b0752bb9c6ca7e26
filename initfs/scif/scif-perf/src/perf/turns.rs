//! Tests in turn. Each has a thread of its own, and only the one whose turn it is runs. Results to
//! be compared are so measured within milliseconds, while the machine's speed is the same.
//!
//! A turn is one repetition. First the tests prepare themselves, one after the other; then all
//! make their first repetition, and so on, so that the i-th repetitions of all are neighbours. A
//! test that ends or fails is left out from then on. A test that waits for its turn sleeps, so
//! nothing runs beside the one that is measured.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use runtime::thread;

use super::{Context, Failure, Result, Settings};

/// A pipe that wakes one of the threads.
struct Bell {
    reader: Fd,
    writer: Fd,
    /// Whether its thread still takes turns.
    takes_part: AtomicBool,
}

impl Bell {
    fn new() -> Result<Self> {
        let open = || {
            let reader = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0)?;
            let writer = Fd::new(reader.dup(b"write")?);
            Ok((reader, writer))
        };
        let opened: runtime::Result<_> = open();
        let (reader, writer) = opened.context("a pipe")?;
        Ok(Self {
            reader,
            writer,
            takes_part: AtomicBool::new(true),
        })
    }

    fn ring(&self) -> Result {
        let written = self.writer.write(&[1]).map_err(runtime::Error::from);
        written.context("giving the turn away").map(|_| ())
    }

    fn wait(&self) -> Result {
        let read = self.reader.read(&mut [0]).map_err(runtime::Error::from);
        read.context("waiting for the turn").map(|_| ())
    }
}

/// One test's place among those that take turns.
#[derive(Clone)]
pub struct Place {
    bells: Arc<Vec<Bell>>,
    own: usize,
}

impl Place {
    /// The test whose turn is next; this one again if no other is left.
    fn next(&self) -> usize {
        let count = self.bells.len();
        let others = (1..count).map(|step| (self.own + step) % count);
        let mut left = others.filter(|&other| self.bells[other].takes_part.load(Ordering::Acquire));
        left.next().unwrap_or(self.own)
    }

    /// Passes the turn to the next test, and waits until it comes back.
    pub fn pass(&self) -> Result {
        let next = self.next();
        if next == self.own {
            return Ok(());
        }
        self.bells[next].ring()?;
        self.bells[self.own].wait()
    }

    /// Passes the turn to the next test for good.
    fn leave(&self) -> Result {
        self.bells[self.own]
            .takes_part
            .store(false, Ordering::Release);
        let next = self.next();
        match next == self.own {
            true => Ok(()),
            false => self.bells[next].ring(),
        }
    }
}

/// Runs `test` in turn with each of the settings. Returns the first failure, after all have ended.
pub fn run(all: Vec<Settings>, test: fn(&Settings) -> Result) -> Result {
    let bells: Result<Vec<Bell>> = all.iter().map(|_| Bell::new()).collect();
    let bells = Arc::new(bells?);
    let mut threads = Vec::new();
    for (own, mut settings) in all.into_iter().enumerate() {
        let place = Place {
            bells: bells.clone(),
            own,
        };
        settings.place = Some(place.clone());
        let run = move || -> Result {
            place.bells[own].wait()?;
            let result = test(&settings);
            place.leave()?;
            result
        };
        threads.push(thread::spawn(run).context("a thread")?);
    }
    if let Some(first) = bells.first() {
        first.ring()?;
    }
    let mut result = Ok(());
    for thread in threads {
        let joined = thread.join();
        let ended = joined.map_err(|error| Failure::from(alloc::format!("{error}")));
        result = result.and(ended.and_then(|result| result));
    }
    result
}
