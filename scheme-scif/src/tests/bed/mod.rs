//! The test bed: nodes with plain memory instead of links, and the part of the event loop that
//! keeps requests and tries them again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use scif_core::{Config, CopyEngine, CpuEngine, Engine};
use syscall::error::{EWOULDBLOCK, Error, Result};
use syscall::flag::{EventFlags, MapFlags, O_RDONLY, O_RDWR, O_WRONLY};

use crate::{Caller, HandleId, NodeEvent, ROOT, Scif};

mod memory;

pub use memory::{LATE, PHYSICAL, Space};
use memory::{PlainMemory, World};

pub const USER: Caller = Caller {
    pid: 77,
    uid: 1000,
    gid: 1000,
};
pub const ADMIN: Caller = Caller {
    pid: 7,
    uid: 0,
    gid: 0,
};
pub const EMPTY: EventFlags = EventFlags::empty();

pub const PAGE: usize = 4096;

/// A request as a client makes it.
#[derive(Clone, Debug)]
pub enum Op {
    Open {
        directory: HandleId,
        path: String,
        flags: usize,
        caller: Caller,
    },
    Read {
        id: HandleId,
        length: usize,
        flags: usize,
    },
    Write {
        id: HandleId,
        bytes: Vec<u8>,
        flags: usize,
    },
    Dup {
        id: HandleId,
        name: Vec<u8>,
        caller: Caller,
    },
    Call {
        id: HandleId,
        payload: Vec<u8>,
        metadata: Vec<u64>,
    },
    Send {
        id: HandleId,
        word: u64,
        space: Space,
    },
}

struct Kept {
    op: Op,
    buffer: Vec<u8>,
}

/// A finished request: its result, and the bytes it stored.
pub type Answer = (Result<usize>, Vec<u8>);

/// One node: the scheme and the requests that wait.
pub struct Node {
    pub scif: Scif<PlainMemory, u32>,
    kept: BTreeMap<u32, Kept>,
    answers: BTreeMap<u32, Answer>,
    last: u32,
    /// What copies.
    pub copier: Box<dyn CopyEngine>,
    pub news: Vec<NodeEvent>,
    /// Handles that changed since the test last looked.
    pub events: Vec<HandleId>,
}

pub struct Bed {
    pub nodes: Vec<Node>,
    world: Rc<RefCell<World>>,
}

impl Node {
    fn attempt(&mut self, request: u32, mut kept: Kept) {
        let scif = &mut self.scif;
        let result = match &kept.op {
            Op::Open {
                directory,
                path,
                flags,
                caller,
            } => scif.open(*directory, path, *flags, 0, *caller, request),
            Op::Read { id, flags, .. } => {
                scif.read(*id, &mut kept.buffer, u64::MAX, *flags, request)
            }
            Op::Write { id, bytes, flags } => scif.write(*id, bytes, *flags, request),
            Op::Dup { id, name, caller } => scif.dup(*id, name, *caller, request),
            Op::Call { id, metadata, .. } => scif.call(*id, &mut kept.buffer, metadata, request),
            Op::Send { id, word, space } => scif.take_space(*id, *word, space.clone()),
        };
        if result == Err(Error::new(EWOULDBLOCK)) {
            self.kept.insert(request, kept);
        } else {
            self.answers.insert(request, (result, kept.buffer));
        }
    }

    fn handle_of(op: &Op) -> HandleId {
        match op {
            Op::Open { directory, .. } => *directory,
            Op::Read { id, .. } | Op::Write { id, .. } | Op::Dup { id, .. } => *id,
            Op::Call { id, .. } | Op::Send { id, .. } => *id,
        }
    }

    /// One look at what changed; whether anything did.
    fn settle(&mut self) -> bool {
        self.scif.begin_iteration();
        let changes = core::mem::take(self.scif.take_changes(&mut *self.copier));
        while let Some(news) = self.scif.next_node_event() {
            self.news.push(news);
        }
        self.events.extend(&changes.handles);
        let again: Vec<u32> = self
            .kept
            .iter()
            .filter(|(request, kept)| {
                changes.requests.contains(request)
                    || changes.handles.contains(&Self::handle_of(&kept.op))
            })
            .map(|(&request, _)| request)
            .collect();
        for request in again {
            let kept = self.kept.remove(&request).unwrap();
            self.attempt(request, kept);
        }
        self.scif.is_busy() || !changes.handles.is_empty() || !changes.requests.is_empty()
    }
}

impl Bed {
    /// Nodes 0 to `count` − 1, all linked with each other.
    pub fn new(count: u16) -> Self {
        let world = Rc::new(RefCell::new(World::default()));
        let nodes = (0..count)
            .map(|node| {
                world.borrow_mut().add_node();
                let memory = PlainMemory::new(node, world.clone());
                Node {
                    scif: Scif::new(Engine::new(Config::new(node)), memory),
                    kept: BTreeMap::new(),
                    answers: BTreeMap::new(),
                    last: 0,
                    copier: Box::new(CpuEngine),
                    news: Vec::new(),
                    events: Vec::new(),
                }
            })
            .collect();
        let mut bed = Self { nodes, world };
        for a in 0..count {
            for b in a + 1..count {
                bed.link(a, b);
            }
        }
        bed.run();
        bed
    }

    fn link(&mut self, a: u16, b: u16) {
        let mut pairs = [0; 2];
        for (index, (own, peer)) in [(a, b), (b, a)].into_iter().enumerate() {
            let (engine, memory) = self.nodes[usize::from(own)].scif.engine();
            pairs[index] = engine.attach(memory, peer).unwrap();
        }
        for (own, peer, pair) in [(a, b, pairs[1]), (b, a, pairs[0])] {
            let (engine, memory) = self.nodes[usize::from(own)].scif.engine();
            engine.link_up(memory, peer, pair).unwrap();
        }
    }

    /// The node disappears: every other one takes its link down.
    pub fn lose(&mut self, node: u16) {
        for other in &mut self.nodes {
            let (engine, memory) = other.scif.engine();
            if engine.node() != node {
                engine.link_down(memory, node);
            }
        }
        self.run();
    }

    /// Forgets the doorbells there were, for a test that rings them itself.
    pub fn forget_rings(&mut self) {
        self.world.borrow_mut().forget_rings();
    }

    /// Runs all nodes until nothing changes any more.
    pub fn run(&mut self) {
        while self.turn() {}
    }

    /// Runs all nodes turn by turn until something is so.
    #[track_caller]
    pub fn run_until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        while !is_so(self) {
            assert!(self.turn(), "nothing changes any more");
        }
    }

    /// One turn of every node; whether anything changed.
    fn turn(&mut self) -> bool {
        let mut busy = false;
        for node in &mut self.nodes {
            busy |= node.settle();
        }
        let rings = self.world.borrow_mut().take_rings();
        for (from, to) in rings {
            busy = true;
            let (engine, memory) = self.nodes[usize::from(to)].scif.engine();
            engine.doorbell(memory, from);
        }
        busy
    }

    /// Makes a request and runs until nothing changes; returns its number.
    pub fn submit(&mut self, node: usize, op: Op) -> u32 {
        let request = self.submit_only(node, op);
        self.run();
        request
    }

    /// An operation without payload that is answered before anything else happens.
    #[track_caller]
    pub fn call_only(&mut self, node: usize, id: HandleId, metadata: [u64; 3]) -> Result<usize> {
        let op = Op::Call {
            id,
            payload: Vec::new(),
            metadata: metadata.to_vec(),
        };
        let request = self.submit_only(node, op);
        self.answer(node, request).expect("kept").0
    }

    /// Makes a request; returns its number.
    pub fn submit_only(&mut self, node: usize, op: Op) -> u32 {
        let at = &mut self.nodes[node];
        at.last += 1;
        let request = at.last;
        let buffer = match &op {
            Op::Read { length, .. } => vec![0; *length],
            Op::Call { payload, .. } => payload.clone(),
            _ => Vec::new(),
        };
        at.attempt(request, Kept { op, buffer });
        request
    }

    /// The answer to a request, once there is one.
    pub fn answer(&mut self, node: usize, request: u32) -> Option<Answer> {
        self.nodes[node].answers.remove(&request)
    }

    /// Cancels a request and returns the answer to it.
    pub fn cancel(&mut self, node: usize, request: u32) -> Result<usize> {
        assert!(
            self.nodes[node].kept.remove(&request).is_some(),
            "request {request} not kept"
        );
        let result = self.nodes[node].scif.cancel(request);
        self.run();
        result
    }

    pub fn is_kept(&self, node: usize, request: u32) -> bool {
        self.nodes[node].kept.contains_key(&request)
    }

    pub fn all_kept(&self, node: usize) -> Vec<u32> {
        self.nodes[node].kept.keys().copied().collect()
    }

    pub fn kept(&self, node: usize) -> usize {
        self.nodes[node].kept.len()
    }

    /// A request that must be answered at once.
    #[track_caller]
    pub fn now(&mut self, node: usize, op: Op) -> Answer {
        let request = self.submit(node, op.clone());
        self.answer(node, request)
            .unwrap_or_else(|| panic!("{op:?} was kept"))
    }

    pub fn start_open(&mut self, node: usize, path: &str) -> u32 {
        let op = Op::Open {
            directory: ROOT,
            path: path.into(),
            flags: O_RDWR,
            caller: ADMIN,
        };
        self.submit(node, op)
    }

    #[track_caller]
    pub fn open_with(
        &mut self,
        node: usize,
        path: &str,
        flags: usize,
        caller: Caller,
    ) -> Result<HandleId> {
        self.now(
            node,
            Op::Open {
                directory: ROOT,
                path: path.into(),
                flags,
                caller,
            },
        )
        .0
    }

    #[track_caller]
    pub fn open(&mut self, node: usize, path: &str) -> Result<HandleId> {
        self.open_with(node, path, O_RDWR, ADMIN)
    }

    #[track_caller]
    pub fn text(&mut self, node: usize, path: &str) -> String {
        self.text_for(node, path, ADMIN)
    }

    /// A text file as `caller` sees it.
    #[track_caller]
    pub fn text_for(&mut self, node: usize, path: &str, caller: Caller) -> String {
        let id = self.open_with(node, path, O_RDONLY, caller).unwrap();
        let mut buffer = vec![0; 65536];
        let count = self.nodes[node]
            .scif
            .read(id, &mut buffer, 0, 0, 0)
            .unwrap();
        self.close(node, id);
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    /// The value of a counter of the `stats` file.
    #[track_caller]
    pub fn counter(&mut self, node: usize, name: &str) -> u64 {
        counter_in(&self.text(node, "stats"), name)
    }

    pub fn start_read(&mut self, node: usize, id: HandleId, length: usize) -> u32 {
        self.submit(
            node,
            Op::Read {
                id,
                length,
                flags: O_RDONLY,
            },
        )
    }

    #[track_caller]
    pub fn read(&mut self, node: usize, id: HandleId, length: usize) -> Result<Vec<u8>> {
        let (result, bytes) = self.now(
            node,
            Op::Read {
                id,
                length,
                flags: 0,
            },
        );
        result.map(|count| bytes[..count].to_vec())
    }

    pub fn start_write(&mut self, node: usize, id: HandleId, bytes: &[u8]) -> u32 {
        self.submit(
            node,
            Op::Write {
                id,
                bytes: bytes.to_vec(),
                flags: O_WRONLY,
            },
        )
    }

    #[track_caller]
    pub fn write(&mut self, node: usize, id: HandleId, bytes: &[u8]) -> Result<usize> {
        self.now(
            node,
            Op::Write {
                id,
                bytes: bytes.to_vec(),
                flags: 0,
            },
        )
        .0
    }

    pub fn start_accept(&mut self, node: usize, id: HandleId) -> u32 {
        self.submit(
            node,
            Op::Dup {
                id,
                name: b"accept".to_vec(),
                caller: ADMIN,
            },
        )
    }

    #[track_caller]
    pub fn call(
        &mut self,
        node: usize,
        id: HandleId,
        payload: &[u8],
        metadata: [u64; 3],
    ) -> (Result<usize>, Vec<u8>) {
        self.now(
            node,
            Op::Call {
                id,
                payload: payload.to_vec(),
                metadata: metadata.to_vec(),
            },
        )
    }

    pub fn start_call(&mut self, node: usize, id: HandleId, payload: &[u8], m: [u64; 3]) -> u32 {
        self.submit(
            node,
            Op::Call {
                id,
                payload: payload.to_vec(),
                metadata: m.to_vec(),
            },
        )
    }

    /// `fmap` as the kernel asks for it; the address is one of the daemon's.
    pub fn map(
        &mut self,
        node: usize,
        id: HandleId,
        offset: u64,
        size: usize,
        flags: MapFlags,
    ) -> Result<usize> {
        let mapped = self.nodes[node].scif.map(id, offset, size, flags);
        self.run();
        mapped
    }

    pub fn unmap(&mut self, node: usize, id: HandleId, offset: u64, size: usize) -> Result<()> {
        let result = self.nodes[node].scif.unmap(id, offset, size);
        self.run();
        result
    }

    /// A byte of a node's memory.
    pub fn raw(&self, node: usize, address: u64) -> u8 {
        *self.world.borrow_mut().byte(node as u16, address)
    }

    /// What a program on `node` sees in pages it has mapped from `address`.
    pub fn peek(&mut self, node: usize, address: usize, bytes: usize) -> Vec<u8> {
        let memory = self.nodes[node].scif.engine().1;
        let mut world = self.world.borrow_mut();
        let mut seen = Vec::new();
        while seen.len() < bytes {
            let at = address + seen.len();
            let count = (PAGE - at % PAGE).min(bytes - seen.len());
            let (node, address) = memory.translate(at);
            seen.extend_from_slice(world.bytes(node, address, count));
        }
        seen
    }

    /// A program's stores to pages it has mapped from `address`.
    pub fn poke(&mut self, node: usize, address: usize, bytes: &[u8]) {
        let memory = self.nodes[node].scif.engine().1;
        let mut world = self.world.borrow_mut();
        let mut done = 0;
        while done < bytes.len() {
            let at = address + done;
            let count = (PAGE - at % PAGE).min(bytes.len() - done);
            let (node, address) = memory.translate(at);
            let page = world.bytes(node, address, count);
            page.copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
    }

    pub fn close(&mut self, node: usize, id: HandleId) {
        // The event loop cancels what waits on a handle before it closes it.
        let at = &mut self.nodes[node];
        let left: Vec<u32> = at
            .kept
            .iter()
            .filter(|(_, kept)| id != ROOT && Node::handle_of(&kept.op) == id)
            .map(|(&request, _)| request)
            .collect();
        for request in left {
            at.kept.remove(&request);
            let result = at.scif.cancel(request);
            at.answers.insert(request, (result, Vec::new()));
        }
        at.scif.close(id);
        self.run();
    }

    #[track_caller]
    pub fn ready(&mut self, node: usize, id: HandleId) -> EventFlags {
        let all = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
        self.nodes[node].scif.ready(id, all).unwrap()
    }

    /// A connection from `from` to `to` over `port`: the connector's handle and the accepted one.
    #[track_caller]
    pub fn pair(&mut self, from: usize, to: usize, port: u16) -> (HandleId, HandleId) {
        let accept = self.start_open(to, &format!("accept/{port}"));
        assert!(self.answer(to, accept).is_none());
        let connect = self.start_open(from, &format!("{to}/{port}"));
        let accepted = self
            .answer(to, accept)
            .expect("accept still waits")
            .0
            .unwrap();
        let connected = self
            .answer(from, connect)
            .expect("connect still waits")
            .0
            .unwrap();
        (connected, accepted)
    }
}

#[track_caller]
fn counter_in(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no counter {name} in\n{text}"));
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What must be the same before and after, of all nodes.
pub fn state(bed: &mut Bed) -> Vec<u64> {
    let names = [
        "handles",
        "waiting",
        "memory_objects",
        "memory_pages",
        "endpoints",
        "connections",
        "windows",
        "remote_windows",
        "pinned_pages",
        "mapped_pages",
        "jobs",
        "pages",
    ];
    let mut values = Vec::new();
    for node in 0..bed.nodes.len() {
        let text = bed.text(node, "stats");
        values.extend(names.map(|name| counter_in(&text, name)));
        assert_eq!(bed.kept(node), 0);
        let (engine, _) = bed.nodes[node].scif.engine();
        assert_eq!(engine.check_invariants(), Ok(()));
    }
    values
}
