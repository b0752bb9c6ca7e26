//! Tests that the painted cells are those of the grid, the layouts of good and bad screens, and
//! the letters.

use super::*;
use std::string::String;
use std::vec::Vec;

const SMALL: Layout = Layout {
    columns: 20,
    rows: 4,
    scale: 1,
};

/// A grid and what it painted.
struct Picture {
    grid: Grid,
    cells: Vec<Vec<Cell>>,
    painted: usize,
}

impl Picture {
    fn new() -> Self {
        let mut grid = Grid::new();
        grid.resize(SMALL);
        Picture {
            grid,
            cells: vec![vec![Cell::of_text(EMPTY, false); SMALL.columns]; SMALL.rows],
            painted: 0,
        }
    }

    fn write(&mut self, text: &str) -> &mut Self {
        self.grid.write(text.as_bytes());
        self.painted = 0;
        self.grid.paint(|column, row, cell| {
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
        let places = (0..SMALL.rows).flat_map(|y| (0..SMALL.columns).map(move |x| (x, y)));
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
    // The cursor waits on the last column: a line that is exactly full takes one row.
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
    // The cursor's old place and its new one.
    assert_eq!(picture.write("\x08").painted, 2);
    assert_eq!(picture.write("c").painted, 2);
    // Scrolling equal rows paints nothing but the cursor's way.
    let mut picture = Picture::new();
    picture.write("x\nx\nx\nx");
    assert_eq!(picture.write("\n").painted, 2);
}

#[test]
fn a_screen_that_others_drew_on_is_painted_anew() {
    let mut picture = Picture::new();
    picture.write("one\ntwo");
    let known = picture.cells.clone();
    picture.cells = vec![vec![Cell::of_text(b'#', false); SMALL.columns]; SMALL.rows];
    picture
        .grid
        .paint_all(|column, row, cell| picture.cells[row][column] = cell);
    assert_eq!(picture.text(), ["one", "two", "", ""]);
    assert_eq!(picture.cursor(), (3, 1));
    let letters =
        |cells: &[Vec<Cell>]| -> Vec<u8> { cells.iter().flatten().map(|c| c.letter).collect() };
    assert_eq!(letters(&picture.cells), letters(&known));
}

#[test]
fn text_is_plain() {
    let mut picture = Picture::new();
    picture.write("µm é ✓ 🦀.\x07\x1b");
    assert_eq!(picture.text()[0], "?m ? ? ?.");
    picture.write("\nab\tc\x08d");
    assert_eq!(picture.text()[1], "ab      d");
}

#[test]
fn any_bytes_keep_the_cursor_inside() {
    let mut picture = Picture::new();
    let mut seed = 1u32;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let usual = b"\n\r\t\x08\x08abcdefgh";
        let byte = match seed >> 30 {
            0 => (seed >> 8) as u8,
            _ => usual[(seed >> 8) as usize % usual.len()],
        };
        picture.grid.write(&[byte]);
        picture.write("");
        picture.cursor();
    }
    // The painted letters are those of `Grid::wanted`.
    for (row, cells) in picture.cells.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            assert_eq!(cell.letter, picture.grid.wanted[row][column]);
        }
    }
}

#[test]
fn cells_of_terminals_are_decoded() {
    let cell = Cell {
        letter: b'R',
        color: 9,
        reversed: true,
    };
    assert_eq!(Cell::decode([3, 1, 2, 0, b'R', 9, 1, 0]), (259, 2, cell));
}

fn pixels(width: u32, height: u32) -> ScreenInfo {
    ScreenInfo {
        address: 0x8000_0000,
        pitch: width * 4,
        width,
        height,
        bits: 32,
        format: ScreenFormat::Rgb {
            shift: [16, 8, 0],
            bits: [8; 3],
        },
    }
}

#[test]
fn layouts_of_usual_screens() {
    for ((width, height), (columns, rows, scale)) in [
        ((640, 480), (80, 30, 1)),
        ((800, 600), (100, 37, 1)),
        ((1024, 768), (128, 48, 1)),
        ((1280, 1024), (160, 64, 1)),
        ((1366, 768), (170, 48, 1)),
        ((1920, 1080), (120, 33, 2)),
        ((3840, 2160), (160, 45, 3)),
        ((1080, 1920), (67, 60, 2)),
    ] {
        let layout = Layout::of(&pixels(width, height), 46).unwrap();
        let expected = Layout {
            columns,
            rows,
            scale,
        };
        assert_eq!(layout, expected, "{width} x {height}");
    }
    let text = ScreenInfo {
        address: 0xB8000,
        pitch: 160,
        bits: 16,
        format: ScreenFormat::Text,
        ..pixels(80, 25)
    };
    let layout = Layout::of(&text, 46).unwrap();
    assert_eq!((layout.columns, layout.rows, layout.scale), (80, 25, 0));
}

#[test]
fn bad_screens_are_named() {
    let good = pixels(1024, 768);
    let rgb = |shift, bits| ScreenFormat::Rgb { shift, bits };
    for (bad, why) in [
        (
            ScreenInfo {
                format: ScreenFormat::Other(0),
                ..good
            },
            Unusable::Format(0),
        ),
        (ScreenInfo { bits: 8, ..good }, Unusable::Bits(8)),
        (
            ScreenInfo {
                format: rgb([25, 8, 0], [8; 3]),
                ..good
            },
            Unusable::Bits(32),
        ),
        (
            ScreenInfo {
                format: rgb([0; 3], [8, 9, 8]),
                ..good
            },
            Unusable::Bits(32),
        ),
        (
            ScreenInfo {
                format: rgb([32, 8, 0], [0, 8, 8]),
                ..good
            },
            Unusable::Bits(32),
        ),
        (pixels(100, 768), Unusable::Size(100, 768)),
        (pixels(1024, 0), Unusable::Size(1024, 0)),
        (
            ScreenInfo {
                pitch: 4095,
                ..good
            },
            Unusable::Pitch(4095),
        ),
        (
            ScreenInfo {
                pitch: 4098,
                ..good
            },
            Unusable::Pitch(4098),
        ),
        (
            ScreenInfo {
                pitch: 2 << 20,
                ..good
            },
            Unusable::Bytes((2 << 20) * 768),
        ),
        (ScreenInfo { address: 0, ..good }, Unusable::Address(0)),
        (ScreenInfo { address: 6, ..good }, Unusable::Address(6)),
        (
            ScreenInfo {
                address: u64::MAX - 1,
                ..good
            },
            Unusable::Address(u64::MAX - 1),
        ),
    ] {
        assert_eq!(Layout::of(&bad, 46), Err(why));
        // The kernel's line about it, with the numbers, is cut off beyond 256 bytes.
        let words = std::format!("{why}");
        assert!(words.len() < 80, "{words}");
    }
    assert_eq!(
        std::format!("{}", Unusable::Address(0xF000_0000)),
        "no memory can be at 0xf0000000"
    );
    // The processor's own limit.
    let high = ScreenInfo {
        address: (1 << 36) - good.bytes(),
        ..good
    };
    assert!(Layout::of(&high, 36).is_ok());
    assert_eq!(Layout::of(&high, 35), Err(Unusable::Address(high.address)));
}

#[test]
fn letters_are_upright_and_all_different() {
    let rows = |letter: u8| -> Vec<String> {
        let dot = |x, y| if is_lit(letter, x, y) { '#' } else { '.' };
        (0..LETTER_HEIGHT)
            .step_by(2)
            .map(|y| (0..LETTER_WIDTH).map(|x| dot(x, y)).collect())
            .collect()
    };
    assert_eq!(
        rows(b'L'),
        [
            "####....", ".##.....", ".##.....", ".##.....", ".##...#.", ".##..##.", "#######.",
            "........"
        ]
    );
    let printable: Vec<_> = (0x21..0x7F).map(rows).collect();
    for (i, shape) in printable.iter().enumerate() {
        assert!(!printable[..i].contains(shape), "letter {i}");
        assert_ne!(*shape, rows(b' '));
    }
    assert!((0..=255).all(|letter| !is_lit(letter, LETTER_WIDTH, 0)));
}
