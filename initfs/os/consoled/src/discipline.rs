//! The line discipline: handles keys in the order in which they are typed.
//!
//! Keys wait for a reader. A reader of lines gets edited lines; a reader of bytes gets the bytes
//! as they are. The interrupt key is for the program in the foreground, unless a line is being
//! edited: then it abandons the line. It acts at once, and after everything that was typed before
//! it: a complete line is on its way to its reader even if that has not fetched it yet, and the
//! program that the line starts is the one that is interrupted.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::editor::Action;
use crate::terminal::{Terminal, line_bytes};

/// Most bytes typed before they are read; more are dropped.
pub const TYPE_AHEAD: usize = 64 * 1024;
/// The interrupt key, ^C.
const INTERRUPT: u8 = 3;

/// The kinds of readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Waits for a line.
    Line,
    /// Waits for a line, and completes words.
    Completer,
    /// Waits for bytes.
    Raw,
}

/// The state of the line discipline.
#[derive(Default)]
pub struct Discipline {
    terminal: Terminal,
    /// Bytes from the keyboard that were not handled yet.
    typed: VecDeque<u8>,
    /// Lines that were not read yet, or only in part. An empty one is the end of the input.
    lines: VecDeque<Vec<u8>>,
    /// Texts before the cursor that the reader is to complete; each ends with a tab.
    completions: VecDeque<Vec<u8>>,
    readers: Vec<Reader>,
    /// Whether the reader is completing a word.
    completing: bool,
    /// Whether an interrupt has found no process to end.
    interrupted: bool,
    /// Whether a waiting reader can go on.
    changed: bool,
}

impl Discipline {
    /// The terminal, for output.
    pub fn terminal(&mut self) -> &mut Terminal {
        &mut self.terminal
    }

    /// Notes that a reader begins to wait. For a reader of lines the prompt is shown.
    pub fn begin(&mut self, reader: Reader, out: &mut Vec<u8>) {
        self.readers.push(reader);
        if reader != Reader::Raw {
            // A process that asks for a line is not busy, so its last command is over.
            self.interrupted = false;
            self.completing = false;
            self.terminal.begin(out);
        }
    }

    /// Notes that a reader no longer waits. With `given_up` it got nothing: what was typed of its
    /// line stays for the next reader.
    pub fn end(&mut self, reader: Reader, given_up: bool, out: &mut Vec<u8>) {
        if let Some(index) = self.readers.iter().position(|known| *known == reader) {
            self.readers.swap_remove(index);
        }
        let is_edited = self.waits(Reader::Line) || self.waits(Reader::Completer);
        if given_up && !is_edited && !self.completing {
            self.terminal.give_up(out);
        }
    }

    /// Notes that the reader that completes words has gone.
    pub fn forget_completer(&mut self) {
        self.completions.clear();
        if core::mem::take(&mut self.completing) {
            self.terminal.end();
        }
    }

    fn waits(&self, reader: Reader) -> bool {
        self.readers.contains(&reader)
    }

    /// Is a line being edited?
    fn editing(&self) -> bool {
        let waits = self.waits(Reader::Line) || self.waits(Reader::Completer);
        self.completing || waits && self.lines.is_empty()
    }

    /// Takes a byte from the keyboard. Returns true for an interrupt that is to end the processes
    /// in the foreground; `foreground` says whether there are any.
    pub fn key(&mut self, byte: u8, foreground: bool, out: &mut Vec<u8>) -> bool {
        if byte == INTERRUPT && !self.waits(Reader::Raw) {
            // Input that was typed before the interrupt is handled first.
            self.work(out);
            if foreground || !self.editing() {
                self.interrupt(out);
                return true;
            }
        }
        if self.typed.len() < TYPE_AHEAD {
            self.typed.push_back(byte);
        }
        false
    }

    fn interrupt(&mut self, out: &mut Vec<u8>) {
        self.typed.clear();
        if self.terminal.waiting() {
            // The line that was begun ends with the program that asked for it.
            self.terminal.input(INTERRUPT, out);
            self.terminal.end();
        } else {
            self.terminal.output(b"^C\n", out);
        }
        self.interrupted = true;
    }

    /// Whether an interrupt has found no process to end. The call ends that interrupt.
    pub fn take_interrupt(&mut self) -> bool {
        core::mem::take(&mut self.interrupted)
    }

    /// Whether an interrupt waits for a process to end.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether a waiting reader can go on since the last call.
    pub fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Passes keys on to waiting readers.
    pub fn work(&mut self, out: &mut Vec<u8>) {
        if self.waits(Reader::Raw) {
            self.changed |= !self.typed.is_empty();
            return;
        }
        while !self.completing && self.editing() && !self.typed.is_empty() {
            self.terminal.begin(out);
            let Some(byte) = self.typed.pop_front() else {
                break;
            };
            let line = match self.terminal.input(byte, out) {
                None | Some(Action::Clear) => continue,
                Some(Action::Line(line)) => line_bytes(line),
                // The reader gets an empty line, so that a shell shows its prompt again.
                Some(Action::Interrupt) => line_bytes(Default::default()),
                Some(Action::EndOfFile) => Vec::new(),
                Some(Action::Complete(text)) if self.waits(Reader::Completer) => {
                    let mut text = text.into_bytes();
                    text.push(b'\t');
                    self.completions.push_back(text);
                    self.completing = true;
                    self.changed = true;
                    continue;
                }
                // A tab for a reader that does not complete words is a blank.
                Some(Action::Complete(_)) => {
                    self.terminal.insert(" ", out);
                    continue;
                }
            };
            self.terminal.end();
            self.lines.push_back(line);
            self.changed = true;
        }
    }

    /// Reads for a reader. Returns the number of bytes stored, 0 at the end of the input; `None`
    /// if the reader has to wait.
    pub fn read(&mut self, reader: Reader, buf: &mut [u8]) -> Option<usize> {
        if reader == Reader::Raw {
            let count = self.typed.len().min(buf.len());
            for (to, from) in buf.iter_mut().zip(self.typed.drain(..count)) {
                *to = from;
            }
            return (count > 0).then_some(count);
        }
        let queue = match reader {
            Reader::Completer if !self.completions.is_empty() => &mut self.completions,
            _ => &mut self.lines,
        };
        let line = queue.front_mut()?;
        let count = line.len().min(buf.len());
        buf[..count].copy_from_slice(&line[..count]);
        line.drain(..count);
        if line.is_empty() {
            queue.pop_front();
        }
        Some(count)
    }

    /// Is there something for a reader?
    pub fn readable(&self, reader: Reader) -> bool {
        match reader {
            Reader::Raw => !self.typed.is_empty(),
            Reader::Completer => !self.lines.is_empty() || !self.completions.is_empty(),
            Reader::Line => !self.lines.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    /// A shell that reads lines.
    #[derive(Default)]
    struct Session {
        discipline: Discipline,
        foreground: bool,
        /// Interrupts that reached the foreground.
        interrupts: usize,
    }

    impl Session {
        /// Types bytes that arrive in one piece, as with fast fingers and slow machines.
        fn press(&mut self, bytes: &[u8]) {
            let mut out = Vec::new();
            for byte in bytes {
                let is = self.discipline.key(*byte, self.foreground, &mut out);
                if is && core::mem::take(&mut self.foreground) {
                    self.discipline.take_interrupt();
                    self.interrupts += 1;
                }
            }
            self.discipline.work(&mut out);
        }

        fn begin(&mut self, reader: Reader) {
            self.discipline.begin(reader, &mut Vec::new());
            self.discipline.work(&mut Vec::new());
        }

        /// The data for the reader that waits, if there is any.
        fn fetch(&mut self, reader: Reader) -> Option<String> {
            let mut buf = [0; 256];
            let count = self.discipline.read(reader, &mut buf)?;
            self.discipline.end(reader, false, &mut Vec::new());
            Some(String::from_utf8_lossy(&buf[..count]).into_owned())
        }

        /// A program is started: an interrupt that waits ends it.
        fn start(&mut self) {
            self.foreground = true;
            if self.discipline.take_interrupt() {
                self.foreground = false;
                self.interrupts += 1;
            }
        }
    }

    #[test]
    fn an_interrupt_right_behind_enter_ends_what_the_line_starts() {
        let mut session = Session::default();
        session.begin(Reader::Line);
        session.press(b"sleep 10\r\x03");
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("sleep 10\n"));
        session.start();
        assert_eq!(session.interrupts, 1);
        // In two pieces: the line is complete, and not fetched yet.
        session.begin(Reader::Line);
        session.press(b"sleep 20\r");
        session.press(b"\x03");
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("sleep 20\n"));
        session.start();
        assert_eq!(session.interrupts, 2);
        // It is fetched, and nothing was started yet.
        session.begin(Reader::Line);
        session.press(b"sleep 30\r");
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("sleep 30\n"));
        session.press(b"\x03");
        session.start();
        assert_eq!(session.interrupts, 3);
        // Nothing was started: the interrupt is over with the next line.
        session.begin(Reader::Line);
        session.press(b":\r\x03");
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some(":\n"));
        session.begin(Reader::Line);
        session.press(b"sleep 1\r");
        assert!(session.fetch(Reader::Line).is_some());
        session.start();
        assert_eq!(session.interrupts, 3);
    }

    #[test]
    fn an_interrupt_gives_up_the_line_and_what_was_typed_for_later() {
        let mut session = Session::default();
        session.begin(Reader::Line);
        session.press(b"half\x03");
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("\n"));
        assert_eq!(session.interrupts, 0);
        session.start();
        session.press(b"next\r\x03");
        assert_eq!(session.interrupts, 1);
        session.begin(Reader::Line);
        assert_eq!(session.fetch(Reader::Line), None);
        // A program in the foreground that reads lines itself.
        session.start();
        session.press(b"half\x03");
        assert_eq!(session.interrupts, 2);
    }

    #[test]
    fn keys_wait_for_a_reader() {
        let mut session = Session::default();
        session.press(b"one\rtwo\rthr");
        session.begin(Reader::Line);
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("one\n"));
        session.begin(Reader::Line);
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("two\n"));
        session.begin(Reader::Raw);
        assert_eq!(session.fetch(Reader::Raw).as_deref(), Some("thr"));
        session.begin(Reader::Raw);
        session.press(b"\x03");
        assert_eq!(session.fetch(Reader::Raw).as_deref(), Some("\u{3}"));
    }

    #[test]
    fn a_line_is_typed_on_for_the_next_reader() {
        let mut session = Session::default();
        session.begin(Reader::Line);
        session.press(b"ha");
        let mut out = Vec::new();
        session.discipline.end(Reader::Line, true, &mut out);
        assert_eq!(out, b"\r  \r");
        session.press(b"lf");
        // One that watches, and one that reads meanwhile.
        session.begin(Reader::Line);
        session.begin(Reader::Line);
        session.press(b"\r");
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("half\n"));
        session.press(b"next\r");
        assert!(session.discipline.readable(Reader::Line));
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("next\n"));
    }

    #[test]
    fn a_reader_that_completes_words_is_asked() {
        let mut session = Session::default();
        session.begin(Reader::Completer);
        session.press(b"ca\tx\r");
        assert_eq!(session.fetch(Reader::Completer).as_deref(), Some("ca\t"));
        // Input that was typed after the tab waits for the completion.
        assert_eq!(session.fetch(Reader::Completer), None);
        session.discipline.terminal().insert("t ", &mut Vec::new());
        session.begin(Reader::Completer);
        assert_eq!(session.fetch(Reader::Completer).as_deref(), Some("cat x\n"));
        // Other readers get a blank for a tab.
        session.begin(Reader::Line);
        session.press(b"a\tb\r");
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("a b\n"));
        // A reader that ends before it completes blocks nothing.
        session.begin(Reader::Completer);
        session.press(b"ca\t");
        assert!(session.fetch(Reader::Completer).is_some());
        session.discipline.forget_completer();
        session.begin(Reader::Line);
        session.press(b"\r");
        assert_eq!(session.fetch(Reader::Line).as_deref(), Some("ca\n"));
    }
}
