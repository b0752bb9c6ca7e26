//! The panic handler: one line on standard error, exit status 101.

use core::fmt::{self, Write};

use crate::{env, io, process};

/// Exit status of a program that panicked.
pub const EXIT_STATUS: i32 = 101;

/// Most bytes of the line, without its end.
const LINE_BYTES: usize = 1024;
/// Most bytes of its first part: of a long message the end is left out, not the place.
const MESSAGE_BYTES: usize = LINE_BYTES - 192;

/// The line, in memory of its own: a program may panic because it gets no more.
struct Line {
    bytes: [u8; LINE_BYTES + 1],
    used: usize,
    /// No more than so many bytes are used.
    most: usize,
}

impl Line {
    /// The line with its end.
    fn ended(&mut self) -> &str {
        if let Some(end) = self.bytes.get_mut(self.used) {
            *end = b'\n';
        }
        let line = self.bytes.get(..=self.used).unwrap_or_default();
        str::from_utf8(line).unwrap_or_default()
    }
}

impl Write for Line {
    /// Adds what there is room for.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let rest = self.bytes.get_mut(self.used..self.most).unwrap_or_default();
        let count = text.floor_char_boundary(rest.len());
        for (to, from) in rest.iter_mut().zip(text.bytes().take(count)) {
            *to = from;
        }
        self.used += count;
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::sync::atomic::{AtomicBool, Ordering};
    static PANICKING: AtomicBool = AtomicBool::new(false);
    if !PANICKING.swap(true, Ordering::Relaxed) {
        let mut line = Line {
            bytes: [0; LINE_BYTES + 1],
            used: 0,
            most: MESSAGE_BYTES,
        };
        // Writing to a line does not fail. If a value cannot be shown, the message ends before it.
        let _ = env::with_program_name(|name| write!(line, "PANIC {name}: "));
        let _ = write!(line, "{}", info.message());
        line.most = LINE_BYTES;
        if let Some(at) = info.location() {
            let _ = write!(line, " at {}:{}", at.file(), at.line());
        }
        io::emergency(line.ended());
    }
    process::exit(EXIT_STATUS)
}
