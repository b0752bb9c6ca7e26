//! Numbers in units for people.

/// Formats a number with three or four significant digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.095 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Formats a value with its unit: times in ns to s, rates in MB/s or GB/s (powers of ten), sizes
/// in bytes.
pub fn absolute(value: f64, unit: &str) -> String {
    let scaled = |factors: &[(f64, &str)]| {
        let fits = factors.iter().find(|(factor, _)| value >= *factor);
        let (factor, name) = fits.or(factors.last()).copied().unwrap_or((1.0, ""));
        format!("{} {name}", digits(value / factor))
    };
    match unit {
        "ns" => scaled(&[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")]),
        "bytes_per_s" => scaled(&[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")]),
        "bytes" => format!("{value:.0} B"),
        other => format!("{} {other}", digits(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(absolute(310.0, "ns"), "310 ns");
        assert_eq!(absolute(404_000.0, "ns"), "404 µs");
        assert_eq!(absolute(1_910_000_000.0, "ns"), "1.91 s");
        assert_eq!(absolute(0.5, "ns"), "0.50 ns");
        assert_eq!(absolute(4_560_000_000.0, "bytes_per_s"), "4.56 GB/s");
        assert_eq!(absolute(179_000_000.0, "bytes_per_s"), "179 MB/s");
        assert_eq!(absolute(16384.0, "bytes"), "16384 B");
    }
}
