//! Dates from text, for `strptime`.

use crate::calendar::{self, Date};

/// What a text says about a date. What it does not mention is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Year, for example 2026.
    pub year: Option<i64>,
    /// Month, 0 to 11.
    pub month: Option<i64>,
    /// Day of the month, 1 to 31.
    pub day: Option<i64>,
    /// Hour, 0 to 23.
    pub hour: Option<i64>,
    /// Minute, 0 to 59.
    pub minute: Option<i64>,
    /// Second, 0 to 60.
    pub second: Option<i64>,
    /// Day of the week, 0 is Sunday.
    pub weekday: Option<i64>,
    /// Day of the year, 0 to 365.
    pub yearday: Option<i64>,
    /// Seconds east of UTC.
    pub offset: Option<i64>,
}

/// Reads a text according to a format. Returns what it says, and how many bytes were read; `None`
/// if the text does not have that form.
pub fn read(text: &[u8], format: &[u8]) -> Option<(Found, usize)> {
    let mut reader = Reader {
        rest: text,
        found: Found::default(),
        century: None,
        year_of_century: None,
        is_afternoon: None,
    };
    reader.follow(format)?;
    let length = text.len() - reader.rest.len();
    Some((reader.finished(), length))
}

struct Reader<'a> {
    rest: &'a [u8],
    found: Found,
    century: Option<i64>,
    year_of_century: Option<i64>,
    is_afternoon: Option<bool>,
}

impl Reader<'_> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn skip_while(&mut self, skips: impl Fn(&u8) -> bool) {
        let end = self.rest.iter().position(|byte| !skips(byte));
        self.rest = &self.rest[end.unwrap_or(self.rest.len())..];
    }

    /// A number of at most `digits` digits in a range; spaces may come before it.
    fn number(&mut self, digits: usize, range: core::ops::RangeInclusive<i64>) -> Option<i64> {
        self.skip_spaces();
        let found = self.rest.iter().take(digits);
        let count = found.take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(count);
        self.rest = rest;
        let value = number
            .iter()
            .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        (count > 0 && range.contains(&value)).then_some(value)
    }

    /// One of the names, in full or its first three letters, in any case; its place in the list.
    fn name(&mut self, names: &[&str]) -> Option<i64> {
        let starts = |name: &str| {
            let start = self.rest.get(..name.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        };
        let found = names.iter().enumerate().find_map(|(place, name)| {
            let forms = [*name, &name[..3.min(name.len())]];
            let form = forms.into_iter().find(|form| starts(form))?;
            Some((place as i64, form.len()))
        });
        let (place, length) = found?;
        self.rest = &self.rest[length..];
        Some(place)
    }

    fn literal(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        (*first == byte).then_some(())
    }

    /// Reads the text by a format. Calls itself no deeper than conversions stand for others: once.
    fn follow(&mut self, format: &[u8]) -> Option<()> {
        let mut format = format.iter().copied();
        while let Some(byte) = format.next() {
            if byte.is_ascii_whitespace() {
                self.skip_spaces();
                continue;
            }
            if byte != b'%' {
                self.literal(byte)?;
                continue;
            }
            let mut letter = format.next()?;
            if matches!(letter, b'E' | b'O') {
                // They ask for other names and digits, of which there are none.
                letter = format.next()?;
            }
            self.convert(letter)?;
        }
        Some(())
    }

    fn convert(&mut self, letter: u8) -> Option<()> {
        match letter {
            b'%' => self.literal(b'%')?,
            b'n' | b't' => self.skip_spaces(),
            b'a' | b'A' => self.found.weekday = Some(self.name(&calendar::WEEKDAYS)?),
            b'b' | b'B' | b'h' => self.found.month = Some(self.name(&calendar::MONTHS)?),
            b'p' => self.is_afternoon = Some(self.name(&["AM", "PM"])? == 1),
            b'C' => self.century = Some(self.number(2, 0..=99)?),
            b'y' => self.year_of_century = Some(self.number(2, 0..=99)?),
            b'Y' => self.found.year = Some(self.number(4, 0..=9999)?),
            b'm' => self.found.month = Some(self.number(2, 1..=12)? - 1),
            b'd' | b'e' => self.found.day = Some(self.number(2, 1..=31)?),
            b'j' => self.found.yearday = Some(self.number(3, 1..=366)? - 1),
            b'H' | b'k' => {
                self.found.hour = Some(self.number(2, 0..=23)?);
                self.is_afternoon = None;
            }
            b'I' | b'l' => self.found.hour = Some(self.number(2, 1..=12)? % 12),
            b'M' => self.found.minute = Some(self.number(2, 0..=59)?),
            b'S' => self.found.second = Some(self.number(2, 0..=60)?),
            b'w' => self.found.weekday = Some(self.number(1, 0..=6)?),
            b'u' => self.found.weekday = Some(self.number(1, 1..=7)? % 7),
            // Weeks of the year, and the years to which they belong, are read and say nothing, as
            // in glibc. So does the name of a zone.
            b'U' | b'W' | b'V' => drop(self.number(2, 0..=53)?),
            b'g' => drop(self.number(2, 0..=99)?),
            b'G' => {
                self.rest.first().filter(|byte| byte.is_ascii_digit())?;
                self.skip_while(u8::is_ascii_digit);
            }
            b'Z' => {
                self.skip_spaces();
                self.skip_while(|byte| !byte.is_ascii_whitespace());
            }
            b's' => self.seconds()?,
            b'z' => self.offset()?,
            b'c' => self.follow(b"%a %b %e %H:%M:%S %Y")?,
            b'D' | b'x' => self.follow(b"%m/%d/%y")?,
            b'F' => self.follow(b"%Y-%m-%d")?,
            b'r' => self.follow(b"%I:%M:%S %p")?,
            b'R' => self.follow(b"%H:%M")?,
            b'T' | b'X' => self.follow(b"%H:%M:%S")?,
            _ => return None,
        }
        Some(())
    }

    /// The seconds since 1970.
    fn seconds(&mut self) -> Option<()> {
        const DIGITS: usize = 11;
        let date = calendar::from_seconds(self.number(DIGITS, 0..=99_999_999_999)?);
        self.found = Found {
            year: Some(date.year),
            month: Some(date.month),
            day: Some(date.day),
            hour: Some(date.hour),
            minute: Some(date.minute),
            second: Some(date.second),
            weekday: Some(date.weekday),
            yearday: Some(date.yearday),
            offset: Some(0),
        };
        Some(())
    }

    /// `Z`, or a sign with hours and minutes, between which may be a colon.
    fn offset(&mut self) -> Option<()> {
        self.skip_spaces();
        let (sign, rest) = self.rest.split_first()?;
        self.rest = rest;
        let sign = match sign {
            b'Z' => {
                self.found.offset = Some(0);
                return Some(());
            }
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hours = self.number(2, 0..=24)?;
        if let Some((b':', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        let minutes = match self.rest.first() {
            Some(b'0'..=b'9') => self.number(2, 0..=59)?,
            _ => 0,
        };
        self.found.offset = Some(sign * (hours * 3600 + minutes * 60));
        Some(())
    }

    /// What was found, with what follows from it.
    fn finished(self) -> Found {
        let mut found = self.found;
        if let (Some(true), Some(hour)) = (self.is_afternoon, found.hour) {
            found.hour = Some(hour % 12 + 12);
        }
        found.year = match (self.century, self.year_of_century) {
            (None, None) => found.year,
            (Some(century), year) => Some(century * 100 + year.unwrap_or(0)),
            // As POSIX divides them.
            (None, Some(year @ 69..)) => Some(1900 + year),
            (None, Some(year)) => Some(2000 + year),
        };
        let day_of = |month, day, year| {
            let date = Date {
                year,
                month,
                day,
                ..Date::default()
            };
            calendar::from_seconds(calendar::to_seconds(&date))
        };
        match found {
            Found {
                year: Some(year),
                month: Some(month),
                day: Some(day),
                ..
            } => {
                let date = day_of(month, day, year);
                found.weekday = Some(date.weekday);
                found.yearday = Some(date.yearday);
            }
            Found {
                year: Some(year),
                month: None,
                day: None,
                yearday: Some(yearday),
                ..
            } => {
                let date = day_of(0, yearday + 1, year);
                (found.month, found.day) = (Some(date.month), Some(date.day));
                found.weekday = Some(date.weekday);
            }
            _ => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn date(text: &str, format: &str) -> [Option<i64>; 8] {
        let (found, length) = read(text.as_bytes(), format.as_bytes()).unwrap();
        assert_eq!(length, text.len());
        [
            found.year,
            found.month,
            found.day,
            found.hour,
            found.minute,
            found.second,
            found.weekday,
            found.yearday,
        ]
    }

    // The results of glibc for the same calls.
    #[test]
    fn every_conversion() {
        let whole = [2026, 10, 30, 5, 34, 7, 1, 333].map(Some);
        assert_eq!(date("2026-11-30 05:34:07", "%Y-%m-%d %H:%M:%S"), whole);
        assert_eq!(date("2026-11-30T05:34:07", "%FT%T"), whole);
        assert_eq!(date("Mon Nov 30 05:34:07 2026", "%c"), whole);
        assert_eq!(
            date("MONDAY, 30 november 26 5:34:7", "%A, %d %B %y %T"),
            whole
        );
        assert_eq!(date("11/30/26 05:34:07 am", "%D %r"), whole);
        assert_eq!(date("1796016847", "%s"), whole);
        assert_eq!(date("20 26 334 05:34 7", "%C %y %j %R %S"), whole);
        let hour = |hour| [None, None, None, Some(hour), Some(0), None, None, None];
        assert_eq!(date("12:00 AM", "%I:%M %p"), hour(0));
        assert_eq!(date("12:00 PM", "%I:%M %p"), hour(12));
        assert_eq!(date("pm 1:00", "%p %I:%M"), hour(13));
        assert_eq!(date("53%", "%U%%"), [None; 8]);
        assert_eq!(date("69", "%y")[0], Some(1969));
        assert_eq!(date("68", "%y")[0], Some(2068));
        assert_eq!(date("7", "%u")[6], Some(0));
        assert_eq!(date("  5", "%d")[2], Some(5));
        assert_eq!(date("2026 53 26", "%G %V %g"), [None; 8]);
        assert_eq!(date("5 CET 7", "%d %Z %H")[2..4], [Some(5), Some(7)]);
        assert_eq!(date("5", "%d%Z")[2], Some(5));
    }

    #[test]
    fn zones() {
        let zone = |text: &str| read(text.as_bytes(), b"%z").and_then(|found| found.0.offset);
        assert_eq!(zone("+0130"), Some(5400));
        assert_eq!(zone("-01:30"), Some(-5400));
        assert_eq!(zone("Z"), Some(0));
        assert_eq!(zone("+02"), Some(7200));
        assert_eq!(zone("0200"), None);
    }

    #[test]
    fn texts_of_another_form() {
        for (text, format) in [
            ("13", "%m"),
            ("0", "%d"),
            ("24", "%H"),
            ("x", "%Y"),
            ("", "%Y"),
            ("Foo", "%b"),
            ("1", "%"),
            ("1", "%Q"),
            ("a", "b"),
            ("54", "%V"),
            ("x", "%G"),
        ] {
            assert_eq!(
                read(text.as_bytes(), format.as_bytes()),
                None,
                "{text} {format}"
            );
        }
        assert_eq!(read(b"2026rest", b"%Y").map(|found| found.1), Some(4));
    }
}
