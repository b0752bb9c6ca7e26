//! The threads that serve a program's streams.
//!
//! One thread moves input from a pipe into the program's, at the program's pace; one waits for the
//! program's end. Both write *reports* into a pipe. A third thread reads it, and is the only one
//! that sends to the client: output, error output, and the contents of the reports.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use hal::event::Queue;
use libredox::Fd;
use runtime::process::ExitStatus;
use scifrun::connection::Connection;
use scifrun::protocol::{self, Kind, Unsent};
use syscall::error::{EAGAIN, EINTR, EIO, EWOULDBLOCK, Error, Result};
use syscall::flag::{EventFlags, F_SETFL, O_NONBLOCK};

/// Most bytes to pass on at once.
const BLOCK: usize = 16 * 1024;
/// Bytes of a report: its kind, and a number.
const REPORT_BYTES: usize = 8;
/// Kind of report: the number of bytes of input that were taken.
const TAKEN: u32 = 1;
/// Kind of report: the program has ended, with this raw wait status.
const ENDED: u32 = 2;

/// Encodes a report.
fn report(what: u32, number: u32) -> [u8; REPORT_BYTES] {
    let mut bytes = [0; REPORT_BYTES];
    bytes[..4].copy_from_slice(&what.to_ne_bytes());
    bytes[4..].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// Encodes the report of the program's end.
pub fn ended(status: i32) -> [u8; REPORT_BYTES] {
    report(ENDED, status.cast_unsigned())
}

/// Passes input on until it ends. Input for a program that has closed its pipe is dropped, so that
/// the client does not wait.
pub fn input(from: &Fd, to: Fd, reports: &Fd) {
    let mut to = Some(to);
    let mut block = alloc::vec![0; BLOCK];
    loop {
        let count = match from.read(&mut block) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.errno() == EINTR => continue,
            Err(_) => return,
        };
        if let Some(open) = &to
            && runtime::io::write_all(open.raw(), &block[..count]).is_err()
        {
            to = None;
        }
        // A block is less than 4 GiB, so the cast is exact.
        let _ = runtime::io::write_all(reports.raw(), &report(TAKEN, count as u32));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Source {
    Stdout,
    Stderr,
    Reports,
}

/// The streams of a program, whose contents go to the client.
pub struct Output {
    /// The connection to the client.
    pub connection: Arc<Connection>,
    /// The program's standard output.
    pub stdout: Fd,
    /// The program's standard error.
    pub stderr: Fd,
    /// The pipe of reports from the other threads.
    pub reports: Fd,
    /// Names of files to send to the client after the program's end.
    pub fetch: Vec<String>,
    /// The directory of these files.
    pub directory: String,
    /// Set just before the end of the program is reported to the client: from then on the
    /// program's background processes run without the client.
    pub is_over: Arc<AtomicBool>,
}

/// The result of a read.
enum Read {
    Bytes(usize),
    Nothing,
    End,
}

fn read(file: &Fd, block: &mut [u8]) -> Read {
    match file.read(block) {
        Ok(0) => Read::End,
        Ok(count) => Read::Bytes(count),
        Err(error) if matches!(error.errno(), EAGAIN | EWOULDBLOCK | EINTR) => Read::Nothing,
        Err(_) => Read::End,
    }
}

impl Output {
    /// Sends everything to the client: output until all processes that have the pipes open have
    /// ended, then the files, then the exit status.
    ///
    /// # Errors
    /// The client has gone, or a file cannot be read any more.
    pub fn run(self) -> Result<()> {
        let mut queue = Queue::new()?;
        let sources = [
            (&self.stdout, Source::Stdout),
            (&self.stderr, Source::Stderr),
            (&self.reports, Source::Reports),
        ];
        for (file, source) in sources {
            libredox::call::fcntl(file.raw(), F_SETFL, O_NONBLOCK)?;
            queue.subscribe(file.raw(), EventFlags::EVENT_READ, source)?;
        }
        let mut open = [
            Some((&self.stdout, Kind::Stdout)),
            Some((&self.stderr, Kind::Stderr)),
        ];
        let mut status = None;
        let mut block = alloc::vec![0; BLOCK];
        let mut ready = Vec::new();
        loop {
            let mut idle = true;
            for stream in &mut open {
                let Some((file, kind)) = *stream else {
                    continue;
                };
                match read(file, &mut block) {
                    Read::Bytes(count) => {
                        idle = false;
                        self.connection.send(kind, &block[..count])?;
                    }
                    Read::Nothing => {}
                    Read::End => *stream = None,
                }
            }
            let mut piece = [0; REPORT_BYTES];
            if let Read::Bytes(REPORT_BYTES) = read(&self.reports, &mut piece) {
                idle = false;
                let (pieces, _) = piece.as_chunks();
                let [what, number] = [0, 1].map(|index| u32::from_ne_bytes(pieces[index]));
                match what {
                    TAKEN => self.connection.send(Kind::Taken, &number.to_le_bytes())?,
                    _ => status = Some(ExitStatus::from_raw(number.cast_signed())),
                }
            }
            match status {
                Some(status) if open.iter().all(Option::is_none) => return self.end(status),
                _ if idle => queue.wait(None, &mut ready)?,
                _ => {}
            }
        }
    }

    fn end(&self, status: ExitStatus) -> Result<()> {
        for name in &self.fetch {
            let path = format!("{}/{name}", self.directory);
            match self.connection.send_file(&path, name, 0) {
                Ok(()) => {}
                // Files that do not exist are skipped; the client notices.
                Err(unsent) if unsent.is_harmless() => {}
                Err(Unsent::Gone(error)) => return Err(error),
                // The client cannot tell the rest of the file from what follows, so the
                // connection ends.
                Err(unsent) => {
                    runtime::eprintln!("WARN scifrund: sending {path}: {unsent:?}");
                    return Err(Error::new(EIO));
                }
            }
        }
        let number = |number: Option<i32>| number.unwrap_or(0).unsigned_abs();
        let exit = protocol::encode_exit(number(status.code()), number(status.signal()));
        self.is_over.store(true, Ordering::Release);
        self.connection.send(Kind::Exit, &exit)
    }
}
