//! One line being edited, and the lines before it.
//!
//! Only backspaces and plain characters move the cursor, so that the simplest terminal will do. The
//! line scrolls sideways when it is longer than the room beside the prompt.

use alloc::string::String;
use alloc::vec::Vec;

use crate::keys::Key;

/// Lines the history keeps.
const HISTORY: usize = 200;
/// Longest line, in characters; more input is refused with a bell.
const MAX_LINE: usize = 4000;

/// What a key led to, beside a changed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The line is complete.
    Line(String),
    /// End of the input.
    EndOfFile,
    /// The line was given up.
    Interrupt,
    /// The screen is to be cleared.
    Clear,
}

/// The editor.
#[derive(Default)]
pub struct Editor {
    line: Vec<char>,
    cursor: usize,
    cut: Vec<char>,
    history: Vec<Vec<char>>,
    /// Position in the history, and the line that was begun before going there.
    browsing: Option<(usize, Vec<char>)>,
    /// What the screen shows of the line, where the screen's cursor is in it, and which character
    /// comes first.
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
        self.shown.len()
    }

    /// The screen does not show the line any more.
    pub fn forget_screen(&mut self) {
        self.shown.clear();
        self.column = 0;
    }

    /// Handles a key. The screen is changed by [`Editor::show`] only.
    pub fn key(&mut self, key: Key, out: &mut Vec<u8>) -> Option<Action> {
        match key {
            Key::Character(c) => {
                if self.line.len() >= MAX_LINE {
                    out.push(7);
                } else {
                    self.line.insert(self.cursor, c);
                    self.cursor += 1;
                }
            }
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
                let room = MAX_LINE - self.line.len();
                let text: Vec<char> = self.cut.iter().copied().take(room).collect();
                let count = text.len();
                self.line.splice(self.cursor..self.cursor, text);
                self.cursor += count;
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

    fn take(&mut self) -> Vec<char> {
        self.cursor = 0;
        self.browsing = None;
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
            // Below the newest line is what was being typed.
            self.line = draft;
        } else {
            self.line = self.history[next].clone();
            self.browsing = Some((next, draft));
        }
        self.cursor = self.line.len();
    }

    /// Makes the screen show the line in the given number of columns.
    pub fn show(&mut self, columns: usize, out: &mut Vec<u8>) {
        let columns = columns.max(8);
        if self.cursor < self.first || self.cursor > self.first + columns {
            // Some of what is before the cursor stays in view.
            self.first = self.cursor.saturating_sub(columns * 2 / 3);
        }
        if self.line.len() <= columns {
            self.first = 0;
        }
        let end = self.line.len().min(self.first + columns);
        let wanted: Vec<char> = self.line[self.first..end].to_vec();
        let same = self
            .shown
            .iter()
            .zip(&wanted)
            .take_while(|(a, b)| a == b)
            .count();
        if same < self.shown.len() || same < wanted.len() {
            self.move_to(same, out);
            for c in &wanted[same..] {
                push(*c, out);
            }
            let blanks = self.shown.len().saturating_sub(wanted.len());
            out.resize(out.len() + blanks, b' ');
            self.column = wanted.len() + blanks;
            self.shown = wanted;
        }
        self.move_to(self.cursor - self.first, out);
    }

    /// Moves the screen's cursor behind the line.
    pub fn leave(&mut self, out: &mut Vec<u8>) {
        self.move_to(self.shown.len(), out);
        self.forget_screen();
    }

    fn move_to(&mut self, column: usize, out: &mut Vec<u8>) {
        if column < self.column {
            out.resize(out.len() + self.column - column, 8);
        } else {
            // Going right means writing again what is there.
            let passed = self
                .shown
                .iter()
                .skip(self.column)
                .take(column - self.column);
            passed.for_each(|c| push(*c, out));
        }
        self.column = column;
    }
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// The least terminal: one row, backspace and printing.
    #[derive(Default)]
    struct Row {
        cells: Vec<char>,
        column: usize,
    }

    impl Row {
        fn print(&mut self, bytes: &[u8]) {
            for c in core::str::from_utf8(bytes).unwrap().chars() {
                match c {
                    '\u{8}' => self.column = self.column.checked_sub(1).expect("left of the line"),
                    '\u{7}' => {}
                    c => {
                        if self.cells.len() == self.column {
                            self.cells.push(' ');
                        }
                        self.cells[self.column] = c;
                        self.column += 1;
                    }
                }
            }
        }

        fn text(&self) -> String {
            self.cells.iter().collect::<String>().trim_end().to_string()
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
    fn the_screen_follows_whatever_is_typed() {
        use Key::*;
        let keys = [
            Character('a'),
            Character('b'),
            Character('é'),
            Character(' '),
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
                    number %= 4;
                }
                let mut out = Vec::new();
                editor.key(keys[number], &mut out);
                editor.show(columns, &mut out);
                row.print(&out);
                let end = editor.line.len().min(editor.first + columns);
                let visible: String = editor.line[editor.first..end].iter().collect();
                assert_eq!(row.text(), visible.trim_end());
                assert_eq!(row.column, editor.cursor - editor.first);
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
