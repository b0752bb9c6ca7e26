//! Data rates of connections: the difference between two readings of the table `connections`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::table::{Row, Table};

/// Bytes in a megabyte.
const MEGABYTE: f64 = 1e6;

/// The table of the rates at which connections have moved data between two readings that are
/// `seconds` apart: the connections of the second one, the busiest first. A new connection has
/// moved all its bytes since the first reading.
pub fn rates(before: &Table, after: &Table, seconds: f64) -> Table {
    let bytes = |row: &Row<'_>, column: &str| -> u64 {
        let cell = row.cell(column).and_then(|cell| cell.parse().ok());
        cell.unwrap_or(0)
    };
    // The numbers of endpoints are reused, so all these columns identify a connection.
    let name =
        |row: &Row<'_>| ["id", "local", "peer", "pid"].map(|of| row.cell(of).map(String::from));
    let mut lines: Vec<(u64, String)> = Vec::new();
    for row in after.rows() {
        let earlier = before.rows().find(|of| name(of) == name(&row));
        let [incoming, outgoing] = ["in", "out"].map(|column| {
            let then = earlier.map_or(0, |of| bytes(&of, column));
            bytes(&row, column).saturating_sub(then)
        });
        let rate = |bytes: u64| format!("{:.1}", bytes as f64 / seconds / MEGABYTE);
        let cell = |column: &str| row.cell(column).unwrap_or("-").to_string();
        let line = [
            cell("id"),
            cell("local"),
            cell("peer"),
            cell("state"),
            cell("unread"),
            cell("unacked"),
            rate(incoming),
            rate(outgoing),
            cell("pid"),
        ];
        lines.push((incoming.saturating_add(outgoing), line.join(" ")));
    }
    lines.sort_by_key(|(moved, _)| core::cmp::Reverse(*moved));
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let columns = "id local peer state unread unacked MB/s_in MB/s_out pid";
    Table::with_columns(columns, &lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between() {
        const COLUMNS: &str = "id local peer state unread unacked in out pid";
        let look = |lines: &str| Table::with_columns(COLUMNS, lines);
        let before =
            look("1 0/95 1/2050 connected 0 0 1000000 0 7\n2 0/96 1/2051 connected 0 0 5 5 7");
        let after = look(
            "1 0/95 1/2050 connected 3 0 2000000 500000 7\n\
             2 0/97 1/2052 connected 0 9 8000000 0 8",
        );
        let table = rates(&before, &after, 2.0);
        let rows = "id  local  peer    state      unread  unacked  MB/s_in  MB/s_out  pid\n \
                    2  0/97   1/2052  connected       0        9  4.0      0.0         8\n \
                    1  0/95   1/2050  connected       3        0  0.5      0.2         7\n";
        assert_eq!(table.text(), rows);
    }
    #[test]
    fn the_largest_numbers_are_rates() {
        const COLUMNS: &str = "id local peer state unread unacked in out pid";
        let look = |lines: &str| Table::with_columns(COLUMNS, lines);
        let most = u64::MAX;
        let after = look(&format!(
            "1 0/95 1/2050 connected 0 0 5 5 7\n2 0/96 1/2051 connected 0 0 {most} {most} 7"
        ));
        let table = rates(&look(""), &after, 1.0);
        let found: Vec<_> = table.rows().map(|row| row.cell("id")).collect();
        assert_eq!(found, [Some("2"), Some("1")]);
    }
}
