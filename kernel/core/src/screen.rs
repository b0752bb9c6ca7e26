//! Text on a screen: what the loader says of the screen checked, the letters, and a grid of cells
//! that does what a serial terminal does with the same bytes.
//!
//! The grid knows no memory: `Grid::paint` names the cells that changed, `draw` says what belongs
//! where, and the kernel stores it (`arch::framebuffer`). The launcher reads pictures of a guest's
//! screen with the same letters.

mod draw;

pub use draw::{draw, empty};

use core::fmt;

use crate::bootinfo::{ScreenFormat, ScreenInfo};
use font8x8::legacy::{BASIC_LEGACY, LATIN_LEGACY};

/// Dots of a letter from left to right.
pub const LETTER_WIDTH: usize = 8;
/// Dots of a letter from top to bottom; each row of the font is shown twice.
pub const LETTER_HEIGHT: usize = 16;
/// Most columns of a grid.
pub const MAX_COLUMNS: usize = 192;
/// Most rows of a grid.
pub const MAX_ROWS: usize = 68;
/// Fewest columns and rows worth showing.
const MIN: usize = 20;
/// Most bytes that are believed: 7680 x 4320 pixels of 4 bytes are an eighth of it.
pub const MAX_BYTES: u64 = 1 << 30;

/// How text lies on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Letters in a row.
    pub columns: usize,
    /// Rows of letters.
    pub rows: usize,
    /// Pixels of a dot in both directions; 0 on a screen of characters.
    pub scale: usize,
}

/// Why a screen cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Neither pixels of red, green and blue nor characters: the loader's number for it.
    Format(u8),
    /// So many bits for a pixel, or colours that do not fit into them.
    Bits(u8),
    /// Too small for text: width and height.
    Size(u32, u32),
    /// The rows overlap, or do not begin on a pixel's boundary: bytes from one to the next.
    Pitch(u32),
    /// More than `MAX_BYTES`: bytes of all rows.
    Bytes(u64),
    /// No memory can be there: address.
    Address(u64),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Format(number) => {
                write!(f, "neither colours nor characters, format {number}")
            }
            Unusable::Bits(bits) => write!(
                f,
                "{bits} bits for a pixel, or colours beyond them; 16, 24 and 32 are known"
            ),
            Unusable::Size(width, height) => {
                write!(f, "{width} x {height} is too small for text")
            }
            Unusable::Pitch(pitch) => {
                write!(f, "{pitch} bytes from row to row cut pixels or rows")
            }
            Unusable::Bytes(bytes) => write!(f, "{bytes} bytes are more than any screen has"),
            Unusable::Address(address) => write!(f, "no memory can be at {address:#x}"),
        }
    }
}

impl Layout {
    /// The text on a screen of so many pixels: dots of a size with which no more letters are shown
    /// than a grid holds, and which can be read on screens with many pixels.
    pub fn of_pixels(width: usize, height: usize) -> Layout {
        let across = width.div_ceil(MAX_COLUMNS * LETTER_WIDTH);
        let down = height.div_ceil(MAX_ROWS * LETTER_HEIGHT);
        let scale = across.max(down).max(1);
        Layout {
            columns: width / (scale * LETTER_WIDTH),
            rows: height / (scale * LETTER_HEIGHT),
            scale,
        }
    }

    /// Checks a loader's words; `address_bits` is how wide the processor's physical addresses are.
    ///
    /// # Errors
    /// Why there can be no text on it.
    pub fn of(info: &ScreenInfo, address_bits: u32) -> Result<Layout, Unusable> {
        let (width, height) = (info.width as usize, info.height as usize);
        let layout = match info.format {
            ScreenFormat::Rgb { shift, bits } => {
                let fits = |(shift, bits): (&u8, &u8)| {
                    *bits <= 8 && u16::from(*shift) + u16::from(*bits) <= u16::from(info.bits)
                };
                if !matches!(info.bits, 16 | 24 | 32) || !shift.iter().zip(&bits).all(fits) {
                    return Err(Unusable::Bits(info.bits));
                }
                Layout::of_pixels(width, height)
            }
            ScreenFormat::Text if info.bits == 16 => Layout {
                columns: width.min(MAX_COLUMNS),
                rows: height.min(MAX_ROWS),
                scale: 0,
            },
            ScreenFormat::Text => return Err(Unusable::Bits(info.bits)),
            ScreenFormat::Other(number) => return Err(Unusable::Format(number)),
        };
        if layout.columns < MIN || layout.rows < MIN {
            return Err(Unusable::Size(info.width, info.height));
        }
        // Pixels of three bytes have no boundaries.
        let boundary = match info.bits {
            24 => 1,
            bits => u32::from(bits / 8),
        };
        let row = width * info.unit();
        if (info.pitch as usize) < row || !info.pitch.is_multiple_of(boundary) {
            return Err(Unusable::Pitch(info.pitch));
        }
        if info.bytes() > MAX_BYTES {
            return Err(Unusable::Bytes(info.bytes()));
        }
        let end = info.address.checked_add(info.bytes());
        let off_boundary = !info.address.is_multiple_of(boundary.into());
        if info.address == 0 || off_boundary || end.is_none_or(|end| end > 1 << address_bits) {
            return Err(Unusable::Address(info.address));
        }
        Ok(layout)
    }
}

/// Whether a dot of a letter (Latin-1) is lit; `x` and `y` from its upper left corner.
pub fn is_lit(letter: u8, x: usize, y: usize) -> bool {
    const LATIN: u8 = 0xA0;
    let shape = match letter {
        0..0x80 => BASIC_LEGACY.get(usize::from(letter)),
        LATIN.. => LATIN_LEGACY.get(usize::from(letter - LATIN)),
        _ => None,
    };
    shape
        .and_then(|rows| rows.get(y / 2))
        .is_some_and(|row| x < LETTER_WIDTH && row >> x & 1 == 1)
}

/// What one place of the grid shows.
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

/// Colour of text that asks for none.
const WHITE: u8 = 7;
/// Added for the bright ones.
const BRIGHT: u8 = 8;
/// Most numbers in an escape sequence that are kept.
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
    /// After `ESC [`: numbers so far, the last one still growing.
    Sequence {
        numbers: [u16; NUMBERS],
        count: usize,
    },
    /// Inside a character of several bytes: bits so far and bytes to come.
    Utf8 {
        bits: u32,
        left: u8,
    },
}

/// The cells of a screen, and the cursor.
pub struct Grid {
    columns: usize,
    rows: usize,
    wanted: [[Cell; MAX_COLUMNS]; MAX_ROWS],
    shown: [[Cell; MAX_COLUMNS]; MAX_ROWS],
    column: usize,
    row: usize,
    color: u8,
    state: State,
    /// Rows that may differ from what is shown: first, and behind the last.
    changed: (usize, usize),
}

impl Default for Grid {
    fn default() -> Self {
        Self::new()
    }
}

impl Grid {
    /// A grid without room, until `resize`.
    pub const fn new() -> Self {
        Grid {
            columns: 0,
            rows: 0,
            wanted: [[EMPTY; MAX_COLUMNS]; MAX_ROWS],
            shown: [[EMPTY; MAX_COLUMNS]; MAX_ROWS],
            column: 0,
            row: 0,
            color: WHITE,
            state: State::Ground,
            changed: (0, 0),
        }
    }

    /// Begins anew on a cleared screen of this layout.
    pub fn resize(&mut self, layout: Layout) {
        // In place: a grid is larger than the stack at boot.
        self.wanted.fill([EMPTY; MAX_COLUMNS]);
        self.shown.fill([EMPTY; MAX_COLUMNS]);
        (self.column, self.row) = (0, 0);
        (self.color, self.state) = (WHITE, State::Ground);
        self.changed = (0, 0);
        self.columns = layout.columns.min(MAX_COLUMNS);
        self.rows = layout.rows.min(MAX_ROWS);
    }

    /// Takes what a program or the kernel writes.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.columns == 0 || self.rows == 0 {
            return;
        }
        for byte in bytes {
            self.touch();
            self.byte(*byte);
        }
        self.touch();
    }

    /// Calls `put` with column, row and cell of everything that is not shown as it should be.
    pub fn paint(&mut self, mut put: impl FnMut(usize, usize, Cell)) {
        let cursor = self.cursor();
        for row in self.changed.0..self.changed.1 {
            for column in 0..self.columns {
                let mut cell = self.wanted[row][column];
                cell.reversed = cursor == (column, row);
                if cell.reversed && cell.color == 0 {
                    cell.color = WHITE;
                }
                if self.shown[row][column] != cell {
                    self.shown[row][column] = cell;
                    put(column, row, cell);
                }
            }
        }
        self.changed = (0, 0);
    }

    /// Where the cursor is shown; after the last column it stands on it.
    fn cursor(&self) -> (usize, usize) {
        (self.column.min(self.columns.saturating_sub(1)), self.row)
    }

    /// The cursor's row may have changed.
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
            // Not the rest of a character: a beginning of its own.
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
            self.wanted.copy_within(1..self.rows, 0);
            self.wanted[self.row] = [EMPTY; MAX_COLUMNS];
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
                self.wanted[first..end].fill([EMPTY; MAX_COLUMNS]);
                self.touch_rows(0, self.rows);
            }
            b'K' => self.clear_row(number(0), column, row),
            b'm' => numbers.iter().for_each(|number| self.attribute(*number)),
            _ => {}
        }
    }

    /// Clears a row from a column (0), up to it (1), or all (2).
    fn clear_row(&mut self, which: usize, column: usize, row: usize) {
        let cells = &mut self.wanted[row][..self.columns];
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
            // Black on black would be no text at all.
            30 => BRIGHT,
            31..=37 => low | self.color & BRIGHT,
            90..=97 => low | BRIGHT,
            _ => self.color,
        };
    }
}

#[cfg(test)]
mod tests;
