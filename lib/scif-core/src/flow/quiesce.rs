//! Windows and closed endpoints that wait for copies of bypass clients before they end.

use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::bypass::Ending;
use crate::engine::Engine;

impl Engine {
    /// Begins to end a window or endpoint: no client of the connection begins a copy to or from
    /// `what` any more. `true`: no copy is under way either. Otherwise
    /// [`on_quiesced`](Self::on_quiesced) is called later.
    pub(crate) fn quiesce(
        &mut self,
        mem: &mut dyn Memory,
        connection: Option<ConnectionId>,
        what: Ending,
    ) -> bool {
        let Some(id) = connection else {
            return true;
        };
        // A client that sleeps may have the window mapped, and must unmap it.
        let is_mapped = match what {
            Ending::Remote(id) => self.windows.is_mapped(id),
            Ending::Local(_) | Ending::Endpoint(_) => true,
        };
        if !(self.connections).advance_epoch(mem, &mut self.cx, id, is_mapped) {
            return true;
        }
        // While earlier windows of the connection wait, this one waits, too: with thousands of
        // them, a check for each would be slow.
        if !self.bypass.is_quiescing(id) && self.connections.is_quiet(mem, id) {
            return true;
        }
        self.bypass.quiesce(&mut self.cx, id, what);
        false
    }

    /// Continues to end a window or endpoint: no client copies any more, or the time is over.
    pub(crate) fn on_quiesced(&mut self, what: Ending) {
        match what {
            Ending::Remote(id) => self.windows.answer_unregister(&mut self.cx, id),
            Ending::Local(id) => self.windows.send_unregister(&mut self.cx, id),
            Ending::Endpoint(id) => self.cx.end_departure(id),
        }
    }

    /// Checks again whether clients still copy.
    pub(crate) fn check_quiescing(&mut self, mem: &mut dyn Memory) {
        let is_quiet = |id| self.connections.is_quiet(mem, id);
        for what in self.bypass.take_quiesced(&mut self.cx, is_quiet) {
            self.on_quiesced(what);
        }
    }
}
