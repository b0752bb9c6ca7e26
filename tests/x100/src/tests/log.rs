//! Tests of the driver's log lines.

use std::cell::RefCell;
use std::sync::Once;

std::thread_local! {
    static WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Listener;

impl log::Log for Listener {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Warn {
            WORDS.with_borrow_mut(|words| *words += &format!("{}\n", record.args()));
        }
    }

    fn flush(&self) {}
}

/// The warnings and errors that are logged while this is done.
pub fn said(what: impl FnOnce()) -> String {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Listener).expect("the first logger");
        log::set_max_level(log::LevelFilter::Warn);
    });
    WORDS.take();
    what();
    WORDS.take()
}
