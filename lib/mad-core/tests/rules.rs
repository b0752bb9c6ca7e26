//! The rules of management datagrams as rows that run. `docs/mad-behaviour.md` is written from
//! them.

mod rules {
    pub mod agents;
    pub mod dispatch;
    pub mod messages;
    pub mod transfers;
}

use mad_core::demo::World;
use mad_core::error::Error;

/// A rule: what a program or a peer does, and what comes of it.
pub struct Row {
    /// The step.
    pub what: &'static str,
    /// Its result, in the page's words.
    pub result: &'static str,
    /// Does it in a world of three nodes; what came of it.
    pub run: fn(&mut World) -> String,
}

/// A row.
pub const fn row(what: &'static str, result: &'static str, run: fn(&mut World) -> String) -> Row {
    Row { what, result, run }
}

/// The name of an error, or `ok`.
pub fn said<T>(result: Result<T, Error>) -> String {
    String::from(match result {
        Ok(_) => "ok",
        Err(Error::Invalid) => "EINVAL",
        Err(Error::Io) => "EIO",
        Err(Error::WouldBlock) => "EAGAIN",
        Err(Error::NoMemory) => "ENOMEM",
        Err(Error::NoSpace) => "ENOSPC",
        Err(Error::Unknown) => "ENOTTY",
    })
}

/// All rows, by the section of the page.
const SECTIONS: [(&str, &[Row]); 4] = [
    ("Registering", rules::agents::ROWS),
    ("Writing and reading", rules::messages::ROWS),
    ("RMPP", rules::transfers::ROWS),
    ("Who gets what arrives", rules::dispatch::ROWS),
];

#[test]
fn every_rule_holds() {
    let rows = SECTIONS.iter().map(|(_, rows)| rows.len()).sum::<usize>();
    let (mut rows_run, mut failed) = (0, Vec::new());
    for (section, rows) in SECTIONS {
        for row in rows {
            let mut world = World::new(3);
            let found = (row.run)(&mut world);
            rows_run += 1;
            if found != row.result {
                let (what, result) = (row.what, row.result);
                failed.push(format!("{section}: {what}: {found}, not {result}"));
            }
        }
    }
    let skipped = rows - rows_run;
    println!(
        "rows: {rows_run} run, {} failed, {skipped} skipped",
        failed.len()
    );
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(skipped, 0);
}

fn page() -> String {
    let mut page = String::from(
        "# What the rules of management datagrams answer\n\n\
         The rules of [management datagrams](mad.md) as rows that run, each between three nodes,\n\
         by `cargo test -p mad-core --test rules`; `make behaviour` writes this page.\n",
    );
    for (section, rows) in SECTIONS {
        page += &format!("\n## {section}\n\n| what | result |\n| --- | --- |\n");
        for row in rows {
            page += &format!("| {} | {} |\n", row.what, row.result);
        }
    }
    page
}

/// What begins the section of the page that a test of `ibd` writes.
const FILES: &str = "\n## Files below /sys/class\n";

/// `SKIFF_REWRITE` writes the page again, except the last section.
#[test]
fn the_page_is_written() {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let project = own.ancestors().nth(2).expect("the project");
    let path = project.join("docs/mad-behaviour.md");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    let whole = read();
    let files = whole.find(FILES).map_or("", |at| &whole[at..]);
    if std::env::var_os("SKIFF_REWRITE").is_some() {
        std::fs::write(&path, page() + files).expect("the page can be written");
    }
    let now = read();
    assert!(
        now.strip_suffix(files) == Some(page().as_str()),
        "docs/mad-behaviour.md is not what the rows say: run `make behaviour`"
    );
}
