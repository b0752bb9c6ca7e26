//! `debug`: the serial console. Writes go out and into the log, reads wait for input.

use alloc::string::String;

use ::syscall::{
    EventFlags,
    data::GlobalSchemes,
    error::{EACCES, EBADF, EINVAL, ENOENT, EPERM, Error, Result},
};
use spin::Mutex;

use super::{
    Caller, MAX_IO, Opened, Scheme,
    handles::{Handles, ROOT},
    input,
};
use crate::{console, mm::UserBuf};

static HANDLES: Mutex<Handles<()>> = Mutex::new(Handles::new());

/// Bytes written or read at a time.
const CHUNK: usize = 512;

pub struct DebugScheme;

/// Connects console input to the events of the handles.
pub fn init() {
    console::on_input(|| {
        let handles = HANDLES.lock().iter().map(|(number, ())| number).collect();
        input::announce(GlobalSchemes::Debug, handles);
    });
}

fn check(number: usize) -> Result<()> {
    HANDLES.lock().get(number).copied()
}

impl Scheme for DebugScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        caller: Caller,
    ) -> Result<Opened> {
        if number != ROOT {
            return Err(Error::new(EACCES));
        }
        if caller.uid != 0 {
            return Err(Error::new(EPERM));
        }
        match path {
            "" | "no-preserve" => Opened::plain(HANDLES.lock().insert(())),
            _ => Err(Error::new(ENOENT)),
        }
    }

    fn read(&self, number: usize, buf: UserBuf, flags: u32) -> Result<usize> {
        check(number)?;
        input::read(buf, flags, CHUNK, &console::INPUT, console::read_input)
    }

    fn write(&self, number: usize, buf: UserBuf, _flags: u32) -> Result<usize> {
        if number == ROOT {
            return Err(Error::new(EINVAL));
        }
        check(number)?;
        let mut bytes = [0_u8; CHUNK];
        let buf = buf.prefix(MAX_IO);
        let mut rest = buf;
        while !rest.is_empty() {
            let count = rest.read(&mut bytes)?;
            console::write(bytes.get(..count).unwrap_or(&[]));
            rest = rest.skip(count);
        }
        Ok(buf.len())
    }

    fn path(&self, number: usize) -> Result<String> {
        if number == ROOT {
            return Err(Error::new(EINVAL));
        }
        check(number).map(|()| String::from("debug:"))
    }

    fn fevent(&self, number: usize, _flags: EventFlags) -> Result<EventFlags> {
        check(number).map(|()| EventFlags::empty())
    }

    fn fsync(&self, number: usize) -> Result<()> {
        if number == ROOT {
            Err(Error::new(EBADF))
        } else {
            check(number)
        }
    }

    fn close(&self, number: usize) {
        HANDLES.lock().remove(number);
    }
}
