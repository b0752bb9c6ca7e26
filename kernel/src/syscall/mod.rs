//! System calls: from the registers of a program to the operations behind them.

mod call;
mod clock;
mod files;
mod futex;
mod memory;
mod position;

use ::syscall::{
    EventFlags,
    data::TimeSpec,
    error::{ENOSYS, Error, Result},
    flag::O_FCNTL_MASK,
    number::*,
};

use crate::{mm::UserBuf, scheme};

/// Handles one system call; the result goes to rax.
pub fn dispatch(number: usize, arguments: [usize; 6]) -> usize {
    let result = perform(number, arguments);
    scheme::after_call();
    Error::mux(result)
}

/// The system calls of Redox, with their arguments in order.
fn perform(number: usize, [b, c, d, e, f, g]: [usize; 6]) -> Result<usize> {
    let buf = UserBuf::new;
    // Calls that may keep memory after they return fail early when hardly any memory is left.
    if matches!(
        number,
        SYS_OPENAT_INTO | SYS_OPENAT_INTO2 | SYS_DUP_INTO | SYS_DUP2 | SYS_FMAP | SYS_MREMAP
    ) {
        crate::mm::frame::check_room()?;
    }
    match number {
        SYS_OPENAT_INTO => files::openat_into(b, buf(c, d)?, e, f as u32, g),
        SYS_OPENAT_INTO2 => {
            // Length and flags share a word: path lengths end far below the lowest flag.
            let (len, fcntl_flags) = (d & !O_FCNTL_MASK, d & O_FCNTL_MASK);
            files::openat_into(b, buf(c, len)?, e, fcntl_flags as u32, f)
        }
        SYS_UNLINKAT => files::unlinkat(b, buf(c, d)?, e),
        SYS_CLOSE => files::close(b),
        SYS_DUP_INTO => files::dup_into(b, buf(c, d)?, e),
        SYS_DUP2 => files::dup2(b, c, buf(d, e)?),
        SYS_READ => files::read(b, buf(c, d)?),
        SYS_READ2 => files::read2(b, buf(c, d)?, e as u64, f),
        SYS_WRITE => files::write(b, buf(c, d)?),
        SYS_WRITE2 => files::write2(b, buf(c, d)?, e as u64, f),
        SYS_LSEEK => files::lseek(b, c as i64, d),
        SYS_FCHOWN => files::fchown(b, c as u32, d as u32),
        SYS_FCNTL => files::fcntl(b, c, d),
        SYS_FEVENT => files::fevent(b, EventFlags::from_bits_truncate(c)),
        SYS_FLINK => files::flink(b, buf(c, d)?),
        SYS_FRENAME => files::frename(b, buf(c, d)?),
        SYS_FPATH => files::fpath(b, buf(c, d)?),
        SYS_FSTAT => files::fstat(b, buf(c, d)?),
        SYS_FSYNC => files::fsync(b),
        SYS_CALL => call::call(b, buf(c, d)?, e, f, g),
        SYS_FMAP => memory::fmap(b, buf(c, d)?),
        SYS_FUNMAP => memory::funmap(b, c),
        SYS_MREMAP => memory::mremap(b, c, d, e, f),
        SYS_MPROTECT => memory::mprotect(b, c, d),
        SYS_CLOCK_GETTIME => clock::gettime(b, buf(c, size_of::<TimeSpec>())?),
        SYS_FUTEX => futex::futex(b, c, d, e, f),
        SYS_NANOSLEEP => clock::nanosleep(
            buf(b, size_of::<TimeSpec>())?,
            UserBuf::optional(c, size_of::<TimeSpec>())?,
        ),
        SYS_YIELD => {
            crate::sched::yield_now();
            Ok(0)
        }
        _ => Err(Error::new(ENOSYS)),
    }
}
