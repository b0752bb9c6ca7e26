//! Names of handles and requests.

use core::hash::Hash;

/// Names a handle: the number the kernel knows it by. Never reused, because the kernel keys events
/// and closes by it.
pub type HandleId = usize;

/// The name of a request: unique among those that wait.
pub trait RequestId: Copy + Ord + Hash {}

impl<T: Copy + Ord + Hash> RequestId for T {}
