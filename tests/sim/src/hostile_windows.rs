//! The hostile peer's windows: page lists, structures and answers with random content, and the
//! victim's programs that register, copy, fence and map nevertheless.
//!
//! The checks: memory that was registered for reading only, and the memory of the stream within
//! the victim, keeps its content; no access reaches memory that is not registered (the simulated
//! memory checks that); every page is returned at the end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use scif_abi::flags::Protection;
use scif_abi::limits::PAGE_BYTES;
use scif_abi::message::NodeMessage;
use scif_abi::window::{WINDOW_BYTES, WindowFill, WindowRecord};
use scif_core::{
    Direction, EndpointId, Engine, Event, Local, Mapped, Memory, Pages, PinId, Rma, Run, Signal,
    Ticket,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::bystander;
use crate::dma::Copier;
use crate::hostile::{HOSTILE, VICTIM};
use crate::memory::{Fabric, NodeMemory};
use crate::peer::ScriptedPeer;
use crate::rng::Rng;

const PAGE: u64 = PAGE_BYTES as u64;

/// Most pages of a window, except in requests that are meant to fail.
const MOST_PAGES: u64 = 40;

/// Offset of the lookup arrays in a block with a structure. A table of each kind follows on a page
/// of its own.
const LOOKUPS_OFFSET: u64 = 256;

const _: () = assert!(WINDOW_BYTES as u64 <= LOOKUPS_OFFSET);

/// An opcode and the words of the message.
pub(crate) type Words = (u32, [u64; 4]);

/// Returns `right` in most cases, and a wrong number in the others.
fn roughly(rng: &mut Rng, right: u64) -> u64 {
    match rng.below(40) {
        0 => rng.number(),
        1 => right ^ 1 << rng.below(64),
        2 => 0,
        _ => right,
    }
}

/// Allocates and fills in a structure for a window of the victim. Returns its bus address.
pub(crate) fn lend(peer: &mut ScriptedPeer, rng: &mut Rng, pages: u64) -> u64 {
    let Some(local) = peer.memory.allocate(3 * PAGE_BYTES) else {
        return rng.number();
    };
    let own = peer.memory.export(VICTIM, local);
    let lookups = [own + LOOKUPS_OFFSET, own + LOOKUPS_OFFSET + 8];
    let tables = [own + PAGE, own + 2 * PAGE];
    let mut record = WindowRecord::granted(
        roughly(rng, pages) as u32,
        own,
        roughly(rng, lookups[0]),
        roughly(rng, lookups[1]),
    );
    record.magic = roughly(rng, record.magic.get()).into();
    peer.memory.write(local, record.as_bytes());
    for (at, table) in tables.into_iter().enumerate() {
        let entry = roughly(rng, table).to_le_bytes();
        peer.memory
            .write(local + LOOKUPS_OFFSET + 8 * at as u64, &entry);
    }
    own
}

/// Fills in the structure that the victim has lent at `address`. Returns the words of REGISTER.
pub(crate) fn fill(
    peer: &mut ScriptedPeer,
    rng: &mut Rng,
    victim_id: u64,
    user_window: u64,
    address: u64,
) -> Words {
    let mut record = WindowRecord::new_zeroed();
    let read = |peer: &ScriptedPeer, address, buffer: &mut [u8]| {
        // A lent structure is in the victim's memory. A wrong address only makes the list wrong.
        let _ = peer.memory.peer_read(VICTIM, address, buffer);
    };
    read(peer, address, record.as_mut_bytes());
    let pages = record.pages.get().clamp(0, MOST_PAGES as i64) as u64;
    let mut tables = [[0; 8]; 2];
    read(peer, record.addresses.address.get(), &mut tables[0]);
    read(peer, record.counts.address.get(), &mut tables[1]);
    let (mut left, mut chunks) = (pages, 0);
    while left > 0 {
        let count = 1 + rng.below(left);
        // Pages in the middle of the hostile node's memory, whatever they are used for there.
        let page = peer.memory.export(VICTIM, (100 + rng.below(900)) * PAGE);
        let entry = roughly(rng, page).to_le_bytes();
        peer.scribble(u64::from_le_bytes(tables[0]) + 8 * chunks, &entry);
        let entry = roughly(rng, count).to_le_bytes();
        peer.scribble(u64::from_le_bytes(tables[1]) + 8 * chunks, &entry);
        left -= count;
        chunks += 1;
    }
    let owner_window = rng.below(20);
    let place = some_offset(rng);
    let fill = WindowFill {
        chunks: roughly(rng, chunks) as u32,
        protection: roughly(rng, 3) as u32,
        offset: roughly(rng, place) as i64,
        endpoint: roughly(rng, victim_id),
        owner_window,
    };
    for (offset, bytes) in fill.stores() {
        peer.scribble(address + offset, &bytes);
    }
    let words = [
        roughly(rng, victim_id),
        roughly(rng, user_window),
        owner_window,
        0,
    ];
    (NodeMessage::REGISTER, words)
}

/// Returns a low offset, so that windows overlap.
fn some_offset(rng: &mut Rng) -> u64 {
    rng.below(12) * PAGE
}

/// Returns the answer of an honest peer to a message about windows or fences.
pub(crate) fn answer(
    peer: &mut ScriptedPeer,
    rng: &mut Rng,
    opcode: u32,
    words: [u64; 4],
) -> Option<Words> {
    let [first, second, third, fourth] = words;
    Some(match opcode {
        NodeMessage::ALLOC_REQUEST => {
            let address = lend(peer, rng, second);
            (NodeMessage::ALLOC_GRANT, [rng.below(30), address, third, 0])
        }
        NodeMessage::ALLOC_GRANT => fill(peer, rng, third, first, second),
        NodeMessage::REGISTER => (NodeMessage::REGISTER_ACK, words),
        NodeMessage::UNREGISTER => (NodeMessage::UNREGISTER_ACK, [0, second, 0, 0]),
        NodeMessage::MARK => (NodeMessage::MARK_ACK, [first, second, rng.below(9), 0]),
        NodeMessage::WAIT => (NodeMessage::WAIT_ACK, [first, second, 0, 0]),
        NodeMessage::SIGNAL_LOCAL | NodeMessage::SIGNAL_REMOTE => {
            (NodeMessage::SIGNAL_ACK, [first, 0, 0, fourth])
        }
        _ => return None,
    })
}

/// Returns a request that a peer may make: for a window or a fence. `victim_id` also serves as the
/// word that comes back with the structure, so that it is known then.
pub(crate) fn request(rng: &mut Rng, victim_id: u64) -> Words {
    let pages = match rng.below(12) {
        0 => rng.number(),
        1 => 0,
        2 => 1 << rng.below(20),
        _ => 1 + rng.below(MOST_PAGES),
    };
    let offset = some_offset(rng) + 4 * rng.below(1024);
    match rng.below(8) {
        0..5 => (NodeMessage::ALLOC_REQUEST, [victim_id, pages, victim_id, 0]),
        5 => (NodeMessage::MARK, [victim_id, rng.below(9), 0, 0]),
        6 => {
            let opcode = NodeMessage::SIGNAL_LOCAL + rng.below(2) as u32;
            (opcode, [victim_id, offset, rng.number(), rng.below(9)])
        }
        _ => (NodeMessage::WAIT, [victim_id, 1, rng.below(9), 0]),
    }
}

/// Memory of the victim's programs that the engine was given.
struct Pinned {
    pages: Vec<u64>,
    /// The content that the memory must have until it is released, if no one may write to it.
    content: Option<Vec<u8>>,
}

/// The windows of the stream within the victim: what is written to one end must arrive at the
/// other, and nothing else.
pub(crate) struct Neighbours {
    /// The page of each end.
    pages: [u64; 2],
    /// The content that the pages must have.
    content: [Vec<u8>; 2],
    /// The copy in progress: its ticket, the end that it copies from, the offset, and the number
    /// of bytes.
    copy: Option<(Ticket, usize, usize, usize)>,
    /// Number of copies that have arrived.
    pub(crate) copies: u64,
}

impl Neighbours {
    /// Registers a page at each end of the pair.
    pub(crate) fn new(
        fabric: &Rc<RefCell<Fabric>>,
        engine: &mut Engine,
        memory: &mut NodeMemory,
        pair: [EndpointId; 2],
        rng: &mut Rng,
    ) -> Result<Neighbours, String> {
        let pinned = fabric.borrow_mut().pin(usize::from(VICTIM), 2, rng);
        let Some([one, other]) = pinned.as_deref() else {
            return Err("no memory for the own windows".into());
        };
        let pages = [*one, *other];
        let content = pages.map(|_| vec![rng.number() as u8; PAGE_BYTES]);
        for (number, end) in pair.into_iter().enumerate() {
            memory.write(pages[number], &content[number]);
            let given = Pages {
                // Other pages never get so large a number.
                pin: PinId(u64::MAX - number as u64),
                runs: vec![Run {
                    address: pages[number],
                    pages: 1,
                }],
                is_charged: false,
            };
            let ticket = engine.register(memory, end, given, 0, 3, 0x10);
            let ticket = ticket.map_err(|error| format!("own window: {error}"))?;
            while engine.next_event(memory).is_some() {}
            if engine.finish(ticket) != Some(Ok(0)) {
                return Err("the own window is not registered".into());
            }
        }
        Ok(Neighbours {
            pages,
            content,
            copy: None,
            copies: 0,
        })
    }

    /// Checks that a copy has arrived and nothing else has changed, then copies from one end to
    /// the other.
    pub(crate) fn step(
        &mut self,
        engine: &mut Engine,
        memory: &mut NodeMemory,
        pair: [EndpointId; 2],
        rng: &mut Rng,
    ) -> Result<(), String> {
        if let Some((ticket, from, at, length)) = self.copy {
            let Some(result) = engine.finish(ticket) else {
                return Ok(());
            };
            result.map_err(|error| format!("own copy: {error}"))?;
            let data = self.content[from][at..at + length].to_vec();
            self.content[1 - from][at..at + length].copy_from_slice(&data);
            self.copy = None;
            self.copies += 1;
            let mut actual = vec![0; PAGE_BYTES];
            for (page, content) in self.pages.iter().zip(&self.content) {
                memory.read(*page, &mut actual);
                if actual != *content {
                    return Err("an own window holds what nobody wrote".into());
                }
            }
        }
        let from = rng.below(2) as usize;
        let at = rng.below(PAGE) as usize;
        let length = 1 + rng.below(PAGE - at as u64) as usize;
        let fresh = rng.number().to_le_bytes();
        let count = fresh.len().min(length);
        memory.write(self.pages[from] + at as u64, &fresh[..count]);
        self.content[from][at..at + count].copy_from_slice(&fresh[..count]);
        let rma = Rma {
            direction: Direction::Write,
            local: Local::Window(at as i64),
            remote: at as i64,
            length: length as u64,
            flags: 4,
        };
        let ticket = engine.rma(pair[from], rma);
        let ticket = ticket.map_err(|error| format!("own copy: {error}"))?;
        self.copy = Some((ticket, from, at, length));
        Ok(())
    }
}

/// The work of the victim's programs with registered memory.
pub(crate) struct Registered {
    fabric: Rc<RefCell<Fabric>>,
    copier: Copier,
    pinned: BTreeMap<u64, Pinned>,
    tickets: Vec<Ticket>,
    virtuals: Vec<(Ticket, Vec<u8>)>,
    mapped: Vec<(Mapped, u64)>,
    next: u64,
    /// Number of windows registered, of transfers and signals begun, and of peers' windows mapped.
    pub(crate) windows: u64,
    pub(crate) transfers: u64,
    pub(crate) mappings: u64,
}

impl Registered {
    pub(crate) fn new(fabric: &Rc<RefCell<Fabric>>, rng: &mut Rng) -> Registered {
        let queues = rng.one_in(2);
        Registered {
            fabric: Rc::clone(fabric),
            copier: Copier::new(Rng::new(rng.number()), queues, None),
            pinned: BTreeMap::new(),
            tickets: Vec::new(),
            virtuals: Vec::new(),
            mapped: Vec::new(),
            next: 0,
            windows: 0,
            transfers: 0,
            mappings: 0,
        }
    }

    /// Aborts the copies of the link to the hostile node, which goes down.
    pub(crate) fn abort(&mut self) {
        self.copier.abort(HOSTILE);
    }

    fn pin(&mut self, memory: &mut NodeMemory, rng: &mut Rng, is_safe: bool) -> Option<Pages> {
        let count = 1 + rng.below(6) as usize;
        let node = usize::from(VICTIM);
        let pages = self.fabric.borrow_mut().pin(node, count, rng)?;
        let content = vec![rng.number() as u8; PAGE_BYTES];
        for page in &pages {
            memory.write(*page, &content);
        }
        self.next += 1;
        let runs = pages.iter().map(|address| Run {
            address: *address,
            pages: 1,
        });
        let given = Pages {
            pin: PinId(self.next),
            runs: runs.collect(),
            is_charged: rng.one_in(2),
        };
        let content = is_safe.then(|| content.repeat(count));
        self.pinned.insert(self.next, Pinned { pages, content });
        Some(given)
    }

    fn unpin(&mut self, pin: PinId) -> Result<(), String> {
        if pin.0 >= bystander::PIN.0 {
            // These belong to the stream within the victim and to the third node, whose endpoints
            // are closed at the very end.
            return Ok(());
        }
        let Some(pinned) = self.pinned.remove(&pin.0) else {
            return Err(format!("{pin:?} was released, but is not in use"));
        };
        let node = usize::from(VICTIM);
        if let Some(content) = &pinned.content {
            let fabric = self.fabric.borrow();
            let mut pages = pinned.pages.iter().zip(content.chunks(PAGE_BYTES));
            if !pages.all(|(page, bytes)| fabric.bytes(node, *page, PAGE_BYTES) == bytes) {
                return Err(format!("{pin:?} was written to, which nobody may"));
            }
        }
        self.fabric.borrow_mut().unpin(node, &pinned.pages);
        Ok(())
    }

    /// Runs a turn of the driver.
    pub(crate) fn pump(
        &mut self,
        engine: &mut Engine,
        memory: &mut NodeMemory,
        budget: usize,
    ) -> Result<(), String> {
        self.copier.step(memory);
        engine.pump(memory, &mut self.copier, budget);
        while let Some(event) = engine.next_event(memory) {
            if let Event::Unpin(pin) = event {
                self.unpin(pin)?;
            }
        }
        Ok(())
    }

    /// Does something that a program might do with the endpoint.
    pub(crate) fn step(
        &mut self,
        engine: &mut Engine,
        memory: &mut NodeMemory,
        endpoint: EndpointId,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let local = some_offset(rng) as i64;
        let remote = (some_offset(rng) + rng.below(PAGE)) as i64;
        let direction = if rng.one_in(2) {
            Direction::Read
        } else {
            Direction::Write
        };
        let length = 1 + rng.size(20_000);
        let flags = rng.below(16) as u32;
        match rng.below(12) {
            0..3 => {
                let is_safe = rng.one_in(2);
                let protection = if is_safe {
                    Protection::READ
                } else {
                    Protection::all()
                };
                let Some(pages) = self.pin(memory, rng, is_safe) else {
                    return Ok(());
                };
                let pin = pages.pin;
                let result =
                    engine.register(memory, endpoint, pages, local, protection.bits(), 0x10);
                match result {
                    Ok(ticket) => {
                        self.windows += 1;
                        self.tickets.push(ticket);
                    }
                    Err(_) => self.unpin(pin)?,
                }
            }
            3 => {
                let length = (1 + rng.below(6)) * PAGE;
                let result = engine.unregister(memory, endpoint, local, length);
                self.tickets.extend(result.ok());
            }
            4..6 => {
                let rma = Rma {
                    direction,
                    local: Local::Window(local + rng.below(PAGE) as i64),
                    remote,
                    length,
                    flags,
                };
                let result = engine.rma(endpoint, rma);
                self.transfers += u64::from(result.is_ok());
                self.tickets.extend(result.ok());
            }
            6 => {
                let Some(pages) = self.pin(memory, rng, false) else {
                    return Ok(());
                };
                let (pin, offset) = (pages.pin, rng.below(PAGE));
                let length = length.min(pages.runs.len() as u64 * PAGE - offset);
                let rma = Rma {
                    direction,
                    local: Local::Pages { pages, offset },
                    remote,
                    length,
                    flags,
                };
                match engine.rma(endpoint, rma) {
                    Ok(ticket) => {
                        self.transfers += 1;
                        self.tickets.push(ticket);
                    }
                    Err(_) => self.unpin(pin)?,
                }
            }
            7 => {
                let result = engine.virtual_start(endpoint, direction, remote, length, flags);
                if let Ok(ticket) = result {
                    self.transfers += 1;
                    self.virtuals.push((ticket, vec![0; length as usize]));
                }
            }
            8 => {
                let result = engine.fence_mark(endpoint, 1 + rng.below(2) as u32);
                self.tickets.extend(result.ok());
                let result = engine.fence_wait(endpoint, rng.below(5) as i32);
                self.tickets.extend(result.ok());
            }
            9 => {
                let signal = Signal {
                    local_offset: local,
                    local_value: rng.number(),
                    remote_offset: remote & !3,
                    remote_value: rng.number(),
                    flags: 1 << rng.below(2) | 0x10 << rng.below(2),
                };
                let result = engine.fence_signal(endpoint, signal);
                self.tickets.extend(result.ok());
            }
            10 => {
                let offset = remote & !(PAGE as i64 - 1);
                if let Ok(run) = engine.map_run(endpoint, offset, PAGE)
                    && let Ok(mapped) = engine.map(endpoint, offset, run, 1)
                {
                    self.mappings += 1;
                    self.mapped.push((mapped, mapped.pages));
                }
            }
            _ => self.unmap_one(engine, rng),
        }
        self.collect(engine, memory, rng);
        Ok(())
    }

    fn unmap_one(&mut self, engine: &mut Engine, rng: &mut Rng) {
        if !self.mapped.is_empty() {
            let pick = rng.below(self.mapped.len() as u64) as usize;
            let (mapped, pages) = self.mapped.swap_remove(pick);
            engine.unmap(mapped.window, pages);
        }
    }

    /// Takes the results of calls, and abandons some calls.
    fn collect(&mut self, engine: &mut Engine, memory: &mut NodeMemory, rng: &mut Rng) {
        self.tickets.retain(|ticket| {
            if rng.one_in(50) {
                engine.abandon(memory, *ticket);
                return false;
            }
            engine.finish(*ticket).is_none()
        });
        self.virtuals.retain_mut(|(ticket, data)| {
            if rng.one_in(50) {
                engine.abandon(memory, *ticket);
                return false;
            }
            engine.virtual_step(memory, *ticket, data, 5000).is_none()
        });
    }

    /// Checks, after all endpoints are closed and the link is down, that everything is returned.
    pub(crate) fn finish(
        &mut self,
        engine: &mut Engine,
        memory: &mut NodeMemory,
    ) -> Result<(), String> {
        let mut rng = Rng::new(0);
        while !self.mapped.is_empty() {
            self.unmap_one(engine, &mut rng);
        }
        for ticket in self.tickets.drain(..) {
            if engine.finish(ticket).is_none() {
                return Err(format!("{ticket:?} outlives its endpoint"));
            }
        }
        for (ticket, mut data) in self.virtuals.drain(..) {
            if engine.virtual_step(memory, ticket, &mut data, 1).is_none() {
                return Err(format!("{ticket:?} outlives its endpoint"));
            }
        }
        for _ in 0..1000 {
            self.pump(engine, memory, 1 << 20)?;
        }
        let stats = engine.stats();
        let left = [
            self.pinned.len(),
            stats.windows,
            stats.remote_windows,
            stats.jobs,
            stats.pinned_pages as usize,
            stats.mapped_pages as usize,
        ];
        if left != [0; 6] {
            return Err(format!(
                "pins, windows, peers' windows, jobs, pinned and mapped pages left over: {left:?}"
            ));
        }
        Ok(())
    }
}
