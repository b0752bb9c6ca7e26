//! Transfers that are under way when an endpoint is closed: they have ended when that returns.
//! Every byte is looked at.

use alloc::string::String;

use guest_tests::peer::Peer;
use guest_tests::text;
use guest_tests::windows::{Remote, compare, difference, fill};
use runtime::time::{Duration, sleep};
use scif::{Memory, raw};

use crate::READ_WRITE;

/// More than is copied before the call returns.
const BYTES: usize = 24 << 20;
/// How long what must not happen any more is waited for.
const LATER: Duration = Duration::from_millis(200);

/// A connection, with a window of all memory at either end.
struct Ends {
    remote: Remote,
    memory: Memory,
    here: i64,
    there: i64,
}

impl Ends {
    fn new(peer: &Peer) -> Result<Self, String> {
        let remote = Remote::new(peer, BYTES)?;
        let there = remote.register(0, BYTES, 0, READ_WRITE, 0);
        let memory = Memory::new(BYTES).map_err(text("memory"))?;
        let here = raw::register(remote.endpoint.fd(), memory.range(), 0, READ_WRITE, 0);
        remote.keep()?;
        Ok(Self {
            there: there.map_err(text("register there"))?,
            here: here.map_err(text("register here"))?,
            remote,
            memory,
        })
    }

    fn fill(&self, seed: u64) -> Result<(), String> {
        fill(&self.memory, 0, BYTES, seed).map_err(text("filling"))
    }
}

/// Fails unless the own memory holds a pattern.
fn holds(memory: &Memory, seed: u64) -> Result<(), String> {
    match compare(memory, 0, BYTES, seed, false).map_err(text("comparing"))? {
        None => Ok(()),
        Some(at) => Err(difference(at, BYTES)),
    }
}

/// The bytes that `scif_writeto` was given arrive, whatever is stored after the close.
pub fn writes(peer: &Peer) -> Result<(), String> {
    for is_dropped in [false, true] {
        let ends = Ends::new(peer)?;
        ends.fill(41)?;
        let (fd, length) = (ends.remote.endpoint.fd(), BYTES as u64);
        raw::writeto(fd, ends.here, length, ends.there, 0).map_err(text("write"))?;
        match is_dropped {
            true => drop(ends.remote.endpoint),
            false => ends.remote.endpoint.close().map_err(text("close"))?,
        }
        fill(&ends.memory, 0, BYTES, 42).map_err(text("filling"))?;
        Remote::recall(peer)?.compare(0, BYTES, 41, false)?;
    }
    Ok(())
}

/// The bytes of `scif_readfrom` are there after the close, and nothing is stored later.
pub fn reads(peer: &Peer) -> Result<(), String> {
    let ends = Ends::new(peer)?;
    ends.remote.fill(0, BYTES, 43)?;
    let (fd, length) = (ends.remote.endpoint.fd(), BYTES as u64);
    raw::readfrom(fd, ends.here, length, ends.there, 0).map_err(text("read"))?;
    ends.remote.endpoint.close().map_err(text("close"))?;
    holds(&ends.memory, 43)?;
    fill(&ends.memory, 0, BYTES, 44).map_err(text("filling"))?;
    sleep(LATER);
    holds(&ends.memory, 44)?;
    Remote::recall(peer).map(drop)
}

/// The peer's transfers into our memory: nothing is stored after our close.
pub fn peer_writes(peer: &Peer) -> Result<(), String> {
    let ends = Ends::new(peer)?;
    ends.remote.fill(0, BYTES, 45)?;
    let started = ends.remote.transfer(true, ends.there, BYTES, ends.here, 0);
    started.map_err(text("the peer's write"))?;
    ends.remote.endpoint.close().map_err(text("close"))?;
    fill(&ends.memory, 0, BYTES, 46).map_err(text("filling"))?;
    sleep(LATER);
    holds(&ends.memory, 46)?;
    Remote::recall(peer).map(drop)
}

/// The peer's transfers out of our memory: it has what we had before our close.
pub fn peer_reads(peer: &Peer) -> Result<(), String> {
    let ends = Ends::new(peer)?;
    ends.fill(47)?;
    let started = ends.remote.transfer(false, ends.there, BYTES, ends.here, 0);
    started.map_err(text("the peer's read"))?;
    ends.remote.endpoint.close().map_err(text("close"))?;
    fill(&ends.memory, 0, BYTES, 48).map_err(text("filling"))?;
    Remote::recall(peer)?.compare(0, BYTES, 47, false)
}
