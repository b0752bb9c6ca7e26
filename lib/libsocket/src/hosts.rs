//! Parses the text of `/etc/hosts`: the names that an administrator has given to addresses. A line
//! is an address and its names, the usual name first; `#` begins a comment. Lines without an IPv4
//! address are skipped.

use crate::address;

/// Yields the address and the names of each line.
fn lines(text: &str) -> impl Iterator<Item = (u32, impl Iterator<Item = &str>)> {
    text.lines().filter_map(|line| {
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line.split_ascii_whitespace();
        Some((address::parse(words.next()?)?, words))
    })
}

/// Finds the address of a name; upper and lower case are the same.
pub fn address_of(text: &str, name: &str) -> Option<u32> {
    let mut lines = lines(text);
    lines.find_map(|(host, mut names)| {
        names
            .any(|of| of.eq_ignore_ascii_case(name))
            .then_some(host)
    })
}

/// Finds the usual name of an address.
pub fn name_of(text: &str, host: u32) -> Option<&str> {
    let mut lines = lines(text).filter(|(of, _)| *of == host);
    lines.find_map(|(_, mut names)| names.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        const TEXT: &str = "# 10.0.0.9 nobody\n10.0.0.2\tsaguaro1 one # two\n\n::1 six\n\
            10.0.0.2 late\n10.0.0.7\n 10.0.0.3 one  Three\nten.0.0.1 ten\n";
        for (name, host) in [
            ("saguaro1", Some(0x0a00_0002)),
            ("one", Some(0x0a00_0002)),
            ("late", Some(0x0a00_0002)),
            ("tHREE", Some(0x0a00_0003)),
            ("nobody", None),
            ("two", None),
            ("six", None),
            ("ten", None),
            ("10.0.0.2", None),
            ("", None),
        ] {
            assert_eq!(address_of(TEXT, name), host, "{name}");
        }
        assert_eq!(name_of(TEXT, 0x0a00_0002), Some("saguaro1"));
        assert_eq!(name_of(TEXT, 0x0a00_0003), Some("one"));
        assert_eq!(name_of(TEXT, 0x0a00_0007), None);
        assert_eq!(name_of("", 0x0a00_0002), None);
    }
}
