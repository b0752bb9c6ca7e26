//! The program `scif-perf`: its options, its two roles, and its output.

mod bandwidth;
pub mod beside;
mod costs;
mod growth;
mod latency;
mod names;
mod server;
pub mod session;
mod transfers;
mod turns;
mod verbs;
pub mod wire;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use crate::arguments::Arguments;
use crate::report::{Line, TABLE_HEAD, Unit};
use crate::samples::Samples;
use hal::clock::Rate;
use runtime::time::Instant;
use scif::{NodeId, Port, PortId};

use session::Session;
use wire::Wait;

const HELP: &str = "\
scif-perf -s [--port P]        serves, until a client says --stop
scif-perf NODE [options]       measures against the server on that node
  --test LIST        names separated by commas, or groups: latency, bandwidth, costs, growth,
                     beside (default: latency,bandwidth); tests with a + between them run in turn,
                     one repetition of each after the other, to be compared
  --size LIST        only these sizes, for example 8,4K,1M
  --all              every power of two from 64 to 64M for bandwidth (default: every fourth)
  -n N               round trips of a repetition (default: what fits into the budget)
  --repetitions N    repetitions (default 5)
  --budget-ms N      time for one size in a repetition (default 20)
  --block | --poll   how round trips wait for messages (default: both are measured)
  --path bypass|file how messages go: by the library's calls, or by read and write of the file
  --pairs LIST       numbers of pairs for the test pairs (default 1,2,4,8)
  --max N            largest count of the growth tests
  --port P           the server's port (default 1200); it uses the next five as well
  --json             a JSON object per line instead of a table
  --quiet            no progress on standard error (nor with --json)
  --stop             end the server afterwards
tests:
  latency            pio_rtt msg_rtt
  bandwidth          rma_write rma_read pio_write pio_read stream file_stream
  costs              register map connect pairs
  growth             idle windows pages st_idle; the first two with the memory of each
  transfers          st_rtt st_put_rtt st_stream st_stream_several st_put st_get: Scheduled
                     Transfers, by push and pull, headers one way by one call each or 16 by one,
                     put and get
  verbs              rdma_write_rtt rdma_send_rtt rdma_stream rdma_write rdma_read rdma_pairs: RDMA
                     verbs, by words that are written, messages, transfers, many queue pairs
  own                own_rma_write own_rma_read own_register copy_register (to compare with)
  beside             echo_idle echo_own echo_peer register_idle register_own register_peer:
                     beside a thread that only computes nowhere, here, on the peer's node; with the
                     slowest of 100 echoes (p99) and of 10 windows (p90)
  others             ring_rtt msg_rtt_usual vrma_write vrma_read marked_write signaled_write
                     local_copy stream_read file_stream_read nodes
examples:
  scif-perf -s &
  scif-perf 1
  scif-perf 1 --test msg_rtt --size 64 --poll
  scif-perf 1 --test rma_read,rma_write --all --json
  scif-perf 0 --test ring_rtt+msg_rtt --size 64 --poll  (on node 0: inside the node)
  scif-perf 1 --test idle --max 1000";

/// The server's default port; only root may bind it, so no other program has it.
const PORT: Port = 1200;
/// Bounds of numbers that the user gives: more would take all memory, or hours.
const MOST_ROUNDS: u64 = 1 << 24;
const MOST_REPETITIONS: u64 = 10_000;
const MOST_BUDGET_MS: u64 = 3_600_000;
const MOST_BYTES: u64 = 1 << 30;
const MOST_PAIRS: u64 = 1024;
/// Distance from the server's port to the port for another program's tests.
const EXTRA: Port = 2;

const FLAGS: &[&str] = &[
    "-s",
    "--all",
    "--block",
    "--poll",
    "--json",
    "--quiet",
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
    "--budget-ms",
    "--path",
    "--pairs",
    "--max",
    "--port",
];

/// The reason why a measurement failed, as text for people.
#[derive(Debug)]
pub struct Failure(String);

/// The result of a step.
pub type Result<T = (), E = Failure> = core::result::Result<T, E>;

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<scif::Error> for Failure {
    fn from(error: scif::Error) -> Self {
        Self(format!("{error}"))
    }
}

impl From<::verbs::Error> for Failure {
    fn from(error: ::verbs::Error) -> Self {
        Self(format!("{error}"))
    }
}

impl From<st::Error> for Failure {
    fn from(error: st::Error) -> Self {
        Self(format!("{error}"))
    }
}

/// Accesses to memory fail with errors of the system.
impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Self {
        Self(format!("{error}"))
    }
}

/// Adds to an error what was tried.
pub trait Context<T> {
    /// Puts `what` in front of the error.
    fn context(self, what: &str) -> Result<T>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: &str) -> Result<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path that messages take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Path {
    /// The library's calls.
    Bypass,
    /// `read` and `write` of the file.
    File,
}

/// A test of another program, in addition to those of `scif-perf`.
#[derive(Clone, Copy)]
pub struct Extra {
    /// The name of the test in `--test`.
    pub name: &'static str,
    /// The function that measures it.
    pub run: fn(&Settings) -> Result,
}

/// The tests that another program adds to `scif-perf`.
#[derive(Clone, Copy)]
pub struct Program {
    /// Text to print in front of this program's help.
    pub help: &'static str,
    /// The tests.
    pub tests: &'static [Extra],
    /// Serves these tests on a port of their own, until the program ends.
    pub serve: Option<fn(Port) -> Result>,
}

/// No further tests.
const PLAIN: Program = Program {
    help: "",
    tests: &[],
    serve: None,
};

/// What to measure, and for how long.
#[derive(Clone)]
pub struct Settings {
    program: Program,
    /// The number of this node.
    pub own: NodeId,
    /// The server's node and port.
    pub server: PortId,
    /// The rate of the processor's counter.
    pub rate: Rate,
    /// The test that runs.
    test: &'static str,
    /// The names of all tests that run in turn with it, as the user gave them.
    group: String,
    place: Option<turns::Place>,
    sizes: Option<Vec<u64>>,
    /// Whether sizes are all powers of two, instead of every fourth.
    pub all: bool,
    rounds: Option<u64>,
    /// Number of repetitions.
    pub repetitions: u32,
    /// Time for one size in a repetition, in nanoseconds.
    pub budget_ns: u64,
    waits: Vec<Wait>,
    /// The path that messages take.
    pub path: Path,
    /// The numbers of pairs to measure.
    pub pairs: Vec<u64>,
    /// The largest number for tests of growth.
    pub max: Option<u64>,
    json: bool,
    progress: bool,
}

impl Settings {
    /// Whether `test` is the test to run.
    pub fn wants(&self, test: &str) -> bool {
        self.test == test
    }

    /// The server's node and the port for the tests of another program.
    pub fn extra_port(&self) -> PortId {
        PortId::new(self.server.node(), self.server.port() + EXTRA)
    }

    /// The sizes that the user gave, or these.
    pub fn sizes(&self, default: &[u64]) -> Vec<u64> {
        self.sizes.clone().unwrap_or_else(|| default.into())
    }

    /// The ways of waiting that the user gave. Polling within a node must let the other end run.
    pub fn waits(&self) -> Vec<Wait> {
        let polling = self.polling();
        let chosen = |wait: &Wait| if *wait == Wait::Poll { polling } else { *wait };
        self.waits.iter().map(chosen).collect()
    }

    /// How to poll with this peer.
    pub fn polling(&self) -> Wait {
        match self.server.node() == self.own {
            true => Wait::Yield,
            false => Wait::Poll,
        }
    }

    /// The number of calls of `one` nanoseconds each that make a repetition.
    pub fn rounds(&self, one: f64) -> u64 {
        const LEAST: u64 = 20;
        const MOST: u64 = 50_000;
        let fitting = (self.budget_ns as f64 / one.max(1.0)) as u64;
        self.rounds.unwrap_or(fitting.clamp(LEAST, MOST))
    }

    /// Begins a repetition: waits for its turn and shows it on standard error.
    ///
    /// # Errors
    /// Waiting for the turn fails.
    pub fn repetition(&self, test: &str, size: u64, repetition: u32) -> Result {
        if let Some(place) = &self.place {
            place.pass()?;
        }
        self.progress(test, size, repetition);
        Ok(())
    }

    /// Shows on standard error what is being measured.
    pub fn progress(&self, test: &str, size: u64, repetition: u32) {
        if self.progress {
            let (size, all) = (crate::report::size(size), self.repetitions);
            runtime::eprint!("\r\x1b[K{test} {size}: {repetition} of {all}");
        }
    }

    /// Prints the summary of samples, if there are any.
    pub fn print(&self, test: &str, size: u64, unit: Unit, samples: Samples) {
        self.print_with(test, size, unit, samples, |line| line);
    }

    /// Prints the summary of samples as [`print`](Self::print) does, with more keys.
    pub fn print_with(
        &self,
        test: &str,
        size: u64,
        unit: Unit,
        samples: Samples,
        keys: impl FnOnce(Line) -> Line,
    ) {
        let Some(summary) = samples.summary() else {
            return;
        };
        let mut line = keys(Line::new(test, size, unit, summary));
        if self.place.is_some() {
            line = line.with_text("turns", &self.group);
        }
        if self.progress {
            runtime::eprint!("\r\x1b[K");
        }
        if self.json {
            runtime::println!("{}", line.json());
        } else {
            runtime::println!("{line}");
        }
    }
}

/// Runs `scif-perf`.
pub fn main() -> i32 {
    main_with(PLAIN)
}

/// Runs `scif-perf` with the tests of another program.
pub fn main_with(program: Program) -> i32 {
    let arguments = Arguments::parse(runtime::env::args().skip(1), FLAGS, OPTIONS);
    let mut status = STATUS_USAGE;
    let result = arguments
        .map_err(Failure)
        .and_then(|line| run(&line, program, &mut status));
    match result {
        Ok(()) => runtime::io::printed("scif-perf", 0),
        Err(failure) => {
            runtime::eprintln!("\nscif-perf: {failure}");
            status
        }
    }
}

/// The exit status for arguments that are wrong.
const STATUS_USAGE: i32 = 2;

/// Does what the arguments say. `status` is that of an error: it becomes 1 when the arguments are
/// known to be right.
fn run(line: &Arguments, program: Program, status: &mut i32) -> Result {
    if line.has("-h") || line.has("--help") {
        runtime::println!("{}{HELP}", program.help);
        return Ok(());
    }
    if line.has("--version") {
        runtime::println!("scif-perf (Skiff) {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let port: Port = line.number("--port", PORT)?;
    // The farthest of the ports that the server uses.
    let most = Port::MAX - server::CLOSING;
    if port > most {
        return Err(format!("--port {port}: at most {most}, as the next ones are used too").into());
    }
    if line.has("-s") {
        if let Some(word) = line.words.first() {
            return Err(format!("'{word}': a server needs no node (--help tells more)").into());
        }
        *status = 1;
        if let Some(serve) = program.serve {
            let run = move || {
                if let Err(failure) = serve(port + EXTRA) {
                    runtime::eprintln!("scif-perf: {failure}");
                }
            };
            runtime::thread::spawn(run).context("a thread")?;
        }
        let run = move || {
            if let Err(failure) = transfers::serve(port + transfers::AHEAD) {
                runtime::eprintln!("scif-perf: {failure}");
            }
        };
        runtime::thread::spawn(run).context("a thread")?;
        let run = move || {
            if let Err(failure) = verbs::serve(port + verbs::AHEAD) {
                runtime::eprintln!("scif-perf: {failure}");
            }
        };
        runtime::thread::spawn(run).context("a thread")?;
        return server::serve(port);
    }
    let node = match line.words.as_slice() {
        [node] => node,
        [] => return Err("say -s, or the node where the server is (--help tells more)".into()),
        [_, more @ ..] => {
            let more = more.join(" ");
            return Err(format!("'{more}': one node is enough (--help tells more)").into());
        }
    };
    let Ok(node) = node.parse() else {
        return Err(format!("'{node}' is no node number; `scifctl nodes` lists them").into());
    };
    let mut settings = settings(line, PortId::new(node, port), program)?;
    let groups = names::tests(line.text("--test").unwrap_or("latency,bandwidth"), program)?;
    names::check_sizes(&groups, settings.sizes.as_deref())?;
    *status = 1;
    settings.own = scif::nodes().context("the scif: scheme")?.own;
    if !settings.json {
        runtime::println!("{TABLE_HEAD}");
    }
    let result = groups
        .into_iter()
        .try_for_each(|group| in_turn(&settings, group));
    let stopped = match line.has("--stop") {
        true => Session::open(&settings).and_then(|session| session.stop()),
        false => Ok(()),
    };
    if let (Err(_), Err(failure)) = (&result, &stopped) {
        runtime::eprintln!("\nscif-perf: {failure}");
    }
    result.and(stopped)
}

/// The settings that the arguments ask for; the own node is not known yet.
fn settings(line: &Arguments, server: PortId, program: Program) -> Result<Settings> {
    let path = match line.text("--path") {
        None | Some("bypass") => Path::Bypass,
        Some("file") => Path::File,
        Some(other) => return Err(format!("--path: '{other}' is neither bypass nor file").into()),
    };
    let rate = Rate::measure(|| Instant::now().as_nanos()).ok_or("the clocks stand still")?;
    let rounds = line.has("-n").then(|| line.count("-n", 1, MOST_ROUNDS));
    let rounds = rounds.transpose()?;
    let repetitions = line.count("--repetitions", 5, MOST_REPETITIONS)? as u32;
    let max = line
        .has("--max")
        .then(|| line.number("--max", 0))
        .transpose()?;
    let waits = match (line.has("--poll"), line.has("--block")) {
        (true, false) => [Wait::Poll].to_vec(),
        (false, true) => [Wait::Block].to_vec(),
        _ => [Wait::Poll, Wait::Block].to_vec(),
    };
    let budget = line.count("--budget-ms", 20, MOST_BUDGET_MS)?;
    Ok(Settings {
        program,
        own: 0,
        server,
        rate,
        test: "",
        group: String::new(),
        place: None,
        sizes: line.sizes("--size", MOST_BYTES)?,
        all: line.has("--all"),
        rounds,
        repetitions,
        budget_ns: budget * 1_000_000,
        waits,
        path,
        pairs: line
            .sizes("--pairs", MOST_PAIRS)?
            .unwrap_or([1, 2, 4, 8].to_vec()),
        max,
        json: line.has("--json"),
        progress: !line.has("--quiet") && !line.has("--json"),
    })
}

/// Runs one test, or several in turn.
fn in_turn(settings: &Settings, group: Vec<&'static str>) -> Result {
    let name = group.join("+");
    let of = |test: &&'static str| Settings {
        test,
        group: name.clone(),
        ..settings.clone()
    };
    let mut all: Vec<Settings> = group.iter().map(of).collect();
    match all.len() {
        1 => all.iter().try_for_each(measure),
        _ => turns::run(core::mem::take(&mut all), measure),
    }
}

fn measure(settings: &Settings) -> Result {
    let extra = settings.program.tests.iter();
    if let Some(extra) = extra.clone().find(|extra| settings.wants(extra.name)) {
        return (extra.run)(settings).context(extra.name);
    }
    latency::run(settings)?;
    bandwidth::run(settings)?;
    costs::run(settings)?;
    growth::run(settings)?;
    transfers::run(settings)?;
    verbs::run(settings)?;
    beside::run(settings)
}
