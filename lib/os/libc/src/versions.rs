//! The order of names with numbers in them, such as those of versions.

use core::cmp::Ordering;

/// Compares two names. Digits count as a number where the names differ, or as the digits behind a
/// point if they begin with a 0: there `01` is less than `1`, and of zeros alone more are less.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    // The digits in front of the difference.
    let shared = a[..same].iter().rev().take_while(is_digit).count();
    let start = same - shared;
    let begins_number = |name: &[u8]| matches!(name.get(start), Some(b'1'..=b'9'));
    let digits = |name: &[u8]| name[same..].iter().take_while(is_digit).count();
    let (more_a, more_b) = (digits(a), digits(b));
    // A name is less than a longer one that begins with it.
    let next = |name: &[u8]| name.get(same).copied().unwrap_or(0);
    let (next_a, next_b) = (next(a), next(b));
    if begins_number(a) && begins_number(b) {
        more_a.cmp(&more_b).then(next_a.cmp(&next_b))
    } else if shared > 0 && a[start..same].iter().all(|byte| *byte == b'0') && more_a + more_b > 0 {
        // Digits come before everything else.
        next_a.wrapping_sub(b'0').cmp(&next_b.wrapping_sub(b'0'))
    } else {
        next_a.cmp(&next_b)
    }
}

#[cfg(test)]
mod tests {
    use super::compare;

    fn are_in_order(names: &[&str]) {
        for (at, a) in names.iter().enumerate() {
            for (place, b) in names.iter().enumerate() {
                assert_eq!(
                    compare(a.as_bytes(), b.as_bytes()),
                    at.cmp(&place),
                    "{a} {b}"
                );
            }
        }
    }

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        are_in_order(&["000", "00", "01", "010", "09", "0", "0a", "1", "9", "10"]);
        are_in_order(&["", "a", "a0", "b9", "b10", "b10c", "b99", "b100"]);
        are_in_order(&["x-1.01.3", "x-1.1.2", "x-1.1.3", "x-1.1.12"]);
    }
}
