//! Plain memory in place of a machine: every node's is a list of bytes, and bus addresses are
//! offsets in it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use scif_abi::NodeId;
use scif_abi::call::PinRecord;
use scif_core::{BadAddress, Memory, Place, Run};
use syscall::error::{EFAULT, ENOMEM, Error, Result};

use super::PAGE;
use crate::{Doorbells, JoinId, NodeMemory, ObjectMemory, Progress, Token, View};

/// Pages of the largest run an object is made of, so that objects have several; a hole follows
/// each.
const RUN_PAGES: usize = 3;

/// Where a task sees its own objects, one after the other.
const VIEWS: usize = 1 << 32;
/// Where a task sees a peer's memory; the node follows in the bits below.
const APERTURES: usize = 1 << 50;
const NODE_SHIFT: usize = 40;
/// What processors and devices add to addresses of a peer, by node.
pub const PHYSICAL: u64 = 1 << 44;

/// All nodes' memories. A bus address is the offset in the node's memory.
#[derive(Default)]
pub struct World {
    memories: Vec<Vec<u8>>,
    free: Vec<Vec<(u64, usize)>>,
    rings: Vec<(NodeId, NodeId)>,
}

pub struct PlainMemory {
    node: NodeId,
    world: Rc<RefCell<World>>,
    pub allocated: usize,
    objects: BTreeMap<Token, PlainObject>,
    next_view: usize,
    /// Ranges made of pieces: address, and the pieces.
    joins: BTreeMap<JoinId, (usize, Vec<(Place, u64)>)>,
    last_join: JoinId,
    /// What [`NodeMemory::random`] gives: these first, then 1, 2 and so on, so that arbitrary
    /// requests name objects now and then.
    pub random: VecDeque<u64>,
    last_random: u64,
    /// Pages there are for objects.
    pub pages_left: u64,
    /// Address spaces that were released.
    pub released_spaces: u32,
}

/// A program's pages, in place of its address space: local addresses of runs. An address of
/// `u64::MAX` is not there, and whoever pins one of [`LATE`] first waits for a look.
pub type Space = Rc<Vec<Run>>;

/// See [`Space`].
pub const LATE: u64 = u64::MAX - 0xfff;

struct PlainObject {
    view: usize,
    pages: u64,
    runs: Vec<Run>,
    space: Option<Space>,
}

impl World {
    /// A node's memory, with one page that is nobody's.
    pub fn add_node(&mut self) {
        self.memories.push(vec![0; PAGE]);
        self.free.push(Vec::new());
    }

    /// Doorbells since the last call: by whom, and whose.
    pub fn take_rings(&mut self) -> Vec<(NodeId, NodeId)> {
        core::mem::take(&mut self.rings)
    }

    /// Forgets the doorbells there were.
    pub fn forget_rings(&mut self) {
        self.rings.clear();
    }

    /// Some bytes of a node's memory.
    pub fn bytes(&mut self, node: NodeId, address: u64, count: usize) -> &mut [u8] {
        &mut self.memories[usize::from(node)][address as usize..][..count]
    }

    /// A byte of a node's memory.
    pub fn byte(&mut self, node: NodeId, address: u64) -> &mut u8 {
        &mut self.memories[usize::from(node)][address as usize]
    }
}

impl PlainMemory {
    /// Ranges made of pieces that there are.
    pub fn joined(&self) -> usize {
        self.joins.len()
    }

    /// The memory of a node of `world`.
    pub fn new(node: NodeId, world: Rc<RefCell<World>>) -> Self {
        Self {
            node,
            world,
            allocated: 0,
            objects: BTreeMap::new(),
            next_view: VIEWS,
            joins: BTreeMap::new(),
            last_join: 0,
            random: VecDeque::new(),
            last_random: 0,
            pages_left: 1 << 20,
            released_spaces: 0,
        }
    }

    fn split(&self, place: Place) -> (NodeId, u64) {
        match place {
            Place::Own(address) => (self.node, address),
            Place::Peer(node, address) => (node, address),
        }
    }

    fn copy_in(&self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        let mut world = self.world.borrow_mut();
        let memory = world
            .memories
            .get_mut(usize::from(node))
            .ok_or(BadAddress)?;
        let start = usize::try_from(address).map_err(|_| BadAddress)?;
        let end = start.checked_add(bytes.len()).ok_or(BadAddress)?;
        memory
            .get_mut(start..end)
            .ok_or(BadAddress)?
            .copy_from_slice(bytes);
        Ok(())
    }

    fn copy_out(&self, node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
        let world = self.world.borrow();
        let memory = world.memories.get(usize::from(node)).ok_or(BadAddress)?;
        let start = usize::try_from(address).map_err(|_| BadAddress)?;
        let end = start.checked_add(buffer.len()).ok_or(BadAddress)?;
        buffer.copy_from_slice(memory.get(start..end).ok_or(BadAddress)?);
        Ok(())
    }
}

impl Memory for PlainMemory {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        assert!(bytes > 0 && bytes.is_multiple_of(PAGE));
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let node = usize::from(self.node);
        let memory = &mut world.memories[node];
        self.allocated += bytes;
        let reuse = world.free[node]
            .iter()
            .position(|&(_, length)| length == bytes);
        if let Some(index) = reuse {
            let (address, _) = world.free[node].swap_remove(index);
            memory[address as usize..][..bytes].fill(0);
            return Some(address);
        }
        let address = memory.len().next_multiple_of(PAGE);
        memory.resize(address + bytes, 0);
        Some(address as u64)
    }

    fn free(&mut self, address: u64, bytes: usize) {
        self.allocated -= bytes;
        self.world.borrow_mut().free[usize::from(self.node)].push((address, bytes));
    }

    fn export(&self, _node: NodeId, address: u64) -> u64 {
        address
    }

    fn read(&self, address: u64, buffer: &mut [u8]) {
        self.copy_out(self.node, address, buffer).unwrap();
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.copy_in(self.node, address, bytes).unwrap();
    }

    fn load_index(&self, address: u64) -> u32 {
        let mut word = [0; 4];
        self.read(address, &mut word);
        u32::from_le_bytes(word)
    }

    fn store_index(&mut self, address: u64, value: u32) {
        self.write(address, &value.to_le_bytes());
    }

    // All nodes are in one thread: every step is atomic, and visible at once.
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

    fn peer_reaches(&self, node: NodeId, address: u64, bytes: usize) -> bool {
        self.copy_out(node, address, &mut vec![0; bytes]).is_ok()
    }

    fn peer_read(&self, node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
        self.copy_out(node, address, buffer)
    }

    fn peer_write(&mut self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        self.copy_in(node, address, bytes)
    }

    fn peer_store_index(
        &mut self,
        node: NodeId,
        address: u64,
        value: u32,
    ) -> Result<(), BadAddress> {
        self.copy_in(node, address, &value.to_le_bytes())
    }

    fn copy(&mut self, from: Place, to: Place, bytes: usize) -> Result<(), BadAddress> {
        let mut buffer = vec![0; bytes];
        let (node, address) = self.split(from);
        self.copy_out(node, address, &mut buffer)?;
        let (node, address) = self.split(to);
        self.copy_in(node, address, &buffer)
    }

    fn store_u64(&mut self, to: Place, value: u64) -> Result<(), BadAddress> {
        let (node, address) = self.split(to);
        self.copy_in(node, address, &value.to_le_bytes())
    }

    fn fence(&mut self) {}
}

impl PlainMemory {
    /// The node and the address there that a task sees at a virtual address.
    pub fn translate(&self, address: usize) -> (NodeId, u64) {
        if address >= APERTURES {
            let rest = address - APERTURES;
            let node = (rest >> NODE_SHIFT) as NodeId;
            return (node, (rest & ((1 << NODE_SHIFT) - 1)) as u64);
        }
        for (start, pieces) in self.joins.values() {
            let Some(mut offset) = address.checked_sub(*start).map(|at| at as u64) else {
                continue;
            };
            for (place, bytes) in pieces {
                if offset < *bytes {
                    return self.split(place.offset(offset));
                }
                offset -= bytes;
            }
        }
        let holds = |object: &&PlainObject| {
            object.view <= address && address < object.view + object.pages as usize * PAGE
        };
        let object = self
            .objects
            .values()
            .find(holds)
            .expect("nothing is mapped there");
        let mut offset = (address - object.view) as u64;
        for run in &object.runs {
            let bytes = u64::from(run.pages) * PAGE as u64;
            if offset < bytes {
                return (self.node, run.address + offset);
            }
            offset -= bytes;
        }
        panic!("{address:#x} lies behind its object");
    }

    /// The local address of what a program sees at an address.
    pub fn local(&self, address: usize) -> u64 {
        self.translate(address).1
    }

    fn begin(&mut self, token: Token, pages: u64, space: Option<Space>) {
        let object = PlainObject {
            view: self.next_view,
            pages,
            runs: Vec::new(),
            space,
        };
        self.next_view += (pages as usize + 1) * PAGE;
        assert!(self.objects.insert(token, object).is_none());
    }
}

impl Doorbells for PlainMemory {
    fn ring(&mut self, node: NodeId) {
        self.world.borrow_mut().rings.push((self.node, node));
    }
}

impl ObjectMemory for PlainMemory {
    type Space = Space;

    fn provide(&mut self, token: Token, pages: u64) -> Result<()> {
        self.begin(token, pages, None);
        Ok(())
    }

    fn pin(&mut self, token: Token, space: Space, record: &PinRecord) -> Result<()> {
        self.begin(token, record.length.get() / PAGE as u64, Some(space));
        Ok(())
    }

    fn release_space(&mut self, _space: Space) {
        self.released_spaces += 1;
    }

    fn build(&mut self, token: Token) -> Result<Progress> {
        let object = self.objects.get_mut(&token).unwrap();
        let done: u64 = object.runs.iter().map(|run| u64::from(run.pages)).sum();
        if let Some(space) = &object.space {
            // The record's address is not looked at: a space has just the pages to be pinned.
            let late = space.iter().position(|run| run.address == LATE);
            if let Some(late) = late {
                let mut runs = Vec::clone(space);
                runs.remove(late);
                object.space = Some(Rc::new(runs));
                return Ok(Progress::Pending);
            }
            let Some(&run) = space.get(object.runs.len()) else {
                return Err(Error::new(EFAULT));
            };
            if run.address == u64::MAX || done + u64::from(run.pages) > object.pages {
                return Err(Error::new(EFAULT));
            }
            object.runs.push(run);
            return Ok(match done + u64::from(run.pages) == object.pages {
                true => Progress::Complete(object.runs.clone()),
                false => Progress::More,
            });
        }
        let pages = (object.pages - done).min(RUN_PAGES as u64);
        if pages > self.pages_left {
            return Err(Error::new(ENOMEM));
        }
        self.pages_left -= pages;
        let mut world = self.world.borrow_mut();
        let memory = &mut world.memories[usize::from(self.node)];
        let address = memory.len().next_multiple_of(PAGE) + PAGE;
        memory.resize(address + pages as usize * PAGE, 0);
        object.runs.push(Run {
            address: address as u64,
            pages: pages as u32,
        });
        Ok(match done + pages == object.pages {
            true => Progress::Complete(object.runs.clone()),
            false => Progress::More,
        })
    }

    fn discard(&mut self, token: Token) {
        let object = self.objects.remove(&token).expect("discarded twice");
        if object.space.is_none() {
            let pages = object.runs.iter().map(|run| u64::from(run.pages));
            self.pages_left += pages.sum::<u64>();
        }
    }

    fn view(&self, token: Token) -> Option<usize> {
        Some(self.objects.get(&token)?.view)
    }
}

impl NodeMemory for PlainMemory {
    fn random(&mut self) -> u64 {
        if let Some(next) = self.random.pop_front() {
            return next;
        }
        self.last_random += 1;
        self.last_random
    }

    fn allocated_bytes(&self) -> usize {
        self.allocated
    }

    fn view_of(&self, place: Place, bytes: usize) -> Option<usize> {
        let seen = |node, address| APERTURES + (usize::from(node) << NODE_SHIFT) + address as usize;
        let address = match place {
            Place::Peer(node, address) => return Some(seen(node, address)),
            Place::Own(address) => address,
        };
        let found = self.objects.values().find_map(|object| {
            let mut before = 0;
            object.runs.iter().find_map(|run| {
                let length = run.pages as usize * PAGE;
                let inside = run.address <= address
                    && address as usize + bytes <= run.address as usize + length;
                before += length;
                let start = object.view + before - length;
                inside.then(|| start + (address - run.address) as usize)
            })
        });
        // What is no object's is the engine's.
        found.or_else(|| Some(seen(self.node, address)))
    }

    fn join(&mut self, pieces: &[(Place, u64)]) -> Option<View> {
        let views: Option<Vec<(usize, u64)>> = pieces
            .iter()
            .map(|&(place, bytes)| Some((self.view_of(place, bytes as usize)?, bytes)))
            .collect();
        let views = views?;
        let follows = |two: &[(usize, u64)]| two[0].0 + two[0].1 as usize == two[1].0;
        if views.windows(2).all(follows) {
            let (address, join) = (views[0].0, None);
            return Some(View { address, join });
        }
        let address = self.next_view;
        let bytes: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
        self.next_view += bytes as usize + PAGE;
        self.last_join += 1;
        let join = self.last_join;
        self.joins.insert(join, (address, pieces.to_vec()));
        let join = Some(join);
        Some(View { address, join })
    }

    fn end_join(&mut self, id: JoinId) {
        self.joins.remove(&id).expect("ended twice");
    }

    fn physical(&self, place: Place) -> Option<u64> {
        Some(match place {
            Place::Own(address) => address,
            Place::Peer(node, address) => PHYSICAL * u64::from(node) + address,
        })
    }
}
