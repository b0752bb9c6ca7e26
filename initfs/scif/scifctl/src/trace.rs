//! The driver's trace as text.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use scif_abi::trace::{TraceEntry, whole_entries};

/// The latest `count` events of a trace, one a line, the oldest first; `None` if it is no trace.
pub fn lines(trace: &[u8], count: usize) -> Option<String> {
    let (_, entries) = whole_entries(trace)?;
    let mut entries: Vec<TraceEntry> = entries.collect();
    entries.sort_by_key(|entry| entry.sequence.get());
    let first = entries.len().saturating_sub(count);
    let mut text = String::new();
    for entry in entries.iter().skip(first) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{entry}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scif_abi::trace::{ENTRY_BYTES, HEADER_BYTES, Header, What};
    use zerocopy::IntoBytes;

    #[test]
    fn the_latest_come_last() {
        let bytes = HEADER_BYTES + 2 * ENTRY_BYTES;
        let mut trace = alloc::vec![0; bytes];
        trace[..HEADER_BYTES].copy_from_slice(Header::new(1, bytes).as_bytes());
        for (slot, sequence, what) in [(0, 3, What::Online), (1, 2, What::Lost)] {
            let mut entry = TraceEntry::new(what, 1, [0, 0], 0);
            entry.sequence = sequence.into();
            let place = HEADER_BYTES + slot * ENTRY_BYTES;
            trace[place..place + ENTRY_BYTES].copy_from_slice(entry.as_bytes());
        }
        let all = lines(&trace, 9).expect("a trace");
        let all: Vec<&str> = all.lines().collect();
        assert!(
            all[0].ends_with("given up") && all[1].ends_with("online"),
            "{all:?}"
        );
        let last = lines(&trace, 1).expect("a trace");
        assert!(last.ends_with("online\n") && last.lines().count() == 1);
        assert_eq!(lines(&trace[1..], 9), None);
    }
}
