//! Queue pairs: the memory behind the rings of two ends, and the work on the rings.

pub(crate) mod block;
pub(crate) mod control_page;
pub(crate) mod rings;
