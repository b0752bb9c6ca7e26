//! `less`: shows a text page by page; `man less` lists the keys.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use libredox::Fd;
use runtime::{Result, fd};
use tools::io::{self, Buffer, CopyError, Input};
use tools::lines::Lines;
use tools::pager::{self, Pager, Text};

tools::main!(main);

const STANDARD_OUTPUT: usize = 1;
/// Rows and columns of a terminal whose size is unknown.
const USUAL_SIZE: (usize, usize) = (24, 80);

fn main() -> i32 {
    let arguments = io::arguments();
    let path = match io::operands(&arguments) {
        Ok([]) => "-",
        Ok([path]) => path,
        Ok([_, second, ..]) => return io::usage(Some(second)),
        Err(status) => return status,
    };
    let mut input = match Input::open(path) {
        Ok(input) => input,
        Err(error) => return io::report("less", path, error),
    };
    // If standard output is not the console, it gets the text unchanged.
    let Ok(keyboard) = fd::dup(STANDARD_OUTPUT, b"raw").map(Fd::new) else {
        return copy(path, &mut input);
    };
    let (rows, columns) = size().unwrap_or(USUAL_SIZE);
    let name = if path == "-" { "text" } else { path };
    let text = InputLines::new(input);
    match show(Pager::new(text, name, rows, columns), &keyboard) {
        Ok(()) => 0,
        Err(error) => io::report("less", "the console", error),
    }
}

fn copy(path: &str, input: &mut Input) -> i32 {
    let mut buffer = Buffer::new(io::BLOCK);
    match io::blocks(input, &mut buffer, io::output) {
        Ok(()) | Err(CopyError::Enough) => 0,
        Err(CopyError::Input(error)) => io::report("less", path, error),
        Err(CopyError::Output(error)) => io::output_failed("less", error),
    }
}

fn show(mut pager: Pager<InputLines>, keyboard: &Fd) -> Result<()> {
    let mut bytes = [0; 64];
    while !pager.has_ended() {
        io::output(pager.screen().as_bytes())?;
        let count = fd::read(keyboard.raw(), &mut bytes)?;
        if count == 0 {
            break;
        }
        for key in pager::keys(&bytes[..count]) {
            pager.press(key);
        }
    }
    io::output(b"\r\x1b[K")
}

/// Rows and columns of the console.
fn size() -> Option<(usize, usize)> {
    let handle = Fd::new(fd::dup(STANDARD_OUTPUT, b"winsize").ok()?);
    let mut bytes = [0; 4];
    let count = fd::read(handle.raw(), &mut bytes).ok()?;
    let [a, b, c, d] = bytes;
    (count == bytes.len()).then(|| {
        let words = [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])];
        (words[0].into(), words[1].into())
    })
}

/// The lines of an input.
struct InputLines {
    /// `None` at the end, and where reading fails.
    input: Option<Input>,
    buffer: Buffer,
    cut: Lines,
    ready: VecDeque<Vec<u8>>,
}

impl InputLines {
    fn new(input: Input) -> Self {
        InputLines {
            input: Some(input),
            buffer: Buffer::new(io::BLOCK),
            cut: Lines::new(),
            ready: VecDeque::new(),
        }
    }
}

impl Text for InputLines {
    fn next_line(&mut self) -> Option<Vec<u8>> {
        while self.ready.is_empty()
            && let Some(input) = &mut self.input
        {
            let count = input.read(self.buffer.bytes()).unwrap_or(0);
            if count == 0 {
                self.input = None;
                let last = core::mem::take(&mut self.cut).finish();
                self.ready.extend(last);
                break;
            }
            let ready = &mut self.ready;
            self.cut.push(&self.buffer.bytes()[..count], |line| {
                ready.push_back(line.strip_suffix(b"\n").unwrap_or(line).to_vec());
                true
            });
        }
        self.ready.pop_front()
    }
}
