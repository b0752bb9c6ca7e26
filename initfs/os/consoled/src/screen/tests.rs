//! Tests that the painted cells match the screen.

use super::*;
use alloc::format;
use alloc::string::String;

const COLUMNS: usize = 20;
const ROWS: usize = 4;

/// A screen, and the cells that it has painted.
struct Picture {
    screen: Screen,
    cells: Vec<Vec<Cell>>,
    painted: usize,
}

impl Picture {
    fn new() -> Self {
        let mut screen = Screen::new(COLUMNS, ROWS);
        let mut painted = 0;
        // At first all cells are painted, since none is known.
        screen.paint(|_, _, _| painted += 1);
        assert_eq!(painted, COLUMNS * ROWS);
        Picture {
            screen,
            cells: vec![vec![EMPTY; COLUMNS]; ROWS],
            painted: 0,
        }
    }

    fn write(&mut self, text: &str) -> &mut Self {
        self.screen.write(text.as_bytes());
        self.painted = 0;
        self.screen.paint(|column, row, cell| {
            self.cells[row][column] = cell;
            self.painted += 1;
        });
        self
    }

    fn text(&self) -> Vec<String> {
        let letter = |cell: &Cell| match cell.letter {
            0 => ' ',
            letter => char::from(letter),
        };
        let row = |row: &Vec<Cell>| row.iter().map(letter).collect::<String>();
        self.cells
            .iter()
            .map(|cells| row(cells).trim_end().into())
            .collect()
    }

    fn cursor(&self) -> (usize, usize) {
        let places = (0..ROWS).flat_map(|y| (0..COLUMNS).map(move |x| (x, y)));
        let places: Vec<_> = places
            .filter(|(x, y)| self.cells[*y][*x].reversed)
            .collect();
        assert_eq!(places.len(), 1, "one cursor: {places:?}");
        places[0]
    }
}

#[test]
fn lines_scroll_and_wrap() {
    let mut picture = Picture::new();
    picture.write("one\ntwo\r\nthree\n");
    assert_eq!(picture.text(), ["one", "two", "three", ""]);
    assert_eq!(picture.cursor(), (0, 3));
    picture.write("four\nfive");
    assert_eq!(picture.text(), ["two", "three", "four", "five"]);
    picture.write("\n0123456789012345678X");
    // The cursor waits on the last column, so a line that is exactly full takes one row.
    assert_eq!(picture.text()[3], "0123456789012345678X");
    assert_eq!(picture.cursor(), (19, 3));
    picture.write("\nnext");
    assert_eq!(picture.text()[2..], ["0123456789012345678X", "next"]);
    picture.write("\n0123456789012345678Xyz");
    assert_eq!(picture.text()[2..], ["0123456789012345678X", "yz"]);
}

#[test]
fn only_what_changed_is_painted() {
    let mut picture = Picture::new();
    assert_eq!(picture.write("ab").painted, 3, "two letters and the cursor");
    assert_eq!(picture.write("").painted, 0);
    assert_eq!(picture.write("\rab").painted, 0);
    assert_eq!(picture.write("\rac").painted, 1);
    // Scrolling equal rows paints only the cells where the cursor was and is.
    picture.write("\x1b[H\x1b[2Jx\nx\nx\nx");
    assert_eq!(picture.write("\n").painted, 2);
}

#[test]
fn escape_sequences() {
    let mut picture = Picture::new();
    picture.write("abc\ndef\x1b[H\x1b[2J> ");
    assert_eq!(picture.text(), [">", "", "", ""]);
    picture.write("hello\x08\x08\x1b[K");
    assert_eq!(picture.text()[0], "> hel");
    picture.write("\x1b[2;3HX\x1b[AY\x1b[3DZ\x1b[BW");
    assert_eq!(picture.text(), [">ZhYl", "  W", "", ""]);
    picture.write("\x1b[H\x1b[2J\x1b[1;31mr\x1b[0mn\x1b[30mb\x1b[92mg\x1b[38;5;9m");
    let colors: Vec<_> = picture.cells[0][..4]
        .iter()
        .map(|cell| cell.color)
        .collect();
    assert_eq!(colors, [9, 7, 8, 10]);
    // Beyond all edges, and with too many numbers.
    picture.write("\x1b[999;999H\x1b[99C\x1b[99B.\x1b[1;2;3;4;5;6;7H\x1b[99999999D\x1b[9A,");
    assert_eq!(picture.text()[3], format!("{:19}.", ""));
    assert_eq!(&picture.text()[0][..1], ",");
    picture.write("\x1b[2J\x1b[2;5Habc\x1b[2D\x1b[1J");
    assert_eq!(picture.text()[1], format!("{:6}c", ""));
    picture.write("\x1b[?25h\x1b]x\x1b(");
}

#[test]
fn characters_of_several_bytes() {
    let mut picture = Picture::new();
    picture.write("µm é ✓ 🦀.");
    assert_eq!(picture.text()[0], "µm é ? ?.");
    picture.screen.write(b"\n\xC3x\x80\xFF");
    picture.write("");
    assert_eq!(picture.text()[1], "?x??");
}

#[test]
fn any_bytes_keep_the_cursor_inside() {
    let mut picture = Picture::new();
    let mut seed = 1u32;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let usual = b"\x1b\x1b[[;HJKmABCDG0129\n\r\t\x08ab";
        let byte = match seed >> 30 {
            0 => (seed >> 8) as u8,
            _ => usual[(seed >> 8) as usize % usual.len()],
        };
        picture.screen.write(&[byte]);
        picture.write("");
        picture.cursor();
    }
    // The painted cells are the screen's cells.
    for (row, cells) in picture.cells.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            assert_eq!(cell.letter, picture.screen.wanted[row][column].letter);
        }
    }
}

#[test]
fn cells_are_records_of_eight_bytes() {
    let cell = Cell {
        letter: b'R',
        color: 9,
        reversed: true,
    };
    assert_eq!(cell.encode(259, 2), [3, 1, 2, 0, b'R', 9, 1, 0]);
}
