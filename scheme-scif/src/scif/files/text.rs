//! Tables as text: a first line with the names of the columns, then one line per object. Columns
//! are separated by blanks and aligned for reading. Most text files are such tables.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Display, Write};

/// A table under construction.
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table with its column names. Names and cells must have no blanks, so that the text can be
    /// split again.
    pub fn new(names: [&str; COLUMNS]) -> Self {
        Self {
            rows: alloc::vec![names.map(String::from)],
        }
    }

    /// Appends a line.
    pub fn row(&mut self, cells: [&dyn Display; COLUMNS]) {
        self.rows.push(cells.map(|cell| {
            let mut text = String::new();
            // Writing to a string cannot fail, except through a `Display` that does.
            let _ = write!(text, "{cell}");
            if text.is_empty() {
                String::from("-")
            } else {
                text
            }
        }));
    }

    /// The text: every column as wide as its widest cell, no blanks at line ends.
    pub fn finish(self) -> String {
        let mut widths = [0; COLUMNS];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.len().max(*width);
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let start = text.len();
            for (width, cell) in widths.iter().zip(row) {
                let _ = write!(text, "{cell:width$}  ");
            }
            let length = text[start..].trim_end().len();
            text.truncate(start + length);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_splittable() {
        let mut table = Table::new(["node", "role", "self"]);
        table.row([&0, &"host", &"*"]);
        table.row([&1000, &"card", &""]);
        let text = table.finish();
        assert_eq!(text, "node  role  self\n0     host  *\n1000  card  -\n");
        assert!(
            text.lines()
                .all(|line| line.split_whitespace().count() == 3)
        );
    }

    #[test]
    fn an_empty_table_is_its_first_line() {
        assert_eq!(Table::new(["a", "b"]).finish(), "a  b\n");
    }
}
