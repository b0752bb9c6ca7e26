//! Copies to and from windows that may go: how a client makes sure that the window of a copy is
//! still registered, without asking the daemon.
//!
//! The client counts itself as busy, and then checks whether the epoch is still the one in which
//! it mapped the windows. The daemon changes the epoch, and then waits until no client is busy,
//! before it lets a window go. A full fence lies between the two steps on both sides, so a client
//! that the daemon did not see as busy sees the new epoch.
//!
//! ```
//! use scif_ring::demo::Epoch;
//! use scif_ring::validity::{advance, enter, is_idle, leave};
//!
//! let mut page = Epoch::default();
//! let known = 0; // the epoch when the client mapped the windows
//! assert!(enter(&mut page, known));
//! // … copy a slice …
//! advance(&mut page); // the daemon: some window ends
//! assert!(!is_idle(&page)); // it has to wait
//! assert!(!leave(&mut page, known)); // the client: ask the daemon again from now on
//! assert!(is_idle(&page));
//! assert!(!enter(&mut page, known));
//! ```

/// A client's access to the words of the control page that hold the epoch and the count of busy
/// clients.
pub trait ValidityMemory {
    /// Loads the epoch (acquire).
    fn epoch(&self) -> u32;

    /// Adds 1 to the count of busy clients, atomically, followed by a full fence. (On x86 the
    /// locked add is both.)
    fn add_busy(&mut self);

    /// Subtracts 1 from the count of busy clients, atomically (release).
    fn remove_busy(&mut self);
}

/// The daemon's access to these words.
pub trait EpochOwner {
    /// The epoch that it has stored last.
    fn epoch(&self) -> u32;

    /// Stores the epoch (release), followed by a full fence.
    fn set_epoch(&mut self, epoch: u32);

    /// Loads the count of busy clients (acquire).
    fn busy(&self) -> u32;
}

/// Begins a copy to or from windows that were valid in the epoch `known`. `false`: something has
/// changed since then, so do not copy.
#[inline]
#[must_use]
pub fn enter<M: ValidityMemory>(mem: &mut M, known: u32) -> bool {
    mem.add_busy();
    if mem.epoch() == known {
        return true;
    }
    mem.remove_busy();
    false
}

/// Ends what [`enter`] began. `false`: something has changed meanwhile, and the bytes may have
/// been copied from or to a window that has gone.
#[inline]
pub fn leave<M: ValidityMemory>(mem: &mut M, known: u32) -> bool {
    // In this order: no window goes while this client is busy, so the epoch must be loaded before.
    let is_valid = mem.epoch() == known;
    mem.remove_busy();
    is_valid
}

/// For the daemon, when a window goes: clients that enter from now on do not copy.
pub fn advance<M: EpochOwner>(mem: &mut M) {
    let epoch = mem.epoch().wrapping_add(1);
    mem.set_epoch(epoch);
}

/// For the daemon: whether all clients that entered before [`advance`] have left.
pub fn is_idle<M: EpochOwner>(mem: &M) -> bool {
    mem.busy() == 0
}
