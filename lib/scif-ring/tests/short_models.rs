//! The short way of a send (`place_short`, `put_placed`) and of a receive (`find_short`,
//! `take_found`) under every interleaving, as `models` has the general one. The client library
//! makes these calls for messages of a few bytes.

mod model;

use loom::sync::Arc;
use loom::thread;

use model::{End, check, pair, receive_all, send_all};
use scif_ring::{Consumer, Producer, RingError, RingMemory, Side};

/// Sends a byte the short way, as the client library does. `None` when the lock is taken or the
/// room is not known, else whether to wake the other side.
fn send_short<const F: bool>(end: &mut End<F>, producer: &Producer, byte: u8) -> Option<bool> {
    const HOLDER: u32 = 5;
    if !end.try_lock(Side::Send, HOLDER) {
        return None;
    }
    let Some(place) = producer.place_short(end, 1) else {
        end.unlock(Side::Send);
        return None;
    };
    // A ring never ends within one byte.
    let offset = producer.offset(place).unwrap();
    end.write_peer(offset, &[byte]).unwrap();
    producer.put_placed(end, place).unwrap();
    Some(producer.unlock_and_must_notify(end))
}

/// Receives a byte the short way, as the client library does. `None` when the lock is taken or no
/// byte is there, else the byte, and whether to wake the other side.
fn take_short<const F: bool>(end: &mut End<F>, consumer: &Consumer) -> Option<(u8, bool)> {
    const HOLDER: u32 = 6;
    if !end.try_lock(Side::Receive, HOLDER) {
        return None;
    }
    let found = consumer.find_short(end, |there| (there > 0).then_some(1));
    let Some(found) = found.unwrap() else {
        end.unlock(Side::Receive);
        return None;
    };
    let mut byte = [0];
    end.read(consumer.offset(found).unwrap(), &mut byte);
    let is_due = consumer.take_found(end, found);
    let given = is_due && consumer.give_back(end).unwrap();
    end.unlock(Side::Receive);
    Some((byte[0], given && consumer.must_notify(end)))
}

/// As `bytes_or_notice` of `models`, by the short way of a send: the instruction that releases its
/// lock is also its fence.
fn short_bytes_or_notice<const FENCES: bool>() {
    let (mut left, mut right) = pair::<FENCES>(4);
    let sender = thread::spawn(move || send_short(&mut left, &Producer::new(4), 1).unwrap());
    let would_sleep = Consumer::new(4).arm(&mut right) == Ok(Some(0));
    let is_told = sender.join().unwrap();
    assert!(is_told || !would_sleep, "sleeps beside bytes");
    let taken = take_short(&mut right, &Consumer::new(4));
    assert_eq!(taken.map(|(byte, _)| byte), Some(1));
}

/// As `room_or_notice` of `models`, by the short way of a receive.
fn short_room_or_notice<const FENCES: bool>() {
    let (mut left, mut right) = pair::<FENCES>(2);
    let producer = Producer::new(2);
    producer.send(&mut left, 2, &[1]).unwrap();
    let receiver = thread::spawn(move || take_short(&mut right, &Consumer::new(2)).unwrap());
    let would_sleep = producer.arm(&mut left) == Ok(Some(0));
    let (byte, is_told) = receiver.join().unwrap();
    assert!(is_told || !would_sleep, "sleeps beside room");
    assert_eq!(byte, 1);
}

/// As `kept_room_or_notice` of `models`, by the short way of a receive.
fn short_kept_room_or_notice() {
    const RING: u32 = 16;
    let (mut left, right) = pair::<true>(RING as usize);
    let producer = Producer::new(RING);
    producer.send(&mut left, 2, &[1; 3]).unwrap();
    let consumer = Arc::new(Consumer::new(RING));
    let (same, mut other) = (Arc::clone(&consumer), right.clone());
    let receiver = thread::spawn(move || take_short(&mut other, &same).unwrap().1);
    let sent = producer.send(&mut left, 2, &[1; 20]).unwrap().bytes;
    assert!(sent == 12 || sent == 13);
    let would_sleep = producer.arm(&mut left) == Ok(Some(0));
    let is_told = receiver.join().unwrap();
    if would_sleep && !is_told {
        let (_, is_told) = take_short(&mut right.clone(), &consumer).unwrap();
        assert!(is_told, "sleeps beside room");
    }
}

#[test]
fn no_wake_up_is_lost() {
    check(4, short_bytes_or_notice::<true>);
    check(4, short_room_or_notice::<true>);
    check(4, short_kept_room_or_notice);
}

#[test]
#[should_panic(expected = "sleeps beside bytes")]
fn without_the_fence_of_the_short_way_a_wake_up_for_bytes_is_lost() {
    check(4, short_bytes_or_notice::<false>);
}

#[test]
#[should_panic(expected = "sleeps beside room")]
fn without_the_fence_of_the_short_way_a_wake_up_for_room_is_lost() {
    check(4, short_room_or_notice::<false>);
}

#[test]
fn the_short_and_the_long_way_share_a_ring_and_its_position() {
    // Two senders, then two receivers, one of each on either way.
    check(2, || {
        let (left, right) = pair::<true>(4);
        let long = thread::spawn({
            let left = left.clone();
            move || send_all(left, 4, 2, &[1])
        });
        let short = thread::spawn({
            let mut left = left.clone();
            move || send_short(&mut left, &Producer::new(4), 2)
        });
        assert_eq!(long.join().unwrap(), Ok(()));
        let is_sent = short.join().unwrap().is_some();
        if !is_sent {
            // The other one had the lock.
            assert_eq!(send_all(left, 4, 3, &[2]), Ok(()));
        }
        let taker = thread::spawn({
            let mut right = right.clone();
            move || take_short(&mut right, &Consumer::new(4)).map(|(byte, _)| byte)
        });
        let mut all = Vec::new();
        let consumer = Consumer::new(4);
        let mut long = right.clone();
        loop {
            let mut buffer = [0];
            match consumer.receive(&mut long, 9, &mut buffer) {
                Ok(moved) => break all.extend_from_slice(&buffer[..moved.bytes]),
                Err(RingError::Locked) => thread::yield_now(),
                Err(error) => panic!("{error:?}"),
            }
        }
        match taker.join().unwrap() {
            Some(byte) => all.push(byte),
            // The other one had the lock.
            None => all.extend(receive_all(right, 4, 1, 1).unwrap()),
        }
        all.sort();
        assert_eq!(all, [1, 2]);
    });
}
