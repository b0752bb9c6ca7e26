//! Numbers as people write and read them.

use alloc::format;
use alloc::string::String;

/// Parses a count of bytes or blocks: decimal digits and an optional `K`, `M` or `G` (powers of
/// 1024). `None` for anything else, and if the value does not fit.
pub fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Parses seconds with an optional fraction (`1`, `0.25`, `.5`) and returns nanoseconds. Digits of
/// the fraction beyond the ninth are dropped.
pub fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse::<u64>().ok()?
    };
    let mut nanoseconds = 0;
    let mut unit = 100_000_000;
    for digit in fraction.bytes().take(9) {
        nanoseconds += u64::from(digit - b'0') * unit;
        unit /= 10;
    }
    whole.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// Nanoseconds as seconds with three decimals: `1.250`.
pub fn show_seconds(nanoseconds: u64) -> String {
    let milliseconds = nanoseconds / 1_000_000;
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// A rate in a readable unit: `12.3 MB/s` (powers of 1000, as is usual for rates).
pub fn show_rate(bytes: u64, nanoseconds: u64) -> String {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanoseconds.max(1));
    let (unit, name) = match rate {
        1_000_000_000.. => (1_000_000_000, "GB/s"),
        1_000_000.. => (1_000_000, "MB/s"),
        1000.. => (1000, "kB/s"),
        _ => return format!("{rate} B/s"),
    };
    format!("{}.{} {name}", rate / unit, rate % unit * 10 / unit)
}

/// A date of the Gregorian calendar from seconds since 1970: `2026-11-21 08:30:05` (UTC).
pub fn show_date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Days are counted from 1 March of year 0, so that leap days end the year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("0"), Some(0));
        assert_eq!(size("64K"), Some(65536));
        assert_eq!(size("3g"), Some(3 << 30));
        for bad in [
            "",
            "K",
            "-1",
            "+1",
            "1.5M",
            "99999999999999999999",
            "99999999999G",
            "1é",
        ] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(seconds("2"), Some(2_000_000_000));
        assert_eq!(seconds("0.25"), Some(250_000_000));
        assert_eq!(seconds(".5"), Some(500_000_000));
        assert_eq!(seconds("1."), Some(1_000_000_000));
        assert_eq!(seconds("0.0000000019"), Some(1));
        for bad in ["", ".", "-1", "1s", "1e3", "99999999999999", "+1"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        assert_eq!(show_seconds(1_234_999_999), "1.234");
    }

    #[test]
    fn rates_and_dates() {
        assert_eq!(show_rate(500, 1_000_000_000), "500 B/s");
        assert_eq!(show_rate(16 << 20, 500_000_000), "33.5 MB/s");
        assert_eq!(show_rate(1, 0), "1.0 GB/s");
        assert_eq!(show_date(0), "1970-01-01 00:00:00");
        assert_eq!(show_date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(show_date(1_795_249_845), "2026-11-21 08:30:45");
    }
}
