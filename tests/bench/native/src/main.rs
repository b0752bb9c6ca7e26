//! `bench-native`: two nodes in one program, each on a thread and a core of its own: the engine,
//! its copy engine and the client library, without emulation. It also measures what they are
//! compared with.
//!
//! | test | size | unit | what |
//! | --- | --- | --- | --- |
//! | `native_pingpong` | 8 | ns | two threads, each polls a word and stores the other's |
//! | `native_msg_rtt` | 64 | ns | a message and one back by `scif_send` and `scif_recv`, polling |
//! | `native_c_rtt` | 64 | ns | the same by the calls of C programs with one thread |
//! | `native_c_threads_rtt` | 64 | ns | the same by those of C programs with several threads |
//! | `native_ring_rtt` | 64 | ns | the same by the ring protocol alone |
//! | `native_{unix,pipe,tcp}_rtt` | 64 | ns | the same by the system |
//! | `native_st_rtt` | 8 | ns | a header and one back by push and pull of `st`, polling |
//! | `native_st_put_rtt` | 8 | ns | the same, each header after 8 bytes that are put |
//! | `native_st_alone`, `native_st_put_alone` | 8 | ns | both with both ends on one thread |
//! | `native_verbs_alone` | 64 | ns | SENDs of verbs and polls for them, one thread |
//! | `native_msg_alone` | 64 | ns | messages and polls for them with both ends on one thread |
//! | `native_c_alone`, `native_c_threads_alone` | 64 | ns | the same by the calls of C programs |
//! | `native_st_stream` | 32 | bytes_per_s | headers one after the other |
//! | `native_st_put`, `native_st_get` | bytes | bytes_per_s | put and get of `st` |
//! | `native_memcpy` | bytes | bytes_per_s | the C library's copy: the limit |
//! | `native_rma`, `native_rma_read` | bytes | bytes_per_s | `writeto`, `readfrom` by a client |
//! | `native_engine_rma`, `native_engine_rma_read` | bytes | bytes_per_s | both by the engine |
//! | `native_copy_read` | 4096 | bytes_per_s | copies that a second thread reads: the limit |
//! | `native_stream` | 32, 4096 | bytes_per_s | messages one after the other by `scif_send` |
//! | `native_ring_stream` | 4096 | bytes_per_s | the same by the ring protocol alone |
//! | `native_connect` | 1 | ns | connecting, accepting and closing by both drivers |
//! | `native_unix_connect` | 1 | ns | the same with UNIX sockets, by one thread |
//! | `native_base_stream` | 4095 | bytes_per_s | by the drivers to a 4 KiB ring of a base peer |
//! | `native_engine_stream` | 4095 | bytes_per_s | by the drivers between nodes of ours |
//! | `native_base_copies` | 4095 | bytes_per_s | what fills and empties such a ring: the limit |
//! | `native_{unix,pipe,tcp}_stream` | 4096 | bytes_per_s | a stream of messages by the system |
//!
//! The lines are as in `scif_perf::report`. Tests that are compared run in turn, one repetition of
//! each, so that what disturbs the machine for a while affects both.

mod base;
mod c;
mod client;
mod connects;
mod memory;
mod messages;
mod raw;
mod read_copies;
mod rings;
mod rma;
mod streams;
mod threads;
mod transfers;
mod verbs;

use std::process::ExitCode;
use std::time::Instant;

use hal::clock::Rate;
use scif_perf::arguments::Arguments;
use scif_perf::report::{Line, TABLE_HEAD, Unit};
use scif_perf::samples::Samples;

use c::C;
use client::Client;
use messages::Pair;

const HELP: &str = "\
bench-native [options]: two nodes in one program, beside sockets, pipes and memcpy
  --test LIST        groups to run: rtt, rma, stream, connect, base, st (default: these), alone (to
                     count instructions: both ends on one thread)
  --repetitions N    repetitions (default 20)
  --budget-ms N      time for one test in a repetition (default 20)
  --quick            3 repetitions of 5 ms
  --json             a JSON object per line instead of a table";

/// The reason why something could not be measured.
pub type Failure = Box<dyn std::error::Error>;

/// The parameters of the measurement.
pub struct Settings {
    /// The rate of the counter.
    pub rate: Rate,
    /// Number of repetitions.
    pub repetitions: u32,
    /// Time for a test in a repetition, in nanoseconds.
    pub budget_ns: u64,
    json: bool,
}

/// A function that runs one repetition of a test and returns its samples.
type Repetition<'a> = Box<dyn FnMut(&Settings) -> Result<Vec<f64>, Failure> + 'a>;

/// A test, which is called once for each repetition.
pub struct Test<'a> {
    name: String,
    size: u64,
    unit: Unit,
    /// The name of one of several ways to do the same; the best one counts.
    routine: String,
    run: Repetition<'a>,
}

impl<'a> Test<'a> {
    /// Makes a test with this name and size.
    pub fn new(
        name: &str,
        size: usize,
        unit: Unit,
        run: impl FnMut(&Settings) -> Result<Vec<f64>, Failure> + 'a,
    ) -> Self {
        Self {
            name: name.to_string(),
            size: size as u64,
            unit,
            routine: String::new(),
            run: Box::new(run),
        }
    }

    /// Makes the test one of several ways to do the same.
    #[must_use]
    pub fn by(mut self, routine: &str) -> Self {
        self.routine = routine.to_string();
        self
    }
}

impl Settings {
    /// Runs tests in turn, one repetition of each after the other, and prints their results. The
    /// first repetition of each does not count.
    pub fn run(&self, mut tests: Vec<Test<'_>>) -> Result<(), Failure> {
        let mut samples = vec![Samples::new(); tests.len()];
        for repetition in 0..=self.repetitions {
            for (test, samples) in tests.iter_mut().zip(&mut samples) {
                let found = (test.run)(self).map_err(|error| format!("{}: {error}", test.name))?;
                if repetition > 0 {
                    samples.add(found);
                }
            }
        }
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        let turns = names.join("+");
        for (test, samples) in tests.iter().zip(samples) {
            if let Some(summary) = samples.summary() {
                let line = Line::new(&test.name, test.size, test.unit, summary);
                let line = line.with_text("turns", &turns);
                let line = match test.routine.as_str() {
                    "" => line,
                    routine => line.with_text("routine", routine),
                };
                if self.json {
                    println!("{}", line.json());
                } else {
                    println!("{line}");
                }
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bench-native: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let arguments = Arguments::parse(
        std::env::args().skip(1),
        &["--json", "--quick", "--help"],
        &["--test", "--repetitions", "--budget-ms"],
    )?;
    if arguments.has("--help") {
        println!("{HELP}");
        return Ok(());
    }
    let quick = arguments.has("--quick");
    let start = Instant::now();
    let rate = Rate::measure(|| start.elapsed().as_nanos() as u64);
    let budget: u64 = arguments.number("--budget-ms", if quick { 5 } else { 20 })?;
    let settings = Settings {
        rate: rate.ok_or("the clocks stand still")?,
        repetitions: arguments.number("--repetitions", if quick { 3 } else { 20 })?,
        budget_ns: budget * 1_000_000,
        json: arguments.has("--json"),
    };
    const GROUPS: [&str; 7] = ["rtt", "rma", "stream", "connect", "base", "st", "alone"];
    let usual = GROUPS[..6].join(",");
    let list = arguments.text("--test").unwrap_or(&usual);
    if let Some(word) = list.split(',').find(|word| !GROUPS.contains(word)) {
        return Err(format!("there is no group '{word}'").into());
    }
    let wants = |group: &str| list.split(',').any(|word| word == group);
    if !settings.json {
        println!("{TABLE_HEAD}");
    }
    hal::measure::measure(None).choices.apply();
    threads::pin(0)?;
    if wants("rtt") {
        let clients = Pair::<Client>::start(memory::connected()?)?;
        let in_c = Pair::<Client<C<false>>>::start(memory::connected()?)?;
        let in_c_threads = Pair::<Client<C<true>>>::start(memory::connected()?)?;
        let rings = Pair::<rings::End>::start(memory::connected()?)?;
        let mut tests = vec![
            raw::ping_pong(),
            rings.round_trips("native_ring_rtt", 64),
            clients.round_trips("native_msg_rtt", 64),
            in_c.round_trips("native_c_rtt", 64),
            in_c_threads.round_trips("native_c_threads_rtt", 64),
        ];
        tests.extend(streams::round_trips(64)?);
        settings.run(tests)?;
    }
    if wants("rma") {
        rma::run(&settings)?;
    }
    if wants("stream") {
        let clients = Pair::<Client>::start(memory::connected()?)?;
        let rings = Pair::<rings::End>::start(memory::connected()?)?;
        let mut tests = vec![
            rings.stream("native_ring_stream", 4096),
            clients.stream("native_stream", 4096),
        ];
        tests.extend(read_copies::tests()?);
        tests.extend(streams::streams(4096)?);
        settings.run(tests)?;
    }
    if wants("connect") {
        settings.run(connects::tests()?)?;
    }
    if wants("base") {
        base::run(&settings)?;
    }
    if wants("st") {
        let clients = Pair::<Client>::start(memory::connected()?)?;
        let ends = transfers::Pair::start(memory::connected()?)?;
        settings.run(vec![
            raw::ping_pong(),
            ends.round_trips("native_st_rtt", false),
            ends.round_trips("native_st_put_rtt", true),
        ])?;
        settings.run(vec![
            clients.stream("native_stream", 32),
            ends.stream("native_st_stream"),
        ])?;
        settings.run(vec![
            rma::memcpy(1 << 20),
            ends.transfers("native_st_put", true),
            ends.transfers("native_st_get", false),
        ])?;
    }
    if wants("alone") {
        let clients = Pair::<Client>::start(memory::connected()?)?;
        settings.run(vec![clients.alone("native_msg_alone", 64)])?;
        let in_c = Pair::<Client<C<false>>>::start(memory::connected()?)?;
        let in_c_threads = Pair::<Client<C<true>>>::start(memory::connected()?)?;
        settings.run(vec![
            in_c.alone("native_c_alone", 64),
            in_c_threads.alone("native_c_threads_alone", 64),
        ])?;
        let ends = transfers::Pair::start(memory::connected()?)?;
        settings.run(vec![
            ends.alone("native_st_alone", false),
            ends.alone("native_st_put_alone", true),
        ])?;
        let mut ends = verbs::Pair::start(memory::connected()?)?;
        settings.run(vec![ends.alone("native_verbs_alone")])?;
    }
    Ok(())
}
