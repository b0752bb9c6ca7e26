//! Bytes per second: transfers between windows, copies through mappings, streams of messages.

use alloc::format;
use alloc::vec::Vec;

use hal::clock::ticks;
use scif::{Initiator, Memory, Protection, RmaFlags, Signal, View};

use super::latency::path_name;
use super::server::{fill, sum, touched};
use super::session::{PAGE, Session};
use super::wire::{Request, Verb, Wait, hear, tell};
use super::{Context, Path, Result, Settings};
use crate::pattern::{self, Sum};
use crate::report::Unit;
use crate::samples::Samples;
use crate::timing;

const MIN_BYTES: u64 = 64;
const MAX_BYTES: u64 = 64 << 20;

/// Smallest number of entries in the address cache of an emulator. Two buffers whose page numbers
/// differ by a multiple of it share an entry, which makes copies slow.
const CACHE_ENTRIES: usize = 64;
/// By how many pages buffers are kept apart, in addition to multiples of [`CACHE_ENTRIES`].
const DISTANCE: usize = 37;

/// Runs the tests of this module that the settings name.
pub fn run(settings: &Settings) -> Result {
    for (test, toward, is_own, end) in [
        ("rma_write", true, false, End::Sync),
        ("rma_read", false, false, End::Sync),
        ("own_rma_write", true, true, End::Sync),
        ("own_rma_read", false, true, End::Sync),
        ("marked_write", true, false, End::Mark),
        ("signaled_write", true, false, End::Signal),
    ] {
        if settings.wants(test) {
            between_windows(settings, test, (toward, end), is_own).context(test)?;
        }
    }
    for (test, toward) in [("vrma_write", true), ("vrma_read", false)] {
        if settings.wants(test) {
            with_buffer(settings, test, toward).context(test)?;
        }
    }
    for (test, toward) in [("pio_write", true), ("pio_read", false)] {
        if settings.wants(test) {
            mapped(settings, test, toward).context(test)?;
        }
    }
    if settings.wants("local_copy") {
        local(settings).context("local_copy")?;
    }
    let streams = [
        ("stream", true, settings.path, 4 << 10),
        ("stream_read", false, settings.path, 4 << 10),
        ("file_stream", true, Path::File, 64 << 10),
        ("file_stream_read", false, Path::File, 64 << 10),
    ];
    for (test, toward, path, size) in streams {
        if settings.wants(test) {
            for size in settings.sizes(&[size]) {
                stream(settings, test, toward, path, size).context(test)?;
            }
        }
    }
    Ok(())
}

fn sizes(settings: &Settings) -> Vec<u64> {
    let factor = if settings.all { 2 } else { 4 };
    let next = |size: &u64| Some(size * factor).filter(|size| *size <= MAX_BYTES);
    let default: Vec<u64> = core::iter::successors(Some(MIN_BYTES), next).collect();
    settings.sizes(&default)
}

/// Measures copies of all sizes of the settings. Each repetition covers all sizes, so that a
/// disturbance of the machine does not affect one size alone.
pub fn measure(settings: &Settings, test: &str, mut copy: impl FnMut(usize) -> Result) -> Result {
    let sizes = sizes(settings);
    let mut samples = alloc::vec![Samples::new(); sizes.len()];
    for repetition in 1..=settings.repetitions {
        for (&size, samples) in sizes.iter().zip(&mut samples) {
            settings.repetition(test, size, repetition)?;
            let copy = || copy(size as usize);
            samples.add(timing::rates(
                settings.rate,
                size,
                settings.budget_ns,
                copy,
            )?);
        }
    }
    for (size, samples) in sizes.into_iter().zip(samples) {
        settings.print(test, size, Unit::BytesPerSecond, samples);
    }
    Ok(())
}

/// The largest size of the settings, rounded up to whole pages.
pub fn whole(settings: &Settings) -> usize {
    let largest = sizes(settings).into_iter().max().unwrap_or(MIN_BYTES);
    (largest as usize).next_multiple_of(PAGE)
}

/// Access to the contents of the server's window, for comparison.
struct Ends<'a, 's> {
    session: &'a Session<'s>,
    bytes: usize,
}

impl Ends<'_, '_> {
    fn remote_sum(&self) -> Result<u64> {
        let request = Request::new(Verb::Sum, self.bytes as u64);
        self.session.ask(&request)
    }

    fn fill_remote(&self, seed: u64) -> Result {
        let request = Request {
            count: seed,
            ..Request::new(Verb::Fill, self.bytes as u64)
        };
        self.session.ask(&request).map(|_| ())
    }

    /// Compares the checksum of the server's window with that of the own one.
    fn compare(&self, own: u64) -> Result {
        match self.remote_sum()? == own {
            true => Ok(()),
            false => {
                Err(format!("wrong bytes arrived in the server's {} bytes", self.bytes).into())
            }
        }
    }
}

/// The seed of the test patterns.
pub const SEED: u64 = 0x5eed;

/// How the end of a transfer is known.
#[derive(Clone, Copy)]
enum End {
    /// The call returns then.
    Sync,
    /// By a mark and a wait for it.
    Mark,
    /// By a value that is stored into the peer's memory. The transfer itself is not waited for.
    Signal,
}

/// Measures transfers between windows: of the programs' own memory at both ends, or of the
/// daemons'.
fn between_windows(
    settings: &Settings,
    test: &str,
    (toward, end): (bool, End),
    is_own: bool,
) -> Result {
    let session = Session::open(settings)?;
    let bytes = whole(settings);
    // A page behind the data is for signals.
    let room = bytes + PAGE;
    let (remote, memory) = match is_own {
        true => (session.borrow_own(room as u64)?, touched(room)?),
        false => {
            let memory = Memory::new(room).context("memory for a window")?;
            (session.borrow(room as u64)?, memory)
        }
    };
    let window = session.endpoint.register(&memory)?;
    let endpoint = &session.endpoint;
    let flags = match end {
        End::Sync => RmaFlags::SYNC,
        End::Mark | End::Signal => RmaFlags::empty(),
    };
    let mut signal = Signal {
        offset: remote + bytes as i64,
        value: 0,
    };
    let mut transfer = |size: usize| {
        let part = window.part(0..size)?;
        if toward {
            endpoint.write_to(part, remote, flags)?;
        } else {
            endpoint.read_from(part, remote, flags)?;
        }
        match end {
            End::Sync => {}
            End::Mark => endpoint.fence_wait(endpoint.fence_mark(Initiator::Own)?)?,
            End::Signal => {
                signal.value += 1;
                endpoint.fence_signal(Initiator::Own, None, Some(signal))?;
            }
        }
        Ok(())
    };
    let ends = Ends {
        session: &session,
        bytes,
    };
    if toward {
        fill(&memory, bytes, SEED)?;
    } else {
        ends.fill_remote(SEED + 1)?;
    }
    transfer(bytes)?;
    ends.compare(sum(&memory, bytes)?)?;
    measure(settings, test, &mut transfer)?;
    ends.compare(sum(&memory, bytes)?)?;
    window.unregister()?;
    session.release()
}

/// A buffer of the program that keeps a distance to the memory at `other` in the address cache of
/// an emulator ([`CACHE_ENTRIES`]).
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// A buffer of this length.
    pub fn new(length: usize, other: usize) -> Result<Self> {
        let mut bytes = Vec::new();
        let whole = length + (CACHE_ENTRIES + 1) * PAGE;
        if bytes.try_reserve_exact(whole).is_err() {
            return Err("no memory for a buffer".into());
        }
        bytes.resize(whole, 0);
        let address = (bytes.as_ptr() as usize).next_multiple_of(PAGE);
        let first = address - bytes.as_ptr() as usize;
        let distance = (address / PAGE).wrapping_sub(other / PAGE) % CACHE_ENTRIES;
        let more = (DISTANCE + CACHE_ENTRIES - distance) % CACHE_ENTRIES;
        Ok(Self {
            bytes,
            start: first + more * PAGE,
        })
    }

    /// The first bytes of the buffer.
    pub fn part(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + length]
    }

    /// Fills the first bytes of the buffer with a pattern.
    pub fn fill(&mut self, length: usize) {
        pattern::fill(self.part(length), SEED + 2);
    }

    /// The checksum of the first bytes of the buffer.
    pub fn sum(&mut self, length: usize) -> u64 {
        pattern::sum(self.part(length))
    }
}

fn with_buffer(settings: &Settings, test: &str, toward: bool) -> Result {
    let session = Session::open(settings)?;
    let bytes = whole(settings);
    let remote = session.borrow(bytes as u64)?;
    let mut buffer = Buffer::new(bytes, 0)?;
    let ends = Ends {
        session: &session,
        bytes,
    };
    let endpoint = &session.endpoint;
    let transfer = |buffer: &mut Buffer, size: usize| -> Result {
        let part = buffer.part(size);
        if toward {
            endpoint.vwrite_to(part, remote, RmaFlags::SYNC)?;
        } else {
            endpoint.vread_from(part, remote, RmaFlags::SYNC)?;
        }
        Ok(())
    };
    if toward {
        buffer.fill(bytes);
    } else {
        ends.fill_remote(SEED + 3)?;
    }
    transfer(&mut buffer, bytes)?;
    ends.compare(buffer.sum(bytes))?;
    measure(settings, test, |size| transfer(&mut buffer, size))?;
    ends.compare(buffer.sum(bytes))?;
    session.release()
}

fn copy(view: &View, buffer: &mut Buffer, size: usize, toward: bool) -> Result {
    let part = buffer.part(size);
    match toward {
        true => view.copy_in(0, part)?,
        false => view.copy_out(0, part)?,
    }
    Ok(())
}

fn mapped(settings: &Settings, test: &str, toward: bool) -> Result {
    let session = Session::open(settings)?;
    let bytes = whole(settings);
    let remote = session.borrow(bytes as u64)?;
    let rights = Protection::READ | Protection::WRITE;
    let mapping = session.endpoint.map(remote, bytes, rights)?;
    let mut buffer = Buffer::new(bytes, mapping.address())?;
    let ends = Ends {
        session: &session,
        bytes,
    };
    if toward {
        buffer.fill(bytes);
    } else {
        ends.fill_remote(SEED + 4)?;
    }
    copy(&mapping, &mut buffer, bytes, toward)?;
    ends.compare(buffer.sum(bytes))?;
    measure(settings, test, |size| {
        copy(&mapping, &mut buffer, size, toward)
    })?;
    ends.compare(buffer.sum(bytes))?;
    drop(mapping);
    session.release()
}

fn local(settings: &Settings) -> Result {
    let bytes = whole(settings);
    let memory = Memory::ordinary(bytes)?;
    let mut buffer = Buffer::new(bytes, memory.address())?;
    buffer.fill(bytes);
    copy(&memory, &mut buffer, bytes, true)?;
    measure(settings, "local_copy", |size| {
        copy(&memory, &mut buffer, size, true)
    })?;
    match sum(&memory, bytes)? == buffer.sum(bytes) {
        true => Ok(()),
        false => Err(format!("wrong bytes arrived in a copy of {bytes} bytes").into()),
    }
}

/// Measures a stream, with one sample in each repetition, in bytes per second. `pour` sends the
/// given number of messages and returns the nanoseconds that they took.
///
/// At the end of a stream its sender may sleep and be woken, which takes some hundred
/// microseconds. So each repetition consists of one stream. Its length is found in steps, because
/// a short stream alone would make a message seem slow, and the stream would be too short. For the
/// same reason no step makes it shorter.
pub fn streams(
    settings: &Settings,
    test: &str,
    size: u64,
    mut pour: impl FnMut(u64) -> Result<f64>,
) -> Result<Samples> {
    const FIRST: u64 = 64;
    const STEPS: u32 = 8;
    let mut count = FIRST;
    for _ in 0..STEPS {
        let one = pour(count)? / count as f64;
        count = settings.rounds(one).max(count);
    }
    let mut samples = Samples::new();
    for repetition in 1..=settings.repetitions {
        settings.repetition(test, size, repetition)?;
        let nanoseconds = pour(count)?;
        samples.add([(count * size) as f64 * 1e9 / nanoseconds.max(1.0)].to_vec());
    }
    Ok(samples)
}

/// Measures streams of messages of one size. The time of a stream begins when the server is ready.
fn stream(settings: &Settings, test: &str, toward: bool, path: Path, size: u64) -> Result {
    let session = Session::open(settings)?;
    let mut message = alloc::vec![0; size as usize];
    let request = Request {
        path,
        ..Request::new(if toward { Verb::Sink } else { Verb::Source }, size)
    };
    let mut channel = session.channel(Wait::Block);
    channel.path = path;
    if toward {
        pattern::fill(&mut message, SEED);
    }
    let pour = |count: u64| -> Result<f64> {
        let message = message.as_mut_slice();
        Request { count, ..request }.say(&session.endpoint)?;
        hear(&session.endpoint)?;
        let start = ticks();
        if toward {
            for _ in 0..count {
                channel.send(message)?;
            }
            let theirs = hear(&session.endpoint)?;
            let nanoseconds = settings.rate.between(start, ticks());
            return match theirs == pattern::sum(message) {
                true => Ok(nanoseconds),
                false => Err(format!(
                    "wrong bytes arrived in a stream to the server, messages of {size}"
                )
                .into()),
            };
        }
        for _ in 0..count {
            channel.receive(message)?;
        }
        let nanoseconds = settings.rate.between(start, ticks());
        tell(&session.endpoint, 0)?;
        let mut wanted = alloc::vec![0; message.len()];
        pattern::fill(&mut wanted, size);
        match wanted == message {
            true => Ok(nanoseconds),
            false => Err(format!(
                "wrong bytes arrived in a stream from the server, messages of {size}"
            )
            .into()),
        }
    };
    let samples = streams(settings, test, size, pour)?;
    if toward {
        every_byte(&session, channel.path, size)?;
    }
    settings.print_with(test, size, Unit::BytesPerSecond, samples, |line| {
        line.with_text(
            "path",
            match path {
                Path::Bypass => path_name(settings),
                Path::File => "file",
            },
        )
    });
    Ok(())
}

/// Sends a short stream of messages that all differ; the server checks every byte of it.
fn every_byte(session: &Session<'_>, path: Path, size: u64) -> Result {
    const MESSAGES: u64 = 64;
    let request = Request {
        path,
        count: MESSAGES,
        offset: 1,
        ..Request::new(Verb::Sink, size)
    };
    let mut channel = session.channel(Wait::Block);
    channel.path = path;
    let mut message = alloc::vec![0; size as usize];
    let mut sum = Sum::default();
    request.say(&session.endpoint)?;
    hear(&session.endpoint)?;
    for number in 0..MESSAGES {
        pattern::fill(&mut message, number + 1);
        sum.add(&message);
        channel.send(&message)?;
    }
    match hear(&session.endpoint)? == sum.value() {
        true => Ok(()),
        false => Err(format!("wrong bytes arrived in {MESSAGES} messages of {size}").into()),
    }
}
