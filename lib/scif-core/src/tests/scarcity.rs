//! Connections when memory is scarce, or has gone; and what becomes of their memory.

use super::std::vec;

use scif_abi::{Error, PortId};

use super::bypass::{close, open};
use super::fixture::{BOTH, Fixture, PAGE, USER};
use crate::{ConnectMode, Direction, Engine, Local, Resource, Rma, Scope};

/// There is memory, but not in one piece: the ring is as large as the pieces, and a page at least.
#[test]
fn a_connection_in_scattered_memory_gets_a_smaller_ring() {
    const MOST: u32 = 1 << 18;
    let page = PAGE as usize;
    for (largest, ring) in [
        (usize::MAX, MOST),
        (32 * page, 1 << 16),
        (2 * page, 1 << 12),
    ] {
        let mut fixture = Fixture::new(2);
        fixture.nodes[0].engine.cx.config.endpoint_ring_bytes = MOST;
        fixture.nodes[0].memory.largest = largest;
        let before = fixture.nodes[0].memory.allocated;
        let (a, b) = fixture.connect(0, 1);
        let taken = fixture.nodes[0].memory.allocated - before;
        assert_eq!(taken, page + ring as usize);
        let (engine, memory) = fixture.parts(b);
        let sent = engine.send(memory, b.id, &vec![7; MOST as usize]);
        assert_eq!(sent, Ok(ring as usize - 1));
        for end in [a, b] {
            fixture.close(end);
        }
        fixture.run();
        fixture.assert_clean();
    }
    let mut fixture = Fixture::new(1);
    fixture.nodes[0].memory.largest = page;
    let id = fixture.nodes[0].engine.open(USER).unwrap();
    let node = &mut fixture.nodes[0];
    let to = PortId::new(0, 2000);
    let mode = ConnectMode::Blocking;
    let refused = node.engine.connect(&mut node.memory, id, to, mode);
    assert_eq!(refused, Err(Error::NoMemory));
}

/// There is no memory for the acceptor's half, or the connector's can no longer be stored to:
/// there is no connection.
#[test]
fn a_grant_that_cannot_be_made_leaves_nothing() {
    for (is_cut_off, error) in [(true, Error::NoDevice), (false, Error::NoMemory)] {
        let mut fixture = Fixture::new(2);
        let server = &mut fixture.nodes[1].engine;
        let listener = server.open(USER).unwrap();
        server.bind(listener, 2000).unwrap();
        server.listen(listener, 1).unwrap();
        let client = &mut fixture.nodes[0];
        let id = client.engine.open(USER).unwrap();
        let (to, mode) = (PortId::new(1, 2000), ConnectMode::Blocking);
        let memory = &mut client.memory;
        client.engine.connect(memory, id, to, mode).unwrap();
        fixture.run();
        let server = &mut fixture.nodes[1];
        let before = server.engine.stats();
        match is_cut_off {
            true => server.memory.is_cut_off = true,
            false => server.memory.largest = PAGE as usize,
        }
        let memory = &mut server.memory;
        let accepted = server.engine.accept_start(memory, listener, USER);
        assert_eq!(accepted, Err(error));
        server.engine.check_invariants().unwrap();
        let after = server.engine.stats();
        assert_eq!(
            (after.endpoints, after.connections, after.pages),
            (before.endpoints, before.connections, before.pages)
        );
    }
}

/// A program may keep pages that it has had mapped: by pinning them, or in an address space in
/// which nothing runs. Within a node the peer's ring is such memory, too.
#[test]
fn rings_that_a_program_of_this_node_has_had_are_not_for_the_next_connection() {
    for opener in [None, Some(0), Some(1)] {
        let mut fixture = Fixture::new(1);
        let (a, b) = fixture.connect(0, 0);
        if let Some(opener) = opener {
            let end = [a, b][opener];
            let (id, _) = open(&mut fixture, end);
            close(&mut fixture, end, id);
        }
        fixture.close(a);
        fixture.close(b);
        fixture.run();
        fixture.assert_clean();
        let expected = if opener.is_none() { 2 } else { 0 };
        assert_eq!(fixture.nodes[0].memory.recycled, expected, "{opener:?}");
    }
    // The other node's programs have had nothing of this one's that they could keep.
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let (id, _) = open(&mut fixture, b);
    close(&mut fixture, b, id);
    fixture.close(a);
    fixture.close(b);
    fixture.run();
    let recycled = [0, 1].map(|node| fixture.nodes[node].memory.recycled);
    assert_eq!(recycled, [1, 0]);
}

/// A transfer keeps a list of the windows and pieces that it goes through until it is over: a
/// program that queues thousands of those must not take all memory of the driver.
#[test]
fn transfers_through_many_pieces_count_as_many() {
    const PIECES: u32 = 64;
    let mut fixture = Fixture::new(2);
    let (a, b) = fixture.connect(0, 1);
    let remote = fixture.pin(b.node, &[PIECES]);
    fixture.register(b, &remote, 0, BOTH);
    for piece in 0..PIECES {
        let page = fixture.pin(a.node, &[1]);
        fixture.register(a, &page, i64::from(piece) * PAGE as i64, BOTH);
    }
    let scattered = fixture.pin(a.node, &[1; PIECES as usize]);
    let pages = Local::Pages {
        pages: scattered,
        offset: 0,
    };
    // 64 windows here and one there; pages of which the place and the number are kept.
    for (local, length, cost) in [
        (Local::Window(0), u64::from(PIECES) * PAGE, 3),
        (pages, 8, 5),
        (Local::Window(0), PAGE, 1),
    ] {
        let limit = 4 * cost + cost - 1;
        let engine = fixture.engine(a);
        engine.set_limit(Resource::Transfers, Scope::Process, limit);
        let rma = Rma {
            direction: Direction::Write,
            local,
            remote: 0,
            length,
            flags: 0,
        };
        for _ in 0..4 {
            let ticket = engine.rma(a.id, rma.clone()).unwrap();
            assert_eq!(engine.finish(ticket), Some(Ok(0)));
        }
        assert_eq!(engine.rma(a.id, rma), Err(Error::NoMemory));
        engine.check_invariants().unwrap();
        let used = |engine: &Engine| engine.used(Resource::Transfers, Scope::User, USER.user);
        assert_eq!(used(engine), 4 * cost);
        fixture.run();
        assert_eq!(used(fixture.engine(a)), 0);
    }
    // A transfer that its caller carries out is counted before it begins, too.
    let engine = fixture.engine(b);
    engine.set_limit(Resource::Transfers, Scope::User, 2);
    let start = engine.virtual_start(b.id, Direction::Read, 0, u64::from(PIECES) * PAGE, 0);
    assert_eq!(start, Err(Error::NoMemory));
    engine.set_limit(Resource::Transfers, Scope::User, 3);
    let start = engine.virtual_start(b.id, Direction::Read, 0, u64::from(PIECES) * PAGE, 0);
    assert!(start.is_ok());
    engine.check_invariants().unwrap();
}
