//! The editor of one line, and its history of earlier lines.
//!
//! Only backspaces and plain characters move the cursor, so that the simplest terminal suffices. A
//! line that is longer than the room beside the prompt scrolls sideways. A character takes up no
//! column, one or two; one without a column belongs to the character before it.

use alloc::string::String;
use alloc::vec::Vec;

use unicode_width::UnicodeWidthChar;

use crate::keys::Key;

/// Lines the history keeps.
const HISTORY: usize = 200;
/// Longest line, in characters; more input is refused with a bell.
const MAX_LINE: usize = 4000;
/// Rings.
const BELL: u8 = 7;
/// Moves the cursor one column to the left.
const BACKSPACE: u8 = 8;

/// The effect of a key, besides a changed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The line is complete.
    Line(String),
    /// The input has ended.
    EndOfFile,
    /// The line was abandoned.
    Interrupt,
    /// The screen must be cleared.
    Clear,
    /// The word before the cursor must be completed; this is the text before the cursor.
    Complete(String),
}

/// A search through the history (^R).
struct Search {
    /// The text that is searched for.
    text: Vec<char>,
    /// The index in the history where the text was found, if it was.
    found: Option<usize>,
    /// The line and cursor before the search.
    draft: (Vec<char>, usize),
}

/// The editor.
#[derive(Default)]
pub struct Editor {
    line: Vec<char>,
    cursor: usize,
    cut: Vec<char>,
    history: Vec<Vec<char>>,
    /// The index in the history, and the line that was being edited before.
    browsing: Option<(usize, Vec<char>)>,
    search: Option<Search>,
    /// The part of the line on the screen, the column of the screen's cursor in it, and the index
    /// of the character at its start.
    shown: Vec<char>,
    column: usize,
    first: usize,
}

impl Editor {
    /// Is nothing typed?
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Columns of the screen that the line takes up now.
    pub fn shown_columns(&self) -> usize {
        width(&self.shown)
    }

    /// Notes that the screen does not show the line any more.
    pub fn forget_screen(&mut self) {
        self.shown.clear();
        self.column = 0;
    }

    /// Handles a key. Only [`Editor::show`] changes the screen.
    pub fn key(&mut self, key: Key, out: &mut Vec<u8>) -> Option<Action> {
        if self.search_key(key, out) {
            return None;
        }
        match key {
            Key::Character(c) => self.insert(&[c], out),
            Key::Backspace => {
                if self.cursor > 0 {
                    self.cursor -= 1;
                    self.line.remove(self.cursor);
                }
            }
            Key::Delete => self.delete(),
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.line.len()),
            Key::WordLeft => self.cursor = self.word_left(),
            Key::WordRight => {
                let rest = &self.line[self.cursor..];
                let space = rest.iter().take_while(|c| c.is_whitespace()).count();
                let word = rest[space..]
                    .iter()
                    .take_while(|c| !c.is_whitespace())
                    .count();
                self.cursor += space + word;
            }
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.line.len(),
            Key::Up => self.browse(true),
            Key::Down => self.browse(false),
            Key::CutToEnd => self.cut = self.line.split_off(self.cursor),
            Key::CutToBegin => self.cut_from(0),
            Key::CutWord => self.cut_from(self.word_left()),
            Key::Paste => {
                let text = core::mem::take(&mut self.cut);
                self.insert(&text, out);
                self.cut = text;
            }
            Key::Search => {
                self.search = Some(Search {
                    text: Vec::new(),
                    found: None,
                    draft: (self.line.clone(), self.cursor),
                });
            }
            Key::Abort => out.push(BELL),
            Key::Size { .. } => {}
            Key::Tab => {
                let text = self.line[..self.cursor].iter().collect();
                return Some(Action::Complete(text));
            }
            Key::Clear => return Some(Action::Clear),
            Key::EndOfFile if self.line.is_empty() => return Some(Action::EndOfFile),
            Key::EndOfFile => self.delete(),
            Key::Interrupt => {
                self.take();
                return Some(Action::Interrupt);
            }
            Key::Enter => {
                let line = self.take();
                let text: String = line.iter().collect();
                let repeated = self.history.last() == Some(&line);
                if !text.trim().is_empty() && !repeated {
                    if self.history.len() >= HISTORY {
                        self.history.remove(0);
                    }
                    self.history.push(line);
                }
                return Some(Action::Line(text));
            }
        }
        None
    }

    /// Inserts text at the cursor, as far as a line has room. If there is more, the bell rings.
    pub fn insert(&mut self, text: &[char], out: &mut Vec<u8>) {
        let count = text.len().min(MAX_LINE - self.line.len());
        if count < text.len() {
            out.push(BELL);
        }
        let text = text[..count].iter().copied();
        self.line.splice(self.cursor..self.cursor, text);
        self.cursor += count;
    }

    /// Handles a key during a search in the history. Returns false if the search has ended and the
    /// key has its usual meaning.
    fn search_key(&mut self, key: Key, out: &mut Vec<u8>) -> bool {
        let Some(mut search) = self.search.take() else {
            return false;
        };
        match key {
            Key::Character(c) => {
                search.text.push(c);
                // The line that is shown may still match.
                let newest = search.found.map_or(self.history.len(), |found| found + 1);
                self.find(search, newest, out);
            }
            Key::Search => {
                let newest = search.found.unwrap_or(self.history.len());
                self.find(search, newest, out);
            }
            Key::Backspace => {
                search.text.pop();
                self.find(search, self.history.len(), out);
            }
            Key::Abort => (self.line, self.cursor) = search.draft,
            // It ends the search, whose text is on the screen, and not yet the input.
            Key::EndOfFile if self.line.is_empty() => {}
            Key::Size { .. } => self.search = Some(search),
            _ => return false,
        }
        true
    }

    /// Searches the history for a line older than the one at `newest`. If there is none, the
    /// screen stays as it is.
    fn find(&mut self, mut search: Search, newest: usize, out: &mut Vec<u8>) {
        let place = |line: &Vec<char>| {
            let mut windows = line.windows(search.text.len().max(1));
            windows.position(|window| window == search.text)
        };
        let lines = self.history[..newest].iter().enumerate().rev();
        let mut found = lines.filter_map(|(index, line)| Some((index, place(line)?)));
        match found.next() {
            Some((index, at)) => {
                search.found = Some(index);
                self.line = self.history[index].clone();
                self.cursor = at;
            }
            None if !search.text.is_empty() => out.push(BELL),
            None => {}
        }
        self.search = Some(search);
    }

    /// The text to show, and the position of the cursor in it.
    fn visible(&self) -> (Vec<char>, usize) {
        let Some(search) = &self.search else {
            return (self.line.clone(), self.cursor);
        };
        let mut all: Vec<char> = "(reverse-i-search)`".chars().collect();
        all.extend(&search.text);
        all.extend("': ".chars());
        let cursor = all.len() + self.cursor;
        all.extend(&self.line);
        (all, cursor)
    }

    fn take(&mut self) -> Vec<char> {
        self.cursor = 0;
        self.browsing = None;
        self.search = None;
        self.first = 0;
        core::mem::take(&mut self.line)
    }

    fn delete(&mut self) {
        if self.cursor < self.line.len() {
            self.line.remove(self.cursor);
        }
    }

    fn word_left(&self) -> usize {
        let before = &self.line[..self.cursor];
        let space = before
            .iter()
            .rev()
            .take_while(|c| c.is_whitespace())
            .count();
        let before = &before[..self.cursor - space];
        before.len()
            - before
                .iter()
                .rev()
                .take_while(|c| !c.is_whitespace())
                .count()
    }

    fn cut_from(&mut self, start: usize) {
        self.cut = self.line.drain(start..self.cursor).collect();
        self.cursor = start;
    }

    fn browse(&mut self, back: bool) {
        let (position, draft) = match self.browsing.take() {
            Some(state) => state,
            None => (self.history.len(), self.line.clone()),
        };
        let next = if back {
            position.saturating_sub(1)
        } else {
            position + 1
        };
        if next >= self.history.len() {
            // Below the newest line of the history is the line that was being edited.
            self.line = draft;
        } else {
            self.line = self.history[next].clone();
            self.browsing = Some((next, draft));
        }
        self.cursor = self.line.len();
    }

    /// Makes the screen show the line within the given number of columns.
    pub fn show(&mut self, columns: usize, out: &mut Vec<u8>) {
        let columns = columns.max(8);
        let (all, cursor) = self.visible();
        if width(&all) <= columns {
            self.first = 0;
        } else if cursor < self.first || width(&all[self.first..cursor]) > columns {
            // Some of what is before the cursor stays in view.
            let before = last_columns(&all[..cursor], columns * 2 / 3);
            self.first = cursor - before;
        }
        // Marks whose character is out of sight or was removed would attach to the text before the
        // line.
        let marks = all[self.first..]
            .iter()
            .take_while(|c| char_width(**c) == 0);
        let start = self.first + marks.count();
        let rest = &all[start..];
        let wanted = rest[..first_columns(rest, columns)].to_vec();
        let mut same = self
            .shown
            .iter()
            .zip(&wanted)
            .take_while(|(a, b)| a == b)
            .count();
        let is_mark = |c: Option<&char>| c.is_some_and(|c| char_width(*c) == 0);
        if same < self.shown.len() || same < wanted.len() {
            // Marks are printed after the character that they belong to.
            while same > 0 && (is_mark(self.shown.get(same)) || is_mark(wanted.get(same))) {
                same -= 1;
            }
            self.move_to(width(&wanted[..same]), out);
            for c in &wanted[same..] {
                push(*c, out);
            }
            let blanks = width(&self.shown).saturating_sub(width(&wanted));
            out.resize(out.len() + blanks, b' ');
            self.column = width(&wanted) + blanks;
            self.shown = wanted;
        }
        let cursor = cursor.saturating_sub(start).min(self.shown.len());
        self.move_to(width(&self.shown[..cursor]), out);
    }

    /// Moves the screen's cursor to the end of the line.
    pub fn leave(&mut self, out: &mut Vec<u8>) {
        self.move_to(width(&self.shown), out);
        self.forget_screen();
    }

    /// Moves the screen's cursor to a column where a character begins or the line ends.
    fn move_to(&mut self, column: usize, out: &mut Vec<u8>) {
        if column < self.column {
            out.resize(out.len() + self.column - column, BACKSPACE);
        } else {
            // Moving right means writing the characters there again.
            let passed = first_columns(&self.shown, self.column);
            let end = first_columns(&self.shown, column);
            for c in &self.shown[passed..end] {
                push(*c, out);
            }
        }
        self.column = column;
    }
}

/// Columns that a character takes up.
pub fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Columns that characters take up.
fn width(text: &[char]) -> usize {
    text.iter().map(|c| char_width(*c)).sum()
}

/// The number of first characters that fit into `columns`.
fn first_columns(text: &[char], columns: usize) -> usize {
    fitting(text.iter(), columns)
}

/// The number of last characters that fit into `columns`.
fn last_columns(text: &[char], columns: usize) -> usize {
    fitting(text.iter().rev(), columns)
}

fn fitting<'a>(text: impl Iterator<Item = &'a char>, columns: usize) -> usize {
    let mut used = 0;
    text.take_while(|c| {
        used += char_width(**c);
        used <= columns
    })
    .count()
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// The simplest terminal: one row, backspace and printing. A cell holds a character with its
    /// marks; the right half of a wide character is an empty cell.
    #[derive(Default)]
    struct Row {
        cells: Vec<String>,
        column: usize,
    }

    impl Row {
        fn print(&mut self, bytes: &[u8]) {
            for c in core::str::from_utf8(bytes).unwrap().chars() {
                match c {
                    '\u{8}' => self.column = self.column.checked_sub(1).expect("left of the line"),
                    '\u{7}' => {}
                    c if char_width(c) == 0 => {
                        let mut base = self.column - 1;
                        while self.cells[base].is_empty() {
                            base -= 1;
                        }
                        self.cells[base].push(c);
                    }
                    c => {
                        let end = self.column + char_width(c);
                        if self.cells.len() < end {
                            self.cells.resize(end, " ".into());
                        }
                        // Half of a wide character is not visible.
                        if self.cells[self.column].is_empty() {
                            self.cells[self.column - 1] = " ".into();
                        }
                        if self.cells.get(end).is_some_and(String::is_empty) {
                            self.cells[end] = " ".into();
                        }
                        self.cells[self.column..end].fill(String::new());
                        self.cells[self.column] = c.into();
                        self.column = end;
                    }
                }
            }
        }

        fn text(&self) -> String {
            self.cells.concat().trim_end().to_string()
        }
    }

    fn type_text(editor: &mut Editor, text: &str) {
        for c in text.chars() {
            assert_eq!(editor.key(Key::Character(c), &mut Vec::new()), None);
        }
    }

    fn press(editor: &mut Editor, keys: &[Key]) -> Option<Action> {
        keys.iter()
            .fold(None, |_, key| editor.key(*key, &mut Vec::new()))
    }

    fn line(editor: &Editor) -> String {
        editor.line.iter().collect()
    }

    #[test]
    fn editing() {
        use Key::*;
        let mut editor = Editor::default();
        type_text(&mut editor, "hello wörld");
        press(
            &mut editor,
            &[Home, Delete, Character('H'), End, Backspace, Character('D')],
        );
        assert_eq!(line(&editor), "Hello wörlD");
        press(
            &mut editor,
            &[WordLeft, CutToEnd, Home, Paste, Character(' ')],
        );
        assert_eq!(line(&editor), "wörlD Hello ");
        press(
            &mut editor,
            &[End, CutWord, Left, Left, WordLeft, WordRight, CutToBegin],
        );
        assert_eq!(line(&editor), " ");
        press(
            &mut editor,
            &[End, CutToBegin, Backspace, Left, Delete, CutWord, CutToEnd],
        );
        assert_eq!(press(&mut editor, &[EndOfFile]), Some(Action::EndOfFile));
        type_text(&mut editor, "ab");
        assert_eq!(press(&mut editor, &[Home, EndOfFile]), None);
        assert_eq!(line(&editor), "b");
        assert_eq!(press(&mut editor, &[Interrupt]), Some(Action::Interrupt));
        assert_eq!(
            press(&mut editor, &[Enter]),
            Some(Action::Line(String::new()))
        );
        assert_eq!(press(&mut editor, &[Clear]), Some(Action::Clear));
    }

    #[test]
    fn history() {
        use Key::*;
        let mut editor = Editor::default();
        for text in ["one", "two", "two", "  ", "three"] {
            type_text(&mut editor, text);
            assert_eq!(
                press(&mut editor, &[Enter]),
                Some(Action::Line(text.into()))
            );
        }
        type_text(&mut editor, "draft");
        let mut up = |expected: &str| {
            press(&mut editor, &[Up]);
            assert_eq!(line(&editor), expected);
        };
        up("three");
        up("two");
        up("one");
        up("one");
        press(&mut editor, &[Down, Down, Down]);
        assert_eq!(line(&editor), "draft");
        press(&mut editor, &[Down]);
        assert_eq!(line(&editor), "draft");
        press(&mut editor, &[Up, Up, Character('!')]);
        assert_eq!(
            press(&mut editor, &[Enter]),
            Some(Action::Line("two!".into()))
        );
        for number in 0..HISTORY + 50 {
            type_text(&mut editor, &number.to_string());
            press(&mut editor, &[Enter]);
        }
        assert_eq!(editor.history.len(), HISTORY);
    }

    #[test]
    fn searching() {
        use Key::*;
        let mut editor = Editor::default();
        for text in ["make one", "list", "make two"] {
            type_text(&mut editor, text);
            press(&mut editor, &[Enter]);
        }
        let search = |editor: &mut Editor, text: &str| {
            press(editor, &[Search]);
            type_text(editor, text);
        };
        type_text(&mut editor, "draft");
        search(&mut editor, "ma");
        assert_eq!(line(&editor), "make two");
        let (seen, cursor) = editor.visible();
        let seen: String = seen.iter().collect();
        assert_eq!(seen, "(reverse-i-search)`ma': make two");
        assert_eq!(cursor, "(reverse-i-search)`ma': ".len());
        press(&mut editor, &[Search]);
        assert_eq!(line(&editor), "make one");
        let mut out = Vec::new();
        editor.key(Search, &mut out);
        assert_eq!(
            (line(&editor).as_str(), out.as_slice()),
            ("make one", &[BELL][..])
        );
        type_text(&mut editor, "ke on");
        assert_eq!(line(&editor), "make one");
        press(&mut editor, &[Abort]);
        assert_eq!(line(&editor), "draft");
        search(&mut editor, "list");
        assert_eq!(
            press(&mut editor, &[Enter]),
            Some(Action::Line("list".into()))
        );
        search(&mut editor, "two");
        press(&mut editor, &[End, Character('!')]);
        assert_eq!(line(&editor), "make two!");
        assert_eq!(
            press(&mut editor, &[Search, Interrupt]),
            Some(Action::Interrupt)
        );
        assert!(editor.is_empty());
    }

    #[test]
    fn completing() {
        use Key::*;
        let mut editor = Editor::default();
        type_text(&mut editor, "cat ab cd");
        press(&mut editor, &[WordLeft, Left]);
        let action = press(&mut editor, &[Tab]);
        assert_eq!(action, Some(Action::Complete("cat ab".into())));
        editor.insert(&['c', 'd'], &mut Vec::new());
        assert_eq!(line(&editor), "cat abcd cd");
    }

    #[test]
    fn the_screen_follows_whatever_is_typed() {
        use Key::*;
        let keys = [
            Character('a'),
            Character('漢'),
            Character('\u{301}'),
            Character(' '),
            Character('é'),
            Character('😀'),
            Backspace,
            Delete,
            Left,
            Right,
            Home,
            End,
            WordLeft,
            WordRight,
            CutToEnd,
            CutToBegin,
            CutWord,
            Paste,
            Up,
            Down,
            Search,
            Enter,
        ];
        for columns in [8, 20, 200] {
            let mut editor = Editor::default();
            let mut row = Row::default();
            let mut seed = 1u64;
            for _ in 0..20_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let mut number = (seed >> 33) as usize % (keys.len() * 2);
                // Mostly characters, so that the line grows.
                if number >= keys.len() {
                    number %= 6;
                }
                let mut out = Vec::new();
                if editor.key(keys[number], &mut out).is_some() {
                    editor.leave(&mut out);
                    row = Row::default();
                    continue;
                }
                editor.show(columns, &mut out);
                row.print(&out);
                let (all, cursor) = editor.visible();
                let marks = all[editor.first..]
                    .iter()
                    .take_while(|c| char_width(**c) == 0)
                    .count();
                let start = editor.first + marks;
                let end = start + first_columns(&all[start..], columns);
                let seen: String = all[start..end].iter().collect();
                assert_eq!(row.text(), seen.trim_end());
                assert_eq!(row.column, width(&all[start..cursor.clamp(start, end)]));
                assert!(row.cells.len() <= columns);
            }
        }
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut editor = Editor::default();
        type_text(&mut editor, &"x".repeat(MAX_LINE));
        let mut out = Vec::new();
        editor.key(Key::Character('y'), &mut out);
        assert_eq!(out, [7]);
        press(&mut editor, &[Key::CutToBegin, Key::Paste, Key::Paste]);
        assert_eq!(editor.line.len(), MAX_LINE);
    }
}
