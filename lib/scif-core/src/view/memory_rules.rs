//! Invariants between the parts that have to do with registered memory.

use crate::base::rule::{Violation, rule};
use crate::engine::Engine;

impl Engine {
    /// Checks everything that belongs to registered memory.
    pub(crate) fn check_memory(&self) -> Result<(), Violation> {
        self.windows.check(&self.cx)?;
        self.transfers.check(&self.cx, &self.windows)?;
        self.calls.check()?;
        let windows = self.windows.connections();
        let others = self.transfers.connections().chain(self.calls.connections());
        for id in windows.chain(others) {
            let connection = self.connections.get(id);
            rule(
                connection.is_some_and(|connection| connection.endpoint().is_some()),
                "without an endpoint there is no registered memory",
                id,
            )?;
        }
        for (id, window) in self.windows.remotes() {
            let node = window.node();
            rule(
                node == self.cx.config.node || self.nodes.state(node).is_some(),
                "windows are of nodes that are there",
                id,
            )?;
        }
        Ok(())
    }
}
