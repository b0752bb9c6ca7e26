//! The objects of descriptors: open descriptions, and the deferred messages at their end.

pub mod deferred;
mod description;

pub use description::{Description, DescriptionState, InternalFlags};

/// Names a scheme for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemeId(pub usize);
