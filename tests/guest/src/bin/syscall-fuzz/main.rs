//! Random system calls by programs with and without rights, on a whole system: whatever they ask
//! for, the kernel, the daemons and all other programs go on, and nothing is left behind.
//!
//! `syscall-fuzz [SEED [SECONDS]]`, as root, on one node. It starts *lives*, several at a time:
//! processes that make calls (`life.rs`) chosen by a seed of their own and then end, are killed
//! when they wait too long, or kill themselves. Those with an odd seed run as an ordinary user.
//! What a life asks for depends on its seed alone, as long as it gets the same; what it gets also
//! on what else runs. Afterwards the system must answer, and hold what it held before.
//! `syscall-fuzz --life SEED --trace` repeats one life and says what it asks for.
#![no_std]
#![no_main]

extern crate alloc;

mod choice;
mod life;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::memory::{self, Frames};
use guest_tests::{Suite, at_rest, counter, settled, text};
use libredox::Fd;
use runtime::process::{Child, Command};
use runtime::time::{Duration, Instant, sleep};
use runtime::{Result, env, fd, fs, path, println};
use scif::{RecvFlags, SendFlags};
use syscall::O_NONBLOCK;
use syscall::error::{ETIMEDOUT, Error};

runtime::main!(main);

/// Lives at a time.
const LIVES: usize = 4;
/// How long a life may say nothing before it is killed: it waits for something.
const TIME_LIMIT: Duration = Duration::from_millis(700);
/// After how long of silence one that was killed must have ended: much longer than a busy machine
/// takes.
const DEATH: Duration = Duration::from_secs(60);
/// How often there is a line about progress.
const PROGRESS: Duration = Duration::from_secs(5);
/// The ordinary user.
const USER: u32 = 1000;
/// Frames that may be missing in the end: what is kept once it was needed, see docs/testing.md. A
/// run of 20 s differs by about 250, one of 280 s by about 300.
const FRAMES: i64 = 512;
/// Default length of a run and its seed.
const SECONDS: u64 = 20;
const SEED: u64 = 1;

/// The resources of which `scif:` must hold as many as before.
const COUNTERS: [&str; 8] = [
    "handles",
    "waiting",
    "memory_objects",
    "memory_pages",
    "endpoints",
    "connections",
    "windows",
    "pinned_pages",
];

fn main() -> i32 {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |index: usize, default: u64| match arguments.get(index) {
        None => Ok(default),
        Some(word) => word.parse::<u64>(),
    };
    if arguments.first().map(String::as_str) == Some("--life") {
        let traced = arguments.get(2).is_some_and(|word| word == "--trace");
        return number(1, SEED).map_or(2, |seed| life::live(seed, traced));
    }
    let (Ok(seed), Ok(seconds)) = (number(0, SEED), number(1, SECONDS)) else {
        runtime::eprintln!("usage: syscall-fuzz [SEED [SECONDS]]");
        return 2;
    };
    let mut suite = Suite::new("syscall-fuzz");
    // Objects that are made only once are made before the first count.
    suite.check("everything answers before", everything_answers());
    let before = calm();
    match storm(seed, Duration::from_secs(seconds)) {
        Ok(sum) => {
            println!(
                "syscall-fuzz: {} calls in {} lives from seed {seed} on: {} ended, {} by a signal, \
                 {} stopped",
                sum.calls, sum.lives, sum.ended, sum.signals, sum.stopped
            );
            suite.holds("lives ended by themselves", sum.ended > 0 && sum.calls > 0);
        }
        Err(error) => suite.check("storm", Err(alloc::format!("{error}"))),
    }
    // Lives may have made it; it is the only name of a file that they know. Often there is none.
    let _ = fs::remove_file("/scheme/file/fuzz-file");
    suite.check("everything answers afterwards", everything_answers());
    leftovers(&mut suite, before);
    suite.finish()
}

/// The result of a storm.
#[derive(Default)]
struct Sum {
    lives: u64,
    /// Calls that lives have reported.
    calls: u64,
    /// Lives that made all their calls.
    ended: u64,
    /// Lives that ended early: exceptions, their own doing, another life's.
    signals: u64,
    /// Lives that were killed because they waited.
    stopped: u64,
}

/// A life under way.
struct Slot {
    seed: u64,
    child: Child,
    /// It waited for too long, and is to end.
    is_killed: bool,
    /// When it was last heard of.
    heard: Instant,
    /// Where it reports how many calls it made.
    report: Fd,
}

fn storm(first: u64, length: Duration) -> Result<Sum> {
    let (start, mut told) = (Instant::now(), Instant::now());
    let mut sum = Sum::default();
    let mut slots: [Option<Slot>; LIVES] = [const { None }; LIVES];
    loop {
        let over = start.elapsed() >= length;
        if over && slots.iter().all(Option::is_none) {
            return Ok(sum);
        }
        for slot in &mut slots {
            match slot {
                Some(life) => {
                    if look_after(life, &mut sum)? {
                        *slot = None;
                    }
                }
                None if !over => {
                    let seed = first.wrapping_add(sum.lives);
                    *slot = Some(begin(seed)?);
                    sum.lives += 1;
                }
                None => {}
            }
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            println!(
                "syscall-fuzz: {} s, next seed {}, {} calls, {} stopped",
                start.elapsed().as_secs(),
                first.wrapping_add(sum.lives),
                sum.calls,
                sum.stopped
            );
        }
        sleep(Duration::from_millis(1));
    }
}

fn begin(seed: u64) -> Result<Slot> {
    let report = Fd::new(path::open("/scheme/pipe", syscall::O_RDWR | O_NONBLOCK)?);
    let write = Fd::new(fd::dup(report.raw(), b"write")?);
    let null = Fd::new(path::open("/scheme/null", syscall::O_RDWR)?);
    let mut command = Command::new("syscall-fuzz");
    command.arg("--life").arg(alloc::format!("{seed}"));
    // Its random output must not look like a report of anything.
    command.stdin(&null).stdout(&null).stderr(&null);
    command.fd(life::REPORT, write.raw());
    if seed % 2 == 1 {
        command.uid(USER).gid(USER);
    }
    Ok(Slot {
        seed,
        child: command.spawn()?,
        is_killed: false,
        heard: Instant::now(),
        report,
    })
}

/// Whether a life is over; kills it when it waits for something.
///
/// # Errors
/// `ETIMEDOUT` for one that was killed and does not end.
fn look_after(life: &mut Slot, sum: &mut Sum) -> Result<bool> {
    let status = life.child.try_wait()?;
    match status {
        None if life.is_killed => {
            if life.heard.elapsed() >= DEATH {
                println!("syscall-fuzz: life {} was killed and goes on", life.seed);
                return Err(Error::new(ETIMEDOUT));
            }
        }
        None if life.heard.elapsed() >= TIME_LIMIT => {
            // It may end in this moment.
            let _ = life.child.kill();
            life.is_killed = true;
        }
        None => {}
        Some(_) if life.is_killed => sum.stopped += 1,
        Some(status) if status.code() == Some(0) => sum.ended += 1,
        Some(_) => sum.signals += 1,
    }
    let mut words = [0; 512];
    while let Ok(count @ 8..) = fd::read(life.report.raw(), &mut words) {
        sum.calls += (count / 8) as u64 * life::REPORTED;
        life.heard = Instant::now();
    }
    Ok(status.is_some())
}

/// The resources that the system holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    counters: Vec<u64>,
    processes: usize,
    contexts: usize,
    descriptors: usize,
}

fn state() -> core::result::Result<State, String> {
    let lines = |path: &str| {
        let found = fs::read_to_string(path).map_err(text(path))?;
        Ok::<usize, String>(found.lines().count())
    };
    Ok(State {
        counters: COUNTERS
            .iter()
            .map(|name| counter(name))
            .collect::<core::result::Result<_, _>>()?,
        processes: lines("/scheme/proc/ps")?,
        contexts: lines("/scheme/sys/context")?,
        descriptors: lines("/scheme/sys/iostat")?,
    })
}

type Before = (
    core::result::Result<State, String>,
    core::result::Result<Frames, String>,
);

/// State and frames, once nothing changes any more.
fn calm() -> Before {
    at_rest(|| (state(), Frames::now()), |_| true)
}

fn leftovers(suite: &mut Suite, (before, mut frames): Before) {
    suite.equal("what is left", settled(state, &before), before);
    memory::check(suite, "frames", &mut frames, FRAMES);
}

/// Uses a bit of everything a program may count on.
fn everything_answers() -> core::result::Result<(), String> {
    for path in [
        "/scheme/scif/nodes",
        "/scheme/scif/stats",
        "/scheme/sys/uname",
        "/scheme/sys/log",
        "/scheme/proc/ps",
        "/scheme/time/4",
        "/scheme/rand",
        "/scheme/zero",
        "/scheme/event",
        "/scheme/pipe",
    ] {
        let file = path::open(path, syscall::O_RDONLY).map(Fd::new);
        drop(file.map_err(text(path))?);
    }
    for path in ["/scheme/acpi", "/scheme/pci", "/scheme/initfs/bin"] {
        fs::read_dir(path).map_err(text(path))?;
    }
    let file = "/scheme/file/syscall-fuzz-check";
    fs::write(file, "written").map_err(text(file))?;
    if fs::read(file).map_err(text(file))? != b"written" {
        return Err(alloc::format!("{file} does not hold what was written"));
    }
    fs::remove_file(file).map_err(text(file))?;
    let status = Command::new("true")
        .spawn()
        .and_then(|mut child| child.wait());
    if status.map_err(text("start a program"))?.code() != Some(0) {
        return Err("a program does not run".into());
    }
    let (here, there) = guest_tests::pair().map_err(text("connect"))?;
    here.send(b"message", SendFlags::BLOCK)
        .map_err(text("send"))?;
    let mut message = [0; 7];
    there
        .recv(&mut message, RecvFlags::BLOCK)
        .map_err(text("receive"))?;
    if message != *b"message" {
        return Err(alloc::format!("received {message:?}"));
    }
    Ok(())
}
