//! Round trips: of one or several words through mapped windows, and of messages.

use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use hal::clock::ticks;
use scif::{Memory, Protection, View};

use super::session::{PAGE, Session};
use super::wire::{Request, Verb, Wait, hear};
use super::{Context, Path, Result, Settings};
use crate::pattern;
use crate::report::Unit;
use crate::samples::Samples;

/// Default sizes of messages, in bytes.
const MESSAGES: &[u64] = &[1, 8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];

/// Reads of a word before giving up: they take a few seconds, or minutes if the thread yields in
/// between.
const MAX_LOOKS: u32 = 1_000_000_000;

/// Runs the tests of this module that the settings name.
pub fn run(settings: &Settings) -> Result {
    if settings.wants("pio_rtt") {
        ping(settings, "pio_rtt", 8).context("pio_rtt")?;
    }
    if settings.wants("ring_rtt") {
        for size in settings.sizes(&[64]) {
            ping(settings, "ring_rtt", size).context("ring_rtt")?;
        }
    }
    if settings.wants("msg_rtt") {
        for wait in settings.waits() {
            let test = match wait {
                Wait::Block => "msg_rtt_block",
                _ => "msg_rtt_poll",
            };
            for size in settings.sizes(MESSAGES) {
                messages(settings, test, wait, size).context(test)?;
            }
        }
    }
    if settings.wants("msg_rtt_usual") {
        for size in settings.sizes(&[64]) {
            messages(settings, "msg_rtt_usual", Wait::Usual, size).context("msg_rtt_usual")?;
        }
    }
    Ok(())
}

fn messages(settings: &Settings, test: &str, wait: Wait, size: u64) -> Result {
    let session = Session::open(settings)?;
    let samples = session.round_trips(test, wait, size as usize)?;
    settings.print_with(test, size, Unit::Nanoseconds, samples, |line| {
        line.with_text("path", path_name(settings))
            .with_text("wait", wait.name())
    });
    Ok(())
}

/// The name of the path that messages take.
pub fn path_name(settings: &Settings) -> &'static str {
    match settings.path {
        Path::Bypass => "bypass",
        Path::File => "file",
    }
}

/// Two windows, one of each side, between which both sides play ping-pong. A *ball* is a word with
/// its number, and data behind it.
pub struct Table<'a> {
    own: &'a View,
    peer: &'a View,
    /// The words for the number of a ball: the own one, and the peer's.
    numbers: [&'a AtomicU64; 2],
    wait: Wait,
    /// The data of a ball besides the number; empty if a ball is only a word.
    ball: Vec<u8>,
}

/// Offset of the number.
const NUMBER: usize = 0;
/// Offset of the data, on a cache line of its own.
const BALL: usize = 128;

impl<'a> Table<'a> {
    /// Bytes of each window for balls of `bytes` bytes.
    pub fn room(bytes: usize) -> usize {
        let end = BALL.saturating_add(bytes);
        end.div_ceil(PAGE).saturating_mul(PAGE)
    }

    /// A table of the own window and the peer's, for balls of `bytes` bytes.
    ///
    /// # Errors
    /// One of the windows cannot be read and written.
    pub fn new(own: &'a View, peer: &'a View, wait: Wait, bytes: usize) -> Result<Self> {
        let more = if bytes > 8 { bytes } else { 0 };
        Ok(Self {
            own,
            peer,
            numbers: [own.word_u64(NUMBER)?, peer.word_u64(NUMBER)?],
            wait,
            ball: alloc::vec![0; more],
        })
    }

    /// Plays the side that begins: sends a ball and waits for it to come back, `rounds` times.
    /// Calls `after` after each round.
    ///
    /// # Errors
    /// A ball does not come back.
    pub fn begin(&mut self, rounds: u64, mut after: impl FnMut()) -> Result {
        let ([own, peer], wait) = (self.numbers, self.wait);
        if self.ball.is_empty() {
            // Only the words are touched, as in a program's own loop and in the benchmark's lower
            // bound.
            for number in 1..=rounds {
                peer.store(number, Ordering::Release);
                catch(own, number, wait)?;
                after();
            }
            return Ok(());
        }
        for number in 1..=rounds {
            self.peer.copy_in(BALL, &self.ball)?;
            peer.store(number, Ordering::Release);
            catch(own, number, wait)?;
            self.own.copy_out(BALL, &mut self.ball)?;
            after();
        }
        Ok(())
    }

    /// Plays the side that answers: sends back each ball, `rounds` times.
    ///
    /// # Errors
    /// A ball does not come.
    pub fn answer(&mut self, rounds: u64) -> Result {
        let ([own, peer], wait) = (self.numbers, self.wait);
        if self.ball.is_empty() {
            for number in 1..=rounds {
                catch(own, number, wait)?;
                peer.store(number, Ordering::Release);
            }
            return Ok(());
        }
        for number in 1..=rounds {
            catch(own, number, wait)?;
            self.own.copy_out(BALL, &mut self.ball)?;
            self.peer.copy_in(BALL, &self.ball)?;
            peer.store(number, Ordering::Release);
        }
        Ok(())
    }

    /// The checksum of the last ball's data.
    pub fn sum(&self) -> u64 {
        pattern::sum(&self.ball)
    }
}

/// Waits for the ball with this number.
#[inline]
fn catch(own: &AtomicU64, number: u64, wait: Wait) -> Result {
    for _ in 0..MAX_LOOKS {
        if own.load(Ordering::Acquire) == number {
            return Ok(());
        }
        wait.pause();
    }
    missed(number)
}

/// A function of its own; otherwise the number would have to be kept in memory for the message.
#[cold]
#[inline(never)]
fn missed(number: u64) -> Result {
    Err(format!("ball {number} does not come").into())
}

fn ping(settings: &Settings, test: &str, size: u64) -> Result {
    let wait = settings.polling();
    let samples = with_table(settings, size, |play| {
        let rounds = rounds_of(settings, play)?;
        let mut samples = Samples::new();
        for repetition in 1..=settings.repetitions {
            settings.repetition(test, size, repetition)?;
            samples.add(play(rounds)?);
        }
        Ok(samples)
    })?;
    settings.print_with(test, size, Unit::Nanoseconds, samples, |line| {
        line.with_text("wait", wait.name())
    });
    Ok(())
}

/// Plays rounds through mapped windows and returns the nanoseconds of each.
pub type Play<'a> = &'a mut dyn FnMut(u64) -> Result<Vec<f64>>;

/// The number of rounds for a repetition, found by some rounds that do not count.
pub fn rounds_of(settings: &Settings, play: Play<'_>) -> Result<u64> {
    const WARM_UP: u64 = 200;
    let warm = play(WARM_UP)?;
    Ok(settings.rounds(warm.iter().sum::<f64>() / WARM_UP as f64))
}

/// Sets up a table for balls of `size` bytes, and runs `body` with a function that plays on it.
pub fn with_table<T>(
    settings: &Settings,
    size: u64,
    body: impl FnOnce(Play<'_>) -> Result<T>,
) -> Result<T> {
    let session = Session::open(settings)?;
    let endpoint = &session.endpoint;
    let room = Table::room(size as usize);
    let memory = Memory::new(room).context("memory for a window")?;
    let window = endpoint.register(&memory)?;
    let remote = session.borrow(room as u64)?;
    let mapping = endpoint.map(remote, room, Protection::READ | Protection::WRITE)?;
    let wait = settings.polling();
    let mut play = |rounds: u64| {
        let mut table = Table::new(&memory, &mapping, wait, size as usize)?;
        pattern::fill(&mut table.ball, rounds);
        let sum = table.sum();
        memory.store_release_u64(NUMBER, 0)?;
        mapping.store_release_u64(NUMBER, 0)?;
        let request = Request {
            wait,
            count: rounds,
            offset: window.offset(),
            ..Request::new(Verb::Ping, size)
        };
        session.ask(&request)?;
        let mut times = Vec::with_capacity(rounds as usize);
        let mut last = ticks();
        table.begin(rounds, || {
            let now = ticks();
            times.push(settings.rate.between(last, now));
            last = now;
        })?;
        match hear(endpoint)? == sum && table.sum() == sum {
            true => Ok(times),
            false => Err(super::Failure::from("wrong bytes came back")),
        }
    };
    let result = body(&mut play)?;
    drop(mapping);
    session.release()?;
    Ok(result)
}
