//! Draws cells in the screen's memory: the pixels of a letter, or a character of a VGA text mode.

use super::{Cell, LETTER_HEIGHT, LETTER_WIDTH, Layout, is_lit};
use crate::bootinfo::{ScreenFormat, ScreenInfo};

/// Red, green and blue of the colours of terminals.
const PALETTE: [[u8; 3]; 16] = [
    [0x00, 0x00, 0x00],
    [0xCC, 0x33, 0x33],
    [0x33, 0xAA, 0x33],
    [0xBB, 0x88, 0x22],
    [0x44, 0x66, 0xCC],
    [0xAA, 0x44, 0xAA],
    [0x33, 0xAA, 0xAA],
    [0xCC, 0xCC, 0xCC],
    [0x77, 0x77, 0x77],
    [0xFF, 0x66, 0x66],
    [0x66, 0xFF, 0x66],
    [0xFF, 0xEE, 0x66],
    [0x77, 0x99, 0xFF],
    [0xFF, 0x77, 0xFF],
    [0x66, 0xFF, 0xFF],
    [0xFF, 0xFF, 0xFF],
];
const BLACK: u8 = 0;
/// VGA's attributes have red and blue exchanged.
const VGA_COLORS: [u8; 8] = [0, 4, 2, 6, 1, 5, 3, 7];
/// The bit of a VGA attribute that makes letters bright.
const VGA_BRIGHT: u8 = 8;

/// Calls `store` with offset and value of every pixel, or of the character, that shows a cell; the
/// value's low `info.unit()` bytes belong there. No effect outside the layout, which must be what
/// `Layout::of` returns for `info`: then all offsets lie in the screen's memory, on boundaries of
/// the unit.
pub fn draw(
    info: &ScreenInfo,
    layout: &Layout,
    column: usize,
    row: usize,
    cell: Cell,
    mut store: impl FnMut(usize, u32),
) {
    if column >= layout.columns || row >= layout.rows {
        return;
    }
    let pitch = info.pitch as usize;
    if info.format == ScreenFormat::Text {
        return store(row * pitch + column * info.unit(), character(cell));
    }
    let mut colors = [color(info, BLACK), color(info, cell.color)];
    if cell.reversed {
        colors.reverse();
    }
    let scale = layout.scale;
    let left = column * LETTER_WIDTH * scale * info.unit();
    for line in 0..LETTER_HEIGHT * scale {
        let mut at = (row * LETTER_HEIGHT * scale + line) * pitch + left;
        for dot in 0..LETTER_WIDTH {
            let lit = is_lit(cell.letter, dot, line / scale);
            for _ in 0..scale {
                store(at, colors[usize::from(lit)]);
                at += info.unit();
            }
        }
    }
}

/// The value of a pixel, or of a character, that shows nothing.
pub fn empty(info: &ScreenInfo) -> u32 {
    match info.format {
        ScreenFormat::Text => u32::from(b' ') | 7 << 8,
        _ => color(info, BLACK),
    }
}

fn character(cell: Cell) -> u32 {
    let letter = match cell.letter {
        0 => b' ',
        letter @ 0x20..0x7F => letter,
        _ => b'?',
    };
    let color = VGA_COLORS[usize::from(cell.color & 7)];
    // A bright background would blink.
    let color = match cell.reversed {
        true => color << 4,
        false => color | cell.color & VGA_BRIGHT,
    };
    u32::from(letter) | u32::from(color) << 8
}

fn color(info: &ScreenInfo, index: u8) -> u32 {
    let ScreenFormat::Rgb { shift, bits } = info.format else {
        return 0;
    };
    let color = PALETTE[usize::from(index) % PALETTE.len()];
    let parts = color.iter().zip(shift.iter().zip(bits));
    parts.fold(0, |pixel, (part, (shift, bits))| {
        pixel | (u32::from(*part) >> (8 - bits)) << shift
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn screen(width: u32, bits: u8, shift: [u8; 3], parts: [u8; 3]) -> ScreenInfo {
        ScreenInfo {
            address: 0x8000_0000,
            // Rows with something behind them, as hardware has it.
            pitch: width * u32::from(bits / 8) + 64,
            width,
            height: width / 2,
            bits,
            format: ScreenFormat::Rgb { shift, bits: parts },
        }
    }

    /// The stored values by offset; each place once.
    fn stored(info: &ScreenInfo, at: (usize, usize), cell: Cell) -> BTreeMap<usize, u32> {
        let layout = Layout::of(info, 46).unwrap();
        let mut map = BTreeMap::new();
        draw(info, &layout, at.0, at.1, cell, |offset, value| {
            assert_eq!(map.insert(offset, value), None, "stored twice");
        });
        map
    }

    #[test]
    fn letters_have_their_place_and_colours_on_every_kind_of_pixels() {
        // Bright red, as the palette has it, in each format; black is 0 everywhere.
        for (info, red) in [
            (screen(800, 32, [16, 8, 0], [8; 3]), 0xFF_6666),
            (screen(800, 32, [0, 8, 16], [8; 3]), 0x66_66FF),
            (screen(800, 32, [24, 16, 8], [8; 3]), 0xFF66_6600),
            (screen(800, 24, [16, 8, 0], [8; 3]), 0xFF_6666),
            (
                screen(800, 16, [11, 5, 0], [5, 6, 5]),
                (31 << 11) | (25 << 5) | 12,
            ),
            (
                screen(800, 16, [10, 5, 0], [5; 3]),
                (31 << 10) | (12 << 5) | 12,
            ),
            (screen(1920, 32, [16, 8, 0], [8; 3]), 0xFF_6666),
            (screen(3840, 24, [16, 8, 0], [8; 3]), 0xFF_6666),
            (
                screen(3840, 16, [11, 5, 0], [5, 6, 5]),
                (31 << 11) | (25 << 5) | 12,
            ),
        ] {
            let layout = Layout::of(&info, 46).unwrap();
            let scale = layout.scale;
            let (width, height) = (LETTER_WIDTH * scale, LETTER_HEIGHT * scale);
            for (at, reversed) in [
                ((3, 2), false),
                ((layout.columns - 1, layout.rows - 1), true),
            ] {
                let cell = Cell {
                    letter: b'R',
                    color: 9,
                    reversed,
                };
                let found = stored(&info, at, cell);
                assert_eq!(found.len(), width * height);
                for y in 0..height {
                    for x in 0..width {
                        let place = (at.1 * height + y) * info.pitch as usize
                            + (at.0 * width + x) * info.unit();
                        let lit = is_lit(b'R', x / scale, y / scale) != reversed;
                        let expected = if lit { red } else { 0 };
                        assert_eq!(found[&place], expected, "{x} {y} of {info:?}");
                    }
                }
                let (last, _) = found.last_key_value().unwrap();
                assert!((last + info.unit()) as u64 <= info.bytes());
            }
            let cell = Cell {
                letter: b'R',
                color: 9,
                reversed: false,
            };
            assert!(stored(&info, (layout.columns, 0), cell).is_empty());
            assert!(stored(&info, (0, layout.rows), cell).is_empty());
        }
        assert_eq!(Layout::of_pixels(1920, 960).scale, 2);
        assert_eq!(Layout::of_pixels(3840, 1920).scale, 3);
    }

    #[test]
    fn characters_never_blink() {
        let info = ScreenInfo {
            address: 0xB8000,
            pitch: 160,
            width: 80,
            height: 25,
            bits: 16,
            format: ScreenFormat::Text,
        };
        for (letter, color, reversed, value) in [
            (b'R', 7, false, 0x0752),
            (b'R', 9, false, 0x0C52),
            (b'R', 12, false, 0x0952),
            (b'R', 9, true, 0x4052),
            (0, 7, true, 0x7020),
            (0xE9, 7, false, 0x073F),
        ] {
            let cell = Cell {
                letter,
                color,
                reversed,
            };
            let found = stored(&info, (79, 24), cell);
            assert_eq!(found, BTreeMap::from([(24 * 160 + 158, value)]));
        }
        assert_eq!(empty(&info), 0x0720);
    }
}
