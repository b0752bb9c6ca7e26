//! The pager behind `less`: which rows of a text are on the screen, and what each key does.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::regex::{self, Regex};

/// Columns between tabulator stops.
const TAB: usize = 8;
/// The help that `h` shows in the last row.
const HELP: &str = "space b: page  d u: half  j k: line  g G: ends  /text n N: search  q: quit";

/// A text whose later lines are read only when they are needed.
pub trait Text {
    /// Returns the next line without its end; `None` after the last one.
    fn next_line(&mut self) -> Option<Vec<u8>>;
}

/// A key that has a meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character, or a control character such as Enter.
    Character(char),
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
}

/// Decodes the keys in bytes that a terminal has sent at once. Sequences without a meaning here
/// are left out.
pub fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        let Some(sequence) = rest.strip_prefix('[').filter(|_| first == '\x1b') else {
            keys.push(Key::Character(first));
            continue;
        };
        let end = sequence.find(|letter| ('@'..='~').contains(&letter));
        let (parameters, letter) = match end {
            Some(end) => (&sequence[..end], sequence[end..].chars().next()),
            None => (sequence, None),
        };
        rest = &sequence[parameters.len() + letter.map_or(0, char::len_utf8)..];
        keys.extend(match (letter, parameters) {
            (Some('A'), _) => Some(Key::Up),
            (Some('B'), _) => Some(Key::Down),
            (Some('H'), _) | (Some('~'), "1" | "7") => Some(Key::Home),
            (Some('F'), _) | (Some('~'), "4" | "8") => Some(Key::End),
            (Some('~'), "5") => Some(Key::PageUp),
            (Some('~'), "6") => Some(Key::PageDown),
            _ => None,
        });
    }
    keys
}

/// A text on a screen.
pub struct Pager<T> {
    text: T,
    name: String,
    /// The lines read so far, each divided into the rows that it takes.
    lines: Vec<Vec<String>>,
    is_complete: bool,
    /// The first row on the screen: line, and row of the line.
    top: (usize, usize),
    rows: usize,
    columns: usize,
    search: Option<Regex>,
    /// The text typed behind `/`.
    typed: Option<String>,
    /// A message to show once in the last row.
    message: Option<String>,
    has_ended: bool,
}

impl<T: Text> Pager<T> {
    /// A pager at the beginning of a text, on a screen of this size; the last row is the pager's
    /// own.
    pub fn new(text: T, name: &str, rows: usize, columns: usize) -> Self {
        Pager {
            text,
            name: name.into(),
            lines: Vec::new(),
            is_complete: false,
            top: (0, 0),
            rows: rows.max(2) - 1,
            columns: columns.max(1),
            search: None,
            typed: None,
            message: None,
            has_ended: false,
        }
    }

    /// Whether `q` was pressed.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reads on until there are this many lines, or the text ends.
    fn read(&mut self, lines: usize) {
        while !self.is_complete && self.lines.len() < lines {
            match self.text.next_line() {
                Some(line) => {
                    let rows = rows(&line, self.columns);
                    self.lines.push(rows);
                }
                None => self.is_complete = true,
            }
        }
    }

    /// The row after a place.
    fn next(&mut self, (line, row): (usize, usize)) -> Option<(usize, usize)> {
        self.read(line + 2);
        if row + 1 < self.lines.get(line)?.len() {
            return Some((line, row + 1));
        }
        (line + 1 < self.lines.len()).then_some((line + 1, 0))
    }

    /// The row before a place.
    fn previous(&self, (line, row): (usize, usize)) -> Option<(usize, usize)> {
        if row > 0 {
            return Some((line, row - 1));
        }
        let line = line.checked_sub(1)?;
        Some((line, self.lines.get(line)?.len() - 1))
    }

    /// Moves the view down, at most until the last row of the text is the last on the screen.
    fn down(&mut self, count: usize) {
        let mut bottom = self.top;
        for _ in 1..self.rows {
            match self.next(bottom) {
                Some(next) => bottom = next,
                None => return,
            }
        }
        for _ in 0..count {
            let (Some(below), Some(next)) = (self.next(bottom), self.next(self.top)) else {
                return;
            };
            (bottom, self.top) = (below, next);
        }
    }

    fn up(&mut self, count: usize) {
        for _ in 0..count {
            match self.previous(self.top) {
                Some(previous) => self.top = previous,
                None => return,
            }
        }
    }

    /// Reads the whole text and shows its end.
    fn end(&mut self) {
        self.read(usize::MAX);
        let Some(last) = self.lines.len().checked_sub(1) else {
            return;
        };
        self.top = (last, self.lines[last].len() - 1);
        self.up(self.rows - 1);
    }

    /// Shows the next line that matches, downwards or upwards, at the top.
    fn find(&mut self, downwards: bool) {
        let Some(search) = self.search.clone() else {
            self.message = Some("nothing was searched for yet".into());
            return;
        };
        let mut line = self.top.0;
        loop {
            line = match downwards {
                true => line + 1,
                false if line == 0 => break,
                false => line - 1,
            };
            self.read(line + 1);
            let Some(rows) = self.lines.get(line) else {
                break;
            };
            if search.is_match(&rows.concat()) {
                self.top = (line, 0);
                return;
            }
        }
        self.message = Some("not found".into());
    }

    /// Handles a key.
    pub fn press(&mut self, key: Key) {
        self.message = None;
        if let Some(typed) = self.typed.take() {
            return self.press_in_search(typed, key);
        }
        let (page, half) = (self.rows, self.rows.div_ceil(2));
        match key {
            Key::Character('q' | 'Q' | '\x03' | '\x04') => self.has_ended = true,
            Key::Character(' ' | 'f' | '\x06') | Key::PageDown => self.down(page),
            Key::Character('b' | '\x02') | Key::PageUp => self.up(page),
            Key::Character('d') => self.down(half),
            Key::Character('u') => self.up(half),
            Key::Character('j' | '\r' | '\n') | Key::Down => self.down(1),
            Key::Character('k' | 'y') | Key::Up => self.up(1),
            Key::Character('g' | '<') | Key::Home => self.top = (0, 0),
            Key::Character('G' | '>') | Key::End => self.end(),
            Key::Character('/') => self.typed = Some(String::new()),
            Key::Character('n') => self.find(true),
            Key::Character('N') => self.find(false),
            Key::Character('h') => self.message = Some(HELP.into()),
            Key::Character(_) => {}
        }
    }

    fn press_in_search(&mut self, mut typed: String, key: Key) {
        match key {
            // Without an expression the last one is searched for again.
            Key::Character('\r' | '\n') if typed.is_empty() => self.find(true),
            Key::Character('\r' | '\n') => match regex::parse(&typed, regex::Options::default()) {
                Ok(search) => {
                    self.search = Some(search);
                    self.find(true);
                }
                Err(error) => self.message = Some(error),
            },
            Key::Character('\x7f' | '\x08') if !typed.is_empty() => {
                typed.pop();
                self.typed = Some(typed);
            }
            Key::Character(letter) if !letter.is_control() => {
                typed.push(letter);
                self.typed = Some(typed);
            }
            _ => {}
        }
    }

    /// The bytes by which the terminal shows the whole screen.
    pub fn screen(&mut self) -> String {
        let mut screen = String::from("\x1b[H");
        let mut place = Some(self.top);
        let mut is_end = true;
        self.read(self.top.0 + 1);
        for _ in 0..self.rows {
            match place {
                Some((line, row)) if line < self.lines.len() => {
                    screen += &self.lines[line][row];
                    place = self.next((line, row));
                    is_end = place.is_none();
                }
                _ => screen.push('~'),
            }
            screen += "\x1b[K\r\n";
        }
        let status = match (&self.typed, self.message.take()) {
            (Some(typed), _) => format!("/{typed}"),
            (None, Some(message)) => message,
            (None, None) if is_end => format!("{} (end)", self.name),
            (None, None) => format!("{} line {}, h: help", self.name, self.top.0 + 1),
        };
        let status: String = status.chars().take(self.columns - 1).collect();
        screen + "\x1b[7m" + &status + "\x1b[0m\x1b[K"
    }
}

/// Divides a line into rows as they are shown, at least one. Control characters are shown as `^X`.
fn rows(line: &[u8], columns: usize) -> Vec<String> {
    let mut rows = Vec::from([String::new()]);
    let mut used = 0;
    let mut add = |letter: char| {
        if used == columns {
            rows.push(String::new());
            used = 0;
        }
        if let Some(row) = rows.last_mut() {
            row.push(letter);
        }
        used += 1;
        used
    };
    for letter in String::from_utf8_lossy(line).chars() {
        match letter {
            '\t' => while add(' ') % TAB != 0 {},
            '\r' => {}
            '\0'..' ' => {
                add('^');
                add((letter as u8 + b'@') as char);
            }
            _ => {
                add(letter);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lines(core::ops::Range<usize>, usize);

    impl Text for Lines {
        fn next_line(&mut self) -> Option<Vec<u8>> {
            self.1 += 1;
            self.0.next().map(|number| format!("line {number}").into())
        }
    }

    /// The rows of the text on the screen, and the pager's own.
    fn shown(pager: &mut Pager<Lines>) -> Vec<String> {
        let screen = pager.screen();
        let rows = screen.trim_start_matches("\x1b[H").split("\r\n");
        let plain = |row: &str| {
            let row = row.replace("\x1b[K", "").replace("\x1b[7m", "");
            row.replace("\x1b[0m", "")
        };
        rows.map(plain).collect()
    }

    fn press(pager: &mut Pager<Lines>, text: &str) {
        for key in keys(text.as_bytes()) {
            pager.press(key);
        }
    }

    #[test]
    fn keys_move_the_text() {
        let mut pager = Pager::new(Lines(0..20, 0), "text", 4, 80);
        assert_eq!(
            shown(&mut pager),
            ["line 0", "line 1", "line 2", "text line 1, h: help"]
        );
        assert!(pager.text.1 < 6, "no more is read than is shown");
        press(&mut pager, " j");
        assert_eq!(shown(&mut pager)[0], "line 4");
        press(&mut pager, "k\x1b[A");
        assert_eq!(shown(&mut pager)[0], "line 2");
        press(&mut pager, "\x1b[6~\x1b[5~\x1b[5~\x1b[5~");
        assert_eq!(shown(&mut pager)[0], "line 0");
        press(&mut pager, "G");
        let end = ["line 17", "line 18", "line 19", "text (end)"];
        assert_eq!(shown(&mut pager), end);
        press(&mut pager, "  jjd");
        assert_eq!(shown(&mut pager), end, "never beyond the end");
        press(&mut pager, "bg");
        assert_eq!(shown(&mut pager)[0], "line 0");
        assert!(!pager.has_ended());
        press(&mut pager, "q");
        assert!(pager.has_ended());
    }

    #[test]
    fn short_texts_leave_rows_empty() {
        let mut pager = Pager::new(Lines(0..1, 0), "text", 4, 80);
        press(&mut pager, " jG");
        assert_eq!(shown(&mut pager), ["line 0", "~", "~", "text (end)"]);
        let mut nothing = Pager::new(Lines(0..0, 0), "text", 4, 80);
        press(&mut nothing, "Gk b/x\rnN");
        assert_eq!(shown(&mut nothing)[..3], ["~", "~", "~"]);
    }

    #[test]
    fn searching() {
        let mut pager = Pager::new(Lines(0..200, 0), "text", 4, 80);
        press(&mut pager, "n");
        assert_eq!(shown(&mut pager)[3], "nothing was searched for yet");
        press(&mut pager, "/12x\x7f$");
        assert_eq!(shown(&mut pager)[3], "/12$");
        press(&mut pager, "\r");
        assert_eq!(shown(&mut pager)[0], "line 12");
        press(&mut pager, "n");
        assert_eq!(shown(&mut pager)[0], "line 112");
        press(&mut pager, "n");
        assert_eq!(shown(&mut pager)[3], "not found");
        press(&mut pager, "N");
        assert_eq!(shown(&mut pager)[0], "line 12");
        // Escape abandons a search, and so does a bad expression.
        press(&mut pager, "/abc\x1b");
        press(&mut pager, "/\\(\r");
        let rows = shown(&mut pager);
        assert_eq!(rows[0], "line 12");
        assert!(!rows[3].starts_with('/'));
        press(&mut pager, "j");
        assert_eq!(shown(&mut pager)[0], "line 13");
    }

    #[test]
    fn long_lines_are_broken() {
        assert_eq!(rows(b"abcdef", 4), ["abcd", "ef"]);
        assert_eq!(rows(b"abcd", 4), ["abcd"]);
        assert_eq!(rows(b"", 4), [""]);
        assert_eq!(rows(b"a\tb\x01\r", 80), ["a       b^A"]);
        assert_eq!(rows("\u{e4}\u{f6}".as_bytes(), 1), ["\u{e4}", "\u{f6}"]);
        struct One(Option<Vec<u8>>);
        impl Text for One {
            fn next_line(&mut self) -> Option<Vec<u8>> {
                self.0.take()
            }
        }
        let mut pager = Pager::new(One(Some(b"0123456789".to_vec())), "", 3, 3);
        for _ in 0..5 {
            pager.press(Key::Down);
        }
        assert!(pager.screen().contains("678\x1b[K\r\n9\x1b[K"));
    }

    #[test]
    fn sequences_of_a_terminal() {
        assert_eq!(
            keys(b"\x1b[A\x1b[1;5Bq\x1b[99~"),
            [Key::Up, Key::Down, Key::Character('q')]
        );
        assert_eq!(keys(b"\x1b[5"), []);
        assert_eq!(keys(b"\x1b"), [Key::Character('\x1b')]);
    }
}
