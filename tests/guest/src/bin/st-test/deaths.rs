//! A peer that dies: every call ends with its error, and what has arrived comes first.

use alloc::string::String;

use guest_tests::{Suite, text};
use scif::NodeId;
use st::{Deadline, Error, Interest, Memory, WaitSet, Waiting};

use super::client::Peer;
use super::{BYTES, Message, PORT, VICTIM_PORT, kind, options};

/// How the victim is waited for.
const WAITING: [(&str, Waiting); 3] = [
    ("polling", Waiting::Poll),
    ("adaptive", Waiting::Adaptive),
    ("sleeping", Waiting::Sleep),
];

/// Three victims that die in the middle of everything, three beside a wait for many channels, one
/// beside a full queue, and a client with other options.
pub fn check(suite: &mut Suite, node: NodeId) {
    for (name, waiting) in WAITING {
        let name = alloc::format!("a peer dies, {name}");
        suite.check(&name, dies(node, waiting));
    }
    for (name, waiting) in WAITING {
        let name = alloc::format!("a peer dies beside a wait for many channels, {name}");
        suite.check(&name, dies_watched(node, waiting));
    }
    suite.check("a peer dies beside a push that waits", dies_full(node));
    suite.check("other channels are refused", other_channels(node));
}

fn of(kind: u32) -> Message {
    Message {
        kind,
        ..Message::default()
    }
}

fn dies(node: NodeId, waiting: Waiting) -> Result<(), String> {
    let mut peer = Peer::connect(node, VICTIM_PORT)?;
    let memory = Memory::new(BYTES).map_err(text("memory"))?;
    let region = peer.tx.map(memory).map_err(text("map"))?;
    let (_tx, mut rx) = peer.link.channel(1).map_err(text("channel"))?.split();
    rx.set_waiting(waiting);
    peer.say(of(kind::DIE))?;
    let mut next = 0_u64;
    let end = loop {
        match rx.pull::<u64>() {
            Ok(number) if number == next => next += 1,
            Ok(number) => return Err(alloc::format!("{number} instead of {next}")),
            Err(error) => break error,
        }
    };
    expect(end.is_end() && end != Error::Broken, end)?;
    if next == 0 {
        return Err("nothing came".into());
    }
    let push = peer.tx.push(&0_u64).err();
    expect(push.is_some_and(Error::is_end), push)?;
    let remote = peer.tx.remote(Deadline::Never).err();
    expect(remote.is_some_and(Error::is_end), remote)?;
    let fence = peer.tx.fence().err();
    expect(fence.is_some_and(Error::is_end), fence)?;
    // The memory is the program's again, whatever the end says.
    let _ = region.unmap();
    Ok(())
}

/// The wait has no deadline and another peer, which stays silent and lives.
fn dies_watched(node: NodeId, waiting: Waiting) -> Result<(), String> {
    let mut living = Peer::connect(node, PORT)?;
    let mut peer = Peer::connect(node, VICTIM_PORT)?;
    let mut set = WaitSet::new().map_err(text("set"))?;
    set.set_waiting(waiting);
    peer.say(of(kind::DIE_QUIETLY))?;
    let mut both = [
        Interest::Header(&mut living.rx),
        Interest::Header(&mut peer.rx),
    ];
    let ready = set.wait(&mut both, Deadline::Never).map_err(text("wait"))?;
    expect(ready == [1], ready)?;
    let end = peer.rx.pull::<u64>().err();
    expect(end.is_some_and(Error::is_end), end)?;
    living.say(of(kind::CLOSE))
}

fn dies_full(node: NodeId) -> Result<(), String> {
    let mut peer = Peer::connect(node, VICTIM_PORT)?;
    let (mut tx, _rx) = peer.link.channel(2).map_err(text("channel"))?.split();
    while tx.try_push(&0_u64).is_ok() {}
    peer.say(of(kind::DIE_QUIETLY))?;
    let end = tx.push(&0_u64).err();
    expect(end.is_some_and(Error::is_end), end)
}

/// The victim's listener goes on to its end with the refusal.
fn other_channels(node: NodeId) -> Result<(), String> {
    let to = st::PortId::new(node, VICTIM_PORT);
    let patient = options().retry_for(runtime::time::Duration::from_secs(30));
    let end = st::connect(to, &patient.channels(5)).err();
    expect(end == Some(Error::Refused(st::Refused::Rejected)), end)
}

fn expect<T: core::fmt::Debug>(condition: bool, found: T) -> Result<(), String> {
    match condition {
        true => Ok(()),
        false => Err(alloc::format!("found {found:?}")),
    }
}
