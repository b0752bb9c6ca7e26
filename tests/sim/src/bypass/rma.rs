//! Windows of both ends, and programs that copy to them on their own: they count themselves as
//! busy, check the epoch, copy piece by piece, and may stop or die between any two steps.
//!
//! The checks: once an unregister call has returned, no program copies to the window any more; its
//! pages stay as long as a program has them mapped; every unregister returns within a known time.

use scif_abi::Error;
use scif_abi::flags::{MapFlags, Protection};
use scif_abi::limits::{CLIENT_COPY_NS, CLIENT_LOOK_NS, PAGE_BYTES};
use scif_core::{Memory, Pages, PinId, Place, Run, Ticket};
use scif_ring::validity::{self, ValidityMemory};

use super::mapped::Mapped;
use super::{Bug, Node, World, expect};
use crate::faults::Fault;

/// Bytes that are copied in one step.
const PIECE: u64 = 64;

/// The state of a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Registering(Ticket),
    Live,
    /// Unregistered since this time in nanoseconds, but the call has not returned.
    Ending(Ticket, u64),
}

/// A window of an end. Each end has at most one that is not gone.
pub(super) struct Window {
    pin: u64,
    state: State,
}

/// A program's mapping of the other end's window.
pub(super) struct Copying {
    pub(super) mapped: scif_core::Mapped,
    /// The number of the pages that the mapping must reach.
    pin: u64,
    /// The epoch in which it was mapped.
    known: u32,
    /// Whether the program counts as copying.
    is_in: bool,
}

impl Copying {
    /// Ends the copying of a program that leaves in an orderly way: it no longer counts as
    /// copying.
    pub(super) fn end(&mut self, mapped: &mut Mapped, bug: Option<Bug>) {
        if std::mem::take(&mut self.is_in) && bug != Some(Bug::NoBusy) {
            validity::leave(mapped, self.known);
        }
    }
}

impl World {
    /// Registers or unregisters a window at some end.
    pub(super) fn window_step(&mut self) -> Result<(), String> {
        let at = self.rng.below(self.connections.len() as u64) as usize;
        let side = self.rng.below(2) as usize;
        let connection = &self.connections[at];
        if !connection.is_open[side] {
            return Ok(());
        }
        let (number, id) = (connection.nodes[side], connection.ends[side]);
        match self.windows.get(&(at, side)).map(|window| window.state) {
            None => self.register(at, side),
            Some(State::Live) => {
                let Node { engine, mem, .. } = &mut self.nodes[number];
                match engine.unregister(mem, id, 0, 2 * PAGE_BYTES as u64) {
                    Ok(ticket) => {
                        if let Some(window) = self.windows.get_mut(&(at, side)) {
                            window.state = State::Ending(ticket, self.now);
                        }
                        Ok(())
                    }
                    Err(error) => self.excuse(at, "unregister", error),
                }
            }
            Some(_) => Ok(()),
        }
    }

    fn register(&mut self, at: usize, side: usize) -> Result<(), String> {
        let connection = &self.connections[at];
        let (number, id) = (connection.nodes[side], connection.ends[side]);
        let pinned = self.fabric.borrow_mut().pin(number, 2, &mut self.rng);
        let Some(addresses) = pinned else {
            return Ok(());
        };
        self.last_pin += 1;
        let pin = self.last_pin;
        let run = |address: &u64| Run {
            address: *address,
            pages: 1,
        };
        let pages = Pages {
            pin: PinId(pin),
            runs: addresses.iter().map(run).collect(),
            is_charged: true,
        };
        let (protection, flags) = (Protection::all().bits(), MapFlags::FIXED.bits());
        let Node { engine, mem, .. } = &mut self.nodes[number];
        match engine.register(mem, id, pages, 0, protection, flags) {
            Ok(ticket) => {
                let state = State::Registering(ticket);
                self.windows.insert((at, side), Window { pin, state });
                self.pins.insert((number, pin), addresses);
                Ok(())
            }
            // An earlier window is gone but still mapped.
            Err(Error::AddressInUse) => {
                self.fabric.borrow_mut().unpin(number, &addresses);
                Ok(())
            }
            Err(error) => {
                self.fabric.borrow_mut().unpin(number, &addresses);
                self.excuse(at, "register", error)
            }
        }
    }

    /// Checks the error of a call: the connection must be over or spoilt.
    fn excuse(&self, at: usize, what: &str, error: Error) -> Result<(), String> {
        let connection = &self.connections[at];
        let is_over = connection.is_spoilt || connection.is_open != [true; 2];
        match is_over && [Error::ConnectionReset, Error::NotConnected].contains(&error) {
            true => Ok(()),
            false => Err(format!("connection {at}: {what}: {error:?}")),
        }
    }

    /// Unpins pages that the engine of a node does not need any more.
    pub(super) fn released(&mut self, number: usize, pin: PinId) -> Result<(), String> {
        let pages = self.pins.remove(&(number, pin.0));
        let pages = pages.ok_or_else(|| format!("{pin:?} was released, but is not in use"))?;
        self.fabric.borrow_mut().unpin(number, &pages);
        self.windows.retain(|_, window| window.pin != pin.0);
        Ok(())
    }

    /// Takes the results of register and unregister calls.
    pub(super) fn look_at_windows(&mut self) -> Result<(), String> {
        let mut ended = Vec::new();
        for (key @ (at, side), window) in &mut self.windows {
            let engine = &mut self.nodes[self.connections[*at].nodes[*side]].engine;
            match window.state {
                State::Registering(ticket) => match engine.finish(ticket) {
                    Some(Ok(_)) => window.state = State::Live,
                    Some(Err(_)) => ended.push(*key),
                    None => {}
                },
                State::Ending(ticket, since) => match engine.finish(ticket) {
                    Some(_) => ended.push(*key),
                    // Both ends may have to wait, one after the other.
                    None if self.now > since + 3 * CLIENT_COPY_NS => {
                        return Err(format!("connection {at}: unregister does not return"));
                    }
                    None => {}
                },
                State::Live => {}
            }
        }
        for key in ended {
            self.windows.remove(&key);
        }
        Ok(())
    }

    /// Makes a program take the next step of a copy.
    pub(super) fn copy_step(&mut self, which: usize) -> Result<(), String> {
        let program = &mut self.programs[which];
        let (at, side) = program.end;
        let connection = &self.connections[at];
        let Some(handle) = &mut program.bypass else {
            return Ok(());
        };
        let Some(copying) = &mut handle.copying else {
            return self.begin_copy(which);
        };
        let (skips_count, skips_look) = (
            self.bug == Some(Bug::NoBusy),
            self.bug == Some(Bug::NoEpoch),
        );
        if !copying.is_in {
            let known = match skips_look {
                true => handle.mapped.epoch(),
                false => copying.known,
            };
            let enters = match skips_count {
                true => handle.mapped.epoch() == known,
                false => validity::enter(&mut handle.mapped, known),
            };
            copying.is_in = enters;
            if !enters {
                self.end_copy(which);
            }
            return Ok(());
        }
        if self.rng.one_in(30) && self.bug.is_none() {
            self.die(which);
            return Ok(());
        }
        if self.rng.one_in(6) {
            let known = copying.known;
            copying.is_in = false;
            let stays = match skips_count {
                true => true,
                false => validity::leave(&mut handle.mapped, known) || skips_look,
            };
            if !stays {
                self.end_copy(which);
            }
            return Ok(());
        }
        // Copies the next piece.
        let window = self.windows.get(&(at, 1 - side));
        let is_there = window.is_some_and(|window| window.pin == copying.pin);
        let is_whole = !connection.is_spoilt && connection.is_open == [true; 2];
        if is_whole && !is_there {
            return Err(format!(
                "connection {at}: end {side} copies to a window that is gone"
            ));
        }
        let bytes = copying.mapped.pages * PAGE_BYTES as u64;
        let place = copying
            .mapped
            .place
            .offset(self.rng.below(bytes - PIECE + 1));
        let data = [self.rng.number() as u8; PIECE as usize];
        match place {
            Place::Own(address) => handle.mapped.mem.write(address, &data),
            Place::Peer(node, address) => {
                let stored = handle.mapped.mem.peer_write(node, address, &data);
                stored.map_err(|_| "a mapped page is no memory")?;
            }
        }
        self.report.copies += 1;
        Ok(())
    }

    /// Maps the window that the other end has registered.
    fn begin_copy(&mut self, which: usize) -> Result<(), String> {
        let program = &mut self.programs[which];
        let (at, side) = program.end;
        let connection = &self.connections[at];
        let Some(window) = self.windows.get(&(at, 1 - side)) else {
            return Ok(());
        };
        let Some(handle) = &mut program.bypass else {
            return Ok(());
        };
        if !connection.is_open[side] {
            return Ok(());
        }
        let known = handle.mapped.epoch();
        let engine = &mut self.nodes[connection.nodes[side]].engine;
        let (page, write) = (PAGE_BYTES as u64, Protection::WRITE.bits());
        match engine.map(connection.ends[side], 0, page, write) {
            Ok(mapped) => {
                handle.copying = Some(Copying {
                    mapped,
                    pin: window.pin,
                    known,
                    is_in: false,
                });
                Ok(())
            }
            // The window is being registered or unregistered.
            Err(Error::NoSuchAddress) => Ok(()),
            Err(error) => self.excuse(at, "map", error),
        }
    }

    /// Makes a program unmap a window, without saying that it no longer copies.
    pub(super) fn end_copy(&mut self, which: usize) {
        let program = &mut self.programs[which];
        let number = self.connections[program.end.0].nodes[program.end.1];
        let copying = program.bypass.as_mut().and_then(|d| d.copying.take());
        if let Some(copying) = copying {
            if copying.is_in {
                self.report.faults.note(Fault::ClientStopped);
            }
            let engine = &mut self.nodes[number].engine;
            engine.unmap(copying.mapped.window, copying.mapped.pages);
        }
    }

    /// Waits long enough for calls that wait for copies that never end.
    pub(super) fn wait_for_copies(&mut self) -> Result<(), String> {
        let waits = |window: &Window| window.state != State::Live;
        self.run_until_idle()?;
        for _ in 0..4 * CLIENT_COPY_NS / CLIENT_LOOK_NS {
            if !self.windows.values().any(waits) {
                break;
            }
            self.now += CLIENT_LOOK_NS;
            self.run_until_idle()?;
        }
        match self.windows.iter().find(|(_, window)| waits(window)) {
            Some(((at, side), _)) => Err(format!(
                "connection {at}: a call for a window of end {side} does not return"
            )),
            None => Ok(()),
        }
    }

    /// Checks, after all ends are closed, that no window and no page of one is left.
    pub(super) fn check_windows_gone(&self) -> Result<(), String> {
        let left: u64 = self
            .nodes
            .iter()
            .map(|node| {
                let stats = node.engine.stats();
                (stats.windows + stats.remote_windows) as u64 + stats.mapped_pages
            })
            .sum();
        expect(if left == 0 { Ok(()) } else { Err(left) }, "windows left")?;
        match self.pins.len() {
            0 => Ok(()),
            pins => Err(format!("{pins} pins left")),
        }
    }
}
