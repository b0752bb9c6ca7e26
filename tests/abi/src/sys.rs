//! System calls as the test makes them: numbers and structures from the Redox crate, buffers as
//! slices, results as `Result<usize, i32>`. Whatever is not a slice is passed as it is, however
//! wrong.

use runtime::probe;
use syscall::number::*;

/// A call's outcome: the value, or the error number.
pub type Outcome = Result<usize, i32>;

fn decode(raw: usize) -> Outcome {
    match (raw as isize).checked_neg() {
        Some(errno @ 1..=4095) => Err(errno as i32),
        _ => Ok(raw),
    }
}

/// Any call with any arguments.
pub fn raw(number: usize, args: [usize; 6]) -> Outcome {
    decode(probe::syscall(number, args))
}

fn at(buffer: &[u8]) -> usize {
    buffer.as_ptr() as usize
}

pub fn openat(dir: usize, path: &str, flags: usize, slot: usize) -> Outcome {
    let fcntl = flags & syscall::O_FCNTL_MASK;
    let path = path.as_bytes();
    raw(
        SYS_OPENAT_INTO,
        [dir, at(path), path.len(), flags, fcntl, slot],
    )
}

pub fn close(fd: usize) -> Outcome {
    raw(SYS_CLOSE, [fd, 0, 0, 0, 0, 0])
}

pub fn dup(fd: usize, name: &[u8], slot: usize) -> Outcome {
    raw(SYS_DUP_INTO, [fd, at(name), name.len(), slot, 0, 0])
}

pub fn dup2(fd: usize, slot: usize, name: &[u8]) -> Outcome {
    raw(SYS_DUP2, [fd, slot, at(name), name.len(), 0, 0])
}

pub fn read(fd: usize, buffer: &mut [u8]) -> Outcome {
    raw(
        SYS_READ,
        [fd, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
    )
}

pub fn write(fd: usize, buffer: &[u8]) -> Outcome {
    raw(SYS_WRITE, [fd, at(buffer), buffer.len(), 0, 0, 0])
}

pub fn fcntl(fd: usize, command: usize, argument: usize) -> Outcome {
    raw(SYS_FCNTL, [fd, command, argument, 0, 0, 0])
}

pub fn lseek(fd: usize, offset: i64, whence: usize) -> Outcome {
    raw(SYS_LSEEK, [fd, offset as usize, whence, 0, 0, 0])
}

pub fn fpath(fd: usize, buffer: &mut [u8]) -> Outcome {
    raw(
        SYS_FPATH,
        [fd, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
    )
}

pub fn fstat(fd: usize, stat: &mut syscall::Stat) -> Outcome {
    let length = size_of::<syscall::Stat>();
    raw(SYS_FSTAT, [fd, (&raw mut *stat) as usize, length, 0, 0, 0])
}

pub fn fevent(fd: usize, flags: usize) -> Outcome {
    raw(SYS_FEVENT, [fd, flags, 0, 0, 0, 0])
}

/// SYS_CALL: `flags` are CallFlags, `payload` is read and written in place.
pub fn call(fd: usize, payload: &mut [u8], flags: syscall::CallFlags, meta: &[u64]) -> Outcome {
    let control = flags.bits() | meta.len();
    let payload_at = payload.as_mut_ptr() as usize;
    raw(
        SYS_CALL,
        [
            fd,
            payload_at,
            payload.len(),
            control,
            meta.as_ptr() as usize,
            0,
        ],
    )
}

pub fn fmap(fd: usize, map: &syscall::Map) -> Outcome {
    raw(
        SYS_FMAP,
        [
            fd,
            (&raw const *map) as usize,
            size_of::<syscall::Map>(),
            0,
            0,
            0,
        ],
    )
}

/// Anonymous private memory of `size` bytes at an address of the kernel's choice.
pub fn fmap_anonymous(size: usize, flags: syscall::MapFlags) -> Outcome {
    fmap(
        usize::MAX,
        &syscall::Map {
            offset: 0,
            size,
            flags,
            address: 0,
        },
    )
}

pub fn funmap(address: usize, size: usize) -> Outcome {
    raw(SYS_FUNMAP, [address, size, 0, 0, 0, 0])
}

pub fn mprotect(address: usize, size: usize, flags: syscall::MapFlags) -> Outcome {
    raw(SYS_MPROTECT, [address, size, flags.bits(), 0, 0, 0])
}

pub fn clock(clock: usize) -> Result<u128, i32> {
    let mut time = syscall::TimeSpec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    raw(
        SYS_CLOCK_GETTIME,
        [clock, (&raw mut time) as usize, 0, 0, 0, 0],
    )?;
    Ok(time.to_nanos())
}

pub fn nanosleep(nanoseconds: u128) -> Outcome {
    let request = syscall::TimeSpec::from_nanos(nanoseconds);
    raw(
        SYS_NANOSLEEP,
        [(&raw const request) as usize, 0, 0, 0, 0, 0],
    )
}

pub fn yield_now() {
    let _ = raw(SYS_YIELD, [0; 6]);
}
