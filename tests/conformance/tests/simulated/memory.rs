//! Memory of the simulated programs, and the calls on it: windows, mappings, transfers.

use conformance::bench::Side;
use conformance::call::{Call, NOWHERE, NULL, Reply};
use conformance::pattern;
use scif_abi::Error;
use scif_abi::flags::RmaFlags;
use scif_core::{
    Direction, EndpointId, EndpointState, Local, Memory, Pages, PinId, Place, RemoteWindowId, Rma,
    Run, Signal, Ticket,
};

use super::jobs::Work;
use super::world::{PAGE_BYTES, Pinnable};
use super::{Answer, Simulated, index, reply};

/// The kind of a slot of memory.
pub enum Region {
    /// Memory of the program.
    Own(PinId),
    /// Pages of the peer's windows; unmapped ones are `None`.
    Mapped(Vec<Option<(RemoteWindowId, Place)>>),
    /// The result of get_pages.
    Got { endpoint: EndpointId, cookie: u64 },
}

const PAGE: i64 = PAGE_BYTES as i64;

/// Pages in one piece of a program's memory. Pieces lie in reverse order, so that no two of them
/// are contiguous.
const PIECE_PAGES: usize = 4;

/// Whether a range is valid for register: whole pages, at least one.
fn is_paged(at: i64, length: u64) -> bool {
    at % PAGE == 0 && length > 0 && length.is_multiple_of(PAGE_BYTES as u64)
}

impl Simulated {
    /// Makes the calls on memory.
    pub(super) fn on_memory(&mut self, side: Side, call: &Call) -> Result<Reply, Work> {
        let holder = index(side);
        let ticket = |result: Result<Ticket, Error>| match result {
            Ok(ticket) => Err(Work::Ticket(ticket)),
            Err(error) => Ok(reply(Err(error))),
        };
        let answer = match *call {
            Call::Allocate { memory, pages } => self.allocate(holder, memory, pages as usize),
            Call::Free { memory } => {
                self.drop_region(holder, memory);
                Ok(0)
            }
            Call::Fill {
                memory,
                at,
                length,
                seed,
                from,
            } => {
                let mut bytes = vec![0; length as usize];
                pattern::fill(seed, from, &mut bytes);
                self.write(holder, memory, at, &bytes)
            }
            Call::Check {
                memory,
                at,
                length,
                seed,
                from,
            } => self.read(holder, memory, at, length as usize).map(|bytes| {
                pattern::mismatch(seed, from, &bytes).map_or(-1, |index| index as i64)
            }),
            Call::Load { memory, at } => self.load(holder, memory, at),
            Call::Store { memory, at, value } => {
                self.write(holder, memory, at, &value.to_le_bytes())
            }
            Call::Register { .. } => return ticket(self.register(side, call)),
            Call::Unregister {
                slot,
                offset,
                length,
            } => {
                return ticket(self.engine(side, slot, |node, id| {
                    node.engine.unregister(&mut node.memory, id, offset, length)
                }));
            }
            Call::ReadFrom { .. } | Call::WriteTo { .. } => {
                return ticket(self.transfer_windows(side, call));
            }
            Call::VirtualReadFrom { .. } | Call::VirtualWriteTo { .. } => {
                return self
                    .transfer_memory(side, call)
                    .unwrap_or_else(|error| Ok(reply(Err(error))));
            }
            Call::FenceMark { slot, flags } => {
                return ticket(
                    self.engine(side, slot, |node, id| node.engine.fence_mark(id, flags)),
                );
            }
            Call::FenceWait { slot, mark } => {
                return ticket(
                    self.engine(side, slot, |node, id| node.engine.fence_wait(id, mark)),
                );
            }
            Call::FenceSignal {
                slot,
                local,
                local_value,
                remote,
                remote_value,
                flags,
            } => {
                let signal = Signal {
                    local_offset: local,
                    local_value,
                    remote_offset: remote,
                    remote_value,
                    flags,
                };
                return ticket(
                    self.engine(side, slot, |node, id| node.engine.fence_signal(id, signal)),
                );
            }
            Call::Map { .. } => self.map(side, call),
            Call::Unmap { memory, at, length } => self.unmap(holder, memory, at, length),
            Call::GetPages { .. } => {
                return Ok(self
                    .get_pages(side, call)
                    .unwrap_or_else(|error| reply(Err(error))));
            }
            Call::PutPages { into } => match self.holders[holder].memory.get(&into) {
                Some(&Region::Got { endpoint, cookie }) => {
                    let node = &mut self.world.nodes[self.holders[holder].node];
                    let result = node.engine.put_pages(endpoint, cookie);
                    result.map(|()| 0)
                }
                _ => Err(Error::InvalidArgument),
            },
            _ => Err(Error::InvalidArgument),
        };
        Ok(reply(answer))
    }

    fn engine<T>(
        &mut self,
        side: Side,
        slot: u32,
        call: impl FnOnce(&mut super::world::Node, EndpointId) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let id = self.endpoint(side, slot)?;
        call(&mut self.world.nodes[self.holders[index(side)].node], id)
    }

    fn allocate(&mut self, holder: usize, slot: u32, pages: usize) -> Answer {
        let node = &mut self.world.nodes[self.holders[holder].node];
        let mut pieces = Vec::new();
        let mut left = pages;
        while left > 0 {
            let piece = left.min(PIECE_PAGES);
            let bytes = piece * PAGE_BYTES;
            let address = node.memory.allocate(bytes).ok_or(Error::NoMemory)?;
            pieces.push((address, piece));
            left -= piece;
        }
        let addresses = pieces.iter().rev().flat_map(|(address, piece)| {
            (0..*piece).map(move |page| address + (page * PAGE_BYTES) as u64)
        });
        let memory = Pinnable {
            pages: addresses.collect(),
            uses: 0,
            freed: false,
        };
        self.last_pin += 1;
        let pin = PinId(self.last_pin);
        node.pins.insert(pin, memory);
        self.holders[holder].memory.insert(slot, Region::Own(pin));
        Ok(0)
    }

    /// The slots of memory that a side has.
    pub(super) fn slots(&self, holder: usize) -> Vec<u32> {
        self.holders[holder].memory.keys().copied().collect()
    }

    /// Frees or unmaps memory, or puts pages back.
    pub(super) fn drop_region(&mut self, holder: usize, slot: u32) {
        let Some(region) = self.holders[holder].memory.remove(&slot) else {
            return;
        };
        let node = &mut self.world.nodes[self.holders[holder].node];
        match region {
            Region::Own(pin) => {
                node.pins.get_mut(&pin).expect("freed once").freed = true;
                node.release(pin);
            }
            Region::Mapped(pages) => {
                for (window, _) in pages.into_iter().flatten() {
                    node.engine.unmap(window, 1);
                }
            }
            // Closing the endpoint may have released the pages, or an earlier call.
            Region::Got { endpoint, cookie } => {
                let _ = node.engine.put_pages(endpoint, cookie);
            }
        }
    }

    /// The place of the byte at a position of a slot.
    fn place(&self, holder: usize, slot: u32, at: i64) -> Result<Place, Error> {
        let holder = &self.holders[holder];
        let page = usize::try_from(at / PAGE).map_err(|_| Error::BadAddress)?;
        let place = match holder.memory.get(&slot) {
            Some(Region::Own(pin)) => {
                let pinned = &self.world.nodes[holder.node].pins[pin];
                pinned.pages.get(page).map(|address| Place::Own(*address))
            }
            Some(Region::Mapped(pages)) => pages.get(page).copied().flatten().map(|(_, at)| at),
            _ => None,
        };
        let place = place.ok_or(Error::BadAddress)?;
        Ok(place.offset((at % PAGE) as u64))
    }

    /// Cuts a range into pieces within pages.
    fn pieces(
        &self,
        holder: usize,
        slot: u32,
        at: i64,
        length: usize,
    ) -> Result<Vec<(Place, usize)>, Error> {
        let mut pieces = Vec::new();
        let (mut at, end) = (at, at + length as i64);
        while at < end {
            let piece = (PAGE - at % PAGE).min(end - at);
            pieces.push((self.place(holder, slot, at)?, piece as usize));
            at += piece;
        }
        Ok(pieces)
    }

    /// Reads bytes of a program's memory.
    fn read(&self, holder: usize, slot: u32, at: i64, length: usize) -> Result<Vec<u8>, Error> {
        let memory = &self.world.nodes[self.holders[holder].node].memory;
        let mut bytes = Vec::new();
        for (place, count) in self.pieces(holder, slot, at, length)? {
            let mut piece = vec![0; count];
            match place {
                Place::Own(address) => memory.read(address, &mut piece),
                Place::Peer(node, address) => memory
                    .peer_read(node, address, &mut piece)
                    .map_err(|_| Error::BadAddress)?,
            }
            bytes.append(&mut piece);
        }
        Ok(bytes)
    }

    fn load(&self, holder: usize, slot: u32, at: i64) -> Answer {
        let bytes = self.read(holder, slot, at, 8)?;
        let word = bytes.try_into().map_err(|_| Error::BadAddress)?;
        Ok(i64::from_le_bytes(word))
    }

    /// Stores bytes into a program's memory.
    pub(super) fn write(&mut self, holder: usize, slot: u32, at: i64, bytes: &[u8]) -> Answer {
        let pieces = self.pieces(holder, slot, at, bytes.len())?;
        let memory = &mut self.world.nodes[self.holders[holder].node].memory;
        let mut rest = bytes;
        for (place, count) in pieces {
            let (piece, after) = rest.split_at(count);
            match place {
                Place::Own(address) => memory.write(address, piece),
                Place::Peer(node, address) => memory
                    .peer_write(node, address, piece)
                    .map_err(|_| Error::BadAddress)?,
            }
            rest = after;
        }
        Ok(0)
    }

    /// The pages of a range of a program's own memory, for the engine.
    fn pages(&self, holder: usize, slot: u32, at: i64, length: u64) -> Option<(PinId, Vec<Run>)> {
        let holder = &self.holders[holder];
        let Some(Region::Own(pin)) = holder.memory.get(&slot) else {
            return None;
        };
        let pinned = &self.world.nodes[holder.node].pins[pin];
        let first = usize::try_from(at / PAGE).ok()?;
        let end = (at as u64 + length).div_ceil(PAGE_BYTES as u64) as usize;
        let mut runs: Vec<Run> = Vec::new();
        for address in pinned.pages.get(first..end)? {
            match runs.last_mut() {
                Some(run) if run.address + u64::from(run.pages) * PAGE as u64 == *address => {
                    run.pages += 1;
                }
                _ => runs.push(Run {
                    address: *address,
                    pages: 1,
                }),
            }
        }
        Some((*pin, runs))
    }

    /// The error of an endpoint that is not connected.
    fn verify(&self, side: Side, id: EndpointId) -> Result<(), Error> {
        let node = &self.world.nodes[self.holders[index(side)].node];
        match node.engine.state(id) {
            None => Err(Error::BadDescriptor),
            Some(EndpointState::Connected) => Ok(()),
            Some(EndpointState::Disconnected) => Err(Error::ConnectionReset),
            Some(_) => Err(Error::NotConnected),
        }
    }

    fn register(&mut self, side: Side, call: &Call) -> Result<Ticket, Error> {
        let Call::Register {
            slot,
            memory,
            at,
            length,
            offset,
            protection,
            flags,
        } = *call
        else {
            return Err(Error::InvalidArgument);
        };
        let id = self.endpoint(side, slot)?;
        if !is_paged(at, length) {
            return Err(Error::InvalidArgument);
        }
        let Some((pin, runs)) = self.pages(index(side), memory, at, length) else {
            self.verify(side, id)?;
            return Err(Error::BadAddress);
        };
        let pages = Pages {
            pin,
            runs,
            is_charged: true,
        };
        let node = &mut self.world.nodes[self.holders[index(side)].node];
        let memory = &mut node.memory;
        let result = node
            .engine
            .register(memory, id, pages, offset, protection, flags);
        if result.is_ok() {
            node.pins.get_mut(&pin).expect("it is there").uses += 1;
        }
        result
    }

    fn transfer_windows(&mut self, side: Side, call: &Call) -> Result<Ticket, Error> {
        let (direction, slot, local, length, remote, flags) = match *call {
            Call::ReadFrom {
                slot,
                local,
                length,
                remote,
                flags,
            } => (Direction::Read, slot, local, length, remote, flags),
            Call::WriteTo {
                slot,
                local,
                length,
                remote,
                flags,
            } => (Direction::Write, slot, local, length, remote, flags),
            _ => return Err(Error::InvalidArgument),
        };
        let rma = Rma {
            direction,
            local: Local::Window(local),
            remote,
            length,
            flags,
        };
        self.engine(side, slot, |node, id| node.engine.rma(id, rma))
    }

    fn transfer_memory(&mut self, side: Side, call: &Call) -> Result<Result<Reply, Work>, Error> {
        let (direction, slot, memory, at, length, remote, flags) = match *call {
            Call::VirtualReadFrom {
                slot,
                memory,
                at,
                length,
                remote,
                flags,
            } => (Direction::Read, slot, memory, at, length, remote, flags),
            Call::VirtualWriteTo {
                slot,
                memory,
                at,
                length,
                remote,
                flags,
            } => (Direction::Write, slot, memory, at, length, remote, flags),
            _ => return Err(Error::InvalidArgument),
        };
        let id = self.endpoint(side, slot)?;
        if matches!(memory, NULL | NOWHERE) {
            let checked = self.engine(side, slot, |node, id| {
                (node.engine).check_transfer(id, direction, remote, length, flags)
            });
            return Err(checked.err().unwrap_or(Error::BadAddress));
        }
        let holder = index(side);
        let number = self.holders[holder].node;
        let cached = flags & RmaFlags::USECACHE.bits() != 0;
        if let Some((pin, runs)) = self.pages(holder, memory, at, length).filter(|_| cached) {
            let pages = Pages {
                pin,
                runs,
                is_charged: false,
            };
            let offset = (at % PAGE) as u64;
            let rma = Rma {
                direction,
                local: Local::Pages { pages, offset },
                remote,
                length,
                flags,
            };
            let node = &mut self.world.nodes[number];
            let ticket = node.engine.rma(id, rma)?;
            node.pins.get_mut(&pin).expect("it is there").uses += 1;
            return Ok(Err(Work::Ticket(ticket)));
        }
        let data = match direction {
            Direction::Write => self.read(holder, memory, at, length as usize)?,
            Direction::Read => vec![0; length as usize],
        };
        let node = &mut self.world.nodes[number];
        let engine = &mut node.engine;
        let ticket = engine.virtual_start(id, direction, remote, length, flags)?;
        Ok(Err(Work::Virtual {
            ticket,
            data,
            target: (direction == Direction::Read).then_some((memory, at)),
        }))
    }

    fn map(&mut self, side: Side, call: &Call) -> Answer {
        let Call::Map {
            slot,
            memory,
            offset,
            length,
            protection,
        } = *call
        else {
            return Err(Error::InvalidArgument);
        };
        let id = self.endpoint(side, slot)?;
        let node = &mut self.world.nodes[self.holders[index(side)].node];
        let mut pages = Vec::new();
        let mut map = || -> Result<(), Error> {
            let mut done = 0;
            loop {
                let (at, left) = (offset.wrapping_add(done as i64), length - done);
                let run = node.engine.map_run(id, at, left)?;
                let mapped = node.engine.map(id, at, run, protection)?;
                assert_eq!(
                    mapped.pages,
                    run / PAGE as u64,
                    "a run is mapped as promised"
                );
                for page in 0..mapped.pages {
                    let place = mapped.place.offset(page * PAGE as u64);
                    pages.push(Some((mapped.window, place)));
                }
                done += run;
                if done >= length {
                    return Ok(());
                }
            }
        };
        let result = map();
        let holder = index(side);
        self.holders[holder]
            .memory
            .insert(memory, Region::Mapped(pages));
        if result.is_err() {
            self.drop_region(holder, memory);
        }
        result.map(|()| 0)
    }

    fn unmap(&mut self, holder: usize, slot: u32, at: i64, length: u64) -> Answer {
        if !is_paged(at, length) {
            return Err(Error::InvalidArgument);
        }
        let number = self.holders[holder].node;
        let Some(Region::Mapped(pages)) = self.holders[holder].memory.get_mut(&slot) else {
            return Err(Error::InvalidArgument);
        };
        let first = (at / PAGE) as usize;
        let end = first + (length / PAGE as u64) as usize;
        let node = &mut self.world.nodes[number];
        for page in pages.get_mut(first..end).ok_or(Error::InvalidArgument)? {
            if let Some((window, _)) = page.take() {
                node.engine.unmap(window, 1);
            }
        }
        Ok(0)
    }

    fn get_pages(&mut self, side: Side, call: &Call) -> Result<Reply, Error> {
        let Call::GetPages {
            slot,
            into,
            offset,
            length,
        } = *call
        else {
            return Err(Error::InvalidArgument);
        };
        let endpoint = self.endpoint(side, slot)?;
        let holder = &mut self.holders[index(side)];
        if !holder.owner.is_privileged() {
            return Err(Error::AccessDenied);
        }
        let node = &mut self.world.nodes[holder.node];
        let memory = &mut node.memory;
        let got = node.engine.get_pages(endpoint, offset, length)?;
        let pages: u64 = got.runs.iter().map(|(_, pages)| pages).sum();
        let mut word = [0; 8];
        match got.runs[0].0 {
            Place::Own(address) => memory.read(address, &mut word),
            Place::Peer(peer, address) => memory
                .peer_read(peer, address, &mut word)
                .map_err(|_| Error::BadAddress)?,
        }
        let cookie = got.cookie;
        holder.memory.insert(into, Region::Got { endpoint, cookie });
        Ok(Reply {
            result: Ok(0),
            extra: vec![
                pages as i64,
                got.protection.into(),
                i64::from_le_bytes(word),
            ],
        })
    }
}
