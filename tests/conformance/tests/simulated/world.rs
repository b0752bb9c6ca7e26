//! Two engines, their memory and the link between them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use scif_core::{Config, CpuEngine, Engine, Event, Memory, PinId};
use sim::memory::{Fabric, NodeMemory};

/// One node.
pub struct Node {
    pub engine: Engine,
    pub memory: NodeMemory,
    /// Memory of programs, by the ids under which the engine knows pinned memory.
    pub pins: BTreeMap<PinId, Pinnable>,
    copier: CpuEngine,
}

/// Memory of a program. It is released once the program has freed it and nothing uses it.
pub struct Pinnable {
    /// Local addresses of its pages.
    pub pages: Vec<u64>,
    /// Number of windows and transfers that use it.
    pub uses: usize,
    /// Whether the program has freed it.
    pub freed: bool,
}

impl Node {
    /// Releases memory that is freed and unused.
    pub fn release(&mut self, pin: PinId) {
        let Some(memory) = self.pins.get(&pin) else {
            return;
        };
        if memory.freed && memory.uses == 0 {
            for page in &memory.pages {
                self.memory.free(*page, PAGE_BYTES);
            }
            self.pins.remove(&pin);
        }
    }
}

/// Two nodes and their link.
pub struct World {
    pub nodes: Vec<Node>,
    fabric: Rc<RefCell<Fabric>>,
    linked: bool,
    now: u64,
}

/// Bytes in a page.
pub const PAGE_BYTES: usize = 4096;

/// Bytes that an engine copies in one turn.
const COPY_BYTES: usize = 1 << 20;

/// Bytes of memory on each node.
const RAM_BYTES: usize = 64 << 20;

impl World {
    /// Two nodes that are online.
    pub fn new() -> World {
        let fabric = Fabric::with_bytes(2, RAM_BYTES);
        let node = |number: u16| Node {
            engine: Engine::new(Config::new(number)),
            memory: NodeMemory::new(&fabric, number.into()),
            pins: BTreeMap::new(),
            copier: CpuEngine,
        };
        let mut world = World {
            nodes: vec![node(0), node(1)],
            fabric,
            linked: false,
            now: 1,
        };
        world.join();
        world
    }

    /// Brings the link up, if it is down.
    pub fn join(&mut self) {
        if std::mem::replace(&mut self.linked, true) {
            return;
        }
        let mut queue_pairs = [0; 2];
        for number in [0, 1] {
            let node = &mut self.nodes[number];
            let peer = 1 - number as u16;
            queue_pairs[number] = node.engine.attach(&mut node.memory, peer).expect("attach");
        }
        for number in [0, 1] {
            self.fabric.borrow_mut().set_reach(number, 1 - number, true);
        }
        for number in [0, 1] {
            let node = &mut self.nodes[number];
            let peer = 1 - number as u16;
            let result = node
                .engine
                .link_up(&mut node.memory, peer, queue_pairs[1 - number]);
            result.expect("link_up");
        }
        while self.pump() {}
        for node in &self.nodes {
            assert_eq!(
                node.engine.online_nodes().count(),
                2,
                "both nodes are online"
            );
        }
    }

    /// Cuts the link for both nodes.
    pub fn cut(&mut self) {
        self.linked = false;
        for number in [0, 1] {
            self.fabric
                .borrow_mut()
                .set_reach(number, 1 - number, false);
        }
        for number in [0, 1] {
            let node = &mut self.nodes[number];
            node.engine.link_down(&mut node.memory, 1 - number as u16);
        }
    }

    /// Executes the events of the engines. Returns false if there are none.
    pub fn pump(&mut self) -> bool {
        self.now += 1;
        let mut busy = false;
        for number in [0, 1] {
            let node = &mut self.nodes[number];
            node.engine.tick(&mut node.memory, self.now);
            let (memory, copier) = (&mut node.memory, &mut node.copier);
            busy |= node.engine.pump(memory, copier, COPY_BYTES);
            while let Some(event) = self.next_event(number) {
                busy = true;
                match event {
                    Event::Ring(to) => {
                        let peer = &mut self.nodes[usize::from(to)];
                        peer.engine.doorbell(&mut peer.memory, number as u16);
                    }
                    Event::Unpin(pin) => {
                        let node = &mut self.nodes[number];
                        let pinned = node.pins.get_mut(&pin).expect("released once per use");
                        pinned.uses = pinned.uses.checked_sub(1).expect("released once per use");
                        node.release(pin);
                    }
                    _ => {}
                }
            }
        }
        busy
    }

    fn next_event(&mut self, number: usize) -> Option<Event> {
        let node = &mut self.nodes[number];
        node.engine.next_event(&mut node.memory)
    }

    /// Checks the invariants of the engines and of memory.
    pub fn check(&self) -> Result<(), String> {
        if let Some(fault) = self.fabric.borrow_mut().fault.take() {
            return Err(fault);
        }
        for node in &self.nodes {
            node.engine
                .check_invariants()
                .map_err(|what| what.to_string())?;
        }
        Ok(())
    }
}
