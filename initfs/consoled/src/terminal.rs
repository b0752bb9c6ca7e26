//! The screen: output of programs, and the line that is edited below it.

use alloc::string::String;
use alloc::vec::Vec;

use crate::editor::{Action, Editor};
use crate::keys::Decoder;

/// Columns of a terminal that does not tell its size.
const WIDTH: usize = 80;
/// Longest prompt that is remembered, in bytes.
const MAX_PROMPT: usize = 256;

/// The screen's state.
#[derive(Default)]
pub struct Terminal {
    decoder: Decoder,
    editor: Editor,
    /// Output since the last line end: what the cursor stands behind.
    partial: Vec<u8>,
    /// Somebody waits for a line; the text before it.
    prompt: Option<Vec<u8>>,
    /// Output came while somebody waits, and the prompt is not on the screen now.
    hidden: bool,
}

impl Terminal {
    /// Somebody begins to wait for a line: what was written last is the prompt.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.prompt.is_none() {
            self.prompt = Some(self.partial.clone());
            self.hidden = false;
            self.editor.show(self.room(), out);
        }
    }

    /// Nobody waits any more.
    pub fn end(&mut self) {
        self.prompt = None;
        self.hidden = false;
        self.editor.forget_screen();
    }

    /// Does somebody wait for a line?
    pub fn waiting(&self) -> bool {
        self.prompt.is_some()
    }

    /// Columns beside the prompt.
    fn room(&self) -> usize {
        let prompt = self.prompt.as_deref().map_or(0, columns);
        (WIDTH - 1).saturating_sub(prompt)
    }

    /// Output of a program. A line feed becomes carriage return and line feed. While a line is
    /// being edited, the output goes above it.
    pub fn output(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some(prompt) = &self.prompt
            && !self.hidden
            && !bytes.is_empty()
        {
            let used = columns(prompt) + self.editor.shown_columns();
            if used > 0 {
                out.push(b'\r');
                out.resize(out.len() + used.min(WIDTH - 1), b' ');
                out.push(b'\r');
            }
            self.editor.forget_screen();
            self.partial.clear();
            self.hidden = true;
        }
        for byte in bytes {
            match byte {
                b'\n' => {
                    out.extend_from_slice(b"\r\n");
                    self.partial.clear();
                }
                byte => {
                    out.push(*byte);
                    if *byte == b'\r' {
                        self.partial.clear();
                    } else if self.partial.len() < MAX_PROMPT {
                        self.partial.push(*byte);
                    }
                }
            }
        }
        if self.hidden && self.partial.is_empty() {
            self.show_again(out);
        }
    }

    fn show_again(&mut self, out: &mut Vec<u8>) {
        let prompt = self.prompt.clone().unwrap_or_default();
        if !self.partial.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(&prompt);
        self.partial = prompt;
        self.hidden = false;
        self.editor.show(self.room(), out);
    }

    /// A byte from the keyboard while somebody waits.
    pub fn input(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<Action> {
        let key = self.decoder.push(byte)?;
        if self.hidden {
            self.show_again(out);
        }
        let room = self.room();
        let before = self.editor.shown_columns();
        let action = self.editor.key(key, out);
        match &action {
            None => self.editor.show(room, out),
            Some(Action::Clear) => {
                out.extend_from_slice(b"\x1b[H\x1b[2J");
                self.editor.forget_screen();
                self.partial.clear();
                self.show_again(out);
                return None;
            }
            Some(Action::Line(_)) => {
                self.editor.leave(out);
                self.new_line(out);
            }
            Some(Action::Interrupt) => {
                self.editor.leave(out);
                out.extend_from_slice(b"^C");
                self.new_line(out);
            }
            Some(Action::EndOfFile) => {
                // Nothing was typed: the cursor stands behind the prompt.
                debug_assert_eq!(before, 0);
            }
        }
        action
    }

    fn new_line(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n");
        self.partial.clear();
    }
}

/// Columns that text takes up; escape sequences and parts of characters take none.
fn columns(text: &[u8]) -> usize {
    let mut count = 0;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            0x1b if bytes.next() == Some(&b'[') => {
                // Parameters, then one final byte.
                bytes.find(|byte| (0x40..0x7f).contains(*byte));
            }
            0x20..0x7f | 0xc0.. => count += 1,
            _ => {}
        }
    }
    count
}

/// The text of a line for its reader.
pub fn line_bytes(line: String) -> Vec<u8> {
    let mut bytes = line.into_bytes();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    /// A screen of rows that understands what a serial terminal must.
    struct Screen {
        rows: Vec<Vec<char>>,
        row: usize,
        column: usize,
    }

    impl Screen {
        fn new() -> Self {
            Screen {
                rows: vec![Vec::new()],
                row: 0,
                column: 0,
            }
        }

        fn print(&mut self, bytes: &[u8]) {
            let text = String::from_utf8_lossy(bytes).replace("\x1b[H\x1b[2J", "\u{1}");
            for c in text.chars() {
                match c {
                    '\u{1}' => *self = Screen::new(),
                    '\r' => self.column = 0,
                    '\n' => {
                        self.row += 1;
                        if self.row == self.rows.len() {
                            self.rows.push(Vec::new());
                        }
                    }
                    '\u{8}' => self.column -= 1,
                    c => {
                        let row = &mut self.rows[self.row];
                        if row.len() <= self.column {
                            row.resize(self.column + 1, ' ');
                        }
                        row[self.column] = c;
                        self.column += 1;
                        assert!(self.column <= WIDTH, "the line would wrap");
                    }
                }
            }
        }

        fn text(&self) -> Vec<String> {
            let row = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_string();
            self.rows.iter().map(row).collect()
        }
    }

    struct Session {
        terminal: Terminal,
        screen: Screen,
        actions: Vec<Action>,
    }

    impl Session {
        fn new() -> Self {
            Session {
                terminal: Terminal::default(),
                screen: Screen::new(),
                actions: Vec::new(),
            }
        }

        fn print(&mut self, text: &str) {
            let mut out = Vec::new();
            self.terminal.output(text.as_bytes(), &mut out);
            self.screen.print(&out);
        }

        fn read(&mut self) {
            let mut out = Vec::new();
            self.terminal.begin(&mut out);
            self.screen.print(&out);
        }

        fn press(&mut self, bytes: &[u8]) {
            for byte in bytes {
                let mut out = Vec::new();
                let action = self.terminal.input(*byte, &mut out);
                self.screen.print(&out);
                if action.is_some() {
                    self.terminal.end();
                }
                self.actions.extend(action);
            }
        }
    }

    #[test]
    fn a_line_is_echoed_and_delivered() {
        let mut session = Session::new();
        session.print("hi\n# ");
        session.read();
        session.press(b"ecx\x7fho \x1b[D\x1b[C1\r");
        assert_eq!(session.actions, [Action::Line("echo 1".into())]);
        assert_eq!(session.screen.text(), ["hi", "# echo 1", ""]);
        assert_eq!((session.screen.row, session.screen.column), (2, 0));
        assert!(!session.terminal.waiting());
    }

    #[test]
    fn output_goes_above_the_line_being_typed() {
        let mut session = Session::new();
        session.print("# ");
        session.read();
        session.press(b"abc\x1b[D");
        session.print("one\ntwo\n");
        assert_eq!(session.screen.text(), ["one", "two", "# abc"]);
        assert_eq!(session.screen.column, 4);
        session.press(b"X");
        assert_eq!(session.screen.text()[2], "# abXc");
        // In pieces: the prompt comes back with the line end.
        session.print("th");
        session.print("ree");
        assert_eq!(session.screen.text()[2..], ["three"]);
        session.print("\n");
        assert_eq!(session.screen.text()[2..], ["three", "# abXc"]);
        // Or when a key is pressed.
        session.print("four");
        session.press(b"Y");
        assert_eq!(session.screen.text()[3..], ["four", "# abXYc"]);
    }

    #[test]
    fn interrupt_clear_and_end() {
        let mut session = Session::new();
        session.print("> ");
        session.read();
        session.press(b"half\x03");
        assert_eq!(session.screen.text(), ["> half^C", ""]);
        session.print("> ");
        session.read();
        session.press(b"xy\x0c");
        assert_eq!(session.screen.text(), ["> xy"]);
        session.press(b"\x15\x04");
        assert_eq!(session.actions, [Action::Interrupt, Action::EndOfFile]);
    }

    #[test]
    fn long_lines_scroll_beside_a_coloured_prompt() {
        let mut session = Session::new();
        let mut out = Vec::new();
        session
            .terminal
            .output("\x1b[1;32mnode0 é\x1b[0m # ".as_bytes(), &mut out);
        session.screen.print(b"node0 e # ");
        session.read();
        session.press(&[b'a'; 300]);
        session.press(b"\x01b\x05c\r");
        let Action::Line(line) = &session.actions[0] else {
            panic!()
        };
        assert_eq!(line.len(), 302);
    }

    #[test]
    fn what_was_typed_stays_when_the_reader_goes() {
        let mut session = Session::new();
        session.read();
        session.press(b"ab");
        session.terminal.end();
        session.print("\n# ");
        session.read();
        session.press(b"c\r");
        assert_eq!(session.actions, [Action::Line("abc".into())]);
        assert_eq!(session.screen.text(), ["ab", "# abc", ""]);
    }
}
