//! Text on a screen: the check of the loader's description, the letters, and a grid of plain text.
//!
//! The grid accesses no memory: `Grid::paint` lists the cells that have changed, `draw` says which
//! value belongs where, and the kernel stores it (`arch::framebuffer`). `consoled` handles control
//! sequences and sends cells. The launcher reads pictures of a guest's screen with the same
//! letters.

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
/// Fewest columns and rows that are worth showing.
const MIN: usize = 20;
/// Most bytes that are accepted: 7680 x 4320 pixels of 4 bytes are an eighth of it.
pub const MAX_BYTES: u64 = 1 << 30;

/// The layout of text on a screen.
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
    /// Neither pixels of red, green and blue nor characters: the loader's number of the format.
    Format(u8),
    /// Bits of a pixel that are not supported, or into which the colours do not fit.
    Bits(u8),
    /// Too small for text: width and height.
    Size(u32, u32),
    /// The rows overlap, or do not begin on a pixel's boundary: bytes from one to the next.
    Pitch(u32),
    /// More than `MAX_BYTES`: bytes of all rows.
    Bytes(u64),
    /// An address where no memory can be.
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
    /// The layout of a screen of this many pixels. Its dots are so large that no more letters are
    /// shown than a grid holds, and that text can be read on screens with many pixels.
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

    /// Checks a loader's description; `address_bits` is the width of the processor's physical
    /// addresses.
    ///
    /// # Errors
    /// The reason why there can be no text on the screen.
    pub fn of(info: &ScreenInfo, address_bits: u32) -> Result<Layout, Unusable> {
        let (width, height) = (info.width as usize, info.height as usize);
        let layout = match info.format {
            ScreenFormat::Rgb { shift, bits } => {
                // A colour without bits has a place, too: it is drawn like the others.
                let fits = |(shift, bits): (&u8, &u8)| {
                    let end = u16::from(*shift) + u16::from(*bits);
                    *bits <= 8 && *shift < info.bits && end <= u16::from(info.bits)
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

/// Whether a dot of a letter (Latin-1) is lit; `x` and `y` count from its upper left corner.
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

/// The content of one place of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The letter (Latin-1); 0 shows nothing, like a space.
    pub letter: u8,
    /// Its colour, in the order of terminals: black, red, green, yellow, blue, magenta, cyan,
    /// white, and the same bright.
    pub color: u8,
    /// Whether letter and background change places, as for a cursor.
    pub reversed: bool,
}

/// Bytes of a cell from a terminal: column and row (16 bits each, little endian), letter, colour,
/// 1 for a reversed one, 0.
pub const CELL_SIZE: usize = 8;

impl Cell {
    fn of_text(letter: u8, reversed: bool) -> Cell {
        Cell {
            letter,
            color: WHITE,
            reversed,
        }
    }

    /// Decodes column, row and cell from a terminal's bytes.
    pub fn decode(bytes: [u8; CELL_SIZE]) -> (usize, usize, Cell) {
        let [c0, c1, r0, r1, letter, color, reversed, _] = bytes;
        let place = |low, high| usize::from(u16::from_le_bytes([low, high]));
        let cell = Cell {
            letter,
            color,
            reversed: reversed != 0,
        };
        (place(c0, c1), place(r0, r1), cell)
    }
}

/// Colour of plain text.
const WHITE: u8 = 7;

/// A cell that shows nothing.
const EMPTY: u8 = 0;

/// The letters of plain text on a screen, without colours and control sequences. The kernel shows
/// them until a terminal takes the screen over.
pub struct Grid {
    columns: usize,
    rows: usize,
    wanted: [[u8; MAX_COLUMNS]; MAX_ROWS],
    shown: [[u8; MAX_COLUMNS]; MAX_ROWS],
    column: usize,
    row: usize,
    /// Column and row of the visible cursor.
    shown_cursor: Option<(usize, usize)>,
    /// Rows that may differ from the screen: the first, and the one behind the last.
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
            shown_cursor: None,
            changed: (0, 0),
        }
    }

    /// Starts again on a cleared screen of this layout.
    pub fn resize(&mut self, layout: Layout) {
        // In place: a grid is larger than the stack at boot.
        self.wanted.fill([EMPTY; MAX_COLUMNS]);
        self.shown.fill([EMPTY; MAX_COLUMNS]);
        (self.column, self.row) = (0, 0);
        self.shown_cursor = None;
        self.changed = (0, 0);
        self.columns = layout.columns.min(MAX_COLUMNS);
        self.rows = layout.rows.min(MAX_ROWS);
    }

    /// Takes text. Line feeds begin a new line. Control characters other than carriage returns,
    /// backspaces and tabs show nothing; characters of several bytes show a question mark.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.columns == 0 || self.rows == 0 {
            return;
        }
        for byte in bytes {
            self.byte(*byte);
        }
    }

    /// Calls `put` with column, row and cell of everything that differs from the screen.
    pub fn paint(&mut self, mut put: impl FnMut(usize, usize, Cell)) {
        let (cursor, shown_cursor) = (self.cursor(), self.shown_cursor);
        if cursor != shown_cursor {
            for (_, row) in cursor.into_iter().chain(shown_cursor) {
                self.touch_rows(row, row + 1);
            }
        }
        for row in self.changed.0..self.changed.1 {
            for column in 0..self.columns {
                let here = Some((column, row));
                let wanted = (self.wanted[row][column], cursor == here);
                if wanted != (self.shown[row][column], shown_cursor == here) {
                    self.shown[row][column] = wanted.0;
                    put(column, row, Cell::of_text(wanted.0, wanted.1));
                }
            }
        }
        self.shown_cursor = cursor;
        self.changed = (0, 0);
    }

    /// Calls `put` for all cells, because others have drawn on the screen.
    pub fn paint_all(&mut self, mut put: impl FnMut(usize, usize, Cell)) {
        let cursor = self.cursor();
        for row in 0..self.rows {
            for column in 0..self.columns {
                let letter = self.wanted[row][column];
                self.shown[row][column] = letter;
                put(
                    column,
                    row,
                    Cell::of_text(letter, cursor == Some((column, row))),
                );
            }
        }
        self.shown_cursor = cursor;
        self.changed = (0, 0);
    }

    /// The place of the cursor; after the last column it is on the last column.
    fn cursor(&self) -> Option<(usize, usize)> {
        let last = self.columns.checked_sub(1)?;
        Some((self.column.min(last), self.row))
    }

    fn touch_rows(&mut self, first: usize, end: usize) {
        self.changed = match self.changed {
            (from, to) if from == to => (first, end),
            (from, to) => (from.min(first), to.max(end)),
        };
    }

    fn byte(&mut self, byte: u8) {
        match byte {
            b'\r' => self.column = 0,
            // The kernel's own lines have no carriage return.
            b'\n' => self.new_line(),
            // After the last column the next letter's place is still the last column's.
            0x08 => self.column = self.column.min(self.columns - 1).saturating_sub(1),
            b'\t' => self.column = (self.column / 8 * 8 + 8).min(self.columns - 1),
            0x20..=0x7E => self.letter(byte),
            // The rest of a character.
            0x80..0xC0 => {}
            0xC0.. => self.letter(b'?'),
            _ => {}
        }
    }

    fn letter(&mut self, letter: u8) {
        if self.column >= self.columns {
            self.new_line();
        }
        self.wanted[self.row][self.column] = letter;
        self.touch_rows(self.row, self.row + 1);
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
    }
}

#[cfg(test)]
mod tests;
