//! Memory that is mapped and unmapped by two threads, and by both ends, at the same time.

use alloc::string::String;
use alloc::sync::Arc;

use guest_tests::{Suite, text};
use hal::lock::Mutex;
use runtime::thread;
use st::{Connection, Deadline, Error, Memory, Region};

use super::silence::{channel, pair};

/// Where this program listens itself.
const OWN_PORT: u16 = 5304;
/// How often one thread maps what another one unmaps.
const ROUNDS: u32 = 200;
/// How often each end maps: more often than a stream has room for.
const MAPS: u32 = 2500;

pub fn check(suite: &mut Suite) {
    suite.check("memory of two threads in turn", handover());
    suite.check("maps of both ends at once", both());
}

/// One thread takes memory back while another one maps: the peer hears of both in this order.
fn handover() -> Result<(), String> {
    let (own, other) = pair(OWN_PORT)?;
    let (mut tx, _rx) = channel(&own)?;
    let (mut peer, _peer_rx) = channel(&other)?;
    let given: Arc<Mutex<Option<Region>>> = Arc::new(Mutex::new(None));
    let taken = given.clone();
    let unmaps = move || {
        for _ in 0..ROUNDS {
            while taken.lock().take().map(Region::unmap).is_none() {
                thread::yield_now();
            }
        }
    };
    let unmapping = thread::spawn(unmaps).map_err(text("spawn"))?;
    for round in 0..ROUNDS {
        let region = loop {
            let memory = Memory::new(4096).map_err(text("memory"))?;
            match tx.map(memory) {
                Err(Error::Busy) => thread::yield_now(),
                region => break region.map_err(text("map"))?,
            }
        };
        let remote = peer.remote(Deadline::Never).map_err(text("remote"))?;
        if remote.generation() != round + 1 {
            return Err("another announcement".into());
        }
        *given.lock() = Some(region);
    }
    unmapping.join().map_err(text("join"))?;
    Ok(())
}

/// Neither end makes another call meanwhile, and neither waits for the other one in vain.
fn both() -> Result<(), String> {
    let (own, other) = pair(OWN_PORT)?;
    let mapping = thread::spawn(move || map_often(&other)).map_err(text("spawn"))?;
    let mapped = map_often(&own).map_err(text("map"));
    mapping
        .join()
        .map_err(text("join"))?
        .map_err(text("map there"))?;
    mapped
}

fn map_often(link: &Connection) -> Result<(), Error> {
    let (mut tx, mut rx) = link.channel(0)?.split();
    let mut memory = Memory::new(4096)?;
    for _ in 0..MAPS {
        memory = tx.map(memory)?.unmap()?;
    }
    // The other end may not be done, and needs a peer that makes calls.
    tx.push(&MAPS)?;
    rx.pull::<u32>().map(drop)
}
