//! The rows.

mod datagrams;
pub mod errors;
mod memory;
mod peers;
mod queues;
mod shared;
mod states;

use super::Row;

/// Rows with a case of their own, by section.
pub const SECTIONS: &[(&str, &[Row])] = &[
    ("What is refused when it is posted", states::POSTING),
    ("What each state does", states::STATES),
    ("Messages, receives and completions", queues::QUEUES),
    ("Shared receive queues and XRC", shared::SHARED),
    ("Datagrams", datagrams::DATAGRAMS),
    ("Memory regions and memory windows", memory::MEMORY),
    ("Peers that come late, fail, leave and die", peers::PEERS),
];
