//! The bypass of a connection in the child of a fork.

use super::Bypass;
use super::requests::RequestWatch;

impl Bypass {
    /// For the child of a fork, which has copies of the process's descriptors and none of its
    /// mappings: closes the copies, which would keep the connection open after its end. Those for
    /// windows stay if another thread of the parent was mapping just then. Afterwards the bypass is
    /// to be forgotten, neither used nor dropped.
    pub fn close_in_child(&self) {
        let rings = self.rings.get();
        let files = rings.into_iter().flat_map(|rings| rings.files());
        // What the child took out of the queue would be no news for the parent.
        let watch = self.requests.get().and_then(Option::as_ref);
        for file in files.chain(watch.map(RequestWatch::descriptor)) {
            // A descriptor that was copied can be closed.
            let _ = libredox::call::close(file);
        }
    }
}
