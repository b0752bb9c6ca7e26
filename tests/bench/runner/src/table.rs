//! The table: all measures with their goals, from `table.txt`.

use std::sync::LazyLock;

use crate::measures::{Against, Goal, Measure, Source};

/// The file: one line for each measure, after an explanation of the columns.
const TEXT: &str = include_str!("table.txt");

/// All measures, in the order of the table.
///
/// # Panics At the first use, if a line of the file is wrong; a test reads the file.
pub static MEASURES: LazyLock<Vec<Measure>> = LazyLock::new(|| match parse(TEXT) {
    Ok(measures) => measures,
    Err(error) => panic!("table.txt: {error}"),
});

/// Parses the measures of a file, or returns what is wrong with which line.
fn parse(text: &'static str) -> Result<Vec<Measure>, String> {
    let lines = (1..).zip(text.lines());
    let rows = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    rows.map(|(number, line)| row(line).map_err(|error| format!("line {number}: {error}")))
        .collect()
}

/// Parses the measure of a line.
fn row(line: &'static str) -> Result<Measure, String> {
    let columns: Vec<_> = line.split('|').map(str::trim).collect();
    let [name, goal_is, ours, other, title] = columns[..] else {
        return Err("there are five columns: name | goal | ours | against | what".to_string());
    };
    Ok(Measure {
        name,
        title,
        ours: source(ours)?,
        against: against(other)?,
        goal: goal(goal_is)?,
    })
}

fn goal(text: &str) -> Result<Goal, String> {
    let (kind, value): (fn(f64) -> Goal, &str) = match text.split_once(' ') {
        Some(("<=", value)) => (Goal::AtMost, value),
        Some((">=", value)) => (Goal::AtLeast, value),
        Some((value, "times faster")) => (Goal::TimesFaster, value),
        _ => return Err(format!("'{text}' is no goal")),
    };
    let value = value.parse();
    value
        .map(kind)
        .map_err(|_| format!("'{text}' has no number"))
}

fn against(text: &'static str) -> Result<Against, String> {
    match text.split_once(' ') {
        None if text == "nothing" => Ok(Against::Nothing),
        Some(("limit", rest)) => source(rest).map(Against::Limit),
        Some(("peer", rest)) => source(rest).map(Against::Peer),
        Some(("few", rest)) => size(rest).map(Against::Few),
        _ => Err(format!("'{text}' is nothing to compare with")),
    }
}

fn source(text: &'static str) -> Result<Source, String> {
    // The table lives as long as the program, so its places are leaked.
    let places = |rest: &'static str| -> Result<&'static [_], String> {
        let places: Result<Vec<_>, _> = rest.split(", ").map(place).collect();
        Ok(places?.leak())
    };
    match text.split_once(' ') {
        Some(("least", rest)) => place(rest).map(|(test, size)| Source::Least(test, size)),
        Some(("best", rest)) => places(rest).map(Source::Best),
        Some(("worst", rest)) => places(rest).map(Source::Worst),
        Some(("half-peak", rest)) => {
            let tests: Vec<_> = rest.split(", ").collect();
            Ok(Source::HalfPeak(tests.leak()))
        }
        _ => place(text).map(|(test, size)| Source::At(test, size)),
    }
}

/// Parses a test and a size.
fn place(text: &'static str) -> Result<(&'static str, u64), String> {
    let (test, bytes) = text
        .split_once(' ')
        .ok_or_else(|| format!("'{text}' is not a test and a size"))?;
    Ok((test, size(bytes)?))
}

/// Parses a number, which `K` or `M` may follow for KiB or MiB.
fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes() {
        [.., b'K'] => (&text[..text.len() - 1], 1 << 10),
        [.., b'M'] => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let number: Result<u64, _> = digits.parse();
    let bytes = number.ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| format!("'{text}' is no size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_right() {
        assert!(parse(TEXT).unwrap().len() > 50);
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let text = "# not this\n\n\
            a | <= 1.05 | least b 8 | limit best c 4K, d 2M | a / b\n\
            e | 300 times faster | half-peak f, g | nothing | h\n\
            i | >= 2 | worst j 1, k 2 | few 1 | l";
        let measures = format!("{:?}", parse(text).unwrap());
        let expected = [
            r#"name: "a", title: "a / b", ours: Least("b", 8)"#,
            r#"against: Limit(Best([("c", 4096), ("d", 2097152)])), goal: AtMost(1.05)"#,
            r#"ours: HalfPeak(["f", "g"]), against: Nothing, goal: TimesFaster(300.0)"#,
            r#"ours: Worst([("j", 1), ("k", 2)]), against: Few(1), goal: AtLeast(2.0)"#,
        ];
        for part in expected {
            assert!(measures.contains(part), "{part} in {measures}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (line, error) in [
            ("a | <= 1 | b 8 | nothing", "there are five columns"),
            ("a | < 1 | b 8 | nothing | c", "'< 1' is no goal"),
            ("a | <= x | b 8 | nothing | c", "'<= x' has no number"),
            ("a | <= 1 | b | nothing | c", "'b' is not a test and a size"),
            ("a | <= 1 | b 8T | nothing | c", "'8T' is no size"),
            ("a | <= 1 | b 8 | near c 8 | c", "'near c 8' is nothing to"),
        ] {
            let found = parse(line).unwrap_err();
            assert!(found.starts_with(&format!("line 1: {error}")), "{found}");
        }
    }
}
