//! Which kernel this is: this project's and Redox's differ in what becomes of requests whose
//! caller or daemon has died. docs/redox.md, "Killed clients", compares the two.

#[cfg(target_os = "redox")]
pub use asked::ends_abandoned_requests;

/// A test chooses the answer.
#[cfg(not(target_os = "redox"))]
pub use crate::testing::host::ends_abandoned_requests;

#[cfg(target_os = "redox")]
mod asked {
    use core::sync::atomic::{AtomicU8, Ordering};

    use libredox::Fd;
    use libredox::flag::{O_CLOEXEC, O_RDONLY};

    /// The kernel's text about itself.
    const FILE: &str = "/scheme/sys/uname";
    /// Most bytes of it that are read.
    const MOST_BYTES: usize = 256;

    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;

    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Whether the kernel ends requests whose caller or daemon has died. This project's kernel
    /// does: it tells a daemon that a caller was killed, closes what the daemon makes for a dead
    /// caller, never leaves it to a daemon to tear down a dead caller's address space, and ends
    /// requests to a dead daemon. Redox's kernel does none of this. A kernel that does not say
    /// which it is counts as Redox's.
    ///
    /// The first call asks the kernel. A program that gives up its namespace makes it before.
    pub fn ends_abandoned_requests() -> bool {
        match KNOWN.load(Ordering::Relaxed) {
            UNKNOWN => {
                let ends = ask();
                KNOWN.store(if ends { YES } else { NO }, Ordering::Relaxed);
                ends
            }
            known => known == YES,
        }
    }

    fn ask() -> bool {
        let mut bytes = [0; MOST_BYTES];
        let file = Fd::open(FILE, O_RDONLY | O_CLOEXEC, 0);
        let count = file.and_then(|file| file.read(&mut bytes));
        count.is_ok_and(|count| super::is_own(&bytes[..count]))
    }
}

/// Whether the text is that of this project's kernel: its last line is the name of the source that
/// the kernel was built from.
#[cfg(any(test, target_os = "redox"))]
fn is_own(text: &[u8]) -> bool {
    text.trim_ascii_end().ends_with(b"\nskiff")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_names_the_kernel() {
        assert!(is_own(b"Redox\n0.1.0\nx86_64\nskiff\n"));
        assert!(!is_own(b"Redox\n0.5.12\nx86_64\n\n"));
        assert!(!is_own(b"Redox\n0.5.12\nx86_64\n663e66410bac\n"));
        assert!(!is_own(b"skiff"));
        assert!(!is_own(b""));
    }
}
