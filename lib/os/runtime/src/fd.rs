//! Descriptor operations: the system calls on descriptors, with numbers that this process
//! allocates.
//!
//! All functions take and return raw numbers; wrap them in [`libredox::Fd`] for ownership. Numbers
//! made by the `*_upper` functions lie in the upper table, which programs that count descriptors
//! do not see.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use syscall::data::Stat;
use syscall::error::{EBADF, EINTR, EINVAL, ENAMETOOLONG, ENODEV, ENOSYS, EPIPE, Error, Result};
use syscall::flag::{CallFlags, MapFlags, O_FCNTL_MASK, StdFsCallKind, UPPER_FDTBL_TAG};
use syscall::{SYS_OPENAT_INTO, SYS_OPENAT_INTO2};

use crate::fdtable;
use crate::sys;

/// Runs `create` with a reserved number, and frees the number if that fails.
fn with_number(number: usize, create: impl FnOnce(usize) -> Result<usize>) -> Result<usize> {
    let result = create(number);
    fdtable::replaced(number, result.is_ok());
    result
}

/// Whether this kernel has only the older call for opening.
static OPENS_THE_OLD_WAY: AtomicBool = AtomicBool::new(false);

/// Opens with the call that kernels have since redox_syscall 0.9.5, or with the older one, which
/// is to be removed. Not inlined, so that each program has this code once.
#[inline(never)]
fn openat_into(dir: usize, path: &[u8], flags: usize, fcntl: usize, slot: usize) -> Result<usize> {
    let (address, length) = (path.as_ptr() as usize, path.len());
    // Length and flags share a word; a path that does not fit is too long in any case.
    if length & O_FCNTL_MASK != 0 {
        fdtable::release(slot);
        return Err(Error::new(ENAMETOOLONG));
    }
    // SAFETY: the path is a live slice; the calls write no user memory.
    let call = |number, args| unsafe { sys::call(number, args) };
    let old = |slot| call(SYS_OPENAT_INTO, [dir, address, length, flags, fcntl, slot]);
    let new = |slot| {
        let length = length | fcntl & O_FCNTL_MASK;
        call(SYS_OPENAT_INTO2, [dir, address, length, flags, slot, 0])
    };
    let no_call = |result: &Result<usize>| matches!(result, Err(Error { errno: ENOSYS }));
    with_number(slot, |slot| {
        if OPENS_THE_OLD_WAY.load(Ordering::Relaxed) {
            return old(slot);
        }
        let result = new(slot);
        if !no_call(&result) {
            return result;
        }
        // A scheme may also return ENOSYS; then it does so again.
        let result = old(slot);
        if !no_call(&result) {
            OPENS_THE_OLD_WAY.store(true, Ordering::Relaxed);
        }
        result
    })
    .map(|_| slot)
}

/// Asks the scheme of `fd` for the object `name`, at a number that the caller has reserved and
/// frees itself.
pub(crate) fn dup_at(fd: usize, name: &[u8], slot: usize) -> Result<()> {
    // SAFETY: the name is a live slice; the call writes no user memory.
    unsafe {
        sys::call(
            syscall::SYS_DUP_INTO,
            [fd, name.as_ptr() as usize, name.len(), slot, 0, 0],
        )
    }
    .map(|_| ())
}

fn dup_into(fd: usize, name: &[u8], slot: usize) -> Result<usize> {
    with_number(slot, |slot| dup_at(fd, name, slot).map(|()| slot))
}

/// The table in which a new descriptor gets its number.
#[derive(Clone, Copy)]
pub enum Table {
    /// At the lowest free number.
    Plain,
    /// At the lowest free number of the upper table, which programs that count do not see.
    Upper,
}

/// Opens `path` below the directory `dir`.
pub fn openat_in(
    table: Table,
    dir: usize,
    path: &[u8],
    flags: usize,
    fcntl_flags: usize,
) -> Result<usize> {
    let slot = match table {
        Table::Plain => fdtable::reserve()?,
        Table::Upper => fdtable::reserve_upper()?,
    };
    openat_into(dir, path, flags, fcntl_flags, slot)
}

/// Opens `path` below the directory `dir`, at the lowest free number.
pub fn openat(dir: usize, path: &[u8], flags: usize, fcntl_flags: usize) -> Result<usize> {
    openat_in(Table::Plain, dir, path, flags, fcntl_flags)
}

/// Opens `path` below the directory `dir`, in the upper table.
pub fn openat_upper(dir: usize, path: &[u8], flags: usize, fcntl_flags: usize) -> Result<usize> {
    openat_in(Table::Upper, dir, path, flags, fcntl_flags)
}

/// Duplicates `fd`, or asks its scheme for the object `name` when that is not empty.
pub fn dup(fd: usize, name: &[u8]) -> Result<usize> {
    dup_into(fd, name, fdtable::reserve()?)
}

/// As [`dup`], in the upper table.
pub fn dup_upper(fd: usize, name: &[u8]) -> Result<usize> {
    dup_into(fd, name, fdtable::reserve_upper()?)
}

/// A number of the upper table, reserved so that a later descriptor certainly has one.
pub struct Reserved(Option<usize>);

impl Reserved {
    /// Reserves a number.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new() -> Result<Self> {
        fdtable::reserve_upper().map(|slot| Self(Some(slot)))
    }

    /// Duplicates `fd` at the reserved number.
    pub fn dup(mut self, fd: usize) -> Result<usize> {
        match self.0.take() {
            Some(slot) => dup_into(fd, b"", slot),
            None => Err(Error::new(EBADF)),
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            fdtable::release(slot);
        }
    }
}

/// As [`dup`], at the number `new`, replacing the descriptor there. EBUSY: another thread has
/// reserved the number for a descriptor that it is opening.
pub fn dup2(fd: usize, new: usize, name: &[u8]) -> Result<usize> {
    if fd == new && name.is_empty() {
        // The kernel does not look whether it is there, and the record would say that it is.
        return fcntl(fd, syscall::F_GETFD, 0).map(|_| new);
    }
    // Before the call, so that no other thread takes the number.
    let was_free = fdtable::replace(new)?;
    // SAFETY: the name is a live slice; the call writes no user memory.
    let result = unsafe {
        sys::call(
            syscall::SYS_DUP2,
            [fd, new, name.as_ptr() as usize, name.len(), 0, 0],
        )
    };
    fdtable::replaced(new, result.is_ok() || !was_free);
    result
}

/// Closes `fd`. The number is free afterwards, even if the scheme reports an error.
pub fn close(fd: usize) -> Result<()> {
    fdtable::close(fd)?;
    // SAFETY: plain numbers only.
    let result = unsafe { sys::call(syscall::SYS_CLOSE, [fd, 0, 0, 0, 0, 0]) };
    // The kernel frees the number before it informs the scheme, whatever the scheme answers.
    fdtable::release(fd);
    result.map(|_| ())
}

/// Reads into `buffer`; returns the number of bytes.
pub fn read(fd: usize, buffer: &mut [u8]) -> Result<usize> {
    loop {
        // SAFETY: the buffer is exclusively ours and live for the call.
        let result = unsafe {
            sys::call(
                syscall::SYS_READ,
                [fd, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
            )
        };
        if !matches!(result, Err(Error { errno: EINTR })) {
            return result;
        }
    }
}

/// Reads into `buffer`, and is not restarted when interrupted (EINTR).
pub fn read_once(fd: usize, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is exclusively ours and live for the call.
    unsafe {
        sys::call(
            syscall::SYS_READ,
            [fd, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
        )
    }
}

/// Reads at a position into `size` bytes at an address, which the kernel checks. Returns the
/// number of bytes. Is not restarted when interrupted (EINTR).
///
/// # Safety
/// The bytes may be written: no Rust reference to them is used meanwhile.
pub unsafe fn read_at(fd: usize, address: usize, size: usize, offset: usize) -> Result<usize> {
    /// The flags of the descriptor itself.
    const OWN_FLAGS: usize = usize::MAX;
    let arguments = [fd, address, size, offset, OWN_FLAGS, 0];
    // SAFETY: the caller's promise.
    unsafe { sys::call(syscall::SYS_READ2, arguments) }
}

/// Writes `bytes`; returns how many were taken.
pub fn write(fd: usize, bytes: &[u8]) -> Result<usize> {
    loop {
        // SAFETY: the slice is live for the call and only read.
        let result = unsafe {
            sys::call(
                syscall::SYS_WRITE,
                [fd, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
            )
        };
        if !matches!(result, Err(Error { errno: EINTR })) {
            return result;
        }
    }
}

/// Moves the position; `whence` is 0 set, 1 current, 2 end.
pub fn lseek(fd: usize, offset: i64, whence: usize) -> Result<usize> {
    // SAFETY: plain numbers only.
    unsafe { sys::call(syscall::SYS_LSEEK, [fd, offset as usize, whence, 0, 0, 0]) }
}

/// Writes the path of `fd` into `buffer`; returns its length.
pub fn fpath(fd: usize, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is exclusively ours and live for the call.
    unsafe {
        sys::call(
            syscall::SYS_FPATH,
            [fd, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
        )
    }
}

/// Descriptor flags and duplication. The number of a copy is the lowest free one from `argument`
/// on, in the table of `argument`.
pub fn fcntl(fd: usize, command: usize, argument: usize) -> Result<usize> {
    /// Duplicates with the close-on-exec flag, which only libraries have, not the kernel.
    const F_DUPFD_CLOEXEC: usize = 1030;
    match command {
        syscall::F_DUPFD | F_DUPFD_CLOEXEC => {
            with_number(fdtable::reserve_from(argument)?, |slot| {
                // SAFETY: plain numbers only.
                unsafe { sys::call(syscall::SYS_FCNTL, [fd, syscall::F_DUPFD, slot, 0, 0, 0]) }
            })
        }
        // SAFETY: plain numbers only.
        _ => unsafe { sys::call(syscall::SYS_FCNTL, [fd, command, argument, 0, 0, 0]) },
    }
}

/// How a call uses its payload.
#[derive(Clone, Copy)]
enum Direction {
    None,
    In,
    Out,
    Both,
}

fn direction(flags: CallFlags) -> Direction {
    match (
        flags.contains(CallFlags::READ),
        flags.contains(CallFlags::WRITE),
    ) {
        (true, true) => Direction::Both,
        (true, false) => Direction::In,
        (false, true) => Direction::Out,
        (false, false) => Direction::None,
    }
}

/// The general request (`SYS_CALL`) with raw pointers. Also records descriptors that are sent or
/// received.
///
/// # Safety
/// `payload` must be valid for reads and writes of `length` bytes (or null with length 0); when
/// descriptors are sent it is only read.
pub unsafe fn call_raw(
    fd: usize,
    payload: *mut u8,
    length: usize,
    flags: CallFlags,
    metadata: &[u64],
) -> Result<usize> {
    let request = || {
        // SAFETY: the caller vouches for the payload, the metadata slice is live.
        unsafe {
            sys::call(
                syscall::SYS_CALL,
                [
                    fd,
                    payload as usize,
                    length,
                    flags.bits() | metadata.len(),
                    metadata.as_ptr() as usize,
                    0,
                ],
            )
        }
    };
    if metadata.len() > 0xFF {
        return Err(Error::new(EINVAL));
    }
    if !flags.contains(CallFlags::FD) {
        return request();
    }
    if length == 0 || !length.is_multiple_of(size_of::<usize>()) {
        return Err(Error::new(EINVAL));
    }
    // The payload is a list of numbers, of any alignment.
    let count = length / size_of::<usize>();
    let words = payload.cast::<usize>();
    // SAFETY: `index` is below `count`, so the word lies within the payload.
    let get = |index: usize| unsafe { words.add(index).read_unaligned() };
    match direction(flags) {
        Direction::In => {
            // Automatic numbers are chosen here and stored in the payload, as relibc does.
            let automatic = get(0) == usize::MAX;
            for index in 0..count {
                let reserved = if !automatic {
                    fdtable::take(get(index)).map(|()| get(index))
                } else if flags.contains(CallFlags::FD_UPPER) {
                    fdtable::reserve_upper()
                } else {
                    fdtable::reserve()
                };
                match reserved {
                    // SAFETY: as for `get`, and the caller allows writes.
                    Ok(slot) => unsafe { words.add(index).write_unaligned(slot) },
                    Err(error) => {
                        (0..index).for_each(|index| fdtable::release(get(index)));
                        return Err(error);
                    }
                }
            }
            let result = request();
            // A pipe gives none at its end.
            let received = *result.as_ref().unwrap_or(&0);
            (0..count).for_each(|index| fdtable::replaced(get(index), index < received));
            result
        }
        Direction::Out => {
            let result = request();
            if result.is_ok() && !flags.contains(CallFlags::FD_CLONE) {
                (0..count).for_each(|index| fdtable::release(get(index)));
            }
            result
        }
        Direction::None | Direction::Both => Err(Error::new(EINVAL)),
    }
}

/// A request without payload; `metadata` holds the operation and its arguments.
pub fn call(fd: usize, metadata: &[u64]) -> Result<usize> {
    // SAFETY: no payload.
    unsafe { call_raw(fd, core::ptr::null_mut(), 0, CallFlags::empty(), metadata) }
}

/// A request whose payload the scheme may read and write.
pub fn call_rw(fd: usize, payload: &mut [u8], metadata: &[u64]) -> Result<usize> {
    // SAFETY: the payload is exclusively ours; without FD no alignment is asked for.
    unsafe {
        call_raw(
            fd,
            payload.as_mut_ptr(),
            payload.len(),
            CallFlags::READ | CallFlags::WRITE,
            metadata,
        )
    }
}

/// Sends one descriptor through `fd`. It is moved unless `keep` is set.
pub fn send_fd(fd: usize, sent: usize, keep: bool, metadata: &[u64]) -> Result<usize> {
    let mut payload = [sent];
    let flags = CallFlags::FD | CallFlags::WRITE;
    let flags = if keep {
        flags | CallFlags::FD_CLONE
    } else {
        flags
    };
    // SAFETY: the payload is one live word.
    unsafe {
        call_raw(
            fd,
            payload.as_mut_ptr().cast(),
            size_of::<usize>(),
            flags,
            metadata,
        )
    }
}

/// Receives one descriptor through `fd`, into the upper table: the only table into which every
/// kernel version delivers descriptors from a pipe. EPIPE: there is no sender any more.
pub fn receive_fd_upper(fd: usize, metadata: &[u64]) -> Result<usize> {
    let mut payload = [usize::MAX];
    // SAFETY: the payload is one live word.
    unsafe {
        call_raw(
            fd,
            payload.as_mut_ptr().cast(),
            size_of::<usize>(),
            CallFlags::FD | CallFlags::READ | CallFlags::FD_UPPER,
            metadata,
        )
    }
    .and_then(|count| match count {
        0 => Err(Error::new(EPIPE)),
        _ => Ok(payload[0]),
    })
}

/// Whether the scheme behind `fd` still has a daemon, without a request to the daemon. The request
/// made here has an unreadable name, so it ends in the kernel, which returns ENODEV if the daemon
/// is gone and EFAULT otherwise.
pub fn is_served(fd: usize) -> bool {
    /// The first page is never mapped in a program.
    const UNREADABLE: usize = 8;
    let Ok(slot) = fdtable::reserve_upper() else {
        return true;
    };
    // SAFETY: the kernel refuses the address; no memory is touched.
    let result = unsafe { sys::call(syscall::SYS_DUP_INTO, [fd, UNREADABLE, 1, slot, 0, 0]) };
    fdtable::replaced(slot, result.is_ok());
    if result.is_ok() {
        let _ = close(slot);
    }
    !matches!(result, Err(Error { errno: ENODEV }))
}

/// The numbers of the plain table that are open, ascending.
pub fn open_numbers() -> Vec<usize> {
    let mut numbers = fdtable::used();
    numbers.retain(|number| {
        number & UPPER_FDTBL_TAG == 0 && fcntl(*number, syscall::F_GETFD, 0).is_ok()
    });
    numbers
}

/// Checks that the number can name a descriptor at all.
pub fn check(fd: usize) -> Result<usize> {
    if fd == sys::NO_FD {
        Err(Error::new(EBADF))
    } else {
        Ok(fd)
    }
}

/// A file system request (`CallFlags::STD_FS`).
///
/// # Safety
/// That of [`call_raw`].
unsafe fn std_fs(
    fd: usize,
    kind: StdFsCallKind,
    payload: *mut u8,
    length: usize,
    arguments: [u64; 2],
) -> Result<usize> {
    let metadata = [kind as u64, arguments[0], arguments[1]];
    // SAFETY: passed on to the caller.
    unsafe {
        call_raw(
            fd,
            payload,
            length,
            CallFlags::STD_FS | CallFlags::READ,
            &metadata,
        )
    }
}

/// A file system request without payload.
pub fn std_fs_plain(fd: usize, kind: StdFsCallKind, arguments: [u64; 2]) -> Result<usize> {
    // SAFETY: no payload.
    unsafe { std_fs(fd, kind, core::ptr::null_mut(), 0, arguments) }
}

/// A file system request with a payload.
pub fn std_fs_payload(
    fd: usize,
    kind: StdFsCallKind,
    payload: &mut [u8],
    arguments: [u64; 2],
) -> Result<usize> {
    // SAFETY: the payload is exclusively ours; STD_FS requests ask for no alignment.
    unsafe { std_fs(fd, kind, payload.as_mut_ptr(), payload.len(), arguments) }
}

/// Reads directory entries from the position `opaque`; 0 bytes mean the end.
pub fn getdents(fd: usize, buffer: &mut [u8], opaque: u64) -> Result<usize> {
    let header = size_of::<syscall::dirent::DirentHeader>() as u64;
    std_fs_payload(fd, StdFsCallKind::Getdents, buffer, [opaque, header])
}

/// Truncates or extends a file.
pub fn truncate(fd: usize, length: u64) -> Result<()> {
    std_fs_plain(fd, StdFsCallKind::Ftruncate, [length, 0]).map(|_| ())
}

/// Reads the attributes of the object behind `fd`.
pub fn fstat(fd: usize) -> Result<Stat> {
    let mut stat = Stat::default();
    // SAFETY: the structure is exclusively ours, plain data of exactly the length given.
    unsafe {
        sys::call(
            syscall::SYS_FSTAT,
            [fd, (&raw mut stat) as usize, size_of::<Stat>(), 0, 0, 0],
        )
    }?;
    Ok(stat)
}

/// Maps `size` bytes of `fd` (or anonymous memory with [`sys::NO_FD`]).
///
/// # Safety
/// With `MAP_FIXED` the range must not hold memory that is in use.
pub unsafe fn mmap(
    fd: usize,
    offset: usize,
    size: usize,
    address: usize,
    flags: MapFlags,
) -> Result<usize> {
    let map = syscall::Map {
        offset,
        size,
        flags,
        address,
    };
    // SAFETY: `map` lives across the call; placement is the caller's promise.
    unsafe {
        sys::call(
            syscall::SYS_FMAP,
            [
                fd,
                (&raw const map) as usize,
                size_of::<syscall::Map>(),
                0,
                0,
                0,
            ],
        )
    }
}

/// Unmaps the pages of `[address, address + size)`.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn munmap(address: usize, size: usize) -> Result<()> {
    let size = size
        .checked_next_multiple_of(syscall::PAGE_SIZE)
        .ok_or(Error::new(EINVAL))?;
    // SAFETY: the caller gives the range up.
    unsafe { sys::call(syscall::SYS_FUNMAP, [address, size, 0, 0, 0, 0]) }.map(|_| ())
}
