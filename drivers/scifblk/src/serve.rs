//! The server: pinned pages, registered with every connection.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use hal::event::Queue;
use runtime::time::sleep;
use scif::kernel::PinnedPages;
use scif::{Endpoint, Error, Listener, MapFlags, Memory, Protection, RecvFlags, Result, SendFlags};
use scifblk::PORT;
use scifblk::disk::BLOCK;
use scifblk::hello::Hello;
use syscall::error::ENODEV;
use syscall::flag::EventFlags;

use crate::program::longest_sleep;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Listener,
    /// A connection, by its number.
    Connection(u64),
}

/// Most connections. The driver of each node has one, and a restarted driver another one.
const MAX_CONNECTIONS: usize = 256;

/// Pause between two attempts while the SCIF driver does not run, or has no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Offers `bytes` bytes, which are whole pages, for ever. When the SCIF driver ends, its successor
/// gets the same pages.
pub fn run(bytes: u64) -> Result<()> {
    let memory = Memory::ordinary(bytes as usize)?;
    let mut server = Server::new(&memory)?;
    loop {
        server.serve().or_else(without_driver)?;
        log::warn!("the SCIF driver has gone, and the clients with it");
        drop(server);
        server = loop {
            match Server::new(&memory) {
                Ok(server) => break server,
                Err(error) => without_driver(error)?,
            }
            sleep(PAUSE);
        };
    }
}

/// Passes on every error but `ENODEV`, which means that the SCIF driver does not run.
fn without_driver(error: Error) -> Result<()> {
    match error.errno() {
        ENODEV => Ok(()),
        _ => Err(error),
    }
}

/// The state that ends with the SCIF driver.
struct Server {
    pages: PinnedPages,
    listener: Listener,
    queue: Queue<Source>,
    connections: BTreeMap<u64, Endpoint>,
}

impl Server {
    fn new(memory: &Memory) -> Result<Self> {
        let pages = PinnedPages::pin(memory.range(), Protection::all(), MapFlags::empty())?;
        let listener = Listener::bind(PORT)?;
        let mut queue = Queue::new()?;
        queue.subscribe(listener.fd(), EventFlags::EVENT_READ, Source::Listener)?;
        log::info!("{} blocks on port {PORT}", pages.len() / BLOCK);
        Ok(Self {
            pages,
            listener,
            queue,
            connections: BTreeMap::new(),
        })
    }

    /// Serves until an error occurs.
    fn serve(&mut self) -> Result<()> {
        let mut ready = Vec::new();
        loop {
            let mut sleep = longest_sleep();
            loop {
                let (endpoint, peer) = match self.listener.try_accept() {
                    Ok(Some(accepted)) => accepted,
                    Ok(None) => break,
                    Err(error) if error.is_shortage() => {
                        log::debug!("a connection is not accepted: {error}");
                        // More connections may wait behind this one, and no event will report
                        // them.
                        sleep = Some(PAUSE);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                // A client that has the pages can read and write the whole disk.
                if !peer.is_of_root() || self.connections.len() >= MAX_CONNECTIONS {
                    log::debug!("{peer} gets no disk: it is not root's, or one too many");
                    continue;
                }
                if let Err(error) = greet(&endpoint, &self.pages) {
                    log::warn!("{peer} gets no disk: {error}");
                    continue;
                }
                let number = free_number(&self.connections);
                let source = Source::Connection(number);
                self.queue
                    .subscribe(endpoint.fd(), EventFlags::EVENT_READ, source)?;
                self.connections.insert(number, endpoint);
            }
            // A client sends nothing. If there is something to read, the client has gone or has
            // sent nonsense; either way the connection ends, and its window with it.
            self.connections.retain(|_, endpoint| is_silent(endpoint));
            self.queue.wait(sleep, &mut ready)?;
        }
    }
}

/// The least number without a connection. The event queue keeps an entry for each number that was
/// ever used.
fn free_number<T>(connections: &BTreeMap<u64, T>) -> u64 {
    let mut number = 0;
    while connections.contains_key(&number) {
        number += 1;
    }
    number
}

/// Registers the pages with a connection and sends the client their offset.
fn greet(endpoint: &Endpoint, pages: &PinnedPages) -> Result<()> {
    let hello = Hello {
        blocks: (pages.len() / BLOCK) as u64,
        offset: pages.register(endpoint, 0, MapFlags::empty())?,
    };
    endpoint.send(&hello.to_bytes(), SendFlags::BLOCK)?;
    Ok(())
}

fn is_silent(endpoint: &Endpoint) -> bool {
    endpoint.recv(&mut [0], RecvFlags::empty()) == Ok(0)
}
