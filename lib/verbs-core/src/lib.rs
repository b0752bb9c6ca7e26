//! RDMA verbs without I/O (docs/verbs.md): the rules of queue pairs, keys, work requests and
//! completions.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`types`] | the enumerations and flags of the verbs, with their numbers |
//! | [`transition`] | the states of a queue pair and the attributes of each change |
//!
//! Nothing here makes a system call, reads a clock or keeps a global.
#![no_std]

pub mod transition;
pub mod types;
