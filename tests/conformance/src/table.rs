//! The structure of the table: sections of rows, each with its cases.

use alloc::string::String;
use alloc::vec::Vec;

use scif_abi::Error;

use crate::bench::{Ask, Bench, Checked, Place};
use crate::cases;

/// What Skiff does.
#[derive(Clone, Copy, Debug)]
pub enum Ours {
    /// The call fails with this error.
    Fails(Error),
    /// The call succeeds with this value.
    Gives(i64),
    /// The call succeeds with these bits of readiness.
    Ready(u32),
    /// The call succeeds; its value varies.
    Succeeds,
    /// A description; the case checks it.
    Says(&'static str),
}

/// How a row is tested.
#[derive(Clone, Copy)]
pub enum Test {
    /// Prepares the call whose result the row gives.
    Call(fn(&mut Bench<'_>) -> Checked<Ask>),
    /// Makes all calls and checks them.
    Story(fn(&mut Bench<'_>) -> Checked),
    /// One case for each name; the function gets the index of the name.
    Each(fn() -> Vec<String>, fn(&mut Bench<'_>, usize) -> Checked),
    /// Tested by other suites: files of the project, each with the name of a test in it.
    Elsewhere(&'static [(&'static str, &'static str)]),
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Row {
    /// The condition.
    pub condition: &'static str,
    /// The behaviour according to the documents.
    pub documents: &'static str,
    /// The behaviour of the drivers; if they differ, the older one's / mainline's.
    pub drivers: &'static str,
    /// Skiff's behaviour.
    pub ours: Ours,
    /// The reason, if the behaviour is a choice.
    pub why: &'static str,
    /// How the row is tested.
    pub test: Test,
    /// The places where the row is tested.
    pub places: &'static [Place],
}

/// The rows of one call or subject.
#[derive(Clone, Copy)]
pub struct Section {
    /// Its title.
    pub title: &'static str,
    /// A word in the names of its cases.
    pub word: &'static str,
    /// An introduction for the reader.
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

    /// The row of a call that fails. `texts`: the condition, the documents, the drivers.
    pub const fn fails(
        texts: [&'static str; 3],
        error: Error,
        prepare: fn(&mut Bench<'_>) -> Checked<Ask>,
    ) -> Row {
        Row::new(texts, Ours::Fails(error), Test::Call(prepare))
    }

    /// The row of a call that succeeds with a value.
    pub const fn gives(
        texts: [&'static str; 3],
        value: i64,
        prepare: fn(&mut Bench<'_>) -> Checked<Ask>,
    ) -> Row {
        Row::new(texts, Ours::Gives(value), Test::Call(prepare))
    }

    /// The row of a `poll` that reports these bits.
    pub const fn ready(
        texts: [&'static str; 3],
        bits: u32,
        prepare: fn(&mut Bench<'_>) -> Checked<Ask>,
    ) -> Row {
        Row::new(texts, Ours::Ready(bits), Test::Call(prepare))
    }

    /// The row of a call that succeeds.
    pub const fn succeeds(
        texts: [&'static str; 3],
        prepare: fn(&mut Bench<'_>) -> Checked<Ask>,
    ) -> Row {
        Row::new(texts, Ours::Succeeds, Test::Call(prepare))
    }

    /// The row of a behaviour that takes several calls to observe.
    pub const fn story(
        texts: [&'static str; 3],
        ours: &'static str,
        story: fn(&mut Bench<'_>) -> Checked,
    ) -> Row {
        Row::new(texts, Ours::Says(ours), Test::Story(story))
    }

    /// The row of such a behaviour with variants.
    pub const fn each(
        texts: [&'static str; 3],
        ours: &'static str,
        names: fn() -> Vec<String>,
        story: fn(&mut Bench<'_>, usize) -> Checked,
    ) -> Row {
        Row::new(texts, Ours::Says(ours), Test::Each(names, story))
    }

    /// The row of a behaviour that other suites test.
    pub const fn elsewhere(
        texts: [&'static str; 3],
        ours: &'static str,
        tests: &'static [(&'static str, &'static str)],
    ) -> Row {
        Row::new(texts, Ours::Says(ours), Test::Elsewhere(tests))
    }

    /// Adds the reason for the choice to the row.
    pub const fn because(mut self, why: &'static str) -> Row {
        self.why = why;
        self
    }

    /// Limits the row to these places.
    pub const fn only(mut self, places: &'static [Place]) -> Row {
        self.places = places;
        self
    }
}
