//! `debug`: the console. Writes are output, reads wait for input.
//!
//! `screen`, of which there is one handle at a time, is for a terminal that shows the output on
//! the screen in place of the kernel. Reads return all output, beginning with the oldest that is
//! kept, and never wait; writes take cells (`kernel_core::screen::CELL_SIZE`). `dup(fd,
//! "winsize")` returns a handle from which the screen's rows and columns are read, a `u16` each.

use alloc::string::String;

use ::syscall::{
    EventFlags,
    data::GlobalSchemes,
    error::{
        EACCES, EAGAIN, EBADF, EBUSY, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, EPERM, Error, Result,
    },
};
use kernel_core::screen::{CELL_SIZE, Cell};
use spin::Mutex;

use super::{
    Caller, MAX_IO, OpenResult, Scheme,
    handles::{Handles, ROOT},
    input,
};
use crate::{console, mm::UserBuf};

#[derive(Clone, Copy)]
enum Handle {
    Console,
    /// The terminal's handle, with the number of output bytes that it has read or missed.
    Screen(u64),
    Size,
}

static HANDLES: Mutex<Handles<Handle>> = Mutex::new(Handles::new());

/// The name of the handle for the screen's size.
const SIZE_NAME: &[u8; 7] = b"winsize";

/// Bytes written or read at a time.
const CHUNK: usize = 512;
/// Most bytes that one write sends to the port.
const MAX_OUTPUT: usize = 256;

pub struct DebugScheme;

/// Connects console input to events of the handles.
pub fn init() {
    console::on_input(|| announce(|handle| matches!(handle, Handle::Console)));
}

/// Notifies the terminal of output that it has not read.
pub fn announce_output() {
    if console::take_new_output() {
        announce(|handle| matches!(handle, Handle::Screen(_)));
    }
}

/// Reports to event queues that the handles that `which` selects can be read.
fn announce(which: impl Fn(&Handle) -> bool) {
    let all = HANDLES.lock();
    let wanted = all.iter().filter(|(_, handle)| which(handle));
    input::announce(GlobalSchemes::Debug, wanted.map(|(number, _)| number));
}

fn get(number: usize) -> Result<Handle> {
    HANDLES.lock().get(number).copied()
}

/// A handle for the terminal that takes the screen over: `ENODEV` without a screen, `EBUSY` when
/// there is a terminal.
fn open_screen() -> Result<OpenResult> {
    console::screen_layout().ok_or(Error::new(ENODEV))?;
    let mut all = HANDLES.lock();
    if all
        .iter()
        .any(|(_, handle)| matches!(handle, Handle::Screen(_)))
    {
        return Err(Error::new(EBUSY));
    }
    console::take_screen();
    OpenResult::plain(all.insert(Handle::Screen(0)))
}

/// Copies output to a terminal that has not read it; `EAGAIN` when there is none.
fn read_output(number: usize, buf: UserBuf) -> Result<usize> {
    let mut bytes = [0_u8; CHUNK];
    let mut rest = buf.prefix(MAX_IO);
    let mut total = 0;
    while !rest.is_empty() {
        let count = {
            let mut all = HANDLES.lock();
            let Handle::Screen(from) = all.get_mut(number)? else {
                return Err(Error::new(EBADF));
            };
            let most = rest.len().min(CHUNK);
            console::read_output(from, &mut bytes[..most])
        };
        if count == 0 {
            break;
        }
        rest.write(&bytes[..count])?;
        rest = rest.skip(count);
        total += count;
    }
    if total == 0 && !buf.is_empty() {
        return Err(Error::new(EAGAIN));
    }
    Ok(total)
}

/// Shows a terminal's whole cells; the rest of the buffer is left.
fn write_cells(buf: UserBuf) -> Result<usize> {
    let mut bytes = [0_u8; CHUNK];
    let whole = buf.len().min(MAX_IO) / CELL_SIZE * CELL_SIZE;
    let mut rest = buf.prefix(whole);
    while !rest.is_empty() {
        let count = rest.read(&mut bytes)?;
        let (cells, _) = bytes[..count].as_chunks();
        console::show_cells(cells.iter().map(|cell| Cell::decode(*cell)));
        rest = rest.skip(count);
    }
    Ok(whole)
}

fn read_size(buf: UserBuf) -> Result<usize> {
    let layout = console::screen_layout().ok_or(Error::new(ENODEV))?;
    let size = [layout.rows, layout.columns].map(|size| (size as u16).to_ne_bytes());
    buf.write(size.as_flattened())
}

impl Scheme for DebugScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        caller: Caller,
    ) -> Result<OpenResult> {
        if number != ROOT {
            return Err(Error::new(EACCES));
        }
        if caller.uid != 0 {
            return Err(Error::new(EPERM));
        }
        match path {
            "" | "no-preserve" => OpenResult::plain(HANDLES.lock().insert(Handle::Console)),
            "screen" => open_screen(),
            _ => Err(Error::new(ENOENT)),
        }
    }

    fn dup(&self, number: usize, name: UserBuf, _caller: Caller) -> Result<OpenResult> {
        let mut bytes = [0_u8; SIZE_NAME.len()];
        match get(number)? {
            Handle::Screen(_) if name.len() == bytes.len() => name.read_exact(&mut bytes)?,
            Handle::Screen(_) => return Err(Error::new(EINVAL)),
            Handle::Console | Handle::Size => return Err(Error::new(EOPNOTSUPP)),
        }
        if bytes != *SIZE_NAME {
            return Err(Error::new(EINVAL));
        }
        OpenResult::plain(HANDLES.lock().insert(Handle::Size))
    }

    fn read(&self, number: usize, buf: UserBuf, flags: u32) -> Result<usize> {
        match get(number)? {
            Handle::Console => input::read(buf, flags, CHUNK, &console::INPUT, console::read_input),
            Handle::Screen(_) => read_output(number, buf),
            Handle::Size => read_size(buf),
        }
    }

    fn write(&self, number: usize, buf: UserBuf, _flags: u32) -> Result<usize> {
        if number == ROOT {
            return Err(Error::new(EINVAL));
        }
        match get(number)? {
            Handle::Console => {}
            Handle::Screen(_) => return write_cells(buf),
            Handle::Size => return Err(Error::new(EBADF)),
        }
        // A serial port takes 23 ms for so many bytes, during which nothing else happens. The
        // writer has to send the rest again.
        let mut bytes = [0_u8; MAX_OUTPUT];
        let count = buf.read(&mut bytes)?;
        console::write(bytes.get(..count).unwrap_or(&[]));
        Ok(count)
    }

    fn path(&self, number: usize) -> Result<String> {
        if number == ROOT {
            return Err(Error::new(EINVAL));
        }
        get(number).map(|_| String::from("debug:"))
    }

    fn fevent(&self, number: usize, flags: EventFlags) -> Result<EventFlags> {
        Ok(match get(number)? {
            // Output is taken at once.
            Handle::Console if console::has_input() => {
                flags & (EventFlags::EVENT_READ | EventFlags::EVENT_WRITE)
            }
            Handle::Console => flags & EventFlags::EVENT_WRITE,
            Handle::Screen(from) if console::has_output(from) => flags & EventFlags::EVENT_READ,
            _ => EventFlags::empty(),
        })
    }

    fn fsync(&self, number: usize) -> Result<()> {
        if number == ROOT {
            Err(Error::new(EBADF))
        } else {
            get(number).map(drop)
        }
    }

    fn close(&self, number: usize) {
        let closed = HANDLES.lock().remove(number);
        if let Some(Handle::Screen(_)) = closed {
            console::take_screen_back();
        }
    }
}
