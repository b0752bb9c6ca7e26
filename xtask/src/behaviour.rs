//! `behaviour`: writes `docs/behaviour.md` and `docs/st-behaviour.md` anew from the data of the
//! conformance suite.

use harness::base::cargo;
use harness::base::report::{Context, Result};
use harness::base::settings::Settings;

/// The command: the test that compares the document, in the mode that writes it.
pub fn command(_settings: &Settings) -> Result<()> {
    let mut command = cargo::in_project();
    command.args(["test", "--quiet", "--package", "conformance"]);
    command.args(["--test", "document", "the_document_is_written"]);
    command.env("SKIFF_REWRITE", "1");
    let output = command.output().context(|| "start cargo".to_string())?;
    if output.status.success() {
        println!("docs/behaviour.md docs/st-behaviour.md");
        return Ok(());
    }
    // Cargo speaks on one, the test on the other.
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    Err("docs/behaviour.md was not written: the reason is above".into())
}
