//! The rights of a mapping.

use libredox::flag::{PROT_READ, PROT_WRITE};

/// Reading and writing, each allowed or not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rights {
    /// Whether the memory can be read.
    pub read: bool,
    /// Whether the memory can be written.
    pub write: bool,
}

impl Rights {
    /// Reading and writing.
    pub const ALL: Self = Self {
        read: true,
        write: true,
    };

    pub(crate) fn bits(self) -> u32 {
        let bit = |set, bit| if set { bit } else { 0 };
        bit(self.read, PROT_READ) | bit(self.write, PROT_WRITE)
    }
}
