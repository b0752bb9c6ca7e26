//! Scheduled Transfers by the library `st`, as programs make them: push and pull, put and get. As
//! for the client library (`client`), this module answers the few system calls in place of `micd`.
//! Between attach and detach there are none, except the check whether the driver is alive.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use hal::clock::ticks;
use hal::mem::PAGE;
use hal::testing::host::{self, Request};
use libredox::Fd;
use scif::{Endpoint, Waiting};
use scif_abi::call::{Call, MemoryCall};
use scif_abi::codec::Operation;
use scif_abi::flags::MapFlags;
use scif_perf::pattern;
use scif_perf::report::Unit;
use scif_perf::timing;
use st::{Connection, Deadline, Memory, Options, Receiver, Region, Remote, Sender};
use syscall::error::{EINVAL, ENXIO, Error, Result as SystemResult};

use crate::client::{self, ENDPOINT};
use crate::memory::{Node, said};
use crate::{Failure, Settings, Test, threads};

/// The descriptors of a memory object, of the peer's windows, and of an event queue.
const MEMORY: usize = 10;
const WINDOWS: usize = 11;
const EVENTS: usize = 12;

/// The time at which the monotonic clock starts.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Bytes that an end maps for its peer.
const REGION: usize = 1 << 20;

/// A whole header: a word with its number, and three more.
type Header = [u64; 4];

/// The number of a test's last header.
const END: u64 = u64::MAX;

/// A window of an end: its offset, and the address of its memory.
#[derive(Clone, Copy)]
struct Window {
    offset: i64,
    address: usize,
    bytes: u64,
}

/// The memory of an end, as `micd` has it.
#[derive(Default)]
struct Registered {
    /// The address of the latest memory object, which is also its token.
    object: usize,
    windows: Vec<Window>,
}

impl Registered {
    /// Finds the address of the peer's byte at `offset`, and the bytes of its window from there
    /// on.
    fn find(&self, offset: i64) -> SystemResult<(usize, u64)> {
        let ahead = |window: &Window| {
            let ahead = u64::try_from(offset.checked_sub(window.offset)?).ok()?;
            let rest = window.bytes.checked_sub(ahead).filter(|rest| *rest > 0)?;
            Some((window.address + ahead as usize, rest))
        };
        let found = self.windows.iter().find_map(ahead);
        found.ok_or(Error::new(ENXIO))
    }
}

/// The system as a program of one end sees it.
#[derive(Clone)]
struct System {
    rings: client::System,
    own: Arc<Mutex<Registered>>,
    peer: Arc<Mutex<Registered>>,
}

impl System {
    fn answer(&self, request: Request<'_>) -> SystemResult<usize> {
        let own = || self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = || self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        match request {
            Request::Open("/scheme/scif/memory") => Ok(MEMORY),
            Request::Open("/scheme/event") => Ok(EVENTS),
            Request::Write(EVENTS, bytes) => Ok(bytes.len()),
            // No events are reported: a thread that waits polls again.
            Request::Read(EVENTS, _) => {
                std::thread::sleep(Duration::from_micros(100));
                Ok(0)
            }
            Request::Clock(_, time) => {
                let now = START.elapsed();
                time.tv_sec = now.as_secs() as i64;
                time.tv_nsec = i64::from(now.subsec_nanos());
                Ok(0)
            }
            Request::Dup(ENDPOINT, b"window" | b"cached-window") => Ok(WINDOWS),
            Request::Map { fd: MEMORY, .. } => Ok(own().object),
            Request::Map {
                fd: WINDOWS,
                offset,
                ..
            } => peer().find(offset as i64).map(|(address, _)| address),
            Request::Call(MEMORY, payload, [number, first, second]) => {
                match MemoryCall::decode(*number, [*first, *second], payload) {
                    Ok(MemoryCall::Provide { pages }) => {
                        let object = host::pages(pages as usize * PAGE)?.as_ptr() as usize;
                        own().object = object;
                        Ok(object)
                    }
                    _ => Err(Error::new(EINVAL)),
                }
            }
            Request::Call(ENDPOINT, payload, [number, first, second]) => {
                match Call::decode(*number, [*first, *second], payload) {
                    Ok(Call::Register { record }) => {
                        let mut own = own();
                        let offset = match record.flags.get() & MapFlags::FIXED.bits() {
                            0 => own.windows.len() as i64 * REGION as i64,
                            _ => record.offset.get(),
                        };
                        own.windows.push(Window {
                            offset,
                            address: (record.memory.get() + record.memory_offset.get()) as usize,
                            bytes: record.length.get(),
                        });
                        Ok(offset as usize)
                    }
                    Ok(Call::Unregister { .. }) => Ok(0),
                    Ok(Call::MapRun {
                        remote_offset,
                        length,
                    }) => match peer().find(remote_offset)? {
                        (_, rest) if rest >= length => Ok(length as usize),
                        _ => Err(Error::new(ENXIO)),
                    },
                    _ => {
                        let metadata = [*number, *first, *second];
                        let call = Request::Call(ENDPOINT, payload, &metadata);
                        self.rings.answer(call)
                    }
                }
            }
            request => self.rings.answer(request),
        }
    }

    /// Runs a part of the program.
    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let system = self.clone();
        host::play(move |request| system.answer(request), work)
    }
}

/// One end: a channel, and the memory that both ends have mapped on it.
struct End {
    sender: Sender,
    receiver: Receiver,
    own: Region,
    remote: Remote,
    system: System,
}

impl End {
    fn open(
        system: System,
        open: impl FnOnce(Endpoint) -> st::Result<Connection>,
    ) -> st::Result<Self> {
        system.within(|| {
            let endpoint = Endpoint::from_file(Fd::new(ENDPOINT));
            // The system here moves no bytes in place of the driver, as is needed before rings are
            // mapped.
            endpoint.prepare()?;
            let link = open(endpoint)?;
            let (mut sender, receiver) = link.channel(0)?.split();
            let own = sender.map(Memory::new(REGION)?)?;
            Ok(Self {
                remote: sender.remote(Deadline::Never)?,
                sender,
                receiver,
                own,
                system: system.clone(),
            })
        })
    }

    /// Answers every header by one, up to the last one. With `puts` each answer follows 8 bytes
    /// that were put.
    fn answer(&mut self, puts: bool) -> Result<(), Failure> {
        loop {
            let number = self.receiver.pull::<u64>()?;
            match puts && number != END {
                true => self.put_with(self.own.read(0).map_err(said("reading"))?, number)?,
                false => self.sender.push(&number)?,
            }
            if number == END {
                return Ok(());
            }
        }
    }

    #[inline]
    fn put_with(&mut self, value: u64, number: u64) -> Result<(), Failure> {
        let place = self.remote.at(0)?;
        Ok(self.sender.put_with(&value.to_ne_bytes(), place, &number)?)
    }

    /// Takes headers up to the last one, and answers with their number.
    fn count(&mut self) -> Result<(), Failure> {
        let mut count = 0_u64;
        loop {
            let [number, rest @ ..] = self.receiver.pull::<Header>()?;
            if number == END {
                return Ok(self.sender.push(&count)?);
            }
            if number != count || rest != [!count; 3] {
                return Err("a wrong header arrived".into());
            }
            count += 1;
        }
    }
}

/// Both ends of a connection.
pub struct Pair {
    ends: RefCell<[End; 2]>,
    /// The nodes whose memory holds the rings.
    _nodes: [Node; 2],
}

impl Pair {
    /// Opens both ends.
    pub fn start(mut nodes: [Node; 2]) -> Result<Self, Failure> {
        let [first, second] = &mut nodes;
        let rings = client::System::new(first, second)?;
        let memory = [(); 2].map(|()| Arc::new(Mutex::new(Registered::default())));
        let [own, peer] = memory;
        let client = System {
            rings,
            own: own.clone(),
            peer: peer.clone(),
        };
        let server = System {
            rings: client::System::new(second, first)?,
            own: peer,
            peer: own,
        };
        let options = Options::new().waiting(Waiting::Poll);
        let ends = std::thread::scope(|scope| {
            let server = scope.spawn(|| End::open(server, |end| Connection::answer(end, &options)));
            let client = End::open(client, |end| Connection::request(end, &options))?;
            let server = server.join().map_err(|_| "the second thread panicked")?;
            Ok::<_, Failure>([client, server?])
        })?;
        Ok(Self {
            ends: RefCell::new(ends),
            _nodes: nodes,
        })
    }

    /// Runs `work` at the first end while a second thread serves the other end.
    fn beside(
        &self,
        serve: impl FnOnce(&mut End) -> Result<(), Failure> + Send,
        work: impl FnOnce(&mut End) -> Result<Vec<f64>, Failure>,
    ) -> Result<Vec<f64>, Failure> {
        let [client, server] = &mut *self.ends.borrow_mut();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let bound = threads::pin(1);
                let system = server.system.clone();
                let served = bound.and_then(|()| system.within(|| serve(server)));
                served.map_err(|failure| failure.to_string())
            });
            let system = client.system.clone();
            let result = system.within(|| work(client));
            joined(thread)?;
            result
        })
    }

    /// Returns the test of a header and one back; with `puts` each after 8 bytes that are put into
    /// the other's memory.
    pub fn round_trips(&self, name: &str, puts: bool) -> Test<'_> {
        let run = move |settings: &Settings| {
            self.beside(
                |server| server.answer(puts),
                |client| client.play(settings, puts),
            )
        };
        Test::new(name, size_of::<u64>(), Unit::Nanoseconds, run)
    }

    /// Returns the test of a header and one back with both ends on one thread, so that no end
    /// waits. It is for counting instructions.
    pub fn alone(&self, name: &str, puts: bool) -> Test<'_> {
        let run = move |settings: &Settings| {
            let [client, server] = &mut *self.ends.borrow_mut();
            let system = client.system.clone();
            let (rate, budget) = (settings.rate, settings.budget_ns);
            let mut number = 0;
            system.within(|| {
                timing::durations(rate, budget, || {
                    number += 1;
                    alone(client, server, puts, number)
                })
            })
        };
        Test::new(name, size_of::<u64>(), Unit::Nanoseconds, run)
    }

    /// Returns the test of headers one after the other.
    pub fn stream(&self, name: &str) -> Test<'_> {
        let run = |settings: &Settings| self.beside(End::count, |client| client.pour(settings));
        Test::new(name, size_of::<Header>(), Unit::BytesPerSecond, run)
    }

    /// Returns the test of putting or getting data of an end's whole memory.
    pub fn transfers(&self, name: &str, toward: bool) -> Test<'_> {
        let mut buffer = vec![0; REGION + PAGE];
        // The data begins at a page boundary, which is best for transfers.
        let skip = buffer.as_ptr().align_offset(PAGE);
        let run = move |settings: &Settings| {
            let data = &mut buffer[skip..skip + REGION];
            if toward {
                pattern::fill(data, 5);
            }
            let [client, server] = &mut *self.ends.borrow_mut();
            let place = client.remote.at(0)?;
            let system = client.system.clone();
            let (rate, budget) = (settings.rate, settings.budget_ns);
            let samples = system.within(|| {
                timing::rates(rate, REGION as u64, budget, || match toward {
                    true => client.sender.put(data, place),
                    false => client.receiver.get(data, place),
                })
            })?;
            let mut there = vec![0; REGION];
            let read = server.own.copy_out(0, &mut there);
            read.map_err(said("reading"))?;
            match there == data {
                true => Ok(samples),
                false => Err("wrong bytes arrived".into()),
            }
        };
        Test::new(name, REGION, Unit::BytesPerSecond, run)
    }
}

/// Makes a round trip. The functions are separate, so that their instructions can be counted.
#[inline(never)]
fn alone(client: &mut End, server: &mut End, puts: bool, number: u64) -> Result<(), Failure> {
    one_way(client, server, puts, number)?;
    one_way(server, client, puts, number)
}

#[inline(never)]
fn one_way(from: &mut End, to: &mut End, puts: bool, number: u64) -> Result<(), Failure> {
    match puts {
        true => from.put_with(number, number)?,
        false => from.sender.push(&number)?,
    }
    match to.receiver.pull::<u64>()? == number {
        true => Ok(()),
        false => Err("a wrong header came".into()),
    }
}

fn joined(thread: ScopedJoinHandle<'_, Result<(), String>>) -> Result<(), Failure> {
    match thread.join() {
        Ok(served) => Ok(served?),
        Err(_) => Err("the second thread panicked".into()),
    }
}

impl End {
    fn play(&mut self, settings: &Settings, puts: bool) -> Result<Vec<f64>, Failure> {
        /// Number of round trips in a sample.
        const ROUNDS: u64 = 100;
        let mut number = 0;
        let mut round = |end: &mut Self| -> Result<(), Failure> {
            number += 1;
            match puts {
                true => end.put_with(!number, number)?,
                false => end.sender.push(&number)?,
            }
            let back = end.receiver.pull::<u64>()?;
            if back != number || puts && end.own.read(0) != Ok(!number) {
                return Err("a wrong header came back".into());
            }
            Ok(())
        };
        // Wait until the other end runs.
        round(self)?;
        let mut samples = Vec::new();
        let end = ticks() + settings.rate.ticks(settings.budget_ns);
        let mut last = ticks();
        while last < end {
            for _ in 0..ROUNDS {
                round(self)?;
            }
            let now = ticks();
            samples.push(settings.rate.between(last, now) / ROUNDS as f64);
            last = now;
        }
        self.sender.push(&END)?;
        self.receiver.pull::<u64>()?;
        Ok(samples)
    }

    fn pour(&mut self, settings: &Settings) -> Result<Vec<f64>, Failure> {
        /// Number of headers in a sample: they fill many queues, so that waiting for room counts.
        const HEADERS: u64 = 1000;
        let mut count = 0;
        let mut samples = Vec::new();
        let end = ticks() + settings.rate.ticks(settings.budget_ns);
        let mut last = ticks();
        while last < end {
            for _ in 0..HEADERS {
                self.sender.push(&[count, !count, !count, !count])?;
                count += 1;
            }
            let now = ticks();
            let bytes = (HEADERS as usize * size_of::<Header>()) as f64;
            samples.push(bytes * 1e9 / settings.rate.between(last, now).max(1.0));
            last = now;
        }
        self.sender.push(&[END; 4])?;
        match self.receiver.pull::<u64>()? == count {
            true => Ok(samples),
            false => Err("headers were lost".into()),
        }
    }
}
