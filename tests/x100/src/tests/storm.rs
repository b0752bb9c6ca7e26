//! Random transfers of any alignment, several at once, over channels that fail now and then, and
//! resets between them: whatever happens, the bytes are right, and the driver makes no mistake.

use hal::mem::PAGE;
use scheme_scif::CardCommand;
use scif_abi::flags::RmaFlags;
use scif_core::{Direction, EndpointId, Local, Memory, Rma};

use crate::fixture::{Fixture, pattern};

/// Bytes of each of the ranges that a batch copies at once.
const RANGE: usize = 40 * PAGE;
/// Ranges of a window.
const RANGES: usize = 8;
const BYTES: usize = RANGES * RANGE;

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// A connection, the places of its windows, and what they hold.
struct Side {
    end: EndpointId,
    host_at: u64,
    card_at: u64,
    host: Vec<u8>,
    card: Vec<u8>,
}

fn begin(fixture: &mut Fixture, seed: usize) -> Side {
    let (end, other) = fixture.connect();
    let host_at = fixture.register_host(end, BYTES, 0);
    let card_at = fixture.register_card(other, BYTES, 0);
    let host = pattern(BYTES, seed);
    fixture.memory.write(host_at, &host);
    Side {
        end,
        host_at,
        card_at,
        host,
        card: vec![0; BYTES],
    }
}

fn batch(fixture: &mut Fixture, side: &mut Side, random: &mut Random) {
    let mut tickets = Vec::new();
    for range in 0..RANGES {
        let most = [300, RANGE - 300][random.below(2)];
        let length = 1 + random.below(most);
        let [from, mut to] = [0; 2].map(|_| range * RANGE + random.below(RANGE - length - 64));
        if random.below(2) == 0 {
            // Copies that the engine can do; else the CPU has to.
            to = to / 64 * 64 + from % 64;
        }
        let flags = [RmaFlags::SYNC, RmaFlags::SYNC | RmaFlags::ORDERED][random.below(2)];
        let direction = [Direction::Read, Direction::Write][random.below(2)];
        let (local, remote) = match direction {
            Direction::Read => (to, from),
            Direction::Write => (from, to),
        };
        let rma = Rma {
            direction,
            local: Local::Window(local as i64),
            remote: remote as i64,
            length: length as u64,
            flags: flags.bits(),
        };
        tickets.push(fixture.engine.rma(side.end, rma).unwrap());
        let (source, target) = match direction {
            Direction::Read => (&side.card, &mut side.host),
            Direction::Write => (&side.host, &mut side.card),
        };
        target[to..to + length].copy_from_slice(&source[from..from + length]);
    }
    if random.below(3) == 0 {
        fixture.card.borrow_mut().faults.dma_errors = 1 + random.below(3) as u32;
    }
    fixture.dma_per_turn = 1 + random.below(4);
    assert!(fixture.run_until(60, |fixture| fixture.engine.stats().jobs == 0));
    for ticket in tickets {
        fixture.finish(ticket);
    }
    fixture.card.borrow_mut().faults.dma_errors = 0;
    let mut found = vec![0; BYTES];
    fixture.memory.read(side.host_at, &mut found);
    assert!(found == side.host);
    let card = fixture.card.borrow();
    card.memory
        .read_bytes(side.card_at as usize, &mut found)
        .unwrap();
    assert!(found == side.card);
}

#[test]
fn bytes_are_right_whatever_happens() {
    for seed in 1..=12 {
        let mut random = Random((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut fixture = Fixture::new(random.below(4) as u32);
        for round in 0..3 {
            fixture.boot();
            let mut side = begin(&mut fixture, seed + round);
            for _ in 0..8 {
                batch(&mut fixture, &mut side, &mut random);
            }
            fixture.engine.close(&mut fixture.memory, side.end);
            fixture.command(CardCommand::Reset).unwrap();
            assert!(
                fixture.run_until(60, |fixture| fixture.state() == "ready"),
                "seed {seed}"
            );
            fixture.command(CardCommand::Boot).unwrap();
        }
        assert!(fixture.card.borrow().done.bytes > 0);
        fixture.check();
    }
}
