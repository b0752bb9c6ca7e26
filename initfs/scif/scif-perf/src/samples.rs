//! Samples of a measurement and their summary: percentiles of all samples, and the median of each
//! repetition. The spread of the medians shows how steady the machine is.

use alloc::vec::Vec;

/// The samples of a measurement, by repetition.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    all: Vec<f64>,
    medians: Vec<f64>,
}

/// The summary of a measurement, in the unit of its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// The least sample.
    pub min: f64,
    /// 1 of 100 samples is at most this.
    pub p1: f64,
    /// 10 of 100 samples are at most this.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// 90 of 100 samples are at most this.
    pub p90: f64,
    /// 99 of 100 samples are at most this.
    pub p99: f64,
    /// The greatest sample.
    pub max: f64,
    /// The median of each repetition, in the order of the repetitions.
    pub repetitions: Vec<f64>,
}

impl Samples {
    /// No samples yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a repetition; one without samples does not count.
    pub fn add(&mut self, mut repetition: Vec<f64>) {
        repetition.sort_unstable_by(f64::total_cmp);
        if let Some(median) = percentile(&repetition, 50) {
            self.medians.push(median);
            self.all.append(&mut repetition);
        }
    }

    /// These samples, each multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let scaled = |list: &[f64]| list.iter().map(|sample| sample * factor).collect();
        Self {
            all: scaled(&self.all),
            medians: scaled(&self.medians),
        }
    }

    /// The summary; `None` without samples.
    pub fn summary(mut self) -> Option<Summary> {
        self.all.sort_unstable_by(f64::total_cmp);
        let all = &self.all;
        Some(Summary {
            count: all.len(),
            min: *all.first()?,
            p1: percentile(all, 1)?,
            p10: percentile(all, 10)?,
            p50: percentile(all, 50)?,
            p90: percentile(all, 90)?,
            p99: percentile(all, 99)?,
            max: *all.last()?,
            repetitions: self.medians,
        })
    }
}

/// The smallest of the sorted samples that at least `percent` of 100 samples do not exceed; `None`
/// without samples.
pub fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::new();
        samples.add((1..=50).rev().map(f64::from).collect());
        samples.add((51..=100).map(f64::from).collect());
        samples.add(Vec::new());
        let summary = samples.summary().unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (100, 1.0, 100.0));
        let percentiles = (summary.p50, summary.p90, summary.p99);
        assert_eq!(percentiles, (50.0, 90.0, 99.0));
        assert_eq!(summary.repetitions, [25.0, 75.0]);
    }

    #[test]
    fn samples_are_scaled_with_their_medians() {
        let mut samples = Samples::new();
        samples.add(vec![1.0, 2.0, 4.0]);
        let summary = samples.scaled(8.0).summary().unwrap();
        assert_eq!((summary.min, summary.max), (8.0, 32.0));
        assert_eq!(summary.repetitions, [16.0]);
        assert_eq!(samples.summary().unwrap().max, 4.0);
    }

    #[test]
    fn few_samples() {
        assert_eq!(Samples::new().summary(), None);
        let mut one = Samples::new();
        one.add(vec![7.0]);
        let summary = one.summary().unwrap();
        assert_eq!((summary.min, summary.p50, summary.p99), (7.0, 7.0, 7.0));
        let mut two = Samples::new();
        two.add(vec![3.0, 1.0]);
        let summary = two.summary().unwrap();
        assert_eq!((summary.p50, summary.p90), (1.0, 3.0));
    }
}
