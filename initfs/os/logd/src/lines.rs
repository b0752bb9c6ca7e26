//! The lines that are kept, and their levels.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use runtime::time::Instant;

/// Importance of a line, most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A program panicked; shown always.
    Panic,
    /// Nothing has this level; as a limit it lets only panics through.
    Off,
    /// An operation failed.
    Error,
    /// An unusual event.
    Warn,
    /// A normal event of interest.
    Info,
    /// Details for finding an error.
    Debug,
    /// Every step of a program.
    Trace,
}

impl Level {
    /// Parses the name of a level, in upper or lower case.
    pub fn parse(name: &str) -> Option<Level> {
        const NAMES: [(&str, Level); 6] = [
            ("off", Level::Off),
            ("error", Level::Error),
            ("warn", Level::Warn),
            ("info", Level::Info),
            ("debug", Level::Debug),
            ("trace", Level::Trace),
        ];
        NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, level)| *level)
    }

    /// The level of a line by its first word.
    fn of(line: &str) -> Level {
        let word = line.split(' ').next().unwrap_or("");
        match word {
            "PANIC" => Level::Panic,
            "ERROR" => Level::Error,
            "WARN" => Level::Warn,
            "DEBUG" => Level::Debug,
            "TRACE" => Level::Trace,
            _ => Level::Info,
        }
    }
}

/// The newest lines, bounded in bytes.
pub struct Lines {
    lines: VecDeque<String>,
    bytes: usize,
    limit: usize,
}

impl Lines {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Lines {
            lines: VecDeque::new(),
            bytes: 0,
            limit,
        }
    }

    /// Adds a line. Returns it as the console shows it, and its level. Control characters and
    /// bytes that are no text are replaced, so that no line can move the cursor.
    pub fn push(&mut self, line: &[u8]) -> (&str, Level) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches('\r');
        let level = Level::of(text);
        let now = Instant::now().as_nanos();
        let (seconds, millis) = (now / 1_000_000_000, now / 1_000_000 % 1000);
        let mut kept = format!("[{seconds:5}.{millis:03}] ");
        let time = kept.len();
        kept.extend(text.chars().map(|c| match c {
            '\t' => ' ',
            c if c.is_control() => '?',
            c => c,
        }));
        kept.push('\n');
        self.bytes += kept.len();
        self.lines.push_back(kept);
        while self.bytes > self.limit && self.lines.len() > 1 {
            if let Some(oldest) = self.lines.pop_front() {
                self.bytes -= oldest.len();
            }
        }
        let kept = self.lines.back().map_or("", String::as_str);
        // Programs that watch the console expect panics at the beginning of a line.
        let shown = if level == Level::Panic {
            &kept[time..]
        } else {
            kept
        };
        (shown, level)
    }

    /// Bytes of all kept lines.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All kept lines.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.bytes);
        for line in &self.lines {
            text.extend_from_slice(line.as_bytes());
        }
        text
    }
}
