//! What ends only when clients that work on their own copy no more: windows and closed endpoints.

use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::bypass::Ending;
use crate::engine::Engine;

impl Engine {
    /// Something of a connection ends: no client begins a copy to or from it any more. True: none
    /// is under way either. Otherwise [`on_quiesced`](Self::on_quiesced) is called later.
    pub(crate) fn quiesce(
        &mut self,
        mem: &mut dyn Memory,
        connection: Option<ConnectionId>,
        what: Ending,
    ) -> bool {
        let Some(id) = connection else {
            return true;
        };
        // A client that sleeps has the window mapped perhaps; it is to let go of it.
        let is_mapped = match what {
            Ending::Remote(id) => self.windows.is_mapped(id),
            Ending::Local(_) | Ending::Endpoint(_) => true,
        };
        if !(self.connections).advance_epoch(mem, &mut self.cx, id, is_mapped) {
            return true;
        }
        // While earlier windows of it wait, this one does: a look for each of thousands would cost.
        if !self.bypass.is_quiescing(id) && self.connections.is_quiet(mem, id) {
            return true;
        }
        self.bypass.quiesce(&mut self.cx, id, what);
        false
    }

    /// Nobody copies to or from this window any more, or has had time enough to end.
    pub(crate) fn on_quiesced(&mut self, what: Ending) {
        match what {
            Ending::Remote(id) => self.windows.answer_unregister(&mut self.cx, id),
            Ending::Local(id) => self.windows.send_unregister(&mut self.cx, id),
            Ending::Endpoint(id) => self.cx.end_departure(id),
        }
    }

    /// Looks again whether clients still copy to or from windows that end.
    pub(crate) fn check_quiescing(&mut self, mem: &mut dyn Memory) {
        let is_quiet = |id| self.connections.is_quiet(mem, id);
        for what in self.bypass.take_quiesced(&mut self.cx, is_quiet) {
            self.on_quiesced(what);
        }
    }
}
