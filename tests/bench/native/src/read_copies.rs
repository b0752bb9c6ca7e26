//! The limit of streams: copies into memory that a second thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

use client_memory::pages::Pages;
use hal::clock::ticks;
use hal::copy::Choices;
use hal::measure::measure;
use scif_perf::pattern;
use scif_perf::pour::{SlotMemory, Slots, Stopped, sum};
use scif_perf::report::Unit;

use crate::memory::aligned;
use crate::rings::mapped;
use crate::{Failure, Settings, Test, threads};

/// Bytes in a message.
const BYTES: usize = 4096;

/// Number of messages in a sample.
const MESSAGES: u64 = 1000;

/// Numbers of slots: few stay in the caches near both threads; with many, the threads wait less
/// often for each other. The best counts.
const SLOTS: [u64; 2] = [16, 64];

/// The memory that both threads have mapped.
struct Shared {
    pages: Pages,
    choices: Choices,
}

impl SlotMemory for Shared {
    #[inline]
    fn put(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        self.pages.put(offset, bytes.into(), self.choices).ok()
    }

    #[inline]
    fn word(&self, offset: usize) -> Option<u64> {
        let word = self.pages.word_u64(offset).ok()?;
        Some(word.load(Ordering::Relaxed))
    }
}

/// A word on a cache line (and a pair of them) of its own.
#[repr(align(256))]
#[derive(Default)]
struct Word(AtomicU64);

/// Returns the tests: one for each number of slots.
pub fn tests() -> Result<Vec<Test<'static>>, Failure> {
    let mut tests = Vec::new();
    for count in SLOTS {
        let memory = aligned(count as usize * BYTES)?;
        let shared = Shared {
            pages: mapped(memory.address(), memory.len())?,
            choices: measure(None).choices,
        };
        let run = move |settings: &Settings| {
            // The mapping is of this memory, so the test keeps it.
            let _memory = &memory;
            pour(settings, &shared, count)
        };
        let test = Test::new("native_copy_read", BYTES, Unit::BytesPerSecond, run);
        tests.push(test.by(&format!("{count} slots")));
    }
    Ok(tests)
}

/// Runs a repetition. Returns the bytes per second of each sample.
fn pour(settings: &Settings, memory: &Shared, count: u64) -> Result<Vec<f64>, Failure> {
    let mut message = vec![0; BYTES];
    pattern::fill(&mut message, 3);
    let (written, freed) = (Word::default(), Word::default());
    let slots = Slots {
        memory,
        bytes: BYTES,
        count,
        written: &written.0,
        freed: &freed.0,
    };
    // The reader must know in advance when it ends, so there are samples until the time is over.
    let mut samples = Vec::new();
    let end = ticks() + settings.rate.ticks(settings.budget_ns);
    while ticks() < end {
        written.0.store(0, Ordering::Release);
        freed.0.store(0, Ordering::Release);
        let got = std::thread::scope(|scope| {
            let reader = scope.spawn(|| match threads::pin(1) {
                Ok(()) => slots.read(WARM_UP + MESSAGES),
                // The writer stops, too.
                Err(_) => Err(Stopped::Alone),
            });
            // Wait until the reader runs.
            let poured = slots.write(&message, 0, WARM_UP).and_then(|()| {
                slots.finish(WARM_UP)?;
                let start = ticks();
                slots.write(&message, WARM_UP, WARM_UP + MESSAGES)?;
                slots.finish(WARM_UP + MESSAGES)?;
                let nanoseconds = settings.rate.between(start, ticks()).max(1.0);
                samples.push((MESSAGES as usize * BYTES) as f64 * 1e9 / nanoseconds);
                Ok(())
            });
            let got = reader.join().map_err(|_| "the second thread panicked")?;
            poured.and(got).map_err(Failure::from)
        })?;
        if got != sum(&message) {
            return Err("wrong bytes arrived".into());
        }
    }
    Ok(samples)
}

/// Number of messages before time is taken: a multiple of all numbers of slots.
const WARM_UP: u64 = 128;
