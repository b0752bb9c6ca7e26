//! Samples: reads and collects the lines that the measuring programs print.
//!
//! A result is one line of JSON that begins with `{"test":`. A line that begins with `# `
//! announces what comes next; all other lines of a console are ignored. A measure is repeated
//! inside a boot and over boots: its value is the median of all repetitions, its spread their
//! least and largest.
//!
//! The machine's speed changes within milliseconds, so each value is compared with its *neighbour*
//! ([`pairs`]): tests that ran in turn print the same word `turns`, and the i-th repetition of one
//! belongs to the i-th of the other. Values that cannot be measured in turn, because they need
//! other guests, are compared boot by boot.

use crate::numbers::absolute;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The beginning of a result's line.
const RESULT: &str = "{\"test\":";
/// The beginning of a progress line.
const PROGRESS: &str = "# ";

/// One result as printed. Times are in nanoseconds, rates in bytes per second, as `unit` tells.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Printed {
    test: String,
    size: u64,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    n: u64,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    #[serde(default)]
    repetitions: Vec<f64>,
    error: Option<String>,
    /// The path of messages: `bypass` or `file`.
    path: Option<String>,
    /// How the sides wait: `poll`, `yield` or `block`.
    wait: Option<String>,
    /// The name of one of several ways to do the same; the best one counts.
    #[serde(default)]
    routine: String,
    /// The tests that ran in turn with this one.
    #[serde(default)]
    turns: String,
}

impl Printed {
    /// Returns the name of the measure: that of the test, with the words that make it another
    /// measure.
    fn name(&self, prefix: &str) -> String {
        let mut name = format!("{prefix}{}", self.test);
        for (key, word) in [(&self.path, "file"), (&self.wait, "block")] {
            if key.as_deref() == Some(word) && !name.contains(word) {
                name.push('_');
                name.push_str(word);
            }
        }
        name
    }
}

/// The key of a measure: its name, and its size in bytes or in whatever else grows.
pub type Key = (String, u64);

/// The contents of one line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// The boot in which it was measured; see [`Samples::begin`].
    boot: u64,
    turns: String,
    routine: String,
    n: u64,
    p90: Option<f64>,
    p99: Option<f64>,
    /// The median of each repetition.
    repetitions: Vec<f64>,
}

/// All repetitions of a measure.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    /// `ns`, `bytes_per_s`, `per_s` or `bytes`.
    pub unit: String,
    /// The number of single values behind the repetitions.
    pub n: u64,
    /// The median of each repetition.
    pub repetitions: Vec<f64>,
    /// The 90th percentile of each line.
    pub p90: Vec<f64>,
    /// The 99th percentile of each line.
    pub p99: Vec<f64>,
    #[serde(skip)]
    runs: Vec<Run>,
}

impl Sample {
    fn of<'a>(unit: &str, runs: impl IntoIterator<Item = &'a Run>) -> Self {
        let mut sample = Self {
            unit: unit.to_string(),
            ..Self::default()
        };
        for run in runs {
            sample.n += run.n;
            sample.repetitions.extend(&run.repetitions);
            sample.p90.extend(run.p90);
            sample.p99.extend(run.p99);
            sample.runs.push(run.clone());
        }
        sample
    }

    /// Returns the median of the repetitions.
    pub fn median(&self) -> Option<f64> {
        median(&self.repetitions)
    }

    /// Returns the least and the largest repetition.
    pub fn spread(&self) -> Option<[f64; 2]> {
        spread(&self.repetitions)
    }

    /// Returns a sample with only the least repetition of each boot.
    pub fn least(&self) -> Self {
        let least = self.boots().into_iter().map(|boot| Run {
            boot,
            repetitions: (self.of_boot(boot).into_iter().reduce(f64::min).into_iter()).collect(),
            ..Run::default()
        });
        Self::of(&self.unit, &least.collect::<Vec<_>>())
    }

    /// Returns the repetitions of a boot.
    fn of_boot(&self, boot: u64) -> Vec<f64> {
        let runs = self.runs.iter().filter(|run| run.boot == boot);
        runs.flat_map(|run| run.repetitions.clone()).collect()
    }

    fn boots(&self) -> BTreeSet<u64> {
        self.runs.iter().map(|run| run.boot).collect()
    }
}

/// The kind of neighbours that were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Neighbours {
    /// Repetitions that followed each other.
    Turns,
    /// Medians of the same boot.
    Boots,
}

/// Returns both values of each pair of neighbours, ours first; no pairs if the two were never
/// measured in the same boot.
pub fn pairs(ours: &Sample, other: &Sample) -> (Neighbours, Vec<(f64, f64)>) {
    let mut turns = Vec::new();
    for run in ours.runs.iter().filter(|run| !run.turns.is_empty()) {
        let same = |other: &&Run| other.boot == run.boot && other.turns == run.turns;
        if let Some(other) = other.runs.iter().find(same) {
            let pairs = run.repetitions.iter().zip(&other.repetitions);
            turns.extend(pairs.map(|(ours, other)| (*ours, *other)));
        }
    }
    if !turns.is_empty() {
        return (Neighbours::Turns, turns);
    }
    let (ours_boots, other_boots) = (ours.boots(), other.boots());
    let both = ours_boots.intersection(&other_boots);
    let boots = both.filter_map(|&boot| {
        let ours = median(&ours.of_boot(boot))?;
        Some((ours, median(&other.of_boot(boot))?))
    });
    (Neighbours::Boots, boots.collect())
}

/// Returns the least and the largest value.
pub fn spread(values: &[f64]) -> Option<[f64; 2]> {
    let least = values.iter().copied().reduce(f64::min)?;
    let largest = values.iter().copied().reduce(f64::max)?;
    Some([least, largest])
}

/// Returns the lower and the upper quartile (nearest rank).
pub fn quartiles(values: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let lower = sorted.len().div_ceil(4).checked_sub(1)?;
    Some([*sorted.get(lower)?, *sorted.get(sorted.len() - 1 - lower)?])
}

/// Returns the median: for an even number of values the mean of the two in the middle; `None`
/// without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[middle - 1] + upper) / 2.0)
}

/// Returns whether a run's median is better: a shorter time, fewer bytes, or a higher rate.
fn is_better(unit: &str, run: &Run, than: &Run) -> bool {
    let (one, other) = (median(&run.repetitions), median(&than.repetitions));
    match unit {
        "ns" | "bytes" => one < other,
        _ => one > other,
    }
}

/// The meaning of a line on a console.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A result, which was recorded; in words, unless it is one of several routines.
    Result(Option<String>),
    /// An announcement of what comes next.
    Progress(String),
    /// A result that reports a failed measure, or that cannot be parsed.
    Failure(String),
    /// Any other line.
    Other,
}

/// All results of a run.
#[derive(Debug, Default)]
pub struct Samples {
    /// By measure: the unit, and the contents of the lines.
    runs: BTreeMap<Key, (String, Vec<Run>)>,
    errors: BTreeMap<Key, String>,
    boot: u64,
}

impl Samples {
    /// Assigns all further lines to this boot. Steps with the same number follow each other.
    pub fn begin(&mut self, boot: u64) {
        self.boot = boot;
    }

    /// Counts the results that were recorded.
    pub fn count(&self) -> usize {
        self.runs.values().map(|(_, runs)| runs.len()).sum()
    }

    /// Handles a line of a console. `prefix` distinguishes measures to which a program gives the
    /// same name.
    pub fn take(&mut self, prefix: &str, line: &str) -> Line {
        if let Some(text) = line.strip_prefix(PROGRESS) {
            return Line::Progress(text.to_string());
        }
        if !line.starts_with(RESULT) {
            return Line::Other;
        }
        let printed: Printed = match serde_json::from_str(line) {
            Ok(printed) => printed,
            Err(error) => return Line::Failure(format!("a result is cut or wrong: {error}")),
        };
        let shown = printed.routine.is_empty().then(|| {
            let value = printed.p50.map(|value| absolute(value, &printed.unit));
            let name = printed.name(prefix);
            format!("{name} of {}: {}", printed.size, value.unwrap_or_default())
        });
        match self.add(prefix, printed) {
            Ok(()) => Line::Result(shown),
            Err(why) => Line::Failure(why),
        }
    }

    fn add(&mut self, prefix: &str, printed: Printed) -> Result<(), String> {
        let key = (printed.name(prefix), printed.size);
        let fail = |samples: &mut Self, why: String| {
            samples.errors.insert(key.clone(), why.clone());
            Err(format!("{} of {}: {why}", key.0, key.1))
        };
        if let Some(error) = printed.error {
            return fail(self, error);
        }
        let mut repetitions = printed.repetitions;
        if repetitions.is_empty() {
            repetitions.extend(printed.p50);
        }
        let usable = |value: &f64| value.is_finite() && *value > 0.0;
        if repetitions.is_empty() || !repetitions.iter().all(usable) {
            return fail(self, "a value that is not a positive number".to_string());
        }
        let (unit, runs) = self.runs.entry(key.clone()).or_default();
        if !unit.is_empty() && *unit != printed.unit {
            let why = format!("in {} here, in {unit} before", printed.unit);
            return fail(self, why);
        }
        unit.clone_from(&printed.unit);
        runs.push(Run {
            boot: self.boot,
            turns: printed.turns,
            routine: printed.routine,
            n: printed.n,
            p90: printed.p90,
            p99: printed.p99,
            repetitions,
        });
        Ok(())
    }

    /// Adds a value that the runner measured itself.
    pub fn add_value(&mut self, test: &str, counts: &str, value: f64) {
        let boot = self.boot;
        let (unit, runs) = self.runs.entry((test.to_string(), 0)).or_default();
        *unit = counts.to_string();
        runs.push(Run {
            boot,
            n: 1,
            repetitions: vec![value],
            ..Run::default()
        });
    }

    /// Returns the results of a measure. If there were several routines, these are the results of
    /// the best one of each boot and each round of turns.
    pub fn get(&self, test: &str, size: u64) -> Option<Sample> {
        let (unit, runs) = self.runs.get(&(test.to_string(), size))?;
        let mut best: Vec<&Run> = Vec::new();
        for run in runs {
            let rival = best.iter_mut().find(|best| {
                let same = best.boot == run.boot && best.turns == run.turns;
                same && best.routine != run.routine
            });
            match rival {
                Some(rival) if is_better(unit, run, rival) => *rival = run,
                Some(_) => {}
                None => best.push(run),
            }
        }
        Some(Sample::of(unit, best))
    }

    /// Returns the reason why a measure has no result.
    pub fn why_not(&self, test: &str, size: u64) -> String {
        match self.errors.get(&(test.to_string(), size)) {
            Some(error) => format!("{test} of {size}: {error}"),
            None => format!("{test} of {size} was not measured"),
        }
    }

    /// Returns all sizes of a measure with their results.
    pub fn series(&self, test: &str) -> Vec<(u64, Sample)> {
        let named = self.runs.range((test.to_string(), 0)..);
        let sizes = named.take_while(|((name, _), _)| name == test);
        sizes
            .filter_map(|((_, size), _)| Some((*size, self.get(test, *size)?)))
            .collect()
    }

    /// Iterates over all results in order: measure, routine, results.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &str, Sample)> {
        self.runs.iter().flat_map(|(key, (unit, runs))| {
            let routines: BTreeSet<&str> = runs.iter().map(|run| run.routine.as_str()).collect();
            routines.into_iter().map(move |routine| {
                let of_it = runs.iter().filter(|run| run.routine == routine);
                (key, routine, Sample::of(unit, of_it))
            })
        })
    }

    /// Iterates over the measures that failed, with the reason.
    pub fn errors(&self) -> impl Iterator<Item = (&Key, &String)> {
        self.errors.iter()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Makes results as a program would print them.
    pub fn samples(lines: &[(&str, u64, &str, f64)]) -> Samples {
        let mut samples = Samples::default();
        for (test, size, unit, value) in lines {
            let line = format!(
                "{{\"test\":\"{test}\",\"size\":{size},\"unit\":\"{unit}\",\"n\":1,\
                 \"p50\":{value}}}"
            );
            assert!(matches!(samples.take("", &line), Line::Result(_)), "{line}");
        }
        samples
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn repetitions_of_several_boots_come_together() {
        let mut samples = Samples::default();
        for (first, p99) in [(300, 400), (310, 350)] {
            let line = format!(
                "{{\"test\":\"rtt\",\"size\":8,\"unit\":\"ns\",\"n\":10,\"min\":1,\"p50\":2,\
                 \"p90\":3,\"p99\":{p99},\"max\":5,\"extra\":\"x\",\
                 \"repetitions\":[{first},320.5]}}"
            );
            assert!(matches!(samples.take("", &line), Line::Result(_)));
        }
        let sample = samples.get("rtt", 8).unwrap();
        assert_eq!(sample.repetitions, [300.0, 320.5, 310.0, 320.5]);
        assert_eq!(sample.median(), Some(315.25));
        assert_eq!(sample.spread(), Some([300.0, 320.5]));
        assert_eq!((sample.n, &sample.p99[..]), (20, &[400.0, 350.0][..]));
    }

    #[test]
    fn the_best_routine_counts() {
        let mut samples = Samples::default();
        for (routine, rate) in [("words", 5), ("avx", 7), ("string", 6)] {
            let line = format!(
                "{{\"test\":\"copy\",\"size\":64,\"unit\":\"bytes_per_s\",\"p50\":{rate},\
                 \"routine\":\"{routine}\"}}"
            );
            assert!(matches!(samples.take("", &line), Line::Result(_)));
        }
        assert_eq!(samples.get("copy", 64).unwrap().median(), Some(7.0));
        assert_eq!(samples.series("copy").len(), 1);
        assert_eq!(samples.iter().count(), 3);
    }

    /// Makes a line of a test with its routine and the tests in turn with it.
    fn line(test: &str, routine: &str, turns: &str, repetitions: &[f64]) -> String {
        format!(
            "{{\"test\":\"{test}\",\"size\":8,\"unit\":\"ns\",\"routine\":\"{routine}\",\
             \"turns\":\"{turns}\",\"repetitions\":{repetitions:?}}}"
        )
    }

    fn taken(lines: &[(u64, String)]) -> Samples {
        let mut samples = Samples::default();
        for (boot, line) in lines {
            samples.begin(*boot);
            assert!(matches!(samples.take("", line), Line::Result(_)), "{line}");
        }
        samples
    }

    #[test]
    fn repetitions_that_followed_each_other_are_pairs() {
        let samples = taken(&[
            (1, line("ours", "", "a+b", &[1.0, 2.0])),
            (1, line("limit", "", "a+b", &[10.0, 20.0])),
            (1, line("limit", "", "", &[99.0])),
            (2, line("limit", "", "a+b", &[30.0])),
            (2, line("ours", "", "a+b", &[3.0])),
            (3, line("ours", "", "a+b", &[5.0])),
            (3, line("limit", "", "b+c", &[55.0])),
        ]);
        let get = |test| samples.get(test, 8).unwrap();
        let (neighbours, found) = pairs(&get("ours"), &get("limit"));
        assert_eq!(neighbours, Neighbours::Turns);
        assert_eq!(found, [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]);
    }

    #[test]
    fn what_did_not_run_in_turn_is_compared_by_boot() {
        let samples = taken(&[
            (1, line("ours", "", "a+b", &[1.0, 2.0, 3.0])),
            (1, line("peer", "", "", &[40.0])),
            (2, line("ours", "", "", &[4.0])),
            (3, line("peer", "", "", &[60.0])),
        ]);
        let get = |test| samples.get(test, 8).unwrap();
        let (neighbours, found) = pairs(&get("ours"), &get("peer"));
        assert_eq!(neighbours, Neighbours::Boots);
        assert_eq!(found, [(2.0, 40.0)]);
        assert!(pairs(&get("ours"), &Sample::default()).1.is_empty());
    }

    #[test]
    fn the_best_routine_of_each_boot_counts() {
        let samples = taken(&[
            (1, line("limit", "x", "t", &[5.0, 6.0])),
            (1, line("limit", "y", "t", &[7.0, 4.0])),
            (2, line("limit", "x", "t", &[9.0])),
            (2, line("limit", "y", "t", &[8.0])),
        ]);
        let limit = samples.get("limit", 8).unwrap();
        assert_eq!(limit.repetitions, [5.0, 6.0, 8.0]);
    }

    #[test]
    fn quartiles_are_values() {
        assert_eq!(quartiles(&[]), None);
        assert_eq!(quartiles(&[2.0]), Some([2.0, 2.0]));
        assert_eq!(quartiles(&[4.0, 1.0, 3.0, 2.0]), Some([1.0, 4.0]));
        let many: Vec<f64> = (1..=8).map(f64::from).collect();
        assert_eq!(quartiles(&many), Some([2.0, 7.0]));
    }

    #[test]
    fn the_way_of_a_message_is_part_of_the_name() {
        let mut samples = Samples::default();
        for (test, path, wait, name) in [
            ("rtt", "bypass", "poll", "x_rtt"),
            ("rtt", "bypass", "block", "x_rtt_block"),
            ("rtt", "file", "yield", "x_rtt_file"),
            ("file_stream", "file", "poll", "x_file_stream"),
            ("rtt_block", "bypass", "block", "x_rtt_block"),
        ] {
            let line = format!(
                "{{\"test\":\"{test}\",\"size\":1,\"unit\":\"ns\",\"p50\":1,\
                 \"path\":\"{path}\",\"wait\":\"{wait}\"}}"
            );
            assert_eq!(
                samples.take("x_", &line),
                Line::Result(Some(format!("{name} of 1: 1.00 ns")))
            );
        }
    }

    #[test]
    fn other_lines_are_told_apart() {
        let mut samples = Samples::default();
        assert_eq!(samples.take("", "kernel: version"), Line::Other);
        assert_eq!(
            samples.take("", "# next"),
            Line::Progress("next".to_string())
        );
        for broken in [
            "{\"test\":\"rtt\",\"size\":8",
            "{\"test\":\"rtt\",\"size\":-8,\"p50\":1}",
            "{\"test\":\"rtt\",\"size\":8,\"unit\":\"ns\"}",
            "{\"test\":\"rtt\",\"size\":8,\"unit\":\"ns\",\"p50\":0}",
            "{\"test\":\"rtt\",\"size\":8,\"unit\":\"ns\",\"p50\":1,\"repetitions\":[1,-1]}",
        ] {
            assert!(
                matches!(samples.take("", broken), Line::Failure(_)),
                "{broken}"
            );
        }
        assert!(samples.get("rtt", 8).is_none());
    }

    #[test]
    fn a_failed_measure_says_why() {
        let mut samples = Samples::default();
        let line = "{\"test\":\"rtt\",\"size\":8,\"unit\":\"ns\",\"error\":\"ECONNRESET\"}";
        assert!(matches!(samples.take("", line), Line::Failure(_)));
        assert_eq!(samples.why_not("rtt", 8), "rtt of 8: ECONNRESET");
        assert_eq!(samples.why_not("rtt", 9), "rtt of 9 was not measured");
        assert_eq!(samples.errors().count(), 1);
    }

    #[test]
    fn units_do_not_mix() {
        let mut samples = samples(&[("rtt", 8, "ns", 1.0)]);
        let line = "{\"test\":\"rtt\",\"size\":8,\"unit\":\"bytes_per_s\",\"p50\":1}";
        assert!(matches!(samples.take("", line), Line::Failure(_)));
    }

    #[test]
    fn a_series_is_sorted_by_size() {
        let samples = samples(&[
            ("copy", 4096, "bytes_per_s", 2.0),
            ("copy", 64, "bytes_per_s", 1.0),
            ("copy_more", 64, "bytes_per_s", 3.0),
        ]);
        let sizes: Vec<_> = samples.series("copy").iter().map(|(s, _)| *s).collect();
        assert_eq!(sizes, [64, 4096]);
    }
}
