//! The SCIF driver's trace of a node that has ended, found in the node's memory, which outlives the
//! node.
//!
//! A node that panicked or hangs cannot be asked. Its log daemon keeps the trace in contiguous
//! memory that begins with a signature, at the start of a page.

use crate::base::report::{Context, Result};
use scif_abi::trace::{MAGIC, TRACE_BYTES, TraceEntry, whole_entries};
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: usize = kernel_core::area::PAGE;
/// Bytes looked through at a time.
const PIECE: usize = 1 << 20;

/// Writes the traces in `memory` to the file `to`, as lines, newest last; how many events. Nothing
/// is written when there are none.
pub fn save(memory: &File, to: &Path) -> Result<usize> {
    let traces = find(memory).context(|| "read a node's memory".to_string())?;
    let mut text = String::new();
    let mut count = 0;
    for trace in traces {
        let Some((header, entries)) = whole_entries(&trace) else {
            continue;
        };
        let mut entries: Vec<TraceEntry> = entries.collect();
        entries.sort_by_key(|entry| entry.sequence.get());
        count += entries.len();
        // Writing to a string does not fail.
        let _ = writeln!(text, "# trace of node {}", header.node);
        for entry in entries {
            let _ = writeln!(text, "{entry}");
        }
    }
    if count > 0 {
        std::fs::write(to, text).context(|| format!("write {}", to.display()))?;
    }
    Ok(count)
}

/// Everything that begins like a trace.
fn find(memory: &File) -> std::io::Result<Vec<Vec<u8>>> {
    let mut traces = Vec::new();
    let mut piece = vec![0; PIECE];
    let mut place = 0;
    loop {
        let count = memory.read_at(&mut piece, place)?;
        if count == 0 {
            return Ok(traces);
        }
        for start in (0..count).step_by(PAGE) {
            let page = &piece[start..count];
            if page.starts_with(&MAGIC.to_le_bytes()) {
                let mut trace = vec![0; TRACE_BYTES];
                let inside = memory.read_at(&mut trace, place + start as u64)?;
                trace.truncate(inside);
                traces.push(trace);
            }
        }
        place += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scif_abi::trace::{HEADER_BYTES, Header, What};
    use zerocopy::IntoBytes;

    #[test]
    fn a_trace_is_found_in_memory() {
        let directory = std::env::temp_dir().join(format!("skiff-trace-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let memory = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(directory.join("memory"))
            .unwrap();
        memory.set_len(8 << 20).unwrap();
        let to = directory.join("trace");
        assert_eq!(save(&memory, &to).unwrap(), 0);
        assert!(!to.exists());
        let place = (3 << 20) + 5 * PAGE as u64;
        let header = Header::new(2, TRACE_BYTES);
        memory.write_all_at(header.as_bytes(), place).unwrap();
        let mut entry = TraceEntry::new(What::Online, 1, [0, 0], 0);
        entry.sequence = 1.into();
        let first = place + HEADER_BYTES as u64;
        memory.write_all_at(entry.as_bytes(), first).unwrap();
        // One at the end of the memory is cut off and says nothing.
        let end = (8 << 20) - PAGE as u64;
        memory.write_all_at(header.as_bytes(), end).unwrap();
        assert_eq!(save(&memory, &to).unwrap(), 1);
        let text = std::fs::read_to_string(&to).unwrap();
        assert!(
            text.starts_with("# trace of node 2\n[    0.000000] node   1"),
            "{text}"
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
