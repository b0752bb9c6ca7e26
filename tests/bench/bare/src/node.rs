//! The memory of one side as the other side sees it: pages with words for both (the court), and a
//! large area that the measuring side copies from and to. The serving side sleeps until an order
//! comes.
//!
//! Orders and answers are words over SCIF. No memory is freed while the other side may reach it:
//! the measuring side orders the other one to leave, which releases everything before it answers.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hal::dma::{Allocator, Buffer, Scattered};
use hal::mem::{PAGE, Region};
use runtime::thread;
use scif::{Endpoint, Listener, NodeId, Port};
use scif_perf::perf::session::connect;
use scif_perf::perf::wire::{hear, tell};
use scif_perf::perf::{Context, Failure, Result, Settings};
use zerocopy::{IntoBytes, TryFromBytes};

use crate::link::Link;
use crate::{copies, doorbells, pingpong, streams};

/// Number of pages with words. What both sides use must not collide in an emulator's address
/// cache, which depends on addresses that neither side chooses, so there are several places to
/// try.
const COURT_PAGES: usize = 16;
/// Most pieces of an exported area. More of them mean that free memory is fragmented.
const MAX_PIECES: u64 = 4096;
/// Most bytes of an exported area.
const MAX_EXPORTED: u64 = 64 << 20;

/// The orders of the measuring side. Each has an argument and an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, TryFromBytes)]
#[repr(u64)]
pub enum Order {
    /// Play ping-pong. The argument has the place in its lowest bits and the rounds above
    /// [`PLACE_BITS`]. Answered before it begins.
    Play = 1,
    /// Fill the exported area, as much of it as is compared, with the pattern of a seed.
    Fill = 2,
    /// Return the checksum of this number of bytes of the exported area.
    Sum = 3,
    /// Get ready for doorbells.
    SetUpBell = 4,
    /// Answer this number of doorbells. Answered before it begins.
    Ring = 5,
    /// Release everything.
    Leave = 6,
    /// Read messages as [`streams`] writes them. Answered before it begins, and with the checksum
    /// of the last message at the end.
    Read = 7,
}

/// Number of bits of [`Order::Play`]'s argument that hold the place.
pub const PLACE_BITS: u32 = 8;

/// A contiguous piece of the peer's exported area.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub physical: u64,
    pub bytes: usize,
}

/// The pages with words.
pub struct Court {
    /// This side's pages, which the peer writes.
    pub own: Region,
    /// The peer's pages.
    pub peer: Region,
    /// Keeps this side's pages.
    _buffer: Buffer,
}

/// The measuring side.
pub struct Node {
    pub link: Link,
    pub court: Court,
    pub allocator: Allocator,
    /// The peer's exported area.
    pub pieces: Vec<Piece>,
    endpoint: Endpoint,
}

fn allocator() -> Result<Allocator> {
    Allocator::new().context("memory for devices (are you root?)")
}

fn court(allocator: &Allocator) -> Result<Buffer> {
    let court = allocator.allocate(COURT_PAGES * PAGE);
    court.context("memory")
}

/// Allocates `bytes` bytes of memory in physical pieces.
pub fn scattered(allocator: &Allocator, bytes: usize) -> Result<Scattered> {
    let fill = || {
        let mut memory = allocator.reserve(bytes)?;
        while allocator.fill(&mut memory)? {}
        Ok(memory)
    };
    fill().map_err(|error: hal::Error| {
        Failure::from(alloc::format!(
            "{} MiB of memory: {error}; use a smaller --size",
            bytes >> 20
        ))
    })
}

impl Node {
    /// Makes the other side export `bytes` bytes, and finds them.
    pub fn open(settings: &Settings, bytes: usize) -> Result<Self> {
        let endpoint = connect(settings.extra_port()).context("connecting to scif-bare -s")?;
        let link = Link::find(settings.server.node())?;
        let allocator = allocator()?;
        let buffer = court(&allocator)?;
        tell(&endpoint, buffer.physical())?;
        tell(&endpoint, bytes as u64)?;
        let physical = hear(&endpoint).context("the other side")?;
        let peer = link.map_peer(physical, COURT_PAGES * PAGE)?;
        let count = hear(&endpoint)?;
        if count > MAX_PIECES {
            return Err("the other side's memory is in crumbs: use a smaller --size".into());
        }
        let mut pieces = Vec::new();
        for _ in 0..count {
            let (physical, bytes) = (hear(&endpoint)?, hear(&endpoint)? as usize);
            pieces.push(Piece { physical, bytes });
        }
        let court = Court {
            own: buffer.region().clone(),
            peer,
            _buffer: buffer,
        };
        Ok(Self {
            link,
            court,
            allocator,
            pieces,
            endpoint,
        })
    }

    /// Gives the other side an order. Returns its answer.
    pub fn order(&self, order: Order, argument: u64) -> Result<u64> {
        tell(&self.endpoint, order as u64)?;
        tell(&self.endpoint, argument)?;
        hear(&self.endpoint).context("the other side")
    }

    /// Waits for the second answer to an order that has two.
    pub fn hear(&self) -> Result<u64> {
        hear(&self.endpoint).context("the other side")
    }

    /// Makes the other side release everything.
    pub fn leave(self) -> Result {
        self.order(Order::Leave, 0).map(|_| ())
    }
}

/// The serving side, with a thread for each connection.
pub fn serve(port: Port) -> Result {
    let listener = Listener::bind(port).context("the port of the bare tests")?;
    loop {
        let (endpoint, peer) = listener.accept().context("accept")?;
        let endpoint = Arc::new(endpoint);
        let attend = move || {
            if let Err(failure) = attend(&endpoint, peer.node()) {
                runtime::eprintln!("scif-bare: node {}: {failure}", peer.node());
            }
        };
        thread::spawn(attend).context("a thread")?;
    }
}

/// Executes the orders of the measuring side until it orders this side to leave. If the measuring
/// side ends without that, its memory may be reused by now; but this side only accesses it while
/// it executes an order.
fn attend(endpoint: &Endpoint, peer: NodeId) -> Result {
    let (physical, bytes) = (hear(endpoint)?, hear(endpoint)?);
    if bytes > MAX_EXPORTED {
        return Err("it asks for too much memory".into());
    }
    let link = Link::find(peer)?;
    let allocator = allocator()?;
    let buffer = court(&allocator)?;
    let court = Court {
        own: buffer.region().clone(),
        peer: link.map_peer(physical, COURT_PAGES * PAGE)?,
        _buffer: buffer,
    };
    let exported = match bytes {
        0 => None,
        bytes => Some(scattered(&allocator, bytes as usize)?),
    };
    tell(endpoint, court._buffer.physical())?;
    let pieces = exported.as_ref().map_or(&[][..], Scattered::pieces);
    tell(endpoint, pieces.len() as u64)?;
    for piece in pieces {
        tell(endpoint, piece.physical)?;
        tell(endpoint, piece.bytes as u64)?;
    }
    let area = || Ok::<_, Failure>(exported.as_ref().ok_or("nothing is exported")?.region());
    let mut bell = None;
    loop {
        let (order, argument) = (hear(endpoint)?, hear(endpoint)?);
        let order = Order::try_read_from_bytes(order.as_bytes());
        match order.map_err(|_| Failure::from("an order nobody knows"))? {
            Order::Play => {
                tell(endpoint, 0)?;
                pingpong::answer(&court, argument)?;
            }
            Order::Fill => {
                let bytes = area()?.len().min(copies::MAX_VERIFIED);
                copies::fill(area()?, 0, bytes, argument)?;
                tell(endpoint, 0)?;
            }
            Order::Sum => tell(endpoint, copies::sum(area()?, 0, argument as usize)?)?,
            Order::SetUpBell => {
                bell = Some(doorbells::Bell::set_up(&link, peer)?);
                tell(endpoint, 0)?;
            }
            Order::Ring => {
                let bell = bell.as_mut().ok_or("there is no bell")?;
                tell(endpoint, 0)?;
                bell.answer(&court, argument)?;
            }
            Order::Read => {
                tell(endpoint, 0)?;
                tell(endpoint, streams::answer(&court, area()?, argument)?)?;
            }
            Order::Leave => break,
        }
    }
    drop((court, exported, bell));
    tell(endpoint, 0)
}
