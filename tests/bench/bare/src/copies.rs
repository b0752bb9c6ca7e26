//! Raw copies in each direction, with each routine of the copy library, and a look whether the
//! bytes arrived.
//!
//! The best copy counts, so each size is tried with every routine and at several
//! places first, and the fastest few are measured, in turn.

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

/// Sizes unless others are asked for.
const SIZES: &[u64] = &[4 << 10, 1 << 20, 16 << 20, 64 << 20];

/// Bytes that are compared after a copy, of the beginning: more takes longer than measuring.
pub const MAX_VERIFIED: usize = 1 << 20;

/// The number of ways to copy a size that are measured after all were tried.
const CANDIDATES: usize = 3;
/// Times each way is tried; the fastest counts.
const TRIES: usize = 6;
/// The factor by which a way must be slower than the fastest not to be tried again: more than the
/// machine's speed changes.
const HOPELESS: u64 = 2;

/// Smallest number of entries of the emulator's address cache. Source and target pages never share
/// an entry when their page numbers differ by something else than a multiple of it.
const CACHE_ENTRIES: usize = 64;
/// By how many pages they differ, beyond multiples of [`CACHE_ENTRIES`].
const DISTANCE: usize = 37;
/// Bytes more than needed, to keep that distance.
const SLACK: usize = CACHE_ENTRIES * PAGE;
/// Bytes left free in front of each place: large copies fill caches of all sizes, and how far
/// source and target are apart then matters too.
const HOLES: [usize; 3] = [0, 24 << 20, 72 << 20];

/// One contiguous step of a copy.
struct Step {
    far: usize,
    own: usize,
    bytes: usize,
}

/// The peer's area, mapped somewhere.
struct Place {
    aperture: Region,
    steps: Vec<Step>,
    /// Keeps the hole in front of it.
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
            // Pieces begin at multiples of their size, so the first one's distance is that of all.
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

/// How far into `private` copies from or to `other` begin, so that they do not share entries of the
/// address cache.
fn shift(private: &Region, other: usize) -> usize {
    let distance = (private.address() / PAGE).wrapping_sub(other / PAGE) % CACHE_ENTRIES;
    (DISTANCE + CACHE_ENTRIES - distance) % CACHE_ENTRIES * PAGE
}

/// A way to copy: where, and by which routine.
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

/// All that the copies of a test use.
struct Copies {
    test: &'static str,
    toward: bool,
    private: Region,
    places: Vec<Place>,
}

impl Copies {
    /// Copies this number of bytes.
    fn copy(&self, way: Method, bytes: usize) -> Result {
        self.with(way, |place| place.copy(&self.private, self.toward, bytes))
    }

    /// Does something at a way's place while its routine is the one that all copies use. To apply
    /// it takes a quarter of the time of a copy of 4 KiB, so that is done once for many copies.
    fn with<T>(&self, way: Method, action: impl FnOnce(&Place) -> T) -> T {
        // Between two turns the choice is the one that other tests in turn rely on.
        let others = Choices::applied();
        Choices::of_all(way.routine).apply();
        let done = action(&self.places[way.place]);
        others.apply();
        done
    }

    /// Every way there is.
    fn ways(&self) -> impl Iterator<Item = Method> {
        let routines = Routine::ALL.into_iter().filter(|one| one.is_available());
        let places = 0..self.places.len();
        routines.flat_map(move |routine| places.clone().map(move |place| Method { place, routine }))
    }

    /// The fastest ways of a size by a short look, the fastest first.
    fn candidates(&self, bytes: usize) -> Result<Vec<Method>> {
        let mut tried: Vec<(u64, Method)> = self.ways().map(|way| (u64::MAX, way)).collect();
        // All ways again and again, not one after the other: the machine may be slow for a while.
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

    /// Copies a part by every way and compares the checksums of both ends.
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

/// To the peer.
pub fn write(settings: &Settings) -> Result {
    run(settings, "bare_write", true)
}

/// From the peer.
pub fn read(settings: &Settings) -> Result {
    run(settings, "bare_read", false)
}

/// One repetition of all sizes after the other, so that what disturbs the machine for a while does
/// not hit one size alone.
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

/// A sum that notices changed, swapped and missing words.
pub fn sum(region: &Region, start: usize, bytes: usize) -> Result<u64> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = 0_u64;
    for offset in (0..bytes).step_by(8) {
        let word = region.read::<u64>(start + offset).map_err(bounds)?;
        sum = (sum ^ word).wrapping_mul(FACTOR).rotate_left(23);
    }
    Ok(sum)
}
