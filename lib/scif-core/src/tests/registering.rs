//! register and unregister.

use super::std::prelude::v1::*;
use super::std::vec;

use scif_abi::Error;
use scif_abi::bypass::{Part, SENT_OFFSET};
use scif_abi::flags::MapFlags;
use scif_abi::limits::{MAX_PEER_CHUNKS, MAX_WINDOW_PAGES};

use super::fixture::{BOTH, End, FIXED, Fixture, PAGE, READ, USER, WRITE};
use crate::{Memory, PinId, Place, Resource, Scope, Ticket};

/// Runs a test within a node and between two.
fn both_ways(test: fn(&mut Fixture, End, End)) {
    for nodes in [1, 2] {
        let mut fixture = Fixture::new(nodes);
        let (a, b) = fixture.connect(0, nodes - 1);
        test(&mut fixture, a, b);
        fixture.close(a);
        fixture.close(b);
        fixture.run();
        fixture.assert_clean();
    }
}

#[test]
fn within_a_node_page_lists_are_not_believed_either() {
    // The address of a table, and that of a run of pages.
    for (bytes, address) in [(8, 1 << 40), (256, 16 * PAGE)] {
        let mut fixture = Fixture::new(1);
        let (a, _) = fixture.connect(0, 0);
        let pages = fixture.pin(0, &[1]);
        fixture.nodes[0].memory.lie.set(Some((bytes, address)));
        let ticket = fixture.start_register(a, &pages, 0, BOTH, FIXED);
        let refused = fixture.finish(a, ticket);
        assert!(refused.is_err(), "{bytes}");
        assert_eq!(fixture.nodes[0].memory.lie.get(), None);
        fixture.assert_clean();
    }
}

#[test]
fn a_window_comes_and_goes() {
    both_ways(|fixture, a, _| {
        let pages = fixture.pin(a.node, &[1, 2, 1]);
        assert_eq!(fixture.register(a, &pages, 0x5000, BOTH), 0x5000);
        let window = fixture.nodes[a.node].engine.windows().next().unwrap();
        assert_eq!((window.pages, window.chunks, window.offset), (4, 3, 0x5000));
        let stats = fixture.nodes[a.node].engine.stats();
        assert_eq!((stats.windows, stats.pinned_pages), (1, 4));
        assert_eq!(fixture.unregister(a, 0x5000, 4 * PAGE), Ok(0));
        assert_eq!(fixture.nodes[a.node].released, [pages.pin]);
        fixture.assert_clean();
    });
}

#[test]
fn large_windows_take_several_tables() {
    both_ways(|fixture, a, b| {
        let mut pages = fixture.pin(a.node, &[1]);
        // The same page over and over: 1300 chunks in three tables.
        pages.runs = vec![pages.runs[0]; 1300];
        fixture.register(a, &pages, 0, BOTH);
        let mapping = fixture.nodes[b.node].engine.mappings().next().unwrap();
        assert_eq!((mapping.pages, mapping.offset), (1300, 0));
        assert_eq!(
            fixture.nodes[a.node]
                .engine
                .windows()
                .next()
                .unwrap()
                .chunks,
            1300
        );
    });
}

#[test]
fn what_the_peer_keeps_of_page_lists_is_limited() {
    let mut fixture = Fixture::new(2);
    let (a, _) = fixture.connect(0, 1);
    let mut pages = fixture.pin(a.node, &[1]);
    pages.runs = vec![pages.runs[0]; MAX_WINDOW_PAGES as usize];
    pages.is_charged = false;
    let bytes = MAX_WINDOW_PAGES * PAGE;
    let fits = MAX_PEER_CHUNKS as u64 / MAX_WINDOW_PAGES;
    for number in 0..fits {
        fixture.register(a, &pages, (number * bytes) as i64, BOTH);
    }
    pages.runs.truncate(1);
    let offset = (fits * bytes) as i64;
    let ticket = fixture.start_register(a, &pages, offset, BOTH, FIXED);
    assert_eq!(fixture.finish(a, ticket), Err(Error::NotConnected));
    // A window that goes makes room.
    assert_eq!(fixture.unregister(a, 0, bytes), Ok(0));
    fixture.register(a, &pages, offset, BOTH);
}

#[test]
fn arguments_are_checked_and_leave_no_trace() {
    both_ways(|fixture, a, _| {
        let pages = fixture.pin(a.node, &[2]);
        let mut none = pages.clone();
        none.runs.clear();
        let invalid = Err(Error::InvalidArgument);
        let kernel = MapFlags::KERNEL.bits();
        for (offset, protection, flags) in [
            (0, 0, FIXED),
            (0, 4, FIXED),
            (0, BOTH | 4, FIXED),
            (0, BOTH, kernel),
            (0, BOTH, FIXED | kernel),
            (0, BOTH, 1),
            (-4096, BOTH, FIXED),
            (-4096, BOTH, 0),
            (1, BOTH, FIXED),
            (i64::MAX - 4095, BOTH, FIXED),
            (i64::MAX - 8191, BOTH, FIXED),
        ] {
            let result = fixture.start_register(a, &pages, offset, protection, flags);
            assert_eq!(result, invalid, "{offset} {protection} {flags}");
        }
        assert_eq!(fixture.start_register(a, &none, 0, BOTH, FIXED), invalid);
        let invalid = Err(Error::InvalidArgument);
        for (offset, length) in [(1, PAGE), (0, 1), (0, 0), (-4096, PAGE), (0, 1 << 63)] {
            assert_eq!(fixture.unregister(a, offset, length), invalid);
        }
        assert_eq!(fixture.unregister(a, 0, PAGE), Err(Error::NoSuchAddress));
        fixture.run();
        fixture.assert_clean();
    });
}

#[test]
fn the_highest_fixed_offset_is_usable() {
    both_ways(|fixture, a, _| {
        let pages = fixture.pin(a.node, &[1]);
        let offset = i64::MAX - 8191;
        assert_eq!(fixture.register(a, &pages, offset, READ), offset);
        assert_eq!(fixture.unregister(a, offset, PAGE), Ok(0));
    });
}

#[test]
fn the_state_is_checked_first() {
    let mut fixture = Fixture::new(2);
    let pages = fixture.pin(0, &[1]);
    let id = fixture.nodes[0].engine.open(super::fixture::USER).unwrap();
    let fresh = End { node: 0, id };
    let result = fixture.start_register(fresh, &pages, 0, BOTH, 0);
    assert_eq!(result, Err(Error::NotConnected));
    let (a, b) = fixture.connect(0, 1);
    fixture.close(b);
    fixture.run();
    let result = fixture.start_register(a, &pages, 0, BOTH, 0);
    assert_eq!(result, Err(Error::ConnectionReset));
    assert_eq!(fixture.unregister(a, 0, PAGE), Err(Error::ConnectionReset));
}

#[test]
fn fixed_windows_do_not_overlap() {
    both_ways(|fixture, a, b| {
        let pages = fixture.pin(a.node, &[2]);
        fixture.register(a, &pages, 0x4000, BOTH);
        for offset in [0x3000, 0x4000, 0x5000] {
            let result = fixture.start_register(a, &pages, offset, BOTH, FIXED);
            assert_eq!(result, Err(Error::AddressInUse));
        }
        // Neighbours are fine, and so is the same offset at the other end.
        fixture.register(a, &pages, 0x2000, BOTH);
        fixture.register(a, &pages, 0x6000, BOTH);
        let other = fixture.pin(b.node, &[2]);
        fixture.register(b, &other, 0x4000, BOTH);
    });
}

#[test]
fn offsets_are_chosen_beside_fixed_windows() {
    both_ways(|fixture, a, _| {
        let pages = fixture.pin(a.node, &[2]);
        let start: i64 = 1 << 62;
        fixture.register(a, &pages, start + 0x2000, BOTH);
        let mut offsets = Vec::new();
        for _ in 0..3 {
            let ticket = fixture.start_register(a, &pages, 0x7777, BOTH, 0);
            offsets.push(fixture.finish(a, ticket).unwrap().cast_signed());
        }
        assert_eq!(offsets, [start, start + 0x4000, start + 0x6000]);
    });
}

#[test]
fn unregistering_takes_whole_windows_or_nothing() {
    both_ways(|fixture, a, _| {
        let pages = fixture.pin(a.node, &[2]);
        for offset in [0, 0x2000, 0x6000] {
            fixture.register(a, &pages, offset, BOTH);
        }
        let count = |fixture: &Fixture| fixture.nodes[a.node].engine.stats().windows;
        for (offset, length, error) in [
            (0, PAGE, Error::InvalidArgument),
            (0x1000, PAGE, Error::InvalidArgument),
            (0, 3 * PAGE, Error::InvalidArgument),
            (0x1000, 3 * PAGE, Error::InvalidArgument),
            (0, 6 * PAGE, Error::NoSuchAddress),
            (0, 8 * PAGE, Error::NoSuchAddress),
            (0x4000, 2 * PAGE, Error::NoSuchAddress),
            (0x10_0000, PAGE, Error::NoSuchAddress),
        ] {
            assert_eq!(
                fixture.unregister(a, offset, length),
                Err(error),
                "{offset:#x} {length:#x}"
            );
            assert_eq!(count(fixture), 3);
        }
        assert_eq!(fixture.unregister(a, 0, 4 * PAGE), Ok(0));
        assert_eq!(count(fixture), 1);
        assert_eq!(
            fixture.unregister(a, 0, 4 * PAGE),
            Err(Error::NoSuchAddress)
        );
    });
}

#[test]
fn windows_are_limited() {
    both_ways(|fixture, a, b| {
        let engine = &mut fixture.nodes[a.node].engine;
        engine.set_limit(Resource::Windows, Scope::Process, 2);
        let pages = fixture.pin(a.node, &[1]);
        fixture.register(a, &pages, 0, BOTH);
        fixture.register(a, &pages, PAGE as i64, BOTH);
        let more = fixture.start_register(a, &pages, 0x10000, BOTH, FIXED);
        assert_eq!(more, Err(Error::NoMemory));
        // A window in use counts.
        let engine = fixture.engine(b);
        let mapped = engine.map(b.id, 0, PAGE, READ).unwrap();
        assert_eq!(fixture.unregister(a, 0, PAGE), Ok(0));
        let more = fixture.start_register(a, &pages, 0x10000, BOTH, FIXED);
        assert_eq!(more, Err(Error::NoMemory));
        let engine = fixture.engine(b);
        engine.unmap(mapped.window, 1);
        fixture.run();
        fixture.register(a, &pages, 0x10000, BOTH);
    });
}

#[test]
fn pinned_pages_are_limited_by_user() {
    fn pinned(fixture: &Fixture, end: End) -> u64 {
        let engine = &fixture.nodes[end.node].engine;
        engine.used(Resource::Pages, Scope::User, 1000)
    }
    both_ways(|fixture, a, b| {
        let engine = &mut fixture.nodes[a.node].engine;
        engine.set_limit(Resource::Pages, Scope::User, 3);
        let pages = fixture.pin(a.node, &[2]);
        fixture.register(a, &pages, 0, BOTH);
        let again = |fixture: &mut Fixture| fixture.start_register(a, &pages, 0x10000, BOTH, FIXED);
        assert_eq!(again(fixture), Err(Error::WouldBlock));
        // Also where another window is: the limit is checked first.
        let over = fixture.start_register(a, &pages, 0, BOTH, FIXED);
        assert_eq!(over, Err(Error::WouldBlock));
        // Pages that a kernel-mode client has pinned do not count.
        let mut free = fixture.pin(a.node, &[2]);
        free.is_charged = false;
        fixture.register(a, &free, 0x8000, BOTH);
        let engine = &mut fixture.nodes[a.node].engine;
        engine.set_limit(Resource::Pages, Scope::User, 4);
        assert_eq!(engine.limit(Resource::Pages, Scope::User), 4);
        let ticket = again(fixture);
        assert_eq!(fixture.finish(a, ticket), Ok(0x10000));
        assert_eq!(pinned(fixture, a), 4);
        // A window counts until its last use has ended.
        let engine = fixture.engine(b);
        let mapped = engine.map(b.id, 0, PAGE, READ).unwrap();
        assert_eq!(fixture.unregister(a, 0, 2 * PAGE), Ok(0));
        assert_eq!(pinned(fixture, a), 4);
        let engine = fixture.engine(b);
        engine.unmap(mapped.window, 1);
        fixture.run();
        assert_eq!(pinned(fixture, a), 2);
    });
}

#[test]
fn an_abandoned_registration_is_undone_at_every_step() {
    both_ways(|fixture, a, _| {
        for steps in 0..6 {
            let pages = fixture.pin(a.node, &[1]);
            let ticket: Ticket = fixture.start_register(a, &pages, 0, WRITE, FIXED).unwrap();
            for _ in 0..steps {
                for node in 0..fixture.nodes.len() {
                    fixture.iterate(node);
                }
            }
            let (engine, memory) = fixture.parts(a);
            engine.abandon(memory, ticket);
            fixture.run();
            assert_eq!(fixture.nodes[a.node].released.last(), Some(&pages.pin));
            fixture.assert_clean();
        }
        let pins: Vec<PinId> = (1..7).map(PinId).collect();
        assert_eq!(fixture.nodes[a.node].released, pins);
    });
}

#[test]
fn a_fixed_offset_is_free_again_at_once() {
    both_ways(|fixture, a, b| {
        let pages = fixture.pin(a.node, &[1]);
        fixture.register(a, &pages, 0, BOTH);
        let (engine, memory) = fixture.parts(a);
        let ticket = engine.unregister(memory, a.id, 0, PAGE).unwrap();
        while engine.next_event(memory).is_some() {}
        if a.node != b.node {
            let used = fixture.start_register(a, &pages, 0, BOTH, FIXED);
            assert_eq!(used, Err(Error::AddressInUse));
            // The peer's reply is in the ring, unread.
            let (engine, memory) = fixture.parts(b);
            engine.doorbell(memory, a.node as u16);
            while engine.next_event(memory).is_some() {}
        }
        let again = fixture.start_register(a, &pages, 0, BOTH, FIXED);
        assert_eq!(fixture.finish(a, again), Ok(0));
        assert_eq!(fixture.finish(a, Ok(ticket)), Ok(0));
    });
}

#[test]
fn a_window_of_a_connection_that_was_reset_is_not_announced() {
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (engine, memory) = fixture.parts(a);
    assert_eq!(engine.send(memory, a.id, b"abcdef"), Ok(6));
    let (bypass, _) = engine.open_bypass(memory, a.id, USER).unwrap();
    let (Place::Own(page), _) = engine.bypass_place(bypass, Part::Control).unwrap() else {
        unreachable!();
    };
    let pages = fixture.pin(a.node, &[1]);
    let ticket = fixture.start_register(a, &pages, 0, BOTH, FIXED);
    // While the peer makes the structure, a client breaks its control page. The peer is told that
    // the connection is over when the client has unmapped it.
    let (engine, memory) = fixture.parts(a);
    memory.store_position(page + SENT_OFFSET, 4);
    let reset = Err(Error::ConnectionReset);
    assert_eq!(engine.send(memory, a.id, b"x"), reset);
    for node in [0, 1].into_iter().cycle().take(20) {
        fixture.iterate(node);
        assert_eq!(fixture.nodes[b.node].engine.stats().remote_windows, 0);
    }
    assert_eq!(fixture.finish(a, ticket), Err(Error::ConnectionReset));
    let (engine, memory) = fixture.parts(a);
    engine.close_bypass(memory, bypass);
    fixture.close(a);
    fixture.run();
    assert_eq!(fixture.nodes[a.node].released, [pages.pin]);
    fixture.close(b);
    fixture.run();
    fixture.assert_clean();
}
