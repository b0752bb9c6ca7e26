//! `conformance`: runs the conformance suites alone, in all places: SCIF's calls in the simulator,
//! in one booted node, and between two; the rows of Scheduled Transfers also from card to card.
//! ONLY=word selects places whose name contains it.

use crate::base::cargo;
use crate::base::config;
use crate::base::report::{Context, Failure, Result};
use crate::base::settings::Settings;
use crate::node::image::{Builder, Contents, prepare};
use crate::suite::suites::{self, Show};

/// The beginning of the names of its guest suites; the rest is the place.
const PREFIX: &str = "conformance-";

/// The command.
pub fn command(builder: &dyn Builder, settings: &Settings) -> Result<()> {
    let wanted = |place: &str| settings.only().is_none_or(|only| place.contains(only));
    let mut failed = Vec::new();
    if wanted("sim")
        && let Err(failure) = simulator()
    {
        failed.push(format!("sim ({})", failure.message));
    }
    let tests = config::tests()?;
    let places = tests.suite.iter().filter_map(|suite| {
        let place = suite.name.strip_prefix(PREFIX)?;
        wanted(place).then_some((place, suite))
    });
    let places: Vec<_> = places.collect();
    if places.is_empty() && !wanted("sim") {
        let known = tests.suite.iter();
        let mut known: Vec<_> = known.filter_map(|s| s.name.strip_prefix(PREFIX)).collect();
        known.insert(0, "sim");
        let only = settings.only().unwrap_or_default();
        let known = known.join(", ");
        return Err(format!("ONLY={only}: in the name of no place; they are {known}").into());
    }
    if !places.is_empty() {
        let scripts = suites::scripts(places.iter().map(|(_, suite)| *suite))?;
        let scripts = scripts.iter().map(String::as_str);
        let contents = Contents::named_in(settings.purpose()?, scripts);
        let image = prepare(builder, settings, &contents)?;
        for (place, suite) in places {
            if let Err(failure) = suites::guest(settings, suite, &*image, Show::Cases) {
                failed.push(format!("{place} ({})", failure.message));
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::from(format!("conformance: {}", failed.join("; "))))
}

/// The part that needs no guest: a test program of the suite's own package.
fn simulator() -> Result<()> {
    let mut command = cargo::in_project();
    command.args([
        "test",
        "--quiet",
        "--package",
        "conformance",
        "--test",
        "sim",
        "--test",
        "st",
        "--test",
        "verbs",
    ]);
    let status = command.status().context(|| "start cargo".to_string())?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "{status}: see above; again: cargo test -p conformance --test sim --test st --test verbs"
    )
    .into())
}
