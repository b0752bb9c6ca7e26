//! The output of a benchmark: a table for people, a JSON object on each line for programs.
//!
//! ```text
//! {"test":"rma_read","size":1048576,"unit":"bytes_per_s","n":40,"min":…,"p50":…,"p90":…,
//!  "p99":…,"max":…,"repetitions":[…]}
//! ```
//! (on one line). `n` is the number of samples, `repetitions` has the median of each repetition.
//! 90 of 100 samples are at least as good as `p90`, and 99 of 100 as `p99`: times are at most that
//! long, rates at least that high. More keys may follow `size`, each with a string or a number.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};

use crate::samples::Summary;

/// The unit of a measurement's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Nanoseconds: less is better.
    Nanoseconds,
    /// Bytes per second: more is better.
    BytesPerSecond,
    /// Connections, messages and the like per second: more is better.
    PerSecond,
    /// Bytes that an object occupies: less is better.
    Bytes,
}

impl Unit {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::BytesPerSecond => "bytes_per_s",
            Self::PerSecond => "per_s",
            Self::Bytes => "bytes",
        }
    }

    /// Whether greater values are better.
    fn more_is_better(self) -> bool {
        !matches!(self, Self::Nanoseconds | Self::Bytes)
    }

    /// The unit of the table for such a value, and the number by which to divide values.
    fn for_people(self, value: f64) -> (&'static str, f64) {
        match self {
            Self::Nanoseconds if value < 10_000.0 => ("ns", 1.0),
            Self::Nanoseconds => ("us", 1e3),
            Self::BytesPerSecond => ("MB/s", 1e6),
            Self::PerSecond => ("/s", 1.0),
            Self::Bytes => ("bytes", 1.0),
        }
    }
}

/// A result: the test, and the summary of its samples.
#[derive(Clone, Debug)]
pub struct Line {
    test: String,
    size: u64,
    unit: Unit,
    extra: Vec<(&'static str, Value)>,
    summary: Summary,
}

/// The value of a further key.
#[derive(Clone, Debug)]
enum Value {
    Text(String),
    Number(u64),
}

/// The head of the table whose lines are displayed [`Line`]s.
pub const TABLE_HEAD: &str =
    "test                      size        p50        p90        p99        min        max  unit";

impl Line {
    /// A result of `test` (a word) with a size of `size` bytes, or of whatever the test counts.
    pub fn new(test: &str, size: u64, unit: Unit, mut summary: Summary) -> Self {
        if unit.more_is_better() {
            (summary.p90, summary.p99) = (summary.p10, summary.p1);
        }
        Self {
            test: test.into(),
            size,
            unit,
            extra: Vec::new(),
            summary,
        }
    }

    /// Adds a key with a text of letters, digits and simple signs.
    #[must_use]
    pub fn with_text(mut self, key: &'static str, text: &str) -> Self {
        self.extra.push((key, Value::Text(text.into())));
        self
    }

    /// Adds a key with a number.
    #[must_use]
    pub fn with_number(mut self, key: &'static str, number: u64) -> Self {
        self.extra.push((key, Value::Number(number)));
        self
    }

    /// The median of all samples.
    pub fn median(&self) -> f64 {
        self.summary.p50
    }

    /// The JSON object, without the end of the line.
    pub fn json(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_json(&mut text);
        text
    }

    fn write_json(&self, out: &mut String) -> fmt::Result {
        let (test, size) = (&self.test, self.size);
        write!(out, "{{\"test\":\"{test}\",\"size\":{size}")?;
        for (key, value) in &self.extra {
            match value {
                Value::Text(text) => write!(out, ",\"{key}\":\"{text}\"")?,
                Value::Number(number) => write!(out, ",\"{key}\":{number}")?,
            }
        }
        let Summary {
            count,
            min,
            p50,
            p90,
            p99,
            max,
            repetitions,
            ..
        } = &self.summary;
        write!(out, ",\"unit\":\"{}\",\"n\":{count}", self.unit.name())?;
        write!(out, ",\"min\":{min:.1},\"p50\":{p50:.1},\"p90\":{p90:.1}")?;
        write!(out, ",\"p99\":{p99:.1},\"max\":{max:.1},\"repetitions\":[")?;
        for (index, median) in repetitions.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{median:.1}")?;
        }
        out.push_str("]}");
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, divisor) = self.unit.for_people(self.summary.p50);
        let mut name = self.test.clone();
        for (_, value) in &self.extra {
            name.push(' ');
            name.push_str(&match value {
                Value::Text(text) => text.clone(),
                Value::Number(number) => number.to_string(),
            });
        }
        write!(f, "{name:<20} {:>9}", size(self.size))?;
        let Summary {
            min,
            p50,
            p90,
            p99,
            max,
            ..
        } = self.summary;
        for value in [p50, p90, p99, min, max] {
            write!(f, " {:>10.1}", value / divisor)?;
        }
        write!(f, "  {unit}")
    }
}

/// A size for people: `64`, `4K`, `1M`.
pub fn size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    match bytes {
        0 => "0".into(),
        bytes if bytes.is_multiple_of(MIB) => alloc::format!("{}M", bytes / MIB),
        bytes if bytes.is_multiple_of(KIB) => alloc::format!("{}K", bytes / KIB),
        bytes => bytes.to_string(),
    }
}

/// Parses a size as [`size`] writes it, one with a `G`, or a plain number.
pub fn parse_size(word: &str) -> Option<u64> {
    let split = word.len() - usize::from(word.ends_with(['K', 'k', 'M', 'm', 'G', 'g']));
    let (digits, unit) = word.split_at_checked(split)?;
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        _ => 30,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Samples;
    use alloc::vec;

    fn line(unit: Unit) -> Line {
        let mut samples = Samples::new();
        samples.add(vec![1.0, 2.0]);
        samples.add(vec![4.0]);
        Line::new("rma_read", 4096, unit, samples.summary().unwrap())
    }

    #[test]
    fn json_is_one_object() {
        let line = line(Unit::BytesPerSecond)
            .with_text("routine", "words")
            .with_number("pairs", 2);
        assert_eq!(
            line.json(),
            "{\"test\":\"rma_read\",\"size\":4096,\"routine\":\"words\",\"pairs\":2,\
             \"unit\":\"bytes_per_s\",\"n\":3,\"min\":1.0,\"p50\":2.0,\"p90\":1.0,\"p99\":1.0,\
             \"max\":4.0,\"repetitions\":[1.0,4.0]}"
        );
    }

    #[test]
    fn the_table_lines_up() {
        let text = line(Unit::Nanoseconds).to_string();
        assert_eq!(text.len(), TABLE_HEAD.len() - "unit".len() + "ns".len());
        assert!(text.starts_with("rma_read ") && text.ends_with(" 4.0  ns"));
    }

    #[test]
    fn sizes_are_read_as_written() {
        for bytes in [0, 1, 64, 1000, 1024, 4096, 1 << 20, 3 << 20, 1 << 30] {
            assert_eq!(parse_size(&size(bytes)), Some(bytes));
        }
        assert_eq!(parse_size("2g"), Some(2 << 30));
        for wrong in ["", "K", "1X", "-1", "99999999999G", "é"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
