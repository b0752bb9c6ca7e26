//! What descriptor numbers stand for: open descriptions, and the deferred work when the last
//! reference to one goes away.

pub mod deferred;
mod description;

pub use description::{Description, DescriptionState, InternalFlags};

/// Names a scheme for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemeId(pub usize);
