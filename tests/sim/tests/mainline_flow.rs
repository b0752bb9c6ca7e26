//! Streams to and from a mainline node: what each byte costs in messages and doorbells.

use scif_core::{EndpointId, Owner};
use sim::mainline::Mainline;
use sim::talk::Talk;

const PORT: u16 = 130;
const OWNER: Owner = Owner {
    process: 1,
    user: 0,
};
const TOTAL: usize = 256 << 10;

/// The costs of a stream of [`TOTAL`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    sent: u64,
    doorbells: u64,
}

fn connected() -> (Mainline, EndpointId, u64) {
    let mut mainline = Mainline::new();
    let engine = &mut mainline.talk.engine;
    let listener = engine.open(OWNER).unwrap();
    engine.bind(listener, PORT).unwrap();
    engine.listen(listener, 1).unwrap();
    let theirs = mainline.connect(PORT);
    mainline.turn();
    let Talk { engine, memory, .. } = &mut mainline.talk;
    let ours = engine.accept_start(memory, listener, OWNER).unwrap();
    mainline.turn();
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert!(engine.accept_finish(ours).is_ready());
    engine.close(memory, listener);
    mainline.turn();
    mainline.changed.clear();
    mainline.traffic = Default::default();
    (mainline, ours, theirs)
}

/// Makes a blocking write of [`TOTAL`] bytes, as the daemon does, to a program that reads at most
/// `piece` bytes at a time, every `read_ns` nanoseconds.
fn stream(piece: u32, read_ns: u64) -> Cost {
    let (mut mainline, ours, theirs) = connected();
    let data: Vec<u8> = (0..TOTAL).map(|at| (at * 7 % 251) as u8).collect();
    let (mut sent, mut got) = (0, Vec::new());
    let mut retry = true;
    while got.len() < TOTAL {
        while retry && sent < TOTAL {
            let Talk { engine, memory, .. } = &mut mainline.talk;
            let count = engine.send(memory, ours, &data[sent..]).unwrap();
            sent += count;
            retry = count > 0;
        }
        mainline.turn();
        got.extend(mainline.read(theirs, piece));
        mainline.pass(read_ns);
        mainline.turn();
        retry = std::mem::take(&mut mainline.changed).contains(&ours);
    }
    assert!(got == data);
    Cost {
        sent: mainline.traffic.sent,
        doorbells: mainline.traffic.doorbells,
    }
}

/// However small the pieces are that the node reads, each message and doorbell to it stands for
/// half of its ring.
#[test]
fn each_doorbell_to_a_mainline_node_is_worth_half_a_ring() {
    for piece in [4095, 3000, 1024, 256, 64, 1] {
        let cost = stream(piece, 100);
        // The last bytes of all, and those that wait a millisecond in vain for more room.
        let most = (TOTAL / 2048 + 4) as u64;
        assert!(
            cost.sent <= most && cost.doorbells <= most,
            "{piece}: {cost:?}"
        );
    }
}

/// A writer that waits continues when the index shows room, before any notification.
#[test]
fn who_watches_sees_the_room_that_a_mainline_node_makes() {
    let (mut mainline, ours, theirs) = connected();
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert_eq!(engine.send(memory, ours, &[1; 5000]), Ok(4095));
    mainline.turn();
    // No program waits yet, so nothing is polled.
    let Talk { engine, memory, .. } = &mut mainline.talk;
    engine.start_polling();
    assert_eq!(engine.send(memory, ours, &[1; 905]), Ok(0));
    assert!(!engine.has_unpolled_messages(memory));
    assert_eq!(mainline.take_bytes(theirs, 2047).len(), 2047);
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert!(!engine.has_unpolled_messages(memory));
    assert_eq!(mainline.take_bytes(theirs, 1).len(), 1);
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert!(engine.has_unpolled_messages(memory));
    engine.poll_rings(memory);
    assert!(!engine.has_unpolled_messages(memory));
    mainline.turn();
    assert_eq!(std::mem::take(&mut mainline.changed), [ours]);
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert_eq!(engine.send(memory, ours, &[1; 905]), Ok(905));
    // The notification that comes now is late.
    mainline.tell_read(theirs);
    mainline.turn();
    assert_eq!(mainline.traffic.sent, 2);
}

/// A reader that stops with less than half of the ring free sends a message a millisecond later.
#[test]
fn a_little_room_is_used_soon() {
    let (mut mainline, ours, theirs) = connected();
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert_eq!(engine.send(memory, ours, &[1; 4095]), Ok(4095));
    assert_eq!(engine.send(memory, ours, &[1; 10]), Ok(0));
    mainline.turn();
    mainline.read(theirs, 5);
    mainline.turn();
    assert_eq!(mainline.changed, []);
    let due = mainline.talk.engine.next_deadline();
    assert_eq!(due, Some(1_000_000));
    mainline.pass(1_000_000);
    mainline.turn();
    assert_eq!(mainline.changed, [ours]);
    let Talk { engine, memory, .. } = &mut mainline.talk;
    assert_eq!(engine.send(memory, ours, &[1; 10]), Ok(5));
    let due = mainline.talk.engine.next_deadline();
    assert!(due > Some(2_000_000), "{due:?}");
}
