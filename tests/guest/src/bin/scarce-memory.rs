//! A program that takes all memory but what the kernel keeps for itself, or leaves single frames
//! only: what needs a long list in the kernel is refused then, and the machine goes on.
//!
//! `scarce-memory`, on one node; it starts itself with an argument for the other parts.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use guest_tests::{Suite, kernel_count};
use libredox::Fd;
use runtime::process::{Child, Command};
use runtime::{Result, env, fd, fs, path, probe, sys, thread};
use syscall::error::{EFAULT, EINVAL, ENOMEM};
use syscall::flag::{CLOCK_MONOTONIC, F_DUPFD, FUTEX_WAIT, FUTEX_WAKE, MapFlags, UPPER_FDTBL_TAG};

runtime::main!(main);

const PROGRAM: &str = "scarce-memory";
/// The largest descriptor number: a table that has it takes 128 contiguous frames.
const LAST_NUMBER: usize = 65_535;
/// Programs that ask for it: more than the frames that the kernel keeps suffice for.
const PROGRAMS: usize = 16;
/// Bytes of a page.
const PAGE: usize = hal::mem::PAGE;
/// Pages given back once memory is used up, for the other programs of the node.
const OTHERS: usize = 64;
/// One of so many pages is given back to leave single frames.
const SINGLE: usize = 64;
/// Bytes of the largest buffer whose pages are handed to a daemon at once.
const BUFFER: usize = 16 << 20;
/// Timers that a file has at most.
const TIMERS: usize = 1024;
/// Bytes that a pipe holds at most.
const PIPE: usize = 64 << 10;
/// Threads that wait for the same: a list of a word for each is longer than a page.
const THREADS: usize = 600;
/// Files of a kind for which the kernel keeps more than it keeps for itself.
const KEEPERS: usize = 300;

fn main() -> i32 {
    match env::args().nth(1) {
        None => {
            let mut suite = Suite::new(PROGRAM);
            scarce(&mut suite);
            suite.finish()
        }
        Some(call) if call == "threads" => many_threads(),
        Some(call) => number(&call),
    }
}

fn system(number: usize, words: [usize; 3]) -> Result<usize> {
    let [a, b, c] = words;
    sys::demux(probe::syscall(number, [a, b, c, 0, 0, 0]))
}

fn errno<T>(result: Result<T>) -> i32 {
    result.err().map_or(0, |error| error.errno)
}

/// A pipe: the end to read from and the end to write to.
fn pipe() -> Result<(Fd, Fd)> {
    let read = Fd::new(path::open("/scheme/pipe", syscall::O_RDWR)?);
    let write = Fd::new(fd::dup(read.raw(), b"write")?);
    Ok((read, write))
}

/// Asks for the last number when its input ends, closes its output, and keeps what it got until
/// nobody can write errors for it to read; the error number is its status. It allocates nothing.
fn number(call: &str) -> i32 {
    let _ = fd::read(0, &mut [0]);
    let asked = match call {
        "fcntl" => system(syscall::SYS_FCNTL, [0, F_DUPFD, LAST_NUMBER]),
        _ => use_up(LAST_NUMBER).and(use_up(UPPER_FDTBL_TAG | LAST_NUMBER)),
    };
    let _ = fd::close(1);
    let _ = fd::read(2, &mut [0]);
    errno(asked)
}

/// Asks for this number, and for smaller ones until there is memory for them; what the first one
/// gave.
fn use_up(number: usize) -> Result<usize> {
    let first = system(syscall::SYS_DUP2, [0, number, 0]);
    let mut halves = 0;
    let mut asked = first;
    while asked.is_err() && LAST_NUMBER >> halves > PAGE / size_of::<usize>() {
        halves += 1;
        let smaller = number - LAST_NUMBER + (LAST_NUMBER >> halves);
        asked = system(syscall::SYS_DUP2, [0, smaller, 0]);
    }
    first
}

/// Sleeps until a word is not 0 any more.
fn sleep_on(word: &AtomicU32) {
    while word.load(Ordering::Acquire) == 0 {
        let _ = system(syscall::SYS_FUTEX, [word.as_ptr().addr(), FUTEX_WAIT, 0]);
    }
}

/// Sets a word; the number of threads that this has woken.
fn set(word: &AtomicU32) -> usize {
    word.store(1, Ordering::Release);
    let woken = system(
        syscall::SYS_FUTEX,
        [word.as_ptr().addr(), FUTEX_WAKE, THREADS],
    );
    woken.unwrap_or(0)
}

/// A thread for each of these words sleeps on it. When the input ends, they go on to sleep on one
/// word, are woken all at once, and wait for the end of one pipe. Nothing is allocated then.
fn many_threads() -> i32 {
    static OWN: [AtomicU32; THREADS] = [const { AtomicU32::new(0) }; THREADS];
    static COMMON: AtomicU32 = AtomicU32::new(0);
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let reach = |steps: usize| {
        while STEPS.load(Ordering::Acquire) < steps {
            sys::yield_now();
        }
    };
    for (index, own) in OWN.iter().enumerate() {
        let started = thread::spawn(move || {
            STEPS.fetch_add(1, Ordering::AcqRel);
            sleep_on(own);
            STEPS.fetch_add(1, Ordering::AcqRel);
            sleep_on(&COMMON);
            STEPS.fetch_add(1, Ordering::AcqRel);
            let _ = fd::read(2, &mut [0]);
        });
        if let Err(error) = started {
            return error.errno;
        }
        reach(index + 1);
    }
    let _ = fd::read(0, &mut [0]);
    for (index, own) in OWN.iter().enumerate() {
        set(own);
        reach(THREADS + index + 1);
    }
    // The last ones may be about to sleep.
    set(&COMMON);
    reach(3 * THREADS);
    let _ = fd::close(1);
    let _ = fd::read(2, &mut [0]);
    0
}

/// A program that waits to ask for the last number. Pipes that end tell it and us what to do: to
/// write to one takes memory.
struct Asking {
    child: Child,
    /// It asks when this is closed.
    go: Option<Fd>,
    /// It ends when this is closed.
    stay: Option<Fd>,
    /// Ends when it has asked.
    asked: Fd,
}

impl Asking {
    fn start(call: &str) -> Result<Self> {
        let (input, go) = pipe()?;
        let (asked, output) = pipe()?;
        let (errors, stay) = pipe()?;
        let mut command = Command::new(PROGRAM);
        command.arg(call).stdin(&input).stdout(&output);
        let child = command.stderr(&errors).spawn()?;
        Ok(Self {
            child,
            go: Some(go),
            stay: Some(stay),
            asked,
        })
    }

    /// Lets it ask, and waits until it has.
    fn ask(&mut self) -> Result<usize> {
        drop(self.go.take());
        fd::read(self.asked.raw(), &mut [0])
    }

    /// Its error number, 0 if it had the number.
    fn end(&mut self) -> i32 {
        drop(self.stay.take());
        let ended = self.child.wait();
        ended.map_or_else(
            |error| error.errno,
            |status| status.code().unwrap_or(EFAULT),
        )
    }
}

/// All memory but the kernel's, in one area.
struct All {
    base: usize,
    /// Pages that are there.
    pages: usize,
}

impl All {
    fn take() -> Result<Self> {
        let most = kernel_count("frames_total").unwrap_or(0) as usize;
        let map = syscall::Map {
            offset: 0,
            size: most * PAGE,
            flags: MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_PRIVATE,
            address: 0,
        };
        let record = [sys::NO_FD, (&raw const map).addr(), size_of_val(&map)];
        let base = system(syscall::SYS_FMAP, record)?;
        // A page that the kernel touches for us is refused with an error; our own store would end
        // us.
        let touch = |page: &usize| {
            let at = base + page * PAGE;
            system(syscall::SYS_CLOCK_GETTIME, [CLOCK_MONOTONIC, at, 0]).is_ok()
        };
        let pages = (0..most).take_while(touch).count();
        Ok(Self { base, pages })
    }

    /// Gives pages back.
    fn give(&mut self, first: usize, count: usize) -> Result<usize> {
        let at = self.base + first * PAGE;
        system(syscall::SYS_FUNMAP, [at, count * PAGE, 0])
    }

    /// Gives the last pages back.
    fn give_last(&mut self, count: usize) -> Result<usize> {
        self.pages -= count;
        self.give(self.pages, count)
    }

    /// Gives single pages back behind those of the buffer.
    fn give_single(&mut self) -> Result<()> {
        let all = BUFFER / PAGE + SINGLE..self.pages;
        all.step_by(SINGLE)
            .try_for_each(|page| self.give(page, 1).map(drop))
    }
}

/// Whether each error number is that of missing memory or none, and some are.
fn refused(errors: &[i32]) -> core::result::Result<(), alloc::string::String> {
    let known = errors.iter().all(|error| [0, ENOMEM].contains(error));
    if known && errors.contains(&ENOMEM) {
        Ok(())
    } else {
        Err(alloc::format!("{errors:?}"))
    }
}

fn scarce(suite: &mut Suite) {
    let result = numbers("fcntl", |_| Ok(()));
    let errors = result.map(|(errors, ())| errors);
    let errors = errors.unwrap_or_else(|error| [error.errno].into());
    suite.check("numbers without memory", refused(&errors));

    let kept = kept().unwrap_or_else(|error| [error.errno; 4]);
    suite.equal("what calls keep without memory", kept, [ENOMEM; 4]);

    let mut many = Asking::start("threads");
    let single = |all: &mut All| -> Result<[i32; 4]> {
        if let Ok(many) = &mut many {
            many.ask()?;
        }
        let null = Fd::new(path::open("/scheme/null", syscall::O_RDWR)?);
        let (output, input) = pipe()?;
        let buffer = system(syscall::SYS_WRITE, [null.raw(), all.base, BUFFER]);
        let piped = system(syscall::SYS_WRITE, [input.raw(), all.base, PIPE]);
        // The pipe gives back what it took.
        let taken = piped.and_then(|count| {
            let got = system(syscall::SYS_READ, [output.raw(), all.base, PIPE])?;
            (0 < got && got == count)
                .then_some(got)
                .ok_or(runtime::Error::new(EINVAL))
        });
        let texts = ["context", "log", "iostat", "stat"];
        let texts = texts.iter().try_for_each(|name| {
            let file = Fd::new(path::open(&alloc::format!("/scheme/sys/{name}"), 0)?);
            fd::read(file.raw(), &mut [0; 64]).map(drop)
        });
        let opened = fs::read("/scheme/null");
        let timers = timers();
        Ok([buffer, taken, texts.and(opened).map(|_| 0), timers].map(errno))
    };
    let result = numbers("dup2", single);
    let (errors, others) = result.unwrap_or_else(|error| ([error.errno].into(), [EFAULT; 4]));
    suite.check("numbers without contiguous memory", refused(&errors));
    // A few pages side by side, which the timers want, a daemon may have given back meanwhile.
    let [buffer, taken, texts, timers] = others;
    suite.equal(
        "other calls without contiguous memory",
        [buffer, taken, texts],
        [ENOMEM, 0, 0],
    );
    suite.equal(
        "timers without contiguous memory",
        [0, ENOMEM].contains(&timers),
        true,
    );

    let ended = many.map_or_else(|error| error.errno, |mut many| many.end());
    suite.equal("threads that wait for the same", ended, 0);

    suite.equal("a daemon goes on", errno(fs::read("/scheme/null")), 0);
    let again = Asking::start("dup2").and_then(|mut program| {
        program.ask()?;
        Ok(program.end())
    });
    let again = again.unwrap_or_else(|error| error.errno);
    suite.equal("the number with memory", again, 0);
}

/// What calls say that have the kernel keep something on files and areas that are there, again and
/// again while memory is used up: texts, timers, and areas that are cut in pieces.
fn kept() -> Result<[i32; 4]> {
    let files = |path: &str| -> Result<Vec<Fd>> {
        let open = |_| path::open(path, syscall::O_RDWR).map(Fd::new);
        (0..KEEPERS).map(open).collect()
    };
    let texts = files("/scheme/sys/iostat")?;
    let clocks = files(&timer_path())?;
    let mut all = All::take()?;
    all.give_last(OTHERS)?;
    let read = |file: &Fd| fd::read(file.raw(), &mut [0]).map(drop);
    let shown = errno(texts.iter().try_for_each(read));
    drop(texts);
    let armed = errno(clocks.iter().try_for_each(|file| arm(file).map(drop)));
    drop(clocks);
    // Every other page of the memory that is there gets other rights.
    let cut = |page: usize| {
        let at = all.base + page * PAGE;
        let rights = MapFlags::PROT_READ.bits();
        system(syscall::SYS_MPROTECT, [at, PAGE, rights]).map(drop)
    };
    let cut = errno((1..all.pages).step_by(2).try_for_each(cut));
    // What is not there gives nothing back that a cut could take.
    let unmapped = errno(all.give(all.pages + OTHERS + 1, 1));
    let last = all.give(all.pages - 1, 1);
    all.give(0, all.pages)?;
    last?;
    Ok([shown, armed, cut, unmapped])
}

fn timer_path() -> alloc::string::String {
    alloc::format!("/scheme/time/{CLOCK_MONOTONIC}/timer")
}

/// Arms as many timers as a file may have, which do not fire.
fn timers() -> Result<usize> {
    arm(&Fd::new(path::open(&timer_path(), syscall::O_RDWR)?))
}

fn arm(file: &Fd) -> Result<usize> {
    let never = syscall::TimeSpec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    };
    (0..TIMERS).try_fold(0, |_, _| fd::write(file.raw(), &never))
}

/// Has programs ask for numbers while memory is used up; `fcntl`: as it is then, `dup2`: after
/// single frames were given back. Their error numbers, and what `meanwhile` has found.
fn numbers<T>(call: &str, meanwhile: impl FnOnce(&mut All) -> Result<T>) -> Result<(Vec<i32>, T)> {
    let mut programs = Vec::with_capacity(PROGRAMS);
    for _ in 0..PROGRAMS {
        programs.push(Asking::start(call)?);
    }
    let mut errors = Vec::with_capacity(PROGRAMS);
    let mut all = All::take()?;
    all.give_last(OTHERS)?;
    if call == "dup2" {
        all.give_single()?;
    }
    let asked = programs
        .iter_mut()
        .try_for_each(|program| program.ask().map(drop));
    let found = asked.and_then(|()| meanwhile(&mut all));
    system(syscall::SYS_FUNMAP, [all.base, BUFFER, 0])?;
    errors.extend(programs.iter_mut().map(Asking::end));
    // What is left of the area, with holes.
    all.give(BUFFER / PAGE, all.pages - BUFFER / PAGE)?;
    found.map(|found| (errors, found))
}
