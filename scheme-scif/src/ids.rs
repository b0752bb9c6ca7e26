//! Names of handles and requests.

use core::hash::Hash;

/// Names a handle by the number that the kernel has for it. Never reused, because the kernel names
/// handles by it in events and closes.
pub type HandleId = usize;

/// The name of a request: unique among waiting requests.
pub trait RequestId: Copy + Ord + Hash {}

impl<T: Copy + Ord + Hash> RequestId for T {}
