//! What two nodes can do at most through the same aperture and the same doorbells, without SCIF:
//! the limits that the figures of `scif-perf` are compared with.
//!
//! The same command runs on both nodes; the one the link memory names first measures, the other
//! plays along. Names of the tests (`--test`, and `test` in the JSON lines, see
//! `scif_perf::report`):
//!
//! | test | size | unit | what |
//! | --- | --- | --- | --- |
//! | `bare_pingpong` | 8 | ns | both sides poll a word of their own memory and store the other's |
//! | `bare_write` | bytes | bytes_per_s | own memory to the peer's, through the aperture |
//! | `bare_read` | bytes | bytes_per_s | the peer's memory to the own |
//! | `bare_local` | bytes | bytes_per_s | own memory to own memory |
//! | `bare_doorbell` | 8 | ns | a doorbell and one back, both sides asleep until it comes |
//!
//! Copies have a line for each routine (key `routine`); the limit is the best of a size.
//!
//! `bare_pingpong` and the copies run beside `micd`, in the same boot as `scif-perf`: they only map
//! device memory, as root may. `bare_doorbell` has to own the link device, so it runs before `micd`
//! starts, from a start script (`files/lib/init.d/20_bare`).
//!
//! A source and a target whose page numbers differ by a multiple of a large power of two evict each
//! other from the emulator's address cache; buffers are placed so that they never do.
#![no_std]
#![no_main]

extern crate alloc;

mod copies;
mod doorbells;
mod link;
mod meeting;
mod pingpong;
mod station;

use alloc::format;
use alloc::string::String;

use platform::clock::Rate;
use runtime::time::Instant;
use scif_perf::arguments::Arguments;
use scif_perf::report::{Line, TABLE_HEAD};

runtime::main!(main);

const HELP: &str = "\
scif-bare [PEER] [options]: measures two nodes without SCIF; run it on both of them
  PEER               number of the other node; needed when there are several
  --doorbells        own the link device (micd must not run) and measure doorbells only
  --test LIST        some of: pingpong, write, read, local (default: all)
  --size LIST        sizes of copies, for example 64,4K,1M (default: 64 to 64M, doubling)
  -n N               round trips of a repetition (default 20000; doorbells 500)
  --repetitions N    repetitions (default 5)
  --budget-ms N      time for the copies of one size in a repetition (default 8)
  --json             a JSON object per line instead of a table
examples, on both nodes:
  scif-bare
  scif-bare --test write,read --size 64K,1M --json";

/// Why a measurement could not be made, for people.
pub type Failure = String;

/// The options that concern measuring.
pub struct Settings {
    /// The counter's rate.
    pub rate: Rate,
    /// The tests that are asked for; none: all.
    pub tests: Option<String>,
    /// Sizes of copies in bytes.
    pub sizes: Option<alloc::vec::Vec<u64>>,
    /// Round trips of a repetition.
    pub rounds: u64,
    /// Repetitions that count.
    pub repetitions: u32,
    /// Time for the copies of one size in a repetition.
    pub budget_ns: u64,
    /// JSON instead of a table.
    pub json: bool,
}

impl Settings {
    /// Whether a test is asked for.
    pub fn wants(&self, test: &str) -> bool {
        let list = self.tests.as_deref();
        list.is_none_or(|list| list.split(',').any(|word| word == test))
    }

    /// Prints a result.
    pub fn print(&self, line: &Line) {
        if self.json {
            runtime::println!("{}", line.json());
        } else {
            runtime::println!("{line}");
        }
    }
}

/// Turns an error into a sentence about what failed.
pub fn failed<E: core::fmt::Display>(what: &str) -> impl Fn(E) -> Failure {
    move |error| format!("{what}: {error}")
}

fn main() -> i32 {
    runtime::logging::init("scif-bare");
    match run() {
        Ok(()) => 0,
        Err(failure) => {
            runtime::eprintln!("scif-bare: {failure}");
            1
        }
    }
}

fn run() -> Result<(), Failure> {
    let arguments = Arguments::parse(
        runtime::env::args().skip(1),
        &["--doorbells", "--json", "--help", "-h"],
        &["--test", "--size", "-n", "--repetitions", "--budget-ms"],
    )?;
    if arguments.has("--help") || arguments.has("-h") {
        runtime::println!("{HELP}");
        return Ok(());
    }
    let peer = match arguments.words.as_slice() {
        [] => None,
        [word] => Some(word.parse().map_err(|_| format!("'{word}' is no node"))?),
        [_, word, ..] => return Err(format!("what is '{word}'?")),
    };
    let doorbells = arguments.has("--doorbells");
    let rate = Rate::measure(|| Instant::now().as_nanos()).ok_or("the clocks stand still")?;
    let settings = Settings {
        rate,
        tests: arguments.text("--test").map(String::from),
        sizes: arguments.sizes("--size")?,
        rounds: arguments.number("-n", if doorbells { 500 } else { 20_000 })?,
        repetitions: arguments.number("--repetitions", 5)?,
        budget_ns: arguments
            .number("--budget-ms", 8_u64)?
            .saturating_mul(1_000_000),
        json: arguments.has("--json"),
    };
    if doorbells {
        return doorbells::run(peer, &settings);
    }
    let link = link::find(peer)?;
    let measures = link.side == 0;
    if measures && !settings.json {
        runtime::println!("{TABLE_HEAD}");
    }
    let station = station::Station::open(&link, copies::exported(&settings))?;
    if !measures {
        return station.serve();
    }
    pingpong::run(&station, &settings)?;
    copies::run(&station, &settings)?;
    station.dismiss()
}
