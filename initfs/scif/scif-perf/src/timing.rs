//! Takes samples: the time of a call, or the bytes that it moves per second.

use alloc::vec::Vec;

use hal::clock::{Rate, ticks};

/// Shorter calls than this are timed in batches, so that the time to read the counter does not
/// matter.
const BATCH_NS: f64 = 20_000.0;

/// Calls before the first one that is timed. After another test has used the processor's caches,
/// the second copy of 16 MiB is still as slow as the first: on an Intel Xeon whose last level
/// cache is shared with other machines, 3.2 GB/s, and 5.8 GB/s from the third or fourth copy on.
const WARM_UP_CALLS: usize = 4;

/// Least number of samples in a repetition whose calls fit into the budget.
const MIN_SAMPLES: usize = 3;

/// Samples of a call that moves `bytes` bytes, in bytes per second, taken for about `budget_ns`
/// nanoseconds after [`WARM_UP_CALLS`] calls that are not counted.
///
/// # Errors
/// The first error of `call`.
pub fn rates<E>(
    rate: Rate,
    bytes: u64,
    budget_ns: u64,
    call: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let mut samples = durations(rate, budget_ns, call)?;
    for sample in &mut samples {
        *sample = bytes as f64 * 1e9 / sample.max(1e-3);
    }
    Ok(samples)
}

/// Samples of the nanoseconds that one call takes, taken for about `budget_ns` nanoseconds after
/// [`WARM_UP_CALLS`] calls that are not counted. Short calls are timed in batches; a sample is
/// then the mean of a batch. A call that takes longer than the budget gives one sample.
///
/// # Errors
/// The first error of `call`.
pub fn durations<E>(
    rate: Rate,
    budget_ns: u64,
    mut call: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    for _ in 0..WARM_UP_CALLS {
        call()?;
    }
    let start = ticks();
    call()?;
    let one = rate.between(start, ticks()).max(1.0);
    if one >= budget_ns as f64 {
        return Ok([one].to_vec());
    }
    let batch = (BATCH_NS / one).max(1.0) as u32;
    let end = ticks() + rate.ticks(budget_ns);
    let mut samples = Vec::new();
    while samples.len() < MIN_SAMPLES || ticks() < end {
        let start = ticks();
        for _ in 0..batch {
            call()?;
        }
        samples.push(rate.between(start, ticks()) / f64::from(batch));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn a_budget_is_kept_and_errors_end_it() {
        let start = std::time::Instant::now();
        let rate = Rate::measure(|| start.elapsed().as_nanos() as u64).unwrap();
        let mut calls = 0;
        let samples = durations(rate, 2_000_000, || {
            calls += 1;
            std::hint::black_box(calls);
            Ok::<_, ()>(())
        });
        let samples = samples.unwrap();
        assert!(samples.len() >= MIN_SAMPLES && calls > samples.len());
        let mut calls = 0;
        let long = durations(rate, 1, || {
            calls += 1;
            std::thread::sleep(std::time::Duration::from_millis(1));
            Ok::<_, ()>(())
        });
        let long = long.unwrap();
        assert_eq!((long.len(), calls), (1, WARM_UP_CALLS + 1));
        assert!(long[0] >= 1e6);
        let mut left = WARM_UP_CALLS + 4;
        let failed = rates(rate, 1, 1_000_000_000_000, || {
            left -= 1;
            if left > 0 { Ok(()) } else { Err("ended") }
        });
        assert_eq!((failed, left), (Err("ended"), 0));
    }
}
