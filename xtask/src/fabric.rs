//! The PCI fabric: an ivshmem server in which every pair of nodes has a link of its own.
//!
//! A link is one piece of shared memory and two UNIX sockets, one for each side, on which QEMU's
//! `ivshmem-doorbell` device connects. The protocol is version 0 of QEMU's ivshmem specification:
//! each message is one little-endian 64-bit word, some with a descriptor. The server sends version,
//! the node's id and the memory, then the doorbells (eventfds) of the peer and of the node itself,
//! then joins and leaves as they happen. It reads nothing but the end of the connection.
//!
//! The server also writes the header of the link memory, and marks a side as gone when its QEMU
//! disconnects, ringing the other side so that it looks. It makes all doorbells itself; whoever
//! wants to lose or delay them (fault injection) can hand out relayed ones in `Side::doorbell`.

use crate::config;
use crate::report::{Context, Result};
use crate::settings::Settings;
use crate::workspace;
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
use std::thread::JoinHandle;
use zerocopy::IntoBytes;

const PROTOCOL_VERSION: i64 = 0;
/// In place of a peer's id: the descriptor is the shared memory.
const MEMORY_MESSAGE: i64 = -1;

/// What a fabric is made of.
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
}

/// A running server; dropping it ends the server's thread.
#[derive(Debug)]
pub struct Fabric {
    directory: PathBuf,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
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
        let stop = new_eventfd()?;
        let watched = stop
            .try_clone()
            .context(|| "copy a descriptor".to_string())?;
        let thread = std::thread::Builder::new()
            .name("fabric".to_string())
            .spawn(move || serve(&mut links, &watched))
            .context(|| "start the fabric's thread".to_string())?;
        Ok(Self {
            directory: options.directory.clone(),
            stop,
            thread: Some(thread),
        })
    }

    /// The socket on which `node` joins its link with `peer`.
    pub fn socket(&self, node: usize, peer: usize) -> PathBuf {
        socket_path(&self.directory, node, peer)
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two nodes' connection.
struct Link {
    memory: File,
    sides: [Side; 2],
}

struct Side {
    node: usize,
    vectors: u32,
    listener: UnixListener,
    client: Option<Client>,
}

/// A connected QEMU.
struct Client {
    stream: UnixStream,
    doorbells: Vec<OwnedFd>,
}

fn new_eventfd() -> Result<OwnedFd> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .context(|| "make an eventfd".to_string())
}

impl Link {
    fn new(options: &Options, low: usize, high: usize) -> Result<Self> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let memory = rustix::fs::memfd_create(format!("skiff-link-{low}-{high}"), flags)
            .context(|| "make shared memory".to_string())?;
        let memory = File::from(memory);
        memory
            .set_len(options.link_bytes)
            .context(|| "size the link memory".to_string())?;
        let side = |node, peer| -> Result<Side> {
            let path = socket_path(&options.directory, node, peer);
            let listener = UnixListener::bind(&path)
                .context(|| format!("listen on the socket {}", path.display()))?;
            Ok(Side {
                node,
                vectors: options.vectors,
                listener,
                client: None,
            })
        };
        let link = Self {
            memory,
            sides: [side(low, high)?, side(high, low)?],
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

    /// A QEMU connected to side `index`: introduces the two sides to each other.
    fn join(&mut self, index: usize, stream: UnixStream) -> Result<()> {
        let side = &self.sides[index];
        let doorbells = (0..side.vectors)
            .map(|_| new_eventfd())
            .collect::<Result<Vec<_>>>()?;
        let joined = Client { stream, doorbells };
        let (own, peer) = (side.node as i64, &self.sides[1 - index]);
        joined.send(PROTOCOL_VERSION, None)?;
        joined.send(own, None)?;
        joined.send(MEMORY_MESSAGE, Some(self.memory.as_fd()))?;
        if let Some(there) = &peer.client {
            for doorbell in &there.doorbells {
                joined.send(peer.node as i64, Some(doorbell.as_fd()))?;
            }
        }
        for doorbell in &joined.doorbells {
            joined.send(own, Some(doorbell.as_fd()))?;
        }
        // The peer is told last: of a QEMU that vanished until here it never hears.
        if let Some(there) = &peer.client {
            for doorbell in &joined.doorbells {
                // A peer that cannot be told is about to be found gone by its own hang-up.
                let _ = there.send(own, Some(doorbell.as_fd()));
            }
        }
        self.sides[index].client = Some(joined);
        Ok(())
    }

    /// The QEMU on side `index` is gone: says so in the link memory and to the other side.
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
        if let Some(there) = &self.sides[1 - index].client {
            let _ = there.send(self.sides[index].node as i64, None);
            for doorbell in &there.doorbells {
                let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
            }
        }
    }

    /// Handles whatever happened on side `index`.
    fn attend(&mut self, index: usize, happened: Happened) {
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

/// What poll reported about one side.
#[derive(Clone, Copy, Default)]
struct Happened {
    listener: bool,
    connection: bool,
}

/// Serves all links until `stop` is written to.
fn serve(links: &mut [Link], stop: &OwnedFd) {
    loop {
        let Some(happened) = wait(links, stop) else {
            return;
        };
        for (link, sides) in links.iter_mut().zip(happened) {
            for (index, happened) in sides.into_iter().enumerate() {
                link.attend(index, happened);
            }
        }
    }
}

/// Waits for the next event; `None`: time to stop.
fn wait(links: &[Link], stop: &OwnedFd) -> Option<Vec<[Happened; 2]>> {
    let mut polled = vec![PollFd::new(stop, PollFlags::IN)];
    for side in links.iter().flat_map(|link| &link.sides) {
        polled.push(PollFd::new(&side.listener, PollFlags::IN));
        if let Some(client) = &side.client {
            polled.push(PollFd::new(&client.stream, PollFlags::IN));
        }
    }
    while let Err(error) = rustix::event::poll(&mut polled, None) {
        if error != rustix::io::Errno::INTR {
            eprintln!("fabric: poll failed: {error}");
            return None;
        }
    }
    let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
    if ready.next()? {
        return None;
    }
    let mut side = |side: &Side| Happened {
        listener: ready.next().unwrap_or(false),
        connection: side.client.is_some() && ready.next().unwrap_or(false),
    };
    Some(
        links
            .iter()
            .map(|link| [side(&link.sides[0]), side(&link.sides[1])])
            .collect(),
    )
}

/// The command: only the server, for QEMUs started by hand.
pub fn command(settings: &Settings) -> Result<()> {
    let node = config::node()?;
    let directory = crate::machine::RunDirectory::new()?;
    let options = Options {
        directory: directory.path().to_path_buf(),
        nodes: settings.nodes(2)?,
        link_bytes: node.link_memory_kib * 1024,
        vectors: node.doorbell_vectors,
    };
    let fabric = Fabric::start(&options)?;
    for own in 0..options.nodes {
        for peer in (0..options.nodes).filter(|peer| *peer != own) {
            println!(
                "node {own}, link with node {peer}: {}",
                fabric.socket(own, peer).display()
            );
        }
    }
    println!(
        "serving (logs are in {}); end with Ctrl-C",
        workspace::display(&workspace::run_dir()?)
    );
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests;
