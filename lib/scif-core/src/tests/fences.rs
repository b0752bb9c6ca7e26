//! fence_mark, fence_wait and fence_signal.

use super::std::prelude::v1::*;

use scif_abi::Error;
use scif_abi::bypass::TRANSFERS_OFFSET;
use scif_abi::flags::FenceFlags;

use super::bypass;
use super::engine::LateEngine;
use super::fixture::{BOTH, End, Fixture, PAGE, READ};
use crate::{Direction, Local, Memory, Pages, Rma, Signal, Ticket};

const SELF: u32 = FenceFlags::INIT_SELF.bits();
const PEER: u32 = FenceFlags::INIT_PEER.bits();
const LOCAL: u32 = FenceFlags::SIGNAL_LOCAL.bits();
const REMOTE: u32 = FenceFlags::SIGNAL_REMOTE.bits();

#[test]
fn clients_see_whether_transfers_are_under_way() {
    for nodes in [1, 2] {
        let mut pair = pair(nodes);
        let a = pair.a;
        let shown = |pair: &Pair, page| bypass::word(&pair.fixture, a, page + TRANSFERS_OFFSET);
        let (early, page) = bypass::open(&mut pair.fixture, a);
        pair.fixture.run();
        assert_eq!(shown(&pair, page), 0);
        for _ in 0..2 {
            pair.begin_copy(a);
            pair.fixture.run();
            assert_eq!(shown(&pair, page), 1);
        }
        // A page that is made meanwhile shows it as well, and the signal is a transfer of its own.
        bypass::close(&mut pair.fixture, a, early);
        let (late, page) = bypass::open(&mut pair.fixture, a);
        pair.fixture.run();
        assert_eq!(shown(&pair, page), 1);
        let ticket = pair
            .signal(
                a,
                Signal {
                    flags: SELF | REMOTE,
                    ..Signal::default()
                },
            )
            .unwrap();
        pair.fixture.nodes[a.node].is_pumped = true;
        assert_eq!(pair.result(a, ticket), Some(Ok(0)));
        assert_eq!(shown(&pair, page), 0);
        // One that has ended before anybody looks.
        let ticket = pair
            .signal(
                a,
                Signal {
                    flags: SELF | LOCAL,
                    ..Signal::default()
                },
            )
            .unwrap();
        assert_eq!(pair.result(a, ticket), Some(Ok(0)));
        assert_eq!(shown(&pair, page), 0);
        // The transfers of an endpoint that is closed are not the connection's any more.
        pair.fixture.nodes[a.node].is_pumped = false;
        pair.begin_copy(a);
        pair.fixture.run();
        assert_eq!(shown(&pair, page), 1);
        pair.fixture.close(a);
        pair.fixture.run();
        assert_eq!(shown(&pair, page), 0);
        bypass::close(&mut pair.fixture, a, late);
    }
}

struct Pair {
    fixture: Fixture,
    a: End,
    b: End,
    at_a: Pages,
    at_b: Pages,
}

fn pair(nodes: usize) -> Pair {
    let mut fixture = Fixture::new(nodes);
    let (a, b) = fixture.connect(0, nodes - 1);
    let at_a = fixture.pin(a.node, &[1, 1]);
    let at_b = fixture.pin(b.node, &[1, 1]);
    fixture.register(a, &at_a, 0, BOTH);
    fixture.register(b, &at_b, 0, BOTH);
    Pair {
        fixture,
        a,
        b,
        at_a,
        at_b,
    }
}

impl Pair {
    /// Starts a copy at an end and does not finish it.
    fn begin_copy(&mut self, end: End) {
        self.fixture.nodes[end.node].is_pumped = false;
        let engine = self.fixture.engine(end);
        let rma = Rma {
            direction: Direction::Write,
            local: Local::Window(64),
            remote: 64,
            length: 1000,
            flags: 0,
        };
        let ticket = engine.rma(end.id, rma).unwrap();
        assert_eq!(engine.finish(ticket), Some(Ok(0)));
    }

    fn mark(&mut self, end: End, flags: u32) -> Result<i32, Error> {
        let engine = self.fixture.engine(end);
        let ticket = engine.fence_mark(end.id, flags);
        self.fixture
            .finish(end, ticket)
            .map(|mark| i32::try_from(mark).unwrap())
    }

    fn wait(&mut self, end: End, mark: i32) -> Result<Ticket, Error> {
        let engine = self.fixture.engine(end);
        engine.fence_wait(end.id, mark)
    }

    fn result(&mut self, end: End, ticket: Ticket) -> Option<Result<u64, Error>> {
        self.fixture.run();
        let engine = self.fixture.engine(end);
        engine.finish(ticket)
    }

    fn signal(&mut self, end: End, signal: Signal) -> Result<Ticket, Error> {
        let engine = self.fixture.engine(end);
        engine.fence_signal(end.id, signal)
    }

    /// The eight bytes at an offset of an end's window.
    fn word(&self, end: End, at: u64) -> u64 {
        let pages = if end == self.a {
            &self.at_a
        } else {
            &self.at_b
        };
        let content = self.fixture.content(end.node, pages);
        let bytes = content[at as usize..at as usize + 8].try_into().unwrap();
        u64::from_le_bytes(bytes)
    }
}

#[test]
fn a_wait_ends_when_everything_before_the_mark_is_copied() {
    for nodes in [1, 2] {
        for flags in [SELF, PEER] {
            let mut pair = pair(nodes);
            let (a, b) = (pair.a, pair.b);
            let copier = if flags == SELF { a } else { b };
            let early = pair.mark(a, flags).unwrap();
            let done = pair.wait(a, early).unwrap();
            assert_eq!(pair.result(a, done), Some(Ok(0)));
            pair.begin_copy(copier);
            let mark = pair.mark(a, flags).unwrap();
            assert_ne!(mark, early);
            assert_eq!(
                pair.mark(a, flags),
                Ok(mark),
                "nothing has been started since"
            );
            let waits = [pair.wait(a, mark).unwrap(), pair.wait(a, mark).unwrap()];
            let done = pair.wait(a, early).unwrap();
            assert_eq!(pair.result(a, done), Some(Ok(0)));
            for ticket in waits {
                assert_eq!(pair.result(a, ticket), None);
            }
            pair.fixture.nodes[copier.node].is_pumped = true;
            for ticket in waits {
                assert_eq!(pair.result(a, ticket), Some(Ok(0)));
            }
            let late = pair.wait(a, mark).unwrap();
            assert_eq!(pair.result(a, late), Some(Ok(0)));
        }
    }
}

/// The engine has a queue of its own: a value on two pages, which the processor stores, must not
/// overtake the copies in it.
#[test]
fn a_signal_over_two_pages_waits_for_copies_under_way() {
    for nodes in [1, 2] {
        let mut pair = pair(nodes);
        let a = pair.a;
        let (engine, order) = LateEngine::new(4);
        pair.fixture.nodes[a.node].copier = Box::new(engine);
        pair.begin_copy(a);
        pair.fixture.nodes[a.node].is_pumped = true;
        let at = PAGE - 4;
        let signal = Signal {
            remote_offset: at as i64,
            remote_value: 0x1111_2222_3333_4444,
            flags: SELF | REMOTE,
            ..Signal::default()
        };
        let ticket = pair.signal(a, signal).unwrap();
        for _ in 0..10 {
            pair.fixture.iterate(a.node);
        }
        assert!(!order.borrow().is_idle(), "the copy is under way");
        assert_eq!(pair.word(pair.b, at), 0);
        order
            .borrow_mut()
            .complete_one(&mut pair.fixture.nodes[a.node].memory);
        for _ in 0..10 {
            pair.fixture.iterate(a.node);
        }
        assert_eq!(pair.word(pair.b, at), 0x1111_2222_3333_4444);
        assert_eq!(pair.result(a, ticket), Some(Ok(0)));
    }
}

#[test]
fn marks_that_were_never_given_are_refused() {
    let mut pair = pair(2);
    let a = pair.a;
    let invalid = Err(Error::InvalidArgument);
    let remote = 1 << 30;
    for mark in [0, 1, -1, i32::MIN, i32::MAX, remote, remote + 1] {
        assert_eq!(pair.wait(a, mark), invalid);
    }
    let own = pair.mark(a, SELF).unwrap();
    let peers = pair.mark(a, PEER).unwrap();
    assert!(own >= 0 && peers >= remote);
    for mark in [0, own + 1, own - 1, peers + 1, remote, i32::MAX, i32::MIN] {
        assert_eq!(pair.wait(a, mark), invalid, "{mark:#x}");
    }
    for flags in [0, SELF | PEER, SELF | LOCAL, 4, 8, SELF | 0x40, LOCAL] {
        assert_eq!(pair.mark(a, flags), Err(Error::InvalidArgument));
    }
}

#[test]
fn signals_are_stored_after_the_copies() {
    for nodes in [1, 2] {
        for (init, flags) in [SELF, PEER]
            .into_iter()
            .flat_map(|init| [LOCAL, REMOTE, LOCAL | REMOTE].map(|flags| (init, flags)))
        {
            let mut pair = pair(nodes);
            let (a, b) = (pair.a, pair.b);
            let copier = if init == SELF { a } else { b };
            pair.begin_copy(copier);
            let signal = Signal {
                local_offset: 16,
                local_value: 0x1111_2222_3333_4444,
                remote_offset: 4092,
                remote_value: 0x5555_6666_7777_8888,
                flags: init | flags,
            };
            let ticket = pair.signal(a, signal).unwrap();
            assert_eq!(pair.result(a, ticket), Some(Ok(0)), "it is queued");
            assert_eq!((pair.word(a, 16), pair.word(b, 4092)), (0, 0));
            pair.fixture.nodes[copier.node].is_pumped = true;
            pair.fixture.run();
            let value = |flag, value| if flags & flag != 0 { value } else { 0 };
            let expected = (
                value(LOCAL, signal.local_value),
                value(REMOTE, signal.remote_value),
            );
            assert_eq!((pair.word(a, 16), pair.word(b, 4092)), expected);
            let count = u64::from(flags.count_ones());
            assert_eq!(pair.fixture.nodes[copier.node].engine.stats().jobs, 0);
            assert!(count > 0);
        }
    }
}

/// As for transfers: ranges that are not registered are reported before protections.
#[test]
fn a_signal_reports_missing_windows_before_protections() {
    for nodes in [1, 2] {
        let mut pair = pair(nodes);
        let (a, b) = (pair.a, pair.b);
        for end in [a, b] {
            let pages = pair.fixture.pin(end.node, &[1, 1]);
            pair.fixture.register(end, &pages, 4 * PAGE as i64, READ);
            let next = pair.fixture.pin(end.node, &[1]);
            pair.fixture.register(end, &next, 6 * PAGE as i64, BOTH);
        }
        let nowhere = 9 * PAGE as i64;
        let read_only = 4 * PAGE as i64;
        let over_two = 6 * PAGE as i64 - 4;
        for init in [SELF, PEER] {
            for (local_offset, remote_offset, error) in [
                (read_only, nowhere, Error::NoSuchAddress),
                (nowhere, read_only, Error::NoSuchAddress),
                (read_only, over_two, Error::NoSuchAddress),
                (over_two, read_only, Error::NoSuchAddress),
                (read_only, 0, Error::AccessDenied),
                (0, read_only, Error::AccessDenied),
            ] {
                let signal = Signal {
                    local_offset,
                    remote_offset,
                    flags: init | LOCAL | REMOTE,
                    ..Signal::default()
                };
                let refused = pair.signal(a, signal);
                assert_eq!(refused, Err(error), "{local_offset:#x} {remote_offset:#x}");
            }
        }
    }
}

#[test]
fn signals_are_checked_before_anything_is_stored() {
    for nodes in [1, 2] {
        let mut pair = pair(nodes);
        let (a, b) = (pair.a, pair.b);
        let pages = pair.fixture.pin(a.node, &[1]);
        pair.fixture.register(a, &pages, 2 * PAGE as i64, READ);
        let both = LOCAL | REMOTE;
        let at = |local_offset, remote_offset, flags| Signal {
            local_offset,
            local_value: 1,
            remote_offset,
            remote_value: 1,
            flags,
        };
        let end = 2 * PAGE as i64;
        for init in [SELF, PEER] {
            for (signal, error) in [
                (at(0, 0, init), Error::InvalidArgument),
                (at(0, 0, both), Error::InvalidArgument),
                (at(0, 0, init | both | 0x40), Error::InvalidArgument),
                (at(0, 0, SELF | PEER | both), Error::InvalidArgument),
                (at(0, 2, init | both), Error::InvalidArgument),
                (at(1, 0, init | both), Error::InvalidArgument),
                (at(0, end - 4, init | both), Error::NoSuchAddress),
                (at(0, -8, init | both), Error::NoSuchAddress),
                (at(0, i64::MAX - 7, init | both), Error::NoSuchAddress),
                // Eight bytes in two windows, though these are neighbours.
                (at(end - 4, 0, init | both), Error::NoSuchAddress),
                (at(end, 0, init | both), Error::AccessDenied),
            ] {
                assert_eq!(pair.signal(a, signal), Err(error), "{signal:?}");
            }
            // Offsets that are not used are not checked.
            let ticket = pair.signal(a, at(3, 8, init | REMOTE)).unwrap();
            assert_eq!(pair.result(a, ticket), Some(Ok(0)));
        }
        assert_eq!(
            (pair.word(a, 0), pair.word(b, 0), pair.word(b, 8)),
            (0, 0, 1)
        );
    }
}

#[test]
fn a_signal_in_two_windows_is_refused() {
    let mut pair = pair(2);
    let (a, b) = (pair.a, pair.b);
    let pages = pair.fixture.pin(b.node, &[1]);
    pair.fixture.register(b, &pages, 2 * PAGE as i64, BOTH);
    let signal = Signal {
        remote_offset: 2 * PAGE as i64 - 4,
        flags: SELF | REMOTE,
        ..Signal::default()
    };
    assert_eq!(pair.signal(a, signal), Err(Error::NoSuchAddress));
}

#[test]
fn waits_for_the_peer_end_when_it_closes() {
    let mut pair = pair(2);
    let (a, b) = (pair.a, pair.b);
    pair.begin_copy(b);
    let mark = pair.mark(a, PEER).unwrap();
    let wait = pair.wait(a, mark).unwrap();
    let engine = pair.fixture.engine(a);
    let late = engine.fence_mark(a.id, PEER).unwrap();
    pair.fixture.close(b);
    assert_eq!(pair.result(a, wait), Some(Err(Error::ConnectionReset)));
    assert_eq!(pair.result(a, late), Some(Err(Error::ConnectionReset)));
    pair.fixture.nodes[1].is_pumped = true;
    pair.fixture.run();
    pair.fixture.close(a);
    pair.fixture.run();
    pair.fixture.assert_clean();
    assert_eq!(pair.fixture.nodes[1].memory.load_index(0), 0);
}
