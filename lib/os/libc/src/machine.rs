//! Numbers about the machine and the system: processors, memory, descriptors, ticks.

use core::ffi::c_long;

use runtime::{Error, Result};
use syscall::error::EINVAL;

use crate::descriptor;

/// The number of descriptors that a process can have.
pub const OPEN_MAX: c_long = descriptor::MOST as c_long;

/// Ticks per second in `times`.
pub const TICKS: c_long = 1_000_000;

/// The pages of the machine's memory, and how many of them are free.
pub fn memory() -> Result<(c_long, c_long)> {
    let failed = |error: libredox::error::Error| Error::new(error.errno());
    let number = runtime::path::open("/scheme/memory", libredox::flag::O_CLOEXEC as usize)?;
    let found = libredox::call::fstatvfs(number).map_err(failed);
    runtime::fd::close(number)?;
    let found = found?;
    let pages = |blocks: u64| (blocks * found.f_bsize as u64 / syscall::PAGE_SIZE as u64) as c_long;
    Ok((pages(found.f_blocks as u64), pages(found.f_bavail as u64)))
}

/// The size in bytes of a line of the processor's data cache, the unit of CLFLUSH.
pub fn cache_line() -> c_long {
    let identity = core::arch::x86_64::__cpuid(1);
    c_long::from((identity.ebx >> 8) as u8) * 8
}

/// The number of processors that the kernel uses.
pub fn processors() -> Result<c_long> {
    let text = runtime::fs::read_to_string("/scheme/sys/cpu")?;
    processors_of(&text).ok_or(Error::new(EINVAL))
}

/// The number in the first line of the kernel's text about its processors.
fn processors_of(text: &str) -> Option<c_long> {
    let number = text.lines().next()?.strip_prefix("CPUs: ")?;
    number.parse().ok().filter(|&number| number > 0)
}
