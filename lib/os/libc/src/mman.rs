//! `sys/mman.h`. The header maps `mmap` and `mprotect` to `skiff_mmap` and `skiff_mprotect`, which
//! take Linux's numbers for protection and flags, as SCIF's `SCIF_PROT_*` and `SCIF_MAP_FIXED` are
//! the same numbers. The symbols `mmap` and `mprotect` take relibc's numbers, as Rust's standard
//! library and the crate `libc` pass them.

use core::ffi::{c_int, c_long, c_void};

use runtime::{Error, Result, fd, sys};
use syscall::PAGE_SIZE;
use syscall::error::{EACCES, EBADF, EINTR, EINVAL, ENODEV, ENOMEM};
use syscall::flag::MapFlags;

use crate::{advice, descriptor, errno, points};

unsafe extern "C" {
    /// Maps a range of the peer's registered address space; in `libscif`.
    fn skiff_scif_mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        number: c_int,
        offset: c_long,
    ) -> *mut c_void;

    /// Called before whole pages are unmapped or replaced; in `libscif`, which records the memory
    /// that it has allocated or mapped.
    safe fn skiff_scif_unmapping(address: usize, length: usize);
    /// Called after that. By now the pages may be new memory of another thread.
    safe fn skiff_scif_unmapped(address: usize, length: usize);
    /// Called after whole pages have lost rights.
    safe fn skiff_scif_protected(address: usize, length: usize);
}

/// The right to read a mapping.
pub const PROT_READ: c_int = 1;
/// The right to write it.
pub const PROT_WRITE: c_int = 2;
/// The right to run what is in it.
pub const PROT_EXEC: c_int = 4;
const MAP_SHARED: c_int = 0x01;
const MAP_PRIVATE: c_int = 0x02;
const MAP_FIXED: c_int = 0x10;
const MAP_FIXED_NOREPLACE: c_int = 0x10_0000;
const MAP_ANONYMOUS: c_int = 0x20;

/// relibc's numbers, where they differ.
mod relibc {
    use super::c_int;

    pub const PROT_READ: c_int = 4;
    pub const PROT_EXEC: c_int = 1;
    pub const MAP_FIXED: c_int = 4;
    pub const MAP_FIXED_NOREPLACE: c_int = 12;
}

/// Converts a protection from relibc's to Linux's numbers. Unknown bits stay and are refused
/// later.
fn protection_from(relibc: c_int) -> c_int {
    let mut protection = relibc & !(relibc::PROT_READ | relibc::PROT_EXEC);
    if relibc & relibc::PROT_READ != 0 {
        protection |= PROT_READ;
    }
    if relibc & relibc::PROT_EXEC != 0 {
        protection |= PROT_EXEC;
    }
    protection
}

/// Converts flags from relibc's to Linux's numbers.
fn flags_from(relibc: c_int) -> c_int {
    let flags = relibc & !relibc::MAP_FIXED_NOREPLACE;
    match relibc & relibc::MAP_FIXED_NOREPLACE {
        relibc::MAP_FIXED_NOREPLACE => flags | MAP_FIXED_NOREPLACE,
        relibc::MAP_FIXED => flags | MAP_FIXED,
        _ => relibc,
    }
}

const FAILED: *mut c_void = usize::MAX as *mut c_void;

fn protection_of(protection: c_int) -> Result<MapFlags> {
    if protection & !(PROT_READ | PROT_WRITE | PROT_EXEC) != 0 {
        return Err(Error::new(EINVAL));
    }
    let mut flags = MapFlags::empty();
    flags.set(MapFlags::PROT_READ, protection & PROT_READ != 0);
    flags.set(MapFlags::PROT_WRITE, protection & PROT_WRITE != 0);
    flags.set(MapFlags::PROT_EXEC, protection & PROT_EXEC != 0);
    Ok(flags)
}

fn rounded(length: usize) -> Result<usize> {
    match length.checked_next_multiple_of(PAGE_SIZE) {
        None | Some(0) => Err(Error::new(EINVAL)),
        Some(length) => Ok(length),
    }
}

/// Whether an error means that a scheme supports no mappings; schemes use several errors for this.
fn maps_nothing(error: &Error) -> bool {
    [ENODEV, syscall::ENOSYS, syscall::EOPNOTSUPP].contains(&error.errno)
}

/// Maps a copy of a regular file's present contents, for a scheme that supports no mappings. Later
/// writes to the file do not show in it. Beyond the file's end it is zero.
///
/// # Errors
/// `ENODEV`: it is no regular file. `EACCES`: it is not open for reading. Those of reading and
/// mapping.
///
/// # Safety
/// With MAP_FIXED nothing may use the range any more.
unsafe fn map_copy(
    number: usize,
    offset: usize,
    length: usize,
    address: usize,
    system: MapFlags,
) -> Result<usize> {
    const TYPE: u16 = 0o170_000;
    const REGULAR: u16 = 0o100_000;
    if fd::fstat(number)?.st_mode & TYPE != REGULAR {
        return Err(Error::new(ENODEV));
    }
    // Before existing pages are replaced: a refused call must change nothing.
    let mut byte = [0; 1];
    // SAFETY: the byte is there, and used by nobody else.
    let read = unsafe { fd::read_at(number, byte.as_mut_ptr() as usize, 1, offset) };
    read.map_err(|error| match error.errno {
        EBADF => Error::new(EACCES),
        _ => error,
    })?;
    let own = system & MapFlags::MAP_FIXED_NOREPLACE | MapFlags::MAP_PRIVATE;
    let filling = own | MapFlags::PROT_READ | MapFlags::PROT_WRITE;
    // SAFETY: the caller's promise.
    let place = unsafe { fd::mmap(sys::NO_FD, 0, length, address, filling)? };
    let fill = || {
        let mut done = 0;
        while done < length {
            // SAFETY: mapped above, and known to nobody else.
            let read = unsafe { fd::read_at(number, place + done, length - done, offset + done) };
            match read {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.errno == EINTR => {}
                Err(error) => return Err(error),
            }
        }
        let rights = system & (MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::PROT_EXEC);
        let arguments = [place, length, rights.bits(), 0, 0, 0];
        // SAFETY: no Rust reference leads to the pages.
        unsafe { sys::call(syscall::SYS_MPROTECT, arguments) }
    };
    match fill() {
        Ok(_) => Ok(place),
        Err(error) => {
            // SAFETY: mapped above, and known to nobody else.
            let _ = unsafe { libredox::call::munmap(place as *mut (), length) };
            Err(error)
        }
    }
}

/// # Safety
/// With MAP_FIXED nothing may use the range any more.
unsafe fn map(
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
    number: c_int,
    offset: c_long,
) -> Result<usize> {
    let length = match rounded(length) {
        Err(_) if length > 0 => return Err(Error::new(ENOMEM)),
        length => length?,
    };
    let mut system = protection_of(protection)?;
    match flags & (MAP_SHARED | MAP_PRIVATE) {
        MAP_SHARED => system |= MapFlags::MAP_SHARED,
        MAP_PRIVATE => system |= MapFlags::MAP_PRIVATE,
        _ => return Err(Error::new(EINVAL)),
    }
    let offset = usize::try_from(offset).map_err(|_| Error::new(EINVAL))?;
    if !offset.is_multiple_of(PAGE_SIZE) {
        return Err(Error::new(EINVAL));
    }
    let is_fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
    if is_fixed && !address.is_multiple_of(PAGE_SIZE) {
        return Err(Error::new(EINVAL));
    }
    let replaces = is_fixed && flags & MAP_FIXED_NOREPLACE == 0;
    system |= match (is_fixed, replaces) {
        (true, true) => MapFlags::MAP_FIXED,
        (true, false) => MapFlags::MAP_FIXED_NOREPLACE,
        (false, _) => MapFlags::empty(),
    };
    let address = if is_fixed { address } else { 0 };
    let (number, offset) = if flags & MAP_ANONYMOUS != 0 {
        (sys::NO_FD, 0)
    } else {
        (descriptor::check(number)?, offset)
    };
    if replaces {
        skiff_scif_unmapping(address, length);
    }
    // SAFETY: without MAP_FIXED nothing is replaced, with it the caller gave the range up.
    let mut mapped = unsafe { fd::mmap(number, offset, length, address, system) };
    let is_of_file = flags & MAP_ANONYMOUS == 0 && mapped.is_ok();
    let is_copy_enough = flags & MAP_SHARED == 0 || protection & PROT_WRITE == 0;
    if flags & MAP_ANONYMOUS == 0 && is_copy_enough && mapped.as_ref().is_err_and(maps_nothing) {
        // SAFETY: as above.
        mapped = unsafe { map_copy(number, offset, length, address, system) };
    }
    if replaces {
        skiff_scif_unmapped(address, length);
        if mapped.is_ok() {
            advice::forget(address, length);
        }
    }
    if let Ok(place) = mapped
        && is_of_file
    {
        advice::share(place, length);
    }
    mapped
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    number: c_int,
    offset: c_long,
) -> *mut c_void {
    let (protection, flags) = (protection_from(protection), flags_from(flags));
    // SAFETY: the same contract.
    unsafe { skiff_mmap(address, length, protection, flags, number, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    number: c_int,
    offset: c_long,
) -> *mut c_void {
    if flags & MAP_ANONYMOUS == 0 {
        let is_scif = loop {
            // No program expects a mapping to end because of a signal.
            match descriptor::is_scif(number) {
                Err(error) if error.errno == EINTR => {}
                other => break other,
            }
        };
        match is_scif {
            Ok(true) => {
                // SAFETY: the same contract.
                return unsafe {
                    skiff_scif_mmap(address, length, protection, flags, number, offset)
                };
            }
            Err(error) if error.errno == ENOMEM => {
                errno::set(error.errno);
                return FAILED;
            }
            // The call below has the error of a number that is not open.
            Ok(false) | Err(_) => {}
        }
    }
    // SAFETY: the caller's promise.
    match unsafe { map(address as usize, length, protection, flags, number, offset) } {
        Ok(address) => address as *mut c_void,
        Err(error) => {
            // A page that would be writable and executable at once is refused for its rights.
            let is_both = protection & (PROT_WRITE | PROT_EXEC) == PROT_WRITE | PROT_EXEC;
            let number = match maps_nothing(&error) && !is_both {
                true => ENODEV,
                false => error.errno,
            };
            errno::set(number);
            FAILED
        }
    }
}

/// Maps the beginning of a file, which its processes share, for reading and writing.
pub fn map_shared(number: c_int, length: usize) -> Result<usize> {
    // SAFETY: nothing is replaced.
    unsafe { map_file(number, length, Place::Any, PROT_READ | PROT_WRITE) }
}

/// Where a mapping is to be.
#[derive(Clone, Copy)]
pub enum Place {
    /// Wherever there is room.
    Any,
    /// Here, if nothing is there; `EEXIST`.
    Free(usize),
    /// Here, in place of what is there.
    Replacing(usize),
}

/// Maps the beginning of a file, which its processes share, with these rights (`PROT_READ`, …).
///
/// # Safety
/// Nothing may use the range that is replaced any more.
pub unsafe fn map_file(number: c_int, length: usize, place: Place, rights: c_int) -> Result<usize> {
    let (address, flags) = match place {
        Place::Any => (0, 0),
        Place::Free(address) => (address, MAP_FIXED_NOREPLACE),
        Place::Replacing(address) => (address, MAP_FIXED),
    };
    // SAFETY: the caller's promise.
    unsafe { map(address, length, rights, MAP_SHARED | flags, number, 0) }
}

/// Unmaps whole pages.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(address: usize, length: usize) -> Result<()> {
    let length = rounded(length)?;
    if !address.is_multiple_of(PAGE_SIZE) {
        return Err(Error::new(EINVAL));
    }
    skiff_scif_unmapping(address, length);
    // SAFETY: the caller gave the range up.
    let unmapped = unsafe { advice::unmap(address, length) };
    skiff_scif_unmapped(address, length);
    unmapped
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    // SAFETY: the caller gives the range up.
    errno::done(unsafe { unmap(address as usize, length) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { skiff_mprotect(address, length, protection_from(protection)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_mprotect(
    address: *mut c_void,
    length: usize,
    protection: c_int,
) -> c_int {
    let change = || {
        if !(address as usize).is_multiple_of(PAGE_SIZE) {
            return Err(Error::new(EINVAL));
        }
        let flags = protection_of(protection)?;
        if length == 0 {
            return Ok(0);
        }
        let arguments = [address as usize, rounded(length)?, flags.bits(), 0, 0, 0];
        // SAFETY: no Rust reference relies on the protection of a C program's own mapping.
        let result = unsafe { sys::call(syscall::SYS_MPROTECT, arguments) };
        skiff_scif_protected(address as usize, arguments[1]);
        result
    };
    errno::small(change().map(|_| 0))
}

/// Supports `MADV_DONTFORK` and `MADV_DOFORK`. Refuses `MADV_DONTNEED` with `EINVAL`, as programs
/// rely on its effect. Other advice has no effect.
#[unsafe(no_mangle)]
extern "C" fn madvise(address: *mut c_void, length: usize, asked: c_int) -> c_int {
    const DONTNEED: c_int = 4;
    const DONTFORK: c_int = 10;
    const DOFORK: c_int = 11;
    let start = address as usize;
    let end = length
        .checked_next_multiple_of(PAGE_SIZE)
        .and_then(|length| start.checked_add(length));
    match (asked, end) {
        (DONTNEED, _) | (DONTFORK | DOFORK, None) => return errno::fail(EINVAL),
        (DONTFORK | DOFORK, _) if !start.is_multiple_of(PAGE_SIZE) => return errno::fail(EINVAL),
        (DONTFORK | DOFORK, Some(end)) => advice::keep(start..end, asked == DONTFORK),
        _ => {}
    }
    0
}

/// Advice has no effect here, as POSIX allows.
#[unsafe(no_mangle)]
extern "C" fn posix_madvise(_address: *mut c_void, _length: usize, advice: c_int) -> c_int {
    /// `POSIX_MADV_DONTNEED`, the last one.
    const LAST: c_int = 4;
    if (0..=LAST).contains(&advice) {
        0
    } else {
        EINVAL
    }
}

/// Has nothing to do: memory is never paged out.
#[unsafe(no_mangle)]
extern "C" fn mlock(_address: *const c_void, _length: usize) -> c_int {
    0
}

/// Has nothing to do, as `mlock`.
#[unsafe(no_mangle)]
extern "C" fn munlock(_address: *const c_void, _length: usize) -> c_int {
    0
}

/// Has nothing to do, as `mlock`, but for its argument.
#[unsafe(no_mangle)]
extern "C" fn mlockall(flags: c_int) -> c_int {
    /// `MCL_CURRENT`, `MCL_FUTURE`.
    const KNOWN: c_int = 1 | 2;
    match flags {
        1..=KNOWN => 0,
        _ => errno::fail(EINVAL),
    }
}

/// Has nothing to do, as `mlock`.
#[unsafe(no_mangle)]
extern "C" fn munlockall() -> c_int {
    0
}

/// Has nothing to do: shared memory is coherent.
#[unsafe(no_mangle)]
extern "C" fn msync(_address: *mut c_void, _length: usize, _flags: c_int) -> c_int {
    points::pass();
    0
}
