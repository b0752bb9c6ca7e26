//! Reads the text off a picture of a guest's screen: the letters are the kernel's own, so each
//! place shows exactly one of them, or something else.

use kernel_core::screen::{LETTER_HEIGHT, LETTER_WIDTH, Layout, is_lit};
use std::collections::HashMap;

/// Stands for what is no letter.
pub const UNKNOWN: char = '\u{fffd}';

/// The text of a screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    /// Its rows, without spaces at their ends.
    pub rows: Vec<String>,
    /// The row with the cursor, if there is one: those above it are complete.
    pub cursor: Option<usize>,
}

/// The dots of a place, row by row.
type Dots = [u8; LETTER_HEIGHT];

fn dots(mut lit: impl FnMut(usize, usize) -> bool) -> Dots {
    std::array::from_fn(|y| (0..LETTER_WIDTH).fold(0, |row, x| row | u8::from(lit(x, y)) << x))
}

/// Reads a picture in the format PPM (P6) with 255 steps of each colour.
pub fn read(ppm: &[u8]) -> Result<Text, String> {
    let (width, height, pixels) = parse(ppm)?;
    let layout = Layout::of_pixels(width, height);
    let letters: HashMap<Dots, char> = (0x20..0x7F_u8)
        .map(|letter| (dots(|x, y| is_lit(letter, x, y)), char::from(letter)))
        .collect();
    let mut text = Text::default();
    for row in 0..layout.rows {
        let mut line = String::new();
        for column in 0..layout.columns {
            let place = dots(|x, y| {
                let x = (column * LETTER_WIDTH + x) * layout.scale;
                let y = (row * LETTER_HEIGHT + y) * layout.scale;
                let at = (y * width + x) * 3;
                pixels[at..at + 3] != [0; 3]
            });
            let inverse = place.map(|row| !row);
            line.push(match (letters.get(&place), letters.get(&inverse)) {
                (Some(letter), _) => *letter,
                (None, Some(letter)) => {
                    text.cursor = Some(row);
                    *letter
                }
                (None, None) => UNKNOWN,
            });
        }
        text.rows.push(line.trim_end().to_string());
    }
    Ok(text)
}

/// Width, height and pixels of a picture.
fn parse(ppm: &[u8]) -> Result<(usize, usize, &[u8]), String> {
    let bad = || "QEMU's picture of the screen is no PPM file".to_string();
    let mut rest = ppm;
    let mut word = || {
        let start = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let end = start + rest[start..].iter().position(u8::is_ascii_whitespace)?;
        let word = std::str::from_utf8(&rest[start..end]).ok()?;
        // One byte of white space belongs to the word.
        rest = &rest[end + 1..];
        Some(word)
    };
    let kind = word().ok_or_else(bad)?;
    let mut number = || word()?.parse::<usize>().ok();
    let (width, height, steps) = (number(), number(), number());
    let (Some(width), Some(height), "P6", Some(255)) = (width, height, kind, steps) else {
        return Err(bad());
    };
    let bytes = width.checked_mul(height).and_then(|n| n.checked_mul(3));
    match bytes {
        Some(bytes) if bytes == rest.len() && bytes > 0 => Ok((width, height, rest)),
        _ => Err(format!(
            "QEMU's picture of {width} x {height} has {} bytes",
            rest.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_core::screen::Grid;

    /// Draws text as the kernel does.
    fn draw(width: usize, height: usize, text: &str) -> Vec<u8> {
        let layout = Layout::of_pixels(width, height);
        let mut grid = Grid::new();
        grid.resize(layout);
        grid.write(text.as_bytes());
        let mut pixels = vec![0; width * height * 3];
        grid.paint(|column, row, cell| {
            let size = (LETTER_WIDTH * layout.scale, LETTER_HEIGHT * layout.scale);
            for y in 0..size.1 {
                for x in 0..size.0 {
                    let lit = is_lit(cell.letter, x / layout.scale, y / layout.scale);
                    let at = ((row * size.1 + y) * width + column * size.0 + x) * 3;
                    pixels[at] = if lit != cell.reversed { 0xCC } else { 0 };
                }
            }
        });
        let mut picture = format!("P6\n{width} {height}\n255\n").into_bytes();
        picture.extend(pixels);
        picture
    }

    #[test]
    fn what_was_drawn_is_read() {
        let printable: String = (0x20..0x7F_u8).map(char::from).collect();
        for (width, height) in [(1024, 768), (800, 600), (1920, 1080)] {
            let text = read(&draw(
                width,
                height,
                &format!("one {{x}}\n{printable}\nlast"),
            ))
            .unwrap();
            assert_eq!(text.rows[0], "one {x}");
            let columns = Layout::of_pixels(width, height).columns;
            assert_eq!(text.rows[1], printable[..columns.min(95)].trim_end());
            assert_eq!(text.cursor, Some(if columns < 95 { 3 } else { 2 }));
        }
    }

    #[test]
    fn other_pictures_are_not_letters() {
        let mut picture = draw(640, 480, "a");
        let start = picture.len() - 640 * 480 * 3;
        picture[start + 9] = 1;
        let text = read(&picture).unwrap();
        assert_eq!(text.rows[0].chars().next(), Some(UNKNOWN));
        for bad in [&b"P5\n1 1\n255\n..."[..], b"P6\n2 1\n255\n...", b"P6", b""] {
            assert!(read(bad).is_err());
        }
    }
}
