//! The end of the machine, for the first program: nothing runs without it.

use alloc::format;

use syscall::data::GlobalSchemes;
use syscall::flag::O_RDWR;

use crate::{fd, first, io, sys, time};

/// Stops the machine after printing why: when the first program ends, it would stay idle for ever.
pub fn halt(reason: &str) -> ! {
    io::emergency(&format!("bootstrap: {reason}; stopping the machine\n"));
    if let Ok(sys) = first::root(GlobalSchemes::Sys)
        && let Ok(stop) = fd::openat_upper(sys, b"kstop", O_RDWR, 0)
    {
        let _ = fd::write(stop, b"shutdown");
    }
    loop {
        time::sleep(time::Duration::from_secs(3600));
        sys::yield_now();
    }
}
