//! The memory that the engine works on: this node's shared pages and the peers' RAM.
//!
//! The local address of a block is its physical address; the peer's [`Bus`] translates it for that
//! peer. An aperture shows the RAM of its node from that node's physical address 0 on. Programs
//! may register a page as often as they like, so a page may already be in another block. Each
//! block is mapped at an address of its own in this task, so such a page gets another local
//! address: bits above the physical address tell them apart (see `PHYSICAL_BITS`).

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use client_memory::borrow::Wanted;
use hal::aperture::Aperture;
use hal::mem::drain_writes;
use hal::mem::{PAGE, Region};
use libredox::Fd;
use scheme_scif::{Doorbells, JoinId, ObjectMemory, Progress, Token, View};
use scif_abi::NodeId;
use scif_abi::call::PinRecord;
use scif_abi::flags::Protection;
use scif_core::{BadAddress, Memory, Place, Run};
use syscall::error::{EFAULT, EINVAL, ENOMEM, Error, Result as SysResult};

use crate::block_pool::BlockPool;
use crate::hardware::{Bus, Doorbell};
use crate::memory_object::{
    BlockSource, BuildStep, Complete, MemoryObject, PhysicalRun, engine_runs,
};

/// Bits of a local address that hold the physical address: more than any processor has.
const PHYSICAL_BITS: u32 = 52;

/// The bus address for a page that a peer cannot reach; no bus has such an address.
const NOWHERE: u64 = !(PAGE as u64 - 1);

/// Most blocks that may share a page, beside the first.
const MAX_ALIASES: u64 = (1 << (u64::BITS - PHYSICAL_BITS)) - 1;

fn physical_of(address: u64) -> u64 {
    address & ((1 << PHYSICAL_BITS) - 1)
}

/// A peer: how this node reaches it, and how it reaches this node.
pub struct Peer {
    /// Its memory.
    pub aperture: Aperture,
    /// Its doorbell.
    pub doorbell: Rc<dyn Doorbell>,
    /// The address of our memory on its bus.
    pub bus: Rc<dyn Bus>,
    /// Whether stores through the aperture are gathered on their way.
    pub gathers_stores: bool,
}

/// Memory that also reaches the memory of peers, once it has their places.
pub trait PeerMemory: Memory {
    /// Sets how to reach a peer's memory, and replaces what was set before.
    fn add_peer(&mut self, node: NodeId, peer: Peer);
}

/// The memory of one node.
pub struct NodeMemory<S> {
    source: S,
    /// Own blocks by local address.
    blocks: BTreeMap<u64, Block>,
    aliases: Aliases,
    /// Blocks that are kept for reuse.
    spare: BlockPool,
    allocated_bytes: usize,
    /// Allocations that failed.
    refused: u64,
    objects: BTreeMap<Token, Entry>,
    /// Ranges of this task's addresses that were joined from pieces.
    joins: BTreeMap<JoinId, Region>,
    last_join: JoinId,
    peers: BTreeMap<NodeId, Peer>,
}

/// Memory of this node in one piece.
struct Block {
    region: Region,
    writable: bool,
}

/// Chooses local addresses for pages that may be in other blocks, too.
#[derive(Default)]
struct Aliases {
    /// The alias that was chosen last.
    last: u64,
}

impl Aliases {
    /// A free local address for a physical one. The search begins behind the last alias: where a
    /// page is in many blocks, the aliases before that are mostly taken.
    fn choose(&mut self, physical: u64, mut is_free: impl FnMut(u64) -> bool) -> Option<u64> {
        if is_free(physical) {
            return Some(physical);
        }
        let mut aliases = (self.last + 1..=MAX_ALIASES).chain(1..=self.last);
        let alias = aliases.find(|alias| is_free(alias << PHYSICAL_BITS | physical))?;
        self.last = alias;
        Some(alias << PHYSICAL_BITS | physical)
    }
}

/// The kind of an access to memory.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Access {
    Read,
    Write,
}

/// A memory object, and the local addresses of its runs once it is complete.
struct Entry {
    object: MemoryObject,
    addresses: Vec<u64>,
}

impl<S: BlockSource> NodeMemory<S> {
    /// Memory without peers.
    pub fn new(source: S) -> Self {
        Self {
            source,
            blocks: BTreeMap::new(),
            aliases: Aliases::default(),
            spare: BlockPool::default(),
            allocated_bytes: 0,
            refused: 0,
            objects: BTreeMap::new(),
            joins: BTreeMap::new(),
            last_join: 0,
            peers: BTreeMap::new(),
        }
    }

    /// Whether stores to any peer may be gathered on their way, so that later ones overtake them.
    fn gathers(&self) -> bool {
        self.peers.values().any(|peer| peer.gathers_stores)
    }

    /// Whether every peer can reach these bytes.
    fn is_reached(&self, physical: u64, bytes: usize) -> bool {
        let last = physical + bytes.saturating_sub(1) as u64;
        let reaches =
            |peer: &Peer| peer.bus.address(physical).is_some() && peer.bus.address(last).is_some();
        self.peers.values().all(reaches)
    }

    /// The block that holds a local address, and the offset in the block.
    fn place(&self, address: u64) -> (&Region, usize) {
        let block = self.blocks.range(..=address).next_back();
        let Some((start, block)) = block else {
            panic!("local address {address:#x} was never given out");
        };
        (&block.region, (address - start) as usize)
    }

    /// The memory at a place, which must have `bytes` bytes there.
    fn range(&self, place: Place, bytes: usize, access: Access) -> Result<Region, BadAddress> {
        match place {
            Place::Own(address) => {
                let block = self.blocks.range(..=address).next_back();
                let (start, block) = block.ok_or(BadAddress)?;
                // The engine checks windows' rights; a store here would end this task.
                if access == Access::Write && !block.writable {
                    return Err(BadAddress);
                }
                let offset = usize::try_from(address - start).map_err(|_| BadAddress)?;
                block.region.part(offset, bytes).map_err(|_| BadAddress)
            }
            Place::Peer(node, address) => self.window(node, address, bytes),
        }
    }

    /// A free local address for a run.
    fn address_for(&mut self, run: PhysicalRun) -> Option<u64> {
        let blocks = &self.blocks;
        self.aliases.choose(run.physical, |address| {
            let end = address + run.bytes() as u64;
            let before = blocks.range(..end).next_back();
            before.is_none_or(|(start, block)| start + block.region.len() as u64 <= address)
        })
    }

    /// Enters the runs of a complete object as blocks.
    ///
    /// # Errors
    /// `EFAULT` when a page is in too many objects, or a peer cannot reach it.
    fn enter(&mut self, token: Token) -> SysResult<Vec<Run>> {
        let entry = self.objects.get(&token).ok_or(Error::new(EINVAL))?;
        let complete = entry.object.complete().ok_or(Error::new(EINVAL))?;
        let Complete {
            region,
            runs,
            writable,
        } = complete.clone();
        let mut addresses = Vec::new();
        let mut offset = 0;
        for &run in &runs {
            let is_reached = self.is_reached(physical_of(run.physical), run.bytes());
            let address = self.address_for(run).filter(|_| is_reached);
            let part = region.part(offset, run.bytes());
            let (Some(address), Ok(region)) = (address, part) else {
                self.leave(&addresses);
                return Err(Error::new(EFAULT));
            };
            self.blocks.insert(address, Block { region, writable });
            addresses.push(address);
            offset += run.bytes();
        }
        let engine_runs = engine_runs(&runs, &addresses);
        if let Some(entry) = self.objects.get_mut(&token) {
            entry.addresses = addresses;
        }
        Ok(engine_runs)
    }

    fn leave(&mut self, addresses: &[u64]) {
        for address in addresses {
            self.blocks.remove(address);
        }
    }

    /// Takes the results of borrowings. Pages for an object that was given up meanwhile are
    /// released.
    pub fn take_borrowed(&mut self) {
        while let Some((token, result)) = self.source.take_borrowed() {
            if let Some(entry) = self.objects.get_mut(&token) {
                entry.object.borrowed(result);
            }
        }
    }

    fn begin(&mut self, token: Token, object: MemoryObject) {
        let entry = Entry {
            object,
            addresses: Vec::new(),
        };
        self.objects.insert(token, entry);
    }

    /// Cleared memory in one piece, and its physical address: a spare block, or memory from the
    /// kernel. When the kernel has none, it gets the spare blocks back first.
    fn block(&mut self, bytes: usize) -> Option<(Region, u64)> {
        let spare = self.spare.take(bytes);
        let spare = spare.filter(|(_, physical)| self.is_reached(*physical, bytes));
        if let Some((region, physical)) = spare.or_else(|| self.source.allocate(bytes)) {
            return Some((region, physical));
        }
        match self.spare.clear() {
            true => self.source.allocate(bytes),
            false => None,
        }
    }

    fn window(&self, node: NodeId, address: u64, bytes: usize) -> Result<Region, BadAddress> {
        let peer = self.peers.get(&node).ok_or(BadAddress)?;
        peer.aperture.window(address, bytes).map_err(|_| BadAddress)
    }
}

/// Unwraps the result of an access to own memory. Addresses come from the engine, which has them
/// from [`Memory::allocate`]: one outside a block is a mistake in this program that must not go
/// unnoticed.
fn own<T>(result: Result<T, hal::mem::BoundsError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("own shared memory: {error}"),
    }
}

impl<S: BlockSource> Memory for NodeMemory<S> {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let Some((region, physical)) = self.block(bytes) else {
            self.refused += 1;
            // It may happen at each connect, so it is logged ever more rarely.
            if self.refused.is_power_of_two() {
                let count = self.refused;
                log::warn!("no {bytes} bytes of contiguous memory ({count} refusals so far)");
            }
            return None;
        };
        if !self.is_reached(physical, bytes) {
            log::warn!("memory at {physical:#x} is not reached by all peers");
            return None;
        }
        self.allocated_bytes += bytes;
        let block = Block {
            region: region.part(0, bytes).ok()?,
            writable: true,
        };
        self.blocks.insert(physical, block);
        Some(physical)
    }

    fn free(&mut self, address: u64, bytes: usize) {
        if self.blocks.remove(&address).is_some() {
            self.allocated_bytes -= bytes;
        }
    }

    fn recycle(&mut self, address: u64, bytes: usize, used: usize) {
        if let Some(block) = self.blocks.remove(&address) {
            self.allocated_bytes -= bytes;
            self.spare.put(block.region, physical_of(address), used);
        }
    }

    fn export(&self, node: NodeId, address: u64) -> u64 {
        let physical = physical_of(address);
        match self.peers.get(&node) {
            Some(peer) => peer.bus.address(physical).unwrap_or(NOWHERE),
            None => physical,
        }
    }

    fn read(&self, address: u64, buffer: &mut [u8]) {
        let (region, offset) = self.place(address);
        own(region.read_bytes(offset, buffer));
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let (region, offset) = self.place(address);
        own(region.write_bytes(offset, bytes));
    }

    fn load_index(&self, address: u64) -> u32 {
        let (region, offset) = self.place(address);
        own(region.load_acquire_u32(offset))
    }

    fn store_index(&mut self, address: u64, value: u32) {
        let (region, offset) = self.place(address);
        own(region.store_release_u32(offset, value));
    }

    fn exchange(&mut self, address: u64, expected: u32, new: u32) -> u32 {
        let (region, offset) = self.place(address);
        match own(region.compare_exchange_u32(offset, expected, new)) {
            Ok(found) | Err(found) => found,
        }
    }

    fn load_position(&self, address: u64) -> u64 {
        let (region, offset) = self.place(address);
        own(region.load_acquire_u64(offset))
    }

    fn store_position(&mut self, address: u64, value: u64) {
        let (region, offset) = self.place(address);
        own(region.store_release_u64(offset, value));
    }

    fn full_fence(&self) {
        hal::mem::full_fence();
    }

    fn peer_reaches(&self, node: NodeId, address: u64, bytes: usize) -> bool {
        self.window(node, address, bytes).is_ok()
    }

    fn peer_read(&self, node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
        let peer = self.peers.get(&node).ok_or(BadAddress)?;
        peer.aperture.read(address, buffer).map_err(|_| BadAddress)
    }

    fn peer_write(&mut self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        let peer = self.peers.get(&node).ok_or(BadAddress)?;
        peer.aperture.write(address, bytes).map_err(|_| BadAddress)
    }

    fn peer_store_index(
        &mut self,
        node: NodeId,
        address: u64,
        value: u32,
    ) -> Result<(), BadAddress> {
        // A release store: data written before is visible to the peer that reads the index.
        let word = self.window(node, address, size_of::<u32>())?;
        if self.gathers() {
            drain_writes();
        }
        word.store_release_u32(0, value).map_err(|_| BadAddress)
    }

    fn copy(&mut self, from: Place, to: Place, bytes: usize) -> Result<(), BadAddress> {
        let from = self.range(from, bytes, Access::Read)?;
        let to = self.range(to, bytes, Access::Write)?;
        to.copy_from(0, &from, 0, bytes).map_err(|_| BadAddress)
    }

    fn store_u64(&mut self, to: Place, value: u64) -> Result<(), BadAddress> {
        let to = self.range(to, size_of::<u64>(), Access::Write)?;
        self.fence();
        let stored = if to.address().is_multiple_of(size_of::<u64>()) {
            to.store_release_u64(0, value)
        } else {
            to.write_bytes(0, &value.to_le_bytes())
        };
        stored.map_err(|_| BadAddress)
    }

    fn fence(&mut self) {
        match self.gathers() {
            true => drain_writes(),
            false => hal::mem::write_fence(),
        }
    }
}

impl<S: BlockSource> PeerMemory for NodeMemory<S> {
    fn add_peer(&mut self, node: NodeId, peer: Peer) {
        self.peers.insert(node, peer);
    }
}

impl<S: BlockSource> Doorbells for NodeMemory<S> {
    fn ring(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.get(&node) {
            peer.doorbell.ring();
        }
    }
}

impl<S: BlockSource> ObjectMemory for NodeMemory<S> {
    type Space = Arc<Fd>;

    fn provide(&mut self, token: Token, pages: u64) -> SysResult<()> {
        let bytes = usize::try_from(pages)
            .ok()
            .and_then(|p| p.checked_mul(PAGE));
        let scattered = self.source.reserve(bytes.ok_or(Error::new(ENOMEM))?)?;
        self.begin(token, MemoryObject::Filling(scattered));
        Ok(())
    }

    fn pin(
        &mut self,
        token: Token,
        process: usize,
        space: Arc<Fd>,
        record: &PinRecord,
    ) -> SysResult<()> {
        let size = |value: u64| usize::try_from(value).map_err(|_| Error::new(EFAULT));
        let protection = Protection::from_bits_truncate(record.protection.get());
        let writable = protection.contains(Protection::WRITE);
        let wanted = Wanted {
            address: size(record.address.get())?,
            bytes: size(record.length.get())?,
            writable,
        };
        self.source.borrow(token, process, space, wanted)?;
        self.begin(token, MemoryObject::Borrowing { writable });
        Ok(())
    }

    fn release_space(&mut self, space: Arc<Fd>) {
        self.source.release(space);
    }

    fn build(&mut self, token: Token) -> SysResult<Progress> {
        self.take_borrowed();
        let entry = self.objects.get_mut(&token).ok_or(Error::new(EINVAL))?;
        Ok(match entry.object.step(&mut self.source)? {
            BuildStep::More => Progress::More,
            BuildStep::Pending => Progress::Pending,
            BuildStep::Complete => Progress::Complete(self.enter(token)?),
        })
    }

    fn discard(&mut self, token: Token) {
        if let Some(entry) = self.objects.remove(&token) {
            if matches!(entry.object, MemoryObject::Borrowing { .. }) {
                self.source.cancel(token);
            }
            self.leave(&entry.addresses);
        }
    }

    fn view(&self, token: Token) -> Option<usize> {
        let complete = self.objects.get(&token)?.object.complete()?;
        Some(complete.region.address())
    }
}

impl<S: BlockSource> scheme_scif::NodeMemory for NodeMemory<S> {
    fn random(&mut self) -> u64 {
        hal::random::word()
    }

    fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
    }

    fn spare_bytes(&self) -> usize {
        self.spare.bytes()
    }

    fn view_of(&self, place: Place, bytes: usize) -> Option<usize> {
        let region = self.range(place, bytes, Access::Read).ok()?;
        Some(region.address())
    }

    fn join(&mut self, pieces: &[(Place, u64)]) -> Option<View> {
        let parts: Option<Vec<Region>> = pieces
            .iter()
            .map(|&(place, bytes)| {
                let bytes = usize::try_from(bytes).ok()?;
                self.range(place, bytes, Access::Read).ok()
            })
            .collect();
        let parts = parts?;
        let address = parts.first()?.address();
        let follows = |two: &[Region]| two[0].address() + two[0].len() == two[1].address();
        if parts.windows(2).all(follows) {
            return Some(View {
                address,
                join: None,
            });
        }
        match self.source.join(&parts) {
            Ok(joined) => {
                let address = joined.address();
                self.last_join += 1;
                self.joins.insert(self.last_join, joined);
                let join = Some(self.last_join);
                Some(View { address, join })
            }
            Err(error) => {
                log::debug!("{} pieces of memory cannot be joined: {error}", parts.len());
                None
            }
        }
    }

    fn end_join(&mut self, id: JoinId) {
        self.joins.remove(&id);
    }

    fn physical(&self, place: Place) -> Option<u64> {
        match place {
            Place::Own(address) => Some(physical_of(address)),
            Place::Peer(node, address) => self.peers.get(&node)?.aperture.physical(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use client_memory::borrow::Frames;
    use hal::dma::Scattered;

    use scheme_scif::NodeMemory as _;

    use super::*;
    use crate::memory_object::Borrowed;

    /// Memory whose physical addresses the test chooses, in pieces of two pages at most.
    struct Plain {
        next: u64,
        left: usize,
        /// Borrowings that have ended, and those that were given up before.
        borrowed: Vec<Borrowed>,
        cancelled: Vec<Token>,
    }

    impl Plain {
        fn new(left: usize) -> Self {
            Self {
                next: 0x10_0000,
                left,
                borrowed: Vec::new(),
                cancelled: Vec::new(),
            }
        }
    }

    impl BlockSource for Plain {
        fn allocate(&mut self, bytes: usize) -> Option<(Region, u64)> {
            self.next += 0x10_0000;
            Some((Region::heap(bytes), self.next))
        }

        fn reserve(&mut self, bytes: usize) -> SysResult<Scattered> {
            Ok(Scattered::over(Region::heap(bytes)))
        }

        fn fill(&mut self, scattered: &mut Scattered) -> SysResult<bool> {
            scattered.take(|_, bytes| {
                if bytes > 2 * PAGE || bytes > self.left {
                    return Err(Error::new(ENOMEM));
                }
                self.left -= bytes;
                self.next += 0x10_0000;
                Ok(self.next)
            })
        }

        fn borrow(&mut self, _: Token, _: usize, _: Arc<Fd>, _: Wanted) -> SysResult<()> {
            Ok(())
        }

        fn cancel(&mut self, token: Token) {
            self.cancelled.push(token);
        }

        fn take_borrowed(&mut self) -> Option<Borrowed> {
            self.borrowed.pop()
        }
    }

    fn complete(memory: &mut NodeMemory<Plain>, token: Token) -> SysResult<Vec<Run>> {
        loop {
            match memory.build(token)? {
                Progress::Complete(runs) => return Ok(runs),
                Progress::More => {}
                Progress::Pending => panic!("nobody else is at work"),
            }
        }
    }

    fn pages(runs: &[Run]) -> Vec<u32> {
        runs.iter().map(|run| run.pages).collect()
    }

    #[test]
    fn provided_pages_are_reached_by_address_and_by_view() {
        let mut memory = NodeMemory::new(Plain::new(usize::MAX));
        memory.provide(1, 5).unwrap();
        assert_eq!(memory.build(1), Ok(Progress::More));
        let runs = complete(&mut memory, 1).unwrap();
        assert_eq!(pages(&runs), [2, 2, 1]);
        let view = memory.view(1).unwrap();
        let third = Place::Own(runs[1].address + 100);
        assert_eq!(memory.view_of(third, 8), Some(view + 2 * PAGE + 100));
        assert_eq!(memory.physical(third), Some(runs[1].address + 100));
        assert_eq!(memory.export(7, runs[1].address), runs[1].address);
        memory.write(runs[2].address + 8, b"abcdefgh");
        memory
            .copy(Place::Own(runs[2].address + 8), third, 8)
            .unwrap();
        let mut back = [0; 8];
        memory.read(runs[1].address + 100, &mut back);
        assert_eq!(&back, b"abcdefgh");
        // No access reaches beyond its run, or memory that was discarded.
        let end = Place::Own(runs[0].address + 2 * PAGE as u64 - 4);
        assert_eq!(memory.copy(third, end, 8), Err(BadAddress));
        assert_eq!(memory.view_of(end, 8), None);
        assert_eq!(memory.store_u64(end, 1), Err(BadAddress));
        memory.discard(1);
        assert_eq!(memory.copy(third, third, 8), Err(BadAddress));
        assert_eq!(memory.view_of(third, 8), None);
        assert!(memory.blocks.is_empty());
        memory.discard(1);
    }

    #[test]
    fn a_block_that_programs_never_had_comes_back_cleared() {
        let mut memory = NodeMemory::new(Plain::new(usize::MAX));
        let first = memory.allocate(2 * PAGE).unwrap();
        memory.write(first + 5000, b"secret");
        memory.recycle(first, 2 * PAGE, 2 * PAGE);
        assert_eq!(
            (memory.allocated_bytes, memory.spare_bytes()),
            (0, 2 * PAGE)
        );
        assert_eq!(memory.view_of(Place::Own(first), 1), None);
        assert_ne!(memory.allocate(PAGE), Some(first));
        assert_eq!(memory.allocate(2 * PAGE), Some(first));
        let mut bytes = [1; 6];
        memory.read(first + 5000, &mut bytes);
        assert_eq!(bytes, [0; 6]);
        assert_eq!(
            (memory.allocated_bytes, memory.spare_bytes()),
            (3 * PAGE, 0)
        );
        // Memory that programs may have mapped goes back to the kernel.
        memory.free(first, 2 * PAGE);
        assert_ne!(memory.allocate(2 * PAGE), Some(first));
    }

    #[test]
    fn stores_of_eight_bytes_need_four_byte_alignment_only() {
        let mut memory = NodeMemory::new(Plain::new(usize::MAX));
        memory.provide(1, 1).unwrap();
        let at = complete(&mut memory, 1).unwrap()[0].address;
        for offset in [0, 8, 12, 20] {
            let value = 0x1122_3344_5566_7788 + offset;
            assert_eq!(memory.store_u64(Place::Own(at + offset), value), Ok(()));
            let mut back = [0; 8];
            memory.read(at + offset, &mut back);
            assert_eq!(back, value.to_le_bytes());
        }
        assert_eq!(memory.store_u64(Place::Peer(3, 0), 1), Err(BadAddress));
    }

    #[test]
    fn scarce_memory_leaves_nothing_entered() {
        let mut memory = NodeMemory::new(Plain::new(3 * PAGE));
        memory.provide(1, 4).unwrap();
        assert_eq!(complete(&mut memory, 1), Err(Error::new(ENOMEM)));
        memory.discard(1);
        assert!(memory.blocks.is_empty() && memory.objects.is_empty());
        assert_eq!(memory.provide(2, u64::MAX), Err(Error::new(ENOMEM)));
    }

    /// Begins to pin this number of pages of a program.
    fn pin(memory: &mut NodeMemory<Plain>, token: Token, pages: usize, protection: Protection) {
        let record = PinRecord {
            space: 0.into(),
            address: 0x40_0000.into(),
            length: ((pages * PAGE) as u64).into(),
            protection: protection.bits().into(),
            flags: 0.into(),
        };
        memory
            .pin(token, 7, Arc::new(Fd::new(usize::MAX)), &record)
            .unwrap();
        assert_eq!(memory.build(token), Ok(Progress::Pending));
    }

    /// Ends the borrowing for an object with pages whose frames have these numbers, in runs.
    fn borrow(memory: &mut NodeMemory<Plain>, token: Token, runs: &[(u64, u32)]) -> Region {
        let pages: u32 = runs.iter().map(|(_, pages)| pages).sum();
        let region = Region::heap(pages as usize * PAGE);
        let frames = |&(first, pages): &(u64, u32)| Frames {
            physical: first * PAGE as u64,
            pages,
        };
        let frames = runs.iter().map(frames).collect();
        let ended = (token, Ok((region.clone(), frames)));
        memory.source.borrowed.push(ended);
        region
    }

    #[test]
    fn pinned_pages_may_be_in_use_already() {
        let mut memory = NodeMemory::new(Plain::new(usize::MAX));
        // Contiguous, then a page that comes twice, then one alone.
        pin(&mut memory, 1, 5, Protection::all());
        pin(&mut memory, 2, 2, Protection::all());
        let region = borrow(&mut memory, 1, &[(10, 3), (11, 1), (40, 1)]);
        let again = borrow(&mut memory, 2, &[(9, 2)]);
        let runs = complete(&mut memory, 1).unwrap();
        assert_eq!(pages(&runs), [3, 1, 1]);
        let other = complete(&mut memory, 2).unwrap();
        // Each has an address of its own, and the same physical one.
        for (run, frame) in [(runs[0], 10), (runs[1], 11), (runs[2], 40), (other[0], 9)] {
            let physical = frame * PAGE as u64;
            assert_eq!(memory.export(1, run.address), physical);
            assert_eq!(memory.physical(Place::Own(run.address)), Some(physical));
        }
        let second = Place::Own(runs[1].address);
        assert_eq!(
            memory.view_of(second, PAGE),
            Some(region.address() + 3 * PAGE)
        );
        let here = Place::Own(other[0].address);
        assert_eq!(memory.view_of(here, 2 * PAGE), Some(again.address()));
        memory.discard(1);
        assert_eq!(memory.blocks.len(), 1);
        memory.discard(2);
        assert!(memory.blocks.is_empty());
    }

    /// The user's limit does not count its pages any more, so nothing of it may be left.
    #[test]
    fn a_borrowing_for_an_object_that_is_discarded_is_given_up() {
        let mut memory = NodeMemory::new(Plain::new(usize::MAX));
        for token in 1..=3 {
            pin(&mut memory, token, 1, Protection::all());
        }
        borrow(&mut memory, 2, &[(7, 1)]);
        complete(&mut memory, 2).unwrap();
        memory.discard(3);
        memory.discard(2);
        assert_eq!(memory.source.cancelled, [3], "that of 2 has ended");
    }

    #[test]
    fn a_page_may_be_in_thousands_of_objects_but_not_in_any_number() {
        let mut memory = NodeMemory::new(Plain::new(usize::MAX));
        for token in 1..=MAX_ALIASES + 1 {
            pin(&mut memory, token, 1, Protection::all());
            borrow(&mut memory, token, &[(7, 1)]);
            assert!(complete(&mut memory, token).is_ok(), "{token}");
        }
        pin(&mut memory, 9999, 1, Protection::all());
        borrow(&mut memory, 9999, &[(7, 1)]);
        assert_eq!(complete(&mut memory, 9999), Err(Error::new(EFAULT)));
        memory.discard(5);
        pin(&mut memory, 10_000, 1, Protection::all());
        borrow(&mut memory, 10_000, &[(7, 1)]);
        assert!(complete(&mut memory, 10_000).is_ok());
    }

    /// A program may map one page at thousands of addresses and pin all of them: the driver looks
    /// for an address of each while all other programs wait.
    #[test]
    fn an_address_of_a_page_that_is_in_many_blocks_is_found_at_once() {
        let mut aliases = Aliases::default();
        let (mut taken, mut looks) = (BTreeSet::new(), 0);
        let mut choose = |is_free: &dyn Fn(u64) -> bool| {
            aliases.choose(0x7000, |address| {
                looks += 1;
                is_free(address)
            })
        };
        for _ in 0..=MAX_ALIASES {
            let address = choose(&|address| !taken.contains(&address)).unwrap();
            assert_eq!(physical_of(address), 0x7000);
            assert!(taken.insert(address));
        }
        assert_eq!(choose(&|_| false), None);
        // An alias that is free again is found, wherever it is.
        let gone = 1000 << PHYSICAL_BITS | 0x7000;
        assert_eq!(choose(&|address| address == gone), Some(gone));
        assert!(looks <= 5 * (MAX_ALIASES + 1), "{looks}");
    }

    #[test]
    fn what_cannot_be_pinned_leaves_nothing() {
        let mut memory = NodeMemory::new(Plain::new(usize::MAX));
        pin(&mut memory, 1, 2, Protection::all());
        let ended = (1, Err(Error::new(EFAULT)));
        memory.source.borrowed.push(ended);
        assert_eq!(complete(&mut memory, 1), Err(Error::new(EFAULT)));
        memory.discard(1);
        // Given up before the pages came: they are released.
        pin(&mut memory, 2, 2, Protection::all());
        memory.discard(2);
        borrow(&mut memory, 2, &[(7, 2)]);
        memory.take_borrowed();
        assert!(memory.blocks.is_empty() && memory.objects.is_empty());
    }

    #[test]
    fn what_was_pinned_to_be_read_is_never_written() {
        let mut memory = NodeMemory::new(Plain::new(usize::MAX));
        pin(&mut memory, 1, 1, Protection::READ);
        borrow(&mut memory, 1, &[(7, 1)]);
        let constant = Place::Own(complete(&mut memory, 1).unwrap()[0].address);
        memory.provide(2, 1).unwrap();
        let other = Place::Own(complete(&mut memory, 2).unwrap()[0].address);
        assert_eq!(memory.copy(constant, other, 8), Ok(()));
        assert_eq!(memory.copy(other, constant, 8), Err(BadAddress));
        assert_eq!(memory.store_u64(constant, 1), Err(BadAddress));
    }
}
