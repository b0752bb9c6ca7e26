//! A small pure model of SCIF's documents: the result of each call, without an implementation.
//!
//! Eight endpoint slots, the first four on node 0, the others on node 1; two pieces of memory on
//! each node. All connects are non-blocking, all transfers of data SYNC.

mod connections;
pub mod windows;

use std::collections::{BTreeMap, VecDeque};

use scif_abi::Error;

/// Endpoint slots on a node.
pub const SLOTS: usize = 4;
/// Pieces of memory on a node.
pub const MEMORIES: usize = 2;
/// Pages in a piece of memory.
pub const MEMORY_PAGES: usize = 3;
/// Bytes in a page.
pub const PAGE: usize = 4096;

/// One call.
#[derive(Clone, Debug)]
pub enum Op {
    /// `scif_open` into a slot that is closed.
    Open { slot: usize },
    /// `scif_close`.
    Close { slot: usize },
    /// `scif_bind`.
    Bind { slot: usize, port: u16 },
    /// `scif_listen`.
    Listen { slot: usize, backlog: i32 },
    /// `scif_connect` to a port of a node, or the collection of its result.
    Connect { slot: usize, node: usize, port: u16 },
    /// `scif_accept` into the first closed slot of the node.
    Accept { slot: usize },
    /// `scif_send` without waiting.
    Send { slot: usize, length: usize },
    /// `scif_recv` without waiting.
    Recv { slot: usize, length: usize },
    /// `scif_poll`.
    Poll { slot: usize },
    /// `scif_register` at a fixed page.
    Register {
        slot: usize,
        memory: usize,
        first: usize,
        pages: usize,
        at: usize,
        protection: u32,
    },
    /// `scif_unregister` of pages.
    Unregister {
        slot: usize,
        at: usize,
        pages: usize,
    },
    /// One of the four RMA calls.
    Rma {
        slot: usize,
        reads: bool,
        /// The slot of memory, if the local side is memory rather than windows.
        memory: Option<usize>,
        local: usize,
        length: usize,
        remote: usize,
        flags: u32,
    },
    /// `scif_fence_mark`.
    Mark { slot: usize, flags: u32 },
    /// `scif_fence_wait` for the mark taken this number of calls before, or for a number that is
    /// none.
    Wait { slot: usize, back: usize },
    /// `scif_fence_signal` of both sides by INIT_SELF.
    Signal {
        slot: usize,
        local: usize,
        remote: usize,
    },
    /// A program stores a word.
    Store {
        memory: usize,
        word: usize,
        value: u64,
    },
    /// A program loads a word.
    Load { memory: usize, word: usize },
}

/// The results that are allowed for a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// This value.
    Value(i64),
    /// Any value that is at least 0.
    Any,
    /// One of these errors: if several arguments are wrong, the documents do not say which error
    /// wins.
    Fails(Vec<Error>),
    /// The call must not be made.
    Skip,
}

/// One error.
fn fails(error: Error) -> Expected {
    Expected::Fails(vec![error])
}

/// The states of an endpoint.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Closed,
    Unbound,
    Bound,
    Listening {
        backlog: usize,
        queue: VecDeque<usize>,
    },
    /// Its request waits at this endpoint.
    Requesting(usize),
    /// It is connected to this endpoint.
    Connected(usize),
    Disconnected,
}

/// The result of a connect that was not collected yet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Attempt {
    UnderWay,
    Refused,
    Succeeded,
}

#[derive(Clone, Debug)]
struct Window {
    pages: usize,
    protection: u32,
    memory: usize,
    first: usize,
}

#[derive(Clone, Debug)]
struct Endpoint {
    state: State,
    attempt: Option<Attempt>,
    port: u16,
    owns_port: bool,
    /// Bytes received of the incoming stream, and bytes that the peer has sent.
    received: usize,
    arrived: usize,
    /// Windows by their first page.
    windows: BTreeMap<usize, Window>,
    marks: Vec<i64>,
}

impl Endpoint {
    fn new(state: State) -> Endpoint {
        Endpoint {
            state,
            attempt: None,
            port: 0,
            owns_port: false,
            received: 0,
            arrived: 0,
            windows: BTreeMap::new(),
            marks: Vec::new(),
        }
    }
}

/// The model of two nodes.
#[derive(Clone)]
pub struct Model {
    endpoints: Vec<Endpoint>,
    /// Contents of the pieces of memory, those of node 0 first.
    memories: Vec<Vec<u8>>,
    /// Whether backlogs are one larger than requested, a planted mistake that must be found.
    pub is_wrong: bool,
}

/// The node of an endpoint slot.
pub fn node_of(slot: usize) -> usize {
    slot / SLOTS
}

impl Model {
    /// A model in which all endpoints are closed.
    pub fn new() -> Model {
        Model {
            endpoints: vec![Endpoint::new(State::Closed); 2 * SLOTS],
            memories: vec![vec![0; MEMORY_PAGES * PAGE]; 2 * MEMORIES],
            is_wrong: false,
        }
    }

    /// The first closed slot of a node.
    pub fn free_slot(&self, node: usize) -> Option<usize> {
        (node * SLOTS..(node + 1) * SLOTS).find(|slot| self.endpoints[*slot].state == State::Closed)
    }

    /// Position in the stream of the byte that a slot sends next.
    pub fn sent(&self, slot: usize) -> usize {
        match self.endpoints[slot].state {
            State::Connected(peer) => self.endpoints[peer].arrived,
            _ => 0,
        }
    }

    /// Position in the stream of the byte that a slot receives next.
    pub fn received(&self, slot: usize) -> usize {
        self.endpoints[slot].received
    }

    /// A mark that a slot was given, counted back from the last one.
    pub fn mark(&self, slot: usize, back: usize) -> Option<i64> {
        let marks = &self.endpoints[slot].marks;
        marks.len().checked_sub(1 + back).map(|index| marks[index])
    }

    /// Notes a mark that was given.
    pub fn note_mark(&mut self, slot: usize, mark: i64) {
        self.endpoints[slot].marks.push(mark);
    }

    /// The numbers of open endpoints and of ports in use on a node.
    pub fn counts(&self, node: usize) -> (i64, i64) {
        let slots = &self.endpoints[node * SLOTS..(node + 1) * SLOTS];
        let open = slots.iter().filter(|e| e.state != State::Closed).count();
        let ports = slots.iter().filter(|e| e.owns_port).count();
        (open as i64, ports as i64)
    }

    /// Executes a call in the model, and returns the result that it must have.
    pub fn step(&mut self, op: &Op) -> Expected {
        match *op {
            Op::Open { slot } => self.open(slot),
            Op::Close { slot } => self.close(slot),
            Op::Bind { slot, port } => self.bind(slot, port),
            Op::Listen { slot, backlog } => self.listen(slot, backlog),
            Op::Connect { slot, node, port } => self.connect(slot, node, port),
            Op::Accept { slot } => self.accept(slot),
            Op::Send { slot, length } => self.send(slot, length),
            Op::Recv { slot, length } => self.recv(slot, length),
            Op::Poll { slot } => Expected::Value(self.poll(slot)),
            Op::Mark { slot, flags } => self.mark_op(slot, flags),
            Op::Wait { slot, back } => self.wait(slot, back),
            _ => self.on_memory(op),
        }
    }

    /// The peer of an endpoint, or the error if it is not connected.
    fn verify(&self, slot: usize) -> Result<usize, Expected> {
        Err(fails(match self.endpoints[slot].state {
            State::Connected(peer) => return Ok(peer),
            State::Closed => Error::BadDescriptor,
            State::Disconnected => Error::ConnectionReset,
            _ => Error::NotConnected,
        }))
    }

    fn mark_op(&mut self, slot: usize, flags: u32) -> Expected {
        match self.verify(slot) {
            Err(error) => error,
            Ok(_) if matches!(flags, 1 | 2) => Expected::Any,
            Ok(_) => fails(Error::InvalidArgument),
        }
    }

    fn wait(&mut self, slot: usize, back: usize) -> Expected {
        match (self.verify(slot), self.mark(slot, back)) {
            (Err(error), _) => error,
            (Ok(_), Some(_)) => Expected::Value(0),
            (Ok(_), None) => fails(Error::InvalidArgument),
        }
    }
}
