//! Data that moves without the daemon: on mapped rings, mixed with calls on the file, from several
//! programs, asleep and awake; and programs that die, or scribble, in the middle of it.
//!
//! `scif-bypass [NODE]`. With other arguments it is one of the programs that the checks start.
#![no_std]
#![no_main]

extern crate alloc;

mod kill;
mod mixed;
mod scribble;
mod sleep;
mod unregister;

use alloc::string::String;
use alloc::vec;

use guest_tests::peer::{self, ECHO, ECHO_AWAKE, Peer, Request};
use guest_tests::{Suite, at_rest, counter, kernel_count, pattern, settled, text};
use scif::{Endpoint, RecvFlags, SendFlags, Waiting};

runtime::main!(main);

/// The counters that must be as before when everything is over.
const COUNTERS: [&str; 9] = [
    "handles",
    "endpoints",
    "connections",
    "connections_closing",
    "pages",
    "windows",
    "remote_windows",
    "pinned_pages",
    "mapped_pages",
];

/// Which of them counts connections that are not quite closed.
const CLOSING: usize = 3;

type Counters = Result<[u64; COUNTERS.len()], String>;

/// The present values.
fn counters() -> Counters {
    let mut values = [0; COUNTERS.len()];
    for (value, name) in values.iter_mut().zip(COUNTERS) {
        *value = counter(name)?;
    }
    Ok(values)
}

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: vec::Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["send", fd, from, bytes] => return mixed::child(fd, from, bytes, true),
        ["receive", fd, from, bytes] => return mixed::child(fd, from, bytes, false),
        ["hold", what, node] => return kill::victim(what, node),
        ["take", fd] => return kill::taker(fd),
        ["scribble", node, seed] => return scribble::victim(node, seed),
        _ => {}
    }
    let mut suite = Suite::new("scif-bypass");
    let peer = match Peer::from_arguments() {
        Ok(peer) => peer,
        Err(error) => {
            suite.check("peer", Err(error));
            return suite.finish();
        }
    };
    // The peer must be there before anything is counted.
    if let Err(error) = peer.last_report() {
        suite.check("peer", Err(error));
        return suite.finish();
    }
    // The last message of that connection is answered by now.
    let is_over = |now: &Counters| now.as_ref().is_ok_and(|now| now[CLOSING] == 0);
    let before = at_rest(counters, is_over);
    suite.check("rings can be mapped", can_be_mapped(&peer));
    for size in SIZES {
        let name = alloc::format!("messages of {size} bytes");
        suite.check(&name, echo(&peer, *size));
    }
    // On one node the two share a processor, and waiting awake makes no sense.
    if words.len() == 1 {
        let awake = needs_no_daemon(&peer, ECHO_AWAKE, Waiting::Poll);
        suite.check("messages need no daemon", awake);
        suite.check("sleepers need no daemon", sleeps_without_daemon(&peer));
    }
    mixed::checks(&mut suite, &peer);
    sleep::checks(&mut suite, &peer);
    kill::checks(&mut suite, &peer);
    scribble::checks(&mut suite, &peer);
    unregister::checks(&mut suite, &peer);
    suite.equal("counters as before", settled(counters, &before), before);
    peer.dismiss();
    suite.finish()
}

/// Sizes around those of words, pages and rings; with odd ones a ring ends anywhere in a message.
const SIZES: &[usize] = &[
    1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1023, 4095, 4096, 4097, 16_383, 65_535, 65_536, 65_537,
    131_071,
];

fn can_be_mapped(peer: &Peer) -> Result<(), String> {
    let request = Request {
        verb: ECHO.into(),
        ..Request::default()
    };
    let endpoint = peer.connect(&request)?;
    endpoint.prepare().map_err(text("prepare"))
}

/// Messages go there and come back until the rings have gone round several times.
fn echo(peer: &Peer, size: usize) -> Result<(), String> {
    let request = Request {
        verb: ECHO.into(),
        message: (size as u32).into(),
        ..Request::default()
    };
    let endpoint = peer.connect(&request)?;
    endpoint.prepare().map_err(text("prepare"))?;
    let (mut there, mut back) = (vec![0; size], vec![0; size]);
    let rounds = (400_000 / size).clamp(20, 3000);
    for round in 0..rounds {
        round_trip(&endpoint, round, &mut there, &mut back)?;
    }
    Ok(())
}

/// One message there and back, checked.
fn round_trip(
    endpoint: &Endpoint,
    round: usize,
    there: &mut [u8],
    back: &mut [u8],
) -> Result<(), String> {
    let size = there.len();
    let at = (round * size) as u64;
    pattern::fill(5, at, there);
    let sent = endpoint
        .send(&*there, SendFlags::BLOCK)
        .map_err(text("send"))?;
    let received = endpoint
        .recv(&mut *back, RecvFlags::BLOCK)
        .map_err(text("recv"))?;
    if (sent, received) != (size, size) {
        return Err(alloc::format!("{sent} bytes there, {received} back"));
    }
    match pattern::mismatch(5, at, back) {
        Some(wrong) => Err(alloc::format!("byte {wrong} came back wrong")),
        None => Ok(()),
    }
}

/// Two programs exchange messages without asking their daemons for anything. A machine that is busy
/// with other things makes them ask now and then whether their daemon still lives; the calmest of
/// many batches tells.
fn needs_no_daemon(peer: &Peer, verb: u32, waiting: Waiting) -> Result<(), String> {
    const BATCHES: usize = 60;
    const BATCH: usize = 100;
    let mut buffers = ([0; 64], [0; 64]);
    let request = Request {
        verb: verb.into(),
        message: (buffers.0.len() as u32).into(),
        ..Request::default()
    };
    let endpoint = peer.connect(&request)?;
    endpoint.prepare().map_err(text("prepare"))?;
    endpoint.set_waiting(waiting);
    let mut least = u64::MAX;
    for batch in 0..BATCHES {
        let before = counter("requests")?;
        for round in 0..BATCH {
            let (there, back) = &mut buffers;
            round_trip(&endpoint, batch * BATCH + round, there, back)?;
        }
        least = least.min(counter("requests")? - before);
    }
    // Reading the counter takes requests too: open, read, close.
    match least {
        0..20 => Ok(()),
        _ => Err(alloc::format!("{BATCH} round trips made {least} requests")),
    }
}

/// The same where this one sleeps for each answer: the kernel sees it. On a fast machine most
/// answers are there before the sleep.
fn sleeps_without_daemon(peer: &Peer) -> Result<(), String> {
    const TRIES: u32 = 60;
    let before = kernel_count("idle_polls_seen")?;
    for _ in 0..TRIES {
        needs_no_daemon(peer, ECHO, Waiting::Sleep)?;
        if kernel_count("idle_polls_seen")? > before {
            return Ok(());
        }
    }
    Err(String::from("the kernel has seen no answer"))
}
