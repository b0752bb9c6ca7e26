//! Dates as text, for `strftime`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::calendar::{self, Date};

/// How one conversion is written.
#[derive(Clone, Copy, Default)]
struct Style {
    /// `_`, `-`, `0`, `+`, `^` or `#`, which has no effect.
    flag: Option<u8>,
    width: Option<usize>,
}

/// The greatest width. It is more than a conversion needs, and bounds the memory that a width
/// costs.
const WIDEST: usize = 4096;

/// The time zone of a date.
#[derive(Clone, Copy)]
pub struct Zone<'a> {
    /// Seconds east of UTC; `None` if they are not known.
    pub offset: Option<i64>,
    /// The name; empty if there is none.
    pub name: &'a [u8],
}

/// Writes `date` according to `format`, byte by byte, so that the format may have any encoding.
pub fn formatted(date: &Date, zone: Zone<'_>, format: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut rest = format;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            text.push(*byte);
            continue;
        }
        let (style, letter, length) = specification(rest);
        match letter.and_then(|letter| conversion(date, zone, style, letter)) {
            Some(part) => text.extend_from_slice(&part),
            // Text that is no conversion is copied.
            None => {
                text.push(b'%');
                text.extend_from_slice(&rest[..length]);
            }
        }
        rest = &rest[length..];
    }
    text
}

/// Reads what follows a `%`: the style, the letter, and the length of both in bytes.
fn specification(text: &[u8]) -> (Style, Option<u8>, usize) {
    let mut at = 0;
    let mut style = Style::default();
    while let Some(flag @ (b'_' | b'-' | b'0' | b'+' | b'^' | b'#')) = text.get(at) {
        style.flag = Some(*flag);
        at += 1;
    }
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let digits = digits.count();
    if digits > 0 {
        let add = |width: usize, byte: &u8| width * 10 + usize::from(byte - b'0');
        let width = text[at..at + digits]
            .iter()
            .fold(0, |width, byte| add(width, byte).min(WIDEST));
        style.width = Some(width);
        at += digits;
    }
    // `E` and `O` ask for other names and digits, of which there are none.
    if let Some(b'E' | b'O') = text.get(at) {
        at += 1;
    }
    let letter = text.get(at).copied();
    (style, letter, at + usize::from(letter.is_some()))
}

impl Style {
    /// A number of at least `digits` digits unless the style says otherwise, filled up with
    /// `fill`.
    fn number(self, value: i64, digits: usize, fill: u8) -> Vec<u8> {
        let fill = match self.flag {
            Some(b'_') => b' ',
            Some(b'0' | b'+') => b'0',
            Some(b'-') => return format!("{value}").into_bytes(),
            _ => fill,
        };
        let number = format!("{}", value.unsigned_abs());
        let width = self.width.unwrap_or(digits);
        // A plus sign marks a number with more digits than usual.
        let is_long = width.max(number.len()) > digits;
        let sign: &[u8] = match value < 0 {
            true => b"-",
            false if self.flag == Some(b'+') && is_long => b"+",
            false => b"",
        };
        let missing = width.saturating_sub(number.len() + sign.len());
        let filled = core::iter::repeat_n(fill, missing);
        let signed = sign.iter().copied();
        let number = number.into_bytes();
        match fill {
            b' ' => filled.chain(signed).chain(number).collect(),
            _ => signed.chain(filled).chain(number).collect(),
        }
    }

    /// A year, with as many digits as it needs.
    fn year(self, value: i64) -> Vec<u8> {
        match (self.flag, self.width) {
            (Some(b'+' | b'0' | b'_'), _) | (_, Some(_)) => self.number(value, 4, b'0'),
            _ => format!("{value}").into_bytes(),
        }
    }

    /// One or several words.
    fn words(self, text: &[u8]) -> Vec<u8> {
        let fill = if self.flag == Some(b'0') { b'0' } else { b' ' };
        let missing = self.width.unwrap_or(0).saturating_sub(text.len());
        let mut words: Vec<u8> = core::iter::repeat_n(fill, missing).collect();
        words.extend_from_slice(text);
        if self.flag == Some(b'^') {
            words.make_ascii_uppercase();
        }
        words
    }

    /// Hours and minutes east of UTC.
    fn offset(self, zone: Zone<'_>) -> Vec<u8> {
        let Some(offset) = zone.offset else {
            return Vec::new();
        };
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.unsigned_abs() / 60;
        self.words(format!("{sign}{:02}{:02}", minutes / 60, minutes % 60).as_bytes())
    }

    /// A whole date, whose year takes the rest of the width.
    fn date(self, date: &Date, zone: Zone<'_>) -> Vec<u8> {
        const REST: usize = "-12-31".len();
        let year = match (self.flag, self.width) {
            (None, None) => Style {
                flag: Some(b'+'),
                width: Some(4),
            },
            (flag, width) => Style {
                flag,
                width: Some(width.unwrap_or(10).saturating_sub(REST)),
            },
        };
        let mut text = year.number(date.year, 4, b'0');
        text.extend_from_slice(&formatted(date, zone, b"-%m-%d"));
        text
    }
}

fn conversion(date: &Date, zone: Zone<'_>, style: Style, letter: u8) -> Option<Vec<u8>> {
    let name = |names: &[&'static str], index: i64| {
        let index = usize::try_from(index).ok();
        index
            .and_then(|index| names.get(index).copied())
            .unwrap_or("?")
    };
    let short = |name: &'static str| name.get(..3).unwrap_or(name);
    let noon = if date.hour < 12 { "AM" } else { "PM" };
    let hour = (date.hour + 11).rem_euclid(12) + 1;
    // The days since Sunday and since Monday.
    let (sunday, monday) = (date.weekday, (date.weekday + 6).rem_euclid(7));
    let two = |value| style.number(value, 2, b'0');
    let blank = |value| style.number(value, 2, b' ');
    let words = |text: &str| style.words(text.as_bytes());
    let whole = |format: &[u8]| style.words(&formatted(date, zone, format));
    Some(match letter {
        b'Y' => style.year(date.year),
        b'y' => two(date.year.rem_euclid(100)),
        b'C' => two(date.year.div_euclid(100)),
        b'G' => style.year(week_of(date).0),
        b'g' => two(week_of(date).0.rem_euclid(100)),
        b'V' => two(week_of(date).1),
        b'U' => two((date.yearday + 7 - sunday).div_euclid(7)),
        b'W' => two((date.yearday + 7 - monday).div_euclid(7)),
        b'm' => two(date.month + 1),
        b'd' => two(date.day),
        b'e' => blank(date.day),
        b'H' => two(date.hour),
        b'I' => two(hour),
        b'k' => blank(date.hour),
        b'l' => blank(hour),
        b'M' => two(date.minute),
        b'S' => two(date.second),
        b'j' => style.number(date.yearday + 1, 3, b'0'),
        b'w' => style.number(sunday, 1, b'0'),
        b'u' => style.number(monday + 1, 1, b'0'),
        b's' => style.number(calendar::to_seconds(date), 1, b'0'),
        b'p' => words(noon),
        b'P' => words(&String::from(noon).to_ascii_lowercase()),
        b'A' => words(name(&calendar::WEEKDAYS, date.weekday)),
        b'a' => words(short(name(&calendar::WEEKDAYS, date.weekday))),
        b'B' => words(name(&calendar::MONTHS, date.month)),
        b'b' | b'h' => words(short(name(&calendar::MONTHS, date.month))),
        b'F' => style.date(date, zone),
        b'T' | b'X' => whole(b"%H:%M:%S"),
        b'R' => whole(b"%H:%M"),
        b'r' => whole(b"%I:%M:%S %p"),
        b'D' | b'x' => whole(b"%m/%d/%y"),
        b'c' => whole(b"%a %b %e %H:%M:%S %Y"),
        b'z' => style.offset(zone),
        b'Z' => style.words(zone.name),
        b'n' => words("\n"),
        b't' => words("\t"),
        b'%' => words("%"),
        _ => return None,
    })
}

/// The year and week of ISO 8601. Weeks begin on Monday, and the first week of a year contains its
/// first Thursday.
fn week_of(date: &Date) -> (i64, i64) {
    let monday = (date.weekday + 6).rem_euclid(7);
    // The day of the year, counted from 0, of this week's Thursday.
    let thursday = date.yearday - monday + 3;
    let days = |year| 365 + i64::from(calendar::is_leap(year));
    let (year, thursday) = if thursday < 0 {
        (date.year - 1, thursday + days(date.year - 1))
    } else if thursday >= days(date.year) {
        (date.year + 1, thursday - days(date.year))
    } else {
        (date.year, thursday)
    };
    (year, thursday.div_euclid(7) + 1)
}

#[cfg(test)]
mod tests {
    use super::{Zone, formatted};
    use crate::calendar::{Date, from_seconds, to_seconds};

    /// The date of a year, a month counted from 1, and a day.
    fn day(year: i64, month: i64, day: i64) -> Date {
        let date = Date {
            year,
            month: month - 1,
            day,
            ..Date::default()
        };
        from_seconds(to_seconds(&date))
    }

    const UTC: Zone<'_> = Zone {
        offset: Some(0),
        name: b"UTC",
    };

    fn check(date: &Date, format: &str, text: &str) {
        let found = formatted(date, UTC, format.as_bytes());
        assert_eq!(String::from_utf8_lossy(&found), text, "{format}");
    }

    // The results of glibc for the same calls.
    #[test]
    fn each_conversion() {
        let date = from_seconds(1_452_000_225 - 86_400);
        check(&date, "%Y-%m-%d %H:%M:%S %j", "2016-01-04 13:23:45 004");
        check(&date, "%C %y %e|%k|%l|%I", "20 16  4|13| 1|01");
        check(
            &date,
            "%a %A %b %B %h %p %P",
            "Mon Monday Jan January Jan PM pm",
        );
        check(
            &date,
            "%F|%T|%R|%r|%D",
            "2016-01-04|13:23:45|13:23|01:23:45 PM|01/04/16",
        );
        check(
            &date,
            "%c|%x|%X",
            "Mon Jan  4 13:23:45 2016|01/04/16|13:23:45",
        );
        check(
            &date,
            "%u %w %s %z %Z%n%t%%",
            "1 1 1451913825 +0000 UTC\n\t%",
        );
        check(&date, "%Ey %Od %EY", "16 04 2016");
        check(&date, "%-d %_d %05d %^a %6a", "4  4 00004 MON    Mon");
        check(&date, "é %q %", "é %q %");
    }

    #[test]
    fn zones() {
        for (offset, name, text) in [
            (Some(-5400), "XYZ", "-0130 XYZ"),
            (Some(19_800), "", "+0530 "),
            (None, "x", " x"),
        ] {
            let name = name.as_bytes();
            let found = formatted(&day(2016, 1, 3), Zone { offset, name }, b"%z %Z");
            assert_eq!(String::from_utf8_lossy(&found), text);
        }
    }

    #[test]
    fn weeks_of_three_kinds() {
        for (date, text) in [
            (day(2016, 1, 3), "01 00 15 2015 53"),
            (day(2016, 1, 4), "01 01 16 2016 01"),
            (day(2021, 1, 1), "00 00 20 2020 53"),
            (day(2024, 12, 30), "52 53 25 2025 01"),
            (day(2023, 12, 31), "53 52 23 2023 52"),
        ] {
            check(&date, "%U %W %g %G %V", text);
        }
    }

    // POSIX's rules for widths, and for years with more or fewer than four digits.
    #[test]
    fn years_of_all_lengths() {
        let date = day(2016, 1, 3);
        check(
            &date,
            "%+3C %03C %05Y %+4Y %+5Y",
            "+20 020 02016 2016 +2016",
        );
        check(
            &date,
            "%012F %+10F %+11F",
            "002016-01-03 2016-01-03 +2016-01-03",
        );
        let date = day(10_009, 1, 5);
        check(
            &date,
            "%F %Y %C %011F",
            "+10009-01-05 10009 100 10009-01-05",
        );
        let date = day(0, 2, 23);
        check(
            &date,
            "%F %01F %06F %02Y %+5Y",
            "0000-02-23 0-02-23 0-02-23 00 +0000",
        );
        let date = day(-123, 1, 1);
        check(&date, "%011F %+4Y %+5Y", "-0123-01-01 -123 -0123");
        check(&day(2_147_485_547, 1, 1), "%s", "67768036160140800");
    }

    #[test]
    fn widths_without_end_cost_nothing() {
        let length = formatted(&day(2016, 1, 3), UTC, b"%99999999999999999999d").len();
        assert_eq!(length, super::WIDEST);
    }
}
