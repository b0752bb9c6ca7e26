//! Dates of the CMOS clock as seconds since 1970.

/// The time of the clock registers, decoded (not BCD, 24 hours).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields of a date")]
pub struct DateTime {
    pub year: u32,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
}

impl DateTime {
    /// Decodes the raw registers: `binary` and `hours24` are the two format bits of status B.
    pub fn from_registers(raw: [u8; 6], binary: bool, hours24: bool) -> DateTime {
        let number = |v: u8| {
            if binary {
                v.into()
            } else {
                u32::from(v >> 4) * 10 + u32::from(v & 15)
            }
        };
        let [second, minute, hour, day, month, year] = raw;
        let pm = hour & 0x80 != 0;
        let mut hours = number(hour & 0x7f);
        if !hours24 {
            hours = hours % 12 + if pm { 12 } else { 0 };
        }
        DateTime {
            // The century register has no fixed place; no machine runs this before 2000.
            year: 2000 + number(year),
            month: number(month),
            day: number(day),
            hour: hours,
            minute: number(minute),
            second: number(second),
        }
    }

    /// Seconds since the beginning of 1970, or `None` for a date that does not exist.
    pub fn unix_seconds(&self) -> Option<u64> {
        let leap = |y: u32| y.is_multiple_of(4) && !y.is_multiple_of(100) || y.is_multiple_of(400);
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let month_length = |m: u32| {
            let base = lengths.get(m.checked_sub(1)? as usize)?;
            Some(base + u32::from(m == 2 && leap(self.year)))
        };
        let valid = self.year >= 1970
            && (1..=month_length(self.month)?).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 61;
        if !valid {
            return None;
        }
        let mut days: u64 = (1970..self.year)
            .map(|y| if leap(y) { 366 } else { 365 })
            .sum();
        for month in 1..self.month {
            days += u64::from(month_length(month)?);
        }
        days += u64::from(self.day) - 1;
        let seconds = u64::from(self.hour * 3600 + self.minute * 60 + self.second);
        Some(days * 86400 + seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        let bcd = DateTime::from_registers([0x59, 0x30, 0x23, 0x29, 0x02, 0x24], false, true);
        assert_eq!(bcd.unix_seconds(), Some(1_709_249_459));
        let half = DateTime::from_registers([0, 0, 0x80 | 12, 1, 1, 0], true, false);
        assert_eq!(half.hour, 12);
        assert_eq!(half.unix_seconds(), Some(946_728_000));
        let midnight = DateTime::from_registers([0, 0, 12, 1, 1, 0], true, false);
        assert_eq!(midnight.unix_seconds(), Some(946_684_800));
    }

    #[test]
    fn impossible_dates() {
        let date = DateTime {
            year: 2023,
            month: 2,
            day: 28,
            hour: 0,
            minute: 0,
            second: 0,
        };
        assert!(date.unix_seconds().is_some());
        assert_eq!(DateTime { day: 29, ..date }.unix_seconds(), None);
        assert_eq!(DateTime { month: 0, ..date }.unix_seconds(), None);
        assert_eq!(DateTime { month: 13, ..date }.unix_seconds(), None);
        assert_eq!(DateTime { hour: 24, ..date }.unix_seconds(), None);
    }
}
