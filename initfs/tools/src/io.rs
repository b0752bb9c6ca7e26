//! Reading, writing and reporting, the same way in all programs.
//!
//! Reading takes ECONNRESET as the end of the input: a SCIF connection has no other way to say
//! that the peer closed it after its last byte, so `cat /scheme/scif/accept/2050` ends well.

use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use runtime::fs::File;
use runtime::io::{Read, Write};
use syscall::error::{ECONNRESET, EISDIR, EPIPE, Error, Result};

/// Bytes moved at once. Buffers of whole pages are handed to a scheme without a copy.
pub const BLOCK: usize = 64 * 1024;
const PAGE: usize = 4096;

/// A buffer that begins at a page.
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// `length` zero bytes.
    pub fn new(length: usize) -> Self {
        let bytes = alloc::vec![0; length + PAGE];
        let start = (bytes.as_ptr() as usize).wrapping_neg() % PAGE;
        Buffer {
            bytes,
            start,
            length,
        }
    }

    /// All of it.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// Arguments without the program's name.
pub fn arguments() -> Vec<String> {
    runtime::env::args().skip(1).collect()
}

/// Reports a wrong command line; gives the status to exit with. `wrong` is the word that is wrong,
/// `None` when words are missing or too many. `text` says how the program is called, its name
/// first.
pub fn usage(wrong: Option<&str>, text: &str) -> i32 {
    if let Some(wrong) = wrong {
        let program = text.split(' ').next().unwrap_or_default();
        runtime::eprintln!("{program}: `{wrong}` is not understood");
    }
    runtime::eprintln!("usage: {text}");
    2
}

/// Reports `program: what: error`; gives the status to exit with.
pub fn report(program: &str, what: &str, error: Error) -> i32 {
    runtime::eprintln!("{program}: {what}: {error}");
    1
}

/// An open input.
pub struct Input {
    file: Option<File>,
}

impl Input {
    /// Opens `path`, or standard input for `-`.
    ///
    /// # Errors
    /// EISDIR for a directory, else what opening gives.
    pub fn open(path: &str) -> Result<Self> {
        if path == "-" {
            return Ok(Input { file: None });
        }
        let file = File::open(path)?;
        // Not every scheme knows attributes; those that do say what is a directory.
        if file.metadata().is_ok_and(|data| data.is_dir()) {
            return Err(Error::new(EISDIR));
        }
        Ok(Input { file: Some(file) })
    }

    /// Reads what is there; 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let result = match &mut self.file {
            Some(file) => file.read(buffer),
            None => runtime::io::stdin().read(buffer),
        };
        match result {
            Err(Error { errno: ECONNRESET }) => Ok(0),
            result => result,
        }
    }

    /// Fills the buffer as far as the input goes.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

/// Writes everything to standard output.
pub fn output(bytes: &[u8]) -> Result<()> {
    runtime::io::stdout().write_all(bytes)
}

/// Reports that standard output failed. A reader that wants no more is no error worth a message.
pub fn output_failed(program: &str, error: Error) -> i32 {
    if error.errno == EPIPE {
        return 1;
    }
    report(program, "standard output", error)
}

/// Which side of a copy failed.
pub enum CopyError {
    /// Reading.
    Input(Error),
    /// Writing.
    Output(Error),
}

/// Passes all blocks of the input to `each`, whose error is one of output.
pub fn blocks(
    input: &mut Input,
    buffer: &mut Buffer,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> core::result::Result<(), CopyError> {
    loop {
        let count = input.read(buffer.bytes()).map_err(CopyError::Input)?;
        if count == 0 {
            return Ok(());
        }
        each(&buffer.bytes()[..count]).map_err(CopyError::Output)?;
    }
}

/// Runs `each` for every path (standard input when there is none), reports errors with the path
/// and goes on; gives the status to exit with.
pub fn for_each_input(
    program: &str,
    paths: &[String],
    mut each: impl FnMut(&str, &mut Input) -> core::result::Result<(), CopyError>,
) -> i32 {
    let standard = [String::from("-")];
    let paths = if paths.is_empty() { &standard } else { paths };
    let mut status = 0;
    for path in paths {
        let result = Input::open(path)
            .map_err(CopyError::Input)
            .and_then(|mut input| each(path, &mut input));
        match result {
            Ok(()) => {}
            Err(CopyError::Input(error)) => status = report(program, path, error),
            Err(CopyError::Output(error)) => return output_failed(program, error),
        }
    }
    status
}

/// Room in the scheme `memory`: total and free bytes.
pub fn memory() -> Result<(u64, u64)> {
    let fd = Fd::open("/scheme/memory/zeroed", libredox::flag::O_CLOEXEC, 0)?;
    let data = libredox::call::fstatvfs(fd.raw())?;
    Ok((
        data.f_blocks * data.f_bsize as u64,
        data.f_bfree * data.f_bsize as u64,
    ))
}
