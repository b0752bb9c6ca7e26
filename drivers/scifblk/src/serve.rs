//! The server: pinned pages, registered with every connection that comes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use platform::event::Queue;
use scif::kernel::PinnedPages;
use scif::{Endpoint, Listener, MapFlags, Memory, Protection, RecvFlags, Result, SendFlags};
use scifblk::PORT;
use scifblk::disk::BLOCK;
use scifblk::hello::Hello;
use syscall::flag::EventFlags;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Listener,
    /// A connection, by its number.
    Connection(u64),
}

/// Offers `bytes` bytes, whole pages, for ever.
pub fn run(bytes: u64) -> Result<()> {
    let memory = Memory::ordinary(bytes as usize)?;
    let pages = PinnedPages::pin(memory.range(), Protection::all(), MapFlags::empty())?;
    let listener = Listener::bind(PORT)?;
    let mut queue = Queue::new()?;
    queue.subscribe(listener.fd(), EventFlags::EVENT_READ, Source::Listener)?;
    let mut connections = BTreeMap::new();
    let mut last = 0;
    let mut ready = Vec::new();
    log::info!("{} blocks on port {PORT}", bytes / BLOCK as u64);
    loop {
        while let Some((endpoint, peer)) = listener.try_accept()? {
            if let Err(error) = greet(&endpoint, &pages) {
                log::warn!("{peer} gets no disk: {error}");
                continue;
            }
            last += 1;
            let source = Source::Connection(last);
            queue.subscribe(endpoint.fd(), EventFlags::EVENT_READ, source)?;
            connections.insert(last, endpoint);
        }
        // A client says nothing. What there is to read is that it has gone, or nonsense; either way
        // the connection is over, and with it the window.
        connections.retain(|_, endpoint| is_silent(endpoint));
        queue.wait(None, &mut ready)?;
    }
}

/// Registers the pages and tells the client where they are.
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
