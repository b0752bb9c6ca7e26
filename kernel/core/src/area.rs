//! Virtual areas: what a user address space consists of.

use bitflags::bitflags;

bitflags! {
    /// What a program may do with a page.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Prot: u8 {
        /// Loads.
        const READ = 1;
        /// Stores.
        const WRITE = 2;
        /// Instruction fetches.
        const EXEC = 4;
    }
}

/// How the processor caches a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cache {
    /// Ordinary memory.
    #[default]
    WriteBack,
    /// Stores are combined, loads are not cached (frame buffers, apertures).
    WriteCombining,
    /// Not cached, may be overridden to write combining by the MTRRs (`uc` and `dev` of Redox).
    Uncached,
}

/// Where a new mapping goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The smallest sufficient hole, the lowest of equals, from `MIN_ADDRESS` up.
    Any,
    /// Exactly here; what was there is unmapped first.
    Fixed(usize),
    /// Exactly here, `EEXIST` when anything is mapped there.
    FixedNoReplace(usize),
}
