//! Which copy routine is the fastest here, by trying all of them.

use core::fmt;

use crate::clock::ticks;
use crate::copy::{Choices, PAIRS, Routine, Side, pair_index};
use crate::mem::Region;

/// Bytes of one measured copy: enough for a loop to get going, and all of it in the cache.
const MEASURED_BYTES: usize = 4096;

/// Bytes of aperture that [`measure`] needs: a source, a target, and a bit between them.
pub const APERTURE_BYTES: usize = 2 * MEASURED_BYTES + GAP_BYTES;

/// Between source and target: distances of a large power of two are slow under an emulator, which
/// would be measured instead.
const GAP_BYTES: usize = 4096 + 64;

/// Copies of each routine for a pair; the fastest counts, as the first may meet cold code and any
/// may be interrupted.
const ROUNDS: core::ops::RangeInclusive<usize> = 3..=8;

/// Ticks after which a pair gets no more than the least rounds: about a millisecond, so that
/// start-up stays short even where a bus is slow.
const TICKS_FOR_PAIR: u64 = 3_000_000;

/// The result of [`measure`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Measurement {
    /// The fastest routine of each pair.
    pub choices: Choices,
    /// Ticks of the fastest copy, by pair and routine; `None`: not tried.
    ticks: [[Option<u64>; Routine::ALL.len()]; PAIRS.len()],
}

impl Measurement {
    /// The bytes that a routine moves in 100 ticks between a pair of sides; `None`: not measured.
    pub fn rate(&self, routine: Routine, from: Side, to: Side) -> Option<u64> {
        let ticks = self.ticks[pair_index(from, to)][usize::from(routine.number())]?;
        Some(100 * MEASURED_BYTES as u64 / ticks.max(1))
    }
}

impl fmt::Display for Measurement {
    /// Each pair's choice and its rate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (from, to) in PAIRS {
            let routine = self.choices.routine(from, to);
            if let Some(rate) = self.rate(routine, from, to) {
                write!(f, "{separator}{from} to {to} {routine} {rate}")?;
                separator = ", ";
            }
        }
        f.write_str(" (bytes in 100 ticks)")
    }
}

/// Measures all available routines and chooses the fastest for each pair of sides. `aperture` is
/// memory behind a bus of at least [`APERTURE_BYTES`] whose content is unused; without it the
/// pairs it belongs to get what is fastest between own memory. Takes a few milliseconds.
pub fn measure(aperture: Option<&Region>) -> Measurement {
    let own = Region::heap(APERTURE_BYTES);
    let aperture = aperture.filter(|region| region.len() >= APERTURE_BYTES);
    let memory = |side| match side {
        Side::Own => Some(&own),
        Side::Aperture => aperture,
    };
    let mut ticks = [[None; Routine::ALL.len()]; PAIRS.len()];
    for (ticks, (from, to)) in ticks.iter_mut().zip(PAIRS) {
        if let (Some(from), Some(to)) = (memory(from), memory(to)) {
            *ticks = measure_pair(from, to);
        }
    }
    let mut fastest = [Routine::Words; PAIRS.len()];
    for index in 0..PAIRS.len() {
        fastest[index] = fastest_of(&ticks[index]).unwrap_or(fastest[0]);
    }
    Measurement {
        choices: Choices::of(fastest),
        ticks,
    }
}

fn fastest_of(ticks: &[Option<u64>; Routine::ALL.len()]) -> Option<Routine> {
    let measured = Routine::ALL.into_iter().zip(ticks);
    let measured = measured.filter_map(|(routine, ticks)| Some((routine, (*ticks)?)));
    measured
        .min_by_key(|(_, ticks)| *ticks)
        .map(|(routine, _)| routine)
}

/// Both regions have [`APERTURE_BYTES`].
fn measure_pair(from: &Region, to: &Region) -> [Option<u64>; Routine::ALL.len()] {
    const TARGET: usize = MEASURED_BYTES + GAP_BYTES;
    let mut best = [None; Routine::ALL.len()];
    // Pages that were never touched are no matter of routines.
    if to.copy_from(TARGET, from, 0, MEASURED_BYTES).is_err() {
        return best;
    }
    let begin = ticks();
    for round in 0..*ROUNDS.end() {
        if round >= *ROUNDS.start() && ticks().wrapping_sub(begin) > TICKS_FOR_PAIR {
            break;
        }
        for routine in Routine::ALL.into_iter().filter(|r| r.is_available()) {
            let start = ticks();
            // SAFETY: the routine is available.
            let copied = unsafe { to.copy_from_by(routine, TARGET, from, 0, MEASURED_BYTES) };
            let ticks = ticks().wrapping_sub(start);
            if copied.is_ok() {
                let slot = &mut best[usize::from(routine.number())];
                *slot = Some(slot.map_or(ticks, |best: u64| best.min(ticks)));
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_routine_is_chosen_for_each_pair() {
        let ticks = [Some(9), None, Some(4), Some(5), None, Some(8)];
        assert_eq!(fastest_of(&ticks), Some(Routine::Avx));
        assert_eq!(fastest_of(&[None; 6]), None);

        let alone = measure(None);
        let short = measure(Some(&Region::heap(APERTURE_BYTES - 1)));
        let both = measure(Some(&Region::heap(APERTURE_BYTES)));
        for routine in Routine::ALL.into_iter().filter(|r| r.is_available()) {
            let index = usize::from(routine.number());
            assert!(alone.ticks[0][index].is_some_and(|ticks| ticks > 0));
            assert!(both.ticks.iter().all(|pair| pair[index].is_some()));
        }
        assert_eq!(alone.ticks[1..], [[None; 6]; 3]);
        assert_eq!(short.ticks[1..], [[None; 6]; 3]);
        let own = alone.choices.routine(Side::Own, Side::Own);
        assert_eq!(alone.choices, Choices::of([own; 4]));
        for ((from, to), ticks) in PAIRS.into_iter().zip(&both.ticks) {
            let choice = both.choices.routine(from, to);
            let chosen = ticks[usize::from(choice.number())];
            assert!(ticks.iter().flatten().all(|&other| chosen <= Some(other)));
        }
        let lines = [&alone, &both].map(|found| alloc::format!("{found}"));
        assert!(lines[0].starts_with(&alloc::format!("own to own {own}")));
        assert!(!lines[0].contains("aperture") && lines[1].contains("aperture to aperture"));
        assert_eq!(alone.rate(own, Side::Own, Side::Aperture), None);
        assert!(both.rate(Routine::Words, Side::Own, Side::Aperture) > Some(0));
    }
}
