//! The queues in one thread: credits, two-slot descriptors, and peers that store anything.

use st_core::demo::{End, pair as both};
use st_core::queue::{
    Descriptor, Kind, LINE, Layout, Next, QueueError, QueueMemory, Receiver, Sender, Sent,
};

/// Two ends with windows of this layout.
fn pair(layout: Layout) -> (End, End) {
    both(layout, layout)
}

fn message(number: u64) -> Descriptor {
    Descriptor::new(Kind::Message, &number.to_le_bytes())
}

#[test]
fn a_channel_blocks_when_its_places_are_filled_and_no_earlier() {
    let layout = Layout::new(2, 8).unwrap();
    let (mut left, mut right) = pair(layout);
    for channel in 0..2 {
        let (mut sender, mut receiver) =
            (Sender::new(layout, channel), Receiver::new(layout, channel));
        for number in 0..10 {
            assert!(sender.send(&mut left, &message(number)).unwrap().is_some());
        }
        assert_eq!(sender.send(&mut left, &message(10)), Ok(None));
        // Two of eight taken is a quarter, which is returned.
        for number in 0..2 {
            let received = receiver.receive(&mut right).unwrap().unwrap();
            assert_eq!(received.descriptor, message(number));
            assert!(!received.wake);
        }
        assert_eq!(sender.room(&left), Ok(2));
    }
}

/// Both ends fill each other's queue before they take anything, after rounds in which slots were
/// taken in any steps, with sleeps between them.
#[test]
fn the_agreed_slots_can_be_filled_whatever_was_kept_back() {
    const SLOTS: u64 = 16;
    let layout = Layout::new(1, SLOTS as u32).unwrap();
    let (mut left, mut right) = pair(layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 0), Receiver::new(layout, 0));
    let mut number = 0;
    for asleep_after in 0..3 * SLOTS {
        for at in 0..SLOTS {
            let sent = sender.send(&mut left, &message(number + at)).unwrap();
            assert!(sent.is_some(), "stopped by header {at} of {SLOTS}");
        }
        for at in 0..SLOTS {
            if at == asleep_after % SLOTS {
                receiver.arm(&mut right).unwrap();
            }
            let taken = receiver.receive(&mut right).unwrap().unwrap();
            assert_eq!(taken.descriptor, message(number + at));
        }
        number += SLOTS;
    }
}

#[test]
fn a_sender_that_sleeps_is_woken_by_the_next_take() {
    let layout = Layout::new(1, 16).unwrap();
    let (mut left, mut right) = pair(layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 0), Receiver::new(layout, 0));
    for number in 0..20 {
        sender.send(&mut left, &message(number)).unwrap().unwrap();
    }
    assert_eq!(sender.arm(&mut left), Ok(0));
    assert!(receiver.receive(&mut right).unwrap().unwrap().wake);
    assert_eq!(sender.room(&left), Ok(1));
    // The wish is taken up once.
    assert!(!receiver.receive(&mut right).unwrap().unwrap().wake);
}

#[test]
fn a_receiver_that_sleeps_is_woken_by_the_next_send() {
    let layout = Layout::new(1, 8).unwrap();
    let (mut left, mut right) = pair(layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 0), Receiver::new(layout, 0));
    assert!(!receiver.arm(&mut right).unwrap().is_ready);
    assert!(sender.send(&mut left, &message(1)).unwrap().unwrap().wake);
    assert!(!sender.send(&mut left, &message(2)).unwrap().unwrap().wake);
    assert!(receiver.arm(&mut right).unwrap().is_ready);
}

#[test]
fn many_rounds_of_all_kinds() {
    let layout = Layout::new(1, 8).unwrap();
    let (mut left, mut right) = pair(layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 0), Receiver::new(layout, 0));
    let kinds = [Kind::Message, Kind::Header, Kind::HeaderWithPayload];
    let descriptor = |number: usize| {
        let bytes: Vec<u8> = (0..72).map(|at| (number * 7 + at) as u8).collect();
        Descriptor::new(kinds[number % 3], &bytes)
    };
    let (mut sent, mut received) = (0, 0);
    while received < 10_000 {
        while sender.send(&mut left, &descriptor(sent)).unwrap().is_some() {
            sent += 1;
        }
        while let Some(next) = receiver.receive(&mut right).unwrap() {
            assert_eq!(next.descriptor, descriptor(received));
            received += 1;
        }
    }
    assert_eq!(sent, received);
}

#[test]
fn a_peer_that_stores_anything_ends_only_its_own_connection() {
    let layout = Layout::new(1, 8).unwrap();
    // More credit than was sent, and credit taken back.
    let (mut left, mut right) = pair(layout);
    let mut sender = Sender::new(layout, 0);
    sender.send(&mut left, &message(0)).unwrap().unwrap();
    for (taken, expected) in [
        (1, Ok(10)),
        (0, Err(QueueError::Broken)),
        (2, Err(QueueError::Broken)),
    ] {
        right.store_peer_long(0, taken).unwrap();
        assert_eq!(sender.room(&left), expected);
    }
    // An unknown kind, and the first of two slots without the second one.
    for kind in [0, 4, u32::MAX, 3] {
        let (mut left, right) = pair(layout);
        left.store_peer(LINE + 56, kind).unwrap();
        left.store_peer(LINE + 60, 1).unwrap();
        assert_eq!(
            Receiver::new(layout, 0).peek(&right),
            Err(QueueError::Broken)
        );
    }
}

#[test]
fn several_headers_by_one_call_are_those_of_several_calls() {
    let layout = Layout::new(1, 8).unwrap();
    let (mut left, mut right) = pair(layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 0), Receiver::new(layout, 0));
    let header = |number: u8| [number; 32];
    let (mut sent, mut received) = (0_u8, 0_u8);
    for round in 0..100 {
        // As many as have room, of those that there are.
        let free = 10 - (sent.wrapping_sub(received));
        let wanted = round % 12;
        let mut headers = (0..wanted).map(|at| header(sent.wrapping_add(at)));
        let (count, wish) = sender.send_messages(&mut left, &mut headers).unwrap();
        // Slots are given back a quarter at a time.
        assert!(count as u8 <= free.min(wanted) && !wish.wake);
        assert!(count as u8 >= free.saturating_sub(2).min(wanted));
        assert_eq!(headers.len(), usize::from(wanted) - count as usize);
        sent = sent.wrapping_add(count as u8);
        loop {
            let mut bytes = [[0; 9]; 3];
            let places = bytes.iter_mut().map(|bytes| &mut bytes[..]);
            let (count, wake) = receiver.receive_messages(&mut right, places).unwrap();
            // A quarter of the slots, or the rest of what was sent.
            assert_eq!(count, u64::from(sent.wrapping_sub(received).min(2)));
            assert!(!wake);
            for bytes in bytes.iter().take(count as usize) {
                assert_eq!(*bytes, [received; 9]);
                received = received.wrapping_add(1);
            }
            assert!(bytes[count as usize..].iter().all(|rest| *rest == [0; 9]));
            if count == 0 {
                break;
            }
        }
    }
    assert_eq!(sent, received);
}

#[test]
fn several_headers_wake_once_and_stop_before_another_level() {
    let layout = Layout::new(1, 8).unwrap();
    let (mut left, mut right) = pair(layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 0), Receiver::new(layout, 0));
    assert!(!receiver.arm(&mut right).unwrap().is_ready);
    let sent = sender.send_messages(&mut left, &mut [[1; 32]; 1].into_iter());
    assert_eq!(sent, Ok((1, Sent { wake: true })));
    let other = Descriptor::new(Kind::Header, &[5; 40]);
    assert!(!sender.send(&mut left, &other).unwrap().unwrap().wake);
    let mut take = |mem: &mut End| {
        let mut bytes = [[0; 32]; 2];
        receiver.receive_messages(mem, bytes.iter_mut().map(|bytes| &mut bytes[..]))
    };
    assert_eq!(take(&mut right), Ok((1, false)));
    assert_eq!(take(&mut right), Ok((0, false)));
    // An unknown kind in its place.
    left.store_peer_long(2 * LINE + 56, 1 << 32 | 77).unwrap();
    assert_eq!(take(&mut right), Err(QueueError::Broken));
}

/// The receiver loads no slot that is still to be filled. After a panic of the caller's iterator it
/// sees no header, and a call for as many does as if there had been none.
#[test]
fn several_headers_are_seen_when_all_are_there() {
    let layout = Layout::new(1, 8).unwrap();
    let (mut left, mut right) = pair(layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 0), Receiver::new(layout, 0));
    let mut send = |headers: &mut dyn Iterator<Item = [u8; 32]>| {
        let sent = sender.send_messages(&mut left, &mut { headers });
        sent.unwrap().0
    };
    let mut ends_early = (1..4).map(|number| match number {
        3 => panic!("no third header"),
        number => [number; 32],
    });
    let send_these = std::panic::AssertUnwindSafe(|| send(&mut ends_early));
    assert!(std::panic::catch_unwind(send_these).is_err());
    assert!(!receiver.is_ready(&right));
    let mut looked = (4..7).inspect(|_| assert!(!receiver.is_ready(&right)));
    assert_eq!(send(&mut looked.by_ref().map(|number| [number; 32])), 3);
    for number in 4..7 {
        let taken = receiver.receive(&mut right).unwrap().unwrap();
        assert_eq!(
            taken.descriptor,
            Descriptor::new(Kind::Message, &[number; 32])
        );
    }
    assert_eq!(receiver.receive(&mut right), Ok(None));
}

#[test]
fn layouts() {
    assert_eq!(Layout::new(0, 8), None);
    assert_eq!(Layout::new(65, 8), None);
    assert_eq!(Layout::new(1, 12), None);
    assert_eq!(Layout::new(1, 1), None);
    assert_eq!(Layout::new(1, 8192), None);
    assert_eq!(Layout::new(64, 4096).unwrap().bytes(), 64 * 64 * 5121);
}

#[test]
fn the_short_way_is_the_long_one() {
    let layout = Layout::new(1, 8).unwrap();
    let (mut left, mut right) = pair(layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 0), Receiver::new(layout, 0));
    let mut message = [0; 32];
    let nothing = receiver.receive_message(&mut right, &mut message);
    assert_eq!((nothing, message), (Ok(Next::Nothing), [0; 32]));
    let bytes: [u8; 32] = core::array::from_fn(|at| at as u8 + 1);
    for round in 0..20 {
        // Data sent in one form is received in the other.
        let descriptor = Descriptor::new(Kind::Message, &bytes);
        sender.send(&mut left, &descriptor).unwrap().unwrap();
        // As many bytes of it as are asked for, of any number of them.
        let mut message = [0xee; 40];
        let taken = receiver.receive_message(&mut right, &mut message[..2 * round]);
        assert_eq!(taken, Ok(Next::Message { wake: false }), "round {round}");
        let (wanted, rest) = message.split_at((2 * round).min(bytes.len()));
        assert_eq!(wanted, &bytes[..wanted.len()], "round {round}");
        assert!(rest.iter().all(|byte| *byte == 0xee), "round {round}");
        sender.send_message(&mut left, &bytes).unwrap().unwrap();
        let received = receiver.receive(&mut right).unwrap().unwrap();
        assert_eq!(received.descriptor, descriptor);
    }
    for _ in 0..10 {
        sender.send_message(&mut left, &bytes).unwrap().unwrap();
    }
    assert_eq!(sender.send_message(&mut left, &bytes), Ok(None));
    while receiver.receive_message(&mut right, &mut message) != Ok(Next::Nothing) {
        assert_eq!(message, bytes);
    }
    let other = Descriptor::new(Kind::HeaderWithPayload, &[5; 80]);
    sender.send(&mut left, &other).unwrap().unwrap();
    for _ in 0..2 {
        let found = receiver.receive_message(&mut right, &mut message);
        assert_eq!(found, Ok(Next::Other));
    }
    let received = receiver.receive(&mut right).unwrap().unwrap();
    assert_eq!(received.descriptor, other);
}
