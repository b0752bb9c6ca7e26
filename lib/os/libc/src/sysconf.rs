//! `sysconf`, and the size of a page.

use core::ffi::{c_int, c_long};

use syscall::error::EINVAL;

use crate::machine::{OPEN_MAX, TICKS, cache_line, memory, processors};
use crate::{errno, pthread, thread_attributes};

/// The numbers of `sysconf`, as in relibc, or as in Linux where relibc has none.
const SC_ARG_MAX: c_int = 0;
const SC_CHILD_MAX: c_int = 1;
const SC_CLOCK: c_int = 2;
const SC_NGROUPS_MAX: c_int = 3;
const SC_STREAM_MAX: c_int = 5;
const SC_TZNAME_MAX: c_int = 6;
const SC_JOB_CONTROL: c_int = 7;
const SC_SAVED_IDS: c_int = 8;
const SC_VERSION: c_int = 29;
const SC_LINE_MAX: c_int = 43;
const SC_THREADS: c_int = 67;
const SC_GETGR_SIZE: c_int = 69;
const SC_GETPW_SIZE: c_int = 70;
const SC_LOGIN_NAME_MAX: c_int = 71;
const SC_TTY_NAME_MAX: c_int = 72;
const SC_MONOTONIC_CLOCK: c_int = 149;
const SC_SYMLOOP_MAX: c_int = 173;
const SC_HOST_NAME_MAX: c_int = 180;
const SC_DCACHE_LINE: c_int = 190;
const SC_REALTIME_SIGNALS: c_int = 9;
const SC_PRIORITY_SCHEDULING: c_int = 10;
const SC_TIMERS: c_int = 11;
const SC_ASYNCHRONOUS_IO: c_int = 12;
const SC_FSYNC: c_int = 15;
const SC_MAPPED_FILES: c_int = 16;
const SC_MEMLOCK: c_int = 17;
const SC_MEMLOCK_RANGE: c_int = 18;
const SC_MEMORY_PROTECTION: c_int = 19;
const SC_MESSAGE_PASSING: c_int = 20;
const SC_SEMAPHORES: c_int = 21;
const SC_SHARED_MEMORY_OBJECTS: c_int = 22;
const SC_THREAD_SAFE_FUNCTIONS: c_int = 68;
const SC_THREAD_DESTRUCTOR_ITERATIONS: c_int = 73;
const SC_THREAD_KEYS_MAX: c_int = 74;
const SC_THREAD_STACK_MIN: c_int = 75;
const SC_THREAD_THREADS_MAX: c_int = 76;
const SC_THREAD_ATTR_STACKADDR: c_int = 77;
const SC_THREAD_ATTR_STACKSIZE: c_int = 78;
const SC_THREAD_PRIORITY_SCHEDULING: c_int = 79;
const SC_THREAD_PROCESS_SHARED: c_int = 82;
const SC_PHYS_PAGES: c_int = 85;
const SC_AVPHYS_PAGES: c_int = 86;
const SC_BARRIERS: c_int = 133;
const SC_READER_WRITER_LOCKS: c_int = 153;
const SC_SPIN_LOCKS: c_int = 154;
const SC_TIMEOUTS: c_int = 164;
const SC_OPEN_MAX: c_int = 4;
const SC_PAGESIZE: c_int = 30;
const SC_IOV_MAX: c_int = 60;
const SC_NPROCESSORS_CONF: c_int = 57;
const SC_NPROCESSORS_ONLN: c_int = 58;
const SC_CPUTIME: c_int = 138;
const SC_THREAD_CPUTIME: c_int = 139;
/// The year and month of the edition of POSIX that an option follows.
const POSIX: c_long = 200_809;

#[unsafe(no_mangle)]
extern "C" fn sysconf(name: c_int) -> c_long {
    match name {
        SC_OPEN_MAX | SC_STREAM_MAX => OPEN_MAX,
        SC_CLOCK => TICKS,
        SC_PAGESIZE => syscall::PAGE_SIZE as c_long,
        SC_IOV_MAX => 1024,
        SC_TZNAME_MAX => 6,
        SC_LINE_MAX => 2048,
        SC_GETGR_SIZE | SC_GETPW_SIZE => 1024,
        SC_LOGIN_NAME_MAX => 256,
        SC_TTY_NAME_MAX => 32,
        SC_HOST_NAME_MAX => 64,
        SC_DCACHE_LINE => cache_line(),
        SC_VERSION
        | SC_THREADS
        | SC_MONOTONIC_CLOCK
        | SC_CPUTIME
        | SC_FSYNC
        | SC_MEMORY_PROTECTION
        | SC_THREAD_SAFE_FUNCTIONS
        | SC_THREAD_ATTR_STACKSIZE
        | SC_BARRIERS
        | SC_READER_WRITER_LOCKS
        | SC_SPIN_LOCKS
        | SC_MAPPED_FILES
        | SC_SEMAPHORES
        | SC_SHARED_MEMORY_OBJECTS
        | SC_THREAD_PROCESS_SHARED
        | SC_TIMEOUTS => POSIX,
        SC_THREAD_DESTRUCTOR_ITERATIONS => pthread::DESTRUCTOR_ROUNDS as c_long,
        SC_THREAD_KEYS_MAX => pthread::KEYS as c_long,
        SC_THREAD_STACK_MIN => thread_attributes::SMALLEST_STACK as c_long,
        SC_PHYS_PAGES => errno::give(memory().map(|(total, _)| total)),
        SC_AVPHYS_PAGES => errno::give(memory().map(|(_, free)| free)),
        SC_NGROUPS_MAX => 8,
        // The runtime passes 512 KiB, in which it has a few strings and words of its own.
        SC_ARG_MAX => 480 * 1024,
        // Not supported, or without a limit, which is no error.
        SC_THREAD_CPUTIME
        | SC_JOB_CONTROL
        | SC_SAVED_IDS
        | SC_CHILD_MAX
        | SC_SYMLOOP_MAX
        | SC_REALTIME_SIGNALS
        | SC_PRIORITY_SCHEDULING
        | SC_TIMERS
        | SC_ASYNCHRONOUS_IO
        | SC_MEMLOCK
        | SC_MEMLOCK_RANGE
        | SC_MESSAGE_PASSING
        | SC_THREAD_THREADS_MAX
        | SC_THREAD_ATTR_STACKADDR
        | SC_THREAD_PRIORITY_SCHEDULING => -1,
        // The kernel does not list processors that it could not start.
        SC_NPROCESSORS_CONF | SC_NPROCESSORS_ONLN => errno::give(processors()),
        _ => errno::fail(EINVAL),
    }
}

#[unsafe(no_mangle)]
extern "C" fn getpagesize() -> c_int {
    syscall::PAGE_SIZE as c_int
}
