//! The base of all parts: memory, tables, timers, events, quotas, counters.

pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod event;
pub(crate) mod fair_queue;
pub(crate) mod ids;
pub(crate) mod memory;
pub(crate) mod owner;
pub(crate) mod pages;
pub(crate) mod quota;
pub(crate) mod rule;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod timers;
pub(crate) mod trace;
