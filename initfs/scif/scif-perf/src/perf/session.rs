//! A client's connection to the server, and the steps that many tests share.

use alloc::format;

use hal::clock::ticks;
use runtime::time::Duration;
use scif::{Endpoint, Errno, Error, Options, PortId};

use super::wire::{Channel, Request, Verb, Wait, hear};
use super::{Context, Result, Settings};
use crate::pattern;
use crate::samples::Samples;

pub use hal::mem::PAGE;

/// A connection to the server.
pub struct Session<'a> {
    /// The connection.
    pub endpoint: Endpoint,
    /// What to measure.
    pub settings: &'a Settings,
}

/// How long to try to connect, and after which time to tell the user.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
const SILENT: Duration = Duration::from_secs(1);

/// Connects. Tries again for up to 20 s while no server listens there or the node is not online
/// yet.
pub fn connect(to: PortId) -> Result<Endpoint> {
    let (node, port) = (to.node(), to.port());
    let connect = |limit| Options::new().retry_for(limit).connect(to);
    match connect(SILENT) {
        Err(Error::Scif(Errno::ConnectionRefused | Errno::NoDevice)) => {
            runtime::eprintln!(
                "waiting for node {node}, port {port}: does `scif-perf -s` run there?"
            );
            connect(CONNECT_LIMIT - SILENT).context(&format!(
                "connecting for 20 s to node {node}, port {port} (does `scif-perf -s` run there?)"
            ))
        }
        result => result.context(&format!("connecting to node {node}, port {port}")),
    }
}

impl<'a> Session<'a> {
    /// Connects to the server.
    pub fn open(settings: &'a Settings) -> Result<Self> {
        let endpoint = connect(settings.server)?;
        Ok(Self { endpoint, settings })
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&self, request: &Request) -> Result<u64> {
        request.say(&self.endpoint)?;
        hear(&self.endpoint)
    }

    /// Has the server lend a window of `bytes` bytes, rounded up to whole pages. Returns its
    /// offset.
    pub fn borrow(&self, bytes: u64) -> Result<i64> {
        let bytes = bytes.next_multiple_of(PAGE as u64);
        let offset = self.ask(&Request::new(Verb::Lend, bytes));
        Ok(offset.context("the server's window")? as i64)
    }

    /// Has the server lend a window of its own memory, whose pages are scattered, as
    /// [`borrow`](Self::borrow) does.
    pub fn borrow_own(&self, bytes: u64) -> Result<i64> {
        let bytes = bytes.next_multiple_of(PAGE as u64);
        let offset = self.ask(&Request::new(Verb::LendOwn, bytes));
        Ok(offset.context("the server's window")? as i64)
    }

    /// Has the server take back its windows.
    pub fn release(&self) -> Result {
        self.ask(&Request::new(Verb::Release, 0)).map(|_| ())
    }

    /// Ends the server.
    pub fn stop(&self) -> Result {
        self.ask(&Request::new(Verb::Stop, 0)).map(|_| ())
    }

    /// A channel for messages over this connection.
    pub fn channel(&self, wait: Wait) -> Channel<'_> {
        Channel {
            endpoint: &self.endpoint,
            wait,
            path: self.settings.path,
        }
    }

    fn request(&self, verb: Verb, wait: Wait, size: u64, count: u64) -> Request {
        Request {
            wait,
            path: self.settings.path,
            count,
            ..Request::new(verb, size)
        }
    }

    /// Measures the nanoseconds of each of `rounds` round trips of `message`. The counter is read
    /// once for each: its value is the end of one round trip and the start of the next.
    pub fn echo(&self, wait: Wait, message: &[u8], rounds: u64) -> Result<alloc::vec::Vec<f64>> {
        let rate = self.settings.rate;
        let request = self.request(Verb::Echo, wait, message.len() as u64, rounds);
        let mut times = alloc::vec::Vec::with_capacity(rounds as usize);
        let mut back = alloc::vec![0; message.len()];
        let channel = self.channel(wait);
        channel.begin_echo();
        request.say(&self.endpoint)?;
        let mut last = ticks();
        for _ in 0..rounds {
            channel.send(message)?;
            channel.receive(&mut back)?;
            let now = ticks();
            times.push(rate.between(last, now));
            last = now;
        }
        match hear(&self.endpoint)? == pattern::sum(message) && back == message {
            true => Ok(times),
            false => Err(format!(
                "round trips of {} bytes: wrong bytes came back",
                message.len()
            )
            .into()),
        }
    }

    /// Sends messages that differ and compares the ones that come back.
    fn verify_echo(&self, wait: Wait, size: usize) -> Result {
        const ROUNDS: u64 = 16;
        let request = self.request(Verb::Echo, wait, size as u64, ROUNDS);
        let channel = self.channel(wait);
        channel.begin_echo();
        let (mut message, mut back) = (alloc::vec![0; size], alloc::vec![0; size]);
        request.say(&self.endpoint)?;
        for round in 0..ROUNDS {
            pattern::fill(&mut message, round + 1);
            channel.send(&message)?;
            channel.receive(&mut back)?;
            if back != message {
                return Err("round trip: wrong bytes came back".into());
            }
        }
        hear(&self.endpoint).map(|_| ())
    }

    /// Measures round trips of `size` bytes, in all repetitions; `test` is for the progress line.
    pub fn round_trips(&self, test: &str, wait: Wait, size: usize) -> Result<Samples> {
        self.round_trips_between(test, wait, size, || Ok(()))
    }

    /// Measures round trips as [`round_trips`](Self::round_trips) does, and calls `between` after
    /// each repetition.
    pub fn round_trips_between(
        &self,
        test: &str,
        wait: Wait,
        size: usize,
        mut between: impl FnMut() -> Result,
    ) -> Result<Samples> {
        const WARM_UP: u64 = 20;
        self.verify_echo(wait, size)?;
        let mut message = alloc::vec![0; size];
        pattern::fill(&mut message, 77);
        let warm = self.echo(wait, &message, WARM_UP)?;
        let one = warm.iter().sum::<f64>() / WARM_UP as f64;
        let rounds = self.settings.rounds(one);
        let mut samples = Samples::new();
        for repetition in 1..=self.settings.repetitions {
            self.settings.repetition(test, size as u64, repetition)?;
            samples.add(self.echo(wait, &message, rounds)?);
            between()?;
        }
        Ok(samples)
    }
}
