//! The path of log lines to the console: to the debug port, or to the reader of the lines.

use alloc::collections::VecDeque;

use libredox::Fd;
use runtime::io;

/// Bytes that wait for the reader. If there are more, the reader is taken to hang.
const WAITING_BYTES: usize = 64 * 1024;

/// The path to the console.
pub struct Console {
    /// The debug port, if there is one.
    port: Option<Fd>,
    /// The bytes that the reader has not read yet; `None` if there is no reader.
    waiting: Option<VecDeque<u8>>,
    changed: bool,
}

impl Console {
    /// A console on the debug port.
    pub fn new(port: Option<Fd>) -> Self {
        Console {
            port,
            waiting: None,
            changed: false,
        }
    }

    /// Begins to keep lines for a reader.
    pub fn begin_reading(&mut self) {
        self.waiting = Some(VecDeque::new());
    }

    /// Ends reading: lines go to the debug port again.
    pub fn end_reading(&mut self) {
        self.flush();
        self.waiting = None;
    }

    /// Shows a line on the console.
    pub fn show(&mut self, line: &[u8]) {
        if self
            .waiting
            .as_ref()
            .is_some_and(|waiting| waiting.len() + line.len() > WAITING_BYTES)
        {
            self.flush();
        }
        match &mut self.waiting {
            Some(waiting) => {
                waiting.extend(line);
                self.changed = true;
            }
            None => self.print(line),
        }
    }

    /// Reads waiting bytes. Returns how many were stored.
    pub fn read(&mut self, buf: &mut [u8]) -> usize {
        let Some(waiting) = &mut self.waiting else {
            return 0;
        };
        let count = waiting.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(waiting.drain(..count)) {
            *to = from;
        }
        count
    }

    /// Whether no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.waiting.as_ref().is_none_or(VecDeque::is_empty)
    }

    /// Whether lines have come since the last call.
    pub fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Writes the waiting bytes to the debug port.
    pub fn flush(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            let lines = core::mem::take(waiting);
            let (first, second) = lines.as_slices();
            self.print(first);
            self.print(second);
        }
    }

    fn print(&self, bytes: &[u8]) {
        if let Some(port) = &self.port
            && !bytes.is_empty()
        {
            // There is no other place to report this failure.
            let _ = io::write_all(port.raw(), bytes);
        }
    }
}
