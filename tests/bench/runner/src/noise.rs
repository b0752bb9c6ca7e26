//! The machine's noise during a run: processor time that its hypervisor and other programs took,
//! and how far the repetitions of limits, which do the same each time, differ.

use crate::numbers::{absolute, digits};
use crate::sample::{Samples, quartiles};
use serde::Serialize;

/// The disturbances of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Noise {
    /// All steps, in order.
    pub steps: Vec<Taken>,
    /// Limits whose repetitions are spread over the run.
    pub limits: Vec<Repeated>,
}

/// Processor time that others took during a step, as shares of the time of all processors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Taken {
    /// The name of the step.
    pub step: String,
    /// The time of all processors together, in seconds.
    pub seconds: f64,
    /// The share that the hypervisor gave to other machines while a program wanted to run here.
    pub stolen: f64,
    /// The share that other programs of this machine used.
    pub others: f64,
}

/// A limit that was measured repeatedly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repeated {
    /// The name of the test.
    pub test: &'static str,
    /// The size of the test in bytes.
    pub size: u64,
    /// The unit of the values: `ns` or `bytes_per_s`.
    pub unit: String,
    /// Number of repetitions.
    pub repetitions: usize,
    /// The least and the largest repetition.
    pub spread: [f64; 2],
    /// Quartiles of the repetitions.
    pub quartiles: [f64; 2],
}

/// The limits: round trips, wake-ups and copies, in guests and natively.
const LIMITS: [(&str, u64); 5] = [
    ("bare_pingpong", 8),
    ("bare_doorbell", 8),
    ("bare_write", 1 << 20),
    ("native_pingpong", 8),
    ("native_memcpy", 1 << 20),
];

/// Ticks per second of the clock that Linux counts in `/proc`.
const TICKS: f64 = 100.0;

/// Processor times since the machine's start, in ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    busy: u64,
    stolen: u64,
    all: u64,
    own: u64,
}

impl Times {
    /// Reads the present times; `None` if the system does not report them.
    pub fn now() -> Option<Self> {
        let file = |path| std::fs::read_to_string(path).ok();
        Self::parse(&file("/proc/stat")?, &file("/proc/self/stat")?)
    }

    /// Parses the times from the texts of `/proc/stat` and `/proc/self/stat`.
    fn parse(machine: &str, process: &str) -> Option<Self> {
        let line = machine.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Option<Vec<u64>> = line
            .split_whitespace()
            .take(8)
            .map(|field| field.parse().ok())
            .collect();
        let [user, nice, system, idle, waiting, hard, soft, stolen] = fields?.try_into().ok()?;
        // The program's name, in parentheses, may contain anything.
        let (_, fields) = process.rsplit_once(')')?;
        // The program's own times and those of the children that it has waited for: user and
        // system time of each.
        let own = fields.split_whitespace().skip(11).take(4);
        let own: Option<Vec<u64>> = own.map(|field| field.parse().ok()).collect();
        let busy = user + nice + system + hard + soft;
        Some(Self {
            busy,
            stolen,
            all: busy + stolen + idle + waiting,
            own: own.filter(|own| own.len() == 4)?.iter().sum(),
        })
    }

    /// Returns the shares that others took between two readings.
    pub fn taken(before: Option<Self>, after: Option<Self>, step: &str) -> Option<Taken> {
        let (before, after) = (before?, after?);
        let all = after.all.checked_sub(before.all).filter(|all| *all > 0)? as f64;
        let part = |one: fn(&Self) -> u64| one(&after).saturating_sub(one(&before)) as f64;
        Some(Taken {
            step: step.to_string(),
            seconds: all / TICKS,
            stolen: part(|times| times.stolen) / all,
            others: (part(|times| times.busy) - part(|times| times.own)).max(0.0) / all,
        })
    }
}

impl Noise {
    /// Computes the noise of a run with these steps and results.
    pub fn of(steps: Vec<Taken>, samples: &Samples) -> Self {
        let limits = LIMITS.iter().filter_map(|&(test, size)| {
            let sample = samples.get(test, size)?;
            Some(Repeated {
                test,
                size,
                repetitions: sample.repetitions.len(),
                spread: sample.spread()?,
                quartiles: quartiles(&sample.repetitions)?,
                unit: sample.unit,
            })
        });
        Self {
            limits: limits.collect(),
            steps,
        }
    }

    /// Returns the mean of a share over the time of all steps.
    fn mean(&self, part: fn(&Taken) -> f64) -> f64 {
        let seconds: f64 = self.steps.iter().map(|step| step.seconds).sum();
        let taken = self.steps.iter().map(|step| part(step) * step.seconds);
        taken.sum::<f64>() / seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns the paragraph that describes the noise.
    pub fn text(&self) -> String {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let shares = |part: fn(&Taken) -> f64| {
            let worst = self.steps.iter().max_by(|a, b| part(a).total_cmp(&part(b)));
            let worst = worst.map_or(String::new(), |worst| {
                format!(" ({} in the step {})", percent(part(worst)), worst.step)
            });
            percent(self.mean(part)) + &worst
        };
        let mut text = match self.steps.is_empty() {
            true => "The system did not say who used its processors.".to_string(),
            false => format!(
                "Of the processors' time the hypervisor gave {} to other machines, and other \
                 programs of this machine used {}.",
                shares(|step| step.stolen),
                shares(|step| step.others)
            ),
        };
        let limits: Vec<_> = self.limits.iter().map(Repeated::text).collect();
        if !limits.is_empty() {
            text.push_str(" Repetitions of the same limit, least to largest, and half of them: ");
            text.push_str(&limits.join("; "));
            text.push('.');
        }
        text
    }
}

impl Repeated {
    fn text(&self) -> String {
        let [least, largest] = self.spread.map(|value| absolute(value, &self.unit));
        let [lower, upper] = self.quartiles.map(|value| absolute(value, &self.unit));
        let factor = digits(self.spread[1] / self.spread[0]);
        format!(
            "`{}` {least} to {largest} (a factor of {factor}), {lower} to {upper}",
            self.test
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::samples;

    const PROCESS: &str = "42 (a) name) S 1 2 3 4 5 6 7 8 9 10 100 20 30 50 20 0";

    #[test]
    fn the_time_of_others_is_what_is_left() {
        let before = "cpu  1000 0 500 8000 0 0 0 500 0 0\ncpu0 1 2 3\n";
        let after = "cpu  1300 0 600 8500 0 50 50 700 0 0\ncpu0 1 2 3\n";
        let process = PROCESS.replace(" 100 20 30 50 ", " 200 40 60 100 ");
        let before = Times::parse(before, PROCESS);
        let after = Times::parse(after, &process);
        assert_eq!(before.unwrap().own, 200);
        let taken = Times::taken(before, after, "step").unwrap();
        assert!((taken.seconds - 12.0).abs() < 1e-9);
        assert!((taken.stolen - 200.0 / 1200.0).abs() < 1e-9);
        assert!((taken.others - 300.0 / 1200.0).abs() < 1e-9);
        assert_eq!(Times::taken(after, after, "nothing passed"), None);
        assert_eq!(Times::taken(None, after, "unknown"), None);
    }

    #[test]
    fn texts_that_are_cut_are_no_times() {
        let machine = "cpu  1 2 3 4 5 6 7 8";
        assert!(Times::parse(machine, PROCESS).is_some());
        assert_eq!(Times::parse("cpu  1 2 3 4 5 6 7", PROCESS), None);
        assert_eq!(Times::parse("cpu  1 2 3 x 5 6 7 8", PROCESS), None);
        assert_eq!(Times::parse(machine, "42 (a) S 1 2"), None);
        assert_eq!(Times::parse("", ""), None);
    }

    #[test]
    fn this_system_says_its_times() {
        assert!(Times::now().is_some());
    }

    #[test]
    fn the_noise_is_told_in_words() {
        let step = |name: &str, seconds, stolen, others| Taken {
            step: name.to_string(),
            seconds,
            stolen,
            others,
        };
        let steps = vec![step("a", 1.0, 0.10, 0.0), step("b", 3.0, 0.02, 0.4)];
        let samples = samples(&[
            ("bare_pingpong", 8, "ns", 100.0),
            ("bare_pingpong", 8, "ns", 250.0),
        ]);
        let text = Noise::of(steps, &samples).text();
        for part in [
            "gave 4.0 % (10.0 % in the step a) to other machines",
            "used 30.0 % (40.0 % in the step b).",
            "`bare_pingpong` 100 ns to 250 ns (a factor of 2.50)",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
