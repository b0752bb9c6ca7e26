//! Queue pairs: the memory behind the rings of two ends, and the rings at work.

pub(crate) mod block;
pub(crate) mod control_page;
pub(crate) mod rings;
