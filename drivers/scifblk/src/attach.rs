//! The driver: a connection to the server of every node, and the disk that each of them offers.
//!
//! Nothing here waits for a peer: connects run in the background, and bytes of a peer are taken
//! when they arrive. A node without a server is tried again at intervals.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::time::Duration;

use hal::event::Queue;
use runtime::time::Instant;
use scheme::Status;
use scheme::daemon::{self, Mode, NOTIFY_VARIABLE};
use scif::kernel::{Client, Registration, RemoteMemory, get_pages};
use scif::{Endpoint, Errno, Error, Mapping, PortId, Protection, Readiness, RecvFlags, Result};
use scifblk::disk::{Disk, Store};
use scifblk::hello::Hello;
use scifblk::scheme::DiskScheme;
use scifblk::{Node, PORT, SCHEME};
use syscall::error::{EIO, ENODEV, EPROTO};
use syscall::flag::EventFlags;

use crate::program::longest_sleep;

/// Pause before the next attempt after the first failure of a node; each further failure doubles
/// it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Requests,
    Nodes,
    Node(Node),
}

/// The memory of a disk.
enum Blocks {
    /// Pages of another node, by their physical addresses.
    Remote(RemoteMemory<Rc<Endpoint>>),
    /// Pages of this node, which a driver may use only by mapping their window.
    Local(Mapping, Rc<Endpoint>),
}

impl Blocks {
    fn endpoint(&self) -> &Endpoint {
        match self {
            Blocks::Remote(memory) => memory.endpoint(),
            Blocks::Local(_, endpoint) => endpoint,
        }
    }

    /// Whether the node was there until now. A mapping of the memory of a node that has gone gives
    /// any bytes.
    fn is_there(&self) -> bool {
        let lost = self.endpoint().readiness(Readiness::empty());
        lost.is_ok_and(|lost| lost.is_empty())
    }
}

fn system(error: Error) -> syscall::error::Error {
    syscall::error::Error::new(error.errno())
}

impl Store for Blocks {
    fn read(&self, offset: usize, to: &mut [u8]) -> hal::Result<()> {
        match self {
            Blocks::Remote(memory) => memory.read(offset, to).map_err(system)?,
            Blocks::Local(memory, _) => memory.copy_out(offset, to)?,
        }
        match self.is_there() {
            true => Ok(()),
            false => Err(syscall::error::Error::new(ENODEV)),
        }
    }

    fn write(&self, offset: usize, from: &[u8]) -> hal::Result<()> {
        match self {
            Blocks::Remote(memory) => memory.write(offset, from).map_err(system),
            Blocks::Local(memory, _) => memory.copy_in(offset, from),
        }
    }

    fn flush(&self) -> hal::Result<()> {
        if let Blocks::Remote(memory) = self {
            memory.flush().map_err(system)?;
        }
        // Checks that the node is still there; if it is not, the writes may have been lost.
        match self.is_there() {
            true => Ok(()),
            false => Err(syscall::error::Error::new(EIO)),
        }
    }
}

/// How far the connection to a node's disk has got.
enum State {
    /// No connection; the next attempt is at this time.
    Waiting(Instant),
    Connecting(Endpoint),
    /// Connected, with the bytes of the greeting that have arrived.
    Greeting(Endpoint, Vec<u8>),
    /// The scheme has the disk.
    Attached(Rc<Endpoint>),
}

/// The result of one step of [`Driver::advance`].
enum Step {
    /// The next step can follow at once.
    Again(State),
    /// The next step has to wait for an event or for its time.
    Wait(State),
}

struct Peer {
    state: State,
    pause: Duration,
}

/// All nodes, and their disks.
struct Driver {
    own: Node,
    peers: BTreeMap<Node, Peer>,
    scheme: DiskScheme<Blocks>,
    queue: Queue<Source>,
}

impl Client for Driver {
    fn probe(&mut self, node: Node) {
        let peer = Peer {
            state: State::Waiting(Instant::now()),
            pause: FIRST_PAUSE,
        };
        self.peers.insert(node, peer);
    }

    fn remove(&mut self, node: Node) {
        self.peers.remove(&node);
        if self.scheme.remove(node) {
            log::info!("the disk of node {node} has gone with its node");
        }
    }
}

/// Serves the disks of all nodes until the scheme's socket closes. When the SCIF driver ends, its
/// successor reports all nodes anew.
pub fn run() -> Result<()> {
    let nodes = Registration::new()?;
    let mut driver = Driver {
        own: scif::nodes()?.own,
        peers: BTreeMap::new(),
        scheme: DiskScheme::new(),
        queue: Queue::new()?,
    };
    let notify = runtime::env::var(NOTIFY_VARIABLE);
    let notify = notify.as_deref();
    let mut requests = daemon::start(SCHEME, Mode::EventDriven, notify, &mut driver.scheme)?;
    driver
        .queue
        .subscribe(requests.fd(), EventFlags::EVENT_READ, Source::Requests)?;
    let mut nodes = Some(driver.watch(nodes)?);
    let mut ready = Vec::new();
    loop {
        match &mut nodes {
            Some(known) => {
                if let Err(error) = known.dispatch(&mut driver) {
                    without_driver(error)?;
                    log::warn!("the SCIF driver has gone, and all disks with it");
                    if let Some(known) = nodes.take() {
                        known.unregister(&mut driver);
                    }
                }
            }
            None => match Registration::new().and_then(|known| driver.watch(known)) {
                Ok(known) => {
                    nodes = Some(known);
                    continue;
                }
                Err(error) => without_driver(error)?,
            },
        }
        driver.advance_all();
        let limit = match requests.poll(&mut driver.scheme)? {
            Status::Closed => return Ok(()),
            Status::More => Some(Duration::ZERO),
            Status::Idle if nodes.is_none() => Some(FIRST_PAUSE),
            Status::Idle => [driver.next_attempt(), longest_sleep()]
                .into_iter()
                .flatten()
                .min(),
        };
        driver.queue.wait(limit, &mut ready)?;
    }
}

/// Passes on every error but `ENODEV`, which means that the SCIF driver does not run.
fn without_driver(error: Error) -> Result<()> {
    match error.errno() {
        ENODEV => Ok(()),
        _ => Err(error),
    }
}

impl Driver {
    /// Adds the notices of nodes that come and go to the event queue.
    fn watch(&mut self, nodes: Registration) -> Result<Registration> {
        let read = EventFlags::EVENT_READ;
        self.queue.subscribe(nodes.fd(), read, Source::Nodes)?;
        Ok(nodes)
    }

    /// The time until the next attempt for a node.
    fn next_attempt(&self) -> Option<Duration> {
        let now = Instant::now();
        let waits = self.peers.values().filter_map(|peer| match peer.state {
            State::Waiting(until) => Some(until.duration_since(now)),
            _ => None,
        });
        waits.min()
    }

    fn advance_all(&mut self) {
        let nodes: Vec<Node> = self.peers.keys().copied().collect();
        for node in nodes {
            if let Some(peer) = self.peers.remove(&node) {
                let peer = self.advance(node, peer);
                self.peers.insert(node, peer);
            }
        }
    }

    /// Takes as many steps for a node as are possible without waiting.
    fn advance(&mut self, node: Node, mut peer: Peer) -> Peer {
        loop {
            let result = match peer.state {
                State::Waiting(until) if Instant::now() < until => return peer,
                State::Waiting(_) => self.connect(node),
                State::Connecting(endpoint) => connected(node, endpoint),
                State::Greeting(endpoint, bytes) => self.greeted(node, endpoint, bytes),
                State::Attached(endpoint) => still_there(endpoint),
            };
            match result {
                Ok(Step::Again(state)) => peer.state = state,
                Ok(Step::Wait(state)) => {
                    if matches!(state, State::Attached(_)) {
                        peer.pause = FIRST_PAUSE;
                    }
                    peer.state = state;
                    return peer;
                }
                Err(error) => {
                    self.lost(node, error);
                    peer.state = State::Waiting(Instant::now() + peer.pause);
                    peer.pause = LONGEST_PAUSE.min(2 * peer.pause);
                    return peer;
                }
            }
        }
    }

    fn lost(&mut self, node: Node, error: Error) {
        if self.scheme.remove(node) {
            log::info!("the disk of node {node} has gone: {error}");
        } else if error != Error::Scif(Errno::ConnectionRefused) {
            log::warn!("no disk of node {node}: {error}");
        }
    }

    /// Begins to connect, from a port that shows the peer that this is root's connection.
    fn connect(&mut self, node: Node) -> Result<Step> {
        let endpoint = Endpoint::open()?;
        endpoint.bind_as_root()?;
        endpoint.set_nonblocking(true)?;
        let events = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
        self.queue
            .subscribe(endpoint.fd(), events, Source::Node(node))?;
        Ok(Step::Again(State::Connecting(endpoint)))
    }

    /// Receives the greeting, as far as it has come. Once it is complete, adds the disk.
    fn greeted(&mut self, node: Node, endpoint: Endpoint, mut bytes: Vec<u8>) -> Result<Step> {
        let mut buffer = [0; Hello::BYTES];
        let room = buffer.len() - bytes.len();
        let count = endpoint.recv(&mut buffer[..room], RecvFlags::empty())?;
        bytes.extend(&buffer[..count]);
        let Some(complete) = bytes.first_chunk() else {
            let state = State::Greeting(endpoint, bytes);
            return Ok(if count > 0 {
                Step::Again(state)
            } else {
                Step::Wait(state)
            });
        };
        let hello = Hello::parse(complete).map_err(|reason| {
            log::warn!("what node {node} offers is refused: {reason}");
            Error::from_errno(EPROTO)
        })?;
        let endpoint = Rc::new(endpoint);
        let blocks = if node == self.own {
            let length = hello.page_bytes() as usize;
            let memory = endpoint.map(hello.offset, length, Protection::all())?;
            Blocks::Local(memory, endpoint.clone())
        } else {
            let pages = get_pages(endpoint.clone(), hello.offset, hello.page_bytes())?;
            Blocks::Remote(pages.map()?)
        };
        self.scheme.add(node, Disk::new(blocks, hello.bytes()));
        log::info!("the disk of node {node} has {} blocks", hello.blocks);
        Ok(Step::Again(State::Attached(endpoint)))
    }
}

/// Begins the connect, or asks for its outcome.
fn connected(node: Node, endpoint: Endpoint) -> Result<Step> {
    match endpoint.connect(PortId::new(node, PORT)) {
        Ok(_) => Ok(Step::Again(State::Greeting(endpoint, Vec::new()))),
        Err(Error::Scif(Errno::InProgress)) => Ok(Step::Wait(State::Connecting(endpoint))),
        Err(error) => Err(error),
    }
}

/// Checks that the server is still there. It sends nothing after its greeting: if there is
/// something to read, it has gone or has sent nonsense.
fn still_there(endpoint: Rc<Endpoint>) -> Result<Step> {
    match endpoint.recv(&mut [0], RecvFlags::empty())? {
        0 => Ok(Step::Wait(State::Attached(endpoint))),
        _ => Err(Error::from_errno(EPROTO)),
    }
}
