//! Scripts: files whose first line names the program that interprets them.

/// Most bytes of the first line; a longer one names no program.
pub const MAX_LINE: usize = 256;

/// Returns the interpreter, and its option if there is one, from the start of a script: `#!`, a
/// path, and all words after it as one option.
pub fn interpreter(start: &[u8]) -> Option<(&str, Option<&str>)> {
    let line = start.strip_prefix(b"#!")?;
    let end = line.iter().position(|byte| *byte == b'\n');
    // If the line continues beyond `start`, the name may be incomplete.
    let end = end.or((start.len() < MAX_LINE).then_some(line.len()))?;
    let line = core::str::from_utf8(line.get(..end)?).ok()?.trim();
    let (name, option) = match line.split_once([' ', '\t']) {
        Some((name, option)) => (name, Some(option.trim())),
        None => (line, None),
    };
    (!name.is_empty()).then_some((name, option))
}
