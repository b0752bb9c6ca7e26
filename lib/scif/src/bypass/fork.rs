//! The bypass of a connection in the child of a fork.

use super::Bypass;
use super::requests::RequestWatch;

impl Bypass {
    /// For the child of a fork, which has copies of the process's descriptors and none of its
    /// mappings. Closes the copies, which would keep the connection open after its end. Those for
    /// windows stay open if another thread of the parent was mapping at that time. Afterwards the
    /// bypass must be forgotten, neither used nor dropped.
    pub fn close_in_child(&self) {
        let rings = self.rings.get();
        let files = rings.into_iter().flat_map(|rings| rings.files());
        // An event that the child takes out of this queue would be lost for the parent.
        let watch = self.requests.get().and_then(Option::as_ref);
        for file in files.chain(watch.map(RequestWatch::descriptor)) {
            // A descriptor that was copied can be closed.
            let _ = libredox::call::close(file);
        }
    }
}
