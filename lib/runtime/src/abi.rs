//! The `redox_*_vN` symbols: the stable surface that relibc exports on a real system and that the
//! crates `libredox`, `redox-scheme` and `redox_event` call. The names, the arguments and the
//! structures are relibc's; each returns a value or a negated error number.
//!
//! What needs signals delivered to user code answers ENOSYS: nothing here handles signals.

use alloc::vec::Vec;
use core::slice;

use libredox::data::{
    IoVec, SigAction, SigSet, Stat as CStat, StatVfs as CStatVfs, TimeSpec as CTimeSpec,
};
use libredox::protocol::{O_CLOEXEC, ProcCall, SocketCall};
use syscall::data::{Event, StatVfs, TimeSpec};
use syscall::error::{EINVAL, EIO, ENOSYS, Error, Result};
use syscall::flag::{CallFlags, EventFlags, MapFlags, O_CREAT, O_RDWR, StdFsCallKind};

use crate::sys::{self, NO_FD, mux};
use crate::{fd, path, process, state};

type RawResult = usize;

/// Operations of a namespace descriptor, first word of the name given to `dup`.
pub mod ns {
    /// A new namespace with the listed names: then per name its length as a word and its bytes.
    pub const FORK: usize = 0;
    /// The same namespace with fewer permissions.
    pub const SHRINK_PERMISSIONS: usize = 1;
    /// A handle that registers the name that follows.
    pub const ISSUE_REGISTER: usize = 2;
}

/// Makes a slice of a pointer and a length from outside; a length of zero allows any pointer.
///
/// # Safety
/// `base` must be valid for reads of `length` bytes unless `length` is zero.
unsafe fn bytes<'a>(base: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { slice::from_raw_parts(base, length) }
}

/// As [`bytes`], writable.
///
/// # Safety
/// `base` must be valid for reads and writes of `length` bytes unless `length` is zero.
unsafe fn bytes_mut<'a>(base: *mut u8, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller vouches for it.
    unsafe { slice::from_raw_parts_mut(base, length) }
}

/// Text from outside, checked.
///
/// # Safety
/// As for [`bytes`].
unsafe fn text<'a>(base: *const u8, length: usize) -> Result<&'a str> {
    // SAFETY: passed on to the caller.
    core::str::from_utf8(unsafe { bytes(base, length) }).map_err(|_| Error::new(EINVAL))
}

fn unit(result: Result<()>) -> RawResult {
    mux(result.map(|()| 0))
}

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
    // The raw pointer goes to the kernel as it is: redox-scheme passes uninitialised memory.
    loop {
        // SAFETY: the caller vouches for the buffer.
        let result = unsafe { sys::raw(syscall::SYS_READ, [fd, buffer as usize, length, 0, 0, 0]) };
        if result != mux(Err(Error::new(syscall::EINTR))) {
            return result;
        }
    }
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

/// A request that concerns several descriptors of one scheme, in the form that every kernel knows:
/// pointer to the descriptors in the place of the descriptor, their length in bytes as sixth
/// argument.
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
    /// Bit of `CallFlags` that selects this form; `redox_syscall` 0.9.5 names only its successor.
    const MULTIPLE_FDS: usize = 1 << 17;
    // SAFETY: the slices are live, the caller vouches for the payload.
    unsafe {
        sys::call(
            syscall::SYS_CALL,
            [
                fds.as_ptr() as usize,
                payload as usize,
                length,
                flags.bits() | MULTIPLE_FDS | metadata.len(),
                metadata.as_ptr() as usize,
                size_of_val(fds),
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

/// # Safety
/// `time` must be valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_clock_gettime_v1(clock: usize, time: *mut CTimeSpec) -> RawResult {
    let mut from = TimeSpec::default();
    // SAFETY: `from` is ours and of the structure that the call writes.
    let result = unsafe {
        sys::call(
            syscall::SYS_CLOCK_GETTIME,
            [clock, (&raw mut from) as usize, 0, 0, 0, 0],
        )
    };
    unit(result.map(|_| {
        let to = CTimeSpec {
            tv_sec: from.tv_sec as _,
            tv_nsec: from.tv_nsec as _,
        };
        // SAFETY: the caller vouches for the pointer.
        unsafe { time.write(to) }
    }))
}

/// # Safety
/// `length` must be valid for reads and writes, `buffer` for writes of `*length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_strerror_v1(
    buffer: *mut u8,
    length: *mut usize,
    error: u32,
) -> RawResult {
    let Some(message) = syscall::error::STR_ERROR.get(error as usize) else {
        return mux(Err(Error::new(EINVAL)));
    };
    // SAFETY: the caller vouches for both pointers.
    let buffer = unsafe { bytes_mut(buffer, length.read()) };
    // SAFETY: as above.
    unsafe { length.write(message.len()) };
    // Never cut a character in two.
    let mut count = message.len().min(buffer.len());
    while !message.is_char_boundary(count) {
        count -= 1;
    }
    buffer[..count].copy_from_slice(&message.as_bytes()[..count]);
    count
}

#[unsafe(no_mangle)]
extern "C" fn redox_get_pid_v1() -> RawResult {
    process::id() as usize
}

#[unsafe(no_mangle)]
extern "C" fn redox_get_euid_v1() -> RawResult {
    process::own_meta().euid as usize
}

#[unsafe(no_mangle)]
extern "C" fn redox_get_ruid_v1() -> RawResult {
    process::own_meta().ruid as usize
}

#[unsafe(no_mangle)]
extern "C" fn redox_get_egid_v1() -> RawResult {
    process::own_meta().egid as usize
}

#[unsafe(no_mangle)]
extern "C" fn redox_get_rgid_v1() -> RawResult {
    process::own_meta().rgid as usize
}

#[unsafe(no_mangle)]
extern "C" fn redox_get_ns_v0() -> RawResult {
    match state::namespace_fd() {
        NO_FD => mux(Err(Error::new(syscall::ENODEV))),
        fd => fd,
    }
}

#[unsafe(no_mangle)]
extern "C" fn redox_get_ens_v0() -> RawResult {
    process::own_meta().ens as usize
}

/// Exchanges the namespace; the answer is the old descriptor, or all ones when there was none.
#[unsafe(no_mangle)]
extern "C" fn redox_setns_v0(fd: usize) -> RawResult {
    state::set_namespace_fd(fd)
}

/// A new namespace with these names out of the present one.
fn fork_namespace(names: &[&[u8]]) -> Result<usize> {
    let mut request = Vec::from(ns::FORK.to_ne_bytes());
    for name in names {
        core::str::from_utf8(name).map_err(|_| Error::new(EINVAL))?;
        request.extend_from_slice(&name.len().to_ne_bytes());
        request.extend_from_slice(name);
    }
    fd::dup_upper(fd::check(state::namespace_fd())?, &request)
}

/// # Safety
/// `names` must be valid for `count` structures that describe valid memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_mkns_v1(names: *const IoVec, count: usize, flags: u32) -> RawResult {
    if flags != 0 {
        return mux(Err(Error::new(EINVAL)));
    }
    let names = if count == 0 {
        &[]
    } else {
        // SAFETY: the caller vouches for the structures.
        unsafe { slice::from_raw_parts(names, count) }
    };
    let names: Vec<&[u8]> = names
        .iter()
        // SAFETY: the caller vouches for what they describe.
        .map(|name| unsafe { bytes(name.iov_base.cast::<u8>(), name.iov_len) })
        .collect();
    mux(fork_namespace(&names))
}

/// Gives up the namespace: with `ens` 0 only the schemes `memory` and `pipe` are left, else the
/// namespace behind that descriptor is taken.
#[unsafe(no_mangle)]
extern "C" fn redox_setrens_v1(_rns: usize, ens: usize) -> RawResult {
    let new = if ens == 0 {
        fork_namespace(&[b"memory", b"pipe"])
    } else {
        Ok(ens)
    };
    match new {
        Ok(new) => {
            let old = state::set_namespace_fd(new);
            if old != NO_FD && old != new {
                let _ = fd::close(old);
            }
            0
        }
        Err(error) => mux(Err(error)),
    }
}

/// # Safety
/// `name` must be valid for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_register_scheme_to_ns_v0(
    namespace: usize,
    name: *const u8,
    length: usize,
    root: usize,
) -> RawResult {
    // SAFETY: the caller vouches for the name.
    let name = unsafe { text(name, length) };
    unit(name.and_then(|name| register_scheme(namespace, name, root)))
}

/// Registers the scheme whose root is `root` under `name`; the root descriptor is moved away.
pub fn register_scheme(namespace: usize, name: &str, root: usize) -> Result<()> {
    let mut request = Vec::from(ns::ISSUE_REGISTER.to_ne_bytes());
    request.extend_from_slice(name.as_bytes());
    let registration = libredox::Fd::new(fd::dup_upper(namespace, &request)?);
    fd::send_fd(registration.raw(), root, false, &[]).map(|_| ())
}

/// # Safety
/// The slice must be valid; the Rust slice in a C signature is relibc's.
#[allow(improper_ctypes_definitions)]
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_get_proc_credentials_v1(
    capability: usize,
    pid: usize,
    buffer: &mut [u8],
) -> RawResult {
    if buffer.len() < size_of::<libredox::protocol::ProcMeta>() {
        return mux(Err(Error::new(EINVAL)));
    }
    mux(fd::call_rw(
        capability,
        buffer,
        &[ProcCall::GetProcCredentials as u64, pid as u64],
    ))
}

/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_get_socket_token_v0(
    fd: usize,
    buffer: *mut u8,
    length: usize,
) -> RawResult {
    // SAFETY: the caller vouches for the buffer.
    mux(fd::call_rw(
        fd,
        unsafe { bytes_mut(buffer, length) },
        &[SocketCall::GetToken as u64],
    ))
}

#[unsafe(no_mangle)]
extern "C" fn redox_kill_v1(pid: usize, signal: u32) -> RawResult {
    mux(fd::call(
        state::proc_fd(),
        &[ProcCall::Kill as u64, pid as u64, signal.into()],
    ))
}

/// # Safety
/// `status` must be null or valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_waitpid_v1(pid: usize, status: *mut i32, options: u32) -> RawResult {
    // Process groups are not kept: a group member is any child.
    let (call, target) = match pid as isize {
        0 => (ProcCall::Waitpgid, 0),
        -1 => (ProcCall::Waitpid, 0),
        group @ ..-1 => (ProcCall::Waitpgid, group.unsigned_abs()),
        pid => (ProcCall::Waitpid, pid as usize),
    };
    let mut word = [0_usize];
    // SAFETY: the payload is one live word of our own.
    let result = unsafe {
        fd::call_raw(
            state::proc_fd(),
            word.as_mut_ptr().cast(),
            size_of::<usize>(),
            CallFlags::READ,
            &[call as u64, target as u64, options.into()],
        )
    };
    if result.is_ok() && !status.is_null() {
        // SAFETY: not null, so the caller vouches for it.
        unsafe { status.write(word[0] as i32) };
    }
    mux(result)
}

/// Signals are not delivered to programs, so there is nothing to set.
#[unsafe(no_mangle)]
extern "C" fn redox_sigaction_v1(
    _signal: u32,
    _new: *const SigAction,
    _old: *mut SigAction,
) -> RawResult {
    mux(Err(Error::new(ENOSYS)))
}

/// As [`redox_sigaction_v1`].
#[unsafe(no_mangle)]
extern "C" fn redox_sigprocmask_v1(_how: u32, _new: *const u64, _old: *mut u64) -> RawResult {
    mux(Err(Error::new(ENOSYS)))
}

/// # Safety
/// `address` must be valid; `deadline` must be null or valid (absolute, monotonic).
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_futex_wait_v0(
    address: *mut u32,
    value: u32,
    deadline: *const CTimeSpec,
) -> RawResult {
    // SAFETY: the caller vouches for the pointer unless it is null.
    let deadline = unsafe { deadline.as_ref() }.map(|time| TimeSpec {
        tv_sec: time.tv_sec as _,
        tv_nsec: time.tv_nsec as _,
    });
    let pointer = deadline
        .as_ref()
        .map_or(0, |time| &raw const *time as usize);
    // SAFETY: the word is the caller's, the time lives across the call.
    unsafe {
        sys::raw(
            syscall::SYS_FUTEX,
            [
                address as usize,
                syscall::FUTEX_WAIT,
                value as usize,
                pointer,
                0,
                0,
            ],
        )
    }
}

/// # Safety
/// `address` must be valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_futex_wake_v0(address: *mut u32, count: u32) -> RawResult {
    // SAFETY: the word is the caller's.
    unsafe {
        sys::raw(
            syscall::SYS_FUTEX,
            [
                address as usize,
                syscall::FUTEX_WAKE,
                count as usize,
                0,
                0,
                0,
            ],
        )
    }
}

#[unsafe(no_mangle)]
extern "C" fn redox_cur_procfd_v0() -> usize {
    state::proc_fd()
}

#[unsafe(no_mangle)]
extern "C" fn redox_cur_thrfd_v0() -> usize {
    state::thread_fd()
}

#[unsafe(no_mangle)]
extern "C" fn redox_event_queue_create_v1(flags: u32) -> RawResult {
    if flags != 0 {
        return mux(Err(Error::new(EINVAL)));
    }
    mux(path::open("/scheme/event", O_CLOEXEC | O_CREAT | O_RDWR))
}

#[unsafe(no_mangle)]
extern "C" fn redox_event_queue_ctl_v1(
    queue: usize,
    fd: usize,
    flags: u32,
    user_data: usize,
) -> RawResult {
    let Some(flags) = EventFlags::from_bits(flags as usize) else {
        return mux(Err(Error::new(EINVAL)));
    };
    let event = Event {
        id: fd,
        flags,
        data: user_data,
    };
    unit(fd::write(queue, &event).and_then(|count| match count {
        count if count == size_of::<Event>() => Ok(()),
        _ => Err(Error::new(EIO)),
    }))
}

/// The structure that events are delivered in, `RawEventV1` of `redox_event`.
#[repr(C)]
struct RawEvent {
    fd: usize,
    user_data: usize,
    flags: u32,
}

/// Delivers one event, waiting for it. As with relibc, time limit and signal mask are not looked
/// at, and an interruption is reported (EINTR).
///
/// # Safety
/// `buffer` must be valid for `count` structures.
#[unsafe(no_mangle)]
unsafe extern "C" fn redox_event_queue_get_events_v1(
    queue: usize,
    buffer: *mut RawEvent,
    count: usize,
    flags: u32,
    _timeout: *const CTimeSpec,
    _sigset: *const SigSet,
) -> RawResult {
    if flags != 0 || count == 0 {
        return mux(Err(Error::new(EINVAL)));
    }
    let mut event = Event::default();
    match fd::read_once(queue, &mut event) {
        Ok(length) if length == size_of::<Event>() => {
            let event = RawEvent {
                fd: event.id,
                user_data: event.data,
                flags: event.flags.bits() as u32,
            };
            // SAFETY: the caller vouches for at least one structure.
            unsafe { buffer.write(event) };
            1
        }
        Ok(_) => mux(Err(Error::new(EIO))),
        Err(error) => mux(Err(error)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn redox_event_queue_destroy_v1(queue: usize) -> RawResult {
    unit(fd::close(queue))
}
