//! Scheduled Transfers (docs/st.md): round trips of headers, headers one way, put and get, and
//! growth with idle connections. The server has a port of its own for these tests; orders to it
//! are headers, too.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hint::black_box;

use hal::clock::ticks;
use runtime::sync::Mutex;
use runtime::thread;
use runtime::time::Duration;
use scif::{Memory, Port, PortId};
use st::{
    Connection, Deadline, Interest, Listener, Options, Receiver, Region, Remote, Sender, WaitSet,
    Waiting,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, TryFromBytes};

use super::bandwidth::{self, Buffer, SEED};
use super::growth;
use super::latency::{rounds_of, with_table};
use super::server::{fill, sum};
use super::session::PAGE;
use super::wire::Wait;
use super::{Context, Failure, Result, Settings};
use crate::report::Unit;
use crate::samples::Samples;

/// Distance from the server's port to the port for these tests.
pub const AHEAD: Port = 3;

/// How long to try to connect while no server listens there yet.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// How long the server waits for a client's first order, in milliseconds.
const FIRST_ORDER: u64 = 10_000;

/// A header of full length.
type Header = [u64; 4];

/// The header with this number.
#[inline]
fn header(number: u64) -> Header {
    [number, !number, !number, !number]
}

/// The answer of a server that has received headers: their number, or 0 if the last one is not the
/// one with the last number.
fn counted(headers: u64, last: Header) -> u64 {
    match last == header(headers.wrapping_sub(1)) {
        true => headers,
        false => 0,
    }
}

/// Headers in one call of the tests that send several.
const SEVERAL: usize = 16;

/// The orders of a client. Every order but the first is answered by a header of one word.
#[derive(Clone, Copy, Debug, Eq, PartialEq, TryFromBytes)]
#[repr(u64)]
enum Verb {
    /// Map `argument` bytes, and serve this connection. It has no answer.
    Serve = 1,
    /// Answer `argument` headers, each by one header.
    Echo = 2,
    /// Answer `argument` headers, each by a put of 8 bytes and a header.
    EchoPuts = 3,
    /// Answer at once, receive `argument` headers, and answer with their number if the last one was
    /// right. Only that one is checked, as in a stream of messages: checking takes longer than a
    /// pull, and would be what is measured.
    Take = 4,
    /// Fill the mapped memory with the pattern of a seed.
    Fill = 5,
    /// Answer with the checksum of the mapped memory.
    Sum = 6,
    /// Keep this connection idle. It has no answer.
    Stay = 7,
    /// Close all idle connections, and answer with their number.
    Forget = 8,
    /// As `Take`, but receive several headers by one call.
    TakeSome = 9,
    /// As `Echo`, but wait for this connection and for all idle ones.
    EchoWatching = 10,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Order {
    verb: u64,
    /// Whether the server, when it waits, sleeps at once, or polls until the header comes. If
    /// neither, it waits as by default.
    sleeps: u32,
    polls: u32,
    argument: u64,
}

impl Order {
    fn new(verb: Verb, waiting: Waiting, argument: u64) -> Self {
        Self {
            verb: verb as u64,
            sleeps: (waiting == Waiting::Sleep).into(),
            polls: (waiting == Waiting::Poll).into(),
            argument,
        }
    }

    fn verb(&self) -> Result<Verb> {
        let verb = Verb::try_read_from_bytes(self.verb.as_bytes());
        verb.map_err(|_| Failure::from("an order nobody knows"))
    }

    fn waiting(&self) -> Waiting {
        match (self.sleeps, self.polls) {
            (0, 0) => Waiting::Adaptive,
            (0, _) => Waiting::Poll,
            _ => Waiting::Sleep,
        }
    }
}

/// The library's way of waiting for a test's way of waiting.
fn waiting(wait: Wait) -> Waiting {
    match wait {
        Wait::Poll | Wait::Yield => Waiting::Poll,
        Wait::Block => Waiting::Sleep,
        Wait::Usual => Waiting::Adaptive,
    }
}

/// Idle connections.
type Idle = Vec<(Sender, Receiver)>;

/// A wait for a channel and for all idle connections.
struct Watch<'a> {
    set: WaitSet,
    /// The channel, then the idle connections.
    interests: Vec<Interest<'a>>,
}

impl<'a> Watch<'a> {
    fn new(receiver: &'a mut Receiver, idle: &'a mut Idle, waiting: Waiting) -> Result<Self> {
        let idle = idle.iter_mut().map(|(_, receiver)| receiver);
        let all = core::iter::once(receiver).chain(idle);
        let mut set = WaitSet::new()?;
        set.set_waiting(waiting);
        Ok(Self {
            set,
            interests: all.map(Interest::Header).collect(),
        })
    }

    /// Receives the next header of the channel.
    #[inline]
    fn pull(&mut self) -> Result<u64> {
        let ready = self.set.wait(&mut self.interests, Deadline::Never)?;
        match (ready, self.interests.first_mut()) {
            ([0], Some(Interest::Header(receiver))) => Ok(receiver.pull()?),
            _ => Err("something happened on an idle connection".into()),
        }
    }
}

/// One end: a channel, and memory that both ends have mapped over it.
struct End {
    sender: Sender,
    receiver: Receiver,
    own: Region,
    remote: Remote,
}

impl End {
    /// Maps memory at this end, and finds that of the other end.
    fn new((mut sender, receiver): (Sender, Receiver), bytes: u64) -> Result<Self> {
        let bytes = (bytes as usize).next_multiple_of(PAGE);
        let own = sender.map(Memory::new(bytes)?)?;
        Ok(Self {
            remote: sender.remote(Deadline::Never)?,
            sender,
            receiver,
            own,
        })
    }

    fn set_waiting(&mut self, waiting: Waiting) {
        self.sender.set_waiting(waiting);
        self.receiver.set_waiting(waiting);
    }

    /// Puts 8 bytes and sends a header after them.
    #[inline]
    fn put_with(&mut self, value: u64, number: u64) -> Result {
        let place = self.remote.at(0)?;
        Ok(self.sender.put_with(&value.to_ne_bytes(), place, &number)?)
    }

    /// Executes the client's orders until it goes.
    fn attend(&mut self, idle: &Mutex<Idle>) -> Result {
        loop {
            self.set_waiting(Waiting::Adaptive);
            // An error means that the client has gone.
            let Ok(order) = self.receiver.pull::<Order>() else {
                return Ok(());
            };
            self.set_waiting(order.waiting());
            let answer = match order.verb()? {
                Verb::Echo => self.echo(order.argument)?,
                Verb::EchoPuts => self.echo_puts(order.argument)?,
                Verb::Take => self.take(order.argument)?,
                Verb::TakeSome => self.take_some(order.argument)?,
                Verb::Fill => {
                    fill(&self.own, self.own.len(), order.argument)?;
                    0
                }
                Verb::Sum => sum(&self.own, self.own.len())?,
                Verb::EchoWatching => {
                    let (rounds, waiting) = (order.argument, order.waiting());
                    self.echo_watching(rounds, &mut idle.lock(), waiting)?
                }
                Verb::Forget => core::mem::take(&mut *idle.lock()).len() as u64,
                Verb::Serve | Verb::Stay => return Err("an order that comes first only".into()),
            };
            self.sender.push(&answer)?;
        }
    }

    fn echo(&mut self, rounds: u64) -> Result<u64> {
        for _ in 0..rounds {
            let number = self.receiver.pull::<u64>()?;
            self.sender.push(&number)?;
        }
        Ok(0)
    }

    fn echo_puts(&mut self, rounds: u64) -> Result<u64> {
        for _ in 0..rounds {
            let number = self.receiver.pull::<u64>()?;
            self.put_with(self.own.read(0)?, number)?;
        }
        Ok(0)
    }

    fn echo_watching(&mut self, rounds: u64, idle: &mut Idle, waiting: Waiting) -> Result<u64> {
        let mut watch = Watch::new(&mut self.receiver, idle, waiting)?;
        for _ in 0..rounds {
            let number = watch.pull()?;
            self.sender.push(&number)?;
        }
        Ok(0)
    }

    fn take(&mut self, headers: u64) -> Result<u64> {
        self.sender.push(&READY)?;
        let mut last = Header::default();
        for _ in 0..headers {
            // All of it is received, as by a program that looks at it.
            last = black_box(self.receiver.pull()?);
        }
        Ok(counted(headers, last))
    }

    fn take_some(&mut self, headers: u64) -> Result<u64> {
        self.sender.push(&READY)?;
        let mut taken = 0;
        let mut some = [Header::default(); SEVERAL];
        let mut last = Header::default();
        while taken < headers {
            let count = self.receiver.pull_some(&mut some)?;
            if let Some(found) = some[..count].last() {
                last = *found;
            }
            taken += count as u64;
        }
        Ok(counted(taken, last))
    }
}

/// Serves these tests until the program ends.
pub fn serve(port: Port) -> Result {
    let options = Options::new().port(port).channels(1);
    let listener = Listener::with_options(&options).context(&format!("port {port}"))?;
    let idle = Arc::new(Mutex::new(Vec::new()));
    loop {
        let link = match listener.accept() {
            Ok(link) => link,
            // A client that gives up must not keep the server from others.
            Err(st::Error::Refused(_) | st::Error::TimedOut | st::Error::Ended) => continue,
            Err(error) => return Err(error).context("accept"),
        };
        let mut halves = link.channel(0)?.split();
        let first = halves
            .1
            .pull_until::<Order>(Deadline::after_ms(FIRST_ORDER)?);
        // A client that has gone meanwhile gets no service.
        let Ok(order) = first else { continue };
        if order.verb()? == Verb::Stay {
            idle.lock().push(halves);
            continue;
        }
        let idle = idle.clone();
        let attend = move || {
            // Idle connections send nothing; an error means that their client has gone.
            idle.lock()
                .retain_mut(|(_, receiver)| matches!(receiver.try_pull::<Order>(), Ok(None)));
            let served = End::new(halves, order.argument).and_then(|mut end| end.attend(&idle));
            if let Err(failure) = served {
                runtime::eprintln!("scif-perf: a client of transfers: {failure}");
            }
        };
        thread::spawn(attend).context("a thread")?;
    }
}

/// The number of headers that a call of a stream sends or receives.
#[derive(Clone, Copy)]
enum Calls {
    One,
    /// [`SEVERAL`] headers.
    Several,
}

impl Calls {
    fn verb(self) -> Verb {
        match self {
            Self::One => Verb::Take,
            Self::Several => Verb::TakeSome,
        }
    }
}

/// Round trips that are not counted.
const WARM_UP: u64 = 20;

/// The answer before a stream: the server receives headers from now on.
const READY: u64 = 0;

/// The measuring end.
struct Client<'a> {
    end: End,
    settings: &'a Settings,
    waiting: Waiting,
}

/// The server's node and the port for these tests.
fn server(settings: &Settings) -> PortId {
    let port = settings.server.port() + AHEAD;
    PortId::new(settings.server.node(), port)
}

/// Makes a connection and sends its first order.
fn connect(settings: &Settings, order: Order) -> Result<(Connection, (Sender, Receiver))> {
    let options = Options::new().channels(1).retry_for(CONNECT_LIMIT);
    let to = server(settings);
    let link = st::connect(to, &options).context("connecting for transfers")?;
    let mut halves = link.channel(0)?.split();
    halves.0.push(&order)?;
    Ok((link, halves))
}

impl<'a> Client<'a> {
    fn open(settings: &'a Settings, waiting: Waiting, bytes: u64) -> Result<Self> {
        let order = Order::new(Verb::Serve, Waiting::Adaptive, bytes);
        let (_, halves) = connect(settings, order)?;
        let mut end = End::new(halves, bytes)?;
        end.set_waiting(waiting);
        Ok(Self {
            end,
            settings,
            waiting,
        })
    }

    /// Sends an order.
    fn order(&mut self, verb: Verb, argument: u64) -> Result {
        let order = Order::new(verb, self.waiting, argument);
        Ok(self.end.sender.push(&order)?)
    }

    /// Receives the answer to an order.
    fn answer(&mut self) -> Result<u64> {
        Ok(self.end.receiver.pull()?)
    }

    /// Measures the nanoseconds of each of `rounds` round trips, as
    /// [`Session::echo`](super::session::Session::echo) does for messages.
    fn play(&mut self, puts: bool, rounds: u64) -> Result<Vec<f64>> {
        self.order(if puts { Verb::EchoPuts } else { Verb::Echo }, rounds)?;
        let mut times = Vec::with_capacity(rounds as usize);
        let mut last = ticks();
        for number in 1..=rounds {
            match puts {
                true => self.end.put_with(!number, number)?,
                false => self.end.sender.push(&number)?,
            }
            let back = self.end.receiver.pull::<u64>()?;
            let now = ticks();
            times.push(self.settings.rate.between(last, now));
            last = now;
            if back != number || puts && self.end.own.read::<u64>(0)? != !number {
                return Err("a wrong header came back".into());
            }
        }
        self.answer()?;
        Ok(times)
    }

    /// Measures round trips with waits, at both ends, for this connection and for all idle ones.
    fn play_watching(&mut self, idle: &mut Idle, rounds: u64) -> Result<Vec<f64>> {
        self.order(Verb::EchoWatching, rounds)?;
        let mut times = Vec::with_capacity(rounds as usize);
        let mut watch = Watch::new(&mut self.end.receiver, idle, self.waiting)?;
        let mut last = ticks();
        for number in 1..=rounds {
            self.end.sender.push(&number)?;
            let back = watch.pull()?;
            let now = ticks();
            times.push(self.settings.rate.between(last, now));
            last = now;
            if back != number {
                return Err("a wrong header came back".into());
            }
        }
        drop(watch);
        self.answer()?;
        Ok(times)
    }

    /// The number of rounds for a repetition, by the times of some that do not count.
    fn rounds(&self, warm: &[f64]) -> u64 {
        let mean = warm.iter().sum::<f64>() / warm.len().max(1) as f64;
        self.settings.rounds(mean)
    }

    /// Measures the nanoseconds until the other end has received `headers` headers, sent one or
    /// several by a call.
    fn pour(&mut self, headers: u64, by: Calls) -> Result<f64> {
        self.order(by.verb(), headers)?;
        self.answer()?;
        let start = ticks();
        match by {
            Calls::One => {
                for number in 0..headers {
                    self.end.sender.push(&header(number))?;
                }
            }
            Calls::Several => {
                for first in (0..headers).step_by(SEVERAL) {
                    let some: [_; SEVERAL] = core::array::from_fn(|at| header(first + at as u64));
                    let count = (headers - first).min(SEVERAL as u64) as usize;
                    self.end.sender.push_all(&some[..count])?;
                }
            }
        }
        match self.answer()? == headers {
            true => Ok(self.settings.rate.between(start, ticks())),
            false => Err("wrong headers arrived".into()),
        }
    }

    /// Fails unless the memory of the other end has this checksum.
    fn compare(&mut self, own: u64) -> Result {
        self.order(Verb::Sum, 0)?;
        match self.answer()? == own {
            true => Ok(()),
            false => Err("wrong bytes arrived".into()),
        }
    }
}

/// Runs the tests of this module that the settings name.
pub fn run(settings: &Settings) -> Result {
    for (test, puts) in [("st_rtt", false), ("st_put_rtt", true)] {
        if settings.wants(test) {
            for wait in settings.waits() {
                round_trips(settings, test, puts, wait).context(test)?;
            }
        }
    }
    for (test, by) in [
        ("st_stream", Calls::One),
        ("st_stream_several", Calls::Several),
    ] {
        if settings.wants(test) {
            stream(settings, test, by).context(test)?;
        }
    }
    for (test, toward) in [("st_put", true), ("st_get", false)] {
        if settings.wants(test) {
            transfers(settings, test, toward).context(test)?;
        }
    }
    if settings.wants("st_idle") {
        idle(settings).context("st_idle")?;
    }
    Ok(())
}

fn round_trips(settings: &Settings, test: &str, puts: bool, wait: Wait) -> Result {
    const SIZE: u64 = size_of::<u64>() as u64;
    let mut client = Client::open(settings, waiting(wait), SIZE)?;
    let warm = client.play(puts, WARM_UP)?;
    let rounds = client.rounds(&warm);
    let mut samples = Samples::new();
    for repetition in 1..=settings.repetitions {
        settings.repetition(test, SIZE, repetition)?;
        samples.add(client.play(puts, rounds)?);
    }
    settings.print_with(test, SIZE, Unit::Nanoseconds, samples, |line| {
        line.with_text("wait", wait.name())
    });
    Ok(())
}

/// Measures streams of headers, as [`bandwidth::streams`] does for messages.
fn stream(settings: &Settings, test: &str, by: Calls) -> Result {
    const SIZE: u64 = size_of::<Header>() as u64;
    let mut client = Client::open(settings, Waiting::Adaptive, SIZE)?;
    let samples = bandwidth::streams(settings, test, SIZE, |count| client.pour(count, by))?;
    settings.print(test, SIZE, Unit::BytesPerSecond, samples);
    Ok(())
}

/// Measures puts to and gets from all of the server's memory.
fn transfers(settings: &Settings, test: &str, toward: bool) -> Result {
    let bytes = bandwidth::whole(settings);
    let mut client = Client::open(settings, Waiting::Adaptive, bytes as u64)?;
    let mut buffer = Buffer::new(bytes, 0)?;
    if toward {
        buffer.fill(bytes);
    } else {
        client.order(Verb::Fill, SEED)?;
        client.answer()?;
    }
    let mut transfer = |buffer: &mut Buffer, size: usize| -> Result {
        let (place, part) = (client.end.remote.at(0)?, buffer.part(size));
        match toward {
            true => client.end.sender.put(part, place)?,
            false => client.end.receiver.get(part, place)?,
        }
        Ok(())
    };
    transfer(&mut buffer, bytes)?;
    bandwidth::measure(settings, test, |size| transfer(&mut buffer, size))?;
    client.compare(buffer.sum(bytes))
}

/// Measures round trips beside idle connections, each of which is attached and watched at both
/// ends.
fn idle(settings: &Settings) -> Result {
    /// Bytes of the yardstick's ball: a cache line.
    const LINE: u64 = 64;
    let test = "st_idle_rtt";
    let wait = settings.polling();
    let mut client = Client::open(settings, waiting(wait), LINE)?;
    let mut open = Idle::new();
    with_table(settings, LINE, |play| {
        for count in growth::steps(settings, &[1, 10, 100, 1000], 1000) {
            while (open.len() as u64) < count {
                settings.progress("connecting", open.len() as u64, 1);
                let stay = Order::new(Verb::Stay, Waiting::Adaptive, 0);
                let (_, halves) = connect(settings, stay).context("one more connection")?;
                open.push(halves);
            }
            let warm = client.play_watching(&mut open, WARM_UP)?;
            let (rounds, yards) = (client.rounds(&warm), rounds_of(settings, play)?);
            let (mut samples, mut yard) = (Samples::new(), Samples::new());
            for repetition in 1..=settings.repetitions {
                settings.repetition(test, count, repetition)?;
                samples.add(client.play_watching(&mut open, rounds)?);
                yard.add(play(yards)?);
            }
            growth::print_both(settings, test, count, [samples, yard], Some(wait));
        }
        Ok(())
    })?;
    drop(open);
    client.order(Verb::Forget, 0)?;
    client.answer().map(|_| ())
}
