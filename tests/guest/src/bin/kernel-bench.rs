//! `kernel-bench`: prints the cost of the kernel's paths: calls, switches, pipes, requests to a
//! scheme, events, mappings.
//!
//! `kernel-bench [WORD]`: only measures whose name contains WORD. One line each, `<name> <n> ns`:
//! the least of several rounds, as nothing but the path itself makes a round fast. Absolute times
//! say something about one machine at one hour only; compare lines of one run, or counts of
//! executed instructions.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use hal::event::Queue;
use libredox::Fd;
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult};
use runtime::process::Command;
use runtime::time::{Duration, Instant, sleep};
use runtime::{Error, Result, env, fd, path, println, probe, sys, thread};
use scheme::SchemeDaemon;
use scheme::daemon::{self, Mode};
use syscall::error::EINVAL;
use syscall::flag::{EventFlags, MapFlags, MunmapFlags};
use syscall::schemev2::NewFdFlags;
use syscall::{Map, PAGE_SIZE};

runtime::main!(main);

/// Rounds of each measure; the least time counts.
const ROUNDS: usize = 7;
/// Times a short path is taken in one round.
const REPEATS: u32 = 500;
/// The scheme this program serves to itself.
const SCHEME: &str = "kernel-bench";
/// Memory the daemon lets be mapped, in pages.
const PAGES: usize = 4096;
/// Rights of a mapping of the program's own.
const OWN: MapFlags = MapFlags::PROT_READ
    .union(MapFlags::PROT_WRITE)
    .union(MapFlags::MAP_PRIVATE);

fn main() -> i32 {
    let word = env::args().nth(1).unwrap_or_default();
    let result = match word.as_str() {
        "--daemon" => serve(),
        "--echo" => echo(),
        "--yield" => loop {
            thread::yield_now();
        },
        word => Bench { only: word.into() }.all(),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            println!("kernel-bench: {error}");
            1
        }
    }
}

struct Bench {
    only: String,
}

impl Bench {
    /// Prints the least time of `repeats` calls of `path`, divided by `repeats`.
    fn run(&self, name: &str, repeats: u32, mut path: impl FnMut() -> Result<()>) -> Result<()> {
        if !name.contains(self.only.as_str()) {
            return Ok(());
        }
        // The first call pays for pages and translations.
        path()?;
        let mut least = Duration::MAX;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..repeats {
                path()?;
            }
            least = least.min(start.elapsed());
        }
        println!("{name:36} {:>9} ns", least.as_nanos() / u128::from(repeats));
        Ok(())
    }

    fn all(&self) -> Result<()> {
        let (read, _write) = pipe()?;
        self.run("call (fcntl)", REPEATS, || {
            fd::fcntl(read.raw(), syscall::F_GETFD, 0).map(drop)
        })?;
        self.run("call (clock)", REPEATS, || {
            let _ = Instant::now();
            Ok(())
        })?;
        self.run("yield, nobody else", REPEATS, || {
            thread::yield_now();
            Ok(())
        })?;
        self.yields()?;
        self.pipes()?;
        self.events()?;
        self.memory()?;
        self.schemes()
    }

    fn yields(&self) -> Result<()> {
        static STOP: AtomicBool = AtomicBool::new(false);
        let other = thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        })?;
        self.run("yield to a thread and back", REPEATS, || {
            thread::yield_now();
            Ok(())
        })?;
        STOP.store(true, Ordering::Relaxed);
        other.join()?;
        let mut other = Command::new("kernel-bench").arg("--yield").spawn()?;
        self.run("yield to a process and back", REPEATS, || {
            thread::yield_now();
            Ok(())
        })?;
        other.kill()?;
        other.wait().map(drop)
    }

    fn pipes(&self) -> Result<()> {
        let (there_read, there_write) = pipe()?;
        let (back_read, back_write) = pipe()?;
        let mut other = Command::new("kernel-bench")
            .arg("--echo")
            .stdin(&there_read)
            .stdout(&back_write)
            .spawn()?;
        drop((there_read, back_write));
        let mut message = [0; 64];
        self.run("pipe to a process and back", REPEATS, || {
            fd::write(there_write.raw(), &message)?;
            fd::read(back_read.raw(), &mut message).map(drop)
        })?;
        drop(there_write);
        other.wait().map(drop)
    }

    fn events(&self) -> Result<()> {
        let (read, write) = pipe()?;
        let mut queue = Queue::new()?;
        queue.subscribe(read.raw(), EventFlags::EVENT_READ, 1)?;
        let mut ready = Vec::new();
        self.run("write, event, read", REPEATS, || {
            fd::write(write.raw(), &[0; 8])?;
            queue.wait(Some(Duration::from_secs(1)), &mut ready)?;
            fd::read(read.raw(), &mut [0; 8]).map(drop)
        })?;
        self.run("event queue, nothing there", REPEATS, || {
            queue.wait(Some(Duration::ZERO), &mut ready)
        })
    }

    fn memory(&self) -> Result<()> {
        for pages in [1, 16, 256] {
            let name = alloc::format!("map, touch, unmap {pages} pages");
            self.run(&name, 10, || {
                let base = map(sys::NO_FD, pages, OWN)?;
                touch(base, pages);
                unmap(base, pages)
            })?;
        }
        Ok(())
    }

    fn schemes(&self) -> Result<()> {
        let mut daemon = Command::new("kernel-bench").arg("--daemon").spawn()?;
        let end = Instant::now() + Duration::from_secs(10);
        let file = loop {
            match path::open("/scheme/kernel-bench/x", syscall::O_RDWR) {
                Ok(file) => break Fd::new(file),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => sleep(Duration::from_millis(1)),
            }
        };
        self.run("scheme, no buffer", REPEATS, || {
            let words = [file.raw(), 0, 0, 0, 0, 0];
            sys::demux(probe::syscall(syscall::SYS_FSYNC, words)).map(drop)
        })?;
        let mut small = [0; 64];
        self.run("scheme, read of 64 bytes", REPEATS, || {
            fd::read(file.raw(), &mut small).map(drop)
        })?;
        self.run("scheme, write of 64 bytes", REPEATS, || {
            fd::write(file.raw(), &small).map(drop)
        })?;
        let base = map(sys::NO_FD, 16, OWN)?;
        touch(base, 16);
        for pages in [1, 16] {
            let name = alloc::format!("scheme, write of {pages} pages");
            self.run(&name, 100, || {
                let bytes = [file.raw(), base, pages * PAGE_SIZE, 0, 0, 0];
                sys::demux(probe::syscall(syscall::SYS_WRITE, bytes)).map(drop)
            })?;
        }
        unmap(base, 16)?;
        for pages in [1, 16, 256, PAGES] {
            let name = alloc::format!("scheme, map and unmap {pages} pages");
            let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
            self.run(&name, 10, || unmap(map(file.raw(), pages, flags)?, pages))?;
        }
        daemon.kill()?;
        daemon.wait().map(drop)
    }
}

/// A pipe: the end to read from and the end to write to.
fn pipe() -> Result<(Fd, Fd)> {
    let read = Fd::new(path::open("/scheme/pipe", syscall::O_RDWR)?);
    let write = Fd::new(fd::dup(read.raw(), b"write")?);
    Ok((read, write))
}

/// Sends back what comes in.
fn echo() -> Result<()> {
    let mut message = [0; 64];
    loop {
        let count = fd::read(0, &mut message)?;
        if count == 0 {
            return Ok(());
        }
        fd::write(1, &message[..count])?;
    }
}

fn map(fd: usize, pages: usize, flags: MapFlags) -> Result<usize> {
    let map = Map {
        offset: 0,
        size: pages * PAGE_SIZE,
        flags,
        address: 0,
    };
    let words = [fd, (&raw const map).addr(), size_of::<Map>(), 0, 0, 0];
    sys::demux(probe::syscall(syscall::SYS_FMAP, words))
}

fn unmap(base: usize, pages: usize) -> Result<()> {
    let words = [base, pages * PAGE_SIZE, 0, 0, 0, 0];
    sys::demux(probe::syscall(syscall::SYS_FUNMAP, words)).map(drop)
}

fn touch(base: usize, pages: usize) {
    (0..pages).for_each(|page| probe::poke(base + page * PAGE_SIZE, 1));
}

/// A scheme that answers every request with success.
struct Yes {
    memory: usize,
}

impl SchemeSync for Yes {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(0)
    }

    fn openat(
        &mut self,
        _dir: usize,
        _path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        _caller: &CallerCtx,
    ) -> Result<OpenResult> {
        Ok(OpenResult::ThisScheme {
            number: 1,
            flags: NewFdFlags::empty(),
        })
    }

    fn read(&mut self, _: usize, buf: &mut [u8], _: u64, _: u32, _: &CallerCtx) -> Result<usize> {
        Ok(buf.len())
    }

    fn write(&mut self, _: usize, buf: &[u8], _: u64, _: u32, _: &CallerCtx) -> Result<usize> {
        Ok(buf.len())
    }

    fn fsync(&mut self, _: usize, _: &CallerCtx) -> Result<()> {
        Ok(())
    }

    fn mmap_prep(
        &mut self,
        _: usize,
        offset: u64,
        size: usize,
        _: MapFlags,
        _: &CallerCtx,
    ) -> Result<usize> {
        if offset != 0 || size > PAGES * PAGE_SIZE {
            return Err(Error::new(EINVAL));
        }
        Ok(self.memory)
    }

    fn munmap(&mut self, _: usize, _: u64, _: usize, _: MunmapFlags, _: &CallerCtx) -> Result<()> {
        Ok(())
    }
}

impl SchemeDaemon for Yes {}

fn serve() -> Result<()> {
    let memory = map(sys::NO_FD, PAGES, OWN)?;
    touch(memory, PAGES);
    let mut scheme = Yes { memory };
    daemon::start(SCHEME, Mode::Blocking, None, &mut scheme)?.run(&mut scheme)
}
