//! The end of a world of bypass clients: the checks for programs that sleep although they have
//! something to do, and that nothing is left.

use scif_abi::bypass::STATE_CONNECTED;
use scif_abi::flags::Readiness;
use scif_core::Side;
use scif_ring::RingMemory;

use super::{Bug, Connection, Node, Program, World, expect};

impl World {
    /// Ends the world. Programs begin no new calls.
    pub(super) fn end(&mut self) -> Result<(), String> {
        for which in 0..self.programs.len() {
            let program = &mut self.programs[which];
            if let Some(handle) = &mut program.bypass
                && let Some(held) = program.holds.take()
            {
                handle.mapped.unlock(held);
            }
            let (at, side) = program.end;
            let connection = &self.connections[at];
            let Node { engine, mem, .. } = &mut self.nodes[connection.nodes[side]];
            if program.sending.take().is_some() && connection.is_open[side] {
                engine.hold_ring(mem, connection.ends[side], Side::Send, false);
            }
            let kicks = std::mem::take(&mut program.kicks);
            if !kicks.is_empty() && connection.is_open[side] && self.bug != Some(Bug::NoKick) {
                expect(engine.kick(connection.ends[side], kicks), "kick")?;
            }
        }
        self.clean_up_all();
        self.run_until_idle()?;
        // A program that finds its connection over leaves it.
        let is_over = |program: &Program| {
            let handle = program.bypass.as_ref();
            let state = handle.map(|handle| handle.mapped.state());
            state.is_some_and(|state| state != STATE_CONNECTED)
        };
        while let Some(which) = self.programs.iter().position(is_over) {
            self.leave(which)?;
        }
        self.run_until_idle()?;
        self.check_sleepers()?;
        self.stir()?;
        self.drain()?;
        while !self.programs.is_empty() {
            self.leave(0)?;
        }
        self.wait_for_copies()?;
        for at in 0..self.connections.len() {
            self.close_end(at, 0);
            self.close_end(at, 1);
        }
        self.run_until_idle()?;
        self.check_windows_gone()?;
        for (number, node) in self.nodes.iter().enumerate() {
            let stats = node.engine.stats();
            let link_pages = 1 + node.engine.config().node_ring_bytes as usize / 4096;
            let pages = self.fabric.borrow().pages_used(number);
            if stats.connections != 0 || stats.endpoints != 0 || pages != link_pages {
                return Err(format!("node {number}: {pages} pages left, {stats:?}"));
            }
        }
        Ok(())
    }

    /// Cleans up all dead programs.
    fn clean_up_all(&mut self) {
        while !self.dead.is_empty() {
            self.clean_up(0);
        }
    }

    /// Sends a byte on each connection, then receives some: programs that sleep for that must
    /// wake.
    fn stir(&mut self) -> Result<(), String> {
        for sends in [true, false] {
            for at in 0..self.connections.len() {
                for side in 0..2 {
                    if !self.is_whole(&self.connections[at]) {
                        continue;
                    }
                    let connection = &mut self.connections[at];
                    let stream = &mut connection.streams[side];
                    let Node { engine, mem, .. } = &mut self.nodes[connection.nodes[side]];
                    let id = connection.ends[side];
                    if sends {
                        let byte = stream.bytes(stream.sent, 1);
                        stream.sent += expect(engine.send(mem, id, &byte), "send")? as u64;
                        continue;
                    }
                    let mut buffer = [0; 8];
                    let count = expect(engine.recv(mem, id, &mut buffer), "recv")?;
                    self.received(at, side, &buffer[..count])?;
                }
            }
            self.run_until_idle()?;
            self.check_sleepers()?;
        }
        Ok(())
    }

    fn is_whole(&self, connection: &Connection) -> bool {
        !connection.is_spoilt && connection.is_open == [true; 2]
    }

    /// Checks that no program sleeps although the event it waits for has happened.
    fn check_sleepers(&self) -> Result<(), String> {
        for program in &self.programs {
            let (at, side) = program.end;
            let connection = &self.connections[at];
            if connection.is_spoilt || !connection.is_open[side] || program.sleeps.is_empty() {
                continue;
            }
            if !connection.is_open[1 - side] {
                return Err(format!("connection {at}: sleeps though the peer has gone"));
            }
            let [there, filled] = [1 - side, side].map(|from| {
                let stream = connection.streams[from];
                stream.sent - stream.received
            });
            // With a large ring, a reader may not have returned up to a quarter of it.
            let ring = u64::from(self.ring_bytes);
            let kept = if ring > 4096 { ring / 4 } else { 0 };
            let has_room = filled + 1 + kept < ring;
            if program.sleeps.contains(Readiness::IN) && there > 0
                || program.sleeps.contains(Readiness::OUT) && has_room
            {
                let kind = if program.bypass.is_some() {
                    "program"
                } else {
                    "call"
                };
                return Err(format!(
                    "connection {at}, end {side}: a {kind} sleeps for {:?} beside it",
                    program.sleeps
                ));
            }
        }
        Ok(())
    }

    /// Receives what is left: everything that was sent must arrive.
    fn drain(&mut self) -> Result<(), String> {
        for at in 0..self.connections.len() {
            for side in 0..2 {
                if !self.is_whole(&self.connections[at]) {
                    continue;
                }
                let Connection { nodes, ends, .. } = self.connections[at];
                let mut buffer = [0; 64];
                loop {
                    let Node { engine, mem, .. } = &mut self.nodes[nodes[side]];
                    let count = expect(engine.recv(mem, ends[side], &mut buffer), "recv")?;
                    if count == 0 {
                        break;
                    }
                    self.received(at, side, &buffer[..count])?;
                }
                let stream = self.connections[at].streams[1 - side];
                if stream.sent != stream.received {
                    let (sent, received) = (stream.sent, stream.received);
                    return Err(format!("connection {at}: {received} of {sent} bytes came"));
                }
            }
        }
        Ok(())
    }
}
