//! Fences with a peer of the base protocol, requested by either side.

mod pair;

use pair::{PAGE, PEER, Pair, THEIRS, US};
use scif_abi::message::NodeMessage as Say;
use scif_core::{Memory, Signal};

#[test]
fn a_mainline_node_uses_fences() {
    let mut pair = Pair::new(8 << 20);
    let (own, theirs) = (pair.pin(US, 1), pair.pin(PEER, 1));
    pair.register_ours(&own, 1, 0);
    pair.register_theirs(&theirs, 0, 0xffff_8800_0000_2000);
    let peer = pair.ours;
    pair.tell(Say::Mark { peer, waiter: 5 });
    let heard = pair.heard();
    let [
        Say::MarkAck {
            requester: THEIRS,
            waiter: 5,
            mark,
        },
    ] = heard[..]
    else {
        panic!("heard {heard:?}");
    };
    // The peer marks remote marks in bit 31 and extends the sign.
    let waits = [mark | 0xffff_ffff_8000_0000, 0x4000_0000];
    pair.tell(Say::Wait {
        peer,
        waiter: 6,
        mark: waits[0],
    });
    let waited = Say::WaitAck {
        requester: THEIRS,
        waiter: 6,
    };
    assert_eq!(pair.heard(), [waited]);
    pair.tell(Say::Wait {
        peer,
        waiter: 7,
        mark: waits[1],
    });
    let refused = Say::WaitNack {
        requester: THEIRS,
        waiter: 7,
    };
    assert_eq!(pair.heard(), [refused]);

    let done = Say::SignalAck {
        requester: THEIRS,
        waiter: 8,
    };
    pair.tell(Say::SignalLocal {
        peer,
        offset: 16,
        value: 0x1112_1314_1516_1718,
        waiter: 8,
    });
    assert_eq!(pair.heard(), [done]);
    pair.tell(Say::SignalRemote {
        peer,
        offset: 24,
        value: 0x2122_2324_2526_2728,
        waiter: 8,
    });
    assert_eq!(pair.heard(), [done]);
    let mut word = [0; 8];
    pair.talk.memory.read(own[0] + 16, &mut word);
    assert_eq!(u64::from_le_bytes(word), 0x1112_1314_1516_1718);
    pair.talk.peer.memory.read(theirs[0] + 24, &mut word);
    assert_eq!(u64::from_le_bytes(word), 0x2122_2324_2526_2728);
    for offset in [PAGE, 2, PAGE - 4, u64::MAX] {
        pair.tell(Say::SignalLocal {
            peer,
            offset,
            value: 1,
            waiter: 9,
        });
        let refused = Say::SignalNack {
            requester: THEIRS,
            waiter: 9,
        };
        assert_eq!(pair.heard(), [refused], "{offset:#x}");
    }
}

#[test]
fn we_use_fences_of_a_mainline_node() {
    let mut pair = Pair::new(8 << 20);
    let (own, theirs) = (pair.pin(US, 1), pair.pin(PEER, 1));
    pair.register_ours(&own, 1, 0);
    pair.register_theirs(&theirs, 0, 0xffff_8800_0000_2000);
    let requester = pair.ours;
    let engine = &mut pair.talk.engine;
    let ticket = engine.fence_mark(pair.endpoint, 2).unwrap();
    let heard = pair.heard();
    let [
        Say::Mark {
            peer: THEIRS,
            waiter,
        },
    ] = heard[..]
    else {
        panic!("heard {heard:?}");
    };
    pair.tell(Say::MarkAck {
        requester,
        waiter,
        mark: 5,
    });
    let Some(Ok(mark)) = pair.finish(ticket) else {
        panic!("no mark");
    };
    let mark = i32::try_from(mark).unwrap();
    let engine = &mut pair.talk.engine;
    let ticket = engine.fence_wait(pair.endpoint, mark).unwrap();
    let heard = pair.heard();
    let [
        Say::Wait {
            peer: THEIRS,
            waiter,
            mark: 5,
        },
    ] = heard[..]
    else {
        panic!("heard {heard:?}");
    };
    assert_eq!(pair.finish(ticket), None);
    pair.tell(Say::WaitAck { requester, waiter });
    assert_eq!(pair.finish(ticket), Some(Ok(0)));

    // In the documents, "local" and "remote" are the caller's view; on the wire they are the
    // executor's.
    let signal = Signal {
        local_offset: 8,
        local_value: 1,
        remote_offset: 16,
        remote_value: 2,
        flags: 0x32,
    };
    let engine = &mut pair.talk.engine;
    let ticket = engine.fence_signal(pair.endpoint, signal).unwrap();
    let heard = pair.heard();
    let mut waiters = Vec::new();
    for say in &heard {
        match *say {
            Say::SignalRemote {
                peer: THEIRS,
                offset: 8,
                value: 1,
                waiter,
            }
            | Say::SignalLocal {
                peer: THEIRS,
                offset: 16,
                value: 2,
                waiter,
            } => {
                waiters.push(waiter);
            }
            _ => panic!("heard {heard:?}"),
        }
    }
    assert_eq!(waiters.len(), 2, "heard {heard:?}");
    for waiter in waiters {
        assert_eq!(pair.finish(ticket), None);
        pair.tell(Say::SignalAck { requester, waiter });
    }
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
}
