//! Computes the lines that `make bench` reads from times.

use std::io::Write;
use std::time::Duration;

/// The unit of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes per second.
    BytesPerSecond,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::BytesPerSecond => "bytes_per_s",
        }
    }
}

/// Announces what comes next.
pub fn progress(what: &str) {
    println!("# {what}");
}

/// Returns a rate in bytes per second.
pub fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64().max(1e-9)
}

/// Returns the value below which a share of the sorted values lies (nearest rank); `None` without
/// values.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

/// Returns the line of one measure. `repetitions` holds the values of each repetition; without
/// values the line reports a failure.
fn line(test: &str, size: u64, unit: Unit, repetitions: &[Vec<f64>]) -> String {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let all = sorted(&repetitions.concat());
    let head = format!(
        "{{\"test\":\"{test}\",\"size\":{size},\"unit\":\"{}\"",
        unit.name()
    );
    let at = |share| percentile(&all, share);
    let (Some(min), Some(p50), Some(p90), Some(p99), Some(max)) =
        (at(0.0), at(0.5), at(0.9), at(0.99), at(1.0))
    else {
        return format!("{head},\"error\":\"nothing was measured\"}}");
    };
    let medians: Vec<String> = repetitions
        .iter()
        .filter_map(|values| percentile(&sorted(values), 0.5))
        .map(|median| format!("{median:.1}"))
        .collect();
    format!(
        "{head},\"n\":{},\"min\":{min:.1},\"p50\":{p50:.1},\"p90\":{p90:.1},\"p99\":{p99:.1},\
         \"max\":{max:.1},\"repetitions\":[{}]}}",
        all.len(),
        medians.join(",")
    )
}

/// Prints the line of one measure.
pub fn result(test: &str, size: u64, unit: Unit, repetitions: &[Vec<f64>]) {
    println!("{}", line(test, size, unit, repetitions));
    // The console is the only output: what it does not take is missing in the report.
    let _ = std::io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_percentiles_of_all_and_the_median_of_each() {
        let repetitions = [vec![5.0, 1.0, 3.0], vec![2.0, 4.0]];
        assert_eq!(
            line("rtt", 64, Unit::Nanoseconds, &repetitions),
            "{\"test\":\"rtt\",\"size\":64,\"unit\":\"ns\",\"n\":5,\"min\":1.0,\"p50\":3.0,\
             \"p90\":5.0,\"p99\":5.0,\"max\":5.0,\"repetitions\":[3.0,4.0]}"
        );
    }

    #[test]
    fn nothing_measured_is_an_error() {
        let text = line("copy", 1, Unit::BytesPerSecond, &[]);
        assert!(text.ends_with("\"unit\":\"bytes_per_s\",\"error\":\"nothing was measured\"}"));
    }

    #[test]
    fn rates() {
        assert_eq!(rate(1 << 20, Duration::from_millis(500)), 2.0 * 1048576.0);
    }
}
