//! A model of every byte of registered memory: the pinned memory of all programs, the windows they
//! registered, and the transfers under way.
//!
//! Transfers are weakly ordered, so programs begin only those that do not touch what another one
//! under way writes, nor write what one reads. Then each byte has the value the model knows or, if
//! a transfer under way writes it, the value that is being written; and the latter for certain once
//! the transfer is known to be over.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use scif_abi::limits::PAGE_BYTES;
use scif_core::{EndpointId, Memory, PinId, Run};

use crate::memory::{Fabric, NodeMemory};
use crate::rng::Rng;
use crate::spaces::{End, WindowState};

/// A number on a node.
pub type Key = (usize, u64);

/// Pinned memory of a program.
#[derive(Debug)]
pub struct Pin {
    /// Local address of each page.
    pages: Vec<u64>,
    /// Its content, but for transfers under way.
    content: Vec<u8>,
    /// Windows and transfers the engine was given it for and has not released.
    uses: u32,
    /// It was unpinned too early, on purpose.
    is_gone: bool,
}

/// Some bytes of a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which.
    pub pin: Key,
    /// Where in it.
    pub bytes: Range<usize>,
}

/// A transfer that may not be over.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The end whose engine carries it out, and the other one.
    pub ends: [u64; 2],
    /// It is the store of a fence_signal.
    pub is_signal: bool,
    /// Source, unless it is no pinned memory.
    pub from: Vec<Segment>,
    /// Destination, unless it is no pinned memory.
    pub to: Vec<Segment>,
    /// The bytes that arrive there.
    pub data: Vec<u8>,
    /// The last byte arrives last.
    pub is_ordered: bool,
    /// A link broke or an end was closed, so only a part may arrive; bytes may read as ones.
    pub is_lost: bool,
    /// Both nodes.
    pub nodes: [usize; 2],
}

/// The uses the engine makes of a pin.
#[derive(Clone, Copy, Debug)]
struct Use {
    pin: Key,
    /// The transfer that ends with this use.
    transfer: Option<u64>,
}

/// Counts that show that a simulation did something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Windows registered.
    pub windows: u64,
    /// Windows unregistered by a call.
    pub unregistered: u64,
    /// Transfers that are known to have arrived.
    pub transfers: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Marks waited for.
    pub marks: u64,
    /// Signals seen.
    pub signals: u64,
    /// Mappings.
    pub mappings: u64,
    /// Calls refused as they should be.
    pub refused: u64,
}

impl Counts {
    /// Adds another simulation's.
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

/// All of it.
pub struct Model {
    fabric: Rc<RefCell<Fabric>>,
    pins: BTreeMap<Key, Pin>,
    uses: BTreeMap<Key, Use>,
    transfers: BTreeMap<u64, Transfer>,
    /// Ends by the seeds of their streams.
    pub ends: BTreeMap<u64, End>,
    next: u64,
    /// Some node was switched off.
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
    /// Nothing pinned yet.
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

    /// Pins memory with random content, for one use; its key and the number of the use.
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

    /// One more use of memory that is pinned; its number.
    pub fn use_again(&mut self, pin: Key) -> Option<u64> {
        let number = self.number();
        self.pins.get_mut(&pin)?.uses += 1;
        let transfer = None;
        self.uses.insert((pin.0, number), Use { pin, transfer });
        Some(number)
    }

    /// A use that is a transfer.
    pub fn bind_use(&mut self, node: usize, use_id: u64, id: u64) {
        if let Some(entry) = self.uses.get_mut(&(node, use_id)) {
            entry.transfer = Some(id);
        }
    }

    /// Some pin of a node.
    pub fn any_pin(&self, node: usize, rng: &mut Rng) -> Option<Key> {
        let on_node = |(key, pin): &(&Key, &Pin)| key.0 == node && !pin.is_gone;
        let pins = self.pins.iter().filter(on_node);
        let keys: Vec<Key> = pins.map(|(key, _)| *key).collect();
        keys.get(rng.below(keys.len() as u64) as usize).copied()
    }

    /// Its pages.
    pub fn pages(&self, pin: Key) -> usize {
        self.pins.get(&pin).map_or(0, |pin| pin.pages.len())
    }

    /// Local address of a byte.
    pub fn address(&self, pin: Key, at: usize) -> Option<u64> {
        let page = self.pins.get(&pin)?.pages.get(at / PAGE_BYTES)?;
        Some(page + (at % PAGE_BYTES) as u64)
    }

    /// Its contiguous runs, not always as long as they could be.
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

    /// The engine has ended a use. A connection that is gone excuses a lot.
    ///
    /// # Errors
    /// When it did not have it, or the memory is not what it must be.
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

    /// A use that the engine did not take.
    ///
    /// # Errors
    /// When the memory is not what it must be.
    pub fn not_used(&mut self, node: usize, use_id: u64) -> Result<(), String> {
        let Some(ended) = self.uses.remove(&(node, use_id)) else {
            return Ok(());
        };
        self.drop_use(ended.pin)
    }

    /// One use less; unused memory is unpinned.
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
        // The memory notices a later read or write.
        let pins = &self.pins;
        self.transfers.retain(|_, transfer| {
            transfer.from.retain(|segment| segment.pin != key);
            transfer.to.is_empty() || transfer.to.iter().any(|s| pins.contains_key(&s.pin))
        });
        Ok(())
    }

    /// The canary: a window was unregistered, so its memory goes at once.
    pub fn window_ended(&mut self, key: Key) {
        let pin = self.pins.get_mut(&key);
        let Some(pin) = pin.filter(|pin| self.unpins_early && pin.uses == 1) else {
            return;
        };
        pin.is_gone = true;
        self.fabric.borrow_mut().unpin(key.0, &pin.pages);
    }

    /// A node's memory is gone.
    pub fn forget_node(&mut self, node: usize) {
        self.has_died = true;
        self.pins.retain(|key, _| key.0 != node);
        self.uses.retain(|key, _| key.0 != node);
        self.ends.retain(|_, end| end.node != node);
    }

    /// The pins and uses that must be gone in the end.
    pub fn left_over(&self) -> [usize; 2] {
        [self.pins.len(), self.uses.len()]
    }

    // Transfers.

    /// Whether a transfer between these would not disturb any other, nor itself.
    ///
    /// The caller has learned of the stores by another way than the link, so they have arrived.
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

    /// Stores on their way to these segments arrive.
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

    /// The model's statement about a piece of memory.
    pub fn content(&self, segments: &[Segment]) -> Vec<u8> {
        let bytes = segments.iter().flat_map(|segment| {
            let pin = self.pins.get(&segment.pin);
            pin.map_or(&[][..], |pin| &pin.content[segment.bytes.clone()])
        });
        bytes.copied().collect()
    }

    /// The real content.
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

    /// A transfer is under way from now on. Its number.
    pub fn begin(&mut self, transfer: Transfer) -> u64 {
        let id = self.number();
        self.transfers.insert(id, transfer);
        id
    }

    /// Copies under way that this end's engine carries out.
    pub fn begun_by(&self, end: u64) -> Vec<u64> {
        let own = |t: &Transfer| t.ends[0] == end && !t.is_signal;
        let own = self.transfers.iter().filter(|(_, t)| own(t));
        own.map(|(id, _)| *id).collect()
    }

    /// Whether a transfer is not known to be over.
    pub fn is_under_way(&self, id: u64) -> bool {
        self.transfers.contains_key(&id)
    }

    /// Whether something prevents a transfer.
    pub fn is_lost(&self, id: u64) -> bool {
        self.transfers
            .get(&id)
            .is_none_or(|transfer| transfer.is_lost)
    }

    /// Whether what a transfer writes can be seen at its destination, all of it.
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

    /// A transfer is over: all of it must be there, if nothing prevented that.
    ///
    /// # Errors
    /// When it is not.
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

    /// The link between two nodes broke, or all of a node's: whatever crosses it may not arrive.
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

    /// The connection of an end is gone.
    pub fn lose_end(&mut self, end: u64) {
        if let Some(end) = self.ends.get_mut(&end) {
            end.is_broken = true;
        }
        for transfer in self.transfers.values_mut() {
            transfer.is_lost |= transfer.ends.contains(&end);
        }
    }

    /// A call failed half way: what it writes may or may not arrive.
    pub fn give_up(&mut self, id: u64) {
        if let Some(transfer) = self.transfers.get_mut(&id) {
            transfer.is_lost = true;
        }
    }

    /// The result of this transfer is not wanted any more.
    pub fn forget(&mut self, id: u64) {
        self.transfers.remove(&id);
    }

    /// A program has stored to its own or mapped memory.
    pub fn stored(&mut self, segment: &Segment, bytes: &[u8]) {
        if let Some(pin) = self.pins.get_mut(&segment.pin) {
            pin.content[segment.bytes.clone()].copy_from_slice(bytes);
        }
    }

    /// All transfers whose ends are open and whose link holds must have arrived, as nothing is left
    /// to do.
    ///
    /// # Errors
    /// When one has not.
    pub fn check_quiescent(&mut self) -> Result<(), String> {
        let due = self.transfers.iter().filter(|(_, t)| !t.is_lost);
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.complete(id)?;
        }
        self.check_all()
    }

    /// Checks every byte.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check_all(&self) -> Result<(), String> {
        self.pins.keys().try_for_each(|pin| self.check_pin(*pin))
    }

    /// Checks every byte of a pin.
    ///
    /// # Errors
    /// The first that is wrong.
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
        // Where it differs a transfer must be under way, and have arrived there.
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

    /// If the last byte of an ordered transfer has arrived, everything must have.
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

    /// Whether calls may fail for want of memory: allocations are or were refused now and then, or
    /// a node died, whose memory then reads as ones.
    pub fn is_scarce(&self) -> bool {
        self.has_died || self.fabric.borrow().is_scarce()
    }
}
