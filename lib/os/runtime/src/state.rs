//! The state of the process: its descriptors and its directory.

use alloc::string::String;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Mutex;
use crate::sys::NO_FD;

/// Auxiliary vector entries: one of ELF's, and those that Redox adds.
pub mod aux {
    /// Address of the path of the program's file.
    pub const PROGRAM_PTR: usize = 31;
    /// Address of the initial directory's path.
    pub const CWD_PTR: usize = 32;
    /// Length of that path.
    pub const CWD_LEN: usize = 33;
    /// Descriptor of the process (scheme `proc`).
    pub const PROC_FD: usize = 41;
    /// Descriptor of the first thread.
    pub const THREAD_FD: usize = 42;
    /// Descriptor of the namespace.
    pub const NAMESPACE_FD: usize = 43;
    /// Descriptor of the initial directory.
    pub const CWD_FD: usize = 44;
    /// Descriptor of the file table.
    pub const FILETABLE_FD: usize = 45;
}

static PROC: AtomicUsize = AtomicUsize::new(NO_FD);
static THREAD: AtomicUsize = AtomicUsize::new(NO_FD);
static NAMESPACE: AtomicUsize = AtomicUsize::new(NO_FD);
static FILETABLE: AtomicUsize = AtomicUsize::new(NO_FD);
static PID: AtomicUsize = AtomicUsize::new(0);

/// The path of the program's file.
static PROGRAM: Mutex<String> = Mutex::new(String::new());

static CURRENT_DIR: Mutex<String> = Mutex::new(String::new());

/// The address of the argument block.
static BLOCK: AtomicUsize = AtomicUsize::new(0);

/// The argument block as the loader of the program left it: the number of arguments, their
/// pointers, those of the variables, each list with a zero behind it. It stays as long as the
/// process. Null before the start.
pub fn block() -> *mut usize {
    core::ptr::with_exposed_provenance_mut(BLOCK.load(Ordering::Relaxed))
}

pub(crate) fn set_block(block: *const usize) {
    BLOCK.store(block.expose_provenance(), Ordering::Relaxed);
}

/// The process descriptor, or `NO_FD` in programs that run below the process manager.
pub fn proc_fd() -> usize {
    PROC.load(Ordering::Relaxed)
}

/// The descriptor of the first thread.
pub fn thread_fd() -> usize {
    THREAD.load(Ordering::Relaxed)
}

/// The descriptor of the namespace in which paths are resolved.
pub fn namespace_fd() -> usize {
    NAMESPACE.load(Ordering::Relaxed)
}

/// Exchanges the namespace; returns the old descriptor.
pub fn set_namespace_fd(fd: usize) -> usize {
    NAMESPACE.swap(fd, Ordering::Relaxed)
}

/// The descriptor of this process's file table.
pub fn filetable_fd() -> usize {
    FILETABLE.load(Ordering::Relaxed)
}

/// Sets the descriptors found at the start.
pub(crate) fn set_fds(process: usize, thread: usize, namespace: usize, filetable: usize) {
    PROC.store(process, Ordering::Relaxed);
    THREAD.store(thread, Ordering::Relaxed);
    NAMESPACE.store(namespace, Ordering::Relaxed);
    FILETABLE.store(filetable, Ordering::Relaxed);
}

/// The process id; 0 until the process manager was asked for it.
pub(crate) fn pid() -> usize {
    PID.load(Ordering::Relaxed)
}

pub(crate) fn set_pid(pid: usize) {
    PID.store(pid, Ordering::Relaxed);
}

/// Keeps the paths from changing as long as the result lives.
pub(crate) fn hold() -> impl Sized {
    (CURRENT_DIR.lock(), PROGRAM.lock())
}

/// The absolute path of the program's file; `None` if the starting program did not pass it.
pub fn program() -> Option<String> {
    let path = PROGRAM.lock();
    (!path.is_empty()).then(|| path.clone())
}

pub(crate) fn set_program(path: String) {
    *PROGRAM.lock() = path;
}

/// The current directory, an absolute path.
pub fn current_dir() -> String {
    let dir = CURRENT_DIR.lock();
    if dir.is_empty() {
        String::from("/")
    } else {
        dir.clone()
    }
}

/// Sets the current directory; `path` is absolute.
pub fn set_current_dir(path: String) {
    *CURRENT_DIR.lock() = path;
}
