//! Raw copies in each direction, with each routine of the copy library, and a look whether the
//! bytes arrived.

use alloc::vec::Vec;

use platform::copy::{Choices, Routine};
use platform::mem::{BoundsError, PAGE, Region};
use scif_perf::report::{Line, Unit};
use scif_perf::samples::Samples;
use scif_perf::timing;

use crate::station::{Command, Station};
use crate::{Failure, Settings, failed};

/// Largest size unless others are asked for.
const MAX_BYTES: u64 = 64 << 20;
const MIN_BYTES: u64 = 64;

/// Bytes that are compared after a copy, of the beginning: more takes longer than measuring.
const MAX_VERIFIED: usize = 4 << 20;

/// Smallest number of entries of the emulator's address cache. Source and target pages never share
/// an entry when their page numbers differ by something else than a multiple of it.
const CACHE_ENTRIES: usize = 64;
/// By how many pages they differ, beyond multiples of [`CACHE_ENTRIES`].
const DISTANCE: usize = 37;
/// Bytes more than needed, to keep that distance.
pub const SLACK: usize = CACHE_ENTRIES * PAGE;

fn sizes(settings: &Settings) -> Vec<u64> {
    settings.sizes.clone().unwrap_or_else(|| {
        let doubled = |size: &u64| Some(size * 2).filter(|size| *size <= MAX_BYTES);
        core::iter::successors(Some(MIN_BYTES), doubled).collect()
    })
}

/// Bytes each side has to export.
pub fn exported(settings: &Settings) -> usize {
    let largest = sizes(settings).into_iter().max().unwrap_or(MIN_BYTES);
    (largest as usize).next_multiple_of(PAGE)
}

/// One contiguous step of a copy.
struct Step {
    to: usize,
    from: usize,
    bytes: usize,
}

/// Where the copies of a direction go.
struct Direction<'a> {
    test: &'static str,
    to: &'a Region,
    from: &'a Region,
    steps: Vec<Step>,
}

impl Direction<'_> {
    /// Copies the first `bytes` bytes.
    fn copy(&self, bytes: usize) -> Result<(), BoundsError> {
        let mut left = bytes;
        for step in &self.steps {
            let count = step.bytes.min(left);
            self.to.copy_from(step.to, self.from, step.from, count)?;
            left -= count;
            if left == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// How far into `private` copies from or to `other` begin, so that they do not share entries of the
/// address cache.
fn shift(private: &Region, other: usize) -> usize {
    let distance = (private.address() / PAGE).wrapping_sub(other / PAGE) % CACHE_ENTRIES;
    (DISTANCE + CACHE_ENTRIES - distance) % CACHE_ENTRIES * PAGE
}

/// Measures what is asked for.
pub fn run(station: &Station, settings: &Settings) -> Result<(), Failure> {
    let (private, aperture) = (&station.private, &station.aperture);
    let first = station.pieces.first().map_or(0, |piece| piece.offset);
    let near = shift(private, aperture.address() + first);
    let mut remote = Vec::new();
    let mut done = 0;
    for piece in &station.pieces {
        remote.push((piece.offset, near + done, piece.bytes));
        done += piece.bytes;
    }
    let steps = |toward: bool| {
        let step = |&(far, own, bytes): &(usize, usize, usize)| {
            let (to, from) = if toward { (far, own) } else { (own, far) };
            Step { to, from, bytes }
        };
        remote.iter().map(step).collect()
    };
    let local = Step {
        to: shift(private, station.exported.address()),
        from: 0,
        bytes: station.exported.len(),
    };
    let directions = [
        Direction {
            test: "write",
            to: aperture,
            from: private,
            steps: steps(true),
        },
        Direction {
            test: "read",
            to: private,
            from: aperture,
            steps: steps(false),
        },
        Direction {
            test: "local",
            to: private,
            from: &station.exported,
            steps: alloc::vec![local],
        },
    ];
    let wanted = directions
        .iter()
        .filter(|direction| settings.wants(direction.test));
    let available = Routine::ALL
        .into_iter()
        .filter(|routine| routine.is_available());
    for (direction, routine) in wanted.flat_map(|to| available.clone().map(move |by| (to, by))) {
        Choices::from_numbers([routine.number(); 4]).apply();
        let name = alloc::format!("{routine}");
        verify(station, direction)?;
        for line in measure(direction, settings).map_err(failed(direction.test))? {
            settings.print(&line.with_text("routine", &name));
        }
    }
    Ok(())
}

/// One repetition of all sizes after the other, so that what disturbs the machine for a while does
/// not hit one size alone.
fn measure(direction: &Direction<'_>, settings: &Settings) -> Result<Vec<Line>, BoundsError> {
    let sizes = sizes(settings);
    let mut samples = alloc::vec![Samples::new(); sizes.len()];
    for _ in 0..settings.repetitions {
        for (&size, samples) in sizes.iter().zip(&mut samples) {
            let copy = || direction.copy(size as usize);
            samples.add(timing::rates(
                settings.rate,
                size,
                settings.budget_ns,
                copy,
            )?);
        }
    }
    let test = alloc::format!("bare_{}", direction.test);
    let line = |(size, samples): (&u64, Samples)| {
        let summary = samples.summary()?;
        Some(Line::new(&test, *size, Unit::BytesPerSecond, summary))
    };
    Ok(sizes.iter().zip(samples).filter_map(line).collect())
}

/// Copies a part once and compares the checksums of both ends.
fn verify(station: &Station, direction: &Direction<'_>) -> Result<(), Failure> {
    const SEED: u64 = 0x5eed;
    let bytes = station.exported.len().min(MAX_VERIFIED);
    let copied = |direction: &Direction<'_>| direction.copy(bytes);
    let own = |region: &Region, offset| sum_of(region, offset, bytes);
    let first = direction.steps.first().ok_or("nothing to copy")?;
    let (sent, came) = match direction.test {
        "write" => {
            fill_with(direction.from, first.from, bytes, SEED).map_err(failed("filling"))?;
            copied(direction).map_err(failed("copying"))?;
            let sent = own(direction.from, first.from);
            station.order(Command::Sum, bytes as u64)?;
            (sent, station.answer()?)
        }
        "read" => {
            station.order(Command::Fill, SEED + 1)?;
            station.answer()?;
            station.order(Command::Sum, bytes as u64)?;
            let sent = station.answer()?;
            copied(direction).map_err(failed("copying"))?;
            let came = own(direction.to, first.to).map_err(failed("summing"))?;
            (Ok(sent), came)
        }
        _ => {
            fill_with(direction.from, 0, bytes, SEED + 2).map_err(failed("filling"))?;
            copied(direction).map_err(failed("copying"))?;
            let came = own(direction.to, first.to).map_err(failed("summing"))?;
            (own(direction.from, 0), came)
        }
    };
    match sent.map_err(failed("summing"))? == came {
        true => Ok(()),
        false => Err(alloc::format!("{}: wrong bytes arrived", direction.test)),
    }
}

/// Fills the exported area; serves [`Command::Fill`].
pub fn fill(station: &Station, seed: u64) -> Result<u64, Failure> {
    let exported = &station.exported;
    fill_with(exported, 0, exported.len(), seed).map_err(failed("filling"))?;
    Ok(0)
}

/// The checksum of the first `bytes` bytes of the exported area; serves [`Command::Sum`].
pub fn sum(station: &Station, bytes: u64) -> Result<u64, Failure> {
    sum_of(&station.exported, 0, bytes as usize).map_err(failed("summing"))
}

/// Fills whole words with numbers that do not repeat.
fn fill_with(region: &Region, start: usize, bytes: usize, seed: u64) -> Result<(), BoundsError> {
    let mut word = seed | 1 << 32;
    for offset in (0..bytes).step_by(8) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        region.write(start + offset, word)?;
    }
    Ok(())
}

/// A sum that notices changed, swapped and missing words.
fn sum_of(region: &Region, start: usize, bytes: usize) -> Result<u64, BoundsError> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = 0_u64;
    for offset in (0..bytes).step_by(8) {
        let word = region.read::<u64>(start + offset)?;
        sum = (sum ^ word).wrapping_mul(FACTOR).rotate_left(23);
    }
    Ok(sum)
}
