//! Peers that are slow to say what they want delay nobody.

use alloc::string::String;

use guest_tests::{Suite, text};
use runtime::thread;
use runtime::time::Duration;
use scif::{Endpoint, NodeId};
use st::{Connection, Error, Listener, PortId};

use super::client::Peer;
use super::{Message, PORT, kind, options};

/// Where this program listens itself.
const OWN_PORT: u16 = 5302;

/// A slow client before a quick one, at the server and at a listener that must not wait.
pub fn check(suite: &mut Suite, node: NodeId) {
    suite.check("a slow client delays no other", slow(node));
    suite.check("accepting without waiting", without_waiting());
}

/// A connection on which nothing is said yet.
fn mute(to: PortId) -> Result<Endpoint, String> {
    let patient = scif::Options::new().retry_for(Duration::from_secs(30));
    patient.connect(to).map_err(text("connect"))
}

fn slow(node: NodeId) -> Result<(), String> {
    let slow = mute(PortId::new(node, PORT))?;
    let mut quick = Peer::connect(node, PORT)?;
    quick.ask(of(kind::SLEEP))?;
    quick.say(of(kind::CLOSE))?;
    drop(quick);
    // The server has waited for it, too.
    let link = Connection::request(slow, &options()).map_err(text("request"))?;
    let (tx, rx) = link.channel(0).map_err(text("channel"))?.split();
    let mut late = Peer { link, tx, rx };
    late.ask(of(kind::SLEEP))?;
    late.say(of(kind::CLOSE))
}

fn of(kind: u32) -> Message {
    Message {
        kind,
        ..Message::default()
    }
}

fn without_waiting() -> Result<(), String> {
    let here = scif::nodes().map_err(text("nodes"))?.own;
    let to = PortId::new(here, OWN_PORT);
    let listener = Listener::with_options(&options().port(OWN_PORT)).map_err(text("listen"))?;
    let nobody = listener.try_accept().map_err(text("nobody"))?;
    expect(nobody.is_none(), "a connection of nobody")?;
    // A connect is over when the listener has looked.
    let connecting = thread::spawn(move || mute(to)).map_err(text("spawn"))?;
    while listener.descriptors().len() < 2 {
        let early = listener.try_accept().map_err(text("a mute client"))?;
        expect(early.is_none(), "a connection of a mute client")?;
    }
    let mute = connecting.join().map_err(text("join"))??;
    let connecting = thread::spawn(move || st::connect(to, &options()));
    let connecting = connecting.map_err(text("spawn"))?;
    let link = loop {
        if let Some(link) = listener.try_accept().map_err(text("a good client"))? {
            break link;
        }
    };
    let other = connecting.join().map_err(text("join"))?;
    let other = other.map_err(text("connect"))?;
    let (_tx, mut rx) = link.channel(1).map_err(text("channel"))?.split();
    let (mut tx, _rx) = other.channel(1).map_err(text("channel"))?.split();
    tx.push(&7_u64).map_err(text("push"))?;
    let number = rx.pull::<u64>().map_err(text("pull"))?;
    expect(number == 7, "another header")?;
    // One that goes without a word is told of, and is one less.
    drop(mute);
    let gone = loop {
        match listener.try_accept() {
            Ok(None) => {}
            Ok(Some(_)) => return Err("a connection of nobody".into()),
            Err(error) => break error,
        }
    };
    expect(gone == Error::Ended, "another end")?;
    expect(listener.descriptors().len() == 1, "one too many")
}

fn expect(condition: bool, what: &str) -> Result<(), String> {
    condition.then_some(()).ok_or_else(|| what.into())
}
