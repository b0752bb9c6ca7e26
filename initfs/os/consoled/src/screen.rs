//! The terminal on the machine's own screen: a grid of cells that treats bytes as a serial
//! terminal does.
//!
//! The bytes that the console and other programs send to the serial port are read back from the
//! kernel and shown here, so the screen shows what a terminal at the port shows. The kernel has
//! the screen's memory and draws the cells.

use alloc::vec;
use alloc::vec::Vec;

/// The contents of one place of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The letter (Latin-1); 0 shows nothing, as a space does.
    pub letter: u8,
    /// Its colour, in the order of terminals: black, red, green, yellow, blue, magenta, cyan,
    /// white, and the same bright.
    pub color: u8,
    /// Letter and background change places: the cursor.
    pub reversed: bool,
}

impl Cell {
    /// Encodes the record by which the kernel draws the cell: column and row (16 bits each, little
    /// endian), letter, colour, 1 if it is reversed or else 0, and 0.
    pub fn encode(self, column: usize, row: usize) -> [u8; 8] {
        let ([c0, c1], [r0, r1]) = ((column as u16).to_le_bytes(), (row as u16).to_le_bytes());
        [
            c0,
            c1,
            r0,
            r1,
            self.letter,
            self.color,
            self.reversed.into(),
            0,
        ]
    }
}

/// Default colour of text.
const WHITE: u8 = 7;
/// Added to a colour's number to make it bright.
const BRIGHT: u8 = 8;
/// Numbers of an escape sequence that are kept.
const NUMBERS: usize = 4;

const EMPTY: Cell = Cell {
    letter: 0,
    color: 0,
    reversed: false,
};

#[derive(Clone, Copy)]
enum State {
    Ground,
    Escape,
    /// After `ESC [`: the numbers read so far; the last one may be incomplete.
    Sequence {
        numbers: [u16; NUMBERS],
        count: usize,
    },
    /// Within a character of several bytes: the bits so far, and the number of bytes to come.
    Utf8 {
        bits: u32,
        left: u8,
    },
}

/// The cells of a screen, and the cursor.
pub struct Screen {
    columns: usize,
    rows: usize,
    wanted: Vec<Vec<Cell>>,
    /// The cells on the screen; `None` where they are not known.
    shown: Vec<Vec<Option<Cell>>>,
    column: usize,
    row: usize,
    color: u8,
    state: State,
    /// Rows that may differ from what is shown: the first one, and the one after the last.
    changed: (usize, usize),
}

impl Screen {
    /// A screen of this size, which is not 0, whose cells are not known.
    pub fn new(columns: usize, rows: usize) -> Self {
        Screen {
            columns,
            rows,
            wanted: vec![vec![EMPTY; columns]; rows],
            shown: vec![vec![None; columns]; rows],
            column: 0,
            row: 0,
            color: WHITE,
            state: State::Ground,
            changed: (0, rows),
        }
    }

    /// Takes bytes of a program or the kernel.
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.touch();
            self.byte(*byte);
        }
        self.touch();
    }

    /// Calls `put` with column, row and content of every cell that differs from what is shown.
    pub fn paint(&mut self, mut put: impl FnMut(usize, usize, Cell)) {
        let cursor = self.cursor();
        for row in self.changed.0..self.changed.1 {
            for column in 0..self.columns {
                let mut cell = self.wanted[row][column];
                cell.reversed = cursor == (column, row);
                if cell.reversed && cell.color == 0 {
                    cell.color = WHITE;
                }
                if self.shown[row][column] != Some(cell) {
                    self.shown[row][column] = Some(cell);
                    put(column, row, cell);
                }
            }
        }
        self.changed = (0, 0);
    }

    /// The cell where the cursor is shown; beyond the last column that is the last column.
    fn cursor(&self) -> (usize, usize) {
        (self.column.min(self.columns.saturating_sub(1)), self.row)
    }

    /// Notes that the cursor's row may have changed.
    fn touch(&mut self) {
        self.touch_rows(self.row, self.row + 1);
    }

    fn touch_rows(&mut self, first: usize, end: usize) {
        self.changed = match self.changed {
            (from, to) if from == to => (first, end),
            (from, to) => (from.min(first), to.max(end)),
        };
    }

    fn byte(&mut self, byte: u8) {
        match self.state {
            State::Ground => self.ground(byte),
            State::Escape => {
                self.state = match byte {
                    b'[' => State::Sequence {
                        numbers: [0; NUMBERS],
                        count: 0,
                    },
                    _ => State::Ground,
                }
            }
            State::Sequence { numbers, count } => self.sequence(byte, numbers, count),
            State::Utf8 { bits, left } if byte & 0xC0 == 0x80 => {
                let bits = bits << 6 | u32::from(byte & 0x3F);
                self.state = State::Ground;
                if left > 1 {
                    let left = left - 1;
                    self.state = State::Utf8 { bits, left };
                } else {
                    self.letter(u8::try_from(bits).unwrap_or(b'?'));
                }
            }
            // The byte does not continue the character, so it begins a new one.
            State::Utf8 { .. } => {
                self.letter(b'?');
                self.state = State::Ground;
                self.ground(byte);
            }
        }
    }

    fn ground(&mut self, byte: u8) {
        match byte {
            0x1B => self.state = State::Escape,
            b'\r' => self.column = 0,
            // The kernel's own lines have no carriage return.
            b'\n' => self.new_line(),
            0x08 => self.column = self.cursor().0.saturating_sub(1),
            b'\t' => self.column = (self.column / 8 * 8 + 8).min(self.columns - 1),
            0x20..=0x7E => self.letter(byte),
            0xC0..0xE0 => self.begin(byte & 0x1F, 1),
            0xE0..0xF0 => self.begin(byte & 0x0F, 2),
            0xF0..0xF8 => self.begin(byte & 0x07, 3),
            0x80.. => self.letter(b'?'),
            _ => {}
        }
    }

    fn begin(&mut self, bits: u8, left: u8) {
        self.state = State::Utf8 {
            bits: bits.into(),
            left,
        };
    }

    fn letter(&mut self, letter: u8) {
        if self.column >= self.columns {
            self.new_line();
        }
        self.wanted[self.row][self.column] = Cell {
            letter,
            color: self.color,
            reversed: false,
        };
        self.column += 1;
    }

    fn new_line(&mut self) {
        self.column = 0;
        self.row += 1;
        if self.row == self.rows {
            self.row -= 1;
            self.wanted.rotate_left(1);
            self.wanted[self.row].fill(EMPTY);
            self.touch_rows(0, self.rows);
        }
        self.touch();
    }

    fn sequence(&mut self, byte: u8, mut numbers: [u16; NUMBERS], mut count: usize) {
        match byte {
            b'0'..=b'9' => {
                let number = &mut numbers[count.min(NUMBERS - 1)];
                *number = number
                    .saturating_mul(10)
                    .saturating_add(u16::from(byte - b'0'));
                self.state = State::Sequence { numbers, count };
            }
            b';' => {
                count = (count + 1).min(NUMBERS - 1);
                numbers[count] = 0;
                self.state = State::Sequence { numbers, count };
            }
            0x40..0x7F => {
                self.state = State::Ground;
                self.command(byte, &numbers[..=count]);
            }
            _ => {}
        }
    }

    fn command(&mut self, name: u8, numbers: &[u16]) {
        let number = |at: usize| usize::from(numbers.get(at).copied().unwrap_or(0));
        let steps = number(0).max(1);
        let (column, row) = self.cursor();
        match name {
            b'A' => self.row = row.saturating_sub(steps),
            b'B' => self.row = (row + steps).min(self.rows - 1),
            b'C' => self.column = (column + steps).min(self.columns - 1),
            b'D' => self.column = column.saturating_sub(steps),
            b'G' => self.column = (steps - 1).min(self.columns - 1),
            b'H' => {
                self.row = (steps - 1).min(self.rows - 1);
                self.column = (number(1).max(1) - 1).min(self.columns - 1);
            }
            b'J' => {
                // From the cursor to the end, to the cursor from the beginning, or everything.
                let (first, end) = match number(0) {
                    0 => (row + 1, self.rows),
                    1 => (0, row),
                    _ => (0, self.rows),
                };
                if number(0) < 2 {
                    self.clear_row(number(0), column, row);
                }
                self.wanted[first..end]
                    .iter_mut()
                    .for_each(|row| row.fill(EMPTY));
                self.touch_rows(0, self.rows);
            }
            b'K' => self.clear_row(number(0), column, row),
            b'm' => numbers.iter().for_each(|number| self.attribute(*number)),
            _ => {}
        }
    }

    /// Clears a row: from a column on (0), up to it (1), or all of it (2).
    fn clear_row(&mut self, which: usize, column: usize, row: usize) {
        let cells = &mut self.wanted[row];
        match which {
            0 => cells[column..].fill(EMPTY),
            1 => cells[..=column].fill(EMPTY),
            _ => cells.fill(EMPTY),
        }
    }

    fn attribute(&mut self, number: u16) {
        let low = (number % 10) as u8;
        self.color = match number {
            0 | 39 => WHITE,
            1 => self.color | BRIGHT,
            // Black on black would be unreadable.
            30 => BRIGHT,
            31..=37 => low | self.color & BRIGHT,
            90..=97 => low | BRIGHT,
            _ => self.color,
        };
    }
}

#[cfg(test)]
mod tests;
