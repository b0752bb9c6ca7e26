//! `kernel.dtb`: x86 has no device trees. The root is listed, and every use is `ENODEV`.

use ::syscall::{
    EventFlags,
    error::{ENODEV, Error, Result},
};

use super::{Caller, OpenResult, Scheme};
use crate::mm::UserBuf;

pub struct DtbScheme;

impl Scheme for DtbScheme {
    fn open(&self, _: usize, _: &str, _: usize, _: u32, _: Caller) -> Result<OpenResult> {
        Err(Error::new(ENODEV))
    }

    fn dup(&self, _: usize, _: UserBuf, _: Caller) -> Result<OpenResult> {
        Err(Error::new(ENODEV))
    }

    fn read_at(&self, _: usize, _: UserBuf, _: u64, _: u32) -> Result<usize> {
        Err(Error::new(ENODEV))
    }

    fn write_at(&self, _: usize, _: UserBuf, _: u64, _: u32) -> Result<usize> {
        Err(Error::new(ENODEV))
    }

    fn fpath(&self, _: usize, _: UserBuf) -> Result<usize> {
        Err(Error::new(ENODEV))
    }

    fn fstat(&self, _: usize, _: UserBuf) -> Result<()> {
        Err(Error::new(ENODEV))
    }

    fn fevent(&self, _: usize, _: EventFlags) -> Result<EventFlags> {
        Err(Error::new(ENODEV))
    }
}
