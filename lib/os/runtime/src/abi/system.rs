//! Everything else: clocks, identities, namespaces, processes, futexes, event queues.

use super::*;

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

/// Exchanges the namespace. Returns the old descriptor, or all ones if there was none.
#[unsafe(no_mangle)]
extern "C" fn redox_setns_v0(fd: usize) -> RawResult {
    let old = state::set_namespace_fd(fd);
    roots::forget();
    old
}

/// Makes a namespace with these names of the present one.
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

/// Replaces the namespace: with the one behind the descriptor `ens`, or, if `ens` is 0, with one
/// that has only the schemes `memory` and `pipe`.
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
            roots::forget();
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

/// Registers the scheme whose root is `root` under `name`. The root descriptor is moved.
pub fn register_scheme(namespace: usize, name: &str, root: usize) -> Result<()> {
    let mut request = Vec::from(ns::ISSUE_REGISTER.to_ne_bytes());
    request.extend_from_slice(name.as_bytes());
    let registration = libredox::Fd::new(fd::dup_upper(namespace, &request)?);
    fd::send_fd(registration.raw(), root, false, &[]).map(|_| ())
}

/// # Safety
/// The slice must be valid.
#[expect(improper_ctypes_definitions, reason = "the signature is relibc's")]
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
    // Process groups are not recorded here: any child counts as a member of the group.
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

/// The structure in which events are delivered, `RawEventV1` of `redox_event`.
#[repr(C)]
struct RawEvent {
    fd: usize,
    user_data: usize,
    flags: u32,
}

/// Waits for one event and delivers it. As with relibc, time limit and signal mask have no effect,
/// and an interruption is returned (EINTR).
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
