//! The console as programs use it: lines that are edited, words that a program completes, bytes,
//! the terminal's size. The keys are typed by the test.
//!
//! `console-test`, as root, while no key is typed.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use guest_tests::{Suite, kernel_count};
use hal::event::Queue;
use runtime::signals::{self, Choice};
use runtime::time::Duration;
use runtime::{Result, fd, path, process, thread};
use syscall::error::{EAGAIN, EINVAL, ENODEV};
use syscall::flag::{EventFlags, F_SETFL, O_NONBLOCK, O_RDWR};

runtime::main!(main);

fn main() -> i32 {
    let mut suite = Suite::new("console");
    match Console::open() {
        Ok(console) => {
            lines_are_edited(&mut suite, &console);
            words_are_completed(&mut suite, &console);
            bytes_come_as_they_are(&mut suite, &console);
            input_is_watched(&mut suite, &console);
            each_interrupt_arrives(&mut suite, &console);
            the_size_is_told(&mut suite, &console);
            the_log_stops_nobody(&mut suite, &console);
            much_is_written(&mut suite, &console);
            the_screen_has_one_terminal(&mut suite);
        }
        Err(error) => suite.equal("the console opens", error.errno, 0),
    }
    suite.finish()
}

/// Threads that write to the log side by side.
const WRITERS: usize = 8;

/// Handles of the scheme `console`, by what they are for.
struct Console {
    line: usize,
    keyboard: usize,
}

impl Console {
    fn open() -> Result<Self> {
        let line = path::open("/scheme/console", syscall::O_RDWR)?;
        let keyboard = fd::dup(line, b"keyboard")?;
        Ok(Console { line, keyboard })
    }

    /// Another handle; a failure shows in its first use.
    fn handle(&self, name: &[u8]) -> usize {
        fd::dup(self.line, name).unwrap_or(usize::MAX)
    }

    /// Types keys, then reads once.
    fn type_and_read(&self, keys: &[u8], reader: usize) -> Result<Vec<u8>> {
        fd::write(self.keyboard, keys)?;
        read(reader)
    }

    /// The line that comes of keys.
    fn line_of(&self, keys: &[u8]) -> Result<Vec<u8>> {
        self.type_and_read(keys, self.line)
    }
}

fn read(reader: usize) -> Result<Vec<u8>> {
    let mut bytes = alloc::vec![0; 256];
    let count = fd::read_once(reader, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Checks the bytes of a read; a failed one shows as none.
fn gives(suite: &mut Suite, name: &str, found: Result<Vec<u8>>, expected: &[u8]) {
    let found = found.map_err(|error| error.errno);
    suite.equal(name, found.as_deref(), Ok(expected));
}

fn lines_are_edited(suite: &mut Suite, console: &Console) {
    let plain = console.line_of(b"echo one\r");
    gives(suite, "a line", plain, b"echo one\n");
    // Backspace, left, insert, end, word before the cursor cut and pasted twice.
    let edited = console.line_of(b"ecx\x7fho \x1b[Dx\x1b[D\x1b[3~\x05two\x17\x19\x19\r");
    gives(suite, "an edited line", edited, b"echo twotwo\n");
    let recalled = console.line_of(b"\x1b[A\x1b[A!\r");
    gives(suite, "a line of the history", recalled, b"echo one!\n");
    let characters = console.line_of("µ✓\x7f é\r".as_bytes());
    gives(
        suite,
        "characters of several bytes",
        characters,
        "µ é\n".as_bytes(),
    );
    let given_up = console.line_of(b"\x04");
    gives(suite, "the end of the input", given_up, b"");
}

fn words_are_completed(suite: &mut Suite, console: &Console) {
    let completer = console.handle(b"complete");
    // Reported afterwards: what is printed meanwhile stands behind the line that is edited.
    let asked = console.type_and_read(b"ca x\x1b[D\x1b[D\t", completer);
    let inserted = fd::write(completer, b"lendar").map_err(|error| error.errno);
    let line = console.type_and_read(b"\r", completer);
    gives(suite, "the text before Tab", asked, b"ca\t");
    suite.equal("text is inserted", inserted, Ok(6));
    gives(suite, "the completed line", line, b"calendar x\n");
    let _ = fd::close(completer);
    // Where no program completes, Tab is a blank.
    gives(
        suite,
        "Tab without a completer",
        console.line_of(b"a\tb\r"),
        b"a b\n",
    );
}

fn bytes_come_as_they_are(suite: &mut Suite, console: &Console) {
    let raw = console.handle(b"raw");
    let keys = console.type_and_read(b"q\x1b[A\t\x7f", raw);
    gives(suite, "bytes", keys, b"q\x1b[A\t\x7f");
    let _ = fd::close(raw);
}

/// Programs wait for input by event queues, and look for it by reads that do not wait.
fn input_is_watched(suite: &mut Suite, console: &Console) {
    for (name, keys, found) in [
        ("", &b"watched\r"[..], &b"watched\n"[..]),
        ("raw", b"x", b"x"),
    ] {
        // An open file of its own, as the flag is the file's.
        let line = path::open("/scheme/console", O_RDWR).unwrap_or(usize::MAX);
        let handle = match name {
            "" => line,
            name => fd::dup(line, name.as_bytes()).unwrap_or(usize::MAX),
        };
        suite.equal("keys report input", watch(console, handle, keys), Ok(true));
        gives(suite, "input that was watched", read(handle), found);
        let set = fd::fcntl(handle, F_SETFL, O_NONBLOCK | O_RDWR);
        suite.equal("a handle does not wait", set.map(drop), Ok(()));
        let none = read(handle).map_err(|error| error.errno);
        suite.equal("input that is not there", none, Err(EAGAIN));
        let typed = console.type_and_read(keys, handle);
        gives(suite, "input without waiting", typed, found);
        let _ = fd::close(handle);
        if handle != line {
            let _ = fd::close(line);
        }
    }
    // The line of a program that has gone is nobody's.
    gives(suite, "a line afterwards", console.line_of(b"x\r"), b"x\n");
}

/// Whether a queue reports a handle once keys were typed.
fn watch(console: &Console, handle: usize, keys: &[u8]) -> Result<bool> {
    const LONGEST: Duration = Duration::from_secs(20);
    let mut queue = Queue::new()?;
    let mut ready = Vec::new();
    queue.subscribe(handle, EventFlags::EVENT_READ, ())?;
    fd::write(console.keyboard, keys)?;
    queue.wait(Some(LONGEST), &mut ready)?;
    Ok(!ready.is_empty())
}

/// A program that goes on after an interrupt gets the next one, too.
fn each_interrupt_arrives(suite: &mut Suite, console: &Console) {
    const SIGINT: u32 = 2;
    let caught = Choice {
        caught: 1 << (SIGINT - 1),
        ignored: 0,
    };
    let foreground = console.handle(b"pgrp");
    let own = (process::id() as usize).to_ne_bytes();
    let begun = signals::choose(caught).and_then(|_| fd::write(foreground, &own));
    suite.equal("a program is in the foreground", begun.map(drop), Ok(()));
    for _ in 0..2 {
        let typed = fd::write(console.keyboard, b"\x03");
        suite.equal("an interrupt is typed", typed.map(drop), Ok(()));
        let kept = fd::read_once(foreground, &mut [0]);
        suite.equal("an interrupt that nobody gets", kept, Ok(0));
        let number = signals::fetch().map(|arrival| arrival.map(|arrival| arrival.number));
        suite.equal("the signal of an interrupt", number, Ok(Some(SIGINT)));
    }
    signals::give_up();
    let _ = fd::close(foreground);
}

fn the_size_is_told(suite: &mut Suite, console: &Console) {
    let size = console.handle(b"winsize");
    let expected = |rows: u16, columns: u16| [rows.to_ne_bytes(), columns.to_ne_bytes()].concat();
    gives(
        suite,
        "the size of a silent terminal",
        read(size),
        &expected(24, 80),
    );
    // The terminal's report among keys is no key.
    let line = console.line_of(b"ab\x1b[8;50;132tc\r");
    gives(suite, "a line with the report of a size", line, b"abc\n");
    gives(suite, "the size told", read(size), &expected(50, 132));
    let line = console.line_of(b"\x1b[8;24;80t\r");
    gives(suite, "a line with a size alone", line, b"\n");
    gives(suite, "the size told last", read(size), &expected(24, 80));
    let _ = fd::close(size);
    let unknown = fd::dup(console.line, b"nonsense").map_err(|error| error.errno);
    suite.equal("an unknown handle", unknown, Err(EINVAL));
}

/// Programs may write more than the daemon has memory for a copy of.
fn much_is_written(suite: &mut Suite, console: &Console) {
    let free = kernel_count("frames_free").map_or(0, |frames| frames as usize);
    let much = alloc::vec![b'\r'; free * 4096 / 10 * 6];
    let written = fd::write(console.line, &much).map_err(|error| error.errno);
    suite.equal("a part of very much is written", written, Ok(64 * 1024));
    let completer = console.handle(b"complete");
    let inserted = fd::write(completer, &much).map_err(|error| error.errno);
    suite.equal("very much is inserted", inserted, Err(EINVAL));
    let _ = fd::close(completer);
}

/// Lines are edited while a program writes to the log as fast as it can.
fn the_log_stops_nobody(suite: &mut Suite, console: &Console) {
    static ENOUGH: AtomicBool = AtomicBool::new(false);
    let writer = || {
        thread::spawn(|| {
            let log = path::open("/scheme/log", syscall::O_WRONLY)?;
            while !ENOUGH.load(Ordering::Relaxed) {
                fd::write(log, b"a line\n")?;
            }
            fd::close(log)
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(|_| writer()).collect();
    let lines: Result<Vec<Vec<u8>>> = (0..3).map(|_| console.line_of(b"echo two\r")).collect();
    ENOUGH.store(true, Ordering::Relaxed);
    let mut ended = writers.into_iter().map(|writer| writer?.join()?);
    let written = ended.try_for_each(|written: Result<()>| written);
    let written = written.map_err(|error| error.errno);
    suite.equal("the log is written", written, Ok(()));
    let lines = lines.map(|lines| lines.concat());
    gives(
        suite,
        "lines beside a busy log",
        lines,
        &b"echo two\n".repeat(3),
    );
}

fn the_screen_has_one_terminal(suite: &mut Suite) {
    let screen = path::open("/scheme/debug/screen", syscall::O_RDWR);
    let screen = screen.map_err(|error| error.errno);
    suite.equal("the screen of a machine without one", screen, Err(ENODEV));
}
