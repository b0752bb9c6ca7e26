//! The PCI fabric: an ivshmem server in which every pair of nodes has a link of its own.
//!
//! A link is one piece of shared memory and two UNIX sockets, one for each side, on which QEMU's
//! `ivshmem-doorbell` device connects. The protocol is version 0 of QEMU's ivshmem specification:
//! each message is one little-endian 64-bit word, some with a descriptor. The server sends version,
//! the node's id and the memory, then the doorbells (eventfds) of the peer and of the node itself.
//! It reads nothing but the end of the connection.
//!
//! Doorbells are made with the link and outlive every QEMU, so that nobody has to be told of nodes
//! that come and go. QEMU 7.2 could not stand it: a peer that leaves and joins again under the same
//! id makes it write into memory that it has freed (`close_peer_eventfds` frees what only
//! `resize_peers` allocates).
//!
//! The server also writes the header of the link memory, and marks a side as gone when its QEMU
//! disconnects, ringing the other side so that it looks.
//!
//! It injects faults. A link that is cut says so in its header, and no doorbell gets through.
//! Doorbells are lost, doubled or late. For all that the server relays them: it hands out others
//! than those that QEMU listens to. It does so only if asked for at the start, as each doorbell
//! takes longer then.

use crate::base::report::{Context, Failure, Result};
use crate::network::faults::{Dice, Faults};
use crate::network::shared_memory::new_memory;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use scif_abi::link::{self, Header};
use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use zerocopy::IntoBytes;

const PROTOCOL_VERSION: i64 = 0;
/// In place of a peer's id: the descriptor is the shared memory.
const MEMORY_MESSAGE: i64 = -1;

/// The options of a fabric.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory for the sockets; its path must be short (a socket address has 108 bytes).
    pub directory: PathBuf,
    /// Number of nodes; every pair gets a link.
    pub nodes: usize,
    /// Size of each link's memory in bytes, a power of two.
    pub link_bytes: u64,
    /// Doorbells of each side of a link.
    pub vectors: u32,
    /// Whether doorbells are relayed, so that faults can be injected.
    pub relayed: bool,
}

/// A change of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is cut.
    Cut,
    /// It is mended.
    Heal,
    /// Doorbells are treated like this, if they are relayed.
    Doorbells(Faults),
}

/// The faults of a link's doorbells since the last call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heard {
    /// The faults that were asked for.
    pub faults: Faults,
    /// The number of doorbells that were rung.
    pub rung: u64,
    /// The number of those that were lost.
    pub lost: u64,
}

/// A running server; dropping it ends the server's thread.
#[derive(Debug)]
pub struct Fabric {
    directory: PathBuf,
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

/// Commands to the thread.
#[derive(Debug)]
struct Orders {
    /// Written to when there is something.
    bell: OwnedFd,
    list: Mutex<Vec<Order>>,
}

#[derive(Debug)]
enum Order {
    Stop,
    /// For the link between two nodes, and where the answer is waited for.
    Fault([usize; 2], Fault, Sender<Result<Heard>>),
}

impl Orders {
    fn give(&self, order: Order) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(order);
        ring(&self.bell);
    }

    fn take(&self) -> Vec<Order> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        silence(&self.bell);
        std::mem::take(&mut list)
    }
}

/// The socket on which `node` joins its link with `peer`.
pub fn socket_path(directory: &Path, node: usize, peer: usize) -> PathBuf {
    directory.join(format!("link-{node}-{peer}"))
}

impl Fabric {
    /// Makes links and sockets and starts serving. When this returns, QEMU can connect.
    pub fn start(options: &Options) -> Result<Self> {
        let mut links = Vec::new();
        for low in 0..options.nodes {
            for high in low + 1..options.nodes {
                links.push(Link::new(options, low, high)?);
            }
        }
        let orders = Arc::new(Orders {
            bell: new_eventfd()?,
            list: Mutex::default(),
        });
        let given = orders.clone();
        let thread = std::thread::Builder::new()
            .name("fabric".to_string())
            .spawn(move || serve(&mut links, &given))
            .context(|| "start the fabric's thread".to_string())?;
        Ok(Self {
            directory: options.directory.clone(),
            orders,
            thread: Some(thread),
        })
    }

    /// Does something to the link between two nodes; what its doorbells had to stand before.
    ///
    /// # Errors
    /// There is no such link, or its doorbells are not relayed.
    pub fn inject(&self, nodes: [usize; 2], fault: Fault) -> Result<Heard> {
        let (sender, answer) = channel();
        self.orders.give(Order::Fault(nodes, fault, sender));
        let ended = |_| Err("the fabric's thread has ended".into());
        answer.recv().unwrap_or_else(ended)
    }

    /// The socket on which `node` joins its link with `peer`.
    pub fn socket(&self, node: usize, peer: usize) -> PathBuf {
        socket_path(&self.directory, node, peer)
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.orders.give(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two nodes' connection.
struct Link {
    memory: File,
    sides: [Side; 2],
    is_cut: bool,
    relayed: bool,
    heard: Heard,
    dice: Dice,
    /// Doorbells that are late: when, of which side, which one.
    late: Vec<(Instant, usize, usize)>,
}

struct Side {
    node: usize,
    listener: UnixListener,
    /// The eventfd that its QEMU listens to.
    doorbells: Vec<OwnedFd>,
    /// The eventfd that the other side rings instead, when doorbells are relayed.
    relays: Vec<OwnedFd>,
    client: Option<Client>,
}

/// A connected QEMU.
struct Client {
    stream: UnixStream,
}

fn new_eventfd() -> Result<OwnedFd> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .context(|| "make an eventfd".to_string())
}

/// Rings an eventfd. One that is full has been rung.
fn ring(eventfd: &OwnedFd) {
    let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
}

/// Takes what was rung; whether anything was.
fn silence(eventfd: &OwnedFd) -> bool {
    rustix::io::read(eventfd, &mut [0; 8]).is_ok()
}

impl Link {
    fn new(options: &Options, low: usize, high: usize) -> Result<Self> {
        let memory = new_memory(&format!("link-{low}-{high}"), options.link_bytes)?;
        let side = |node, peer| -> Result<Side> {
            let path = socket_path(&options.directory, node, peer);
            let listener = UnixListener::bind(&path)
                .context(|| format!("listen on the socket {}", path.display()))?;
            let make = |count: u32| {
                (0..count)
                    .map(|_| new_eventfd())
                    .collect::<Result<Vec<_>>>()
            };
            Ok(Side {
                node,
                listener,
                doorbells: make(options.vectors)?,
                relays: make(if options.relayed { options.vectors } else { 0 })?,
                client: None,
            })
        };
        let link = Self {
            memory,
            sides: [side(low, high)?, side(high, low)?],
            is_cut: false,
            relayed: options.relayed,
            heard: Heard::default(),
            dice: Dice::new((low << 8 | high) as u64),
            late: Vec::new(),
        };
        link.write_header()?;
        Ok(link)
    }

    fn write_header(&self) -> Result<()> {
        let header = Header::new([self.sides[0].node as u16, self.sides[1].node as u16]);
        let bytes = header.as_bytes();
        self.memory
            .write_all_at(bytes, 0)
            .context(|| "write the link's header".to_string())
    }

    /// A QEMU connected to side `index`: introduces it to the link.
    fn join(&mut self, index: usize, stream: UnixStream) -> Result<()> {
        let (side, peer) = (&self.sides[index], &self.sides[1 - index]);
        let joined = Client { stream };
        // Doorbells rung before it was there are not for it.
        side.doorbells.iter().for_each(|doorbell| {
            silence(doorbell);
        });
        joined.send(PROTOCOL_VERSION, None)?;
        joined.send(side.node as i64, None)?;
        joined.send(MEMORY_MESSAGE, Some(self.memory.as_fd()))?;
        for doorbell in peer.rung_by_others() {
            joined.send(peer.node as i64, Some(doorbell.as_fd()))?;
        }
        for doorbell in &side.doorbells {
            joined.send(side.node as i64, Some(doorbell.as_fd()))?;
        }
        self.sides[index].client = Some(joined);
        Ok(())
    }

    /// Does something to the link; what its doorbells had to stand before.
    fn inject(&mut self, fault: Fault) -> Result<Heard> {
        if !self.relayed {
            return Err("doorbells are not relayed in this run".into());
        }
        let faults = match fault {
            Fault::Doorbells(faults) => faults,
            Fault::Cut | Fault::Heal => self.heard.faults,
        };
        match fault {
            Fault::Cut => self.set_cut(true)?,
            Fault::Heal => self.set_cut(false)?,
            Fault::Doorbells(_) => {}
        }
        let fresh = Heard {
            faults,
            ..Heard::default()
        };
        Ok(std::mem::replace(&mut self.heard, fresh))
    }

    /// Cuts the link or mends it: sets the flag in its memory, and rings both sides.
    fn set_cut(&mut self, is_cut: bool) -> Result<()> {
        self.is_cut = is_cut;
        self.late.clear();
        let down = u32::from(is_cut).to_le_bytes();
        self.memory
            .write_all_at(&down, link::HEADER_DOWN as u64)
            .context(|| "write the link's header".to_string())?;
        self.sides.iter().for_each(Side::ring);
        Ok(())
    }

    /// Doorbell `vector` of side `index` was rung at its relay.
    fn relay(&mut self, index: usize, vector: usize) {
        if self.is_cut {
            return;
        }
        let now = Instant::now();
        let delays = self.dice.throw(&self.heard.faults);
        self.heard.rung += 1;
        self.heard.lost += u64::from(delays.is_empty());
        let late = delays.into_iter();
        self.late
            .extend(late.map(|delay| (now + delay, index, vector)));
    }

    /// Rings the doorbells that have been late for long enough.
    fn ring_late(&mut self, now: Instant) {
        let sides = &self.sides;
        self.late.retain(|(due, index, vector)| {
            let doorbell = sides[*index].doorbells.get(*vector);
            if *due <= now {
                doorbell.into_iter().for_each(ring);
            }
            *due > now
        });
    }

    /// The QEMU on side `index` is gone: marks it in the link memory and rings the other side.
    fn leave(&mut self, index: usize) {
        self.sides[index].client = None;
        let state = (link::record_offset(index) + link::RECORD_STATE) as u64;
        let absent = link::STATE_ABSENT.to_le_bytes();
        if let Err(error) = self.memory.write_all_at(&absent, state) {
            eprintln!(
                "fabric: cannot mark node {} as gone: {error}",
                self.sides[index].node
            );
        }
        self.sides[1 - index].ring();
    }

    /// Handles whatever happened on side `index`.
    fn attend(&mut self, index: usize, happened: &Happened) {
        for vector in 0..happened.relays.len() {
            let relay = self.sides[index].relays.get(vector);
            if happened.relays[vector] && relay.is_some_and(silence) {
                self.relay(index, vector);
            }
        }
        if happened.connection && self.sides[index].hung_up() {
            self.leave(index);
        }
        if !happened.listener {
            return;
        }
        let side = &self.sides[index];
        let node = side.node;
        let Ok((stream, _)) = side.listener.accept() else {
            return;
        };
        // The old connection's end may arrive in the same moment as the new one's beginning.
        if side.client.is_some() && side.hung_up() {
            self.leave(index);
        }
        if self.sides[index].client.is_some() {
            eprintln!("fabric: node {node} is connected already: the second one is turned away");
            return;
        }
        if let Err(failure) = self.join(index, stream) {
            eprintln!("fabric: node {node} could not join: {}", failure.message);
        }
    }
}

impl Side {
    /// The doorbells as the other side gets them.
    fn rung_by_others(&self) -> &[OwnedFd] {
        match self.relays.is_empty() {
            true => &self.doorbells,
            false => &self.relays,
        }
    }

    /// Rings all doorbells.
    fn ring(&self) {
        self.doorbells.iter().for_each(ring);
    }

    /// Whether the connection ended. QEMU never sends anything; what it sends is thrown away.
    fn hung_up(&self) -> bool {
        let Some(client) = &self.client else {
            return false;
        };
        if client.stream.set_nonblocking(true).is_err() {
            return true;
        }
        match (&client.stream).read(&mut [0; 64]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

impl Client {
    /// Sends one message. A receiver that does not read its few bytes counts as broken.
    fn send(&self, word: i64, descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err("no space for a descriptor in a message".into());
        }
        let bytes = word.to_le_bytes();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::sendmsg(&self.stream, &[IoSlice::new(&bytes)], &mut control, flags)
            .context(|| format!("send the ivshmem message {word}"))?;
        if sent == bytes.len() {
            Ok(())
        } else {
            Err("an ivshmem message was cut short".into())
        }
    }
}

/// The events that poll reported about one side.
#[derive(Clone, Default)]
struct Happened {
    listener: bool,
    connection: bool,
    /// For each relay, whether it was rung.
    relays: Vec<bool>,
}

/// Serves all links until the command to stop.
fn serve(links: &mut [Link], orders: &Orders) {
    loop {
        let Some((has_orders, happened)) = wait(links, &orders.bell) else {
            return;
        };
        for (link, sides) in links.iter_mut().zip(happened) {
            for (index, happened) in sides.iter().enumerate() {
                link.attend(index, happened);
            }
            link.ring_late(Instant::now());
        }
        let given = if has_orders {
            orders.take()
        } else {
            Vec::new()
        };
        for order in given {
            match order {
                Order::Stop => return,
                // No caller waits for it any more, so it is not needed.
                Order::Fault(nodes, fault, answer) => {
                    let _ = answer.send(inject(links, nodes, fault));
                }
            }
        }
    }
}

fn inject(links: &mut [Link], nodes: [usize; 2], fault: Fault) -> Result<Heard> {
    let [first, second] = nodes;
    let joins = |link: &&mut Link| {
        let [low, high] = &link.sides;
        [low.node, high.node] == nodes || [high.node, low.node] == nodes
    };
    let link = links.iter_mut().find(joins);
    let link =
        link.ok_or_else(|| format!("there is no link between nodes {first} and {second}"))?;
    let at = |failure: Failure| {
        let message = failure.message;
        format!("link between nodes {first} and {second}: {message}").into()
    };
    link.inject(fault).map_err(at)
}

/// Waits for the next event; whether there are orders, and what happened on each link's sides.
/// `None`: it cannot wait any more.
fn wait(links: &[Link], bell: &OwnedFd) -> Option<(bool, Vec<[Happened; 2]>)> {
    let mut polled = vec![PollFd::new(bell, PollFlags::IN)];
    for side in links.iter().flat_map(|link| &link.sides) {
        polled.push(PollFd::new(&side.listener, PollFlags::IN));
        if let Some(client) = &side.client {
            polled.push(PollFd::new(&client.stream, PollFlags::IN));
        }
        let relays = side.relays.iter();
        polled.extend(relays.map(|relay| PollFd::new(relay, PollFlags::IN)));
    }
    let due = links.iter().flat_map(|link| &link.late).map(|late| late.0);
    let due = due.min();
    loop {
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let limit = left.map(|left| rustix::event::Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        match rustix::event::poll(&mut polled, limit.as_ref()) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                eprintln!("fabric: poll failed: {error}");
                return None;
            }
        }
    }
    let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
    let has_orders = ready.next()?;
    let mut next = || ready.next().unwrap_or(false);
    let mut side = |side: &Side| {
        let listener = next();
        let connection = side.client.is_some() && next();
        Happened {
            listener,
            connection,
            relays: side.relays.iter().map(|_| next()).collect(),
        }
    };
    let happened = links.iter().map(|link| {
        let [first, second] = &link.sides;
        [side(first), side(second)]
    });
    Some((has_orders, happened.collect()))
}

#[cfg(test)]
#[path = "fabric/tests.rs"]
mod tests;
