//! Scripts: files whose first line names the program that reads them.

/// Bytes of the first line, at most; a longer one names nothing.
pub const MAX_LINE: usize = 256;

/// The interpreter and its option, if there is one, that the start of a script names: `#!`, a path,
/// and all words behind it as one option.
pub fn interpreter(start: &[u8]) -> Option<(&str, Option<&str>)> {
    let line = start.strip_prefix(b"#!")?;
    let end = line.iter().position(|byte| *byte == b'\n');
    // Of a line that goes on the name may be a part only.
    let end = end.or((start.len() < MAX_LINE).then_some(line.len()))?;
    let line = core::str::from_utf8(line.get(..end)?).ok()?.trim();
    let (name, option) = match line.split_once([' ', '\t']) {
        Some((name, option)) => (name, Some(option.trim())),
        None => (line, None),
    };
    (!name.is_empty()).then_some((name, option))
}
