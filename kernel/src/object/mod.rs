//! What descriptor numbers stand for: open descriptions, the tables that number them, and the
//! deferred work when the last reference to one goes away.

mod description;
pub mod reaper;
mod table;

pub use description::{Description, DescriptionState, InternalFlags};
pub use table::{FileTable, close as close_descriptor};

/// Names a scheme for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemeId(pub usize);
