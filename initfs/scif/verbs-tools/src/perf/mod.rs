//! `ib-perf`: its options, its two roles, and its output.

mod client;
mod end;
mod server;
mod wire;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use hal::clock::Rate;
use runtime::time::Instant;
use scif::{NodeId, Port, PortId};
use scif_perf::arguments::Arguments;
use scif_perf::report::{Line, TABLE_HEAD, Unit};
use scif_perf::samples::Samples;

use wire::Kind;

const HELP: &str = "\
ib-perf -s [--port P]     serves, until a client says --stop
ib-perf NODE [options]    measures against the server on that node
  --test LIST        names separated by commas (default: all)
  --size LIST        bytes, for example 8,4K,1M (default: 8 for latencies, 64K for bandwidths)
  -n N               requests of a repetition (default 1000)
  --repetitions N    repetitions (default 3)
  --depth N          requests under way of bandwidths (default 64)
  --events           wait by completion channels instead of polling
  --port P           the server's port (default 1210)
  --json             a JSON object per line instead of a table
  --stop             end the server afterwards
  --version          print the version
tests: send_lat write_lat read_lat atomic_lat send_bw write_bw read_bw atomic_rate
  send_lat and write_lat are half of a time there and back, as perftest's; a bandwidth is also
  printed as a rate of requests
examples:
  ib-perf -s &
  ib-perf 1
  ib-perf 1 --test write_lat,send_lat --size 8,64,4K -n 10000
  ib-perf 1 --test send_lat --events --json";

/// The server's default port.
const PORT: Port = 1210;
/// Default sizes of latency and bandwidth tests, in bytes.
const LATENCY_SIZE: u64 = 8;
const BANDWIDTH_SIZE: u64 = 64 << 10;
/// The largest size in bytes, the most requests under way, and the most requests in a repetition.
const MOST_BYTES: u64 = 256 << 20;
const MOST_DEPTH: u64 = 4096;
const MOST_ROUNDS: u64 = 1 << 30;

const FLAGS: &[&str] = &[
    "-s",
    "--events",
    "--json",
    "--stop",
    "-h",
    "--help",
    "--version",
];
const OPTIONS: &[&str] = &[
    "--test",
    "--size",
    "-n",
    "--repetitions",
    "--depth",
    "--port",
];

/// The exit status for arguments that are wrong.
const STATUS_USAGE: i32 = 2;

/// The reason why a measurement failed, as text for people.
#[derive(Debug)]
pub struct Failure(String);

/// The result of a step.
type Result<T = (), E = Failure> = core::result::Result<T, E>;

impl Failure {
    fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }
}

/// Adds to an error what was tried.
trait Context<T> {
    /// Puts `what` in front of the error.
    fn context(self, what: &str) -> Result<T>;
}

impl<T, E: Display> Context<T> for core::result::Result<T, E> {
    fn context(self, what: &str) -> Result<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What to measure, and how often.
struct Settings {
    server: PortId,
    rate: Rate,
    kinds: Vec<Kind>,
    sizes: Option<Vec<u64>>,
    rounds: u64,
    repetitions: u32,
    depth: u32,
    has_events: bool,
    json: bool,
}

impl Settings {
    /// Prints the summary of samples, if there are any.
    fn print(&self, test: &str, size: u64, unit: Unit, samples: Samples) {
        let Some(summary) = samples.summary() else {
            return;
        };
        let wait = if self.has_events { "event" } else { "poll" };
        let line = Line::new(test, size, unit, summary).with_text("wait", wait);
        match self.json {
            true => runtime::println!("{}", line.json()),
            false => runtime::println!("{line}"),
        }
    }
}

/// Runs `ib-perf`.
pub fn main() -> i32 {
    let arguments = Arguments::parse(runtime::env::args().skip(1), FLAGS, OPTIONS);
    let mut status = STATUS_USAGE;
    let result = arguments
        .map_err(Failure)
        .and_then(|line| run(&line, &mut status));
    match result {
        Ok(()) => runtime::io::printed("ib-perf", 0),
        Err(failure) => {
            runtime::eprintln!("ib-perf: {failure}");
            status
        }
    }
}

/// Does what the arguments say. `status` is that of an error: it becomes 1 when the arguments are
/// known to be right.
fn run(line: &Arguments, status: &mut i32) -> Result {
    if line.has("-h") || line.has("--help") {
        runtime::println!("{HELP}");
        return Ok(());
    }
    let port: Port = line.number("--port", PORT).map_err(Failure)?;
    if line.has("--version") {
        runtime::println!("ib-perf (Skiff) {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    if line.has("-s") {
        if let Some(word) = line.words.first() {
            return Err(Failure(format!("'{word}': a server needs no node")));
        }
        *status = 1;
        return server::serve(port);
    }
    let node: NodeId = match line.words.as_slice() {
        [node] => node.parse().map_err(|_| {
            Failure(format!(
                "'{node}' is no node number; `scifctl nodes` lists them"
            ))
        })?,
        _ => {
            let text = "say -s, or the node where the server is (--help tells more)";
            return Err(Failure::new(text));
        }
    };
    let settings = settings(line, PortId::new(node, port))?;
    *status = 1;
    if !settings.json {
        runtime::println!("{TABLE_HEAD}");
    }
    let result = client::measure(&settings);
    let stopped = match line.has("--stop") {
        true => client::stop(settings.server).context("--stop"),
        false => Ok(()),
    };
    if let (Err(_), Err(failure)) = (&result, &stopped) {
        runtime::eprintln!("ib-perf: {failure}");
    }
    result.and(stopped)
}

fn settings(line: &Arguments, server: PortId) -> Result<Settings> {
    let kinds = match line.text("--test") {
        None => Kind::ALL.to_vec(),
        Some(list) => {
            let kinds = list.split(',').map(|name| {
                let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
                found.ok_or_else(|| Failure(format!("there is no test {name} (--help tells all)")))
            });
            kinds.collect::<Result<_>>()?
        }
    };
    let count =
        |name: &str, default: u64, most: u64| line.count(name, default, most).map_err(Failure);
    let sizes = line.sizes("--size", MOST_BYTES).map_err(Failure)?;
    Ok(Settings {
        server,
        rate: Rate::measure(|| Instant::now().as_nanos())
            .ok_or(Failure::new("the clocks stand still"))?,
        kinds,
        sizes,
        rounds: count("-n", 1000, MOST_ROUNDS)?,
        repetitions: count("--repetitions", 3, 1000)? as u32,
        depth: count("--depth", 64, MOST_DEPTH)? as u32,
        has_events: line.has("--events"),
        json: line.has("--json"),
    })
}
