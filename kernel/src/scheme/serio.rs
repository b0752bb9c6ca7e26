//! `serio`: raw PS/2 bytes. This kernel drives no PS/2 controller, so both ports are missing.

use ::syscall::error::{EACCES, ENODEV, ENOENT, EPERM, Error, Result};

use super::{Caller, Opened, Scheme, handles::ROOT};

pub struct SerioScheme;

impl Scheme for SerioScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        caller: Caller,
    ) -> Result<Opened> {
        Err(Error::new(match path.trim_start_matches('/') {
            _ if number != ROOT => EACCES,
            _ if caller.uid != 0 => EPERM,
            "0" | "1" => ENODEV,
            _ => ENOENT,
        }))
    }
}
