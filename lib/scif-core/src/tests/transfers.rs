//! readfrom, writeto and their v* forms.

use super::std::prelude::v1::*;
use super::std::vec;

use scif_abi::Error;
use scif_abi::flags::RmaFlags;

use super::engine::{LateEngine, Order};
use super::fixture::{BOTH, End, Fixture, PAGE, READ, WRITE};
use crate::{CpuEngine, Direction, Local, Owner, Pages, Rma, Traffic};

const SYNC: u32 = RmaFlags::SYNC.bits();
const USECPU: u32 = RmaFlags::USECPU.bits();
const ORDERED: u32 = RmaFlags::ORDERED.bits();

/// Two ends with a window of fragmented pages at offset 0 each.
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
    let at_a = fixture.pin(a.node, &[1, 3, 1, 2]);
    let at_b = fixture.pin(b.node, &[2, 1, 4]);
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

fn plan(direction: Direction, local: i64, remote: i64, length: u64, flags: u32) -> Rma {
    Rma {
        direction,
        local: Local::Window(local),
        remote,
        length,
        flags,
    }
}

/// Starts a transfer and takes its result.
fn copy(fixture: &mut Fixture, end: End, rma: Rma) -> Result<u64, Error> {
    let engine = fixture.engine(end);
    let ticket = engine.rma(end.id, rma);
    fixture.finish(end, ticket)
}

#[test]
fn every_alignment_arrives_and_nothing_else_changes() {
    for nodes in [1, 2] {
        let mut pair = pair(nodes);
        let lengths = [1, 63, 64, 65, 4095, 4096, 4097, 20000];
        for (round, length) in lengths.into_iter().enumerate() {
            for (local, remote) in [(0, 0), (1, 64), (63, 1), (4095, 4096), (8191, 3)] {
                for direction in [Direction::Read, Direction::Write] {
                    let flags = [0, SYNC, USECPU, ORDERED | SYNC][round % 4];
                    check_copy(&mut pair, plan(direction, local, remote, length, flags));
                }
            }
        }
    }
}

fn check_copy(pair: &mut Pair, rma: Rma) {
    let Pair {
        fixture,
        a,
        b,
        at_a,
        at_b,
    } = pair;
    let mut here = fixture.fill(a.node, at_a, 0x11);
    let mut there = fixture.fill(b.node, at_b, 0x77);
    let Local::Window(local) = rma.local else {
        unreachable!("all are between windows");
    };
    let (at, from, length) = (local as usize, rma.remote as usize, rma.length as usize);
    let (ours, theirs) = (at..at + length, from..from + length);
    match rma.direction {
        Direction::Read => here[ours].copy_from_slice(&there[theirs]),
        Direction::Write => there[theirs].copy_from_slice(&here[ours]),
    }
    assert_eq!(copy(fixture, *a, rma), Ok(0));
    assert!(fixture.content(a.node, at_a) == here, "what is here");
    assert!(fixture.content(b.node, at_b) == there, "what is there");
}

#[test]
fn neighbouring_windows_are_one_range() {
    let mut pair = pair(2);
    let Pair {
        fixture,
        a,
        b,
        at_a,
        ..
    } = &mut pair;
    let more = fixture.pin(b.node, &[1, 1]);
    fixture.register(*b, &more, 7 * PAGE as i64, READ);
    let data = fixture.fill(b.node, &more, 9);
    let rma = plan(Direction::Read, 0, 6 * PAGE as i64 + 5, 2 * PAGE, SYNC);
    assert_eq!(copy(fixture, *a, rma), Ok(0));
    let here = fixture.content(a.node, at_a);
    let beyond = PAGE as usize - 5;
    assert_eq!(here[beyond..2 * PAGE as usize], data[..PAGE as usize + 5]);
}

#[test]
fn ranges_and_rights_are_checked() {
    for nodes in [1, 2] {
        let Pair {
            mut fixture, a, b, ..
        } = pair(nodes);
        let pages = fixture.pin(b.node, &[1]);
        let (read_only, write_only) = (7 * PAGE as i64, 9 * PAGE as i64);
        fixture.register(b, &pages, read_only, READ);
        fixture.register(b, &pages, write_only, WRITE);
        let own = fixture.pin(a.node, &[1]);
        fixture.register(a, &own, read_only, READ);
        fixture.register(a, &own, write_only, WRITE);
        let (read, write) = (Direction::Read, Direction::Write);
        let nothing = Error::NoSuchAddress;
        for (direction, local, remote, length, error) in [
            (read, 0, 0, 0, Error::InvalidArgument),
            (read, -1, 0, 1, nothing),
            (read, 0, -1, 1, nothing),
            (read, 0, 0, u64::MAX, nothing),
            (read, 0, i64::MAX, 2, nothing),
            (read, 0x10_0000, 0, 1, nothing),
            (read, 0, 0x10_0000, 1, nothing),
            (write, 0, write_only, PAGE + 1, nothing),
            (write, 0, read_only - 1, 2, Error::AccessDenied),
            (read, 0, write_only, 1, Error::AccessDenied),
            (read, read_only - 1, 0, 2, Error::AccessDenied),
            (write, write_only, 0, 1, Error::AccessDenied),
            (write, write_only, 0x10_0000, 1, nothing),
        ] {
            let rma = plan(direction, local, remote, length, 0);
            assert_eq!(copy(&mut fixture, a, rma.clone()), Err(error), "{rma:?}");
        }
        for flags in [16, SYNC | 16, 1 << 31] {
            let rma = plan(read, 0, 0, 1, flags);
            assert_eq!(copy(&mut fixture, a, rma), Err(Error::InvalidArgument));
        }
        let engine = fixture.engine(a);
        let result = engine.virtual_start(a.id, write, read_only, 1, 0);
        assert_eq!(result, Err(Error::AccessDenied));
        let stats = fixture.nodes[a.node].engine.stats();
        assert_eq!((stats.jobs, stats.rma_bytes_cpu), (0, 0));
    }
}

#[test]
fn a_long_copy_leaves_turns_to_others() {
    let Pair {
        mut fixture, a, b, ..
    } = pair(2);
    let (c, d) = fixture.connect(0, 1);
    let (at_c, at_d) = (fixture.pin(0, &[1]), fixture.pin(1, &[1]));
    fixture.register(c, &at_c, 0, BOTH);
    fixture.register(d, &at_d, 0, BOTH);
    let mut large = fixture.pin(1, &[1]);
    large.runs = vec![large.runs[0]; 512];
    fixture.register(b, &large, 0x100_0000, BOTH);
    let mut local = fixture.pin(0, &[1]);
    local.runs = vec![local.runs[0]; 512];
    fixture.register(a, &local, 0x100_0000, BOTH);
    let node = &mut fixture.nodes[0];
    let (engine, memory) = (&mut node.engine, &mut node.memory);
    let long = plan(Direction::Write, 0x100_0000, 0x100_0000, 512 * PAGE, SYNC);
    let long = engine.rma(a.id, long).unwrap();
    let short = plan(Direction::Write, 0, 0, 100, SYNC);
    let short = engine.rma(c.id, short).unwrap();
    let mut turns = 0;
    while engine.finish(short).is_none() {
        assert!(engine.pump(memory, &mut *node.copier, 128 << 10));
        turns += 1;
    }
    assert_eq!((turns, engine.finish(long)), (1, None));
    while engine.pump(memory, &mut *node.copier, 128 << 10) {
        turns += 1;
    }
    assert_eq!(engine.finish(long), Some(Ok(0)));
    assert_eq!(turns, 512 * 4096 / (128 << 10));
    assert_eq!(engine.stats().rma_bytes_cpu, 512 * PAGE + 100);
    let traffic: Vec<_> = engine.traffic().collect();
    let written = Traffic {
        written: 512 * PAGE + 100,
        ..Traffic::default()
    };
    assert_eq!(traffic, [(1, written)]);
}

#[test]
fn asynchronous_until_much_is_queued_then_waiting_then_refused() {
    let Pair { mut fixture, a, .. } = pair(2);
    fixture.nodes[0].is_pumped = false;
    let engine = fixture.engine(a);
    let one = || plan(Direction::Write, 0, 0, 1, 0);
    let mut waiting = Vec::new();
    let mut accepted = 0;
    let error = loop {
        match engine.rma(a.id, one()) {
            Ok(ticket) if engine.finish(ticket).is_some() => {
                assert!(waiting.is_empty(), "those that wait come last");
                accepted += 1;
            }
            Ok(ticket) => waiting.push(ticket),
            Err(error) => break error,
        }
    };
    assert_eq!(
        (error, accepted, waiting.len()),
        (Error::NoMemory, 2048, 2048)
    );
    fixture.nodes[0].is_pumped = true;
    fixture.run();
    let engine = fixture.engine(a);
    for ticket in waiting {
        assert_eq!(engine.finish(ticket), Some(Ok(0)));
        assert_eq!(engine.finish(ticket), Some(Err(Error::BadDescriptor)));
    }
}

#[test]
fn virtual_transfers_move_the_callers_bytes() {
    for nodes in [1, 2] {
        let Pair {
            mut fixture,
            a,
            b,
            at_b,
            ..
        } = pair(nodes);
        for (remote, length, flags) in [(5, 20000, 0), (4095, 2, ORDERED), (0, 1, ORDERED)] {
            let mut there = fixture.fill(b.node, &at_b, 3);
            let data: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
            let write = run_virtual(
                &mut fixture,
                a,
                Direction::Write,
                remote,
                &mut data.clone(),
                flags,
            );
            assert_eq!(write, Ok(0));
            there[remote as usize..][..length].copy_from_slice(&data);
            assert!(fixture.content(b.node, &at_b) == there, "what was written");
            let mut back = vec![0; length];
            let read = run_virtual(&mut fixture, a, Direction::Read, remote, &mut back, flags);
            assert_eq!(read, Ok(0));
            assert!(back == data, "what was read");
        }
        assert_eq!(fixture.nodes[0].engine.stats().jobs, 0);
    }
}

fn run_virtual(
    fixture: &mut Fixture,
    end: End,
    direction: Direction,
    remote: i64,
    data: &mut [u8],
    flags: u32,
) -> Result<u64, Error> {
    let engine = fixture.engine(end);
    let length = data.len() as u64;
    let ticket = engine.virtual_start(end.id, direction, remote, length, flags)?;
    loop {
        let (engine, memory) = fixture.parts(end);
        if engine.virtual_is_ready(ticket)
            && let Some(result) = engine.virtual_step(memory, ticket, data, 1000)
        {
            return result;
        }
        let end_node = end.node;
        fixture.iterate(end_node);
    }
}

#[test]
fn a_virtual_transfer_waits_for_what_was_started_before() {
    let Pair {
        mut fixture,
        a,
        b,
        at_b,
        ..
    } = pair(2);
    fixture.fill(b.node, &at_b, 1);
    fixture.nodes[0].is_pumped = false;
    let (engine, memory) = fixture.parts(a);
    let rma = plan(Direction::Write, 0, 0, 100, 0);
    engine.rma(a.id, rma).unwrap();
    let direction = Direction::Read;
    let ticket = engine.virtual_start(a.id, direction, 0, 100, 0).unwrap();
    let mut data = [1; 100];
    assert!(!engine.virtual_is_ready(ticket));
    assert_eq!(engine.virtual_step(memory, ticket, &mut data, 1000), None);
    assert_eq!(data, [1; 100]);
    fixture.nodes[0].is_pumped = true;
    fixture.run();
    let (engine, memory) = fixture.parts(a);
    assert!(engine.virtual_is_ready(ticket));
    assert_eq!(
        engine.virtual_step(memory, ticket, &mut data, 1000),
        Some(Ok(0))
    );
    assert_eq!(data, [0; 100]);
}

#[test]
fn abandoned_virtual_transfers_do_not_block_others() {
    let Pair { mut fixture, a, .. } = pair(2);
    let (engine, memory) = fixture.parts(a);
    let direction = Direction::Read;
    let first = engine.virtual_start(a.id, direction, 0, 100, 0).unwrap();
    let second = engine.virtual_start(a.id, direction, 0, 100, 0).unwrap();
    let rma = plan(Direction::Write, 0, 0, 100, SYNC);
    let last = engine.rma(a.id, rma).unwrap();
    engine.abandon(memory, second);
    engine.abandon(memory, first);
    assert_eq!(fixture.finish(a, Ok(last)), Ok(0));
}

#[test]
fn pinned_pages_are_released_when_the_transfer_is_over() {
    let Pair {
        mut fixture,
        a,
        b,
        at_b,
        ..
    } = pair(2);
    let pages = fixture.pin(a.node, &[1, 1]);
    let data = fixture.fill(a.node, &pages, 5);
    let rma = |offset, length| Rma {
        direction: Direction::Write,
        local: Local::Pages {
            pages: pages.clone(),
            offset,
        },
        remote: 10,
        length,
        flags: 0,
    };
    let engine = fixture.engine(a);
    let beyond = engine.rma(a.id, rma(1, 2 * PAGE));
    assert_eq!(beyond, Err(Error::BadAddress));
    let ticket = engine.rma(a.id, rma(100, PAGE)).unwrap();
    assert_eq!(engine.finish(ticket), Some(Ok(0)));
    assert_eq!(fixture.nodes[0].released, []);
    fixture.run();
    assert_eq!(fixture.nodes[0].released, [pages.pin]);
    let there = fixture.content(b.node, &at_b);
    assert_eq!(
        there[10..10 + PAGE as usize],
        data[100..100 + PAGE as usize]
    );
}

#[test]
fn a_late_engine_completes_in_order() {
    let Pair {
        mut fixture,
        a,
        b,
        at_a,
        at_b,
    } = pair(2);
    let data = fixture.fill(a.node, &at_a, 8);
    let (engine, order) = LateEngine::new(4);
    fixture.nodes[0].copier = Box::new(engine);
    let engine = fixture.engine(a);
    let flags = SYNC | ORDERED;
    let rma = plan(Direction::Write, 0, 0, 7 * PAGE, flags);
    let ticket = engine.rma(a.id, rma).unwrap();
    let mut rounds = 0;
    loop {
        fixture.run();
        let engine = fixture.engine(a);
        if let Some(result) = engine.finish(ticket) {
            assert_eq!(result, Ok(0));
            break;
        }
        assert_eq!(fixture.nodes[0].engine.stats().jobs, 1);
        order
            .borrow_mut()
            .complete_one(&mut fixture.nodes[0].memory);
        rounds += 1;
    }
    assert!(rounds > 4, "the queue was full at times");
    assert!(fixture.content(b.node, &at_b) == data, "everything arrived");
    let Order { fences, bytes, .. } = &*order.borrow();
    assert_eq!((*fences, *bytes), (1, 7 * PAGE));
    let stats = fixture.nodes[0].engine.stats();
    assert_eq!((stats.rma_bytes_dma, stats.rma_bytes_cpu), (7 * PAGE, 0));
}

#[test]
fn processes_take_turns_however_many_connections_they_have() {
    const TURN: usize = 64 << 10;
    const PAGES: u32 = 256;
    let mut fixture = Fixture::new(2);
    let owner = |process| Owner { process, user: 1 };
    let mut targets = Vec::new();
    fixture.nodes[0].is_pumped = false;
    // Nine connections of one process, then one of another.
    for process in [8, 8, 8, 8, 8, 8, 8, 8, 8, 9] {
        let (a, b) = fixture.connect_as(0, 1, owner(process));
        let (here, there) = (fixture.pin(0, &[PAGES]), fixture.pin(1, &[PAGES]));
        fixture.register(a, &here, 0, BOTH);
        fixture.register(b, &there, 0, BOTH);
        fixture.fill(0, &here, 0x55);
        let engine = fixture.engine(a);
        let rma = plan(Direction::Write, 0, 0, u64::from(PAGES) * PAGE, 0);
        engine.rma(a.id, rma).unwrap();
        targets.push(there);
    }
    let node = &mut fixture.nodes[0];
    node.engine
        .pump(&mut node.memory, &mut CpuEngine, 20 * TURN);
    node.engine.check_invariants().unwrap();
    let moved = |pages: &Pages| {
        let content = fixture.content(1, pages);
        content.iter().rposition(|byte| *byte != 0).unwrap_or(0)
    };
    let other = moved(targets.last().unwrap());
    assert!((9 * TURN..=11 * TURN).contains(&other), "{other:#x} bytes");
    let first: usize = targets[..9].iter().map(moved).sum();
    assert!((9 * TURN..=11 * TURN).contains(&first), "{first:#x} bytes");
    // The rest of the transfers are done as well.
    fixture.nodes[0].is_pumped = true;
    fixture.run();
    assert!(targets.iter().all(|pages| moved_all(&fixture, pages)));
}

fn moved_all(fixture: &Fixture, pages: &Pages) -> bool {
    let content = fixture.content(1, pages);
    content[content.len() - 8..].iter().any(|byte| *byte != 0)
}
