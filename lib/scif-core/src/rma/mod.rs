//! Remote memory access: jobs, the channels they queue on, and the copy engines.

pub(crate) mod channel;
pub(crate) mod copy_engine;
pub(crate) mod job;
pub(crate) mod span;
