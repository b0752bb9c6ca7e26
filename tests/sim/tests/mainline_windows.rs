//! Windows with a peer of the base protocol: what the mainline driver sends, stores and leaves
//! undefined, and what it must receive.

mod pair;

use pair::{PAGE, PEER, Pair, THEIRS, US};
use scif_abi::Error;
use scif_abi::message::NodeMessage as Say;
use scif_core::{CpuEngine, Direction, Event, Local, Memory, Pages, PinId, Place, Rma, Run};
use sim::talk::Talk;

#[test]
fn a_mainline_node_registers_windows_with_us() {
    let mut pair = Pair::new(8 << 20);
    let pages = pair.pin(PEER, 3);
    for (at, page) in pages.iter().enumerate() {
        let memory = &mut pair.talk.peer.memory;
        memory.write(*page, &[at as u8 + 1; PAGE as usize]);
    }
    let owner_window = 0xffff_8800_0000_1000;
    let user_window = pair.register_theirs(&pages, 0x10_0000, owner_window);

    // A read from it: the end of the first page and the start of the second.
    let buffer = pair.pin(US, 1);
    let rma = Rma {
        direction: Direction::Read,
        local: Local::Pages {
            pages: Pages {
                pin: PinId(7),
                runs: vec![Run {
                    address: buffer[0],
                    pages: 1,
                }],
                is_charged: false,
            },
            offset: 5,
        },
        remote: 0x10_0000 + PAGE as i64 - 3,
        length: 7,
        flags: 4,
    };
    let Talk { engine, memory, .. } = &mut pair.talk;
    let ticket = engine.rma(pair.endpoint, rma).unwrap();
    engine.pump(memory, &mut CpuEngine, 1 << 20);
    let released = std::iter::from_fn(|| engine.next_event(memory));
    assert!(
        released
            .into_iter()
            .any(|event| event == Event::Unpin(PinId(7)))
    );
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
    let mut bytes = [0; 7];
    pair.talk.memory.read(buffer[0] + 5, &mut bytes);
    assert_eq!(bytes, [1, 1, 1, 2, 2, 2, 2]);

    // A mapped window is in use until the last munmap.
    let engine = &mut pair.talk.engine;
    let mapped = engine.map(pair.endpoint, 0x10_0000, PAGE, 1).unwrap();
    let bus = pair.talk.peer.memory.export(US, pages[0]);
    assert_eq!(mapped.place, Place::Peer(PEER, bus));
    pair.tell(Say::Unregister {
        user_window,
        owner_window,
    });
    let used = Say::UnregisterNack {
        owner: THEIRS,
        owner_window,
        is_offset_free: 0,
    };
    assert_eq!(pair.heard(), [used]);
    let engine = &mut pair.talk.engine;
    let again = engine.map_run(pair.endpoint, 0x10_0000, PAGE);
    assert_eq!(again, Err(Error::NoSuchAddress));
    engine.unmap(mapped.window, 1);
    assert_eq!(pair.heard(), [Say::Munmap { owner_window }]);

    // A window that is not in use ends at once, and so does one that does not exist.
    let user_window = pair.register_theirs(&pages, 0x10_0000, owner_window);
    for owner in [THEIRS, 0] {
        pair.tell(Say::Unregister {
            user_window,
            owner_window,
        });
        let gone = Say::UnregisterAck {
            owner,
            owner_window,
        };
        assert_eq!(pair.heard(), [gone]);
    }
    assert_eq!(pair.talk.engine.stats().remote_windows, 0);
}

#[test]
fn a_mainline_node_thinks_better_of_it() {
    let mut pair = Pair::new(8 << 20);
    let before = pair.talk.engine.stats().pages;
    pair.tell(Say::AllocRequest {
        peer: 0,
        pages: 1,
        waiter: 3,
    });
    let heard = pair.heard();
    let [Say::AllocGrant { user_window, .. }] = heard[..] else {
        panic!("heard {heard:?}");
    };
    pair.tell(Say::FreeVirtual {
        peer: pair.ours,
        user_window,
        owner_window: 4,
        kind: 19,
    });
    assert_eq!(pair.heard(), []);
    assert_eq!(pair.talk.engine.stats().pages, before);
    // More pages than there are.
    pair.tell(Say::AllocRequest {
        peer: 0,
        pages: 1 << 31,
        waiter: 3,
    });
    assert_eq!(pair.heard(), [Say::AllocReject { waiter: 3 }]);
}

#[test]
fn we_register_windows_with_a_mainline_node() {
    let mut pair = Pair::new(8 << 20);
    let pages = pair.pin(US, 5);
    let (user_window, owner_window) = pair.register_ours(&pages, 1, 0x20_0000);
    let unregister = |pair: &mut Pair| {
        let Talk { engine, memory, .. } = &mut pair.talk;
        let length = 5 * PAGE;
        engine
            .unregister(memory, pair.endpoint, 0x20_0000, length)
            .unwrap()
    };
    let ticket = unregister(&mut pair);
    let asked = Say::Unregister {
        user_window,
        owner_window,
    };
    assert_eq!(pair.heard(), [asked]);
    assert_eq!(pair.finish(ticket), None);
    // The window is still mapped by the peer: unregister has returned, but the pages stay.
    pair.tell(Say::UnregisterNack {
        owner: pair.ours,
        owner_window,
        is_offset_free: 0,
    });
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
    let is_released = |event: &Event| matches!(event, Event::Unpin(_));
    assert!(!pair.talk.events().iter().any(is_released));
    pair.tell(Say::Munmap { owner_window });
    assert!(pair.talk.events().contains(&Event::Unpin(PinId(1))));

    // The same place again; this time it is not in use.
    let (_, owner_window) = pair.register_ours(&pages, 2, 0x20_0000);
    let ticket = unregister(&mut pair);
    pair.heard();
    pair.tell(Say::UnregisterAck {
        owner: pair.ours,
        owner_window,
    });
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
    assert!(pair.talk.events().contains(&Event::Unpin(PinId(2))));
    assert_eq!(pair.talk.engine.stats().windows, 0);
}

/// Page lists that do not fit into one table, in both directions.
#[test]
fn long_page_lists_take_several_tables() {
    let mut pair = Pair::new(32 << 20);
    let apart = |pages: &[u64]| -> Vec<u64> {
        let mut chosen: Vec<u64> = Vec::new();
        for page in pages {
            if chosen.last().is_none_or(|last| *page != last + PAGE) {
                chosen.push(*page);
            }
        }
        chosen.truncate(1100);
        chosen
    };
    let own = apart(&pair.pin(US, 3500));
    assert_eq!(own.len(), 1100);
    pair.register_ours(&own, 1, 0);
    let theirs = pair.pin(PEER, 1100);
    for (at, page) in theirs.iter().enumerate() {
        let number = (at as u64).to_le_bytes();
        pair.talk.peer.memory.write(*page + 8, &number);
    }
    pair.register_theirs(&theirs, 0, 0xffff_8800_0000_1000);
    // Reads all of it, through both lists.
    let rma = Rma {
        direction: Direction::Read,
        local: Local::Window(0),
        remote: 0,
        length: 1100 * PAGE,
        flags: 4,
    };
    let Talk { engine, memory, .. } = &mut pair.talk;
    let ticket = engine.rma(pair.endpoint, rma).unwrap();
    while engine.pump(memory, &mut CpuEngine, 1 << 20) {}
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
    for (at, page) in own.iter().enumerate() {
        let mut number = [0; 8];
        pair.talk.memory.read(*page + 8, &mut number);
        assert_eq!(u64::from_le_bytes(number), at as u64);
    }
}
