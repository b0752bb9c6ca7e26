//! Splitting a stream into lines.

use alloc::vec::Vec;

/// Collects blocks and splits them into whole lines.
#[derive(Default)]
pub struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a block and calls `line` with every line that is complete now, including its end. If
    /// `line` returns false, stops, drops the rest and returns false.
    pub fn push(&mut self, block: &[u8], mut line: impl FnMut(&[u8]) -> bool) -> bool {
        let mut rest = block;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = rest.split_at(end + 1);
            rest = tail;
            let go_on = if self.pending.is_empty() {
                line(head)
            } else {
                self.pending.extend_from_slice(head);
                let go_on = line(&self.pending);
                self.pending.clear();
                go_on
            };
            if !go_on {
                return false;
            }
        }
        self.pending.extend_from_slice(rest);
        true
    }

    /// The last line when it has no end.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        (!self.pending.is_empty()).then(|| core::mem::take(&mut self.pending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn lines_do_not_depend_on_the_blocks() {
        let text = b"one\n\ntwo three\nlast";
        for size in 1..text.len() {
            let mut lines = Lines::new();
            let mut seen = Vec::new();
            for block in text.chunks(size) {
                lines.push(block, |line| {
                    seen.push(String::from_utf8_lossy(line).into_owned());
                    true
                });
            }
            assert_eq!(seen, ["one\n", "\n", "two three\n"]);
            assert_eq!(lines.finish().as_deref(), Some(&b"last"[..]));
            assert_eq!(lines.finish(), None);
        }
        let mut count = 0;
        assert!(!Lines::new().push(text, |_| {
            count += 1;
            count < 2
        }));
        assert_eq!(count, 2);
    }
}
