//! The shape of the table: sections of rows, each with its cases.

use alloc::string::String;
use alloc::vec::Vec;

use scif_abi::Error;

use crate::bench::{Ask, Bench, Checked, Place};
use crate::cases;

/// Skiff's behaviour.
#[derive(Clone, Copy, Debug)]
pub enum Ours {
    /// Fails with this.
    Fails(Error),
    /// Succeeds with this value.
    Gives(i64),
    /// Succeeds; the value is not always the same.
    Succeeds,
    /// In words; the case checks it.
    Says(&'static str),
}

/// How a row is shown to hold.
#[derive(Clone, Copy)]
pub enum Test {
    /// Prepares the call whose result the row gives.
    Call(fn(&mut Bench<'_>) -> Checked<Ask>),
    /// Does it all.
    Story(fn(&mut Bench<'_>) -> Checked),
    /// One case for each name; the number of the name is given.
    Each(fn() -> Vec<String>, fn(&mut Bench<'_>, usize) -> Checked),
    /// Shown by tests of other suites: files of the project, each with the name of a test in it.
    Elsewhere(&'static [(&'static str, &'static str)]),
}

/// One row.
#[derive(Clone, Copy)]
pub struct Row {
    /// When.
    pub condition: &'static str,
    /// The behaviour by the documents.
    pub documents: &'static str,
    /// The behaviour of the drivers; when they differ, the older one / mainline's.
    pub drivers: &'static str,
    /// Skiff's behaviour.
    pub ours: Ours,
    /// Why, where that is a choice.
    pub why: &'static str,
    /// How it is shown.
    pub test: Test,
    /// Where.
    pub places: &'static [Place],
}

/// The rows of one call or subject.
#[derive(Clone, Copy)]
pub struct Section {
    /// Its title.
    pub title: &'static str,
    /// A word for names of cases.
    pub word: &'static str,
    /// A note for the reader.
    pub about: &'static str,
    /// Its rows.
    pub rows: &'static [Row],
}

/// The sections, in the order of the document.
pub const SECTIONS: &[Section] = &[
    cases::endpoints::OPEN,
    cases::endpoints::BIND,
    cases::endpoints::LISTEN,
    cases::connect::CONNECT,
    cases::connect::NONBLOCKING,
    cases::accept::ACCEPT,
    cases::accept::CLOSE,
    cases::stream::SEND,
    cases::stream::RECV,
    cases::poll::POLL,
    cases::register::REGISTER,
    cases::unregister::UNREGISTER,
    cases::mapping::MAPPING,
    cases::rma::ERRORS,
    cases::transfers::DATA,
    cases::fences::MARK,
    cases::fences::WAIT,
    cases::fences::SIGNAL,
    cases::nodes::NODES,
    cases::pages::PAGES,
    cases::pinned::PINNED,
    cases::usage::USAGE,
    cases::wire::WIRE,
];

impl Row {
    const fn new(texts: [&'static str; 3], ours: Ours, test: Test) -> Row {
        let [condition, documents, drivers] = texts;
        Row {
            condition,
            documents,
            drivers,
            ours,
            why: "",
            test,
            places: Place::ALL,
        }
    }

    /// A call that fails. `texts`: the condition, the documents, the drivers.
    pub const fn fails(
        texts: [&'static str; 3],
        error: Error,
        prepare: fn(&mut Bench<'_>) -> Checked<Ask>,
    ) -> Row {
        Row::new(texts, Ours::Fails(error), Test::Call(prepare))
    }

    /// A call that succeeds with a value.
    pub const fn gives(
        texts: [&'static str; 3],
        value: i64,
        prepare: fn(&mut Bench<'_>) -> Checked<Ask>,
    ) -> Row {
        Row::new(texts, Ours::Gives(value), Test::Call(prepare))
    }

    /// A call that succeeds.
    pub const fn succeeds(
        texts: [&'static str; 3],
        prepare: fn(&mut Bench<'_>) -> Checked<Ask>,
    ) -> Row {
        Row::new(texts, Ours::Succeeds, Test::Call(prepare))
    }

    /// Something that takes several calls to see.
    pub const fn story(
        texts: [&'static str; 3],
        ours: &'static str,
        story: fn(&mut Bench<'_>) -> Checked,
    ) -> Row {
        Row::new(texts, Ours::Says(ours), Test::Story(story))
    }

    /// A story with variants.
    pub const fn each(
        texts: [&'static str; 3],
        ours: &'static str,
        names: fn() -> Vec<String>,
        story: fn(&mut Bench<'_>, usize) -> Checked,
    ) -> Row {
        Row::new(texts, Ours::Says(ours), Test::Each(names, story))
    }

    /// Something that tests of other suites show.
    pub const fn elsewhere(
        texts: [&'static str; 3],
        ours: &'static str,
        tests: &'static [(&'static str, &'static str)],
    ) -> Row {
        Row::new(texts, Ours::Says(ours), Test::Elsewhere(tests))
    }

    /// The row with the reason for its choice.
    pub const fn because(mut self, why: &'static str) -> Row {
        self.why = why;
        self
    }

    /// The row, in these places only.
    pub const fn only(mut self, places: &'static [Place]) -> Row {
        self.places = places;
        self
    }
}
