//! A model of every byte of registered memory: the pinned memory of all programs, the windows they
//! registered, and the transfers in progress.
//!
//! Transfers are weakly ordered, so a program begins a transfer only if no other transfer in
//! progress writes any of its bytes or reads any byte it writes. Each byte then has the value in
//! the model or, if a transfer in progress writes it, the value being written. Once the transfer
//! is known to be over, the byte must have the new value.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use scif_abi::limits::PAGE_BYTES;
use scif_core::{EndpointId, Memory, PinId, Run};

use crate::memory::{Fabric, NodeMemory};
use crate::rng::Rng;
use crate::spaces::{End, WindowState};

/// Names a pin or a use: its node, and its number.
pub type Key = (usize, u64);

/// Memory that a program pinned.
#[derive(Debug)]
pub struct Pin {
    /// Local address of each page.
    pages: Vec<u64>,
    /// The content, without the writes of transfers in progress.
    content: Vec<u8>,
    /// Number of windows and transfers for which the engine uses the memory and has not released
    /// it yet.
    uses: u32,
    /// Whether a canary unpinned the memory too early.
    is_gone: bool,
}

/// Some bytes of a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The pin.
    pub pin: Key,
    /// The bytes, as offsets in the pin.
    pub bytes: Range<usize>,
}

/// A transfer that may still be in progress.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The end whose engine executes the transfer, and the other end.
    pub ends: [u64; 2],
    /// Whether it is the store of a fence_signal.
    pub is_signal: bool,
    /// The source, or nothing if the source is not pinned memory.
    pub from: Vec<Segment>,
    /// The destination, or nothing if the destination is not pinned memory.
    pub to: Vec<Segment>,
    /// The bytes that arrive at the destination.
    pub data: Vec<u8>,
    /// Whether the last byte must arrive last.
    pub is_ordered: bool,
    /// Whether a link broke, an end was closed or the call failed, so that only a part may arrive
    /// and bytes may read as ones.
    pub is_lost: bool,
    /// The two nodes.
    pub nodes: [usize; 2],
}

/// One use that the engine makes of a pin.
#[derive(Clone, Copy, Debug)]
struct Use {
    pin: Key,
    /// The transfer that ends together with this use, if any.
    transfer: Option<u64>,
}

/// Counts that show that a simulation did something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Number of windows registered.
    pub windows: u64,
    /// Number of windows unregistered by a call.
    pub unregistered: u64,
    /// Number of transfers that are known to have arrived.
    pub transfers: u64,
    /// Number of bytes in these transfers.
    pub bytes: u64,
    /// Number of marks waited for.
    pub marks: u64,
    /// Number of signals seen.
    pub signals: u64,
    /// Number of mappings made.
    pub mappings: u64,
    /// Number of calls that failed as they should.
    pub refused: u64,
}

impl Counts {
    /// Adds the counts of another simulation.
    pub fn add(&mut self, other: &Counts) {
        self.windows += other.windows;
        self.unregistered += other.unregistered;
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.marks += other.marks;
        self.signals += other.signals;
        self.mappings += other.mappings;
        self.refused += other.refused;
    }
}

/// All pins, uses, transfers and ends.
pub struct Model {
    fabric: Rc<RefCell<Fabric>>,
    pins: BTreeMap<Key, Pin>,
    uses: BTreeMap<Key, Use>,
    transfers: BTreeMap<u64, Transfer>,
    /// The ends, by the seeds of their streams.
    pub ends: BTreeMap<u64, End>,
    next: u64,
    /// Whether the memory of some node is lost.
    has_died: bool,
    /// When set (a canary), pages are unpinned when their window is unregistered.
    pub unpins_early: bool,
    /// The counts.
    pub counts: Counts,
}

fn overlap(a: &[Segment], b: &[Segment]) -> bool {
    let meet = |x: &Segment, y: &Segment| {
        x.pin == y.pin && x.bytes.start < y.bytes.end && y.bytes.start < x.bytes.end
    };
    a.iter().any(|x| b.iter().any(|y| meet(x, y)))
}

impl Model {
    /// Makes a model in which nothing is pinned.
    pub fn new(fabric: &Rc<RefCell<Fabric>>) -> Model {
        Model {
            fabric: Rc::clone(fabric),
            pins: BTreeMap::new(),
            uses: BTreeMap::new(),
            transfers: BTreeMap::new(),
            ends: BTreeMap::new(),
            next: 1,
            has_died: false,
            unpins_early: false,
            counts: Counts::default(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    // Pinned memory.

    /// Pins memory with random content for one use. Returns the key of the pin and the number of
    /// the use.
    pub fn pin(&mut self, node: usize, pages: usize, rng: &mut Rng) -> Option<(Key, u64)> {
        let pages = self.fabric.borrow_mut().pin(node, pages, rng)?;
        let key = (node, self.number());
        let content: Vec<u8> = (0..pages.len() * PAGE_BYTES / 8)
            .flat_map(|_| rng.number().to_le_bytes())
            .collect();
        let mut memory = NodeMemory::new(&self.fabric, node);
        for (page, bytes) in pages.iter().zip(content.chunks(PAGE_BYTES)) {
            memory.write(*page, bytes);
        }
        let uses = 0;
        self.pins.insert(
            key,
            Pin {
                pages,
                content,
                uses,
                is_gone: false,
            },
        );
        let use_id = self.use_again(key)?;
        Some((key, use_id))
    }

    /// Adds a use of memory that is pinned already. Returns the number of the use.
    pub fn use_again(&mut self, pin: Key) -> Option<u64> {
        let number = self.number();
        self.pins.get_mut(&pin)?.uses += 1;
        let transfer = None;
        self.uses.insert((pin.0, number), Use { pin, transfer });
        Some(number)
    }

    /// Records that this use ends together with transfer `id`.
    pub fn bind_use(&mut self, node: usize, use_id: u64, id: u64) {
        if let Some(entry) = self.uses.get_mut(&(node, use_id)) {
            entry.transfer = Some(id);
        }
    }

    /// Picks a pin of a node at random.
    pub fn any_pin(&self, node: usize, rng: &mut Rng) -> Option<Key> {
        let on_node = |(key, pin): &(&Key, &Pin)| key.0 == node && !pin.is_gone;
        let pins = self.pins.iter().filter(on_node);
        let keys: Vec<Key> = pins.map(|(key, _)| *key).collect();
        keys.get(rng.below(keys.len() as u64) as usize).copied()
    }

    /// Returns the number of pages of a pin.
    pub fn pages(&self, pin: Key) -> usize {
        self.pins.get(&pin).map_or(0, |pin| pin.pages.len())
    }

    /// Returns the local address of the byte at offset `at` of a pin.
    pub fn address(&self, pin: Key, at: usize) -> Option<u64> {
        let page = self.pins.get(&pin)?.pages.get(at / PAGE_BYTES)?;
        Some(page + (at % PAGE_BYTES) as u64)
    }

    /// Returns the contiguous runs of a pin, some of them split at random.
    pub fn runs(&self, pin: Key, rng: &mut Rng) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let pages = self.pins.get(&pin).map_or(&[][..], |pin| &pin.pages);
        for address in pages {
            match runs.last_mut() {
                Some(run)
                    if run.address + u64::from(run.pages) * PAGE_BYTES as u64 == *address
                        && !rng.one_in(8) =>
                {
                    run.pages += 1;
                }
                _ => runs.push(Run {
                    address: *address,
                    pages: 1,
                }),
            }
        }
        runs
    }

    /// Handles the end of a use, which the engine reported. The checks are looser if the
    /// connection is gone.
    ///
    /// # Errors When the engine did not have the use, the window is still registered, or the
    /// memory has the wrong content.
    pub fn released(
        &mut self,
        node: usize,
        use_id: PinId,
        mut is_gone: impl FnMut(EndpointId) -> bool,
    ) -> Result<(), String> {
        let Some(ended) = self.uses.remove(&(node, use_id.0)) else {
            return Err(format!("{use_id:?} was released, but is not in use"));
        };
        if let Some(id) = ended.transfer {
            let ends = self.transfers.get(&id).map(|transfer| transfer.ends[0]);
            let end = ends.and_then(|end| self.ends.get(&end));
            if end.is_none_or(|end| !end.is_open || is_gone(end.endpoint)) {
                self.give_up(id);
            }
            self.complete(id)?;
        }
        for end in self.ends.values_mut().filter(|end| end.node == node) {
            if let Some(at) = end.windows.iter().position(|w| w.use_id == use_id.0) {
                let was_live = end.windows.remove(at).state == WindowState::Live;
                if was_live && !is_gone(end.endpoint) {
                    return Err(format!("{use_id:?} was released, but its window is there"));
                }
            }
        }
        self.drop_use(ended.pin)
    }

    /// Ends a use that the engine did not accept.
    ///
    /// # Errors When the memory has the wrong content.
    pub fn not_used(&mut self, node: usize, use_id: u64) -> Result<(), String> {
        let Some(ended) = self.uses.remove(&(node, use_id)) else {
            return Ok(());
        };
        self.drop_use(ended.pin)
    }

    /// Ends one use of a pin, and unpins it after the last one.
    fn drop_use(&mut self, key: Key) -> Result<(), String> {
        let Some(pin) = self.pins.get_mut(&key) else {
            return Ok(());
        };
        pin.uses -= 1;
        if pin.uses > 0 {
            return Ok(());
        }
        self.check_pin(key)?;
        if let Some(pin) = self.pins.remove(&key) {
            self.fabric.borrow_mut().unpin(key.0, &pin.pages);
        }
        // The simulated memory notices any later read or write.
        let pins = &self.pins;
        self.transfers.retain(|_, transfer| {
            transfer.from.retain(|segment| segment.pin != key);
            transfer.to.is_empty() || transfer.to.iter().any(|s| pins.contains_key(&s.pin))
        });
        Ok(())
    }

    /// For a canary: unpins the memory of a window as soon as the window is unregistered.
    pub fn window_ended(&mut self, key: Key) {
        let pin = self.pins.get_mut(&key);
        let Some(pin) = pin.filter(|pin| self.unpins_early && pin.uses == 1) else {
            return;
        };
        pin.is_gone = true;
        self.fabric.borrow_mut().unpin(key.0, &pin.pages);
    }

    /// Forgets all pins, uses and ends of a node whose memory is lost.
    pub fn forget_node(&mut self, node: usize) {
        self.has_died = true;
        self.pins.retain(|key, _| key.0 != node);
        self.uses.retain(|key, _| key.0 != node);
        self.ends.retain(|_, end| end.node != node);
    }

    /// Returns the numbers of pins and of uses, which must be 0 at the end.
    pub fn left_over(&self) -> [usize; 2] {
        [self.pins.len(), self.uses.len()]
    }

    // Transfers.

    /// Returns whether a transfer from `from` to `to` would disturb neither itself nor any other.
    ///
    /// Stores on their way to these segments arrive first, because the caller has learned of them
    /// by another way than the link.
    pub fn is_quiet(&self, from: &[Segment], to: &[Segment]) -> bool {
        self.land(from);
        self.land(to);
        // One page may be in several windows.
        let twice = (1..to.len()).any(|at| overlap(&to[..at], &to[at..]));
        !twice
            && !overlap(from, to)
            && self.transfers.values().all(|other| {
                !overlap(&other.to, to) && !overlap(&other.to, from) && !overlap(&other.from, to)
            })
    }

    /// Lets the stores on their way to these segments arrive.
    fn land(&self, segments: &[Segment]) {
        let mut fabric = self.fabric.borrow_mut();
        for segment in segments {
            let Some(pin) = self.pins.get(&segment.pin) else {
                continue;
            };
            let pages = segment.bytes.start / PAGE_BYTES..segment.bytes.end.div_ceil(PAGE_BYTES);
            for address in pin.pages.get(pages).into_iter().flatten() {
                let start = *address as usize;
                fabric.land_into(segment.pin.0, &(start..start + PAGE_BYTES));
            }
        }
    }

    /// Returns the content that these segments have in the model.
    pub fn content(&self, segments: &[Segment]) -> Vec<u8> {
        let bytes = segments.iter().flat_map(|segment| {
            let pin = self.pins.get(&segment.pin);
            pin.map_or(&[][..], |pin| &pin.content[segment.bytes.clone()])
        });
        bytes.copied().collect()
    }

    /// Returns the content of the simulated memory.
    fn actual(&self, pin: Key, bytes: Range<usize>) -> Vec<u8> {
        let Some(entry) = self.pins.get(&pin) else {
            return Vec::new();
        };
        let fabric = self.fabric.borrow();
        let mut result = Vec::with_capacity(bytes.len());
        let mut at = bytes.start;
        while at < bytes.end {
            let length = (PAGE_BYTES - at % PAGE_BYTES).min(bytes.end - at);
            let address = entry.pages[at / PAGE_BYTES] + (at % PAGE_BYTES) as u64;
            result.extend_from_slice(fabric.bytes(pin.0, address, length));
            at += length;
        }
        result
    }

    /// Records that a transfer is in progress from now on. Returns its number.
    pub fn begin(&mut self, transfer: Transfer) -> u64 {
        let id = self.number();
        self.transfers.insert(id, transfer);
        id
    }

    /// Returns the copies in progress that the engine of this end executes.
    pub fn begun_by(&self, end: u64) -> Vec<u64> {
        let own = |t: &Transfer| t.ends[0] == end && !t.is_signal;
        let own = self.transfers.iter().filter(|(_, t)| own(t));
        own.map(|(id, _)| *id).collect()
    }

    /// Returns whether a transfer may still be in progress.
    pub fn is_under_way(&self, id: u64) -> bool {
        self.transfers.contains_key(&id)
    }

    /// Returns whether a transfer is unknown or may not arrive in full.
    pub fn is_lost(&self, id: u64) -> bool {
        self.transfers
            .get(&id)
            .is_none_or(|transfer| transfer.is_lost)
    }

    /// Returns whether all bytes of a transfer can be seen at its destination.
    pub fn has_arrived(&self, id: u64) -> bool {
        self.transfers.get(&id).is_some_and(|transfer| {
            let mut data = &transfer.data[..];
            transfer.to.iter().all(|segment| {
                let (now, rest) = data.split_at(segment.bytes.len());
                data = rest;
                self.actual(segment.pin, segment.bytes.clone()) == now
            })
        })
    }

    /// Ends a transfer. All its bytes must have arrived, unless it is lost; then each byte may
    /// also be the old one or read as ones.
    ///
    /// # Errors When a byte is wrong.
    pub fn complete(&mut self, id: u64) -> Result<(), String> {
        let Some(transfer) = self.transfers.remove(&id) else {
            return Ok(());
        };
        self.land(&transfer.to);
        let mut data = &transfer.data[..];
        for segment in &transfer.to {
            let (now, rest) = data.split_at(segment.bytes.len());
            data = rest;
            let actual = self.actual(segment.pin, segment.bytes.clone());
            let Some(pin) = self.pins.get_mut(&segment.pin) else {
                continue;
            };
            let content = &mut pin.content[segment.bytes.clone()];
            for (at, byte) in actual.iter().enumerate() {
                let is_excused = transfer.is_lost && (*byte == content[at] || *byte == 0xff);
                if *byte != now[at] && !is_excused {
                    let place = segment.bytes.start + at;
                    return Err(format!(
                        "transfer {id} is over, but byte {place} of {:?} is {byte:#x}, not {:#x}",
                        segment.pin, now[at]
                    ));
                }
                content[at] = *byte;
            }
        }
        if !transfer.is_lost {
            self.counts.transfers += 1;
            self.counts.bytes += transfer.data.len() as u64;
        }
        Ok(())
    }

    /// Marks what crosses the link between two nodes, or any link of `node`, as lost.
    pub fn lose(&mut self, node: usize, other: Option<usize>) {
        for transfer in self.transfers.values_mut() {
            let is_remote = transfer.nodes[0] != transfer.nodes[1];
            let concerned = transfer.nodes.contains(&node)
                && other.is_none_or(|other| transfer.nodes.contains(&other));
            transfer.is_lost |= is_remote && concerned;
        }
        for end in self.ends.values_mut() {
            let nodes = [end.node, end.peer_node];
            let concerned =
                nodes.contains(&node) && other.is_none_or(|other| nodes.contains(&other));
            end.is_broken |= nodes[0] != nodes[1] && concerned;
        }
    }

    /// Marks the transfers of an end as lost, because its connection is gone.
    pub fn lose_end(&mut self, end: u64) {
        if let Some(end) = self.ends.get_mut(&end) {
            end.is_broken = true;
        }
        for transfer in self.transfers.values_mut() {
            transfer.is_lost |= transfer.ends.contains(&end);
        }
    }

    /// Marks a transfer as lost after its call failed half way: its bytes may or may not arrive.
    pub fn give_up(&mut self, id: u64) {
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.is_lost = true;
        }
    }

    /// Drops a transfer whose result does not matter any more.
    pub fn forget(&mut self, id: u64) {
        self.transfers.remove(&id);
    }

    /// Records that a program stored to its own or to mapped memory.
    pub fn stored(&mut self, segment: &Segment, bytes: &[u8]) {
        if let Some(pin) = self.pins.get_mut(&segment.pin) {
            pin.content[segment.bytes.clone()].copy_from_slice(bytes);
        }
    }

    /// Checks all memory when nothing is left to do: all transfers that are not lost must have
    /// arrived.
    ///
    /// # Errors When a transfer has not arrived, or a byte is wrong.
    pub fn check_quiescent(&mut self) -> Result<(), String> {
        let due = self.transfers.iter().filter(|(_, t)| !t.is_lost);
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.complete(id)?;
        }
        self.check_all()
    }

    /// Checks every byte of all pins.
    ///
    /// # Errors Names the first byte that is wrong.
    pub fn check_all(&self) -> Result<(), String> {
        self.pins.keys().try_for_each(|pin| self.check_pin(*pin))
    }

    /// Checks every byte of a pin.
    ///
    /// # Errors Names the first byte that is wrong.
    pub fn check_pin(&self, key: Key) -> Result<(), String> {
        let Some(pin) = self.pins.get(&key) else {
            return Ok(());
        };
        if pin.is_gone {
            return Ok(());
        }
        let actual = self.actual(key, 0..pin.content.len());
        if actual == pin.content {
            return Ok(());
        }
        // Where the memory differs, a transfer in progress must have written it.
        let mut explained = pin.content.clone();
        for transfer in self.transfers.values() {
            let mut data = &transfer.data[..];
            for segment in &transfer.to {
                let (now, rest) = data.split_at(segment.bytes.len());
                data = rest;
                if segment.pin != key {
                    continue;
                }
                for (at, new) in segment.bytes.clone().zip(now) {
                    if actual[at] == *new || transfer.is_lost && actual[at] == 0xff {
                        explained[at] = actual[at];
                    }
                }
            }
            self.check_order(transfer)?;
        }
        let wrong = (0..actual.len()).find(|at| actual[*at] != explained[*at]);
        wrong.map_or(Ok(()), |at| {
            Err(format!(
                "byte {at} of {key:?} is {:#x}, must be {:#x}",
                actual[at], explained[at]
            ))
        })
    }

    /// Checks that all bytes of an ordered transfer have arrived if its last byte has.
    fn check_order(&self, transfer: &Transfer) -> Result<(), String> {
        let [.., last] = &transfer.to[..] else {
            return Ok(());
        };
        let at = last.bytes.end - 1;
        let (Some(pin), Some(new)) = (self.pins.get(&last.pin), transfer.data.last()) else {
            return Ok(());
        };
        let seen = self.actual(last.pin, at..at + 1) == [*new] && pin.content[at] != *new;
        if !transfer.is_ordered || transfer.is_lost || !seen {
            return Ok(());
        }
        let mut data = &transfer.data[..];
        for segment in &transfer.to {
            let (now, rest) = data.split_at(segment.bytes.len());
            data = rest;
            let gone = !self.pins.contains_key(&segment.pin);
            if !gone && self.actual(segment.pin, segment.bytes.clone()) != now {
                return Err("the end of an ordered transfer arrived before its beginning".into());
            }
        }
        Ok(())
    }

    /// Returns whether calls may fail for lack of memory: allocations are or were refused now and
    /// then, or a node died, whose memory then reads as ones.
    pub fn is_scarce(&self) -> bool {
        self.has_died || self.fabric.borrow().is_scarce()
    }
}
