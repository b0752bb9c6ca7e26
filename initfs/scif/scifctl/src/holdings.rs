//! The objects that each program holds, from the daemons' tables: a line for each object, sorted
//! by program, like the output of `lsof`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::table::Table;

/// The text of the daemons' tables that the lines come from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// `ports`.
    pub ports: &'a str,
    /// `connections`.
    pub connections: &'a str,
    /// `mappings`.
    pub mappings: &'a str,
    /// `pins`.
    pub pins: &'a str,
}

/// Turns a row, whose cells it gets by column, into the kind, name and state of an object.
type Describe = dyn Fn(&dyn Fn(&str) -> String) -> Option<[String; 3]>;

/// The table of the objects that programs hold, with the columns `pid`, `kind`, `name` and
/// `state`: of one program or of all, sorted by process number.
pub fn table(sources: Sources<'_>, only: Option<u32>) -> Table {
    let mut lines: Vec<(u32, String)> = Vec::new();
    let mut add = |text: &str, describe: &Describe| {
        let table = Table::parse(text);
        for row in table.rows() {
            let cell = |name: &str| row.cell(name).unwrap_or("-").to_string();
            let Ok(pid) = cell("pid").parse::<u32>() else {
                continue;
            };
            if only.is_none_or(|only| only == pid)
                && let Some([kind, name, state]) = describe(&cell)
            {
                lines.push((pid, format!("{pid} {kind} {name} {state}")));
            }
        }
    };
    add(sources.ports, &|cell| {
        // Ports of connections are shown by the connections' lines.
        let state = cell("state");
        let is_own = ["listening", "bound"].contains(&state.as_str());
        is_own.then(|| ["port".into(), cell("port"), state])
    });
    add(sources.connections, &|cell| {
        let ends = format!("{}-{}", cell("local"), cell("peer"));
        Some(["connection".into(), ends, cell("state")])
    });
    add(sources.mappings, &|cell| {
        let place = format!("{}+{}", cell("what"), cell("offset"));
        let pages = format!("{}-pages", cell("pages"));
        Some(["mapping".into(), place, pages])
    });
    add(sources.pins, &|cell| {
        let pages = format!("{}-pages", cell("pages"));
        Some(["pin".into(), pages, format!("{}-uses", cell("uses"))])
    });
    lines.sort_by_key(|(pid, _)| *pid);
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    Table::with_columns("pid kind name state", &lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: Sources<'static> = Sources {
        ports: "port state waiting pid endpoint\n95 listening 0 7 1\n1088 connected - 9 2\n",
        connections: "id local peer state in out pid\n2 0/1088 1/95 connected 5 6 9\n",
        mappings: "handle pid what offset pages\n4 9 window 0x1000 3\n",
        pins: "uid pid pages uses\n0 7 16 2\n",
    };

    #[test]
    fn everything_is_told_by_program() {
        let text = table(SOURCES, None).text();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["pid", "kind", "name", "state"]);
        assert_eq!(lines[1], ["7", "port", "95", "listening"]);
        assert_eq!(lines[2], ["7", "pin", "16-pages", "2-uses"]);
        assert_eq!(lines[3], ["9", "connection", "0/1088-1/95", "connected"]);
        assert_eq!(lines[4], ["9", "mapping", "window+0x1000", "3-pages"]);
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn one_program_can_be_asked_for() {
        assert_eq!(table(SOURCES, Some(7)).len(), 2);
        assert_eq!(table(SOURCES, Some(8)).len(), 0);
        assert!(table(Sources::default(), None).is_empty());
    }
}
