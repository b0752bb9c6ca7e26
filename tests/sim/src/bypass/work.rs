//! The work of the programs, through the engine or directly on the rings.

use scif_abi::Error;
use scif_abi::bypass::{STATE_CONNECTED, STATE_DISCONNECTED};
use scif_abi::flags::{Kicks, Readiness};
use scif_core::Place;
use scif_ring::{Moved, RingError, RingMemory, Side};

use crate::faults::Fault;

use super::{Bug, Connection, Dead, Handle, MAX_BYTES, Node, World, expect, mapped};

/// The result of moving bytes.
type Outcome = Result<Moved, RingError<mapped::Dead>>;

/// Sends all bytes by the short way, as the client library does. Returns `None` if that is not
/// possible; then nothing was sent.
fn send_short(handle: &mut Handle, bytes: &[u8]) -> Option<Outcome> {
    let (producer, mapped) = (&handle.producer, &mut handle.mapped);
    if !mapped.try_lock(Side::Send, handle.number) {
        return None;
    }
    let place = producer.place_short(mapped, bytes.len());
    let Some((place, offset)) = place.and_then(|place| Some((place, producer.offset(place)?)))
    else {
        mapped.unlock(Side::Send);
        return None;
    };
    let put = mapped
        .write_peer(offset, bytes)
        .and_then(|()| producer.put_placed(mapped, place));
    let notify = put.map(|()| producer.unlock_and_must_notify(mapped));
    let bytes = bytes.len();
    Some(match notify {
        Ok(notify) => Ok(Moved { bytes, notify }),
        Err(dead) => Err(RingError::Memory(dead)),
    })
}

/// Receives the bytes that are there by the short way, as the client library does. Returns `None`
/// if that is not possible; then nothing was received.
fn take_short(handle: &mut Handle, buffer: &mut [u8]) -> Option<Outcome> {
    let (consumer, mapped) = (&handle.consumer, &mut handle.mapped);
    if !mapped.try_lock(Side::Receive, handle.number) {
        return None;
    }
    let wanted = |there: usize| Some(there.min(buffer.len())).filter(|count| *count > 0);
    let found = consumer.find_short(mapped, wanted).ok().flatten();
    let Some((found, offset)) = found.and_then(|found| Some((found, consumer.offset(found)?)))
    else {
        mapped.unlock(Side::Receive);
        return None;
    };
    mapped.read(offset, &mut buffer[..found.bytes]);
    let bytes = found.bytes;
    let given = match consumer.take_found(mapped, found) {
        true => consumer.give_back(mapped),
        false => Ok(false),
    };
    mapped.unlock(Side::Receive);
    Some(given.map(|given| Moved {
        bytes,
        notify: given && consumer.must_notify(mapped),
    }))
}

impl World {
    /// Makes a program do something.
    pub(super) fn work(&mut self, which: usize) -> Result<(), String> {
        if !self.programs[which].sleeps.is_empty() {
            return Ok(());
        }
        if self.programs[which].bypass.is_some() {
            return self.work_directly(which);
        }
        let (at, side) = self.programs[which].end;
        if !self.connections[at].is_open[side] {
            self.programs.swap_remove(which);
            return Ok(());
        }
        let is_taken = self.connections[at].turns[side].is_some();
        match self.programs[which].sending {
            Some(left) => self.send_part(which, left),
            // The daemon's transfer queue runs one call after the other.
            None if is_taken => self.receive(which),
            None if self.rng.one_in(12) => {
                self.connections[at].turns[side] = Some(0);
                let Connection { nodes, ends, .. } = self.connections[at];
                let Node { engine, mem, .. } = &mut self.nodes[nodes[side]];
                engine.hold_ring(mem, ends[side], Side::Send, true);
                let left = 1 + self.rng.below(u64::from(self.ring_bytes) * 2);
                self.send_part(which, left)
            }
            None if self.rng.one_in(2) => {
                let count = 1 + self.rng.size(MAX_BYTES);
                self.send(which, count).map(|_| ())
            }
            None => self.receive(which),
        }
    }

    /// Sends the next part of a long send through the engine.
    fn send_part(&mut self, which: usize, left: u64) -> Result<(), String> {
        let sent = self.send(which, left)?;
        let left = left - sent.unwrap_or(left);
        self.programs[which].sending = (left > 0).then_some(left);
        let (at, side) = self.programs[which].end;
        if let Some(turn) = &mut self.connections[at].turns[side] {
            *turn += sent.unwrap_or(0);
        }
        if left == 0 {
            self.connections[at].turns[side] = None;
            let Connection { nodes, ends, .. } = self.connections[at];
            let Node { engine, mem, .. } = &mut self.nodes[nodes[side]];
            engine.hold_ring(mem, ends[side], Side::Send, false);
        }
        Ok(())
    }

    /// Sends through the engine. Returns `None` if the connection is over.
    fn send(&mut self, which: usize, count: u64) -> Result<Option<u64>, String> {
        let (at, side) = self.programs[which].end;
        let connection = &mut self.connections[at];
        let stream = &mut connection.streams[side];
        let bytes = stream.bytes(stream.sent, count);
        let Node { engine, mem, .. } = &mut self.nodes[connection.nodes[side]];
        match engine.send(mem, connection.ends[side], &bytes) {
            Ok(0) => {
                self.programs[which].sleeps = Readiness::OUT;
                self.report.sleeps += 1;
                Ok(Some(0))
            }
            Ok(sent) => {
                stream.sent += sent as u64;
                self.report.bytes[0] += sent as u64;
                Ok(Some(sent as u64))
            }
            Err(error) => self.lost(at, side, error).map(|()| None),
        }
    }

    fn receive(&mut self, which: usize) -> Result<(), String> {
        let (at, side) = self.programs[which].end;
        let connection = &mut self.connections[at];
        let mut buffer = vec![0; 1 + self.rng.size(MAX_BYTES) as usize];
        let Node { engine, mem, .. } = &mut self.nodes[connection.nodes[side]];
        match engine.recv(mem, connection.ends[side], &mut buffer) {
            Ok(0) => {
                self.programs[which].sleeps = Readiness::IN;
                self.report.sleeps += 1;
            }
            Ok(count) => {
                self.report.bytes[0] += count as u64;
                self.received(at, side, &buffer[..count])?;
            }
            Err(error) => self.lost(at, side, error)?,
        }
        Ok(())
    }

    /// Checks that bytes received are the next of their stream.
    pub(super) fn received(&mut self, at: usize, side: usize, bytes: &[u8]) -> Result<(), String> {
        let connection = &mut self.connections[at];
        let stream = &mut connection.streams[1 - side];
        let expected = stream.bytes(stream.received, bytes.len() as u64);
        stream.received += bytes.len() as u64;
        if connection.is_spoilt {
            return Ok(());
        }
        if expected != bytes || stream.received > stream.sent {
            return Err(format!("connection {at}: wrong bytes at end {side}"));
        }
        Ok(())
    }

    /// Checks a call that reported the connection as over: a program must have closed or spoilt
    /// it.
    fn lost(&mut self, at: usize, side: usize, error: Error) -> Result<(), String> {
        let connection = &self.connections[at];
        if error != Error::ConnectionReset {
            return Err(format!("connection {at}: {error:?}"));
        }
        if connection.is_open[1 - side] && !connection.is_spoilt {
            return Err(format!("connection {at}, end {side}, is lost for nothing"));
        }
        Ok(())
    }

    /// Makes a program do something directly on the rings.
    fn work_directly(&mut self, which: usize) -> Result<(), String> {
        let choice = self.rng.below(100);
        let program = &mut self.programs[which];
        let (at, side) = program.end;
        let connection = &mut self.connections[at];
        let Some(handle) = &mut program.bypass else {
            return Ok(());
        };
        let engine = &mut self.nodes[connection.nodes[side]].engine;
        let id = connection.ends[side];
        if !program.kicks.is_empty() {
            let kicks = std::mem::take(&mut program.kicks);
            // Another program may have closed the endpoint.
            if self.bug != Some(Bug::NoKick) && connection.is_open[side] {
                expect(engine.kick(id, kicks), "kick")?;
            }
            return Ok(());
        }
        let state = handle.mapped.state();
        if let Some(held) = program.holds.take() {
            handle.mapped.unlock(held);
            return Ok(());
        }
        match choice {
            _ if state != STATE_CONNECTED && state != STATE_DISCONNECTED => self.leave(which),
            0..2 => self.leave(which),
            20..75 if self.has_windows => self.copy_step(which),
            2 if self.bug.is_none() && self.rng.one_in(4) => {
                self.scribble(which);
                Ok(())
            }
            3..5 if state == STATE_CONNECTED => {
                let held = [Side::Send, Side::Receive][self.rng.below(2) as usize];
                if handle.mapped.locks && handle.mapped.try_lock(held, handle.number) {
                    program.holds = Some(held);
                    self.report.faults.note(Fault::ClientStopped);
                }
                Ok(())
            }
            5..7 if state == STATE_CONNECTED && self.bug.is_none() => {
                handle.mapped.life = Some(self.rng.below(7) as u32);
                self.move_directly(which, state)?;
                self.die(which);
                Ok(())
            }
            _ => self.move_directly(which, state),
        }
    }

    /// Sends or receives some bytes directly on the rings.
    fn move_directly(&mut self, which: usize, state: u32) -> Result<(), String> {
        let program = &mut self.programs[which];
        let (at, side) = program.end;
        let Some(handle) = &mut program.bypass else {
            return Ok(());
        };
        let sends = state == STATE_CONNECTED && self.rng.one_in(2);
        let count = 1 + self.rng.size(MAX_BYTES);
        let connection = &mut self.connections[at];
        let (wanted, kick) = match sends {
            true => (Readiness::OUT, Kicks::BYTES),
            false => (Readiness::IN, Kicks::ROOM),
        };
        let mut buffer = vec![0; count as usize];
        let is_short = self.rng.one_in(2);
        let moved = if sends {
            let stream = connection.streams[side];
            let bytes = stream.bytes(stream.sent, count);
            match is_short.then(|| send_short(handle, &bytes)).flatten() {
                Some(moved) => {
                    self.report.short[0] += 1;
                    moved
                }
                None => handle
                    .producer
                    .send(&mut handle.mapped, handle.number, &bytes),
            }
        } else if is_short
            && state == STATE_CONNECTED
            && let Some(moved) = take_short(handle, &mut buffer)
        {
            self.report.short[1] += 1;
            moved
        } else if state == STATE_CONNECTED {
            handle
                .consumer
                .receive(&mut handle.mapped, handle.number, &mut buffer)
        } else {
            let drained = handle
                .consumer
                .drain(&mut handle.mapped, handle.number, &mut buffer);
            drained.map(|bytes| Moved {
                bytes,
                notify: false,
            })
        };
        let moved = match moved {
            Ok(moved) => moved,
            Err(RingError::Locked) => {
                self.report.contended += 1;
                return Ok(());
            }
            // The program died. The position in the ring shows what it did before.
            Err(RingError::Memory(mapped::Dead)) => return Ok(()),
            Err(RingError::BadIndex) if connection.is_spoilt => return Ok(()),
            Err(RingError::BadIndex) => return Err(format!("connection {at}: bad index")),
        };
        if handle.mapped.life == Some(0) {
            return Ok(());
        }
        if moved.notify {
            program.kicks |= kick;
        }
        if moved.bytes > 0 {
            self.report.bytes[1] += moved.bytes as u64;
            if sends {
                if connection.turns[side].is_some_and(|sent| sent > 0) && !connection.is_spoilt {
                    return Err(format!("connection {at}: bytes came between"));
                }
                connection.streams[side].sent += moved.bytes as u64;
                return Ok(());
            }
            return self.received(at, side, &buffer[..moved.bytes]);
        }
        if state != STATE_CONNECTED {
            return self.leave(which);
        }
        if self.rng.one_in(2) || !connection.is_open[side] {
            return Ok(());
        }
        // The program sleeps in the daemon, unless the event has happened meanwhile.
        let Node { engine, mem, .. } = &mut self.nodes[connection.nodes[side]];
        let is_ready = self.bug != Some(Bug::NoArm)
            && !engine.arm(mem, connection.ends[side], wanted).is_empty();
        if !is_ready {
            program.sleeps = wanted;
            self.report.sleeps += 1;
        }
        Ok(())
    }

    /// Makes a program unmap everything and close its handle.
    pub(super) fn leave(&mut self, which: usize) -> Result<(), String> {
        if let Some(handle) = &mut self.programs[which].bypass
            && let Some(copying) = &mut handle.copying
        {
            copying.end(&mut handle.mapped, self.bug);
        }
        self.end_copy(which);
        let program = self.programs.swap_remove(which);
        let (at, side) = program.end;
        if let Some(handle) = program.bypass {
            let Node { engine, mem, .. } = &mut self.nodes[self.connections[at].nodes[side]];
            engine.close_bypass(mem, handle.id);
        }
        Ok(())
    }

    /// Kills a program where it is. What it has locked, counted and mapped stays as it is until
    /// the system cleans up, some steps later.
    pub(super) fn die(&mut self, which: usize) {
        let program = &self.programs[which];
        let (at, side) = program.end;
        let Some(handle) = &program.bypass else {
            return;
        };
        self.report.faults.note(Fault::ClientKilled);
        // The bytes that it had moved by its death count as moved.
        let connection = &mut self.connections[at];
        if !connection.is_spoilt {
            connection.streams[side].sent = handle.mapped.position(Side::Send);
            connection.streams[1 - side].received = handle.mapped.position(Side::Receive);
        }
        let node = connection.nodes[side];
        let program = self.programs.swap_remove(which);
        if let Some(mut handle) = program.bypass {
            let window = handle.copying.take().map(|copying| copying.mapped);
            let id = handle.id;
            self.dead.push(Dead { node, id, window });
        }
    }

    /// Takes one thing back that a dead program had: first its mapped part of a window, then its
    /// handle.
    pub(super) fn clean_up(&mut self, which: usize) {
        let dead = &mut self.dead[which];
        let Node { engine, mem, .. } = &mut self.nodes[dead.node];
        if let Some(window) = dead.window.take() {
            engine.unmap(window.window, window.pages);
            return;
        }
        engine.close_bypass(mem, dead.id);
        self.dead.swap_remove(which);
    }

    /// Makes a program store nonsense into the memory that it has mapped.
    fn scribble(&mut self, which: usize) {
        let program = &mut self.programs[which];
        let Some(handle) = &mut program.bypass else {
            return;
        };
        let connection = &mut self.connections[program.end.0];
        self.report.faults.note(Fault::ClientScribbled);
        connection.is_spoilt = true;
        let mapped = &mut handle.mapped;
        let is_connected = mapped.state() == STATE_CONNECTED;
        for _ in 0..1 + self.rng.below(8) {
            let value = match self.rng.below(4) {
                0 => 0,
                1 => self.rng.below(256),
                2 => u64::MAX - self.rng.below(256),
                _ => self.rng.number(),
            };
            // These words matter most. Some stores hit the rest of the pages.
            let word =
                [0, 8, 64, 72, 128, 136, 192, 256, 320, 244, 208][self.rng.below(11) as usize];
            let at = if self.rng.one_in(3) {
                self.rng.below(500) * 8
            } else {
                word
            };
            let place = match self.rng.below(4) {
                0 => Place::Own(mapped.control),
                1 => Place::Own(mapped.own),
                2 if is_connected => mapped.peer,
                _ if is_connected => mapped.peer_ring,
                _ => Place::Own(mapped.own + 4096),
            };
            let stored = mapped.store(place.offset(at), &value.to_le_bytes());
            assert!(stored.is_ok(), "it lives");
        }
    }
}
