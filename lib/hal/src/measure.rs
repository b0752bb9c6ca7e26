//! Finds the copy routine that is fastest here, by trying all of them.

use core::fmt;

use crate::clock::ticks;
use crate::copy::{Choices, PAIRS, Routine, Routines, Side, SizeClass, pair_index};
use crate::mem::Region;

/// Bytes of one measured copy of each [`SizeClass`]: enough for a loop to get going.
const MEASURED_BYTES: [usize; SizeClass::ALL.len()] = [4 << 10, 64 << 10, 512 << 10];

/// Bytes between source and target. Distances of a large power of two are slow under an emulator,
/// which would be measured instead.
const GAP_BYTES: usize = 4096 + 64;

/// Bytes of aperture that [`measure`] needs at least: room for a short copy's source and target,
/// and the gap between them.
pub const APERTURE_BYTES: usize = room(SizeClass::Short);

/// Bytes that measuring copies of a class takes on each side.
const fn room(class: SizeClass) -> usize {
    2 * MEASURED_BYTES[class as usize] + GAP_BYTES
}

/// Least and most copies that each routine makes for a pair. The fastest copy counts: the first
/// may meet cold code, and any may be interrupted.
const ROUNDS: core::ops::RangeInclusive<usize> = 3..=8;

/// Ticks after which a pair gets no more than the least rounds: about a millisecond, so that
/// start-up stays short even on a slow bus.
const TICKS_FOR_PAIR: u64 = 3_000_000;

/// A routine whose best copy took more than this many times as long as the fastest routine's is
/// not tried again.
const HOPELESS: u64 = 4;

/// Ticks of the fastest copy of each routine; `None`: not tried.
type Ticks = [Option<u64>; Routine::ALL.len()];

/// The result of [`measure`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Measurement {
    /// The fastest routine of each pair and size class.
    pub choices: Choices,
    /// By pair and size class.
    ticks: [[Ticks; SizeClass::ALL.len()]; PAIRS.len()],
}

impl Measurement {
    /// The bytes that a routine moves in 100 ticks between a pair of sides; `None`: not measured.
    pub fn rate(&self, routine: Routine, from: Side, to: Side, class: SizeClass) -> Option<u64> {
        let ticks = &self.ticks[pair_index(from, to)][class as usize];
        let ticks = ticks[usize::from(routine.number())]?;
        Some(100 * MEASURED_BYTES[class as usize] as u64 / ticks.max(1))
    }
}

impl fmt::Display for Measurement {
    /// Each pair's choices and their rates.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (from, to) in PAIRS {
            for class in SizeClass::ALL {
                let bytes = MEASURED_BYTES[class as usize];
                let routine = self.choices.routine(from, to, bytes);
                if let Some(rate) = self.rate(routine, from, to, class) {
                    write!(f, "{separator}{from} to {to} {class} {routine} {rate}")?;
                    separator = ", ";
                }
            }
        }
        f.write_str(" (bytes in 100 ticks)")
    }
}

/// Measures all available routines and chooses the fastest for each pair of sides and each size
/// class. Takes some ten milliseconds.
///
/// `aperture` is memory behind a bus of at least [`APERTURE_BYTES`] whose content is unused.
/// Without it, the pairs with an aperture use the routines that are fastest between own memory. A
/// size class for which it has no room uses the routine that is fastest for the class below.
pub fn measure(aperture: Option<&Region>) -> Measurement {
    let own = Region::heap(room(SizeClass::Long));
    let mut ticks = [[[None; Routine::ALL.len()]; SizeClass::ALL.len()]; PAIRS.len()];
    for (ticks, (from, to)) in ticks.iter_mut().zip(PAIRS) {
        for (ticks, class) in ticks.iter_mut().zip(SizeClass::ALL) {
            let memory = |side| match side {
                Side::Own => Some(&own),
                Side::Aperture => aperture.filter(|region| region.len() >= room(class)),
            };
            if let (Some(from), Some(to)) = (memory(from), memory(to)) {
                *ticks = measure_pair(from, to, MEASURED_BYTES[class as usize]);
            }
        }
    }
    Measurement {
        choices: Choices::of(chosen(&ticks)),
        ticks,
    }
}

/// The fastest routines of all pairs.
fn chosen(ticks: &[[Ticks; SizeClass::ALL.len()]; PAIRS.len()]) -> [Routines; PAIRS.len()] {
    let mut chosen = [[Routine::Words; SizeClass::ALL.len()]; PAIRS.len()];
    for (pair, ticks) in ticks.iter().enumerate() {
        // A pair that was not measured uses the routines of the first pair, own to own.
        chosen[pair] = chosen[0];
        let mut below = None;
        for (class, ticks) in ticks.iter().enumerate() {
            below = fastest_of(ticks).or(below);
            chosen[pair][class] = below.unwrap_or(chosen[pair][class]);
        }
    }
    chosen
}

fn fastest_of(ticks: &Ticks) -> Option<Routine> {
    let measured = Routine::ALL.into_iter().zip(ticks);
    let measured = measured.filter_map(|(routine, ticks)| Some((routine, (*ticks)?)));
    measured
        .min_by_key(|(_, ticks)| *ticks)
        .map(|(routine, _)| routine)
}

/// Measures all available routines between two regions, which have room for two copies and the
/// gap.
fn measure_pair(from: &Region, to: &Region, bytes: usize) -> Ticks {
    let target = bytes + GAP_BYTES;
    let mut best = [None; Routine::ALL.len()];
    // Touch all pages first, so that no page fault is measured.
    if to.copy_from(target, from, 0, bytes).is_err() {
        return best;
    }
    let begin = ticks();
    for round in 0..*ROUNDS.end() {
        if round >= *ROUNDS.start() && ticks().wrapping_sub(begin) > TICKS_FOR_PAIR {
            break;
        }
        for routine in Routine::ALL.into_iter().filter(|r| r.is_available()) {
            let slot = usize::from(routine.number());
            let least = best.iter().flatten().copied().min();
            let is_hopeless = |own: u64| least.is_some_and(|least| own / HOPELESS > least);
            if best[slot].is_some_and(is_hopeless) {
                continue;
            }
            let start = ticks();
            // SAFETY: the routine is available.
            let copied = unsafe { to.copy_from_by(routine, target, from, 0, bytes) };
            let ticks = ticks().wrapping_sub(start);
            if copied.is_ok() {
                best[slot] = Some(best[slot].map_or(ticks, |best: u64| best.min(ticks)));
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Ticks = [None; Routine::ALL.len()];

    #[test]
    fn the_fastest_routine_is_chosen_for_each_pair() {
        let ticks = [Some(9), None, Some(4), Some(5), None, Some(8)];
        assert_eq!(fastest_of(&ticks), Some(Routine::Avx));
        assert_eq!(fastest_of(&NONE), None);

        let alone = measure(None);
        let short = measure(Some(&Region::heap(APERTURE_BYTES - 1)));
        let both = measure(Some(&Region::heap(room(SizeClass::Long))));
        for routine in Routine::ALL.into_iter().filter(|r| r.is_available()) {
            let index = usize::from(routine.number());
            let is_measured = |ticks: &Ticks| ticks[index].is_some_and(|ticks| ticks > 0);
            assert!(alone.ticks[0].iter().all(is_measured));
            assert!(both.ticks.as_flattened().iter().all(is_measured));
        }
        assert_eq!(alone.ticks[1..], [[NONE; 3]; 3]);
        assert_eq!(short.ticks[1..], [[NONE; 3]; 3]);
        for ((from, to), ticks) in PAIRS.into_iter().zip(&both.ticks) {
            for (ticks, bytes) in ticks.iter().zip(MEASURED_BYTES) {
                let own = alone.choices.routine(Side::Own, Side::Own, bytes);
                assert_eq!(alone.choices.routine(from, to, bytes), own);
                let choice = both.choices.routine(from, to, bytes);
                let chosen = ticks[usize::from(choice.number())];
                assert!(ticks.iter().flatten().all(|&other| chosen <= Some(other)));
            }
        }
        let own = alone.choices.routine(Side::Own, Side::Own, 1);
        let lines = [&alone, &both].map(|found| alloc::format!("{found}"));
        assert!(lines[0].starts_with(&alloc::format!("own to own short {own}")));
        assert!(!lines[0].contains("aperture") && lines[1].contains("aperture to aperture long"));
        let rate = |found: &Measurement, class| {
            found.rate(Routine::Words, Side::Own, Side::Aperture, class)
        };
        assert_eq!(rate(&alone, SizeClass::Short), None);
        assert!(rate(&both, SizeClass::Long) > Some(0));
    }

    #[test]
    fn a_class_without_room_is_as_the_one_below() {
        let one = |routine: Routine| {
            let mut ticks = NONE;
            ticks[usize::from(routine.number())] = Some(1);
            ticks
        };
        let own = [Routine::Words, Routine::Sse2, Routine::Streaming];
        let short_only = [one(Routine::Sse2), NONE, NONE];
        let chosen = chosen(&[own.map(one), [NONE; 3], short_only, [NONE; 3]]);
        assert_eq!(chosen, [own, own, [Routine::Sse2; 3], own]);
    }
}
