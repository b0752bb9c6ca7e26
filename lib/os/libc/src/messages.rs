//! `err.h`, `error.h` and `syslog.h`: messages that begin with the program's name.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{VaList, c_char, c_int};

use runtime::{Result, fd, path};
use syscall::flag::O_WRONLY;

use crate::sync::Shared;
use crate::{errno, print, process, start, stream, strings};

/// The text of a format and its arguments; empty if the format is null.
///
/// # Safety
/// `format` is null or a string, and `list` has the arguments that it names.
unsafe fn text_of(format: *const c_char, list: &mut VaList<'_>) -> String {
    if format.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { print::text(format, list) }.unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The last part of the name under which the program was started.
fn own_name() -> String {
    let name = start::name();
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the program's first argument, a string for its whole life.
    let name = String::from_utf8_lossy(unsafe { strings::bytes(name) });
    name.rsplit('/').next().unwrap_or_default().into()
}

/// Writes `name: text: error`; without the text if that is empty, and without the error if there
/// is none.
fn tell(text: &str, number: Option<c_int>) {
    let mut line = own_name();
    if !text.is_empty() || number.is_none() {
        line = format!("{line}: {text}");
    }
    if let Some(number) = number {
        line = format!("{line}: {}", errno::message(number));
    }
    runtime::eprintln!("{line}");
}

macro_rules! messages {
    ($($plain:ident $list:ident $with_error:literal;)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $list(format: *const c_char, mut list: VaList<'_>) {
            let number = $with_error.then(errno::get);
            // SAFETY: the caller's format and arguments.
            tell(&unsafe { text_of(format, &mut list) }, number);
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $plain(format: *const c_char, list: ...) {
            // SAFETY: the same contract.
            unsafe { $list(format, list) }
        }
    )* };
}

messages! {
    warn vwarn true;
    warnx vwarnx false;
}

macro_rules! ends {
    ($($plain:ident $list:ident $message:ident;)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $list(status: c_int, format: *const c_char, list: VaList<'_>) -> ! {
            // SAFETY: the same contract.
            unsafe { $message(format, list) };
            process::leave(status)
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $plain(status: c_int, format: *const c_char, list: ...) -> ! {
            // SAFETY: the same contract.
            unsafe { $list(status, format, list) }
        }
    )* };
}

ends! {
    err verr vwarn;
    errx verrx vwarnx;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn error(status: c_int, number: c_int, format: *const c_char, mut list: ...) {
    stream::flush_all();
    // SAFETY: the caller's format and arguments.
    let text = unsafe { text_of(format, &mut list) };
    tell(&text, Some(number).filter(|number| *number != 0));
    if status != 0 {
        process::leave(status);
    }
}

/// The settings of `openlog` and `setlogmask`.
pub struct Log {
    name: Option<Vec<u8>>,
    options: c_int,
    mask: c_int,
}

pub static LOG: Shared<Log> = Shared::new(Log {
    name: None,
    options: 0,
    mask: 0xff,
});

// Options of `openlog`.
const WITH_PID: c_int = 0x01;
const TO_ERROR: c_int = 0x20;

/// The facility has no effect, as the system's log has none.
#[unsafe(no_mangle)]
unsafe extern "C" fn openlog(name: *const c_char, options: c_int, _facility: c_int) {
    // SAFETY: the caller's string or null.
    let name = (!name.is_null()).then(|| unsafe { strings::bytes(name) }.to_vec());
    LOG.with(|log| {
        log.name = name;
        log.options = options;
    });
}

#[unsafe(no_mangle)]
extern "C" fn closelog() {
    LOG.with(|log| {
        log.name = None;
        log.options = 0;
    });
}

#[unsafe(no_mangle)]
extern "C" fn setlogmask(mask: c_int) -> c_int {
    LOG.with(|log| {
        let before = log.mask;
        if mask != 0 {
            log.mask = mask;
        }
        before
    })
}

fn write_log(line: &str) -> Result<()> {
    let number = path::open("/scheme/log", O_WRONLY)?;
    let written = runtime::io::write_all(number, line.as_bytes());
    fd::close(number)?;
    written
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vsyslog(priority: c_int, format: *const c_char, mut list: VaList<'_>) {
    const LEVELS: [&str; 8] = [
        "ERROR", "ERROR", "ERROR", "ERROR", "WARN", "INFO", "INFO", "DEBUG",
    ];
    let level = priority & 7;
    let (name, options, mask) = LOG.with(|log| (log.name.clone(), log.options, log.mask));
    if mask & 1 << level == 0 {
        return;
    }
    // SAFETY: the caller's format and arguments.
    let text = unsafe { text_of(format, &mut list) };
    let name = name.map_or_else(own_name, |name| String::from_utf8_lossy(&name).into_owned());
    let name = match options & WITH_PID {
        0 => name,
        _ => format!("{name}[{}]", runtime::process::id()),
    };
    let text = text.trim_end_matches('\n');
    let level = LEVELS[level as usize];
    let logged = write_log(&format!("{level} {name}: {text}\n"));
    // If there is no log, the message must not be lost.
    if logged.is_err() || options & TO_ERROR != 0 {
        runtime::eprintln!("{name}: {text}");
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn syslog(priority: c_int, format: *const c_char, list: ...) {
    // SAFETY: the same contract.
    unsafe { vsyslog(priority, format, list) }
}
