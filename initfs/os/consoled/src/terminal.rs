//! The screen: output of programs, and the line that is edited below it.

use alloc::string::String;
use alloc::vec::Vec;

use crate::editor::{Action, Editor, char_width};
use crate::keys::{Decoder, Key};

/// Columns and rows of a terminal that does not report its size.
const SIZE: (u16, u16) = (80, 24);
/// Fewest columns that a terminal can have.
const MIN_COLUMNS: u16 = 20;
/// Rings.
const BELL: u8 = 7;
/// Longest prompt that is remembered, in bytes.
const MAX_PROMPT: usize = 256;

/// The state of the terminal.
pub struct Terminal {
    decoder: Decoder,
    /// Columns and rows.
    size: (u16, u16),
    editor: Editor,
    /// Output since the last line end, which the cursor follows.
    partial: Vec<u8>,
    /// The prompt, if a reader waits for a line.
    prompt: Option<Vec<u8>>,
    /// Whether output has come while a reader waits, and the prompt is not on the screen now.
    hidden: bool,
}

impl Default for Terminal {
    fn default() -> Self {
        Terminal {
            decoder: Decoder::default(),
            size: SIZE,
            editor: Editor::default(),
            partial: Vec::new(),
            prompt: None,
            hidden: false,
        }
    }
}

impl Terminal {
    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Columns that can be written without moving the cursor to the next row.
    fn width(&self) -> usize {
        usize::from(self.size.0) - 1
    }

    /// Notes that a reader begins to wait for a line; the last output is its prompt.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.prompt.is_none() {
            self.prompt = Some(self.partial.clone());
            self.hidden = false;
            self.editor.show(self.room(), out);
        }
    }

    /// Notes that no reader waits any more.
    pub fn end(&mut self) {
        self.prompt = None;
        self.hidden = false;
        self.editor.forget_screen();
    }

    /// Notes that no reader waits any more, and takes what was typed of its line off the screen.
    pub fn give_up(&mut self, out: &mut Vec<u8>) {
        if let Some(prompt) = &self.prompt
            && !self.hidden
            && self.editor.shown_columns() > 0
        {
            self.erase(columns(prompt) + self.editor.shown_columns(), out);
            out.extend_from_slice(prompt);
        }
        self.end();
    }

    /// Whether a reader waits for a line.
    pub fn waiting(&self) -> bool {
        self.prompt.is_some()
    }

    /// Columns beside the prompt.
    fn room(&self) -> usize {
        let prompt = self.prompt.as_deref().map_or(0, columns);
        self.width().saturating_sub(prompt)
    }

    /// Prints output of a program, with a line feed as carriage return and line feed. While a line
    /// is being edited, the output appears above it.
    pub fn output(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some(prompt) = &self.prompt
            && !self.hidden
            && !bytes.is_empty()
        {
            let used = columns(prompt) + self.editor.shown_columns();
            self.erase(used, out);
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

    /// Empties the row of the cursor, of which `used` columns are in use.
    fn erase(&self, used: usize, out: &mut Vec<u8>) {
        if used > 0 {
            out.push(b'\r');
            out.resize(out.len() + used.min(self.width()), b' ');
            out.push(b'\r');
        }
    }

    /// Prints whole lines that are not a program's output, such as those of the log. They begin at
    /// the left edge, and the line that a program has begun appears again below them.
    pub fn log(&mut self, lines: &[u8], out: &mut Vec<u8>) {
        if self.prompt.is_some() && !self.hidden || self.partial.is_empty() {
            self.output(lines, out);
            return;
        }
        let used = columns(&self.partial);
        // A line that is longer than a row, or not completely known, stays where it is.
        let partial = if used < self.width() && self.partial.len() < MAX_PROMPT {
            self.erase(used, out);
            core::mem::take(&mut self.partial)
        } else {
            self.output(b"\n", out);
            Vec::new()
        };
        // The prompt must not come back before the lines above it are complete.
        let prompt = self.prompt.take();
        let hidden = core::mem::take(&mut self.hidden);
        self.output(lines, out);
        (self.prompt, self.hidden) = (prompt, hidden);
        out.extend_from_slice(&partial);
        self.partial = partial;
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

    /// Takes a byte from the keyboard while a reader waits.
    pub fn input(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<Action> {
        let key = self.decoder.push(byte)?;
        if let Key::Size { columns, rows } = key {
            if columns >= MIN_COLUMNS && rows > 0 {
                self.size = (columns, rows);
                self.editor.show(self.room(), out);
            }
            return None;
        }
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
            Some(Action::Complete(_)) => {}
            Some(Action::EndOfFile) => {
                // Nothing is typed yet, so the cursor is behind the prompt.
                debug_assert_eq!(before, 0);
            }
        }
        action
    }

    /// Inserts text into the line at the cursor; if it is empty, the bell rings.
    pub fn insert(&mut self, text: &str, out: &mut Vec<u8>) {
        let text: Vec<char> = text.chars().filter(|c| !c.is_control()).collect();
        if text.is_empty() {
            out.push(BELL);
        }
        if self.prompt.is_some() && self.hidden {
            self.show_again(out);
        }
        self.editor.insert(&text, out);
        if self.prompt.is_some() {
            self.editor.show(self.room(), out);
        }
    }

    fn new_line(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n");
        self.partial.clear();
    }
}

/// Columns that text takes up. Escape sequences and incomplete characters take none.
fn columns(text: &[u8]) -> usize {
    let mut count = 0;
    for chunk in text.utf8_chunks() {
        let mut characters = chunk.valid().chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '\u{1b}' if characters.next_if_eq(&'[').is_some() => {
                    // Parameters, then one final byte.
                    characters.find(|c| ('\u{40}'..'\u{7f}').contains(c));
                }
                c => count += char_width(c),
            }
        }
    }
    count
}

/// The bytes of a line for its reader.
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

    #[test]
    fn columns_are_those_on_the_screen() {
        assert_eq!(columns("µ > ".as_bytes()), 4);
        assert_eq!(columns(b"\x1b[1;32mab\x1b[0m> "), 4);
        assert_eq!(columns(b"ab\xe2\x9c"), 2, "an incomplete character");
        assert_eq!(columns(b"\x1bcab"), 3, "no parameters");
    }

    /// A screen of rows that understands what a serial terminal must.
    struct Screen {
        rows: Vec<Vec<char>>,
        row: usize,
        column: usize,
        width: usize,
    }

    impl Screen {
        fn new() -> Self {
            Screen {
                rows: vec![Vec::new()],
                row: 0,
                column: 0,
                width: usize::from(SIZE.0),
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
                    '\u{7}' => {}
                    c => {
                        let row = &mut self.rows[self.row];
                        if row.len() <= self.column {
                            row.resize(self.column + 1, ' ');
                        }
                        row[self.column] = c;
                        self.column += 1;
                        assert!(self.column < self.width, "the line would wrap");
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

        fn log(&mut self, text: &str) {
            let mut out = Vec::new();
            self.terminal.log(text.as_bytes(), &mut out);
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
        session.press(b"\x15\x12\x04");
        assert_eq!(session.screen.text(), [">"]);
        session.press(b"\x04");
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

    #[test]
    fn a_line_of_the_log_destroys_no_prompt() {
        let mut session = Session::new();
        // Before anybody waits: the prompt is a line that a program has begun.
        session.print("host:/ # ");
        session.log("[1] one\n");
        assert_eq!(session.screen.text(), ["[1] one", "host:/ #"]);
        assert_eq!(session.screen.column, 9);
        session.read();
        session.press(b"ab");
        session.log("[2] two\n[3] three\n");
        assert_eq!(
            session.screen.text(),
            ["[1] one", "[2] two", "[3] three", "host:/ # ab"]
        );
        assert_eq!(session.screen.column, 11);
        // In the middle of a line that a program in the background writes.
        session.print("back");
        session.log("[4] four\n");
        assert_eq!(session.screen.text()[3..], ["[4] four", "back"]);
        session.print("ground\n");
        assert_eq!(
            session.screen.text()[3..],
            ["[4] four", "background", "host:/ # ab"]
        );
        session.press(b"c\r");
        assert_eq!(session.actions, [Action::Line("abc".into())]);
        // A line that is longer than a row stays where it is.
        session.print(&"x".repeat(79));
        session.log("[5] five\n");
        let rows = session.screen.text();
        assert_eq!(rows[6..], ["x".repeat(79), "[5] five".into(), "".into()]);
    }

    #[test]
    fn the_line_is_as_long_as_the_terminal_allows() {
        let mut session = Session::new();
        session.print("# ");
        session.read();
        session.press(b"\x1b[8;10;40t");
        assert_eq!(session.terminal.size(), (40, 10));
        session.screen.width = 40;
        session.press(&[b'a'; 100]);
        // Nonsense changes nothing.
        session.press(b"\x1b[8;0;0t\x1b[8;10;1t");
        assert_eq!(session.terminal.size(), (40, 10));
    }

    #[test]
    fn completed_text_is_inserted_at_the_cursor() {
        let mut session = Session::new();
        session.print("# ");
        session.read();
        session.press(b"ca x\x1b[D\x1b[D");
        let mut out = Vec::new();
        let action = session.terminal.input(b'\t', &mut out);
        assert_eq!(action, Some(Action::Complete("ca".into())));
        // A list of what is possible goes above the line.
        session.terminal.output(b"cal cat\n", &mut out);
        session.terminal.insert("t", &mut out);
        session.screen.print(&out);
        assert_eq!(session.screen.text(), ["cal cat", "# cat x"]);
        assert_eq!(session.screen.column, 5);
    }
}
