//! Names of machines.

/// Longest name of a machine in bytes.
const MOST: usize = 64;

/// The name in the text of a file like `/etc/hostname`: its first line, if that can be a name.
pub fn in_file(text: &str) -> Option<&str> {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let name = text.lines().next()?.trim();
    let is_name = (1..=MOST).contains(&name.len()) && name.bytes().all(is_usual);
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_name_in_its_first_line() {
        assert_eq!(in_file("saguaro-7.lab \nrest\n"), Some("saguaro-7.lab"));
        let longest = "x".repeat(MOST);
        assert_eq!(in_file(&longest), Some(longest.as_str()));
        for odd in ["", "\nname\n", "two words\n", "a/b", &"x".repeat(MOST + 1)] {
            assert_eq!(in_file(odd), None, "{odd}");
        }
    }
}
