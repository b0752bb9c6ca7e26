//! Decodes bytes to keys: UTF-8, control characters, and the escape sequences of common terminals.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character to insert.
    Character(char),
    /// End of the line.
    Enter,
    /// Remove the character before the cursor.
    Backspace,
    /// Remove the character at the cursor.
    Delete,
    /// One character left.
    Left,
    /// One character right.
    Right,
    /// One word left.
    WordLeft,
    /// One word right.
    WordRight,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// Previous line of the history.
    Up,
    /// Next line of the history.
    Down,
    /// Cut from the cursor to the end (^K).
    CutToEnd,
    /// Cut everything before the cursor (^U).
    CutToBegin,
    /// Cut the word before the cursor (^W).
    CutWord,
    /// Insert what was cut last (^Y).
    Paste,
    /// Clear the screen (^L).
    Clear,
    /// End of the input when the line is empty (^D).
    EndOfFile,
    /// Interrupt the running program (^C).
    Interrupt,
    /// Complete the word before the cursor.
    Tab,
    /// Search the history backwards (^R).
    Search,
    /// Abandon a search (^G).
    Abort,
    /// Not a key: the terminal has this many columns and rows (`ESC [ 8 ; rows ; columns t`, as
    /// xterm reports it; the program that shows the console sends it).
    Size {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
}

/// Numbers of a sequence that are kept; further ones are dropped.
const NUMBERS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    /// After `ESC [`: the numbers read so far; the last one may be incomplete.
    Sequence {
        numbers: [u16; NUMBERS],
        count: u8,
    },
    /// After `ESC O`.
    Application,
    /// Within a character of several bytes: the bits so far, and the number of bytes to come.
    Utf8 {
        bits: u32,
        left: u8,
    },
}

/// Decodes keys byte by byte.
pub struct Decoder {
    state: State,
    /// Whether the last byte was a carriage return, which a line feed may follow.
    after_return: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            state: State::Ground,
            after_return: false,
        }
    }
}

impl Decoder {
    /// Takes a byte. Returns a key if it completes one. Unknown sequences are dropped.
    pub fn push(&mut self, byte: u8) -> Option<Key> {
        let after_return = core::mem::take(&mut self.after_return);
        match self.state {
            State::Ground => self.ground(byte, after_return),
            State::Escape => {
                self.state = State::Ground;
                match byte {
                    b'[' => {
                        self.state = State::Sequence {
                            numbers: [0; NUMBERS],
                            count: 1,
                        }
                    }
                    b'O' => self.state = State::Application,
                    b'b' => return Some(Key::WordLeft),
                    b'f' => return Some(Key::WordRight),
                    0x1b => self.state = State::Escape,
                    _ => {}
                }
                None
            }
            State::Application => {
                self.state = State::Ground;
                final_key(byte)
            }
            State::Sequence { mut numbers, count } => {
                self.state = State::Ground;
                match byte {
                    b'0'..=b'9' => {
                        if let Some(number) = numbers.get_mut(usize::from(count) - 1) {
                            let digit = u16::from(byte - b'0');
                            *number = number.saturating_mul(10).saturating_add(digit);
                        }
                        self.state = State::Sequence { numbers, count };
                        None
                    }
                    b';' => {
                        let count = count.saturating_add(1);
                        self.state = State::Sequence { numbers, count };
                        None
                    }
                    b'~' => match numbers[0] {
                        1 | 7 => Some(Key::Home),
                        3 => Some(Key::Delete),
                        4 | 8 => Some(Key::End),
                        _ => None,
                    },
                    b't' if count == 3 && numbers[0] == 8 => Some(Key::Size {
                        columns: numbers[2],
                        rows: numbers[1],
                    }),
                    // The second number has the modifiers: control with an arrow moves by words.
                    b'C' if numbers[1] == 5 => Some(Key::WordRight),
                    b'D' if numbers[1] == 5 => Some(Key::WordLeft),
                    0x40..=0x7e => final_key(byte),
                    _ => None,
                }
            }
            State::Utf8 { bits, left } => {
                self.state = State::Ground;
                if byte & 0xc0 != 0x80 {
                    // The character was cut off, and this byte begins a new one.
                    return self.ground(byte, false);
                }
                let bits = bits << 6 | u32::from(byte & 0x3f);
                if left > 1 {
                    self.state = State::Utf8 {
                        bits,
                        left: left - 1,
                    };
                    return None;
                }
                char::from_u32(bits)
                    .filter(|c| !c.is_control())
                    .map(Key::Character)
            }
        }
    }

    fn ground(&mut self, byte: u8, after_return: bool) -> Option<Key> {
        Some(match byte {
            0x01 => Key::Home,
            0x02 => Key::Left,
            0x03 => Key::Interrupt,
            0x04 => Key::EndOfFile,
            0x05 => Key::End,
            0x06 => Key::Right,
            0x07 => Key::Abort,
            0x08 | 0x7f => Key::Backspace,
            b'\t' => Key::Tab,
            b'\n' if after_return => return None,
            b'\n' => Key::Enter,
            b'\r' => {
                self.after_return = true;
                Key::Enter
            }
            0x0b => Key::CutToEnd,
            0x0c => Key::Clear,
            0x0e => Key::Down,
            0x10 => Key::Up,
            0x12 => Key::Search,
            0x15 => Key::CutToBegin,
            0x17 => Key::CutWord,
            0x19 => Key::Paste,
            0x1b => {
                self.state = State::Escape;
                return None;
            }
            0x20..0x7f => Key::Character(char::from(byte)),
            0xc2..=0xdf => return self.begin(byte & 0x1f, 1),
            0xe0..=0xef => return self.begin(byte & 0x0f, 2),
            0xf0..=0xf4 => return self.begin(byte & 0x07, 3),
            _ => return None,
        })
    }

    fn begin(&mut self, bits: u8, left: u8) -> Option<Key> {
        self.state = State::Utf8 {
            bits: bits.into(),
            left,
        };
        None
    }
}

fn final_key(byte: u8) -> Option<Key> {
    Some(match byte {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = Decoder::default();
        bytes
            .iter()
            .filter_map(|byte| decoder.push(*byte))
            .collect()
    }

    #[test]
    fn characters_and_controls() {
        use Key::*;
        let text = "aé€😀".as_bytes();
        assert_eq!(
            keys(text),
            "aé€😀".chars().map(Character).collect::<Vec<_>>()
        );
        assert_eq!(
            keys(b"\x01\x05\x0b\x15\x17\x0c\x03\x04\x7f\x08"),
            [
                Home, End, CutToEnd, CutToBegin, CutWord, Clear, Interrupt, EndOfFile, Backspace,
                Backspace
            ]
        );
        assert_eq!(keys(b"\r\n\n\r\r"), [Enter, Enter, Enter, Enter]);
    }

    #[test]
    fn sequences() {
        use Key::*;
        assert_eq!(
            keys(b"\x1b[A\x1b[B\x1bOC\x1b[D\x1b[H\x1b[4~\x1b[3~\x1b[1;5D\x1b[1;5C"),
            [
                Up, Down, Right, Left, Home, End, Delete, WordLeft, WordRight
            ]
        );
        // Unknown and broken sequences have no effect.
        assert_eq!(
            keys(b"\x1b[99~\x1b[?25lx\x1b\x1b[Ay"),
            [
                Character('2'),
                Character('5'),
                Character('l'),
                Character('x'),
                Up,
                Character('y')
            ]
        );
        assert_eq!(
            keys(b"\xe2\x82a\xffb\xc3\x1b[C"),
            [Character('a'), Character('b'), Right]
        );
        assert_eq!(keys(b"\x1b[999999999999999999~z"), [Character('z')]);
        assert_eq!(keys(b"\x1b[1;2;3;4;5;5Cx"), [Right, Character('x')]);
    }

    #[test]
    fn the_size_of_the_terminal() {
        use Key::*;
        let size = Size {
            columns: 132,
            rows: 43,
        };
        assert_eq!(
            keys(b"a\x1b[8;43;132tb"),
            [Character('a'), size, Character('b')]
        );
        // Other reports are not those of sizes.
        assert_eq!(keys(b"\x1b[8;43t\x1b[9;43;132t\x1b[8;43;132;1t"), []);
    }
}
