//! The user's terminal: raw while a console is shown on it, and as it was afterwards.

use crate::base::report::{Context, Result};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{IsTerminal, Read, Write};
use std::time::Duration;

/// The key that leaves a console: Ctrl-].
pub const ESCAPE: u8 = 0x1d;
/// How often a terminal's size is looked at.
const SIZE_POLL: Duration = Duration::from_millis(250);

/// Whether a person uses the command: both input and output are a terminal.
pub fn present() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// A terminal in raw mode until this is dropped.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Passes every key on as it is, Ctrl-C too.
    pub fn enter() -> Result<Self> {
        let input = std::io::stdin();
        let before = tcgetattr(&input).context(|| "read the terminal's settings".to_string())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&input, OptionalActions::Now, &raw)
            .context(|| "set the terminal to raw mode".to_string())?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Tells a console how large this terminal is, now and whenever that changes, until `send` gives
/// false: as keys, in the words by which xterm reports it.
pub fn follow_size(mut send: impl FnMut(&[u8]) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut told = None;
        loop {
            let size = tcgetwinsize(std::io::stdout()).ok();
            let size = size.map(|size| (size.ws_row, size.ws_col));
            if let Some((rows, columns)) = size.filter(|_| size != told)
                && !send(&size_report(rows, columns))
            {
                return;
            }
            told = size;
            std::thread::sleep(SIZE_POLL);
        }
    });
}

/// A terminal that does not report its size has none.
fn size_report(rows: u16, columns: u16) -> Vec<u8> {
    match (rows, columns) {
        (0, _) | (_, 0) => Vec::new(),
        _ => format!("\x1b[8;{rows};{columns}t").into_bytes(),
    }
}

/// Reads keys until the escape key or the end of input; gives them to `send` as they come.
pub fn read_keys(mut send: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 256];
    while let Ok(count) = std::io::stdin().lock().read(&mut buffer) {
        let keys = &buffer[..count];
        let end = keys.iter().position(|key| *key == ESCAPE);
        if !send(&keys[..end.unwrap_or(count)]) || end.is_some() || count == 0 {
            return;
        }
    }
}

/// Shows a console's bytes at once. A raw terminal does not return to the left edge by itself, and
/// the kernel's lines end in a bare line feed.
pub fn show(bytes: &[u8]) {
    let mut output = std::io::stdout().lock();
    // A terminal that is gone ends the program by other ways.
    let _ = output.write_all(&with_returns(bytes));
    let _ = output.flush();
}

/// Puts a carriage return before each line feed. A second one, where the console sent its own, does
/// nothing.
fn with_returns(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() + 16);
    for byte in bytes {
        if *byte == b'\n' {
            text.push(b'\r');
        }
        text.push(*byte);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_size_is_told_as_xterm_does() {
        assert_eq!(super::size_report(43, 132), b"\x1b[8;43;132t");
        assert!(super::size_report(0, 0).is_empty());
    }

    #[test]
    fn lines_begin_at_the_left_edge() {
        assert_eq!(super::with_returns(b"a\nb\r\n"), b"a\r\nb\r\r\n");
    }
}
