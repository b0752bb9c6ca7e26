//! `behaviour`: writes `docs/behaviour.md`, `docs/st-behaviour.md` and `docs/verbs-behaviour.md`
//! anew from the data of the conformance suite, and `docs/mad-behaviour.md` from the rows of
//! `mad-core` and the class tree of `ibd`.

use harness::base::cargo;
use harness::base::report::{Context, Result};
use harness::base::settings::Settings;

/// The pages, and the tests that compare them and write them if `SKIFF_REWRITE` is set.
const PAGES: [(&str, [&str; 5]); 3] = [
    (
        "docs/behaviour.md docs/st-behaviour.md docs/verbs-behaviour.md",
        [
            "--package",
            "conformance",
            "--test",
            "document",
            "the_document_is_written",
        ],
    ),
    (
        "docs/mad-behaviour.md",
        [
            "--package",
            "mad-core",
            "--test",
            "rules",
            "the_page_is_written",
        ],
    ),
    (
        "docs/mad-behaviour.md",
        [
            "--package",
            "ibd",
            "--lib",
            "--",
            "the_section_about_files_is_written",
        ],
    ),
];

/// Runs the command.
pub fn command(_settings: &Settings) -> Result<()> {
    for (pages, test) in PAGES {
        let mut command = cargo::in_project();
        command.args(["test", "--quiet"]).args(test);
        command.env("SKIFF_REWRITE", "1");
        let output = command.output().context(|| "start cargo".to_string())?;
        if !output.status.success() {
            // Cargo writes to one of them, the test to the other.
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
            return Err(format!("{pages} not written: the reason is above").into());
        }
        println!("{pages}");
    }
    Ok(())
}
