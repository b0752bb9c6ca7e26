//! Days and dates: the calendar behind `gmtime`, `mktime` and `strftime`. All times are UTC, as a
//! node has no time zone.

/// A broken-down time, with the ranges of C's `struct tm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Date {
    /// Year, for example 2026.
    pub year: i64,
    /// Month, 0 to 11.
    pub month: i64,
    /// Day of the month, 1 to 31.
    pub day: i64,
    /// Hour, 0 to 23.
    pub hour: i64,
    /// Minute, 0 to 59.
    pub minute: i64,
    /// Second, 0 to 59.
    pub second: i64,
    /// Day of the week, 0 is Sunday.
    pub weekday: i64,
    /// Day of the year, 0 to 365.
    pub yearday: i64,
}

const SECONDS_PER_DAY: i64 = 86_400;
/// The days before each month in a year that is no leap year.
const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Whether February has 29 days in a year.
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The days from 1970-01-01 to the first day of a year.
fn days_before_year(year: i64) -> i64 {
    let before = year - 1;
    365 * (year - 1970) + (before.div_euclid(4) - 492) - (before.div_euclid(100) - 19)
        + (before.div_euclid(400) - 4)
}

/// The date at a time in seconds since 1970.
pub fn from_seconds(time: i64) -> Date {
    let days = time.div_euclid(SECONDS_PER_DAY);
    let rest = time.rem_euclid(SECONDS_PER_DAY);
    // 146097 days are 400 years; the estimate is at most one year off.
    let mut year = 1970 + (days * 400).div_euclid(146_097);
    while days_before_year(year) > days {
        year -= 1;
    }
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    let yearday = days - days_before_year(year);
    let before = |month: usize| BEFORE[month] + i64::from(month > 1 && is_leap(year));
    let month = (0..12)
        .rev()
        .find(|month| before(*month) <= yearday)
        .unwrap_or(0);
    Date {
        year,
        month: month as i64,
        day: yearday - before(month) + 1,
        hour: rest / 3600,
        minute: rest / 60 % 60,
        second: rest % 60,
        weekday: (days + 4).rem_euclid(7),
        yearday,
    }
}

/// The seconds from 1970 to a date, whose fields may be out of their ranges, as for `mktime`. Does
/// not use the day of the week and of the year.
pub fn to_seconds(date: &Date) -> i64 {
    let year = date.year.saturating_add(date.month.div_euclid(12));
    // The range of years that an `int` can express, so that no sum below overflows.
    let year = year.clamp(-4_000_000_000, 4_000_000_000);
    let month = date.month.rem_euclid(12) as usize;
    let leap = i64::from(month > 1 && is_leap(year));
    let days = days_before_year(year) + BEFORE[month] + leap;
    (days + date.day - 1) * SECONDS_PER_DAY + date.hour * 3600 + date.minute * 60 + date.second
}

/// The names of the days of the week, from Sunday.
pub const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
/// The names of the months.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

#[cfg(test)]
mod tests {
    use super::{Date, from_seconds, to_seconds};

    #[test]
    fn known_dates() {
        let date = from_seconds(0);
        assert_eq!(
            (date.year, date.month, date.day, date.weekday),
            (1970, 0, 1, 4)
        );
        let date = from_seconds(951_826_154);
        assert_eq!(
            (date.year, date.month, date.day, date.yearday),
            (2000, 1, 29, 59)
        );
        assert_eq!(
            (date.hour, date.minute, date.second, date.weekday),
            (12, 9, 14, 2)
        );
        let date = from_seconds(-1);
        assert_eq!(
            (date.year, date.month, date.day, date.second),
            (1969, 11, 31, 59)
        );
    }

    #[test]
    fn there_and_back() {
        for time in (-5_000_000_000..9_000_000_000_i64).step_by(40_000_003) {
            assert_eq!(to_seconds(&from_seconds(time)), time);
        }
        let date = Date {
            year: 2026,
            month: 13,
            day: 32,
            ..Date::default()
        };
        assert_eq!(from_seconds(to_seconds(&date)).month, 2);
    }
}
