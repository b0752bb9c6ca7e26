//! The invariants of a world: after every step, when nothing is in progress, and at the end.

use scif_core::{Resource, Scope};

use crate::faults::Fault;
use crate::world::World;

impl World {
    pub(crate) fn check(&mut self) -> Result<(), String> {
        if let Some(fault) = self.fabric.borrow_mut().fault.take() {
            return Err(fault);
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(engine) = &node.engine else { continue };
            engine
                .check_invariants()
                .map_err(|what| format!("node {number}: {what}"))?;
            let pages = self.fabric.borrow().pages_used(number);
            if engine.stats().pages != pages {
                let counted = engine.stats().pages;
                return Err(format!(
                    "node {number}: {pages} pages in use, {counted} counted"
                ));
            }
        }
        if self.step.is_multiple_of(64) {
            self.model.check_all()?;
            self.check_held()?;
        }
        Ok(())
    }

    /// Checks that mapped memory is still there, whatever happened to the windows and connections.
    fn check_held(&self) -> Result<(), String> {
        for node in &self.nodes {
            let programs = node.programs.iter();
            let by_programs = programs.flat_map(|slot| slot.program.held());
            for held in by_programs.chain(&node.orphans) {
                held.check(&self.model)?;
            }
        }
        Ok(())
    }

    /// Returns whether the memory of a node may have gone while others used it.
    fn is_anyone_killed(&self) -> bool {
        let faults = &self.report.faults;
        faults.count(Fault::NodeKilled) + faults.count(Fault::DriverKilled) > 0
    }

    /// Checks that no program sleeps although its call has a result, while nothing can happen
    /// before time passes.
    pub(crate) fn check_asleep(&mut self) -> Result<(), String> {
        for number in 0..self.nodes.len() {
            let Some((mut context, programs)) = self.context(number) else {
                continue;
            };
            for slot in programs {
                slot.program.check_asleep(&mut context)?;
            }
        }
        Ok(())
    }

    /// Checks, when all programs have ended and all links are up, that nothing that two ends
    /// shared is left, without any link having to go down for it.
    pub(crate) fn check_gone(&self) -> Result<(), String> {
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(engine) = &node.engine else { continue };
            let stats = engine.stats();
            let objects = [stats.endpoints, stats.connections, engine.ports().count()];
            let memory = [stats.windows, stats.remote_windows, stats.jobs];
            if (objects, memory) != ([0; 3], [0; 3]) {
                return Err(format!(
                    "node {number}: although both ends are gone there are endpoints, connections \
                     and ports: {objects:?}, windows, peers' windows and jobs: {memory:?}"
                ));
            }
        }
        Ok(())
    }

    /// Takes all links down and checks that nothing is left.
    pub(crate) fn check_empty(&mut self) -> Result<(), String> {
        for number in 0..self.nodes.len() {
            for other in 0..self.nodes.len() {
                self.link_down(number, other);
            }
            self.pump(number)?;
            self.check()?;
            let Some(engine) = &self.nodes[number].engine else {
                continue;
            };
            let stats = engine.stats();
            let ports = engine.ports().count();
            let objects = [stats.endpoints, stats.connections, ports, stats.pages];
            let windows = [stats.windows, stats.remote_windows, stats.jobs];
            let pages = [stats.pinned_pages, stats.mapped_pages];
            if (objects, windows, pages) != ([0; 4], [0; 3], [0; 2]) {
                return Err(format!(
                    "node {number}: endpoints, connections, ports and pages left over: \
                     {objects:?}, windows, peers' windows and jobs: {windows:?}, pinned and mapped \
                     pages: {pages:?}"
                ));
            }
            let complaints = [
                stats.rings_reset,
                // A dead peer's memory reads as ones, so its queue pairs may look bad.
                if self.is_anyone_killed() {
                    0
                } else {
                    stats.bad_queue_pairs
                },
                stats.unknown_messages,
                if self.report.faults.count(Fault::LinkGivenUp) > 0 {
                    0
                } else {
                    stats.links_failed
                },
            ];
            let pinned = self.fabric.borrow().pages_pinned(number);
            let has_pages = |user| engine.used(Resource::Pages, Scope::User, user) != 0;
            if pinned != 0 || (0..2).any(has_pages) {
                return Err(format!("node {number}: {pinned} pinned pages left over"));
            }
            if complaints != [0; 4] {
                return Err(format!(
                    "node {number} complained about its peers: {complaints:?}"
                ));
            }
            self.collect_stats(number);
        }
        match self.model.left_over() {
            [0, 0] => Ok(()),
            left => Err(format!("pins and uses left over: {left:?}")),
        }
    }

    pub(crate) fn collect_stats(&mut self, number: usize) {
        let Some(engine) = &self.nodes[number].engine else {
            return;
        };
        let (sum, stats) = (&mut self.report.stats, engine.stats());
        sum.bytes_sent += stats.bytes_sent;
        sum.bytes_received += stats.bytes_received;
        sum.connected += stats.connected;
        sum.accepted += stats.accepted;
        sum.refused += stats.refused;
        sum.messages_sent += stats.messages_sent;
        sum.messages_received += stats.messages_received;
        sum.doorbells_rung += stats.doorbells_rung;
        sum.doorbells_saved += stats.doorbells_saved;
        sum.doorbells_received += stats.doorbells_received;
        sum.links_up += stats.links_up;
        sum.stale_ids += stats.stale_ids;
        sum.unexpected_messages += stats.unexpected_messages;
    }
}
