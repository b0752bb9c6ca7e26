//! Tables as the daemons write them: the first line names the columns, each further line is an
//! object, and blanks separate the columns.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A table. Every row has as many cells as there are columns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    cells: &'a [String],
}

impl<'a> Row<'a> {
    /// The cell in the column with this name.
    pub fn cell(&self, name: &str) -> Option<&'a str> {
        let column = self.table.column(name)?;
        self.cells.get(column).map(String::as_str)
    }
}

impl Table {
    /// Parses a table. A line with fewer words than columns is filled up, one with more is cut.
    pub fn parse(text: &str) -> Self {
        let words = |line: &str| line.split_whitespace().map(String::from).collect();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let columns: Vec<String> = lines.next().map_or_else(Vec::new, words);
        let rows = lines.map(|line| {
            let mut row: Vec<String> = words(line);
            row.resize(columns.len(), "-".to_string());
            row
        });
        let rows = rows.collect();
        Self { columns, rows }
    }

    /// Parses lines that lack the line with the names of the columns.
    pub fn with_columns(columns: &str, text: &str) -> Self {
        Self::parse(&format!("{columns}\n{text}"))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows, whose cells can be read by the names of their columns.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { table: self, cells })
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The cells of two columns, for each row.
    pub fn pairs<'a>(
        &'a self,
        key: &str,
        value: &str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let columns = self.column(key).zip(self.column(value));
        self.rows.iter().filter_map(move |row| {
            let (key, value) = columns?;
            Some((row.get(key)?.as_str(), row.get(value)?.as_str()))
        })
    }

    /// Whether the table, which is that of nodes, has this node as online.
    pub fn is_online(&self, node: u16) -> bool {
        let mut states = self.pairs("node", "state");
        states.any(|(number, state)| number.parse() == Ok(node) && state == "online")
    }

    /// Adds the column `program`, with the name of the program behind the column `pid`, if there
    /// is one.
    pub fn name_programs(&mut self, names: &BTreeMap<&str, &str>) {
        let Some(pid) = self.column("pid") else {
            return;
        };
        self.columns.push("program".to_string());
        for row in &mut self.rows {
            let name = row.get(pid).and_then(|pid| names.get(pid.as_str()));
            // The process that opened the object may have ended and left it to another one.
            row.push(name.map_or("-", |name| name).to_string());
        }
    }

    /// Keeps the rows whose cell in a column matches `value`: the cell is `value`, or it is
    /// `node/port` and `value` is the node, or the port with a `/` before it.
    ///
    /// # Errors
    /// The names of the columns, if none has this name.
    pub fn keep(&mut self, column: &str, value: &str) -> Result<(), String> {
        let index = self.column(column).ok_or_else(|| self.columns.join(" "))?;
        let fits = |cell: &str| {
            let is_part =
                |(node, port): (&str, &str)| node == value || value.strip_prefix('/') == Some(port);
            cell == value || cell.split_once('/').is_some_and(is_part)
        };
        self.rows
            .retain(|row| row.get(index).is_some_and(|cell| fits(cell)));
        Ok(())
    }

    /// The table as JSON: an array with an object for each row, one a line. A cell of digits
    /// becomes a number, `-` becomes `null`, all others become strings.
    pub fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let pairs = self.columns.iter().zip(row);
            let pairs: Vec<String> = pairs
                .map(|(name, cell)| format!("{}:{}", json_string(name), json_value(cell)))
                .collect();
            format!("{{{}}}", pairs.join(","))
        });
        let rows: Vec<String> = rows.collect();
        format!("[{}]\n", rows.join(",\n"))
    }

    /// The table as text: each column is as wide as its widest cell, numbers are aligned to the
    /// right, and lines end without blanks.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let widths = self.widths();
        for row in core::iter::once(&self.columns).chain(&self.rows) {
            let mut line = String::new();
            for (cell, &(width, is_number)) in row.iter().zip(&widths) {
                let padded = if is_number {
                    format!("{cell:>width$}  ")
                } else {
                    format!("{cell:<width$}  ")
                };
                line.push_str(&padded);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The width of each column, and whether all its cells are numbers.
    fn widths(&self) -> Vec<(usize, bool)> {
        let columns = self.columns.iter().enumerate();
        let widths = columns.map(|(index, name)| {
            let cells = || self.rows.iter().filter_map(|row| row.get(index));
            let widest = cells().map(String::len).max().unwrap_or(0);
            let number = |cell: &String| cell.bytes().all(|byte| byte.is_ascii_digit());
            let is_number = !self.rows.is_empty() && cells().all(number);
            (widest.max(name.len()), is_number)
        });
        widths.collect()
    }
}

/// The JSON value of a cell. JSON has no numbers with leading zeros, so those become strings.
fn json_value(cell: &str) -> String {
    let is_number = cell.bytes().all(|byte| byte.is_ascii_digit());
    match cell {
        "-" => String::from("null"),
        "0" => String::from("0"),
        _ if is_number && !cell.is_empty() && !cell.starts_with('0') => cell.to_string(),
        _ => json_string(cell),
    }
}

fn json_string(text: &str) -> String {
    let mut json = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            letter if letter.is_control() => {
                json.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => json.push(letter),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_node_and_port() {
        let kept = |column: &str, value: &str| {
            let mut table =
                Table::parse("id local peer\n7 0/95 1/2050\n12 0/2050 10/95\n95 0/1 -\n");
            table.keep(column, value).unwrap();
            let ids = table.rows().filter_map(|row| row.cell("id"));
            ids.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept("peer", "1"), "7");
        assert_eq!(kept("peer", "/95"), "12");
        assert_eq!(kept("peer", "1/2050"), "7");
        assert_eq!(kept("local", "0"), "7 12 95");
        assert_eq!(kept("id", "95"), "95");
        assert_eq!(kept("peer", "2050"), "");
        assert_eq!(kept("peer", "/"), "");
        let mut table = Table::parse("id local\n7 0/95\n");
        assert_eq!(table.keep("node", "0"), Err("id local".to_string()));
    }

    #[test]
    fn a_table_is_json() {
        let table = Table::parse("id why name\n7 - a\"b\\\n0 007 \u{1}\n");
        let json = "[{\"id\":7,\"why\":null,\"name\":\"a\\\"b\\\\\"},\n\
                    {\"id\":0,\"why\":\"007\",\"name\":\"\\u0001\"}]\n";
        assert_eq!(table.json(), json);
        assert_eq!(Table::parse("id\n").json(), "[]\n");
    }

    #[test]
    fn columns_are_aligned() {
        let table = Table::parse("id local  state\n7 0/95 connected\n12  0/1088 -\n");
        let text = "id  local   state\n 7  0/95    connected\n12  0/1088  -\n";
        assert_eq!(table.text(), text);
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn odd_lines_do_no_harm() {
        assert_eq!(Table::parse("").text(), "\n");
        assert!(Table::parse("a b\n").is_empty());
        let table = Table::parse("a b\n\n1\n1 2 3\n");
        assert_eq!(table.text(), "a  b\n1  -\n1  2\n");
        assert_eq!(table.pairs("b", "a").count(), 2);
        assert_eq!(table.pairs("c", "a").count(), 0);
    }

    #[test]
    fn nodes_that_are_lost_are_not_online() {
        let table = Table::parse("node role state\n0 host online\n1 card lost\n");
        assert!(table.is_online(0) && !table.is_online(1) && !table.is_online(2));
        assert!(!Table::parse("").is_online(0));
    }

    #[test]
    fn programs_are_named() {
        let processes = Table::parse("pid uid name\n1 0 init\n12 0 sh\n");
        let names: BTreeMap<&str, &str> = processes.pairs("pid", "name").collect();
        let mut table = Table::parse("port pid\n95 12\n1088 99\n");
        table.name_programs(&names);
        let text = "port  pid  program\n  95   12  sh\n1088   99  -\n";
        assert_eq!(table.text(), text);
        let mut other = Table::parse("node\n0\n");
        other.name_programs(&names);
        assert_eq!(other.text(), "node\n   0\n");
    }

    #[test]
    fn names_can_come_from_elsewhere() {
        let table = Table::with_columns("limit value", "pinned_pages_per_user 16\n");
        assert_eq!(
            table.pairs("limit", "value").next(),
            Some(("pinned_pages_per_user", "16"))
        );
    }
}
