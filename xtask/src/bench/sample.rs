//! What the measuring programs print, read and gathered.
//!
//! A result is one line of JSON that begins with `{"test":`; a line that begins with `# ` says what
//! comes next; everything else on a console is something else. A measure is repeated inside a boot
//! and over boots: its value is the median of all repetitions, its spread their least and largest.

use crate::bench::results::absolute;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a result's line begins.
const RESULT: &str = "{\"test\":";
/// How a progress line begins.
const PROGRESS: &str = "# ";

/// One result as printed. Times are in nanoseconds, rates in bytes per second; `unit` says which.
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
    /// How messages go: `direct` or `file`.
    path: Option<String>,
    /// How the sides wait: `poll`, `yield` or `block`.
    wait: Option<String>,
    /// Which of several ways to do the same; the best one counts.
    #[serde(default)]
    routine: String,
}

impl Printed {
    /// The name of the measure: the test's, with what else makes it another measure.
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

/// A measure: what was done, and its size in bytes or whatever else grows.
pub type Key = (String, u64);

/// All repetitions of a measure.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    /// `ns` or `bytes_per_s`.
    pub unit: String,
    /// Single values behind the repetitions.
    pub n: u64,
    /// The median of each repetition.
    pub repetitions: Vec<f64>,
    /// The 90th percentile of each boot.
    pub p90: Vec<f64>,
    /// The 99th percentile of each boot.
    pub p99: Vec<f64>,
}

impl Sample {
    /// The median of the repetitions.
    pub fn median(&self) -> Option<f64> {
        median(&self.repetitions)
    }

    /// Whether its median is: of times the shorter one, of rates the higher one.
    fn is_better_than(&self, other: &Self) -> bool {
        match self.unit.as_str() {
            "ns" => self.median() < other.median(),
            _ => self.median() > other.median(),
        }
    }

    /// The least and the largest repetition.
    pub fn spread(&self) -> Option<[f64; 2]> {
        let least = self.repetitions.iter().copied().reduce(f64::min)?;
        let largest = self.repetitions.iter().copied().reduce(f64::max)?;
        Some([least, largest])
    }
}

/// The median; of an even number the mean of the two in the middle; of none nothing.
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

/// What a line of a console was.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A result, taken; in words, unless it is one of several routines.
    Result(Option<String>),
    /// What comes next.
    Progress(String),
    /// A result that says that a measure failed, or that cannot be understood.
    Failure(String),
    /// Something else.
    Other,
}

/// All results of a run.
#[derive(Debug, Default)]
pub struct Samples {
    /// By measure and routine.
    samples: BTreeMap<(Key, String), Sample>,
    errors: BTreeMap<Key, String>,
}

impl Samples {
    /// Takes a line of a console. `prefix` tells measures apart that a program gives one name.
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
        let place = (key.clone(), printed.routine);
        let sample = self.samples.entry(place).or_default();
        if !sample.unit.is_empty() && sample.unit != printed.unit {
            let why = format!("in {} here, in {} before", printed.unit, sample.unit);
            return fail(self, why);
        }
        sample.unit = printed.unit;
        sample.n += printed.n;
        sample.repetitions.extend(repetitions);
        sample.p90.extend(printed.p90);
        sample.p99.extend(printed.p99);
        Ok(())
    }

    /// Adds a time that this tool took itself.
    pub fn add_time(&mut self, test: &str, nanoseconds: f64) {
        let place = ((test.to_string(), 0), String::new());
        let sample = self.samples.entry(place).or_default();
        sample.unit = "ns".to_string();
        sample.n += 1;
        sample.repetitions.push(nanoseconds);
    }

    /// The results of a measure, those of the best routine if there are several.
    pub fn get(&self, test: &str, size: u64) -> Option<&Sample> {
        let first = ((test.to_string(), size), String::new());
        let routines = self
            .samples
            .range(first..)
            .take_while(|(((name, bytes), _), _)| name == test && *bytes == size);
        routines
            .map(|(_, sample)| sample)
            .reduce(|best, other| match other.is_better_than(best) {
                true => other,
                false => best,
            })
    }

    /// Why there is no result of a measure.
    pub fn why_not(&self, test: &str, size: u64) -> String {
        match self.errors.get(&(test.to_string(), size)) {
            Some(error) => format!("{test} of {size}: {error}"),
            None => format!("{test} of {size} was not measured"),
        }
    }

    /// All sizes of a measure with their results.
    pub fn series(&self, test: &str) -> Vec<(u64, &Sample)> {
        let first = ((test.to_string(), 0), String::new());
        let named = self.samples.range(first..);
        let mut sizes: Vec<u64> = named
            .take_while(|(((name, _), _), _)| name == test)
            .map(|(((_, size), _), _)| *size)
            .collect();
        sizes.dedup();
        sizes
            .into_iter()
            .filter_map(|size| Some((size, self.get(test, size)?)))
            .collect()
    }

    /// Everything, in order: measure, routine, results.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &str, &Sample)> {
        self.samples
            .iter()
            .map(|((key, routine), sample)| (key, routine.as_str(), sample))
    }

    /// Measures that failed, with the reason.
    pub fn errors(&self) -> impl Iterator<Item = (&Key, &String)> {
        self.errors.iter()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Results as a program would print them.
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

    #[test]
    fn the_way_of_a_message_is_part_of_the_name() {
        let mut samples = Samples::default();
        for (test, path, wait, name) in [
            ("rtt", "direct", "poll", "x_rtt"),
            ("rtt", "direct", "block", "x_rtt_block"),
            ("rtt", "file", "yield", "x_rtt_file"),
            ("file_stream", "file", "poll", "x_file_stream"),
            ("rtt_block", "direct", "block", "x_rtt_block"),
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
