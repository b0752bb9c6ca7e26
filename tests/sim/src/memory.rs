//! The memory of all nodes, with the state of every page: a store or load that no correct engine
//! would make stops the simulation.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use scif_abi::NodeId;
use scif_abi::limits::PAGE_BYTES;
use scif_abi::qp::BYTES_ARMED_OFFSET;
use scif_core::{BadAddress, Memory, Place};

use crate::rng::{Rng, mix};
use crate::stores::Stores;
use crate::trace::Trace;

/// Bytes of memory that each node usually has.
pub const RAM_BYTES: usize = 8 << 20;

/// Distance between an address as the node itself sees it and as its peers see it. The distance
/// makes it an error to confuse the two.
const BUS_OFFSET: u64 = 0x4000_0000;

/// A canary corrupts one of this number of longer stores.
pub const CORRUPTION_INTERVAL: u64 = 5;

/// A canary does not free one of this number of blocks.
pub const LEAK_INTERVAL: u64 = 20;

/// What a page of a node is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// Allocated by the engine.
    Engine,
    /// Pinned memory of a program.
    Pinned,
    /// Memory that a dead driver left behind: peers may still store there.
    Left,
}

/// The content of freed pinned pages and of freed pages that a driver left, so that a later read
/// of them is noticed.
const POISON: u8 = 0xdd;

/// One node's memory.
struct Ram {
    bytes: Vec<u8>,
    pages: Vec<Use>,
    /// Number of pages that the engine has allocated.
    used_count: usize,
    /// Number of restarts of the node.
    epoch: u64,
}

/// For a canary: requests for doorbells that arrive late, after the node that stored them has
/// continued.
#[derive(Default)]
pub struct LateAsks {
    /// The words that are stored late: the node, and the address in its memory as peers see it.
    words: BTreeSet<(usize, u64)>,
    /// The stores on their way: the node, the address, and the epoch of the node.
    on_their_way: Vec<(usize, u64, u64)>,
}

impl LateAsks {
    /// Adds the word that asks the owner of this node queue pair for doorbells.
    pub fn watch(&mut self, node: usize, queue_pair: u64) {
        self.words.insert((node, queue_pair + BYTES_ARMED_OFFSET));
    }
}

/// The memory of all nodes, and which nodes can reach whose memory.
pub struct Fabric {
    rams: Vec<Ram>,
    /// `reach[a][b]` is the epoch of `b` that `a` is linked to.
    reach: Vec<Vec<Option<u64>>>,
    /// If set (a canary), one byte of every n-th longer store to a peer is changed. This number of
    /// stores remain until the next one.
    pub corrupt_after: Option<u64>,
    /// If set (a canary), the words by which nodes ask each other for doorbells are stored late.
    pub late_asks: Option<LateAsks>,
    /// A node whose memory any store may reach, allocated or not.
    pub lawless: Option<usize>,
    /// The first failure, if there was one.
    pub fault: Option<String>,
    /// The stores on their way, if stores take time.
    pub(crate) stores: Option<Stores>,
    /// The trace, for people.
    pub(crate) trace: Trace,
    /// Whether one in eight allocations is refused.
    is_scarce: bool,
    /// The number, counted from 1, of the allocation to refuse.
    pub(crate) refuses: Option<u64>,
    allocations: u64,
    refused: u64,
    /// If set (a canary), every n-th block is not freed. This number of blocks remain until the
    /// next one.
    pub(crate) leaks_after: Option<u64>,
}

impl Fabric {
    /// Makes memory for `nodes` nodes, of [`RAM_BYTES`] each.
    pub fn new(nodes: usize) -> Rc<RefCell<Fabric>> {
        Fabric::with_bytes(nodes, RAM_BYTES)
    }

    /// Makes memory for `nodes` nodes, of `ram_bytes` each.
    pub fn with_bytes(nodes: usize, ram_bytes: usize) -> Rc<RefCell<Fabric>> {
        let ram = || Ram {
            bytes: vec![0; ram_bytes],
            pages: vec![Use::Free; ram_bytes / PAGE_BYTES],
            used_count: 0,
            epoch: 1,
        };
        Rc::new(RefCell::new(Fabric {
            rams: (0..nodes).map(|_| ram()).collect(),
            reach: vec![vec![None; nodes]; nodes],
            corrupt_after: None,
            late_asks: None,
            lawless: None,
            fault: None,
            stores: None,
            trace: Trace::off(),
            is_scarce: false,
            refuses: None,
            allocations: 0,
            refused: 0,
            leaks_after: None,
        }))
    }

    /// Restarts a node with empty memory.
    pub fn restart(&mut self, node: usize) {
        let ram = &mut self.rams[node];
        ram.pages.fill(Use::Free);
        ram.used_count = 0;
        ram.bytes.fill(0);
        ram.epoch += 1;
        self.reach[node].fill(None);
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.rams.len()
    }

    /// Marks the pages of a node as left after its driver died: its own, and those that its
    /// programs pinned, stay.
    pub fn leave_pages(&mut self, node: usize) {
        let ram = &mut self.rams[node];
        for page in ram.pages.iter_mut().filter(|page| **page != Use::Free) {
            *page = Use::Left;
        }
        ram.used_count = 0;
    }

    /// Frees the memory that a driver left, which no node can reach any more.
    pub fn free_left(&mut self, node: usize) {
        let ram = &mut self.rams[node];
        for (at, page) in ram.pages.iter_mut().enumerate() {
            if *page == Use::Left {
                *page = Use::Free;
                ram.bytes[at * PAGE_BYTES..(at + 1) * PAGE_BYTES].fill(POISON);
            }
        }
    }

    /// Returns the number of allocations so far.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }

    /// Returns the number of restarts of a node.
    pub fn epoch(&self, node: usize) -> u64 {
        self.rams[node].epoch
    }

    /// Sets whether `from` may reach the memory that `to` has now.
    pub fn set_reach(&mut self, from: usize, to: usize, reaches: bool) {
        self.reach[from][to] = reaches.then_some(self.rams[to].epoch);
    }

    /// Returns the number of pages that a node's engine has allocated.
    pub fn pages_used(&self, node: usize) -> usize {
        self.rams[node].used_count
    }

    /// Pins `count` pages of a node, in contiguous runs of a few pages each that are not in order.
    /// Returns the local address of each page; `None` if there are not enough.
    pub fn pin(&mut self, node: usize, count: usize, rng: &mut Rng) -> Option<Vec<u64>> {
        let ram = &mut self.rams[node];
        let mut pinned = Vec::new();
        while pinned.len() < count {
            // Starts at a random page in the upper half, and takes the first free page and those
            // behind it.
            let half = ram.pages.len() / 2;
            let start = half + rng.below(half as u64) as usize;
            let next = (start..ram.pages.len()).chain(half..start);
            let mut free = next.skip_while(|page| ram.pages[*page] != Use::Free);
            let Some(first) = free.next() else {
                self.unpin(node, &pinned);
                return None;
            };
            let run = (1 + rng.below(4) as usize).min(count - pinned.len());
            for page in first..(first + run).min(ram.pages.len()) {
                if ram.pages[page] != Use::Free {
                    break;
                }
                ram.pages[page] = Use::Pinned;
                pinned.push((page * PAGE_BYTES) as u64);
            }
        }
        Some(pinned)
    }

    /// Unpins pages that [`pin`](Self::pin) returned. Any later access to them is an error.
    pub fn unpin(&mut self, node: usize, pages: &[u64]) {
        let ram = &mut self.rams[node];
        for address in pages {
            let start = *address as usize;
            ram.pages[start / PAGE_BYTES] = Use::Free;
            ram.bytes[start..start + PAGE_BYTES].fill(POISON);
        }
    }

    /// Returns the number of pages pinned on a node.
    pub fn pages_pinned(&self, node: usize) -> usize {
        let pinned = |page: &&Use| **page == Use::Pinned;
        self.rams[node].pages.iter().filter(pinned).count()
    }

    /// Returns bytes of a node's memory from a local address on, for checks.
    pub fn bytes(&self, node: usize, address: u64, length: usize) -> &[u8] {
        &self.rams[node].bytes[address as usize..address as usize + length]
    }

    /// Refuses some allocations from now on.
    pub fn begin_scarcity(&mut self) {
        self.is_scarce = true;
    }

    /// Returns whether some allocations are, were or will be refused.
    pub fn is_scarce(&self) -> bool {
        self.is_scarce || self.refused > 0 || self.refuses.is_some()
    }

    /// Refuses no more allocations at random from now on.
    pub fn end_scarcity(&mut self) {
        self.is_scarce = false;
    }

    /// Returns the number of refused allocations.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Lets the requests for doorbells on their way arrive.
    pub fn land_asks(&mut self) {
        let Some(late) = &mut self.late_asks else {
            return;
        };
        for (node, word, epoch) in std::mem::take(&mut late.on_their_way) {
            if self.rams[node].epoch == epoch {
                self.scribble(node, word, &1_u32.to_le_bytes());
            }
        }
    }

    /// Holds back a store if it is a request for doorbells that must be late. Returns whether it
    /// did.
    fn is_late(&mut self, to: usize, address: u64) -> bool {
        let epoch = self.rams[to].epoch;
        match &mut self.late_asks {
            Some(late) if late.words.contains(&(to, address)) => {
                late.on_their_way.push((to, address, epoch));
                true
            }
            _ => false,
        }
    }

    fn complain(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    /// Returns the range in memory of an address given to peers; `None` if it is outside memory.
    fn range(&self, address: u64, bytes: usize) -> Option<Range<usize>> {
        let start = usize::try_from(address.checked_sub(BUS_OFFSET)?).ok()?;
        let end = start.checked_add(bytes)?;
        (end <= self.rams[0].bytes.len()).then_some(start..end)
    }

    /// Returns whether a program pinned the page at an address given to peers.
    pub fn is_pinned(&self, node: usize, address: u64) -> bool {
        let range = self.range(address, 1);
        range.is_some_and(|range| self.rams[node].pages[range.start / PAGE_BYTES] == Use::Pinned)
    }

    /// Stores to memory of `to` as hardware does, whatever the pages are used for.
    pub fn scribble(&mut self, to: usize, address: u64, bytes: &[u8]) {
        if let Some(range) = self.range(address, bytes.len()) {
            self.rams[to].bytes[range].copy_from_slice(bytes);
        }
    }

    /// Makes a store of `from` visible in memory of `to`.
    pub(crate) fn arrive(&mut self, from: usize, to: usize, range: &Range<usize>, bytes: &[u8]) {
        self.check_used(to, range, &format!("a store of node {from} into memory"));
        self.rams[to].bytes[range.clone()].copy_from_slice(bytes);
        if bytes.len() >= 60
            && let Some(left) = self.corrupt_after.as_mut()
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                *left = CORRUPTION_INTERVAL;
                self.rams[to].bytes[range.start + 50] ^= 0x10;
            }
        }
    }

    fn check_used(&mut self, node: usize, range: &Range<usize>, what: &str) {
        let pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
        if self.lawless != Some(node) && self.rams[node].pages[pages].contains(&Use::Free) {
            self.complain(format!(
                "{what} of node {node} at {range:x?}, which is not allocated"
            ));
        }
    }
}

/// One node's view of the fabric.
#[derive(Clone)]
pub struct NodeMemory {
    fabric: Rc<RefCell<Fabric>>,
    node: usize,
}

impl NodeMemory {
    /// Makes the view of `node`.
    pub fn new(fabric: &Rc<RefCell<Fabric>>, node: usize) -> NodeMemory {
        NodeMemory {
            fabric: Rc::clone(fabric),
            node,
        }
    }

    fn own(&self, address: u64, bytes: usize, what: &str) -> Range<usize> {
        let range = address as usize..address as usize + bytes;
        self.fabric.borrow_mut().check_used(self.node, &range, what);
        range
    }

    /// Returns whether there is a link to the node in its present epoch. Without one, stores
    /// vanish, as on a dead bus.
    fn linked(&self, to: usize) -> bool {
        let fabric = self.fabric.borrow();
        fabric.reach[self.node][to] == Some(fabric.rams[to].epoch)
    }

    /// Checks a copy out of a peer's memory: the pages must be in use.
    fn check_source(&self, node: NodeId, address: u64, bytes: usize) {
        let from = usize::from(node);
        let range = self.fabric.borrow().range(address, bytes);
        if let Some(range) = range.filter(|_| self.linked(from)) {
            let mut fabric = self.fabric.borrow_mut();
            fabric.check_used(from, &range, "a peer's copy out of memory");
        }
    }

    /// A read over the bus first lets the stores of both directions arrive.
    fn push_through(&self, node: usize) {
        let mut fabric = self.fabric.borrow_mut();
        fabric.land(self.node, node);
        fabric.land(node, self.node);
    }

    fn store(&mut self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        let to = usize::from(node);
        let range = self
            .fabric
            .borrow()
            .range(address, bytes.len())
            .ok_or(BadAddress)?;
        if !self.linked(to) {
            return Ok(());
        }
        let mut fabric = self.fabric.borrow_mut();
        fabric.check_used(to, &range, "a peer's store into memory");
        if fabric.is_late(to, address) {
            return Ok(());
        }
        fabric.trace.note_store(self.node, to, bytes);
        if !fabric.send_store(self.node, to, &range, bytes) {
            fabric.arrive(self.node, to, &range, bytes);
        }
        Ok(())
    }
}

impl Memory for NodeMemory {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let pages = bytes / PAGE_BYTES;
        let mut fabric = self.fabric.borrow_mut();
        fabric.allocations += 1;
        let is_next = fabric.refuses == Some(fabric.allocations);
        if is_next || fabric.is_scarce && mix(fabric.allocations).is_multiple_of(8) {
            fabric.refused += 1;
            let node = self.node;
            fabric
                .trace
                .note(|| format!("node {node}: {pages} pages are refused"));
            return None;
        }
        let ram = &mut fabric.rams[self.node];
        let first = (0..=ram.pages.len() - pages).find(|first| {
            ram.pages[*first..first + pages]
                .iter()
                .all(|page| *page == Use::Free)
        })?;
        ram.pages[first..first + pages].fill(Use::Engine);
        ram.used_count += pages;
        ram.bytes[first * PAGE_BYTES..(first + pages) * PAGE_BYTES].fill(0);
        Some((first * PAGE_BYTES) as u64)
    }

    fn free(&mut self, address: u64, bytes: usize) {
        let range = self.own(address, bytes, "free of memory");
        let mut fabric = self.fabric.borrow_mut();
        if let Some(left) = &mut fabric.leaks_after {
            *left = left.saturating_sub(1);
            if *left == 0 {
                *left = LEAK_INTERVAL;
                return;
            }
        }
        let ram = &mut fabric.rams[self.node];
        ram.pages[range.start / PAGE_BYTES..range.end / PAGE_BYTES].fill(Use::Free);
        ram.used_count -= bytes / PAGE_BYTES;
    }

    fn recycle(&mut self, address: u64, bytes: usize, used: usize) {
        let range = self.own(address, bytes, "return of memory");
        let fabric = self.fabric.borrow();
        let unused = &fabric.rams[self.node].bytes[range][used..];
        // The driver does not clear the block before it gives it to the next connection.
        let dirty = unused.iter().position(|byte| *byte != 0);
        assert_eq!(
            dirty, None,
            "block {address:#x}: bytes behind {used} are in use"
        );
        drop(fabric);
        self.free(address, bytes);
    }

    fn export(&self, _node: NodeId, address: u64) -> u64 {
        address + BUS_OFFSET
    }

    fn read(&self, address: u64, buffer: &mut [u8]) {
        let range = self.own(address, buffer.len(), "own load from memory");
        buffer.copy_from_slice(&self.fabric.borrow().rams[self.node].bytes[range]);
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let range = self.own(address, bytes.len(), "own store into memory");
        self.fabric.borrow_mut().rams[self.node].bytes[range].copy_from_slice(bytes);
    }

    fn load_index(&self, address: u64) -> u32 {
        let mut word = [0; 4];
        self.read(address, &mut word);
        u32::from_le_bytes(word)
    }

    fn store_index(&mut self, address: u64, value: u32) {
        self.write(address, &value.to_le_bytes());
    }

    // All nodes run on one thread, so this is atomic.
    fn exchange(&mut self, address: u64, expected: u32, new: u32) -> u32 {
        let found = self.load_index(address);
        if found == expected {
            self.store_index(address, new);
        }
        found
    }

    fn load_position(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.read(address, &mut word);
        u64::from_le_bytes(word)
    }

    fn store_position(&mut self, address: u64, value: u64) {
        self.write(address, &value.to_le_bytes());
    }

    fn full_fence(&self) {}

    fn peer_reaches(&self, _node: NodeId, address: u64, bytes: usize) -> bool {
        self.fabric.borrow().range(address, bytes).is_some()
    }

    fn peer_read(&self, node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
        let range = self
            .fabric
            .borrow()
            .range(address, buffer.len())
            .ok_or(BadAddress)?;
        if self.linked(usize::from(node)) {
            self.push_through(usize::from(node));
            buffer.copy_from_slice(&self.fabric.borrow().rams[usize::from(node)].bytes[range]);
        } else {
            // A dead bus reads as ones.
            buffer.fill(0xff);
        }
        Ok(())
    }

    fn peer_write(&mut self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        self.store(node, address, bytes)
    }

    fn peer_store_index(
        &mut self,
        node: NodeId,
        address: u64,
        value: u32,
    ) -> Result<(), BadAddress> {
        self.store(node, address, &value.to_le_bytes())
    }

    fn copy(&mut self, from: Place, to: Place, bytes: usize) -> Result<(), BadAddress> {
        let mut buffer = vec![0; bytes];
        match from {
            Place::Own(address) => self.read(address, &mut buffer),
            Place::Peer(node, address) => {
                self.peer_read(node, address, &mut buffer)?;
                self.check_source(node, address, bytes);
            }
        }
        match to {
            Place::Own(address) => self.write(address, &buffer),
            Place::Peer(node, address) => self.store(node, address, &buffer)?,
        }
        Ok(())
    }

    fn store_u64(&mut self, to: Place, value: u64) -> Result<(), BadAddress> {
        match to {
            Place::Own(address) => self.write(address, &value.to_le_bytes()),
            Place::Peer(node, address) => self.store(node, address, &value.to_le_bytes())?,
        }
        Ok(())
    }

    // Stores of one node arrive in the order they were made anyway.
    fn fence(&mut self) {}
}
