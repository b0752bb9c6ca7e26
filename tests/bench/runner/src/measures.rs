//! The comparisons: values, ratios and goals.

use crate::sample::{Sample, Samples, pairs};
use serde::Serialize;

/// The source of a value.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// The median of a test at a size.
    At(&'static str, u64),
    /// The median of the least repetition of each boot of a test at a size: the time it takes
    /// undisturbed.
    Least(&'static str, u64),
    /// The best of several tests: the shortest time, or the highest rate.
    Best(&'static [(&'static str, u64)]),
    /// The worst of several tests: the longest time, or the lowest rate.
    Worst(&'static [(&'static str, u64)]),
    /// The least size at which a test reaches half of its best rate; of several tests the largest
    /// such size.
    HalfPeak(&'static [&'static str]),
}

/// The value that ours is compared with.
#[derive(Debug, Clone, Copy)]
pub enum Against {
    /// The limit of the machine.
    Limit(Source),
    /// The system that a user would use instead.
    Peer(Source),
    /// The same test at this size, with few of what grows. Seconds pass between the two, so both
    /// are first divided by their yardsticks (see [`relative`]).
    Few(u64),
    /// Nothing, because the goal is a value.
    Nothing,
}

/// How the ratio is computed, and what it must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Our value divided by the other must not exceed this.
    AtMost(f64),
    /// Our value divided by the other must reach this.
    AtLeast(f64),
    /// The other value divided by ours must reach this factor (for times).
    TimesFaster(f64),
}

impl Goal {
    /// Returns the number of the goal.
    pub fn value(self) -> f64 {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) | Self::TimesFaster(value) => value,
        }
    }

    /// Returns in words whether the goal is an upper or a lower bound.
    pub fn kind(self) -> &'static str {
        match self {
            Self::AtMost(_) => "at most",
            Self::AtLeast(_) | Self::TimesFaster(_) => "at least",
        }
    }

    /// Returns the ratio of two positive values.
    pub fn ratio(self, ours: f64, other: f64) -> f64 {
        match self {
            Self::AtMost(_) | Self::AtLeast(_) => ours / other,
            Self::TimesFaster(_) => other / ours,
        }
    }

    /// Returns whether a ratio meets the goal.
    fn met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) | Self::TimesFaster(least) => ratio >= least,
        }
    }

    /// Returns the verdict on a ratio, given the quartiles of the ratios behind it.
    pub fn verdict(self, quartiles: [f64; 2]) -> Verdict {
        match quartiles.map(|ratio| self.met(ratio)) {
            [true, true] => Verdict::Met,
            [false, false] => Verdict::Missed,
            _ => Verdict::Undecided,
        }
    }
}

/// Whether a goal is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Both quartiles meet the goal.
    Met,
    /// Neither quartile meets the goal.
    Missed,
    /// The goal lies between the quartiles, or there are too few ratios for quartiles.
    Undecided,
}

/// A measure of the table.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    /// The short name, in `results.json`.
    pub name: &'static str,
    /// The title, for people.
    pub title: &'static str,
    /// Our value.
    pub ours: Source,
    /// The value it is compared with.
    pub against: Against,
    /// The goal.
    pub goal: Goal,
}

/// A value, and the repetitions it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The median.
    pub median: f64,
    /// Its unit.
    pub unit: String,
    /// All repetitions; empty if the value is not their median.
    pub sample: Sample,
}

impl Source {
    /// Returns the value, or the reason why there is none.
    pub fn value(&self, samples: &Samples) -> Result<Value, String> {
        match self {
            Self::At(test, size) => at(samples, test, *size),
            Self::Least(test, size) => {
                let value = at(samples, test, *size)?;
                let least = value.sample.least();
                let median = least.median().ok_or("nothing was measured")?;
                Ok(Value {
                    median,
                    sample: least,
                    ..value
                })
            }
            Self::Best(places) => extreme(samples, places, true),
            Self::Worst(places) => extreme(samples, places, false),
            Self::HalfPeak(tests) => half_peak(samples, tests),
        }
    }
}

fn at(samples: &Samples, test: &str, size: u64) -> Result<Value, String> {
    let found = samples.get(test, size).and_then(|sample| {
        Some(Value {
            median: sample.median()?,
            unit: sample.unit.clone(),
            sample,
        })
    });
    found.ok_or_else(|| samples.why_not(test, size))
}

/// Returns the best or the worst of several values. All must have been measured, because a missing
/// one could be the best or worst.
fn extreme(samples: &Samples, places: &[(&str, u64)], best: bool) -> Result<Value, String> {
    let mut chosen: Option<Value> = None;
    for (test, size) in places {
        let value = at(samples, test, *size)?;
        let higher_is_better = !matches!(value.unit.as_str(), "ns" | "bytes");
        let better = |old: &Value| (value.median > old.median) == (higher_is_better == best);
        if chosen.as_ref().is_none_or(better) {
            chosen = Some(value);
        }
    }
    chosen.ok_or_else(|| "nothing to choose from".to_string())
}

fn half_peak(samples: &Samples, tests: &[&str]) -> Result<Value, String> {
    let mut largest: Option<u64> = None;
    for test in tests {
        let series: Vec<_> = samples
            .series(test)
            .into_iter()
            .filter_map(|(size, sample)| Some((size, sample.median()?)))
            .collect();
        let peak = series.iter().map(|(_, rate)| *rate).reduce(f64::max);
        let peak = peak.ok_or_else(|| format!("{test} was not measured"))?;
        let first = series.iter().position(|(_, rate)| *rate >= peak / 2.0);
        // Smaller sizes may reach it, too.
        let first = first.filter(|first| *first > 0);
        let first = first.ok_or_else(|| format!("{test} was not measured with smaller sizes"))?;
        largest = largest.max(Some(series[first].0));
    }
    let size = largest.ok_or_else(|| "nothing was measured".to_string())?;
    Ok(Value {
        median: size as f64,
        unit: "bytes".to_string(),
        sample: Sample::default(),
    })
}

/// Returns the time of each repetition of a test of growth, as a multiple of its yardstick. The
/// yardstick (the test `…_yard`) runs in turn with the test and cannot depend on what grows, so
/// the multiple does not depend on the machine's changing speed.
pub fn relative(samples: &Samples, test: &str, size: u64) -> Result<Vec<f64>, String> {
    let of = |test: &str| {
        let sample = samples.get(test, size);
        sample.ok_or_else(|| samples.why_not(test, size))
    };
    let (_, pairs) = pairs(&of(test)?, &of(&format!("{test}_yard"))?);
    match pairs.is_empty() {
        true => Err(format!(
            "{test} of {size} was not measured with its yardstick"
        )),
        false => Ok(pairs.iter().map(|(value, yard)| value / yard).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::samples;
    use crate::table::MEASURES;

    #[test]
    fn names_are_unique_and_goals_positive() {
        let mut names: Vec<_> = MEASURES.iter().map(|measure| measure.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MEASURES.len());
        assert!(MEASURES.iter().all(|measure| measure.goal.value() > 0.0));
    }

    #[test]
    fn goals() {
        assert!(Goal::AtMost(1.05).met(1.05) && !Goal::AtMost(1.05).met(1.06));
        assert!(Goal::AtLeast(0.95).met(0.95) && !Goal::AtLeast(0.95).met(0.94));
        assert_eq!(Goal::AtLeast(20.0).ratio(40.0, 2.0), 20.0);
        assert_eq!(Goal::TimesFaster(300.0).ratio(2.0, 800.0), 400.0);
        assert!(Goal::TimesFaster(300.0).met(400.0) && !Goal::TimesFaster(300.0).met(200.0));
    }

    #[test]
    fn a_goal_between_the_quartiles_is_undecided() {
        let most = Goal::AtMost(2.0);
        assert_eq!(most.verdict([1.0, 2.0]), Verdict::Met);
        assert_eq!(most.verdict([1.9, 2.1]), Verdict::Undecided);
        assert_eq!(most.verdict([2.1, 3.0]), Verdict::Missed);
        let least = Goal::AtLeast(2.0);
        assert_eq!(least.verdict([2.0, 3.0]), Verdict::Met);
        assert_eq!(least.verdict([1.9, 2.1]), Verdict::Undecided);
        assert_eq!(least.verdict([1.0, 1.9]), Verdict::Missed);
    }

    #[test]
    fn the_best_time_is_short_and_the_best_rate_high() {
        let samples = samples(&[
            ("a", 1, "ns", 10.0),
            ("b", 1, "ns", 20.0),
            ("c", 1, "bytes_per_s", 10.0),
            ("d", 1, "bytes_per_s", 20.0),
        ]);
        let value = |source: Source| source.value(&samples).unwrap().median;
        assert_eq!(value(Source::Best(&[("a", 1), ("b", 1)])), 10.0);
        assert_eq!(value(Source::Worst(&[("a", 1), ("b", 1)])), 20.0);
        assert_eq!(value(Source::Best(&[("c", 1), ("d", 1)])), 20.0);
        assert_eq!(value(Source::Worst(&[("d", 1), ("c", 1)])), 10.0);
    }

    #[test]
    fn the_least_repetition_of_each_boot_counts() {
        let mut samples = samples(&[("a", 1, "ns", 30.0)]);
        samples.begin(7);
        for repetitions in ["[20,10,40]", "[15]"] {
            let line =
                format!(r#"{{"test":"a","size":1,"unit":"ns","repetitions":{repetitions}}}"#);
            samples.take("", &line);
        }
        let value = Source::Least("a", 1).value(&samples).unwrap();
        assert_eq!(
            (value.median, value.sample.repetitions),
            (20.0, vec![30.0, 10.0])
        );
    }

    #[test]
    fn a_missing_one_of_several_is_an_error() {
        let samples = samples(&[("a", 1, "ns", 10.0)]);
        let error = Source::Best(&[("a", 1), ("b", 1)]).value(&samples);
        assert_eq!(error.unwrap_err(), "b of 1 was not measured");
    }

    #[test]
    fn half_of_the_peak() {
        let rates = [(64, 1.0), (4096, 4.0), (16384, 6.0), (1 << 20, 10.0)];
        let mut lines: Vec<_> = rates
            .iter()
            .map(|(size, rate)| ("read", *size, "bytes_per_s", *rate))
            .collect();
        for (size, rate) in [(8, 1.0), (64, 9.0)] {
            lines.push(("write", size, "bytes_per_s", rate));
        }
        lines.push(("large", 1 << 20, "bytes_per_s", 9.0));
        let samples = samples(&lines);
        let value = |tests| Source::HalfPeak(tests).value(&samples);
        assert_eq!(value(&["read", "write"]).unwrap().median, 16384.0);
        assert_eq!(value(&["write"]).unwrap().median, 64.0);
        assert!(value(&["none"]).is_err());
        assert_eq!(
            value(&["large"]).unwrap_err(),
            "large was not measured with smaller sizes"
        );
    }
}
