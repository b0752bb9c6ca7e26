//! The wire between the nodes, time, and the end of a world.

use mad_core::demo::MS;
use mad_core::frame::{FRAME_BYTES, decode};
use mad_core::node::Node;
use mad_core::rmpp::{LINGER_NS, MESSAGE_TIMEOUT_NS, kind};

use super::by_hand::ByHand;
use super::{Bug, CLASS, LIMIT, Program, World};
use crate::faults::Fault;

impl World {
    /// Carries at most `most` datagrams. Programs read what arrives at once.
    pub(super) fn carry(&mut self, most: u64) -> Result<(), String> {
        for _ in 0..most {
            self.launch()?;
            let Some((from, to, frame)) = self.wire.pop_front() else {
                break;
            };
            let Some(node) = &mut self.nodes[to] else {
                continue;
            };
            if node.receive(from as u16, &frame, self.now).is_err() {
                return Err(format!("node {from} sends what is no record"));
            }
            self.read_all()?;
        }
        Ok(())
    }

    /// Puts the datagrams that nodes send on the wire.
    fn launch(&mut self) -> Result<(), String> {
        for from in 0..self.nodes.len() {
            while let Some((to, frame)) = self.nodes[from].as_mut().and_then(Node::next_frame) {
                self.note_ended(from, to, &frame)?;
                self.put(from, usize::from(to), frame);
            }
        }
        Ok(())
    }

    fn note_ended(
        &mut self,
        from: usize,
        to: u16,
        frame: &[u8; FRAME_BYTES],
    ) -> Result<(), String> {
        let packet = decode(frame, from as u16, to).map_err(|_| "a node sends no record")?;
        let mad = &packet.mad;
        if mad.header.class == CLASS && matches!(mad.rmpp().kind, kind::STOP | kind::ABORT) {
            self.ended.insert(mad.header.tid.get() as u32);
        }
        Ok(())
    }

    fn put(&mut self, from: usize, to: usize, mut frame: [u8; FRAME_BYTES]) {
        if !self.is_good && self.rng.one_in(25) {
            self.report.faults.note(Fault::DatagramLost);
            return;
        }
        if self.settings.bug == Some(Bug::BytesChange) && self.rng.one_in(500) {
            frame[FRAME_BYTES - 10] ^= 1;
        }
        let mut copies = 1;
        if !self.is_good && self.rng.one_in(40) {
            self.report.faults.note(Fault::DatagramDoubled);
            copies = 2;
        }
        for _ in 0..copies {
            let length = self.wire.len() as u64;
            let at = match !self.is_good && self.rng.one_in(15) {
                true => self.rng.below(length + 1),
                false => length,
            };
            self.wire.insert(at as usize, (from, to, frame));
        }
    }

    pub(super) fn pass(&mut self, time: u64) -> Result<(), String> {
        self.now += time;
        let now = self.now;
        for node in self.nodes.iter_mut().flatten() {
            node.progress(now);
        }
        for at in 0..self.programs.len() {
            let program = self.programs[at].as_mut();
            if let Some(by_hand) = program.and_then(|program| program.by_hand.as_mut()) {
                by_hand.progress(now);
            }
            self.write_by_hand(at)?;
        }
        self.read_all()
    }

    // ---- The end ----

    fn is_by_hand(&self, at: usize) -> bool {
        self.programs[at]
            .as_ref()
            .is_some_and(|of| of.by_hand.is_some())
    }

    /// Ends the world: all requests must end over a wire that is good from now on.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.is_good = true;
        for call in self.calls.values_mut() {
            // A request that arrived before may arrive again.
            call.arrived = 0;
        }
        let until = self.now + LIMIT;
        while self.now < until {
            self.carry(u64::MAX)?;
            self.pass(500 * MS)?;
            let is_busy = |of: &Program| of.by_hand.as_ref().is_some_and(ByHand::is_busy);
            if self.calls.is_empty() && !self.programs.iter().flatten().any(is_busy) {
                break;
            }
        }
        for (number, call) in core::mem::take(&mut self.calls) {
            // A program that segments its messages would have to measure the timeout itself.
            if self.ended.contains(&number) || self.is_by_hand(call.client) {
                self.report.ended += 1;
            } else {
                return Err(format!("request {number} has no outcome"));
            }
        }
        for at in 0..self.programs.len() {
            self.kill(at);
        }
        for _ in 0..64 {
            self.pass(MESSAGE_TIMEOUT_NS + LINGER_NS)?;
            self.carry(u64::MAX)?;
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let kept = node.port().incoming();
            let built_in = if at == 0 { 2 } else { 0 };
            let left = [
                node.port().agents().iter().count() - built_in,
                node.port().sends(),
                kept.open + kept.complete,
                kept.bytes,
            ];
            if left != [0; 4] {
                return Err(format!(
                    "node {at}: agents, sends, messages, bytes left: {left:?}"
                ));
            }
        }
        Ok(())
    }
}
