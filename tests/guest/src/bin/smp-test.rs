//! Several processors, as programs see them: threads that run side by side, processors chosen by
//! the program, mappings and registers that change while another processor uses them, floating
//! point state that moves along, kernel stacks that come and go, wake-ups from processor to
//! processor, kills across them.
//!
//! `smp-test N`, as root, on a node with N processors; it starts itself with another word for the
//! parts that must end badly. No check depends on how long something takes.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use guest_tests::{Suite, settled};
use libredox::Fd;
use runtime::io::Read;
use runtime::process::{self, Command};
use runtime::thread::{self, JoinHandle};
use runtime::{Result, env, fd, fs, path, probe, spawn, state};
use syscall::flag::{ContextVerb, MapFlags};
use syscall::{Error, FUTEX_WAIT, FUTEX_WAKE, Map, PAGE_SIZE};

runtime::main!(main);

/// How often something is looked for that must come: far more than it takes.
const MOST_TRIES: usize = 200_000;
/// Mappings replaced while another thread stores to them.
const REPLACEMENTS: u64 = 200;
/// Pages that another thread stores to, and how often it is sent back to its beginning.
const PAGES: usize = 64;
const SENDINGS: usize = 300;
/// Threads that end at once, several times the stacks that the kernel keeps, and how often.
const THREADS_AT_ONCE: usize = 48;
const ROUNDS_AT_ONCE: usize = 4;
/// Tokens passed between two threads.
const TOKENS: u32 = 2000;
/// Steps of a computation long enough to be interrupted many times.
const STEPS: usize = 400_000;
/// The line by which a program reports that it runs until it is killed.
const READY: &str = "ready";
/// The signal for a page fault.
const FAULT: i32 = 11;

fn main() -> i32 {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["spin", count] => spin(count.parse().unwrap_or(1)),
        ["protect"] => protect(),
        [count] => match count.parse() {
            Ok(count) => all(count),
            Err(_) => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> i32 {
    runtime::eprintln!("usage: smp-test <number of processors>");
    2
}

fn all(processors: usize) -> i32 {
    let mut suite = Suite::new("smp-test");
    let text = fs::read_to_string("/scheme/sys/cpu").unwrap_or_default();
    let first = text.lines().next().map(String::from);
    suite.equal(
        "number of processors",
        first,
        Some(format!("CPUs: {processors}")),
    );
    suite.check("side by side", side_by_side(processors));
    suite.check("a chosen processor", chosen(processors));
    suite.check("mappings replaced under a store", replaced());
    suite.check("sent back in a page fault", sent_back());
    suite.check("bases of a thread that runs", bases());
    suite.check("a processor chosen for others", moved(processors));
    suite.check("floating point", floats(2 * processors));
    suite.check("stacks that come and go", stacks(processors));
    suite.check("tokens through a futex", tokens());
    let status = Command::new("smp-test").arg("protect").spawn();
    let status = status.and_then(|mut child| child.wait());
    suite.equal(
        "a right that is taken away",
        status.ok().and_then(|status| status.signal()),
        Some(FAULT),
    );
    suite.check("kill of many threads", kill(processors));
    suite.finish()
}

fn text(error: Error) -> String {
    format!("{error}")
}

/// State and processor of each thread of this process, from `sys/context`.
fn rows() -> Vec<(String, String)> {
    let table = fs::read_to_string("/scheme/sys/context").unwrap_or_default();
    let own = format!("{}", process::id());
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [pid, _, _, state, processor, ..] if *pid == own => {
                Some((String::from(*state), String::from(*processor)))
            }
            _ => None,
        }
    };
    table.lines().filter_map(row).collect()
}

/// The processors that run this process now, each once.
fn running() -> Vec<String> {
    let mut processors: Vec<String> = rows()
        .into_iter()
        .filter(|(state, _)| state == "UR+")
        .map(|(_, processor)| processor)
        .collect();
    processors.sort();
    processors.dedup();
    processors
}

/// Threads that only count, until they are stopped.
fn counters(
    count: usize,
    stop: &'static AtomicBool,
    counts: &'static [AtomicU64],
) -> Result<Vec<JoinHandle<()>>> {
    (0..count)
        .map(|number| {
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    counts[number].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect()
}

/// As many threads as processors, this one among them, run at one moment.
fn side_by_side(processors: usize) -> core::result::Result<(), String> {
    static STOP: AtomicBool = AtomicBool::new(false);
    static COUNTS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    let threads = counters(processors - 1, &STOP, &COUNTS).map_err(text)?;
    let mut most = Vec::new();
    for _ in 0..MOST_TRIES {
        let now = running();
        if now.len() > most.len() {
            most = now;
        }
        if most.len() == processors {
            break;
        }
    }
    // A thread with a processor may not have come to its first step.
    let counts = &COUNTS[..processors - 1];
    eventually(|| counts.iter().all(|count| count.load(Ordering::Relaxed) > 0));
    STOP.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(text)?;
    }
    let idle = counts.iter();
    let idle = idle.filter(|count| count.load(Ordering::Relaxed) == 0);
    let idle = idle.count();
    if most.len() < processors || idle > 0 {
        return Err(format!("ran on {most:?} at most; {idle} threads never"));
    }
    Ok(())
}

/// Lets this thread run on the processors of a set only.
fn choose(set: u64) -> Result<()> {
    let handle = Fd::new(fd::dup_upper(state::thread_fd(), b"sched-affinity")?);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&set.to_le_bytes());
    fd::write(handle.raw(), &bytes).map(drop)
}

/// This thread is where it wants to be, again and again.
fn chosen(processors: usize) -> core::result::Result<(), String> {
    // Threads that were joined may still be on their way out.
    let threads = settled(|| rows().len(), &1);
    if threads != 1 {
        return Err(format!("{threads} threads are left"));
    }
    for round in 0..8 * processors {
        let processor = round * 3 % processors;
        choose(1 << processor).map_err(text)?;
        let found = running();
        if found != [format!("#{processor}")] {
            return Err(format!("chose #{processor}, ran on {found:?}"));
        }
    }
    choose(u64::MAX).map_err(text)
}

/// Maps fresh pages, anywhere or in place of what is at an address.
fn map(pages: usize, address: usize, more: MapFlags) -> core::result::Result<usize, String> {
    let map = Map {
        offset: 0,
        size: pages * PAGE_SIZE,
        flags: MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE | more,
        address,
    };
    let arguments = [
        usize::MAX,
        (&raw const map).addr(),
        size_of::<Map>(),
        0,
        0,
        0,
    ];
    Error::demux(probe::syscall(syscall::SYS_FMAP, arguments)).map_err(|error| format!("{error}"))
}

/// Another thread copies the first byte of a page to the second, for ever; each time the page is
/// replaced by a fresh one, that must go on there: on a processor that still knew the old page, it
/// would go on in memory of another owner.
fn replaced() -> core::result::Result<(), String> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let page = map(1, 0, MapFlags::empty())?;
    let copier = thread::spawn(move || {
        while !STOP.load(Ordering::Relaxed) {
            probe::poke(page + 1, probe::peek(page));
        }
    });
    let copier = copier.map_err(text)?;
    let mut result = Ok(());
    for round in 1..=REPLACEMENTS {
        let token = (round % 255) as u8 + 1;
        map(1, page, MapFlags::MAP_FIXED)?;
        // A page that is free again is soon used for something else.
        black_box(alloc::vec![round; 64]);
        probe::poke(page, token);
        if !eventually(|| probe::peek(page + 1) == token) {
            result = Err(format!("no store came through in round {round}"));
            break;
        }
    }
    STOP.store(true, Ordering::Relaxed);
    copier.join().map_err(text)?;
    result
}

/// A thread with the kernel's handle of it, through which others change it while it runs. It knows
/// nothing of the runtime: it must not allocate, print or return.
struct Bare {
    thread: Fd,
    space: Fd,
}

impl Bare {
    fn new() -> core::result::Result<Bare, String> {
        let own = fd::check(state::proc_fd()).map_err(text)?;
        let thread = Fd::new(fd::dup_upper(own, b"new-thread").map_err(text)?);
        let space = Fd::new(fd::dup_upper(state::thread_fd(), b"addrspace").map_err(text)?);
        Ok(Bare { thread, space })
    }

    /// Writes to a part of it; what is written takes effect when the part is closed, at the latest.
    fn write(&self, part: &str, bytes: &[u8]) -> core::result::Result<(), String> {
        let part = Fd::new(fd::dup_upper(self.thread.raw(), part.as_bytes()).map_err(text)?);
        fd::write(part.raw(), bytes).map_err(text)?;
        fd::close(part.into_raw()).map_err(text)
    }

    /// Lets it (re)start with a function, on a stack that is not in use.
    fn send(
        &self,
        stack: usize,
        function: fn(usize) -> !,
        argument: usize,
    ) -> core::result::Result<(), String> {
        let pointer = probe::prepare_stack(stack, function, argument);
        let words = [self.space.raw(), pointer, probe::context_entry()];
        let words = words.map(usize::to_ne_bytes);
        self.write("current-addrspace", words.as_flattened())
    }

    fn start(&self) -> core::result::Result<(), String> {
        spawn::start(self.thread.raw()).map_err(text)
    }

    fn end(&self) -> core::result::Result<(), String> {
        self.write("status", &(ContextVerb::ForceKill as usize).to_ne_bytes())
    }
}

/// The end of a page for a stack.
fn stack() -> core::result::Result<usize, String> {
    Ok(map(1, 0, MapFlags::empty())? + PAGE_SIZE)
}

/// A thread that has been sent back to its beginning while it was in a page fault goes on there:
/// the fault is one of registers that it has no more. It does nothing but store to fresh pages,
/// which this thread takes away for ever.
fn sent_back() -> core::result::Result<(), String> {
    static BEGINNINGS: AtomicU64 = AtomicU64::new(0);
    fn store(pages: usize) -> ! {
        BEGINNINGS.fetch_add(1, Ordering::Relaxed);
        loop {
            for page in 0..PAGES {
                probe::poke(pages + page * PAGE_SIZE, 1);
            }
        }
    }
    let pages = map(PAGES, 0, MapFlags::empty())?;
    // It begins on one while the other is made ready.
    let stacks = [stack()?, stack()?];
    let bare = Bare::new()?;
    for round in 0..SENDINGS {
        map(PAGES, pages, MapFlags::MAP_FIXED)?;
        let before = BEGINNINGS.load(Ordering::Relaxed);
        bare.send(stacks[round % 2], store, pages)?;
        if round == 0 {
            bare.start()?;
        }
        if !eventually(|| BEGINNINGS.load(Ordering::Relaxed) > before) {
            return Err(format!("did not begin again in round {round}"));
        }
    }
    bare.end()
}

/// A thread sees the FS base that another one gives it while it runs.
fn bases() -> core::result::Result<(), String> {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    static WORDS: [AtomicU64; 2] = [AtomicU64::new(1), AtomicU64::new(2)];
    fn look(_: usize) -> ! {
        loop {
            SEEN.store(probe::read_fs(), Ordering::Relaxed);
        }
    }
    let bare = Bare::new()?;
    bare.send(stack()?, look, 0)?;
    for round in 0..REPLACEMENTS as usize {
        let word = &WORDS[round % 2];
        let bases = [core::ptr::from_ref(word).addr(), 0].map(usize::to_ne_bytes);
        bare.write("regs/env", bases.as_flattened())?;
        if round == 0 {
            bare.start()?;
        }
        let wanted = word.load(Ordering::Relaxed);
        if !eventually(|| SEEN.load(Ordering::Relaxed) == wanted) {
            return Err(format!("round {round}: sees the old base"));
        }
    }
    bare.end()
}

/// Threads that run, or wait for their turn, go to the processor that is chosen for them.
fn moved(processors: usize) -> core::result::Result<(), String> {
    fn run(_: usize) -> ! {
        loop {
            spin_loop();
        }
    }
    let mut threads = Vec::new();
    for _ in 0..2 * processors {
        let bare = Bare::new()?;
        bare.send(stack()?, run, 0)?;
        bare.start()?;
        threads.push(bare);
    }
    for round in 0..processors {
        let processor = round * 3 % processors;
        let mut set = [0; 32];
        set[..8].copy_from_slice(&(1u64 << processor).to_le_bytes());
        for thread in &threads {
            thread.write("sched-affinity", &set)?;
        }
        let chosen = format!("#{processor}");
        let is_there = |row: &(String, String)| row.0.starts_with("UR") && row.1 == chosen;
        let there = || rows().into_iter().filter(is_there).count();
        // Each of them must have had its turn there; this thread may be there as well.
        if !settled(|| there() >= threads.len(), &true) {
            return Err(format!("{} threads are on {chosen}", there()));
        }
    }
    threads.iter().try_for_each(Bare::end)
}

/// Many threads end at once, again and again, so that kernel stacks are given back and made anew
/// while other processors run on theirs.
fn stacks(processors: usize) -> core::result::Result<(), String> {
    static STOP: AtomicBool = AtomicBool::new(false);
    static COUNTS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    let others = counters(processors - 1, &STOP, &COUNTS).map_err(text)?;
    for _ in 0..ROUNDS_AT_ONCE {
        static PRESENT: AtomicUsize = AtomicUsize::new(0);
        PRESENT.store(0, Ordering::Relaxed);
        let member = |number: usize| {
            thread::spawn(move || {
                PRESENT.fetch_add(1, Ordering::Relaxed);
                let all = eventually(|| PRESENT.load(Ordering::Relaxed) == THREADS_AT_ONCE);
                all.then_some(number)
            })
        };
        let threads: Result<Vec<_>> = (0..THREADS_AT_ONCE).map(member).collect();
        for (number, thread) in threads.map_err(text)?.into_iter().enumerate() {
            if thread.join().map_err(text)? != Some(number) {
                return Err(format!("thread {number} did not see all {THREADS_AT_ONCE}"));
            }
        }
    }
    STOP.store(true, Ordering::Relaxed);
    for thread in others {
        thread.join().map_err(text)?;
    }
    Ok(())
}

/// Whether something comes true while this thread looks, and now and then lets others run.
fn eventually(mut is_true: impl FnMut() -> bool) -> bool {
    for _ in 0..MOST_TRIES {
        for _ in 0..64 {
            if is_true() {
                return true;
            }
            spin_loop();
        }
        thread::yield_now();
    }
    false
}

/// A value that depends on every step, held in floating point registers.
fn compute(seed: usize) -> f64 {
    let mut value = 1.0 + seed as f64;
    let mut other = 0.5;
    for step in 0..STEPS {
        value = value * 1.000_000_1 + other;
        other = -other * 0.999_999 + (step & 7) as f64;
    }
    value + other
}

/// More threads than processors compute; each must come to what one alone comes to.
fn floats(threads: usize) -> core::result::Result<(), String> {
    let expected: Vec<u64> = (0..threads).map(|seed| compute(seed).to_bits()).collect();
    let started: Result<Vec<_>> = (0..threads)
        .map(|seed| thread::spawn(move || compute(black_box(seed)).to_bits()))
        .collect();
    for (seed, thread) in started.map_err(text)?.into_iter().enumerate() {
        let found = thread.join().map_err(text)?;
        if found != expected[seed] {
            return Err(format!("thread {seed} came to {found:x}"));
        }
    }
    Ok(())
}

fn futex(word: &'static AtomicU32, operation: usize, value: u32) {
    // An answer other than 0 (the word has changed, nobody waits) leads to another look.
    let address = core::ptr::from_ref(word).addr();
    probe::syscall(
        syscall::SYS_FUTEX,
        [address, operation, value as usize, 0, 0, 0],
    );
}

/// Two threads wake each other in turn. A wake-up that gets lost stops both, and the suite's time
/// limit tells.
fn tokens() -> core::result::Result<(), String> {
    static TURN: AtomicU32 = AtomicU32::new(0);
    let pass = |own: u32| {
        move || {
            for _ in 0..TOKENS {
                loop {
                    let turn = TURN.load(Ordering::Acquire);
                    if turn % 2 == own {
                        break;
                    }
                    futex(&TURN, FUTEX_WAIT, turn);
                }
                TURN.fetch_add(1, Ordering::Release);
                futex(&TURN, FUTEX_WAKE, 1);
            }
        }
    };
    let other = thread::spawn(pass(1)).map_err(text)?;
    pass(0)();
    other.join().map_err(text)?;
    match TURN.load(Ordering::Relaxed) {
        turn if turn == 2 * TOKENS => Ok(()),
        turn => Err(format!("{turn} tokens were passed")),
    }
}

/// Another thread stores to a page until the right to do so is taken away. It must be ended for its
/// next store; this thread looks whether one still comes through.
fn protect() -> i32 {
    let Ok(page) = map(1, 0, MapFlags::empty()) else {
        return 3;
    };
    let storing = thread::spawn(move || {
        let mut value = 0u8;
        loop {
            value = value.wrapping_add(1);
            probe::poke(page, value);
        }
    });
    if storing.is_err() || !eventually(|| probe::peek(page) != 0) {
        return 4;
    }
    let rights = MapFlags::PROT_READ.bits();
    let arguments = [page, PAGE_SIZE, rights, 0, 0, 0];
    if probe::syscall(syscall::SYS_MPROTECT, arguments) != 0 {
        return 5;
    }
    let last = probe::peek(page);
    // Until this program is killed because its other thread stores.
    while probe::peek(page) == last {
        thread::yield_now();
    }
    6
}

/// Reports that it is there with all its threads, and runs until it is killed.
fn spin(count: usize) -> i32 {
    static NEVER: AtomicBool = AtomicBool::new(false);
    static COUNTS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    let Ok(_threads) = counters(count, &NEVER, &COUNTS) else {
        return 3;
    };
    let all = || {
        COUNTS[..count]
            .iter()
            .all(|count| count.load(Ordering::Relaxed) > 0)
    };
    if !eventually(all) {
        return 4;
    }
    runtime::print!("{READY}");
    loop {
        spin_loop();
    }
}

/// A process that has a thread on every processor ends when it is killed, with all of them.
fn kill(processors: usize) -> core::result::Result<(), String> {
    for _ in 0..10 {
        let mut said = Fd::new(path::open("/scheme/pipe", syscall::O_RDWR).map_err(text)?);
        let output = Fd::new(fd::dup(said.raw(), b"write").map_err(text)?);
        let mut child = Command::new("smp-test")
            .args(["spin", &format!("{processors}")])
            .stdout(&output)
            .spawn()
            .map_err(text)?;
        drop(output);
        said.read_exact(&mut [0; READY.len()]).map_err(text)?;
        child.kill().map_err(text)?;
        let status = child.wait().map_err(text)?;
        if status.signal().is_none() {
            return Err(format!("ended with {status:?}, not by the signal"));
        }
    }
    match settled(contexts, &1) {
        1 => Ok(()),
        count => Err(format!("{count} threads are left, this one among them")),
    }
}

/// Threads of all processes of this program.
fn contexts() -> usize {
    let table = fs::read_to_string("/scheme/sys/context").unwrap_or_default();
    let is_ours = |line: &&str| line.split_whitespace().next_back() == Some("smp-test");
    table.lines().filter(is_ours).count()
}
