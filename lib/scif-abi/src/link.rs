//! The link memory between two nodes.
