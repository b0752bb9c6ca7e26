//! Requests that wait.

pub(crate) mod transfer_queue;
