//! The memory that both guests see as BAR 2 of an `ivshmem-plain` device: round trips of a word by
//! polling, and copies between this memory and memory of the program.

use crate::Effort;
use crate::protocol::{Job, Server};
use crate::report::{self, Unit};
use std::fs::File;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

/// PCI vendor and device of ivshmem, in the spelling of sysfs.
const IVSHMEM: [&str; 2] = ["0x1af4", "0x1110"];
const WORD_BYTES: usize = size_of::<AtomicU64>();
const PAGE_BYTES: usize = hal::mem::PAGE;
/// Indices of the word that the client writes and of the word that the server writes, on pages of
/// their own.
const CLIENT_WORD: usize = 0;
const SERVER_WORD: usize = PAGE_BYTES / WORD_BYTES;
/// Number of round trips for each round trip over TCP.
const WORDS_PER_ROUND_TRIP: u64 = 20;
/// Sizes of the short copies in bytes. These copies are a limit for ours, because at these sizes
/// they are the fastest seen.
const SHORT_BYTES: [usize; 4] = [64, 256, 1 << 10, 4 << 10];
/// Sizes of the long copies in bytes, and the largest size.
const LONG_BYTES: [usize; 7] = [
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    LARGEST,
];
const LARGEST: usize = 64 << 20;
/// The emulator's address cache is direct mapped on the page number: addresses that are a large
/// power of two apart evict each other. The distance of source and destination differs from such a
/// distance by this number of pages.
const APART_PAGES: usize = 37;
/// Powers of two of this number of pages and more matter.
const COLLIDING_PAGES: usize = 1024;
/// Number of words in one step of the copy loop.
const STEP: usize = 8;

/// Returns the shared memory, which is mapped once.
pub fn shared() -> Result<&'static [AtomicU64]> {
    static MAPPED: OnceLock<&'static [AtomicU64]> = OnceLock::new();
    if let Some(words) = MAPPED.get() {
        return Ok(words);
    }
    let device = device(Path::new("/sys/bus/pci/devices"))?;
    std::fs::write(device.join("enable"), "1")?;
    let bar = File::options()
        .read(true)
        .write(true)
        .open(device.join("resource2"))?;
    let bytes = bar.metadata()?.len() as usize;
    let words = hal::testing::linux::map_file(&bar, bytes)?;
    Ok(MAPPED.get_or_init(|| words))
}

/// Finds the directory of the ivshmem device among those of all PCI devices.
fn device(devices: &Path) -> Result<PathBuf> {
    for item in std::fs::read_dir(devices)? {
        let path = item?.path();
        let is = |name: &str, value: &str| -> Result<bool> {
            Ok(std::fs::read_to_string(path.join(name))?.trim() == value)
        };
        if is("vendor", IVSHMEM[0])? && is("device", IVSHMEM[1])? {
            return Ok(path);
        }
    }
    Err(Error::other("this guest has no ivshmem device"))
}

/// Measures round trips and copies.
pub fn measure(server: &mut Server, effort: Effort) -> Result<()> {
    let memory = shared()?;
    report::progress("shared memory: round trips");
    let mut all = Vec::new();
    for repetition in 0..=effort.repetitions {
        let count = effort.round_trips * WORDS_PER_ROUND_TRIP;
        memory[CLIENT_WORD].store(0, Relaxed);
        memory[SERVER_WORD].store(0, Release);
        server.start(Job::Words { count })?;
        server.wait()?;
        let times = ask(memory, count);
        if repetition > 0 {
            all.push(times);
        }
    }
    report::result("linux_pingpong", 8, Unit::Nanoseconds, &all);
    let mut sizes = SHORT_BYTES.to_vec();
    if effort.all {
        sizes.extend(LONG_BYTES);
    }
    let largest = sizes.iter().max().copied().unwrap_or(0);
    let own: Vec<AtomicU64> = (0..largest / WORD_BYTES)
        .map(|index| AtomicU64::new(index as u64))
        .collect();
    let window = placed(memory, &own)?;
    for bytes in sizes {
        let words = bytes / WORD_BYTES;
        let (own, window) = (&own[..words], &window[..words]);
        report::progress(&format!("shared memory: copies of {bytes} bytes"));
        let rates = copies(own, window, effort)?;
        report::result("linux_write", bytes as u64, Unit::BytesPerSecond, &rates);
        let rates = copies(window, own, effort)?;
        report::result("linux_read", bytes as u64, Unit::BytesPerSecond, &rates);
    }
    Ok(())
}

/// The client's side of the round trips. Returns the nanoseconds of each.
fn ask(memory: &[AtomicU64], count: u64) -> Vec<f64> {
    let (ours, theirs) = (&memory[CLIENT_WORD], &memory[SERVER_WORD]);
    let mut times = Vec::with_capacity(count as usize);
    for number in 1..=count {
        let start = Instant::now();
        ours.store(number, Release);
        while theirs.load(Acquire) != number {}
        times.push(start.elapsed().as_nanos() as f64);
    }
    times
}

/// The server's side of the round trips.
pub fn answer(memory: &[AtomicU64], count: u64) {
    let (theirs, ours) = (&memory[CLIENT_WORD], &memory[SERVER_WORD]);
    for number in 1..=count {
        while theirs.load(Acquire) != number {}
        ours.store(number, Release);
    }
}

/// Returns a part of the shared memory that does not collide with `own` in the emulator's address
/// cache.
fn placed<'a>(memory: &'a [AtomicU64], own: &[AtomicU64]) -> Result<&'a [AtomicU64]> {
    // The pages of the round trips are not part of it.
    let first = SERVER_WORD + PAGE_BYTES / WORD_BYTES;
    let page = |words: &[AtomicU64]| words.as_ptr().addr() / PAGE_BYTES;
    let rest = memory.get(first..).unwrap_or_default();
    let skipped = skip(page(own), page(rest)) * PAGE_BYTES / WORD_BYTES;
    rest.get(skipped..skipped + own.len())
        .ok_or_else(|| Error::other("the shared memory is too small for the copies"))
}

/// Returns the number of pages to skip at the start of a mapping so that it lies [`APART_PAGES`]
/// off a colliding distance from another page.
fn skip(other_page: usize, first_page: usize) -> usize {
    let wanted = other_page.wrapping_add(APART_PAGES);
    wanted.wrapping_sub(first_page) % COLLIDING_PAGES
}

/// Returns the rate of each repetition of copying all words. The first repetition, which is
/// dropped, finds out how many copies make a repetition.
fn copies(from: &[AtomicU64], to: &[AtomicU64], effort: Effort) -> Result<Vec<Vec<f64>>> {
    let bytes = (from.len() * WORD_BYTES) as u64;
    let mut count = 1;
    let mut rates = Vec::new();
    for repetition in 0..=effort.repetitions {
        let start = Instant::now();
        let mut done = 0;
        while done < count
            || repetition == 0 && start.elapsed().as_millis() < effort.copy_ms as u128
        {
            copy(from, to);
            done += 1;
        }
        count = done;
        if repetition > 0 {
            rates.push(vec![report::rate(bytes * count, start.elapsed())]);
        }
    }
    let same = |(from, to): (&AtomicU64, &AtomicU64)| from.load(Relaxed) == to.load(Relaxed);
    if from.iter().zip(to).all(same) {
        Ok(rates)
    } else {
        Err(Error::other("a copy differs from its source"))
    }
}

/// Copies word by word, several words in a step, which is the fastest way under the emulator.
#[inline(never)]
fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    let (from, from_rest) = from.as_chunks::<STEP>();
    let (to, to_rest) = to.as_chunks::<STEP>();
    for (from, to) in from.iter().zip(to) {
        for (from, to) in from.iter().zip(to) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
    for (from, to) in from_rest.iter().zip(to_rest) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize, start: u64) -> Vec<AtomicU64> {
        (0..count as u64)
            .map(|index| AtomicU64::new(start + index))
            .collect()
    }

    #[test]
    fn copies_take_every_word() {
        for count in [0, 1, STEP - 1, STEP, 3 * STEP + 5] {
            let (from, to) = (words(count, 100), words(count, 0));
            copy(&from, &to);
            assert!(
                from.iter()
                    .zip(&to)
                    .all(|(a, b)| a.load(Relaxed) == b.load(Relaxed))
            );
        }
    }

    #[test]
    fn places_do_not_collide() {
        for (other, first) in [(0, 0), (5, 5000), (5000, 5), (usize::MAX, 3), (1024, 1061)] {
            let skipped = skip(other, first);
            assert!(skipped < COLLIDING_PAGES);
            let distance = first.wrapping_add(skipped).wrapping_sub(other);
            assert_eq!(distance % COLLIDING_PAGES, APART_PAGES, "{other} {first}");
        }
    }

    #[test]
    fn both_sides_meet_in_memory() {
        let memory: &'static [AtomicU64] = words(2 * SERVER_WORD, u64::MAX / 2).leak();
        memory[CLIENT_WORD].store(0, Relaxed);
        memory[SERVER_WORD].store(0, Relaxed);
        let server = std::thread::spawn(|| answer(memory, 100));
        assert_eq!(ask(memory, 100).len(), 100);
        server.join().unwrap();
    }
}
