//! Raw copies in each direction with each routine of the copy library, and checks that the bytes
//! arrived.
//!
//! The best copy counts. So each size is first tried with every routine and at several places;
//! then the fastest few ways are measured in turn.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hal::clock::ticks;
use hal::copy::{Choices, Routine};
use hal::dma::{Allocator, Scattered};
use hal::mem::{PAGE, Region};
use scif_perf::perf::{Failure, Result, Settings};
use scif_perf::report::Unit;
use scif_perf::samples::Samples;
use scif_perf::timing;

use crate::node::{Node, Order, Piece, scattered};
use crate::pingpong::bounds;

/// Sizes in bytes, unless the command names others.
const SIZES: &[u64] = &[4 << 10, 1 << 20, 16 << 20, 64 << 20];

/// Most bytes that are compared after a copy, from its beginning. Comparing more takes longer than
/// measuring.
pub const MAX_VERIFIED: usize = 1 << 20;

/// Number of ways to copy a size that are measured after all were tried.
const CANDIDATES: usize = 3;
/// Number of times each way is tried; the fastest counts.
const TRIES: usize = 6;
/// A way that is slower than the fastest by this factor is not tried again. The factor is larger
/// than the changes of the machine's speed.
const HOPELESS: u64 = 2;

/// Smallest number of entries of the emulator's address cache. Source and target pages never share
/// an entry if their page numbers do not differ by a multiple of it.
const CACHE_ENTRIES: usize = 64;
/// Number of pages by which they differ, beyond multiples of [`CACHE_ENTRIES`].
const DISTANCE: usize = 37;
/// Additional bytes that this distance needs.
const SLACK: usize = CACHE_ENTRIES * PAGE;
/// Bytes left free in front of each place. Large copies fill caches of all sizes, and then the
/// distance between source and target matters too.
const HOLES: [usize; 3] = [0, 24 << 20, 72 << 20];

/// One contiguous step of a copy.
struct Step {
    far: usize,
    own: usize,
    bytes: usize,
}

/// The peer's area, mapped at some address.
struct Place {
    aperture: Region,
    steps: Vec<Step>,
    /// Keeps the hole in front of the mapping.
    _hole: Option<Scattered>,
}

impl Place {
    fn new(node: &Node, private: &Region, hole: usize) -> Result<Self> {
        let first = node.pieces.iter().map(|piece| piece.physical).min();
        let end = |piece: &Piece| piece.physical + piece.bytes as u64;
        let end = node.pieces.iter().map(end).max();
        let (first, end) = first.zip(end).ok_or("the peer has no memory to copy")?;
        let hole = match hole {
            0 => None,
            bytes => Some(reserve(&node.allocator, bytes)?),
        };
        let aperture = node.link.map_peer(first, (end - first) as usize)?;
        let (mut steps, mut done, mut near) = (Vec::new(), 0, None);
        for piece in &node.pieces {
            let far = (piece.physical - first) as usize;
            // Pieces begin at multiples of their size, so all have the same distance as the first
            // one.
            let near = *near.get_or_insert_with(|| shift(private, aperture.address() + far));
            steps.push(Step {
                far,
                own: near + done,
                bytes: piece.bytes,
            });
            done += piece.bytes;
        }
        Ok(Self {
            aperture,
            steps,
            _hole: hole,
        })
    }

    /// Copies the first `bytes` bytes.
    fn copy(&self, private: &Region, toward: bool, bytes: usize) -> Result {
        let mut left = bytes;
        for step in &self.steps {
            let count = step.bytes.min(left);
            let copied = match toward {
                true => self.aperture.copy_from(step.far, private, step.own, count),
                false => private.copy_from(step.own, &self.aperture, step.far, count),
            };
            copied.map_err(bounds)?;
            left -= count;
            if left == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn reserve(allocator: &Allocator, bytes: usize) -> Result<Scattered> {
    let reserved = allocator.reserve(bytes);
    reserved.map_err(|error| format!("a hole between mappings: {error}").into())
}

/// Returns how far into `private` copies from or to `other` begin, so that the two do not share
/// entries of the address cache.
fn shift(private: &Region, other: usize) -> usize {
    let distance = (private.address() / PAGE).wrapping_sub(other / PAGE) % CACHE_ENTRIES;
    (DISTANCE + CACHE_ENTRIES - distance) % CACHE_ENTRIES * PAGE
}

/// A way to copy: the place and the routine.
#[derive(Clone, Copy)]
struct Method {
    place: usize,
    routine: Routine,
}

impl Method {
    fn name(self) -> String {
        format!("{} at place {}", self.routine, self.place)
    }
}

/// Everything that the copies of a test use.
struct Copies {
    test: &'static str,
    toward: bool,
    private: Region,
    places: Vec<Place>,
}

impl Copies {
    /// Copies `bytes` bytes in this way.
    fn copy(&self, way: Method, bytes: usize) -> Result {
        self.with(way, |place| place.copy(&self.private, self.toward, bytes))
    }

    /// Runs `action` at a way's place while its routine is the one that all copies use. To apply
    /// the routine takes a quarter of the time of a copy of 4 KiB, so one call should make many
    /// copies.
    fn with<T>(&self, way: Method, action: impl FnOnce(&Place) -> T) -> T {
        // Between two turns, other tests in turn rely on their own choice.
        let others = Choices::applied();
        Choices::of_all(way.routine).apply();
        let done = action(&self.places[way.place]);
        others.apply();
        done
    }

    /// Iterates over all ways.
    fn ways(&self) -> impl Iterator<Item = Method> {
        let routines = Routine::ALL.into_iter().filter(|one| one.is_available());
        let places = 0..self.places.len();
        routines.flat_map(move |routine| places.clone().map(move |place| Method { place, routine }))
    }

    /// Returns the fastest ways of a size after a few tries, the fastest first.
    fn candidates(&self, bytes: usize) -> Result<Vec<Method>> {
        let mut tried: Vec<(u64, Method)> = self.ways().map(|way| (u64::MAX, way)).collect();
        // Each round tries all ways, because the machine may be slow for a while.
        for _ in 0..TRIES {
            for (least, way) in &mut tried {
                *least = (*least).min(self.with(*way, |place| {
                    let start = ticks();
                    place.copy(&self.private, self.toward, bytes)?;
                    Ok::<_, Failure>(ticks() - start)
                })?);
            }
            tried.sort_by_key(|(least, _)| *least);
            let hopeless = tried.first().map_or(0, |(fastest, _)| fastest * HOPELESS);
            tried.retain(|(least, _)| *least < hopeless);
        }
        let best = tried.into_iter().take(CANDIDATES);
        Ok(best.map(|(_, way)| way).collect())
    }

    /// Copies a part in every way and compares the checksums of both ends.
    fn verify(&self, node: &Node, bytes: usize) -> Result {
        const SEED: u64 = 0x5eed;
        let bytes = bytes.min(MAX_VERIFIED);
        for (number, way) in self.ways().enumerate() {
            let seed = SEED + number as u64;
            let own = self.places[way.place].steps.first().map_or(0, |at| at.own);
            let far = |order, argument| node.order(order, argument);
            if self.toward {
                fill(&self.private, own, bytes, seed)?;
            } else {
                far(Order::Fill, seed)?;
            }
            self.copy(way, bytes)?;
            if far(Order::Sum, bytes as u64)? != sum(&self.private, own, bytes)? {
                let (test, way) = (self.test, way.name());
                return Err(format!("{test}: {way}: wrong bytes arrived").into());
            }
        }
        Ok(())
    }
}

/// Measures copies to the peer.
pub fn write(settings: &Settings) -> Result {
    run(settings, "bare_write", true)
}

/// Measures copies from the peer.
pub fn read(settings: &Settings) -> Result {
    run(settings, "bare_read", false)
}

/// Measures one repetition of all sizes after the other, so that what disturbs the machine for a
/// while does not affect one size alone.
fn run(settings: &Settings, test: &'static str, toward: bool) -> Result {
    let sizes = settings.sizes(SIZES);
    let largest = sizes.iter().copied().max().unwrap_or(0) as usize;
    let largest = largest.next_multiple_of(PAGE);
    let node = Node::open(settings, largest)?;
    let private = scattered(&node.allocator, largest + SLACK)?;
    let mut copies = Copies {
        test,
        toward,
        private: private.region().clone(),
        places: Vec::new(),
    };
    for hole in HOLES {
        let place = Place::new(&node, &copies.private, hole)?;
        copies.places.push(place);
    }
    copies.verify(&node, largest)?;
    let mut measured = Vec::new();
    for &size in &sizes {
        let candidates = copies.candidates(size as usize)?;
        let new = candidates.into_iter().map(|way| (way, Samples::new()));
        measured.push((size, new.collect::<Vec<_>>()));
    }
    let budget = settings.budget_ns / CANDIDATES as u64;
    for repetition in 1..=settings.repetitions {
        for (size, ways) in &mut measured {
            settings.repetition(test, *size, repetition)?;
            for (way, samples) in ways {
                samples.add(copies.with(*way, |place| {
                    let copy = || place.copy(&copies.private, toward, *size as usize);
                    timing::rates::<Failure>(settings.rate, *size, budget, copy)
                })?);
            }
        }
    }
    for (size, ways) in measured {
        for (way, samples) in ways {
            settings.print_with(test, size, Unit::BytesPerSecond, samples, |line| {
                line.with_text("routine", &way.name())
            });
        }
    }
    drop(copies);
    node.leave()
}

/// Fills whole words with numbers that do not repeat.
pub fn fill(region: &Region, start: usize, bytes: usize, seed: u64) -> Result {
    let mut word = seed | 1 << 32;
    for offset in (0..bytes).step_by(8) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        region.write(start + offset, word).map_err(bounds)?;
    }
    Ok(())
}

/// Returns a checksum that detects changed, swapped and missing words.
pub fn sum(region: &Region, start: usize, bytes: usize) -> Result<u64> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = 0_u64;
    for offset in (0..bytes).step_by(8) {
        let word = region.read::<u64>(start + offset).map_err(bounds)?;
        sum = (sum ^ word).wrapping_mul(FACTOR).rotate_left(23);
    }
    Ok(sum)
}
