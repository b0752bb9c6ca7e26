//! The limit of streams: raw copies into the peer's memory, which the peer reads.

use alloc::format;
use alloc::vec::Vec;

use hal::clock::ticks;
use hal::mem::{PAGE, Region};
use scif_perf::pattern;
use scif_perf::perf::{Failure, Result, Settings};
use scif_perf::pour::{Slots, Stopped, sum};
use scif_perf::report::Unit;
use scif_perf::samples::Samples;

use crate::node::{Court, Node, Order};
use crate::pingpong::bounds;

/// Bytes in a message, unless the command names other sizes.
const MESSAGE: u64 = 4096;
/// Numbers of slots: with few slots, memory stays in caches; with many, the sides wait less often
/// for each other.
const SLOTS: [u64; 2] = [16, 64];
/// Number of messages in a sample.
const BATCH: u64 = 64;
/// Number of messages before time is taken.
const WARM_UP: u64 = 64;
/// The pages of the court with the word that this side stores and with the one that the peer
/// stores.
const WRITTEN_PAGE: usize = 3;
const FREED_PAGE: usize = 7;

/// Numbers of bits of [`Order::Read`]'s argument that hold the number of slots and their size.
const SLOTS_BITS: u32 = 8;
const SIZE_BITS: u32 = 24;

/// Maps the first bytes of the peer's area, which must lie in one piece.
fn area(node: &Node, bytes: usize) -> Result<Region> {
    match node.pieces.first() {
        Some(piece) if piece.bytes >= bytes => node.link.map_peer(piece.physical, bytes),
        _ => Err("the other side's memory is in crumbs".into()),
    }
}

fn stopped(stopped: Stopped) -> Failure {
    format!("{stopped}").into()
}

/// Measures with each number of slots in each repetition.
pub fn run(settings: &Settings) -> Result {
    for size in settings.sizes(&[MESSAGE]) {
        if !size.is_multiple_of(64) || size >> SIZE_BITS != 0 {
            return Err("a message is a number of cache lines, below 16 MiB".into());
        }
        let most = SLOTS.iter().max().copied().unwrap_or(1);
        let node = Node::open(settings, (size * most) as usize)?;
        let memory = area(&node, (size * most) as usize)?;
        let mut measured = Vec::new();
        for count in SLOTS {
            let warm = pour(settings, &node, &memory, [size, count], BATCH)?;
            let one = size as f64 * 1e9 / warm.first().copied().unwrap_or(1.0);
            let messages = settings.rounds(one * SLOTS.len() as f64);
            let messages = messages.next_multiple_of(BATCH);
            measured.push((count, messages, Samples::new()));
        }
        for repetition in 1..=settings.repetitions {
            settings.repetition("bare_copy_read", size, repetition)?;
            for (count, messages, samples) in &mut measured {
                let rates = pour(settings, &node, &memory, [size, *count], *messages)?;
                samples.add(rates);
            }
        }
        for (count, _, samples) in measured {
            let test = "bare_copy_read";
            settings.print_with(test, size, Unit::BytesPerSecond, samples, |line| {
                line.with_text("routine", &format!("{count} slots"))
            });
        }
        drop(memory);
        node.leave()?;
    }
    Ok(())
}

/// Returns the rate of each batch of messages in bytes per second.
fn pour(
    settings: &Settings,
    node: &Node,
    memory: &Region,
    [size, count]: [u64; 2],
    messages: u64,
) -> Result<Vec<f64>> {
    let mut message = alloc::vec![0; size as usize];
    pattern::fill(&mut message, count);
    let (own, peer) = (&node.court.own, &node.court.peer);
    let slots = Slots {
        memory,
        bytes: size as usize,
        count,
        written: peer.word_u64(WRITTEN_PAGE * PAGE).map_err(bounds)?,
        freed: own.word_u64(FREED_PAGE * PAGE).map_err(bounds)?,
    };
    own.write(FREED_PAGE * PAGE, 0_u64).map_err(bounds)?;
    peer.write(WRITTEN_PAGE * PAGE, 0_u64).map_err(bounds)?;
    let end = WARM_UP + messages;
    node.order(Order::Read, (end << SIZE_BITS | size) << SLOTS_BITS | count)?;
    slots.write(&message, 0, WARM_UP).map_err(stopped)?;
    let mut rates = Vec::with_capacity((messages / BATCH) as usize);
    let mut last = ticks();
    for first in (WARM_UP..end).step_by(BATCH as usize) {
        slots
            .write(&message, first, first + BATCH)
            .map_err(stopped)?;
        let now = ticks();
        rates.push((BATCH * size) as f64 * 1e9 / settings.rate.between(last, now).max(1.0));
        last = now;
    }
    match node.hear()? == sum(&message) {
        true => Ok(rates),
        false => Err("wrong bytes arrived".into()),
    }
}

/// The other side's part of the test: reads the messages. Returns the checksum of the last one.
pub fn answer(court: &Court, memory: &Region, argument: u64) -> Result<u64> {
    let part = |shift: u32, bits: u32| argument >> shift & ((1 << bits) - 1);
    let slots = Slots {
        memory,
        bytes: part(SLOTS_BITS, SIZE_BITS) as usize,
        count: part(0, SLOTS_BITS).max(1),
        written: court.own.word_u64(WRITTEN_PAGE * PAGE).map_err(bounds)?,
        freed: court.peer.word_u64(FREED_PAGE * PAGE).map_err(bounds)?,
    };
    let read = slots.read(argument >> (SLOTS_BITS + SIZE_BITS));
    read.map_err(stopped)
}
