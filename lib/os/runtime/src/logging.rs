//! The `log` crate's output: one line per message to the log scheme.
//!
//! A line is `LEVEL name: message`; the log daemon adds the time, keeps the line and copies it to
//! the console. A program without the log scheme writes to its standard error instead.

use alloc::format;
use alloc::string::String;

use log::{Level, LevelFilter, Log, Metadata, Record};
use spin::Once;

use crate::{env, io, path};

struct Logger {
    name: String,
    fd: usize,
}

static LOGGER: Once<Logger> = Once::new();

/// Starts logging under `name`. The level comes from the environment variable `LOG` (`error`,
/// `warn`, `info`, `debug`, `trace`, `off`), `info` when it is not set.
pub fn init(name: &str) {
    let level = env::var("LOG")
        .and_then(|level| level.parse::<LevelFilter>().ok())
        .unwrap_or(LevelFilter::Info);
    let logger = LOGGER.call_once(|| Logger {
        name: name.into(),
        fd: path::open_upper("/scheme/log", syscall::O_WRONLY).unwrap_or(2),
    });
    // A second call changes only the level.
    let _ = log::set_logger(logger);
    log::set_max_level(level);
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
            Level::Trace => "TRACE",
        };
        let line = format!("{level} {}: {}\n", self.name, record.args());
        let _ = io::write_all(self.fd, line.as_bytes());
    }

    fn flush(&self) {}
}
