//! Mappings, get_pages and put_pages.

use super::std::prelude::v1::*;
use super::std::vec;

use scif_abi::Error;

use super::fixture::{BOTH, End, Fixture, PAGE, READ, WRITE};
use crate::{Memory, Place};

const P: i64 = PAGE as i64;

/// Windows at the other end: two runs of two and one page at 0, read-only ones behind.
fn ends(nodes: usize) -> (Fixture, End, End) {
    let mut fixture = Fixture::new(nodes);
    let (a, b) = fixture.connect(0, nodes - 1);
    let first = fixture.pin(b.node, &[2, 1]);
    fixture.register(b, &first, 0, BOTH);
    let second = fixture.pin(b.node, &[4]);
    fixture.register(b, &second, 3 * P, READ);
    (fixture, a, b)
}

#[test]
fn a_mapping_covers_one_run() {
    for nodes in [1, 2] {
        let (mut fixture, a, _) = ends(nodes);
        let (engine, memory) = fixture.parts(a);
        assert_eq!(engine.map_run(a.id, 0, 7 * PAGE), Ok(2 * PAGE));
        assert_eq!(engine.map_run(a.id, P, 7 * PAGE), Err(Error::NoSuchAddress));
        assert_eq!(engine.map_run(a.id, P, 6 * PAGE), Ok(PAGE));
        assert_eq!(engine.map_run(a.id, 2 * P, 2 * PAGE), Ok(PAGE));
        assert_eq!(engine.map_run(a.id, 4 * P, 2 * PAGE), Ok(2 * PAGE));
        let mapped = engine.map(a.id, 4 * P, 2 * PAGE, READ).unwrap();
        assert_eq!((mapped.first_page, mapped.pages), (1, 2));
        // The place is the owner's second page.
        memory.store_u64(mapped.place, 77).unwrap();
        let found = fixture.nodes[nodes - 1]
            .engine
            .windows()
            .find(|w| w.offset == 3 * P);
        assert_eq!(found.map(|w| w.pages), Some(4));
        let engine = fixture.engine(a);
        assert_eq!(engine.stats().mapped_pages, 2);
        engine.unmap(mapped.window, 1);
        assert_eq!(engine.stats().mapped_pages, 1);
        engine.unmap(mapped.window, 1);
        assert_eq!(engine.stats().mapped_pages, 0);
    }
}

#[test]
fn a_mapping_in_pieces_covers_one_window() {
    for nodes in [1, 2] {
        let (mut fixture, a, _) = ends(nodes);
        let engine = fixture.engine(a);
        assert_eq!(engine.window_run(a.id, 0, 7 * PAGE), Ok(3 * PAGE));
        assert_eq!(engine.window_run(a.id, P, PAGE), Ok(PAGE));
        assert_eq!(engine.window_run(a.id, P, 6 * PAGE), Ok(2 * PAGE));
        let none = engine.window_run(a.id, P, 7 * PAGE);
        assert_eq!(none, Err(Error::NoSuchAddress));
        let two = engine.map_pieces(a.id, 0, 4 * PAGE, READ);
        assert_eq!(two, Err(Error::CrossesRuns));
        let more = engine.map_pieces(a.id, 3 * P, PAGE, WRITE);
        assert_eq!(more, Err(Error::AccessDenied));
        assert_eq!(engine.stats().mapped_pages, 0);
        let mapped = engine.map_pieces(a.id, P, 2 * PAGE, BOTH).unwrap();
        assert_eq!(engine.stats().mapped_pages, 2);
        // The pieces are at the places of the single runs.
        let first = engine.map(a.id, P, PAGE, BOTH).unwrap();
        let second = engine.map(a.id, 2 * P, PAGE, BOTH).unwrap();
        assert_eq!(mapped.pieces, [(first.place, PAGE), (second.place, PAGE)]);
        engine.unmap(mapped.window, 4);
        assert_eq!(engine.stats().mapped_pages, 0);
    }
}

#[test]
fn mappings_are_checked() {
    for nodes in [1, 2] {
        let (mut fixture, a, b) = ends(nodes);
        let engine = fixture.engine(a);
        for (offset, length, protection, error) in [
            (0, 0, READ, Error::InvalidArgument),
            (1, PAGE, READ, Error::InvalidArgument),
            (0, 1, READ, Error::InvalidArgument),
            (-P, PAGE, READ, Error::InvalidArgument),
            (0, PAGE, 4, Error::InvalidArgument),
            (0, 3 * PAGE, READ, Error::CrossesRuns),
            (2 * P, 2 * PAGE, BOTH, Error::AccessDenied),
            (3 * P, PAGE, WRITE, Error::AccessDenied),
            (3 * P, 5 * PAGE, READ, Error::NoSuchAddress),
            (100 * P, PAGE, READ, Error::NoSuchAddress),
        ] {
            let result = engine.map(a.id, offset, length, protection);
            assert_eq!(result, Err(error), "{offset} {length} {protection}");
        }
        let pages = engine.get_pages(a.id, 2 * P, 2 * PAGE);
        assert_eq!(pages, Err(Error::NoSuchAddress));
        assert_eq!(engine.stats().mapped_pages, 0);
        fixture.close(b);
        fixture.run();
        let engine = fixture.engine(a);
        let reset = Err(Error::ConnectionReset);
        assert_eq!(engine.map_run(a.id, 0, PAGE), reset);
        assert_eq!(engine.map(a.id, 0, PAGE, READ), Err(Error::ConnectionReset));
    }
}

#[test]
fn own_windows_are_found_with_their_pieces() {
    for nodes in [1, 2] {
        let (mut fixture, a, b) = ends(nodes);
        let (engine, memory) = fixture.parts(b);
        let part = engine.local_part(b.id, 0, 7 * PAGE, READ).unwrap();
        assert_eq!(part.bytes, 3 * PAGE);
        let bytes: Vec<u64> = part.pieces.iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(bytes, [2 * PAGE, PAGE]);
        memory.store_u64(part.pieces[0].0.offset(PAGE), 99).unwrap();
        let rest = engine.local_part(b.id, 2 * P, PAGE, BOTH).unwrap();
        assert_eq!(rest.pieces, part.pieces[1..]);
        assert_eq!((rest.bytes, rest.pin), (PAGE, part.pin));
        let second = engine.local_part(b.id, 4 * P, 2 * PAGE, READ).unwrap();
        assert_eq!((second.bytes, second.pieces.len()), (2 * PAGE, 1));
        assert_ne!(second.pin, part.pin);
        for (offset, length, protection, error) in [
            (0, 0, READ, Error::InvalidArgument),
            (1, PAGE, READ, Error::InvalidArgument),
            (-P, PAGE, READ, Error::InvalidArgument),
            (0, PAGE, 4, Error::InvalidArgument),
            (2 * P, 2 * PAGE, BOTH, Error::AccessDenied),
            (3 * P, 5 * PAGE, READ, Error::NoSuchAddress),
        ] {
            let result = engine.local_part(b.id, offset, length, protection);
            assert_eq!(result, Err(error), "{offset} {length} {protection}");
        }
        // The owner's page here is the peer's there, and it is the same page.
        let (engine, memory) = fixture.parts(a);
        let none = engine.local_part(a.id, 0, PAGE, READ);
        assert_eq!(none, Err(Error::NoSuchAddress));
        let mapped = engine.map(a.id, P, PAGE, READ).unwrap();
        let mut word = [0; 8];
        match mapped.place {
            Place::Own(address) => memory.read(address, &mut word),
            Place::Peer(node, address) => memory.peer_read(node, address, &mut word).unwrap(),
        }
        assert_eq!(u64::from_le_bytes(word), 99);
        engine.unmap(mapped.window, 1);
        // Once the window is being unregistered, no new use finds it.
        let (engine, memory) = fixture.parts(b);
        engine.unregister(memory, b.id, 0, 3 * PAGE).unwrap();
        let gone = engine.local_part(b.id, 0, PAGE, READ);
        assert_eq!(gone, Err(Error::NoSuchAddress));
        fixture.close(a);
        fixture.run();
        let (engine, _) = fixture.parts(b);
        let gone = engine.local_part(b.id, 4 * P, PAGE, READ);
        assert_eq!(gone, Err(Error::ConnectionReset));
    }
}

#[test]
fn pages_are_got_and_put_once() {
    for nodes in [1, 2] {
        let (mut fixture, a, b) = ends(nodes);
        let engine = fixture.engine(a);
        let got = engine.get_pages(a.id, P, 2 * PAGE).unwrap();
        let counts: Vec<u64> = got.runs.iter().map(|(_, pages)| *pages).collect();
        assert_eq!((counts, got.protection), (vec![1, 1], BOTH));
        assert_eq!(matches!(got.runs[0].0, Place::Own(_)), nodes == 1);
        assert_eq!(engine.stats().mapped_pages, 2);
        assert_eq!(engine.put_pages(a.id, 0), Err(Error::InvalidArgument));
        assert_eq!(engine.put_pages(a.id, got.cookie), Ok(()));
        assert_eq!(
            engine.put_pages(a.id, got.cookie),
            Err(Error::InvalidArgument)
        );
        assert_eq!(engine.stats().mapped_pages, 0);
        // Put also works after the peer has gone, and close puts the rest.
        let first = engine.get_pages(a.id, 0, PAGE).unwrap();
        engine.get_pages(a.id, 0, PAGE).unwrap();
        fixture.close(b);
        fixture.run();
        let engine = fixture.engine(a);
        assert_eq!(engine.put_pages(a.id, first.cookie), Ok(()));
        fixture.close(a);
        fixture.run();
        fixture.assert_clean();
    }
}
