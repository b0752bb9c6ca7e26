//! Descriptors: opening, reading, writing, mapping, calls.

use core::sync::atomic::{AtomicU8, Ordering};

use super::*;
use syscall::error::EBADF;

/// # Safety
/// `path` must be valid for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_open_v1(
    path: *const u8,
    length: usize,
    flags: u32,
    mode: u16,
) -> RawResult {
    // SAFETY: the caller vouches for the path.
    let path = unsafe { text(path, length) };
    let flags = flags as usize & 0xFFFF_0000 | usize::from(mode);
    mux(path.and_then(|path| path::open(path, flags)))
}

/// # Safety
/// `path` must be valid for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_openat_v1(
    dir: usize,
    path: *const u8,
    length: usize,
    flags: u32,
    fcntl_flags: u32,
) -> RawResult {
    // SAFETY: the caller vouches for the path.
    let path = unsafe { bytes(path, length) };
    mux(fd::openat(dir, path, flags as usize, fcntl_flags as usize))
}

/// # Safety
/// `name` must be valid for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_dup_v1(old: usize, name: *const u8, length: usize) -> RawResult {
    // SAFETY: the caller vouches for the name.
    mux(fd::dup(old, unsafe { bytes(name, length) }))
}

/// # Safety
/// `name` must be valid for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_dup2_v1(
    old: usize,
    new: usize,
    name: *const u8,
    length: usize,
) -> RawResult {
    // SAFETY: the caller vouches for the name.
    mux(fd::dup2(old, new, unsafe { bytes(name, length) }))
}

#[unsafe(no_mangle)]
extern "C" fn redox_close_v1(fd: usize) -> RawResult {
    unit(fd::close(fd))
}

/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_read_v1(fd: usize, buffer: *mut u8, length: usize) -> RawResult {
    // The raw pointer is passed on unchanged, as redox-scheme passes uninitialised memory.
    // SAFETY: the caller vouches for the buffer.
    unsafe { sys::raw(syscall::SYS_READ, [fd, buffer as usize, length, 0, 0, 0]) }
}

/// # Safety
/// `data` must be valid for reads of `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_write_v1(fd: usize, data: *const u8, length: usize) -> RawResult {
    // SAFETY: the caller vouches for the data.
    mux(fd::write(fd, unsafe { bytes(data, length) }))
}

#[unsafe(no_mangle)]
extern "C" fn redox_fcntl_v0(fd: usize, command: usize, argument: usize) -> RawResult {
    mux(fd::fcntl(fd, command, argument))
}

/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_fpath_v1(fd: usize, buffer: *mut u8, length: usize) -> RawResult {
    // SAFETY: the caller vouches for the buffer.
    mux(fd::fpath(fd, unsafe { bytes_mut(buffer, length) }))
}

/// # Safety
/// `stat` must be valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_fstat_v1(fd: usize, stat: *mut CStat) -> RawResult {
    unit(fd::fstat(fd).map(|from| {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut to: CStat = unsafe { core::mem::zeroed() };
        to.st_dev = from.st_dev as _;
        to.st_ino = from.st_ino as _;
        to.st_nlink = from.st_nlink as _;
        to.st_mode = from.st_mode as _;
        to.st_uid = from.st_uid as _;
        to.st_gid = from.st_gid as _;
        to.st_size = from.st_size as _;
        to.st_blksize = from.st_blksize as _;
        to.st_blocks = from.st_blocks as _;
        to.st_atime = from.st_atime as _;
        to.st_atime_nsec = from.st_atime_nsec as _;
        to.st_mtime = from.st_mtime as _;
        to.st_mtime_nsec = from.st_mtime_nsec as _;
        to.st_ctime = from.st_ctime as _;
        to.st_ctime_nsec = from.st_ctime_nsec as _;
        // SAFETY: the caller vouches for the pointer.
        unsafe { stat.write(to) }
    }))
}

/// # Safety
/// `stat` must be valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_fstatvfs_v1(fd: usize, stat: *mut CStatVfs) -> RawResult {
    let mut from = StatVfs::default();
    unit(
        fd::std_fs_payload(fd, StdFsCallKind::Fstatvfs, &mut from, [0, 0]).map(|_| {
            // SAFETY: all fields are integers, for which zero is a value.
            let mut to: CStatVfs = unsafe { core::mem::zeroed() };
            to.f_bsize = from.f_bsize as _;
            to.f_frsize = from.f_bsize as _;
            to.f_blocks = from.f_blocks as _;
            to.f_bfree = from.f_bfree as _;
            to.f_bavail = from.f_bavail as _;
            // SAFETY: the caller vouches for the pointer.
            unsafe { stat.write(to) }
        }),
    )
}

#[unsafe(no_mangle)]
extern "C" fn redox_fsync_v1(fd: usize) -> RawResult {
    unit(fd::std_fs_plain(fd, StdFsCallKind::Fsync, [0, 0]).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn redox_fdatasync_v1(fd: usize) -> RawResult {
    redox_fsync_v1(fd)
}

#[unsafe(no_mangle)]
extern "C" fn redox_ftruncate_v0(fd: usize, length: usize) -> RawResult {
    unit(fd::std_fs_plain(fd, StdFsCallKind::Ftruncate, [length as u64, 0]).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn redox_fchmod_v1(fd: usize, mode: u16) -> RawResult {
    unit(fd::std_fs_plain(fd, StdFsCallKind::Fchmod, [mode.into(), 0]).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn redox_fchown_v1(fd: usize, uid: u32, gid: u32) -> RawResult {
    // SAFETY: plain numbers only.
    unsafe {
        sys::raw(
            syscall::SYS_FCHOWN,
            [fd, uid as usize, gid as usize, 0, 0, 0],
        )
    }
}

/// # Safety
/// `times` must be null (the present time) or valid for two structures.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_futimens_v1(fd: usize, times: *const CTimeSpec) -> RawResult {
    /// `UTIME_NOW` of the C headers.
    const NOW: i32 = (1 << 30) - 1;
    let mut payload = [0; 2 * size_of::<TimeSpec>()];
    for (index, bytes) in payload.chunks_exact_mut(size_of::<TimeSpec>()).enumerate() {
        let (sec, nsec) = if times.is_null() {
            (0, NOW)
        } else {
            // SAFETY: not null, so the caller vouches for two structures.
            let time = unsafe { &*times.add(index) };
            (time.tv_sec, time.tv_nsec as i32)
        };
        bytes[..8].copy_from_slice(&sec.to_ne_bytes());
        bytes[8..12].copy_from_slice(&nsec.to_ne_bytes());
    }
    unit(fd::std_fs_payload(fd, StdFsCallKind::Futimens, &mut payload, [0, 0]).map(|_| ()))
}

/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_getdents_v0(
    fd: usize,
    buffer: *mut u8,
    length: usize,
    opaque: u64,
) -> RawResult {
    // SAFETY: the caller vouches for the buffer.
    mux(fd::getdents(
        fd,
        unsafe { bytes_mut(buffer, length) },
        opaque,
    ))
}

/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_relpathat_v0(
    dir: usize,
    fd: usize,
    buffer: *mut u8,
    length: usize,
) -> RawResult {
    let metadata = [StdFsCallKind::Relpathat as u64, 0, 0];
    // SAFETY: the caller vouches for the buffer.
    mux(unsafe {
        call_multiple(
            &[dir, fd],
            buffer,
            length,
            CallFlags::STD_FS | CallFlags::READ,
            &metadata,
        )
    })
}

/// # Safety
/// With `MAP_FIXED` the range must not hold memory in use.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_mmap_v1(
    address: *mut (),
    length: usize,
    protection: u32,
    flags: u32,
    fd: usize,
    offset: u64,
) -> RawResult {
    let flags = MapFlags::from_bits_truncate((protection << 16 | flags & 0xFFFF) as usize);
    // SAFETY: placement is the caller's promise.
    mux(unsafe { fd::mmap(fd, offset as usize, length, address as usize, flags) })
}

/// # Safety
/// Nothing may use the range any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_munmap_v1(address: *mut (), length: usize) -> RawResult {
    // SAFETY: the caller gives the range up.
    unit(unsafe { fd::munmap(address as usize, length) })
}

/// # Safety
/// `payload` must be valid for `length` bytes and `metadata` for `words` words.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_sys_call_v0(
    fd: usize,
    payload: *mut u8,
    length: usize,
    flags: usize,
    metadata: *const u64,
    words: usize,
) -> RawResult {
    let flags = CallFlags::from_bits_retain(flags);
    let metadata = if words == 0 {
        &[]
    } else {
        // SAFETY: the caller vouches for the words.
        unsafe { slice::from_raw_parts(metadata, words) }
    };
    // SAFETY: the caller vouches for the payload.
    mux(unsafe { fd::call_raw(fd, payload, length, flags, metadata) })
}

/// How this kernel takes requests for several descriptors: 0 if that is not known yet, or one of
/// the two forms that follow.
static MULTIPLE: AtomicU8 = AtomicU8::new(0);
/// The pointer to the descriptors takes the place of the descriptor, with their number in its low
/// bits (redox_syscall 0.9.5).
const COUNT_IN_POINTER: u8 = 1;
/// The pointer takes that place, with the length in bytes as sixth argument (0.9.2).
const LENGTH_AT_THE_END: u8 = 2;
/// Bit of `CallFlags` that selects the older form; 0.9.5 names only its successor.
const MULTIPLE_FDS: usize = 1 << 17;

/// Returns the form that this kernel has. A request to a descriptor that does not exist finds it
/// out: a kernel that does not have the newer form's flag returns EINVAL, which a scheme may also
/// do.
fn multiple_form() -> u8 {
    match MULTIPLE.load(Ordering::Relaxed) {
        0 => {
            let nothing = [usize::MAX];
            let list = nothing.as_ptr() as usize | nothing.len();
            let flags = CallFlags::MULTIPLE_FDS2.bits();
            // SAFETY: the list is live and only read, and there is no payload.
            let answer = unsafe { sys::call(syscall::SYS_CALL, [list, 0, 0, flags, 0, 0]) };
            let form = match answer {
                Err(Error { errno: EBADF }) => COUNT_IN_POINTER,
                _ => LENGTH_AT_THE_END,
            };
            MULTIPLE.store(form, Ordering::Relaxed);
            form
        }
        form => form,
    }
}

/// Makes a request for several descriptors of one scheme.
///
/// # Safety
/// `payload` must be valid for reads and writes of `length` bytes.
unsafe fn call_multiple(
    fds: &[usize],
    payload: *mut u8,
    length: usize,
    flags: CallFlags,
    metadata: &[u64],
) -> Result<usize> {
    let list = fds.as_ptr() as usize;
    let (list, form, bytes) = match multiple_form() {
        // The alignment of a word leaves three bits; no kernel takes more than two descriptors.
        COUNT_IN_POINTER if fds.len() >= align_of::<usize>() => return Err(Error::new(EINVAL)),
        COUNT_IN_POINTER => (list | fds.len(), CallFlags::MULTIPLE_FDS2.bits(), 0),
        _ => (list, MULTIPLE_FDS, size_of_val(fds)),
    };
    let words = flags.bits() | form | metadata.len();
    // SAFETY: the slices are live, the caller vouches for the payload.
    unsafe {
        sys::call(
            syscall::SYS_CALL,
            [
                list,
                payload as usize,
                length,
                words,
                metadata.as_ptr() as usize,
                bytes,
            ],
        )
    }
}

/// # Safety
/// `fds` must be valid for `fd_count` words, `payload` for `length` bytes and `metadata` for
/// `words` words.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_sys_call_multiple_v0(
    fds: *const usize,
    fd_count: usize,
    payload: *mut u8,
    length: usize,
    flags: usize,
    metadata: *const u64,
    words: usize,
) -> RawResult {
    let flags = CallFlags::from_bits_retain(flags);
    if fd_count == 0 || words > 0xFF || flags.contains(CallFlags::FD) {
        return mux(Err(Error::new(EINVAL)));
    }
    // SAFETY: the caller vouches for the descriptors.
    let fds = unsafe { slice::from_raw_parts(fds, fd_count) };
    let metadata = if words == 0 {
        &[]
    } else {
        // SAFETY: the caller vouches for the words.
        unsafe { slice::from_raw_parts(metadata, words) }
    };
    // SAFETY: the caller vouches for the payload.
    mux(unsafe { call_multiple(fds, payload, length, flags, metadata) })
}
