//! Many at once: several headers by one call, and one wait for many channels.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use guest_tests::text;
use st::{Deadline, Error, Interest, Receiver, WaitSet, Waiting};

use super::client::{Checked, Peer, ensure, of, same};
use super::{Message, kind};

/// What one end sends by several calls the other takes by few, and the other way.
pub fn several(peer: &mut Peer) -> Checked {
    const CHANNEL: u32 = 1;
    // Whole queues, so that no credit is held back afterwards.
    const COUNT: u64 = 6400;
    let (mut tx, mut rx) = peer.link.channel(CHANNEL).map_err(text("channel"))?.split();
    peer.say(Message {
        at: CHANNEL.into(),
        ..of(kind::CROSS, COUNT / 100)
    })?;
    let numbers: Vec<u64> = (0..COUNT / 100).collect();
    tx.push_all(&numbers).map_err(text("push"))?;
    let mut taken = Vec::new();
    while taken.len() < numbers.len() {
        let mut some = [u64::MAX; 7];
        let count = rx.pull_some(&mut some).map_err(text("pull"))?;
        ensure((1..=some.len()).contains(&count), "another number")?;
        ensure(
            some[count..].iter().all(|rest| *rest == u64::MAX),
            "more than said",
        )?;
        taken.extend_from_slice(&some[..count]);
    }
    same(taken, numbers)?;
    peer.rx.pull::<Message>().map_err(text("answer"))?;
    same(
        rx.pull_some_until(&mut [0_u64], Deadline::Now),
        Err(Error::WouldBlock),
    )?;
    same(rx.pull_some::<u64>(&mut []), Ok(0))?;
    same(tx.try_push_all::<u64>(&[]), Ok(0))?;
    // More than have room: the server takes them only afterwards.
    let numbers: Vec<u64> = (0..COUNT).collect();
    let slots = peer.link.peer().slots as usize;
    let sent = tx.try_push_all(&numbers).map_err(text("push"))?;
    ensure((slots..=slots + slots / 4).contains(&sent), "another room")?;
    let full = tx.try_push_all(&numbers[sent..]);
    same(full, Err(Error::WouldBlock))?;
    peer.say(Message {
        at: CHANNEL.into(),
        ..of(kind::DRAIN, COUNT)
    })?;
    tx.push_all(&numbers[sent..]).map_err(text("push on"))?;
    same(
        peer.rx.pull::<Message>().map_err(text("answer"))?.number,
        COUNT,
    )
}

pub fn wait_set(peer: &mut Peer) -> Checked {
    let mut set = WaitSet::new().map_err(text("set"))?;
    let (mut tx, mut rx) = peer.link.channel(1).map_err(text("channel"))?.split();
    let soon = Deadline::after_ms(20).map_err(text("clock"))?;
    let mut wait = |peer: &mut Peer, rx: &mut Receiver, deadline| {
        let mut both = [Interest::Header(&mut peer.rx), Interest::Header(rx)];
        let ready = set.wait(&mut both, deadline).map_err(text("wait"))?;
        Ok::<_, String>(ready.to_vec())
    };
    same(wait(peer, &mut rx, soon)?, vec![])?;
    for round in 0..10 {
        peer.say(of(kind::SLEEP, round))?;
        same(wait(peer, &mut rx, Deadline::Never)?, vec![0])?;
        peer.rx.pull::<Message>().map_err(text("answer"))?;
        peer.say(Message {
            at: 1,
            ..of(kind::CROSS, 1)
        })?;
        tx.push(&0_u64).map_err(text("push"))?;
        let ready = wait(peer, &mut rx, Deadline::Never)?;
        ensure(!ready.is_empty(), "nothing is ready")?;
        rx.pull::<u64>().map_err(text("pull"))?;
        peer.rx.pull::<Message>().map_err(text("answer"))?;
    }
    Ok(())
}

/// Whichever way it waits.
pub fn wait_set_in_time(peer: &mut Peer) -> Checked {
    let mut set = WaitSet::new().map_err(text("set"))?;
    for waiting in [Waiting::Poll, Waiting::Adaptive, Waiting::Sleep] {
        set.set_waiting(waiting);
        for deadline in [
            Deadline::Now,
            Deadline::after_ms(20).map_err(text("clock"))?,
        ] {
            let ready = set.wait(&mut [Interest::Header(&mut peer.rx)], deadline);
            same(ready.map_err(text("wait"))?, &[])?;
        }
        peer.say(of(kind::SLEEP, 20))?;
        let ready = set.wait(&mut [Interest::Header(&mut peer.rx)], Deadline::Never);
        same(ready.map_err(text("wait"))?, &[0])?;
        peer.rx.pull::<Message>().map_err(text("answer"))?;
    }
    Ok(())
}
