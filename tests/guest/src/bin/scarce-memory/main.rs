//! A program that takes all memory but what the kernel keeps for itself, or leaves single frames
//! only: what the kernel can refuse is refused then, and the machine goes on.
//!
//! `scarce-memory`, on one node; it starts itself with an argument for the other parts
//! ([`program`]). `scarce-memory check NAME` makes only one of the [`CHECKS`].
#![no_std]
#![no_main]

extern crate alloc;

mod memory;
mod program;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::Suite;
use libredox::Fd;
use runtime::{Result, env, fd, fs, path, sys};
use syscall::error::{EFAULT, EINVAL, ENOMEM, ENOSPC};
use syscall::flag::{CLOCK_MONOTONIC, MapFlags};

use memory::{All, BUFFER, PAGE, map, map_file, map_over, move_page, pipe, system};
use program::{Asking, refused};

runtime::main!(main);

const PROGRAM: &str = "scarce-memory";
/// Programs that ask for long lists: more than the frames that the kernel keeps suffice for.
const PROGRAMS: usize = 16;
/// Pages given back once memory is used up, for the other programs of the node.
const OTHERS: usize = 64;
/// Timers that a file has at most.
const TIMERS: usize = 1024;
/// Bytes that a pipe holds at most.
const PIPE: usize = 64 << 10;
/// Files of a kind for which the kernel keeps more than it keeps for itself.
const KEEPERS: usize = 300;
/// Programs that end with very many files.
const ENDING: usize = 2;
/// How often others may run before memory is given back: more than often enough for them to end.
const YIELDS: usize = 10_000;
/// Frames that the kernel keeps for small objects, or a few less.
const KEPT: u64 = 256;
/// Frames that the kernel keeps for its objects and for daemons, or some less.
const KEPT_FOR_DAEMONS: u64 = 768;
/// Pages of a buffer that is handed to a daemon whether or not there is memory for it.
const FEW: usize = 64;
/// Buffers of that size: together they have more pages than the kernel keeps for daemons.
const SPARSE: usize = 24;
/// Pages of which the entries are in one page table.
const TABLE: usize = 512;

/// Makes some checks.
type Check = fn(&mut Suite);

/// The checks by name.
const CHECKS: [(&str, Check); 17] = [
    ("lists", scarce),
    ("areas", areas),
    ("pipes", pipes),
    ("tables", tables),
    ("daemon", daemon),
    ("files", files),
    ("ramfs", file_system),
    ("sparse", sparse),
    ("filled", filled),
    ("pieces", pieces),
    ("borrowed", borrowed),
    ("watched", watched),
    ("locked", locked),
    ("chained", chained),
    ("queues", queues),
    ("requests", requests),
    ("replaced", replaced),
];

fn main() -> i32 {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let chosen = match words.as_slice() {
        [] => None,
        ["check", name] => Some(*name),
        [role, ..] => return program::run(role),
    };
    let mut suite = Suite::new(PROGRAM);
    for (name, check) in CHECKS {
        if chosen.is_none_or(|chosen| chosen == name) {
            check(&mut suite);
        }
    }
    suite.finish()
}

fn errno<T>(result: Result<T>) -> i32 {
    result.err().map_or(0, |error| error.errno)
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
    let texts = keepers("/scheme/sys/iostat")?;
    let clocks = clocks()?;
    let mut all = All::take()?;
    all.give_last(OTHERS)?;
    let read = |file: &Fd| fd::read(file.raw(), &mut [0]).map(drop);
    let shown = errno(texts.iter().try_for_each(read));
    drop(texts);
    let armed = arm_all(&clocks);
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

fn timer_path() -> String {
    alloc::format!("/scheme/time/{CLOCK_MONOTONIC}/timer")
}

/// Arms as many timers as a file may have, which do not fire.
fn timers() -> Result<usize> {
    arm(&Fd::new(path::open(&timer_path(), syscall::O_RDWR)?))
}

/// Files that have more timers than the kernel has room for.
fn clocks() -> Result<Vec<Fd>> {
    keepers(&timer_path())
}

fn keepers(path: &str) -> Result<Vec<Fd>> {
    let open = |_| path::open(path, syscall::O_RDWR).map(Fd::new);
    (0..KEEPERS).map(open).collect()
}

/// Arms timers of files until the kernel refuses one; the error number.
fn arm_all(clocks: &[Fd]) -> i32 {
    errno(clocks.iter().try_for_each(|file| arm(file).map(drop)))
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

/// Has the kernel make very many areas of few.
fn areas(suite: &mut Suite) {
    let refused = asked(["move", "copy", "punch"]).map_err(|error| error.errno);
    suite.equal("areas without memory", refused, Ok([ENOMEM; 3]));
}

/// Has the kernel look for a pipe in very many others.
fn pipes(suite: &mut Suite) {
    let refused = asked(["nest"]).map_err(|error| error.errno);
    suite.equal("pipes in pipes without memory", refused, Ok([ENOMEM]));
}

/// What programs of these roles got, one after the other, while memory was used up.
fn asked<const ROLES: usize>(roles: [&str; ROLES]) -> Result<[i32; ROLES]> {
    let mut programs = Asking::start_all(&roles)?;
    let mut all = All::take()?;
    all.give_last(OTHERS)?;
    let asked = programs
        .iter_mut()
        .try_for_each(|program| program.ask().map(drop));
    all.give(0, all.pages)?;
    let mut errors = [0; ROLES];
    for (error, program) in errors.iter_mut().zip(&mut programs) {
        *error = program.end();
    }
    asked.map(|()| errors)
}

/// Has file tables grow, for which the kernel needs contiguous memory.
fn tables(suite: &mut Suite) {
    let free = || -> Result<u64> {
        let stat = Fd::new(path::open("/scheme/sys/stat", syscall::O_RDONLY)?);
        // Memory that is there.
        let mut text = alloc::vec![1; PAGE];
        let (_, free) = numbers("resize", |_| free_frames(&stat, &mut text))?;
        Ok(free)
    };
    let enough = match free() {
        Ok(KEPT..) => Ok(()),
        other => Err(alloc::format!("{other:?}")),
    };
    suite.check("frames kept from long lists", enough);
}

/// The frames that are free, by the file `stat`. `text` has a page that is there.
fn free_frames(stat: &Fd, text: &mut [u8]) -> Result<u64> {
    let count = fd::read(stat.raw(), text)?;
    let text = core::str::from_utf8(&text[..count]).unwrap_or_default();
    let mut lines = text.lines();
    let free = lines.find_map(|line| line.strip_prefix("frames_free: ")?.parse().ok());
    free.ok_or(runtime::Error::new(EINVAL))
}

/// A daemon touches new pages when programs have also had the kernel make all the objects that it
/// makes for them. Then it ends, and the process manager, a daemon itself, must not miss that.
fn daemon(suite: &mut Suite) {
    let touched = || -> Result<[i32; 2]> {
        let clocks = clocks()?;
        let mut daemon = Asking::start("daemon")?;
        let mut all = All::take()?;
        let armed = arm_all(&clocks);
        let asked = daemon.ask();
        daemon.let_go();
        let_others_run();
        drop(clocks);
        all.give(0, all.pages)?;
        asked?;
        Ok([armed, daemon.end()])
    };
    let touched = touched().map_err(|error| error.errno);
    suite.equal("new pages of a daemon", touched, Ok([ENOMEM, 0]));
}

/// Lets programs end that were let go. To wait for one of them takes memory.
fn let_others_run() {
    for _ in 0..YIELDS {
        sys::yield_now();
    }
}

/// Ends programs that have very many files, all at once.
fn files(suite: &mut Suite) {
    ending(suite, "files", "files closed without memory");
    suite.equal("their daemon goes on", errno(fs::read("/scheme/null")), 0);
}

/// Ends programs that have mapped very many pieces of files.
fn pieces(suite: &mut Suite) {
    ending(suite, "pieces", "pieces unmapped without memory");
    suite.equal("their file system goes on", errno(fs::read_dir("/tmp")), 0);
}

/// Ends programs that have borrowed very many pieces of other programs' memory.
fn borrowed(suite: &mut Suite) {
    ending(suite, "borrowed", "borrowed pieces without memory");
}

/// Ends programs whose event queues watch very many files.
fn watched(suite: &mut Suite) {
    ending(suite, "watched", "queues closed without memory");
}

/// Ends programs that have very many descriptors of a file that they have locked: its file system
/// wants to know of closed ones.
fn locked(suite: &mut Suite) {
    ending(suite, "locked", "descriptors of a lock without memory");
    suite.equal("its file system goes on", errno(fs::read_dir("/tmp")), 0);
}

/// Ends programs with an event that very many queues hear of, one from the other.
fn chained(suite: &mut Suite) {
    ending(suite, "chained", "an event of many queues without memory");
}

/// Has very many queues get their first event.
fn queues(suite: &mut Suite) {
    ending(suite, "queues", "first events without memory");
}

/// Ends programs of which very many threads make a request at once that nobody answers.
fn requests(suite: &mut Suite) {
    ending(suite, "requests", "requests without memory");
}

/// Ends programs of a role, all at once, when programs have also had the kernel make all the
/// objects that it makes for them.
fn ending(suite: &mut Suite, role: &str, check: &str) {
    let ended = || -> Result<()> {
        let clocks = clocks()?;
        let mut programs = Asking::start_all(&[role; ENDING])?;
        let mut all = All::take()?;
        all.give_last(OTHERS)?;
        for program in &mut programs {
            program.ask()?;
        }
        let armed = arm_all(&clocks);
        programs.iter_mut().for_each(Asking::let_go);
        let_others_run();
        drop(clocks);
        all.give(0, all.pages)?;
        if armed != ENOMEM {
            return Err(runtime::Error::new(EINVAL));
        }
        match programs.iter_mut().map(Asking::end).max() {
            Some(0) => Ok(()),
            error => Err(runtime::Error::new(error.unwrap_or(EFAULT))),
        }
    };
    suite.equal(check, errno(ended()), 0);
}

/// Has the file system in memory grow while memory is used up, long before it reaches its limit:
/// it refuses that, keeps what it has, and goes on when there is memory again.
fn file_system(suite: &mut Suite) {
    let grown = || -> Result<([i32; 3], bool)> {
        let flags = syscall::O_RDWR | syscall::O_CREAT | 0o600;
        let file = Fd::new(path::open("/tmp/scarce", flags)?);
        fd::write(file.raw(), b"kept")?;
        let mut all = All::take()?;
        all.give_last(OTHERS)?;
        let mut write = || system(syscall::SYS_WRITE, [file.raw(), all.base, BUFFER]).map(drop);
        let written = core::iter::repeat_with(&mut write).find_map(Result::err);
        let made = path::open("/tmp/scarcer", flags).map(Fd::new).map(drop);
        let mapped = map_file(file.raw(), 0, BUFFER / PAGE, MapFlags::MAP_SHARED).map(drop);
        all.give(0, all.pages)?;
        let written = written.map_or(0, |error| error.errno);
        let content = fs::read("/tmp/scarce")?;
        fd::write(file.raw(), b"more")?;
        fs::remove_file("/tmp/scarce")?;
        let errors = [written, errno(made), errno(mapped)];
        Ok((errors, content.starts_with(b"kept")))
    };
    suite.equal(
        "a file system without memory",
        grown().map_err(|error| error.errno),
        Ok(([ENOSPC, ENOSPC, ENOMEM], true)),
    );
}

/// Has the file system fill buffers while memory is used up, of which no page is there yet: the
/// calls fail, and the file system has its own memory and its files.
fn sparse(suite: &mut Suite) {
    let filled = || -> Result<([i32; SPARSE], u64, bool)> {
        let flags = syscall::O_RDWR | syscall::O_CREAT | 0o600;
        let file = Fd::new(path::open("/tmp/sparse", flags)?);
        fd::write(file.raw(), b"kept")?;
        let stat = Fd::new(path::open("/scheme/sys/stat", syscall::O_RDONLY)?);
        let zero = Fd::new(path::open("/scheme/file/dev/zero", syscall::O_RDONLY)?);
        let mut text = alloc::vec![1; PAGE];
        let buffers = map(FEW * SPARSE)?;
        let mut errors = [0; SPARSE];
        let mut all = All::take()?;
        all.give_last(OTHERS)?;
        for (index, error) in errors.iter_mut().enumerate() {
            let buffer = buffers + index * FEW * PAGE;
            *error = errno(system(syscall::SYS_READ, [zero.raw(), buffer, FEW * PAGE]));
        }
        let free = free_frames(&stat, &mut text);
        all.give(0, all.pages)?;
        let content = fs::read("/tmp/sparse")?;
        fs::remove_file("/tmp/sparse")?;
        Ok((errors, free?, content == b"kept"))
    };
    let kept = match filled() {
        Ok((errors, KEPT_FOR_DAEMONS.., true)) => refused(&errors),
        other => Err(alloc::format!("{other:?}")),
    };
    suite.check("buffers filled by a daemon without memory", kept);
}

/// A daemon fills a client's buffer of which no page is there yet when memory is used up: it goes
/// on, with the memory that is kept for daemons, and the client's call fails.
fn filled(suite: &mut Suite) {
    let served = || -> Result<i32> {
        let mut server = Asking::start("serve")?;
        let mut all = All::take()?;
        all.give_last(OTHERS)?;
        let asked = server.ask();
        all.give(0, all.pages)?;
        asked?;
        Ok(server.end())
    };
    let ended = served().unwrap_or_else(|error| error.errno);
    suite.equal("a client's buffer without memory", ended, 0);
}

/// Maps a file over a page, and moves a page, to where a page table is missing when memory is used
/// up: that is refused, and the pages are still there.
fn replaced(suite: &mut Suite) {
    let refused = || -> Result<[i32; 4]> {
        let flags = syscall::O_RDWR | syscall::O_CREAT | 0o600;
        let file = Fd::new(path::open("/tmp/replaced", flags)?);
        fd::write(file.raw(), &[7; 2 * PAGE])?;
        let (_output, input) = pipe()?;
        let zone = map(3 * TABLE)?;
        // The entries from here on are in a table that is not there.
        let edge = (zone + TABLE * PAGE).next_multiple_of(TABLE * PAGE);
        let (own, of_file) = (edge - 2 * PAGE, edge - PAGE);
        runtime::probe::poke(own, 9);
        map_over(file.raw(), of_file, 1)?;
        let mut all = All::take()?;
        let is_there = |at| errno(system(syscall::SYS_WRITE, [input.raw(), at, 1]));
        let mapped = errno(map_over(file.raw(), of_file, 2));
        let after_map = is_there(of_file);
        let moved = errno(move_page(own, edge));
        let after_move = is_there(own);
        all.give(0, all.pages)?;
        memory::unmap(zone, 3 * TABLE)?;
        fs::remove_file("/tmp/replaced")?;
        Ok([mapped, after_map, moved, after_move])
    };
    suite.equal(
        "pages that a refused call would replace or move",
        refused().map_err(|error| error.errno),
        Ok([ENOMEM, 0, ENOMEM, 0]),
    );
}
