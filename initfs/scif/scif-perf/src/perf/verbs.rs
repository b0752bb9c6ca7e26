//! RDMA verbs (docs/verbs.md): round trips of writes and of messages, messages one way, writes and
//! reads, and round trips over many queue pairs. The server has a port of its own for these tests;
//! orders go over a connection besides the queue pairs.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use ::verbs::{
    self as rdma, Access, CompletionChannel, CompletionQueue, Context as Device, MemoryRegion,
    QpType, QueuePair, Remote, SendFlags as Flags, Settings as Times, ShortData, ShortSend,
    WcStatus, WorkCompletion,
};
use hal::clock::ticks;
use hal::pause::yield_now;
use runtime::thread;
use runtime::time::Duration;
use scif::{Endpoint, Listener, Memory, Options, Port, PortId, RecvFlags, SendFlags};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::bandwidth::{self, SEED};
use super::growth;
use super::latency::{rounds_of, with_table};
use super::server::{fill, sum};
use super::session::PAGE;
use super::wire::Wait;
use super::{Context, Failure, Result, Settings};
use crate::report::Unit;
use crate::samples::Samples;

/// Distance from the server's port to the port for these tests.
pub const AHEAD: Port = 4;

/// How long to try to connect while no server listens there yet.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Bytes in a message, and the number of receives posted on each queue pair.
const MESSAGE: usize = 64;
const RECEIVES: u64 = 64;
/// Sends between two completions of a stream.
const BATCH: u64 = 16;
/// Offsets of the message to send, behind the words for writes, and of a page for received ones.
const OUT: usize = PAGE;
const IN: usize = 2 * PAGE;
/// Least bytes of memory at each end.
const LEAST: usize = 4 * PAGE;

/// The orders of a client. Every order but the first is answered by an [`Order`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, TryFromBytes)]
#[repr(u64)]
enum Verb {
    /// Make this number of queue pairs with `bytes` of memory and connect them. The answer has the
    /// address and key of the memory.
    Connect = 1,
    /// Answer this number of messages, on each queue pair in turn.
    Echo = 2,
    /// Answer this number of words that are written.
    EchoWrites = 3,
    /// Answer at once, receive this number of messages, and answer with the number of those that
    /// came in order.
    Take = 4,
    /// Fill the memory with the pattern of a seed.
    Fill = 5,
    /// Answer with the checksum of the memory.
    Sum = 6,
}

/// An order, or an answer.
#[derive(Clone, Copy, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct Order {
    verb: u64,
    argument: u64,
    bytes: u64,
    key: u32,
    sleeps: u32,
}

impl Order {
    fn new(verb: Verb, argument: u64) -> Self {
        Self {
            verb: verb as u64,
            argument,
            ..Self::default()
        }
    }
}

fn say(endpoint: &Endpoint, order: Order) -> Result {
    match endpoint.send(order.as_bytes(), SendFlags::BLOCK)? {
        count if count == size_of::<Order>() => Ok(()),
        _ => Err("the other end has gone".into()),
    }
}

fn hear(endpoint: &Endpoint) -> Result<Option<Order>> {
    let mut order = Order::new_zeroed();
    // Anything but a whole order means that the other end has gone.
    match endpoint.recv(order.as_mut_bytes(), RecvFlags::BLOCK) {
        Ok(count) if count == size_of::<Order>() => Ok(Some(order)),
        _ => Ok(None),
    }
}

/// One end: queue pairs in one domain, which complete in one queue for sends, one for receives.
struct End {
    pairs: Vec<QueuePair>,
    region: MemoryRegion,
    sends: CompletionQueue,
    receives: CompletionQueue,
    channel: CompletionChannel,
    far: Remote,
    /// How to wait for completions.
    wait: Wait,
    found: Vec<WorkCompletion>,
    _device: Device,
}

/// The request for a message over one of `pairs`. Each has one of [`BATCH`] messages signaled.
fn short(number: u64, pairs: usize, data: ShortData<'_>) -> ShortSend<'_> {
    let mut send = ShortSend::message(number, data);
    let is_signaled = (number / pairs.max(1) as u64).is_multiple_of(BATCH);
    send.flags.set(Flags::SIGNALED, is_signaled);
    send
}

/// The place of a receive. The receives of all queue pairs have the same places.
fn place(receive: u64) -> Range<usize> {
    let start = IN + (receive % RECEIVES) as usize * MESSAGE;
    start..start + MESSAGE
}

fn device() -> Result<Device> {
    let device = rdma::devices()?.remove(0);
    let start = |worker: rdma::Worker| {
        let run = move || {
            if let Err(error) = worker.run() {
                runtime::eprintln!("scif-perf: the progress thread: {error}");
            }
        };
        thread::spawn(run).map(drop).map_err(rdma::Error::from)
    };
    Ok(device.open(start)?)
}

impl End {
    /// Makes the queue pairs, and connects each to one of the other end.
    fn new(endpoint: &Endpoint, pairs: u64, bytes: u64, wait: Wait) -> Result<Self> {
        let device = device()?;
        let domain = device.protection_domain()?;
        let bytes = LEAST.max((bytes as usize).next_multiple_of(PAGE));
        let access = Access::REMOTE | Access::LOCAL_WRITE;
        let region = domain.register(Memory::new(bytes)?, access)?;
        let channel = device.completion_channel()?;
        let room = (pairs * RECEIVES) as u32 * 2;
        let sends = device.completion_queue(room)?;
        let receives = device.completion_queue_with(room, &channel, 1)?;
        let times = Times::default();
        let mut made = Vec::new();
        for index in 0..pairs {
            let builder = domain.queue_pair(QpType::Rc, &sends, &receives);
            let pair = builder.inline(MESSAGE as u32).build()?;
            pair.init(&times)?;
            for number in 0..RECEIVES {
                // The number of the completion tells which queue pair it belongs to.
                pair.receive(index * RECEIVES + number, &[region.segment(place(number))?])?;
            }
            pair.meet(endpoint, &times)?;
            made.push(pair);
        }
        let own = region.remote(0);
        let mut place = Order::default();
        (place.argument, place.key) = (own.address, own.key);
        say(endpoint, place)?;
        let place = hear(endpoint)?.ok_or("the other end has gone")?;
        Ok(Self {
            pairs: made,
            region,
            sends,
            receives,
            channel,
            far: Remote {
                address: place.argument,
                key: place.key,
            },
            wait,
            found: Vec::new(),
            _device: device,
        })
    }

    fn pair(&self, number: u64) -> Result<&QueuePair> {
        let index = number % self.pairs.len().max(1) as u64;
        self.pairs.get(index as usize).ok_or("no queue pair".into())
    }

    fn far(&self, at: usize) -> Remote {
        Remote {
            address: self.far.address + at as u64,
            ..self.far
        }
    }

    /// Sends a message.
    #[inline]
    fn send(&mut self, number: u64) -> Result {
        self.region.write(OUT, number)?;
        let segment = self.region.segment(OUT..OUT + MESSAGE)?;
        let send = short(number, self.pairs.len(), ShortData::Segment(segment));
        self.pair(number)?.post_short(&send)?;
        if number.is_multiple_of(BATCH) {
            self.take_sent()?;
        }
        Ok(())
    }

    fn check_sends(&mut self) -> Result {
        let mut found = self.found.drain(..);
        match found.find(|wc| wc.status != WcStatus::Success) {
            None => Ok(()),
            Some(wc) => Err(format!("a send ends {:?}", wc.status).into()),
        }
    }

    /// Waits for the next message, and posts its receive again.
    #[inline]
    fn take(&mut self) -> Result<u64> {
        let mut is_armed = false;
        while self.receives.poll(1, &mut self.found)? == 0 {
            match self.wait {
                Wait::Block if is_armed => {
                    self.channel.next()?;
                    is_armed = false;
                }
                Wait::Block => {
                    self.receives.request_notification(false)?;
                    is_armed = true;
                }
                Wait::Yield => yield_now(),
                Wait::Poll | Wait::Usual => {}
            }
        }
        let wc = self.found.pop().ok_or("no completion")?;
        if wc.status != WcStatus::Success {
            return Err(format!("a receive ends {:?}", wc.status).into());
        }
        let at = place(wc.id);
        let number = self.region.read::<u64>(at.start)?;
        let pair = self.pair(wc.id / RECEIVES)?;
        pair.receive(wc.id, &[self.region.segment(at)?])?;
        Ok(number)
    }

    /// Writes a word to the other end's memory.
    #[inline]
    fn write(&mut self, number: u64) -> Result {
        self.region.write(8, number)?;
        let segment = self.region.segment(8..16)?;
        let far = self.far(0);
        self.pair(0)?.write(number, &[segment], far)?;
        self.take_sent()
    }

    /// Waits for a word that the other end writes, by polling the memory and nothing else.
    #[inline]
    fn written(&self, number: u64) -> Result {
        while self.region.read::<u64>(0)? != number {
            if self.wait == Wait::Yield {
                yield_now();
            }
        }
        Ok(())
    }

    /// Waits until all sends are complete.
    fn flush(&mut self) -> Result {
        let segment = self.region.segment(8..8)?;
        for number in 0..self.pairs.len() as u64 {
            let far = self.far(0);
            self.pair(number)?.write(u64::MAX, &[segment], far)?;
        }
        let mut left = self.pairs.len();
        while left > 0 {
            self.sends.poll(1, &mut self.found)?;
            left -= self.found.iter().filter(|wc| wc.id == u64::MAX).count();
            self.check_sends()?;
        }
        Ok(())
    }

    /// Executes the client's orders until it goes.
    fn attend(&mut self, endpoint: &Endpoint) -> Result {
        while let Some(order) = hear(endpoint)? {
            self.wait = match order.sleeps {
                1 => Wait::Block,
                2 => Wait::Yield,
                _ => Wait::Poll,
            };
            let verb = Verb::try_read_from_bytes(order.verb.as_bytes());
            let verb = verb.map_err(|_| Failure::from("an order nobody knows"))?;
            let mut answer = order;
            match verb {
                Verb::Echo => {
                    for _ in 0..order.argument {
                        let number = self.take()?;
                        self.send(number)?;
                    }
                    self.flush()?;
                }
                Verb::EchoWrites => {
                    for number in 1..=order.argument {
                        self.written(number)?;
                        self.write(number)?;
                    }
                    self.region.write(0, 0_u64)?;
                }
                Verb::Take => {
                    say(endpoint, order)?;
                    answer.argument = 0;
                    for number in 1..=order.argument {
                        answer.argument += u64::from(self.take()? == number);
                    }
                }
                Verb::Fill => fill(&self.region, self.region.len(), order.argument)?,
                Verb::Sum => answer.argument = sum(&self.region, order.bytes as usize)?,
                Verb::Connect => return Err("an order that comes first only".into()),
            }
            say(endpoint, answer)?;
        }
        Ok(())
    }
}

/// Serves these tests until the program ends.
pub fn serve(port: Port) -> Result {
    let listener = Listener::bind(port).context(&format!("port {port}"))?;
    loop {
        let (endpoint, _) = listener.accept().context("accept")?;
        let attend = move || {
            let served = hear(&endpoint).and_then(|order| match order {
                Some(order) => End::new(&endpoint, order.argument, order.bytes, Wait::Poll)
                    .and_then(|mut end| end.attend(&endpoint)),
                None => Ok(()),
            });
            if let Err(failure) = served {
                runtime::eprintln!("scif-perf: a client of verbs: {failure}");
            }
        };
        thread::spawn(attend).context("a thread")?;
    }
}

/// The measuring end.
struct Client<'a> {
    end: End,
    endpoint: Endpoint,
    settings: &'a Settings,
}

impl<'a> Client<'a> {
    fn open(settings: &'a Settings, wait: Wait, pairs: u64, bytes: u64) -> Result<Self> {
        let to = PortId::new(settings.server.node(), settings.server.port() + AHEAD);
        let patient = Options::new().retry_for(TIME_LIMIT);
        let endpoint = patient.connect(to).context("connecting for verbs")?;
        let order = Order {
            bytes,
            ..Order::new(Verb::Connect, pairs)
        };
        say(&endpoint, order)?;
        let end = End::new(&endpoint, pairs, bytes, wait)?;
        Ok(Self {
            end,
            endpoint,
            settings,
        })
    }

    fn order(&mut self, verb: Verb, argument: u64, bytes: u64) -> Result {
        let order = Order {
            bytes,
            sleeps: match self.end.wait {
                Wait::Block => 1,
                Wait::Yield => 2,
                Wait::Poll | Wait::Usual => 0,
            },
            ..Order::new(verb, argument)
        };
        say(&self.endpoint, order)
    }

    fn answer(&mut self) -> Result<u64> {
        let answer = hear(&self.endpoint)?.ok_or("the server has gone")?;
        Ok(answer.argument)
    }

    /// Measures the nanoseconds of each of `rounds` round trips.
    fn play(&mut self, writes: bool, rounds: u64) -> Result<Vec<f64>> {
        self.order(
            if writes { Verb::EchoWrites } else { Verb::Echo },
            rounds,
            0,
        )?;
        let mut times = Vec::with_capacity(rounds as usize);
        let mut last = ticks();
        for number in 1..=rounds {
            let back = match writes {
                true => {
                    self.end.write(number)?;
                    self.end.written(number)?;
                    number
                }
                false => {
                    self.end.send(number)?;
                    self.end.take()?
                }
            };
            let now = ticks();
            times.push(self.settings.rate.between(last, now));
            last = now;
            if back != number {
                return Err("a wrong message came back".into());
            }
        }
        self.end.region.write(0, 0_u64)?;
        self.answer()?;
        self.end.flush()?;
        Ok(times)
    }

    fn rounds(&mut self, writes: bool) -> Result<u64> {
        const WARM_UP: u64 = 64;
        let mut warm = self.play(writes, WARM_UP)?;
        // The median: the first round trips take a thousand times as long as the others.
        warm.sort_by(f64::total_cmp);
        let middle = warm.get(warm.len() / 2).copied().unwrap_or_default();
        Ok(self.settings.rounds(middle))
    }

    /// Measures the nanoseconds until the other end has received `messages` messages. Completions
    /// are taken as they come, because a completion queue that overflows puts the queue pair in
    /// error. The program polls until the last send is complete, as perftest does: sends that wait
    /// for a receive make progress in its calls.
    fn pour(&mut self, messages: u64) -> Result<f64> {
        self.order(Verb::Take, messages, 0)?;
        self.answer()?;
        let start = ticks();
        for number in 1..=messages {
            let is_last = number == messages;
            while self.end.send_if_room(number, is_last)? {}
            if number.is_multiple_of(BATCH) && !is_last {
                self.end.take_sent()?;
            }
        }
        self.end.wait_for(messages)?;
        match self.answer()? == messages {
            true => Ok(self.settings.rate.between(start, ticks())),
            false => Err("messages came out of order".into()),
        }
    }
}

impl End {
    /// Sends the next message of a stream; the last is signaled. Returns whether the queue is full.
    fn send_if_room(&mut self, number: u64, is_last: bool) -> Result<bool> {
        match self.send_inline(number, is_last) {
            Ok(()) => Ok(false),
            Err(rdma::Error::NoMemory) => self.take_sent().map(|()| true),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the completions of sends that are there.
    fn take_sent(&mut self) -> Result {
        self.sends.poll(BATCH as usize, &mut self.found)?;
        self.check_sends()
    }

    /// Polls until the send with this number is complete.
    fn wait_for(&mut self, number: u64) -> Result {
        while self.found.iter().all(|wc| wc.id != number) {
            self.check_sends()?;
            self.sends.poll(BATCH as usize, &mut self.found)?;
        }
        self.check_sends()
    }

    fn send_inline(&mut self, number: u64, is_last: bool) -> rdma::Result<()> {
        let mut bytes = [0; MESSAGE];
        if let Some(word) = bytes.first_chunk_mut() {
            *word = number.to_ne_bytes();
        }
        let mut send = short(number, 1, ShortData::Inline(&bytes));
        if is_last {
            send.flags |= Flags::SIGNALED;
        }
        match self.pairs.first() {
            Some(pair) => pair.post_short(&send),
            None => Err(rdma::Error::Invalid),
        }
    }
}

/// Runs the tests of this module that the settings name.
pub fn run(settings: &Settings) -> Result {
    if settings.wants("rdma_write_rtt") {
        round_trips(settings, "rdma_write_rtt", true, settings.polling())?;
    }
    if settings.wants("rdma_send_rtt") {
        for wait in settings.waits() {
            round_trips(settings, "rdma_send_rtt", false, wait).context("rdma_send_rtt")?;
        }
    }
    if settings.wants("rdma_stream") {
        stream(settings).context("rdma_stream")?;
    }
    for (test, toward) in [("rdma_write", true), ("rdma_read", false)] {
        if settings.wants(test) {
            transfers(settings, test, toward).context(test)?;
        }
    }
    if settings.wants("rdma_pairs") {
        pairs(settings).context("rdma_pairs")?;
    }
    Ok(())
}

fn round_trips(settings: &Settings, test: &str, writes: bool, wait: Wait) -> Result {
    let size = if writes { 8 } else { MESSAGE as u64 };
    let mut client = Client::open(settings, wait, 1, 0)?;
    let rounds = client.rounds(writes)?;
    let mut samples = Samples::new();
    for repetition in 1..=settings.repetitions {
        settings.repetition(test, size, repetition)?;
        samples.add(client.play(writes, rounds)?);
    }
    settings.print_with(test, size, Unit::Nanoseconds, samples, |line| {
        line.with_text("wait", wait.name())
    });
    Ok(())
}

/// Measures streams of messages, as [`bandwidth::streams`] does for those of SCIF.
fn stream(settings: &Settings) -> Result {
    let (test, size) = ("rdma_stream", MESSAGE as u64);
    let mut client = Client::open(settings, settings.polling(), 1, 0)?;
    let samples = bandwidth::streams(settings, test, size, |count| client.pour(count))?;
    settings.print(test, size, Unit::BytesPerSecond, samples);
    Ok(())
}

/// Measures writes to and reads from all of the server's memory.
fn transfers(settings: &Settings, test: &str, toward: bool) -> Result {
    let bytes = bandwidth::whole(settings);
    let mut client = Client::open(settings, settings.polling(), 1, bytes as u64)?;
    match toward {
        true => fill(&client.end.region, bytes, SEED)?,
        false => {
            client.order(Verb::Fill, SEED, 0)?;
            client.answer()?;
        }
    }
    let mut transfer = |size: usize| -> Result {
        let end = &mut client.end;
        let segment = end.region.segment(0..size)?;
        let far = end.far(0);
        match toward {
            true => end.pair(0)?.write(1, &[segment], far)?,
            false => end.pair(0)?.read(1, &[segment], far)?,
        }
        while end.sends.poll(1, &mut end.found)? == 0 {}
        end.check_sends()
    };
    transfer(bytes)?;
    bandwidth::measure(settings, test, &mut transfer)?;
    let own = sum(&client.end.region, bytes)?;
    client.order(Verb::Sum, 0, bytes as u64)?;
    match client.answer()? == own {
        true => Ok(()),
        false => Err("wrong bytes arrived".into()),
    }
}

/// Measures round trips over each queue pair in turn.
fn pairs(settings: &Settings) -> Result {
    let test = "rdma_pairs_rtt";
    let wait = settings.polling();
    with_table(settings, MESSAGE as u64, |play| {
        for count in growth::steps(settings, &[1, 16, 256], 256) {
            let mut client = Client::open(settings, wait, count, 0)?;
            let (rounds, yards) = (client.rounds(false)?, rounds_of(settings, play)?);
            let (mut samples, mut yard) = (Samples::new(), Samples::new());
            for repetition in 1..=settings.repetitions {
                settings.repetition(test, count, repetition)?;
                samples.add(client.play(false, rounds)?);
                yard.add(play(yards)?);
            }
            growth::print_both(settings, test, count, [samples, yard], Some(wait));
        }
        Ok(())
    })
}
