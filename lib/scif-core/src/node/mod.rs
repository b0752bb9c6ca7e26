//! Nodes: the link to each, and why links end.

pub(crate) mod down;
pub(crate) mod link;
