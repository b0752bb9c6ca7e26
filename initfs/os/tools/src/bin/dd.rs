//! `dd [if=file] [of=file] [bs=size] [count=blocks] [skip=blocks] [pause=seconds]`: copies in
//! blocks of a chosen size.
//!
//! Each block is one `read` and one `write` call as far as the files allow: a short read is
//! written as it is. `bs` may be any number (1, 7, 4097, 64K); with `iflag=fullblock` short reads
//! are filled up first. `pause` waits after every block, for a slow reader or writer. A line on
//! standard error shows bytes, time and rate; `status=none` leaves it out.
#![no_std]
#![no_main]

use core::fmt;
use core::time::Duration;

use runtime::fs::File;
use runtime::io::Write;
use runtime::time::{Instant, sleep};
use tools::io::{self, Buffer, Input};
use tools::number;

tools::main!(main);

/// Largest block: it is one buffer in memory.
const MAX_BLOCK: u64 = 16 << 20;

struct Options<'a> {
    from: &'a str,
    to: Option<&'a str>,
    size: usize,
    count: u64,
    skip: u64,
    pause: u64,
    full: bool,
    quiet: bool,
}

impl<'a> Options<'a> {
    /// Sets one `key=value`; `None` if the key is unknown.
    fn set(&mut self, argument: &'a str) -> Option<()> {
        let (key, value) = argument.split_once('=')?;
        match key {
            "if" => self.from = value,
            "of" => self.to = Some(value),
            "bs" => {
                let size = number::size(value).filter(|size| (1..=MAX_BLOCK).contains(size))?;
                self.size = size as usize;
            }
            "count" => self.count = number::size(value)?,
            "skip" => self.skip = number::size(value)?,
            "pause" => self.pause = number::seconds(value)?,
            "fullblock" => self.full = value == "1",
            "iflag" if value == "fullblock" => self.full = true,
            "status" => self.quiet = value == "none",
            _ => return None,
        }
        Some(())
    }
}

fn main() -> i32 {
    let arguments = io::arguments();
    let mut options = Options {
        from: "-",
        to: None,
        size: 512,
        count: u64::MAX,
        skip: 0,
        pause: 0,
        full: false,
        quiet: false,
    };
    for argument in &arguments {
        if options.set(argument).is_none() {
            return io::usage(Some(argument));
        }
    }
    let (done, status) = match copy(&options) {
        Ok(done) => done,
        Err(status) => return status,
    };
    if !options.quiet {
        runtime::eprintln!("{done}");
    }
    status
}

/// What was copied.
struct Done {
    bytes: u64,
    blocks: u64,
    nanoseconds: u64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in {} blocks, {} s, {}",
            self.bytes,
            self.blocks,
            number::show_seconds(self.nanoseconds),
            number::show_rate(self.bytes, self.nanoseconds)
        )
    }
}

/// Copies as the options say. Returns what was copied, and the exit status.
///
/// # Errors
/// The exit status, if nothing was copied because a file cannot be opened or skipped over.
fn copy(options: &Options<'_>) -> Result<(Done, i32), i32> {
    let (from, to) = (options.from, options.to.unwrap_or("standard output"));
    let mut input = Input::open(from).map_err(|error| io::report("dd", from, error))?;
    let output = options.to.map(File::create).transpose();
    let mut output = output.map_err(|error| io::report("dd", to, error))?;
    let mut buffer = Buffer::new(options.size);
    for _ in 0..options.skip {
        let skipped = input.fill(buffer.bytes());
        skipped.map_err(|error| io::report("dd", from, error))?;
    }
    let start = Instant::now();
    let (mut bytes, mut blocks, mut status) = (0u64, 0u64, 0);
    while blocks < options.count {
        let block = buffer.bytes();
        let result = match options.full {
            true => input.fill(block),
            false => input.read(block),
        };
        let length = match result {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) => {
                status = io::report("dd", from, error);
                break;
            }
        };
        let block = &buffer.bytes()[..length];
        let written = match &mut output {
            Some(file) => file.write_all(block),
            None => io::output(block),
        };
        if let Err(error) = written {
            status = io::report("dd", to, error);
            break;
        }
        bytes += length as u64;
        blocks += 1;
        if options.pause > 0 {
            sleep(Duration::from_nanos(options.pause));
        }
    }
    let nanoseconds = start.elapsed().as_nanos() as u64;
    let done = Done {
        bytes,
        blocks,
        nanoseconds,
    };
    Ok((done, status))
}
