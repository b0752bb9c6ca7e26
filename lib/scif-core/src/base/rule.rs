//! Invariants that hold between any two calls, and the report of a broken one.

use core::fmt;

use super::table::Key;

/// A rule that does not hold, and the number of the object that breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// The id of an endpoint or connection, a port, or a count.
    pub subject: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken by {:#x}: {}", self.subject, self.rule)
    }
}

pub(crate) fn rule(holds: bool, rule: &'static str, subject: impl Key) -> Result<(), Violation> {
    if holds {
        Ok(())
    } else {
        Err(Violation {
            rule,
            subject: subject.number(),
        })
    }
}
