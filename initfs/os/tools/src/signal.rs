//! Names of signals, and sending them.

/// The signals that have a name here, with their numbers.
pub const SIGNALS: &[(&str, u32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
];

/// Returns the number of a signal, given as a number below 65 or as a name with or without `SIG`.
pub fn number(text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return (number < 65).then_some(number);
    }
    let name = text.strip_prefix("SIG").unwrap_or(text);
    SIGNALS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number)
}

/// Sends a signal: to a process, to the group whose number is negated, to the own group (0), or to
/// all processes of users but this one (-1).
///
/// # Errors
/// `EINVAL` for an unknown signal; `EPERM`; `ESRCH` when there is no such process.
#[cfg(target_os = "redox")]
pub fn send(target: i64, signal: u32) -> runtime::Result<()> {
    Ok(libredox::call::kill(target as usize, signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(number("TERM"), Some(15));
        assert_eq!(number("SIGKILL"), Some(9));
        assert_eq!(number("2"), Some(2));
        assert_eq!(number("0"), Some(0));
        assert!(
            ["65", "-1", "", "SIG", "NONE", "term"]
                .iter()
                .all(|text| number(text).is_none())
        );
    }
}
