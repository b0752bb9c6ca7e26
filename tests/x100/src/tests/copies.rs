//! Transfers by the DMA engine, fences, and resets in the middle of them.

use hal::mem::PAGE;
use hal::testing::counting::drains;
use micd::memory::NodeMemory;
use scheme_scif::CardCommand as Command;
use scif_abi::flags::{FenceFlags, RmaFlags};
use scif_core::{Direction, EndpointId, Event, Local, Memory, Place, Rma, Signal, Ticket};

use crate::card::LOAD;
use crate::fixture::{CARD, Fixture, pattern};
use crate::host::Source;
use crate::tests::log::said;
use crate::uos::checksum;

const MIB: usize = 1 << 20;

/// A connection with windows of `bytes` bytes on both sides, at offset 0.
struct Windows {
    end: EndpointId,
    host: u64,
    card: u64,
}

fn windows(fixture: &mut Fixture, bytes: usize) -> Windows {
    let (end, other) = fixture.connect();
    Windows {
        end,
        host: fixture.register_host(end, bytes, 0),
        card: fixture.register_card(other, bytes, 0),
    }
}

fn start(
    fixture: &mut Fixture,
    windows: &Windows,
    direction: Direction,
    at: [i64; 2],
    length: usize,
) -> Ticket {
    flagged(fixture, windows, direction, at, length, RmaFlags::SYNC)
}

fn flagged(
    fixture: &mut Fixture,
    windows: &Windows,
    direction: Direction,
    [local, remote]: [i64; 2],
    length: usize,
    flags: RmaFlags,
) -> Ticket {
    let rma = Rma {
        direction,
        local: Local::Window(local),
        remote,
        length: length as u64,
        flags: flags.bits(),
    };
    fixture.engine.rma(windows.end, rma).unwrap()
}

fn of_card(fixture: &Fixture, windows: &Windows, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    let card = fixture.card.borrow();
    card.memory
        .read_bytes(windows.card as usize, &mut found)
        .unwrap();
    found
}

#[test]
fn sixteen_mib_arrive_by_dma() {
    for stepping in [0, 1, 2] {
        let mut fixture = Fixture::new(stepping);
        fixture.boot();
        let windows = windows(&mut fixture, 16 * MIB);
        let data = pattern(16 * MIB, 3);
        fixture.memory.write(windows.host, &data);
        let ticket = start(&mut fixture, &windows, Direction::Write, [0, 0], 16 * MIB);
        fixture.finish(ticket);
        assert_eq!(
            checksum(&of_card(&fixture, &windows, 16 * MIB)),
            checksum(&data)
        );
        assert_eq!(fixture.card.borrow().done.bytes, 16 << 20);
        // And back.
        fixture.memory.write(windows.host, &vec![0; 16 * MIB]);
        let ticket = start(&mut fixture, &windows, Direction::Read, [0, 0], 16 * MIB);
        fixture.finish(ticket);
        let mut found = vec![0; 16 * MIB];
        fixture.memory.read(windows.host, &mut found);
        assert_eq!(checksum(&found), checksum(&data));
        assert_eq!(fixture.card.borrow().done.bytes, 32 << 20);
        fixture.check();
    }
}

#[test]
fn every_alignment_is_exact() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, 64 * PAGE);
    let data = pattern(64 * PAGE, 9);
    fixture.memory.write(windows.host, &data);
    let mut expected = vec![0; 64 * PAGE];
    for (from, to, length) in [
        (0, 0, 64),
        (1, 1, 63),
        (1, 1, 64),
        (65, 129, 5000),
        (3, 4, 4000),
        (PAGE + 60, 2 * PAGE - 4, 9000),
        (7, 7, 1),
        (64, 0, 63),
        (100, 36, 60 * PAGE),
    ] {
        let at = [from as i64, to as i64];
        let flags = RmaFlags::SYNC | RmaFlags::ORDERED;
        let ticket = flagged(&mut fixture, &windows, Direction::Write, at, length, flags);
        fixture.finish(ticket);
        expected[to..to + length].copy_from_slice(&data[from..from + length]);
        assert!(
            of_card(&fixture, &windows, 64 * PAGE) == expected,
            "{from} {to} {length}"
        );
    }
    assert!(fixture.card.borrow().done.bytes > 50 * PAGE as u64);
    fixture.check();
}

#[test]
fn the_accesses_for_one_mib_are_counted() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, MIB);
    let ticket = start(&mut fixture, &windows, Direction::Write, [0, 0], MIB);
    fixture.finish(ticket);
    let (counted, _) = fixture.count(|fixture| {
        let ticket = start(fixture, &windows, Direction::Write, [0, 0], MIB);
        fixture.finish(ticket);
    });
    println!("x100: 1 MiB to the card by DMA: {counted:?}");
    // Two copies, each with one store of the head; the interrupts of both became one: SICR0 read
    // and written, SICE0 written, DCAR read, written twice and read back each time.
    assert_eq!((counted.reads, counted.writes), (4, 6));
    // Before each head, and before the one index that is stored in the card meanwhile.
    assert_eq!(counted.drains, 3);
    fixture.check();
}

/// The model's aperture is plain memory, so what overtakes what is not seen: drains are counted.
#[test]
fn stores_are_drained_before_what_announces_them() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let (at, place) = (u64::from(LOAD), Place::Peer(CARD, LOAD.into()));
    let memory = &mut fixture.memory;
    let mut drained = |what: &dyn Fn(&mut NodeMemory<Source>)| {
        let before = drains();
        what(memory);
        drains() - before
    };
    assert_eq!(
        drained(&|memory| memory.peer_store_index(CARD, at, 1).unwrap()),
        1
    );
    assert_eq!(drained(&|memory| memory.store_u64(place, 1).unwrap()), 1);
    assert_eq!(drained(&|memory| memory.fence()), 1);
    assert_eq!(
        drained(&|memory| memory.peer_write(CARD, 0x1000, &[1]).unwrap()),
        0
    );
    fixture.check();
}

#[test]
fn fences_come_behind_the_copies() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, 2 * MIB);
    let data = pattern(2 * MIB, 5);
    fixture.memory.write(windows.host, &data);
    fixture.dma_per_turn = 0;
    let length = 2 * MIB - PAGE;
    let flags = RmaFlags::empty();
    let copy = flagged(
        &mut fixture,
        &windows,
        Direction::Write,
        [0, 0],
        length,
        flags,
    );
    let mark = fixture
        .engine
        .fence_mark(windows.end, FenceFlags::INIT_SELF.bits());
    let mark = mark.unwrap();
    let mark = fixture.finish(mark) as i32;
    let wait = fixture.engine.fence_wait(windows.end, mark).unwrap();
    let place = 2 * MIB - 64;
    let flags = FenceFlags::INIT_SELF | FenceFlags::SIGNAL_LOCAL | FenceFlags::SIGNAL_REMOTE;
    let signal = Signal {
        local_offset: place as i64,
        local_value: 0x1111_2222_3333_4444,
        remote_offset: place as i64,
        remote_value: 0x5555_6666_7777_8888,
        flags: flags.bits(),
    };
    let signal = fixture.engine.fence_signal(windows.end, signal).unwrap();
    fixture.run_until_idle();
    // Nothing is done as long as the engine does not move.
    assert_eq!(fixture.engine.finish(wait), None);
    assert_eq!(
        fixture.memory.load_position(windows.host + place as u64),
        word(&data, place)
    );
    fixture.dma_per_turn = 1;
    fixture.finish(wait);
    assert_eq!(of_card(&fixture, &windows, length), data[..length]);
    fixture.finish(signal);
    fixture.finish(copy);
    let own = fixture.memory.load_position(windows.host + place as u64);
    assert_eq!(own, 0x1111_2222_3333_4444);
    let found = of_card(&fixture, &windows, 2 * MIB);
    assert_eq!(word(&found, place), 0x5555_6666_7777_8888);
    fixture.check();
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// However the looks of the host fall between the three descriptors of a transfer.
#[test]
fn rings_may_fill_up_and_begin_anew() {
    (1..=3).for_each(fill_up);
}

fn fill_up(dma_per_turn: usize) {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, 64 * PAGE);
    fixture.memory.write(windows.host, &pattern(64 * PAGE, 1));
    fixture.dma_per_turn = 0;
    let mut tickets = Vec::new();
    for i in 0..300_i64 {
        let at = [i % 64 * 4096, (i * 7) % 64 * 4096];
        tickets.push(start(&mut fixture, &windows, Direction::Write, at, PAGE));
    }
    fixture.run_until_idle();
    fixture.dma_per_turn = dma_per_turn;
    for ticket in tickets {
        fixture.finish(ticket);
    }
    assert_eq!(fixture.counters.get().repeated, 0);
    let data = pattern(64 * PAGE, 1);
    let found = of_card(&fixture, &windows, 64 * PAGE);
    for i in 300 - 64..300 {
        let (from, to) = (i % 64 * PAGE, (i * 7) % 64 * PAGE);
        assert_eq!(found[to..to + PAGE], data[from..from + PAGE]);
    }
    assert_eq!(fixture.card.borrow().done.descriptors, 900);
    fixture.check();
}

#[test]
fn a_channel_that_fails_is_repaired_and_nothing_is_lost() {
    for stepping in [0, 2] {
        let mut fixture = Fixture::new(stepping);
        fixture.boot();
        let windows = windows(&mut fixture, 4 * MIB);
        let data = pattern(4 * MIB, 2);
        fixture.memory.write(windows.host, &data);
        fixture.card.borrow_mut().faults.dma_errors = 1;
        let ticket = start(&mut fixture, &windows, Direction::Write, [0, 0], 4 * MIB);
        let is_done = |fixture: &mut Fixture| fixture.engine.stats().jobs == 0;
        assert!(fixture.run_until(10, is_done));
        fixture.finish(ticket);
        assert!(of_card(&fixture, &windows, 4 * MIB) == data);
        assert_eq!(fixture.card.borrow().done.injected, 1);
        // The channel works again.
        let before = fixture.card.borrow().done.bytes;
        for _ in 0..4 {
            let ticket = start(&mut fixture, &windows, Direction::Write, [0, 0], MIB);
            fixture.finish(ticket);
        }
        assert_eq!(fixture.card.borrow().done.bytes, before + (4 << 20));
        fixture.check();
    }
}

#[test]
fn channels_that_fail_together_are_repaired() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let all: [Windows; 4] = core::array::from_fn(|_| windows(&mut fixture, MIB));
    let data = pattern(MIB, 2);
    for windows in &all {
        fixture.memory.write(windows.host, &data);
    }
    fixture.card.borrow_mut().faults.dma_errors = 3;
    let begin = |windows| start(&mut fixture, windows, Direction::Write, [0, 0], MIB);
    let tickets: Vec<Ticket> = all.iter().map(begin).collect();
    let is_done = |fixture: &mut Fixture| fixture.engine.stats().jobs == 0;
    assert!(fixture.run_until(10, is_done));
    for (windows, ticket) in all.iter().zip(tickets) {
        fixture.finish(ticket);
        assert!(of_card(&fixture, windows, MIB) == data);
    }
    assert_eq!(fixture.counters.get().errors, 3);
    fixture.check();
}

/// Copies by the CPU in the place of the engine keep no others waiting.
#[test]
fn the_cpu_copies_in_slices() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, 8 * MIB);
    let data = pattern(8 * MIB, 2);
    fixture.memory.write(windows.host, &data);
    // Shifted against each other.
    let copies = fixture.engine.stats().copies;
    let ticket = start(&mut fixture, &windows, Direction::Write, [1, 2], MIB);
    fixture.finish(ticket);
    let stats = fixture.engine.stats();
    assert!(stats.copies - copies >= 16);
    assert_eq!(stats.rma_bytes_cpu, 1 << 20);
    assert!(of_card(&fixture, &windows, MIB + 2)[2..] == data[1..MIB + 1]);
    // Left on a channel that failed.
    fixture.dma_per_turn = 0;
    let ticket = start(&mut fixture, &windows, Direction::Write, [0, 0], 8 * MIB);
    fixture.run_until_idle();
    fixture.card.borrow_mut().faults.dma_errors = 1;
    fixture.dma_per_turn = 1;
    let mut turns = 0;
    while fixture.counters.get().repeated < 16 {
        fixture.turn();
        turns += 1;
        assert!(turns < 1000, "{:?}", fixture.counters.get());
    }
    assert!(turns >= 128, "{turns}");
    fixture.finish(ticket);
    assert!(of_card(&fixture, &windows, 8 * MIB) == data);
    fixture.check();
}

#[test]
fn a_channel_that_stands_still_is_noticed() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, MIB);
    let data = pattern(MIB, 8);
    fixture.memory.write(windows.host, &data);
    fixture.dma_per_turn = 0;
    let ticket = start(&mut fixture, &windows, Direction::Write, [0, 0], MIB);
    let is_down = |fixture: &mut Fixture| fixture.node_events.contains(&Event::NodeDown(CARD));
    assert!(!fixture.run_until(4, is_down));
    let words = said(|| assert!(fixture.run_until(3, is_down)));
    // It is not known what of it still arrives, so the card has to be reset.
    assert!(
        words.contains("DMA channel") && words.contains("DSTAT (BAR 4 +"),
        "{words}"
    );
    let result = fixture.engine.finish(ticket);
    let error = result.expect("the call has ended").unwrap_err();
    assert_eq!(error.errno(), syscall::error::ECONNRESET);
    fixture.engine.close(&mut fixture.memory, windows.end);
    fixture.dma_per_turn = usize::MAX;
    again(&mut fixture);
    assert_eq!(fixture.card.borrow().resets, 2);
}

/// Connections share the channels of the hardware: the order of one is no business of the others.
#[test]
fn an_ordered_copy_does_not_wait_for_other_connections() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    // The fifth shares a channel with the first.
    let all: [Windows; 5] = core::array::from_fn(|_| windows(&mut fixture, 4 * MIB));
    for windows in &all {
        let ticket = start(&mut fixture, windows, Direction::Write, [0, 0], PAGE);
        fixture.finish(ticket);
    }
    let (busy, ordered) = (&all[0], &all[4]);
    fixture.memory.write(ordered.host, &vec![0xcc; PAGE]);
    fixture.dma_per_turn = 1;
    let mut queued = Vec::new();
    let mut feed = |fixture: &mut Fixture| {
        while queued.len() < 4 {
            let at = [0, 0];
            queued.push(start(fixture, busy, Direction::Write, at, 4 * MIB));
        }
        queued.retain(|ticket| fixture.engine.finish(*ticket).is_none());
    };
    feed(&mut fixture);
    fixture.turn();
    let flags = RmaFlags::SYNC | RmaFlags::ORDERED;
    let ticket = flagged(&mut fixture, ordered, Direction::Write, [0, 0], PAGE, flags);
    let signal = Signal {
        local_offset: 4,
        local_value: 7,
        remote_offset: 0,
        remote_value: 0,
        flags: (FenceFlags::INIT_SELF | FenceFlags::SIGNAL_LOCAL).bits(),
    };
    let signal = fixture.engine.fence_signal(ordered.end, signal);
    let signal = signal.unwrap();
    let mut left = vec![ticket, signal];
    for _ in 0..2000 {
        feed(&mut fixture);
        fixture.turn();
        left.retain(|ticket| fixture.engine.finish(*ticket).is_none());
    }
    assert_eq!(left.len(), 0);
    let mut found = vec![0; PAGE];
    let card = fixture.card.borrow().memory.clone();
    card.read_bytes(ordered.card as usize, &mut found).unwrap();
    assert_eq!(found, vec![0xcc; PAGE]);
    fixture.check();
}

/// Interrupts and signals come once, whichever of the three descriptors of a transfer fails.
#[test]
fn a_status_descriptor_that_fails_is_repaired() {
    for stepping in [0, 2] {
        let mut fixture = Fixture::new(stepping);
        fixture.boot();
        let windows = windows(&mut fixture, MIB);
        let data = pattern(MIB, 2);
        fixture.memory.write(windows.host, &data);
        fixture.dma_per_turn = 0;
        let flags = RmaFlags::empty();
        let copy = flagged(
            &mut fixture,
            &windows,
            Direction::Write,
            [0, 0],
            MIB / 2,
            flags,
        );
        let place = MIB as i64 - 64;
        let signal = Signal {
            local_offset: place,
            local_value: 1,
            remote_offset: place,
            remote_value: 2,
            flags: (FenceFlags::INIT_SELF | FenceFlags::SIGNAL_LOCAL | FenceFlags::SIGNAL_REMOTE)
                .bits(),
        };
        let signal = fixture.engine.fence_signal(windows.end, signal);
        let signal = signal.unwrap();
        fixture.run_until_idle();
        // The copy and its two, then the store of the signal.
        fixture.dma_per_turn = 1;
        (0..3).for_each(|_| _ = fixture.turn());
        fixture.card.borrow_mut().faults.status_errors = 1;
        let is_done = |fixture: &mut Fixture| fixture.engine.stats().jobs == 0;
        assert!(fixture.run_until(10, is_done));
        fixture.finish(copy);
        fixture.finish(signal);
        let found = of_card(&fixture, &windows, MIB);
        assert!(found[..MIB / 2] == data[..MIB / 2]);
        assert_eq!(word(&found, place as usize), 2);
        assert_eq!(fixture.memory.load_position(windows.host + place as u64), 1);
        assert_eq!(fixture.card.borrow().done.injected, 1);
        fixture.check();
    }
}

#[test]
fn a_reset_in_the_middle_of_a_transfer_ends_it() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, 16 * MIB);
    let data = pattern(16 * MIB, 4);
    fixture.memory.write(windows.host, &data);
    fixture.dma_per_turn = 0;
    let ticket = start(&mut fixture, &windows, Direction::Write, [0, 0], 16 * MIB);
    for _ in 0..4 {
        fixture.turn();
    }
    fixture.dma_per_turn = 1;
    fixture.turn();
    fixture.dma_per_turn = 0;
    fixture.command(Command::Reset).unwrap();
    let result = |fixture: &mut Fixture| fixture.engine.finish(ticket);
    fixture.turn();
    let error = result(&mut fixture)
        .expect("the call has ended")
        .unwrap_err();
    assert_eq!(error.errno(), syscall::error::ECONNRESET);
    // The engine is given time to end what it has begun, as pages must not go before.
    assert!(!fixture.run_until(4, |fixture| fixture.card.borrow().resets == 2));
    assert!(fixture.run_until(2, |fixture| fixture.card.borrow().resets == 2));
    fixture.engine.close(&mut fixture.memory, windows.end);
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    fixture.run_until_idle();
    assert_eq!(fixture.released.len(), 1);
    let stats = fixture.engine.stats();
    assert_eq!((stats.jobs, stats.windows, stats.remote_windows), (0, 0, 0));
    fixture.dma_per_turn = usize::MAX;
    fixture.command(Command::Boot).unwrap();
    again(&mut fixture);
}

/// Pages that are no window are released with their transfer, which the reset ends.
#[test]
fn pages_of_a_transfer_stay_until_the_reset_has_happened() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, MIB);
    let address = fixture.memory.allocate(MIB).unwrap();
    let pages = fixture.pages(address, MIB);
    fixture.dma_per_turn = 0;
    let rma = Rma {
        direction: Direction::Read,
        local: Local::Pages { pages, offset: 0 },
        remote: 0,
        length: MIB as u64,
        flags: 0,
    };
    let ticket = fixture.engine.rma(windows.end, rma).unwrap();
    assert_eq!(fixture.finish(ticket), 0);
    fixture.command(Command::Reset).unwrap();
    assert!(fixture.run_until(6, |fixture| fixture.card.borrow().resets == 2));
    assert_eq!(fixture.released, []);
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    fixture.run_until_idle();
    assert_eq!(fixture.engine.stats().jobs, 0);
    fixture.engine.close(&mut fixture.memory, windows.end);
    fixture.run_until_idle();
    assert_eq!(fixture.released.len(), 2);
    fixture.dma_per_turn = usize::MAX;
    fixture.command(Command::Boot).unwrap();
    again(&mut fixture);
}

/// Everything works as before.
fn again(fixture: &mut Fixture) {
    fixture.boot();
    let windows = windows(fixture, MIB);
    let data = pattern(MIB, 6);
    fixture.memory.write(windows.host, &data);
    let ticket = start(fixture, &windows, Direction::Write, [0, 0], MIB);
    fixture.finish(ticket);
    assert!(of_card(fixture, &windows, MIB) == data);
    fixture.check();
}

#[test]
fn a_card_that_resets_itself_in_the_middle_of_a_transfer_is_lost_and_comes_back() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, 16 * MIB);
    fixture.dma_per_turn = 0;
    start(&mut fixture, &windows, Direction::Write, [0, 0], 16 * MIB);
    for _ in 0..4 {
        fixture.turn();
    }
    fixture.dma_per_turn = usize::MAX;
    fixture.card.borrow_mut().reset();
    assert!(fixture.run_until(60, |fixture| {
        fixture.node_events.contains(&Event::NodeDown(CARD))
    }));
    fixture.engine.close(&mut fixture.memory, windows.end);
    // No driver can keep away from registers in the second after a reset that it did not order.
    fixture.card.borrow_mut().complaints.clear();
    again(&mut fixture);
}

#[test]
fn the_last_byte_of_an_ordered_copy_arrives_last() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let windows = windows(&mut fixture, MIB);
    fixture.memory.write(windows.host, &vec![0xee; MIB]);
    fixture.dma_per_turn = 0;
    let flags = RmaFlags::SYNC | RmaFlags::ORDERED;
    let ticket = flagged(
        &mut fixture,
        &windows,
        Direction::Write,
        [0, 0],
        PAGE,
        flags,
    );
    fixture.run_until_idle();
    // The engine has not moved, so neither has what must be behind its copy.
    let found = of_card(&fixture, &windows, PAGE);
    assert_eq!((found[0], found[PAGE - 1]), (0, 0));
    assert_eq!(fixture.engine.finish(ticket), None);
    fixture.dma_per_turn = 1;
    fixture.finish(ticket);
    assert_eq!(of_card(&fixture, &windows, PAGE), vec![0xee; PAGE]);
    fixture.check();
}
