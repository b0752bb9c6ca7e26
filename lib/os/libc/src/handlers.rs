//! What the program does with each signal, and the calls of its handlers.

use core::ffi::{CStr, c_char, c_int, c_uint};
use core::ptr::null;
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::signals;

use crate::caught::{self, Sent};
use crate::masks;
use crate::sync::Shared;

/// `SIG_DFL` and `SIG_IGN`.
pub const DEFAULT: usize = 0;
/// See [`DEFAULT`].
pub const IGNORE: usize = 1;
/// SIGCHLD, SIGCONT, SIGURG, SIGWINCH do nothing by default.
const HARMLESS: [c_int; 4] = [SIGCHLD, 18, 23, 28];
/// The end of a child.
pub const SIGCHLD: c_int = 17;
const COUNT: usize = 65;

/// `SA_NODEFER`: the handler's own signal is not blocked meanwhile.
const NO_DEFER: c_int = 0x1000_0000;
/// `SA_RESTART`: most calls that the handler has interrupted go on.
pub const RESTARTS: c_int = 0x0800_0000;
/// `SA_RESETHAND`: the handler is called once.
const ONCE: c_int = 0x2000_0000;

/// `SA_NOCLDWAIT`: children leave nothing to wait for when they end.
const NO_CHILD_WAIT: c_int = 2;

/// Counts the calls of handlers without `SA_RESTART` for signals to the process.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// How many handlers have run without `SA_RESTART` for signals to the process.
pub fn ending() -> u32 {
    ENDING.load(Ordering::Relaxed)
}

/// What the program does with a signal.
#[derive(Clone, Copy)]
pub struct Disposition {
    /// [`DEFAULT`], [`IGNORE`] or the address of a function.
    pub handler: usize,
    /// `SA_…`
    pub flags: c_int,
    /// The signals that are blocked while the handler runs.
    pub mask: u64,
}

impl Disposition {
    /// The system's usual effect.
    pub const USUAL: Self = Self {
        handler: DEFAULT,
        flags: 0,
        mask: 0,
    };

    /// No effect.
    pub const IGNORED: Self = Self {
        handler: IGNORE,
        ..Self::USUAL
    };

    /// Whether the end of children, if it is SIGCHLD that this is for, leaves nothing. With a
    /// handler it leaves its status, whatever the flags say: the process manager tells of no other
    /// children.
    pub fn leaves_nothing(&self) -> bool {
        match self.handler {
            IGNORE => true,
            DEFAULT => self.flags & NO_CHILD_WAIT != 0,
            _ => false,
        }
    }
}

/// What the program does with signals.
pub struct Known {
    chosen: [Disposition; COUNT],
    /// Whether `chosen` has what was ignored when the program began.
    has_inherited: bool,
}

pub static HANDLERS: Shared<Known> = Shared::new(Known {
    chosen: [Disposition::USUAL; COUNT],
    has_inherited: false,
});

/// Runs `action` on what the program does with signals, by their numbers. A signal that its parent,
/// or the program before an `exec`, has ignored is ignored at first.
fn with<T>(action: impl FnOnce(&mut [Disposition; COUNT]) -> T) -> T {
    HANDLERS.with(|known| {
        if !known.has_inherited {
            known.has_inherited = true;
            // Without an answer nothing is known to be ignored.
            let ignored = signals::choice().unwrap_or_default().ignored;
            let is_ignored =
                |number: c_int| masks::bit(number).is_some_and(|bit| ignored & bit != 0);
            for (number, place) in (0..).zip(&mut known.chosen) {
                if is_ignored(number) {
                    *place = Disposition::IGNORED;
                }
            }
        }
        action(&mut known.chosen)
    })
}

/// Returns what the program does with a signal, and changes it unless `new` is `None`. `None`:
/// there is no such signal, or it cannot be changed.
pub fn exchange(number: c_int, new: Option<Disposition>) -> Option<Disposition> {
    let bit = masks::bit(number)?;
    if new.is_some() && bit & masks::FIXED != 0 {
        return None;
    }
    Some(with(|handlers| {
        let place = &mut handlers[number as usize];
        match new {
            Some(new) => core::mem::replace(place, new),
            None => *place,
        }
    }))
}

/// Why a signal has come.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    code: c_int,
    process: c_int,
    user: c_uint,
    /// The value that came with the signal, or the status of a child.
    value: usize,
    /// The timer that has sent it; 0: none.
    timer: usize,
}

impl Origin {
    /// From the system.
    pub const SYSTEM: Self = Self {
        code: 128,
        process: 0,
        user: 0,
        value: 0,
        timer: 0,
    };

    /// From this timer of `timer_create`.
    pub fn timer(timer: usize, value: usize) -> Self {
        Self {
            code: -2,
            value,
            timer,
            ..Self::SYSTEM
        }
    }

    /// Whether it is from this timer.
    pub fn is_timer(&self, timer: usize) -> bool {
        self.timer == timer
    }

    /// From this process.
    pub fn own() -> Self {
        let user = runtime::process::own_meta().ruid;
        Self::process(runtime::process::id() as c_int, user)
    }

    /// From a process.
    pub fn process(process: c_int, user: c_uint) -> Self {
        Self {
            code: 0,
            process,
            user,
            ..Self::SYSTEM
        }
    }

    /// From the end of a child with this status, which is one of `wait`.
    pub fn child(process: c_int, user: c_uint, status: c_int) -> Self {
        const EXITED: c_int = 1;
        const KILLED: c_int = 2;
        let (code, status) = match status & 0x7f {
            0 => (EXITED, status >> 8 & 0xff),
            signal => (KILLED, signal),
        };
        Self {
            code,
            process,
            user,
            value: status as u32 as usize,
            ..Self::SYSTEM
        }
    }

    /// C's structure for a signal.
    pub fn information(&self, number: c_int) -> Information {
        Information {
            number,
            error: 0,
            code: self.code,
            padding: 0,
            process: self.process,
            user: self.user,
            value: self.value,
            rest: [0; 24],
        }
    }
}

/// C's `siginfo_t`.
#[repr(C, align(8))]
pub struct Information {
    number: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    process: c_int,
    user: c_uint,
    /// `si_value`, and in its first bytes `si_status`.
    value: usize,
    rest: [c_int; 24],
}

const _: () = assert!(size_of::<Information>() == 128);

/// What has become of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing.
    Nothing,
    /// A handler has run.
    Handled {
        /// Whether calls that it has interrupted go on.
        restarts: bool,
    },
    /// The signal has to end the process.
    Ends,
}

/// Calls the program's handler in the calling thread, if it has one.
pub fn deliver(number: c_int, origin: Origin, sent: Sent) -> Outcome {
    let Some(bit) = masks::bit(number) else {
        return Outcome::Nothing;
    };
    let chosen = with(|handlers| {
        let place = &mut handlers[number as usize];
        let chosen = *place;
        let is_called = !matches!(chosen.handler, DEFAULT | IGNORE);
        if is_called && chosen.flags & ONCE != 0 {
            *place = Disposition::USUAL;
        }
        chosen
    });
    match chosen.handler {
        IGNORE => return Outcome::Nothing,
        DEFAULT if HARMLESS.contains(&number) => return Outcome::Nothing,
        DEFAULT => return Outcome::Ends,
        _ => {}
    }
    // SAFETY: the program gave it as a function that takes the signal's number. One that expects
    // more (SA_SIGINFO) finds who has sent it, and no context.
    let handler: extern "C" fn(c_int, *mut Information, *const u8) =
        unsafe { core::mem::transmute(chosen.handler) };
    let before = masks::own();
    let itself = if chosen.flags & NO_DEFER == 0 { bit } else { 0 };
    masks::set(before | chosen.mask | itself);
    let mut information = origin.information(number);
    handler(number, &raw mut information, null());
    masks::set(before);
    caught::note(sent);
    let restarts = chosen.flags & RESTARTS != 0;
    if !restarts && sent == Sent::Process {
        ENDING.fetch_add(1, Ordering::Relaxed);
    }
    Outcome::Handled { restarts }
}

/// What signals mean, from number 1 on. There is none with number 16 here.
const TEXTS: [&CStr; 31] = [
    c"Hangup",
    c"Interrupt",
    c"Quit",
    c"Illegal instruction",
    c"Trace/breakpoint trap",
    c"Aborted",
    c"Bus error",
    c"Floating point exception",
    c"Killed",
    c"User defined signal 1",
    c"Segmentation fault",
    c"User defined signal 2",
    c"Broken pipe",
    c"Alarm clock",
    c"Terminated",
    c"Stack fault",
    c"Child exited",
    c"Continued",
    c"Stopped (signal)",
    c"Stopped",
    c"Stopped (tty input)",
    c"Stopped (tty output)",
    c"Urgent I/O condition",
    c"CPU time limit exceeded",
    c"File size limit exceeded",
    c"Virtual timer expired",
    c"Profiling timer expired",
    c"Window changed",
    c"I/O possible",
    c"Power failure",
    c"Bad system call",
];

/// What a signal means.
#[unsafe(no_mangle)]
pub extern "C" fn strsignal(number: c_int) -> *const c_char {
    let index = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let text = index.and_then(|index| TEXTS.get(index).copied());
    let text = text.unwrap_or(match masks::bit(number) {
        Some(_) => c"Real-time signal",
        None => c"Unknown signal",
    });
    text.as_ptr()
}

/// Whether the program has a function for a signal.
pub fn is_handled(number: c_int) -> bool {
    let chosen = exchange(number, None);
    chosen.is_some_and(|chosen| !matches!(chosen.handler, DEFAULT | IGNORE))
}

/// Whether a signal would do nothing now.
pub fn is_without_effect(number: c_int) -> bool {
    match exchange(number, None).map(|chosen| chosen.handler) {
        Some(DEFAULT) => HARMLESS.contains(&number),
        Some(IGNORE) | None => true,
        Some(_) => false,
    }
}
