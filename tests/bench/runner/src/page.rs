//! The generated part of `docs/performance.md`: the origin of the results, the table, the plots.

use crate::results::{Entry, HEADS, Setting, counts, rows};
use crate::sample::Neighbours;
use harness::base::report::Result;

/// Marks of the beginning and the end of the generated part.
const BEGIN: &str = "<!-- begin: written by `make bench` -->";
const END: &str = "<!-- end: written by `make bench` -->";

/// Returns the generated part. `plots` are file names, relative to the page, each with what it
/// shows.
pub fn generated(setting: &Setting, entries: &[Entry], plots: &[(String, &str)]) -> String {
    let mut text = format!(
        "Measured {}, {} boots of each step; machine: {}; {}; peers: Linux {}.\n\n",
        setting.date, setting.boots, setting.machine, setting.emulator, setting.linux
    );
    let counts = counts(entries);
    text.push_str(&format!("Of {} goals: {counts}.\n\n", entries.len()));
    text.push_str(&format!("{}\n\n", setting.noise.text()));
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut heads = HEADS.map(str::to_string).to_vec();
    heads.extend(["pairs".to_string(), "name".to_string()]);
    text.push_str(&row(&heads));
    text.push_str(&"| --- ".repeat(heads.len()));
    text.push_str("|\n");
    for (entry, cells) in entries.iter().zip(rows(entries)) {
        let mut cells = cells.to_vec();
        let near = match entry.neighbours {
            Some(Neighbours::Turns) => "in turn",
            Some(Neighbours::Boots) => "by boot",
            None => "values",
        };
        cells.push(match entry.pairs {
            0 => "–".to_string(),
            pairs => format!("{pairs} {near}"),
        });
        cells.push(format!("`{}`", entry.name));
        text.push_str(&row(&cells));
    }
    for entry in entries {
        if let Some(error) = &entry.error {
            text.push_str(&format!("\nNot measured: `{}`: {error}.\n", entry.name));
        }
    }
    for (file, title) in plots {
        text.push_str(&format!("\n![{title}]({file})\n"));
    }
    text
}

/// Returns the page with its generated part replaced.
pub fn replaced(page: &str, generated: &str) -> Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or_else(|| {
        format!("docs/performance.md has lost its lines '{BEGIN}' and '{END}': put them back")
    })?;
    Ok(format!("{before}{BEGIN}\n\n{generated}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{self, tests::setting};
    use crate::sample::tests::samples;

    #[test]
    fn the_hand_written_part_stays() {
        let page = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nmore\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nmore\n"));
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        assert!(replaced("no markers", "new").is_err());
        assert!(replaced(BEGIN, "new").is_err());
    }

    #[test]
    fn every_row_has_every_column() {
        let samples = samples(&[
            ("pio_rtt", 8, "ns", 300.0),
            ("bare_pingpong", 8, "ns", 300.0),
            ("linux_pingpong", 8, "ns", 400.0),
        ]);
        let entries = results::entries(&samples);
        let text = generated(&setting(), &entries, &[("a/b.svg".to_string(), "what")]);
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), entries.len() + 2);
        assert!(
            rows.iter()
                .all(|row| row.matches('|').count() == HEADS.len() + 3)
        );
        assert!(text.contains("| 1.00 | 1.00 to 1.00 | at most 1.05 | undecided |"));
        assert!(text.contains(" goals: 0 met, 0 missed, 2 undecided, "));
        assert!(text.contains("Not measured: `boot`"));
        assert!(text.ends_with("![what](a/b.svg)\n"));
    }
}
