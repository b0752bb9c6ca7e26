//! Lost wake-ups: a great many small messages with pauses on either side. A wake-up that gets lost
//! leaves both sides asleep, and the suite's time limit finds that.

use alloc::string::String;

use guest_tests::peer::{Peer, Request, SINK, SOURCE};
use guest_tests::{Suite, pattern, text};
use runtime::time::{Duration, sleep};
use scif::{Endpoint, RecvFlags, SendFlags, Waiting};

/// Bytes in each direction, in messages of 1 to 16: about half a million.
const BYTES: u64 = 4_500_000;
const MESSAGE: u64 = 16;
const SEED: u64 = 33;

pub fn checks(suite: &mut Suite, peer: &Peer) {
    suite.check("small messages to the peer, with pauses", there(peer));
    suite.check("small messages from the peer, with pauses", back(peer));
}

fn connect(peer: &Peer, verb: u32) -> Result<Endpoint, String> {
    let request = Request {
        verb: verb.into(),
        piece: (MESSAGE as u32).into(),
        bytes: BYTES.into(),
        seed: SEED.into(),
        ..Request::default()
    };
    let endpoint = peer.connect(&request)?;
    endpoint.prepare().map_err(text("prepare"))?;
    Ok(endpoint)
}

/// Now and then a pause of any length, and another way of waiting.
fn pause(random: &mut pattern::Random, endpoint: &Endpoint) {
    match random.up_to(4000) {
        1 => sleep(Duration::from_millis(random.up_to(3))),
        2..=40 => (0..random.up_to(20)).for_each(|_| runtime::thread::yield_now()),
        41..=300 => (0..random.up_to(3000)).for_each(|_| core::hint::spin_loop()),
        301..=310 => endpoint.set_waiting(match random.up_to(3) {
            1 => Waiting::Sleep,
            2 => Waiting::Poll,
            _ => Waiting::Adaptive,
        }),
        _ => {}
    }
}

fn there(peer: &Peer) -> Result<(), String> {
    let endpoint = connect(peer, SINK)?;
    let mut random = pattern::Random::new(7);
    let mut buffer = [0; MESSAGE as usize];
    let mut done = 0;
    while done < BYTES {
        let message = &mut buffer[..random.up_to(MESSAGE).min(BYTES - done) as usize];
        pattern::fill(SEED, done, message);
        let count = endpoint
            .send(message, SendFlags::BLOCK)
            .map_err(text("send"))?;
        done += count as u64;
        pause(&mut random, &endpoint);
    }
    let report = Peer::report(&endpoint)?;
    if !report.is_whole(BYTES) {
        return Err(alloc::format!("the peer got {report:?}"));
    }
    Ok(())
}

fn back(peer: &Peer) -> Result<(), String> {
    let endpoint = connect(peer, SOURCE)?;
    let mut random = pattern::Random::new(8);
    let mut buffer = [0; MESSAGE as usize];
    let mut done = 0;
    while done < BYTES {
        let message = &mut buffer[..random.up_to(MESSAGE).min(BYTES - done) as usize];
        let count = endpoint
            .recv(message, RecvFlags::BLOCK)
            .map_err(text("recv"))?;
        if let Some(wrong) = pattern::mismatch(SEED, done, &message[..count]) {
            return Err(alloc::format!("byte {wrong} is wrong"));
        }
        done += count as u64;
        pause(&mut random, &endpoint);
    }
    Ok(())
}
