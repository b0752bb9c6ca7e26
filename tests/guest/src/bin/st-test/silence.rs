//! A peer that makes no call takes nothing out of its stream: maps end with an error, unmaps do not
//! wait, and everything works again with the peer's next call.

use alloc::string::String;

use guest_tests::{Suite, text};
use runtime::thread;
use runtime::time::{Duration, Instant};
use st::{Connection, Deadline, Error, Listener, Memory, PortId, Sender};

use super::options;

/// Where this program listens itself.
const OWN_PORT: u16 = 5303;
/// A map that takes longer waits for the peer, which it does for 10 s.
const PATIENCE: Duration = Duration::from_secs(9);
/// More maps than the stream has room for.
const MOST: u32 = 4000;

pub fn check(suite: &mut Suite) {
    suite.check("maps that a silent peer does not hear of", silence());
}

/// Both ends of a connection of this program with itself: the one that has connected first.
pub fn pair(port: u16) -> Result<(Connection, Connection), String> {
    let here = scif::nodes().map_err(text("nodes"))?.own;
    let to = PortId::new(here, port);
    let listener = Listener::with_options(&options().port(port)).map_err(text("listen"))?;
    let connecting = thread::spawn(move || st::connect(to, &options()));
    let connecting = connecting.map_err(text("spawn"))?;
    let accepted = listener.accept().map_err(text("accept"))?;
    let connected = connecting.join().map_err(text("join"))?;
    Ok((connected.map_err(text("connect"))?, accepted))
}

fn silence() -> Result<(), String> {
    let (own, silent) = pair(OWN_PORT)?;
    let (mut tx, _rx) = channel(&own)?;
    let memory = Memory::new(4096).map_err(text("memory"))?;
    let (memory, count) = map_until_refused(&mut tx, memory)?;
    // A map and its end are two records. A ring has a page to 256 KiB, by the number of the node's
    // connections: some 56 to 3,640 records fit.
    let is_ring_full = (20..2000).contains(&count);
    expect(
        is_ring_full,
        &alloc::format!("{count} maps are another number"),
    )?;
    // The peer's next call takes all that there is, and the next map is told.
    let (mut silent_tx, mut silent_rx) = channel(&silent)?;
    expect(
        silent_rx.try_pull::<u64>() == Ok(None),
        "a header of nobody",
    )?;
    let region = tx.map(memory).map_err(text("map again"))?;
    let remote = silent_tx.remote(Deadline::Never).map_err(text("remote"))?;
    let place = remote.at(8).map_err(text("place"))?;
    silent_tx.put(b"heard", place).map_err(text("put"))?;
    let mut bytes = [0; 5];
    region.copy_out(8, &mut bytes).map_err(text("look"))?;
    expect(&bytes == b"heard", "another content")?;
    region.unmap().map_err(text("unmap"))?;
    expect(
        silent_tx.put(b"late", place) == Err(Error::Gone),
        "a put into memory that was unmapped",
    )
}

/// Maps and unmaps until the stream is full: the memory, and how often that went well.
fn map_until_refused(tx: &mut Sender, mut memory: Memory) -> Result<(Memory, u32), String> {
    for count in 0..MOST {
        let begun = Instant::now();
        memory = match tx.map(memory) {
            Ok(_) if begun.elapsed() > PATIENCE => {
                return Err("a map of which nobody heard is no error".into());
            }
            Ok(region) => region.unmap().map_err(text("unmap"))?,
            Err(Error::TimedOut) => {
                let memory = Memory::new(4096).map_err(text("memory"))?;
                return Ok((memory, count));
            }
            Err(error) => return Err(text("map")(error)),
        };
    }
    Err("maps of which nobody heard".into())
}

/// The halves of the first channel.
pub fn channel(link: &Connection) -> Result<(Sender, st::Receiver), String> {
    Ok(link.channel(0).map_err(text("channel"))?.split())
}

fn expect(condition: bool, what: &str) -> Result<(), String> {
    condition.then_some(()).ok_or_else(|| what.into())
}
