//! The traffic of the device's objects: the objects of each program, and rates between two
//! readings.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use scifctl::table::{Row, Table};

/// Bytes in a megabyte.
const MEGABYTE: f64 = 1e6;

fn number(row: &Row<'_>, column: &str) -> u64 {
    let cell = row.cell(column).and_then(|cell| cell.parse().ok());
    cell.unwrap_or(0)
}

/// The table of the rates of queue pairs between two readings of the table `qps` that are
/// `seconds` apart: the queue pairs of the second one, the busiest first.
pub fn rates(before: &Table, after: &Table, seconds: f64) -> Table {
    let name = |row: &Row<'_>| ["context", "handle", "qpn"].map(|column| number(row, column));
    let mut lines: Vec<(u64, String)> = Vec::new();
    for row in after.rows() {
        let mut earlier = before.rows();
        let earlier = earlier.find(|of| name(of) == name(&row));
        let since = |column: &str| {
            let then = earlier.map_or(0, |of| number(&of, column));
            number(&row, column).saturating_sub(then)
        };
        let [sends, sent, receives, received] =
            ["sends", "sent_bytes", "receives", "received_bytes"].map(since);
        let cell = |column: &str| row.cell(column).unwrap_or("-").to_string();
        let rate = |count: u64| format!("{:.0}", count as f64 / seconds);
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / seconds / MEGABYTE);
        let line = [
            cell("qpn"),
            cell("type"),
            cell("state"),
            cell("dest_lid"),
            cell("dest_qpn"),
            cell("queued_sends"),
            cell("queued_receives"),
            rate(sends),
            megabytes(sent),
            rate(receives),
            megabytes(received),
            cell("errors"),
            cell("pid"),
        ];
        // Programs choose these numbers.
        let moved = [sent, received, sends, receives];
        let weight = moved.into_iter().fold(0, u64::saturating_add);
        lines.push((weight, line.join(" ")));
    }
    lines.sort_by_key(|(weight, _)| core::cmp::Reverse(*weight));
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let columns = "qpn type state dest_lid dest_qpn queued_sends queued_receives sends/s \
                   MB/s_out receives/s MB/s_in errors pid";
    Table::with_columns(columns, &lines.join("\n"))
}

/// The text of the daemon's tables from which the objects of programs are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// `qps`.
    pub qps: &'a str,
    /// `cqs`.
    pub cqs: &'a str,
    /// `srqs`.
    pub srqs: &'a str,
    /// `mrs`.
    pub mrs: &'a str,
}

/// Turns a row, whose cells it gets by column, into the name and state of an object.
type Describe = fn(&dyn Fn(&str) -> String) -> [String; 2];

/// The table of the objects that programs hold, with the columns `pid`, `kind`, `name` and
/// `state`: of one program or of all, sorted by process number.
pub fn holdings(sources: Sources<'_>, only: Option<u32>) -> Table {
    let of: [(&str, &str, Describe); 4] = [
        ("qp", sources.qps, |cell| {
            let state = format!("{}-{}", cell("type"), cell("state"));
            [cell("qpn"), state]
        }),
        ("cq", sources.cqs, |cell| {
            let state = format!("{}-of-{}", cell("waiting"), cell("cqe"));
            [cell("handle"), state]
        }),
        ("srq", sources.srqs, |cell| {
            let state = format!("{}-of-{}", cell("queued"), cell("max_wr"));
            [cell("handle"), state]
        }),
        ("mr", sources.mrs, |cell| {
            let place = format!("{}+{}", cell("start"), cell("length"));
            [place, format!("{}-pages", cell("pages"))]
        }),
    ];
    let mut lines: Vec<(u32, String)> = Vec::new();
    for (kind, text, describe) in of {
        for row in Table::parse(text).rows() {
            let cell = |name: &str| row.cell(name).unwrap_or("-").to_string();
            let pid = cell("pid").parse::<u32>().unwrap_or(0);
            if only.is_none_or(|only| only == pid) {
                let [name, state] = describe(&cell);
                lines.push((pid, format!("{pid} {kind} {name} {state}")));
            }
        }
    }
    lines.sort_by_key(|(pid, _)| *pid);
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    Table::with_columns("pid kind name state", &lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{Sources, holdings, rates};
    use scifctl::table::Table;

    const COLUMNS: &str = "context handle qpn type state dest_lid dest_qpn queued_sends \
        queued_receives sends sent_bytes receives received_bytes errors pid\n";

    fn qps(lines: &str) -> Table {
        Table::parse(&format!("{COLUMNS}{lines}"))
    }

    #[test]
    fn rates_are_differences_and_the_busiest_comes_first() {
        let before = qps("1 3 77 RC RTS 0x2 99 0 4 100 1000 7 70 0 5\n");
        let after = qps("1 3 77 RC RTS 0x2 99 0 4 100 1000 7 70 0 5\n\
             1 4 78 RC RTS 0x2 98 1 4 200 4000000 1 10 2 5\n");
        let text = rates(&before, &after, 2.0).text();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        // A new queue pair counts from its beginning.
        assert_eq!(lines[1][..3], ["78", "RC", "RTS"]);
        assert_eq!(
            lines[1][5..],
            ["1", "4", "100", "2.0", "0", "0.0", "2", "5"]
        );
        assert_eq!(lines[2][7..11], ["0", "0.0", "0", "0.0"]);
        // A table of a daemon that was restarted.
        assert_eq!(rates(&after, &qps(""), 1.0).len(), 0);
    }

    #[test]
    fn the_largest_numbers_that_a_program_can_report_are_rates() {
        let most = u64::MAX;
        let before = qps("");
        let after = qps(&format!(
            "1 4 78 RC RTS 0x2 98 1 4 5 5 5 5 0 5\n\
             1 3 77 RC RTS 0x2 99 0 4 {most} {most} {most} {most} {most} 5\n"
        ));
        let table = rates(&before, &after, 1.0);
        let found: Vec<_> = table.rows().map(|row| row.cell("qpn")).collect();
        assert_eq!(found, [Some("77"), Some("78")]);
    }

    #[test]
    fn everything_is_told_by_program() {
        let qps = format!("{COLUMNS}1 3 77 RC ERR 0x2 99 0 4 100 1000 7 70 0 5\n");
        let sources = Sources {
            qps: &qps,
            cqs: "context handle cqe waiting completions channel pid\n1 1 16 2 9 - 5\n",
            srqs: "context handle max_wr max_sge limit queued pd pid\n2 4 8 1 0 3 0 4\n",
            mrs: "context handle key start length iova access pd pages pid\n\
                  1 2 0x101 0x1000 64 0x1000 0x7 0 1 5\n",
        };
        let table = holdings(sources, None);
        let found: Vec<_> = table.rows().map(|row| row.cell("name")).collect();
        let names = [Some("4"), Some("77"), Some("1"), Some("0x1000+64")];
        assert_eq!(found, names);
        assert_eq!(holdings(sources, Some(4)).len(), 1);
        assert_eq!(holdings(sources, Some(9)).len(), 0);
    }
}
