//! The rows of Scheduled Transfers.

mod attach;
mod bounds;
mod death;
mod fence;
mod hostile;
mod level0;
mod memory;
mod six;
mod sockets;

use super::Row;

/// All rows, in the order in which they run. The death of a driver comes last.
pub const SECTIONS: &[(&str, &[Row])] = &[
    ("Sockets and options", sockets::SOCKETS),
    ("Attach, detach", attach::ATTACH),
    ("Map, unmap", memory::MAP),
    ("Push and pull: the six", six::SIX),
    ("Illegal combinations and bounds", bounds::BOUNDS),
    ("Fence and order", fence::FENCE),
    ("Level 0", level0::LEVEL_0),
    ("Death and hostility", death::DEATH),
];
