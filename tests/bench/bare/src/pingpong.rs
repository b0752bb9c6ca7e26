//! The raw round trip: each side polls a word of its own memory and stores the other side's word
//! through the aperture.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use hal::clock::ticks;
use hal::mem::{BoundsError, PAGE, Region};
use scif_perf::perf::{Failure, Result, Settings};
use scif_perf::report::Unit;
use scif_perf::samples::Samples;

use crate::node::{Court, Node, Order, PLACE_BITS};

/// Number of polls before giving up: some seconds.
const MAX_LOOKS: u32 = 2_000_000_000;

/// The places of the words: the page of the measuring side's word and the page of the other
/// side's. In each place the two pages have another distance from each other and from the stack.
const PLACES: [(usize, usize); 4] = [(0, 0), (1, 6), (9, 2), (14, 13)];

/// Two words, this side's and the peer's, each on a page of its own.
struct Table {
    own: Region,
    peer: Region,
}

impl Table {
    /// Makes the table of a side at a place.
    fn new(court: &Court, place: usize, measures: bool) -> Result<Self> {
        let (first, second) = *PLACES.get(place).ok_or("there is no such place")?;
        let (own, peer) = match measures {
            true => (first, second),
            false => (second, first),
        };
        let page = |region: &Region, page: usize| region.part(page * PAGE, PAGE);
        Ok(Self {
            own: page(&court.own, own).map_err(bounds)?,
            peer: page(&court.peer, peer).map_err(bounds)?,
        })
    }

    /// Returns the words: this side's and the peer's.
    fn words(&self) -> Result<[&AtomicU64; 2]> {
        let [own, peer] = [&self.own, &self.peer].map(|page| page.word_u64(0).map_err(bounds));
        Ok([own?, peer?])
    }
}

/// Polls until the ball is here.
#[inline]
fn catch(own: &AtomicU64, ball: u64) -> Result {
    for _ in 0..MAX_LOOKS {
        if own.load(Ordering::Acquire) == ball {
            return Ok(());
        }
    }
    Err("the ball does not come".into())
}

/// Returns the text of an error that cannot happen.
pub fn bounds(error: BoundsError) -> Failure {
    alloc::format!("{error}").into()
}

/// Measures at every place in each repetition.
pub fn run(settings: &Settings) -> Result {
    const WARM_UP: u64 = 500;
    let node = Node::open(settings, 0)?;
    let mut tables = Vec::new();
    for place in 0..PLACES.len() {
        tables.push((Table::new(&node.court, place, true)?, Samples::new()));
    }
    let mut rounds = Vec::new();
    for (place, (table, _)) in tables.iter().enumerate() {
        let warm = play(&node, table, settings, place, WARM_UP)?;
        let one = warm.iter().sum::<f64>() / WARM_UP as f64;
        rounds.push(settings.rounds(one * PLACES.len() as f64));
    }
    for repetition in 1..=settings.repetitions {
        settings.repetition("bare_pingpong", 8, repetition)?;
        for (place, (table, samples)) in tables.iter_mut().enumerate() {
            samples.add(play(&node, table, settings, place, rounds[place])?);
        }
    }
    for (place, (_, samples)) in tables.into_iter().enumerate() {
        settings.print_with("bare_pingpong", 8, Unit::Nanoseconds, samples, |line| {
            line.with_text("routine", &alloc::format!("place {place}"))
        });
    }
    node.leave()
}

/// Returns the time of each round trip in nanoseconds. The counter is read once for each: the end
/// of one round trip is the start of the next.
fn play(
    node: &Node,
    table: &Table,
    settings: &Settings,
    place: usize,
    rounds: u64,
) -> Result<Vec<f64>> {
    let [own, peer] = table.words()?;
    own.store(0, Ordering::Release);
    peer.store(0, Ordering::Release);
    let mut times = Vec::with_capacity(rounds as usize);
    node.order(Order::Play, rounds << PLACE_BITS | place as u64)?;
    let mut last = ticks();
    for ball in 1..=rounds {
        peer.store(ball, Ordering::Release);
        catch(own, ball)?;
        let now = ticks();
        times.push(settings.rate.between(last, now));
        last = now;
    }
    Ok(times)
}

/// The other side's part of the test.
pub fn answer(court: &Court, argument: u64) -> Result {
    let place = argument & ((1 << PLACE_BITS) - 1);
    let table = Table::new(court, place as usize, false)?;
    let [own, peer] = table.words()?;
    for ball in 1..=argument >> PLACE_BITS {
        catch(own, ball)?;
        peer.store(ball, Ordering::Release);
    }
    Ok(())
}
