//! Round trips and streams of messages between the two nodes, each on a thread and a core of its
//! own, by any implementation of [`Messages`].

use std::sync::atomic::{AtomicBool, Ordering};

use hal::clock::ticks;
use scif_perf::pattern;
use scif_perf::report::Unit;
use scif_perf::timing;

use crate::memory::Node;
use crate::{Failure, Settings, Test, threads};

/// One end of a connection.
pub trait Messages: Sized + Sync {
    /// Opens the end of `node`.
    fn open(node: &mut Node, peer: &Node) -> Result<Self, Failure>;

    /// Runs `work`, which uses this end, on any thread.
    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Sends all of a message, polling.
    fn send(&self, message: &[u8]) -> Result<(), Failure>;

    /// Receives all of a message, polling. Returns false if `stop` is set and no more comes.
    fn receive(&self, buffer: &mut [u8], stop: Option<&AtomicBool>) -> Result<bool, Failure>;

    /// Receives the bytes that are there, perhaps none. Returns their number.
    fn look(&self, buffer: &mut [u8]) -> Result<usize, Failure>;
}

/// What the second node's thread does with each message.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Echo,
    Sink,
}

/// Both ends of a connection. The second one has a thread while a test runs.
pub struct Pair<E> {
    client: E,
    server: E,
    /// The nodes whose memory holds the rings.
    _nodes: [Node; 2],
}

impl<E: Messages> Pair<E> {
    /// Opens both ends.
    pub fn start(mut nodes: [Node; 2]) -> Result<Self, Failure> {
        let [first, second] = &mut nodes;
        let client = E::open(first, second)?;
        let server = E::open(second, first)?;
        Ok(Self {
            client,
            server,
            _nodes: nodes,
        })
    }

    /// Runs `work` while the second thread serves messages of `size` bytes.
    fn beside(
        &self,
        role: Role,
        size: usize,
        work: impl FnOnce() -> Result<Vec<f64>, Failure>,
    ) -> Result<Vec<f64>, Failure> {
        let stop = AtomicBool::new(false);
        // Allocated here, not in the thread, so that both ends have buffers in the same memory, as
        // two programs would have.
        let mut buffer = vec![0; size];
        std::thread::scope(|scope| {
            let (server, stopped) = (&self.server, &stop);
            let thread = scope.spawn(move || {
                let work = || serve(server, role, &mut buffer, stopped);
                server.within(work).map_err(|failure| failure.to_string())
            });
            let result = self.client.within(work);
            stop.store(true, Ordering::Release);
            match thread.join() {
                Ok(Ok(())) => result,
                Ok(Err(failure)) => Err(failure.into()),
                Err(_) => Err("the second thread panicked".into()),
            }
        })
    }

    /// Returns the test of a message and one back.
    pub fn round_trips(&self, name: &str, size: usize) -> Test<'_> {
        let this = self;
        let run =
            move |settings: &Settings| this.beside(Role::Echo, size, || this.echo(settings, size));
        Test::new(name, size, Unit::Nanoseconds, run)
    }

    fn echo(&self, settings: &Settings, size: usize) -> Result<Vec<f64>, Failure> {
        /// Number of round trips in a sample.
        const ROUNDS: u32 = 100;
        let (mut message, mut back) = (vec![0; size], vec![0; size]);
        // Different messages, each compared, before time is taken.
        for round in 0..32 {
            pattern::fill(&mut message, round);
            self.client.send(&message)?;
            self.client.receive(&mut back, None)?;
            if back != message {
                return Err("wrong bytes came back".into());
            }
        }
        let mut samples = Vec::new();
        let end = ticks() + settings.rate.ticks(settings.budget_ns);
        let mut last = ticks();
        while last < end {
            for _ in 0..ROUNDS {
                self.client.send(&message)?;
                self.client.receive(&mut back, None)?;
            }
            let now = ticks();
            samples.push(settings.rate.between(last, now) / f64::from(ROUNDS));
            last = now;
        }
        match back == message {
            true => Ok(samples),
            false => Err("wrong bytes came back".into()),
        }
    }

    /// Returns the test of a message and one back with both ends on one thread, so that no end
    /// waits. After each message come polls that find nothing, as in a program that polls. It is
    /// for counting instructions.
    pub fn alone(&self, name: &str, size: usize) -> Test<'_> {
        /// Number of polls after each message. Of polls shortly after each other most are the
        /// same.
        const LOOKS: u32 = 20;
        let run = move |settings: &Settings| {
            let (mut message, mut back) = (vec![0; size], vec![0; size]);
            pattern::fill(&mut message, SEED);
            let ends = [&self.client, &self.server];
            let (rate, budget) = (settings.rate, settings.budget_ns);
            let samples = timing::durations(rate, budget, || {
                for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                    from.within(|| send_alone(from, &message))?;
                    to.within(|| receive_alone(to, &mut back))?;
                    to.within(|| (0..LOOKS).try_for_each(|_| look_alone(to, &mut back)))?;
                }
                Ok::<_, Failure>(())
            })?;
            match back == message {
                true => Ok(samples),
                false => Err("wrong bytes came".into()),
            }
        };
        Test::new(name, size, Unit::Nanoseconds, run)
    }

    /// Returns the test of messages one after the other.
    pub fn stream(&self, name: &str, size: usize) -> Test<'_> {
        let this = self;
        let run =
            move |settings: &Settings| this.beside(Role::Sink, size, || this.pour(settings, size));
        Test::new(name, size, Unit::BytesPerSecond, run)
    }

    fn pour(&self, settings: &Settings, size: usize) -> Result<Vec<f64>, Failure> {
        /// Number of messages in a sample: they fill many rings, so that waiting for room counts.
        const MESSAGES: u32 = 1000;
        let mut message = vec![0; size];
        pattern::fill(&mut message, SEED);
        let mut samples = Vec::new();
        let end = ticks() + settings.rate.ticks(settings.budget_ns);
        let mut last = ticks();
        while last < end {
            for _ in 0..MESSAGES {
                self.client.send(&message)?;
            }
            let now = ticks();
            let bytes = (MESSAGES as usize * size) as f64;
            samples.push(bytes * 1e9 / settings.rate.between(last, now).max(1.0));
            last = now;
        }
        Ok(samples)
    }
}

/// A function of its own for each step, so that its instructions can be counted; also below.
#[inline(never)]
fn send_alone<E: Messages>(end: &E, message: &[u8]) -> Result<(), Failure> {
    end.send(message)
}

#[inline(never)]
fn receive_alone<E: Messages>(end: &E, buffer: &mut [u8]) -> Result<(), Failure> {
    match end.receive(buffer, None)? {
        true => Ok(()),
        false => Err("a message was cut".into()),
    }
}

#[inline(never)]
fn look_alone<E: Messages>(end: &E, buffer: &mut [u8]) -> Result<(), Failure> {
    match end.look(buffer)? {
        0 => Ok(()),
        _ => Err("more arrived than was sent".into()),
    }
}

/// The seed of the content of streams' messages.
const SEED: u64 = 11;

fn serve<E: Messages>(
    end: &E,
    role: Role,
    buffer: &mut [u8],
    stop: &AtomicBool,
) -> Result<(), Failure> {
    threads::pin(1)?;
    let mut count = 0_u64;
    while end.receive(buffer, Some(stop))? {
        count += 1;
        if role == Role::Echo {
            end.send(buffer)?;
        }
    }
    if role == Role::Sink && count > 0 {
        let mut wanted = vec![0; buffer.len()];
        pattern::fill(&mut wanted, SEED);
        if buffer != wanted {
            return Err("wrong bytes arrived".into());
        }
    }
    Ok(())
}
