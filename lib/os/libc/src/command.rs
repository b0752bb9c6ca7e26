//! Shell commands for whose end the program waits: `system`.

use core::ffi::{c_char, c_int};

use runtime::Result;
use runtime::process::Child;

use crate::handlers::{self, Disposition, SIGCHLD};
use crate::sync::Shared;
use crate::{arrivals, errno, masks, signal, spawn, stream, strings};

/// The signals that the program ignores while a command runs: those of the keyboard, which are
/// meant for the command.
const ASIDE: [c_int; 2] = [SIGINT, SIGQUIT];
const SIGINT: c_int = 2;
const SIGQUIT: c_int = 3;

/// The commands that run.
pub struct Running {
    count: usize,
    /// What the program does otherwise with the signals of [`ASIDE`].
    before: [Disposition; ASIDE.len()],
}

pub static RUNNING: Shared<Running> = Shared::new(Running {
    count: 0,
    before: [Disposition::USUAL; ASIDE.len()],
});

/// Runs a command by the shell; for a null command says that there is a shell.
#[unsafe(no_mangle)]
unsafe extern "C" fn system(text: *const c_char) -> c_int {
    if text.is_null() {
        return 1;
    }
    // SAFETY: the caller's string.
    let text = unsafe { strings::bytes(text) };
    stream::flush_idle();
    // A handler would take the status for which this function waits. Without one there is no
    // effect to put off.
    let has_handler = handlers::is_handled(SIGCHLD);
    let before = masks::own();
    if has_handler {
        arrivals::block(before | masks::bit(SIGCHLD).unwrap_or(0));
    }
    let usual = set_aside();
    let ended = run(text, usual).and_then(|mut child| Ok(child.wait()?.into_raw()));
    take_back();
    if has_handler {
        arrivals::block(before);
    }
    errno::give(ended)
}

/// Starts a command, on which these signals have their usual effect.
fn run(text: &[u8], usual: u64) -> Result<Child> {
    spawn::retried(|| spawn::shell(text).usual_signals(usual).spawn())
}

/// Ignores the signals of [`ASIDE`]. Returns the set of those that were not ignored before.
fn set_aside() -> u64 {
    RUNNING.with(|running| {
        running.count += 1;
        if running.count == 1 {
            // Both signals exist, and can be ignored.
            running.before = ASIDE.map(|number| {
                let before = signal::choose(number, Some(Disposition::IGNORED));
                before.unwrap_or(Disposition::USUAL)
            });
        }
        let of = running.before.iter().zip(ASIDE);
        let usual = of.filter(|(before, _)| before.handler != handlers::IGNORE);
        usual.fold(0, |set, (_, number)| set | masks::bit(number).unwrap_or(0))
    })
}

/// Undoes [`set_aside`] behind the last command.
fn take_back() {
    RUNNING.with(|running| {
        running.count -= 1;
        if running.count == 0 {
            for (before, number) in running.before.iter().zip(ASIDE) {
                let _ = signal::choose(number, Some(*before));
            }
        }
    });
}
