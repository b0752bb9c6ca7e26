//! Reading and writing: the traits, and the three standard streams.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicI32, Ordering};

use syscall::error::{EILSEQ, EIO, EPIPE, Error, Result};

use crate::fd;

/// A source of bytes.
pub trait Read {
    /// Reads into `buffer`; 0 means the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize>;

    /// Fills `buffer`; EIO if the source ends before.
    fn read_exact(&mut self, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            match self.read(buffer)? {
                0 => return Err(Error::new(EIO)),
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }

    /// Appends all data up to the end, and returns how many bytes that was.
    fn read_to_end(&mut self, data: &mut Vec<u8>) -> Result<usize> {
        let start = data.len();
        let mut filled = start;
        loop {
            if data.len() - filled < 1024 {
                let step = data.len().clamp(4096, 1 << 20);
                data.resize(filled + step, 0);
            }
            match self.read(&mut data[filled..]) {
                Ok(0) => {
                    data.truncate(filled);
                    return Ok(filled - start);
                }
                Ok(count) => filled += count,
                Err(error) => {
                    data.truncate(filled);
                    return Err(error);
                }
            }
        }
    }

    /// Appends all data up to the end as text; EILSEQ if it is not UTF-8.
    fn read_to_string(&mut self, text: &mut String) -> Result<usize> {
        let mut data = Vec::new();
        let count = self.read_to_end(&mut data)?;
        text.push_str(core::str::from_utf8(&data).map_err(|_| Error::new(EILSEQ))?);
        Ok(count)
    }
}

/// A sink of bytes.
pub trait Write {
    /// Writes a part of `bytes`, and returns how many bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<usize>;

    /// Writes buffered bytes; streams here have no buffer.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Writes all of `bytes`; EPIPE if the sink takes nothing more.
    fn write_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes)? {
                0 => return Err(Error::new(EPIPE)),
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }

    /// Writes formatted text in one piece, for `write!`.
    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> Result<()> {
        match text.as_str() {
            Some(text) => self.write_all(text.as_bytes()),
            None => self.write_all(alloc::fmt::format(text).as_bytes()),
        }
    }
}

macro_rules! stream {
    ($(#[$doc:meta])* $name:ident, $constructor:ident, $number:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        $(#[$doc])*
        pub fn $constructor() -> $name {
            $name
        }

        impl $name {
            /// The descriptor number.
            pub const fn as_raw_fd(&self) -> usize {
                $number
            }
        }

        impl Read for $name {
            fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
                fd::read($number, buffer)
            }
        }

        impl Write for $name {
            fn write(&mut self, bytes: &[u8]) -> Result<usize> {
                fd::write($number, bytes)
            }
        }
    };
}

stream!(
    /// Standard input, descriptor 0.
    Stdin, stdin, 0
);
stream!(
    /// Standard output, descriptor 1, without a buffer.
    Stdout, stdout, 1
);
stream!(
    /// Standard error, descriptor 2.
    Stderr, stderr, 2
);

impl Read for libredox::Fd {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        fd::read(self.raw(), buffer)
    }
}

impl Write for libredox::Fd {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        fd::write(self.raw(), bytes)
    }
}

/// Writes a whole slice to a descriptor.
pub fn write_all(fd: usize, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match fd::write(fd, bytes)? {
            0 => return Err(Error::new(EPIPE)),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// For the print macros: one write per call, so that lines of several programs do not mix.
#[doc(hidden)]
pub fn print_to(fd: usize, text: fmt::Arguments<'_>) {
    let result = match text.as_str() {
        Some(text) => write_all(fd, text.as_bytes()),
        None => write_all(fd, alloc::fmt::format(text).as_bytes()),
    };
    if let Err(error) = result
        && fd == 1
    {
        PRINT_ERROR.store(error.errno, Ordering::Relaxed);
    }
}

/// The number of the last error of a print macro with standard output; 0 if there was none.
static PRINT_ERROR: AtomicI32 = AtomicI32::new(0);

/// Whether a print macro could not write to standard output, for programs that print again and
/// again until they are ended.
pub fn printing_has_failed() -> bool {
    PRINT_ERROR.load(Ordering::Relaxed) != 0
}

/// For the end of a program that prints with the macros: makes success a failure if the output is
/// not complete, and says so unless its reader has gone. Returns the exit status.
pub fn printed(program: &str, status: i32) -> i32 {
    match PRINT_ERROR.load(Ordering::Relaxed) {
        errno if errno == 0 || status != 0 => return status,
        EPIPE => {}
        errno => crate::eprintln!("{program}: standard output: {}", Error::new(errno)),
    }
    1
}

/// Writes a message that must be visible: to standard error, and also to the log, which the
/// console shows, if standard error is redirected or closed.
#[cfg(not(feature = "std"))]
pub fn emergency(text: &str) {
    let bytes = text.as_bytes();
    let direct = crate::first::debug_fd();
    if direct != crate::sys::NO_FD && write_all(direct, bytes).is_ok() {
        return;
    }
    if write_all(2, bytes).is_ok() && is_shown(2) {
        return;
    }
    for scheme in ["/scheme/log", "/scheme/debug"] {
        // Messages of programs without memory, too.
        if let Ok(fd) = crate::path::open_without_memory(scheme) {
            let written = write_all(fd, bytes);
            let _ = fd::close(fd);
            if written.is_ok() {
                return;
            }
        }
    }
}

/// Whether output to `fd` appears on the console. The path may be in the older spelling.
#[cfg(not(feature = "std"))]
fn is_shown(fd: usize) -> bool {
    let mut buffer = [0; 64];
    let Ok(length) = fd::fpath(fd, &mut buffer) else {
        return false;
    };
    let path = buffer.get(..length).unwrap_or(&buffer);
    let path = path.strip_prefix(b"/scheme/").unwrap_or(path);
    ["console", "debug", "log"]
        .iter()
        .any(|name| path.starts_with(name.as_bytes()))
}
