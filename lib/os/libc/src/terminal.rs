//! `termios.h`: the console in its two modes, by lines and byte by byte; `getpass`.
//!
//! The console's scheme has a handle for each mode. A change of the mode puts the other handle in
//! the place of the program's descriptor; other descriptors of the console stay as they are.

use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_uint};
use core::ptr::null_mut;

use runtime::{Error, Result, fd, path};
use syscall::error::{EINTR, EINVAL, ENOTTY};
use syscall::flag::O_RDWR;

use crate::sync::Shared;
use crate::{descriptor, errno, points};

/// Bits of `c_iflag`, `c_oflag`, `c_cflag` and `c_lflag`, as in `termios.h` and relibc.
const BRKINT: c_uint = 0o2;
const ICRNL: c_uint = 0o400;
const IXON: c_uint = 0o1000;
const OPOST: c_uint = 0o1;
const ONLCR: c_uint = 0o2;
const CS8: c_uint = 0o1400;
const CREAD: c_uint = 0o4000;
const ISIG: c_uint = 0x80;
const ICANON: c_uint = 0x100;
const ECHO: c_uint = 0x8;
const ECHOE: c_uint = 0x2;
const ECHOK: c_uint = 0x4;
const IEXTEN: c_uint = 0x400;
const B38400: c_uint = 0o17;

const VEOF: usize = 0;
const VERASE: usize = 3;
const VKILL: usize = 5;
const VINTR: usize = 8;
const VQUIT: usize = 9;
const VMIN: usize = 16;
const VTIME: usize = 17;

/// C's `struct termios`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Settings {
    input: c_uint,
    output: c_uint,
    control: c_uint,
    local: c_uint,
    line: u8,
    characters: [u8; 32],
    input_speed: c_uint,
    output_speed: c_uint,
}

/// The settings of a console that edits lines: ^C, ^\, erase, ^U, ^D.
const LINES: Settings = {
    let mut characters = [0; 32];
    characters[VINTR] = 3;
    characters[VQUIT] = 28;
    characters[VERASE] = 127;
    characters[VKILL] = 21;
    characters[VEOF] = 4;
    characters[VMIN] = 1;
    Settings {
        input: BRKINT | ICRNL | IXON,
        output: OPOST | ONLCR,
        control: CS8 | CREAD,
        local: ISIG | ICANON | ECHO | ECHOE | ECHOK | IEXTEN,
        line: 0,
        characters,
        input_speed: B38400,
        output_speed: B38400,
    }
};

/// The settings that the program has made last.
pub static SETTINGS: Shared<Settings> = Shared::new(LINES);

/// The mode of the console.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Lines,
    Bytes,
}

/// The mode of a descriptor of the console.
///
/// # Errors
/// `EBADF`, `ENOTTY`.
fn mode(number: c_int) -> Result<Mode> {
    let mut path = [0; 32];
    let index = descriptor::check(number)?;
    fd::fcntl(index, syscall::F_GETFD, 0)?;
    let length = fd::fpath(index, &mut path).map_err(|_| Error::new(ENOTTY))?;
    match path.get(..length) {
        Some(b"/scheme/console/raw") => Ok(Mode::Bytes),
        Some(path) if path.starts_with(b"/scheme/console") => Ok(Mode::Lines),
        _ => Err(Error::new(ENOTTY)),
    }
}

fn set(number: c_int, settings: &Settings) -> Result<()> {
    let now = mode(number)?;
    let wanted = match settings.local & (ICANON | ECHO) {
        0 if settings.characters[VMIN] > 0 && settings.characters[VTIME] == 0 => Mode::Bytes,
        both if both == ICANON | ECHO => Mode::Lines,
        _ => return Err(Error::new(EINVAL)),
    };
    if now != wanted {
        let index = descriptor::check(number)?;
        let flags = fd::fcntl(index, syscall::F_GETFL, 0)?;
        let other = match wanted {
            Mode::Bytes => fd::dup(index, b"raw"),
            Mode::Lines => path::open("/scheme/console", O_RDWR),
        }?;
        let moved =
            fd::fcntl(other, syscall::F_SETFL, flags).and_then(|_| fd::dup2(other, index, b""));
        fd::close(other)?;
        moved?;
    }
    SETTINGS.with(|known| *known = *settings);
    Ok(())
}

/// The most bytes of a password.
const PASSWORD_BYTES: usize = 128;

/// The last line that was typed for [`getpass`], followed by a zero byte.
static PASSWORD: Shared<[u8; PASSWORD_BYTES + 1]> = Shared::new([0; PASSWORD_BYTES + 1]);

/// Reads a line that the console does not show. If the input is no console, reads the next line.
fn read_hidden(prompt: &[u8]) -> Result<Vec<u8>> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    let console = match mode(0) {
        Ok(_) => Some(fd::dup(descriptor::check(0)?, b"raw")?),
        Err(_) => None,
    };
    // A program that has closed its standard error shows no prompt.
    let _ = fd::write(2, prompt);
    let mut typed = Vec::new();
    let result = loop {
        let mut byte = [0];
        let from = console.unwrap_or(0);
        match (fd::read_once(from, &mut byte), console) {
            (Err(error), _) => break Err(error),
            (Ok(0), _) => break Ok(()),
            (Ok(_), Some(_)) if byte[0] == INTERRUPT => break Err(Error::new(EINTR)),
            (Ok(_), Some(_)) if matches!(byte[0], END | b'\r') => break Ok(()),
            (Ok(_), Some(_)) if matches!(byte[0], 8 | 127) => drop(typed.pop()),
            (Ok(_), _) if byte[0] == b'\n' => break Ok(()),
            (Ok(_), _) if typed.len() < PASSWORD_BYTES => typed.push(byte[0]),
            (Ok(_), _) => {}
        }
    };
    if let Some(console) = console {
        let _ = fd::write(2, b"\n");
        fd::close(console)?;
    }
    result.map(|()| typed)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpass(prompt: *const c_char) -> *mut c_char {
    // SAFETY: the caller's text.
    let prompt = unsafe { CStr::from_ptr(prompt) };
    match read_hidden(prompt.to_bytes()) {
        Ok(typed) => PASSWORD.with(|password| {
            password.fill(0);
            password[..typed.len()].copy_from_slice(&typed);
            password.as_mut_ptr().cast()
        }),
        Err(error) => {
            errno::set(error.errno);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tcgetattr(number: c_int, settings: *mut Settings) -> c_int {
    errno::done(mode(number).map(|way| {
        let mut known = SETTINGS.with(|known| *known);
        // Another program may have left the descriptor in the other mode.
        match way {
            Mode::Lines => known.local |= ICANON | ECHO,
            Mode::Bytes => known.local &= !(ICANON | ECHO),
        }
        // SAFETY: the caller's structure.
        unsafe { settings.write(known) };
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tcsetattr(number: c_int, when: c_int, settings: *const Settings) -> c_int {
    if !(0..=2).contains(&when) {
        return errno::fail(EINVAL);
    }
    // SAFETY: the caller's structure.
    let settings = unsafe { settings.read() };
    errno::done(set(number, &settings))
}

/// Has nothing to wait for, as output is never buffered.
#[unsafe(no_mangle)]
extern "C" fn tcdrain(number: c_int) -> c_int {
    points::pass();
    errno::done(mode(number).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn tcflow(number: c_int, action: c_int) -> c_int {
    match (0..=3).contains(&action) {
        true => tcdrain(number),
        false => errno::fail(EINVAL),
    }
}

/// Discards nothing: characters that were typed stay.
#[unsafe(no_mangle)]
extern "C" fn tcflush(number: c_int, queue: c_int) -> c_int {
    match (0..=2).contains(&queue) {
        true => tcdrain(number),
        false => errno::fail(EINVAL),
    }
}

#[unsafe(no_mangle)]
extern "C" fn tcsendbreak(number: c_int, _duration: c_int) -> c_int {
    tcdrain(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cfmakeraw(settings: *mut Settings) {
    // SAFETY: the caller's structure.
    if let Some(settings) = unsafe { settings.as_mut() } {
        settings.input &= !(0o1 | BRKINT | 0o10 | 0o40 | 0o100 | 0o200 | ICRNL | IXON);
        settings.output &= !OPOST;
        settings.local &= !(ECHO | 0o100 | ICANON | ISIG | IEXTEN);
        settings.control |= CS8;
        settings.characters[VMIN] = 1;
        settings.characters[VTIME] = 0;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cfgetispeed(settings: *const Settings) -> c_uint {
    // SAFETY: the caller's structure.
    unsafe { (*settings).input_speed }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cfgetospeed(settings: *const Settings) -> c_uint {
    // SAFETY: the caller's structure.
    unsafe { (*settings).output_speed }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cfsetispeed(settings: *mut Settings, speed: c_uint) -> c_int {
    // SAFETY: the caller's structure.
    unsafe { (*settings).input_speed = speed };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cfsetospeed(settings: *mut Settings, speed: c_uint) -> c_int {
    // SAFETY: the caller's structure.
    unsafe { (*settings).output_speed = speed };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cfsetspeed(settings: *mut Settings, speed: c_uint) -> c_int {
    // SAFETY: the same contract.
    unsafe { cfsetispeed(settings, speed) | cfsetospeed(settings, speed) }
}
